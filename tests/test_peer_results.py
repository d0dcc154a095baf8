"""Results of jax that are kept beside the tests: how they are found, and what happens where they are not true."""

import re
from pathlib import Path

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import peer, peer_results
from xpr.config_contexts import enable_x64

pytestmark = pytest.mark.quick

X = {"x": np.arange(3, dtype=np.float32)}


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A function that keeps results of calls for the tests of this file, in a folder of its own."""
    monkeypatch.setattr(peer_results, "HERE", tmp_path)

    def keep(call, arrays, results):
        monkeypatch.setattr(peer_results, "written", {})
        peer_results.keep(call, arrays, results)
        for file, lines in peer_results.written.items():
            peer_results.write(file, lines)
        monkeypatch.setattr(peer_results, "written", None)
        peer_results.read.cache_clear()

    yield keep
    peer_results.read.cache_clear()


def test_the_release_is_the_one_that_is_installed_for_tests():
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert re.findall(r'"jax==([^"]*)"', text) == [peer_results.RELEASE]
    for path in peer_results.HERE.glob("*.txt"):
        assert path.read_text().startswith(f"jax {peer_results.RELEASE}\n"), path.name
        assert peer_results.path_of_tests(path.stem).exists(), path.name


@pytest.mark.parametrize("path", sorted(peer_results.HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_what_is_kept_is_of_the_tests_as_they_are(path):
    """A comparison is known by a digest of its test: for one that changed nothing is found, and jax runs instead."""
    tests = peer_results.path_of_tests(path.stem)
    of_functions = re.findall(r"^((?:test_|Test)\w+).* (\w{8})\t\w{16}\t", path.read_text(), re.MULTILINE)
    changed = {test for test, digest in of_functions if digest != peer.digest(str(tests), test)}
    assert not changed, f"run: python -m tests.peer_results {tests.relative_to(peer_results.HERE.parent.parent)}"


@pytest.mark.parametrize(
    "results",
    [
        [jnp.arange(3), jnp.asarray(2.0), jnp.ones((2, 0), "bfloat16"), jnp.array([1 + 2j, -0.0])],
        [jnp.array([1, -3], "int4"), jnp.array([True, False]), np.array([np.nan, -np.inf])],
        [3, True, 0.1, np.inf.__float__(), "text"],
    ],
)
def test_what_is_kept_is_found(kept, results):
    kept("call(x)", X, results)
    for have, want in zip(peer_results.find("call(x)", X), results, strict=True):
        if isinstance(want, (int, float, str)):
            assert (type(have), have) == (type(want), want)
        else:
            assert (have.dtype, have.shape, have.weak_type) == (
                want.dtype,
                want.shape,
                getattr(want, "weak_type", False),
            )
            assert np.asarray(have).tobytes() == np.asarray(want).tobytes()


def test_other_operands_are_other_calls(kept):
    kept("call(x)", X, [1])
    assert peer_results.find("call(x)", X) == [1]
    for other in (X["x"] + 1, X["x"].astype(np.float64), X["x"][None], X["x"].tolist()):
        assert peer_results.find("call(x)", {"x": other}) is None
    assert peer_results.find("call(y)", {"y": X["x"]}) is None
    with enable_x64():
        assert peer_results.find("call(x)", X) is None


@pytest.mark.parametrize("result", [xpr.random.key(0), np.zeros(10_000), 1j, None, np.array([None])])
def test_what_is_not_kept(kept, result):
    kept("call(x)", X, [result])
    assert peer_results.find("call(x)", X) is None


def test_results_of_another_release_are_not_used(kept, monkeypatch):
    kept("call(x)", X, [1])
    monkeypatch.setattr(peer_results, "RELEASE", "0.1")
    peer_results.read.cache_clear()
    assert peer_results.find("call(x)", X) is None


@peer.needs_jax
def test_jax_is_asked_where_the_kept_result_differs(kept):
    kept("x + 1", X, [jnp.zeros(3)])
    peer.check("x + 1", X)
    with pytest.raises(AssertionError):
        peer.beside_jax(
            "x + 1", X, lambda: [X["x"] + 2], lambda theirs: np.testing.assert_array_equal(theirs[0], X["x"])
        )


def test_without_jax(kept, monkeypatch):
    monkeypatch.setattr(peer, "JAX", None)
    kept("x + 1", X, [jnp.arange(3.0) + 1])
    peer.check("x + 1", X)
    peer.check("x + 2", X)  # beside NumPy
    kept("x + 1", X, [jnp.zeros(3)])
    with pytest.raises(AssertionError):
        peer.check("x + 1", X)
    with pytest.raises(pytest.skip.Exception, match="jax, which is not installed"):
        peer.beside_jax("x + 2", X, list, list)
