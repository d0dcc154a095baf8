"""`jax.experimental.rnn`: LSTM networks, with weights in one vector, as cuDNN has them.

Everything is made of scans, on every platform; JAX's own calls cuDNN. The vector holds, for each layer and in each
layer for each direction, the matrices W_ih [4 hidden, input] and W_hh [4 hidden, hidden], and behind those of all
layers the biases b_ih and b_hh [4 hidden]. Each has four blocks, of the gates i, f, g, o:

    c = sigmoid(f) * c + sigmoid(i) * tanh(g)        h = sigmoid(o) * tanh(c)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from xpr import lax, nn, random
from xpr import numpy as jnp
from xpr.api.vmap import vmap

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "swap_lstm_gates", "unpack_lstm_weights",
]  # fmt: skip

Weights = dict[int, Any]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Iterator[tuple[int, ...]]:
    """The shapes of all matrices, and behind them of all biases."""
    directions = 2 if bidirectional else 1
    for layer in range(num_layers):
        for _ in range(directions):
            yield 4 * hidden_size, directions * hidden_size if layer else input_size
            yield 4 * hidden_size, hidden_size
    for _ in range(2 * num_layers * directions):
        yield (4 * hidden_size,)


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """The number of weights of a network.

    Args:
      input_size: the number of features of a step.
      hidden_size: that of the state.
      num_layers: the number of layers.
      bidirectional: whether each layer runs in both directions.

    Returns:
      The size of the vector.

    >>> from xpr.experimental import rnn
    >>> rnn.get_num_params_in_lstm(3, 5, 1, False)
    200
    """
    return sum(math.prod(shape) for shape in _shapes(input_size, hidden_size, num_layers, bidirectional))


def init_lstm_weight(rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Any:
    """Random weights, uniform in (-k, k) with k = 1 / sqrt(hidden_size).

    Args:
      rng: a random key.
      input_size: the number of features of a step.
      hidden_size: that of the state.
      num_layers: the number of layers.
      bidirectional: whether each layer runs in both directions.

    Returns:
      A vector, float32.

    >>> import xpr
    >>> from xpr.experimental import rnn
    >>> rnn.init_lstm_weight(xpr.random.key(0), 3, 5, 1, False).shape
    (200,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    k = np.sqrt(1.0 / hidden_size)
    return random.uniform(rng, (count,), np.float32, minval=-k, maxval=k)


def _parts(weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[Any]:
    shapes = list(_shapes(input_size, hidden_size, num_layers, bidirectional))
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(jnp.split(weights, ends[:-1]), shapes)]


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Weights, Weights, Weights, Weights]:
    """The matrices and biases of a vector of weights.

    Args:
      weights: the vector.
      input_size: the number of features of a step.
      hidden_size: that of the state.
      num_layers: the number of layers.
      bidirectional: whether each layer runs in both directions.

    Returns:
      W_ih, W_hh, b_ih and b_hh, each a dict by the number of the layer; with two directions there are twice as many,
      forward ones even.

    >>> import xpr
    >>> from xpr.experimental import rnn
    >>> w = rnn.init_lstm_weight(xpr.random.key(0), 3, 5, 1, False)
    >>> [part[0].shape for part in rnn.unpack_lstm_weights(w, 3, 5, 1, False)]
    [(20, 3), (20, 5), (20,), (20,)]
    """
    parts = _parts(weights, input_size, hidden_size, num_layers, bidirectional)
    count = len(parts) // 4
    matrices, biases = parts[: 2 * count], parts[2 * count :]
    kinds = matrices[::2], matrices[1::2], biases[::2], biases[1::2]
    return tuple([dict(enumerate(kind)) for kind in kinds])  # type: ignore[return-value]  # there are four


