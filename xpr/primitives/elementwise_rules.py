"""Builders of elementwise primitives, each element of whose result depends on the corresponding elements of operands.

Operands have one dtype, and one shape, in which axes of size 1 broadcast, or the shape (). So a mapped
axis passes straight through, and the tangent of y = f(x) is x_dot * f'(x). The primitives are in other files, which
elementwise.py gathers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from xpr.backend.stablehlo import Builder, Value
from xpr.core.avals import Shape, ShapedArray, Zero, aval_of, is_key
from xpr.core.primitive import Fusion, Primitive, Unsupported, is_linear, params_of, register
from xpr.dtypes import (
    ANY,
    BOOL,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    NO_OPERATIONS,
    NUMBERS,
    REAL,
    float0,
    short_name,
)  # fmt: skip
from xpr.primitives.flops import per_result
from xpr.primitives.shapes import broadcast_in_dim, broadcast_to, mapped_to, reduce_sum, reshape
from xpr.primitives.sharding_constraint import constrain_to
from xpr.primitives.sharding_rules import (
    ElementwiseSharding,
    reduced_alike,
    sums_alike,
    sums_of_first,
    sums_of_one,
)

__all__ = ["add_any_p", "mul_p"]

ZERO = "zero"  # a derivative that vanishes wherever it exists

NOT_LINEAR = "It is not linear, so a linearized program never holds it on a tangent."
PYTHON_SCALARS = frozenset({bool, int, float, complex})

# -- Typing

_KINDS = {
    FLOATS: "floats", INEXACT: "floats and complex numbers", COMPLEX: "complex numbers", NUMBERS: "numbers",
    INTEGERS: "integers", REAL: "real numbers", REAL | BOOL: "real numbers and booleans",
    INTEGERS | BOOL: "integers and booleans",
}  # fmt: skip


def _common_type(name: str, avals: Sequence[ShapedArray], over: frozenset[np.dtype], keys: bool = False) -> ShapedArray:
    """The shape, dtype and weakness that the operands agree on."""
    first = avals[0]
    shape, weak = first.shape, first.weak_type
    for aval in avals[1:]:
        both = shape if aval.shape == shape else _broadcast(shape, aval.shape)
        if aval.dtype != first.dtype or both is None:
            _refuse_float0(avals)
            types = ", ".join(a.str_short() for a in avals)
            what = "dtypes" if aval.dtype != first.dtype else "shapes"
            raise TypeError(
                f"{name} requires arguments to have the same {what}, and got {types}. The functions of xpr.numpy "
                "promote dtypes and broadcast shapes; those of xpr.lax take operands of one dtype: scalars, and arrays "
                "of as many axes, whose sizes are equal or 1."
            )
        shape, weak = both, weak and aval.weak_type
    if first.dtype not in over and not (keys and is_key(first)):
        _refuse_float0(avals)
        allowed = _KINDS.get(over) or ", ".join(sorted(short_name(d) for d in over))
        raise TypeError(
            f"{name} does not accept dtype {first.dtype.name}. It takes {allowed}, and got "
            f"{', '.join(a.str_short() for a in avals)}. Convert with .astype."
        )
    return first.update(shape=shape, weak_type=weak)


def _refuse_float0(avals: Sequence[ShapedArray]) -> None:
    if any(aval.dtype == float0 for aval in avals):
        raise TypeError(NO_OPERATIONS)


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of the result of two operands: scalars and axes of size 1 broadcast; None where there is none."""
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
        rank = max(ranks)
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


def chain_rule(primitive: Primitive, partials: Sequence[Any]) -> Callable[..., Any]:
    """The jvp of y = f(x1, ..., xn): the sum of `partial(tangent, *primals, y)` over operands with a tangent.

    Its attribute `differentiable` says which operands' tangents reach the result; see control/activity.py.
    """

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
                if aval.explicit is not None:
                    term = constrain_to(term, aval)
            total = term if total is None else add_any(total, term)
        return [out], [Zero(aval.to_tangent_aval()) if total is None else total]

    jvp.differentiable = [partial is not ZERO for partial in partials]  # type: ignore[attr-defined]  # of a function
    return jvp


# -- Lowering


def _operation(name: str) -> Callable[..., list[Value]]:
    """The rule that writes one operation of that name."""

    def lower(b: Builder, operands: list[Value], avals: list[ShapedArray], **params: Any) -> list[Value]:
        return [b.op(name, repeated(b, operands, avals[0].shape), avals[0])]

    return lower


def repeated(b: Builder, operands: list[Value], shape: Shape) -> list[Value]:
    """The operands in the shape of the result, as operations of StableHLO take them."""
    return [x if x.aval.shape == shape else b.broadcast(x, shape, range(x.aval.ndim)) for x in operands]


# -- Builders


