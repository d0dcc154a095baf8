"""The operators, methods and properties of arrays, installed on `Array` and on `Tracer` alike.

Most methods are the functions of the same name, with the array as their first argument. What only makes sense where
there is a value, such as pickling, copying and handing memory to other libraries, is installed on `Array` alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import buffers
from xpr.backend.array import Array
from xpr.core.avals import ShapedArray, array_made_of, aval_of, is_key, without_state
from xpr.core.hi_types import at_first_use, attribute_of
from xpr.core.interpreter import Tracer
from xpr.numpy import (
    argminmax,
    arithmetic,
    bitwise,
    comparisons,
    complex_numbers,
    contractions,
    cumulative,
    division,
    flip_roll_tile,
    matrices,
    powers,
    reductions,
    reshaping,
    rounding,
    sorting,
    statistics,
    where_select,
)
from xpr.numpy.creation import copied, copy, to_device
from xpr.numpy.formatting import array_format, array_repr, array_str
from xpr.numpy.indexing import nonzero, take
from xpr.numpy.indexing.at import at
from xpr.numpy.indexing.read import getitem
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import rev, squeeze
from xpr.primitives.slicing import slice_in_dim
from xpr.transforms.flat import named_like

# -- Operators

_NUMBERS = frozenset({bool, int, float, complex, Array})
_OPERANDS = (Tracer, np.ndarray, np.generic, int, float, complex)  # with what is derived from them, such as IntEnum
_COLLECTIONS = frozenset({list, tuple, dict, set, frozenset})


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod()",
    "pow": "** or pow()", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def _operator(name: str, fun: Callable[[Any, Any], Any], is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    """A binary operator; it returns NotImplemented for operands that are not arrays.

    Those that Python would compare with anything, or repeat as often as an array says, are refused.
    """

    def method(self: Any, other: Any) -> Any:
        if type(other) in _NUMBERS or isinstance(other, _OPERANDS):
            try:
                return fun(self, other)
            except Exception:
                if self.aval.is_high:
                    return _of_type(self, f"r{name}" if is_reflected else name, other)
                if isinstance(other, Tracer) and other.aval.is_high:  # Python tries no reflected operator of one class
                    return _of_type(other, name if is_reflected else f"r{name}", self)
                raise
        if hasattr(other, "__jax_array__"):
            return fun(self, array_made_of(other))
        if type(other) in _COLLECTIONS:  # classes derived from them may have operators of their own
            types = ("Array", type(other).__name__)[:: -1 if is_reflected else 1]
            raise TypeError(
                f"unsupported operand type(s) for {_SYMBOLS[name]}: {types[0]!r} and {types[1]!r}. Convert lists and "
                "tuples with jnp.array."
            )
        return NotImplemented

    return method


def _of_type(x: Any, name: str, *args: Any) -> Any:
    """What the operator `__name__` of a traced value of a user's type gives: the type's method `_name(value, *args)`.

    Raises:
      TypeError: the type has none.
    """
    rule = getattr(without_state(x.aval), f"_{name}", None)
    if rule is None:
        raise TypeError(
            f"A traced value of type {x.aval.str_short()} has no operator __{name}__: its class "
            f"{type(without_state(x.aval)).__name__} does not define _{name}(self, value, ...)."
        )
    return rule(x, *args)


def _operator_of_tracers(name: str, fun: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of arrays as one of tracers, for which types that users define may have their own."""

    def method(self: Any, *args: Any) -> Any:
        return _of_type(self, name.strip("_"), *args) if self.aval.is_high else fun(self, *args)

    return named_like(method, fun)  # type: ignore[no-any-return]  # a function


