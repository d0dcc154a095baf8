"""Elementwise functions: each output entry depends on the matching input entries alone.

Operands have one dtype, and one shape, in which axes of size 1 stretch; or the shape (), which broadcasts. So a mapped
axis passes straight through, and the tangent of y = f(x) is x_dot * f'(x).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import Shape, ShapedArray, Zero, aval_of
from xpr.core.primitive import Primitive, Unsupported, is_linear, params_of, register
from xpr.dtypes import ANY, BOOL, COMPLEX, FLOATS, INEXACT, INTEGERS, NUMBERS, REAL, UNSIGNED, short_name
from xpr.primitives.placing import select, select_n
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, full, mapped_to, reduce_sum, reshape, to_front
from xpr.primitives.work import per_result

ZERO = "zero"  # a derivative that vanishes wherever it exists
_PYTHON_SCALARS = frozenset({bool, int, float, complex})

# -- Typing

_KINDS = {
    FLOATS: "floats", INEXACT: "floats and complex numbers", COMPLEX: "complex numbers", NUMBERS: "numbers",
    INTEGERS: "integers", REAL: "real numbers", REAL | BOOL: "real numbers and booleans",
    INTEGERS | BOOL: "integers and booleans",
}  # fmt: skip


def _common_type(name: str, avals: Sequence[ShapedArray], over: frozenset[np.dtype]) -> ShapedArray:
    """The shape, dtype and weakness that the operands agree on."""
    first = avals[0]
    shape, weak = first.shape, first.weak_type
    for aval in avals[1:]:
        both = shape if aval.shape == shape else _stretched(shape, aval.shape)
        if aval.dtype != first.dtype or both is None:
            types = ", ".join(a.str_short() for a in avals)
            what = "dtypes" if aval.dtype != first.dtype else "shapes"
            raise TypeError(
                f"{name}: the operands' {what} differ: {types}. The functions of xpr.numpy promote dtypes and "
                "broadcast shapes; those of xpr.lax take operands of one dtype: scalars, and arrays of as many axes, "
                "whose sizes are equal or 1."
            )
        shape, weak = both, weak and aval.weak_type
    if first.dtype not in over:
        allowed = _KINDS.get(over) or ", ".join(sorted(short_name(d) for d in over))
        raise TypeError(
            f"{name}: takes {allowed}, and got {', '.join(a.str_short() for a in avals)}. Convert with .astype."
        )
    return first.update(shape=shape, weak_type=weak)


def _stretched(a: Shape, b: Shape) -> Shape | None:
    """The shape of the result of two operands: scalars broadcast, axes of size 1 stretch; None where there is none."""
    if not a or not b:
        return a or b
    if len(a) != len(b) or any(n != m and n != 1 != m for n, m in zip(a, b)):
        return None
    return tuple([m if n == 1 else n for n, m in zip(a, b)])


# -- Batching


def batch_elementwise(primitive: Primitive) -> Callable[..., Any]:
    """Moves every mapped axis to the front and leaves unmapped scalars to broadcast by themselves."""

    def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        ranks = [aval_of(x).ndim - (d is not None) for x, d in zip(values, dims)]
        rank = builtins.max(ranks)
        mapped = {d for d, r in zip(dims, ranks) if d is not None}
        if len(mapped) == 1 and all(
            (r == rank and d is not None) or (r == 0 and d is None) for r, d in zip(ranks, dims)
        ):
            return [primitive.bind(*values, **params)], [mapped.pop()]
        row = next(
            tuple(n for i, n in enumerate(aval_of(x).shape) if i != d)
            for x, d, r in zip(values, dims, ranks)
            if r == rank
        )
        aligned = [_align(x, d, size, row) for x, d in zip(values, dims)]
        return [primitive.bind(*aligned, **params)], [0]

    return batch


def _align(x: Any, dim: int | None, size: int, row: tuple[int, ...]) -> Any:
    rank = aval_of(x).ndim - (dim is not None)
    if rank == 0 and dim is None:
        return x
    if rank == 0:
        return broadcast_in_dim(x, (size, *row), (0,))
    return mapped_to(x, dim, size)


# -- Differentiating


def gathered(ct: Any, aval: ShapedArray) -> Any:
    """The cotangent of an operand: that of the result, summed along the axes that the operand was repeated along."""
    shape = aval_of(ct).shape
    if shape == aval.shape:
        return ct
    axes = [i for i, n in enumerate(shape) if not aval.ndim or aval.shape[i] != n]
    return reshape(reduce_sum(ct, axes), aval.shape)


def _chain(primitive: Primitive, partials: Sequence[Any]) -> Callable[..., Any]:
    """The jvp of y = f(x1, ..., xn): the sum of `partial(tangent, *primals, y)` over operands with a tangent."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        aval = aval_of(out)
        total = None
        for tangent, partial in zip(tangents, partials):
            if type(tangent) is Zero or partial is ZERO:
                continue
            term = partial(tangent, *primals, out, **params)
            if aval.ndim:
                term = broadcast_to(term, aval.shape)
            total = term if total is None else add_any(total, term)
        return [out], [Zero(aval.to_tangent_aval()) if total is None else total]

    return jvp


NOT_LINEAR = "It is not linear, so a linearized program never holds it on a tangent."


# -- Lowering


def _operation(name: str) -> Callable[..., list[Value]]:
    """The rule that writes one operation of that name."""

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
        return [b.op(name, _repeated(b, operands, avals[0].shape), avals[0])]

    return lower


def _repeated(b: Builder, operands: list[Value], shape: Shape) -> list[Value]:
    """The operands in the shape of the result, as operations of StableHLO take them."""
    return [x if x.aval.shape == shape else b.broadcast(x, shape, range(x.aval.ndim)) for x in operands]


# -- Builders


