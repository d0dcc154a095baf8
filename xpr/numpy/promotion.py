"""Promotion of operands to a common dtype, and broadcasting to a common shape.

The common cases are decided by a dictionary look-up or two: operands of one dtype, and a Python scalar beside an
array, which takes the array's dtype.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array, from_host
from xpr.compile import transfer_guard
from xpr.compile.evaluate import EvalTrace
from xpr.config import settings
from xpr.core.avals import ShapedArray, aval_of, describe, integer
from xpr.core.interpreter import Tracer, context
from xpr.core.source import depth_of_user, is_internal
from xpr.errors import ArgumentError, NarrowingWarning
from xpr.key_types import KeyType
from xpr.notices import warn
from xpr.primitives.composites import broadcast_operands, broadcast_shapes
from xpr.primitives.elementwise import convert_element_type_p
from xpr.primitives.shapes import broadcast_to, expand_dims
from xpr.primitives.slicing import select

SCALARS = frozenset({bool, int, float, complex})


def _converter(aval: ShapedArray, kind: type) -> Callable[[Any], Any] | None:
    """The conversion of Python scalars to the dtype of `aval`; None if the array is converted instead."""
    if type(aval.dtype) is KeyType or (kind is bool and aval.dtype != dtypes.bool_):
        return None  # which is refused, or may be by the setting numpy_dtype_promotion
    dtype, weak = dtypes.promote_pair(aval.dtype, aval.weak_type, dtypes.of_python(kind), kind is not bool)
    if dtype != aval.dtype or weak != aval.weak_type or dtypes.is_narrowed(dtype):  # which no scalar has
        return None
    if not weak:
        wraps = dtype in dtypes.INTEGERS and not settings.check_python_integers
        return partial(_typed_int, dtype=dtype) if wraps else dtype.type
    return complex if dtype in dtypes.COMPLEX else float if dtype in dtypes.FLOATS else int


_converters: dict[tuple[ShapedArray, type, bool, str, bool], Callable[[Any], Any] | None] = {}


def converter(aval: ShapedArray, kind: type) -> Callable[[Any], Any] | None:
    """The conversion of Python scalars to the dtype of `aval`, cached; None if the array is converted instead."""
    key = (aval, kind, settings.enable_x64, settings.explicit_x64_dtypes, settings.check_python_integers)
    try:
        return _converters[key]
    except KeyError:
        return _converters.setdefault(key, _converter(aval, kind))


def promoted_pair(x: Any, y: Any, name: str = "") -> tuple[Any, Any]:
    """Two operands in one dtype and in shapes that elementwise primitives take; messages say `name`."""
    a, b = getattr(x, "aval", None), getattr(y, "aval", None)
    if b is None and type(y) in SCALARS and a is not None:
        convert = converter(a, type(y))
        if convert is not None:
            return x, convert(y)
    elif a is None and type(x) in SCALARS and b is not None:
        convert = converter(b, type(x))
        if convert is not None:
            return convert(x), y
    x, y = promote_dtypes(x, y, name=name)
    return promote_ranks(x, y, name=name)


def promote_dtypes(*xs: Any, name: str = "") -> list[Any]:
    """The operands converted to the dtype to which they promote; messages say `name`, that of the operation."""
    xs = tuple(as_operand(x) for x in xs)
    avals = [aval_of(x) for x in xs]
    first = avals[0]
    if all(a.dtype == first.dtype and a.weak_type == first.weak_type for a in avals):
        return [convert(x, first.dtype) for x in xs] if first.weak_type and first.dtype == dtypes.bool_ else list(xs)
    if name and any(type(a.dtype) is KeyType for a in avals):
        listed = ", ".join(str(a.dtype) for a in avals)
        raise TypeError(f"{name} does not accept dtypes {listed}. {dtypes.NO_NUMBERS}")
    dtype, weak = common_dtype([(a.dtype, a.weak_type) for a in avals])
    return [convert(x, dtype, weak) for x in xs]


def common_dtype(types: list[tuple[np.dtype, bool]]) -> tuple[np.dtype, bool]:
    """The dtype to which the `(dtype, weak)` types of operands promote, and whether it is weak.

    Raises:
      TypePromotionError: they differ, numpy_dtype_promotion is "strict", and the user called the operation.
    """
    refuse_in_strict_mode(types)
    return dtypes.promote_all(types)


def refuse_in_strict_mode(types: list[tuple[np.dtype, bool]]) -> None:
    """Raises TypePromotionError where `common_dtype` does, for dtypes that are converted without a common one."""
    if settings.numpy_dtype_promotion == "strict" and _called_by_user():
        dtypes.refuse_promotion(types)


def promote_inexact(*xs: Any) -> list[Any]:
    """The operands converted to the floating-point or complex dtype to which they promote."""
    operands = list(map(as_operand, xs))
    if len(operands) == 1 and type(operands[0]) is Array and operands[0].aval.dtype in dtypes.INEXACT:
        return operands
    dtype, weak = common_dtype([(a.dtype, a.weak_type) for a in map(aval_of, operands)])
    return [convert(x, dtypes.to_inexact(dtype), weak) for x in operands]


def promote_ranks(*xs: Any, name: str = "") -> Any:
    """The operands in shapes that elementwise primitives take: of as many axes, of one size or 1, or scalars."""
    shapes = [aval_of(x).shape for x in xs]
    first = next((s for s in shapes if s), ())
    if all(s == first or not s for s in shapes):
        return xs
    if settings.numpy_rank_promotion != "allow":
        check_ranks(shapes)
    shape = broadcast_operands(shapes, name)
    if type(context.trace) is EvalTrace:  # the operation then broadcasts its operands itself, in one program
        ranks = [len(shape) - len(s) for s in shapes]
        return tuple(expand_dims(x, range(n)) if s and n else x for x, s, n in zip(xs, shapes, ranks))
    return tuple(broadcast_to(x, shape) if s and len(s) < len(shape) else x for x, s in zip(xs, shapes))


def promote_shapes(*xs: Any) -> Any:
    """The operands broadcast to one shape, scalars left as they are."""
    shapes = [aval_of(x).shape for x in xs]
    first = next((s for s in shapes if s), ())
    if all(s == first or not s for s in shapes):
        return xs
    if settings.numpy_rank_promotion != "allow":
        check_ranks(shapes)
    shape = broadcast_operands(shapes)
    return tuple(broadcast_to(x, shape) if s else x for x, s in zip(xs, shapes))


def check_ranks(shapes: Sequence[tuple[int, ...]]) -> None:
    """Warns of shapes of different numbers of axes, or refuses them, as numpy_rank_promotion says; scalars are fine."""
    unlike = [s for s in shapes if s]
    if len({len(s) for s in unlike}) < 2 or not _called_by_user():
        return
    *others, last = map(str, unlike)
    setting = settings.numpy_rank_promotion
    text = (
        f"operands with shapes {', '.join(others)} and {last} require rank promotion, and numpy_rank_promotion is "
        f'"{setting}". Reshape the shorter one, as in x[None, :], or set it to "allow".'
    )
    if setting == "raise":
        raise ValueError(text)
    warn(text, UserWarning, stacklevel=depth_of_user())


def _called_by_user() -> bool:
    """Whether the user called the operation that promotes its operands, rather than another function of xpr's.

    The operation is the first frame outside of this file with those of the same file that it goes through; operators
    and ufuncs are called through others.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    own = frame.f_code.co_filename if frame is not None else ""
    while frame is not None and frame.f_code.co_filename.endswith((own, *_WRAPPERS)):
        frame = frame.f_back
    return frame is None or not is_internal(frame.f_code.co_filename)


