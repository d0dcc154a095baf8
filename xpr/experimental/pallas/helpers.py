"""Functions for kernels: branches, loops, temporary refs, checks, arithmetic of sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import tree
from xpr.api.make_jaxpr import ShapeDtypeStruct
from xpr.config import make_user_context
from xpr.control.callback.debug_print import debug_print as debug_print
from xpr.control.checkify import checkify
from xpr.control.cond.function import cond
from xpr.control.while_.fori_loop import fori_loop
from xpr.core.avals import aval_of, describe
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dtypes import canonical
from xpr.experimental.pallas.blocks import unwritten
from xpr.experimental.pallas.specs import MemoryRef
from xpr.numpy.arithmetic import reciprocal as _reciprocal
from xpr.numpy.promotion import as_operand
from xpr.numpy.refs import new_ref
from xpr.numpy.reshaping import broadcast_to as _broadcast_to
from xpr.primitives.concatenation import empty
from xpr.primitives.elementwise import convert_element_type, div
from xpr.transforms.boundary import boundary

__all__ = [
    "align_to", "broadcast_to", "cdiv", "debug_check", "debug_print", "empty", "empty_like", "empty_ref_like",
    "enable_debug_checks", "loop", "multiple_of", "next_power_of_2", "reciprocal", "run_scoped", "run_state",
    "strides_from_shape", "when", "with_scoped",
]  # fmt: skip


# -- Branches and loops


def when(condition: Any, /) -> Callable[[Callable[[], Any]], None]:
    """A decorator that calls a function of no arguments where a condition holds.

    Args:
      condition: a boolean; a traced one makes it a `lax.cond`.

    Returns:
      A decorator, which gives None. What the function returns is ignored where the condition is a Python boolean, and
      must be None otherwise.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> def total(x_ref, o_ref):
    ...     @pl.when(pl.program_id(0) == 0)
    ...     def _():
    ...         o_ref[...] = jnp.zeros((), "float32")
    ...     o_ref[...] += x_ref[...].sum()
    >>> spec = pl.BlockSpec((2,), lambda i: i)
    >>> pl.pallas_call(total, xpr.ShapeDtypeStruct((), "float32"), grid=4, in_specs=[spec])(jnp.arange(8.0))
    Array(28., dtype=float32)
    """

    def decorate(fun: Callable[[], Any]) -> None:
        if not isinstance(condition, bool):
            cond(condition, fun, lambda: None)
        elif condition:
            fun()

    return decorate


def loop(
    lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1, unroll: int | bool | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that calls a function for the numbers from `lower` to below `upper`, in a loop.

    Args:
      lower: an integer, which may be traced.
      upper: likewise.
      init_carry: the initial carry, a pytree, for `body(i, carry) -> carry`; None for a function of the number alone.
      step: the distance of the numbers.
      unroll: as for `lax.fori_loop`.

    Returns:
      A decorator, which gives the last carry.

    >>> from xpr.experimental import pallas as pl
    >>> @pl.loop(0, 10, step=3, init_carry=0)
    ... def total(i, carry):
    ...     return carry + i
    >>> total
    Array(18, dtype=int32, weak_type=True)
    """

    def decorate(body: Callable[..., Any]) -> Any:
        def numbered(i: Any, carry: Any) -> Any:
            return body(lower + i * step) if init_carry is None else body(lower + i * step, carry)

        return fori_loop(0, cdiv(upper - lower, step), numbered, init_carry, unroll=unroll)

    return decorate


# -- Refs


@boundary
def run_scoped(
    f: Callable[..., Any], *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any
) -> Any:
    """Calls a function with new refs.

    Args:
      f: a function of refs.
      *types: pytrees of the types of the refs, `pl.ANY(shape, dtype)` and the like.
      collective_axes: must be empty.
      **kw_types: likewise, for keyword arguments.

    Returns:
      What the function returns.

    Raises:
      NotImplementedError: refs are to be shared along axes.
      ValueError: a type has no shape and dtype.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> def f(ref):
    ...     ref[...] = jnp.arange(3)
    ...     return ref[1]
    >>> pl.run_scoped(f, pl.ANY((3,), jnp.int32))
    Array(1, dtype=int32)
    """
    if collective_axes != ():
        raise NotImplementedError("run_scoped: `collective_axes` are of several cores, and programs run one by one.")
    arguments, keywords = tree.map(_unwritten_ref, (types, kw_types))
    return f(*arguments, **keywords)


def _unwritten_ref(x: Any) -> Any:
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise ValueError(
            f"run_scoped: a type of a ref is {describe(x)}, which has no shape and dtype. Use pl.ANY(...)."
        )
    return new_ref(unwritten(tuple(x.shape), canonical(x.dtype)))


