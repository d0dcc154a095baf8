"""custom_linear_solve: the solution of a linear equation, differentiated implicitly whatever the solver.

If A x = b, x changes by A dx = db - dA x, and the cotangent of b is computed from that of x by solving with the
transpose of A (implicit differentiation; Christianson 1994, Blondel et al. 2022). So the derivative is another solution
with the same solver, and the steps of the solver are never differentiated.

Four programs make up the operation: `matvec` is A, `vecmat` its transpose, `solve` computes x, `transpose_solve` does
so for the transpose. Operands are `constants of each of the four | b`; a `Four` holds one item for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from xpr import tree
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.lower import lower_eqns
from xpr.compile.reference import reference_eval
from xpr.control.custom import rules
from xpr.control.groups import Groups, split_list
from xpr.control.stop_gradient import stop_gradient
from xpr.control.tracing import Body, trace_body, type_differences, where_defined
from xpr.core.avals import ShapedArray, Zero, aval_of, same_type, same_types
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.core.primitive import Primitive, is_linear, register
from xpr.core.regions import Region
from xpr.core.source import describe_function
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import neg, sub
from xpr.primitives.shapes import instantiate, mapped_to
from xpr.text.parameters import register_parameter
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array
from xpr.transforms.linearize import push_forward_in_rule
from xpr.transforms.transpose import transpose_jaxpr

__all__ = ["custom_linear_solve", "custom_linear_solve_p"]

T = TypeVar("T")


@register_parameter
class Four(NamedTuple):
    """An item for each of a linear solve's four programs; those of the transpose are None or empty if it is missing."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> Four:
        """The items for the transposed equation."""
        return Four(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def split(values: Sequence[T], lengths: Four) -> tuple[Four, list[T]]:
    """The constants of each of the four, and b."""
    *consts, b = split_list(values, *lengths)
    return Four(*consts), b


def _bind(jaxprs: Four, consts: Four, b: Sequence[Any]) -> list[Any]:
    lengths = Four(*map(len, consts))
    operands = [x for part in consts for x in part]
    return custom_linear_solve_p.bind(*operands, *b, jaxprs=jaxprs, const_lengths=lengths)


def _abstract(avals: Sequence[ShapedArray], *, jaxprs: Four, const_lengths: Four) -> list[ShapedArray]:
    return jaxprs.solve.out_avals


def _lower(
    builder: Builder, operands: list[Value], avals: list[ShapedArray], *, jaxprs: Four, const_lengths: Four
) -> list[Value]:
    consts, b = split(operands, const_lengths)
    return lower_eqns(builder, jaxprs.solve, [*consts.solve, *b])


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    consts, b = split(args, params["const_lengths"])
    return eval_jaxpr(params["jaxprs"].solve, (), *consts.solve, *b)


def _reference(values: Sequence[Any], *, jaxprs: Four, const_lengths: Four) -> list[Any]:
    consts, b = split(values, const_lengths)
    return reference_eval(jaxprs.solve, (), *consts.solve, *b)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxprs: Four, const_lengths: Four) -> Any:
    """A x = b, and A dx = db - dA x, where dA x is the tangent of `matvec` at a fixed x."""
    consts, b = split(primals, const_lengths)
    moved, rhs = split(tangents, const_lengths)
    outs = _bind(jaxprs, consts, b)
    x, aux = split_list(outs, len(b))
    if any(type(t) is not Zero for t in moved.matvec):
        _, residual = push_forward_in_rule(
            lambda *a: eval_jaxpr(jaxprs.matvec, (), *a, *x), consts.matvec, moved.matvec
        )
        rhs = [_difference(db, dax) for db, dax in zip(rhs, residual)]
    x_tangents: list[Any] = list(rules.zeros_for(x))
    if any(type(t) is not Zero for t in rhs):
        x_tangents, _ = split_list(_bind(jaxprs, consts, [instantiate(t) for t in rhs]), len(b))
    return outs, [*x_tangents, *rules.zeros_for(aux)]


def _difference(a: Any, b: Any) -> Any:
    if type(b) is Zero:
        return a
    return neg(b) if type(a) is Zero else sub(a, b)


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, jaxprs: Four, const_lengths: Four) -> list[Any]:
    """The solution of the transposed equation, for the cotangent of x."""
    consts, b = split(operands, const_lengths)
    if any(is_linear(x) for part in consts for x in part):
        raise UnsupportedRule("custom_linear_solve is linear in b alone, and can't be transposed to what A depends on.")
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "custom_linear_solve: transpose_solve required for reverse mode, which solves the transposed equation. "
            "Give it, or say symmetric=True if A equals its transpose."
        )
    ct_x, _ = split_list(cts, len(b))
    ct_b, _ = split_list(_bind(jaxprs.transposed(), consts.transposed(), list(map(instantiate, ct_x))), len(b))
    return [None] * sum(const_lengths) + ct_b


