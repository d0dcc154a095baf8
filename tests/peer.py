"""The same code in xpr and in jax, where it is installed: values, shapes, dtypes and weak types must agree.

The code is a function of the library (`agree`), or a call as text, such as `"jnp.roll(x, 1)"`, in which `jnp` is each
library's module in turn and `x` an array of that library (`check`).
"""

from __future__ import annotations

import ast
import collections
import functools
import hashlib
import importlib
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import xpr
import xpr.nn
from tests import peer_results
from xpr import dtypes
from xpr.core.avals import aval_of

# What tests reach through the library's name beyond its own attributes.
_SUBMODULES = (
    "numpy", "lax", "nn", "nn.initializers", "random", "ops", "flatten_util", "custom_derivatives", "custom_batching",
    "scipy", "scipy.special", "image", "stages", "example_libraries.optimizers", "example_libraries.stax",
)  # fmt: skip

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12, "complex128": 1e-12}  # 2e-5 for others


def _find() -> Any:
    try:
        found = importlib.import_module("jax")
    except ImportError:
        return None
    for name in _SUBMODULES:
        importlib.import_module(f"jax.{name}")
    return found


JAX = _find()  # None where it is not installed
needs_jax = pytest.mark.skipif(JAX is None, reason="compares with jax, which is not installed")

# -- Functions of the library


def agree(code: Callable[[Any], Any], tolerance: float = 2e-6) -> Any:
    """What `code(library)` gives in xpr, checked to have as many leaves, of the same types and values, in jax.

    Results of jax are kept by the name of the test and its text, with that of its file but other tests. Where there are
    none, and jax is not installed, nothing is compared.
    """
    ours = code(xpr)
    leaves_of_ours = xpr.tree.leaves(ours)

    def compare(theirs: list[Any]) -> None:
        assert len(leaves_of_ours) == len(theirs), (ours, theirs)
        for x, y in zip(leaves_of_ours, theirs, strict=True):
            # Where nothing is transformed functions with rules give what they give, numbers too.
            plain = isinstance(x, (int, float)) or isinstance(y, (int, float))
            x, y = np.asarray(x), np.asarray(y)
            assert x.shape == y.shape and (plain or x.dtype == y.dtype), (ours, theirs)
            if x.dtype != dtypes.float0:
                one, two = (z.astype(np.float64) if z.dtype.kind == "V" else z for z in (x, y))
                np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)

    call, arrays = _name_of_comparison(code), {}
    if JAX is not None or peer_results.find(call, arrays) is not None:
        beside_jax(call, arrays, lambda: JAX.tree.leaves(code(JAX)), compare)
    return ours


def beside(code: Callable[[Any], Any], compare: Callable[[list[Any]], None]) -> None:
    """Has the leaves compared that `code(jax)` gives: they are kept as those of `agree` are.

    The test is skipped where there are none and jax is not installed.
    """
    beside_jax(_name_of_comparison(code), {}, lambda: JAX.tree.leaves(JAX.block_until_ready(code(JAX))), compare)


def _name_of_comparison(code: Callable[[Any], Any]) -> str:
    """The test, the number of the comparison in it, and a digest of the text that it depends on."""
    test = os.environ["PYTEST_CURRENT_TEST"].split("::", 1)[1].rsplit(" ", 1)[0]
    _comparisons[test] += 1
    of_text = digest(code.__code__.co_filename, re.split(r"::|\[", test)[0])
    return f"{test} {_comparisons[test]} {of_text}"


_comparisons: collections.Counter[str] = collections.Counter()


@functools.cache
def digest(path: str, test: str) -> str:
    """A digest of a file of tests without the functions and classes of its other tests: what this one depends on."""
    text = Path(path).read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        named = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name
        if named and named != test and named.startswith(("test_", "Test")):
            first = min(each.lineno for each in (node, *node.decorator_list))
            lines[first - 1 : node.end_lineno] = [""] * (node.end_lineno - first + 1)
    return hashlib.sha256("\n".join(filter(None, lines)).encode()).hexdigest()[:8]


# -- Calls as text


