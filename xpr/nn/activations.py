"""Activation functions: elementwise, of floats, each with the derivative it should have at its kinks.

A piecewise function is written with `select`, whose derivative is that of the piece chosen, to every order; no piece
is ever evaluated where its value or derivative is infinite. Integers are converted to floats, except where a function
has integer values at integers (`relu`, `hard_tanh`, `identity`).

A function of more than one operation is `compiled`: one call in a jaxpr, so that a network that uses it in every layer
has it traced, differentiated and lowered once, and one program when it is called eagerly.
"""

from __future__ import annotations

import math
from typing import Any

from xpr import dtypes
from xpr.control.compiled import compiled
from xpr.core.avals import aval_of
from xpr.numpy import arithmetic, comparisons, exponentials, trigonometric
from xpr.numpy.axes import one_axis
from xpr.numpy.promotion import (
    as_operand,
    asarray_like,
    convert,
    converter,
    promote_dtypes,
    promote_inexact,
    promote_shapes,
)
from xpr.numpy.where_select import where
from xpr.primitives import elementwise as e
from xpr.primitives.shapes import broadcast_in_dim, zeros_like_aval
from xpr.primitives.slicing import select, slice_in_dim
from xpr.primitives.special import erfc


def _inexact(x: Any, beside: type | None = None) -> Any:
    """The operand as floats, weak where it is weak; or where it would be so beside a Python number of that type."""
    aval = getattr(x, "aval", None)
    if aval is not None and aval.dtype in dtypes.INEXACT:
        return x
    if beside is None:
        return promote_inexact(x)[0]
    x = as_operand(x)
    aval = aval_of(x)
    dtype, weak = dtypes.promote_pair(aval.dtype, aval.weak_type, dtypes.of_python(beside), True)
    return convert(x, dtypes.to_inexact(dtype), weak)


def _number(value: float, x: Any) -> Any:
    """A Python number as an operand beside `x`, which is of floats, weak where it is weak."""
    aval = aval_of(x)
    if not aval.weak_type:
        return aval.dtype.type(value)
    return complex(value) if aval.dtype in dtypes.COMPLEX else float(value)


def _zeros(x: Any) -> Any:
    return zeros_like_aval(aval_of(x))


def _constant(value: float, x: Any) -> Any:
    """An array of one number repeated, of the type of `x`."""
    aval = aval_of(x)
    return broadcast_in_dim(_number(value, x), aval.shape, ())


# -- Rectifiers


