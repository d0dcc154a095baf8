"""Arguments of special functions, and derivatives by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import dtypes
from xpr import numpy as jnp
from xpr.core.avals import Zero, aval_of
from xpr.errors import ArgumentError
from xpr.numpy.promotion import convert, promote_inexact, promote_shapes
from xpr.primitives.shapes import instantiate
from xpr.transforms.jvp import push_forward


def reals(name: str, *xs: Any, argument: str = "x") -> tuple[Any, ...]:
    """The arguments in the real dtype to which they promote and the shape to which they broadcast.

    `argument` is the name of that of a function of one.

    Raises:
      ArgumentError: one is complex.
      TypeError: one is not an array.
    """
    operands = promote_shapes(*promote_inexact(*xs))
    if dtype_of(operands[0]) in dtypes.COMPLEX:
        types = ", ".join(aval_of(x).str_short() for x in xs)
        which = f"Argument `{argument}`" if len(xs) == 1 else "Each argument"
        raise ArgumentError(f"{which} to {name} must be real-valued: {types} was given. Take .real or abs of it.")
    return tuple(operands)


def strong_reals(name: str, *xs: Any, argument: str = "x") -> tuple[Any, ...]:
    """`reals`, none of them weakly typed."""
    return tuple([convert(x, dtype_of(x)) for x in reals(name, *xs, argument=argument)])


def wide_reals(name: str, *xs: Any) -> tuple[Any, ...]:
    """`reals` of one shape, half precision in float32."""
    operands = [jnp.asarray(x) for x in one_shape(*strong_reals(name, *xs))]
    narrow = operands[0].dtype in (dtypes.float16, dtypes.bf16)
    return tuple([x.astype(dtypes.float32) for x in operands] if narrow else operands)


def slope_in(i: int, fun: Callable[..., Any], *xs: Any) -> Any:
    """The derivative of an elementwise function by its i-th argument, at arguments of one shape: along ones.

    Multiplied by a tangent it is a derivative rule that is linear in tangents, although `fun` may run loops.
    """
    tangents = [jnp.ones_like(x) if i == j else Zero.from_primal_value(x) for j, x in enumerate(xs)]
    _, (slope,) = push_forward(lambda *ys: [fun(*ys)], xs, tangents)
    return instantiate(slope)


def one_shape(*xs: Any) -> list[Any]:
    """The arguments, broadcast to one shape."""
    return jnp.broadcast_arrays(*xs)


def inexact_dtype(*xs: Any) -> np.dtype:
    """The dtype to which arguments promote, for integers the floats of as many bits."""
    return dtypes.to_inexact(jnp.result_type(*xs))


def dtype_of(x: Any) -> np.dtype:
    return aval_of(x).dtype
