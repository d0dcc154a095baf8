"""The second start: calls of jitted functions that are found on disk without tracing, and those that must not be.

A module is written anew for each "process": its functions are other objects, with other globals, and the programs in
memory are forgotten. Whether a call was traced is what its function's caches say.
"""

import itertools
import os
import subprocess
import sys
import textwrap
import types
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import same
from xpr import nn
from xpr.backend import cache, compiler
from xpr.compile import segments
from xpr.config import Settings, config, override, settings
from xpr.fingerprint import pure, walk

pytestmark = pytest.mark.quick

HEADER = "import xpr, xpr.numpy as jnp, numpy as np, math, functools\nfrom xpr import lax, nn, random\n"
X = np.arange(3, dtype=np.float32)


@pytest.fixture
def setting():
    """Sets settings of the process for a test."""
    before = {}

    def change(name, value):
        before.setdefault(name, getattr(settings, name))
        config.update(name, value)

    yield change
    for name, value in before.items():
        config.update(name, value)


@pytest.fixture(autouse=True)
def folder(tmp_path, setting):
    xpr.clear_caches()
    path = tmp_path / "programs"
    setting("compilation_cache_dir", str(path))
    yield path
    sys.modules.pop("users_program", None)


def program(source, **values):
    """The module of a source, as a process that runs it has it."""
    module = sys.modules["users_program"] = types.ModuleType("users_program")
    exec(compile(HEADER + textwrap.dedent(source), "users_program.py", "exec"), vars(module))
    vars(module).update(values)
    return module


def traced(fun, *args, **kwargs):
    """Whether the first call of a jitted function in this "process" was traced."""
    compiler.forget_recent()
    fun(*args, **kwargs)
    return bool(fun.caches.traces)


def first_and_second(source, *args, change=lambda module: None, **values):
    """Whether a program's `f` is traced in the first process, and in a second one, in which something is changed."""
    first = traced(program(source, **values).f, *args)
    module = program(source, **values)
    change(module)
    return first, traced(module.f, *args)


FOUND = {
    "operations": "f = xpr.jit(lambda x: jnp.sin(x) * 2 + x)",
    "named": """
        from xpr.numpy import add, sin
        @xpr.jit
        def f(x):
            return add(sin(x), x.sum())
    """,
    "functions of functions": """
        def loss(x, scale=2.0):
            return (scale * x ** 2).sum()
        f = xpr.jit(xpr.value_and_grad(loss))
    """,
    "loops": """
        @xpr.jit
        def f(x):
            total = {}
            for name, value in {"a": x, "b": 2 * x}.items():
                total[f"{name} doubled"] = [v * 2 for v in (value, value + 1)]
            carry, _ = lax.scan(lambda c, y: (c + y, None), jnp.float32(0), x)
            return total, carry, lax.cond(carry > 1, jnp.sin, jnp.cos, x)
    """,
    "closures": """
        def make(n, weights):
            def layer(x):
                for _ in range(n):
                    x = x @ weights
                return x
            return xpr.jit(layer)
        f = make(2, np.eye(3, dtype=np.float32))
    """,
    "arrays": """
        weights = jnp.arange(9.0).reshape(3, 3)
        f = xpr.jit(lambda x: weights @ x)
    """,
    "random keys that a trace makes": """
        def loss(x):
            keys = random.split(random.key(3), 2)
            return (x * random.normal(keys[0], (3,)) + random.uniform(random.PRNGKey(1), (3,))).sum()
        f = xpr.jit(xpr.grad(loss))
    """,
    "jitted functions and custom rules": """
        @xpr.custom_jvp
        def g(x):
            return jnp.sin(x)
        @g.defjvp
        def g_jvp(primals, tangents):
            return g(primals[0]), jnp.cos(primals[0]) * tangents[0]
        @xpr.custom_vjp
        def h(x):
            return x * 2
        h.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 2,))
        inner = xpr.jit(lambda x, n=2: n * g(h(x)), static_argnames="n")
        f = xpr.jit(lambda x: xpr.vmap(xpr.grad(inner))(x))
    """,
    "modules as values": """
        def body(library, x):
            return library.nn.gelu(x) + library.numpy.sum(x) * math.pi
        f = xpr.jit(lambda x: body(xpr, x))
    """,
    "partials": """
        def power(n, x):
            return x ** n
        f = xpr.jit(functools.partial(power, 3))
    """,
    "attributes of the library's classes": """
        f = xpr.jit(lambda x: xpr.device_put(lax.dot(x, x, precision=lax.Precision.HIGHEST)))
    """,
    "random numbers": """
        f = xpr.jit(lambda x: x + random.normal(random.key(0), x.shape))
    """,
    "classes": """
        class Layer:
            scale = 2.0
            def __init__(self, weights):
                self.weights = weights
            def __call__(self, x):
                return self.scale * (self.weights @ x)
        layer = Layer(np.eye(3, dtype=np.float32))
        f = xpr.jit(lambda x: layer(x) + Layer(jnp.ones((3, 3)))(x))
    """,
    "dataclasses": """
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class Config:
            rate: float = 0.1
            @property
            def half(self):
                return self.rate / 2
        config = Config()
        f = xpr.jit(lambda x: x * config.half)
    """,
    "namedtuples": """
        import collections, typing
        class Point(typing.NamedTuple):
            left: float
            right: float = 1.0
            def sum(self):
                return self.left + self.right
        Other = collections.namedtuple("Other", "x y")
        f = xpr.jit(lambda x: Other(Point(x).sum(), x)._replace(y=2.0))
    """,
    "methods, base classes and enumerations": """
        import abc, enum, typing
        class Mode(enum.Enum):
            TRAIN = 1
            TEST = "two"
            @property
            def factor(self):
                return 2.0 if self is Mode.TRAIN else 3.0
        class Base(abc.ABC):
            @abc.abstractmethod
            def apply(self, x): ...
        T = typing.TypeVar("T")
        class Scaled(Base, typing.Generic[T]):
            def __init__(self, mode: Mode):
                super().__init__()
                self.mode = mode
            def apply(self, x):
                return x * self.mode.factor
        f = xpr.jit(Scaled(Mode.TEST).apply)
    """,
    "attributes by constant names": """
        import dataclasses
        @dataclasses.dataclass
        class Config:
            rate: float = 0.1
            layers: list = dataclasses.field(default_factory=list)
        @xpr.jit
        def f(x):
            config = dataclasses.replace(Config(), rate=getattr(x, "ndim") + getattr(jnp, "pi"))
            return x * config.rate if hasattr(x, "shape") else x
    """,
    "decorated functions": """
        def decorated(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs) + 1
            return wrapper
        @xpr.jit
        @decorated
        def f(x):
            return xpr.hessian(lambda y: (y ** 3).sum())(x) + xpr.checkpoint(jnp.sin)(x)
    """,
    "optimizers": """
        from xpr.example_libraries import optimizers, stax
        initial, update, parameters = optimizers.adam(1e-3)
        _, apply = stax.serial(stax.Dense(3), stax.Relu)
        f = xpr.jit(lambda x: parameters(update(0, apply([(jnp.eye(3), x), ()], x), initial(x))))
    """,
    "keyword arguments": """
        def g(x, *, shift=1.0):
            return x + shift
        f = xpr.jit(lambda x: g(x, shift=2.0))
    """,
    "einsum and NumPy": """
        table = tuple(np.linspace(0, 1, 3).tolist())
        f = xpr.jit(lambda x: jnp.einsum("i,j->ij", x, x) * np.sqrt(2.0) + np.pi * table[1])
    """,
    "exceptions": """
        @xpr.jit
        def f(x):
            if x.ndim != 1:
                raise ValueError(f"x has {x.ndim} axes")
            try:
                return {"y": x}["z"]
            except KeyError:
                return x
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_a_second_process_does_not_trace(name):
    first = program(FOUND[name])
    assert "not traced" in xpr.debug.explain_cache(first.f)
    assert traced(first.f, X)
    assert "not traced" in xpr.debug.explain_cache(first.f)
    second = program(FOUND[name])
    assert not traced(second.f, X)
    same(second.f(X), first.f(X))
    same(second.f(X + 1), first.f(X + 1))


Pair = namedtuple("Pair", "left right")


def test_arguments_and_results_of_all_kinds():
    source = """
        @xpr.jit
        def f(a, *, b):
            (x, y), z = a["p"], b
            return {"q": (x, [None, y]), 3: make(y, z)}
    """
    arguments = {"p": (jnp.float32(1), np.arange(4))}, OrderedDict(u=3, v=np.float16(2))
    functions = [program(source, make=Pair).f for _ in range(2)]
    assert [traced(f, arguments[0], b=arguments[1]) for f in functions] == [True, False]
    first, second = (f(arguments[0], b=arguments[1]) for f in functions)
    same(first, second)
    assert xpr.tree.structure(first) == xpr.tree.structure(second) and type(second[3]) is Pair
    assert [x.aval for x in xpr.tree.leaves(first)] == [x.aval for x in xpr.tree.leaves(second)]


NODES = """
    import dataclasses
    @xpr.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        weights: object
        step: int
        name: str = dataclasses.field(default="sgd", metadata=dict(static=True))
        def updated(self, x):
            return dataclasses_replace(self, self.weights + x)
    @xpr.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right
        def tree_flatten(self):
            return (self.left, self.right), None
        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)
    def dataclasses_replace(state, weights):
        return State(weights, state.step + 1, state.name)
    f = xpr.jit(lambda state, x: Pair(state.updated(x), {"x": x}))
