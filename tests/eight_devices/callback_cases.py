"""Callbacks in programs on eight devices: who calls, with what; errors; beside jax."""

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from xpr import lax
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

X = floats(8, 4)


@pytest.fixture
def mesh():
    return xpr.make_mesh((4, 2), ("x", "y"))


def sharded(mesh, *spec):
    return xpr.device_put(X, NamedSharding(mesh, P(*spec)))


def host_sin(x, vmap_method=None):
    return xpr.pure_callback(np.sin, xpr.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=vmap_method)


def spied(x, seen):
    """The sine of x as three kinds of callbacks see it."""
    xpr.debug.callback(lambda y: seen.append(np.asarray(y)), x)
    y = xpr.io_callback(lambda y: (seen.append(np.asarray(y)), y)[1], xpr.ShapeDtypeStruct(x.shape, x.dtype), x)
    return host_sin(y) + 0 * jnp.cos(x)


@pytest.mark.parametrize("spec", [("x",), ("x", "y"), (("y", "x"),), ()], ids=str)
def test_in_jit_a_callback_sees_the_whole_once(mesh, spec):
    seen = []
    y = xpr.jit(lambda x: spied(x, seen))(sharded(mesh, *spec))
    close(y, np.sin(X))
    assert len(y.devices()) == 8
    assert len(seen) == 2
    for x in seen:
        np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("spec", [("x",), ("x", "y"), ()], ids=str)
def test_partitioned_each_device_calls_with_its_part(mesh, spec, capsys):
    seen = []

    def f(x):
        xpr.debug.callback(lambda y, n: seen.append((np.asarray(y), float(n))), x, x.sum(), partitioned=True)
        return lax.fori_loop(
            0, 2, lambda i, c: (xpr.debug.print("{} {i}", c[0, 0], i=i, partitioned=True), c + 1)[1], x
        )

    x = sharded(mesh, *spec)
    close(xpr.jit(f)(x), X + 2)
    assert len(seen) == 8 and len(capsys.readouterr().out.splitlines()) == 16
    assert {part.shape for part, _ in seen} == {x.sharding.shard_shape(x.shape)}
    for shard in x.addressable_shards:
        assert any(np.array_equal(shard.data, part) and np.isclose(total, X.sum()) for part, total in seen)


