"""What each of several processes runs: `python -m tests.processes.cases NAME`, with the variables that launch sets."""

import os
import re
import signal
import sys
import time
from contextlib import contextmanager

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import lax, multihost_utils
from xpr.backend import process_group, shards
from xpr.errors import MissingProcess, NotAddressableError, ProcessLost, ProgramMismatch, UnsupportedRule
from xpr.sharding import AxisType, Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

HEARTBEAT = 4


@contextmanager
def raises(kind, *parts):
    """Expects an exception of this very type whose message has these parts, in order."""
    try:
        yield
    except Exception as error:
        pattern = ".*".join(map(re.escape, parts))
        assert type(error) is kind and re.search(pattern, str(error), re.S), f"{type(error)}: {error}"
    else:
        raise AssertionError(f"nothing was raised, and {kind.__name__} was expected: {parts}")


def joined(**options):
    defaults = {
        "initialization_timeout": 30,
        "heartbeat_timeout_seconds": HEARTBEAT,
        "shutdown_timeout_seconds": 20,
    }
    xpr.distributed.initialize(**{**defaults, **options})
    return xpr.process_index(), xpr.process_count()


def line(spec=None):
    mesh = xpr.make_mesh((xpr.device_count(),), ("x",))
    return NamedSharding(mesh, P("x") if spec is None else spec)


def same(x, expected):
    np.testing.assert_array_equal(multihost_utils.process_allgather(x, tiled=True), expected)


# -- What works