"""


def test_classes_of_nodes():
    """Classes that are found by name, as those of a script are; the functions that were registered are in the key."""
    results = []
    for source, is_traced in (
        (NODES, True),
        (NODES, False),
        (NODES.replace("cls(*children)", "cls(*children[::-1])"), True),
    ):
        module = program(source)
        state = module.State(X, 0)
        assert "not traced" in xpr.debug.explain_cache(module.f, state, X)
        assert traced(module.f, state, X) is is_traced
        assert traced(module.f, module.State(X, 0, "adam"), X) or not is_traced
        results.append(module.f(state, X))
        assert type(results[-1]) is module.Pair
    same(results[0].left.weights, results[1].left.weights)
    assert results[1].left.name == "sgd" and results[1].left.step == 1
    assert type(results[2].left) is dict


IDENTITY = """
    class Rule:
        def __init__(self, rate):
            self.rate = rate
        def __call__(self, x):
            return self.rate * x
    @xpr.tree_util.register_pytree_node_class
    class State:
        def __init__(self, x, rules):
            self.x, self.rules = x, rules
        def tree_flatten(self):
            return (self.x,), self.rules
        @classmethod
        def tree_unflatten(cls, rules, children):
            return cls(*children, rules)
    rules = Rule(2.0), jnp.sin, lambda x: x + 1
    @xpr.jit
    def f(state):
        first, *others = state.rules
        return State(others[1](first(state.x)), (first, *others))
"""


def test_static_data_of_results_are_the_objects_of_this_process():
    """Objects without `__eq__` are equal to themselves alone, and functions of functions have no name to be read by."""
    for is_traced in (True, False):
        module = program(IDENTITY)
        state = module.State(X, module.rules)
        assert traced(module.f, state) is is_traced
        after = module.f(state)
        assert all(mine is given for mine, given in zip(after.rules, module.rules, strict=True))
        assert xpr.tree.structure(after) == xpr.tree.structure(state)
        same(after.x, 2 * X + 1)
        same(module.f(after).x, 4 * X + 3)
        assert len(module.f.caches.traces) == is_traced  # the result goes back in


MAPPED = """
    from xpr.interpreters import batching
    class Wrapped:
        def __init__(self, data):
            self.data = data
    def from_elt(cont, size, x, axis):
        return Wrapped(cont(size, x.data + 1, axis))
    batching.register_vmappable(Wrapped, int, int, lambda cont, _, x, i: Wrapped(cont(x.data, i)), from_elt, None)
    f = xpr.jit(lambda x: xpr.vmap(lambda x: x)(Wrapped(x)).data)
