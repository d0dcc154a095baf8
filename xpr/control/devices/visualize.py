"""Text diagrams of the sharding of arrays over devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.sharding import Sharding
from xpr.control.devices.inspect_sharding import inspect_array_sharding
from xpr.core.avals import aval_of


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
      scale: how many times as wide and high as its text a part is drawn.
      min_width: characters that a part takes at least, with its borders.
      max_width: characters that it takes at most.
      color_map: gives for a number from 0 to 1 a color, red, green and blue from 0 to 1, as those of matplotlib do;
        None for gray.

    Returns:
      None.

    Raises:
      ValueError: the shape has another number of axes.

    >>> import xpr
    >>> from xpr.sharding import SingleDeviceSharding
    >>> xpr.debug.visualize_sharding((4,), SingleDeviceSharding(xpr.devices("cpu")[0]))
    +-------+
    | CPU 0 |
    +-------+
    """
    shape = tuple(shape)
    _check_ndim(shape)
    cells: dict[tuple[int, int], list[int]] = {}
    for device, index in zip(sharding.devices, sharding.indices(shape)):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        row, column = (0, starts[0]) if len(shape) == 1 else (starts[0], starts[1])
        cells.setdefault((row, column), []).append(device.id)
    kind = sharding.devices[0].platform.upper()
    rows, columns = (sorted({cell[i] for cell in cells}) for i in (0, 1))
    texts = [[f"{kind} {','.join(map(str, sorted(cells[row, column])))}" for column in columns] for row in rows]
    wide = min(max(int(scale * max(len(text) + 2 for row in texts for text in row)), min_width - 2), max_width - 2)
    colored = use_color and sys.stdout.isatty()
    print(_table(texts, wide, max(int(scale), 1), (color_map or _gray) if colored else None))


def _gray(fraction: float) -> tuple[float, float, float]:
    return (0.25 + fraction / 2,) * 3


def _check_ndim(shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding: arrays of one or two axes can be shown, not of shape {shape}.")


def _table(texts: list[list[str]], wide: int, high: int, color_map: Callable[[float], Sequence[float]] | None) -> str:
    """Parts that are `wide` characters and `high` lines inside, with their texts in the middle."""
    rule = "+" + "+".join(["-" * wide] * len(texts[0])) + "+"
    lines, number, last = [rule], 0, len(texts) * len(texts[0]) - 1
    for row in texts:
        paint = [_background(color_map(i / max(last, 1))) if color_map else ("", "") for i in range(number, last + 1)]
        number += len(row)
        for line in range(high):
            shown = [f"{text if line == high // 2 else '':^{wide}}" for text in row]
            lines.append(f"|{'|'.join(before + text + after for text, (before, after) in zip(shown, paint))}|")
        lines.append(rule)
    return "\n".join(lines)


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
    >>> xpr.debug.visualize_array_sharding(jnp.ones((2, 2)))
    +-------+
    | CPU 0 |
    +-------+
    """
    shape = aval_of(arr).shape
    _check_ndim(shape)
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(shape, sharding, **kwargs))
