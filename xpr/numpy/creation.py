"""New arrays, from values that the host has and from one value repeated.

While operations run at once, small arrays are made on the host directly, which costs about a microsecond; the device
gets them when a compiled program asks. While a function is staged, a filled array is an operation, and values from the
host are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import compiler, devices
from xpr.backend.array import Array, from_host
from xpr.backend.sharding import NamedSharding, SingleDeviceSharding
from xpr.compile.evaluate import EvalTrace
from xpr.compile.partition import moved
from xpr.core.avals import ShapedArray, aval_of, describe, python_scalar_aval
from xpr.core.interpreter import Tracer, context
from xpr.numpy.key_arrays import moves
from xpr.numpy.promotion import SCALARS, as_operand, convert, narrowed, requested_dtype
from xpr.primitives.elementwise import copy_p
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, reshape
from xpr.primitives.shapes import shape_of as shape_of
from xpr.primitives.slicing import concatenate as join

HOST_LIMIT = 1 << 20  # entries; a larger array is better filled by its device than sent there

# -- What the functions share


def is_eager() -> bool:
    """Whether operations run at once: no transformation is looking."""
    return type(context.trace) is EvalTrace


def chosen_dtype(dtype: Any, default: type = float) -> np.dtype:
    """The dtype asked for, or that of Python's `default`."""
    return dtypes.of_python(default) if dtype is None else requested_dtype(dtype)


def placed(x: Any, device: Any) -> Any:
    """The array on a device named by the user; anything traced stays where the whole computation is."""
    if device is None or type(x) is not Array:
        return x
    if isinstance(device, SingleDeviceSharding):
        device = device.device
    if isinstance(device, NamedSharding):
        return moved(x, device)
    if x._buffer is None or type(x._device) is NamedSharding:
        return Array(x.aval, x.host, None, device)
    return Array(x.aval, None, compiler.to_device(x.buffer, x.aval, device), device)


def _filled(shape: tuple[int, ...], value: Any, aval: ShapedArray, device: Any = None) -> Any:
    """One scalar repeated; `value` is a Python or NumPy scalar of the type `aval`, but for its shape."""
    if shape and not (aval.size <= HOST_LIMIT and is_eager()):
        if isinstance(device, NamedSharding):
            device.check(shape, "device", "an array")
        return placed(broadcast_in_dim(value, shape, ()), device)
    host = np.empty(shape, aval.dtype)
    host.fill(value)
    return Array(aval, host) if device is None else on_device(aval, host, device)


def on_device(aval: ShapedArray, host: np.ndarray, device: Any) -> Array:
    """An array of values that are on the host, on a device or as a sharding says that the user named."""
    if isinstance(device, NamedSharding):
        device.check(aval.shape, "device", "an array")
    return Array(aval, host, None, device.device if isinstance(device, SingleDeviceSharding) else device)


# -- From values


@moves("object")
def array(
    object: Any, dtype: Any = None, copy: bool = True, order: str | None = "K", ndmin: int = 0, *, device: Any = None
) -> Any:
    """An array of what is given: numbers, nested lists of numbers, arrays and tracers, NumPy arrays, and other arrays.

    Args:
      object: a number, an array, a (nested) list or tuple of these, or an object with `__jax_array__`, `__array__`,
        `__dlpack__` or a buffer.
      dtype: of the result; by default the one that all entries promote to, weak for a Python scalar alone.
      copy: an array is copied; values are immutable, so this is seen only when one of the two is donated.
      order: arrays have no memory order, so only "K", "C", "A" and None are taken.
      ndmin: axes are added in front until there are so many.
      device: where to put it, by default the default device.
    Raises:
      TypeError: entries are not numbers, such as text.
      ValueError: lists of different lengths; None.
      OverflowError: a Python integer that the dtype can't hold.

    >>> import xpr.numpy as jnp
    >>> jnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> jnp.array([1, 2.5], dtype=jnp.bfloat16)
    Array([1, 2.5], dtype=bfloat16)
    """
    if order not in ("K", "C", "A", None):
        raise NotImplementedError(f"array: arrays have no memory order, so order={order!r} can't be had. Leave it out.")
    result = _array_of(object, None if dtype is None else requested_dtype(dtype), copy)
    if ndmin and result.aval.ndim < ndmin:
        result = reshape(result, (1,) * (ndmin - result.aval.ndim) + result.aval.shape)
    return result if device is None else placed(result, device)


