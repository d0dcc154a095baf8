"""xpr.dlpack: memory shared with other libraries, and which dtypes that is for."""

import numpy as np
import pytest

import xpr.numpy as jnp
from tests.peer import JAX, needs_jax
from xpr import dlpack


def test_arrays_of_numpy_and_back():
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    for copy in (None, True):
        np.testing.assert_array_equal(dlpack.from_dlpack(x, copy=copy), x)
    np.testing.assert_array_equal(np.from_dlpack(jnp.asarray(x)), x)


@needs_jax
def test_dtypes_are_those_of_jax():
    from jax import dlpack as theirs

    for name in ("bool", "int8", "uint64", "bfloat16", "float16", "complex128", "float8_e4m3fn", "int4"):
        dtype = np.dtype(getattr(jnp, name) if name != "bool" else bool)
        assert dlpack.is_supported_dtype(dtype) == theirs.is_supported_dtype(dtype)
    assert JAX is not None


def test_no_dtype():
    with pytest.raises(TypeError, match="a dtype is needed, and None was given"):
        dlpack.is_supported_dtype(None)
