"""shard_map on eight devices; beside the same on one, and beside jax."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close, random_programs
from tests.ops.table import floats
from tests.peer import beside
from xpr import checkify, lax
from xpr.config import override
from xpr.sharding import AxisType, NamedSharding
from xpr.sharding import PartitionSpec as P

X, W = floats(8, 8), floats(8, 6, salt=1)


@pytest.fixture
def mesh():
    return xpr.make_mesh((4, 2), ("x", "y"))


def product(a, b):
    return lax.psum(a @ b, "y")


def sharded_product(mesh):
    return xpr.shard_map(product, mesh=mesh, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))


def loss(fun):
    return lambda *args: jnp.sum(jnp.sin(fun(*args)) ** 2)


@pytest.mark.parametrize("wrap", [lambda f: f, xpr.jit], ids=["eager", "jit"])
def test_shard_map_of_a_product(mesh, wrap):
    fun = sharded_product(mesh)
    close(wrap(fun)(X, W), X @ W)
    close(wrap(xpr.grad(loss(fun), (0, 1)))(X, W), xpr.grad(loss(jnp.matmul), (0, 1))(X, W))
    one, other = (wrap(lambda x, w, f=f: xpr.jvp(loss(f), (x, w), (x, w)))(X, W) for f in (fun, jnp.matmul))
    close(one, other)
    stacked = np.stack([X, X + 1], 1)
    close(wrap(xpr.vmap(fun, (1, None)))(stacked, W), np.stack([X @ W, (X + 1) @ W]))


def layer(w, x):
    return lax.pmean(jnp.sum(jnp.sin(x * w) ** 2), ("x", "y"))


def test_scalars_and_what_all_devices_get(mesh):
    fun = xpr.shard_map(layer, mesh=mesh, in_specs=(P(), P("x", "y")), out_specs=P())
    close(
        xpr.grad(fun, (0, 1))(np.float32(2), X),
        xpr.grad(lambda w, x: jnp.sum(jnp.sin(x * w) ** 2) / 8, (0, 1))(np.float32(2), X),
    )


def test_some_axes_by_hand(mesh):
    partly = xpr.jit(
        xpr.shard_map(
            lambda a: lax.psum(jnp.sin(a) @ a.T, "x"), mesh=mesh, in_specs=P(None, "x"), out_specs=P(), axis_names={"x"}
        )
    )
    for spec in (P("y", "x"), P(None, "x"), P()):
        close(partly(xpr.device_put(X, NamedSharding(mesh, spec))), np.sin(X) @ X.T)
    positions = xpr.shard_map(
        lambda a: a + lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
    )
    close(xpr.jit(positions)(X), X + np.repeat(np.arange(4, dtype=np.float32), 2)[:, None])

    def inner(a):
        return xpr.shard_map(
            lambda b: b + lax.axis_index("y"), in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )(a)

    nested = xpr.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    for call in (nested, xpr.jit(nested)):
        close(call(X), X + np.repeat(np.arange(2, dtype=np.float32), 4)[None])


def test_a_mesh_inside_is_that_of_the_context(mesh):
    again = xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"})
    nested = xpr.shard_map(again, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    for call in (nested, xpr.jit(nested)):
        with pytest.raises(ValueError) as error:
            call(X)
        assert "context mesh is AbstractMesh('x': 4, 'y': 2, axis_types=(Manual, Auto)), which should " in str(
            error.value
        )
        assert "match the mesh passed to shard_map, Mesh('x': 4, 'y': 2). Leave mesh out" in str(error.value)


def test_device_put_to_a_device_inside(mesh):
    """A compiled program runs on the devices of its arguments; one that runs at once says that it can't."""
    device, free = xpr.devices()[3], by_rows(lambda x: x + xpr.device_put(1.0), mesh, P("x"))
    close(free(X), X + 1)
    for put in (lambda x: x + xpr.device_put(1.0, device), lambda x: xpr.device_put(x, device) + 1):
        with pytest.raises(ValueError, match="device_put: inside of a shard_map .* got device .*id=3.* Leave the"):
            by_rows(put, mesh, P("x"))(X)
        close(xpr.jit(by_rows(put, mesh, P("x")))(X), X + 1)
        close(by_rows(xpr.jit(put), mesh, P("x"))(X), X + 1)


def test_tangents_of_what_is_the_same_on_all_devices(mesh):
    def pulled(cast):
        def run(p, t):
            out, derivative = xpr.linearize(lambda p: jnp.sum(p**2), cast(p))
            return xpr.linear_transpose(derivative, cast(p))(derivative(t))[0]

        return xpr.shard_map(run, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))

    with pytest.raises(ValueError) as error:
        pulled(lambda p: p)(np.float32([3, 4]), X[0])
    assert "inconsistent with the original primal values" in str(error.value)
    assert "may differ between the devices along ('x',), and the value is the same on all" in str(error.value)
    assert "by applying `jax.lax.pcast(..., ('x',), to='varying')` to the primal value passed" in str(error.value)
    w, t = np.float32([3, 4]), X[0].reshape(4, 2)
    each = 4 * w * (w * t).sum(1, keepdims=True)
    close(pulled(lambda p: lax.pcast(p, "x", to="varying"))(w, X[0]), each.reshape(-1))


