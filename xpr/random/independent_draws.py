"""independent_draws: a decorator for draws of independent numbers, of which one program serves many shapes.

The random bits at a position of an array depend on the key and on the position, counted in row-major order, alone. So
what is drawn number by number is the beginning of a longer vector, and a program for that is compiled once for all
shapes of up to as many numbers, where to compile one takes a thousand times as long as to run it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xpr.backend import buffers
from xpr.backend.array import Array
from xpr.backend.devices import default_backend
from xpr.config import settings
from xpr.control.compiled import CompiledFunction
from xpr.core.avals import Shape, aval_of
from xpr.core.interpreter import context
from xpr.numpy.creation import is_eager
from xpr.primitives.generators import THREEFRY
from xpr.primitives.random_keys import impl_of

SIZES = [4**i for i in range(3, 9)]  # of the programs; they are run in a millisecond at most


class IndependentDraws(CompiledFunction):
    """A function of a key and parameters, with a static argument `shape`, whose results are drawn number by number."""

    __slots__ = ()

    def call(self, operands: tuple[Any, ...], static: dict[str, Any]) -> Any:
        shape = static["shape"]
        longer = _size_of_program(operands, shape)
        if longer is None:
            return super().call(operands, static)
        drawn = self(*operands, **static | {"shape": (longer,)})
        numbers = buffers.get(drawn.buffer, drawn.aval)[: math.prod(shape)]
        return Array(drawn.aval.update(shape=shape), numbers.reshape(shape))


def _size_of_program(operands: tuple[Any, ...], shape: Shape) -> int | None:
    """How many numbers the program draws that serves a call; None where it is one for the shape.

    That is where the call is traced, or not for the CPU, where the bits depend on the shape, where a parameter is no
    scalar, and where so many numbers are drawn that more would take time and memory.
    """
    key = operands[0]
    if not is_eager() or context.axes or default_backend() != "cpu" or not settings.threefry_partitionable:
        return None
    if impl_of(key.aval) is not THREEFRY or any(aval_of(x).ndim for x in operands):
        return None
    if any(type(x) is Array and x._device is not None for x in operands):
        return None
    size = math.prod(shape)
    if not 0 < size <= SIZES[-1] or (len(shape) == 1 and size in SIZES):
        return None
    return next(each for each in SIZES if each >= size)


def independent_draws(fun: Callable[..., Any]) -> IndependentDraws:
    """A decorator: as `compiled`, for a function that draws each number of its result from the key and its position.

    It may draw several numbers for each, in an array whose first axes are those of the shape.
    """
    return IndependentDraws(fun)
