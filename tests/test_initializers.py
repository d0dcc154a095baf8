"""xpr.nn.initializers against the peer, bit for bit where it draws the same numbers, and by their moments."""

from __future__ import annotations

import numpy as np
import pytest

import xpr
from tests.peer import JAX, beside_jax, compare, needs_jax
from xpr import nn

CALLS = """
zeros
ones
constant(3.0)
constant(2, 'int32')
uniform()
uniform(2.0)
normal()
normal(0.5, 'float16')
truncated_normal()
truncated_normal(2.0, lower=-1.0, upper=3.0)
glorot_uniform()
glorot_normal()
lecun_uniform()
lecun_normal()
he_uniform()
he_normal()
xavier_uniform()
xavier_normal()
kaiming_uniform()
kaiming_normal()
orthogonal()
orthogonal(2.0, 0)
orthogonal(column_axis=1)
variance_scaling(2.0, 'fan_out', 'normal')
variance_scaling(2.0, 'fan_avg', 'uniform', in_axis=0, out_axis=1)
variance_scaling(2.0, 'fan_geo_avg', 'truncated_normal', batch_axis=0)
variance_scaling(1.0, 'fan_in', 'uniform', in_axis=(0, 1))
variance_scaling(1.0, 'fan_in', 'truncated_normal', dtype='complex64')
variance_scaling(1.0, 'fan_in', 'uniform', dtype='complex64')
variance_scaling(1.0, 'fan_in', 'normal', dtype='complex64')
""".split("\n")[1:-1]


def of(library, call):
    return eval(call, {name: getattr(library.nn.initializers, name) for name in dir(library.nn.initializers)})


@pytest.mark.parametrize("call", CALLS)
def test_draws_what_the_peer_draws(call):
    drawn = lambda library: [of(library, call)(library.random.key(7), (3, 4, 5))]
    ours = drawn(xpr)
    tolerance = 2e-3 if ours[0].dtype == np.float16 else 2e-6
    beside_jax(call, {}, lambda: drawn(JAX), lambda theirs: compare(call, ours, theirs, tolerance))


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_variance_is_as_asked(distribution, dtype):
    draw = nn.initializers.variance_scaling(3.0, "fan_in", distribution, dtype=dtype)
    weights = np.asarray(draw(xpr.random.key(0), (200, 300)))
    assert abs(weights.mean()) < 0.01
    assert np.isclose(weights.var(), 3.0 / 200, rtol=0.03)


def test_dtype_of_the_call_comes_first():
    assert nn.initializers.normal(dtype="float16")(xpr.random.key(0), (2,), "float32").dtype == np.float32


@needs_jax
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 2, 3, 3), (1, 2, 3, 2, 4)])
def test_an_orthogonal_matrix_amid_a_window(shape):
    have, want = (library.nn.initializers.delta_orthogonal(2.0)(library.random.key(7), shape) for library in (xpr, JAX))
    np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_orthogonal_weights():
    weights = np.asarray(nn.initializers.orthogonal()(xpr.random.key(0), (2, 3, 4)))
    np.testing.assert_allclose(np.einsum("abi,abj->ij", weights, weights), np.eye(4), atol=1e-6)
    assert nn.initializers.orthogonal()(xpr.random.key(0), (2, 0)).shape == (2, 0)


def test_axes_of_inputs_and_outputs_may_be_none():
    draw = nn.initializers.variance_scaling
    for axes, deviation in ((([0], []), 100**-0.5), (([], [0]), 1.0)):
        weights = draw(1.0, "fan_in", "normal", *axes)(xpr.random.key(0), (100,))
        np.testing.assert_allclose(np.std(weights), deviation, rtol=0.3)
    assert draw(1.0, "fan_in", "normal", [], [])(xpr.random.key(0), ()).shape == ()


def test_errors():
    with pytest.raises(ValueError, match=r"orthogonal: takes a shape of at least two axes, and got \(3,\)"):
        nn.initializers.orthogonal()(xpr.random.key(0), (3,))
    with pytest.raises(ValueError, match=r"delta_orthogonal: takes a shape of 3 to 5 axes.* got \(3, 4, 2\)"):
        nn.initializers.delta_orthogonal()(xpr.random.key(0), (3, 4, 2))
    with pytest.raises(ValueError, match="input and an output axis"):
        nn.initializers.he_normal()(xpr.random.key(0), (3,))
    with pytest.raises(ValueError, match="mode must be one of"):
        nn.initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="distribution must be one of"):
        nn.initializers.variance_scaling(1.0, "fan_in", "cauchy")
