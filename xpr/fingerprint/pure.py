"""Functions, classes and attributes that are known to be pure: they do the same in every process, with no side effect.

Objects of the library are hashed by the name under which a module has them, since the library's files are part of every
cache key. Those of Python and NumPy are listed here.
"""

from __future__ import annotations

import builtins
import math
import operator
import os
import sys
from itertools import chain
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from xpr.core.interpreter import Tracer
from xpr.core.primitive import SLOTS, Primitive, registered, with_impl
from xpr.core.source import is_internal, package_folder

_PURE_MODULES = (
    "xpr.ad_checkpoint", "xpr.api.forward_backward", "xpr.api.grad", "xpr.api.jacobians", "xpr.api.jit",
    "xpr.api.reroll", "xpr.api.make_jaxpr", "xpr.api.vmap", "xpr.backend.array", "xpr.control", "xpr.core.avals",
    "xpr.custom_batching", "xpr.custom_derivatives", "xpr.dtypes", "xpr.example_libraries", "xpr.experimental.ode",
    "xpr.flatten_util", "xpr.inversion", "xpr.lax", "xpr.nn", "xpr.numpy", "xpr.ops", "xpr.primitives", "xpr.random",
    "xpr.scipy", "xpr.series", "xpr.sparsity", "xpr.transforms", "xpr.tree", "xpr.tree_nodes", "xpr.tree_util",
)  # fmt: skip
_IMPURE_MODULES = ("xpr.control.callback", "xpr.control.devices", "xpr.control.refs", "xpr.numpy.io", "xpr.numpy.refs")
_PURE_NAMES = {"xpr.api.transfer": ("block_until_ready", "device_put")}  # by module; its other functions are impure
_IMPURE_NAMES = frozenset({"clear_caches"})

_BUILTINS = frozenset(
    """
    ArithmeticError AssertionError AttributeError BaseException Exception IndexError KeyError LookupError
    NotImplementedError OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError
    abs all any bool bytes callable chr classmethod complex dict divmod enumerate filter float int isinstance issubclass
    iter len list map max min next object ord pow property range reversed round slice sorted staticmethod str sum super
    tuple type zip
    """.split()
)
_OPERATORS = frozenset(operator.__all__) - {"attrgetter", "methodcaller"}
_ITERTOOLS = "accumulate batched chain combinations count cycle islice pairwise permutations product repeat starmap"
_OF_PYTHON = {
    "builtins": _BUILTINS,
    "math": frozenset(vars(math)),
    "_operator": _OPERATORS,
    "operator": _OPERATORS,
    "itertools": frozenset((_ITERTOOLS + " takewhile dropwhile zip_longest").split()),
    "functools": frozenset({"partial", "reduce"}),
    "_functools": frozenset({"partial", "reduce"}),
    "dataclasses": frozenset({"replace"}),
    "collections": frozenset({"OrderedDict", "defaultdict", "deque"}),
    "typing": frozenset({"cast"}),
}
_NUMPY = frozenset(
    """
    abs add all allclose any arange arccos arcsin arctan arctan2 argmax argmin argsort array array_equal asarray
    atleast_1d broadcast_shapes broadcast_to ceil clip concatenate cos cosh cumprod cumsum deg2rad diag diff divide
    dot einsum exp expand_dims eye finfo flip floor full hypot iinfo issubdtype less linspace log log10 log1p log2
    logspace matmul max maximum mean meshgrid min minimum mod multiply ndarray ndim negative ones outer power prod
    rad2deg ravel remainder repeat reshape result_type round shape sign sin sinh size sort split sqrt square squeeze
    stack std subtract sum swapaxes tan tanh tile trace transpose tri tril triu var where zeros
    """.split()
)

_FUNCTION_TYPES = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.dot), type(np.sum))