def _keeping_dtype(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference rule whose result has the operands' dtype: NumPy gives int8 for the 4-bit integers."""

    def rule(values: Sequence[Any], **params: Any) -> list[Any]:
        out, dtype = reference(*values, **params), values[0].dtype
        return [out if out.dtype is dtype else out.astype(dtype)]

    return rule


def elementwise(
    name: str,
    *,
    over: frozenset[np.dtype] = NUMBERS,
    gives: Callable[[np.dtype], np.dtype] | None = None,
    lowers_to: str | Callable[..., Any],
    reference: Callable[..., Any],
    partials: Sequence[Any],
    transpose: Any = None,
    exact: bool = False,
    commutative: bool = False,
) -> Primitive:
    """An elementwise primitive of any number of operands.

    Args:
      over: the dtypes it is defined for.
      gives: the result's dtype, from the operands'; the same where not said.
      lowers_to: a StableHLO or CHLO operation, or a lowering rule.
      reference: the function in NumPy, which names the parameters.
      partials: for each operand `(tangent, *primals, out, **params) -> tangent`, or `ZERO`.
      transpose: the rule where it is linear in some operand.
      exact: NumPy gives the same bits as XLA.
      commutative: its two operands may be swapped.
    """

    def abstract(avals: Sequence[ShapedArray], **_: Any) -> list[ShapedArray]:
        aval = _common_type(name, avals, over)
        return (
            [aval]
            if gives is None
            else [ShapedArray(aval.shape, gives(aval.dtype), aval.weak_type and gives(aval.dtype) != dtypes.bool_)]
        )

    primitive = register(
        Primitive(
            name,
            abstract=abstract,
            params=params_of(reference) or (),
            reference=_keeping_dtype(reference)
            if gives is None
            else lambda values, **params: [reference(*values, **params)],
            lower=_operation(lowers_to) if isinstance(lowers_to, str) else lowers_to,
            jvp=Unsupported("it is set below"),
            transpose=transpose or Unsupported(NOT_LINEAR),
            batch=Unsupported("it is set below"),
            exact=exact,
            commutative=commutative,
            flops=per_result,
        )
    )
    primitive.jvp = _chain(primitive, partials)
    primitive.batch = batch_elementwise(primitive)
    return primitive


def unary(name: str, *, derivative: Any, over: frozenset[np.dtype] = INEXACT, **rules: Any) -> Primitive:
    """A function of one operand; `derivative(x, y)` is f'(x), with y = f(x) at hand."""
    if derivative is ZERO:
        return elementwise(name, over=over, partials=[ZERO], **rules)
    return elementwise(name, over=over, partials=[lambda t, x, y: mul(t, derivative(x, y))], **rules)


def linear_unary(
    name: str, *, back: Callable[[Any, ShapedArray], Any], over: frozenset[np.dtype], **rules: Any
) -> Primitive:
    """A linear function of one operand; `back(ct, aval)` is its transpose."""
    primitive = elementwise(
        name,
        over=over,
        partials=[lambda t, x, y, **params: primitive.bind(t, **params)],
        transpose=lambda cts, operands, **params: [back(cts[0], operands[0].aval, **params)],
        **rules,
    )
    return primitive


def function_of(primitive: Primitive, doc: str, arity: int = 1) -> Callable[..., Any]:
    """The function that users and rules call; a Python scalar beside an array takes the array's dtype."""
    bind = primitive.bind

    if arity == 1:

        def function(x: Any) -> Any:
            return bind(x)

    else:

        def function(x: Any, y: Any) -> Any:  # type: ignore[misc]  # the other arity
            if type(y) in _PYTHON_SCALARS:
                y = _like(y, x)
            elif type(x) in _PYTHON_SCALARS:
                x = _like(x, y)
            return bind(x, y)

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = doc
    function.__module__ = __name__
    return function


def _like(scalar: Any, other: Any) -> Any:
    """A Python scalar in the dtype of the other operand, if that is a kind it can take."""
    aval = aval_of(other)
    if aval.weak_type or type(other) in _PYTHON_SCALARS or aval.dtype not in _ACCEPTS[type(scalar)]:
        return scalar
    return aval.dtype.type(scalar)


_ACCEPTS = {bool: BOOL, int: NUMBERS, float: INEXACT, complex: COMPLEX}


def scalar(value: Any, x: Any) -> Any:
    """A number in the dtype of `x`, and weak where `x` is, as an operand beside it."""
    aval = aval_of(x)
    number = aval.dtype.type(value)
    return number.item() if aval.weak_type else number


# -- Arithmetic


def _sum_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    return [gathered(cts[0], x.aval) if is_linear(x) else None for x in operands]


def _sub_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    return [gathered(ct, x.aval) if is_linear(x) else None, gathered(neg(ct), y.aval) if is_linear(y) else None]


def _mul_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    if is_linear(x):
        return [gathered(mul(ct, y), x.aval), None]
    return [None, gathered(mul(ct, x), y.aval)]


def _div_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Of y = a / b, (a_dot - y b_dot) / b: one division, which cotangents of both operands share going back."""
    (a, b), (a_dot, b_dot) = primals, tangents
    out = div(a, b)
    aval = aval_of(out)
    if type(b_dot) is Zero:
        change = a_dot
    else:
        change = neg(mul(out, b_dot)) if type(a_dot) is Zero else sub(a_dot, mul(out, b_dot))
    if type(change) is Zero:
        return [out], [Zero(aval.to_tangent_aval())]
    return [out], [broadcast_to(div(change, b), aval.shape)]


def _div_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    return [gathered(div(ct, y), x.aval), None]


def _div_reference(x: Any, y: Any) -> Any:
    """Integers divide towards zero; a zero divisor gives -1, and the smallest integer divided by -1 itself."""
    dtype = np.asarray(x).dtype
    if dtype in INEXACT:
        return np.divide(x, y).astype(dtype)
    x, y = np.asarray(x), np.asarray(y)
    safe = np.where(y == 0, 1, y)
    quotient = (x - _rem_reference(x, safe)) // safe
    return np.where(y == 0, np.array(-1).astype(dtype), quotient).astype(dtype)


def _rem_reference(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype in INTEGERS:
        safe = np.where(y == 0, 1, y).astype(x.dtype)
        return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)
    return np.fmod(x, y)


neg_p = linear_unary(
    "neg", over=NUMBERS, back=lambda ct, aval: neg(ct), lowers_to="stablehlo.negate", reference=np.negative, exact=True
)
neg = function_of(neg_p, "The negative of each entry.")

add_p = elementwise(
    "add", over=ANY, lowers_to="stablehlo.add", reference=np.add, exact=True, commutative=True,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: t], transpose=_sum_transpose,
)  # fmt: skip
add = function_of(
    add_p,
    """The sum of two arrays, entry by entry.

    >>> from xpr import lax
    >>> lax.add(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """,
    2,
)

add_any_p = elementwise(
    "add_any", over=ANY, lowers_to="stablehlo.add", reference=np.add, exact=True, commutative=True,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: t], transpose=_sum_transpose,
)  # fmt: skip
add_any = function_of(
    add_any_p, "The sum of two tangents or cotangents; apart from `add` so that jaxprs and lowering can tell.", 2
)

sub_p = elementwise(
    "sub", lowers_to="stablehlo.subtract", reference=np.subtract, exact=True,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: neg(t)], transpose=_sub_transpose,
)  # fmt: skip
sub = function_of(sub_p, "The difference of two arrays, entry by entry.", 2)

mul_p = elementwise(
    "mul", over=ANY, lowers_to="stablehlo.multiply", reference=np.multiply, exact=True, commutative=True,
    partials=[lambda t, x, y, out: mul(t, y), lambda t, x, y, out: mul(x, t)], transpose=_mul_transpose,
)  # fmt: skip
mul = function_of(mul_p, "The product of two arrays, entry by entry.", 2)

div_p = elementwise(
    "div", lowers_to="stablehlo.divide", reference=_div_reference,
    partials=[lambda t, x, y, out: div(t, y), lambda t, x, y, out: div(neg(mul(t, out)), y)], transpose=_div_transpose,
)  # fmt: skip
div_p.jvp = _div_jvp
div = function_of(div_p, "The quotient of two arrays, entry by entry; integers divide towards zero.", 2)

rem_p = elementwise(
    "rem", over=REAL, lowers_to="stablehlo.remainder", reference=_rem_reference,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: mul(neg(t), _toward_zero(div(x, y)))],
)  # fmt: skip
rem = function_of(rem_p, "The remainder of dividing towards zero: it has the sign of `x`.", 2)


def _toward_zero(x: Any) -> Any:
    return select(lt(x, scalar(0, x)), ceil(x), floor(x))


def _where_equal_half(chosen: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The partial of max or min: the tangent where this operand is chosen, half of it where both are equal."""

    def partial(t: Any, mine: Any, other: Any) -> Any:
        half = div(t, scalar(2, t))
        shape = aval_of(chosen(mine, other)).shape
        nothing = full(shape, 0, aval_of(t).dtype)
        t, half = broadcast_to(t, shape), broadcast_to(half, shape)
        return select(eq(mine, other), half, select(chosen(mine, other), t, nothing))

    return partial


_greater = _where_equal_half(lambda x, y: gt(x, y))
_less = _where_equal_half(lambda x, y: lt(x, y))

max_p = elementwise(
    "max", over=ANY, lowers_to="stablehlo.maximum", reference=np.maximum, exact=True, commutative=True,
    partials=[lambda t, x, y, out: _greater(t, x, y), lambda t, x, y, out: _greater(t, y, x)],
)  # fmt: skip
max = function_of(max_p, "The greater of two arrays, entry by entry; nan where either is.", 2)

min_p = elementwise(
    "min", over=ANY, lowers_to="stablehlo.minimum", reference=np.minimum, exact=True, commutative=True,
    partials=[lambda t, x, y, out: _less(t, x, y), lambda t, x, y, out: _less(t, y, x)],
)  # fmt: skip
min = function_of(min_p, "The lesser of two arrays, entry by entry; nan where either is.", 2)


def _sign_reference(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype in COMPLEX:
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size)).astype(x.dtype)
    return np.sign(x)


def _sign_partial(t: Any, x: Any, y: Any) -> Any:
    """Zero for real x. For complex, the part of t / |x| that turns: i y Im(conj(y) t) / |x|."""
    turned = div(imag(mul(conj(y), t)), abs(x))
    return mul(complex_(full(aval_of(turned).shape, 0, aval_of(turned).dtype), turned), y)


def _sign_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """StableHLO has no sign of unsigned integers: the lesser of x and 1."""
    if avals[0].dtype in UNSIGNED:
        return [b.op("stablehlo.minimum", [operands[0], b.constant(1, avals[0])], avals[0])]
    return [b.op("stablehlo.sign", operands, avals[0])]


sign_p = elementwise("sign", lowers_to=_sign_lower, reference=_sign_reference, exact=False, partials=[ZERO])
_real_sign_jvp, _complex_sign_jvp = sign_p.jvp, _chain(sign_p, [_sign_partial])
sign_p.jvp = lambda primals, tangents: (_complex_sign_jvp if aval_of(primals[0]).dtype in COMPLEX else _real_sign_jvp)(
    primals, tangents
)
sign = function_of(sign_p, "-1, 0 or 1, by the sign of each entry; x / |x| for complex ones.")


def _abs_partial(t: Any, x: Any, y: Any) -> Any:
    if aval_of(x).dtype in COMPLEX:
        return real(mul(t, conj(sign(x))))
    return select(ge(x, scalar(0, x)), t, neg(t))


def _abs_reference(x: Any) -> Any:
    return np.abs(x).astype(dtypes.real_part_of(np.asarray(x).dtype))


def _abs_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    return operands if avals[0].dtype in UNSIGNED else [b.op("stablehlo.abs", operands, avals[0])]


abs_p = elementwise(
    "abs",
    lowers_to=_abs_lower,
    reference=_abs_reference,
    gives=dtypes.real_part_of,
    partials=[_abs_partial],
    exact=False,
)
abs = function_of(abs_p, "The absolute value of each entry.")


def _square_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    if avals[0].dtype in INEXACT:
        return [b.op("chlo.square", operands, avals[0])]
    return [b.op("stablehlo.multiply", [*operands, *operands], avals[0])]


square_p = unary(
    "square", over=NUMBERS, lowers_to=_square_lower, reference=np.square, derivative=lambda x, y: mul(scalar(2, x), x)
)
square = function_of(square_p, "The square of each entry.")


def _integer_pow_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, y: int) -> list[Value]:
    """Repeated squaring."""
    (base,) = operands
    aval = avals[0]
    if y == 0:
        return [b.constant(1, aval)]
    result, power, remaining = None, base, -y if y < 0 else y
    while remaining:
        if remaining & 1:
            result = power if result is None else b.op("stablehlo.multiply", [result, power], aval)
        remaining >>= 1
        if remaining:
            power = b.op("stablehlo.multiply", [power, power], aval)
    assert result is not None  # y is not zero, so some bit was set
    return [b.op("stablehlo.divide", [b.constant(1, aval), result], aval) if y < 0 else result]


