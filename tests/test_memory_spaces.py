"""Memory spaces: in types, in shardings, moved between by device_put, and residuals that policies offload."""

import pickle
import re

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import export, lax
from xpr.ad_checkpoint import Offloadable, checkpoint_name
from xpr.backend import array
from xpr.compile.lower import lower_jaxpr
from xpr.core import check_jaxpr, eval_jaxpr, subjaxprs
from xpr.jaxpr import dumps, equal, loads, parse
from xpr.memory import Space
from xpr.passes.host_memory import computed_on_device
from xpr.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

pytestmark = pytest.mark.quick
X = np.arange(4, dtype=np.float32)


def on_host(x):
    return xpr.device_put(x, Space.Host)


def on_device(x):
    return xpr.device_put(x, Space.Device)


def through_host(x):
    return jnp.sin(on_device(on_host(jnp.cos(x))))


@pytest.fixture
def pinned():
    return SingleDeviceSharding(xpr.devices()[0], memory_kind="pinned_host")


def test_an_array_in_host_memory(pinned):
    x = on_host(jnp.asarray(X))
    assert str(xpr.typeof(x)) == "float32<host>[4]" and x.aval.memory_space is Space.Host
    assert x.sharding == pinned and x.sharding.memory_kind == "pinned_host" and x.devices() == {xpr.devices()[0]}
    assert on_host(x) is x and on_device(x).aval is x.aval.plain
    assert x.addressable_shards[0].data.sharding == pinned
    np.testing.assert_array_equal(x, X)
    for y in (x + 1, x[1:], jnp.concatenate([x, x]), x.reshape(2, 2)):
        assert y.aval.memory_space is Space.Host and y.sharding.memory_kind == "pinned_host"
    for y in (xpr.device_put(X, pinned), jnp.ones(4, device=pinned), xpr.jit(lambda x: x * 2)(x)):
        assert y.aval is x.aval and y.sharding == pinned
    assert xpr.device_put(x, xpr.devices()[0]).sharding.memory_kind == "device"


def test_operands_in_different_memories():
    x = jnp.asarray(X)
    message = "add of f32<host>.4., f32.4.: memory_space of all inputs, .* must be the same. Move one"
    with pytest.raises(ValueError, match=message):
        on_host(x) + x
    with pytest.raises(ValueError, match=message):
        xpr.jit(lambda x: on_host(x) + x)(x)
    with pytest.raises(TypeError, match="f32<host>"):
        xpr.lax.scan(lambda c, _: (on_host(c), None), x, None, length=2)


