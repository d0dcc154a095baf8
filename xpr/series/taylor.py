"""taylor : (a -> b) -> (a, [a^(1), ..., a^(k)]) -> (b, [b^(1), ..., b^(k)]). Derivatives along a curve, to any order.

A value is augmented to a truncated power series, x + c[1] t + c[2] t^2 + ...: the value and its coefficients. `exp` of
(0, [1, 0]) is (1, [1, 1/2]). Users' series are derivatives, c[m] m!. The cost is polynomial in the order; that of
nested forward mode doubles with each order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes, tree
from xpr.control.custom.linear_solve import custom_linear_solve_p, split
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Trace, context, current
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.source import check_function
from xpr.primitives.elementwise import convert_element_type
from xpr.series import augmented_control as augmented_control  # rules for control flow
from xpr.series.augmented import AugmentedTrace, AugmentedTracer, Jet, may_vary, run_augmented
from xpr.series.power_series import sub, times, zeros
from xpr.series.taylor_rules import RULES, WORTH_COMPILING, OperandRows, Result, Rows
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, argument_names, as_array


class TaylorTrace(AugmentedTrace):
    """Augments values by the first `order` coefficients of a power series."""

    __slots__ = ("order",)
    verb = "expanded in Taylor series"
    worth_compiling = WORTH_COMPILING

    def __init__(self, parent: Trace, order: int):
        super().__init__(parent)
        self.order = order

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.order,)

    def like(self, parent: Trace) -> TaylorTrace:
        return TaylorTrace(parent, self.order)

    def types(self, aval: ShapedArray) -> list[ShapedArray]:
        return [aval] * self.order

    def arrays(self, jet: Jet, value: Any) -> Jet:
        return tuple([zeros(value) if c is None else c for c in jet])

    def apply(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        jets: Sequence[Jet | None],
        params: dict[str, Any],
    ) -> Any:
        rows = [None if c is None else list(c) for c in jets]
        outs, out_rows = RULES.get(primitive, self.by_derivative)(primitive, values, rows, params)
        return outs, [None if r is None or all(c is None for c in r) else tuple(r) for r in out_rows]

    def by_derivative(
        self, primitive: Primitive, values: Sequence[Any], rows: Sequence[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """The series of an operation by that of its derivative, one order lower.

        With y = f(x), the series of y' = f'(x) x' is what the jvp rule gives for the series of x and x'. Each order
        costs an application of the rule, which may apply the operation itself again, an order lower.
        """
        lower = TaylorTrace(context.trace, self.order - 1)
        primals, tangents = [], []
        for x, c in zip(values, rows):
            if c is None:
                primals.append(x)
                tangents.append(Zero.from_primal_value(x))
            else:
                slopes = [times(row, m) for m, row in enumerate(c, 1)]
                primals.append(lower.tracer(x, c[:-1]))
                tangents.append(lower.tracer(zeros(x) if slopes[0] is None else slopes[0], slopes[1:]))
        with current(lower):
            outs, out_tangents = primitive.jvp(primals, tangents, **params)
        lower.alive = False
        out_rows = [None if type(t) is Zero else self.integrated(lower, t) for t in out_tangents]
        return lower.split(outs)[0], out_rows

    def tracer(self, x: Any, rows: Sequence[Any]) -> Any:
        """A value with the coefficients `rows`; unwrapped where they are all zero."""
        return x if all(c is None for c in rows) else AugmentedTracer(self, x, tuple(rows))

    def integrated(self, lower: TaylorTrace, tangent: Any) -> list[Any]:
        """The coefficients of the value whose derivative is `tangent`, a value of the trace of an order less."""
        (value,), (jet,) = lower.split([tangent])
        others = [None] * (self.order - 1) if jet is None else jet
        return [value, *(times(c, 1 / m) for m, c in enumerate(others, 2))]


def _solution(primitive: Primitive, values: Sequence[Any], rows: OperandRows, params: dict[str, Any]) -> Result:
    """The coefficients of the x in A x = b, one after another.

    The one of t^m has A[0] x[m] = b[m] - r, where r is that of A x with x[m] = 0. By its derivative, x' with A x' =
    b' - A' x, the operation would occur twice an order lower, and the program double with each order.
    """
    lengths = params["const_lengths"]
    consts, b = split(values, lengths)
    varying, b_rows = split(rows, lengths)
    outs = primitive.bind(*values, **params)
    x, aux = split_list(outs, len(b))
    all_consts, _ = split_list(values, len(values) - len(b))
    order = next(len(r) for r in rows if r is not None)
    x_rows: list[Rows] = [[] for _ in b]
    for m in range(order):
        right = [None if r is None else r[m] for r in b_rows]
        if any(r is not None for r in varying.matvec):
            matvec_rows = [*(r and r[: m + 1] for r in varying.matvec), *([*r, None] for r in x_rows)]
            known = [None if r is None or all(c is None for c in r) else tuple(r) for r in matvec_rows]
            trace = TaylorTrace(context.trace, m + 1)
            matvec = functools.partial(eval_jaxpr, params["jaxprs"].matvec, ())
            _, products = run_augmented(trace, matvec, [*consts.matvec, *x], known)
            right = [sub(c, None if r is None else r[m]) for c, r in zip(right, products)]
        if all(c is None for c in right):
            solved: Sequence[Any] = right
        else:
            right = [zeros(y) if c is None else c for y, c in zip(b, right)]
            solved, _ = split_list(primitive.bind(*all_consts, *right, **params), len(b))
        for r, c in zip(x_rows, solved):
            r.append(c)
    return outs, [*x_rows, *[None] * len(aux)]


RULES[custom_linear_solve_p] = _solution


@boundary
def taylor(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True
) -> tuple[Any, Any]:
    """The derivatives of a function along a curve, to any order, at a polynomial cost.

    Truncated power series go through the program: from the value and derivatives at 0 of a curve x(t) come those of
    `fun(x(t))`. Griewank and Walther, "Evaluating Derivatives" (2008), ch. 13. The signature and the result are those
    of `jax.experimental.jet.jet`; arguments may be pytrees too.

    Args:
      fun: takes pytrees of arrays by position, and gives one.
      primals: the arguments, x(0). Python integers that vary become floats.
      series: for each argument the list of its derivatives [x'(0), x''(0), ...], each of the argument's shape, all
        lists of one length. For an argument that is a pytree, the same pytree with a list at each leaf. A derivative
        may be the number 0, whatever the shape, and costs nothing then.
      factorial_scaled: whether series are derivatives; else they are coefficients of powers of t.

    Returns:
      `(value fun(x(0)), series)`, where the series is the pytree of the value with a list of derivatives for each leaf.

    Raises:
      TypeError: `fun` is no function, `primals` or `series` no tuple, or an array of integers is to vary.
      ValueError: the lists differ in length or do not match the arguments.
      UnsupportedRule: an operation that has no derivative (a callback) touches a varying value.

    >>> import xpr, xpr.numpy as jnp
    >>> value, derivatives = xpr.taylor(jnp.sin, (0.0,), ([1.0, 0.0, 0.0],))
    >>> [float(d) for d in derivatives]
    [1.0, -0.0, -1.0]
    """
    check_function(fun, "taylor")
    _check_sequences(primals, series)
    leaves, in_tree = tree.flatten((tuple(primals), {}))
    names = argument_names(fun, tuple(primals), {})
    lists = _lists_of(tuple(primals), tuple(series), leaves, names)
    order = len(lists[0]) if lists else 0
    if any(len(rows) != order for rows in lists):
        lengths = ", ".join(f"{name}: {len(rows)}" for name, rows in zip(names, lists))
        raise ValueError(f"taylor: the series of all arguments must be equally long, and have lengths {lengths}.")
    leaves = list(map(_able_to_vary, names, leaves, lists))
    flat = FlatFunction(fun, in_tree)
    if not order:
        outs = flat(*leaves)
        return tree.unflatten(flat.out_tree, outs), tree.unflatten(flat.out_tree, [[] for _ in outs])
    trace = TaylorTrace(context.trace, order)
    jets = [_coefficients(name, x, rows, factorial_scaled) for name, x, rows in zip(names, leaves, lists)]
    outs, out_jets = run_augmented(trace, flat, leaves, jets)
    rows = [_derivatives(x, c, order, factorial_scaled) for x, c in zip(outs, out_jets)]
    return tree.unflatten(flat.out_tree, [as_array(x) for x in outs]), tree.unflatten(flat.out_tree, rows)


def _check_sequences(primals: Any, series: Any) -> None:
    for name, values, element in (("primals", primals, "value"), ("series", series, "list of derivatives")):
        if not isinstance(values, (tuple, list)):
            raise TypeError(
                f"taylor: `{name}` must be a tuple with one {element} for each argument of the function, and is "
                f"{values!r}. For a single argument write taylor(fun, (x,), ([1.0, 0.0],))."
            )


def _lists_of(primals: tuple[Any, ...], series: tuple[Any, ...], leaves: Sequence[Any], names: Any) -> list[list[Any]]:
    """For each leaf of the arguments its list."""
    structures = [tree.structure(x) for x in primals]
    if len(series) != len(primals):
        raise ValueError(f"taylor: there are {len(primals)} primals and {len(series)} series. Give a series for each.")
    lists: list[list[Any]] = []
    for i, (structure, lists_in) in enumerate(zip(structures, series)):
        try:
            lists += [list(rows) for rows in structure.flatten_up_to(lists_in)]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"taylor: series[{i}] must be a list of derivatives"
                f"{'' if structure.num_leaves == 1 else ' for each leaf'} of primals[{i}], and is {lists_in!r}."
            ) from error
    return lists


def _able_to_vary(name: str, x: Any, rows: Sequence[Any]) -> Any:
    """An argument as a value of a type that has derivatives, if it varies."""
    if all(map(_is_zero, rows)) or may_vary(aval := aval_of(x)):
        return x
    if isinstance(x, int):
        return float(x)
    raise TypeError(
        f"taylor: {name} is {aval.str_short()}, which can't vary along a curve. Make it an array of floats, or, to "
        "keep it constant, pass the number 0 for each of its derivatives."
    )


def _coefficients(name: str, x: Any, rows: list[Any], factorial_scaled: bool) -> Jet | None:
    """The coefficients of an argument; None where it does not vary."""
    if all(map(_is_zero, rows)):
        return None
    aval = aval_of(x)
    coefficients: list[Any] = []
    for m, row in enumerate(rows, 1):
        if _is_zero(row):
            coefficients.append(None)
            continue
        if aval_of(row).shape != aval.shape:
            raise ValueError(
                f"taylor: each element of the series of {name} must have its type, {aval.str_short()}, and element "
                f"{m - 1} is {aval_of(row).str_short()}."
            )
        coefficient = convert_element_type(row, aval.dtype, aval.weak_type)
        coefficients.append(times(coefficient, 1 / math.factorial(m)) if factorial_scaled else coefficient)
    return tuple(coefficients)


def _is_zero(row: Any) -> bool:
    return (type(row) in (int, float) and row == 0) or getattr(row, "dtype", None) == dtypes.float0


def _derivatives(x: Any, jet: Jet | None, order: int, factorial_scaled: bool) -> list[Any]:
    """The series of a result, as users see it."""
    rows = [None] * order if jet is None else jet
    scaled = [times(c, math.factorial(m)) for m, c in enumerate(rows, 1)] if factorial_scaled else rows
    return [zeros(x) if c is None else c for c in scaled]
