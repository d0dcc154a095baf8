"""Shapes and places of entries: what jax gives, what NumPy gives; under jit, vmap and differentiation; errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import check, check_with_numpy
from tests.test_numpy_creation import calls
from xpr import lax
from xpr.backend import compiler

ARRAYS = {
    "i": np.arange(5, dtype=np.int32),
    "f": np.arange(5, dtype=np.float32) ** 2,
    "m": np.arange(6, dtype=np.float32).reshape(2, 3),
    "t": np.arange(24, dtype=np.int32).reshape(2, 3, 4),
    "u": np.arange(6, dtype=np.float32).reshape(1, 2, 1, 3),
    "b": np.array([True, False, True, False, True]),
    "s": np.float32(3),
    "z": np.zeros((0, 3), np.float32),
    "p": np.array([0, 0, 1, 2, 0], np.int32),
}

BOTH = """
jnp.reshape(t, (4, 6)) | jnp.reshape(t, -1) | jnp.reshape(t, (3, -1)) | t.reshape(4, -1) | t.reshape((4, 6))
t.reshape([4, 6])
jnp.reshape(t, (4, 6), order="F") | t.reshape(4, 6, order="F") | jnp.reshape(z, (3, 0)) | z.reshape(-1, 3)
s.reshape(1, 1)
jnp.reshape(t, np.array([4, 6])) | jnp.ravel(t) | jnp.ravel(t, order="F") | t.ravel() | t.flatten() | jnp.ravel(z)
jnp.ravel(s)
jnp.transpose(t) | jnp.transpose(t, (1, 2, 0)) | jnp.transpose(t, (0, -1, 1)) | t.T | t.transpose()
t.transpose(1, 0, 2) | i.transpose(0) | i.transpose(np.int64(0)) | m.transpose(np.int64(1), np.int64(0))
t.transpose((1, 0, 2)) | t.transpose(None) | jnp.permute_dims(t, (2, 0, 1)) | jnp.matrix_transpose(t) | t.mT | i.T
s.T
jnp.swapaxes(t, 0, 2) | t.swapaxes(-1, 0) | jnp.moveaxis(t, 0, -1) | jnp.moveaxis(t, (0, 1), (-1, -2))
jnp.moveaxis(t, [2], [0])
jnp.rollaxis(t, 2) | jnp.rollaxis(t, 0, 3) | jnp.rollaxis(t, 1, -1) | jnp.rollaxis(t, -1)
jnp.expand_dims(m, 0) | jnp.expand_dims(m, (0, -1)) | jnp.expand_dims(m, -1) | jnp.expand_dims(m, [1, 2])
jnp.expand_dims(s, 0)
jnp.squeeze(u) | jnp.squeeze(u, 0) | jnp.squeeze(u, (0, 2)) | u.squeeze(-2) | jnp.squeeze(m)
jnp.broadcast_to(i, (2, 5)) | jnp.broadcast_to(s, 3) | jnp.broadcast_to(u, (2, 2, 2, 3))
jnp.broadcast_to(z, (4, 0, 3))
jnp.broadcast_arrays(i, m.reshape(6, 1)) | jnp.broadcast_arrays(i, s) | jnp.broadcast_shapes((2, 1), (3,))
jnp.atleast_1d(s) | jnp.atleast_1d(s, m) | jnp.atleast_2d(i) | jnp.atleast_2d(s, t) | jnp.atleast_3d(m)
jnp.atleast_3d(i, s)
jnp.ndim(t) | jnp.shape(t) | jnp.size(t) | jnp.size(t, 1) | jnp.size(t, (0, 2)) | jnp.ndim(3) | jnp.shape(2.0)
jnp.concatenate([i, i]) | jnp.concatenate([m, m], 1) | jnp.concatenate([m, t[0, :2, :3]], axis=-1)
jnp.concatenate([m, i], axis=None) | jnp.concatenate(t, 1) | jnp.concatenate(t, -1) | jnp.concatenate(m, axis=None)
jnp.stack(t, 1) | jnp.stack(t, -1) | jnp.stack(i, -1) | jnp.vstack(i) | jnp.vstack(m) | jnp.vstack(t)
jnp.hstack(i) | jnp.hstack(m) | jnp.hstack(t) | jnp.dstack(i) | jnp.dstack(m) | jnp.dstack(t) | jnp.dstack(t[None])
jnp.column_stack(i) | jnp.column_stack(m) | jnp.column_stack(t) | jnp.hstack(m, dtype="float16")
jnp.concatenate(t) | jnp.concatenate([m]) | jnp.concatenate([z, m]) | jnp.concatenate([b, i]) | jnp.concat([i, f])
jnp.stack([i, f]) | jnp.stack([m, m], 1) | jnp.stack([m, m], -1) | jnp.stack([s, s]) | jnp.stack(m)
jnp.vstack([i, f]) | jnp.vstack([m, m]) | jnp.vstack([s, s]) | jnp.hstack([i, f]) | jnp.hstack([m, m])
jnp.hstack([s, i])
jnp.dstack([i, f]) | jnp.dstack([m, m]) | jnp.column_stack([i, f])
jnp.column_stack([i, t.reshape(-1)[:10].reshape(5, 2)])
jnp.append(i, f) | jnp.append(m, m, axis=0) | jnp.append(i, 7) | jnp.append(m, 1.0)
jnp.block([[m, m], [m, m]]) | jnp.block([i, f]) | jnp.block([[m], [m]]) | jnp.block([[1, 2], [3, 4]]) | jnp.block(m)
jnp.block([[[t]]])
jnp.block([s, i]) | jnp.block([[i], [f]])
jnp.split(i, 5) | jnp.split(t, 2, 2) | jnp.split(i, [2]) | jnp.split(i, [1, 3]) | jnp.split(m, [1], axis=1)
jnp.split(i, np.array([2, 4]))
jnp.array_split(i, 3) | jnp.array_split(i, [1, 2]) | jnp.array_split(t, 3, 2) | jnp.array_split(i, 7)
jnp.hsplit(m, 3) | jnp.hsplit(i, 5) | jnp.vsplit(m, 2) | jnp.dsplit(t, 2)
jnp.unstack(m) | jnp.unstack(m, axis=1) | jnp.unstack(t, axis=-1)
jnp.tile(i, 2) | jnp.tile(m, (2, 1)) | jnp.tile(m, (2, 1, 2)) | jnp.tile(i, (2, 0)) | jnp.tile(t, 2)
jnp.tile(s, (2, 2)) | jnp.tile(m, 1)
jnp.repeat(i, 2) | jnp.repeat(m, 2) | jnp.repeat(m, 2, axis=1) | jnp.repeat(t, 3, axis=-2) | jnp.repeat(i, 0)
jnp.repeat(s, 4) | i.repeat(2)
jnp.repeat(i, np.array([1, 0, 2, 0, 1])) | jnp.repeat(m, np.array([1, 2]), axis=0) | jnp.repeat(i, np.array([2]))
jnp.repeat(jnp.arange(50), np.arange(50) % 3)
jnp.roll(i, 2) | jnp.roll(i, -1) | jnp.roll(i, 7) | jnp.roll(m, 1) | jnp.roll(m, 1, axis=0)
jnp.roll(m, (1, 2), axis=(0, 1))
jnp.roll(m, 1, axis=(0, 1)) | jnp.roll(i, np.array(2)) | jnp.roll(t, (1, 1), axis=(2, 2)) | jnp.roll(z, 1)
jnp.roll(m, -4, -1)
jnp.rot90(m) | jnp.rot90(m, 2) | jnp.rot90(m, -1) | jnp.rot90(t, 1, (1, 2)) | jnp.rot90(t, 3, (2, 0))
jnp.rot90(m, 4)
jnp.flip(t) | jnp.flip(t, 1) | jnp.flip(t, (0, -1)) | jnp.fliplr(m) | jnp.flipud(m) | jnp.flip(s)
jnp.resize(i, (2, 4)) | jnp.resize(m, (2, 2)) | jnp.resize(i, 0) | jnp.resize(i, 12)
jnp.insert(i, 2, 9) | jnp.insert(i, -1, 9) | jnp.insert(i, 5, 9) | jnp.insert(m, 1, 5) | jnp.insert(m, 1, 5, axis=0)
jnp.insert(m, 1, m[:, 0], axis=1) | jnp.insert(i, slice(0, 3), 7) | jnp.insert(i, np.array([1, 3]), np.array([7, 8]))
jnp.insert(i, 1, i[:2])
jnp.insert(i, np.array([1, 1]), i[:2]) | jnp.insert(m, np.array([0, 2]), m[:, :2], axis=1)
jnp.insert(t, 1, t[:, 0], axis=1)
jnp.insert(m, 0, i[:3], axis=0)
jnp.delete(i, 1) | jnp.delete(i, -1) | jnp.delete(i, slice(1, 3)) | jnp.delete(m, 1, axis=1)
jnp.delete(i, np.array([0, 3])) | jnp.delete(m, 2)
jnp.delete(i, np.array([True, False, True, False, False])) | jnp.delete(i, np.array([0, 0, -1]))
jnp.delete(i, slice(None, None, 2))
jnp.pad(i, 2) | jnp.pad(m, 1) | jnp.pad(m, (1, 2)) | jnp.pad(m, ((1, 2), (0, 1))) | jnp.pad(m, ((1, 2),))
jnp.pad(i, 1, constant_values=7) | jnp.pad(i, 1, constant_values=(7, 8))
jnp.pad(m, 1, constant_values=((1, 2), (3, 4)))
jnp.pad(i, 2, mode="edge") | jnp.pad(m, ((1, 2), (0, 3)), mode="edge") | jnp.pad(i, 2, mode="reflect")
jnp.pad(i, 7, mode="reflect")
jnp.pad(m, 2, mode="reflect") | jnp.pad(i, 2, mode="symmetric") | jnp.pad(i, 12, mode="symmetric")
jnp.pad(m, 4, mode="symmetric")
jnp.pad(i, 2, mode="reflect", reflect_type="odd") | jnp.pad(i, 7, mode="reflect", reflect_type="odd")
jnp.pad(m, 5, mode="symmetric", reflect_type="odd") | jnp.pad(f, (9, 2), mode="symmetric", reflect_type="odd")
jnp.pad(i, 2, mode="wrap") | jnp.pad(i, 12, mode="wrap") | jnp.pad(m, ((3, 1), (2, 7)), mode="wrap")
jnp.pad(f, 2, mode="linear_ramp") | jnp.pad(f, 3, mode="linear_ramp", end_values=(2, -3))
jnp.pad(m, 2, mode="linear_ramp", end_values=1)
jnp.pad(i, 2, mode="maximum") | jnp.pad(m, 2, mode="minimum", stat_length=2) | jnp.pad(f, 1, mode="mean")
jnp.pad(m, 1, mode="median")
jnp.pad(m, ((1, 2), (3, 1)), mode="maximum", stat_length=((1, 2), (2, 1))) | jnp.pad(i, 2, mode="mean", stat_length=2)
jnp.pad(z, ((2, 1), (0, 1))) | jnp.pad(f[:1], 2, mode="reflect")
jnp.trim_zeros(p) | jnp.trim_zeros(p, "f") | jnp.trim_zeros(p, "b") | jnp.trim_zeros(p[:2])
jnp.where(i > 2, i, 0) | jnp.where(b, f, i) | jnp.where(m > 2, m, 1.5) | jnp.where(b, 1, m.reshape(6)[:5])
jnp.where(True, m, 0)
jnp.select([i > 3, i > 1], [i, 10 * i]) | jnp.select([i > 1, i > 3], [i, 10 * i], default=-1)
jnp.select([i > 1], [7])
jnp.choose(i % 2, [i, 10 * i]) | jnp.choose(i, [1, 2, 3], mode="clip") | jnp.choose(i - 2, [i, f, f], mode="wrap")
jnp.piecewise(f, [f < 2, f > 5], [lambda x: -x, 1.0]) | jnp.piecewise(f, [f < 2], [3, lambda x: x * 2])
jnp.apply_along_axis(lambda v: v * 2, 1, m) | jnp.apply_along_axis(lambda v: v[0], 0, t)
jnp.apply_along_axis(jnp.sum, 1, t)
jnp.apply_along_axis(lambda v: v.reshape(2, -1), 2, t) | jnp.apply_over_axes(jnp.sum, t, (0, 2))
i.astype(float) | f.astype(int) | f.astype(bool) | i.astype("int8") | jnp.astype(f, jnp.int32)
t.diagonal() | m.clip(1, 3) | m.round() | m.copy() | m.real | (m * 1j).imag | (m * 1j).conj() | (m + 1j).conjugate()
m.sum() | m.sum(axis=0) | m.mean(1) | m.max() | m.min(axis=1, keepdims=True) | m.prod() | m.std() | m.var(0) | m.any()
m.all(axis=1)
m.cumsum() | m.cumsum(1) | m.cumprod(0) | m.ptp()
"""

NUMPY_ONLY = """
jnp.pad(m, ((1,), (2,))) | jnp.piecewise(f, b, [1.0, 2.0])
jnp.insert(i, np.array([True, False, True, False, False]), 7)
jnp.pad(m, {0: (1, 2)}) | jnp.pad(m, {-1: 3}) | jnp.repeat(i, [1, 0, 2, 0, 1]) | jnp.delete(i, [0, 3])
jnp.insert(i, [1, 3], i[:2])
"""

JAX_ONLY = """
jnp.reshape(1.0, (1, 1)) | jnp.stack([1.0, 2.0]) | jnp.stack([1.0, 2])
jnp.concatenate([jnp.full(2, 1.0), jnp.full(2, 2.0)])
jnp.concatenate([i, f], dtype="float16") | jnp.hstack([1, 2.0]) | jnp.block([[1, 2], [3, 4]]) | jnp.block(1.0)
jnp.tile(1.0, 3)
jnp.append(i, 2.5) | jnp.broadcast_to(1.0, 3) | jnp.broadcast_arrays(i, 1.0) | jnp.atleast_1d(1.0) | jnp.squeeze(2.0)
jnp.ravel(1.0)
jnp.repeat(3, 4) | jnp.pad(1.0, 0) | jnp.pad(jnp.full((2,), 1), 1) | jnp.flip(jnp.full(2, 1)) | jnp.expand_dims(1, 0)
jnp.repeat(i, jnp.array([1, 0, 2, 0, 1]), total_repeat_length=6) | jnp.repeat(i, 2, total_repeat_length=13)
jnp.repeat(i, jnp.array([1, 0, 2, 0, 1]), total_repeat_length=2) | jnp.repeat(i, 2, total_repeat_length=3)
jnp.repeat(m, jnp.array([1, 2]), axis=0, total_repeat_length=4)
jnp.repeat(m, jnp.array([3, 0]), axis=0, total_repeat_length=2)
jnp.roll(i, jnp.array(2)) | jnp.roll(m, i[1], axis=1) | jnp.roll(m, jnp.array([1, 2]), axis=(0, 1))
jnp.roll(i, i[3])
jnp.roll(m, np.array([1, 2]), axis=np.array([0, 1])) | jnp.roll(m, 1, axis=np.array([1]))
jnp.flip(m, np.array([0, 1])) | jnp.expand_dims(i, np.array([0, 2])) | jnp.sum(t, axis=np.array([0, 2]))
jnp.moveaxis(t, np.array([0]), np.array([2]))
jnp.pad(i, 2, mode="linear_ramp", end_values=-3) | jnp.pad(i, 1, constant_values=2.7) | jnp.pad(i, 2, mode="empty")
jnp.pad(f.astype("bfloat16"), 1) | jnp.pad(i, 2, mode="mean") | jnp.pad(i, 2, mode="median")
jnp.where(b, 1.0, 2) | jnp.where(b, jnp.asarray(1.0), i) | jnp.select([i > 1, i > 3], [i, 10 * f])
jnp.select([b], [1.0])
jnp.astype(jnp.asarray(1.0), "float32") | jnp.astype(jnp.array([np.nan, np.inf, -3.7, 3e10]), int) | f.astype(None)
f.view("int32") | f.view("int8") | f.view("int16") | i.astype("int8").repeat(4).view("int32") | b.view("int8")
f.astype("bfloat16").view("uint16")
i[:4].astype("int4").view("int8") | i.astype("int8").view("int4") | i.astype("int8").view("uint2")
i[:4].astype("uint4").view("int16")
m.sum(dtype=int) | i.astype("bfloat16") | jnp.insert(i, 2, 9.5) | (m + 1j).real | (m + 1j).view("float32")
f[:4].view("complex64")
jnp.delete(f, jnp.arange(3) - 2, assume_unique_indices=True)
jnp.delete(m, i[1] * 0 + 1, 1, assume_unique_indices=True)
jnp.insert(f, i[1] * 0 + 2, 9) | jnp.insert(m, jnp.array([1, 3, -1]), 7, axis=1) | jnp.insert(m, i[1:2] * 0, m, axis=0)
"""


@pytest.mark.parametrize("call", calls(BOTH) + calls(JAX_ONLY))
def test_as_jax(call: str) -> None:
    needs_values = "trim_zeros" in call or "choose(i %" in call
    check(call, ARRAYS, 1e-6, staged=not needs_values)


@pytest.mark.parametrize("call", [call for call in calls(BOTH) + calls(NUMPY_ONLY) if ".ptp()" not in call])
def test_as_numpy(call: str) -> None:
    check_with_numpy(call, ARRAYS, 1e-6)


def test_delete_of_traced_indices_that_may_be_the_same():
    error = xpr.errors.ConcretizationTypeError
    with pytest.raises(error, match="Say assume_unique_indices=True of different integers"):
        xpr.jit(jnp.delete)(jnp.arange(4), jnp.arange(2))
    assert xpr.jit(jnp.delete)(jnp.arange(3), -1).tolist() == [0, 1]
    with pytest.raises(error, match="Give integers, or make the mask in NumPy"):
        xpr.jit(jnp.insert)(jnp.arange(2), jnp.array([True, False]), 5)


# -- Transformations

FUNCTIONS = [
    lambda x: jnp.roll(x, 2), lambda x: jnp.flip(x), lambda x: jnp.tile(x, 2), lambda x: jnp.repeat(x, 2),
    lambda x: jnp.repeat(x, np.array([1, 0, 2, 0, 1])), lambda x: jnp.pad(x, 2, mode="reflect"),
    lambda x: jnp.pad(x, 2, mode="linear_ramp"), lambda x: jnp.pad(x, 2, mode="mean"), lambda x: jnp.pad(x, (1, 2)),
    lambda x: jnp.pad(x, 3, mode="symmetric", reflect_type="odd"), lambda x: jnp.insert(x, 2, x[0]),
    lambda x: jnp.delete(x, np.array([0, 3])), lambda x: jnp.resize(x, (2, 4)), lambda x: jnp.concatenate([x, 2 * x]),
    lambda x: jnp.stack([x, x], 1), lambda x: jnp.block([[x], [x]]), lambda x: jnp.split(x, [1, 3])[1],
    lambda x: jnp.atleast_3d(x), lambda x: jnp.reshape(x, (5, 1), order="F"),
    lambda x: jnp.choose(np.arange(5) % 2, [x, 2 * x]),
    lambda x: jnp.select([x > 3.5, x > 1.5], [x, 3 * x]), lambda x: jnp.apply_along_axis(lambda v: v[::-1], 0, x),
    lambda x: jnp.pad(x, 1, mode=lambda v, width, axis, options: v.at[0].set(v[1])),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(FUNCTIONS)))
def test_linear_in_what_they_move(index: int) -> None:
    f = FUNCTIONS[index]
    x = jnp.arange(5.0) + 1
    direction = jnp.array([0.3, -1.0, 2.0, 0.5, 0.1])
    out, tangent = xpr.jvp(f, (x,), (direction,))
    np.testing.assert_allclose(tangent, (np.asarray(f(x + 1e-2 * direction)) - out) / 1e-2, atol=2e-4)
    ct = np.random.RandomState(0).rand(*out.shape).astype(np.float32)
    (back,) = xpr.vjp(f, x)[1](ct)
    np.testing.assert_allclose(np.vdot(ct, tangent), np.vdot(back, direction), rtol=1e-5, atol=1e-5)
    rows = jnp.stack([x, 2 * x, x - 3])
    np.testing.assert_allclose(xpr.vmap(f)(rows), np.stack([f(r) for r in rows]), rtol=1e-6)
    np.testing.assert_allclose(xpr.vmap(f, in_axes=1)(rows.T), np.stack([f(r) for r in rows]), rtol=1e-6)
    np.testing.assert_allclose(xpr.jit(f)(x), f(x), rtol=1e-6)


def test_traced_shifts_and_repeats() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(xpr.jit(lambda n: jnp.roll(x, n, 1))(-4), np.roll(x, -4, 1))
    np.testing.assert_array_equal(xpr.vmap(lambda n: jnp.roll(x, n))(jnp.arange(3)), [np.roll(x, n) for n in range(3)])
    both = xpr.jit(lambda n: jnp.roll(x, n, (0, 1)))(jnp.array([1, 2]))
    np.testing.assert_array_equal(both, np.roll(x, (1, 2), (0, 1)))
    repeated = xpr.jit(lambda r: jnp.repeat(x, r, 1, total_repeat_length=4))(jnp.array([2, 0, 2]))
    np.testing.assert_array_equal(repeated, np.repeat(x, [2, 0, 2], 1))
    np.testing.assert_array_equal(xpr.jit(lambda r: jnp.repeat(x[0], r, total_repeat_length=6))(2), np.repeat(x[0], 2))
    for y in (x, x[:0]):
        repeat = xpr.jit(lambda r, y=y: jnp.repeat(y, r, 0, total_repeat_length=0))
        assert repeat(0).shape == repeat(jnp.zeros(len(y), int)).shape == (0, 3)


@pytest.mark.parametrize(
    ("shape", "reps", "joined"),
    [
        ((1000,), 3, True), ((50, 60), (2, 3), True), ((7, 1, 300), (2, 3, 4), True), ((5, 300), (2, 2, 2), True),
        ((5, 300), (3, 1), False), ((300, 1), (1, 5), False), ((100,), 50, False), ((10,), 3, False),
    ],
)  # fmt: skip
def test_rows_that_are_repeated_a_few_times_are_concatenated(shape: Any, reps: Any, joined: bool) -> None:
    x = np.arange(np.prod(shape), dtype="f").reshape(shape)
    tile = lambda x: jnp.tile(x, reps)  # a short name
    np.testing.assert_array_equal(xpr.jit(tile)(x), np.tile(x, reps))
    np.testing.assert_array_equal(xpr.jit(xpr.vmap(tile))(np.stack([x, x + 1]))[1], np.tile(x + 1, reps))
    assert ("stablehlo.concatenate" in xpr.jit(tile).lower(x).as_text()) == joined


@pytest.mark.parametrize(
    "repeated",
    [
        lambda np, x: np.tile(x, 3), lambda np, x: np.repeat(x, 3), lambda np, x: np.tile(x.reshape(20, -1), (3, 2)),
    ],
)  # fmt: skip
def test_large_broadcasts_that_are_results_are_in_memory_before_their_axes_are_merged(repeated: Any) -> None:
    x = np.arange(400_000, dtype="d")
    result, operand = xpr.jit(lambda x: repeated(jnp, x)), xpr.jit(lambda x: repeated(jnp, x) + 1)
    with xpr.enable_x64():
        np.testing.assert_array_equal(result(x), repeated(np, x))
        np.testing.assert_array_equal(operand(x), repeated(np, x) + 1)
        assert "@fusion_barrier(" in result.lower(x).as_text()
        assert "@fusion_barrier(" not in operand.lower(x).as_text()
        for size, dtype in (2000, "d"), (10_000_000, "d"), (400_000, "D"), (400_000, "i1"):
            assert "@fusion_barrier(" not in result.lower(xpr.ShapeDtypeStruct((size,), dtype)).as_text()
    for filled in (
        lambda: jnp.zeros((1000, 1000)).reshape(-1),
        lambda: np.broadcast_to(x, (1, 1, x.size)).reshape(x.size),
    ):
        assert "@fusion_barrier(" not in xpr.jit(filled).lower().as_text()


@pytest.mark.parametrize(
    ("shape", "config"),
    [
        ((40000,), ((0, 0, 1),)), ((20000,), ((3, 4, 2),)), ((20000,), ((-7, -9, 3),)), ((200,), ((0, 0, 200),)),
        ((200,), ((-1, 2, 200),)), ((40, 90), ((1, 2, 3), (4, 5, 6))),
        ((3, 40, 90), ((0, 0, 0), (-1, 3, 1), (2, -8, 2))),
        ((20000, 1), ((0, 0, 1), (1, 1, 2))), ((0, 200), ((4, 0, 0), (0, 0, 90))),
    ],
)  # fmt: skip
def test_what_is_put_between_the_elements_of_long_rows(shape: Any, config: Any) -> None:
    x, value = np.random.default_rng(0).normal(size=shape).astype("f"), np.float32(0.5)
    (expected,) = lax.pad_p.reference([x, value], padding_config=config)
    pad = lambda x: lax.pad(x, value, config)  # a short name
    np.testing.assert_array_equal(xpr.jit(pad)(x), expected)
    np.testing.assert_array_equal(xpr.jit(xpr.vmap(pad))(np.stack([x + 1, x]))[1], expected)


def test_few_equations() -> None:
    count = lambda f, *args: [eqn.primitive.name for eqn in xpr.make_jaxpr(f)(*args).eqns]  # a short name
    x = jnp.arange(6.0).reshape(2, 3)
    assert count(lambda x: x.T, x) == ["transpose"]
    assert count(lambda x: x.reshape(3, -1), x) == ["reshape"]
    assert count(lambda x: jnp.roll(x, 1, 0), x) == ["slice", "slice", "concatenate"]
    assert count(lambda x: jnp.tile(x, (2, 2)), x) == ["broadcast_in_dim", "reshape"]
    assert count(lambda x: jnp.pad(x, 1), x) == ["pad"]
    assert count(lambda x: jnp.diag(x), x) == ["reshape", "slice"]
    assert count(lambda x: jnp.delete(x, 1, 1), x) == ["slice"]
    assert count(lambda x: jnp.delete(x, 1), x) == ["reshape", "slice", "slice", "concatenate"]
    assert count(lambda x: x.reshape(2, 3), x) == []
    assert count(lambda x: jnp.concatenate([x]), x) == []
    assert count(lambda x: jnp.stack(x, 1), x) == ["transpose"]
    assert count(lambda x: jnp.hstack(x), x) == ["reshape"]
    assert count(lambda x: jnp.broadcast_to(x, (2, 3)), x) == []


# -- Errors

ERRORS = [
    ("jnp.reshape(i, (2, -1))", TypeError, r"i32\[5\] has 5 elements"),
    ("jnp.reshape(i, (-1, -1))", TypeError, "one size at most may be -1"),
    ("jnp.reshape(i, (6,))", TypeError, "5 elements"),
    ("jnp.reshape(i, 5.0)", TypeError, "concrete values of integer type, and 5.0 is none"),
    ("jnp.reshape([1, 2], (2,))", TypeError, "jnp.array"),
    ('jnp.reshape(i, 5, order="A")', NotImplementedError, "memory order"),
    ("i.reshape()", TypeError, "elements"),
    ("jnp.transpose(m, (0, 0))", ValueError, "duplicate value"),
    ("jnp.transpose(m, (1,))", TypeError, "permutation"),
    ("jnp.matrix_transpose(i)", ValueError, "two axes"),
    ("i.mT", ValueError, "two axes"),
    ("jnp.swapaxes(i, 0, 1)", ValueError, "out of bounds"),
    ("jnp.moveaxis(t, 0, (1, 2))", ValueError, "equally many"),
    ("jnp.moveaxis(t, (0, 0), (1, 2))", ValueError, "duplicate value"),
    ("jnp.rollaxis(t, 0, 5)", ValueError, "between"),
    ("jnp.expand_dims(i, (0, 0))", ValueError, "duplicate value"),
    ("jnp.expand_dims(i, 3)", ValueError, "out of bounds"),
    ("jnp.squeeze(i, 0)", ValueError, "size is not 1"),
    ("jnp.squeeze(m, 5)", ValueError, "out of bounds"),
    ("jnp.broadcast_to(i, (2, 3))", ValueError, "does not broadcast"),
    ("jnp.broadcast_to(i, ())", ValueError, "does not broadcast"),
    ("jnp.broadcast_arrays(i, m)", ValueError, "broadcast"),
    ("jnp.concatenate([])", ValueError, "at least one"),
    ("jnp.concatenate([1.0, 2.0])", ValueError, "jnp.stack"),
    ("jnp.concatenate([[1, 2], [3]])", TypeError, "jnp.array"),
    ("jnp.concatenate([i, f], axis=1)", ValueError, "out of bounds"),
    ("jnp.concatenate([i, m])", ValueError, "can't be joined"),
    ("jnp.stack([])", ValueError, "at least one"),
    ("jnp.stack(m[:0])", ValueError, "stack: needs at least one"),
    ("jnp.hstack(m[:0])", ValueError, "hstack: needs at least one"),
    ("jnp.vstack(s)", ValueError, "vstack: takes a sequence of arrays, or one with axes, and got"),
    ("jnp.stack(s)", TypeError, "stack: takes a sequence of arrays, or one with axes, and got"),
    ("jnp.concatenate(s)", ValueError, "concatenate: takes a sequence of arrays, or one with axes, and got"),
    ("jnp.concatenate(i)", ValueError, "jnp.stack"),
    ("jnp.concatenate(m, 1)", ValueError, "out of bounds"),
    ("jnp.stack([i, i[:2]])", ValueError, "equal"),
    ("jnp.stack([i, i], out=i)", NotImplementedError, "out="),
    ("jnp.block([])", ValueError, "empty"),
    ("jnp.block([[1, 2], 3])", ValueError, "one depth"),
    ("jnp.split(i, 2)", ValueError, "can't be split into 2 equal parts"),
    ("jnp.array_split(i, 0)", ValueError, "can't be split"),
    ("jnp.unstack(s)", ValueError, "out of bounds"),
    ("jnp.tile(i, -1)", ValueError, "negative"),
    ("jnp.repeat(i, -1)", ValueError, "negative"),
    ("jnp.repeat(i, np.array([1, 2]))", ValueError, "2 repeats were given for an axis of size 5"),
    ("jnp.roll(m, (1, 2, 3), (0, 1))", ValueError, "3 shifts"),
    ("jnp.rot90(i)", ValueError, "two axes"),
    ("jnp.rot90(m, axes=(0,))", ValueError, r"axes are two, as \(0, 1\), and are \(0,\)"),
    ("jnp.insert(i, 9, 1)", IndexError, "out of bounds"),
    ("jnp.delete(i, 9)", IndexError, "out of bounds"),
    ("jnp.repeat(i, 1.5)", TypeError, "repeats are integers, and are 1.5"),
    ("jnp.split(i, 2.5)", TypeError, "cannot be interpreted as an integer"),
    ("jnp.split(i, [1.5])", TypeError, "cannot be interpreted as an integer"),
    ("jnp.pad(m, {2: 1})", ValueError, "axis 2 is out of bounds"),
    ("jnp.put(i, 0, 1, mode='fill', inplace=False)", ValueError, "mode is .clip., .wrap. or None, and 'fill'"),
    ("jnp.put(i, 0, 1, mode='raise', inplace=False)", NotImplementedError, "mode is .clip., .wrap. or None"),
    ("jnp.put(i, 0, 1)", ValueError, "immutable"),
    ("jnp.place(i, i > 1, z, inplace=False)", ValueError, "no values to place"),
    ("jnp.compress(np.ones(6, bool), i)", ValueError, "true beyond the 5 elements along axis 0"),
    ("jnp.compress(m > 0, i)", ValueError, "must be a vector"),
    ("jnp.extract(np.ones(6, bool), i)", ValueError, "true beyond the 5 elements"),
    ("jnp.apply_over_axes(lambda a, axis: a.sum(), m, 0)", ValueError, "keep axis 0 or drop it, and returned 0 axes"),
    ("jnp.apply_over_axes(lambda a, axis: a[None], m, 0)", ValueError, "returned 3 axes for an array of 2"),
    ("jnp.vectorize(jnp.sin, excluded={1.5})", TypeError, "strings, and excluded is {1.5}"),
    ("jnp.pad(i, -1)", ValueError, "negative"),
    ("jnp.pad(i, 1.5)", TypeError, "integers"),
    ('jnp.pad(i, 1, mode="foo")', NotImplementedError, "Unimplemented padding mode .foo. for np.pad"),
    ("jnp.pad(i, 1, foo=1)", ValueError, "unsupported keyword arguments for mode"),
    ('jnp.pad(z, 1, mode="edge")', ValueError, "axis 0 has none"),
    ("jnp.pad(m, ((1, 2), (3, 4), (5, 6)))", ValueError, "pad_width"),
    ("jnp.select([b], [i, i])", ValueError, "1 and 2"),
    ("jnp.select([], [])", ValueError, "condition"),
    ("jnp.choose(i, [i, i])", ValueError, "0 to 4"),
    ("jnp.choose(f, [i, i])", TypeError, "integers"),
    ("jnp.where(b, i)", ValueError, "both"),
    ('f[:3].view("complex64")', ValueError, "complex"),
    ('i.astype("int8")[:3].view("int32")', ValueError, "whole number"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[0] for row in ERRORS])
def test_errors(call: str, error: type[Exception], message: str) -> None:
    arrays = {name: jnp.asarray(value) for name, value in ARRAYS.items()}
    with pytest.raises(error, match=message):
        eval(call, {"jnp": jnp, "np": np, **arrays})


def test_split_into_a_whole_number_of_parts_that_is_a_float() -> None:
    assert [part.tolist() for part in jnp.split(jnp.arange(4), 4 / 2)] == [[0, 1], [2, 3]]


def test_compress_by_a_condition_that_is_false_beyond_the_axis() -> None:
    condition = np.array([True, False, True, False])
    assert jnp.compress(condition, jnp.arange(3)).tolist() == [0, 2]
    assert xpr.jit(lambda x: jnp.compress(condition, x))(jnp.arange(3)).tolist() == [0, 2]


@pytest.mark.parametrize("f", [
    lambda x: jnp.repeat(x, x), lambda x: jnp.trim_zeros(x), lambda x: jnp.choose(x, [x]),
])  # fmt: skip
def test_values_that_decide_a_shape_must_be_known(f: Any) -> None:
    with pytest.raises(xpr.errors.ConcretizationTypeError):
        xpr.jit(f)(jnp.arange(3))


# -- vectorize


def test_vectorize() -> None:
    @jnp.vectorize
    def scalar(x: Any, y: Any) -> Any:
        assert x.shape == y.shape == ()
        return x * y + 1

    a, b = np.arange(3.0, dtype=np.float32), np.arange(2.0, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(scalar(a, b), a * b + 1)
    np.testing.assert_array_equal(xpr.jit(scalar)(a, 2.0), a * 2 + 1)
    product = jnp.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)")
    m, v = np.random.RandomState(0).rand(4, 1, 2, 3), np.random.RandomState(1).rand(5, 3)
    m, v = m.astype(np.float32), v.astype(np.float32)
    np.testing.assert_allclose(product(m, v), np.einsum("axnm,xm->axn", np.repeat(m, 5, 1), v), rtol=1e-5)
    two = jnp.vectorize(lambda x, how, *, k: (x + k, x.sum()), excluded=(1, "k"), signature="(n)->(n),()")
    rows = jnp.arange(6.0).reshape(2, 3)
    shifted, sums = two(rows, "any", k=1)
    assert shifted.tolist() == (rows + 1).tolist() and sums.tolist() == [3, 12]
    (indices,) = jnp.vectorize(lambda x: jnp.nonzero(x, size=2), signature="(i)->(j)")(rows > 1)  # as netket calls it
    assert indices.tolist() == [[2, 0], [0, 1]]


def test_vectorize_of_pytrees_with_a_shape() -> None:
    @xpr.tree_util.register_dataclass
    @dataclasses.dataclass
    class Quantity:
        value: Any

        @property
        def shape(self) -> tuple[int, ...]:
            return self.value.shape

    powers = jnp.vectorize(lambda x: Quantity(x ** jnp.arange(3)), signature="()->(n)")
    assert powers(2.0).value.tolist() == [1, 2, 4]
    assert powers(jnp.array([2.0, 3.0])).value.tolist() == [[1, 2, 4], [1, 3, 9]]
    with pytest.raises(ValueError, match=r"output shape \(3,\) does not match \(\)"):
        jnp.vectorize(powers, signature="()->()")(2.0)


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(("signature", "args", "error", "message"), [
    ("(n->n", (1.0,), ValueError, "no signature"), ("(n),(n)->()", (ONES,), TypeError, "takes 2, and 1 were given"),
    ("(n),(n)->()", (ONES, ONES[:2]), ValueError, "inconsistent size for core dimension 'n': 3 and 2"),
    ("(n,m)->()", (ONES,), ValueError, r"not have enough dimensions: its core axes are \(n,m\)"),
    ("(n)->(n)", (ONES,), ValueError, r"output shape \(\) does not match \(n\)"),
    ("(n)->(),()", (ONES,), TypeError, "output must be a tuple of 2 arrays"),
    ("(n),(n)->()", (ONES, None), ValueError, r"Cannot pass None at locations \{1\} with signature"),
])  # fmt: skip
def test_vectorize_refuses(signature: str, args: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        jnp.vectorize(lambda *xs: xs[0].sum(), signature=signature)(*args)


def test_vectorize_checks_what_is_excluded_how_many_results_there_are_and_ranks() -> None:
    with pytest.raises(TypeError, match="vectorize can only exclude arguments by their positions"):
        jnp.vectorize(abs, excluded={1.5})
    with pytest.raises(ValueError, match=r"excluded=\{-1\} contains negative numbers"):
        jnp.vectorize(abs, excluded={-1})
    with pytest.raises(TypeError, match="has 3, and 2 came"):
        jnp.vectorize(lambda *xs: xs, signature="(),()->(),(),()")(1, 2)
    with pytest.raises(TypeError, match="has 1, and 2 came"):
        jnp.vectorize(lambda *xs: xs, signature="(),()->()")(1, 2)
    add = jnp.vectorize(jnp.add, signature="(),()->()")
    with xpr.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="require rank promotion"):
            add(np.ones((2, 3)), ONES)
        assert add(ONES, 1.0).shape == (3,)
    assert jnp.vectorize(lambda x: 1.0, signature="(n)->()")(np.ones((2, 3))).shape == (2,)


# -- Files


def test_files(tmp_path: Any) -> None:
    x = jnp.arange(3.0)
    for value in (x, x.astype(jnp.bfloat16), x > 1):
        jnp.save(tmp_path / "x.npy", value)
        back = jnp.load(tmp_path / "x.npy")
        assert back.dtype == value.dtype and back.tolist() == value.tolist()
    jnp.savez(tmp_path / "x.npz", a=x)
    np.save(tmp_path / "x.npy", np.array([x, None], object))
    assert jnp.load(tmp_path / "x.npy", allow_pickle=True).tolist()[1] is None
    with jnp.load(tmp_path / "x.npz") as archive:
        np.testing.assert_array_equal(archive["a"], x)
    (tmp_path / "x.bin").write_bytes(b"ab")
    assert jnp.fromfile(tmp_path / "x.bin", "uint8").tolist() == [97, 98]
    with jnp.printoptions(precision=2):
        assert str(jnp.array([1.23456])) == "[1.23]"
    assert jnp.array_repr(x) == repr(x) and jnp.array_str(x) == str(x)


@pytest.mark.parametrize("dtype", ["float32", int])
def test_astype_warns_of_lost_imaginary_parts(dtype):
    x = jnp.array([1 + 2j])
    for f in (lambda x: x.astype(dtype), xpr.jit(lambda x: jnp.astype(x, dtype))):
        with pytest.warns(
            DeprecationWarning, match=r"complex64 is converted to .*, and imaginary parts are lost"
        ) as found:
            assert f(x).tolist() == [1]
        assert found[0].filename == __file__
    assert x.astype(bool).tolist() == [True] and x.astype("complex64").tolist() == [1 + 2j]


def test_a_copy_by_astype_may_be_deleted():
    x = jnp.arange(5)
    assert x.astype("int32") is x
    x.astype("int32", copy=True).delete()
    assert not x.is_deleted()


def test_the_choices_of_where_may_differ_in_their_numbers_of_axes():
    with xpr.numpy_rank_promotion("raise"):
        assert jnp.where(jnp.ones((3, 1), bool), jnp.zeros((4,)), jnp.ones((2, 1, 4))).shape == (2, 3, 4)


def test_unraveled_indices_keep_their_dtype():
    for dtype in (np.int8, np.uint16, np.int32):
        rows, columns = jnp.unravel_index(jnp.array([1, 5], dtype), (2, 3))
        assert rows.dtype == columns.dtype == dtype and columns.tolist() == [1, 2]


def test_bytes_of_a_traced_array():
    with pytest.raises(
        xpr.errors.ConcretizationTypeError, match=r"The tobytes\(\) method was called on traced array:\nit needs"
    ):
        xpr.jit(lambda x: x.tobytes())(1.0)


def test_many_small_arrays_are_joined_without_a_program(monkeypatch):
    """XLA takes minutes to compile one with tens of thousands of operands."""
    compiled = []
    compile_text = compiler.compile_text
    monkeypatch.setattr(compiler, "compile_text", lambda *args: compiled.append(args) or compile_text(*args))
    numbers = [jnp.float32(i) for i in range(20_000)]
    np.testing.assert_array_equal(jnp.stack(numbers), np.arange(20_000, dtype=np.float32))
    assert not compiled
    assert jnp.concatenate([jnp.zeros(20_011), jnp.zeros(20_011)]).shape == (40_022,)
    assert any("concatenate" in text for text, *_ in compiled)


@pytest.mark.parametrize("trim", ["f", "b", "fb"])
def test_zeros_alone_are_all_trimmed(trim):
    for x in ([0.0, 0.0], [0], []):
        assert jnp.trim_zeros(jnp.array(x), trim).shape == (0,)
    assert jnp.trim_zeros(jnp.zeros((2, 3)), trim).shape == (0, 0)