def _integer_pow_reference(x: Any, *, y: int) -> Any:
    x = np.asarray(x)
    if y < 0:
        return (1 / np.power(x.astype(x.dtype), -y)).astype(x.dtype)
    return np.power(x, y)


def _integer_pow_flops(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, y: int) -> int:
    """Squarings and products, and a division where `y` is negative."""
    return results[0].size * builtins.max(y.bit_length() + y.bit_count() - 2 + (y < 0), 0)


integer_pow_p = elementwise(
    "integer_pow", lowers_to=_integer_pow_lower, reference=_integer_pow_reference,
    partials=[lambda t, x, out, *, y: mul(t, mul(scalar(y, x), integer_pow(x, y - 1))) if y else mul(t, scalar(0, t))],
)  # fmt: skip
integer_pow_p.flops = _integer_pow_flops


def integer_pow(x: Any, y: int) -> Any:
    """Each entry to a static integer power.

    Raises:
      TypeError: a negative power of integers.
    """
    if y < 0 and aval_of(x).dtype in INTEGERS:
        raise TypeError(
            f"integer_pow: a negative power ({y}) of integers is not an integer. Convert to a float dtype first."
        )
    return x if y == 1 else integer_pow_p.bind(x, y=y)


def _pow_partial_base(t: Any, x: Any, y: Any, out: Any) -> Any:
    """y x^(y-1), and zero at 0^0."""
    at_corner = bitwise_and(eq(x, scalar(0, x)), eq(y, scalar(0, y)))
    shape = aval_of(out).shape
    one = full(shape, 1, aval_of(y).dtype)
    lowered = select_n(broadcast_to(at_corner, shape), broadcast_to(sub(y, scalar(1, y)), shape), one)
    return mul(t, mul(y, pow(x, lowered)))


