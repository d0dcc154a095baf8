"""lax.while_loop: traces the user's functions and reports errors in their types and structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.config import settings
from xpr.control.scan.function import check_carry_structure, check_carry_types, check_no_refs, promote_weak
from xpr.control.tracing import Body, Step, Watched, trace_body, types_of_leaves, where_defined
from xpr.control.while_.while_loop import Loop, bind_while
from xpr.core.avals import ShapedArray
from xpr.core.effects import control_flow_allowed_effects
from xpr.core.jaxpr import check_effects
from xpr.dtypes import bool_
from xpr.errors import CarryMismatch, ConcretizationTypeError
from xpr.passes.discharge import uses_of_refs
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import LEAF, as_array

__all__ = ["while_loop"]


@boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """A loop that runs as long as a predicate of its carry is true, as one operation.

        carry = init_val
        while cond_fun(carry):
            carry = body_fun(carry)

    It differentiates in forward and in reverse mode. Reverse mode keeps up to `config.while_checkpoints` carries and
    takes the steps between them again; see reverse.py. Mapped by `vmap` it runs until the last row is finished, and
    finished rows keep their carry.

    Args:
      cond_fun: a function of the carry to a boolean scalar.
      body_fun: a function of the carry to the next one, of the same types.
      init_val: the initial carry, a pytree. Python scalars in it take the dtypes that the body returns.

    Returns:
      The last carry.

    Raises:
      CarryMismatch: the carry that `body_fun` returns differs from the one it takes.
      TypeError: `cond_fun` doesn't return a boolean scalar.

    >>> from xpr import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: 3 * x, 1)
    Array(243, dtype=int32, weak_type=True)
    """
    if type(body_fun) is Watched:
        return _watched(cond_fun, body_fun, init_val)
    if settings.disable_jit:
        carry = tree.map(as_array, init_val)  # so that no step changes a NumPy array in place
        running = _in_python(cond_fun, carry)
        if running is not None:
            while running:
                carry = body_fun(carry)
                running = bool(cond_fun(carry))
            return carry
    leaves, in_tree = tree.flatten(init_val)
    args_tree = tree.structure(((init_val,), {}))
    body, carry = _typed_body(body_fun, leaves, in_tree, args_tree)
    cond = _predicate(cond_fun, args_tree, body.closed.in_avals)
    return tree.unflatten(in_tree, bind_while(Loop.closed(cond.closed, body.closed, carry)))


def _watched(cond_fun: Callable[..., Any], body_fun: Watched, init_val: Any) -> Any:
    """The loop with a watcher, whose state is carried first."""
    watched = body_fun.of(body_fun.__wrapped__, np.int32(-1))  # it is not known how many steps there are

    def step(carry: Any) -> Any:
        state, inner = carry
        return watched.before(state, watched.total), watched(inner)

    cond = Step("while_loop", cond_fun, lambda carry: cond_fun(carry[1]), lambda carry: (carry[1],))
    try:
        state, last = while_loop(cond, watched.step("while_loop", step), (watched.initial, init_val))
    except CarryMismatch as error:
        raise CarryMismatch(str(error).replace("carry[1]", "carry")) from None
    watched.after(state, watched.total)
    return last


def _in_python(cond_fun: Callable[[Any], Any], carry: Any) -> bool | None:
    """Whether to take the first step in Python; None if that isn't known while tracing."""
    try:
        return bool(cond_fun(carry))
    except ConcretizationTypeError:
        return None


def _typed_body(
    body_fun: Callable[..., Any], carry: Sequence[Any], in_tree: Any, args_tree: Any
) -> tuple[Body, Sequence[Any]]:
    """The body, traced for a carry whose types it preserves, and that carry, with weakly typed leaves promoted."""
    what = body_fun.what if type(body_fun) is Step else "while_loop"
    while True:
        avals = types_of_leaves(what, "init_val", in_tree, carry)
        body = trace_body(body_fun, args_tree, avals, f"the body of a {what}", refs=True)
        if uses_of_refs(body.closed.jaxpr).any or body.closed.is_high:
            check_no_refs(what, carry)
        check_carry_structure(what, in_tree, body, body.out_tree)
        promoted = promote_weak(carry, avals, body.out_avals)
        if promoted is None:
            break
        carry = promoted
    check_carry_types(what, in_tree, avals, body.out_avals, body_fun)
    check_effects(what, body.closed.jaxpr, control_flow_allowed_effects)
    return body, carry


def _predicate(cond_fun: Callable[..., Any], args_tree: Any, avals: Sequence[ShapedArray]) -> Body:
    """The predicate as a jaxpr.

    Raises:
      TypeError: it returns something other than a boolean scalar.
    """
    cond = trace_body(cond_fun, args_tree, avals, "the predicate of a while_loop", refs=True)
    check_effects("while_loop", cond.closed.jaxpr, control_flow_allowed_effects)
    if cond.out_tree == LEAF and not cond.out_avals[0].shape and cond.out_avals[0].dtype == bool_:
        return cond
    result = tree.unflatten(cond.out_tree, [aval.str_short() for aval in cond.out_avals])
    lines = [
        "while_loop: the predicate must give a boolean scalar, bool[].",
        f"  It gives {result if isinstance(result, str) else repr(result)}.",
        where_defined("the predicate", cond_fun),
        "  Compare: `x > 0`, `x != 0`; of an array say jnp.any(...) or jnp.all(...).",
    ]
    raise TypeError("\n".join(lines))