def test_shardings_with_memory_kinds(pinned):
    device = xpr.devices()[0]
    mesh = xpr.make_mesh((1,), ("x",))
    for of_device in (SingleDeviceSharding(device), NamedSharding(mesh, PartitionSpec("x"))):
        host = of_device.with_memory_kind("pinned_host")
        assert of_device.memory_kind == "device" and of_device.with_memory_kind("device") is of_device
        assert host != of_device and hash(host) is not None and host.with_memory_kind("device") == of_device
        assert not host.is_equivalent_to(of_device, 1) and host.is_equivalent_to(host, 1)
        assert pickle.loads(pickle.dumps(host)) == host and "memory_kind=pinned_host" in repr(host)
        x = xpr.device_put(X, host)
        assert x.sharding == host and str(x.aval) == "float32<host>[4]"
        assert xpr.device_put(x, of_device).sharding == of_device
        assert xpr.jit(lambda x: x + 1)(x).sharding.memory_kind == "pinned_host"
        assert xpr.jit(lambda x: x + 1, out_shardings=host)(X).sharding == host
        with pytest.raises(
            ValueError, match="its kinds are device, pinned_host, unpinned_host, and 'hbm' was asked for"
        ):
            of_device.with_memory_kind("hbm")
    assert NamedSharding(mesh, PartitionSpec("x"), memory_kind="device") == NamedSharding(mesh, PartitionSpec("x"))
    unpinned = NamedSharding(mesh, PartitionSpec("x"), memory_kind="unpinned_host")
    assert xpr.device_put(X, unpinned).sharding == unpinned and str(xpr.device_put(X, unpinned).aval) == "float32[4]"
    assert SingleDeviceSharding(device, memory_kind="pinned_host") == pinned
    assert [memory.kind for memory in device.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
    assert device.default_memory().kind == "device" and device.memory("pinned_host").kind == "pinned_host"


def test_unpinned_memory_on_one_device():
    """As in JAX: the type says nothing of it, and results are in the memory of the device."""
    device = xpr.devices()[0]
    unpinned = SingleDeviceSharding(device, memory_kind="unpinned_host")
    for x in (xpr.device_put(X, unpinned), xpr.device_put(jnp.asarray(X), unpinned), jnp.ones(4, device=unpinned)):
        assert x.sharding == unpinned and str(x.aval) == "float32[4]" and xpr.device_put(x, unpinned) is x
        for y in (x + 1, xpr.jit(lambda x: x * 2)(x), xpr.device_put(x, device), x.reshape(2, 2)):
            assert y.sharding == SingleDeviceSharding(device)
        assert xpr.device_put(x, unpinned.with_memory_kind("pinned_host")).sharding.memory_kind == "pinned_host"
    x = xpr.device_put(X, unpinned)
    assert id(x) in array.unpinned
    key = id(x)
    del x
    assert key not in array.unpinned
    x = jnp.asarray(X)
    assert xpr.device_put(x, unpinned) is not x and x.sharding.memory_kind == "device"
    np.testing.assert_array_equal(xpr.device_put(x, unpinned), X)


def test_results_of_jit_in_host_memory(pinned):
    both = xpr.jit(
        lambda x: {"a": x + 1, "b": x * 2}, out_shardings={"a": pinned, "b": pinned.with_memory_kind("device")}
    )
    traced = both.trace(X)
    assert [str(aval) for aval in traced.jaxpr.out_avals] == ["float32<host>[4]", "float32[4]"]
    results = both(X)
    assert results["a"].sharding == pinned and results["b"].sharding.memory_kind == "device"
    assert "device_put" not in both.lower(X).as_text()


def test_programs_with_memory_spaces():
    x = jnp.asarray(X)
    closed = xpr.make_jaxpr(through_host)(x)
    assert "b:f32<host>" not in str(closed) and "c:f32<host>[4] = device_put[device=MemorySpace.Host] b" in str(closed)
    assert equal(parse(str(closed)), closed) and equal(loads(dumps(closed)), closed)
    np.testing.assert_array_equal(xpr.jit(through_host)(x), jnp.sin(jnp.cos(x)))
    rows = xpr.vmap(lambda x: on_host(jnp.sin(x)))(jnp.ones((3, 4)))
    assert str(rows.aval) == "float32<host>[3,4]"
    assert xpr.eval_shape(on_host, x).aval.memory_space is Space.Host
    _, stacked = xpr.jit(lambda x: xpr.lax.scan(lambda c, x: (c, on_host(x)), 0.0, x))(x)
    assert str(stacked.aval) == "float32<host>[4]"
    read = xpr.make_jaxpr(lambda r: on_device(r[...]))(xpr.new_ref(on_host(x)))
    assert str(read.in_avals[0]) == "Ref{float32<host>[4]}"


def test_derivatives_through_host_memory():
    x = jnp.asarray(X)
    expected = xpr.grad(lambda x: jnp.sin(jnp.cos(x)).sum())(x)
    for fun in (xpr.grad(lambda x: through_host(x).sum()), xpr.jit(xpr.grad(lambda x: through_host(x).sum()))):
        np.testing.assert_allclose(fun(x), expected, rtol=1e-6)
    in_host = xpr.grad(lambda x: jnp.sin(x).sum())(on_host(x))
    assert str(in_host.aval) == "float32<host>[4]"
    y, tangent = xpr.jvp(on_host, (x,), (x,))
    assert y.aval is tangent.aval and str(y.aval) == "float32<host>[4]"
    np.testing.assert_allclose(
        xpr.hessian(lambda x: through_host(x).sum())(x), np.diag(_second(X)), rtol=1e-4, atol=1e-6
    )


def _second(x):
    return np.cos(np.cos(x)) * -np.cos(x) - np.sin(np.cos(x)) * np.sin(x) ** 2


def _block(x):
    y = checkpoint_name(jnp.sin(x), "kept")
    z = checkpoint_name(jnp.sin(y @ y), "offloaded")
    return jnp.sin(z.T)


BY_NAME = xpr.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=["kept"], names_which_can_be_offloaded=["offloaded"],
    offload_src="device", offload_dst="pinned_host",
)  # fmt: skip
DOTS = xpr.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")