@moves("a")
def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, device: Any = None
) -> Any:
    """`jnp.array`, but an array is given back as it is; a NumPy array is copied unless copy is False.

    >>> import xpr.numpy as jnp
    >>> jnp.asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if copy is False and type(a) is np.ndarray and a.dtype in dtypes.ANY and not dtypes.is_narrowed(a.dtype):
        if dtype is None or dtypes.canonical(dtype) == a.dtype:
            return placed(from_host(a), device)
    return array(a, dtype, bool(copy), order, device=device)


def _array_of(x: Any, dtype: np.dtype | None, copy: bool) -> Any:
    kind = type(x)
    if kind in SCALARS:
        return _of_scalar(x, dtype)
    if kind is list or kind is tuple:
        return _of_sequence(x, dtype)
    if kind is Array or isinstance(x, Tracer):
        if dtype is not None and (dtype != x.aval.dtype or x.aval.weak_type):
            return convert(x, dtype)
        return copied(x) if copy and kind is Array else x
    if isinstance(x, np.ndarray):
        return _of_host(x, dtype)
    if isinstance(x, np.generic):
        return _of_host(np.asarray(x), dtypes.canonical(x.dtype) if dtype is None else dtype, True)
    return _array_of(_unwrapped(x), dtype, copy)


def copied(x: Array) -> Array:
    """An array with the same value that shares no memory with `x`, so that either may be donated."""
    if not is_eager():
        return x
    if x._host is not None or x.device.platform == "cpu":
        return Array(x.aval, np.array(x.host), None, x._device)
    return copy_p.bind(x)


def _of_scalar(x: Any, dtype: np.dtype | None) -> Array:
    """A Python scalar: weakly typed where no dtype was asked for."""
    aval = python_scalar_aval(type(x)) if dtype is None else ShapedArray((), dtype)
    target = aval.dtype
    if type(x) is int and target in dtypes.INTEGERS:
        try:
            return Array(aval, target.type(x))
        except OverflowError:
            raise _overflow(x, target) from None
    if type(x) is complex and target not in dtypes.COMPLEX:
        raise TypeError(f"array: {x!r} is complex, and {target.name} is not. Take x.real or x.imag.")
    return Array(aval, np.asarray(x).astype(target)[()])


def _overflow(x: Any, dtype: np.dtype) -> OverflowError:
    way_out = ""
    if dtype == dtypes.int32:
        way_out = ' Switch 64-bit types on with xpr.config.update("enable_x64", True), or give a float.'
    return OverflowError(f"The Python integer {x} does not fit in {dtype.name}.{way_out}")


def _of_host(x: np.ndarray, dtype: np.dtype | None, fresh: bool = False) -> Array:
    """A NumPy array, copied unless nobody else has it."""
    if x.dtype not in dtypes.ANY:
        if x.dtype.isnative or x.dtype.newbyteorder("=") not in dtypes.ANY:
            raise TypeError(_not_numeric(x))
        x = x.astype(x.dtype.newbyteorder("="))
    if dtype is None:
        value = narrowed(x)
    elif x.dtype != dtype:
        if x.dtype in dtypes.COMPLEX and dtype not in dtypes.COMPLEX and dtype != dtypes.bool_:
            x = x.real
        with np.errstate(all="ignore"):
            value = x.astype(dtype)
    else:
        value = x
    return from_host(value.copy() if value is x and not fresh else value)


def _not_numeric(x: Any) -> str:
    return (
        f"array: {describe(x)} is not numeric. Arrays hold booleans, integers, floats and complex numbers; "
        "keep other objects in Python, or encode them as numbers first."
    )


def _unwrapped(x: Any) -> Any:
    """What an object of another library has to say of its value: something that `_array_of` knows."""
    if x is None:
        raise ValueError("array: None is not a value that an array can hold. Was a result not returned?")
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    if isinstance(x, (list, tuple)):
        return list(x)
    if isinstance(x, range):
        return np.arange(x.start, x.stop, x.step)
    if isinstance(x, (bool, int, float, complex)):  # a subclass, such as an IntEnum
        return next(kind for kind in (bool, int, float, complex) if isinstance(x, kind))(x)  # type: ignore[arg-type]  # each takes its own kind
    if hasattr(x, "__array__"):
        return np.asarray(x)
    if hasattr(x, "__dlpack__"):
        return from_dlpack(x)
    try:
        return np.array(memoryview(x))  # a buffer, as array.array has
    except (TypeError, ValueError):
        raise TypeError(_not_numeric(x)) from None


# Lists. Those of Python scalars alone, the common case, are left to NumPy; an entry with a dtype of its own makes
# promotion necessary, and a tracer, or an array while others are looking, makes the list an operation.


def _kinds(items: Sequence[Any]) -> set[type]:
    """The types of the entries, at any depth."""
    kinds = set(map(type, items))
    if any(issubclass(kind, (list, tuple)) for kind in kinds):
        kinds = {kind for kind in kinds if not issubclass(kind, (list, tuple))}
        for item in items:
            if isinstance(item, (list, tuple)):
                kinds |= _kinds(item)
    return kinds


def _of_sequence(x: Sequence[Any], dtype: np.dtype | None) -> Any:
    kinds = _kinds(x)
    if kinds <= SCALARS:
        return _of_numbers(x, dtype)
    leaves: list[Any] = []
    x = _with_arrays(x, leaves)
    if dtype is None:
        dtype, _ = dtypes.promote_all([(a.dtype, a.weak_type) for a in {aval_of(leaf) for leaf in leaves}])
    if all(_is_on_host(leaf) for leaf in leaves):
        with np.errstate(all="ignore"):
            return from_host(_regular(lambda: np.array(_hosts(x), dtype=dtype)))
    return _stacked(x, dtype)


def _of_numbers(x: Sequence[Any], dtype: np.dtype | None) -> Array:
    """Nested lists of Python scalars."""
    if dtype is not None:
        try:
            value = _regular(lambda: np.array(x, dtype=dtype))
        except OverflowError as error:
            raise OverflowError(f"array: {error}. Choose a wider dtype.") from None
        return Array(ShapedArray(value.shape, dtype), value)
    value = _regular(lambda: np.array(x))
    if value.dtype.kind in "iuO":
        value = _fitting(value, dtypes.of_python(int))
    target = dtypes.canonical(value.dtype)
    if target != value.dtype:
        with np.errstate(all="ignore"):
            value = value.astype(target)
    return Array(ShapedArray(value.shape, target), value)


def _fitting(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Python integers, which NumPy holds as int64 or, where they are too large, as objects, in the default dtype."""
    bounds = np.iinfo(dtype)
    for extreme in (value.max(), value.min()):
        if not bounds.min <= extreme <= bounds.max:
            raise _overflow(extreme, dtype)
    return value.astype(dtype, copy=False)


