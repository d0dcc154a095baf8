"""Refs on eight devices: in shard_map, and with shardings."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from xpr import lax
from xpr.errors import RefError
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P


@pytest.fixture
def mesh():
    return xpr.make_mesh((8,), ("x",))


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_shard_map_of_refs(mesh, wrap):
    def f(part, total, factor):
        part[...] = part[...] * factor
        total[...] += lax.psum(part[...].sum(), "x")
        return part[...].sum()[None]

    mapped = xpr.shard_map(f, mesh=mesh, in_specs=(P("x"), P(), P()), out_specs=P("x"))
    parts, total = xpr.new_ref(jnp.arange(16.0)), xpr.new_ref(0.0)
    close(wrap(mapped)(parts, total, 2.0), 2 * np.arange(16, dtype=np.float32).reshape(8, 2).sum(1))
    close((parts[...], total[...]), (2 * np.arange(16, dtype=np.float32), np.float32(240)))

    def loss(factor):
        own = xpr.new_ref(jnp.ones(16))
        mapped(own, xpr.new_ref(0.0), factor)
        return own[...].sum()

    close(wrap(xpr.grad(loss))(3.0), np.float32(16))


def test_what_shard_map_refuses(mesh):
    ref, other = xpr.new_ref(jnp.arange(8.0)), xpr.new_ref(0.0)

    def map_of(f, *specs):
        return xpr.shard_map(f, mesh=mesh, in_specs=specs, out_specs=P())

    with pytest.raises(ValueError, match="writes to s may differ between the devices along 'x'"):
        map_of(lambda r, s: s.set(r[0]), P("x"), P())(ref, other)
    with pytest.raises(RefError, match="closes over a Ref, which all devices would share"):
        map_of(lambda r: r.set(other[...]), P("x"))(ref)
    with pytest.raises(RefError, match="shard_map: only one reference .* appeared at both r and s"):
        map_of(lambda r, s: None, P("x"), P("x"))(ref, ref)


def test_shardings_persist(mesh):
    sharding = NamedSharding(mesh, P("x"))
    ref = xpr.new_ref(xpr.device_put(jnp.arange(8.0), sharding))
    closing = xpr.jit(lambda: ref.addupdate(1.0))
    taking = xpr.jit(lambda ref: (ref.addupdate(1.0), ref[0])[1])
    for _ in range(2):
        closing()
        taking(ref)
    assert ref.sharding == sharding and ref[...].sharding == sharding and ref.committed
    close(ref[...], np.arange(8, dtype=np.float32) + 4)
