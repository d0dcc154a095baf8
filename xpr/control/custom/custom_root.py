"""custom_root: a root of a function, differentiated by the implicit function theorem whatever the solver.

If f(x, p) = 0, x changes with p by the implicit function theorem: (df/dx) dx = -(df/dp) dp; f closes over p. The
linear equation is a custom_linear_solve, so derivatives work in both modes and to any order.

The call is that of a custom_jvp function with operands `constants of f | constants of solve | initial guess`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.control.closures import Closures
from xpr.control.custom import rules
from xpr.control.custom.custom_jvp import custom_jvp_call_p
from xpr.control.custom.linear_solve import check_result, custom_linear_solve, structure_and_types, without_aux
from xpr.control.groups import split_list, with_unused_arguments
from xpr.control.tracing import Body, trace_body
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.dtypes import INEXACT
from xpr.errors import UnsupportedRule
from xpr.primitives.elementwise import neg
from xpr.primitives.shapes import instantiate
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import as_array
from xpr.transforms.jvp import with_zeros
from xpr.transforms.linearize import linearize_flat, push_forward_in_rule
from xpr.transforms.stage import stage
from xpr.transforms.transpose import backward_pass

__all__ = ["custom_root"]


@boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root of `f`, differentiated by the implicit function theorem, however `solve` computes it.

    The root is differentiable in the values that `f` closes over; its derivative in the initial guess is zero.

    Args:
      f: from a pytree of arrays to another of the same structure and types.
      initial_guess: a pytree of arrays.
      solve: `solve(f, initial_guess) -> x` with f(x) = 0.
      tangent_solve: `tangent_solve(g, y) -> x` with g(x) = y for a linear function g; for a scalar f,
        `lambda g, y: y / g(1.0)`. In reverse mode it is transposed; one that has no transpose, as with a
        `while_loop`, is called with the transpose of g.
      has_aux: whether `solve` returns a pair of the root and auxiliary data, whose derivatives are zero.

    Returns:
      The root, or `(root, auxiliary data)`.

    Raises:
      TypeError: `f` or a solver returns something of another type than the initial guess.

    >>> import xpr
    >>> from xpr import lax
    >>> def square_root(y):
    ...     def newton(f, x):
    ...         return lax.fori_loop(0, 10, lambda _, x: x - f(x) / (2 * x), x)
    ...     return lax.custom_root(lambda x: x * x - y, 1.0, newton, lambda g, y: y / g(1.0))
    >>> xpr.value_and_grad(square_root)(4.0)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    leaves, x_tree = tree.flatten(initial_guess)
    in_tree = tree.structure(((initial_guess,), {}))
    avals = [aval_of(x) for x in leaves]
    equation = trace_body(f, in_tree, avals, "the function of a custom_root")
    _check_equation(equation, x_tree, avals)
    _check_tangent_solve(equation, x_tree, avals, tangent_solve)
    if rules.is_plain():
        solution = solve(f, initial_guess)
        _check_root(solution, initial_guess, solve, has_aux)
        return tree.map(as_array, solution)

    def solved(guess: Any) -> Any:
        solution = solve(f, guess)
        _check_root(solution, initial_guess, solve, has_aux)
        return solution

    solver = trace_body(solved, in_tree, avals, "the solve of a custom_root")
    closures = Closures(tangent_solve)
    operands = [*equation.consts, *closures.tracers, *solver.consts, *leaves]
    unread = [aval_of(x) for x in (*equation.consts, *closures.tracers)]
    jaxpr = with_unused_arguments(constvars_to_invars(solver.closed), before=unread)

    def root(values: Sequence[Any]) -> list[Any]:
        return custom_jvp_call_p.bind(*values, call_jaxpr=jaxpr, jvp=jvp, name="custom_root", num_consts=0)

    def jvp(_: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        consts, tracers, _ = split_list(primals, len(equation.consts), len(closures.tracers))
        moved, _ = split_list(tangents, len(equation.consts))
        (solve_tangents,) = closures.rebuilt(tracers)
        outs = root(primals)
        x, aux = split_list(outs, len(leaves))
        out_tangents = _implicit_tangents(equation, tree.unflatten(x_tree, x), consts, moved, solve_tangents)
        return outs, [*out_tangents, *rules.zeros_for(aux)]

    return tree.unflatten(solver.out_tree, root(operands))


def _implicit_tangents(
    equation: Body, root: Any, consts: Sequence[Any], moved: Sequence[Any], tangent_solve: Callable[..., Any]
) -> list[Any]:
    """The tangents of the root, from those of the values that f closes over."""
    jaxpr = constvars_to_invars(equation.closed)
    x, x_tree = tree.flatten(root)
    _, residual = push_forward_in_rule(lambda *cs: eval_jaxpr(jaxpr, (), *cs, *x), consts, moved)
    if all(type(t) is Zero for t in residual):
        return residual

    rhs = [neg(instantiate(t)) for t in residual]
    return _solved_tangents(jaxpr, consts, x, rhs, x_tree, tangent_solve)


def _solved_tangents(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    x: Sequence[Any],
    rhs: Sequence[Any],
    x_tree: tree.PyTreeDef,
    tangent_solve: Callable[..., Any],
) -> list[Any]:
    """The solution of the linear equation (df/dx) dx = rhs at x."""
    every = [True] * len(x)
    _, linear, is_active = linearize_flat(lambda *xs: eval_jaxpr(jaxpr, (), *consts, *xs), x, every)
    avals = [aval_of(each) for each in x]

    def slope(v: Any) -> Any:
        tangents = eval_jaxpr(linear.jaxpr, linear.consts, *tree.leaves(v))
        return tree.unflatten(x_tree, map(instantiate, with_zeros(tangents, is_active, avals)))

    def transpose_solve(transposed_slope: Callable[..., Any], ct: Any) -> Any:
        """The transpose of `tangent_solve`, which may know df/dx and not call g; if it has one."""
        solver = stage(lambda *ys: tree.leaves(tangent_solve(slope, tree.unflatten(x_tree, ys))), avals)
        try:
            cts = backward_pass(solver.jaxpr, solver.consts, tree.leaves(ct), every)
        except (UnsupportedRule, TypeError):
            return tangent_solve(transposed_slope, ct)
        return tree.unflatten(x_tree, map(instantiate, cts))

    return tree.leaves(custom_linear_solve(slope, tree.unflatten(x_tree, rhs), tangent_solve, transpose_solve))


def _check_tangent_solve(
    equation: Body, x_tree: tree.PyTreeDef, avals: Sequence[ShapedArray], tangent_solve: Callable[..., Any]
) -> None:
    """Traces `tangent_solve`, which runs where the root is differentiated, so that its errors are seen at once."""
    if any(aval.dtype not in INEXACT for aval in avals):
        return
    jaxpr, n = constvars_to_invars(equation.closed), len(avals)

    def solved(*args: Any) -> list[Any]:
        x, rhs = split_list(args, n)
        return _solved_tangents(jaxpr, equation.consts, x, rhs, x_tree, tangent_solve)

    stage(solved, [*avals, *avals])


def _check_equation(equation: Body, x_tree: Any, avals: Sequence[ShapedArray]) -> None:
    message = "custom_root: `f` must give something like the initial guess"
    result = equation.out_tree, equation.out_avals
    check_result(message, "initial_guess", (x_tree, avals), result, "f", equation.fun)


def _check_root(solution: Any, guess: Any, solve: Callable[..., Any], has_aux: bool) -> None:
    message = "custom_root: `solve` must give something like the initial guess"
    root = without_aux("custom_root", solution, "root", "solve", solve) if has_aux else solution
    check_result(message, "initial_guess", structure_and_types(guess), structure_and_types(root), "solve", solve)
