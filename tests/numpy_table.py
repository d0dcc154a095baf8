"""Tables of calls, each evaluated here and in jax (in NumPy where jax is not installed), and compared.

A call is text over the names of a table: `"jnp.sum(x, axis=0)"`. It is evaluated eagerly and under jit; values, dtypes,
shapes and weak types must agree with jax's, values with NumPy's.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import xpr
import xpr.nn

try:
    import jax
except ImportError:
    jax = None  # type: ignore[assignment]  # an optional peer

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12, "complex128": 1e-12}


def _names(library: Any, convert: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    return {"jnp": library.numpy, "nn": library.nn, "lax": library.lax, "np": np, "inf": np.inf, "nan": np.nan,
            "grad": library.grad, "vmap": library.vmap, "jit": library.jit, "bfloat16": bfloat16,
            **{name: convert(value) for name, value in arrays.items()}}  # fmt: skip


def ours(call: str, arrays: dict[str, Any], jit: bool = False) -> Any:
    """The call's result here."""
    if not jit:
        return eval(call, _names(xpr, xpr.numpy.asarray, arrays))
    return xpr.jit(lambda traced: eval(call, _names(xpr, lambda x: x, traced)))(
        {name: xpr.numpy.asarray(value) for name, value in arrays.items()}
    )


def theirs(call: str, arrays: dict[str, Any]) -> Any:
    """The call's result in jax, or in NumPy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if jax is not None:
            return eval(call, _names(jax, jax.numpy.asarray, arrays))
        return eval(call, {"jnp": np, "np": np, "inf": np.inf, "nan": np.nan, **arrays})


def leaves(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, (tuple, list)) else [result]


def kind(x: Any) -> str:
    """dtype, shape and weakness, to be compared as a whole."""
    if isinstance(x, (bool, int, float, np.generic)):
        return f"{type(x).__name__}"
    return f"{x.dtype.name}{list(x.shape)}{'*' if getattr(x, 'weak_type', False) else ''}"


def close(have: Any, want: Any, tolerance: float | None = None) -> None:
    """Values agree, nan with nan, to the precision of the dtype."""
    name = np.asarray(want).dtype.name
    wide = np.complex128 if np.asarray(want).dtype.kind == "c" else np.float64
    tolerance = tolerance or TOLERANCE.get(name, 2e-5)
    have, want = (np.asarray(x).astype(wide) for x in (have, want))
    np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def check(call: str, arrays: dict[str, Any], jit: bool = True, tolerance: float | None = None) -> None:
    """The call gives what the peer gives, eagerly and (unless `jit=False`) compiled."""
    try:
        want = leaves(theirs(call, arrays))
    except (TypeError, AttributeError, NameError):
        if jax is not None:
            raise
        return  # NumPy has no such function, or argument
    for compiled in (False, True) if jit else (False,):
        have = leaves(ours(call, arrays, compiled))
        assert len(have) == len(want)
        for x, y in zip(have, want, strict=True):
            if jax is not None:
                assert kind(x) == kind(y), f"{call}: {kind(x)} here, {kind(y)} in jax"
            close(x, y, tolerance)