_WRAPPERS = ("numpy/methods.py", "numpy/ufunc_builders.py", "numpy/indexing/at.py")


def convert(x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """The operand in a canonical dtype; Python scalars and host values are converted on the host."""
    if type(x) in SCALARS and not dtypes.is_narrowed(dtype):
        if weak:
            kind = complex if dtype in dtypes.COMPLEX else float if dtype in dtypes.FLOATS else int
            if type(x) is kind:
                return x
            if kind is not int:
                return kind(x)
        elif not (type(x) is complex and dtype not in dtypes.COMPLEX):
            return np.asarray(x).astype(dtype)[()] if type(x) is not int else _typed_int(x, dtype)
    aval = aval_of(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)


def _typed_int(x: int, dtype: np.dtype) -> Any:
    """A Python integer as an operand of a dtype, modulo its range where `check_python_integers` is off.

    Raises:
      OverflowError: the dtype can't represent it.
    """
    if dtype not in dtypes.INTEGERS:
        return np.asarray(x).astype(dtype)[()]
    try:
        return integer(x, dtype)
    except OverflowError:
        if settings.check_python_integers:
            raise
    return np.asarray(integer(x, dtypes.of_python(int))).astype(dtype)[()]


def as_operand(x: Any) -> Any:
    """Anything array-like as an operand of a primitive; a host array is checked for narrowing.

    A 64-bit array that has outlived the block in which 64-bit types were on is narrowed.

    Raises:
      TypeError: `x` is a list or tuple, or no array at all.
    """
    if type(x) is Array or isinstance(x, Tracer):
        dtype = x.aval.dtype
        return convert(x, dtypes.canonical(dtype), x.aval.weak_type) if dtypes.narrows_arrays(dtype) else x
    if type(x) in SCALARS:
        return x
    if isinstance(x, np.ndarray):
        if transfer_guard.in_use:
            transfer_guard.check_from_host(x)
        return from_host(narrowed(x).copy())
    if isinstance(x, np.generic):
        return x
    if isinstance(x, (list, tuple)):
        raise TypeError(
            f"Expected an array, and got a {type(x).__name__}. Convert it with jnp.array(...): "
            "lists are not converted on the way, because each element would become an operation of its own."
        )
    wrapped = getattr(x, "__jax_array__", None)
    if wrapped is not None:
        return wrapped()
    aval_of(x)
    kinds: tuple[Any, ...] = (int, float, complex)
    return next((kind(x) for kind in kinds if isinstance(x, kind)), x)  # derived classes, such as IntEnum


def asarray_like(x: Any) -> Any:
    """An operand as an array or tracer, keeping its type."""
    x = as_operand(x)
    if hasattr(x, "aval"):
        return x
    aval = aval_of(x)
    if type(x) in SCALARS or isinstance(x, np.generic):
        number = integer(x, aval.dtype) if type(x) is int else x
        return from_host(np.asarray(number, aval.dtype), weak_type=aval.weak_type)
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type)


