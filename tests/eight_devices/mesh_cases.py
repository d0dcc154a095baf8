"""What is computed inside of `set_mesh` from values that are on no device by name is on the devices of the mesh."""

import threading

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from tests.peer import beside
from xpr import lax, random
from xpr.experimental.pjit import pjit
from xpr.sharding import AxisType, NamedSharding
from xpr.sharding import PartitionSpec as P

X = floats(8, 4)
TYPES = {
    "explicit": (AxisType.Explicit, AxisType.Explicit),
    "auto": (AxisType.Auto, AxisType.Auto),
    "mixed": (AxisType.Explicit, AxisType.Auto),
}
# The same in both libraries: `L` is the library, and `x` an array of it that was made before.
CASES = {
    "ones": lambda L, x: L.numpy.ones((8, 2)),
    "a scalar of ones": lambda L, x: L.numpy.ones(()),
    "full": lambda L, x: L.numpy.full(3, 2.0),
    "arange": lambda L, x: L.numpy.arange(8),
    "eye": lambda L, x: L.numpy.eye(3),
    "array of a list": lambda L, x: L.numpy.array([1.0, 2.0]),
    "array of an array of NumPy": lambda L, x: L.numpy.array(X),
    "asarray that shares memory": lambda L, x: L.numpy.asarray(X, copy=False),
    "asarray of a number": lambda L, x: L.numpy.asarray(1.0),
    "a key": lambda L, x: L.random.key(0),
    "keys from one": lambda L, x: L.random.split(L.random.key(0)),
    "random numbers": lambda L, x: L.random.normal(L.random.key(0), (4,)),
    "an operation on arrays of NumPy": lambda L, x: L.numpy.add(X, X),
    "an operation on numbers": lambda L, x: L.numpy.add(1.0, 2.0),
    "an operation on what was made before": lambda L, x: x + 1,
    "a row of it": lambda L, x: x[0],
    "zeros like it": lambda L, x: L.numpy.zeros_like(x),
    "a copy of it": lambda L, x: L.numpy.copy(x),
    "an update of it": lambda L, x: x.at[0].set(1.0),
    "jit of an array of NumPy": lambda L, x: L.jit(lambda a: a * 2)(X),
    "jit of what was made before": lambda L, x: L.jit(lambda a: a * 2)(x),
    "jit of nothing": lambda L, x: L.jit(lambda: L.numpy.ones(8))(),
    "a gradient": lambda L, x: L.grad(lambda a: (a * a).sum())(X),
    "a scan": lambda L, x: L.lax.scan(lambda c, a: (c + a.sum(), c), 0.0, X)[0],
    "a cond": lambda L, x: L.lax.cond(True, lambda: 1.0, lambda: 2.0),
    "an inverse": lambda L, x: L.numpy.linalg.inv(X[:4] @ X[:4].T + 4 * np.eye(4, dtype=np.float32)),
    "out_sharding": lambda L, x: L.numpy.ones(8, out_sharding=L.sharding.PartitionSpec("x")),
}


def found(L, types, case):
    """The mesh and the result of a case, and what was made before."""
    kinds = [getattr(L.sharding.AxisType, kind.name) for kind in TYPES[types]]
    mesh, before = L.make_mesh((4, 2), ("x", "y"), tuple(kinds)), L.numpy.asarray(X)
    with L.set_mesh(mesh):
        return mesh, CASES[case](L, before), before


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_is_on_the_devices_of_the_mesh(types, case):
    if (types, case) == ("auto", "out_sharding"):
        pytest.skip("jax refuses Auto axes there")
    mesh, result, before = found(xpr, types, case)
    assert isinstance(result.sharding, NamedSharding) and result.sharding.mesh == mesh and result.committed
    assert len(result.addressable_shards) == 8
    assert isinstance(before.sharding, xpr.sharding.SingleDeviceSharding) and not before.committed
    alone = CASES["ones" if case == "out_sharding" else case](xpr, jnp.asarray(X))
    if case == "out_sharding":
        assert result.sharding.spec == P("x")
    elif "key" in case:
        close(random.key_data(result), random.key_data(alone))
    else:
        close(result, alone)
        assert result.dtype == alone.dtype and result.weak_type == alone.weak_type

    def placed(result):
        return [result.committed, *([] if case == "keys from one" else map(str, result.sharding.spec))]

    def compare(theirs):
        assert placed(result) == theirs

    beside(lambda jax: placed(found(jax, types, case)[1]), compare)


def explicit():
    return xpr.make_mesh((4, 2), ("x", "y"), TYPES["explicit"])