def _keeping_dtype(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference rule whose result has the operands' dtype: NumPy gives int8 for the 4-bit integers."""

    def rule(values: Sequence[Any], **params: Any) -> list[Any]:
        out, dtype = reference(*values, **params), values[0].dtype
        return [out if out.dtype is dtype else out.astype(dtype)]

    return rule


def are_real(avals: Sequence[Any]) -> bool:
    """Whether the operands are integers or floats: what is exact for them need not be for complex numbers."""
    return all(aval.dtype in REAL for aval in avals)


def elementwise(
    name: str,
    *,
    over: frozenset[np.dtype] = NUMBERS,
    gives: Callable[[np.dtype], np.dtype] | None = None,
    lowers_to: str | Callable[..., Any],
    reference: Callable[..., Any],
    partials: Sequence[Any],
    transpose: Any = None,
    exact: bool | Callable[[Sequence[Any]], bool] = False,
    commutative: bool = False,
    fusion: Fusion = "cheap",
    physical: Literal["moved", "all", "any"] | None = None,
    sums: Callable[..., Any] | None = None,
) -> Primitive:
    """An elementwise primitive of any number of operands.

    Args:
      over: the dtypes it is defined for.
      gives: the result's dtype, from the operands'; the same where not said.
      lowers_to: a StableHLO or CHLO operation, or a lowering rule.
      reference: the function in NumPy, which names the parameters.
      partials: for each operand `(tangent, *primals, out, **params) -> tangent`, or `ZERO`.
      transpose: the rule where it is linear in some operand.
      exact: NumPy gives the same bits as XLA; or a function that says for which types of operands.
      commutative: its two operands may be swapped.
      fusion: how XLA fuses it; "cheap", unless it is a function that takes many instructions.
      physical: what it is on the words of random keys; None where it refuses keys.
      sums: over which axes of a mesh results are unreduced; None where no operand may be.
    """

    def abstract(avals: Sequence[ShapedArray], **_: Any) -> list[ShapedArray]:
        aval = _common_type(name, avals, over, physical is not None)
        if gives is None:
            return [aval]
        return [ShapedArray(aval.shape, gives(aval.dtype), aval.weak_type)]

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
            fusion=fusion,
            flops=per_result,
            physical=physical,
            sharding=ElementwiseSharding(f"{name} got incompatible shardings for broadcasting: axis"),
            ambiguous=reduced_alike if gives is None else None,  # else its results have no cotangents
            sums=sums,
        )
    )
    primitive.jvp = chain_rule(primitive, partials)
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
        sums=sums_of_first,
        **rules,
    )
    return primitive


_ACCURACY = """
    Args:
      x: array or number.
      accuracy: a `Tolerance` or an `AccuracyMode`, by which XLA chooses a method on TPUs; elsewhere it has one.

    Returns:
      An array of the shape and dtype of `x`.
"""


def function_of(
    primitive: Primitive, doc: str, arity: int = 1, names: tuple[str, str] = ("x", "y"), accuracy: bool = False
) -> Callable[..., Any]:
    """The function that users and rules call; a Python scalar with an array takes the array's dtype.

    Args:
      names: of its two arguments.
      accuracy: whether it takes `accuracy`.
    """
    bind = primitive.bind

    if accuracy:
        summary, _, rest = doc.partition("\n")
        doc = f"{summary}\n{_ACCURACY}{rest}"

        def function(x: Any, *, accuracy: Any = None) -> Any:
            return bind(x)

    elif arity == 1:

        def function(x: Any) -> Any:  # type: ignore[misc]  # without accuracy
            return bind(x)

    else:

        def function(x: Any, y: Any) -> Any:  # type: ignore[misc]  # the other arity
            if type(y) in PYTHON_SCALARS:
                y = typed_like(y, x)
            elif type(x) in PYTHON_SCALARS:
                x = typed_like(x, y)
            return bind(x, y)

        if names != ("x", "y"):
            function.__code__ = function.__code__.replace(co_varnames=names)
            function.__annotations__ = dict.fromkeys((*names, "return"), "Any")

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = doc
    function.__module__ = sys._getframe(1).f_globals["__name__"]  # where it is defined, for pickles and doctests
    return function


def typed_like(scalar: Any, other: Any) -> Any:
    """A Python scalar in the dtype of the other operand, if that is a kind it can take."""
    aval = aval_of(other)
    if aval.weak_type or type(other) in PYTHON_SCALARS or aval.dtype not in _ACCEPTS[type(scalar)]:
        return scalar
    return aval.dtype.type(scalar)


_ACCEPTS = {bool: BOOL, int: NUMBERS, float: INEXACT, complex: COMPLEX}


def scalar(value: Any, x: Any) -> Any:
    """A number in the dtype of `x`, and weak where `x` is, as another operand."""
    aval = aval_of(x)
    number = aval.dtype.type(value)
    return number.item() if aval.weak_type else number


# -- The sum and the product, with which chain rules are computed


def sum_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Every operand of a sum has the sum's cotangent."""
    return [gathered(cts[0], x.aval) if is_linear(x) else None for x in operands]


add_any_p = elementwise(
    "add_any", over=ANY, lowers_to="stablehlo.add", reference=np.add, exact=True, commutative=True,
    partials=[lambda t, x, y, out: t, lambda t, x, y, out: t], transpose=sum_transpose, sums=sums_alike,
)  # fmt: skip
add_any = function_of(
    add_any_p, "The sum of two tangents or cotangents; distinct from `add` for jaxprs and lowering.", 2
)
ShapedArray.vspace_add = lambda self, x, y: add_any(x, y)  # type: ignore[attr-defined]  # as users' types have it


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents, also of values of users' types."""
    aval: Any = aval_of(x)
    return aval.vspace_add(x, y)


def _mul_transpose(cts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    (ct,), (x, y) = cts, operands
    if is_linear(x):
        return [gathered(mul(ct, y), x.aval), None]
    return [None, gathered(mul(ct, x), y.aval)]


mul_p = elementwise(
    "mul", over=ANY, lowers_to="stablehlo.multiply", reference=np.multiply, exact=True, commutative=True,
    partials=[lambda t, x, y, out: mul(t, y), lambda t, x, y, out: mul(x, t)], transpose=_mul_transpose,
    sums=sums_of_one,
)  # fmt: skip
mul = function_of(
    mul_p,
    """The product of two arrays, elementwise.

    Args:
      x: an array or a number.
      y: an array of the same shape and dtype, or a scalar.

    Returns:
      An array of the same shape and dtype.

    >>> from xpr import lax
    >>> lax.mul(3.0, 2.0)
    Array(6., dtype=float32, weak_type=True)
    """,
    2,
)
