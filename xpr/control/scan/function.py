"""lax.scan: traces the user's body and reports errors in its types and structure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes, tree
from xpr.config import settings
from xpr.control.groups import mask, merge, partition, split_list
from xpr.control.refs import check_aliases, refuse_refs
from xpr.control.scan.scan import bind_scan
from xpr.control.scan.until import scan_until_p
from xpr.control.tracing import (
    Body,
    Step,
    Watched,
    advice_on_casts,
    is_users,
    missing_casts,
    trace_body,
    type_differences,
    types_of_leaves,
    where_defined,
)
from xpr.core.avals import ShapedArray, aval_of, same_kind, same_type
from xpr.core.effects import control_flow_allowed_effects
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, Var, check_effects, constvars_to_invars
from xpr.core.ref_views import refuse_split_views
from xpr.core.refs import Ref
from xpr.core.source import describe_function
from xpr.dimensions.expressions import surely_at_least
from xpr.errors import CarryMismatch, ConcretizationTypeError, RefError, TreeMismatch
from xpr.passes.discharge import uses_of_refs
from xpr.primitives.composites import broadcast
from xpr.primitives.elementwise import convert_element_type
from xpr.primitives.shapes import rev
from xpr.primitives.sharding_rules import parts_of
from xpr.primitives.slicing import concatenate
from xpr.primitives.slicing_in_dim import index_in_dim
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import argument_names, as_array
from xpr.transforms.on_arrays import arrays_in

__all__ = ["scan"]


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    until: Callable[[Any], Any] | None = None,
) -> tuple[Any, Any]:
    """Loops over the leading axis of arrays while carrying state, as one operation.

    `carry, y = f(carry, x)` is done for each row x of `xs`; the y's are stacked.

    Args:
      f: `f(carry, x) -> (carry, y)`, with the carry of the same types and x a row of `xs`.
      init: the initial carry, a pytree.
      xs: a pytree of arrays whose first axes are equally long, or None.
      length: the number of steps, needed if `xs` holds no array.
      reverse: whether to go from the last row to the first; each y has the position of its x.
      unroll: the number of steps in an iteration of the compiled loop; True for all, False and 0 for 1.
      _split_transpose: understood and ignored.
      until: a predicate of the carry, evaluated before each step: the loop ends where it is True, and the rows of the
        result that were not reached are zeros. Gradients are those of the steps taken.

    Returns:
      `(last carry, the y's stacked along a new first axis)`.

    Raises:
      CarryMismatch: the carry that `f` returns differs from the one it takes.
      ValueError: lengths differ, or `unroll` is negative.
      TypeError: `f` doesn't return a pair, or `unroll` is no integer.

    >>> from xpr import lax, numpy as jnp
    >>> lax.scan(lambda total, x: (total + x, total), jnp.zeros(()), jnp.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32))
    >>> lax.scan(lambda c, x: (c + x, c), jnp.zeros(()), jnp.ones(5), until=lambda c: c > 2)
    (Array(3., dtype=float32), Array([0., 1., 2., 0., 0.], dtype=float32))
    """
    if not callable(f) and type(f) is not Watched:
        raise TypeError(f"lax.scan: the body of a scan must be callable, and is {f!r}.")
    rows, xs_tree = tree.flatten(xs)
    n = _length(rows, xs, xs_tree, length)
    if type(f) is Watched:
        return _watched(f, init, xs, n, reverse, unroll, until)
    carry, in_tree = tree.flatten(init)
    if settings.disable_jit and n and until is None:
        return _in_python(f, init, rows, xs_tree, n, reverse)
    body, carry = _typed_body(f, carry, in_tree, rows, xs_tree)
    if isinstance(unroll, Tracer):
        raise ConcretizationTypeError(
            f"scan: The `unroll` argument to `scan` expects a concrete `int` or `bool` value, and is "
            f"{unroll.aval.str_short()}, traced. Make the argument that it comes from static."
        )
    num_steps = n if unroll is True else _number_of_steps(unroll)
    y_tree = body.out_tree.children()[1]
    if until is not None:
        refuse_refs("scan", f, [*body.consts, *rows], "Without `until`, and in a while_loop, it can.")
        outs = _until(until, body, carry, in_tree, rows, n, bool(reverse))
        carry, ys = split_list(outs, len(carry))
        return tree.unflatten(in_tree, carry), tree.unflatten(y_tree, ys)
    like = {"length": n, "reverse": bool(reverse), "unroll": max(num_steps, 1)}
    outs = _without_copies(constvars_to_invars(body.closed), body.consts, carry, rows, like)
    carry, ys = split_list(outs, len(carry))
    return tree.unflatten(in_tree, carry), tree.unflatten(y_tree, ys)


def _number_of_steps(unroll: Any) -> int:
    message = f"scan: `unroll` must be a bool or an integer that isn't negative, and is {unroll!r}."
    try:
        num_steps = operator.index(unroll)
    except TypeError:
        raise TypeError(message) from None
    if num_steps < 0:
        raise ValueError(message)
    return num_steps


def _without_copies(
    jaxpr: Jaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], like: dict[str, Any]
) -> list[Any]:
    """Applies the loop without what it would only copy.

    A carry that the body returns unchanged becomes a constant of the loop. If the rows of a y are those of one of the
    xs, the result is that array, and the loop doesn't compute it.
    """
    const_vars, carry_vars, row_vars = split_list(jaxpr.invars, len(consts), len(carry))
    next_carry, ys = split_list(jaxpr.outvars, len(carry))
    is_constant = [v is after for v, after in zip(carry_vars, next_carry)]
    rows_of: dict[Any, Any] = dict(zip(row_vars, xs))
    is_row = [type(y) is Var and y in rows_of for y in ys]
    if not any(is_constant) and not any(is_row):
        return bind_scan(jaxpr, consts, carry, xs, like)
    if "without copies" not in jaxpr.memo:
        constant_vars, changing_vars = partition(carry_vars, is_constant)
        _, outvars = partition(jaxpr.outvars, [*is_constant, *is_row])
        invars = [*const_vars, *constant_vars, *changing_vars, *row_vars]
        jaxpr.memo["without copies"] = jaxpr.replace(invars=invars, outvars=outvars)
    constants, changing = partition(carry, is_constant)
    outs = bind_scan(jaxpr.memo["without copies"], [*consts, *constants], changing, xs, like)
    last, computed = split_list(outs, len(changing))
    copied = [as_array(rows_of[y]) for y in mask(ys, is_row)]
    return [*merge(map(as_array, constants), last, is_constant), *merge(copied, computed, is_row)]


def _watched(f: Watched, init: Any, xs: Any, n: int, reverse: bool, unroll: Any, until: Any) -> tuple[Any, Any]:
    """The loop with a watcher, whose state is carried first."""
    f = f.of(f.__wrapped__, n)

    def step(carry: Any, x: Any) -> Any:
        state, inner = carry
        outs = f(inner, x)
        if type(outs) not in (tuple, list) or len(outs) != 2:
            return outs  # which is refused
        return (f.before(state, f.total), outs[0]), outs[1]

    stop = None if until is None else Step("scan", until, lambda carry: until(carry[1]), lambda carry: (carry[1],))
    try:
        carry, ys = scan(f.step("scan", step), (f.initial, init), xs, n, reverse, unroll, until=stop)
    except CarryMismatch as error:
        raise CarryMismatch(str(error).replace("carry[1]", "carry")) from None
    state, last = carry
    f.after(state, f.total)
    return last, ys


def _until(
    until: Callable[[Any], Any], body: Body, carry: list[Any], in_tree: Any, rows: list[Any], n: int, reverse: bool
) -> list[Any]:
    """The loop that stops early; a reversed loop runs forwards over reversed arrays."""
    args_tree = tree.structure(((tree.unflatten(in_tree, carry),), {}))
    stop = trace_body(until, args_tree, [aval_of(x) for x in carry], "the `until` of a scan", refs=True)
    refuse_refs("scan", until, stop.consts, "In the predicate of a while_loop it can.")
    if [(a.shape, a.dtype) for a in stop.out_avals] != [((), dtypes.bool_)]:
        raise TypeError(
            f"scan: `until` must give a scalar bool; {describe_function(until)} gives "
            f"{tree.unflatten(stop.out_tree, [a.str_short() for a in stop.out_avals])}."
        )
    _, *outs = scan_until_p.bind(
        *stop.consts, *body.consts, *carry, *(rev(x, (0,)) if reverse else x for x in rows),
        jaxpr=constvars_to_invars(body.closed),
        length=n,
        num_carry=len(carry),
        num_consts=len(body.consts),
        reverse=False,
        until=constvars_to_invars(stop.closed),
        until_nconsts=len(stop.consts),
    )  # fmt: skip
    carry, ys = split_list(outs, len(carry))
    return [*carry, *(rev(y, (0,)) for y in ys)] if reverse else outs


_MOST_STEPS = 2**31 - 1


def _length(rows: Sequence[Any], xs: Any, xs_tree: Any, length: int | None) -> int:
    """The number of steps: `length` and the first axis of every array, which must agree."""
    shapes = list(map(_shape_of_rows, types_of_leaves("scan", "xs", xs_tree, rows)))
    if not all(shapes):
        paths = [f"xs{tree.keystr(path)}" for (path, _), shape in zip(tree.leaves_with_path(xs), shapes) if not shape]
        raise ValueError(
            f"scan got value with no leading axis to scan over: {', '.join(paths)}. It goes over the first axis of "
            "each of the xs."
        )
    _refuse_partitioned_rows(rows, xs)
    lengths = {shape[0] for shape in shapes}
    if length is not None:
        try:
            lengths.add(int(length))
        except TypeError as error:
            raise (ConcretizationTypeError if isinstance(length, Tracer) else TypeError)(
                "scan: The `length` argument to `scan` expects a concrete `int` value, and is "
                f"{aval_of(length).str_short()}, traced. Use while_loop or fori_loop for a number of "
                "steps that is computed."
            ) from error
    if not lengths:
        raise ValueError("scan: there are no arrays among the xs, so `length` has to say how many steps to take.")
    if length is not None and len({shape[0] for shape in shapes}) == 1 < len(lengths):
        sizes = [shapes[0][0]]
        raise ValueError(f"scan got `length` argument of {length} which disagrees with leading axis sizes {sizes}.")
    if len(lengths) > 1:
        lines = [f"  xs{tree.keystr(path)}   {aval_of(x).str_short()}" for path, x in tree.leaves_with_path(xs)]
        lines += [f"  length   {length}"] if length is not None else []
        raise ValueError("\n".join(["scan: the xs must have equally long first axes:", *lines]))
    n = lengths.pop()
    if n < 0:
        raise ValueError(f"scan: `length` is the number of steps, and can't be {n}.")
    if surely_at_least(n, _MOST_STEPS + 1):
        raise OverflowError(
            f"scan: {n} steps were asked for, and steps are counted in 32 bits, up to {_MOST_STEPS}. "
            "Nest two scans, or use while_loop."
        )
    return n


def _shape_of_rows(aval: Any) -> Sequence[int]:
    """The shape of an array; of a value of a user's type that of one of its arrays, with the fewest axes."""
    return min([each.shape for each in arrays_in([aval])], key=len, default=())