"""


def test_how_types_are_mapped():
    for shift, is_traced in ((1, True), (1, False), (2, True)):
        module = program(MAPPED.replace("x.data + 1", f"x.data + {shift}"))
        assert traced(module.f, X) is is_traced
        same(module.f(X), X + shift)


def test_a_donated_array_that_the_function_closes_over():
    def add(x):
        return xpr.jit(lambda a: a + x, donate_argnums=0)

    x = jnp.arange(50_000.0) + 0
    same(add(x)(jnp.arange(50_000.0) + 1), 2 * x + 1)
    with pytest.raises(xpr.errors.DonationError, match="a is the same array as one that the function closes over"):
        add(x)(x)


def test_what_compares_nodes_may_raise():
    class Data:
        def __eq__(self, other):
            raise ZeroDivisionError("no comparison")

        def __hash__(self):
            return 0

    @dataclass
    class Node:
        child: Any
        data: Data

    xpr.tree_util.register_dataclass(Node, ["child"], ["data"])
    f = xpr.jit(lambda node: 2 * node.child)
    f.trace(Node(X, Data()))
    with pytest.raises(ValueError, match="checking equality of metadata fields of pytree arguments"):
        f(Node(X, Data()))


def test_keys_static_and_donated_arguments():
    source = """
        import functools
        @functools.partial(xpr.jit, static_argnames="n", donate_argnums=0)
        def f(x, key, n):
            for _ in range(n):
                x = x + random.uniform(key, x.shape)
            return x, random.split(key)
    """
    results = []
    for expected in (True, False):
        f, x = program(source).f, jnp.arange(3.0)
        assert traced(f, x, xpr.random.key(1), n=2) is expected
        assert x.is_deleted()
        results.append(f(jnp.arange(3.0), xpr.random.key(1), n=2))
        assert traced(f, jnp.arange(3.0), xpr.random.key(1), n=3) or not expected
    same(results[0][0], results[1][0])
    assert (results[0][1] == results[1][1]).all() and results[1][1].dtype == xpr.random.key(0).dtype


def test_programs_in_steps(monkeypatch):
    small = segments.Thresholds(equations=100, shorter=1.5, work=10_000, live_out=0, periods=1)
    monkeypatch.setattr(segments, "thresholds", small)
    source = """
        @xpr.jit
        def f(params, x):
            def loss(params):
                y = x
                for weights in params:
                    y = jnp.tanh(y @ weights) + y
                return (y ** 2).sum()
            value, gradient = xpr.value_and_grad(loss)(params)
            return value, xpr.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    """
    params = [np.full((64, 64), 0.01 * i, np.float32) for i in range(16)]
    x = np.ones((128, 64), np.float32)
    first, second = program(source).f, program(source).f
    assert traced(first, params, x) and not traced(second, params, x)
    kinds = {type(each.executable).__name__ for f in (first, second) for each in f.caches.compiled.values()}
    assert kinds == {"SequenceExecutable"}
    same(first(params, x), second(params, x))


SOURCE = """
    import abc, dataclasses, enum
    class Abstract(abc.ABC):
        pass
    class Mode(enum.Enum):
        A, B = 1, 2
        @property
        def factor(self):
            return self.value
    mode = Mode.A
    rate, table, names = 0.5, [1.0, 2.0], {"a": 1, "b": (2, 3)}
    weights = np.ones(3, np.float32)
    def helper(x, shift=1.0, *, factor=2.0):
        return factor * x + shift
    class Model:
        depth = 2
        def __init__(self):
            self.width, self.inner = 3, Inner()
        def __call__(self, x):
            return helper(x) * self.depth * self.width + self.inner.offset
    class Inner:
        def __init__(self):
            self.offset = 1.0
        @property
        def twice(self):
            return 2 * self.offset
        @staticmethod
        def constant():
            return 7
    def make(scale):
        def scaled(x):
            return scale * x
        return scaled
    scaled = make(3.0)
    model = Model()
    def g(x):
        y = scaled(model(x)) * rate + sum(table) + names["b"][0] + weights + Inner().twice + Inner.constant()
        y = y + getattr(mode, "size", 1) + getattr(helper, "size", 1) + getattr(scaled, "size", 1)
        y = y + len(helper.__name__)
        return y + mode.factor * isinstance(weights, Abstract) + getattr(model, "depth", 0)
    f = xpr.jit(lambda x: jnp.sin(g(x)))