def _pow_partial_exponent(t: Any, x: Any, y: Any, out: Any) -> Any:
    """x^y log x, with log 0 taken as 0 so that 0^y has no slope in y > 0."""
    at_zero = eq(x, scalar(0, x))
    safe = select(at_zero, full(aval_of(x).shape, 1, aval_of(x).dtype), x)
    return mul(t, mul(log(safe), out))


pow_p = elementwise(
    "pow", over=INEXACT, lowers_to="stablehlo.power", reference=np.power,
    partials=[_pow_partial_base, _pow_partial_exponent],
)  # fmt: skip
pow = function_of(pow_p, "`x` to the power `y`, entry by entry.", 2)

# -- Rounding

floor_p = unary("floor", over=FLOATS, lowers_to="stablehlo.floor", reference=np.floor, derivative=ZERO, exact=True)
floor = function_of(floor_p, "The greatest integer not above each entry.")
ceil_p = unary("ceil", over=FLOATS, lowers_to="stablehlo.ceil", reference=np.ceil, derivative=ZERO, exact=True)
ceil = function_of(ceil_p, "The least integer not below each entry.")


def _round_lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, rounding_method: int) -> list[Value]:
    kind = "round_nearest_even" if rounding_method else "round_nearest_afz"
    return [b.op(f"stablehlo.{kind}", operands, avals[0])]


def _round_reference(x: Any, *, rounding_method: int) -> Any:
    if rounding_method:
        return np.round(x)
    x = np.asarray(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)


round_p = elementwise("round", over=FLOATS, lowers_to=_round_lower, reference=_round_reference, partials=[ZERO])


def round(x: Any, rounding_method: int = 0) -> Any:
    """The nearest integer; halves go away from zero (method 0) or to even (method 1)."""
    return round_p.bind(x, rounding_method=int(rounding_method))


is_finite_p = elementwise(
    "is_finite", over=FLOATS, lowers_to="stablehlo.is_finite", reference=np.isfinite, gives=lambda d: dtypes.bool_,
    partials=[ZERO], exact=True,
)  # fmt: skip
is_finite = function_of(is_finite_p, "Whether each entry is neither infinite nor nan.")


def _nextafter_reference(x: Any, y: Any) -> Any:
    return np.nextafter(x, y)


nextafter_p = elementwise(
    "nextafter", over=FLOATS, lowers_to="chlo.next_after", reference=_nextafter_reference, partials=[ZERO, ZERO]
)
nextafter = function_of(nextafter_p, "The next floating-point number after `x` on the way to `y`.", 2)

# -- Exponentials and logarithms

exp_p = unary("exp", lowers_to="stablehlo.exponential", reference=np.exp, derivative=lambda x, y: y)
exp = function_of(exp_p, "e to the power of each entry.")


def _exp2_lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    (x,), (aval,) = operands, avals
    ln2 = b.constant(np.asarray(math.log(2), aval.dtype)[()], aval)
    return [b.op("stablehlo.exponential", [b.op("stablehlo.multiply", [x, ln2], aval)], aval)]


