"""Typed random keys on several devices: shardings, transfer, shard_map, pmap, arrays from parts."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, random
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

KEYS = random.split(random.key(0), (8, 2))


@pytest.fixture
def mesh():
    return xpr.make_mesh((4, 2), ("x", "y"))


@pytest.fixture
def rows(mesh):
    return NamedSharding(mesh, P("x"))


def same(ours, expected):
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(random.key_data(ours), random.key_data(expected))


def test_put_and_shards(mesh, rows):
    keys = xpr.device_put(KEYS, rows)
    assert keys.sharding == rows and keys.committed and not keys.is_fully_replicated
    same(keys, KEYS)
    shard = keys.addressable_shards[2]
    assert shard.data.shape == (2, 2) and shard.index == (slice(2, 4), slice(None))
    same(shard.data, KEYS[2:4])
    same(keys[5], KEYS[5])
    moved = xpr.device_put(keys, NamedSharding(mesh, P(None, "y")))
    assert moved.sharding.spec == P(None, "y")
    same(moved, KEYS)


def test_programs(mesh, rows):
    keys = xpr.device_put(KEYS, rows)
    new = xpr.jit(lambda k: random.split(k[0, 0], 8), out_shardings=rows)(keys)
    assert new.sharding == rows
    same(new, random.split(KEYS[0, 0], 8))
    reshaped = NamedSharding(mesh, P("y", "x"))
    constrained = xpr.jit(lambda k: lax.with_sharding_constraint(k.reshape(2, 8), reshaped))(keys)
    assert constrained.sharding == reshaped
    same(constrained, KEYS.reshape(2, 8))
    draw = xpr.jit(xpr.vmap(xpr.vmap(lambda key: random.normal(key, (3,)))))
    assert draw(keys).sharding.spec[0] == "x"
    np.testing.assert_allclose(draw(keys), draw(KEYS), rtol=1e-6)
    same(jnp.where(keys == keys[0, 0], keys, keys), KEYS)
    same(keys.at[0].set(keys[1]), KEYS.at[0].set(KEYS[1]))


def test_inside_shard_map(mesh):
    turn = [(i, (i + 1) % 4) for i in range(4)]

    def local(keys):
        return keys, lax.all_gather(keys, "x", tiled=True), lax.ppermute(keys, "x", turn), random.bits(keys[0, 0], (1,))

    f = xpr.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P(None), P("x"), P("x")), check_vma=False)
    for run in (f, xpr.jit(f)):
        keys, gathered, turned, bits = run(KEYS)
        same(keys, KEYS)
        same(gathered, KEYS)
        same(turned, jnp.roll(KEYS, 2, axis=0))
        np.testing.assert_array_equal(bits, [random.bits(KEYS[i, 0]) for i in (0, 2, 4, 6)])


def test_pmap():
    keys = random.split(random.key(1), 8)
    drawn, split = xpr.pmap(lambda key: (random.uniform(key), random.split(key)))(keys)
    np.testing.assert_allclose(drawn, [random.uniform(key) for key in keys], rtol=1e-6)
    same(split, xpr.vmap(random.split)(keys))


def test_arrays_of_parts(rows):
    keys = xpr.device_put(KEYS, rows)
    same(xpr.make_array_from_callback((8, 2), rows, lambda index: KEYS[index]), KEYS)
    parts = [shard.data for shard in keys.addressable_shards]
    same(xpr.make_array_from_single_device_arrays((8, 2), rows, parts), KEYS)
    same(xpr.make_array_from_process_local_data(rows, KEYS), KEYS)
