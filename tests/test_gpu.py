"""What a GPU does otherwise than the CPU: these tests run where there is one, and are compared with the CPU.

The laws of every primitive run on a GPU, too, where it is the default platform:

    XPR_DEFAULT_MATMUL_PRECISION=highest pytest tests/test_laws.py
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import export, lax, random
from xpr.ad_checkpoint import checkpoint_name
from xpr.errors import DeviceNotFound
from xpr.experimental import checkify, io_callback
from xpr.experimental.compute_on import compute_on
from xpr.memory import Space
from xpr.sharding import NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

pytestmark = pytest.mark.skipif(xpr.default_backend() != "gpu", reason="there is no GPU, or it is not the default")

RNG = np.random.RandomState(0)


def floats(*shape):
    return RNG.randn(*shape).astype(np.float32)


def complexes(*shape):
    return (floats(*shape) + 1j * floats(*shape)).astype(np.complex64)


@pytest.fixture(autouse=True)
def precise_products():
    """GPUs multiply matrices of float32 with fewer bits otherwise."""
    with xpr.default_matmul_precision("highest"):
        yield


@pytest.fixture
def gpu():
    return xpr.devices()[0]


@pytest.fixture
def cpu():
    return xpr.devices("cpu")[0]


def close(got, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=tolerance, atol=tolerance)


def as_on_cpu(fun, *args, tol=1e-4):
    """A program gives on the GPU what it gives on the CPU, up to `tol`."""
    results = xpr.jit(fun)(*args)
    for got, expected in zip(xpr.tree.leaves(results), xpr.tree.leaves(xpr.jit(fun, backend="cpu")(*args))):
        close(got, expected, tol)


class TestDevices:
    def test_arrays_and_programs_are_on_it(self, gpu):
        assert gpu.platform == "gpu" and xpr.default_backend() == "gpu" and gpu.memory_stats()["bytes_limit"] > 0
        assert jnp.arange(8.0).device == xpr.jit(jnp.sin)(1.0).device == (jnp.ones(3) + 1).device == gpu

    def test_transfers(self, cpu, gpu):
        x = xpr.device_put(floats(300, 300))
        there = xpr.device_put(x, cpu)
        assert there.device == cpu and xpr.device_put(there, gpu).device == gpu
        assert xpr.jit(lambda x: 2 * x)(there).device == cpu
        np.testing.assert_array_equal(there, x)
        with xpr.default_device(cpu):
            assert jnp.ones(3).device == cpu
        with pytest.raises(ValueError, match="Received incompatible devices.*\n.* on cuda:0\n.* on cpu:0"):
            xpr.device_put(x, gpu) + there

    def test_arrays_that_were_put_nowhere_go_where_a_program_runs(self, cpu):
        x = jnp.arange(3.0) + 1
        with xpr.default_device(cpu):
            y = xpr.jit(lambda x: x * 2)(jnp.arange(3.0))
            assert y.device == xpr.jit(jnp.sin)(x).device == (x + 1).device == cpu
        assert xpr.jit(jnp.sin, backend="cpu")(x).device == cpu
        for result in (y + 1, xpr.jit(lambda y: y + 1)(y), xpr.grad(lambda y: (y * y).sum())(y)):
            assert result.device.platform == "gpu"
        close(y + x, np.arange(3.0) * 3 + 1)

    def test_what_changes_after_it_was_sent(self):
        host = np.ones(1 << 24, np.float32)
        x, y = xpr.device_put(host), xpr.jit(lambda x: x + 0)(host)
        host[:] = 2
        assert x.min() == x.max() == y.min() == y.max() == 1

    def test_scalars(self):
        x = jnp.ones(3)
        for scalar in (1, 1, True, 2.5, np.float32(0.5), 1):
            close(x + scalar, np.full(3, 1 + float(scalar)))
        donating = xpr.jit(lambda x, y: x + y, donate_argnums=1)
        assert donating(1.0, 2.0) == donating(1.0, 2.0) == 3

    def test_out_of_memory(self):
        with pytest.raises(xpr.errors.JaxRuntimeError, match="Out of memory"):
            np.asarray(jnp.zeros((1 << 42,), jnp.int8)[:3])

    def test_donated_memory_is_used(self):
        x = jnp.ones(1 << 20)
        before = x.unsafe_buffer_pointer()
        y = xpr.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert x.is_deleted() and y.unsafe_buffer_pointer() == before

    def test_meshes(self):
        mesh = xpr.make_mesh((1,), ("x",))
        x = xpr.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x")))
        total = xpr.jit(xpr.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
        close(total(x), np.arange(8.0))
        seen = []
        xpr.jit(lambda x: xpr.debug.callback(lambda a: seen.append(a.sum()), x))(x)
        xpr.effects_barrier()
        assert seen == [28]

    @pytest.mark.parametrize("dtype", [
        "bfloat16", "float16", "float32", "int8", "uint8", "int32", "bool", "complex64", "float8_e4m3fn", "float8_e5m2",
        "int4", "uint4",
    ])  # fmt: skip
    def test_dtypes(self, dtype):
        x = jnp.ones((4, 4), dtype)
        assert np.asarray(x).dtype == x.dtype and (np.asarray(x) == 1).all()
        if dtype != "bool":
            assert (np.asarray(xpr.jit(lambda x: x + x)(x)) == 2).all()

    def test_64_bits(self):
        with xpr.enable_x64(True):
            a = RNG.randn(20, 20)
            close(xpr.jit(jnp.linalg.inv)(a) @ a, np.eye(20), 1e-10)


def test_random_bits_are_those_of_the_cpu():
    for draw in (
        lambda key: random.bits(key, (1001,)), lambda key: random.uniform(key, (1000,)),
        lambda key: random.permutation(key, 1000), lambda key: random.randint(key, (100,), 0, 1000),
    ):  # fmt: skip
        as_on_cpu(draw, random.key(7), tol=0)
    as_on_cpu(lambda key: random.normal(key, (1000,)), random.key(7))
    for name, args in (("gamma", (2.0,)), ("beta", (2.0, 3.0)), ("poisson", (4.0,)), ("dirichlet", (jnp.ones(3),))):
        assert jnp.isfinite(getattr(random, name)(random.key(1), *args)).all()
    for impl in ("rbg", "unsafe_rbg"):
        assert random.uniform(random.key(0, impl=impl), (10,)).std() > 0.01


class TestLinearAlgebra:
    a = floats(3, 30, 30)
    positive = a @ a.transpose(0, 2, 1) + 30 * np.eye(30, dtype=np.float32)

    def test_cholesky_and_solves(self):
        factor = np.asarray(jnp.linalg.cholesky(self.positive))
        close(factor @ factor.transpose(0, 2, 1), self.positive, 1e-2)
        b = floats(3, 30, 2)
        close(self.positive @ np.asarray(jnp.linalg.solve(self.positive, b)), b, 1e-3)
        close(
            self.positive @ np.asarray(jnp.linalg.inv(self.positive)),
            np.broadcast_to(np.eye(30), (3, 30, 30)),
            1e-3,
        )
        close(jnp.linalg.slogdet(self.positive)[1], np.linalg.slogdet(self.positive.astype(np.float64))[1], 1e-4)
        diagonals = floats(3, 8), floats(3, 8) + 9, floats(3, 8), floats(3, 8, 2)
        as_on_cpu(lax.linalg.tridiagonal_solve, *diagonals)

    @pytest.mark.parametrize("x", [floats(5, 3), floats(3, 5), floats(2, 20, 20), complexes(4, 4)], ids=str)
    def test_qr_and_svd(self, x):
        for full in (False, True):
            q, r = map(np.asarray, jnp.linalg.qr(x, "complete" if full else "reduced"))
            close(q @ r, x, 1e-3)
            u, s, vh = map(np.asarray, jnp.linalg.svd(x, full))
            k = s.shape[-1]
            close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, 1e-3)
        close(jnp.linalg.svd(x, compute_uv=False), np.linalg.svd(x, compute_uv=False), 1e-3)
        q, r, order = map(np.asarray, lax.linalg.qr(x, pivoting=True, full_matrices=False))
        close(q @ r, np.take_along_axis(x, order[..., None, :], -1), 1e-3)

    def test_eigh(self):
        w, v = map(np.asarray, jnp.linalg.eigh(self.positive))
        close(self.positive @ v, v * w[:, None], 1e-2)
        h = complexes(6, 6)
        h = h + h.conj().T
        close(jnp.linalg.eigvalsh(h), np.linalg.eigvalsh(h), 1e-4)

    @pytest.mark.parametrize("x", [floats(2, 7, 7), complexes(5, 5), floats(1, 1)], ids=str)
    def test_eig(self, x):
        w, v = map(np.asarray, jnp.linalg.eig(x))
        close(x @ v, w[..., None, :] * v, 1e-3)
        close(np.sort_complex(np.asarray(jnp.linalg.eigvals(x))), np.sort_complex(np.linalg.eigvals(x)), 1e-3)
        w, left, right = map(np.asarray, lax.linalg.eig(x))
        close(x @ right, w[..., None, :] * right, 1e-3)
        adjoint = np.conj(np.swapaxes(left, -1, -2))
        close(adjoint @ x, w[..., None] * adjoint, 1e-3)

    @pytest.mark.parametrize("fun", [
        lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(5)).sum(), lambda x: jnp.linalg.slogdet(x)[1],
        lambda x: jnp.linalg.solve(x, jnp.ones(5)).sum(), lambda x: (jnp.linalg.eigh(x + x.T)[0] ** 3).sum(),
        lambda x: jnp.linalg.svd(x, compute_uv=False).sum(), lambda x: (jnp.linalg.qr(x)[1] ** 2).sum(),
    ])  # fmt: skip
    def test_gradients(self, fun):
        as_on_cpu(xpr.grad(fun), floats(5, 5) + 4 * np.eye(5, dtype=np.float32), tol=2e-3)


class TestPrograms:
    def test_transformations(self):
        w, x = floats(64, 32), floats(16, 64)
        as_on_cpu(xpr.grad(lambda w: jnp.tanh(x @ w).sum()), w, tol=1e-3)
        as_on_cpu(xpr.vmap(jnp.dot), x, x)

    def test_fft_sort_and_convolution(self):
        x = floats(4, 30)
        close(jnp.fft.fft(x), np.fft.fft(x), 1e-3)
        close(jnp.fft.irfft(jnp.fft.rfft(x)), x, 1e-4)
        x[0, 3] = np.nan
        as_on_cpu(lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x[1:], 5), jnp.median(x[1:], 1)), x)
        image, kernel = floats(2, 3, 16, 16), floats(4, 3, 3, 3)
        as_on_cpu(xpr.grad(lambda x, w: (lax.conv(x, w, (1, 1), "SAME") ** 2).sum(), (0, 1)), image, kernel, tol=1e-2)

    def test_loops(self):
        as_on_cpu(lambda xs: lax.scan(lambda c, x: (c + x, c * x), 0.0, xs), jnp.arange(100.0))
        as_on_cpu(lambda x: lax.while_loop(lambda x: x < 100, lambda x: 2 * x + 1, x), 1.0)
        as_on_cpu(xpr.grad(lambda x: lax.fori_loop(0, 10, lambda i, x: jnp.sin(x), x)), 1.0)
        as_on_cpu(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), 1.0)

    def test_not_a_number_is_kept(self):
        x = np.array([1, np.nan, 3, -np.inf], np.float32)
        as_on_cpu(lambda x: (jnp.max(x), jnp.maximum(x, 0), jnp.exp(x), jnp.where(x > 0, x, 0).sum()), x)

    def test_functions_by_platform(self, cpu):
        by_platform = xpr.jit(lambda x: lax.platform_dependent(x, cpu=lambda x: x, cuda=lambda x: -x))
        assert by_platform(1.0) == -1 and by_platform(xpr.device_put(1.0, cpu)) == 1
        assert xpr.jit(by_platform, backend="cpu")(1.0) == 1

    def test_exported_programs(self, tmp_path):
        def fun(x):
            return jnp.linalg.cholesky(x @ x.T + jnp.eye(4))

        x = floats(4, 4)
        for platforms in (("cpu", "cuda"), None):
            exported = export.export(xpr.jit(fun), platforms=platforms)(xpr.ShapeDtypeStruct((4, 4), np.float32))
            close(export.deserialize(exported.serialize()).call(x), fun(x), 1e-4)
        xpr.jit(fun).lower(x).compile().save(tmp_path / "program")
        close(xpr.load_compiled(tmp_path / "program")(x), fun(x), 1e-4)

    def test_inspection(self):
        compiled = xpr.jit(lambda x: (x @ x.T).sum()).lower(floats(64, 64)).compile()
        assert compiled.cost_analysis()["flops"] > 64**3
        times = xpr.profiler.table(lambda x: jnp.sin(x @ x).sum())(floats(500, 500))
        assert all(each.seconds >= 0 for each in times.by_equation)

    def test_programs_are_kept_on_disk(self, tmp_path):
        program = "import xpr, xpr.numpy as jnp; print(xpr.jit(jnp.sin)(jnp.ones(3)).device)"
        environment = {
            **os.environ,
            "XPR_COMPILATION_CACHE_DIR": str(tmp_path),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        files = []
        for _ in range(2):
            run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
            assert run.stdout.strip() == "cuda:0", run.stderr
            files.append(sorted(path.name for path in tmp_path.iterdir()))
        assert files[0] == files[1] != []


class TestCallbacks:
    def test_values(self):
        f32 = xpr.ShapeDtypeStruct((3,), np.float32)
        doubled = xpr.jit(lambda x: xpr.pure_callback(lambda a: 2 * np.asarray(a), f32, x) + 1)
        close(doubled(jnp.ones(3)), np.full(3, 3.0))
        mapped = xpr.vmap(lambda x: xpr.pure_callback(lambda a: 2 * a, f32, x, vmap_method="sequential"))
        close(xpr.jit(mapped)(jnp.ones((2, 3))), np.full((2, 3), 2.0))

    def test_effects_and_their_order(self):
        seen = []

        @xpr.jit
        def loop(x):
            def body(i, x):
                io_callback(seen.append, None, i, ordered=True)
                return x + 1

            return lax.fori_loop(0, 5, body, x)

        assert loop(1.0) == 6 and [int(i) for i in seen] == [0, 1, 2, 3, 4]
        xpr.jit(lambda x: xpr.debug.callback(lambda a: seen.append(float(a)), x))(7.0)
        xpr.effects_barrier()
        assert seen[-1] == 7

    def test_what_they_compute_is_on_the_cpu(self):
        devices = []

        def inner(a):
            result = xpr.jit(jnp.sin)(a) + jnp.ones(3)
            devices.append(result.device.platform)
            return result

        f32 = xpr.ShapeDtypeStruct((3,), np.float32)
        result = xpr.jit(lambda x: xpr.pure_callback(inner, f32, x))(jnp.ones(3))
        close(result, np.sin(np.ones(3)) + 1)
        assert devices == ["cpu"] and result.device.platform == "gpu"

    def test_their_exceptions(self):
        def fail(a):
            raise ValueError("not here")

        f32 = xpr.ShapeDtypeStruct((3,), np.float32)
        for _ in range(2):
            with pytest.raises(ValueError, match="not here"):
                xpr.jit(lambda x: xpr.pure_callback(fail, f32, x))(jnp.ones(3))
        close(jnp.ones(3) + 1, np.full(3, 2.0))

    def test_checks(self):
        error, _ = xpr.jit(checkify.checkify(jnp.log, errors=checkify.float_checks))(-1.0)
        assert "nan" in error.get()
        with xpr.debug_nans(True), pytest.raises(FloatingPointError):
            xpr.jit(jnp.log)(-1.0)


class TestMemorySpaces:
    def test_kinds(self, gpu):
        on_host = SingleDeviceSharding(gpu, memory_kind="pinned_host")
        x = xpr.device_put(jnp.arange(8.0), on_host)
        assert x.sharding.memory_kind == "pinned_host"
        close(xpr.device_put(x, Space.Device), np.arange(8.0))
        y = xpr.jit(lambda x: 2 * x, out_shardings=on_host)(jnp.arange(8.0))
        assert y.sharding.memory_kind == "pinned_host"
        close(y, 2 * np.arange(8.0))

        def there_and_back(x):
            return xpr.device_put(xpr.device_put(2 * x, Space.Host), Space.Device) + 1

        close(xpr.jit(there_and_back)(jnp.arange(8.0)), 2 * np.arange(8.0) + 1)

    def test_arguments_and_results_are_where_their_types_say(self, gpu):
        """An array in the host's memory takes none of the device's, nor do programs that return it."""
        size = 64 << 20

        def in_use():
            return gpu.memory_stats()["bytes_in_use"]

        x = floats(size // 4)
        before = in_use()
        host = xpr.device_put(x, SingleDeviceSharding(gpu, memory_kind="pinned_host"))
        host.unsafe_buffer_pointer()  # it is put there when it is first needed
        assert in_use() - before < size
        device = xpr.device_put(host, Space.Device)
        device.unsafe_buffer_pointer()
        assert in_use() - before >= size
        back = xpr.device_put(device, Space.Host).block_until_ready()
        doubled = xpr.jit(lambda x: xpr.device_put(2 * x, Space.Host))(device).block_until_ready()
        tripled = xpr.jit(lambda x: xpr.device_put(3 * xpr.device_put(x, Space.Device), Space.Host))(host)
        same = xpr.jit(lambda x: x)(host)
        for y in (host, back, doubled, tripled, same):
            assert xpr.typeof(y).memory_space is Space.Host and y.sharding.memory_kind == "pinned_host"
        device.delete()
        assert in_use() - before < size
        for y, factor in ((host, 1), (back, 1), (doubled, 2), (tripled, 3), (same, 1)):
            np.testing.assert_array_equal(y, factor * x)

    def test_donated_arguments(self):
        update = xpr.jit(
            lambda x, d: (xpr.device_put(xpr.device_put(x, Space.Device) + d, Space.Host), 2 * d), donate_argnums=(0, 1)
        )
        state = xpr.device_put(jnp.ones(1000), Space.Host)
        for _ in range(3):
            before = state
            state, d = update(state, jnp.ones(1000))
        assert before.is_deleted() and state.aval.memory_space is Space.Host
        close(state, np.full(1000, 4.0))
        close(d, np.full(1000, 2.0))

    def test_layers_whose_weights_are_on_the_host(self):
        """A loop brings the weights of one layer at a time."""
        weights, x = floats(8, 64, 64) / 8, floats(4, 64)

        def layers(weights, x):
            return lax.scan(lambda x, w: (jnp.tanh(x @ xpr.device_put(w, Space.Device)), None), x, weights)[0].sum()

        host = xpr.device_put(jnp.asarray(weights), Space.Host)
        close(xpr.jit(layers)(host, x), xpr.jit(layers)(weights, x), 1e-4)
        gradient = xpr.jit(xpr.grad(layers))(host, x)
        assert gradient.aval.memory_space is Space.Host
        close(gradient, xpr.grad(layers)(weights, x), 1e-3)

    def test_over_a_mesh(self, gpu):
        mesh = xpr.make_mesh((1,), ("x",))
        sharding = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
        x = xpr.device_put(jnp.arange(8.0), sharding)
        assert x.sharding == sharding and x.addressable_shards[0].data.sharding.memory_kind == "pinned_host"
        close(x, np.arange(8.0))
        y = xpr.device_put(x, sharding.with_memory_kind("device"))
        assert y.sharding.memory_kind == "device" and xpr.device_put(y, sharding).sharding == sharding
        doubled = xpr.jit(lambda x: 2 * xpr.device_put(x, Space.Device))(x)
        assert doubled.sharding.memory_kind == "device"
        close(doubled, 2 * np.arange(8.0))
        there = xpr.jit(lambda y: 2 * y, out_shardings=sharding)(y)
        assert there.sharding == sharding
        close(there, 2 * np.arange(8.0))
        close(xpr.device_put(there, NamedSharding(mesh, P())), 2 * np.arange(8.0))

    @pytest.mark.parametrize("fun", [
        lambda x: (jnp.sort(x, 0) @ x, 2 * x, x), lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
        lambda x: lax.scan(lambda c, r: (c + r.sum(), (2 * r, c)), 0.0, x), lambda x: jnp.fft.fft(x).real,
        lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c + jnp.abs(x[0]).sum(), x),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + xpr.device_put(x[i], Space.Device), jnp.zeros(64)),
        lambda x: xpr.device_put(x[3], Space.Device) * 2, lambda x: xpr.jit(lambda x: (x + 1, x))(x),
    ])  # fmt: skip
    def test_computations_of_values_on_the_host(self, fun, cpu):
        x = floats(64, 64)
        got = xpr.jit(fun)(xpr.device_put(jnp.asarray(x), Space.Host))
        expected = xpr.jit(fun, backend="cpu")(xpr.device_put(xpr.device_put(x, cpu), Space.Host))
        for a, b in zip(xpr.tree.leaves(got), xpr.tree.leaves(expected)):
            assert a.sharding.memory_kind == b.sharding.memory_kind
            close(a, b, 1e-3)

    def test_eager_operations(self):
        x = xpr.device_put(jnp.asarray(floats(1 << 16)), Space.Host)
        for y in (x + 1, x[1:], x.reshape(256, 256).T, jnp.concatenate([x, x])):
            assert y.sharding.memory_kind == "pinned_host"
        close(x + 1, np.asarray(x) + 1)

    def test_unpinned_memory(self, gpu):
        with pytest.raises(ValueError, match="cuda:0: its kinds are device, pinned_host, and 'unpinned_host'"):
            SingleDeviceSharding(gpu, memory_kind="unpinned_host")

    def test_residuals_between_programs(self):
        policy = xpr.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device",
            offload_dst="pinned_host",
        )  # fmt: skip
        f = xpr.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.tanh(x @ x), "h")).sum(), policy=policy)
        x = floats(50, 50) / 7
        _, pullback = xpr.vjp(xpr.jit(f), x)
        kinds = {leaf.sharding.memory_kind for leaf in xpr.tree.leaves(pullback) if isinstance(leaf, xpr.Array)}
        assert "pinned_host" in kinds
        close(pullback(jnp.float32(1.0))[0], xpr.grad(f)(x), 1e-4)

    def test_other_libraries(self):
        x = xpr.device_put(jnp.arange(6.0), Space.Host)
        assert x.__dlpack_device__() == (3, 0)  # kDLCUDAHost
        close(np.from_dlpack(x), np.arange(6.0))

    def test_saved_programs(self, tmp_path):
        x = xpr.device_put(jnp.arange(6.0), Space.Host)
        fun = xpr.jit(lambda x: (xpr.device_put(x, Space.Device) + 1, x))
        fun.lower(x).compile().save(tmp_path / "program")
        one, same = xpr.load_compiled(tmp_path / "program")(x)
        assert one.sharding.memory_kind == "device" and same.sharding.memory_kind == "pinned_host"
        close(one, np.arange(6.0) + 1)

    def test_exported_programs(self):
        x = xpr.device_put(jnp.arange(6.0), Space.Host)
        fun = xpr.jit(lambda x: xpr.device_put(2 * xpr.device_put(x, Space.Device), Space.Host))
        again = export.deserialize(export.export(fun)(x).serialize())
        close(again.call(jnp.arange(6.0)), 2 * np.arange(6.0))

    def test_computation_on_the_host(self):
        @xpr.jit
        def f(x):
            with compute_on("device_host"):
                y = 3 * x
            return y + 1

        close(f(jnp.arange(4.0)), 3 * np.arange(4.0) + 1)

    def test_offloaded_residuals(self):
        """They take the memory of the host, and the device has theirs for others."""
        policy = xpr.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device",
            offload_dst="pinned_host",
        )  # fmt: skip

        def loss(x):
            for _ in range(4):
                x = jnp.sin(checkpoint_name(jnp.tanh(x @ x), "h"))
            return x.sum()

        x = floats(500, 500) / 30
        offloading = xpr.jit(xpr.grad(xpr.checkpoint(loss, policy=policy)))
        close(offloading(x), xpr.grad(loss)(x), 1e-3)
        assert "S(5)" in offloading.lower(x).compile().as_text()  # XLA's name of the host's memory


class TestOtherLibraries:
    def test_torch(self):
        torch = pytest.importorskip("torch", reason="there is no PyTorch")
        x = jnp.arange(6.0).reshape(2, 3)
        tensor = torch.from_dlpack(x)
        assert tensor.is_cuda
        close(tensor.cpu().numpy(), x)
        back = jnp.from_dlpack(torch.arange(5.0, device="cuda"))
        assert back.device.platform == "gpu"
        close(back, np.arange(5.0))
        close(jnp.asarray(torch.arange(5.0, device="cuda")), np.arange(5.0))

    def test_cupy(self):
        cupy = pytest.importorskip("cupy", reason="there is no CuPy")
        x = jnp.arange(6.0)
        close(cupy.asnumpy(cupy.from_dlpack(x)), x)
        close(cupy.asnumpy(cupy.asarray(x)), x)
        other = cupy.arange(4.0, dtype="float32")
        taken, made = jnp.asarray(other), jnp.array(other)
        assert taken.device.platform == made.device.platform == "gpu"
        other += 1
        close(made, np.arange(4.0))


def test_a_gpu_that_is_hidden_is_an_error():
    program = "import xpr; xpr.devices('gpu')"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert DeviceNotFound.__name__ in run.stderr and "nvidia-smi" in run.stderr