def test_partitioned_in_vmap_shard_map_and_eagerly(mesh):
    seen = []
    spy = lambda x: xpr.debug.callback(partitioned=True)(lambda y: seen.append(np.asarray(y)), x)
    xpr.jit(xpr.vmap(spy))(sharded(mesh, None, "x"))
    assert len(seen) == 8 * 8 and {x.shape for x in seen} == {(1,)}
    seen.clear()
    xpr.jit(xpr.shard_map(spy, mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"}))(sharded(mesh, "x", "y"))
    assert len(seen) == 8 and {x.shape for x in seen} == {(2, 2)}
    seen.clear()
    spy(sharded(mesh, "x"))
    assert [x.shape for x in seen] == [X.shape]
    with pytest.raises(ValueError, match="debug.print: ordered=True and partitioned=True were asked for, and devices"):
        xpr.debug.print("{}", 1, ordered=True, partitioned=True)


@pytest.mark.parametrize("axes", [("x", "y"), ("x",)], ids=str)
def test_in_shard_map_each_device_has_its_part(mesh, axes):
    """Or the devices among which the compiler partitions, where the function is not manual over their axis."""
    seen = []
    mapped = xpr.shard_map(lambda x: spied(x, seen), mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=axes)
    for wrap in (lambda f: f, xpr.jit):
        seen.clear()
        close(wrap(mapped)(sharded(mesh, "y")), np.sin(X))
        assert len(seen) == (16 if len(axes) == 2 else 8)
        for i in range(4):
            same = [x for x in seen if (x == X[2 * i : 2 * i + 2]).all()]
            assert len(same) == len(seen) // 4


def test_in_pmap_each_device_has_its_row():
    seen = []
    close(xpr.pmap(lambda x: spied(x, seen) + lax.psum(x, "i"), "i")(X), np.sin(X) + X.sum(0))
    assert sorted(x.tolist() for x in seen) == sorted([*X.tolist(), *X.tolist()])


def test_prints(mesh, capsys):
    def noisy(x):
        xpr.debug.print("sum {}", jnp.sum(x).astype(int))
        return x

    ones = np.ones((8, 2), np.float32)
    xpr.jit(noisy, in_shardings=NamedSharding(mesh, P("x")))(ones)
    assert capsys.readouterr().out == "sum 16\n"
    xpr.pmap(xpr.jit(noisy))(ones)
    assert capsys.readouterr().out == "sum 2\n" * 8
    jitted = xpr.jit(xpr.shard_map(noisy, mesh=mesh, in_specs=P("y"), out_specs=P("y")))
    jitted(ones)
    assert capsys.readouterr().out == "sum 8\n" * 8
    xpr.shard_map(lambda x: xpr.debug.print("nothing given"), mesh=mesh, in_specs=P("x"), out_specs=P())(ones)
    assert capsys.readouterr().out == "nothing given\n" * 8
    xpr.grad(lambda x: jitted(x).sum())(ones)
    assert capsys.readouterr().out == "sum 8\n" * 8


DTYPES = [bool, np.int8, np.uint32, np.float16, ml_dtypes.bfloat16, np.float32, np.complex64, ml_dtypes.float8_e4m3fn,
          ml_dtypes.float8_e4m3fnuz, ml_dtypes.int4]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(mesh, dtype):
    """The result, which is sent from one device to the others, keeps all its bits."""
    x = np.array([-1.0, 0, 1, -0.0, 2, 0, 0, 1]).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        x[1:3] = [np.nan, np.inf]
    given = xpr.device_put(x, NamedSharding(mesh, P("x")))
    y = xpr.jit(lambda x: xpr.pure_callback(lambda x: x, x, x))(given)
    assert y.dtype == x.dtype
    bits = np.asarray(y).view(np.uint8), x.view(np.uint8)
    np.testing.assert_array_equal(*bits)


def test_loops_and_branches(mesh):
    seen = []

    def looped(x):
        def step(c, i):
            xpr.debug.callback(lambda i, s: seen.append((int(i), float(s))), i, c.sum().round())
            c = lax.cond(i % 2 == 0, lambda c: host_sin(c), lambda c: c + 1, c)
            return c, c.sum()

        return lax.scan(step, x, jnp.arange(3))

    with xpr.disable_jit():
        expected = looped(X)
    kept, found = list(seen), []
    seen.clear()
    found = xpr.jit(looped)(sharded(mesh, "x", "y"))
    assert sorted(seen) == sorted(kept)
    for got, want in zip(found, expected):
        close(got, want)


def test_mapped_rows(mesh):
    mapped = xpr.vmap(lambda x: host_sin(x, "sequential"))
    close(xpr.jit(mapped)(sharded(mesh, "x")), np.sin(X))
    over_parts = xpr.shard_map(mapped, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    close(over_parts(X), np.sin(X))
    close(xpr.vmap(over_parts)(np.stack([X, 2 * X])), np.sin(np.stack([X, 2 * X])))


def test_donated(mesh):
    x = sharded(mesh, "x") + 0
    close(xpr.jit(host_sin, donate_argnums=0)(x), np.sin(X))
    assert x.is_deleted()
    with pytest.raises(xpr.errors.DeletedArrayError):
        xpr.jit(host_sin)(x)


class Refused(Exception):
    pass


def refuse(x):
    raise Refused(str(np.shape(x)))


def test_an_exception_arrives_also_where_devices_wait_for_each_other(mesh):
    def failing(x):
        y = xpr.pure_callback(refuse, x, x)
        return lax.psum(y, "i") if x.ndim == 1 else y @ y.T

    for _ in range(3):
        with pytest.raises(Refused, match=r"^Refused: \(4,\)$"):
            xpr.pmap(failing, "i")(X)
        with pytest.raises(Refused, match=r"^Refused: \(8, 4\)$"):
            xpr.jit(failing)(sharded(mesh, "y"))
    close(xpr.jit(host_sin)(sharded(mesh, "x")), np.sin(X))  # what was refused is over

    def one_fails(x):
        y = xpr.pure_callback(lambda i, x: refuse(x) if i == 3 else x, x, lax.axis_index("i"), x)
        return lax.pmean(y, "i")

    with pytest.raises(Refused):
        xpr.pmap(one_fails, "i")(X)


def test_callbacks_run_programs_on_several_devices(mesh):
    inner = xpr.jit(lambda x: host_sin(x) + lax.with_sharding_constraint(x, NamedSharding(mesh, P("x"))))
    innermost = []

    def on_host(x):
        innermost.append(threading.get_ident())
        return inner(xpr.device_put(x, NamedSharding(mesh, P("x" if x.ndim == 2 else None)))) + jnp.sum(x) * 0

    call = xpr.jit(lambda x: xpr.pure_callback(on_host, x, x))
    close(call(sharded(mesh, "x")), np.sin(X) + X)
    close(xpr.pmap(call)(X), np.sin(X) + X)
    assert len(innermost) == 9


def test_many_calls_at_once(mesh):
    x = sharded(mesh, "x")
    call = xpr.jit(lambda x: host_sin(x) @ x.T)
    mapped = xpr.pmap(lambda x: host_sin(x) + lax.psum(x, "i"), "i")
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(f, a) for _ in range(20) for f, a in ((call, x), (mapped, X))]
        for i, future in enumerate(futures):
            close(future.result(), np.sin(X) + X.sum(0) if i % 2 else np.sin(X) @ X.T)


def test_settings_are_those_of_the_caller(mesh):
    with xpr.enable_x64(True):
        wide = xpr.ShapeDtypeStruct((), np.float64)
        x = xpr.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
        y = xpr.jit(lambda x: xpr.pure_callback(lambda x: jnp.sum(x) / 3, wide, x))(x)
    assert y.dtype == np.float64 and float(y) == 28 / 3


def test_a_prompt(mesh):
    commands, answers = io.StringIO("p y.shape\nc\n"), io.StringIO()

    @xpr.jit
    def f(x):
        y = x * 2
        xpr.debug.breakpoint(num_frames=1, stdin=commands, stdout=answers)
        return y.sum()

    f(sharded(mesh, "x"))
    assert answers.getvalue().splitlines()[2] == "(xpr) (8, 4)"


def test_ordered_callbacks_where_the_compiler_shards(mesh):
    """One device calls, in order, also across loops, branches, inner functions and other ordered calls."""
    seen = []

    def remember(x):
        time.sleep(0.002 * (len(seen) % 3))
        seen.append(float(x.sum()))
        return np.asarray(x) + 1

    def ordered(x):
        return xpr.io_callback(remember, x, x, ordered=True)

    @xpr.jit
    def f(x):
        x = xpr.jit(ordered)(x) - 1
        x = lax.fori_loop(0, 3, lambda i, c: ordered(c) - 1 + 1, x)
        x = lax.cond(x[0, 0] > 0, lambda c: ordered(ordered(c)), lambda c: c, x)
        xpr.io_callback(remember, X[0], x[0], ordered=True)
        return x

    x = sharded(mesh, "x")
    for _ in range(2):
        close(f(x), X + 5)
        np.testing.assert_allclose(seen, [*(X.sum() + X.size * np.array([0, 0, 1, 2, 3, 4])), (X[0] + 5).sum()], 1e-5)
        seen.clear()
    with pytest.raises(Refused):
        xpr.jit(lambda x: xpr.io_callback(refuse, x, ordered(x), ordered=True))(x)


def test_ordered_callbacks_of_each_device(mesh):
    """Each device calls in its order; there is none between devices."""
    seen = {}

    def remember(i, x):
        seen.setdefault(int(i), []).append(int(x))

    def shard(x):
        i = lax.axis_index("i")
        xpr.io_callback(remember, None, i, i, ordered=True)
        lax.fori_loop(1, 4, lambda n, c: (xpr.io_callback(remember, None, i, i + n, ordered=True), c)[1], 0)
        return x

    line = xpr.make_mesh((8,), ("i",))
    for call in (xpr.jit(xpr.shard_map(shard, mesh=line, in_specs=P("i"), out_specs=P("i"))), xpr.pmap(shard, "i")):
        close(call(X), X)
        assert seen == {i: [i, i + 1, i + 2, i + 3] for i in range(8)}
        seen.clear()


def test_ordered_callbacks_on_a_mesh_of_one_device(capsys):
    alone = NamedSharding(xpr.make_mesh((1,), ("x",), devices=xpr.devices()[3:4]), P("x"))

    def counted(x):
        return lax.fori_loop(0, 3, lambda i, c: (xpr.debug.print("{}", i, ordered=True), c + 1)[1], x)

    x = np.zeros((1, 2), np.float32)
    mapped = xpr.shard_map(counted, mesh=alone.mesh, in_specs=P("x"), out_specs=P("x"))
    for call in (
        xpr.jit(counted, in_shardings=alone),
        mapped,
        xpr.jit(lambda x: mapped(counted(x))),
        xpr.pmap(counted),
    ):
        times = int(call(x)[0, 0]) // 3
        assert capsys.readouterr().out == "0\n1\n2\n" * times
    with pytest.raises(Refused):
        xpr.pmap(lambda x: xpr.io_callback(refuse, x, x, ordered=True))(x)


def test_as_jax():
    jax = pytest.importorskip("jax")
    results = []
    for lib in (xpr, jax):
        seen = []
        mesh = lib.make_mesh((4, 2), ("x", "y"), axis_types=(lib.sharding.AxisType.Auto,) * 2)
        spec = lib.sharding.PartitionSpec("x", "y")

        def noisy(x, lib=lib, seen=seen):
            lib.debug.callback(lambda x: seen.append(np.asarray(x).tolist()), x)
            return lib.pure_callback(lambda x: np.cos(np.asarray(x)), lib.ShapeDtypeStruct(x.shape, x.dtype), x)

        x = lib.device_put(X, lib.sharding.NamedSharding(mesh, spec))
        ways = [lib.jit(noisy), lib.shard_map(noisy, mesh=mesh, in_specs=spec, out_specs=spec), lib.pmap(noisy)]
        found = []
        for way, given in zip(ways, (x, x, X)):
            found.append(np.asarray(lib.block_until_ready(way(given))))
            lib.effects_barrier()
            found.append(sorted(seen))
            seen.clear()
        results.append(found)
    for mine, theirs in zip(*results):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("number", [None, 0, 5])
def test_the_device_that_calls(mesh, number):
    seen = []
    device = None if number is None else xpr.sharding.SingleDeviceSharding(mesh.devices.reshape(-1)[number])

    def f(x):
        xpr.io_callback(lambda y: seen.append(np.asarray(y)), None, x, ordered=True, sharding=device)
        return xpr.pure_callback(lambda y: -0.0 * np.asarray(y), x, x, sharding=device)

    x = sharded(mesh, "x")
    y = np.asarray(xpr.jit(f)(x))
    np.testing.assert_array_equal(np.signbit(y), X >= 0)
    np.testing.assert_array_equal(seen, [X])
    text = xpr.jit(f).lower(x).as_text()
    assert f"sdy.mesh @maximal_mesh_{number or 0} = <[], device_ids=[{number or 0}]>" in text
    assert text.count(f"sdy.sharding_per_value<[<@maximal_mesh_{number or 0}, []>]>") == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.float8_e4m3fn, np.complex64, np.int8, np.bool_])
def test_results_of_one_device_keep_their_bits(mesh, dtype):
    values = np.array([-0.0, 1, -1, 0] * 2).astype(dtype)
    x = xpr.device_put(values, NamedSharding(mesh, P("x")))
    y = xpr.jit(lambda x: xpr.pure_callback(lambda _: values, x, x))(x)
    assert np.asarray(y).tobytes() == values.tobytes()


def test_callbacks_of_a_device_that_the_program_has_not(mesh):
    other = xpr.sharding.SingleDeviceSharding(mesh.devices.reshape(-1)[7])
    small = xpr.make_mesh((4,), ("z",), devices=list(mesh.devices.reshape(-1)[:4]))
    x = xpr.device_put(X, NamedSharding(small, P("z")))
    with pytest.raises(ValueError, match="says that .* calls, and the program runs on Mesh"):
        xpr.jit(lambda x: xpr.pure_callback(np.sin, x, x, sharding=other))(x)
    with pytest.raises(ValueError, match="pure_callback: sharding names the one device that calls, or is None"):
        xpr.pure_callback(np.sin, x, x, sharding=NamedSharding(mesh, P("x")))