exp2_p = unary(
    "exp2", reference=np.exp2, derivative=lambda x, y: mul(scalar(math.log(2), x), y),
    lowers_to=_exp2_lower,
)  # fmt: skip
exp2 = function_of(exp2_p, "2 to the power of each entry.")
log_p = unary("log", lowers_to="stablehlo.log", reference=np.log, derivative=lambda x, y: div(scalar(1, x), x))
log = function_of(log_p, "The natural logarithm of each entry.")
expm1_p = unary(
    "expm1",
    lowers_to="stablehlo.exponential_minus_one",
    reference=np.expm1,
    derivative=lambda x, y: add(y, scalar(1, y)),
)
expm1 = function_of(expm1_p, "exp(x) - 1, accurate near 0.")
log1p_p = unary(
    "log1p",
    lowers_to="stablehlo.log_plus_one",
    reference=np.log1p,
    derivative=lambda x, y: div(scalar(1, x), add(x, scalar(1, x))),
)
log1p = function_of(log1p_p, "log(1 + x), accurate near 0.")


def _logistic_reference(x: Any) -> Any:
    x = np.asarray(x)
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


logistic_p = unary(
    "logistic",
    lowers_to="stablehlo.logistic",
    reference=_logistic_reference,
    derivative=lambda x, y: mul(y, sub(scalar(1, y), y)),
)
logistic = function_of(logistic_p, "1 / (1 + exp(-x)).")

# -- Roots

sqrt_p = elementwise(
    "sqrt", over=INEXACT, lowers_to="stablehlo.sqrt", reference=np.sqrt,
    partials=[lambda t, x, y: div(mul(t, scalar(0.5, y)), y)],
)  # fmt: skip
sqrt = function_of(sqrt_p, "The square root of each entry.")
rsqrt_p = unary(
    "rsqrt", lowers_to="stablehlo.rsqrt", reference=lambda x: (1 / np.sqrt(x)).astype(np.asarray(x).dtype),
    derivative=lambda x, y: mul(scalar(-0.5, x), div(y, x)),
)  # fmt: skip
rsqrt = function_of(rsqrt_p, "1 over the square root of each entry.")
cbrt_p = unary(
    "cbrt",
    over=FLOATS,
    lowers_to="stablehlo.cbrt",
    reference=np.cbrt,
    derivative=lambda x, y: div(scalar(1 / 3, x), mul(y, y)),
)
cbrt = function_of(cbrt_p, "The cube root of each entry.")

# -- Trigonometric and hyperbolic functions

sin_p = unary("sin", lowers_to="stablehlo.sine", reference=np.sin, derivative=lambda x, y: cos(x))
sin = function_of(
    sin_p,
    """The sine of each entry, in radians.

    >>> from xpr import lax
    >>> lax.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """,
)
cos_p = unary("cos", lowers_to="stablehlo.cosine", reference=np.cos, derivative=lambda x, y: neg(sin(x)))
cos = function_of(cos_p, "The cosine of each entry, in radians.")
tan_p = unary("tan", lowers_to="stablehlo.tan", reference=np.tan, derivative=lambda x, y: add(mul(y, y), scalar(1, y)))
tan = function_of(tan_p, "The tangent of each entry, in radians.")
sinh_p = unary("sinh", lowers_to="chlo.sinh", reference=np.sinh, derivative=lambda x, y: cosh(x))
sinh = function_of(sinh_p, "The hyperbolic sine of each entry.")
cosh_p = unary("cosh", lowers_to="chlo.cosh", reference=np.cosh, derivative=lambda x, y: sinh(x))
cosh = function_of(cosh_p, "The hyperbolic cosine of each entry.")
tanh_p = unary(
    "tanh", lowers_to="stablehlo.tanh", reference=np.tanh, derivative=lambda x, y: sub(scalar(1, y), mul(y, y))
)
tanh = function_of(tanh_p, "The hyperbolic tangent of each entry.")


def _one_minus_square(x: Any) -> Any:
    """(1 - x)(1 + x), which keeps the digits that 1 - x^2 loses near |x| = 1."""
    one = scalar(1, x)
    return mul(sub(one, x), add(one, x))


asin_p = unary("asin", lowers_to="chlo.asin", reference=np.arcsin, derivative=lambda x, y: rsqrt(_one_minus_square(x)))
asin = function_of(asin_p, "The arc sine of each entry.")
acos_p = unary(
    "acos", lowers_to="chlo.acos", reference=np.arccos, derivative=lambda x, y: neg(rsqrt(_one_minus_square(x)))
)
acos = function_of(acos_p, "The arc cosine of each entry.")
atan_p = unary(
    "atan",
    lowers_to="chlo.atan",
    reference=np.arctan,
    derivative=lambda x, y: div(scalar(1, x), add(mul(x, x), scalar(1, x))),
)
atan = function_of(atan_p, "The arc tangent of each entry.")
asinh_p = unary(
    "asinh", lowers_to="chlo.asinh", reference=np.arcsinh, derivative=lambda x, y: rsqrt(add(mul(x, x), scalar(1, x)))
)
asinh = function_of(asinh_p, "The inverse hyperbolic sine of each entry.")
acosh_p = unary(
    "acosh", lowers_to="chlo.acosh", reference=np.arccosh,
    derivative=lambda x, y: mul(rsqrt(sub(x, scalar(1, x))), rsqrt(add(x, scalar(1, x)))),
)  # fmt: skip
acosh = function_of(acosh_p, "The inverse hyperbolic cosine of each entry.")
atanh_p = unary(
    "atanh",
    lowers_to="chlo.atanh",
    reference=np.arctanh,
    derivative=lambda x, y: div(scalar(1, x), _one_minus_square(x)),
)
atanh = function_of(atanh_p, "The inverse hyperbolic tangent of each entry.")


def _atan2_reference(x: Any, y: Any) -> Any:
    """For complex numbers -i log((y + i x) / sqrt(x^2 + y^2))."""
    if np.asarray(x).dtype in COMPLEX:
        return (-1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))).astype(np.asarray(x).dtype)
    return np.arctan2(x, y)


