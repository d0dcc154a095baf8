"""Pictures, in text, of how arrays lie on devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.backend.array import Array
from xpr.backend.sharding import Sharding
from xpr.core.interpreter import Tracer


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Calls `callback` with the sharding of an array.

    Raises:
      TypeError: it is traced: how it lies is chosen when the program is compiled. Constrain it with
        `lax.with_sharding_constraint`, or look at the results of the program.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.debug.inspect_array_sharding(jnp.ones(2), callback=lambda sharding: print(sharding.num_devices))
    1
    """
    if not isinstance(value, Array):
        what = "traced, and how it lies is chosen by the compiler" if isinstance(value, Tracer) else "no array of xpr"
        raise TypeError(
            f"inspect_array_sharding: the value is {what}. Look at the results of the program, or say how it is to lie "
            "with lax.with_sharding_constraint."
        )
    callback(value.sharding)


def visualize_sharding(shape: tuple[int, ...], sharding: Sharding) -> None:
    """Prints which devices hold which part of an array of one or two axes.

    Raises:
      ValueError: the shape has another number of axes.

    >>> import xpr
    >>> from xpr.sharding import SingleDeviceSharding
    >>> xpr.debug.visualize_sharding((4,), SingleDeviceSharding(xpr.devices("cpu")[0]))
    +-------+
    | CPU 0 |
    +-------+
    """
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding: arrays of one or two axes can be shown, not of shape {shape}.")
    cells: dict[tuple[int, int], list[int]] = {}
    for device, index in zip(sharding.devices, sharding.indices(shape)):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        row, column = (0, starts[0]) if len(shape) == 1 else (starts[0], starts[1])
        cells.setdefault((row, column), []).append(device.id)
    kind = sharding.devices[0].platform.upper()
    rows, columns = (sorted({place[i] for place in cells}) for i in (0, 1))
    texts = [[f"{kind} {','.join(map(str, sorted(cells[row, column])))}" for column in columns] for row in rows]
    print(_table(texts))


def _table(texts: list[list[str]]) -> str:
    wide = max(len(text) for row in texts for text in row)
    rule = "+" + "+".join(["-" * (wide + 2)] * len(texts[0])) + "+"
    lines = [f"|{'|'.join(f' {text:^{wide}} ' for text in row)}|" for row in texts]
    return "\n".join([rule, *(part for line in lines for part in (line, rule))])


def visualize_array_sharding(array: Any) -> None:
    """Prints which devices hold which part of an array of one or two axes.

    Raises:
      TypeError: it is traced.
      ValueError: it has another number of axes.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.debug.visualize_array_sharding(jnp.ones((2, 2)))
    +-------+
    | CPU 0 |
    +-------+
    """
    inspect_array_sharding(array, callback=lambda sharding: visualize_sharding(array.aval.shape, sharding))