def beside_jax(
    call: str, arrays: Mapping[str, Any], ask: Callable[[], list[Any]], compare: Callable[[list[Any]], None]
) -> None:
    """Compares something with what a call of arrays gives in jax: arrays, and numbers and texts of Python.

    These are the results that are kept (tests/peer_results), or, where none are or those differ, what `ask` gives. The
    test is skipped where there are none and jax is not installed.
    """
    if (kept := peer_results.find(call, arrays)) is not None:
        try:
            return compare(kept)
        except AssertionError:
            if JAX is None:
                raise
    if JAX is None:
        pytest.skip("compares with jax, which is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ask()
    peer_results.keep(call, arrays, theirs)
    compare(theirs)


def evaluate(call: str, library: Any, arrays: Mapping[str, Any]) -> Any:
    """The call's result in a library, which is xpr, jax or NumPy."""
    code = compile(call, "<call>", "eval")
    if library is np:
        return eval(code, {"jnp": np, "np": np, "inf": np.inf, "nan": np.nan, **arrays})
    return eval(code, {**_names(library), **_used(code, library, arrays)})


def stage(call: str, arrays: Mapping[str, Any]) -> tuple[xpr.core.ClosedJaxpr, list[Any]]:
    """The jaxpr of the call, as a function of the arrays that it reads, and those."""
    code = compile(call, "<call>", "eval")
    own = _used(code, xpr, arrays)
    closed = xpr.make_jaxpr(lambda named: leaves(eval(code, {**_names(xpr), **named})))(own)
    return closed, xpr.tree.leaves(own)


def _names(library: Any) -> dict[str, Any]:
    return {"jnp": library.numpy, "nn": library.nn, "lax": library.lax, "grad": library.grad, "vmap": library.vmap,
            "jit": library.jit, "np": np, "inf": np.inf, "nan": np.nan, "bfloat16": bfloat16}  # fmt: skip


def _used(code: Any, library: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arrays that a call reads, as the library's."""
    read = _names_read(code)
    return {name: library.numpy.asarray(value) for name, value in arrays.items() if name in read}


def _names_read(code: Any) -> set[str]:
    """The names that a call and the functions in it read."""
    return {*code.co_names}.union(*(_names_read(each) for each in code.co_consts if hasattr(each, "co_names")))


def check(call: str, arrays: Mapping[str, Any], tolerance: float | None = None, staged: bool = True) -> None:
    """The call gives what it gives in jax, and staged and then run what it gives at once.

    Values agree to the tolerance, or to the precision of their dtypes where it is None. Without jax they are compared
    with NumPy's, whose types are others, if NumPy takes the call.
    """
    ours = leaves(evaluate(call, xpr, arrays))
    for x in ours:
        assert isinstance(x, (xpr.Array, int, bool, float, tuple, np.dtype, np.generic)), type(x)
        if isinstance(x, xpr.Array):
            assert np.asarray(x).dtype == x.dtype and np.asarray(x).shape == x.shape
    read = {name: value for name, value in arrays.items() if name in _names_read(compile(call, "<call>", "eval"))}
    if JAX is None and peer_results.find(call, read) is None:
        _compare_with_numpy(call, ours, arrays, tolerance)
    else:
        ask = lambda: leaves(evaluate(call, JAX, arrays))
        beside_jax(call, read, ask, lambda theirs: compare(call, ours, theirs, tolerance))
    if staged and any(isinstance(x, xpr.Array) for x in ours):
        _compare_staged(call, ours, arrays, tolerance)


def check_with_numpy(call: str, arrays: Mapping[str, np.ndarray], tolerance: float = 0.0) -> None:
    """Values and shapes are NumPy's, whose dtypes are wider."""
    ours, theirs = leaves(evaluate(call, xpr, arrays)), leaves(evaluate(call, np, arrays))
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs):
        np.testing.assert_allclose(np.asarray(x), y, rtol=max(tolerance, 1e-6), atol=tolerance, err_msg=call)
        assert np.shape(x) == np.shape(y)


def leaves(result: Any) -> list[Any]:
    return [x for item in result for x in leaves(item)] if isinstance(result, (list, tuple)) else [result]


def compare(call: str, ours: list[Any], theirs: list[Any], tolerance: float | None) -> None:
    """Values, shapes, dtypes and weak types of two lists of results."""
    assert len(ours) == len(theirs), call
    for x, y in zip(ours, theirs):
        if not hasattr(y, "weak_type"):
            assert type(x) is type(y) and x == y, (call, x, y)
            continue
        assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type), call
        close(x, y, tolerance, call)


def close(got: Any, expected: Any, tolerance: float | None = None, call: str = "") -> None:
    """Values agree, nan with nan, to the tolerance, or to the precision of the dtype."""
    got, expected = np.asarray(got), np.asarray(expected)
    if tolerance is None:
        tolerance = TOLERANCE.get(expected.dtype.name, 2e-5)
    exact = tolerance == 0 or expected.dtype.kind not in "fcV"
    one, two = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) if x.dtype.kind in "fcV" else x
                for x in (got, expected))  # fmt: skip
    if exact:
        np.testing.assert_array_equal(one, two, err_msg=call)
    else:
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance, err_msg=call)


def _compare_with_numpy(call: str, ours: list[Any], arrays: Mapping[str, Any], tolerance: float | None) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = leaves(evaluate(call, np, arrays))
    except (TypeError, AttributeError, NameError):
        return  # NumPy has no such function, or argument
    assert len(ours) == len(theirs), call
    for x, y in zip(ours, theirs, strict=True):
        close(x, y, tolerance, call)


def _compare_staged(call: str, ours: list[Any], arrays: Mapping[str, Any], tolerance: float | None) -> None:
    closed, operands = stage(call, arrays)
    xpr.core.check_jaxpr(closed.jaxpr)
    staged = xpr.core.jaxpr_as_fun(closed)(*operands)
    assert len(staged) == len(ours), call
    for x, y in zip(ours, staged):
        if isinstance(x, xpr.Array):
            assert x.aval == aval_of(y), (call, x.aval, aval_of(y))
            close(x, y, max(tolerance or 0.0, TOLERANCE.get(x.dtype.name, 1e-6)), call)