def test_what_is_not():
    """What was put on a device stays there, device_put has the default one, and `with mesh` is for specs alone."""
    mesh, there = explicit(), xpr.devices()[3]
    put = xpr.device_put(X, there)
    with xpr.set_mesh(mesh):
        for x in (put, put + 1, xpr.jit(lambda x: x * 2)(put), jnp.zeros_like(put), jnp.ones(2, device=there)):
            assert x.devices() == {there}
        single = xpr.device_put(X)
        assert not single.committed and single.devices() == {xpr.devices()[0]}
        with pytest.raises(ValueError, match="Received incompatible devices for jitted computation. Got argument 0"):
            put + jnp.ones(4)
        assert isinstance(xpr.jit(lambda x: x * 2, device=there)(X).sharding, xpr.sharding.SingleDeviceSharding)
    with mesh:
        assert not jnp.ones(2).committed and not xpr.jit(lambda x: x * 2)(X).committed
    doubled = xpr.jit(lambda x: x * 2)
    for _ in range(2):
        with mesh:
            assert len(doubled(jnp.asarray(X)).devices()) == 1
        with xpr.set_mesh(mesh):
            assert len(doubled(jnp.asarray(X)).devices()) == 8


def test_the_mesh_of_a_shard_map_comes_first():
    """So do the devices of arguments."""
    small = xpr.make_mesh((2,), ("z",), devices=xpr.devices()[:2])
    mapped = xpr.shard_map(lambda x: lax.psum(x, "z"), mesh=small, in_specs=P("z"), out_specs=P())
    x = xpr.device_put(X, NamedSharding(small, P("z")))
    with xpr.set_mesh(explicit()):
        for call in (mapped, xpr.jit(mapped)):
            close(call(X), X[:4] + X[4:])
        assert len((x + 1).devices()) == len(xpr.jit(jnp.sin)(x).devices()) == 2


def test_the_mesh_that_was_current_before_is_so_again():
    outer, inner = explicit(), xpr.make_mesh((2,), ("z",), (AxisType.Explicit,), devices=xpr.devices()[:2])
    with xpr.set_mesh(outer):
        with xpr.set_mesh(inner):
            x = jnp.ones(4)
            with xpr.set_mesh(None):
                assert not jnp.ones(4).committed
            assert jnp.ones(4).sharding == x.sharding == NamedSharding(inner, P(None))
        assert jnp.ones(4).sharding.mesh is outer
    assert not jnp.ones(4).committed
    assert (x + 1).sharding.mesh is inner
    xpr.set_mesh(outer)
    xpr.set_mesh(inner)
    assert jnp.ones(4).sharding.mesh is inner
    xpr.set_mesh(None)
    assert not jnp.ones(4).committed


def test_each_thread_has_its_mesh():
    seen = []
    with xpr.set_mesh(explicit()):
        thread = threading.Thread(target=lambda: seen.append(jnp.ones(2).committed))
        thread.start()
        thread.join()
    assert seen == [False]


def test_other_bottom_interpreters():
    with xpr.set_mesh(explicit()):
        with xpr.debug_nans(True):
            assert len(jnp.sin(X).devices()) == 8
            with pytest.raises(FloatingPointError, match="nan"):
                jnp.log(-jnp.ones(2))
        with xpr.debug_key_reuse(True):
            assert len(random.normal(random.key(0)).devices()) == 8
        with xpr.transfer_guard("disallow"), pytest.raises(xpr.errors.TransferError):
            jnp.sin(X)
    with xpr.debug_nans(True), xpr.set_mesh(explicit()):
        assert len(jnp.sin(X).devices()) == 8
        with pytest.raises(FloatingPointError, match="nan"):
            jnp.log(-jnp.ones(2))


def test_programs_that_are_lowered_ahead():
    with xpr.set_mesh(explicit()):
        lowered = xpr.jit(lambda x: x + 1).lower(xpr.ShapeDtypeStruct((8, 4), jnp.float32))
        assert "num_partitions = 8" in lowered.as_text()
        compiled = lowered.compile()
        assert len(compiled(X).devices()) == 8
        assert compiled.output_shardings == compiled(X).sharding
        exported = xpr.export.export(xpr.jit(jnp.sin))(xpr.ShapeDtypeStruct((8, 4), jnp.float32))
        assert exported.nr_devices == 8
        close(exported.call(X), np.sin(X))


def test_training_on_a_mesh():
    """Weights that are made there are replicated, and rows of the data are sharded."""
    mesh = explicit()

    def losses(rows):
        w = random.normal(random.key(1), (4, 3))
        step = xpr.jit(xpr.value_and_grad(lambda w: jnp.mean(jnp.tanh(rows @ w) ** 2)))
        for _ in range(3):
            loss, gradient = step(w)
            w = w - 0.1 * gradient
        return loss, w

    alone = losses(jnp.asarray(X))
    with xpr.set_mesh(mesh):
        loss, w = losses(xpr.device_put(X, P("x")))
    assert w.sharding == NamedSharding(mesh, P(None, None)) and len(loss.devices()) == 8
    close((loss, w), alone)


