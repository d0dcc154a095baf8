"""Products and einsum: what jax gives, what NumPy gives; their jaxprs; derivatives, vmap, precision; errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import lowered
from tests.ops.table import floats
from tests.peer import JAX, agree, check, check_with_numpy
from tests.test_numpy_creation import calls
from xpr import lax, nn
from xpr.backend import native
from xpr.primitives.dot import dot_general_p
from xpr.testing import check_grads

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


ARRAYS: dict[str, Any] = {
    "v": normal(3), "w": normal(4), "p": normal(2), "m": normal(2, 3), "n": normal(3, 4), "q": normal(3, 3),
    "t": normal(5, 2, 3), "u": normal(5, 3, 4), "r": normal(6, 1, 2, 3), "o": normal(2, 1), "d": normal(3, 3, 3),
    "c": (normal(2, 3) + 1j * normal(2, 3)).astype(np.complex64),
    "i": np.arange(6, dtype=np.int32).reshape(2, 3), "k": np.arange(3, dtype=np.int32),
    "b": np.array([True, False, True]), "h": normal(3).astype(np.float16), "z": np.zeros((0, 3), np.float32),
    "s": np.float32(2),
}  # fmt: skip

BOTH = """
jnp.dot(v, v) | jnp.dot(m, n) | jnp.dot(m, v) | jnp.dot(v, n) | jnp.dot(s, m) | jnp.dot(m, u) | jnp.dot(t, n)
jnp.dot(t, u) | jnp.dot(v, u) | jnp.dot(c, n) | jnp.dot(z, n) | jnp.dot(b, b) | jnp.dot(k, v) | jnp.dot(k, k)
m @ n | v @ v | m @ v | v @ n | t @ u | t @ n | m @ u | r @ u | r @ n | v @ u | t @ v | t[:1] @ u | t @ u[:1]
jnp.matmul(r, r.swapaxes(-1, -2)) | jnp.matmul(t, r.swapaxes(-1, -2)) | jnp.matmul(c, n) | t[:0] @ u[:0]
jnp.vdot(m, m) | jnp.vdot(c, m) | jnp.vdot(c, c) | jnp.vdot(s, s)
jnp.inner(v, v) | jnp.inner(m, v) | jnp.inner(m, m) | jnp.inner(m, t) | jnp.inner(s, m) | jnp.inner(2, 3)
jnp.outer(v, w) | jnp.outer(m, v) | jnp.outer(s, v) | jnp.outer(k, k) | jnp.outer(c, k)
jnp.tensordot(m, n, 1) | jnp.tensordot(m, m) | jnp.tensordot(m, n, 0) | jnp.tensordot(t, u, ([2], [1]))
jnp.tensordot(t, u, (2, 1)) | jnp.tensordot(t, u, ([0, 2], [0, 1])) | jnp.tensordot(t, u, ((0, -1), (0, 1)))
jnp.tensordot(t, t, 3) | jnp.tensordot(s, s, 0)
jnp.kron(v, w) | jnp.kron(m, n) | jnp.kron(m, v) | jnp.kron(v, m) | jnp.kron(s, m) | jnp.kron(t, m) | jnp.kron(2, 3)
jnp.cross(v, v[::-1]) | jnp.cross(m, v) | jnp.cross(m, m[::-1]) | jnp.cross(n.T, n.T[::-1]) | jnp.cross(t, v)
jnp.cross(n, n[:, ::-1], axis=0) | jnp.cross(m, n.T[:2], axisc=0) | jnp.cross(k, v) | jnp.cross(c, m)
jnp.cross(n, n + 1, axisa=0, axisb=0) | jnp.cross(n, n + 1, 0, 0, 0)
jnp.trace(m) | jnp.trace(q, 1) | jnp.trace(t) | jnp.trace(t, 0, 1, 2) | jnp.trace(i) | jnp.trace(t, -1, 2, 0)
jnp.einsum("ij,jk->ik", m, n) | jnp.einsum("ij,jk", m, n) | jnp.einsum("ij,jk->ki", m, n) | jnp.einsum("ij->ji", m)
jnp.einsum("ij", m) | jnp.einsum("ji", m) | jnp.einsum("ij->", m) | jnp.einsum("ij->i", m) | jnp.einsum("ij->j", i)
jnp.einsum("ii", q) | jnp.einsum("ii->i", q) | jnp.einsum("iii", d) | jnp.einsum("iii->i", d) | jnp.einsum("iji->ij", d)
jnp.einsum("i,i", v, v) | jnp.einsum("i,j", v, w) | jnp.einsum("i,j->ji", v, w) | jnp.einsum("i,i->i", v, v)
jnp.einsum("ij,j->ij", m, v) | jnp.einsum("bij,bjk->bik", t, u) | jnp.einsum("bij,bjk->ikb", t, u)
jnp.einsum("bij,bjk->kbi", t, u) | jnp.einsum("bij,bjk->ik", t, u) | jnp.einsum("...ij,...jk->...ik", r, u)
jnp.einsum("...ij,jk", r, n) | jnp.einsum("...,...", t, v) | jnp.einsum("...i->...", t) | jnp.einsum("i...->...i", t)
jnp.einsum("ij,kj,kl->il", m, q, n) | jnp.einsum("ij,jk,kl,lm->im", m, n, n.T, n) | jnp.einsum("ij,jk,kl->", m, n, n.T)
jnp.einsum("i,i,i->i", v, v, v) | jnp.einsum("i,j,k->kji", v, w, p) | jnp.einsum("ij,kl->ik", m, n)
jnp.einsum("ii,i->i", q, v) | jnp.einsum("ii,jj->ij", q, q) | jnp.einsum("ij,jk", c, n) | jnp.einsum("ij->", z)
jnp.einsum(m, [0, 1], n, [1, 2], [0, 2]) | jnp.einsum(m, [0, 1], n, [1, 2]) | jnp.einsum(t, [..., 0], v, [0])
jnp.einsum("i,", v, s) | jnp.einsum(",", s, s) | jnp.einsum("", s) | jnp.einsum("ij,jk,kl", m, n, n.T, optimize=False)
jnp.einsum("ij,jk,kl", m, n, n.T, optimize=True) | jnp.einsum("ij,jk,kl", m, n, n.T, optimize="greedy")
jnp.convolve(v, w) | jnp.convolve(w, v) | jnp.convolve(v, w, "same") | jnp.convolve(w, v, "same")
jnp.convolve(w, v, "valid") | jnp.convolve(v, c[0]) | jnp.convolve(w, w, "same") | jnp.convolve(k, k)
jnp.correlate(v, w) | jnp.correlate(w, v) | jnp.correlate(v, w, "same") | jnp.correlate(w, v, "same")
jnp.correlate(v, c[0], "full") | jnp.correlate(c[0], v, "full") | jnp.correlate(c[0], c[1], "same")
jnp.correlate(w, v, "full") | jnp.correlate(v, w, "full") | jnp.correlate(w, w, "same")
"""

NUMPY_ONLY = """
jnp.einsum("ij,jk,kl", m, n, n.T, optimize=["einsum_path", (1, 2), (0, 1)])
jnp.einsum("ij,jk,kl", m, n, n.T, optimize=["einsum_path", (0, 1, 2)])
"""

JAX_ONLY = """
jnp.dot(2.0, 3.0) | jnp.dot(2, m) | jnp.dot(h, v) | jnp.dot(h, k) | jnp.dot(h, 1) | jnp.dot(b, k) | m.dot(n)
jnp.dot(m, n, preferred_element_type="float32") | jnp.dot(h, h, preferred_element_type="float32")
jnp.dot(2.0, 3.0, preferred_element_type="float32") | jnp.dot(m, n, precision="highest") | jnp.matmul(b, i.T)
jnp.vdot(k, v) | jnp.vecdot(m, m) | jnp.vecdot(m, v) | jnp.vecdot(c, c) | jnp.vecdot(t, m) | jnp.vecdot(n, n, axis=0)
jnp.vecdot(r, t) | jnp.matvec(m, v) | jnp.matvec(t, v) | jnp.matvec(t, t[:, 0]) | jnp.matvec(r, t[:, 0])
jnp.vecmat(v, n) | jnp.vecmat(t[:, 0], u) | jnp.vecmat(c, n) | jnp.vecmat(m, u[:, None])
jnp.inner(k, v) | jnp.outer(2, 3.0) | jnp.outer(k, v) | jnp.tensordot(k, v, 1) | jnp.kron(k, v)
jnp.cross(p, p[::-1]) | jnp.cross(p, v) | jnp.cross(v, p)
jnp.trace(b[None]) | jnp.trace(i.astype("int8")) | jnp.trace(m, dtype="int32") | t.trace(1)
jnp.einsum("ij,jk", o, m) | jnp.einsum("ij,jk->ik", o, n) | jnp.einsum("k,k", k, v) | jnp.einsum("i->", b)
jnp.einsum("i,i", b, b) | jnp.einsum("i,i", h, h, preferred_element_type="float32")
jnp.convolve(b, k) | jnp.convolve(h, k) | jnp.correlate(k, k) | jnp.einsum("i->", h, preferred_element_type="float32")
"""


@pytest.mark.parametrize("call", calls(BOTH) + calls(JAX_ONLY))
def test_as_jax(call: str) -> None:
    check(call, ARRAYS, 2e-3 if "h, " in call else 1e-5)


@pytest.mark.parametrize("call", calls(BOTH) + calls(NUMPY_ONLY))
def test_as_numpy(call: str) -> None:
    check_with_numpy(call, ARRAYS, 1e-5)


# -- Programs


def operations(f: Any, *args: Any) -> list[str]:
    return [eqn.primitive.name for eqn in xpr.make_jaxpr(f)(*args).eqns]


@pytest.mark.parametrize("call, expected", [
    ("jnp.dot(m, n)", ["dot_general"]), ("jnp.dot(m, v)", ["dot_general"]), ("m @ n", ["dot_general"]),
    ("t @ n", ["dot_general"]), ("t @ u", ["dot_general"]), ("m @ u", ["dot_general", "transpose"]),
    ("jnp.einsum('ij,jk->ki', m, n)", ["dot_general"]), ("jnp.einsum('bij,bjk->bki', t, u)", ["dot_general"]),
    ("jnp.einsum('ij,jk,kl->il', m, n, n.T)", ["transpose", "dot_general", "dot_general"]),
    ("jnp.einsum('i,j->ij', v, w)", ["broadcast_in_dim", "broadcast_in_dim", "mul"]),
])  # fmt: skip
def test_few_operations(call: str, expected: list[str]) -> None:
    def f(named: Any) -> Any:
        return eval(call, {"jnp": jnp, **named})

    assert operations(f, {name: jnp.asarray(x) for name, x in ARRAYS.items()}) == expected


def test_printed() -> None:
    jaxpr = xpr.make_jaxpr(jnp.dot)(ARRAYS["m"], ARRAYS["n"])
    assert str(jaxpr) == (
        "{ lambda ; a:f32[2,3] b:f32[3,4]. let\n"
        "    c:f32[2,4] = dot_general[\n"
        "      dimension_numbers=(((1,), (0,)), ((), ()))\n"
        "      precision=None\n"
        "      preferred_element_type=float32\n"
        "    ] a b\n"
        "  in (c,) }"
    )


def test_the_gradient_of_a_product_is_two_products() -> None:
    def back(x: Any, y: Any, ct: Any) -> Any:
        return xpr.vjp(jnp.dot, x, y)[1](ct)

    names = operations(back, ARRAYS["m"], ARRAYS["n"], normal(2, 4))
    assert names == ["dot_general"] * 3


# -- Transformations

PRODUCTS = [
    ("jnp.dot(x, y)", (3, 4), (4, 2)), ("jnp.dot(x, y)", (2, 3, 4), (5, 4, 2)), ("x @ y", (5, 3, 4), (4, 2)),
    ("x @ y", (3, 4), (5, 4, 2)), ("x @ y", (100, 3, 3), (100, 3, 3)), ("jnp.tensordot(x, y)", (2, 3, 4), (3, 4, 5)),
    ("jnp.einsum('abc,cbd->dba', x, y)", (2, 3, 4), (4, 3, 5)),
    ("jnp.einsum('ij,jk,k->i', x, y, y[0])", (3, 4), (4, 2)),
    ("jnp.kron(x, y)", (2, 3), (2, 2)), ("jnp.cross(x, y)", (4, 3), (3,)), ("jnp.outer(x, y)", (3,), (4,)),
    ("jnp.convolve(x, y)", (5,), (3,)), ("jnp.correlate(x, y, 'same')", (3,), (5,)), ("jnp.vecdot(x, y)", (2, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("call, left, right", PRODUCTS)
def test_derivatives_as_jax(call: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0)
    x, y, tx, ty = (numbers.normal(size=shape).astype(np.float32) for shape in (left, right, left, right))

    def results(library: Any) -> list[Any]:
        def f(x: Any, y: Any) -> Any:
            return eval(call, {"jnp": library.numpy, "x": x, "y": y})

        out, tangent = library.jvp(f, (x, y), (tx, ty))
        pulled = library.vjp(f, x, y)[1](library.numpy.asarray(np.ones(out.shape, np.float32)))
        rows = [np.stack([v, 2 * v, v - 1]) for v in (x, y)]
        columns = [np.moveaxis(v, 0, -1) for v in rows]
        axes = {(0, 0): rows, (-1, None): (columns[0], y), (None, 0): (x, rows[1]), (0, -1): (rows[0], columns[1])}
        return [out, tangent, *pulled, *(library.vmap(f, key)(*args) for key, args in axes.items())]

    agree(results, 1e-4)


def test_precision_goes_with_its_operand() -> None:
    pair = (lax.Precision.HIGHEST, lax.Precision.DEFAULT)

    def back(ct: Any, x: Any, y: Any) -> Any:
        return xpr.vjp(lambda x: lax.dot(x, y, precision=pair), x)[1](ct)

    jaxpr = xpr.make_jaxpr(back)(np.ones((2, 4), np.float32), np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    assert [eqn.params["precision"] for eqn in jaxpr.eqns] == [pair, pair]
    assert repr(pair[0]) == "Precision.HIGHEST" and str(pair[0]) == f"{pair[0]}" == "HIGHEST"
    assert lax.Precision("float32") is lax.Precision.HIGHEST and lax.Precision(None) is lax.Precision.DEFAULT


def test_short_floats_are_summed_in_the_dtype_asked_for() -> None:
    x = np.full(300, 1.01, ml_dtypes.bfloat16)
    exact = float((x.astype(np.float64) ** 2).sum())
    assert abs(float(jnp.dot(x, x, preferred_element_type=np.float32)) - exact) < 1e-2
    gradient = xpr.grad(lambda x: jnp.dot(x, x, preferred_element_type=np.float32))(jnp.asarray(x))
    assert gradient.dtype == ml_dtypes.bfloat16


def test_size_zero_has_a_gradient() -> None:
    for left, right in (((2, 0), (0, 3)), ((0, 2), (2, 3))):
        x, y = np.ones(left, np.float32), np.ones(right, np.float32)
        out, pull = xpr.vjp(jnp.dot, x, y)
        assert [g.shape for g in pull(out)] == [left, right]
        assert not np.asarray(out).any()


# -- Lowering


def dots(platform: str, lhs: tuple[int, ...], rhs: tuple[int, ...], numbers: Any) -> str:
    avals = [xpr.core.ShapedArray(shape, np.float32) for shape in (lhs, rhs)]
    params = {"dimension_numbers": numbers, "precision": None, "preferred_element_type": None}
    return lowered(dot_general_p, avals, platform, **params)


STACKS = (((2,), (1,)), ((0,), (0,)))
PRODUCT = "xpr_matmul" if native.available() else "dot_general"  # how products of matrices are written that aren't sums


def test_small_matrices_are_summed_on_cpu_alone() -> None:
    assert "dot_general" not in dots("cpu", (100, 4, 4), (100, 4, 4), STACKS)
    assert "dot_general" in dots("cuda", (100, 4, 4), (100, 4, 4), STACKS)
    assert "dot_general" in dots("cpu", (100, 64, 64), (100, 64, 64), STACKS)
    assert PRODUCT in dots("cpu", (9, 9), (9, 9), (((1,), (0,)), ((), ())))


def test_few_small_matrices_are_summed_in_loops_alone() -> None:
    def step(h, w):
        return jnp.tanh(h @ w)

    h, w = jnp.ones((16, 8)), jnp.ones((8, 8))
    assert PRODUCT in xpr.jit(step).lower(h, w).as_text()
    assert PRODUCT in xpr.jit(lambda h, w: lax.cond(h[0, 0] > 0, step, lambda h, w: h, h, w)).lower(h, w).as_text()
    loop = xpr.jit(lambda h, w: lax.fori_loop(0, 9, lambda i, h: step(h, w), h)).lower(h, w).as_text()
    assert "dot_general" not in loop and "xpr_matmul" not in loop


def test_contracted_axes_are_merged_on_cpu() -> None:
    text = dots("cpu", (8, 80, 256), (8, 80, 256), (((0, 1), (0, 1)), ((), ())))
    assert "tensor<640x256xf32>" in text and "lhs_contracting_dimensions = [0]" in text
    text = dots("cpu", (8, 20, 32), (20, 8, 64), (((0, 1), (1, 0)), ((), ())))
    assert "lhs_contracting_dimensions = [0, 1]" in text


# -- Errors


@pytest.mark.parametrize("call, error, words", [
    ("jnp.matmul(2.0, v)", ValueError, ["matmul", "f32[]", "f32[3]", "a * b"]),
    ("m @ m", TypeError, ["f32[2,3]", "contracting dimensions", "[1]", "(3,) and (2,)"]),
    ("t[:2] @ u", ValueError, ["f32[2,2,3]", "f32[5,3,4]", "(2,) and (5,)"]),
    ("jnp.tensordot(m, m, 2.5)", TypeError, ["axes=2.5", "f32[2,3]"]),
    ("jnp.tensordot(m, m, 3)", TypeError, ["Number of tensordot axes (3) exceeds input ranks"]),
    ("jnp.tensordot(m, m, ((0, 1), (1,)))", TypeError, ["2 axes of one", "1 of the other"]),
    ("jnp.vecdot(v, w)", ValueError, ["vecdot", "f32[3]", "f32[4]"]),
    ("jnp.matvec(v, v)", ValueError, ["matvec", "2 and 1 axes"]),
    ("jnp.cross(w, w)", ValueError, ["cross", "4 and 4"]),
    ("jnp.outer(v, v, v)", NotImplementedError, ["outer", "out="]),
    ("jnp.dot([1.0], v)", TypeError, ["list", "jnp.array"]),
    ("jnp.dot(v, v, precision='exact')", ValueError, ["'exact'", "'highest'"]),
    ("jnp.einsum('ij,jk', m, m)", ValueError, ["'ij,jk'", "'j'", "3 and 2"]),
    ("jnp.einsum('ij,jk->i', m)", ValueError, ["2 operands", "1 were given"]),
    ("jnp.einsum('ijk', m)", ValueError, ["'ijk'", "(2, 3)"]),
    ("jnp.einsum('ij->ik', m)", ValueError, ["'ij->ik'", "letter of the result"]),
    ("jnp.einsum('ij->ii', m)", ValueError, ["once in the result"]),
    ("jnp.einsum('i,i,i', v, v, v, optimize=[(0, 1)])", ValueError, ["2 operands"]),
    ("jnp.convolve(m, v)", ValueError, ["convolve", "f32[2,3]"]),
    ("jnp.convolve(v, v, 'most')", ValueError, ["'most'", "'same'"]),
    ("jnp.correlate(v[:0], v)", ValueError, ["correlate", "f32[0]"]),
    ("lax.dot(m, m)", TypeError, ["dot: f32[2,3]", "dimension_numbers"]),
    ("lax.dot_general(m, m, (((7,), (0,)), ((), ())))", TypeError, ["[7]", "from 0 to 1"]),
    ("lax.dot(c, m[0], preferred_element_type='float32')", TypeError, ["c64[2,3]", "real part"]),
    ("lax.batch_matmul(m, t)", TypeError, ["batch_matmul", "jnp.matmul"]),
])  # fmt: skip
def test_errors(call: str, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        eval(call, {"jnp": jnp, "lax": lax, **{name: jnp.asarray(x) for name, x in ARRAYS.items()}})
    assert all(word in str(caught.value) for word in words), caught.value


def test_einsum_path() -> None:
    a, x = np.ones((50, 50), np.float32), np.ones(50, np.float32)
    path, info = jnp.einsum_path("ij,jk,k->i", a, a, x)
    assert path == [(1, 2), (0, 1)] and "ij,jk,k->i" in str(info)
    if JAX is not None:
        assert path == JAX.numpy.einsum_path("ij,jk,k->i", a, a, x)[0]


def test_sums_of_products_with_a_broadcast_number() -> None:
    """XLA:CPU's fused sums read beyond a right operand, of a product or a convolution, that is one number broadcast."""
    x, c = np.random.default_rng(0).standard_normal((5, 60, 64)).astype(np.float32), np.float32(0.375)

    def sums(x: Any, c: Any) -> Any:
        square, kernel = jnp.full((64, 72), c), jnp.full((3, 3, 32, 32), c)
        batched, inner = x @ jnp.broadcast_to(square, (5, 64, 72)), xpr.jit(jnp.matmul)(x, square)
        images = jnp.reshape(x, (5, 30, 4, 32))
        convolved = lax.conv_general_dilated(
            images, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        total = jnp.broadcast_to((x * c).sum(), kernel.shape) / (x * c).sum() * c
        with_sum = lax.conv_general_dilated(images, total, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (x @ square).sum(), (batched * batched).sum(-1), inner.sum(1), convolved.sum(-1), with_sum.sum(-1)

    rows = x.astype(np.float64).sum(-1)[:, :, None].repeat(72, 2) * 0.375
    windows = np.lib.stride_tricks.sliding_window_view(
        x.reshape(5, 30, 4, 32).astype(np.float64).sum(-1), (3, 3), (1, 2)
    )
    convolved = windows.sum((-2, -1)) * 32 * 0.375
    want = rows.sum(), (rows * rows).sum(-1), rows.sum(1), convolved, convolved
    for got, exact in zip(xpr.jit(sums)(x, c), want):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-2)


# -- Ragged contractions

RAGGED = {  # operands, group sizes, dimension numbers
    "rows": (floats(7, 3), floats(3, 3, 4), [2, 0, 4], None),
    "batched rows": (floats(2, 7, 3), floats(3, 2, 3, 4), [2, 0, 4], ((((2,), (2,)), ((0,), (1,))), (1,), (0,))),
    "groups of each batch": (
        floats(2, 7, 3), floats(3, 2, 3, 4), [[2, 0, 4], [1, 2, 3]], ((((2,), (2,)), ((0,), (1,))), (1,), (0,)),
    ),
    "an axis before": (floats(5, 7, 3), floats(3, 3, 4), [[2, 0, 4]] * 5, ((((2,), (1,)), ((), ())), (1,), (0,))),
    "contracted": (floats(7, 3), floats(7, 4), [2, 0, 4], ((((0,), (0,)), ((), ())), (0,), ())),
    "contracted, batched": (
        floats(2, 7, 3), floats(2, 7, 4), [[2, 0, 4], [1, 2, 3]], ((((1,), (1,)), ((0,), (0,))), (1,), ()),
    ),
    "batch": (floats(6, 7, 3), floats(6, 3, 4), [2, 0, 4], ((((2,), (1,)), ((0,), (0,))), (0,), ())),
}  # fmt: skip


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_dots(name):
    """Beside jax; compiled, mapped and differentiated."""
    lhs, rhs, sizes, numbers = RAGGED[name]
    sizes = np.array(sizes, np.int32)

    def product(jax):
        axes = () if numbers is None else (jax.lax.RaggedDotDimensionNumbers(*numbers),)
        run = jax.lax.ragged_dot if numbers is None else jax.lax.ragged_dot_general
        return jax.jit(lambda lhs, rhs, sizes: run(lhs, rhs, sizes, *axes))(lhs, rhs, sizes)

    out = agree(product, 1e-5)
    own = lambda lhs, rhs: product_of(lhs, rhs, sizes, numbers)
    np.testing.assert_allclose(xpr.vmap(own)(lhs[None], rhs[None])[0], out, rtol=1e-5, atol=1e-5)
    check_grads(own, (lhs, rhs), order=1)


def product_of(lhs, rhs, sizes, numbers):
    if numbers is None:
        return lax.ragged_dot(lhs, rhs, sizes)
    return lax.ragged_dot_general(lhs, rhs, sizes, lax.RaggedDotDimensionNumbers(*numbers))


def test_rows_beyond_the_groups_of_a_ragged_dot_are_zero():
    out = lax.ragged_dot(jnp.ones((4, 2)), jnp.stack([jnp.eye(2), 3 * jnp.eye(2)]), jnp.array([1, 2]))
    assert out[:, 0].tolist() == [1, 3, 3, 0]


@pytest.mark.parametrize(
    ("rhs", "sizes", "numbers", "message"),
    [
        ((3, 3, 4), [[2, 4, 1]] * 2, None, r"expected group_sizes to have shape \(3,\), got \(2, 3\)"),
        ((2, 3, 4), [2, 4, 1], None, r"expected rhs group dimension size to be 3, got 2: axis 0 of f32\[2,3,4\]"),
        ((3, 3, 4), [2.0, 4.0, 1.0], None, "group sizes are integers"),
        (
            (3, 3, 4),
            [2, 4, 1],
            ((((1,), (1,)), ((), ())), (0, 1), (0,)),
            r"expects exactly one lhs ragged dimension, the axis of f32\[7,3\]",
        ),
        (
            (3, 3, 4),
            [2, 4, 1],
            ((((1,), (1,)), ((), ())), (2,), (0,)),
            r"lhs_ragged_dimensions is \(2,\), which is no axis .* f32\[7,3\]",
        ),
        (
            (3, 3, 4),
            [2, 4, 1],
            ((((1,), (1,)), ((), ())), (0,), (1,)),
            "distinct from contracting and batch dimensions",
        ),
        (
            (3, 3, 4),
            [2, 4, 1],
            ((((1,), (1,)), ((), ())), (0,), ()),
            r"exactly one rhs group dimension when .*: the axis of f32\[3,3,4\] .*rhs_group_dimensions=\(\)",
        ),
        (
            (7, 4),
            [2, 4, 1],
            ((((0,), (0,)), ((), ())), (0,), (1,)),
            r"contracting or batch, .* the rhs has no group dimensions: .*=\(1,\)",
        ),
    ],
)
def test_messages_of_ragged_dots(rhs, sizes, numbers, message):
    with pytest.raises(TypeError, match=message):
        product_of(floats(7, 3), floats(*rhs), jnp.array(sizes), numbers)
    with pytest.raises(NotImplementedError, match="group_offset is None"):
        lax.ragged_dot(floats(7, 3), floats(3, 3, 4), jnp.array([2, 4, 1]), group_offset=jnp.array([1]))


# -- Algorithms


@pytest.mark.parametrize("preset", [each for each in lax.DotAlgorithmPreset if not each.name.startswith("ANY")])
def test_algorithms_round_operands_and_sums(preset):
    """Beside NumPy on rounded operands, and beside jax's tables of dtypes."""
    lhs, rhs = floats(5, 6), floats(6, 3)
    operand = (preset.supported_lhs_types or (np.float32,))[0]
    expected = (lhs.astype(operand).astype(np.float64) @ rhs.astype(operand).astype(np.float64)).astype(np.float32)
    tolerance = 2e-2 if preset.accumulation_type in (np.float16, ml_dtypes.bfloat16) else 1e-6
    for run in (
        lambda x, y: jnp.dot(x, y, precision=preset),
        lambda x, y: jnp.einsum("ij,jk", x, y, precision=str(preset)),
    ):
        out = xpr.jit(run)(lhs, rhs)
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    if JAX is not None:
        theirs = JAX.lax.DotAlgorithmPreset[preset.name]
        for name in ("supported_lhs_types", "supported_rhs_types"):
            assert getattr(preset, name) == _dtypes(getattr(theirs, name))
        assert preset.accumulation_type == (theirs.accumulation_type and np.dtype(theirs.accumulation_type))
        for dtype in ("float32", "float16", "bfloat16"):
            own, other = (each.supported_output_types(jnp.dtype(dtype), jnp.dtype(dtype)) for each in (preset, theirs))
            assert own == _dtypes(other)


def test_programs_name_algorithms_of_one_dtype():
    lhs, rhs = floats(32, 64), floats(64, 32)
    for precision, found in (("F32_F32_F32", True), ("BF16_BF16_F32", False), ("highest", False)):
        with xpr.default_matmul_precision(precision):
            program = xpr.jit(lambda x, y: lax.dot(x, y)).lower(lhs, rhs)
            text = "algorithm = <lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32"
            assert (text in program.as_text()) is found
            np.testing.assert_allclose(program.compile()(lhs, rhs), lhs @ rhs, rtol=3e-2, atol=0.2)


def _dtypes(listed):
    return None if listed is None else tuple(map(np.dtype, listed))


def test_an_algorithm_of_ones_own():
    lhs, rhs = floats(5, 6), floats(6, 3)
    algorithm = lax.DotAlgorithm(np.float16, np.float32, np.float32)
    closed = xpr.make_jaxpr(lambda x, y: lax.dot(x, y, precision=algorithm))(lhs, rhs)
    assert str(xpr.jaxpr.parse(str(closed))) == str(closed)
    run = lambda x, y: lax.dot(x, y, precision=algorithm)
    np.testing.assert_allclose(run(lhs, rhs), lhs.astype(np.float16).astype(np.float32) @ rhs, rtol=1e-5, atol=1e-6)
    ones = np.ones((5, 3), np.float32)
    slope = xpr.grad(lambda y: run(lhs, y).sum())(rhs)
    np.testing.assert_allclose(slope, lhs.astype(np.float16).astype(np.float32).T @ ones, rtol=1e-5, atol=1e-5)
    slope = xpr.grad(lambda x: run(x, rhs).sum())(lhs)
    np.testing.assert_allclose(slope, ones @ rhs.T, rtol=2e-3, atol=2e-3)


def test_algorithms_of_float8():
    x = jnp.ones((2, 2), jnp.float8_e4m3fn)
    out = lax.dot(x, x, precision="ANY_F8_ANY_F8_F32", preferred_element_type=jnp.float32)
    assert out.tolist() == [[2, 2], [2, 2]]
    with pytest.raises(
        ValueError, match="ANY_F8_ANY_F8_F32 multiplies float8, and the operands are float32 and float32"
    ):
        lax.dot(jnp.ones(2), jnp.ones(2), precision="ANY_F8_ANY_F8_F32")


# -- Scaled contractions


def test_scaled_dots():
    lhs, rhs, scale = floats(2, 4, 6), floats(2, 6, 3), np.exp2(floats(2, 4, 3).round())
    run = lambda jax: jax.lax.scaled_dot(lhs, rhs, lhs_scale=scale, preferred_element_type="float32")
    agree(lambda jax: jax.jit(lambda: run(jax))(), 1e-5)
    own = lambda x, y: lax.scaled_dot(x, y, lhs_scale=scale, rhs_scale=scale[:, :2], dimension_numbers=None)
    assert xpr.eval_shape(own, lhs, rhs[..., :3]).dtype == jnp.bfloat16
    out = lax.scaled_dot(lhs[0], rhs[0], preferred_element_type=jnp.float32)
    np.testing.assert_allclose(out, lhs[0] @ rhs[0], rtol=3e-2, atol=3e-2)
    with pytest.raises(TypeError, match=r"scaled_dot: a scale f32\[2,4,4\] for bf16\[2,4,6\]"):
        lax.scaled_dot(lhs, rhs, lhs_scale=floats(2, 4, 4))
    with pytest.raises(TypeError, match="are no matrices or stacks of them"):
        lax.scaled_dot(lhs[0, 0], rhs[0])


def test_scaled_matmul():
    lhs, rhs, scales, others = floats(2, 4, 6), floats(2, 3, 6), floats(2, 4, 3), floats(2, 3, 3, salt=1)
    expected = np.einsum("bmk,bnk->bmn", lhs * np.repeat(scales, 2, 2), rhs * np.repeat(others, 2, 2))
    np.testing.assert_allclose(xpr.jit(xpr.nn.scaled_matmul)(lhs, rhs, scales, others), expected, rtol=1e-4, atol=1e-5)
    assert xpr.nn.scaled_matmul(lhs, rhs, scales, others, jnp.bfloat16).dtype == jnp.bfloat16
    check_grads(xpr.nn.scaled_matmul, (lhs, rhs, scales, others), order=1)
    with pytest.raises(ValueError, match=r"scaled_matmul: takes \[b, m, k\]"):
        xpr.nn.scaled_matmul(lhs, rhs, scales, others[..., :1])


def test_products_with_an_argument_have_no_barrier():
    """Only what the program computes can be one number broadcast."""
    x, w, c = np.ones((4000, 64), np.float32), np.ones((64, 72), np.float32), np.float32(0.375)

    def sums(x: Any, w: Any, c: Any) -> Any:
        return (x @ w).sum(-1), (jnp.full((4000, 64), c) @ w).sum(-1)

    assert "fusion_barrier" not in xpr.jit(sums).lower(x, w, c).as_text()
    for got, exact in zip(xpr.jit(sums)(x, w, c), (64, 24)):
        np.testing.assert_allclose(got, np.full(4000, 72 * exact), rtol=1e-6)
    assert "fusion_barrier" in xpr.jit(lambda x, c: x @ jnp.full((64, 72), c)).lower(x, c).as_text()


# Of the first ones the compiler makes one number that is broadcast, or could; the others remain arrays.
UNIFORM = {
    "0 * broadcast": lambda w, c: 0 * jnp.full(w.shape, c),
    "an element": lambda w, c: jnp.broadcast_to(w[:1, :1], w.shape),
    "x - x": lambda w, c: (w - w) * c,
    "reshaped": lambda w, c: jnp.full((72, 64), c).reshape(w.shape).T.T,
    "chosen": lambda w, c: jnp.where(np.full(w.shape, True), jnp.full(w.shape, c), w),
    "x**0": lambda w, c: w**0 * c,
    "sum": lambda w, c: jnp.broadcast_to((w * c).sum(), w.shape),
    "called": lambda w, c: xpr.jit(jnp.full_like)(w, c),
    "integers": lambda w, c: (0 * w.astype(int)) * c,
    "product": lambda w, c: jnp.full((64, 64), c) @ jnp.full(w.shape, c),
    "clamped": lambda w, c: lax.clamp(c, jnp.full(w.shape, 0.5), 2 * c),
    "sums": lambda w, c: lax.reduce(jnp.full((2, *w.shape), c), c, lax.add, (0,)),
}
VARIED = {
    "0 * x": lambda w, c: 0 * w + c,
    "x / x": lambda w, c: w / (w * 1),
    "relu": lambda w, c: jnp.maximum(w, 0),
    "all 0": lambda w, c: jnp.minimum(w * w + 1, 0),
    "clamped": lambda w, c: jnp.clip(w, 2.0, 2.0),
    "all masked": lambda w, c: jnp.where(w > 9, w, c),
    "none masked": lambda w, c: jnp.where(w < 9, w, c),
    "functions": lambda w, c: jnp.exp(w * 0) * jnp.tanh(w) / c,
    "transposed": lambda w, c: (w.T * c).T,
    "product": lambda w, c: jnp.tanh(w @ w.T) @ w,
    "rows": lambda w, c: jnp.broadcast_to(w.sum(0) * c, w.shape),
    "called": lambda w, c: xpr.jit(lambda w: nn.standardize(w))(w) * c,
}


@pytest.mark.optimized
@pytest.mark.parametrize("values", [UNIFORM, VARIED])
def test_sums_of_products_with_what_may_be_one_number(values):
    x, w = (np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32) for shape in ((60, 64), (64, 72)))
    c = np.float32(0.375)

    products = xpr.jit(lambda x, w, c: [(x @ make(w, c)).sum(-1) for make in values.values()])(x, w, c)
    rights = xpr.jit(lambda w, c: [make(w, c) for make in values.values()])(w, c)
    for name, product, right in zip(values, products, rights):
        exact = (x.astype(np.float64) @ np.asarray(right).astype(np.float64)).sum(-1)
        np.testing.assert_allclose(product, exact, rtol=1e-5, atol=1e-3, err_msg=name)


