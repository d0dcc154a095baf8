"""Sizes of sliding windows, which convolutions and pooling share.

An operand of n elements dilated by d has d - 1 gaps between neighbours, so it spans (n - 1) d + 1 positions. Padding
adds positions at both ends (or removes them, where negative). A window that spans w of p positions fits (p - w) //
stride + 1 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from xpr.dimensions.expressions import as_size, is_symbolic_dim, max_dim, surely_below
from xpr.errors import ArgumentError
from xpr.primitives.shapes import tuple_of

__all__ = ["padtype_to_pads"]

Pads = tuple[tuple[int, int], ...]

PADDINGS = ("SAME", "SAME_LOWER", "VALID")


def dilated(n: int, dilation: int) -> int:
    """How many positions n elements span."""
    return (n - 1) * dilation + 1 if n else 0


def count_windows(
    n: int, window: int, stride: int, pads: tuple[int, int], dilation: int = 1, window_dilation: int = 1
) -> int:
    """How many windows fit along an axis of n elements, `dilation` apart; those of the window have its own dilation."""
    length = dilated(n, dilation) + sum(pads) - dilated(window, window_dilation)
    return max_dim(length // stride + 1, 0)


def count_elements(
    n: int, window: int, stride: int, pads: tuple[int, int], dilation: int = 1, window_dilation: int = 1
) -> int:
    """How many elements all windows along an axis contain together: padding and gaps are none. Sizes as above.

    At position k of window t is the element number (stride t + window_dilation k - low) / dilation, if that is an
    integer from 0 to n - 1. For each k these t are evenly spaced. With symbolic sizes all are counted.
    """
    count = count_windows(n, window, stride, pads, dilation, window_dilation)
    if any(map(is_symbolic_dim, (n, window, stride, *pads, dilation, window_dilation))):
        return count * window
    start = pads[0] - window_dilation * np.arange(window)  # stride t = start + dilation i, for element i
    common = math.gcd(stride, dilation)
    step = dilation // common
    first = start // common * pow(stride // common, -1, step) % step  # the least t that solves it, modulo `step`
    low = np.maximum(-(-start // stride), 0)
    high = np.minimum((start + dilation * (n - 1)) // stride, count - 1)
    each = (high - first) // step - (low - 1 - first) // step
    return int(np.sum(np.where((start % common == 0) & (high >= low), each, 0)))


def same_pads(n: int, window: int, stride: int, lower: bool) -> tuple[int, int]:
    """The padding that makes ceil(n / stride) windows; an odd element goes to the end, or to the start if `lower`."""
    total = max_dim((-(-n // stride) - 1) * stride + window - n, 0)
    half = total // 2
    return (total - half, half) if lower else (half, total - half)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The (low, high) padding of each axis for a named padding.

    Args:
      in_shape: the sizes of the array.
      window_shape: the sizes of the window.
      window_strides: the steps of the window.
      padding: "VALID" for none; "SAME" for as many windows as elements, divided by the stride and rounded up, where the
        greater half of an odd padding is at the end; "SAME_LOWER" where it is at the start.

    Returns:
      A list of (low, high).

    Raises:
      TypeError: a size is no integer.
      ValueError: there is no padding of that name.

    >>> from xpr import lax
    >>> lax.padtype_to_pads((5,), (2,), (1,), "SAME")
    [(0, 1)]
    """
    name = padding.upper() if isinstance(padding, str) else padding
    if name not in PADDINGS:
        raise ValueError(f"Unknown padding {padding!r}: it is {', '.join(PADDINGS)}, or (low, high) for each axis.")
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    lower = name == "SAME_LOWER"
    columns = [list(map(as_size, sizes)) for sizes in (in_shape, window_shape, window_strides)]
    return [same_pads(n, w, s, lower) for n, w, s in zip(*columns)]


def canonical_pads(
    function: str,
    padding: str | Sequence[tuple[int, int]],
    in_shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """The padding as pairs of integers, one for each axis.

    Raises:
      TypeError: a number is no integer.
      ValueError: it is neither a known name nor a pair for each axis.
    """
    if isinstance(padding, str):
        return tuple(padtype_to_pads(in_shape, window, strides, padding))
    listed = padding if isinstance(padding, Iterable) else [padding]
    pads = [tuple(map(as_size, pair)) if isinstance(pair, Sequence) else () for pair in listed]
    if len(pads) != len(in_shape) or any(len(pair) != 2 for pair in pads):
        raise ValueError(
            f"{function}: padding argument must be {', '.join(map(repr, PADDINGS))}, or a (low, high) pair for each "
            f"of the {len(in_shape)} axes that the window slides along, got {padding!r}."
        )
    return tuple(pads)  # type: ignore[arg-type]  # each is a pair


def canonical_steps(function: str, what: str, steps: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """Strides or dilations as integers, one for each of `count` axes; 1 by default.

    Raises:
      TypeError: there is a single number, or one is no integer.
      ArgumentError: there are more or fewer, or some are below 1.
    """
    if steps is None:
        return (1,) * count
    counts = tuple(map(as_size, tuple_of(steps, function, what)))
    if len(counts) != count:
        raise ArgumentError(
            f"{function} window and {what} must have the same number of dimensions: {what} must have {count} elements, "
            f"and is {steps}."
        )
    if any(surely_below(n, 1) for n in counts):
        raise ArgumentError(
            f"{function}: {what} must have every element be positive, one for each of the {count} axes of the window, "
            f"and is {steps}."
        )
    return counts
