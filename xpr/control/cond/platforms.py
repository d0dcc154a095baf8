"""platform_dependent: one of several functions, by the platform that a program runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.backend.array import Array
from xpr.backend.devices import default_backend
from xpr.backend.stablehlo import Builder, Value
from xpr.control.cond.function import pick
from xpr.core.avals import ShapedArray, describe
from xpr.core.interpreter import Tracer
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.transforms.batch import BatchTracer
from xpr.transforms.jvp import JVPTracer
from xpr.transforms.linearize import LinearizeTracer

__all__ = ["platform_dependent", "platform_index_p"]

Platforms = tuple[tuple[str, ...] | None, ...]  # of each function; None for all others
_OF_GPUS = {"gpu": ("cuda", "rocm")}
_NO_OPERANDS = "It has no operands."


def _number(platform: str, platforms: Platforms) -> int | None:
    """The number of the function for a platform; None where there is none. The GPUs that xpr runs on are CUDA's."""
    name = "cuda" if platform == "gpu" else platform
    return next((i for i, names in enumerate(platforms) if names is None or name in names), None)


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, platforms: Platforms) -> list[Value]:
    number = _number(b.platform, platforms)
    if number is None:
        raise NotImplementedError(_missing(b.platform, platforms))
    return [b.constant(np.int32(number), avals[0])]


def _default_number(platforms: Platforms) -> np.int32:
    """The number of the function for the default platform; -1 where there is none."""
    number = _number(default_backend(), platforms)
    return np.int32(-1 if number is None else number)


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return [Array(_INDEX, _default_number(**params))]


_INDEX = ShapedArray((), dtypes.int32)
platform_index_p = register(
    Primitive(
        "platform_index",
        abstract=lambda avals, *, platforms: [_INDEX],
        params=("platforms",),
        reference=lambda values, *, platforms: [_default_number(platforms)],
        lower=_lower,
        evaluate=_evaluate,
        jvp=Unsupported(_NO_OPERANDS),
        transpose=Unsupported(_NO_OPERANDS),
        batch=Unsupported(_NO_OPERANDS),
        exact=True,
    )
)


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Calls the function for the platform that the program runs on, which is known when it is lowered.

    In a function that is traced, all functions are, and their results must have the same types, as the branches of a
    `switch`; programs hold the one for their platform. Otherwise that for the devices of the arguments is called.

    Args:
      *args: pytrees of arrays, the arguments.
      default: the function for any other platform; None for none.
      **per_platform: functions by platform: `cpu=`, `cuda=`, `rocm=`, `tpu=`; `gpu=` is for "cuda" and "rocm".

    Returns:
      The result.

    Raises:
      BranchMismatch: the functions' results differ in structure, shape or dtype.
      NotImplementedError: there is no function for the platform, and no default.
      TypeError: one is no function.

    >>> from xpr import lax
    >>> lax.platform_dependent(2, cpu=lambda x: x + 1, default=lambda x: x)
    3
    """
    named = dict(per_platform) if default is None else {**per_platform, "default": default}
    for name, fun in named.items():
        if not callable(fun):
            raise TypeError(f"platform_dependent: {name} must be a function, and is {describe(fun)}.")
    platforms = tuple([None if name == "default" else _OF_GPUS.get(name, (name,)) for name in named])
    funs = tuple(named.values())
    index = platform_index_p.bind(platforms=platforms)
    if isinstance(index, Tracer):
        return pick("platform_dependent", index, funs, args, {name: i for i, name in enumerate(named)}, None)
    platform = _platform_of(args)
    number = _number(platform, platforms)
    if number is None:
        raise NotImplementedError(_missing(platform, platforms))
    return funs[number](*args)


def _platform_of(args: Any) -> str:
    for x in map(_value, tree.leaves(args)):
        if type(x) is Array:
            return next(iter(x.devices())).platform
    return default_backend()


def _value(x: Any) -> Any:
    """The value that transformations which run at once compute with for an argument: the primal, or all rows."""
    while isinstance(x, JVPTracer | LinearizeTracer | BatchTracer):
        x = x.value if isinstance(x, BatchTracer) else x.primal
    return x


def _missing(platform: str, platforms: Platforms) -> str:
    known = ", ".join(name for names in platforms for name in names or ()) or "none"
    return (
        f"platform_dependent: a translation rule among the functions for {known} was not found for platform "
        f"{platform}. Give one for it as a keyword, or default=."
    )
