"""One call, evaluated by xpr, by jax where it is installed, and by NumPy: all must agree.

A call is text such as `"jnp.roll(x, 1)"`, in which `jnp` is each library's module in turn and the other names are
arrays of that library.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr.core.avals import aval_of


def peer() -> Any:
    """jax's NumPy, or None where jax is not installed."""
    try:
        return importlib.import_module("jax.numpy")
    except ImportError:
        return None


def evaluated(call: str, module: Any, arrays: Mapping[str, np.ndarray]) -> list[Any]:
    """The leaves of what a library makes of a call."""
    own = {name: module.asarray(value) for name, value in arrays.items()}
    with warnings.catch_warnings():
        if module is not jnp:
            warnings.simplefilter("ignore")
        return leaves(eval(call, {"jnp": module, "np": np, **own}))


def leaves(result: Any) -> list[Any]:
    return [x for item in result for x in leaves(item)] if isinstance(result, (list, tuple)) else [result]


def agree(call: str, arrays: Mapping[str, np.ndarray], tolerance: float = 0.0, staged: bool = True) -> None:
    """Values, shapes, dtypes and weak types are jax's; the call staged and then run gives what the eager one gives."""
    ours = evaluated(call, jnp, arrays)
    for x in ours:
        assert isinstance(x, (xpr.Array, int, bool, float, tuple, np.dtype)), type(x)
        if isinstance(x, xpr.Array):
            assert np.asarray(x).dtype == x.dtype and np.asarray(x).shape == x.shape
    if peer() is not None:
        compare(call, ours, evaluated(call, peer(), arrays), tolerance)
    if staged and any(isinstance(x, xpr.Array) for x in ours):
        compare_staged(call, ours, arrays, tolerance)


def agree_with_numpy(call: str, arrays: Mapping[str, np.ndarray], tolerance: float = 0.0) -> None:
    """Values and shapes are NumPy's, whose dtypes are wider."""
    ours, theirs = evaluated(call, jnp, arrays), evaluated(call, np, arrays)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs):
        np.testing.assert_allclose(np.asarray(x), y, rtol=max(tolerance, 1e-6), atol=tolerance, err_msg=call)
        assert np.shape(x) == np.shape(y)


def compare(call: str, ours: list[Any], theirs: list[Any], tolerance: float) -> None:
    assert len(ours) == len(theirs), call
    for x, y in zip(ours, theirs):
        if not hasattr(y, "weak_type"):
            assert x == y, (call, x, y)
            continue
        assert (x.dtype, x.shape) == (y.dtype, y.shape), (call, x.aval, y.aval)
        assert x.weak_type == y.weak_type, (call, x.aval, y.aval)
        one, two = np.asarray(x), np.asarray(y)
        if one.dtype.kind == "V":
            one, two = one.astype(np.float32), two.astype(np.float32)
        if tolerance and one.dtype.kind in "fc":
            np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance, err_msg=call)
        else:
            np.testing.assert_array_equal(one, two, err_msg=call)


def compare_staged(call: str, ours: list[Any], arrays: Mapping[str, np.ndarray], tolerance: float) -> None:
    code = compile(call, "<call>", "eval")
    own = {name: jnp.asarray(value) for name, value in arrays.items()}
    closed = xpr.make_jaxpr(lambda named: leaves(eval(code, {"jnp": jnp, "np": np, **named})))(own)
    xpr.core.check_jaxpr(closed.jaxpr)
    staged = xpr.core.jaxpr_as_fun(closed)(*xpr.tree.leaves(own))
    assert len(staged) == len(ours), call
    for x, y in zip(ours, staged):
        if isinstance(x, xpr.Array):
            assert x.aval == aval_of(y), (call, x.aval, aval_of(y))
            one, two = (np.asarray(z).astype(np.complex128) for z in (x, y))
            np.testing.assert_allclose(one, two, rtol=max(tolerance, 1e-6), atol=1e-6, err_msg=call)