# Attributes of arrays, tracers, numbers, texts and containers that read nothing but these and write nothing.
_TYPES = (Tracer, str, bytes, int, float, complex, bool, list, tuple, dict, slice, range, np.dtype, np.float32)
WITH_EFFECTS = frozenset(
    """
    addressable_data addressable_shards buffer clear_cache compile copy_to_host_async delete dump dumps save setfield
    setflags to_device tofile unsafe_buffer_pointer
    """.split()
)
ATTRIBUTES = frozenset(
    name for each in _TYPES for name in dir(each) if not name.startswith("_") and name not in WITH_EFFECTS
) | frozenset(
    """
    add apply divide get mul multiply power set subtract
    bits eps maxexp minexp resolution smallest_normal tiny
    L P Q R S U Vh eigenvalues eigenvectors logabsdet sign counts indices inverse_indices values
    defjvp defjvps defvjp def_vmap func args keywords
    """.split()
)
DUNDERS = frozenset(
    "__add__ __call__ __class__ __getitem__ __init__ __len__ __matmul__ __mul__ __name__ __post_init__".split()
)


# Modules of classes that a program sees under another module's name, as it sees those of arrays under the alias.
seen_elsewhere: dict[type, str] = {}


def is_library(value: Any) -> bool:
    """Whether a function or class is one of xpr's."""
    if type(value) is FunctionType:
        return is_internal(value.__code__.co_filename) and _module_of(value).partition(".")[0] == "xpr"
    return isinstance(value, type) and (module := _home(value)).partition(".")[0] == "xpr" and not _is_demo(module)


def _home(value: type) -> str:
    """The module that a class stands in."""
    return seen_elsewhere.get(value, value.__module__)


def _is_demo(module: str) -> bool:
    return module.startswith("xpr.demo")


def _module_of(function: FunctionType) -> str:
    return str(function.__globals__.get("__name__", ""))


def is_pure_module(name: str) -> bool:
    """Whether all functions of a module of xpr are pure."""
    return name.startswith(_PURE_MODULES) and not name.startswith(_IMPURE_MODULES)


def library_name(value: Any) -> str | None:
    """The name of a pure function, class or object of xpr that a module of it has; None for others."""
    if type(value) is FunctionType:
        module = _module_of(value)
        known = is_internal(value.__code__.co_filename)
    else:
        module = _home(value if isinstance(value, type) else type(value))
        known = module.startswith("xpr.")
    if not known or not (is_pure_module(module) or module in _PURE_NAMES):
        return None
    name = _name_of(value)
    if not is_pure_module(module):
        return name if name is not None and name.rpartition(".")[2] in _PURE_NAMES[module] else None
    return None if name is None or name.rpartition(".")[2] in _IMPURE_NAMES or ".register" in name else name


def foreign_name(value: Any) -> str | None:
    """The name of a pure function or class of Python or NumPy; None for others."""
    if type(value) not in _FUNCTION_TYPES and not isinstance(value, type):
        return None
    name = value.__name__
    module = "numpy" if type(value) is np.ufunc else value.__module__
    if not isinstance(module, str):
        return None
    if module in _OF_PYTHON:
        if name in _OF_PYTHON[module] and vars(sys.modules[module]).get(name) is value:
            return f"{module}.{name}"
    elif module.partition(".")[0] == "numpy" and getattr(np, str(name), None) is value:
        if name in _NUMPY or (isinstance(value, type) and issubclass(value, np.generic)):
            return f"numpy.{name}"
    return None


def is_builtin(name: str, value: Any) -> bool:
    """Whether a value is the builtin of that name."""
    return vars(builtins).get(name) is value


