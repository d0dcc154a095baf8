"""lax.while_loop: staging the user's functions, and saying what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.config import settings
from xpr.control.scan.function import check_carry_structure, check_carry_types, promote_weak
from xpr.control.tracing import Body, Step, trace_body, where_defined
from xpr.control.while_.while_loop import Loop, bind_while
from xpr.core.avals import ShapedArray, aval_of
from xpr.dtypes import bool_
from xpr.errors import ConcretizationTypeError
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import LEAF


@boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Takes steps for as long as a predicate of the carry holds, as one operation.

        carry = init_val
        while cond_fun(carry):
            carry = body_fun(carry)

    It differentiates in forward and in reverse mode. Reverse mode keeps up to `config.while_checkpoints` carries and
    takes the steps between them again; see reverse.py. Mapped by `vmap` it goes on until the last row is
    done, and rows that are done stand still.

    Args:
      cond_fun: takes the carry, gives a boolean scalar.
      body_fun: takes the carry, gives the next one, of the same types.
      init_val: the carry to start with, a pytree. Python scalars in it take the dtypes that the body gives.
    Returns:
      The last carry.
    Raises:
      CarryMismatch: the carry that `body_fun` gives differs from the one it takes.
      TypeError: `cond_fun` gives no boolean scalar.

    >>> from xpr import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: 3 * x, 1)
    Array(243, dtype=int32, weak_type=True)
    """
    if settings.disable_jit:
        going = _in_python(cond_fun, init_val)
        if going is not None:
            carry = init_val
            while going:
                carry = body_fun(carry)
                going = bool(cond_fun(carry))
            return carry
    leaves, in_tree = tree.flatten(init_val)
    args_tree = tree.structure(((init_val,), {}))
    body, carry = _typed_body(body_fun, leaves, in_tree, args_tree)
    cond = _predicate(cond_fun, args_tree, body.closed.in_avals)
    return tree.unflatten(in_tree, bind_while(Loop.closed(cond.closed, body.closed, carry)))


def _in_python(cond_fun: Callable[[Any], Any], carry: Any) -> bool | None:
    """Whether to take the first step; None where that isn't known while tracing."""
    try:
        return bool(cond_fun(carry))
    except ConcretizationTypeError:
        return None


def _typed_body(
    body_fun: Callable[..., Any], carry: Sequence[Any], in_tree: Any, args_tree: Any
) -> tuple[Body, Sequence[Any]]:
    """The body, staged for a carry whose types it keeps, and that carry, weakly typed parts of which are promoted."""
    what = body_fun.what if type(body_fun) is Step else "while_loop"
    while True:
        avals = [aval_of(x) for x in carry]
        body = trace_body(body_fun, args_tree, avals, f"the body of a {what}")
        check_carry_structure(what, in_tree, body, body.out_tree)
        promoted = promote_weak(carry, avals, body.out_avals)
        if promoted is None:
            break
        carry = promoted
    check_carry_types(what, in_tree, avals, body.out_avals, body_fun)
    return body, carry


def _predicate(cond_fun: Callable[..., Any], args_tree: Any, avals: Sequence[ShapedArray]) -> Body:
    """The predicate, staged.

    Raises:
      TypeError: it gives something else than a boolean scalar.
    """
    cond = trace_body(cond_fun, args_tree, avals, "the predicate of a while_loop")
    if cond.out_tree == LEAF and not cond.out_avals[0].shape and cond.out_avals[0].dtype == bool_:
        return cond
    found = tree.unflatten(cond.out_tree, [aval.str_short() for aval in cond.out_avals])
    lines = [
        "while_loop: the predicate must give a boolean scalar, bool[].",
        f"  It gives {found if isinstance(found, str) else repr(found)}.",
        where_defined("the predicate", cond_fun),
        "  Compare: `x > 0`, `x != 0`; of an array say jnp.any(...) or jnp.all(...).",
    ]
    raise TypeError("\n".join(lines))