def test_loops_and_branches_inside(mesh):
    def ring(a):
        turned = [(i, (i + 1) % 4) for i in range(4)]
        total, _ = lax.scan(lambda c, _: (lax.ppermute(c, "x", turned) * 2, None), a, None, length=4)
        return lax.cond(lax.axis_index("x") >= 0, lambda v: v + 1, lambda v: v, total)

    fun = xpr.shard_map(ring, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    close(fun(X), 16 * X + 1)
    close(xpr.grad(loss(fun))(X), xpr.grad(loss(lambda x: 16 * x + 1))(X), 1e-3)


def by_rows(fun, mesh, out_specs):
    return xpr.shard_map(fun, mesh=mesh, in_specs=P("x"), out_specs=out_specs)


def test_messages(mesh):
    rows = NamedSharding(mesh, P("x", "y"))
    cases = [
        (lambda: xpr.device_put({"w": X[:6]}, rows),
         "device_put: x['w'] of shape (6, 8) can't be sharded by P('x', 'y') over Mesh('x': 4, 'y': 2): 6, the size "
         "of its axis 0, is not divisible by 4 (x)."),
        (lambda: xpr.jit(lambda a: a["k"], in_shardings=(rows,))({"k": X[:, :3]}),
         "jit: argument a['k'] of <lambda> at "),
        (lambda: xpr.jit(lambda a: [a[1:]], out_shardings=rows)(X), "jit: result[0] of <lambda> at "),
        (lambda: lax.with_sharding_constraint([X[0]], rows), "with_sharding_constraint: x[0] of shape (8,)"),
        (lambda: by_rows(jnp.sum, mesh, P())(X),
         "shard_map: result of sum may differ between the devices along 'x', and by P() of out_specs"),
        (lambda: xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P("x", "y"), out_specs=P())(X),
         "result of sin may differ between the devices along 'x' and 'y', and by P() of out_specs"),
        (lambda: by_rows(lambda a: a["k"], mesh, P("x"))({"k": X[:6]}),
         "shard_map: argument a['k'] of <lambda> at "),
        (lambda: by_rows(jnp.sum, mesh, P("x"))(X), "of 0 axes, and its spec is P('x',), which has length 1"),
        (lambda: xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P("z"), out_specs=P())(X), "in_specs of sin has P('z',)"),
        (lambda: NamedSharding(mesh, P("x", "x")), "names an axis of the mesh twice"),
        (lambda: xpr.make_mesh((16,), ("x",)), "a mesh of shape (16,) has 16 devices, and there are 8."),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)


def test_shard_map_as_jax(mesh):
    def fun(library, mesh):
        P = library.sharding.PartitionSpec

        def each(a, b):
            h = library.numpy.tanh(library.lax.psum(a @ b, "y"))
            gathered = library.lax.all_gather(h, "x", tiled=True)
            dealt = library.lax.psum_scatter(h, "y", scatter_dimension=1, tiled=True)
            return gathered.sum(0) * h, dealt * library.lax.axis_index("x")

        specs = {"in_specs": (P("x", "y"), P("y")), "out_specs": (P("x"), P("x", "y"))}
        return library.shard_map(each, mesh=mesh, check_vma=False, **specs)

    def results_and_gradient(library, mesh):
        loss = lambda a, b: sum((y**2).sum() for y in fun(library, mesh)(a, b))
        return lambda a, b: (fun(library, mesh)(a, b), library.grad(loss, (0, 1))(a, b))

    def of(jax):
        their_mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        return jax.jit(results_and_gradient(jax, their_mesh))(X, W)

    ours = results_and_gradient(xpr, mesh)(X, W)
    beside(of, lambda theirs: close(ours, list(map(np.asarray, theirs))))


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_as_jax(mesh, seed):
    """The first of them; a program that jax refuses is none."""
    x, w = random_programs.operands()

    def of(jax):
        their_mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        program = random_programs.Program(seed)
        theirs = program.function(jax, their_mesh, jax.sharding.PartitionSpec, jax.sharding.NamedSharding)
        try:
            return jax.block_until_ready(theirs(x, w))
        except ValueError as error:
            return f"jax refuses {program}: {error}"

    def compare(theirs):
        if isinstance(theirs[0], str):
            pytest.skip(theirs[0])
        ours = random_programs.Program(seed).function(xpr, mesh, P, NamedSharding)(x, w)
        close(ours, list(map(np.asarray, theirs)))

    beside(of, compare)


# -- Derivatives inside a shard_map, where a replicated value counts once


def looped(L, w, x):
    def one(w, _):
        g = L.grad(lambda w: L.lax.pmean((x * w * w).sum(), "x"))(w)
        return w - 0.01 * g, g

    return L.lax.scan(one, w, None, length=3)


def pulled(L, w, x):
    outs, pull = L.vjp(lambda w, x: (w * w, x * w, L.lax.psum(x, "x") * w), w, x)
    return pull((2 * w, x, L.lax.psum(x, "x")))


