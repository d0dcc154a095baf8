"""The operators, methods and properties of arrays, installed on `Array` and on `Tracer` alike."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import numpy as np

from xpr.backend.array import Array
from xpr.core.interpreter import Tracer
from xpr.numpy import ufuncs
from xpr.numpy.formatting import array_format, array_repr, array_str

_NUMBERS = frozenset({bool, int, float, complex, Array})


def _operator(fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A binary operator, which leaves what is no array to the other operand's class."""

    def method(self: Any, other: Any) -> Any:
        if type(other) in _NUMBERS or isinstance(other, (Tracer, np.ndarray, np.generic)):
            return fun(self, other)
        return fun(self, other) if hasattr(other, "__jax_array__") else NotImplemented

    return method


def _reflected(fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return _operator(lambda self, other: fun(other, self))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": ufuncs.add, "sub": ufuncs.subtract, "mul": ufuncs.multiply, "truediv": ufuncs.true_divide,
    "floordiv": ufuncs.floor_divide, "mod": ufuncs.remainder, "divmod": ufuncs.divmod, "pow": ufuncs.power,
    "and": ufuncs.bitwise_and, "or": ufuncs.bitwise_or, "xor": ufuncs.bitwise_xor,
    "lshift": ufuncs.left_shift, "rshift": ufuncs.right_shift,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": ufuncs.equal, "ne": ufuncs.not_equal, "lt": ufuncs.less, "le": ufuncs.less_equal,
    "gt": ufuncs.greater, "ge": ufuncs.greater_equal,
}  # fmt: skip


def _len(self: Any) -> int:
    if not self.aval.ndim:
        raise TypeError("len() of an array without axes.")
    return self.aval.shape[0]


def _iter(self: Any) -> Iterator[Any]:
    """The rows, one by one; an array in memory is read once and handed out row by row."""
    if not self.aval.ndim:
        raise TypeError("An array without axes can't be iterated over.")
    return (self[i] for i in range(self.aval.shape[0]))


def _contains(self: Any, item: Any) -> bool:
    return bool(np.any(np.asarray(self == item)))


def _mT(self: Any) -> Any:
    """The array with its last two axes exchanged."""
    return _swap_last(self)


def _swap_last(x: Any) -> Any:
    from_library = x.swapaxes
    return from_library(-1, -2)


def install(name: str, function: Any) -> None:
    """Makes `function` an attribute of arrays and tracers."""
    setattr(Array, name, function)
    setattr(Tracer, name, function)


for _name, _fun in _OPERATORS.items():
    install(f"__{_name}__", _operator(_fun))
    install(f"__r{_name}__", _reflected(_fun))
for _name, _fun in _COMPARISONS.items():
    install(f"__{_name}__", _operator(_fun))

for _name, _fun in {
    "__neg__": ufuncs.negative, "__pos__": ufuncs.positive, "__abs__": ufuncs.absolute, "__invert__": ufuncs.invert,
    "__len__": _len, "__iter__": _iter, "__contains__": _contains,
}.items():  # fmt: skip
    install(_name, _fun)

for _name in ("shape", "dtype", "ndim", "size", "weak_type"):
    install(_name, property(eval(f"lambda self: self.aval.{_name}"), doc=f"The array's {_name}."))
install("itemsize", property(lambda self: self.aval.dtype.itemsize, doc="Bytes of one entry."))
install("nbytes", property(lambda self: self.aval.size * self.aval.dtype.itemsize, doc="Bytes of all entries."))

Array.__repr__ = array_repr  # type: ignore[method-assign]
Array.__str__ = array_str  # type: ignore[method-assign]
Array.__format__ = array_format  # type: ignore[method-assign,assignment]
