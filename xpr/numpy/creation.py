"""Array creation: from Python values, NumPy arrays and DLPack, and from one value repeated.

While operations run at once, small arrays are made on the host directly, which costs about a microsecond; the device
gets them when a compiled program asks. While a function is staged, a filled array is an operation, and values from the
host are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend import buffers, devices
from xpr.backend.array import Array, from_host, from_words, placement_like
from xpr.backend.sharding import NamedSharding, SingleDeviceSharding, typed
from xpr.compile import transfer_guard
from xpr.compile.evaluate import EvalTrace
from xpr.compile.over_mesh import replicated
from xpr.compile.placement import to_device
from xpr.core.avals import ShapedArray, aval_of, describe, integer, is_key, overflow, python_scalar_aval
from xpr.core.interpreter import Tracer, context
from xpr.errors import ArgumentError
from xpr.numpy.axes import broadcasts_to
from xpr.numpy.promotion import SCALARS, as_operand, common_dtype, convert, narrowed, requested_dtype
from xpr.primitives.collectives.varying import varying_as
from xpr.primitives.elementwise import copy_p
from xpr.primitives.random_keys import random_wrap
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, expand_dims, reshape, shape_of
from xpr.primitives.sharding_constraint import constrain_to, sharded
from xpr.primitives.slicing import concatenate as join

__all__ = [
    "array", "asarray", "copy", "empty", "empty_like", "from_dlpack", "full", "full_like", "ones", "ones_like", "zeros",
    "zeros_like",
]  # fmt: skip

LARGEST_ON_HOST = 1 << 20  # elements of new arrays; a larger one is better filled by its device than sent there

# -- What the functions share


def is_eager() -> bool:
    """Whether operations are evaluated at once, because no transformation is tracing."""
    return type(context.trace) is EvalTrace


def chosen_dtype(dtype: Any, default: type = float) -> np.dtype:
    """The dtype asked for, or that of Python's `default`."""
    return dtypes.of_python(default) if dtype is None else requested_dtype(dtype)


def _filled(shape: tuple[int, ...], value: Any, aval: ShapedArray, device: Any = None) -> Any:
    """An array filled with a Python or NumPy scalar; `aval` is its type."""
    if shape and not (is_eager() and aval.size <= LARGEST_ON_HOST):
        if isinstance(device, NamedSharding):
            device.check(shape, "device", "an array")
        return to_device(broadcast_in_dim(value, shape, ()), device)
    host = np.empty(shape, aval.dtype)
    host.fill(value)
    return placed(Array(aval, host), None) if device is None else on_device(aval, host, device)


def on_device(aval: ShapedArray, host: np.ndarray, device: Any) -> Array:
    """A host array as an `Array` on a device, or with a sharding, that the user chose."""
    if isinstance(device, NamedSharding):
        device.check(aval.shape, "device", "an array")
    if isinstance(device, SingleDeviceSharding):
        return to_device(Array(aval, host), device)
    return Array(typed(aval, device), host, None, device)


# -- From values


