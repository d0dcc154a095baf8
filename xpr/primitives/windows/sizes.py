"""Sizes of sliding windows, which convolutions and pooling share.

An operand of n entries dilated by d has d - 1 gaps between neighbours, so it spans (n - 1) d + 1 places. Padding adds
places at both ends (or takes them away, where negative). A window that spans w of p places fits (p - w) // stride + 1
times.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.errors import ArgumentError

Pads = tuple[tuple[int, int], ...]

PADDINGS = ("SAME", "SAME_LOWER", "VALID")


def dilated(n: int, dilation: int) -> int:
    """How many places n entries span."""
    return (n - 1) * dilation + 1 if n else 0


def count_windows(n: int, window: int, stride: int, pads: tuple[int, int], dilation: int = 1, spread: int = 1) -> int:
    """How many windows fit along an axis of n entries.

    Args:
      window, spread: the window's entries, and its dilation.
      dilation: of the operand.
    """
    room = dilated(n, dilation) + sum(pads) - dilated(window, spread)
    return room // stride + 1 if room >= 0 else 0


def same_pads(n: int, window: int, stride: int, lower: bool) -> tuple[int, int]:
    """The padding that makes ceil(n / stride) windows; an odd entry goes to the end, or to the start if `lower`."""
    total = max((-(-n // stride) - 1) * stride + window - n, 0)
    half = total // 2
    return (total - half, half) if lower else (half, total - half)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The (low, high) padding of each axis that a name stands for.

    Args:
      padding: "VALID" is none; with "SAME" there are as many windows as entries, divided by the stride and rounded up,
        and of an odd padding the greater half is at the end, with "SAME_LOWER" at the start.
    Raises:
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
    return [same_pads(n, w, s, lower) for n, w, s in zip(in_shape, window_shape, window_strides)]


def canonical_pads(
    who: str,
    padding: str | Sequence[tuple[int, int]],
    in_shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """The padding as pairs of integers, one for each axis.

    Raises:
      ValueError: it is neither a known name nor a pair for each axis.
    """
    if isinstance(padding, str):
        return tuple(padtype_to_pads(in_shape, window, strides, padding))
    pads = [tuple(map(int, pair)) for pair in padding]
    if len(pads) != len(in_shape) or any(len(pair) != 2 for pair in pads):
        raise ValueError(
            f"{who}: padding={padding!r} must be {', '.join(map(repr, PADDINGS))}, or a (low, high) pair for each of "
            f"the {len(in_shape)} axes that the window slides along."
        )
    return tuple(pads)  # type: ignore[arg-type]  # each has two entries


def canonical_steps(who: str, what: str, steps: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """Strides or dilations as integers, one for each of `count` axes; 1 where none are given.

    Raises:
      ValueError: there are more or fewer, or some are below 1.
    """
    if steps is None:
        return (1,) * count
    found = tuple(map(int, steps))
    if len(found) != count or min(found, default=1) < 1:
        raise ArgumentError(
            f"{who}: {what}={steps} must be {count} positive integers, one for each axis that the window slides along."
        )
    return found
