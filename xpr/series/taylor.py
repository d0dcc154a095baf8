"""taylor : (a -> b) -> (a, [a^(1), ..., a^(k)]) -> (b, [b^(1), ..., b^(k)]). Derivatives along a curve, to any order.

The carried value is the beginning of a power series, x + c[1] t + c[2] t^2 + ...: a value and one array of its
coefficients. `exp` of (0, [1, 0]) carries (1, [1, 1/2]). Between users and the interpreter stand factorials: users'
series are derivatives, c[m] m!. An order costs a polynomial, where nested forward mode doubles with each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr import dtypes, tree
from xpr.control.custom.linear_solve import custom_linear_solve_p, split
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Trace, context, current
from xpr.core.jaxpr import eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.primitives.elementwise import convert_element_type
from xpr.series import augmented_control as augmented_control  # how series go through control flow
from xpr.series.augmented import CarryTrace, CarryTracer, Companions, carry_forward, may_have_companions
from xpr.series.power_series import sub, times, zeros
from xpr.series.taylor_rules import RULES, WORTH_COMPILING, Given, Result, Rows
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, argument_names, as_array


class TaylorTrace(CarryTrace):
    """Carries the first `order` coefficients of a power series beside every value."""

    __slots__ = ("order",)
    verb = "expanded in Taylor series"
    worth_compiling = WORTH_COMPILING

    def __init__(self, parent: Trace, order: int):
        super().__init__(parent)
        self.order = order

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.order,)

    def again(self, parent: Trace) -> TaylorTrace:
        return TaylorTrace(parent, self.order)

    def types(self, aval: ShapedArray) -> list[ShapedArray]:
        return [aval] * self.order

    def arrays(self, companions: Companions, value: Any) -> Companions:
        return tuple([zeros(value) if c is None else c for c in companions])

    def apply(
        self,
        primitive: Primitive,
        values: Sequence[Any],
        companions: Sequence[Companions | None],
        params: dict[str, Any],
    ) -> Any:
        rows = [None if c is None else list(c) for c in companions]
        outs, found = RULES.get(primitive, self.by_derivative)(primitive, values, rows, params)
        return outs, [None if r is None or all(c is None for c in r) else tuple(r) for r in found]

    def by_derivative(
        self, primitive: Primitive, values: Sequence[Any], rows: Sequence[Any], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """The series of an operation by that of its derivative, one order lower.

        With y = f(x), the series of y' = f'(x) x' is what the jvp rule gives for the series of x and x'. Each order
        costs an application of the rule, in which the operation itself may stand again, an order lower.
        """
        lower = TaylorTrace(context.trace, self.order - 1)
        primals, tangents = [], []
        for x, c in zip(values, rows):
            if c is None:
                primals.append(x)
                tangents.append(Zero(aval_of(x).to_tangent_aval()))
            else:
                slopes = [times(row, m) for m, row in enumerate(c, 1)]
                primals.append(lower.tracer(x, c[:-1]))
                tangents.append(lower.tracer(zeros(x) if slopes[0] is None else slopes[0], slopes[1:]))
        with current(lower):
            outs, out_tangents = primitive.jvp(primals, tangents, **params)
        lower.alive = False
        found = [None if type(t) is Zero else self.integrated(lower, t) for t in out_tangents]
        return lower.split(outs)[0], found

    def tracer(self, x: Any, rows: Sequence[Any]) -> Any:
        """A value with the coefficients `rows`; by itself where they are all zero."""
        return x if all(c is None for c in rows) else CarryTracer(self, x, tuple(rows))

    def integrated(self, lower: TaylorTrace, tangent: Any) -> list[Any]:
        """The coefficients of what has the derivative `tangent`, a value of the trace of an order less."""
        (value,), (companions,) = lower.split([tangent])
        rest = [None] * (self.order - 1) if companions is None else companions
        return [value, *(times(c, 1 / m) for m, c in enumerate(rest, 2))]


def _solution(primitive: Primitive, values: Sequence[Any], rows: Given, params: dict[str, Any]) -> Result:
    """The coefficients of the x in A x = b, one after another.

    The one of t^m has A[0] x[m] = b[m] - r, where r is that of A x with x[m] = 0. By its derivative, x' with A x' =
    b' - A' x, the operation would stand twice an order lower, and the program double with each order.
    """
    lengths = params["const_lengths"]
    consts, b = split(values, lengths)
    moved, b_rows = split(rows, lengths)
    outs = primitive.bind(*values, **params)
    x = outs[: len(b)]
    order = next(len(r) for r in rows if r is not None)
    found: list[Rows] = [[] for _ in b]
    for m in range(order):
        rest = [None if r is None else r[m] for r in b_rows]
        if any(r is not None for r in moved.matvec):
            given = [*(r and r[: m + 1] for r in moved.matvec), *([*r, None] for r in found)]
            known = [None if r is None or all(c is None for c in r) else tuple(r) for r in given]
            trace = TaylorTrace(context.trace, m + 1)
            matvec = functools.partial(eval_jaxpr, params["jaxprs"].matvec, ())
            _, products = carry_forward(trace, matvec, [*consts.matvec, *x], known)
            rest = [sub(c, None if r is None else r[m]) for c, r in zip(rest, products)]
        if all(c is None for c in rest):
            solved: Sequence[Any] = rest
        else:
            right = [zeros(y) if c is None else c for y, c in zip(b, rest)]
            solved = primitive.bind(*values[: len(values) - len(b)], *right, **params)[: len(b)]
        for r, c in zip(found, solved):
            r.append(c)
    return outs, [*found, *[None] * (len(outs) - len(b))]


RULES[custom_linear_solve_p] = _solution


@boundary
def taylor(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True
) -> tuple[Any, Any]:
    """The derivatives of a function along a curve, to any order, at a polynomial cost.

    With x(t) a curve whose value and derivatives at 0 are given, those of `fun(x(t))` are found by carrying truncated
    power series through the program. Griewank and Walther, "Evaluating Derivatives" (2008), ch. 13. The signature and
    the result are those of `jax.experimental.jet.jet`; arguments may be pytrees too.

    Args:
      fun: takes pytrees of arrays by position, and gives one.
      primals: the arguments, x(0). Python's integers that vary are taken as floats.
      series: for each argument the list of its derivatives [x'(0), x''(0), ...], each of the argument's shape, all
        lists of one length. For an argument that is a pytree, the same pytree with a list at each leaf. A derivative
        may be the number 0, whatever the shape, and costs nothing then.
      factorial_scaled: whether series are derivatives; else they are coefficients of powers of t.
    Returns:
      The value `fun(x(0))`, and its pytree with the list of derivatives in place of each leaf.
    Raises:
      TypeError: `fun` is no function, `primals` or `series` no tuple, or an array of integers is to vary.
      ValueError: the lists differ in length or do not match the arguments.
      UnsupportedRule: an operation that has no derivative (a callback) touches a varying value.

    >>> import xpr, xpr.numpy as jnp
    >>> value, derivatives = xpr.taylor(jnp.sin, (0.0,), ([1.0, 0.0, 0.0],))
    >>> [float(d) for d in derivatives]
    [1.0, -0.0, -1.0]
    """
    if not callable(fun):
        raise TypeError(f"taylor expands functions, and got {fun!r}.")
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
    given = [_coefficients(name, x, rows, factorial_scaled) for name, x, rows in zip(names, leaves, lists)]
    outs, found = carry_forward(trace, flat, leaves, given)
    rows = [_derivatives(x, c, order, factorial_scaled) for x, c in zip(outs, found)]
    return tree.unflatten(flat.out_tree, [as_array(x) for x in outs]), tree.unflatten(flat.out_tree, rows)


def _check_sequences(primals: Any, series: Any) -> None:
    for name, given, entry in (("primals", primals, "value"), ("series", series, "list of derivatives")):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"taylor: `{name}` must be a tuple with one {entry} for each argument of the function, and is "
                f"{given!r}. For a single argument write taylor(fun, (x,), ([1.0, 0.0],))."
            )


def _lists_of(primals: tuple[Any, ...], series: tuple[Any, ...], leaves: Sequence[Any], names: Any) -> list[list[Any]]:
    """For each leaf of the arguments its list."""
    structures = [tree.structure(x) for x in primals]
    if len(series) != len(primals):
        raise ValueError(f"taylor: there are {len(primals)} primals and {len(series)} series. Give a series for each.")
    lists: list[list[Any]] = []
    for i, (structure, given) in enumerate(zip(structures, series)):
        try:
            lists += [list(rows) for rows in structure.flatten_up_to(given)]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"taylor: series[{i}] must be a list of derivatives"
                f"{'' if structure.num_leaves == 1 else ' for each leaf'} of primals[{i}], and is {given!r}."
            ) from error
    return lists


def _able_to_vary(name: str, x: Any, rows: Sequence[Any]) -> Any:
    """An argument as a value of a type that has derivatives, if it varies."""
    if all(map(_is_zero, rows)) or may_have_companions(aval := aval_of(x)):
        return x
    if isinstance(x, int):
        return float(x)
    raise TypeError(
        f"taylor: {name} is {aval.str_short()}, which can't vary along a curve. Make it an array of floats, or, to "
        "keep it constant, give the number 0 for each of its derivatives."
    )


def _coefficients(name: str, x: Any, rows: list[Any], factorial_scaled: bool) -> Companions | None:
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
                f"taylor: each entry of the series of {name} must have its type, {aval.str_short()}, and entry {m - 1} "
                f"is {aval_of(row).str_short()}."
            )
        own = convert_element_type(row, aval.dtype, aval.weak_type)
        coefficients.append(times(own, 1 / math.factorial(m)) if factorial_scaled else own)
    return tuple(coefficients)


def _is_zero(row: Any) -> bool:
    return (type(row) in (int, float) and row == 0) or getattr(row, "dtype", None) == dtypes.float0


def _derivatives(x: Any, companions: Companions | None, order: int, factorial_scaled: bool) -> list[Any]:
    """The series of a result, as users see it."""
    rows = [None] * order if companions is None else companions
    scaled = [times(c, math.factorial(m)) for m, c in enumerate(rows, 1)] if factorial_scaled else rows
    return [zeros(x) if c is None else c for c in scaled]
