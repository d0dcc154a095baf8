"""Activation functions: elementwise, of floats, each with the derivative it should have at its kinks.

A piecewise function is written with `select`, whose derivative is that of the selected case, to every order; no case
is ever evaluated where its value or derivative is infinite. Integers are converted to floats, except where a function
has integer values at integers (`relu`, `hard_tanh`, `identity`).

A function of more than one operation is `compiled`: one call in a jaxpr, so that a network that uses it in every layer
has it traced, differentiated and lowered once, and one program when it is called eagerly. `_activation` makes such
a function of a formula in one array; those with parameters call their program themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.control.compiled_eagerly import compiled_eagerly
from xpr.core.avals import aval_of
from xpr.numpy import arithmetic, comparisons, exponentials, trigonometric
from xpr.numpy.promotion import (
    as_operand,
    asarray_like,
    convert,
    converter,
    promote_inexact,
    promote_shapes,
)
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim, one_axis, zeros_like_aval
from xpr.primitives.slicing import select, slice_in_dim
from xpr.primitives.special import erfc

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu",
    "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip

_Formula = TypeVar("_Formula", bound=Callable[[Any], Any])


def _inexact(x: Any, scalar_type: type | None = None) -> Any:
    """The operand as floats, weak if it is weak; or promoted with a Python number of a type, as in `x + 1.0`."""
    aval = getattr(x, "aval", None)
    if aval is not None and aval.dtype in dtypes.INEXACT:
        return x
    if scalar_type is None:
        return promote_inexact(x)[0]
    x = as_operand(x)
    aval = aval_of(x)
    dtype, weak = dtypes.promote_pair(aval.dtype, aval.weak_type, dtypes.of_python(scalar_type), True)
    return convert(x, dtypes.to_inexact(dtype), weak)


def _number(value: float, x: Any) -> Any:
    """A Python number in the type of `x`, an array of floats, weak if that is weak."""
    aval = aval_of(x)
    if not aval.weak_type:
        return aval.dtype.type(value)
    return complex(value) if aval.dtype in dtypes.COMPLEX else float(value)


def _zeros(x: Any) -> Any:
    return zeros_like_aval(aval_of(x))


def _constant(value: float, x: Any) -> Any:
    """An array filled with one number, of the type of `x`."""
    aval = aval_of(x)
    return broadcast_in_dim(_number(value, x), aval.shape, ())


_with_float = functools.partial(_inexact, scalar_type=float)
_with_int = functools.partial(_inexact, scalar_type=int)


def _activation(operand: Callable[[Any], Any]) -> Callable[[_Formula], _Formula]:
    """A decorator: the formula in x is compiled, and called with `operand(x)`."""

    def decorate(formula: _Formula) -> _Formula:
        program = compiled(formula)

        @functools.wraps(formula)
        def function(x: Any) -> Any:
            return program(operand(x))

        return cast(_Formula, function)

    return decorate


# -- Rectifiers


def _zero_or_nan(x: Any) -> Any:
    """0, and nan where `x` is nan, without a derivative: the values of a rectifier for negative x."""
    return select(e.ne(x, x), _constant(math.nan, x), _zeros(x)) if aval_of(x).dtype in dtypes.INEXACT else _zeros(x)


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.relu(jnp.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float32)
    """
    x = as_operand(x)
    return _relu(x) if aval_of(x).dtype != dtypes.bool_ else asarray_like(convert(x, dtypes.of_python(int), True))


@compiled
def _relu(x: Any) -> Any:
    zero = converter(aval_of(x), int)(0)  # type: ignore[misc]  # every number takes an int
    return select(e.gt(x, zero), x, _zero_or_nan(x))