def truth(x: Any) -> Any:
    """The array as booleans, which are not weak: whether each element is not 0."""
    return convert(as_operand(x), dtypes.bool_)


def strong_unless_scalar(x: Any) -> Any:
    """An operand of a function that has constants; as in JAX, these are weak beside weak scalars, and nowhere else."""
    aval = aval_of(x)
    return convert(x, aval.dtype) if aval.weak_type and aval.shape else x


def arithmetic_operand(x: Any) -> Any:
    """An operand of arithmetic, with booleans converted to int32."""
    return convert(x, dtypes.int32) if aval_of(x).dtype == dtypes.bool_ else x


def arithmetic_operands(x: Any, y: Any, name: str) -> tuple[Any, Any]:
    """Two operands of arithmetic in one dtype and in shapes that elementwise primitives take; messages say `name`."""
    x, y = promoted_pair(x, y, name)
    return arithmetic_operand(x), arithmetic_operand(y)


def select_scalar(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`select` with operands that broadcast."""
    condition_shape = aval_of(condition).shape
    shape = broadcast_shapes(condition_shape, aval_of(on_true).shape, aval_of(on_false).shape)
    condition = broadcast_to(condition, shape) if condition_shape else condition
    return select(condition, broadcast_to(on_true, shape), broadcast_to(on_false, shape))


def narrowed(x: np.ndarray) -> np.ndarray:
    """A host array in its canonical dtype.

    Warns:
      NarrowingWarning: a 64-bit value changed on the way. Python shows it once for each line.
    """
    dtype = dtypes.canonical(x.dtype)
    if dtype == x.dtype:
        return x
    with np.errstate(all="ignore"):
        result = x.astype(dtype)
        same = result == x
    if not np.all(same | (x != x)):
        warn_of_changed_values(x.dtype, dtype)
    return result


def warn_of_changed_values(wide: np.dtype, narrow: np.dtype) -> None:
    """Warns that an array lost precision, though nobody asked for another dtype. JAX has no such warning."""
    warn_narrowing(f"An array of dtype {wide.name} was narrowed to {narrow.name}, and some of its values changed.")


def warn_narrowing(what: str) -> None:
    """Warns at the user's line that 64-bit values are being narrowed."""
    warn(
        f'{what} Switch 64-bit types on with xpr.config.update("enable_x64", True), or convert to 32 bits beforehand.',
        NarrowingWarning,
        stacklevel=depth_of_user(),
    )


_HELD = dtypes.ANY | {dtypes.float0}


def requested_dtype(dtype: Any) -> np.dtype:
    """A dtype that the user asked for by name, in canonical form.

    Raises:
      TypeError: arrays have no such dtype.
      ArgumentError: it is no dtype.
      ValueError: it is a 64-bit type, those are off, and the setting `explicit_x64_dtypes` is "error".
    Warns:
      NarrowingWarning: it is a 64-bit type and those are off.
    """
    try:
        canonical = dtypes.requested(dtype)
    except TypeError:
        way_out = (
            "Sizes are given as one tuple, as in zeros((2, 3))." if type(dtype) is int else "Give its name or x.dtype."
        )
        raise ArgumentError(f"{describe(dtype)} cannot be interpreted as a data type. {way_out}") from None
    if canonical not in _HELD:
        if type(canonical) is dtypes.KeyType:  # type: ignore[comparison-overlap]  # the one dtype that is not NumPy's
            return canonical
        strings = "; strings where a NumPy array has them" if canonical == dtypes.string else ""
        raise TypeError(
            f"dtype {canonical} was asked for. Arrays hold booleans, integers, floats and complex numbers{strings}."
        )
    if canonical in dtypes.NARROWED and dtype not in (int, float, complex):
        wide = np.dtype(dtype)
        if wide != canonical:
            warn_narrowing(f"dtype {wide.name} was asked for and {canonical.name} is used.")
    return canonical