"""


def assign(thing, **attributes):
    for name, value in attributes.items():
        setattr(thing, name, value)


def in_source(old, new):
    assert old in SOURCE
    return SOURCE.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.5", "0.25"), ("[1.0, 2.0]", "[1.0, 3.0]"), ("[1.0, 2.0]", "(1.0, 2.0)"), ("(2, 3)", "(4, 3)"),
        ('"b": (2, 3)', '"b": (2, 3), "c": 0'), ("np.ones(3,", "2 * np.ones(3,"), ("np.float32)", "np.float16)"),
        ("shift=1.0", "shift=2.0"), ("factor=2.0", "factor=3.0"), ("factor * x + shift", "factor * x - shift"),
        ("depth = 2", "depth = 3"), ("self.width, self.inner = 3,", "self.width, self.inner = 4,"),
        ("self.offset = 1.0", "self.offset = -1.0"), ("2 * self.offset", "3 * self.offset"), ("return 7", "return 8"),
        ("return 7", "return 7.0"), ("return 7", "return True"), ("make(3.0)", "make(4.0)"), ("scale * x", "scale + x"),
        ("jnp.sin", "jnp.cos"), ("make(3.0)", "make(-0.0)"), ("make(3.0)", "make(jnp.float32(3.0))"),
        ("make(3.0)", "make(np.float64(3.0))"), ("def g(x):", "def g(x, y=0):"), ("0.5", "jnp.float32(0.5)"),
        ("0.5", "np.float32(0.5)"), ("self.depth * self.width", "self.width * self.depth"),
        ("scaled = make(3.0)", "scaled = functools.partial(lambda n, x: n * x, 3.0)"),
        ("xpr.jit(lambda", "xpr.jit(compiler_options={'steps': False})(lambda"),
        ("scaled = make(3.0)", "scaled = xpr.jit(make(3.0))"), ("scaled = make(3.0)", "scaled = xpr.grad(make(3.0))"),
        ("@staticmethod", "@classmethod"), ("A, B = 1, 2", "A, B = 3, 2"), ("A, B = 1, 2", "A, B = 1, 3"),
        ("return self.value", "return -self.value"), ("getattr(model, ", "getattr(Model, "),
    ],
)  # fmt: skip
def test_what_differs_in_the_program_is_traced(old, new):
    """Each is a change that could be made between two runs of a script."""
    assert traced(program(SOURCE).f, X)
    assert not traced(program(SOURCE).f, X)
    changed = in_source(old, new)
    if new == "@classmethod":
        changed = changed.replace("def constant():", "def constant(cls):")
    if "grad" in new:
        changed = changed.replace("scaled(model(x))", "scaled(model(x).sum())")
    before, after = program(SOURCE).f, program(changed).f
    assert traced(after, X)
    with xpr.disable_jit():
        expected = program(changed).f(X)
    np.testing.assert_allclose(after(X), expected, rtol=1e-5)
    assert not traced(before, X)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: assign(m, rate=1.5),
        lambda m: m.table.append(1.0),
        lambda m: m.table.__setitem__(0, 1),
        lambda m: m.names.update(b=(5, 3)),
        lambda m: m.weights.__setitem__(0, 5.0),
        lambda m: assign(m.helper, __defaults__=(3.0,)),
        lambda m: assign(m.helper, __kwdefaults__={"factor": 5.0}),
        lambda m: assign(m.helper, __code__=(lambda x, shift=1.0, *, factor=2.0: x).__code__),
        lambda m: assign(m.Model, depth=5),
        lambda m: assign(m.Model, __call__=lambda self, x: x),
        lambda m: assign(m.Inner, twice=property(lambda self: 9)),
        lambda m: assign(m.model, depth=6),
        lambda m: assign(m.model.inner, offset=6),
        lambda m: assign(m.scaled.__closure__[0], cell_contents=8.0),
        lambda m: assign(m, sum=lambda values: 3.0),
        lambda m: assign(m, jnp=types.SimpleNamespace(sin=jnp.cos)),
        lambda m: assign(m, model=lambda x: x),
        lambda m: m.Abstract.register(np.ndarray),
        lambda m: assign(m, mode=m.Mode.B),
        lambda m: assign(m.Mode.A, size=4),
        lambda m: assign(m.helper, size=4),
        lambda m: assign(m.helper, __name__="other"),
        lambda m: assign(m.scaled, size=5),
        lambda m: assign(m.Mode, factor=property(lambda self: 5)),
    ],
)
def test_what_is_changed_while_the_program_runs_is_traced(change):
    """What a function reads is looked at when it is called, not when it is defined."""
    assert first_and_second(SOURCE, X) == (True, False)
    assert first_and_second(SOURCE, X, change=change)[1]
    module = program(SOURCE)
    change(module)
    with xpr.disable_jit():
        expected = module.f(X)
    np.testing.assert_allclose(module.f(X), expected, rtol=1e-5)


DIFFERENT = {
    "attributes of a namedtuple": (
        """
        import collections
        class Point(collections.namedtuple("Point", "left right")):
            scale = 1.0
        point = Point(1, 2)
        point.scale = @@
        f = xpr.jit(lambda x: x * point.scale)
        """, "2.0", "3.0",
    ),
    "units of times": (
        """
        day, unit = np.timedelta64(1, "D"), np.timedelta64(1, "@@")
        f = xpr.jit(lambda x: x * float(day / unit))
        """, "h", "m",
    ),
    "keyword arguments of methodcaller": (
        """
        import operator
        reduced = operator.methodcaller("sum", axis=@@)
        f = xpr.jit(lambda x: reduced(x[:, None] * jnp.ones(3)))
        """, "0", "1",
    ),
    "the method of methodcaller": (
        """
        import operator
        reduced = operator.methodcaller("@@", axis=0)
        f = xpr.jit(lambda x: reduced(x))
        """, "sum", "mean",
    ),
    "what attrgetter reads of a module": (
        """
        import operator, types
        module = types.ModuleType("module")
        module.scale, get = @@, operator.attrgetter("scale")
        f = xpr.jit(lambda x: get(module) * x)
        """, "2.0", "3.0",
    ),
    "a module in a variable that an inner function reads": (
        """
        import types
        module = types.ModuleType("module")
        module.scale = @@
        @xpr.jit
        def f(x):
            library = module
            inner = lambda: library
            return library.scale * x
        """, "2.0", "3.0",
    ),
    "strides": (
        """
        weights = np.array(np.arange(6.0).reshape(2, 3), order="@@")
        f = xpr.jit(lambda x: x.sum() * weights.ravel("K"))
        """, "C", "F",
    ),
    "the order of keys": (
        """
        structure = xpr.tree.structure(@@)
        f = xpr.jit(lambda x: list(xpr.tree.unflatten(structure, [x, 2 * x]).values()))
        """, "{'a': 1, 'b': 2}", "{'b': 1, 'a': 2}",
    ),
    "classes registered with a subclass": (
        """
        import abc
        class Base(abc.ABC): pass
        class Derived(Base): pass
        @@
        f = xpr.jit(lambda x: x * (2 if isinstance(np.zeros(2), Base) else 3))
        """, "", "Derived.register(np.ndarray)",
    ),
    "metadata of a dtype": (
        """
        dtype = np.dtype("f4", metadata={"scale": @@})
        f = xpr.jit(lambda x: x * dtype.metadata["scale"])
        """, "2", "3",
    ),
    "attributes that are set of a jitted function": (
        """
        class Config: scale = 1.0
        config, inner = Config(), xpr.jit(lambda x: x)
        inner.scale = @@
        f = xpr.jit(lambda x: inner(x) * inner.scale * config.scale)
        """, "2.0", "3.0",
    ),
    "other names of a namedtuple's fields": (
        """
        import collections
        Point = collections.namedtuple("Point", "left right")
        Point.chosen = Point.@@
        point = Point(2.0, 3.0)
        f = xpr.jit(lambda x: x * point.chosen)
        """, "left", "right",
    ),
    "private attributes of members of enumerations": (
        """
        import enum
        class Mode(enum.Enum):
            A = 1
            def __init__(self, factor): self._factor = factor
            @property
            def factor(self): return self._factor
        Mode.A._factor = @@
        f = xpr.jit(lambda x: x * Mode.A.factor)
        """, "2.0", "3.0",
    ),
    "keys of a registered class": (
        """
        class Node:
            def __init__(self, x): self.x = x
        key = xpr.tree_util.GetAttrKey("@@")
        xpr.tree_util.register_pytree_node(
            Node, lambda n: ((n.x,), None), lambda _, children: Node(*children), lambda n: (((key, n.x),), None)
        )
        f = xpr.jit(lambda x: xpr.tree.map_with_path(lambda path, x: x * len(xpr.tree_util.keystr(path)), Node(x)).x)
        """, "a", "abc",
    ),
    "attributes that are set of a function of the library": (
        """
        class Config: scale = 1.0
        config = Config()
        nn.relu.scale = @@
        f = xpr.jit(lambda x: nn.relu(x) * nn.relu.scale * config.scale)
        """, "2.0", "3.0",
    ),
    "large integers": (
        """
        large = (1 << 20_000) + @@
        f = xpr.jit(lambda x: x * (large % 7))
        """, "1", "2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_differences_that_do_not_show_at_first_sight_are_traced(name):
    source, old, new = DIFFERENT[name]
    try:
        assert traced(program(source.replace("@@", old)).f, X)
        module = program(source.replace("@@", new))
        assert traced(module.f, X)
        with xpr.disable_jit():
            expected = module.f(X)
        for one, other in zip(xpr.tree.leaves(module.f(X)), xpr.tree.leaves(expected)):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    finally:
        vars(nn.relu).pop("scale", None)


def test_classes_of_python_that_are_registered(folder, tmp_path):
    """A builtin class as a pytree node: the functions that it was registered with are in the key."""
    source = """
        def restored(stop, children):
            return slice(children[0] * factor, stop)
        xpr.tree_util.register_pytree_node(slice, lambda s: ((s.start,), s.stop), restored)
        f = xpr.jit(lambda s: s.start + 1)
        print(f(slice(np.float32(1), 2)), bool(f.caches.traces))
    """
    environment = {**os.environ, "XPR_COMPILATION_CACHE_DIR": str(folder)}
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(xpr.__file__))
    outputs = []
    for factor in (1, 1, 3):
        path = tmp_path / "program.py"
        path.write_text(HEADER + f"factor = {factor}\n" + textwrap.dedent(source))
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.strip())
    assert outputs == ["2.0 True", "2.0 False", "4.0 True"]


MADE_WHILE_TRACED = """
    class Config:
        def __init__(self, rate): self.rate = rate
    class Broken(Config):
        def __reduce__(self): raise RuntimeError("no copy")
    @xpr.tree_util.register_pytree_node_class
    class State:
        def __init__(self, x, config): self.x, self.config = x, config
        def tree_flatten(self): return (self.x,), self.config
        @classmethod
        def tree_unflatten(cls, config, children): return cls(children[0], config)
    f = xpr.jit(lambda x: State(x, @@))