@_activation(_with_float)
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.relu6(jnp.array([-1.0, 2.0, 7.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    return _relu6(x)


def _relu6(x: Any) -> Any:
    low = select(e.gt(x, _number(0, x)), x, _zero_or_nan(x))
    return select(e.ge(x, _number(6, x)), _constant(6, x), low)


@compiled_eagerly()
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """x where it is positive, and `negative_slope` times x elsewhere.

    Args:
      x: array of real numbers; integers are converted to floats.
      negative_slope: the slope for negative numbers, a number or an array that broadcasts.

    Returns:
      An array of the broadcast shape.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.leaky_relu(jnp.array([-1.0, 2.0]))
    Array([-0.01,  2.  ], dtype=float32)
    """
    return _leaky_relu(as_operand(x), as_operand(negative_slope))


@compiled
def _leaky_relu(x: Any, negative_slope: Any) -> Any:
    return where(comparisons.greater_equal(x, 0), x, arithmetic.multiply(negative_slope, x))


@compiled_eagerly()
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """The exponential linear unit: x where it is positive, and alpha (exp(x) - 1) elsewhere (Clevert et al., 2016).

    Args:
      x: array of real numbers; integers are converted to floats.
      alpha: the scale for negative numbers, a number or an array that broadcasts.

    Returns:
      Floats of the shape of `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.elu(jnp.array([-1.0, 0.0, 2.0]))
    Array([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    return _elu(_inexact(x, float), as_operand(alpha))


@compiled
def _elu(x: Any, alpha: Any) -> Any:
    above = e.gt(x, _number(0, x))
    below = e.expm1(select(above, _zeros(x), x))
    return where(above, x, arithmetic.multiply(alpha, below))


@compiled_eagerly()
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha (exp(x / alpha) - 1), 0), continuously differentiable for every alpha (Barron, 2017).

    Args:
      x: array of real numbers; integers are converted to floats.
      alpha: the scale, a number or an array that broadcasts.

    Returns:
      Floats of the shape of `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.celu(jnp.array([-1.0, 0.0, 2.0]))
    Array([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    return _celu(_inexact(x, float), as_operand(alpha))


@compiled
def _celu(x: Any, alpha: Any) -> Any:
    above = e.gt(x, _number(0, x))
    below = exponentials.expm1(arithmetic.true_divide(select(above, _zeros(x), x), alpha))
    return where(above, x, arithmetic.multiply(alpha, below))


SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


@_activation(_with_float)
def selu(x: Any) -> Any:
    """`elu` with the scale and alpha that keep mean 0 and variance 1 from layer to layer (Klambauer et al., 2017).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.selu(jnp.array([-1.0, 0.0, 2.0]))
    Array([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """
    return e.mul(_number(SELU_SCALE, x), _elu.fun(x, SELU_ALPHA))


@_activation(as_operand)
def hard_tanh(x: Any) -> Any:
    """x limited to the interval [-1, 1].

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_tanh(jnp.array([-3.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    low = x if aval_of(x).dtype in dtypes.UNSIGNED else where(comparisons.less(x, -1), -1, x)
    return where(comparisons.greater(x, 1), 1, low)


@_activation(_with_float)
def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_sigmoid(jnp.array([-3.0, 0.0, 3.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return _hard_sigmoid(x)


def _hard_sigmoid(x: Any) -> Any:
    return e.div(_relu6(e.add(x, _number(3, x))), _number(6, x))


@_activation(_with_float)
def hard_silu(x: Any) -> Any:
    """x times `hard_sigmoid(x)`; another name is `hard_swish`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_silu(jnp.array([-3.0, 1.5, 3.0]))
    Array([-0.   ,  1.125,  3.   ], dtype=float32)
    """
    return e.mul(x, _hard_sigmoid(x))


hard_swish = hard_silu

# -- Soft steps and soft rectifiers


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sigmoid(jnp.array([-jnp.inf, 0.0]))
    Array([0. , 0.5], dtype=float32)
    """
    return e.logistic_p.bind(_inexact(x))


def tanh(x: Any, /) -> Any:
    """The hyperbolic tangent.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.tanh(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return trigonometric.tanh(x)


@_activation(_inexact)
def silu(x: Any) -> Any:
    """x times sigmoid(x); another name is `swish`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.silu(jnp.array([-1.0, 0.0, 1.0]))
    Array([-0.26894143,  0.        ,  0.7310586 ], dtype=float32)
    """
    return e.mul(x, e.logistic(x))


swish = silu


@_activation(_with_int)
def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    It is max(x, 0) + log1p(exp(-|x|)), with -|x| written as a select of x or -x, so that derivatives of every order are
    right at 0 too.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.softplus(jnp.array([-100.0, 0.0, 100.0]))
    Array([3.783506e-44, 6.931472e-01, 1.000000e+02], dtype=float32)
    """
    return _softplus(x)


def _softplus(x: Any) -> Any:
    if aval_of(x).dtype in dtypes.COMPLEX:
        return e.log1p(e.exp(x))
    above = e.gt(x, _number(0, x))
    return e.add(select(above, x, _zeros(x)), e.log1p(e.exp(select(above, e.neg(x), x))))


@_activation(_inexact)
def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), which is -softplus(-x).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log_sigmoid(jnp.array([-100.0, 0.0]))
    Array([-100.       ,   -0.6931472], dtype=float32)
    """
    return e.neg(_softplus(e.neg(x)))


@_activation(_with_int)
def mish(x: Any) -> Any:
    """x tanh(softplus(x)) (Misra, 2019).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.mish(jnp.array([0.0, 1.0]))
    Array([0.        , 0.86509836], dtype=float32)
    """
    return e.mul(x, e.tanh(_softplus(x)))


@_activation(_with_int)
def soft_sign(x: Any) -> Any:
    """x / (|x| + 1), of complex numbers too.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.soft_sign(jnp.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    size = e.abs(x)
    divisor = e.add(size, _number(1, size))
    return e.div(x, convert(divisor, aval_of(x).dtype) if aval_of(x).dtype in dtypes.COMPLEX else divisor)


@_activation(_with_float)
def sparse_plus(x: Any) -> Any:
    """0 for x <= -1, x for x >= 1, and (x + 1)^2 / 4 between (Martins and Astudillo's sparsemax loss).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    low, high = comparisons.less_equal(x, _number(-1, x)), comparisons.greater_equal(x, _number(1, x))
    between = e.add(select(e.bitwise_or(low, high), _zeros(x), x), _number(1, x))
    curve = e.mul(_number(0.25, x), e.mul(between, between))
    return select(low, _zeros(x), select(high, x, curve))


@_activation(_with_float)
def sparse_sigmoid(x: Any) -> Any:
    """The derivative of `sparse_plus`: (x + 1) / 2, kept between 0 and 1.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    moved = e.add(x, _number(1, x))
    return e.mul(_number(0.5, x), e.min(e.max(moved, _number(0, x)), _number(2, x)))


@compiled_eagerly()
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x^2 + b)) / 2, a smooth rectifier without exponentials (Barron, 2021).

    Args:
      x: array of real numbers; integers are converted to floats.
      b: the smoothing, a positive number or an array that broadcasts.

    Returns:
      Floats of the shape of `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.squareplus(jnp.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    return _squareplus(as_operand(x), as_operand(b))


@compiled
def _squareplus(x: Any, b: Any) -> Any:
    x, b = promote_shapes(*promote_inexact(x, b))
    return e.div(e.add(x, e.sqrt(e.add(e.square(x), b))), _number(2, x))


def gelu(x: Any, approximate: bool = True) -> Any:
    """The Gaussian error linear unit: x times the normal distribution function (Hendrycks and Gimpel, 2016).

    The approximation is x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), computed as x times the logistic function, in
    which digits are not lost where tanh is near -1.

    Args:
      x: array of real numbers; integers are converted to floats.
      approximate: whether to use the approximation by tanh instead of erf.

    Returns:
      Floats of the shape of `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.gelu(jnp.array([0.0, 1.0]), approximate=False)
    Array([0.        , 0.8413447], dtype=float32)
    """
    return (_gelu if approximate else _exact_gelu)(_inexact(x))


@compiled
def _exact_gelu(x: Any) -> Any:
    one = aval_of(x).dtype.type
    return e.mul(e.mul(one(0.5), x), erfc(e.mul(e.neg(x), one(math.sqrt(0.5)))))


@compiled
def _gelu(x: Any) -> Any:
    one = aval_of(x).dtype.type
    cubic = e.add(x, e.mul(one(0.044715), e.integer_pow(x, 3)))
    return e.mul(x, e.logistic(e.mul(one(2 * math.sqrt(2 / math.pi)), cubic)))


@compiled_eagerly("axis")
def glu(x: Any, axis: int = -1) -> Any:
    """The gated linear unit: the first half along an axis times the sigmoid of the second half (Dauphin et al., 2017).

    Args:
      x: array of real numbers; integers are converted to floats.
      axis: the axis.

    Returns:
      Floats of the shape of `x`, but with half the size along the axis.

    Raises:
      ValueError: the axis has an odd size.
      InconclusiveDimensionOperation: a symbolic size may be odd.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.glu(jnp.array([2.0, 0.0]))
    Array([1.], dtype=float32)
    """
    x = _inexact(x)
    shape = aval_of(x).shape
    axis = one_axis(axis, len(shape))
    if shape[axis] % 2 > 0:  # inconclusive of a symbolic size that may be odd
        raise ValueError(f"glu: axis {axis} of {aval_of(x).str_short()} has an odd size, and is to be split in halves.")
    return _glu(x, axis=axis)


@compiled
def _glu(x: Any, *, axis: int) -> Any:
    half = aval_of(x).shape[axis] // 2
    return e.mul(slice_in_dim(x, 0, half, axis=axis), e.logistic(slice_in_dim(x, half, 2 * half, axis=axis)))


@_activation(_inexact)
def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for positive x, by expm1 below log 2 and by log1p above (Maechler, 2012).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log1mexp(jnp.array([1.0, 100.0]))
    Array([-4.586751e-01, -3.783506e-44], dtype=float32)
    """
    near = comparisons.less(x, _number(math.log(2), x))
    one = _constant(1, x)
    small = e.log(e.neg(e.expm1(e.neg(select(near, x, one)))))
    large = e.log1p(e.neg(e.exp(e.neg(select(near, one, x)))))
    return select(near, small, large)


def identity(x: Any) -> Any:
    """The array itself.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.identity(jnp.array([1, 2]))
    Array([1, 2], dtype=int32)
    """
    return asarray_like(as_operand(x))