def _method_of_tracers(name: str, fun: Callable[..., Any]) -> Callable[..., Any]:
    """A method of arrays as one of tracers, for which types that users define may have their own."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        of_type = attribute_of(self, self.aval, name) if self.aval.is_high else partial(fun, self)
        return of_type(*args, **kwargs)

    return named_like(method, fun)  # type: ignore[no-any-return]  # a function


def _reflected(name: str, fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return _operator(name, lambda self, other: fun(other, self), is_reflected=True)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": arithmetic.add, "sub": arithmetic.subtract, "mul": arithmetic.multiply, "truediv": arithmetic.true_divide,
    "floordiv": division.floor_divide, "mod": division.remainder, "divmod": division.divmod, "pow": powers.power,
    "and": bitwise.bitwise_and, "or": bitwise.bitwise_or, "xor": bitwise.bitwise_xor,
    "lshift": bitwise.left_shift, "rshift": bitwise.right_shift, "matmul": contractions.matmul,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": comparisons.equal, "ne": comparisons.not_equal, "lt": comparisons.less, "le": comparisons.less_equal,
    "gt": comparisons.greater, "ge": comparisons.greater_equal,
}  # fmt: skip

# -- As a sequence


def _len(self: Any) -> int:
    if not self.aval.ndim:
        raise TypeError("len() of an array without axes.")
    return self.aval.shape[0]


def _iter(self: Any) -> Iterator[Any]:
    """An iterator over the rows; a value on the host is read once."""
    if not self.aval.ndim:
        raise TypeError("An array without axes can't be iterated over.")
    if type(self) is Array:
        aval = ShapedArray(self.aval.shape[1:], self.aval.dtype, self.aval.weak_type)
        return (Array(aval, row, None, self.device_of_parts) for row in np.asarray(self.host))
    return (squeeze(slice_in_dim(self, i, i + 1), (0,)) for i in range(self.aval.shape[0]))


def _contains(self: Any, item: Any) -> bool:
    """Whether a number is among the elements of a vector.

    Raises:
      ValueError: the array is no vector, or the item no scalar, where a few equal elements would make it true.
    """
    equal = comparisons.equal(self, item)
    shape, looked_for = aval_of(self).shape, aval_of(item).shape
    if len(shape) != 1 or looked_for:
        raise ValueError(
            f"`in` looks for a scalar in a vector, and was asked for an item of shape {looked_for} in an array of "
            f"shape {shape}. Write jnp.isin(x, array) for each element, or (array == x).all(-1).any() for rows."
        )
    return bool(reductions.any(equal))


def _setitem(self: Any, index: Any, value: Any) -> None:
    raise TypeError("Arrays are immutable. Instead of x[i] = y, write x = x.at[i].set(y), and keep the new x.")


# -- Methods that take their arguments otherwise than the functions


def _reshape(self: Any, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None) -> Any:
    """The same elements in another shape, a tuple or several sizes, of which one may be -1.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    return reshaping.reshape(self, args[0] if len(args) == 1 else args, order, out_sharding=out_sharding)


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(2).astype(float)
    Array([0., 1.], dtype=float32)
    """
    return reshaping.astype(self, dtype, copy=copy, device=device)


def _transpose(self: Any, *args: Any) -> Any:
    """The axes reversed, or in the order given as one tuple or as several integers.

    >>> import xpr.numpy as jnp
    >>> jnp.ones((2, 3)).transpose(1, 0).shape
    (3, 2)
    """
    if not args or (len(args) == 1 and args[0] is None):
        return reshaping.transpose(self)
    return reshaping.transpose(self, args[0] if len(args) == 1 and not isinstance(args[0], (int, np.integer)) else args)


def _round(self: Any, ndigits: int | None = None) -> Any:
    """`round(x)` returns integers, as Python's does; `round(x, n)` keeps the dtype."""
    return rounding.round(self, ndigits) if ndigits is not None else reshaping.astype(rounding.round(self), int)


def _byteswap(self: Any) -> Any:
    """The array with the bytes of each element, or of its real and of its imaginary part, in the reverse order.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(2).byteswap()
    Array([       0, 16777216], dtype=int32)
    """
    dtype = self.aval.dtype
    if dtype in dtypes.COMPLEX:
        return e.complex_(_byteswap(complex_numbers.real(self)), _byteswap(complex_numbers.imag(self)))
    if dtype.itemsize == 1:
        return self
    words = e.bitcast_convert_type(self, np.dtype(np.uint8))
    return e.bitcast_convert_type(rev(words, (words.ndim - 1,)), dtype)


def _compress(self: Any, condition: Any, axis: int | None = None, **options: Any) -> Any:
    """The elements along an axis where a condition holds."""
    return take.compress(condition, self, axis, **options)


def _same(self: Any, *args: Any) -> Any:
    """A copy of a tracer is the tracer itself, since values are immutable."""
    return self


def _copied(self: Array, memo: Any = None) -> Array:
    return copied(self)


def _namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The module of functions on arrays, for code written to the array API standard."""
    return sys.modules[__package__]


# -- What only a value can do


def _item(self: Array, *args: Any) -> Any:
    """The one element, or the one at an index, as a Python scalar."""
    return self.numbers().item(*args)


def _tolist(self: Array) -> Any:
    """The elements as (nested lists of) Python scalars."""
    return self.numbers().tolist()


def _tobytes(self: Array, order: str = "C") -> bytes:
    """The bytes of all elements."""
    return self.numbers().tobytes(order)  # type: ignore[arg-type]  # NumPy checks the string


def _to_device(self: Any, device: Any, *, stream: int | None = None) -> Any:
    """The array on another device, or with another sharding; None for where it is."""
    return to_device(self, device)


def _dlpack(
    self: Array,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule, which shares the array's memory; for other libraries' `from_dlpack`.

    Raises:
      BufferError: the capsule is asked for on another device than the array's, or that has several.
    """
    if is_key(self.aval):
        self.numbers()  # refuses them
    current = _dlpack_device(self)
    if dl_device is not None and (int(dl_device[0]), dl_device[1]) != current:
        raise BufferError(f"The array is on DLPack device {current}, not {tuple(dl_device)}. Move it with .to_device.")
    return buffers.to_dlpack((copied(self) if copy else self).buffer, stream)


