"""What tests of many files share: comparing results, looking into programs, and running Python in another process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr
from xpr import core
from xpr.backend.mlir_text import tensor_type
from xpr.backend.stablehlo_module import Module
from xpr.testing import check_jvp, check_vjp

# -- Comparing. Results are trees of arrays.


def close(got: Any, expected: Any, tolerance: float = 2e-5) -> None:
    """As many arrays, of the same shapes and dtypes, and of the same values up to the tolerance."""
    for x, y in _pairs(got, expected):
        np.testing.assert_allclose(_wide(x), _wide(y), rtol=tolerance, atol=tolerance)


def same(got: Any, expected: Any) -> None:
    """As many arrays, of the same shapes, dtypes and values: nan is nan, and 0.0 is -0.0."""
    for x, y in _pairs(got, expected):
        np.testing.assert_array_equal(_wide(x) if x.dtype.kind == "V" else x, _wide(y) if y.dtype.kind == "V" else y)


def values_close(got: Any, expected: Any, tolerance: float = 2e-5) -> None:
    """The same numbers in the same order up to the tolerance, in arrays or lists of any dtypes and shapes."""
    one, two = (np.concatenate([np.ravel(_wide(x)) for x in xpr.tree.leaves(each)]) for each in (got, expected))
    assert one.shape == two.shape
    np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def _pairs(got: Any, expected: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    ours, theirs = ([np.asarray(x) for x in xpr.tree.leaves(each)] for each in (got, expected))
    kinds = [[(x.dtype, x.shape) for x in each] for each in (ours, theirs)]
    assert kinds[0] == kinds[1]
    return list(zip(ours, theirs, strict=True))


def _wide(x: Any) -> np.ndarray:
    """In a dtype that NumPy can compare."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


# -- NumPy


def in_numpy(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, staged and evaluated in NumPy: to compare with it, where it would be compiled.

    That a compiled program gives what NumPy does is a law of each primitive (tests/ops).
    """
    return xpr.jit(f, backend="reference")


def check_grads_in_numpy(f: Callable[..., Any], args: Sequence[Any], order: int, **tolerances: Any) -> None:
    """As xpr.testing.check_grads, with all that it calls evaluated in NumPy: this is about rules."""
    args = tuple(args)
    values = in_numpy(f)
    pushed = in_numpy(lambda xs, ts: xpr.jvp(f, xs, ts))
    pulled = in_numpy(lambda xs, cts: xpr.vjp(f, *xs)[1](cts))
    check_jvp(values, pushed, args, **tolerances)
    check_vjp(values, lambda *xs: (values(*xs), functools.partial(pulled, xs)), args, **tolerances)
    if order > 1:
        draw = functools.partial(_random_like, np.random.default_rng(order))
        directions, cotangents = xpr.tree.map(draw, args), xpr.tree.map(draw, values(*args))
        for derivative in (lambda *xs: xpr.jvp(f, xs, directions)[1], lambda *xs: xpr.vjp(f, *xs)[1](cotangents)):
            check_grads_in_numpy(derivative, args, order - 1, **tolerances)


def _random_like(generator: np.random.Generator, x: Any) -> np.ndarray:
    drawn = generator.normal(size=np.shape(x)) + 1j * generator.normal(size=np.shape(x))
    return (drawn if np.iscomplexobj(x) else drawn.real).astype(np.asarray(x).dtype)


# -- Programs


def jaxpr_text(fun: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The jaxpr of a function, checked and printed."""
    closed = xpr.make_jaxpr(fun, **options)(*args)
    core.check_jaxpr(closed)
    return str(closed)


def primitive_names(jaxpr: Any) -> list[str]:
    """The names of the primitives of a jaxpr, those of the jaxprs that its equations hold included."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        found.append(eqn.primitive.name)
        for inner in core.subjaxprs(eqn):
            found += primitive_names(inner)
    return found


def lowered(primitive: Any, avals: Sequence[Any], platform: str = "cpu", **params: Any) -> str:
    """The text of a module that is one primitive, lowered for a platform."""
    results = primitive.type_of(tuple(avals), params)
    module = Module(platform)
    module.function("main", avals, lambda b, xs: primitive.lower(b, xs, results, **params), public=True)
    return module.text()


def one_operation(operation: str, aval: core.ShapedArray) -> str:
    """The text of a module that applies a binary operation to its argument and itself: `op(x, x)`."""
    t = tensor_type(aval)
    return (
        f"module {{ func.func public @main(%arg0: {t}) -> ({t}) {{\n"
        f'%0 = "stablehlo.{operation}"(%arg0, %arg0) : ({t}, {t}) -> {t}\nreturn %0 : {t} }} }}'
    )


# -- Processes


def run_python(source: str, *arguments: str, without: Sequence[str] = (), **environment: str) -> str:
    """The output of a program in a process of its own, in which warnings are errors.

    The process has this one's environment variables except `without`, and those of `environment`.
    """
    kept = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source), *arguments],
        env={**kept, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
