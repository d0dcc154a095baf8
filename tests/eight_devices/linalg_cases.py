"""Linear algebra on eight devices: each does the problems that it has."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.sharding import NamedSharding, PartitionSpec

RNG = np.random.default_rng(0)
A = (RNG.normal(size=(16, 4, 4)) + 5 * np.eye(4)).astype(np.float32)
B = RNG.normal(size=(16, 4, 2)).astype(np.float32)

FUNCTIONS = {
    "solve": jnp.linalg.solve,
    "cholesky": lambda a, b: jnp.linalg.cholesky(a @ jnp.swapaxes(a, -1, -2)),
    "qr": lambda a, b: jnp.linalg.qr(a)[1],
    "eigh": lambda a, b: jnp.linalg.eigh(a)[0],
    "eig": lambda a, b: jnp.abs(jnp.linalg.eigvals(a)),
    "svd": lambda a, b: jnp.linalg.svd(a)[1],
    "slogdet": lambda a, b: jnp.linalg.slogdet(a)[1],
    "tridiagonal": lambda a, b: lax.linalg.tridiagonal_solve(a[..., 0], 5 + a[..., 1], a[..., 2], b),
    "stacks of stacks": lambda a, b: jnp.linalg.solve(a.reshape(8, 2, 4, 4), b.reshape(8, 2, 4, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_stacks_stay_where_they_are(name):
    fun = FUNCTIONS[name]
    sharding = NamedSharding(xpr.make_mesh((8,), ("rows",)), PartitionSpec("rows"))
    operands = [xpr.device_put(x, sharding) for x in (A, B)]
    compiled = xpr.jit(fun).lower(*operands).compile()
    assert not [*compiled.collectives()]
    np.testing.assert_allclose(compiled(*operands), fun(jnp.asarray(A), jnp.asarray(B)), rtol=1e-4, atol=1e-5)


def test_one_matrix_is_everywhere():
    sharding = NamedSharding(xpr.make_mesh((8,), ("rows",)), PartitionSpec("rows"))
    big = xpr.device_put((A[:2].reshape(8, 4) @ A[:2].reshape(8, 4).T + np.eye(8)).astype(np.float32), sharding)
    np.testing.assert_allclose(xpr.jit(jnp.linalg.cholesky)(big), np.linalg.cholesky(np.asarray(big)), rtol=1e-3)


def test_pmap_and_shard_map():
    np.testing.assert_allclose(xpr.pmap(jnp.linalg.inv)(A[:8]), np.linalg.inv(A[:8]), rtol=1e-3, atol=1e-5)
    mesh, rows = xpr.make_mesh((8,), ("rows",)), PartitionSpec("rows")
    mapped = xpr.shard_map(jnp.linalg.solve, mesh=mesh, in_specs=(rows, rows), out_specs=rows)
    np.testing.assert_allclose(mapped(A, B), np.linalg.solve(A, B), rtol=1e-3, atol=1e-5)