def _dlpack_device(self: Array) -> tuple[int, int]:
    if self.sharding.num_devices > 1:
        raise BufferError(
            f"DLPack hands over arrays on one device, and this one of type {self.aval.str_short()} is on "
            f"{self.sharding.num_devices}, as {self.sharding}. Put it on one with xpr.device_put(x, device), read it "
            "with np.asarray(x), or take the parts: [shard.data for shard in x.addressable_shards]."
        )
    return buffers.dlpack_device(self.buffer)


# -- Installation


def install(name: str, function: Any) -> None:
    """Installs `function` as an attribute of arrays and tracers."""
    setattr(Array, name, function)
    setattr(Tracer, name, function)


_name: str
_fun: Any
_METHODS: dict[str, Any] = {}
for _name, _fun in _OPERATORS.items():
    install(f"__{_name}__", _operator(_name, _fun))
    install(f"__r{_name}__", _reflected(_name, _fun))
for _name, _fun in _COMPARISONS.items():
    install(f"__{_name}__", _operator(_name, _fun))

for _name, _fun in {
    "__neg__": arithmetic.negative, "__pos__": arithmetic.positive, "__abs__": arithmetic.absolute,
    "__invert__": bitwise.invert, "__round__": _round, "__len__": _len, "__iter__": _iter, "__contains__": _contains,
    "__setitem__": _setitem, "__array_namespace__": _namespace, "__getitem__": getitem,
    "reshape": _reshape, "transpose": _transpose, "ravel": reshaping.ravel, "flatten": reshaping.ravel,
    "swapaxes": reshaping.swapaxes, "squeeze": reshaping.squeeze, "astype": _astype, "view": reshaping.view,
    "repeat": flip_roll_tile.repeat, "round": rounding.round, "clip": rounding.clip, "conj": complex_numbers.conjugate,
    "conjugate": complex_numbers.conjugate, "copy": copy, "diagonal": matrices.diagonal,
    "sum": reductions.sum, "prod": reductions.prod, "max": reductions.max, "min": reductions.min,
    "any": reductions.any, "all": reductions.all, "mean": statistics.mean, "var": statistics.var,
    "std": statistics.std, "ptp": statistics.ptp, "cumsum": cumulative.cumsum, "cumprod": cumulative.cumprod,
    "sort": sorting.sort, "argsort": sorting.argsort, "argpartition": sorting.argpartition,
    "searchsorted": sorting.searchsorted, "argmax": argminmax.argmax, "argmin": argminmax.argmin,
    "dot": contractions.dot, "trace": contractions.trace, "take": take.take, "nonzero": nonzero.nonzero,
    "choose": where_select.choose, "compress": _compress, "byteswap": _byteswap, "to_device": _to_device,
}.items():  # fmt: skip
    install(_name, _fun)
    _METHODS[_name] = _fun


def _look_into_types() -> None:
    """Makes the methods of tracers those that types of users have for their values."""
    for name, fun in _METHODS.items():
        setattr(Tracer, name, (_operator_of_tracers if name.startswith("__") else _method_of_tracers)(name, fun))


at_first_use(_look_into_types)


for _name in ("shape", "dtype", "ndim", "size", "weak_type"):
    install(_name, property(attrgetter(f"aval.{_name}"), doc=f"The array's {_name}."))
for _name, _fun, _doc in (
    ("itemsize", lambda self: self.aval.dtype.itemsize, "Bytes of one element."),
    ("nbytes", lambda self: self.aval.size * self.aval.dtype.itemsize, "Bytes of all elements."),
    ("T", reshaping.transpose, "The array with its axes reversed."),
    ("mT", reshaping.matrix_transpose, "The array with its last two axes exchanged."),
    ("real", complex_numbers.real, "The real part of each element."),
    ("imag", complex_numbers.imag, "The imaginary part of each element."),
    ("at", at, at.__doc__),
):
    install(_name, property(_fun, doc=_doc))

for _name, _fun in {
    "__repr__": array_repr, "__str__": array_str, "__format__": array_format, "item": _item, "tolist": _tolist,
    "tobytes": _tobytes, "__copy__": _copied, "__deepcopy__": _copied,
    "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device,
}.items():  # fmt: skip
    setattr(Array, _name, _fun)
Tracer.__copy__ = Tracer.__deepcopy__ = _same  # type: ignore[attr-defined]