ROWS, ALL = ("x",), ()
INSIDE = {  # the function, and the specs of its results
    "replicated": (lambda L, w, x: L.grad(lambda w: (x * w * w).sum())(w), ALL),
    "of a mean": (lambda L, w, x: L.grad(lambda w: L.lax.pmean((x * w * w).sum(), "x"))(w), ALL),
    "of a sum, by what differs": (lambda L, w, x: L.grad(lambda x: L.lax.psum((x * x * w).sum(), "x"))(x), ROWS),
    "of a mean, by both": (
        lambda L, w, x: L.grad(lambda w, x: L.lax.pmean((x * x * w).sum(), "x"), (0, 1))(w, x), (ALL, ROWS),
    ),
    "in jit": (lambda L, w, x: L.jit(L.value_and_grad(lambda w: L.lax.pmean((x * w).sum() ** 2, "x")))(w), ALL),
    "in a loop": (looped, ALL),
    "summed once more": (lambda L, w, x: L.lax.psum(L.grad(lambda w: (x * w * w).sum())(w), "x"), ALL),
    "products of both kinds": (lambda L, w, x: L.grad(lambda w: L.lax.psum((x * w).sum(), "x") * w * w)(w), ALL),
    "vjp": (pulled, (ALL, ROWS)),
    "jacrev": (lambda L, w, x: L.jacrev(lambda w: L.lax.psum(x * w, "x"))(w), ALL),
    "hessian": (lambda L, w, x: L.hessian(lambda w: L.lax.psum((x * w**3).sum(), "x"))(w), ALL),
    "twice": (lambda L, w, x: L.grad(lambda w: L.grad(lambda w: (x * w**3).sum())(w) * w)(w), ALL),
    "along another axis": (
        lambda L, w, x: L.grad(lambda w: (x * w * w).sum() * L.lax.axis_index("y"))(w), ALL,
    ),
    "rows": (lambda L, w, x: L.vmap(L.grad(lambda w, x: (x * w * w).sum()), (None, 0))(w, x), ROWS),
    "rows of a replicated value": (
        lambda L, w, x: L.vmap(lambda w: L.grad(lambda w: (x * w * w).sum())(w))(L.numpy.stack([w, 2 * w])), ALL,
    ),
    "linear_transpose": (lambda L, w, x: L.linear_transpose(lambda w: x * w, w)(x)[0], ALL),
    "branches": (
        lambda L, w, x: L.grad(lambda w: L.lax.cond(w > 0, lambda: (x * w).sum(), lambda: (x * w * w).sum()))(w), ALL,
    ),
    "checkpoint": (lambda L, w, x: L.grad(L.checkpoint(lambda w: L.numpy.sin(x * w).sum()))(w), ALL),
    "a gathered value": (lambda L, w, x: L.grad(lambda x: (L.lax.all_gather(x * w, "x") ** 2).sum())(x), ROWS),
    "marked": (lambda L, w, x: L.grad(lambda w: (w * x).sum())(L.lax.pcast(w, "x", to="varying"))[None], ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_derivatives_inside_as_jax(mesh, name):
    fun, specs = INSIDE[name]

    def results(library, mesh, spec):
        outs = tuple(spec(*each) for each in specs) if specs and isinstance(specs[0], tuple) else spec(*specs)
        mapped = library.shard_map(
            lambda w, x: fun(library, w, x), mesh=mesh, in_specs=(spec(), spec("x")), out_specs=outs
        )
        return library.block_until_ready(library.jit(mapped)(np.float32(3), X[0] + 1))

    def of(jax):
        their_mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        return results(jax, their_mesh, jax.sharding.PartitionSpec)

    ours = results(xpr, mesh, P)
    beside(of, lambda theirs: close(ours, list(map(np.asarray, theirs))))


def test_derivatives_through_what_has_derivatives_inside(mesh):
    """A step of gradient descent inside is a function like any other, and so is its gradient."""

    def steps(w, x):
        return looped(xpr, w, x)[0]

    inside = xpr.shard_map(steps, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())

    def alone(w, x):
        for _ in range(3):
            w = w - 0.01 * xpr.grad(lambda w: (x * w * w).sum() / 4)(w)
        return w

    one, other = (xpr.value_and_grad(f, (0, 1))(np.float32(3), X[0] + 1) for f in (inside, alone))
    close(one, other)
    close(
        xpr.jvp(inside, (np.float32(3), X[0]), (np.float32(1), X[1])),
        xpr.jvp(alone, (np.float32(3), X[0]), (np.float32(1), X[1])),
    )


def test_derivatives_of_copies_where_nothing_is_checked(mesh):
    """With check_vma=False a device's copy is its own, as under pmap."""
    fun = xpr.shard_map(
        lambda w, x: xpr.grad(lambda w: (x * w * w).sum())(w)[None], mesh=mesh, in_specs=(P(), P("x")),
        out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    close(fun(np.float32(3), X[0]), 6 * X[0].reshape(4, 2).sum(1))


def test_checks_and_dead_results(mesh):
    def halves(x):
        checkify.check(jnp.all(x < 6), "{} is too large", x[0])
        return x / 2, jnp.cos(x)

    fun = xpr.shard_map(halves, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P("x")))
    for wrap in (lambda f: f, xpr.jit):
        error, outs = wrap(checkify.checkify(fun))(np.arange(8, dtype=np.float32))
        assert error.get().startswith("6.0 is too large (`check` failed) (shard_map_cases.py:")
        close(outs[0], np.arange(8, dtype=np.float32) / 2)
        assert wrap(checkify.checkify(fun))(np.zeros(8, np.float32))[0].get() is None
    inverse = xpr.shard_map(lambda x: 1 / x, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    errors = checkify.checkify(inverse, errors=checkify.div_checks)
    assert errors(X)[0].get() is None and errors(X - X[7, 5])[0].get().startswith("division by zero")
    two = xpr.shard_map(lambda x, y: (x + 1, y * 2), mesh=mesh, in_specs=(P("x"), P("y")), out_specs=(P("x"), P("y")))
    (eqn,) = xpr.jaxpr.dce(xpr.make_jaxpr(lambda x, y: two(x, y)[1])(X, X)).jaxpr.eqns
    assert len(eqn.invars) == len(eqn.outvars) == 1 and eqn.params["in_specs"] == (("y",),)


def test_collectives_of_a_compiled_program(mesh):
    def local(z):
        return lax.psum(z, "x") / 4 + lax.ppermute(z, "x", [(0, 1), (1, 2)]) + lax.all_to_all(z, "y", 0, 0, tiled=True)

    mapped = xpr.shard_map(local, mesh=mesh, in_specs=P("y"), out_specs=P("y"), check_vma=False)
    compiled = xpr.jit(lambda x: lax.scan(lambda c, _: (mapped(c), None), x, None, length=10)[0]).lower(X).compile()
    assert sorted(compiled.collectives()) == [
        ("all-reduce", 128, ("x",), 4, 10),
        ("all-to-all", 128, ("y",), 2, 10),
        ("collective-permute", 128, ("x",), 2, 10),
    ]


class TestInSpecs:
    """What shard_map makes of arguments that have no spec."""

    def test_left_out(self, mesh):
        def parts(x, y):
            seen.append((x.shape, y["a"].shape))
            return lax.psum(x.sum(), ("x", "y")) + 0 * lax.psum(y["a"].sum(), ("x", "y"))

        seen = []
        x = xpr.device_put(X, NamedSharding(mesh, P("x", "y")))
        for call in (xpr.shard_map(parts, mesh=mesh, out_specs=P()), xpr.shard_map(mesh=mesh, out_specs=P())(parts)):
            close(call(x, {"a": W}), X.sum())
        with xpr.set_mesh(mesh):
            close(xpr.shard_map(parts, out_specs=P())(x, {"a": W}), X.sum())
        assert seen == [((2, 4), (8, 6))] * 3

    def test_the_gradient_of_a_number_that_all_devices_have(self, mesh):
        mapped = xpr.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P())
        assert float(xpr.grad(mapped)(2.0)) == float(xpr.jit(xpr.grad(mapped))(jnp.asarray(2.0))) == 1
        unchecked = xpr.shard_map(lambda x: x * 3.0, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
        assert float(xpr.grad(unchecked)(2.0)) == 3

    def test_left_out_of_arguments_of_jit(self, mesh):
        def parts(x):
            seen.append(x.shape)
            return lax.psum(x.sum(), ("x", "y"))

        seen: list = []
        mapped = xpr.shard_map(parts, mesh=mesh, out_specs=P())
        jitted = xpr.jit(mapped)
        nested = xpr.jit(lambda y: xpr.jit(mapped)(y))
        for spec, copies in ((P("x", "y"), 1), (P("y"), 4), (P(), 8)):
            x = xpr.device_put(X, NamedSharding(mesh, spec))
            part = x.sharding.shard_shape(X.shape)
            for call in (mapped, jitted, nested, jitted, nested):
                close(call(x), X.sum() * copies)
            for call in (xpr.grad(mapped), xpr.grad(jitted), xpr.jit(xpr.grad(mapped)), xpr.jit(xpr.grad(nested))):
                close(call(x), np.full_like(X, copies))
            assert xpr.make_jaxpr(mapped)(x).eqns[0].params["in_specs"] == (tuple(spec),)
            like = xpr.ShapeDtypeStruct(X.shape, X.dtype, sharding=x.sharding)
            close(jitted.lower(like).compile()(x), X.sum() * copies)
            assert set(seen) == {part}
            seen.clear()
        close(jitted(X), X.sum() * 8)

    def test_left_out_where_parts_have_one_shape(self, mesh):
        same = xpr.shard_map(lambda x: x, mesh=mesh, out_specs=P())
        whole, rows = np.ones((2, 6), np.float32), np.ones((8, 6), np.float32)
        close(same(xpr.device_put(whole, NamedSharding(mesh, P()))), whole)
        with pytest.raises(ValueError, match="may differ between the devices along 'x'"):
            same(xpr.device_put(rows, NamedSharding(mesh, P("x"))))

    def test_left_out_of_some_axes(self, mesh):
        x = xpr.device_put(X, NamedSharding(mesh, P("y", "x")))
        y = xpr.shard_map(lambda x: x + lax.axis_index("x"), mesh=mesh, out_specs=P(None, "x"), axis_names={"x"})(x)
        close(y, X + np.repeat(np.arange(4, dtype=np.float32), 2))

    def test_unknown(self, mesh):
        call = xpr.shard_map(jnp.sin, mesh=mesh, out_specs=P("x"))
        with pytest.raises(ValueError) as error:
            xpr.jit(lambda x: call(x + 1))(X)
        assert str(error.value) == (
            "shard_map: in_specs was left out, and argument x of sin is traced, so that its sharding is not known. "
            "Say how arguments are to be sharded over Mesh('x': 4, 'y': 2): shard_map(..., in_specs=...), with a "
            "PartitionSpec for each."
        )
        elsewhere = xpr.device_put(X, NamedSharding(xpr.make_mesh((8,), ("z",)), P("z")))
        with pytest.raises(ValueError, match=r"argument x of sin has the sharding NamedSharding\(mesh=Mesh\('z': 8\)"):
            call(elsewhere)

    def test_none(self, mesh):
        traced = []

        def times(x, n, y=None, *rest):
            traced.append(n)
            return x * n + sum(range(n)) + (0 if y is None else y.sum())

        call = xpr.shard_map(times, mesh=mesh, in_specs=(P("x"), None), out_specs=P("x"))
        for n in (3, 3, 4):
            close(call(X, n), X * n + sum(range(n)))
        assert traced == [3, 4]
        close(xpr.jit(lambda x: call(x, 3))(X), X * 3 + 3)
        close(xpr.shard_map(times, mesh=mesh, in_specs=None, out_specs=P())(X, 2, W), X * 2 + 1 + W.sum())
        unhashable = xpr.shard_map(
            lambda x, keys: x * len(keys["a"]), mesh=mesh, in_specs=(P("x"), None), out_specs=P("x")
        )
        close(unhashable(X, {"a": "text"}), X * 4)
        one = xpr.shard_map(lambda x, y: x, mesh=mesh, in_specs=(P("x"), None), out_specs=P("x"))
        close(one(X, None), X)
        with pytest.raises(TypeError, match="out_specs of .* holds None, which is no PartitionSpec"):
            xpr.shard_map(jnp.sin, mesh=mesh, in_specs=P("x"), out_specs=None)(X)

    def test_as_jax(self):
        def found(lib):
            spec, kind = lib.sharding.PartitionSpec, lib.sharding.AxisType.Explicit
            mesh = lib.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))
            x = lib.device_put(X, lib.sharding.NamedSharding(mesh, spec("x")))
            total = lib.shard_map(lambda x: lib.lax.psum(x.sum(0), "x"), mesh=mesh, out_specs=spec())
            scaled = lib.shard_map(lambda x, n: x * len(n), mesh=mesh, in_specs=(spec("x"), None), out_specs=spec("x"))
            return [total(x), scaled(x, "abc")]

        ours = found(xpr)
        beside(found, lambda theirs: close(ours, list(map(np.asarray, theirs))))


RING = [(i, (i + 1) % 4) for i in range(4)]
PARTING = {
    "while": lambda x: lax.while_loop(lambda c: (c < 20).all(), lambda c: c + lax.psum(c, "x") + 1, x),
    "cond": lambda x: lax.cond(lax.axis_index("x") > 1, lambda c: lax.psum(c, "x") + c, lambda c: c, x),
    "inside of scan": lambda x: lax.scan(
        lambda c, y: (lax.cond(y[0] > 2, lambda c: lax.all_gather(c, "x").sum(0), lambda c: c, c), y), x[0], x
    )[1],
    "number of steps": lambda x: lax.fori_loop(0, lax.axis_index("x"), lambda i, c: lax.ppermute(c, "x", RING), x),
}


@pytest.mark.parametrize("name", PARTING)
def test_devices_that_would_wait_forever(mesh, name):
    with pytest.raises(ValueError) as error:
        xpr.shard_map(PARTING[name], mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    text = str(error.value)
    assert "communicates along 'x', and what it does may differ between the devices along 'x'" in text
    assert " at shard_map_cases.py:" in text and "check_vma=False" in text


def test_devices_that_decide_together(mesh):
    def steps(x):
        y = lax.while_loop(lambda c: lax.pmax(c.max(), "x") < 20, lambda c: c + lax.psum(abs(c), "x") + 1, x)
        z = lax.while_loop(
            lambda c: (c < 20).all(), lambda c: c + lax.pmean(abs(c), "y") + 1, x
        )  # all along y do alike
        return y, lax.cond(lax.psum(x.sum(), "x") > -99, lambda z: z + lax.pmean(z, "x"), lambda z: z, z)

    y, z = xpr.shard_map(steps, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    assert float(y.max()) >= 20 and np.isfinite(z).all()


def test_arguments_by_name(mesh):
    with pytest.raises(
        TypeError, match="shard_map: <lambda> at .* was given 'y' by name, and arguments have their specs"
    ):
        xpr.shard_map(lambda x, y: x + y, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X, y=X)


# -- Values inside of an eager shard_map


def test_functions_see_values_where_nothing_is_staged(capsys):
    mesh = xpr.make_mesh((2, 2), ("x", "y"))

    def f(x):
        total = lax.psum(x, ("x", "y"))
        print(x)
        return x * int(total[0, 0]) if total > 3 else -x

    mapped = xpr.shard_map(f, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    for x in (jnp.arange(4.0).reshape(2, 2), jnp.zeros((2, 2)), jnp.ones((2, 2))):  # the branch is taken anew
        total = float(x.sum())
        np.testing.assert_array_equal(mapped(x), x * total if total > 3 else -x)
        text = capsys.readouterr().out
        assert text.startswith("On cpu:0 at mesh coordinates (x, y,) = (0, 0):\n[[")
        assert f"On cpu:2 at mesh coordinates (x, y,) = (1, 0):\n[[{float(x[1, 0]):.0f}.]]\n\nOn cpu:3" in text
    close(xpr.grad(lambda x: mapped(x).sum())(jnp.ones((2, 2))), np.full((2, 2), 4.0, np.float32))
    with pytest.raises(xpr.errors.TracerBoolConversionError):
        xpr.jit(mapped)(jnp.ones((2, 2)))


def test_values_that_differ_between_devices_decide_nothing():
    mesh = xpr.make_mesh((2,), "x")
    for check in (True, False):
        mapped = xpr.shard_map(
            lambda x: x if x[0] > 0 else -x, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check
        )
        with pytest.raises(xpr.errors.TracerBoolConversionError, match="may differ between the devices of Mesh"):
            mapped(jnp.array([1.0, -1.0]))
    np.testing.assert_array_equal(mapped(jnp.array([1.0, 1.0])), [1.0, 1.0])  # unchecked, and all devices agree


def test_values_of_what_is_closed_over_and_of_indices():
    mesh, w = xpr.make_mesh((4,), "x"), jnp.arange(3.0)

    def f():
        print(lax.axis_index("x"))
        return 1.0 if lax.psum(lax.axis_index("x"), "x") > w.sum() else -1.0

    assert xpr.shard_map(f, mesh=mesh, in_specs=(), out_specs=P())() == 1.0


# -- Shardings of results, and types of collectives


def test_results_have_the_specs_that_were_asked_for():
    mesh, spec = xpr.make_mesh((1, 4, 1), ("a", "b", "c")), P("a", "b", "c")
    x = xpr.device_put(jnp.ones((2, 16, 4)), NamedSharding(mesh, spec))
    mapped = xpr.shard_map(lambda x: x * x + 2, mesh=mesh, in_specs=spec, out_specs=spec)
    assert mapped(x).sharding.spec is spec and xpr.grad(lambda x: mapped(x).sum())(x).shape == x.shape


def test_types_of_what_is_gathered():
    mesh = xpr.make_mesh((4,), "x")

    def f(x, y):
        assert x.vma == {"x"} and lax.all_gather(y, "x").shape == (4, *y.shape)
        assert lax.all_gather(x, "x", tiled=True, to="varying").mat.varying == {"x"}
        out = lax.all_gather(x, "x", tiled=True, to="invarying")
        assert out.vma == frozenset()
        return out

    mapped = xpr.shard_map(f, mesh=mesh, in_specs=(P("x"), P()), out_specs=P())
    x = jnp.arange(8.0)
    for g in (mapped, xpr.jit(mapped)):
        np.testing.assert_array_equal(g(x, x), x)
        np.testing.assert_array_equal(xpr.grad(lambda x, g=g: (g(x, x) * x).sum())(x), 2 * x)


# -- Messages


def test_specs_with_more_elements_than_arguments_have_axes():
    mesh = xpr.make_mesh((2,), "x")
    with pytest.raises(ValueError, match=r"'f': .* x of f.* has rank 0.* using an in_specs entry of `P\(\)`"):

        def f(x):
            return x

        xpr.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P())(1.0)


def test_an_argument_that_can_not_be_hashed_needs_no_spec():
    class Unhashable:
        def __hash__(self):
            raise RuntimeError

    mesh = xpr.make_mesh((2,), "x")
    assert xpr.shard_map(lambda a: (), mesh=mesh, in_specs=(None,), out_specs=())(Unhashable()) == ()


def test_pcast_is_for_functions_that_are_mapped():
    with pytest.raises(ValueError, match="pvary should be called under jax.shard_map, where 'x' is an axis"):
        lax.pcast(1.0, "x", to="varying")


def test_sums_are_over_explicit_axes_and_of_what_varies():
    mesh = xpr.make_mesh((2, 2), ("x", "y"))
    mapped = {"in_specs": P(unreduced={"x"}), "out_specs": P()}
    with pytest.raises(ValueError, match="unreduced axes are axes of type Explicit"):
        xpr.shard_map(lambda x: x, mesh=mesh, **mapped)(jnp.ones(8))
    with pytest.raises(NotImplementedError, match="unreduced axes only where shard_map is manual over the whole"):
        xpr.shard_map(lambda x: x, mesh=mesh, axis_names={"x"}, **mapped)(jnp.ones(8))
    with xpr.set_mesh(xpr.make_mesh((2, 2), ("x", "y"), (AxisType.Explicit,) * 2)):
        x = xpr.device_put(jnp.ones((2, 2)), P("x"))
        with pytest.raises(ValueError, match="vary_unreduced_cast is a Varying->Unreduced collective"):
            xpr.shard_map(lambda x: x, out_specs=P("x", unreduced={"y"}))(x)
        with pytest.raises(ValueError, match="jax.lax.pcast can only accept axis_name which holds axes"):
            xpr.shard_map(lambda x: lax.pcast(x, "x", to="reduced"), out_specs=P(reduced={"x"}))(x)


def test_carries_and_branches_vary_alike():
    mesh, x = xpr.make_mesh((2, 2), ("x", "y")), jnp.arange(4.0)

    def mapped(f):
        return xpr.shard_map(f, mesh=mesh, in_specs=(P("x"), P("y")), out_specs=P(("x", "y")))

    def loop(x, y):
        return lax.scan(lambda carry, _: (carry * x, None), jnp.ones(2), None, 2)[0]

    with pytest.raises(
        xpr.errors.CarryMismatch, match=r"applying `jax.lax.pcast\(..., \('x',\), .* to the initial carry"
    ):
        mapped(loop)(x, x)

    def swapped(x, y):
        return lax.while_loop(lambda c: c[0].sum() < 0, lambda c: (c[1], c[0]), (x, y))[0]

    message = r"might be fixed by:\n  \* applying `jax.lax.pcast\(..., \('y',\).*carry\[0\]\n.*\('x',\).*carry\[1\]"
    with pytest.raises(xpr.errors.CarryMismatch, match=message):
        mapped(swapped)(x, x)

    def branches(x, y):
        return lax.cond(True, lambda: x, lambda: y)

    message = r"applying `jax.lax.pcast\(..., \('y',\), to='varying'\)` to the output of true_fun: result\n"
    with pytest.raises(xpr.errors.BranchMismatch, match=message):
        mapped(branches)(x, x)

    def alike(x, y):
        start = jnp.zeros_like(x) + lax.full_like(y, 1)
        return lax.scan(lambda carry, _: (carry * x, None), start, None, 2)[0]

    np.testing.assert_array_equal(mapped(alike)(x, x), (x**2)[np.array([0, 1, 0, 1, 2, 3, 2, 3])])


def test_operands_are_cast_by_the_user_with_auto_pcast_off():
    mesh, x = xpr.make_mesh((2,), "x"), jnp.arange(4.0)

    def run(f):
        return xpr.shard_map(f, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))(x, x[:2])

    np.testing.assert_array_equal(run(lambda x, y: x * y), [0, 1, 0, 3])
    with override("auto_pcast", False):
        with pytest.raises(ValueError, match=r"mul requires varying manual axes to match.*f32\[2\] over \['x'\]"):
            run(lambda x, y: x * y)
        np.testing.assert_array_equal(run(lambda x, y: 2 * x * lax.pcast(y, "x", to="varying")), [0, 2, 0, 6])


def test_axes_of_size_one_may_be_left_out_of_types():
    mesh = xpr.make_mesh((2, 1), ("x", "y"), (AxisType.Explicit,) * 2)

    def f(x):
        assert x.vma == {"x"}
        return lax.psum(lax.pcast(x, "y", to="varying"), "x")

    with override("remove_size_one_mesh_axis_from_type", True), xpr.set_mesh(mesh):
        x = xpr.device_put(jnp.arange(8.0).reshape(4, 2), P("x", "y"))
        assert xpr.typeof(x).str_short() == "f32[4@x,2]"
        np.testing.assert_array_equal(xpr.shard_map(f, in_specs=P("x", "y"), out_specs=P())(x), [[4, 6], [8, 10]])


def test_constraints_inside_and_beside():
    mesh, x = xpr.make_mesh((4, 2), ("x", "y")), jnp.arange(8.0)
    mapped = {"mesh": mesh, "in_specs": P("x"), "out_specs": P("x")}
    uneven = NamedSharding(mesh, P(("x", "y")))

    @xpr.jit
    def f(x):
        rows = xpr.shard_map(lambda x: x.sum(keepdims=True), axis_names={"x"}, **mapped)(x)
        return lax.with_sharding_constraint(rows, uneven)  # of four elements for eight devices

    np.testing.assert_array_equal(f(x), [1, 5, 9, 13])
    assert f(x).sharding.spec == P("x")
    with pytest.raises(ValueError, match="4, the size of its axis 0, is not divisible by 8"):
        lax.with_sharding_constraint(x[:4], uneven)
    constrained = xpr.shard_map(lambda x: lax.with_sharding_constraint(x, uneven), **mapped)
    with pytest.raises(ValueError, match="contains a manual axes 'x' of mesh"):
        constrained(x)


def test_gradients_inside_vary_as_their_arguments_do():
    mesh = xpr.make_mesh((2, 2), ("x", "y"))

    def f(w, x, y):
        of_w, of_x = xpr.grad(lambda w, x: (w * x).sum(), (0, 1))(w, x)
        assert (of_w.vma, of_x.vma) == (frozenset(), {"x"})
        assert xpr.jacrev(lambda y: (y * w).sum()[None])(y).vma == {"y"}
        return of_w, of_x

    specs = {"in_specs": (P(), P("x"), P("y")), "out_specs": (P(), P("x"))}
    of_w, of_x = xpr.shard_map(f, mesh=mesh, **specs)(jnp.float32(3), jnp.arange(4.0), jnp.arange(4.0))
    assert of_w == 6 and of_x.tolist() == [3] * 4


def operations_of_transpose(f, x, ct):
    (eqn,) = xpr.make_jaxpr(xpr.vjp(f, x)[1])(ct).eqns
    return [str(each.primitive) for each in eqn.params["jaxpr"].eqns]


def test_transposes_sum_only_what_differs_between_devices():
    mesh, x, one = xpr.make_mesh((4,), "x"), jnp.arange(4.0), jnp.arange(1.0)

    def mapped(f, spec, spec_of_result):
        return xpr.shard_map(f, mesh=mesh, in_specs=P(*spec), out_specs=P(*spec_of_result))

    def psum(x):
        return lax.psum(x, "x")

    def looped(x):
        return lax.scan(lambda c, _: (lax.pcast(psum(c), "x", to="varying"), psum(c)), x, None, length=2)[1].sum(0)

    assert operations_of_transpose(mapped(lambda x: x, (), ()), one, one) == []
    assert operations_of_transpose(mapped(psum, "x", ()), x, one) == ["pvary"]
    assert operations_of_transpose(mapped(lambda x: x, (), "x"), one, x) == ["psum"]
    assert operations_of_transpose(mapped(psum, "x", "x"), x, x) == ["psum"]
    assert operations_of_transpose(mapped(psum, (), ()), one, one) == ["pvary", "mul"]
    assert operations_of_transpose(mapped(xpr.jit(psum), "x", ()), x, one) == ["xla_call", "div"]
    assert operations_of_transpose(mapped(lambda x: psum(x) + psum(2 * x), "x", ()), x, one).count("psum") == 0
    for f in (mapped(psum, "x", ()), mapped(psum, (), ()), mapped(xpr.jit(psum), "x", ()), mapped(looped, "x", ())):
        of_f = loss(f)
        rows = [xpr.jvp(of_f, (x,), (row,))[1] for row in np.eye(4, dtype=np.float32)]
        close(xpr.grad(of_f)(x), jnp.stack(rows))


def test_a_step_of_training_sums_the_loss_and_the_gradients_once():
    mesh = xpr.make_mesh((8,), "data")

    def loss(w, x):
        return lax.pmean(jnp.sum(jnp.tanh(x @ w) ** 2), "data")

    mapped = xpr.shard_map(loss, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
    step = xpr.jit(xpr.grad(mapped))
    close(step(W, X), xpr.grad(lambda w: jnp.sum(jnp.tanh(X @ w) ** 2) / 8)(W))
    assert step.lower(W, X).compile().collectives() == [("all-reduce", 4 * W.size, ("data",), 8, 1)]


def test_gradients_with_nothing_checked_are_exact():
    mesh = xpr.make_mesh((4,), "x")
    q, k = jnp.arange(32.0).reshape(4, 8), jnp.arange(8.0)

    def f(q, k, v):
        mapped = xpr.shard_map(
            lambda q, k, v: q * k + v, mesh=mesh, in_specs=(P("x"), P(), P()), out_specs=P("x"), check_vma=False
        )
        return mapped(q, k, v).sum()

    of_q, of_k, of_v = xpr.grad(f, (0, 1, 2))(q, k, k)
    np.testing.assert_array_equal(of_q, np.broadcast_to(k, (4, 8)))
    np.testing.assert_array_equal(of_k, q.sum(0))
    np.testing.assert_array_equal(of_v, np.full(8, 4.0))


def test_collectives_and_zeros_vary_as_in_jax():
    mesh = xpr.make_mesh((2, 2), ("x", "y"))

    def axes(*values):
        return ["".join(sorted(value.vma)) for value in values]

    def f(w, x, y):
        assert axes(*xpr.grad(lambda w, x, y: (w * w).sum(), (0, 1, 2))(w, x, y)) == ["", "x", "y"]
        assert axes(*xpr.vjp(lambda w, x, y: w, w, x, y)[1](w)) == ["", "x", "y"]
        assert axes(*xpr.jvp(lambda x: (lax.stop_gradient(x),), (x,), (x,))[1]) == ["x"]
        assert axes(lax.all_gather(w, "x"), lax.all_gather(w, ("x", "y")), lax.all_gather(x, "x")) == ["x", "xy", "x"]
        assert axes(lax.ppermute(w, "x", [(0, 1)]), lax.psum_scatter(w, "x", tiled=True)) == ["x", "x"]
        assert axes(lax.all_to_all(w, "y", 0, 0, tiled=True), lax.pshuffle(x, "y", [1, 0])) == ["y", "xy"]
        assert axes(lax.psum(w, "x"), lax.pmax(w, "x"), lax.pmin(x, "y"), lax.pmean(x, "x")) == ["", "", "x", ""]
        assert axes(lax.all_gather(w, "x", to="invarying")) == [""]
        gathered, back = xpr.vjp(lambda w: lax.all_gather(w, "x").sum(), w)
        return lax.pmax(gathered, "x"), back(gathered)[0]

    specs = {"in_specs": (P(), P("x"), P("y")), "out_specs": P()}
    gathered, ct = xpr.shard_map(f, mesh=mesh, **specs)(jnp.arange(4.0), jnp.arange(8.0), jnp.arange(8.0))
    assert gathered == 12 and ct.tolist() == [48.0] * 4


@pytest.mark.parametrize("inside", [False, True])
def test_rules_that_are_not_linear_get_whole_cotangents(inside):
    """A custom_vjp that clips gradients, of replicated weights: the sum is clipped, and not each addend."""
    mesh = xpr.make_mesh((8,), "x")

    @xpr.custom_vjp
    def clipped(w):
        return w

    clipped.defvjp(lambda w: (w, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))

    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ clipped(w)))

    specs = {"mesh": mesh, "in_specs": (P(), P("x")), "out_specs": P()}
    mapped = xpr.shard_map(lambda w, x: lax.psum(loss(w, x), "x"), **specs)
    gradient = xpr.shard_map(xpr.grad(lambda w, x: lax.psum(loss(w, x), "x")), **specs) if inside else xpr.grad(mapped)
    expected = xpr.grad(loss)(W, X)
    assert np.abs(expected).max() == 1
    close(gradient(W, X), expected)
    close(xpr.jit(gradient)(W, X), expected)


def test_rows_along_an_axis_of_the_specs_with_the_check_off():
    mesh = xpr.make_mesh((2,), ("i",), devices=xpr.devices()[:2])
    gathered = lambda x, y: x + lax.all_gather(y, "i", tiled=True)
    add = xpr.shard_map(gathered, mesh=mesh, in_specs=(P(None), P("i")), out_specs=P(None), check_vma=False)
    rows, y = jnp.arange(32).reshape(4, 8), jnp.arange(8)
    mapped = xpr.vmap(add, (0, None), spmd_axis_name="i")
    with pytest.raises(ValueError, match="spmd_axis_name cannot appear in in_specs"):
        mapped(rows, y)
    with override("disable_vmap_shmap_error", True):
        np.testing.assert_array_equal(mapped(rows, y), rows + y)