atan2_p = elementwise(
    "atan2", over=INEXACT, lowers_to="stablehlo.atan2", reference=_atan2_reference,
    partials=[
        lambda t, x, y, out: mul(t, div(y, add(mul(x, x), mul(y, y)))),
        lambda t, x, y, out: mul(t, div(neg(x), add(mul(x, x), mul(y, y)))),
    ],
)  # fmt: skip
atan2 = function_of(atan2_p, "The angle of the point (y, x) from the positive x axis, in radians.", 2)

# -- Comparisons


def _compare(name: str, direction: str, reference: Any, over: frozenset[np.dtype]) -> Primitive:
    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        return [
            b.op(
                "stablehlo.compare",
                _repeated(b, operands, avals[0].shape),
                avals[0],
                f"comparison_direction = #stablehlo<comparison_direction {direction}>",
            )
        ]

    return elementwise(
        name,
        over=over,
        gives=lambda d: dtypes.bool_,
        lowers_to=lower,
        reference=reference,
        partials=[ZERO, ZERO],
        exact=True,
        commutative=direction in ("EQ", "NE"),
    )


_ORDERED = REAL | BOOL
eq_p = _compare("eq", "EQ", np.equal, ANY)
eq = function_of(eq_p, "Whether entries are equal.", 2)
ne_p = _compare("ne", "NE", np.not_equal, ANY)
ne = function_of(ne_p, "Whether entries differ.", 2)
lt_p = _compare("lt", "LT", np.less, _ORDERED)
lt = function_of(lt_p, "Whether entries of `x` are less than those of `y`.", 2)
le_p = _compare("le", "LE", np.less_equal, _ORDERED)
le = function_of(le_p, "Whether entries of `x` are at most those of `y`.", 2)
gt_p = _compare("gt", "GT", np.greater, _ORDERED)
gt = function_of(gt_p, "Whether entries of `x` are greater than those of `y`.", 2)
ge_p = _compare("ge", "GE", np.greater_equal, _ORDERED)
ge = function_of(ge_p, "Whether entries of `x` are at least those of `y`.", 2)

# -- Bits and logic

_BITS = INTEGERS | BOOL
WORDS = frozenset(dtype for dtype in INTEGERS if dtypes.iinfo(dtype).bits >= 8)


def _bits(
    name: str,
    lowers_to: str,
    reference: Any,
    arity: int = 2,
    over: frozenset[np.dtype] = _BITS,
    exact: bool = True,
    commutative: bool = False,
) -> Primitive:
    return elementwise(
        name,
        over=over,
        lowers_to=lowers_to,
        reference=reference,
        partials=[ZERO] * arity,
        exact=exact,
        commutative=commutative,
    )