"""


def test_static_data_that_cannot_be_copied_are_traced():
    for made, reason in (
        ("Config(2.0)", "holds an object whose copy is not equal to it"),
        ("Broken(2.0)", "can't be written: no copy"),
    ):
        for _ in range(2):
            module = program(MADE_WHILE_TRACED.replace("@@", made))
            assert traced(module.f, X)
            assert module.f(X).config.rate == 2
            assert reason in xpr.debug.explain_cache(module.f)


EARLIER = """
    scale, offset = 2.0, 5.0
    inner = xpr.jit(lambda x: x * scale)
    def body(carry, x):
        return carry + x * scale, x
    @xpr.jit
    def with_jit(x):
        return inner(x) + 1
    @xpr.jit
    def with_scan(x):
        return lax.scan(body, 0.0, x)[0]
    @xpr.jit
    def with_branch(x):
        return lax.cond(True, shifted, jnp.sin, x)
    def shifted(x):
        return x + offset
    def called(x):
        return inner(x), lax.scan(body, 0.0, x), lax.cond(True, shifted, jnp.sin, x)
"""


@pytest.mark.parametrize("name", ["with_jit", "with_scan", "with_branch"])
def test_traces_of_before_a_change_are_not_kept(name):
    """What a function calls is not traced again in its process; another process would find what was true before."""
    module = program(EARLIER)
    module.called(X)
    module.scale = 3.0
    f = getattr(module, name)
    assert traced(f, X)
    explained = xpr.debug.explain_cache(f)
    changed = program(EARLIER.replace("scale, offset = 2.0", "scale, offset = 3.0"))
    if name == "with_branch":
        assert "is not traced" in explained
        assert not traced(changed.with_branch, X)
        return
    assert "it uses an earlier trace of" in explained and "which would be another one by now" in explained
    g = getattr(changed, name)
    assert traced(g, X)
    same(g(X), 3 * X + 1 if name == "with_jit" else np.float32(18 / 2))
    assert not traced(getattr(program(EARLIER.replace("scale, offset = 2.0", "scale, offset = 3.0")), name), X)


def test_earlier_traces_where_static_data_cannot_be_compared():
    source = """
        class Data:
            def __eq__(self, other): raise ZeroDivisionError("no comparison")
            def __hash__(self): return 0
        @xpr.tree_util.register_pytree_node_class
        class Node:
            def __init__(self, x): self.x = x
            def tree_flatten(self): return (self.x,), Data()
            @classmethod
            def tree_unflatten(cls, data, children): return cls(*children)
        inner = xpr.jit(lambda x: 2 * x)
        f = xpr.jit(lambda x: Node(inner(x)))
    """
    module = program(source)
    module.inner(X)
    same(module.f(X).x, 2 * X)
    assert "is traced in each process" in xpr.debug.explain_cache(module.f)


def test_earlier_traces_of_what_has_not_changed():
    module = program(EARLIER)
    module.called(X)
    for name in ("with_jit", "with_scan", "with_branch"):
        assert traced(getattr(module, name), X)
        assert not traced(getattr(program(EARLIER), name), X)


def test_static_data_that_cannot_be_compared():
    """With a folder for programs the error is the same as without one."""
    source = """
        class Data:
            def __eq__(self, other): raise ZeroDivisionError("no comparison")
            def __hash__(self): return 0
        class Node:
            def __init__(self, x, data): self.x, self.data = x, data
        xpr.tree_util.register_pytree_node(Node, lambda n: ((n.x,), n.data), lambda data, xs: Node(xs[0], data))
        f = xpr.jit(lambda node: node.x)
    """
    module = program(source)
    module.f(module.Node(X, module.Data()))
    with pytest.raises(ValueError, match="checking equality of metadata fields of pytree arguments"):
        module.f(module.Node(X, module.Data()))


def test_objects_that_cannot_be_looked_at_are_traced():
    source = """
        import weakref
        class Referenced: pass
        proxy = weakref.proxy(Referenced())
        constant = lambda value: 2
        f = xpr.jit(lambda x: x * constant(proxy))
    """
    for _ in range(2):
        f = program(source).f
        assert traced(f, X)
        assert "looking at what it reads raises ReferenceError" in xpr.debug.explain_cache(f)


def test_arrays_whose_computation_failed_are_traced(monkeypatch):
    def failed(value):
        raise RuntimeError("out of memory")

    f = program("f = xpr.jit(lambda x: x * weights)", weights=jnp.arange(3.0)).f
    monkeypatch.setattr(walk, "np", types.SimpleNamespace(**{**vars(np), "asarray": failed}))
    assert "reads an array whose computation failed: out of memory" in xpr.debug.explain_cache(f)


@pytest.mark.parametrize(
    "argument",
    [
        X[:2], X[None], X.astype(np.int32), X.astype(np.float16), 1.0, np.float32(1), 1, True, jnp.float32(1),
        xpr.device_put(X, xpr.devices()[0]),
    ],
)  # fmt: skip
def test_other_arguments_are_traced(argument):
    source = "f = xpr.jit(lambda x: x * 2)"
    assert traced(program(source).f, X)
    assert traced(program(source).f, argument)
    assert not traced(program(source).f, argument)


def test_structures_of_arguments():
    source = "f = xpr.jit(lambda x: xpr.tree.map(jnp.sin, x))"
    structures = [
        (X, X), [X, X], {"a": X, "b": X}, {"a": X, "c": X}, {"a": X, 1: X}, OrderedDict(a=X, b=X), (X, None, X),
        (X, (X,)), ((X, X),), Pair(X, X), {"a": (X, X)}, {b"a": X, b"b": X},
    ]  # fmt: skip
    for structure in structures:
        try:
            assert traced(program(source).f, structure), structure
        except TypeError:  # keys that don't compare
            continue
    found = [traced(program(source).f, structure) for structure in structures if structure is not structures[4]]
    assert not any(found)
    swapped = program(source).f
    assert not traced(swapped, {"b": X, "a": 2 * X})
    np.testing.assert_allclose(swapped({"b": X, "a": 2 * X})["a"], np.sin(2 * X), rtol=1e-6)


SETTINGS = {
    "enable_x64": True, "default_matmul_precision": "highest", "default_prng_impl": "rbg", "while_checkpoints": 8,
    "threefry_partitionable": False, "numpy_rank_promotion": "raise", "numpy_dtype_promotion": "strict",
    "explicit_x64_dtypes": "allow", "check_static_indices": False, "disable_bwd_checks": True, "random_seed_offset": 1,
    "check_python_integers": False, "exact_masks": False, "enable_custom_prng": True, "legacy_prng_key": "warn",
    "auto_pcast": False, "disable_vmap_shmap_error": True, "allow_f16_reductions": False,
    "remove_size_one_mesh_axis_from_type": True,
}  # fmt: skip
TRACED_WITH = {
    "check_tracer_leaks": True, "debug_infs": True, "debug_nans": True, "enable_checks": True,
    "explain_cache_misses": True, "log_checkpoint_residuals": True, "log_compiles": True,
}  # fmt: skip


@pytest.mark.parametrize("name", [*SETTINGS, *TRACED_WITH])
def test_other_settings_are_traced(name, setting):
    source = "f = xpr.jit(lambda x: jnp.sin(x) * 2)"
    assert traced(program(source).f, X)
    setting(name, {**SETTINGS, **TRACED_WITH}[name])
    assert traced(program(source).f, X)


def test_programs_whose_operations_are_marked_are_traced():
    source = "f = xpr.jit(lambda x: jnp.sin(x) * 2)"
    assert first_and_second(source, X) == (True, False)
    with override("xla_metadata", (("mark", 1),)):
        assert traced(program(source).f, X)


def test_every_setting_is_a_part_of_the_key():
    from xpr.fingerprint import surroundings

    covered = {name for name, _ in surroundings.compared_settings()} | {
        *surroundings.TRACED,
        *surroundings.OF_NO_EFFECT,
    }
    assert covered == set(Settings.names())


@pytest.mark.parametrize("release", ["numpy", "python", "file of xpr"])
def test_other_releases_are_traced(release, monkeypatch, tmp_path):
    from xpr.fingerprint import surroundings

    source = "f = xpr.jit(lambda x: jnp.sin(x) * 2)"
    assert first_and_second(source, X) == (True, False)
    before = surroundings.releases()
    surroundings.releases.cache_clear()
    if release == "numpy":
        names = os.listdir
        monkeypatch.setattr(os, "listdir", lambda folder: [*names(folder), "numpy-99.0.dist-info"])
    elif release == "python":
        monkeypatch.setattr(sys, "version", "3.99")
    else:
        (tmp_path / "xpr").mkdir()
        (tmp_path / "xpr" / "changed.py").write_text("changed = True")
        files = surroundings.files_of
        monkeypatch.setattr(
            surroundings, "files_of", lambda folder: itertools.chain(files(folder), files(str(tmp_path / "xpr")))
        )
        pure.library.check = lambda: None  # the function above is no patch that a user makes
    try:
        assert surroundings.releases() != before or release == "python"
        assert traced(program(source).f, X)
    finally:
        vars(pure.library).pop("check", None)
        surroundings.releases.cache_clear()


def test_another_jaxlib_or_processor_is_traced(monkeypatch):
    source = "f = xpr.jit(lambda x: jnp.sin(x) * 2)"
    assert first_and_second(source, X) == (True, False)
    cache.circumstances.cache_clear()
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=")
    try:
        assert traced(program(source).f, X)
    finally:
        cache.circumstances.cache_clear()


REFUSED = {
    "print": ("print(x)", "f at users_program.py:5 uses print"),
    "time": ("import time", "users_program.py:5: it imports a module"),
    "clock": ("y = clock()", "uses perf_counter"),
    "random state": ("y = np.random.normal()", "f at users_program.py:5 uses normal"),
    "environment": ("y = environ.get('HOME')", "f at users_program.py:5 uses"),
    "globals": ("y = globals()['x']", "f at users_program.py:5 uses globals"),
    "getattr": ("y = getattr(x, name)", "f at users_program.py:5 uses getattr"),
    "eval": ("y = eval('x')", "f at users_program.py:5 uses eval"),
    "open": ("y = open('/dev/null')", "f at users_program.py:5 uses open"),
    "identity": ("y = id(x)", "f at users_program.py:5 uses id"),
    "hash": ("y = hash('x')", "f at users_program.py:5 uses hash"),
    "global": ("global count; count = 1", "users_program.py:5: it assigns to a global variable"),
    "set": ("for y in {'a', 'b'}: pass", "users_program.py:5: it makes a set"),
    "set comprehension": ("y = {i for i in range(3)}", "it makes a set"),
    "keys": ("y = {'a': 1}.keys()", "it may make a set of a dict's keys()"),
    "repr": ("y = f'{x!r}'", "it writes a value as repr does"),
    "set attribute": ("state.count = 1", "it sets the attribute 'count'"),
    "unknown attribute": ("y = x.surprise if hasattr_ else 0", "reads the attribute 'surprise' of a value"),
    "dunder": ("y = x.__dict__", "reads the attribute '__dict__'"),
    "file": ("y = x.tofile if count else 0", "reads the attribute 'tofile'"),
    "callback": ("xpr.debug.print('{}', x)", "uses xpr's debug_print"),
    "setting": ("xpr.config.update('enable_x64', False)", "reads an object of Config"),
    "caches": ("xpr.clear_caches()", "uses xpr's clear_caches"),
    "getattr of the user's": ("y = proxy.anything if count else 0", "whose class has __getattr__"),
    "iterator": ("y = next(iterator)", "uses an object of"),
    "cached": ("y = cached(1)", "uses an object of _lru_cache_wrapper"),
    "generator of NumPy": ("y = rng.normal()", "uses an object of Generator"),
    "objects": ("y = objects[0]", "reads an array of objects"),
    "large": ("y = large[0]", "reads arrays of more than"),
    "subclass": ("y = counter['a']", "uses an object of Counter"),
    "set of a class": ("y = 1 in numbers", "uses an object of set"),
    "class": ("class Local: pass", "it defines a class"),
}
VALUES = """
    import collections, os, time
    clock, environ, count, name = time.perf_counter, os.environ, 0, "shape"
    class Proxy:
        def __getattr__(self, name): return 1
    class State: pass
    proxy, state, iterator, rng = Proxy(), State(), iter([1, 2]), np.random.default_rng(0)
    cached, objects, large = functools.cache(lambda n: n), np.array([None]), np.zeros(1 << 25, np.int8)
    counter, numbers, hasattr_ = collections.Counter("a"), {1, 2}, False