def test_derivatives_of_integers_are_of_numpy():
    """As on one device: a compiled program holds nothing of dtype float0."""
    gradients = xpr.jit(xpr.grad(lambda n, x: (n * x).sum(), (0, 1), allow_int=True))
    with xpr.set_mesh(explicit()):
        for _ in range(2):
            of_integers, of_floats = gradients(np.arange(4), np.ones(4, np.float32))
            assert type(of_integers) is np.ndarray and of_integers.dtype == xpr.dtypes.float0
            close(of_floats, np.arange(4, dtype=np.float32))


def test_results_have_the_spec_of_an_argument_that_is_sharded_alike():
    """With elements None, as in jax; other results have the shortest spec."""
    mesh = xpr.make_mesh((4, 2), ("x", "y"))

    def results(x):
        return x * 2, x.sum(1), x[:4], x.T

    for spec, expected in (
        (P("x"), (P("x"), P("x"), P("x"), P(None, "x"))),
        (P("x", None), (P("x", None), P("x"), P("x", None), P(None, "x"))),
        (P(None, "y"), (P(None, "y"), P(), P(None, "y"), P("y"))),
    ):
        found = xpr.jit(results)(xpr.device_put(floats(8, 8), NamedSharding(mesh, spec)))
        assert tuple([x.sharding.spec for x in found]) == expected


@xpr.custom_vjp
def stash(ref, x):
    return x


stash.defvjp(lambda ref, x: (x, ref), lambda ref, g: (ref.set(g), (None, g))[1])


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_refs_in_the_loops_of_derivatives(wrap):
    def stashed(ref, x):
        return lax.scan(lambda c, _: (jnp.sin(stash(ref, jnp.sin(c))), None), x, None, length=1)[0]

    with xpr.set_mesh(explicit()):
        ref = xpr.new_ref(0.0)
        gradient = wrap(xpr.grad(stashed, 1))(ref, 1.0)
        assert len(ref[...].devices()) == 8
    inner = np.cos(np.sin(np.float32(1)))
    close((gradient, ref[...]), (inner * np.cos(np.float32(1)), inner))


def test_pjit_runs_on_the_devices_of_the_mesh_that_is_entered():
    mesh, x = xpr.make_mesh((4, 2), ("x", "y")), np.arange(8.0, dtype=np.float32)
    double = pjit(lambda x: 2 * x)
    rows = pjit(lambda x, y: (x, x + y), (P("x"), None), (None, P("x")), donate_argnums=1)
    assert double(x).sharding.num_devices == 1
    with mesh:
        for _ in range(2):
            assert double(x).sharding == double(jnp.ones(8)).sharding == NamedSharding(mesh, P())
            assert [each.sharding.spec for each in rows(x, x)] == [P(), P("x")]
        assert xpr.jit(lambda x: 2 * x)(x).sharding.num_devices == jnp.ones(8).sharding.num_devices == 1
        assert double.lower(x).compile()(x).sharding == NamedSharding(mesh, P())
        np.testing.assert_array_equal(xpr.grad(lambda x: rows(double(x), x)[1].sum())(x), np.full(8, 3))
        assert double.eval_shape(x).shape == xpr.jit(double)(x).shape == (8,)
    with xpr.set_mesh(mesh):
        assert double(x).sharding == NamedSharding(mesh, P())
    assert double(x).sharding.num_devices == 1


@pytest.mark.parametrize("names", [("é", "λ"), ("a b", "a_b"), ('"', "\\")])
def test_axes_of_any_name(names):
    """XLA ended the process where it met some."""
    mesh = xpr.make_mesh((4, 2), names)
    x = jnp.arange(32.0).reshape(8, 4)
    doubled = xpr.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh, P(*names)))(x)
    close(doubled, 2 * x)
    add = lambda x: lax.psum(x, names[0])
    sums = xpr.shard_map(add, mesh=mesh, in_specs=P(*names), out_specs=P(None, names[1]))
    close(xpr.jit(sums)(doubled), 2 * x.reshape(4, 2, 4).sum(0))


def test_pjit_of_methods():
    class Layer:
        @pjit
        def doubled(self, x):
            return 2 * x

    xpr.tree_util.register_pytree_node(Layer, lambda layer: ((), None), lambda _, children: Layer())
    assert Layer().doubled(1.0) == 2