def _regular(make: Callable[[], np.ndarray]) -> np.ndarray:
    """What NumPy makes of nested lists, with a message of ours where they are ragged."""
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"array: the nested lists are not of equal lengths, so they are no array ({error}).") from None


def _with_arrays(x: Any, leaves: list[Any]) -> Any:
    """Nested lists whose entries are scalars, arrays or tracers, which are also added to `leaves`."""
    if isinstance(x, (list, tuple)):
        return [_with_arrays(item, leaves) for item in x]
    while not (type(x) in SCALARS or type(x) is Array or isinstance(x, (Tracer, np.ndarray, np.generic))):
        x = _unwrapped(x)
        if isinstance(x, (list, tuple)):
            return _with_arrays(x, leaves)
    if isinstance(x, np.ndarray) and x.dtype not in dtypes.ANY:
        raise TypeError(_not_numeric(x))
    leaves.append(x)
    return x


def _is_on_host(x: Any) -> bool:
    if type(x) is Array:
        return x._device is None and is_eager() and (x._host is not None or x.aval.size <= HOST_LIMIT)
    return not isinstance(x, Tracer)


def _hosts(x: Any) -> Any:
    if isinstance(x, list):
        return [_hosts(item) for item in x]
    return np.asarray(x.host) if type(x) is Array else x


def _stacked(x: Any, dtype: np.dtype) -> Any:
    """Nested lists with traced entries: every list joins its items along a new first axis."""
    if not isinstance(x, list):
        return convert(x if hasattr(x, "aval") else _array_of(x, dtype, True), dtype)
    parts = [_stacked(item, dtype) for item in x]
    shapes = {aval_of(part).shape for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"array: items of shapes {', '.join(map(str, sorted(shapes)))} can't be stacked to an array.")
    if not parts:
        return zeros((0,), dtype)
    return join([expand_dims(part, (0,)) for part in parts], 0)


