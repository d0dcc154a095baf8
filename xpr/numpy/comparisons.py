"""Comparisons, and logical functions of elements."""

from __future__ import annotations

from typing import Any

from xpr.numpy.ufunc_builders import binary, logical, not_zero, ordering
from xpr.primitives import elementwise as e

__all__ = [
    "logical_not",

]  # fmt: skip

equal = binary(
    "equal",
    e.eq_p,
    """Whether x == y, elementwise.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True, False], dtype=bool)
    """,
)
not_equal = binary(
    "not_equal",
    e.ne_p,
    """Whether x != y, elementwise.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.not_equal(jnp.array([1, 2, 3]), 2)
    Array([ True, False,  True], dtype=bool)
    """,
)
less = ordering(
    "less",
    e.lt_p,
    """Whether x < y, elementwise; complex numbers compare by real, then by imaginary part.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """,
)
less_equal = ordering(
    "less_equal",
    e.le_p,
    """Whether x <= y, elementwise; complex numbers compare by real, then by imaginary part.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """,
)
greater = ordering(
    "greater",
    e.gt_p,
    """Whether x > y, elementwise; complex numbers compare by real, then by imaginary part.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """,
)
greater_equal = ordering(
    "greater_equal",
    e.ge_p,
    """Whether x >= y, elementwise; complex numbers compare by real, then by imaginary part.

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_and = logical(
    "logical_and",
    e.and_p,
    """Whether both elements are true (not 0).

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_and(jnp.array([True, False]), True)
    Array([ True, False], dtype=bool)
    """,
)
logical_or = logical(
    "logical_or",
    e.or_p,
    """Whether either element is true (not 0).

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_or(jnp.array([True, False]), True)
    Array([ True,  True], dtype=bool)
    """,
)
logical_xor = logical(
    "logical_xor",
    e.xor_p,
    """Whether exactly one of the two elements is true (not 0).

    Args:
      x: array or number.
      y: array or number that broadcasts against `x`.

    Returns:
      Booleans of the broadcast shape.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_xor(jnp.array([True, False]), True)
    Array([False,  True], dtype=bool)
    """,
)


def logical_not(x: Any, /) -> Any:
    """Whether each element is false (0).

    >>> import xpr.numpy as jnp
    >>> jnp.logical_not(jnp.array([0, 3]))
    Array([ True, False], dtype=bool)
    """
    return e.not_p.bind(not_zero(x))
