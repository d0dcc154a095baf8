"""Text diagrams of the sharding of arrays over devices."""

from __future__ import annotations

from typing import Any

from xpr.backend.sharding import Sharding
from xpr.control.devices.inspect_sharding import inspect_array_sharding
from xpr.core.avals import aval_of


def visualize_sharding(shape: tuple[int, ...], sharding: Sharding) -> None:
    """Prints which devices hold which part of an array with a given sharding.

    Args:
      shape: the shape of the array, of one or two axes.
      sharding: a sharding.

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
    _check_ndim(shape)
    cells: dict[tuple[int, int], list[int]] = {}
    for device, index in zip(sharding.devices, sharding.indices(shape)):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        row, column = (0, starts[0]) if len(shape) == 1 else (starts[0], starts[1])
        cells.setdefault((row, column), []).append(device.id)
    kind = sharding.devices[0].platform.upper()
    rows, columns = (sorted({cell[i] for cell in cells}) for i in (0, 1))
    texts = [[f"{kind} {','.join(map(str, sorted(cells[row, column])))}" for column in columns] for row in rows]
    print(_table(texts))


def _check_ndim(shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding: arrays of one or two axes can be shown, not of shape {shape}.")


def _table(texts: list[list[str]]) -> str:
    wide = max(len(text) for row in texts for text in row)
    rule = "+" + "+".join(["-" * (wide + 2)] * len(texts[0])) + "+"
    lines = [f"|{'|'.join(f' {text:^{wide}} ' for text in row)}|" for row in texts]
    return "\n".join([rule, *(part for line in lines for part in (line, rule))])


def visualize_array_sharding(array: Any) -> None:
    """Prints which devices hold which part of an array of one or two axes; see `inspect_array_sharding`.

    Raises:
      TypeError: it is no array.
      ValueError: it has another number of axes.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.debug.visualize_array_sharding(jnp.ones((2, 2)))
    +-------+
    | CPU 0 |
    +-------+
    """
    shape = aval_of(array).shape
    _check_ndim(shape)
    inspect_array_sharding(array, callback=lambda sharding: visualize_sharding(shape, sharding))