class Library:
    """The functions of xpr's loaded modules and of their classes, checked for any that a user has replaced.

    Attributes:
      replaced: the name of a function that is not xpr's own; None if there is none.
    """

    def __init__(self) -> None:
        self.replaced: str | None = None
        self._spaces: list[Any] = []  # the namespaces of modules and classes
        self._values: list[Any] = []  # the values in all of them
        self._rules: list[tuple[Any, ...]] = []  # the rules of each primitive
        self._modules = 0

    def check(self) -> str | None:
        """Reads the namespaces again if any of their values has changed; returns `replaced`."""
        if len(sys.modules) != self._modules or list(map(_RULES, registered.values())) != self._rules:
            self._modules = 0
        if not self._modules or not self._is_same():
            self._modules = len(sys.modules)
            self._read()
        return self.replaced

    def _read(self) -> None:
        names = [name for name in list(sys.modules) if name.startswith("xpr") and name[3:4] in ("", ".")]
        modules = [vars(sys.modules[name]) for name in names if not _is_demo(name)]
        classes = {
            each
            for each in chain.from_iterable(map(dict.values, modules))
            if type(each) is type and _home(each).startswith("xpr")
        }
        self._spaces = [*modules, *map(vars, classes)]
        self._values = list(chain.from_iterable(map(_values, self._spaces)))
        functions = {each for each in self._values if type(each) is FunctionType}
        foreign = [each for each in functions if each.__code__.co_filename not in _own_files and not _is_own(each)]
        self._rules = list(map(_RULES, registered.values()))
        self.replaced = self._name_of(foreign[0]) if foreign else self._replaced_rule()

    def _replaced_rule(self) -> str | None:
        """The name of a rule of one of xpr's primitives that is not xpr's own, or was set through `xpr.interpreters`.

        Primitives of users are of a subclass, and are not looked at: a function that reaches one has no fingerprint.
        """
        for primitive, rules in zip(registered.values(), self._rules):
            if type(primitive) is Primitive:
                for each in rules:
                    is_function = type(each) is FunctionType
                    if is_function and (each.__code__.co_filename.startswith(_TABLES) or not _is_own(each)):
                        return f"a rule of {primitive.name}"
        replaced = next((each for each in with_impl if type(each) is Primitive), None)
        return None if replaced is None else f"the evaluation of {replaced.name}"

    def _name_of(self, function: FunctionType) -> str:
        space = next(each for each in self._spaces if any(value is function for value in list(each.values())))
        name = next(key for key, value in list(space.items()) if value is function)
        return f"{space.get('__name__') or space['__module__']}.{name}"

    def _is_same(self) -> bool:
        if sum(map(len, self._spaces)) != len(self._values):
            return False
        return all(map(operator.is_, chain.from_iterable(map(_values, self._spaces)), self._values))


_values = operator.methodcaller("values")
_RULES = operator.attrgetter(
    *SLOTS, "linearize", "batch_named", "evaluate", "prepare", "lower_as", "dce", "split", "threaded", "physical"
)
_TABLES = os.path.join(package_folder(), "interpreters", "")


_PYTHON = str(operator.__file__).rpartition("/")[0] + "/"
_DEPENDENCIES = frozenset({"jaxlib", "lark", "matplotlib", "ml_dtypes", "numpy", "opt_einsum", "optree", "safetensors"})
_own_files: set[str] = set()


def _is_own(function: FunctionType) -> bool:
    """Whether a function is one of xpr, of Python's own library, or of what xpr depends on."""
    file, module = function.__code__.co_filename, _module_of(function)
    if file.startswith("<"):  # methods that Python writes for a class, in the globals of its module
        return file.startswith("<frozen") or module.startswith(("xpr.", "namedtuple_"))
    of_python = file.startswith(_PYTHON) and "/site-packages/" not in file.removeprefix(_PYTHON)
    if of_python or is_internal(file) or module.partition(".")[0] in _DEPENDENCIES:
        _own_files.add(file)
        return True
    return False


library = Library()
_index: dict[int, tuple[Any, str]] = {}  # by the identities of what pure modules have: it, and its name
_indexed: list[int] = [0]  # how many modules there were then


def _name_of(value: Any) -> str | None:
    """The name under which a module has a function, a class or an object of xpr; None where none has."""
    if isinstance(value, (FunctionType, type)):
        of = _module_of(value) if isinstance(value, FunctionType) else _home(value)
        name = str(value.__qualname__)
        if of in sys.modules and vars(sys.modules[of]).get(name) is value:
            return f"{of}.{name}"
    if _indexed[0] != len(sys.modules):
        _indexed[0] = len(sys.modules)
        for of in filter(is_pure_module, list(sys.modules)):
            for key, each in list(vars(sys.modules[of]).items()):  # other threads may load a name lazily
                _index.setdefault(id(each), (each, f"{of}.{key}"))
    return _index.get(id(value), (None, None))[1]