def array(
    object: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of a number, (nested) lists of numbers, or an array of this or another library.

    Args:
      object: a number, an array, a (nested) list or tuple of these, or an object with `__jax_array__`, `__array__`,
        `__array_interface__`, `__dlpack__` or a buffer; with a dtype also what NumPy reads as numbers, such as text.
      dtype: of the result; None for the dtype to which all elements promote, weak for a Python scalar alone.
      copy: whether an array is copied, which shows only when one of the two is donated.
      order: "K", "C", "A" or None; arrays have no memory order.
      ndmin: the least number of axes; missing ones are added in front, with size 1.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array.

    Raises:
      TypeError: elements are not numbers.
      ValueError: lists have different lengths, a value is None, or text is no number of the dtype.
      OverflowError: a Python integer is out of the dtype's range.
      NotImplementedError: `order` is "F".

    >>> import xpr.numpy as jnp
    >>> jnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> jnp.array([1, 2.5], dtype=jnp.bfloat16)
    Array([1, 2.5], dtype=bfloat16)
    """
    if out_sharding is not None:
        return sharded(array(object, dtype, copy, order, ndmin, device=device), out_sharding, "array")
    if order not in ("K", "C", "A", None):
        raise NotImplementedError(f"array: arrays have no memory order, so order={order!r} can't be had. Leave it out.")
    if type(object) is np.ndarray and object.dtype.kind == "T":
        return to_device(_of_strings(object, dtype), device)
    result = _array_of(object, None if dtype is None else requested_dtype(dtype), copy)
    if ndmin and result.aval.ndim < ndmin:
        result = reshape(result, (1,) * (ndmin - result.aval.ndim) + result.aval.shape)
    return replicated(result) if result is object and device is None and not copy else placed(result, device)


def placed(x: Any, device: Any) -> Any:
    """A new array on the device, or with the sharding, that the user chose; None for the default one.

    In functions that are staged it is a tracer, as what is computed from it.
    """
    x = replicated(x) if device is None else to_device(x, device)
    return context.trace.constant_of(x) if type(x) is Array else x


def on_no_device(x: Any) -> Any:
    """An array of a value, which is not put anywhere; also of strings."""
    if type(x) is np.ndarray and x.dtype.kind == "T":
        return _of_strings(x, None)
    return _array_of(x, None, False)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of a value; see `array`, but an array is returned itself.

    Args:
      a: see `array`.
      dtype: of the result; None for the dtype to which all elements promote, weak for a Python scalar alone.
      order: "K", "C", "A" or None; arrays have no memory order.
      copy: whether to copy; None copies NumPy arrays alone, False shares their memory where that is possible.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array.

    Raises:
      TypeError: elements are not numbers.
      ValueError: lists have different lengths, a value is None, or text is no number of the dtype.
      OverflowError: a Python integer is out of the dtype's range.

    >>> import xpr.numpy as jnp
    >>> jnp.asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if out_sharding is not None:
        return sharded(asarray(a, dtype, order, copy=copy, device=device), out_sharding, "asarray")
    if copy is False and type(a) is np.ndarray and a.dtype in dtypes.ANY and not dtypes.is_narrowed(a.dtype):
        if dtype is None or dtypes.requested(dtype) == a.dtype:
            return placed(_of_host(a, None, fresh=True), device)
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
        return copied(x) if copy else x
    if isinstance(x, np.ndarray):
        return _of_host(x, dtype)
    if isinstance(x, np.generic):
        return _of_host(np.asarray(x), dtypes.canonical(x.dtype) if dtype is None else dtype, True)
    return _array_of(_unwrapped(x, dtype), dtype, copy)


def copied(x: Any) -> Any:
    """An array with the same value that shares no memory with `x`, so that either may be donated."""
    if type(x) is not Array:
        return copy_p.bind(x)
    if not isinstance(context.trace, EvalTrace):
        return x
    on_one_cpu = type(x._device) is not NamedSharding and (x._host is not None or x.device.platform == "cpu")
    if on_one_cpu or x.aval.dtype == dtypes.string:
        return Array(x.aval, np.array(x.host), None, x._device)
    return copy_p.bind(x)


def _of_scalar(x: Any, dtype: np.dtype | None) -> Array:
    """A Python scalar: weakly typed where no dtype was asked for."""
    if transfer_guard.in_use:
        transfer_guard.check_from_host(x)
    aval = python_scalar_aval(type(x)) if dtype is None else ShapedArray((), dtype)
    target = aval.dtype
    if type(x) in (int, float) and target in dtypes.INTEGERS:
        return Array(aval, integer(int(x), target))
    if type(x) is complex and target not in dtypes.COMPLEX:
        raise TypeError(f"array: {x!r} is complex, and {target.name} is not. Take x.real or x.imag.")
    return Array(aval, np.asarray(x).astype(target)[()])


def _of_host(x: np.ndarray, dtype: np.dtype | None, fresh: bool = False) -> Array:
    """A NumPy array as an `Array`, copied unless it is `fresh`, with no other reference."""
    if transfer_guard.in_use:
        transfer_guard.check_from_host(x)
    if x.dtype not in dtypes.ANY:
        native = not x.dtype.isnative and x.dtype.newbyteorder("=") in dtypes.ANY
        x = x.astype(x.dtype.newbyteorder("=")) if native else _read(x, dtype)
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


def _of_strings(x: np.ndarray, dtype: Any) -> Array:
    """An array of strings, which keeps its dtype.

    Raises:
      TypeError: another dtype is asked for, or a string may be missing.
    """
    if x.dtype != dtypes.string:
        raise TypeError(_not_numeric(x))
    if dtype is not None and dtype != dtypes.string:
        raise TypeError(
            f"Cannot make an array with dtype {np.dtype(dtype).name} from an object with dtype {x.dtype.name}: strings "
            "are not converted. Convert them in NumPy, x.astype(dtype)."
        )
    return Array(ShapedArray(x.shape, dtypes.string), x.copy())


def _read(x: Any, dtype: np.dtype | None) -> np.ndarray:
    """What NumPy makes of text and Python objects, such as decimals and fractions, in the dtype that was asked for."""
    if dtype is None or dtype not in dtypes.ANY:
        raise TypeError(_not_numeric(x))
    host = np.asarray(x)
    if host.dtype.kind not in "USO":
        raise TypeError(_not_numeric(x))
    try:
        with np.errstate(all="ignore"):
            return host.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kind = next(kind for kind in (TypeError, ValueError, OverflowError) if isinstance(error, kind))
        message = f"array: {describe(x)} can't be read as {dtype.name}: {error}. Make numbers of it first."
        raise kind(message) from None


def _not_numeric(x: Any) -> str:
    return (
        f"array: {describe(x)} is not numeric. Arrays hold booleans, integers, floats and complex numbers; "
        "keep other objects in Python, or encode them as numbers first."
    )


_NUMPY_READS = ("__array__", "__array_interface__", "__array_struct__")


def _unwrapped(x: Any, dtype: np.dtype | None) -> Any:
    """The value of an object of another library, as something that `_array_of` converts."""
    if x is None:
        raise ValueError("array: None is not a valid value for jnp.array. Was a result not returned?")
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    if isinstance(x, (list, tuple)):
        return list(x)
    if isinstance(x, range):
        return np.arange(x.start, x.stop, x.step)
    if isinstance(x, (bool, int, float, complex)):  # a subclass, such as an IntEnum
        return next(kind for kind in (bool, int, float, complex) if isinstance(x, kind))(x)  # type: ignore[arg-type]  # each takes its own kind
    if any(hasattr(x, name) for name in _NUMPY_READS) and not hasattr(x, "__cuda_array_interface__"):
        return np.asarray(x)
    if hasattr(x, "__dlpack__"):
        return from_dlpack(x)
    try:
        return np.array(memoryview(x))  # a buffer, as array.array has
    except (TypeError, ValueError):
        return list(x) if _is_sequence(x) else _read(x, dtype)


def _is_sequence(x: Any) -> bool:
    """Whether NumPy reads the elements of an object by position, as of a deque or of a view that a library defines."""
    return all(hasattr(type(x), name) for name in ("__len__", "__getitem__")) and not isinstance(x, (str, Mapping))


# Lists. Those of Python scalars alone, the common case, are left to NumPy; an element with a dtype of its own makes
# promotion necessary, and a tracer, or an array while others are looking, makes the list an operation.


def _kinds(items: Sequence[Any]) -> set[type]:
    """The types of the elements, at any depth."""
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
    x = _with_arrays(x, leaves, dtype)
    if dtype is None:
        dtype, _ = common_dtype([(a.dtype, a.weak_type) for a in {aval_of(leaf) for leaf in leaves}])
    if all(_is_on_host(leaf) for leaf in leaves):
        with np.errstate(all="ignore"):
            words = dtypes.uint32 if type(dtype) is dtypes.KeyType else None
            host = _regular(lambda: np.array(_hosts(x), dtype=words or dtype))
            return from_words(host, dtype) if words else from_host(host)
    return _stacked(x, dtype)


def _of_numbers(x: Sequence[Any], dtype: np.dtype | None) -> Array:
    """Nested lists of Python scalars."""
    if transfer_guard.in_use:
        transfer_guard.check_from_host(_regular(lambda: np.asarray(x)))
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
    for limit in (value.max(), value.min()):
        if not bounds.min <= limit <= bounds.max:
            raise overflow(limit, dtype)
    return value.astype(dtype, copy=False)


def _regular(make: Callable[[], np.ndarray]) -> np.ndarray:
    """The NumPy array of nested lists; an error if they are ragged."""
    try:
        return make()
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(f"array: the nested lists are not of equal lengths, so they are no array ({error}).") from None


def _with_arrays(x: Any, leaves: list[Any], dtype: np.dtype | None) -> Any:
    """Nested lists whose elements are scalars, arrays or tracers, which are also added to `leaves`."""
    if isinstance(x, (list, tuple)):
        return [_with_arrays(item, leaves, dtype) for item in x]
    while not (type(x) in SCALARS or type(x) is Array or isinstance(x, (Tracer, np.ndarray, np.generic))):
        x = _unwrapped(x, dtype)
        if isinstance(x, (list, tuple)):
            return _with_arrays(x, leaves, dtype)
    if isinstance(x, np.ndarray) and x.dtype not in dtypes.ANY:
        x = _read(x, dtype)
    leaves.append(x)
    return x


def _is_on_host(x: Any) -> bool:
    if type(x) is Array:
        return x._device is None and is_eager() and (x._host is not None or x.aval.size <= LARGEST_ON_HOST)
    return not isinstance(x, Tracer)


def _hosts(x: Any) -> Any:
    if isinstance(x, list):
        return [_hosts(item) for item in x]
    return np.asarray(x.host) if type(x) is Array else x


def _stacked(x: Any, dtype: np.dtype) -> Any:
    """Nested lists with traced elements: every list joins its items along a new first axis."""
    if not isinstance(x, list):
        return convert(x if hasattr(x, "aval") else _array_of(x, dtype, True), dtype)
    parts = [_stacked(item, dtype) for item in x]
    shapes = {aval_of(part).shape for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"array: items of shapes {', '.join(map(str, sorted(shapes)))} can't be stacked to an array.")
    if not parts:
        return zeros((0,), dtype)
    return join([expand_dims(part, (0,)) for part in parts], 0)


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of an array, which shares no memory with it.

    Args:
      a: see `array`.
      order: "K", "C", "A" or None; arrays have no memory order.

    Returns:
      An array of the shape and dtype of `a`.

    >>> import xpr.numpy as jnp
    >>> jnp.copy(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    return array(as_operand(a), order=order)


# -- Filled


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros.

    Args:
      shape: the shape, an integer or a sequence of them.
      dtype: of the result; None for the default float dtype.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.zeros((2, 3))
    Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    return sharded(_constant("zeros", shape, 0, dtype, device), out_sharding, "zeros")


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones.

    Args:
      shape: the shape, an integer or a sequence of them.
      dtype: of the result; None for the default float dtype.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.ones(2, int)
    Array([1, 1], dtype=int32)
    """
    return sharded(_constant("ones", shape, 1, dtype, device), out_sharding, "ones")


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array whose values are not specified; they are zeros.

    Args:
      shape: the shape, an integer or a sequence of them.
      dtype: of the result; None for the default float dtype.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return sharded(_constant("empty", shape, 0, dtype, device), out_sharding, "empty")


def _constant(name: str, shape: Any, value: int, dtype: Any, device: Any) -> Any:
    if type(dtype) is int:
        raise ArgumentError(
            f"{name}: Did you accidentally write `jax.numpy.{name}({shape}, {dtype})` when you meant "
            f"`jax.numpy.{name}(({shape}, {dtype}))`? The second argument is the dtype, and {dtype} is none."
        )
    target = chosen_dtype(dtype)
    aval = ShapedArray(shape_of(shape), target)
    if is_key(aval):
        return _keys_filled(aval, value, device)
    return _filled(aval.shape, target.type(value), aval, device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array filled with one value.

    Args:
      shape: the shape, an integer or a sequence of them.
      fill_value: a scalar, or an array that broadcasts to the shape.
      dtype: of the result; None for that of `fill_value`.
      device: a device or sharding for the result; None for the default device.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array of the shape and dtype.

    Raises:
      ValueError: `fill_value` does not broadcast to the shape.

    >>> import xpr.numpy as jnp
    >>> jnp.full(2, 7.0)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    fill_value = as_operand(fill_value)
    fill_aval = aval_of(fill_value)
    target, weak = (fill_aval.dtype, fill_aval.weak_type) if dtype is None else (requested_dtype(dtype), False)
    return sharded(_full(shape_of(shape), fill_value, target, weak, device), out_sharding, "full")


def _keys_filled(aval: ShapedArray, number: Any, device: Any) -> Any:
    """Keys whose words all are a number."""
    dtype: Any = aval.dtype
    words = _full(aval.physical.shape, number, aval.physical.dtype, False, None)
    return to_device(random_wrap(words, dtype._impl), device)


def _full(shape: tuple[int, ...], value: Any, dtype: np.dtype, weak: bool, device: Any) -> Any:
    aval = ShapedArray(shape, dtype)
    if is_key(aval) and not is_key(aval_of(value)):
        return _keys_filled(aval, value, device)
    value = convert(value, dtype, weak)
    if type(value) in SCALARS or isinstance(value, np.generic):
        return _filled(shape, value, ShapedArray(shape, dtype, weak), device)
    value_shape = value.aval.shape
    if not broadcasts_to(value_shape, shape):
        raise ValueError(f"full: a value of shape {value_shape} does not broadcast to shape {shape}.")
    return to_device(broadcast_to(value, shape), device)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros with the shape and dtype of another.

    Args:
      a: an array, or anything with a shape and a dtype.
      dtype: of the result; None for that of `a`.
      shape: of the result; None for that of `a`.
      device: a device or sharding for the result; None for that of `a`.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array.

    >>> import xpr.numpy as jnp
    >>> jnp.zeros_like(jnp.array([1.0, 2.0]))
    Array([0., 0.], dtype=float32)
    """
    return sharded(full_like(a, 0, dtype, shape, device=device), out_sharding, "zeros_like")


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones with the shape and dtype of another.

    Args:
      a: an array, or anything with a shape and a dtype.
      dtype: of the result; None for that of `a`.
      shape: of the result; None for that of `a`.
      device: a device or sharding for the result; None for that of `a`.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array.

    >>> import xpr.numpy as jnp
    >>> jnp.ones_like(jnp.array([1.0, 2.0]))
    Array([1., 1.], dtype=float32)
    """
    return sharded(full_like(a, 1, dtype, shape, device=device), out_sharding, "ones_like")


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """An array with the shape and dtype of another, whose values are not specified; they are zeros.

    Args:
      prototype: an array, or anything with a shape and a dtype.
      dtype: of the result; None for that of `prototype`.
      shape: of the result; None for that of `prototype`.
      device: a device or sharding for the result; None for that of `prototype`.

    Returns:
      An array.

    >>> import xpr.numpy as jnp
    >>> jnp.empty_like(jnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return full_like(prototype, 0, dtype, shape, device=device)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array filled with one value, with the shape and dtype of another.

    It is on the device of the other array, or has its sharding, unless a device is asked for; with another shape only
    where that array is not sharded.

    Args:
      a: an array, or anything with a shape and a dtype.
      fill_value: a scalar, or an array that broadcasts to the shape.
      dtype: of the result; None for that of `a`.
      shape: of the result; None for that of `a`.
      device: a device or sharding for the result; None for that of `a`.
      out_sharding: a sharding for the result; None for the compiler's choice.

    Returns:
      An array.

    >>> import xpr.numpy as jnp
    >>> jnp.full_like(jnp.array([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    aval = _like(a)
    if device is None:
        device = placement_like(a, shape is None)
    target, weak = (aval.dtype, aval.weak_type) if dtype is None else (requested_dtype(dtype), False)
    fill_value = as_operand(fill_value)
    weak = weak and not aval_of(fill_value).shape
    result = _full(aval.shape if shape is None else shape_of(shape), fill_value, target, weak, device)
    if aval.varying:  # inside a shard_map
        result = varying_as(result, aval)
    if out_sharding is None and device is None and shape is None and aval.explicit is not None:
        return constrain_to(result, aval)
    return sharded(result, out_sharding, "full_like")


def _like(a: Any) -> ShapedArray:
    aval = getattr(a, "aval", None)
    if aval is not None:
        return aval
    if hasattr(a, "shape") and hasattr(a, "dtype"):
        return ShapedArray(tuple(a.shape), dtypes.canonical(a.dtype), getattr(a, "weak_type", False))
    return aval_of(a)


# -- From other libraries


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of the values of another library's array, whose memory is shared where possible.

    Memory is shared where it is on the same device and aligned to 64 bytes; the other library must then not write to it
    any more.

    Args:
      x: an object with `__dlpack__` and `__dlpack_device__`.
      device: a device or sharding for the result; None for the default device.
      copy: True to copy always; None to share where possible.

    Returns:
      An array.

    Raises:
      TypeError: `x` does not support DLPack, or is on a device of an unknown kind.

    >>> import numpy as np, xpr.numpy as jnp
    >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    buffer, aval = buffers.from_dlpack(x, device or devices.default_device(), copy)
    if dtypes.is_narrowed(aval.dtype):
        return to_device(_of_host(buffers.get(buffer, aval), None), device)
    return Array(aval, None, buffer, device)