def _refuse_partitioned_rows(rows: Sequence[Any], xs: Any) -> None:
    """Raises ValueError where the rows that the steps take are on different devices."""
    if any(not aval_of(x).is_high and parts_of(aval_of(x))[0] is not None for x in rows):
        lines = [
            f"  xs{tree.keystr(path)}   {aval_of(x).str_short()}"
            for path, x in tree.leaves_with_path(xs)
            if parts_of(aval_of(x))[0] is not None
        ]
        raise ValueError(
            "scan: the first axis of the xs must not be partitioned over a mesh, since each step takes a row: the 0th "
            "dimension of all xs should be replicated:\n"
            + "\n".join(lines)
            + "\nReshard them: xpr.sharding.reshard(xs, P(None, ...)); or use vmap."
        )


def _typed_body(
    f: Callable[..., Any], carry: list[Any], in_tree: Any, rows: Sequence[Any], xs_tree: Any
) -> tuple[Body, list[Any]]:
    """The body, traced for a carry whose types it preserves, and that carry, with weakly typed leaves promoted."""
    x_avals = [aval_of(x).without_axis(0) for x in rows]
    blank = tree.unflatten(in_tree, [0] * len(carry)), tree.unflatten(xs_tree, [0] * len(x_avals))
    args_tree = tree.structure((blank, {}))
    what = f.what if type(f) is Step else "scan"
    if Ref in map(type, rows):
        refuse_split_views(what, blank[1], [True] * len(rows))
    while True:
        avals = types_of_leaves(what, "init", in_tree, carry)
        body = trace_body(f, args_tree, [*avals, *x_avals], f"the body of a {what}", refs=True)
        if uses_of_refs(body.closed.jaxpr).any or body.closed.is_high:
            check_aliases(what, f, lambda: argument_names(f, blank, {}), [*carry, *rows], body.consts)
            check_no_refs(what, carry)
        check_pair(body)
        carry_tree = body.out_tree.children()[0]
        carry_out, _ = split_list(body.out_avals, carry_tree.num_leaves)
        check_carry_structure(what, in_tree, body, carry_tree)
        promoted = promote_weak(carry, avals, carry_out)
        if promoted is None:
            break
        carry = promoted
    check_carry_types(what, in_tree, avals, carry_out, f)
    check_effects(what, body.closed.jaxpr, control_flow_allowed_effects)
    return body, carry