def with_scoped(
    *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function gets new refs after its other arguments.

    Args:
      *types: as for `run_scoped`.
      collective_axes: must be empty.
      **kw_types: as for `run_scoped`.

    Returns:
      A decorator.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> @pl.with_scoped(pl.ANY((), jnp.int32))
    ... def f(x, ref):
    ...     ref[...] = x
    ...     return ref[...] + 1
    >>> f(2)
    Array(3, dtype=int32)
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        def scoped(*args: Any) -> Any:
            return run_scoped(partial(f, *args), *types, collective_axes=collective_axes, **kw_types)

        return scoped

    return decorate


def run_state(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of arrays, from one that changes refs.

    Args:
      f: a function of a pytree of refs; what it returns is ignored.

    Returns:
      A function of a pytree of arrays, that gives the arrays that the refs hold at the end.

    >>> from xpr.experimental import pallas as pl
    >>> def swap(refs):
    ...     refs[0][...], refs[1][...] = refs[1][...], refs[0][...]
    >>> pl.run_state(swap)((1, 2))
    (Array(2, dtype=int32, weak_type=True), Array(1, dtype=int32, weak_type=True))
    """

    def run(args: Any) -> Any:
        refs = tree.map(new_ref, args)
        f(refs)
        return tree.map(lambda ref: ref[...], refs)

    return run


def empty_like(x: Any) -> Any:
    """Arrays whose elements are arbitrary.

    Args:
      x: a pytree of anything with a shape and a dtype.

    Returns:
      A pytree of arrays.

    >>> from xpr.experimental import pallas as pl
    >>> pl.empty_like(pl.ANY((2, 3), "float32")).shape
    (2, 3)
    """
    return tree.map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def empty_ref_like(x: Any) -> Any:
    """A ref whose elements are arbitrary.

    Args:
      x: a `MemoryRef`, or a `ShapeDtypeStruct`.

    Returns:
      A `Ref`.

    Raises:
      ValueError: it is something else.

    >>> from xpr.experimental import pallas as pl
    >>> pl.empty_ref_like(pl.ANY((2,), "int32")).shape
    (2,)
    """
    if not isinstance(x, (MemoryRef, ShapeDtypeStruct)):
        raise ValueError(f"empty_ref_like takes a pl.MemoryRef or a ShapeDtypeStruct, and got {describe(x)}.")
    return new_ref(empty_like(x))


# -- Checks and hints

enable_debug_checks = make_user_context(False)


def debug_check(condition: Any, message: str) -> None:
    """A check that is done in `with enable_debug_checks(True)`, and reported by `checkify`; else it is left out.

    Args:
      condition: a boolean, which must be true.
      message: the text of the error.

    Returns:
      None.

    >>> from xpr.experimental import pallas as pl
    >>> pl.debug_check(False, "not checked")
    """
    if enable_debug_checks.value:
        checkify.debug_check(condition, message)


def multiple_of(x: Any, values: Sequence[int] | int) -> Any:
    """The number itself, with the hint that integers divide it, which changes nothing.

    Args:
      x: an integer, which may be traced.
      values: its divisors.

    Returns:
      `x`.

    >>> from xpr.experimental import pallas as pl
    >>> pl.multiple_of(256, 128)
    256
    """
    return x


def broadcast_to(a: Any, shape: tuple[int, ...]) -> Any:
    """An array repeated to a shape, as `xpr.numpy.broadcast_to` does.

    Args:
      a: an array.
      shape: a size for each axis.

    Returns:
      An array of the shape.

    >>> from xpr.experimental import pallas as pl
    >>> pl.broadcast_to(1, (2,))
    Array([1, 1], dtype=int32, weak_type=True)
    """
    return _broadcast_to(a, shape)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """1 / x.

    Args:
      x: an array of floats.
      approx: a hint; the result is exact to a rounding.
      full_range: a hint, which changes nothing.

    Returns:
      An array of the same type.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> pl.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return _reciprocal(x)


# -- Sizes


def _is_size(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) or is_symbolic_dim(x)


def cdiv(a: Any, b: Any) -> Any:
    """a / b, rounded up: how many blocks of b elements an axis of a elements has.

    Args:
      a: an integer, which may be traced.
      b: a positive integer, likewise.

    Returns:
      An integer.

    >>> from xpr.experimental import pallas as pl
    >>> pl.cdiv(9, 2)
    5
    """
    if _is_size(a) and _is_size(b):
        return -(-a // b)
    above: Any = as_operand(a + (b - 1))
    dtype = aval_of(above).dtype
    return div(convert_element_type(above, dtype), convert_element_type(as_operand(b), dtype))


def align_to(a: Any, alignment: Any) -> Any:
    """The next multiple of a number.

    Args:
      a: an integer, which may be traced.
      alignment: a positive integer, likewise.

    Returns:
      An integer that is not less.

    >>> from xpr.experimental import pallas as pl
    >>> pl.align_to(5, 4)
    8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is not less.

    Args:
      x: an integer.

    Returns:
      An integer.

    Raises:
      ValueError: it is negative.

    >>> from xpr.experimental import pallas as pl
    >>> pl.next_power_of_2(5)
    8
    """
    if x < 0:
        raise ValueError(f"next_power_of_2: the integer must not be negative, and is {x}.")
    return 1 << max(x - 1, 0).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How far apart neighbours along each axis are, in elements, of an array in row-major order.

    Args:
      shape: a size for each axis.

    Returns:
      An integer for each axis.

    >>> from xpr.experimental import pallas as pl
    >>> pl.strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides[: len(shape)]))
