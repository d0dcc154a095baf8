"""Vector quantization: points are replaced by the nearest of a few."""

from __future__ import annotations

from typing import Any

from xpr import numpy as jnp
from xpr.numpy.norms import norm
from xpr.numpy.promotion import promote_inexact

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """For each point the nearest of those of a code book, and the distance to it.

    Args:
      obs: the points [m, n], or numbers [m].
      code_book: [k, n], or numbers [k].
      check_finite: has no effect; elements that are not finite give infinities or nans.

    Returns:
      `(indices [m], distances [m])`.

    Raises:
      ValueError: the shapes don't fit.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.cluster.vq import vq
    >>> vq(jnp.array([[1., 1.], [5., 4.]]), jnp.array([[1., 0.], [5., 5.]]))
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    points, codes = map(jnp.asarray, promote_inexact(obs, code_book))
    if points.ndim != codes.ndim or points.ndim not in (1, 2) or points.shape[1:] != codes.shape[1:]:
        types = f"{points.aval.str_short()} and {codes.aval.str_short()}"
        raise ValueError(f"vq: takes points [m,n] and a code book [k,n], or vectors of numbers, and got {types}.")
    if points.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    nearest = jnp.argmin(norm(points[:, None] - codes[None], axis=-1), axis=-1)
    return nearest, norm(points - codes[nearest], axis=-1)