@pytest.mark.parametrize("policy", [BY_NAME, DOTS])
@pytest.mark.parametrize("scanned", [False, True])
def test_offloaded_residuals(policy, scanned):
    x = jnp.linspace(0.1, 0.9, 9).reshape(3, 3)

    def loss(x, block):
        if not scanned:
            return block(x).sum()
        return xpr.lax.scan(lambda c, _: (block(c), None), x, None, length=2)[0].sum()

    gradient = xpr.grad(lambda x: loss(x, xpr.checkpoint(_block, policy=policy)))
    np.testing.assert_allclose(gradient(x), xpr.grad(lambda x: loss(x, _block))(x), rtol=1e-5)
    np.testing.assert_allclose(xpr.jit(gradient)(x), gradient(x), rtol=1e-5)
    closed = xpr.make_jaxpr(gradient)(x)
    text = str(closed)
    assert text.count("device_put[device=MemorySpace.Host]") == text.count("device_put[device=MemorySpace.Device]") == 1
    assert f"f32<host>[{'2,' * scanned}3,3]" in text and equal(parse(text), closed)


def test_offloading_inside_a_loop_that_is_checkpointed():
    def loop(x):
        return xpr.lax.scan(lambda c, _: (_block(c), None), x, None, length=2)[0].sum()

    x = jnp.linspace(0.1, 0.9, 9).reshape(3, 3)
    gradient = xpr.grad(xpr.checkpoint(loop, policy=BY_NAME))
    np.testing.assert_allclose(gradient(x), xpr.grad(loop)(x), rtol=1e-5)
    assert "f32<host>[2,3,3]" in str(xpr.make_jaxpr(gradient)(x))