"""


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_differ_between_processes_is_traced(name):
    line, reason = REFUSED[name]
    source = f"\n@xpr.jit\ndef f(x):\n    {line}\n    return x * 2\n" + textwrap.dedent(VALUES)
    module = program(source.lstrip("\n").replace("@xpr.jit", "@xpr.jit", 1))
    explained = xpr.debug.explain_cache(module.f)
    assert "is traced in each process: " in explained
    assert reason.replace("users_program.py:5", "users_program.py:").split(":")[0] in explained
    assert reason.rpartition("users_program.py:5")[2] in explained and "users_program.py:5" in explained


TRACED = {
    "a list that grows": ("seen = []", "seen.append(len(seen))", "tracing it changes what it reads"),
    "a counter": ("seen = {'n': 0}", "seen['n'] += 1", "tracing it changes what it reads"),
    "a warning": ("", "x = x.at[0].set(1.5)", "a warning was given"),
}


@pytest.mark.parametrize("name", TRACED)
@pytest.mark.filterwarnings("ignore")
def test_a_trace_with_effects_is_not_kept(name, folder):
    before, line, reason = TRACED[name]
    source = f"{before}\n@xpr.jit\ndef f(x):\n    {line}\n    return x * 2\n"
    module = program(source)
    assert traced(module.f, np.arange(3))
    assert reason in xpr.debug.explain_cache(module.f)
    assert traced(program(source).f, np.arange(3))


def test_a_function_of_the_library_that_is_replaced(monkeypatch):
    from xpr.nn import activations

    source = "f = xpr.jit(lambda x: nn.silu(x))"
    assert first_and_second(source, X) == (True, False)
    sigmoid = activations.sigmoid
    monkeypatch.setattr(activations, "sigmoid", lambda x: sigmoid(2 * x))
    f = program(source).f
    assert traced(f, X)
    assert "sigmoid was replaced, which is xpr's" in xpr.debug.explain_cache(f)
    monkeypatch.undo()
    assert not traced(program(source).f, X)


def test_a_rule_of_a_primitive_that_is_replaced():
    from xpr.interpreters import ad
    from xpr.lax import sin_p

    source = "f = xpr.jit(xpr.grad(jnp.sin))"
    assert first_and_second(source, jnp.float32(1)) == (True, False)
    jvp = sin_p.jvp
    ad.primitive_jvps[sin_p] = lambda primals, tangents: (jnp.sin(primals[0]), 7 * tangents[0])
    try:
        f = program(source).f
        assert traced(f, jnp.float32(1)) and f(jnp.float32(1)) == 7
        assert "a rule of sin was replaced" in xpr.debug.explain_cache(f)
    finally:
        sin_p.jvp = jvp
    assert not traced(program(source).f, jnp.float32(1))
    impl = sin_p.impl
    sin_p.def_impl(lambda x: impl(x))
    try:
        assert traced(program(source).f, jnp.float32(1))
    finally:
        sin_p.def_impl(impl)
    assert not traced(program(source).f, jnp.float32(1))


def test_a_damaged_file_is_traced(folder):
    source = "f = xpr.jit(lambda x: x * 2)"
    assert first_and_second(source, X) == (True, False)
    for path in folder.iterdir():
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert traced(program(source).f, X)
        assert not traced(program(source).f, X)
        path.unlink()
        assert traced(program(source).f, X)
        assert not traced(program(source).f, X)


def test_arrays_that_cannot_be_read_are_traced():
    source = "f = xpr.jit(lambda x: x * weights)"
    weights = jnp.arange(3.0)
    weights.delete()
    f = program(source, weights=weights).f
    assert "reads an array that is deleted" in xpr.debug.explain_cache(f)
    with pytest.raises(RuntimeError, match="deleted"):
        f(X)
    on_device = xpr.device_put(X, xpr.devices()[0])
    f = program(source, weights=on_device).f
    assert traced(f, X) and "put on devices" in xpr.debug.explain_cache(f)
    keys = program("f = xpr.jit(lambda x: x + random.uniform(key))", key=xpr.random.key(0)).f
    assert traced(keys, X) and "of random keys" in xpr.debug.explain_cache(keys)


def test_without_a_folder_all_is_traced(setting):
    setting("compilation_cache_dir", "")
    f = program("f = xpr.jit(lambda x: x * 2)").f
    assert traced(f, X)
    assert "no folder for programs is set" in xpr.debug.explain_cache(f)
    with pytest.raises(TypeError, match="takes what jit returned"):
        xpr.debug.explain_cache(lambda x: x)


def test_a_call_that_was_found_is_a_function_like_any_other():
    source = "f = xpr.jit(lambda x: jnp.sin(x) * x)"
    traced(program(source).f, jnp.float32(2))
    f = program(source).f
    assert not traced(f, jnp.float32(2))
    np.testing.assert_allclose(xpr.grad(f)(jnp.float32(2)), np.cos(2) * 2 + np.sin(2), rtol=1e-5)
    np.testing.assert_allclose(xpr.vmap(f)(X), np.sin(X) * X, rtol=1e-5)
    assert "sin" in str(f.trace(jnp.float32(2)).jaxpr)
    np.testing.assert_allclose(f(jnp.float32(3)), np.sin(3) * 3, rtol=1e-5)


def test_two_processes(folder, tmp_path):
    """With other random hashes, from other folders, and with lines at other positions."""
    source = HEADER + textwrap.dedent(SOURCE) + "\nprint(f(np.arange(3.0, dtype=np.float32)), bool(f.caches.traces))"
    outputs = []
    for i in range(2):
        path = tmp_path / str(i) / "program.py"
        path.parent.mkdir()
        path.write_text("\n" * i + source)
        environment = {**os.environ, "XPR_COMPILATION_CACHE_DIR": str(folder), "PYTHONHASHSEED": str(i)}
        environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(xpr.__file__))
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.rsplit(" ", 1))
    assert outputs[0][0] == outputs[1][0]
    assert [each[1].strip() for each in outputs] == ["True", "False"]


def test_primitives_of_users_concern_the_functions_that_reach_them(folder):
    own = xpr.extend.Primitive("own_of_second_start")
    own.def_impl(np.sin)
    own.def_abstract_eval(lambda x: x)
    without, reaching = xpr.jit(lambda x: jnp.sin(x) + 1), xpr.jit(lambda x: own.bind(x))
    assert "is not traced in processes that find" in xpr.debug.explain_cache(without)
    assert "is traced in each process" in xpr.debug.explain_cache(reaching)