def _shift_reference(shift: Callable[[Any, Any], Any], overflow: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Shifts as XLA does them: by the width or more, all bits are gone."""

    def reference(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        width = 8 * x.dtype.itemsize
        within = (y >= 0) & (y < width)
        return np.where(within, shift(x, np.where(within, y, 0).astype(x.dtype)), overflow(x)).astype(x.dtype)

    return reference


def _arithmetic_right(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Moves the highest bit in, also for unsigned integers."""
    signed = np.dtype(f"int{8 * x.dtype.itemsize}")
    return (x.view(signed) >> y.astype(signed)).view(x.dtype)


def _sign_bits(x: np.ndarray) -> np.ndarray:
    return _arithmetic_right(x, np.asarray(8 * x.dtype.itemsize - 1))


def _logical_right(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return (x.view(unsigned) >> y.astype(unsigned)).view(x.dtype)


and_p = _bits("and", "stablehlo.and", np.bitwise_and, commutative=True)
bitwise_and = function_of(and_p, "Bitwise and, of integers or booleans.", 2)
or_p = _bits("or", "stablehlo.or", np.bitwise_or, commutative=True)
bitwise_or = function_of(or_p, "Bitwise or, of integers or booleans.", 2)
xor_p = _bits("xor", "stablehlo.xor", np.bitwise_xor, commutative=True)
bitwise_xor = function_of(xor_p, "Bitwise exclusive or, of integers or booleans.", 2)
not_p = _bits("not", "stablehlo.not", np.invert, arity=1)
bitwise_not = function_of(not_p, "The bits of each entry, flipped.")
shift_left_p = _bits("shift_left", "stablehlo.shift_left", _shift_reference(np.left_shift, np.zeros_like), over=WORDS)
shift_left = function_of(shift_left_p, "The bits of `x` moved up by `y` places.", 2)
shift_right_logical_p = _bits(
    "shift_right_logical", "stablehlo.shift_right_logical", _shift_reference(_logical_right, np.zeros_like), over=WORDS
)
shift_right_logical = function_of(
    shift_right_logical_p, "The bits of `x` moved down by `y` places, with zeros moving in.", 2
)
shift_right_arithmetic_p = _bits(
    "shift_right_arithmetic", "stablehlo.shift_right_arithmetic",
    _shift_reference(_arithmetic_right, _sign_bits), over=WORDS,
)  # fmt: skip
shift_right_arithmetic = function_of(
    shift_right_arithmetic_p, "The bits of `x` moved down by `y` places, with its sign moving in.", 2
)


def _count_bits(x: Any) -> Any:
    x = np.asarray(x)
    return np.bitwise_count(x.view(np.dtype(f"uint{8 * x.dtype.itemsize}"))).astype(x.dtype)


population_count_p = _bits("population_count", "stablehlo.popcnt", _count_bits, arity=1, over=WORDS)
population_count = function_of(population_count_p, "How many bits of each entry are set.")


def _clz_reference(x: Any) -> Any:
    """Counts the places above the highest set bit."""
    x = np.asarray(x)
    width = 8 * x.dtype.itemsize
    unsigned = x.view(np.dtype(f"uint{width}"))
    length = np.zeros(x.shape, np.int64)
    for bit in range(width):
        length = np.where((unsigned >> bit) & 1, bit + 1, length)
    return (width - length).astype(x.dtype)


clz_p = _bits("clz", "stablehlo.count_leading_zeros", _clz_reference, arity=1, over=WORDS)
clz = function_of(clz_p, "How many zero bits stand above the highest set bit of each entry.")

# -- Complex numbers

real_p = linear_unary(
    "real", over=COMPLEX, gives=dtypes.real_part_of,
    back=lambda ct, aval: complex_(ct, full(aval_of(ct).shape, 0, aval_of(ct).dtype)),
    lowers_to="stablehlo.real", reference=np.real, exact=True,
)  # fmt: skip
real = function_of(real_p, "The real part of each entry.")
imag_p = linear_unary(
    "imag", over=COMPLEX, gives=dtypes.real_part_of,
    back=lambda ct, aval: complex_(full(aval_of(ct).shape, 0, aval_of(ct).dtype), neg(ct)),
    lowers_to="stablehlo.imag", reference=np.imag, exact=True,
)  # fmt: skip
imag = function_of(imag_p, "The imaginary part of each entry.")
conj_p = linear_unary(
    "conj", over=COMPLEX, back=lambda ct, aval: conj(ct), lowers_to="chlo.conj", reference=np.conj, exact=True,
)  # fmt: skip
conj = function_of(conj_p, "The complex conjugate of each entry.")


def _complex_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    return [
        gathered(real(ct), x.aval) if is_linear(x) else None,
        gathered(neg(imag(ct)), y.aval) if is_linear(y) else None,
    ]


def _complex_reference(x: Any, y: Any) -> Any:
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtypes.complex_of(np.asarray(x).dtype))
    out.real, out.imag = x, y
    return out


complex_p = elementwise(
    "complex", over=frozenset({dtypes.float32, dtypes.float64}), gives=dtypes.complex_of,
    lowers_to="stablehlo.complex", exact=True,
    reference=_complex_reference, transpose=_complex_transpose,
    partials=[
        lambda t, x, y, out: complex_(t, full(aval_of(t).shape, 0, aval_of(t).dtype)),
        lambda t, x, y, out: complex_(full(aval_of(t).shape, 0, aval_of(t).dtype), t),
    ],
)  # fmt: skip
complex_ = function_of(complex_p, "A complex number from a real and an imaginary part.", 2)

# -- clamp


def _clamp_abstract(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    low, x, high = avals
    if any(a.shape not in ((), x.shape) or a.dtype != x.dtype for a in (low, high)):
        types = ", ".join(a.str_short() for a in avals)
        raise TypeError(f"clamp: the bounds must be scalars or of the operand's shape, and of its dtype; got {types}.")
    return [x.update(weak_type=all(a.weak_type for a in avals))]


def _inside(low: Any, x: Any, high: Any) -> Any:
    return bitwise_and(gt(x, low), lt(x, high))


clamp_p = elementwise(
    "clamp", over=ANY, lowers_to="stablehlo.clamp", exact=True,
    reference=lambda low, x, high: np.minimum(np.maximum(x, low), high),
    partials=[
        lambda t, low, x, high, out: _kept_where(gt(low, x), t, out),
        lambda t, low, x, high, out: _kept_where(_inside(low, x, high), t, out),
        lambda t, low, x, high, out: _kept_where(lt(high, x), t, out),
    ],
)  # fmt: skip
clamp_p.abstract = _clamp_abstract
_clamp_elementwise = clamp_p.batch


def _clamp_batch(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """The bounds may be scalars, and the operand then has the shape of the result: so it is always mapped."""
    low, x, high = values
    if dims[1] is None:
        return _clamp_elementwise(size, [low, mapped_to(x, None, size), high], [dims[0], 0, dims[2]])
    return _clamp_elementwise(size, values, dims)


clamp_p.batch = _clamp_batch


def _kept_where(condition: Any, t: Any, out: Any) -> Any:
    shape = aval_of(out).shape
    return select(condition, broadcast_to(t, shape), full(shape, 0, aval_of(t).dtype))


def clamp(min: Any, x: Any, max: Any) -> Any:
    """Each entry, moved to the nearer bound if it lies outside.

    >>> from xpr import lax, numpy as jnp
    >>> lax.clamp(0, jnp.array([-1, 1, 5]), 3)
    Array([0, 1, 3], dtype=int32)
    """
    low, high = (_like(bound, x) if type(bound) in _PYTHON_SCALARS else bound for bound in (min, max))
    return clamp_p.bind(low, x, high)


# -- Conversions


def _convert_abstract(avals: Sequence[ShapedArray], *, new_dtype: np.dtype, weak_type: bool) -> list[ShapedArray]:
    return [ShapedArray(avals[0].shape, new_dtype, weak_type)]


def _convert_reference(values: Sequence[Any], *, new_dtype: np.dtype, weak_type: bool) -> list[Any]:
    """As XLA converts: to booleans by comparing with zero, from floats to integers by saturating, nan to 0."""
    x = np.asarray(values[0])
    if x.dtype in COMPLEX and new_dtype not in COMPLEX and new_dtype != dtypes.bool_:
        x = x.real
    if new_dtype == dtypes.bool_:
        return [x != 0]
    if x.dtype in FLOATS and new_dtype in INTEGERS:
        bounds = dtypes.iinfo(new_dtype)
        wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        low, high = wide <= float(bounds.min), wide >= float(bounds.max)
        inside = np.where(low | high, 0, wide).astype(np.int64 if bounds.min < 0 else np.uint64)
        return [np.where(low, bounds.min, np.where(high, bounds.max, inside)).astype(new_dtype)]
    return [x.astype(new_dtype)]


def _convert_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, new_dtype: np.dtype, weak_type: bool
) -> list[Value]:
    (x,) = operands
    if x.aval.dtype == new_dtype:
        return [x]
    if x.aval.dtype in COMPLEX and new_dtype not in COMPLEX and new_dtype != dtypes.bool_:
        x = b.op("stablehlo.real", [x], x.aval.update(dtype=dtypes.real_part_of(x.aval.dtype)))
    if new_dtype == dtypes.bool_:
        zero = b.constant(0 if x.aval.dtype not in COMPLEX else 0j, x.aval)
        return [
            b.op("stablehlo.compare", [x, zero], avals[0], "comparison_direction = #stablehlo<comparison_direction NE>")
        ]
    return [b.convert(x, new_dtype)]


def _convert_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, new_dtype: np.dtype, weak_type: bool) -> Any:
    out = convert_element_type_p.bind(*primals, new_dtype=new_dtype, weak_type=weak_type)
    (t,) = tangents
    if type(t) is Zero or new_dtype not in INEXACT:
        return [out], [Zero(aval_of(out).to_tangent_aval())]
    return [out], [convert_element_type_p.bind(t, new_dtype=new_dtype, weak_type=weak_type)]


def _convert_transpose(
    cts: Sequence[Any], operands: Sequence[Any], *, new_dtype: np.dtype, weak_type: bool
) -> list[Any]:
    (ct,), (x,) = cts, operands
    return [convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)]