@moves("a")
def copy(a: Any, order: str | None = None) -> Any:
    """The array itself, as a new array.

    >>> import xpr.numpy as jnp
    >>> jnp.copy(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    return array(as_operand(a), order=order)


# -- Filled


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of zeros, float by default.

    >>> import xpr.numpy as jnp
    >>> jnp.zeros((2, 3))
    Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    return _constant(shape, 0, dtype, device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of ones, float by default.

    >>> import xpr.numpy as jnp
    >>> jnp.ones(2, int)
    Array([1, 1], dtype=int32)
    """
    return _constant(shape, 1, dtype, device)


def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array whose values don't matter; they are zeros.

    >>> import xpr.numpy as jnp
    >>> jnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _constant(shape, 0, dtype, device)


def _constant(shape: Any, value: int, dtype: Any, device: Any) -> Any:
    target = chosen_dtype(dtype)
    aval = ShapedArray(shape_of(shape), target)
    return _filled(aval.shape, target.type(value), aval, device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of one value repeated; the value may be an array that broadcasts to the shape.

    >>> import xpr.numpy as jnp
    >>> jnp.full(2, 7.0)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    fill_value = as_operand(fill_value)
    own = aval_of(fill_value)
    target, weak = (own.dtype, own.weak_type) if dtype is None else (requested_dtype(dtype), False)
    return _full(shape_of(shape), fill_value, target, weak, device)


def _full(shape: tuple[int, ...], value: Any, dtype: np.dtype, weak: bool, device: Any) -> Any:
    value = convert(value, dtype, weak)
    if type(value) in SCALARS or isinstance(value, np.generic):
        return _filled(shape, value, ShapedArray(shape, dtype, weak), device)
    own = value.aval.shape
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1])):
        raise ValueError(f"full: a value of shape {own} does not broadcast to shape {shape}.")
    return placed(broadcast_to(value, shape), device)


@moves("a")
def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the shape and dtype of another array.

    >>> import xpr.numpy as jnp
    >>> jnp.zeros_like(jnp.array([1.0, 2.0]))
    Array([0., 0.], dtype=float32)
    """
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Ones of the shape and dtype of another array.

    >>> import xpr.numpy as jnp
    >>> jnp.ones_like(jnp.array([1.0, 2.0]))
    Array([1., 1.], dtype=float32)
    """
    return full_like(a, 1, dtype, shape, device=device)


@moves("prototype")
def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """An array of the shape and dtype of another, whose values don't matter; they are zeros.

    >>> import xpr.numpy as jnp
    >>> jnp.empty_like(jnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return full_like(prototype, 0, dtype, shape, device=device)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """One value repeated, in the shape and dtype of another array (or of anything with a shape and a dtype).

    It lies on several devices as the other array does, unless a shape or a device is asked for.

    >>> import xpr.numpy as jnp
    >>> jnp.full_like(jnp.array([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    aval = _like(a)
    if device is None and shape is None and type(a) is Array:
        device = a._device if type(a._device) is NamedSharding else None
    target, weak = (aval.dtype, aval.weak_type) if dtype is None else (requested_dtype(dtype), False)
    return _full(aval.shape if shape is None else shape_of(shape), as_operand(fill_value), target, weak, device)


def _like(a: Any) -> ShapedArray:
    aval = getattr(a, "aval", None)
    if aval is not None:
        return aval
    if hasattr(a, "shape") and hasattr(a, "dtype"):
        return ShapedArray(tuple(a.shape), dtypes.canonical(a.dtype), getattr(a, "weak_type", False))
    return aval_of(a)


# -- From other libraries


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what another library's array holds, sharing its memory where that can be done.

    Memory is shared where it lies on the same device and is aligned to 64 bytes; the other library must then not write
    to it any more.

    Args:
      x: an object with `__dlpack__` and `__dlpack_device__`.
      device: where to put it, by default the default device.
      copy: True to copy always.
    Raises:
      TypeError: `x` does not speak DLPack, or lies on a device of an unknown kind.

    >>> import numpy as np, xpr.numpy as jnp
    >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    buffer, aval = compiler.from_dlpack(x, device or devices.default_device(), copy)
    if dtypes.is_narrowed(aval.dtype):
        return placed(_of_host(compiler.get(buffer, aval), None), device)
    return Array(aval, None, buffer, device)
