"""The part of JAX's module for GPU kernels that has a meaning on every platform: masks, atomic updates, hints.

Programs run one after the other, so that every update is atomic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.experimental.pallas import access
from xpr.numpy.arithmetic import maximum, minimum
from xpr.numpy.refs import get, set
from xpr.numpy.trigonometric import tanh
from xpr.numpy.where_select import where
from xpr.primitives.dot import dot_general
from xpr.primitives.precision import Precision

__all__ = [
    "CompilerParams", "approx_tanh", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "debug_barrier", "dot", "load", "max_contiguous", "store",
]  # fmt: skip


@dataclass(frozen=True)
class CompilerParams:
    """What Triton's compiler takes: hints, which change nothing."""

    num_warps: int | None = None
    num_stages: int | None = None


def load(
    ref: Any,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """What a ref or a view of one holds, at a mask.

    Args:
      ref: a ref, or `ref.at[index]`; with a mask, `ds(start, size)` in it may reach beyond the ref.
      mask: booleans that broadcast to its elements; None for all.
      other: what stands elsewhere; None for any number.
      cache_modifier: a hint, which changes nothing.
      eviction_policy: likewise.
      volatile: likewise.

    Returns:
      An array.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.load(ref, mask=jnp.array([True, False, True, False]), other=-1)
    Array([ 0, -1,  2, -1], dtype=int32)
    """
    return access.load(ref, mask, other)


def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Writes the elements of a ref or a view of one, at a mask.

    Args:
      ref: as for `load`.
      val: an array that broadcasts to its elements.
      mask: booleans that broadcast to them; None for all.
      eviction_policy: a hint, which changes nothing.

    Returns:
      None.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> inside = jnp.array([True, True, False, False])
    >>> triton.store(ref.at[xpr.ds(jnp.array(2), 4)], jnp.array([7, 8, 9, 9]), mask=inside)
    >>> ref
    Ref([0, 1, 7, 8], dtype=int32)
    """
    access.store(ref, val, mask)


def atomic_xchg(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Replaces the elements of a ref at an index.

    Args:
      x_ref_or_view: a ref, or a view of one.
      idx: an index by NumPy's rules; () for all.
      val: an array that broadcasts to the elements.
      mask: booleans that broadcast to them; None for all.

    Returns:
      The elements from before.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> triton.atomic_xchg(xpr.new_ref(jnp.arange(4)), 1, 7)
    Array(1, dtype=int32)
    """
    return access.updated(x_ref_or_view, idx, val, mask, lambda before, value: value, "set")


def atomic_add(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Adds to the elements of a ref at an index; returns those from before. Arguments are those of `atomic_xchg`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.atomic_add(ref, 1, 10), ref
    (Array(1, dtype=int32), Ref([ 0, 11,  2,  3], dtype=int32))
    """
    return access.updated(x_ref_or_view, idx, val, mask, lambda before, value: before + value, "add")


def atomic_max(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Maxima with the elements of a ref at an index; returns those from before. Arguments are those of `atomic_xchg`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.atomic_max(ref, 1, 10), ref
    (Array(1, dtype=int32), Ref([ 0, 10,  2,  3], dtype=int32))
    """
    return access.updated(x_ref_or_view, idx, val, mask, maximum, "max")


def atomic_min(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Minima with the elements of a ref at an index; returns those from before. Arguments are those of `atomic_xchg`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.atomic_min(ref, 1, -10), ref
    (Array(1, dtype=int32), Ref([  0, -10,   2,   3], dtype=int32))
    """
    return access.updated(x_ref_or_view, idx, val, mask, minimum, "min")


def atomic_and(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """`&` with the elements of a ref at an index; returns those from before. Arguments are those of `atomic_xchg`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.atomic_and(ref, 3, 6), ref
    (Array(3, dtype=int32), Ref([0, 1, 2, 2], dtype=int32))
    """
    return access.updated(x_ref_or_view, idx, val, mask, lambda before, value: before & value)


def atomic_or(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """`|` with the elements of a ref at an index; returns those from before. Arguments are those of `atomic_xchg`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.atomic_or(ref, 3, 6), ref
    (Array(3, dtype=int32), Ref([0, 1, 2, 7], dtype=int32))
    """
    return access.updated(x_ref_or_view, idx, val, mask, lambda before, value: before | value)


def atomic_xor(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """`^` with the elements of a ref at an index; returns those from before. Arguments are those of `atomic_xchg`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(jnp.arange(4))
    >>> triton.atomic_xor(ref, 3, 6), ref
    (Array(3, dtype=int32), Ref([0, 1, 2, 5], dtype=int32))
    """
    return access.updated(x_ref_or_view, idx, val, mask, lambda before, value: before ^ value)


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Replaces the number that a ref holds if it equals another number (compare and swap).

    Args:
      ref: a ref or view without axes.
      cmp: the number to compare with.
      val: the new number.

    Returns:
      The number from before.

    >>> import xpr
    >>> from xpr.experimental.pallas import triton
    >>> ref = xpr.new_ref(3)
    >>> triton.atomic_cas(ref, 3, 5), ref
    (Array(3, dtype=int32, weak_type=True), Ref(5, dtype=int32, weak_type=True))
    """
    before = get(ref)
    set(ref, None, where(before == cmp, val, before))
    return before


def approx_tanh(x: Any) -> Any:
    """The hyperbolic tangent, to a rounding.

    Args:
      x: an array of floats.

    Returns:
      An array of the same type.

    >>> from xpr.experimental.pallas import triton
    >>> triton.approx_tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return tanh(x)


def debug_barrier() -> None:
    """Waits for other threads of the program, of which there are none."""


def max_contiguous(x: Any, values: Sequence[int] | int) -> Any:
    """The numbers themselves, with the hint that so many are contiguous, which changes nothing.

    Args:
      x: an array.
      values: how many.

    Returns:
      `x`.

    >>> from xpr.experimental.pallas import triton
    >>> triton.max_contiguous(3, 1)
    3
    """
    return x


def dot(
    a: Any,
    b: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Any:
    """The product of two matrices, in float32 or more, of integers in int32.

    Args:
      a: an array of two axes.
      b: likewise.
      trans_a: whether to transpose `a` first.
      trans_b: whether to transpose `b` first.
      allow_tf32: whether products may be rounded to tf32 on GPUs; None to go by `precision`.
      precision: as for `lax.dot_general`.

    Returns:
      An array of two axes.

    Raises:
      ValueError: an array has another number of axes, or `allow_tf32` and `precision` are both given.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.pallas import triton
    >>> triton.dot(jnp.ones((2, 3)), jnp.ones((2, 3)), trans_b=True)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    lhs, rhs = aval_of(a), aval_of(b)
    if lhs.ndim != 2 or rhs.ndim != 2:
        raise ValueError(f"dot: both arrays must have two axes, and they are {lhs.str_short()} and {rhs.str_short()}.")
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError("dot: `allow_tf32` and `precision` say the same; give one of them.")
        precision = Precision.HIGH if allow_tf32 else Precision.HIGHEST
    dtype, _ = dtypes.promote_pair(lhs.dtype, False, rhs.dtype, False)
    wide = dtypes.int32 if dtype in dtypes.INTEGERS else dtype if dtype == dtypes.float64 else dtypes.float32
    axes = (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ()))
    return dot_general(a, b, axes, precision=precision, preferred_element_type=wide)
