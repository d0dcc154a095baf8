"""Text diagrams of the sharding of arrays over devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

from xpr.backend.sharding import Sharding
from xpr.control.devices.inspect_sharding import inspect_array_sharding
from xpr.core.avals import array_in, aval_of


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Callable[[float], Sequence[float]] | None = None,
) -> None:
    """Prints which devices hold which part of an array with a given sharding.

    Args:
      shape: the shape of the array, of one or two axes.
      sharding: a sharding.
      use_color: whether parts have a background of their own where the output is a terminal.
      scale: the scale of the diagram. With 1.0 an array of two axes is ten lines high, and wide by its proportions, as
        far as the texts of its parts allow; one of one axis is drawn in a row.
      min_width: characters that a part takes at least, with its borders.
      max_width: characters that the diagram takes at most, as far as the texts of its parts allow.
      color_map: gives for a number from 0 to 1 a color, red, green and blue from 0 to 1, as those of matplotlib do;
        None for gray.

    Returns:
      None.

    Raises:
      ValueError: the shape has another number of axes.

    >>> import xpr
    >>> from xpr.sharding import SingleDeviceSharding
    >>> xpr.debug.visualize_sharding((4,), SingleDeviceSharding(xpr.devices("cpu")[0]))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    shape = tuple(shape)
    _check_ndim(shape)
    cells: dict[tuple[range, range], list[int]] = {}
    for device, index in zip(sharding.devices, sharding.indices(shape)):
        parts = [range(*part.indices(n)) for part, n in zip(index, shape)]
        cells.setdefault((parts[0] if len(parts) == 2 else range(1), parts[-1]), []).append(device.id)
    kind = sharding.devices[0].platform.upper()
    rows, columns = (sorted({cell[i] for cell in cells}, key=attrgetter("start")) for i in (0, 1))
    texts = [[f"{kind} {','.join(map(str, sorted(cells[row, column])))}" for column in columns] for row in rows]
    all_lines = int(10 * scale)
    all_columns = int(all_lines * (shape[1] if len(shape) == 2 else 1) / max(shape[0], 1)) * _HEIGHT_BY_WIDTH
    wanted = [max(int(all_columns * len(column) / max(shape[-1], 1)), min_width) - 2 for column in columns]
    widths = [max(wide, *map(len, below)) for wide, below in zip(_fitting(wanted, max_width), zip(*texts))]
    heights = [max(int(all_lines * len(row) / max(shape[0], 1)) - 1, 1) if len(shape) == 2 else 1 for row in rows]
    colored = use_color and sys.stdout.isatty()
    print(_table(texts, widths, heights, (color_map or _gray) if colored else None))


_HEIGHT_BY_WIDTH = 2.5  # of a character


def _fitting(widths: list[int], max_width: int) -> list[int]:
    """Widths inside the borders, in proportion smaller where a row of them would be wider than `max_width`."""
    available = max_width - len(widths) - 1
    if sum(widths) <= available:
        return widths
    bounds = [available * wide // sum(widths) for wide in accumulate(widths, initial=0)]
    return [end - start for start, end in pairwise(bounds)]


def _gray(fraction: float) -> tuple[float, float, float]:
    return (0.25 + fraction / 2,) * 3


def _check_ndim(shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding: arrays of one or two axes can be shown, not of shape {shape}.")


def _table(
    texts: list[list[str]], widths: list[int], heights: list[int], color_map: Callable[[float], Sequence[float]] | None
) -> str:
    """Parts of these widths and heights inside their borders, with their texts in the middle."""
    top, between, bottom = (
        f"{left}{middle.join('─' * wide for wide in widths)}{right}" for left, middle, right in ("┌┬┐", "├┼┤", "└┴┘")
    )
    lines, number, last = [top], 0, len(texts) * len(texts[0]) - 1
    for row, high in zip(texts, heights):
        paint = [_background(color_map(i / max(last, 1))) if color_map else ("", "") for i in range(number, last + 1)]
        number += len(row)
        for line in range(high):
            shown = [f"{text if line == (high - 1) // 2 else '':^{wide}}" for text, wide in zip(row, widths)]
            lines.append(f"│{'│'.join(before + text + after for text, (before, after) in zip(shown, paint))}│")
        lines.append(between)
    return "\n".join([*lines[:-1], bottom])


def _background(color: Sequence[float]) -> tuple[str, str]:
    """The escape codes before and after text on a background of a color; text on dark colors is white."""
    red, green, blue = (round(255 * part) for part in color[:3])
    text = 30 if 0.299 * red + 0.587 * green + 0.114 * blue > 127 else 97
    return f"\x1b[{text};48;2;{red};{green};{blue}m", "\x1b[0m"


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Prints which devices hold which part of an array of one or two axes; see `inspect_array_sharding`.

    Args:
      arr: an array, also a traced one.
      **kwargs: those of `visualize_sharding`.

    Returns:
      None.

    Raises:
      TypeError: it is no array.
      ValueError: it has another number of axes.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.debug.visualize_array_sharding(jnp.ones(4))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    arr = array_in(arr)
    shape = aval_of(arr).shape
    _check_ndim(shape)
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(shape, sharding, **kwargs))