def test_policies_that_offload():
    verdict = BY_NAME(xpr.lax.sin_p), DOTS(xpr.lax.sin_p)
    assert not any(verdict)
    assert BY_NAME.to == DOTS.to == Offloadable("device", "pinned_host")
    names = dict(names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"])
    with pytest.raises(ValueError, match="'a' is a name to be saved and one to be offloaded"):
        xpr.checkpoint_policies.save_and_offload_only_these_names(
            **names, offload_src="device", offload_dst="pinned_host"
        )
    with pytest.raises(ValueError, match="and 'disk' was asked for"):
        xpr.checkpoint_policies.offload_dot_with_no_batch_dims("device", "disk")


def _reads_of_host_memory(jaxpr):
    for eqn in jaxpr.eqns:
        if any(v.aval.memory_space is Space.Host for v in eqn.invars):
            yield eqn.primitive.name
        for inner in subjaxprs(eqn):
            yield from _reads_of_host_memory(inner)


@pytest.mark.parametrize("fun", [
    lambda x: 2 * x + x.sum(),
    lambda x: (jnp.sort(x, 0) @ x, x, x[2], x),
    lambda x: jnp.sin(on_device(x[2])),
    lambda x: xpr.jit(lambda x: (x + 1, x))(x),
    lambda x: lax.cond(x[0, 0] > 0, lambda x: x, lambda x: 2 * x, x),
    lambda x: lax.while_loop(lambda c: c[0].sum() < 99, lambda c: (c[0] + x[0].sum(), on_host(c[1])), (x, x)),
    lambda x: lax.scan(lambda c, r: (c + r.sum(), (2 * r, c)), 0.0, x),
    lambda x: lax.scan(lambda c, r: (c + on_device(r), None), jnp.zeros(4), x)[0],
    lambda x: lax.fori_loop(0, 3, lambda i, c: c + on_device(x[i]), jnp.zeros(4)),
    lambda x: lax.custom_linear_solve(lambda y: 3 * y, x, lambda _, b: b / 3),
    xpr.grad(lambda x: lax.scan(lambda c, r: (jnp.tanh(c * on_device(r)), None), jnp.ones(4), x)[0].sum()),
    xpr.grad(xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())),
])  # fmt: skip
def test_programs_for_gpus_compute_in_the_memory_of_the_device(fun):
    x = on_host(jnp.asarray(np.random.RandomState(0).rand(4, 4), jnp.float32))
    closed = xpr.make_jaxpr(fun)(x)
    program = computed_on_device(closed.jaxpr)
    check_jaxpr(program)
    assert program.in_avals == closed.in_avals and program.out_avals == closed.out_avals
    reads = set(_reads_of_host_memory(program))
    assert reads <= {
        "device_put",
        "slice",
        "dynamic_slice",
        "squeeze",
        "reshape",
        "xla_call",
        "checkpoint",
        "scan",
        "while",
    }
    moved = {v for eqn in program.eqns if eqn.primitive.name == "device_put" for v in eqn.outvars}
    for v in program.outvars:
        assert v.aval.memory_space is Space.Device or v in program.invars or v in moved
    for got, expected in zip(eval_jaxpr(program, closed.consts, x), eval_jaxpr(closed.jaxpr, closed.consts, x)):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert computed_on_device(closed.jaxpr) is program


def test_programs_of_device_memory_are_not_rewritten():
    jaxpr = xpr.make_jaxpr(lambda x: jnp.sin(x) @ x)(np.ones((4, 4), np.float32)).jaxpr
    assert computed_on_device(jaxpr) is jaxpr


def test_files_have_the_memory_of_arguments_and_results(tmp_path):
    fun = xpr.jit(lambda x: (on_device(x) + 1, x))
    x = on_host(X)
    exported = export.deserialize(export.export(fun)(x).serialize())
    fun.lower(x).compile().save(tmp_path / "program")
    for again in (exported.call, xpr.load_compiled(tmp_path / "program")):
        one, same = again(x)
        assert xpr.typeof(one) is xpr.typeof(x).plain and xpr.typeof(same) is xpr.typeof(x)
        np.testing.assert_array_equal(one, X + 1)


def test_programs_for_gpus_say_where_values_are():
    """Arguments, results and what is between; XLA:CPU has one memory."""

    def there_and_back(x):
        return xpr.device_put(xpr.device_put(2 * x, Space.Host), Space.Device) + 1

    def placements(fun, platform, x=X):
        text = lower_jaxpr(xpr.make_jaxpr(fun)(x).jaxpr, platform).text()
        between = re.findall(r'"annotate_device_placement".*_xla_buffer_placement = "(\w+)"', text)
        return between, re.findall(r'mhlo.memory_kind = "(\w+)"', text.partition("\n")[2].partition("\n")[0])

    assert placements(there_and_back, "gpu") == (["pinned_host", "device"], [])
    assert placements(on_host, "gpu") == (["pinned_host"], ["pinned_host"])
    assert placements(on_device, "gpu", on_host(X)) == (["device"], ["pinned_host"])
    assert placements(lambda x: x, "gpu", on_host(X)) == ([], ["pinned_host", "pinned_host"])
    assert placements(lambda x: 2 * x, "gpu", on_host(X)) == (["device", "pinned_host"], ["pinned_host"] * 2)
    assert placements(there_and_back, "cpu") == placements(on_host, "cpu") == ([], [])