def arrays():
    """Two processes with two devices each."""
    with raises(RuntimeError, "distributed.initialize was not called"):
        xpr.distributed.shutdown()
    i, n = joined()
    assert xpr.distributed.is_initialized() and (n, xpr.device_count(), xpr.local_device_count()) == (2, 4, 2)
    assert [d.process_index for d in xpr.devices()] == [0, 0, 1, 1]
    assert xpr.local_devices() == xpr.devices()[2 * i : 2 * i + 2] == xpr.local_devices(process_index=i)
    with raises(RuntimeError, "distributed.initialize was called before"):
        xpr.distributed.initialize()
    with raises(ValueError, "There is no process 7; the processes are [0, 1]"):
        xpr.local_devices(process_index=7)

    whole = np.arange(16, dtype=np.float32).reshape(8, 2)
    x = xpr.device_put({"a": whole}, line())["a"]
    assert not x.is_fully_addressable and [s.device for s in x.addressable_shards] == xpr.local_devices()
    assert [s.data is None for s in x.global_shards] == [d.process_index != i for d in xpr.devices()]
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, whole[shard.index])
    doubled = x * 2
    seen, own = [], NamedSharding(Mesh(xpr.local_devices(), "x"), P("x"))
    xpr.jit(lambda x: (xpr.debug.callback(lambda y: seen.append(float(y)), x.sum()), x)[1])(xpr.device_put(whole, own))
    assert seen == [120.0]
    assert repr(doubled) == str(doubled) and repr(doubled).startswith("Array(shape=(8, 2), dtype=float32, sharding=")
    for read in [np.asarray, lambda x: x.tolist(), lambda x: xpr.device_put(x, xpr.local_devices()[0])]:
        with raises(
            NotAddressableError, "f32[8,2] is not all here", "P('x',)", "processes 0 and 1", "process_allgather"
        ):
            read(doubled)
    same(doubled, 2 * whole)
    everywhere = xpr.device_put(x, line(P()))
    np.testing.assert_array_equal(everywhere, whole)

    calls = []
    made = xpr.make_array_from_callback((8, 2), line(), lambda index: calls.append(index) or whole[index])
    assert len(calls) == 2
    same(made, whole)
    rows = np.arange(4) + 4 * i
    same(xpr.make_array_from_process_local_data(line(), whole[rows]), whole)
    same(xpr.make_array_from_process_local_data(line(), whole, (8, 2)), whole)
    square = NamedSharding(xpr.make_mesh((2, 2), ("x", "y")), P("y", "x"))
    same(xpr.make_array_from_process_local_data(square, whole[:, i : i + 1]), whole)
    parts = [whole[2 * k : 2 * k + 2] for k in (2 * i, 2 * i + 1)]
    same(xpr.make_array_from_single_device_arrays((8, 2), line(), parts), whole)
    with raises(ValueError, "local_data has shape (3, 2)", "the devices of this process hold (4, 2)"):
        xpr.make_array_from_process_local_data(line(), whole[:3], (8, 2))
    with raises(ValueError, "global_shape=(8,) has 1 axes, and local_data 2"):
        xpr.make_array_from_process_local_data(line(), whole, (8,))
    with raises(ValueError, "device_put: x['w'] is not the same in process 1 as in process 0"):
        xpr.device_put({"v": whole, "w": whole + i}, line())
    with raises(ValueError, f"is a device of process {1 - i}, and this is process {i}"):
        xpr.device_put(1.0, xpr.local_devices(process_index=1 - i)[0])

    crossed = Mesh(np.array(xpr.devices())[[[0, 2], [3, 1]]], ("x", "y"))
    with raises(ValueError, "The devices of this process fill no grid in Mesh('x': 2, 'y': 2): ["):
        _ = crossed.local_mesh
    rows_here = NamedSharding(xpr.make_mesh((2, 2), ("process", "device")), P("device"))
    y = xpr.device_put(whole, rows_here) * 2  # each process has all of it
    np.testing.assert_array_equal(y, whole * 2)
    assert not y.is_fully_addressable and not y.is_fully_replicated and "2" in repr(y)
    if i:
        elsewhere = NamedSharding(Mesh(xpr.devices()[:2], "x"), P("x"))
        for make in [
            lambda: xpr.device_put(whole, elsewhere),
            lambda: xpr.make_array_from_callback((8, 2), elsewhere, lambda index: whole[index]),
            lambda: xpr.make_array_from_process_local_data(elsewhere, whole),
            lambda: xpr.jit(jnp.sum, in_shardings=elsewhere)(whole),
        ]:
            with raises(ValueError, "No device of Mesh('x': 2) belongs to this process: they are those of process 0"):
                make()
        with raises(ValueError, "a device of process 0, and this is process 1. A program on one device runs in"):
            xpr.jit(jnp.sum, device=xpr.devices()[0])(whole)

    @xpr.jit
    def step(w, x):
        return w - 0.1 * xpr.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

    w = np.ones(2, np.float32)
    expected = w - 0.1 * 2 / 8 * whole.T @ (whole @ w)
    for _ in range(2):
        np.testing.assert_allclose(step(w, x), expected, rtol=1e-5)
    assert xpr.jit(lambda x: x + 1, out_shardings=line(P()))(x).is_fully_replicated

    def mean(x):
        return lax.pmean(jnp.mean(x), "x")

    mapped = xpr.shard_map(mean, mesh=line().mesh, in_specs=P("x"), out_specs=P())
    assert float(mapped(x)) == whole.mean()
    same(xpr.grad(lambda x: mapped(x * x))(x), whole / 8)

    own = jnp.arange(3.0) + i  # nothing to do with the others
    np.testing.assert_array_equal(xpr.jit(lambda x: x * 2)(own), 2 * np.arange(3) + 2 * i)
    assert own.is_fully_addressable and own.device == xpr.local_devices()[0]


def current_mesh():
    """Inside of set_mesh new arrays and results are on the devices of both processes, which have two each."""
    i, n = joined()
    mesh, whole = xpr.make_mesh((4,), ("x",), (AxisType.Explicit,)), np.arange(16, dtype=np.float32).reshape(8, 2)
    with xpr.set_mesh(mesh):
        key = xpr.random.key(0)
        for made in (jnp.ones((8, 2)), jnp.asarray(whole), jnp.arange(4), whole @ whole.T, key, xpr.random.normal(key)):
            made = jnp.asarray(made)
            assert made.sharding.mesh is mesh and made.is_fully_replicated and len(made.addressable_shards) == 2
        np.testing.assert_array_equal(jnp.asarray(whole) * 2 + whole, 3 * whole)
        rows = xpr.device_put(whole, P("x"))
        step = xpr.jit(xpr.value_and_grad(lambda w, x: jnp.sum((x @ w) ** 2)))
        loss, gradient = step(jnp.ones(2), rows)
        np.testing.assert_allclose(loss, (whole.sum(1) ** 2).sum())
        np.testing.assert_allclose(gradient, 2 * whole.T @ whole.sum(1))
        own = xpr.device_put(whole)
        assert own.devices() == {xpr.local_devices()[0]} and not own.committed
    assert jnp.ones(2).devices() == {xpr.local_devices()[0]}