def check_no_refs(what: str, carry: Sequence[Any]) -> None:
    """Raises RefError if the carry holds a ref, and TypeError if it holds a mutable value of a user's type."""
    if Ref in map(type, carry):
        raise RefError(f"{what}: the carry holds a Ref, and loops don't carry refs. Close over it in the body.")
    mutable = [aval_of(x) for x in carry if aval_of(x).has_qdd]
    if mutable:
        raise TypeError(
            f"{what}: the carry holds a mutable value of type {mutable[0].str_short()}, and loops don't carry those. "
            "Close over it in the body."
        )


def check_pair(body: Body) -> None:
    """Raises TypeError if the body does not return a pair."""
    structure = body.out_tree
    if structure.spec.type not in (tuple, list) or structure.spec.num_children != 2:
        types = tree.unflatten(structure, [aval.str_short(short_dtypes=False) for aval in body.out_avals])
        raise TypeError(
            f"scan body output must be a pair, got {types if isinstance(types, str) else repr(types)}. "
            f"{describe_function(body.fun)} gives it. A pair is the next carry, and a row of the result, or "
            "None for none."
        )


def check_carry_structure(what: str, in_tree: Any, body: Body, out_tree: Any) -> None:
    """Raises CarryMismatch if the structures of the carries differ."""
    if out_tree == in_tree:
        return
    try:
        tree.check_same_structure(
            in_tree,
            out_tree,
            f"{what}: the body must give the carry in the structure it takes",
            name="carry",
            advice=f"{describe_function(body.fun)} is the body. Change what it gives, or the initial carry.",
        )
    except TreeMismatch as error:
        raise CarryMismatch(str(error)) from None


