"""Layers of neural networks as pairs of functions.

A layer is `(init, apply)`: `init(key, input_shape) -> (output_shape, params)`, where -1 in a shape stands for any size,
and `apply(params, inputs, rng=key) -> outputs`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from xpr import lax, random
from xpr import numpy as jnp
from xpr.api.make_jaxpr import ShapeDtypeStruct, eval_shape
from xpr.nn import elu, gelu, leaky_relu, log_softmax, relu, selu, sigmoid, softmax, softplus, standardize
from xpr.nn import log_softmax as logsoftmax
from xpr.nn.initializers import glorot_normal, normal, ones, zeros
from xpr.nn.initializers import glorot_normal as glorot
from xpr.nn.initializers import normal as randn

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp", "FanInConcat",
    "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity", "LeakyRelu",
    "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise",
    "elu", "gelu", "glorot", "leaky_relu", "log_softmax", "logsoftmax", "parallel", "randn", "relu", "selu", "serial",
    "shape_dependent", "sigmoid", "softmax", "softplus", "standardize",
]  # fmt: skip

Layer = tuple[Callable[..., Any], Callable[..., Any]]


def Dense(out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:
    """A fully connected layer.

    >>> from xpr import numpy as jnp, random
    >>> from xpr.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(4), stax.Relu, stax.Dense(1))
    >>> shape, params = init(random.key(0), (-1, 3))
    >>> shape, apply(params, jnp.ones((2, 3))).shape
    ((-1, 1), (2, 1))
    """
    weights, biases = W_init or glorot_normal(), b_init or normal()

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        k1, k2 = random.split(rng)
        return (*input_shape[:-1], out_dim), (weights(k1, (input_shape[-1], out_dim)), biases(k2, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return jnp.dot(inputs, w) + b

    return init, apply


def _kernel_shape(text: str, sizes: Sequence[int], channels: int, out_channels: int) -> tuple[int, ...]:
    remaining = iter(sizes)
    return tuple([out_channels if c == "O" else channels if c == "I" else next(remaining) for c in text])


def _convolution(
    transposed: bool, dimension_numbers: Any, out_chan: int, filter_shape: Any, strides: Any, padding: Any, W_init: Any,
    b_init: Any,
) -> Layer:  # fmt: skip
    lhs, rhs, out = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    weights = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))
    biases = b_init or normal(1e-6)

    def convolve(x: Any, w: Any) -> Any:
        if transposed:
            return lax.conv_transpose(x, w, strides, padding, dimension_numbers=dimension_numbers)
        return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=dimension_numbers)

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        kernel = _kernel_shape(rhs, filter_shape, input_shape[lhs.index("C")], out_chan)
        k1, k2 = random.split(rng)
        params = weights(k1, kernel), biases(k2, tuple([out_chan if c == "C" else 1 for c in out]))
        return _shape_of(lambda x: convolve(x, params[0]), input_shape), params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return convolve(inputs, w) + b

    return init, apply


def _shape_of(fun: Callable[[Any], Any], input_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a function's result; -1, a batch of any size, stays -1."""
    sizes = [1 if n == -1 else n for n in input_shape]
    shape = eval_shape(fun, ShapeDtypeStruct(sizes, float)).shape
    return tuple([-1 if i < len(input_shape) and input_shape[i] == -1 else n for i, n in enumerate(shape)])


def GeneralConv(
    dimension_numbers: Any, out_chan: int, filter_shape: Any, strides: Any = None, padding: Any = "VALID",
    W_init: Any = None, b_init: Any = None,
) -> Layer:  # fmt: skip
    """A convolution with bias; `dimension_numbers` as of `lax.conv_general_dilated`."""
    return _convolution(False, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init)


