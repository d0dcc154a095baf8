"""Functions that are one program where they are called eagerly: results and types as operation by operation."""

import inspect
import math

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import image, nn, ops, scipy
from xpr.control.compiled import traced_functions
from xpr.control.compiled_eagerly import compiled_eagerly

on_cpu = pytest.mark.skipif(xpr.default_backend() != "cpu", reason="NumPy runs nothing for another platform")
x = jnp.asarray(np.random.default_rng(0).normal(size=12).astype(np.float32))
m, n, ten = x.reshape(3, 4), jnp.arange(12), jnp.arange(10.0)
half, small = x.astype(jnp.bfloat16), jnp.arange(12, dtype=jnp.int8)
POSITIVE = 0.5 * jnp.eye(3) + 1
CALLS = {
    "var": [(x,), (m, 0), (n,), (half, None, jnp.float32), (m, (0, 1), None, None, 1, True)],
    "std": [(x,), (m, -1)],
    "average": [(m, 0, jnp.ones(3))],
    "cov": [(m,), (m, None, False)],
    "corrcoef": [(m,)],
    "ptp": [(m, 1), (n,)],
    "nansum": [(m, 0), (n,)],
    "nanmean": [(m.at[0, 0].set(jnp.nan), 0)],
    "nanvar": [(x.at[0].set(jnp.nan),)],
    "allclose": [(x, x + 1e-7), (n, n), (x, 1)],
    "isclose": [(x, np.zeros(12)), (x, 0.0, 0.1)],
    "array_equal": [(x, x), (n, x), (x, m)],
    "nan_to_num": [(x / 0,), (n,), (x / 0, True, 1, 2.0, 3)],
    "trapezoid": [(m,), (n, None, 0.5), (m, jnp.arange(3), 1.0, 0)],
    "gradient": [(x,), (x, 2.0), (m,)],
    "diff": [(m,), (n, 2), (x > 0,), (m, 1, 0)],
    "ediff1d": [(n,)],
    "unwrap": [(9 * x,)],
    "interp": [(x, ten, ten**2), (0.5, ten, ten)],
    "tril": [(m,), (m, 1), (small.reshape(3, 4), -1)],
    "triu": [(m, -1)],
    "vander": [(n,), (x, 3, True)],
    "clip": [(x, 0, 1), (small, 3, 5), (n, 0.5), (half, None, 0.0), (x, n)],
    "round": [(x,), (x, 2)],
    "where": [(x > 0, x, 0), (n > 3, n, 1.5), (m > 0, x[:4], small[:4])],
    "hypot": [(x, 2), (n, n)],
    "logaddexp": [(x, x), (x, 0.0)],
    "sinc": [(x,), (n,)],
    "cross": [(m[:, :3], jnp.ones(3))],
    "kron": [(m, m[:2]), (n, small)],
    "outer": [(n, x)],
    "trace": [(m, 1), (m,)],
    "polyval": [(x[:3], ten), (np.arange(3.0), 2.0 * x)],
    "angle": [(x + 1j,), (n,)],
    "roll": [(m, 1), (m, (1, 2), (0, 1))],
    "convolve": [(x, ten[:3]), (x, ten[:3], "same")],
    "heaviside": [(x, 0.5)],
    "take": [(m, np.array([0, 2]), 0), (n, 3)],
    "tile": [(n, (2, 3))],
    "digitize": [(x, ten)],
    "nancumsum": [(m, 0), (n,)],
    "linalg.norm": [(x,), (m,), (m, jnp.inf), (m, 1, 0), (n,)],
    "linalg.cond": [(jnp.eye(3) + 0.1,)],
    "linalg.pinv": [(m,)],
    "linalg.matrix_power": [(jnp.eye(3) * 2, 3)],
    "fft.fftshift": [(n,), (m, 0)],
    "gcd": [(n, 8), (n, n + 2)],
    "lcm": [(n, 4)],
    "divmod": [(x, 0.3), (n, 5)],
    "fmod": [(x, 0.3)],
    "fmax": [(x.at[0].set(jnp.nan), 0.0)],
    "fmin": [(x, n)],
    "modf": [(x,)],
    "float_power": [(n, 2), (x, 2.0)],
    "frexp": [(x,)],
    "ldexp": [(x, 3), (x, n)],
    "spacing": [(x,)],
    "packbits": [(n % 2,), (m > 0, 1)],
    "unpackbits": [(n.astype("uint8"),), (n.astype("uint8"), None, 9)],
    "polyfit": [(ten / 10, ten, 1)],
    "median": [(x,), (m, 0)],
    "nanmedian": [(m.at[0, 0].set(jnp.nan), 0)],
    "nanargmax": [(x.at[0].set(jnp.nan),), (m, 1)],
    "nanargmin": [(m, 0)],
    "count_nonzero": [(n,), (m > 0, 1)],
    "searchsorted": [(ten, x), (ten, 3, "right")],
    "isin": [(n, jnp.array([1, 5])), (x, x[:3])],
    "take_along_axis": [(m, jnp.zeros((3, 1), int), 1)],
    "i0": [(x,)],
    "linalg.solve": [(jnp.eye(3) * 2 + 0.1, jnp.ones(3)), (jnp.eye(3) * 2, m)],
    "linalg.inv": [(jnp.eye(3) * 2 + 0.1,)],
    "linalg.det": [(POSITIVE,), (POSITIVE.astype(jnp.bfloat16),)],
    "linalg.slogdet": [(jnp.eye(5) + 0.1,)],
    "linalg.cholesky": [(POSITIVE,), (POSITIVE[None],)],
    "linalg.qr": [(m,), (m.T, "complete"), (m, "r"), (m.T, "raw")],
    "linalg.eigh": [(POSITIVE,), (POSITIVE, "U", False)],
    "linalg.eigvalsh": [(POSITIVE,)],
    "linalg.svd": [(m,), (m, False), (m, True, False), (POSITIVE, True, True, True), (m, False, True, False, (0, 2))],
    "linalg.svdvals": [(m,)],
    "linalg.eig": [(POSITIVE,)],
    "linalg.eigvals": [(POSITIVE,)],
    "matmul": [(m, m.T), (m, x[:4]), (n.reshape(3, 4), m.T)],
    "vdot": [(m, m), (x, 2 * n)],
    "inner": [(m, m), (x, 2.0)],
    "diagonal": [(m,), (m, 1), (m.reshape(3, 2, 2), 0, 1, 2)],
    "diag": [(x,), (x, -1), (m, 1)],
    "append": [(x, x), (m, m, 0), (n, 3), (x, 1.0)],
    "linalg.matrix_rank": [(m,), (m, 1e-3)],
    "linalg.tensorinv": [(jnp.eye(4).reshape(2, 2, 4) + 0.1, 2)],
    "linalg.tensorsolve": [(jnp.eye(4).reshape(2, 2, 4) + 0.1, jnp.ones((2, 2)))],
}
OTHERS = {
    nn.one_hot: [(n, 4), (n, 3)],
    nn.standardize: [(m,)],
    ops.segment_sum: [(x, n // 4, 3)],
    nn.celu: [(x,), (x, 2.0)],
    nn.elu: [(x, 0.5)],
    nn.leaky_relu: [(x,)],
    nn.squareplus: [(x,)],
    nn.glu: [(x,), (m, 1)],
    nn.log_softmax: [(m,), (m, 0)],
    image.resize: [(m, (2, 2), "linear")],
    scipy.linalg.expm: [(0.1 * jnp.eye(3),)],
    scipy.linalg.solve: [(POSITIVE, jnp.ones(3)), (POSITIVE, jnp.ones(3), True, False, False, False, True, "pos")],
    scipy.linalg.solve_triangular: [(POSITIVE, jnp.ones(3), 1, True)],
    scipy.linalg.cho_solve: [((POSITIVE, True), jnp.ones(3))],
    scipy.linalg.lu_solve: [(scipy.linalg.lu_factor(POSITIVE), jnp.ones(3), 1)],
    scipy.linalg.lu: [(m,), (m, True)],
    scipy.linalg.lu_factor: [(POSITIVE,)],
    scipy.linalg.polar: [(POSITIVE,)],
    scipy.linalg.sqrtm: [(POSITIVE,)],
    scipy.linalg.block_diag: [(m, x), (jnp.ones(2), 3.0)],
    scipy.special.exp1: [(x**2,)],
    scipy.special.expi: [(x,)],
    scipy.special.spence: [(x**2,)],
    scipy.special.poch: [(x**2, 2.0)],
    scipy.special.log_softmax: [(x,)],
    scipy.stats.rankdata: [(x,), (m, "min")],
    scipy.stats.mode: [(n // 2,)],
    scipy.stats.sem: [(x,), (m, 1)],
    scipy.ndimage.map_coordinates: [(m, [x[:3], x[:3]], 1), (m, [x[:3], x[:3]], 0, "nearest")],
    scipy.fft.dct: [(x,)],
}


def _function(name):
    fun = jnp
    for part in name.split("."):
        fun = getattr(fun, part)
    return fun


ROWS = [pytest.param(_function(name), args, id=name) for name, calls in CALLS.items() for args in calls]
ROWS += [pytest.param(fun, args, id=fun.__name__) for fun, calls in OTHERS.items() for args in calls]


@pytest.mark.parametrize(("fun", "args"), ROWS)
def test_results_are_those_of_single_operations(fun, args):
    expected = xpr.tree.leaves(inspect.unwrap(fun)(*args))
    for _ in range(2):
        found = xpr.tree.leaves(fun(*args))
        assert [each.aval for each in found] == [each.aval for each in expected]
        for a, b in zip(found, expected):
            np.testing.assert_allclose(np.asarray(a, b.dtype), b, rtol=2e-6, atol=1e-6)


@on_cpu
@pytest.mark.parametrize("fun", [jnp.frexp, jnp.flip])
def test_functions_are_compiled_when_they_were_called_often(fun):
    xpr.clear_caches()
    expected = xpr.tree.leaves(fun(x))
    (program,) = _programs(fun).values()
    calls = int(program.host_runs)
    for _ in range(calls + 2):
        for found, part in zip(xpr.tree.leaves(fun(x)), expected):
            np.testing.assert_array_equal(found, part)
    assert program.on_host is not None and program.host_runs == 0 and calls > 10 and "recent" in program.jaxpr.memo


@on_cpu
def test_functions_that_give_views_of_large_arrays_stay_in_numpy():
    flat = compiled_eagerly()(lambda x: xpr.lax.reshape(x, (60_000,)))
    flat(jnp.ones((200, 300)))
    (program,) = _programs(flat).values()
    assert program.on_host is not None and program.host_runs == math.inf


def test_traced_calls_are_the_same_equations():
    assert [eqn.primitive.name for eqn in xpr.make_jaxpr(jnp.diff)(x).eqns] == ["slice", "slice", "sub"]
    assert str(xpr.make_jaxpr(jnp.clip)(x, 0.0, 1.0)) == str(xpr.make_jaxpr(inspect.unwrap(jnp.clip))(x, 0.0, 1.0))


def _programs(fun):
    return next(each.programs for each in traced_functions if each.fun is inspect.unwrap(fun))


@on_cpu
def test_small_exact_functions_run_in_numpy_and_others_are_compiled():
    xpr.clear_caches()
    assert not _programs(jnp.diff)
    jnp.diff(n)
    jnp.diff(jnp.arange(100_000.0))
    jnp.linalg.norm(x)
    assert [program.on_host is not None for program in _programs(jnp.diff).values()] == [True, False]
    assert [program.on_host for program in _programs(jnp.linalg.norm).values()] == [None]


def test_values_that_are_still_being_computed():
    slow = xpr.jit(lambda x: x @ x)(jnp.ones((700, 700)))
    np.testing.assert_array_equal(jnp.diff(slow[:2, :3]), np.zeros((2, 2)))


def test_floats_are_operands_and_integers_beside_floats():
    xpr.clear_caches()
    for bound in (0.5, 0.75, 1):
        jnp.clip(x, 0, bound)
        jnp.clip(n, 0, int(4 * bound))
    types = [tuple(map(str, key[-3:])) for key in _programs(jnp.clip)]
    assert len(types) == 2 + 3  # float and int as the bound; each of 2, 3 and 4
    with pytest.raises(OverflowError, match="300"):
        jnp.clip(small, 0, 300)
    np.testing.assert_array_equal(jnp.clip(x, -(2**40), 2**40), x)
    with pytest.raises(TypeError):
        jnp.hypot(x, np.array(["a"] * 12))


def test_what_is_no_array_and_may_change_is_read_at_each_call():
    class Changing:
        value = 1.0

        def __jax_array__(self):
            return jnp.full(12, self.value)

    changing, ref = Changing(), xpr.new_ref(jnp.zeros(12))
    for value in (1.0, 2.0):
        changing.value = value
        ref[...] = jnp.full(12, value)
        np.testing.assert_array_equal(jnp.where(x < 100, changing, 0), np.full(12, value))
        np.testing.assert_array_equal(jnp.hypot(jnp.zeros(12), ref[...]), np.full(12, value))
        np.testing.assert_array_equal(jnp.where(x < 100, np.full(12, value), 0), np.full(12, value))


def test_functions_that_need_values_are_called_as_they_are():
    @compiled_eagerly()
    def chosen(x, which):
        return x + 1 if which > 0 else x - 1

    assert [float(chosen(jnp.float32(1), which)) for which in (1.0, -1.0, 1.0)] == [2, 0, 2]
    np.testing.assert_array_equal(jnp.where(n > 9)[0], [10, 11])
    np.testing.assert_array_equal(jnp.linalg.norm(m, ord=jnp.inf), np.linalg.norm(m, ord=np.inf))


def test_errors_are_those_of_the_function():
    for _ in range(2):
        with pytest.raises(ValueError, match="axis 5"):
            jnp.diff(m, axis=5)
    with xpr.disable_jit():
        np.testing.assert_array_equal(jnp.diff(n), np.ones(11))


def test_arrays_on_several_devices_and_keys_are_left_to_the_operations():
    keys = xpr.random.split(xpr.random.key(0), 2)
    assert jnp.where(jnp.array([True, False]), keys, keys[::-1]).dtype == keys.dtype
    mesh = xpr.make_mesh((1,), ("x",))
    y = xpr.device_put(x, xpr.NamedSharding(mesh, xpr.P("x")))
    assert jnp.clip(y, 0, 1).sharding == y.sharding
    put = xpr.device_put(x, xpr.devices()[0])
    np.testing.assert_array_equal(jnp.diff(put), np.diff(x))


def test_large_arrays_are_stacked_by_one_program():
    rows = [jnp.full(20_000, float(i)) for i in range(3)]
    for axis in (0, 1):
        np.testing.assert_array_equal(jnp.stack(rows, axis), np.stack(rows, axis))


def test_small_operands_broadcast_in_the_program_of_the_operation():
    large = jnp.ones((300, 400))
    np.testing.assert_array_equal(large + jnp.arange(400.0), np.ones((300, 400)) + np.arange(400))
    np.testing.assert_array_equal(jnp.minimum(jnp.arange(400), large), np.minimum(np.arange(400), large))
    names = [eqn.primitive.name for eqn in xpr.make_jaxpr(jnp.add)(large, large[0]).eqns]
    assert names == ["broadcast_in_dim", "add"]


@on_cpu
def test_reshaped_arrays_share_memory():
    """Donated ones too: what is donated while another array has its memory is copied."""
    values = np.random.default_rng(0).normal(size=40_000).astype(np.float32)
    base = (jnp.asarray(values) + 0).block_until_ready()
    views = [base.reshape(200, 200), base[None], base.reshape(1, -1).squeeze(0), jnp.ravel(base.reshape(200, 200))]
    assert {each.unsafe_buffer_pointer() for each in views} == {base.unsafe_buffer_pointer()}
    double = xpr.jit(lambda x: x * 2, donate_argnums=0)
    np.testing.assert_array_equal(double(base), values * 2)
    assert base.is_deleted()
    np.testing.assert_array_equal(double(views[1]), values[None] * 2)
    for view in (views[0], *views[2:]):
        np.testing.assert_array_equal(np.ravel(view + 1), values + 1)
    packed = jnp.asarray(np.arange(40_000) % 7, jnp.int4)
    np.testing.assert_array_equal((packed * 1).reshape(200, 200).astype(int), (np.arange(40_000) % 7).reshape(200, 200))