def test_products_with_what_is_computed_from_arguments_have_no_barrier():
    def step(weights: Any, x: Any) -> Any:
        hidden = xpr.jit(jnp.tanh)(x @ weights[0])
        values, vjp = xpr.vjp(lambda hidden, w: nn.softmax(hidden @ w) @ (w - w.mean()).T, hidden, weights[1])
        return vjp(values)

    text = xpr.jit(step).lower([np.ones((64, 64), np.float32)] * 2, np.ones((16, 64), np.float32)).as_text()
    assert text.count("dot_general") + text.count("xpr_matmul") == 7 and "fusion_barrier" not in text


def test_einsum_by_another_product():
    calls = []

    def twice(x, y, numbers, precision, preferred_element_type=None):
        calls.append((precision, preferred_element_type))
        return 2 * lax.dot_general(x, y, numbers, precision, preferred_element_type)

    x = jnp.arange(6.0).reshape(2, 3)
    for subscripts, operands in (("ij,kj->ik", (x, x)), ("ij,kj->ki", (x, x + 1))):
        found = jnp.einsum(subscripts, *operands, _dot_general=twice, precision="highest")
        np.testing.assert_array_equal(found, 2 * np.einsum(subscripts, *operands))
    assert len(calls) == 2 and all(precision is not None for precision, _ in calls)


@pytest.mark.parametrize("call", [jnp.matvec, jnp.matmul, jnp.dot], ids=lambda f: f.__name__)
def test_sizes_that_differ_are_errors_of_both_types(call):
    for error in (TypeError, ValueError):
        with pytest.raises(error, match=r"contracting dimensions to have the same shape, got \(3,\) and \(2,\)"):
            call(jnp.ones((2, 3)), jnp.ones(2))


def test_einsum_without_operands_or_labels():
    with pytest.raises(ValueError, match="'ij' has subscripts for operands, and none were given"):
        jnp.einsum("ij")
    for call in (jnp.einsum, jnp.einsum_path):
        with pytest.raises(TypeError, match="an operand has no list of labels"):
            call(jnp.ones(3))
