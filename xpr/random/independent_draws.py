"""independent_draws: a decorator for draws of independent numbers, which compiles one program for many shapes.

The random bits at a position of an array depend only on the key and on the position, counted in row-major order. So
the numbers of an array are the first ones of any longer vector. A program that draws a longer vector serves all shapes
with up to as many elements; compiling a program takes a thousand times as long as running it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xpr.backend import buffers
from xpr.backend.array import Array
from xpr.backend.devices import default_device
from xpr.compile.evaluate import EvalTrace
from xpr.config import settings
from xpr.control.compiled import CompiledFunction
from xpr.core.avals import Shape
from xpr.core.interpreter import context
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.key_types import KeyType
from xpr.primitives.generators import THREEFRY

# How many numbers the programs draw. Drawing the most takes less than a millisecond.
SIZES = [4**i for i in range(2, 7)] + [8192 * i for i in range(1, 9)]


class IndependentDraws(CompiledFunction):
    """A function of a key and parameters, with a static argument `shape`, whose results are drawn number by number.

    `longer` maps the static arguments of a call to those of the program that draws a longer vector, and the number of
    elements to take from it; to None if the program is for the shape itself. `avals` maps the type that the program
    draws and the shape to the type of the result.
    """

    __slots__ = ("avals", "longer")

    def __init__(self, fun: Callable[..., Any]):
        super().__init__(fun)
        self.longer: dict[tuple[Any, ...], tuple[dict[str, Any], int] | None] = {}
        self.avals: dict[tuple[Any, Shape], Any] = {}

    def forget(self) -> None:
        """Clears the caches."""
        super().forget()
        self.longer.clear()
        self.avals.clear()

    def call(self, operands: tuple[Any, ...], static: dict[str, Any]) -> Any:
        try:
            longer = self.longer[(*static.values(),)]
        except KeyError:
            longer = self.longer[(*static.values(),)] = _of_longer_shape(static)
        if longer is None or not _bits_are_those_of_any_shape(operands):
            return super().call(operands, static)
        drawn = self(*operands, **longer[0])
        key = drawn.aval, static["shape"]
        aval = self.avals.get(key)
        if aval is None:
            aval = self.avals[key] = drawn.aval.update(shape=static["shape"])
        return Array(aval, buffers.get(drawn.buffer, drawn.aval)[: longer[1]].reshape(static["shape"]))


def _of_longer_shape(static: dict[str, Any]) -> tuple[dict[str, Any], int] | None:
    shape = static["shape"]
    size = math.prod(shape)
    if is_symbolic_dim(size) or size == 0:
        return None
    longer = (next((each for each in SIZES if each >= size), size),)
    return None if longer == shape else (static | {"shape": longer}, size)


def _bits_are_those_of_any_shape(operands: tuple[Any, ...]) -> bool:
    """Whether a call is evaluated on the default device, a CPU, with a Threefry key and parameters that are scalars."""
    if type(context.trace) is not EvalTrace or context.axes or not settings.threefry_partitionable:
        return False
    for x in operands:
        if type(x) is not Array or x._device is not None or x.aval.shape != ():
            return False
    return operands[0].aval.dtype is THREEFRY_KEY and default_device().platform == "cpu"


THREEFRY_KEY = KeyType(THREEFRY)


def independent_draws(fun: Callable[..., Any]) -> IndependentDraws:
    """A decorator: as `compiled`, for a function that draws each number of its result from the key and its position.

    It may draw several numbers for each element; the first axes of what it draws are those of the shape.
    """
    return IndependentDraws(fun)
