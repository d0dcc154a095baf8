"""Slices of different lengths, exchanged between the rows of a mapped axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import dtypes
from xpr.core.avals import aval_of
from xpr.numpy.creation import asarray
from xpr.numpy.where_select import where
from xpr.primitives.collectives.exchange import all_gather, all_to_all
from xpr.primitives.slicing import broadcasted_iota

__all__ = ["ragged_all_to_all"]


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = None,
) -> Any:
    """Sends slices of each row's operand to the others, which write them into their outputs.

    Of the k slices of each row the first k / n go to the first of the n rows, the next ones to the second, and so on.
    Each row gathers all operands, and takes its slices from them.

    Args:
      operand: [m, ...], what is sent.
      output: [l, ...], into which the slices that arrive are written.
      input_offsets: int [k], where each slice begins in the operand.
      send_sizes: int [k], how long it is.
      output_offsets: int [k], where the receiver writes it.
      recv_sizes: int [k], the lengths of the slices that arrive: the first k / n come from the first row, and so on.
      axis_name: the name of a mapped axis.
      axis_index_groups: lists of indices of one size that hold every index once: each group by itself.

    Returns:
      The output [l, ...] with the slices that arrived.

    Raises:
      AxisNameError: no axis of that name is mapped here.
      TypeError: the operand and the output are of different dtypes.
      ValueError: shapes don't fit, offsets and sizes are no vectors of integers of one length, or n does not divide k.

    >>> import xpr
    >>> from xpr import lax, numpy as jnp
    >>> def exchanged(x, sizes, there, sizes_back):
    ...     return lax.ragged_all_to_all(
    ...         x, jnp.zeros(4, int), jnp.array([0, 1]), sizes, there, sizes_back, axis_name="i")
    >>> xpr.vmap(exchanged, axis_name="i")(
    ...     jnp.array([[1, 2, 2], [3, 4, 0]]), jnp.array([[1, 2], [1, 1]]), jnp.array([[0, 0], [1, 2]]),
    ...     jnp.array([[1, 1], [2, 1]]))
    Array([[1, 3, 0, 0],
           [2, 2, 4, 0]], dtype=int32)
    """
    operand, output = asarray(operand), asarray(output)
    _check(operand, output, (input_offsets, send_sizes, output_offsets, recv_sizes))
    options = {"axis_index_groups": axis_index_groups}
    starts, targets = (
        all_to_all(asarray(x), axis_name, 0, 0, tiled=True, **options) for x in (input_offsets, output_offsets)
    )
    operands = asarray(all_gather(operand, axis_name, **options))  # under vmap they may be the caller's NumPy array
    (k,), longest = starts.shape, operand.shape[0]
    source = np.arange(k) // (k // operands.shape[0])
    along = broadcasted_iota(dtypes.int32, (k, longest), 1)
    rows = operands[source[:, None], starts[:, None] + along]
    there = where(along < asarray(recv_sizes)[:, None], targets[:, None] + along, output.shape[0])
    return output.at[there].set(rows, mode="drop")


def _check(operand: Any, output: Any, vectors: tuple[Any, ...]) -> None:
    both = f"ragged_all_to_all: the operand {operand.aval.str_short()} and the output {output.aval.str_short()} must"
    if operand.dtype != output.dtype:
        raise TypeError(f"{both} be of one dtype.")
    if not operand.ndim or operand.shape[1:] != output.shape[1:] or not output.ndim:
        raise ValueError(f"{both} have the same sizes from the second axis on.")
    avals = [aval_of(x) for x in vectors]
    if any(a.ndim != 1 or a.shape != avals[0].shape or a.dtype not in dtypes.INTEGERS or not a.size for a in avals):
        raise ValueError(
            "ragged_all_to_all: offsets and sizes must be vectors of integers of one length, and are "
            f"{', '.join(a.str_short() for a in avals)}."
        )
