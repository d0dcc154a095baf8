"""Comparisons, and logic on the truth of the entries."""

from __future__ import annotations

from typing import Any

from xpr.numpy.promotion import truth
from xpr.numpy.ufunc_builders import binary, logical
from xpr.primitives import elementwise as e

equal = binary(
    "equal",
    e.eq_p,
    """Whether entries are equal.

    >>> import xpr.numpy as jnp
    >>> jnp.equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True, False], dtype=bool)
    """,
)
not_equal = binary(
    "not_equal",
    e.ne_p,
    """Whether entries differ.

    >>> import xpr.numpy as jnp
    >>> jnp.not_equal(jnp.array([1, 2, 3]), 2)
    Array([ True, False,  True], dtype=bool)
    """,
)
less = binary(
    "less",
    e.lt_p,
    """Whether entries of x are less than those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """,
)
less_equal = binary(
    "less_equal",
    e.le_p,
    """Whether entries of x are at most those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """,
)
greater = binary(
    "greater",
    e.gt_p,
    """Whether entries of x are greater than those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """,
)
greater_equal = binary(
    "greater_equal",
    e.ge_p,
    """Whether entries of x are at least those of y.

    >>> import xpr.numpy as jnp
    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_and = logical(
    "logical_and",
    e.and_p,
    """Whether both entries are true.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_and(jnp.array([True, False]), True)
    Array([ True, False], dtype=bool)
    """,
)
logical_or = logical(
    "logical_or",
    e.or_p,
    """Whether either entry is true.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_or(jnp.array([True, False]), True)
    Array([ True,  True], dtype=bool)
    """,
)
logical_xor = logical(
    "logical_xor",
    e.xor_p,
    """Whether just one of the entries is true.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_xor(jnp.array([True, False]), True)
    Array([False,  True], dtype=bool)
    """,
)


def logical_not(x: Any, /) -> Any:
    """Whether each entry is false.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_not(jnp.array([0, 3]))
    Array([ True, False], dtype=bool)
    """
    return e.not_p.bind(truth(x))