def check_carry_types(
    what: str, in_tree: Any, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], fun: Callable[..., Any]
) -> None:
    """Raises CarryMismatch if the types of the carries differ, with all the differences.

    In a shard_map, the carry that a user's function returns must not vary over more axes than the initial one.
    """
    lines = type_differences("carry", in_tree, avals, outs, ("in", "out"), same_type)
    if lines:
        reshaped = not all(map(same_kind, avals, outs))
        how = "Reshape or convert" if reshaped else "Reshard, or move,"
        raise CarryMismatch(
            "\n".join(
                [
                    f"{what}: the carry input and carry output must have equal types, and differ.",
                    *lines,
                    where_defined("the body", fun),
                    f"  {how} inside the body, or change the initial carry.",
                ]
            )
        )
    casts = missing_casts("carry", in_tree, outs, avals, "the initial ")
    if casts and is_users(fun):
        raise CarryMismatch(
            f"{what}: the body must give the carry with the types it takes, and what it gives varies over axes of the "
            f"shard_map around, over which the initial carry does not.\n{where_defined('the body', fun)}\n"
            f"{advice_on_casts(casts)}"
        )


def promote_weak(carry: Sequence[Any], avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> list[Any] | None:
    """The carry with its weakly typed leaves in the dtypes the body returns; None if there is nothing to promote."""
    if len(avals) != len(outs):
        return None
    promoted, changed = list(carry), False
    for i, (a, out) in enumerate(zip(avals, outs)):
        if a.weak_type and not out.is_high and a.dtype != out.dtype:
            dtype, _ = dtypes.promote_pair(a.dtype, True, out.dtype, out.weak_type)
            if dtype != a.dtype:
                is_number = type(carry[i]) in (int, float, complex)  # stays one, of another type
                promoted[i] = dtype.type(carry[i]) if is_number else convert_element_type(carry[i], dtype)
                changed = True
    return promoted if changed else None


def _in_python(
    f: Callable[..., Any], init: Any, rows: Sequence[Any], xs_tree: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """The loop as a Python loop, for `disable_jit`."""
    carry, ys = tree.map(as_array, init), []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree.unflatten(xs_tree, [index_in_dim(x, i, 0, keepdims=False) for x in rows]))
        ys.append(y)
    ordered = ys[::-1] if reverse else ys
    return carry, tree.map(lambda *parts: concatenate([broadcast(y, (1,)) for y in parts], 0), *ordered)