def swap_lstm_gates(weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Any:
    """The weights with the blocks of the last two gates exchanged, as other libraries order them.

    Args:
      weights: the vector.
      input_size: the number of features of a step.
      hidden_size: that of the state.
      num_layers: the number of layers.
      bidirectional: whether each layer runs in both directions.

    Returns:
      A vector of the same size.

    >>> import xpr
    >>> from xpr.experimental import rnn
    >>> w = rnn.init_lstm_weight(xpr.random.key(0), 3, 5, 1, False)
    >>> bool((rnn.swap_lstm_gates(rnn.swap_lstm_gates(w, 3, 5, 1, False), 3, 5, 1, False) == w).all())
    True
    """
    swapped = []
    for part in _parts(jnp.asarray(weights), input_size, hidden_size, num_layers, bidirectional):
        i, f, g, o = jnp.split(part, 4)
        swapped.append(jnp.concatenate([i, f, o, g]).ravel())
    return jnp.concatenate(swapped)


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """An LSTM over sequences of several lengths.

    Args:
      x: [batch, longest, input_size].
      h_0: [layers, batch, hidden_size], where layers of two directions count twice.
      c_0: likewise.
      weights: the vector of all weights.
      seq_lengths: int32[batch], the lengths of the sequences.
      input_size: the number of features of a step.
      hidden_size: that of the state.
      num_layers: the number of layers.
      dropout: must be 0.
      bidirectional: whether each layer runs in both directions.
      precision: of the products; see `jnp.dot`.

    Returns:
      y [batch, longest, directions * hidden_size], 0 behind the end of a sequence, and the last states h and c, of the
      shape of `h_0`.

    Raises:
      NotImplementedError: `seq_lengths` are not int32, or `dropout` is not 0.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import rnn
    >>> w = rnn.init_lstm_weight(xpr.random.key(0), 3, 5, 1, False)
    >>> state = jnp.zeros((1, 2, 5))
    >>> y, h, c = rnn.lstm(jnp.ones((2, 4, 3)), state, state, w, jnp.array([4, 2]), 3, 5, 1, 0.0, False)
    >>> y.shape, h.shape, bool((y[1, 2:] == 0).all())
    ((2, 4, 5), (1, 2, 5), True)
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    network = _Network(precision)
    return network(x, h_0, c_0, *parts, seq_lengths, num_layers, dropout, bidirectional)


def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: Weights,
    W_hh: Weights,
    b_ih: Weights,
    b_hh: Weights,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    """`lstm` with the weights as `unpack_lstm_weights` gives them.

    Args:
      x: [batch, longest, input_size].
      h_0: [layers, batch, hidden_size].
      c_0: likewise.
      W_ih: matrices by layer.
      W_hh: likewise.
      b_ih: biases by layer.
      b_hh: likewise.
      seq_lengths: int32[batch].
      input_size: the number of features of a step.
      hidden_size: that of the state.
      num_layers: the number of layers.
      dropout: must be 0.
      bidirectional: whether each layer runs in both directions.

    Returns:
      What `lstm` gives.

    Raises:
      NotImplementedError: `seq_lengths` are not int32, or `dropout` is not 0.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import rnn
    >>> parts = rnn.unpack_lstm_weights(jnp.zeros(200), 3, 5, 1, False)
    >>> state = jnp.zeros((1, 2, 5))
    >>> rnn.lstm_ref(jnp.ones((2, 4, 3)), state, state, *parts, jnp.array([4, 2]), 3, 5, 1, 0.0, False)[0].shape
    (2, 4, 5)
    """
    return _Network(None)(x, h_0, c_0, W_ih, W_hh, b_ih, b_hh, seq_lengths, num_layers, dropout, bidirectional)


class _Network:
    """Layers of scans; sequences have the axes [step, batch, feature] between them."""

    def __init__(self, precision: Any):
        self.precision = precision

    def __call__(
        self, x: Any, h_0: Any, c_0: Any, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights, lengths: Any,
        num_layers: int, dropout: float, bidirectional: bool,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        if lengths.dtype != np.int32:
            raise NotImplementedError(f"lstm: seq_lengths must be int32, and are {lengths.dtype}.")
        if dropout:
            raise NotImplementedError("lstm: dropout is not supported. Drop elements of x, or between calls.")
        y, hs, cs = jnp.swapaxes(x, 0, 1), [], []
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            outs = []
            for direction in range(directions):
                n = directions * layer + direction
                sequence = _flipped(y, lengths) if direction else y
                out, h, c = self.layer(sequence, h_0[n], c_0[n], W_ih[n], W_hh[n], b_ih[n] + b_hh[n], lengths)
                outs.append(_flipped(out, lengths) if direction else out)
                hs.append(h)
                cs.append(c)
            y = jnp.concatenate(outs, -1)
        return jnp.swapaxes(y, 0, 1), jnp.stack(hs), jnp.stack(cs)

    def layer(self, x: Any, h: Any, c: Any, W_ih: Any, W_hh: Any, bias: Any, lengths: Any) -> tuple[Any, Any, Any]:
        """The outputs of one layer in one direction, and its states at the ends of the sequences."""
        from_input = jnp.matmul(x, W_ih.T, precision=self.precision) + bias

        def step(state: Any, row: Any) -> Any:
            (h, c), (number, of_input) = state, row
            gates = of_input + jnp.matmul(h, W_hh.T, precision=self.precision)
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            new_c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            new_h = nn.sigmoid(o) * jnp.tanh(new_c)
            inside = (number < lengths)[:, None]
            return (jnp.where(inside, new_h, h), jnp.where(inside, new_c, c)), jnp.where(inside, new_h, 0)

        (h, c), y = lax.scan(step, (h, c), (jnp.arange(x.shape[0], dtype=np.int32), from_input))
        return y, h, c


def _flipped(sequences: Any, lengths: Any) -> Any:
    """Each sequence backwards; what is behind its end stays there."""
    longest = sequences.shape[0]
    roll = lambda rows, by: jnp.roll(rows, by, 0)  # noqa: E731  # one expression, used once
    return vmap(roll, in_axes=(1, 0), out_axes=1)(sequences, longest - lengths)[::-1]