def _nothing(x: Any) -> Any:
    """0, and nan where `x` is nan: a constant there too, so that it has derivative 0."""
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
    return select(e.gt(x, zero), x, _nothing(x))


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.relu6(jnp.array([-1.0, 2.0, 7.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    return _relu6(_inexact(x, float))


@compiled
def _relu6(x: Any) -> Any:
    low = select(e.gt(x, _number(0, x)), x, _nothing(x))
    return select(e.ge(x, _number(6, x)), _constant(6, x), low)


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """x from 0 upward, and `negative_slope` times x below.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.leaky_relu(jnp.array([-1.0, 2.0]))
    Array([-0.01,  2.  ], dtype=float32)
    """
    return _leaky_relu(as_operand(x), as_operand(negative_slope))


@compiled
def _leaky_relu(x: Any, negative_slope: Any) -> Any:
    return where(comparisons.greater_equal(x, 0), x, arithmetic.multiply(negative_slope, x))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x above 0, and alpha (exp(x) - 1) below: the exponential linear unit of Clevert et al., 2016.

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


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + min(alpha (exp(x / alpha) - 1), 0): smooth at 0 for every alpha (Barron, 2017).

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


def selu(x: Any) -> Any:
    """`elu` with the scale and alpha that keep mean 0 and variance 1 from layer to layer (Klambauer et al., 2017).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.selu(jnp.array([-1.0, 0.0, 2.0]))
    Array([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """
    return _selu(_inexact(x, float))


@compiled
def _selu(x: Any) -> Any:
    return e.mul(_number(SELU_SCALE, x), _elu.fun(x, SELU_ALPHA))


def hard_tanh(x: Any) -> Any:
    """x between -1 and 1, and the nearer of the two outside.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_tanh(jnp.array([-3.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return _hard_tanh(as_operand(x))


@compiled
def _hard_tanh(x: Any) -> Any:
    low = x if aval_of(x).dtype in dtypes.UNSIGNED else where(comparisons.less(x, -1), -1, x)
    return where(comparisons.greater(x, 1), 1, low)


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_sigmoid(jnp.array([-3.0, 0.0, 3.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return _hard_sigmoid(_inexact(x, float))


@compiled
def _hard_sigmoid(x: Any) -> Any:
    return e.div(_relu6.fun(e.add(x, _number(3, x))), _number(6, x))


def hard_silu(x: Any) -> Any:
    """x times `hard_sigmoid` of x; `hard_swish` is the same.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_silu(jnp.array([-3.0, 1.5, 3.0]))
    Array([-0.   ,  1.125,  3.   ], dtype=float32)
    """
    return _hard_silu(_inexact(x, float))


@compiled
def _hard_silu(x: Any) -> Any:
    return e.mul(x, _hard_sigmoid.fun(x))


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


def silu(x: Any) -> Any:
    """x times its sigmoid; `swish` is the same.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.silu(jnp.array([-1.0, 0.0, 1.0]))
    Array([-0.26894143,  0.        ,  0.7310586 ], dtype=float32)
    """
    return _silu(_inexact(x))


@compiled
def _silu(x: Any) -> Any:
    return e.mul(x, e.logistic(x))


swish = silu


def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    It is max(x, 0) + log1p(exp(-|x|)), with -|x| written as a choice between x and -x, so that derivatives of every
    order are right at 0 too.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.softplus(jnp.array([-100.0, 0.0, 100.0]))
    Array([3.783506e-44, 6.931472e-01, 1.000000e+02], dtype=float32)
    """
    return _softplus(_inexact(x, int))


@compiled
def _softplus(x: Any) -> Any:
    if aval_of(x).dtype in dtypes.COMPLEX:
        return e.log1p(e.exp(x))
    above = e.gt(x, _number(0, x))
    return e.add(select(above, x, _zeros(x)), e.log1p(e.exp(select(above, e.neg(x), x))))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), which is -softplus(-x).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log_sigmoid(jnp.array([-100.0, 0.0]))
    Array([-100.       ,   -0.6931472], dtype=float32)
    """
    return _log_sigmoid(_inexact(x))


@compiled
def _log_sigmoid(x: Any) -> Any:
    return e.neg(_softplus.fun(e.neg(x)))


def mish(x: Any) -> Any:
    """x tanh(softplus(x)) (Misra, 2019).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.mish(jnp.array([0.0, 1.0]))
    Array([0.        , 0.86509836], dtype=float32)
    """
    return _mish(_inexact(x, int))


@compiled
def _mish(x: Any) -> Any:
    return e.mul(x, e.tanh(_softplus.fun(x)))


def soft_sign(x: Any) -> Any:
    """x / (|x| + 1).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.soft_sign(jnp.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    return _soft_sign(_inexact(x, int))


@compiled
def _soft_sign(x: Any) -> Any:
    return e.div(x, e.add(e.abs(x), _number(1, x)))


def sparse_plus(x: Any) -> Any:
    """0 up to -1, x from 1, and (x + 1)^2 / 4 between (Martins and Astudillo's sparsemax loss).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    return _sparse_plus(_inexact(x, float))


@compiled
def _sparse_plus(x: Any) -> Any:
    low, high = e.le(x, _number(-1, x)), e.ge(x, _number(1, x))
    between = e.add(select(e.bitwise_or(low, high), _zeros(x), x), _number(1, x))
    curve = e.mul(_number(0.25, x), e.mul(between, between))
    return select(low, _zeros(x), select(high, x, curve))


def sparse_sigmoid(x: Any) -> Any:
    """The derivative of `sparse_plus`: (x + 1) / 2, kept between 0 and 1.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return _sparse_sigmoid(_inexact(x, float))


@compiled
def _sparse_sigmoid(x: Any) -> Any:
    moved = e.add(x, _number(1, x))
    return e.mul(_number(0.5, x), e.min(e.max(moved, _number(0, x)), _number(2, x)))


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x^2 + b)) / 2, a smooth rectifier without exponentials (Barron, 2021).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.squareplus(jnp.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    return _squareplus(_inexact(x, float), as_operand(b))


@compiled
def _squareplus(x: Any, b: Any) -> Any:
    x, b = promote_shapes(*promote_dtypes(x, b))
    return e.div(e.add(x, e.sqrt(e.add(e.square(x), b))), _number(2, x))


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution's Phi(x); approximately x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    The approximation is computed as x times the logistic function, in which digits are not lost where tanh is near -1.

    Source: Hendrycks and Gimpel, 2016.

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


def glu(x: Any, axis: int = -1) -> Any:
    """The first half along an axis times the sigmoid of the second (Dauphin et al., 2017).

    Raises:
      ValueError: the axis has an odd size.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.glu(jnp.array([2.0, 0.0]))
    Array([1.], dtype=float32)
    """
    x = _inexact(x)
    shape = aval_of(x).shape
    axis = one_axis(axis, len(shape))
    if shape[axis] % 2:
        raise ValueError(f"glu: axis {axis} of {aval_of(x).str_short()} has an odd size, and is to be split in halves.")
    return _glu(x, axis=axis)


@compiled
def _glu(x: Any, *, axis: int) -> Any:
    half = aval_of(x).shape[axis] // 2
    return e.mul(slice_in_dim(x, 0, half, axis=axis), e.logistic(slice_in_dim(x, half, 2 * half, axis=axis)))


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for positive x, by expm1 below log 2 and by log1p above (Maechler, 2012).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log1mexp(jnp.array([1.0, 100.0]))
    Array([-4.586751e-01, -3.783506e-44], dtype=float32)
    """
    return _log1mexp(_inexact(x))


@compiled
def _log1mexp(x: Any) -> Any:
    near = e.lt(x, _number(math.log(2), x))
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