def _batch_named(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], *, jaxprs: Four, const_lengths: Four
) -> Any:
    """The equations of all rows as one equation, whose four programs are mapped over rows."""
    consts, b = split(values, const_lengths)
    const_dims, b_dims = split(dims, const_lengths)
    rows = [mapped_to(x, d, size) for x, d in zip(b, b_dims)]

    def mapped(
        jaxpr: Jaxpr | None, operands: list[Any], operand_dims: list[int | None]
    ) -> tuple[Jaxpr | None, list[Any]]:
        """A program mapped over rows, and its constants."""
        if jaxpr is None:
            return None, []
        dims = (*operand_dims, *[0] * len(b))
        closed, _ = batch_jaxpr(jaxpr, size, dims, axis_name, (True,) * len(jaxpr.outvars))
        return constvars_to_invars(closed), [*closed.consts, *operands]

    programs, all_consts = zip(*map(mapped, jaxprs, consts, const_dims))
    outs = _bind(Four(*programs), Four(*all_consts), rows)
    return outs, [0] * len(outs)


def _threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], *, jaxprs: Four, const_lengths: Four) -> Any:
    """Leaves the four programs unchanged, and computes the state by running a copy of `solve`."""
    consts, b = split(values, const_lengths)
    unchecked = Four(*[jaxpr and thread.without_checks(jaxpr) for jaxpr in jaxprs])
    outs = custom_linear_solve_p.bind(*values, jaxprs=unchecked, const_lengths=const_lengths)
    stopped = [stop_gradient(x) for x in (*consts.solve, *b)]
    after, _ = split_list(eval_jaxpr(thread(jaxprs.solve), (), *state, *stopped), len(state))
    return after, outs


def _regions(*, jaxprs: Four, const_lengths: Four) -> list[Region]:
    """The four programs; `solve` runs once, the others not at all."""
    regions = []
    groups = Groups(**const_lengths._asdict(), b=len(jaxprs.solve.invars) - const_lengths.solve)
    for name, jaxpr in jaxprs._asdict().items():
        if jaxpr is not None:
            runs = name == "solve"  # derivatives run the others
            operands = (*groups.positions(name), *groups.positions("b"))
            results = tuple([(i,) if runs else () for i in range(len(jaxpr.outvars))])
            regions.append(Region(jaxpr, "call", operands, results, times=int(runs), follows=False))
    return regions


custom_linear_solve_p = register(
    Primitive(
        "custom_linear_solve",
        abstract=_abstract,
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        evaluate=_evaluate,
        threaded=_threaded,
        multiple_results=True,
        regions=_regions,
        call=True,
    )
)


@boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of `matvec(x) = b`, differentiated by solving again, however `solve` computes it.

    It is differentiable in b and in the values that `matvec` closes over; `solve` itself need not be differentiable.

    Args:
      matvec: a linear function from pytrees like b to pytrees like b.
      b: a pytree of arrays.
      solve: `solve(matvec, b) -> x`.
      transpose_solve: `transpose_solve(vecmat, b) -> x` with the transpose of `matvec`; needed in reverse mode.
      symmetric: a promise that `matvec` equals its transpose, so that `solve` serves for both.
      has_aux: whether `solve` and `transpose_solve` return a pair of x and auxiliary data, whose derivatives are zero.

    Returns:
      x, of b's structure and types, or (x, auxiliary data).

    Raises:
      TypeError: `matvec` or a solver returns something unlike b; or it is differentiated in reverse mode, without
        `transpose_solve` or `symmetric`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> def solution(a, b):
    ...     return lax.custom_linear_solve(lambda x: a * x, b, lambda matvec, b: b / matvec(jnp.ones_like(b)),
    ...                                    symmetric=True)
    >>> xpr.grad(solution)(2.0, 3.0)
    Array(-0.75, dtype=float32, weak_type=True)
    """
    leaves, b_tree = tree.flatten(b)
    avals = [aval_of(x) for x in leaves]
    in_tree = tree.structure(((b,), {}))
    operator = trace_body(matvec, in_tree, avals, "the matvec of a custom_linear_solve")
    _check_operator(operator, b_tree, avals)
    if rules.is_plain():
        solution = solve(matvec, b)
        _check_solution(solution, b, solve, "solve", has_aux)
        return tree.map(as_array, solution)

    def solver(fun: Callable[..., Any], apply: Callable[[Any], Any], what: str) -> Body:
        def of_b(rhs: Any) -> Any:
            solution = fun(apply, rhs)
            _check_solution(solution, b, fun, what, has_aux)
            return solution

        return trace_body(of_b, in_tree, avals, f"the {what} of a custom_linear_solve")

    solved = solver(solve, matvec, "solve")
    programs = Four(operator.closed, None, solved.closed, None)
    if symmetric:
        programs = Four(operator.closed, operator.closed, solved.closed, solved.closed)
    elif transpose_solve is not None:
        adjoint = _adjoint(operator.closed, len(leaves))
        transposed = solver(transpose_solve, _function(adjoint, b_tree), "transpose_solve")
        programs = Four(operator.closed, adjoint, solved.closed, transposed.closed)
    jaxprs = Four(*(closed and constvars_to_invars(closed) for closed in programs))
    outs = _bind(jaxprs, Four(*(closed.consts if closed else [] for closed in programs)), leaves)
    return tree.unflatten(solved.out_tree, outs)


def _adjoint(operator: ClosedJaxpr, count: int) -> ClosedJaxpr:
    """The transpose of a program that is linear in its `count` arguments."""
    jaxpr, num_consts = constvars_to_invars(operator), len(operator.consts)
    all_true = (True,) * count
    closed, _ = transpose_jaxpr(jaxpr, (False,) * num_consts + all_true, all_true, all_true)
    const_vars, cts = split_list(closed.jaxpr.invars, num_consts)
    transposed = closed.jaxpr.replace(constvars=[*closed.jaxpr.constvars, *const_vars], invars=cts)
    return ClosedJaxpr(transposed, [*closed.consts, *operator.consts])


def _function(closed: ClosedJaxpr, b_tree: Any) -> Callable[[Any], Any]:
    """A program of b's leaves as a function of pytrees like b."""

    def vecmat(x: Any) -> Any:
        return tree.unflatten(b_tree, eval_jaxpr(closed.jaxpr, closed.consts, *tree.leaves(x)))

    return vecmat


def _check_operator(body: Body, b_tree: Any, avals: Sequence[ShapedArray]) -> None:
    message = "custom_linear_solve: `matvec` must give something like b"
    check_result(message, "b", (b_tree, avals), (body.out_tree, body.out_avals), "matvec", body.fun)


def _check_solution(solution: Any, b: Any, fun: Callable[..., Any], what: str, has_aux: bool) -> None:
    message = f"custom_linear_solve: `{what}` must give x, which is something like b"
    x = without_aux("custom_linear_solve", solution, "x", what, fun) if has_aux else solution
    check_result(message, "b", structure_and_types(b), structure_and_types(x), what, fun)


def structure_and_types(values: Any) -> tuple[Any, list[ShapedArray]]:
    """The structure of a pytree of arrays, and the types of its leaves."""
    leaves, structure = tree.flatten(values)
    return structure, [aval_of(x) for x in leaves]


def check_result(
    message: str,
    name: str,
    expected: tuple[Any, Sequence[ShapedArray]],
    actual: tuple[Any, Sequence[ShapedArray]],
    role: str,
    fun: Callable[..., Any],
) -> None:
    """Raises an error, with all the differences, if the result of `fun` has another structure or other types.

    Args:
      message: the first line of the error's message.
      name: the name of the value that the result should be like; paths begin with it.
      expected: the structure of that value and the types of its leaves.
      actual: those of the result.
      role: the name of `fun` in the message.
      fun: the user's function.
    """
    (tree_expected, avals_expected), (tree_actual, avals_actual) = expected, actual
    tree.check_same_structure(tree_expected, tree_actual, message, name=name)
    if not same_types(avals_expected, avals_actual):
        lines = type_differences(name, tree_expected, avals_expected, avals_actual, ("is", role), same_type)
        raise TypeError("\n".join([f"{message}:", *lines, where_defined(role, fun)]))


def without_aux(call: str, pair: Any, name: str, role: str, fun: Callable[..., Any]) -> Any:
    """The first of the pair that a solver returns with `has_aux=True`; raises TypeError if it returned no pair."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            f"{call}: with has_aux=True `{role}` must return ({name}, auxiliary data); {describe_function(fun)} "
            f"returned {pair!r}."
        )
    return pair[0]