def callbacks():
    """Two processes with two devices each."""
    i, _ = joined()
    mesh, whole = line().mesh, np.arange(8, dtype=np.float32)
    x = xpr.device_put(whole, line())
    seen = []

    def see(y):
        seen.append(np.asarray(y).tolist())

    # In a shard_map each device calls with its part; in order on each device.
    def body(x):
        xpr.debug.callback(see, x, ordered=True)
        total = lax.psum(x.sum(), "x")
        xpr.debug.callback(see, total + lax.axis_index("x"), ordered=True)
        doubled = xpr.pure_callback(lambda y: y * 2, x, x)
        return doubled, total

    mapped = xpr.jit(xpr.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P())))
    for _ in range(3):
        seen.clear()
        doubled, total = mapped(x)
        same(doubled, 2 * whole)
        assert float(total) == 28
        for k in (2 * i, 2 * i + 1):
            assert seen.index(whole[2 * k : 2 * k + 2].tolist()) < seen.index(28 + k)
        assert len(seen) == 4
        assert float(jnp.sum(x)) == 28  # by the client without callbacks, in between

    # Elsewhere the first device calls, with the whole, and all have the result.
    @xpr.jit
    def scaled(x):
        xpr.io_callback(see, None, x, ordered=True)
        factor = xpr.pure_callback(lambda y: np.float32(y + i), np.float32(0), x.sum())
        xpr.debug.callback(see, factor, ordered=True)
        xpr.debug.print("the sum is {}", x.sum())
        return x * factor

    seen.clear()
    same(scaled(x), 28 * whole)
    assert seen == ([] if i else [whole.tolist(), 28])

    def steps(x, counter):
        def step(carry, n):
            xpr.debug.callback(see, n + 10 * lax.axis_index("x"), ordered=True)
            return lax.psum(carry, "x") / 4, None

        return lax.scan(step, x, counter)[0]

    seen.clear()
    xpr.jit(xpr.shard_map(steps, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x")))(x, np.arange(3))
    assert sorted(seen) == [10 * k + n for k in (2 * i, 2 * i + 1) for n in range(3)] and len(seen) == 6
    assert [n for n in seen if n // 10 == 2 * i] == [20 * i + n for n in range(3)]

    # A callback may run programs, of this process alone and of all.
    def within(y):
        see(xpr.jit(lambda y: y + 1)(np.asarray(y)))
        return np.float32(xpr.jit(lambda y: y.sum() * 2)(y))

    seen.clear()
    nested = xpr.jit(
        xpr.shard_map(
            lambda x: lax.psum(xpr.pure_callback(within, np.float32(0), x), "x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
        )
    )
    assert float(nested(x)) == 56 and sorted(seen) == (whole.reshape(4, 2) + 1).tolist()[2 * i : 2 * i + 2]

    # What one raises is raised in all, and these can go on.
    def fails(y):
        if float(y[0]) == 4:
            raise ValueError("four")
        return y

    failing = xpr.jit(
        xpr.shard_map(lambda x: xpr.pure_callback(fails, x, x), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    )
    for _ in range(2):
        try:
            failing(x)
        except xpr.errors.CallbackError as error:
            message = str(error)
        assert "ValueError: four" in message
        if i == 0:
            assert "A callback of <lambda>, called at cases.py:" in message
            assert "raised in process 1, so that the program has no results in any process.\n  process 1  V" in message
    same(failing(x + 8), whole + 8)
    same(mapped(x)[0], 2 * whole)


def together():
    """Process 0 is asked by strangers before process 1 comes."""
    i, _ = joined()
    assert float(jnp.sum(xpr.device_put(np.arange(4.0), line()))) == 6


def pmaps():
    """Two processes with two devices each."""
    early = xpr.pmap(lambda x: lax.psum(x, "r"), "r")  # made before the processes have found each other
    i, _ = joined()
    np.testing.assert_array_equal(early(np.ones(2)), [4, 4])
    f = xpr.pmap(
        lambda x, w: (w * x, lax.psum(x, "r"), lax.axis_index("r")), "r", in_axes=(0, None), out_axes=(0, None, 0)
    )
    x = np.arange(2.0) + 2 * i
    for _ in range(2):
        y, total, number = f(x, 3.0)
        np.testing.assert_array_equal(y, 3 * x)
        assert float(total) == 6 and y.is_fully_addressable and y.shape == (2,)
        np.testing.assert_array_equal(number, x)
    np.testing.assert_array_equal(f(y, 1.0)[1], 18)
    np.testing.assert_array_equal(xpr.pmap(lambda x: x + 1)(x), x + 1)
    np.testing.assert_array_equal(xpr.pmap(lambda x, k: x + k, static_broadcasted_argnums=1)(x, 2), x + 2)
    np.testing.assert_array_equal(
        xpr.pmap(lambda x: lax.psum(x, "r"), "r", devices=xpr.local_devices())(x), [x.sum()] * 2
    )
    y, total, number = xpr.jit(f)(x, 3.0)
    np.testing.assert_array_equal(y, 3 * x)
    np.testing.assert_array_equal(number, x)
    assert float(total) == 6 and y.is_fully_addressable and y.shape == (2,)
    with raises(ValueError, "is mapped over 4 rows of this process, which has 2 of the 4 devices"):
        f(np.ones(4), 3.0)


def traced_pmaps():
    """Two processes with two devices each: a pmap in jit, grad, vmap, scan, and lowered, as vmap of the rows of all."""
    i, _ = joined()
    own = slice(2 * i, 2 * i + 2)
    rows = np.arange(12.0, dtype=np.float32).reshape(4, 3) / 4
    w = np.float32([1.0, 2.0, -1.0])

    def fun(x, w):
        y = jnp.sin(x * w)
        return y / (3 + lax.psum(y * y, "r")), lax.all_gather(y.sum(), "r"), lax.axis_index("r") + lax.axis_size("r")

    f = xpr.pmap(fun, "r", in_axes=(0, None))
    of_all = xpr.vmap(fun, (0, None), axis_name="r")

    def check(found, expected):
        for a, b in zip(xpr.tree.leaves(found), xpr.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)

    def of_own(tree):
        return xpr.tree.map(lambda x: np.asarray(x)[own], tree)

    expected = of_own(of_all(rows, w))
    for call in (f, xpr.jit(f), xpr.jit(lambda *args: xpr.jit(f)(*args))):
        for args in [(rows[own], w), (f(rows[own], w)[0] * 0 + rows[own], jnp.asarray(w))]:
            check(call(*args), expected)
    with xpr.disable_jit():
        check(f(rows[own], w), expected)

    # What surrounds the pmap is of each process by itself.
    around = xpr.jit(lambda x, w: (jnp.sum(f(2 * x, w)[0], 0), x.T, jnp.float32(3)))(rows[own], w)
    check(around, (np.asarray(of_all(2 * rows, w)[0])[own].sum(0), rows[own].T, 3.0))
    cached = []
    check(xpr.jit(lambda x: f(x, w)[0] + (cached.append(1) or 0))(rows[own]), expected[0])
    _, carried = xpr.jit(lambda x: lax.scan(lambda c, _: (f(c, w)[0], f(c, w)[1]), x, None, 3))(rows[own])
    step = of_all(of_all(rows, w)[0], w)[1]
    check(carried[1], of_own(step))
    check(xpr.vmap(lambda x: f(x, w)[0])(np.stack([rows[own], 2 * rows[own]])),
          np.stack([expected[0], of_own(of_all(2 * rows, w))[0]]))  # fmt: skip

    # Derivatives are those of the sum over the processes of what each differentiates.
    def loss_of(f):
        return lambda x, w: jnp.sum(f(x, w)[0] ** 2) + jnp.sum(f(x, w)[1])

    to_rows = xpr.grad(loss_of(of_all))(rows, w)
    for grad in (xpr.grad(loss_of(f)), xpr.jit(xpr.grad(loss_of(f)))):
        check(grad(rows[own], w), of_own(to_rows))
    of_each = xpr.vmap(fun, (0, 0), axis_name="r")
    to_each_w = xpr.grad(loss_of(of_each), 1)(rows, np.stack([w] * 4))
    check(xpr.grad(loss_of(f), 1)(rows[own], w), np.asarray(to_each_w)[own].sum(0))
    tangents = xpr.jvp(f, (rows[own], w), (rows[own], 2 * w))[1]
    check(tangents[:2], of_own(xpr.jvp(of_all, (rows, w), (rows, 2 * w))[1])[:2])
    total = xpr.pmap(lambda x: lax.psum(x, "r"), "r", out_axes=None)
    check(xpr.grad(lambda x: total(x)[0] * (i + 1))(rows[own]), np.float32([[3, 0, 0]] * 2))

    # Lowered, compiled, its types.
    lowered = f.lower(rows[own], w)
    assert "all_reduce" in lowered.as_text() and "replica_groups = dense<[[0, 1, 2, 3]]>" in lowered.as_text()
    compiled = lowered.compile()
    for _ in range(2):
        check(compiled(rows[own], w), expected)
    assert [each.kind for each in compiled.collectives()] == ["all-reduce", "all-gather"]
    assert xpr.eval_shape(f, rows[own], w)[0].shape == (2, 3)
    jaxpr = xpr.make_jaxpr(f)(rows[own], w)
    assert "axis_size=2" in str(jaxpr) and "global_axis_size=4" in str(jaxpr)
    assert str(xpr.jaxpr.parse(str(jaxpr))) == str(jaxpr)

    # Keys, callbacks, effects, donation, devices in another order.
    keys = xpr.random.split(xpr.random.key(0), 4)
    drawn = xpr.jit(xpr.pmap(lambda key: xpr.random.normal(key, (2,))))(keys[own])
    check(drawn, xpr.vmap(lambda key: xpr.random.normal(key, (2,)))(keys)[own])
    seen = []
    shown = xpr.pmap(
        lambda x: (xpr.debug.callback(lambda n, v: seen.append((int(n), v.tolist())), lax.axis_index("r"), x), x)[1],
        "r",
    )
    xpr.jit(lambda x: (xpr.debug.callback(lambda v: seen.append(v.tolist()), x.sum()), shown(x))[1])(rows[own])
    xpr.effects_barrier()
    assert sorted(map(str, seen)) == sorted(
        map(str, [*[(k, rows[k].tolist()) for k in (2 * i, 2 * i + 1)], float(rows[own].sum())])
    )
    given = xpr.pmap(lambda x: x)(rows[own])
    twice = xpr.pmap(lambda x: 2 * x, donate_argnums=0)
    check(xpr.jit(lambda x: x)(given), rows[own])
    check(twice(given), 2 * rows[own])
    assert given.is_deleted()
    a, b, c, d = xpr.devices()
    turned = xpr.pmap(
        lambda x: (lax.axis_index("r"), lax.ppermute(x, "r", [(0, 1), (1, 2)])), "r", devices=[c, a, d, b]
    )
    position = [1, 3] if i == 0 else [0, 2]
    for call in (turned, xpr.jit(turned)):
        index, moved = call(np.float32(position))
        check((index, moved), (np.array(position), np.float32([{0: 0, 1: 0, 2: 1, 3: 0}[k] for k in position])))

    # What can't be.
    uneven = xpr.pmap(lambda x: x, devices=[a, b, c])
    with raises(ValueError, "process 0 has 2, process 1 has 1. Name as many of each, or use shard_map"):
        uneven(np.ones(2 - i))
    with raises(UnsupportedRule, "pmap: <lambda> runs on devices of several processes", "in another pmap or shard_map"):
        xpr.pmap(lambda x: xpr.pmap(lambda y: y)(x))(np.ones((2, 2)))
    with raises(
        ValueError, "jit: <lambda> at cases.py", "pmap over devices of several processes", "leave in_shardings"
    ):
        xpr.jit(lambda x: f(x, w), in_shardings=line(P()))(rows[own])
    with raises(NotImplementedError, "a pmap over devices of several processes", "can't be exported"):
        xpr.export.export(xpr.jit(f))(rows[own], w)
    with raises(NotImplementedError, "pmap: fun has rows in other processes"):
        xpr.jit(f, backend="reference")(rows[own], w)
    with raises(NotAddressableError, "f32[4,3] is not all here"):
        xpr.jit(lambda x: (f(rows[own], w), x))(xpr.device_put(rows, line()) * 2)


def utilities():
    """Four processes with one device each."""
    i, n = joined()
    gathered = multihost_utils.process_allgather({"a": np.arange(2.0) + i, "b": i})
    np.testing.assert_array_equal(gathered["a"], np.arange(2.0) + np.arange(n)[:, None])
    np.testing.assert_array_equal(gathered["b"], np.arange(n))
    tiled = multihost_utils.process_allgather([np.full((1, 2), i), i], tiled=True)
    np.testing.assert_array_equal(tiled[0], np.arange(n)[:, None] * np.ones(2))
    np.testing.assert_array_equal(tiled[1], np.arange(n))
    x = xpr.make_array_from_process_local_data(line(), np.ones((1, 2)))
    with raises(ProgramMismatch, "process 0  double, called", "process 1  double, called", "dense<0.0>", "dense<1.0>"):
        xpr.jit(named(lambda x: x * float(i), "double"))(x)
    whole = multihost_utils.host_local_array_to_global_array(
        {"a": np.full((1, 2), i), "b": np.ones(3)}, line().mesh, {"a": line().spec, "b": P()}
    )
    assert whole["a"].shape == (n, 2) and whole["a"].sharding == line() and whole["b"].is_fully_replicated
    np.testing.assert_array_equal(multihost_utils.process_allgather(whole["a"], tiled=True)[:, 0], np.arange(n))
    part = multihost_utils.global_array_to_host_local_array(whole, line().mesh, {"a": line().spec, "b": P()})
    assert part["a"].is_fully_addressable and part["a"].shape == (1, 2) and int(part["a"][0, 0]) == i
    np.testing.assert_array_equal(part["b"], np.ones(3))
    assert multihost_utils.host_local_array_to_global_array(whole["a"], line().mesh, P()) is whole["a"]
    with raises(ValueError, "host_local_array_to_global_array: pspecs has None for an array"):
        multihost_utils.host_local_array_to_global_array(np.ones(2), line().mesh, None)
    with raises(ValueError, "process_allgather: an array of type f32[4,2]", "tiled=True"):
        multihost_utils.process_allgather(x)

    for source in (None, i == 2):
        number = 0 if source is None else 2
        values = {
            "f": np.array([-0.0, np.nan, i], np.float32),
            "b": i == number,
            "k": np.uint8([i] * 3),
            "e": np.zeros(0),
        }
        given = multihost_utils.broadcast_one_to_all(values, source)
        assert given["f"].tobytes() == np.array([-0.0, np.nan, number], np.float32).tobytes()
        assert given["b"] and given["k"].tolist() == [number] * 3 and given["e"].shape == (0,)
    with raises(ValueError, "is_source is true in processes 1, 2 and 3"):
        multihost_utils.broadcast_one_to_all(1, is_source=i > 0)
    with raises(ValueError, "is_source is true in none"):
        multihost_utils.broadcast_one_to_all(1, is_source=False)
    with raises(ValueError, "the types differ", "process 0  x['a']: f32[1]", "process 3  x['a']: f32[2]"):
        multihost_utils.broadcast_one_to_all({"a": np.ones(1 + (i == 3))})

    multihost_utils.sync_global_devices("one")
    with raises(ProgramMismatch, "different points", "sync_global_devices('of", "sync_global_devices('of"):
        multihost_utils.sync_global_devices(f"of {i % 2}")
    multihost_utils.assert_equal({"w": np.ones(3), "n": 3})
    with raises(
        AssertionError, "The settings:\n", "x['n'] differs in process 2\n", "process 0  i32[] 3\n",
        "process 2  i32[] 4", "x['w'][1] differs in processes 1 and 3\n", "process 0  f32[3] [0.0, 0.0, 0.0]\n",
        "process 3  f32[3] [1.0, ",
    ):  # fmt: skip
        multihost_utils.assert_equal({"n": 3 + (i == 2), "w": [0, np.ones(3) * (i % 2)], "same": 1}, "The settings:")
    with raises(AssertionError, "x['b'] differs in process 3\n", "process 0  not there"):
        multihost_utils.assert_equal({"a": 1, **({"b": 2} if i == 3 else {})})

    pair = Mesh(xpr.devices()[1:3], "x")  # programs of some of the processes
    if i in (1, 2):
        part = xpr.device_put(np.arange(4.0), NamedSharding(pair, P("x")))
        assert float(xpr.jit(jnp.sum)(part)) == 6
    assert float(jnp.sum(x)) == 8


def preempted():
    """The second of two processes is told to end; both stop at the same step."""
    i, _ = joined()
    for step in range(200):
        if multihost_utils.reached_preemption_sync_point(step):
            break
        if i == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        multihost_utils.sync_global_devices(f"step {step}")
        time.sleep(0.05)
    assert 3 < step < 199
    multihost_utils.assert_equal(step)


def programs():
    """Two processes that run different programs; each time both learn of it, and can go on."""
    i, _ = joined()
    x = xpr.device_put(np.arange(4.0), line())
    if i:

        def loss(x):
            return jnp.sum(x * 2)
    else:

        def loss(x):
            return jnp.sum(x * 3)

    with raises(
        ProgramMismatch, "different programs as number 1 of those", "process 0  loss, called at cases.py:",
        "process 1  loss, called at cases.py:", "of their texts is the first to differ", "process 0  ", "dense<3.0>",
        "process 1  ", "dense<2.0>", "Every process has to run the same programs in the same order",
    ):  # fmt: skip
        xpr.jit(loss)(x)
    with raises(ProgramMismatch, "process 0  one", "process 1  other"):
        xpr.jit(named(lambda x: x[::-1] + 1, "other" if i else "one"))(x)
    f, g = xpr.jit(lambda x: jnp.sum(x + 1)), xpr.jit(lambda x: jnp.max(x))
    assert float(f(x)) == 10 and float(g(x)) == 3  # all have run, and then in another order
    with raises(ProgramMismatch, "different programs as number 3 of those"):
        (f if i else g)(x)
    (f if i else (lambda x: x))(np.ones(3))  # what concerns no other process is no difference
    assert float(f(x)) == 10


def named(fun, name):
    fun.__name__ = name
    return fun


# -- What goes wrong


def not_together():
    """Process 1 waits in a program that always followed, where process 0 begins another one."""
    i, _ = joined()
    f, g = xpr.jit(named(lambda x: jnp.sum(x + 1), "train")), xpr.jit(named(jnp.max, "test"))
    x = xpr.device_put(np.arange(4.0), line())
    for _ in range(3):
        f(x)
    start = time.monotonic()
    with raises(ProgramMismatch, "as number 4 of those", "process 0  test, called at", "process 1  train, called at"):
        (f if i else g)(x)
    assert time.monotonic() - start < 3 * HEARTBEAT
    with raises(ProgramMismatch, "as number 4 of those"):
        f(x)


def ends_early():
    """Process 1 ends before a program that process 0 waits in; and before one that it begins after that."""
    i, _ = joined()
    f = xpr.jit(named(jnp.sum, "train"))
    x = xpr.device_put(np.arange(4.0), line())
    for _ in range(3):
        f(x)
    if i:
        time.sleep(0.5)
        print("done")
        sys.exit()
    with raises(
        ProgramMismatch, "Process 1 has come to the end of its script", "number 4", "train, called at cases.py"
    ):
        f(x)


def ends_first():
    i, _ = joined()
    x = xpr.device_put(np.arange(4.0), line())
    xpr.jit(jnp.sum)(x)
    if i:
        print("done")
        sys.exit()
    time.sleep(1)
    with raises(
        ProcessLost, "Process 1 of 2 is gone, and test, called at cases.py", "it has come to the end of its script"
    ):
        xpr.jit(named(jnp.max, "test"))(x)
    with raises(ProcessLost, "Process 1 of 2 is gone, and sync_global_devices('end') needs it"):
        multihost_utils.sync_global_devices("end")


def killed():
    """Process 1 of three is killed while the others wait in a program; which go on by themselves."""
    survive(1)


def coordinator_killed():
    survive(0)


def survive(victim):
    i, _ = joined()
    f = xpr.jit(named(jnp.sum, "train"))
    x = xpr.device_put(np.arange(6.0), line())
    own = xpr.device_put(np.arange(6.0), NamedSharding(Mesh(xpr.local_devices(), "x"), P("x")))
    for _ in range(3):
        f(x)
    f(own)
    if i == victim:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    with raises(
        ProcessLost, f"Process {victim} of 3 is gone, and train, called at cases.py", f"process {victim}  it was killed"
    ):
        f(x)
    with raises(ProcessLost, f"Process {victim} of 3 is gone", "No program runs on several processes any more"):
        f(x)
    assert time.monotonic() - start < HEARTBEAT
    np.testing.assert_array_equal(jnp.ones((400, 400)) @ jnp.ones((400, 400)), 400)
    np.testing.assert_array_equal(xpr.jit(lambda x: x + 1)(own), np.arange(6) + 1)
    with raises(ProcessLost, f"Process {victim} of 3 is gone, and train, whose devices exchange data, needs it"):
        f(own)
    with raises(NotAddressableError, "is not all here"):
        np.asarray(xpr.make_array_from_callback((6,), line(), lambda index: np.arange(6.0)[index]))
    time.sleep(2)  # for XLA's threads to notice, which by themselves would end this process
    with raises(ProcessLost, f"Process {victim} of 3 is gone"):
        multihost_utils.sync_global_devices("on")


def killed_at_first():
    """Process 0 dies where XLA's threads look for each other, and it has their addresses."""
    i, _ = joined()
    if i == 0:
        shards.PartitionedExecutable._run_with_others = lambda *_: os._exit(1)
    x = xpr.device_put(np.arange(4.0), line())
    start = time.monotonic()
    with raises(ProcessLost, "Process 0 of 2 is gone, and sum, called at"):
        xpr.jit(jnp.sum)(x)
    assert time.monotonic() - start < 2 * HEARTBEAT


def killed_while_joining():
    """Process 1 dies when all have come, and before XLA's own runtime has connected them."""
    if os.environ["XPR_PROCESS_ID"] == "1":
        process_group.ProcessGroup._connect = lambda *_: os._exit(1)
    with raises(ProcessLost, "Process 1 of 2 is gone"):
        joined()
    assert not xpr.distributed.is_initialized()


def raised():
    """Process 1 raises, which it tells the others."""
    i, _ = joined()
    x = xpr.device_put(np.arange(4.0), line())
    xpr.jit(jnp.sum)(x)
    if i:
        raise ValueError("no such file")
    with raises(ProcessLost, "Process 1 of 2 is gone", "process 1  it ended with ValueError: no such file"):
        xpr.jit(jnp.max)(x)


def cut_off():
    """The network between the two goes away."""
    i, _ = joined()
    f = xpr.jit(named(jnp.sum, "train"))
    x = xpr.device_put(np.arange(4.0), line())
    f(x)
    print("together", flush=True)
    with raises(ProcessLost, f"Process {1 - i} of 2 is gone, and train", f"it has not answered for {HEARTBEAT} s"):
        while True:
            f(x)
            last = time.monotonic()
            time.sleep(0.02)
    assert time.monotonic() - last < HEARTBEAT + 2


def missing():
    with raises(
        MissingProcess, "process 2 did not come within 2 s", f"This is process {os.environ['XPR_PROCESS_ID']} of 3"
    ):
        joined(initialization_timeout=2)


def alone():
    with raises(MissingProcess, "process 0 did not come within 1 s: nobody answers at 127.0.0.1:"):
        joined(initialization_timeout=1)


def disagreeing():
    with raises(MissingProcess, os.environ["SAID"]):
        joined(initialization_timeout=10)


def not_used():
    """Process 1 never asks for its devices."""
    if os.environ["XPR_PROCESS_ID"] == "1":
        xpr.distributed.initialize()
        time.sleep(4)
    else:
        with raises(MissingProcess, "use of the CPU: process 1 of 2 did not come to it within 2 s"):
            joined(initialization_timeout=2)


def after_shutdown():
    joined()
    f = xpr.jit(jnp.sum)
    x = xpr.device_put(np.arange(4.0), line())
    f(x)
    xpr.distributed.shutdown()
    assert not xpr.distributed.is_initialized()
    with raises(
        ProcessLost, "sum, called at cases.py", "devices of processes 0 and 1, and distributed.shutdown() was called"
    ):
        f(x)
    with raises(RuntimeError, "distributed.initialize comes too late", "on the CPU"):
        joined()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done")