def GeneralConvTranspose(
    dimension_numbers: Any, out_chan: int, filter_shape: Any, strides: Any = None, padding: Any = "VALID",
    W_init: Any = None, b_init: Any = None,
) -> Layer:  # fmt: skip
    """A transposed convolution with bias."""
    return _convolution(True, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True, beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:  # fmt: skip
    """Normalization over the axes of a batch, with the batch's own mean and variance."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        shape = tuple([n for i, n in enumerate(input_shape) if i not in axes])
        k1, k2 = random.split(rng)
        return input_shape, (beta_init(k1, shape) if center else (), gamma_init(k2, shape) if scale else ())

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        expanded = [jnp.newaxis if i in axes else slice(None) for i in range(x.ndim)]
        z = standardize(x, axis=axes, epsilon=epsilon)
        z = z * gamma[tuple(expanded)] if scale else z
        return z + beta[tuple(expanded)] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that applies a function."""
    return lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling(start: Any, combine: Any, rescale: Any = None) -> Callable[..., Layer]:
    def make(window_shape: Any, strides: Any = None, padding: Any = "VALID", spec: str | None = None) -> Layer:
        """A layer of the largest elements of windows (`MaxPool`), of their sums (`SumPool`) or means (`AvgPool`)."""
        steps = list(strides or (1,) * len(window_shape))
        text = spec or "N" + "".join(chr(ord("a") + i) for i in range(len(window_shape))) + "C"
        spatial, steps = iter(window_shape), iter(steps)  # type: ignore[assignment]
        window = tuple([1 if c in "NC" else next(spatial) for c in text])
        moves = tuple([1 if c in "NC" else next(steps) for c in text])  # type: ignore[call-overload]

        def pool(x: Any) -> Any:
            out = lax.reduce_window(x, start, combine, window, moves, padding)
            if rescale is None:
                return out
            count = lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, window, moves, padding)
            return rescale(out, count)

        return (lambda rng, shape: (_shape_of(pool, shape), ())), (lambda params, inputs, **kwargs: pool(inputs))

    return make


MaxPool = _pooling(-jnp.inf, lax.max)
SumPool = _pooling(0.0, lax.add)
AvgPool = _pooling(0.0, lax.add, operator.truediv)


def _flattened(rng: Any, input_shape: Sequence[int]) -> Any:
    return (input_shape[0], functools.reduce(operator.mul, input_shape[1:], 1)), ()


Flatten = _flattened, lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1))
Identity = elementwise(lambda x: x)
FanInSum = lambda rng, shapes: (shapes[0], ()), lambda params, inputs, **kwargs: sum(inputs)


def FanOut(num: int) -> Layer:
    """A layer that returns copies of its input."""
    return lambda rng, shape: ([shape] * num, ()), lambda params, inputs, **kwargs: [inputs] * num


def FanInConcat(axis: int = -1) -> Layer:
    """A layer that concatenates its inputs along an axis."""

    def init(rng: Any, shapes: Sequence[Sequence[int]]) -> Any:
        along = axis % len(shapes[0])
        return (*shapes[0][:along], sum(shape[along] for shape in shapes), *shapes[0][along + 1 :]), ()

    return init, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A layer that keeps an element with probability `rate`, scaled up, in mode "train"; else it changes nothing.

    Raises:
      ValueError: it is applied without `rng`.
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        if mode != "train":
            return inputs
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("Dropout: apply it with a key, apply(params, inputs, rng=key).")
        return jnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return lambda rng, shape: (shape, ()), apply


# -- Layers of layers


def serial(*layers: Layer) -> Layer:
    """Layers one after another; their parameters in a list."""
    inits, applies = zip(*layers)

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for each in inits:
            rng, key = random.split(rng)
            input_shape, param = each(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        for each, param, key in zip(applies, params, keys):
            inputs = each(param, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers side by side, each for one of several inputs."""
    inits, applies = zip(*layers)

    def init(rng: Any, input_shape: Any) -> Any:
        keys = random.split(rng, len(layers))
        shapes, params = zip(*[each(key, shape) for each, key, shape in zip(inits, keys, input_shape)])
        return list(shapes), list(params)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [each(p, x, rng=key, **kwargs) for each, p, x, key in zip(applies, params, inputs, keys)]

    return init, apply


def _keys(rng: Any, count: int) -> Any:
    return [None] * count if rng is None else random.split(rng, count)


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that `make_layer` builds from its input shape."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