def _convert_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return [convert_element_type_p.bind(*values, **params)], list(dims)


convert_element_type_p = register(
    Primitive(
        "convert_element_type",
        abstract=_convert_abstract,
        reference=_convert_reference,
        lower=_convert_lower,
        jvp=_convert_jvp,
        transpose=_convert_transpose,
        batch=_convert_batch,
        exact=True,
        flops=per_result,
    )
)


def convert_element_type(operand: Any, new_dtype: Any, weak_type: bool = False) -> Any:
    """The array in another dtype; floats become integers towards zero, complex numbers real ones by their real part.

    >>> from xpr import lax, numpy as jnp
    >>> lax.convert_element_type(jnp.array([1.5, -2.5]), jnp.int32)
    Array([ 1, -2], dtype=int32)
    """
    new_dtype = dtypes.canonical(new_dtype)
    aval = aval_of(operand)
    if aval.dtype == new_dtype and aval.weak_type == weak_type and hasattr(operand, "aval"):
        return operand
    if type(operand) in _PYTHON_SCALARS and not weak_type:
        if not (type(operand) is complex and new_dtype not in COMPLEX):
            return convert_element_type_p.bind(operand, new_dtype=new_dtype, weak_type=False)
    return convert_element_type_p.bind(operand, new_dtype=new_dtype, weak_type=weak_type)


def _bitcast_abstract(avals: Sequence[ShapedArray], *, new_dtype: np.dtype) -> list[ShapedArray]:
    (aval,) = avals
    old, new = aval.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return [ShapedArray(aval.shape, new_dtype)]
    if old > new:
        return [ShapedArray((*aval.shape, old // new), new_dtype)]
    if not aval.ndim or aval.shape[-1] * old != new:
        raise TypeError(
            f"bitcast_convert_type: {aval.str_short()} to {short_name(new_dtype)}: "
            f"the last axis must hold {new // old} entries."
        )
    return [ShapedArray(aval.shape[:-1], new_dtype)]


def _bitcast_reference(values: Sequence[Any], *, new_dtype: np.dtype) -> list[Any]:
    x = np.ascontiguousarray(values[0])
    shape = _bitcast_abstract([ShapedArray(np.shape(values[0]), x.dtype)], new_dtype=new_dtype)[0].shape
    return [np.frombuffer(x.tobytes(), new_dtype).reshape(shape)]


def _bitcast_batch(size: int, values: Sequence[Any], dims: Sequence[int | None], *, new_dtype: np.dtype) -> Any:
    return [bitcast_convert_type(to_front(values[0], dims[0] or 0), new_dtype)], [0]


bitcast_convert_type_p = register(
    Primitive(
        "bitcast_convert_type",
        abstract=_bitcast_abstract,
        reference=_bitcast_reference,
        lower=lambda b, operands, avals, *, new_dtype: [b.op("stablehlo.bitcast_convert", operands, avals[0])],
        jvp=lambda primals, tangents, **params: (
            [bitcast_convert_type_p.bind(*primals, **params)],
            [Zero(bitcast_convert_type_p.type_of((aval_of(primals[0]),), params)[0].to_tangent_aval())],
        ),
        transpose=Unsupported(NOT_LINEAR),
        batch=_bitcast_batch,
        exact=True,
    )
)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The same bits read as another dtype; a narrower one adds a last axis, a wider one takes it away."""
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.canonical(new_dtype))


def _reduce_precision_lower(
    b: Builder, operands: list[Value], avals: list[ShapedArray], *, exponent_bits: int, mantissa_bits: int
) -> list[Value]:
    return [
        b.op(
            "stablehlo.reduce_precision",
            operands,
            avals[0],
            f"exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32",
        )
    ]


def _reduce_precision_reference(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounds the significand to `mantissa_bits` and sends what overflows to infinity, what underflows to zero."""
    x = np.asarray(x)
    wide = x.astype(np.float64)
    fraction, exponent = np.frexp(wide)
    rounded = np.ldexp(np.round(np.ldexp(fraction, mantissa_bits + 1)), exponent - mantissa_bits - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    size = np.abs(rounded)
    rounded = np.where(size >= 2.0 ** (bias + 1), np.copysign(np.inf, wide), rounded)
    rounded = np.where(size < 2.0 ** (1 - bias), np.copysign(0.0, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(x.dtype)


reduce_precision_p = linear_unary(
    "reduce_precision", over=FLOATS, lowers_to=_reduce_precision_lower, reference=_reduce_precision_reference,
    back=lambda ct, aval, **params: reduce_precision_p.bind(ct, **params),
)  # fmt: skip


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounds each entry to a float format of so many exponent and mantissa bits, keeping the dtype."""
    return reduce_precision_p.bind(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


copy_p = linear_unary(
    "copy", over=ANY, back=lambda ct, aval: ct,
    lowers_to=lambda b, operands, avals: operands, reference=np.array, exact=True,
)  # fmt: skip
copy_p.flops = None
copy = function_of(copy_p, "The array itself, as a new array.")
