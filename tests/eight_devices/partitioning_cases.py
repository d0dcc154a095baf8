"""custom_partitioning: functions that say themselves how they are computed on several devices; sharding rules."""

import re
from functools import partial

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.eight_devices import close
from tests.ops.table import floats
from xpr import lax
from xpr.control.devices.sharding_rules import rule_text, str_to_sdy_sharding_rule
from xpr.core.avals import ShapedArray
from xpr.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
    custom_partitioning_p,
)
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

X, Y = floats(32, 16), floats(16, 32, salt=1)


@pytest.fixture
def mesh():
    return xpr.make_mesh((4, 2), ("x", "y"))


def put(mesh, x, spec):
    return xpr.device_put(x, NamedSharding(mesh, spec))


def rows_of(sharding):
    return NamedSharding(sharding.mesh, P(*sharding.spec[:-1], None))


@pytest.fixture
def fft():
    """Its rows are whole on each device."""

    @custom_partitioning
    def fft(x):
        return jnp.fft.fft(x)

    def partition(mesh, arg_shapes, result_shape):
        rows = rows_of(arg_shapes[0].sharding)
        return mesh, jnp.fft.fft, rows, (rows,)

    fft.def_partition(partition, sharding_rule="... i -> ... i")
    return fft


@pytest.mark.parametrize("spec", [P("x"), P("y", "x"), P(None, "x"), P(("x", "y")), P()])
def test_rows_stay_where_they_are(mesh, fft, spec):
    x = put(mesh, X.astype(np.complex64), spec)
    found = xpr.jit(lambda x: 2 * fft(x) + 1)(x)
    close(found, 2 * np.fft.fft(X) + 1)
    text = xpr.jit(fft).lower(x).compile().as_text()
    assert ("all-gather" in text) == (len(spec) == 2)
    close(fft(x), np.fft.fft(X))
    close(xpr.jit(fft)(X.astype(np.complex64)), np.fft.fft(X))


def test_programs_of_one_device_communicate(mesh):
    @partial(custom_partitioning, static_argnums=(2,))
    def product(x, y, scale=1.0):
        z = x @ y * scale
        return z, z * z

    seen = []

    def partition(scale, mesh, arg_shapes, result_shape):
        x, y = arg_shapes
        seen.append((scale, x.shape, x.dtype, x.ndim, x.sharding.spec, y.sharding.spec))
        shared = y.sharding.spec[0]
        partitioned = NamedSharding(mesh, P("x", shared))
        result = NamedSharding(mesh, P("x", None))

        def of_one_device(x, y):
            z = lax.psum(x @ y, shared) * scale
            return z, z * z

        return mesh, of_one_device, (result, result), (partitioned, y.sharding)

    product.def_partition(partition, sharding_rule=SdyShardingRule((("i", "j"), ("j", "k")), (("i", "k"), ("i", "k"))))
    x, y = put(mesh, X, P("x")), put(mesh, Y, P("y"))
    for f in (xpr.jit(product, static_argnums=2), lambda *args: xpr.jit(partial(product, scale=args[2]))(*args[:2])):
        z, square = f(x, y, 2.0)
        close(z, 2 * X @ Y, 1e-5)
        close(square, (2 * X @ Y) ** 2, 1e-4)
        assert z.sharding.spec == square.sharding.spec == P("x")
    assert seen[0] == (2.0, (32, 16), np.float32, 2, P("x", "y"), P("y", None)) or seen[0][4:] == (
        P("x", None), P("y", None),
    )  # fmt: skip


def test_rules_that_depend_on_the_types(mesh):
    @custom_partitioning
    def total(tree):
        return {"sum": tree["a"] + tree["b"], "rows": tree["a"].sum(-1)}

    def partition(mesh, arg_shapes, result_shape):
        (struct,) = arg_shapes
        partitioned = rows_of(struct["a"].sharding)
        results = {"sum": partitioned, "rows": NamedSharding(mesh, P(*partitioned.spec[:-1]))}
        return (
            mesh,
            lambda tree: {"sum": tree["a"] + tree["b"], "rows": tree["a"].sum(-1)},
            results,
            ({"a": partitioned, "b": partitioned},),
        )

    def rule(mesh, arg_types, result_types):
        assert [aval.shape for aval in arg_types] == [(32, 16)] * 2 and len(result_types) == 2
        return "i j, i j -> i, i j", {"need_replication_factors": ("j",)}

    total.def_partition(partition, sharding_rule=rule)
    a = put(mesh, X, P("x", "y"))
    found = xpr.jit(lambda a, b: total({"b": b, "a": a}))(a, X)
    close(found["sum"], 2 * X)
    close(found["rows"], X.sum(-1), 1e-5)
    assert found["rows"].sharding.spec == P("x")


def test_in_loops_and_beside_other_operations(mesh, fft):
    def f(x):
        return lax.scan(lambda c, _: (fft(c) / 4, None), x, None, length=3)[0]

    expected = X
    for _ in range(3):
        expected = np.fft.fft(expected) / 4
    close(xpr.jit(f)(put(mesh, X.astype(np.complex64), P("x"))), expected, 1e-4)


def test_it_is_the_function_in_a_shard_map_and_on_one_device(mesh, fft):
    x = X.astype(np.complex64)
    mapped = xpr.shard_map(fft, mesh=mesh, in_specs=P(("x", "y")), out_specs=P(("x", "y")))
    close(xpr.jit(mapped)(x), np.fft.fft(X))
    jaxpr = xpr.make_jaxpr(fft)(x)
    assert [eqn.primitive for eqn in jaxpr.eqns] == [custom_partitioning_p]
    assert "custom_partitioning" in str(jaxpr)


def test_values_that_it_closes_over(mesh):
    shift = jnp.arange(16.0)

    def f(x, scale):
        @custom_partitioning
        def g(x):
            return x * scale + shift

        def partition(mesh, arg_shapes, result_shape):
            rows = rows_of(arg_shapes[0].sharding)
            return mesh, lambda x: x * 3.0 + np.arange(16.0, dtype=np.float32), rows, (rows,)

        g.def_partition(partition, sharding_rule="i j -> i j")
        return g(x)

    close(xpr.jit(f)(put(mesh, X, P("x")), 3.0), 3 * X + np.arange(16, dtype=np.float32))


def test_programs_that_are_compiled_again_inside_of_a_callback(mesh, fft):
    """The compiler asks again then, and found nobody."""
    seen = []

    @xpr.jit
    def f(x):
        y = fft(x)
        xpr.debug.callback(lambda v: seen.append(complex(v)), y[0, 0])
        return y

    x = put(mesh, X.astype(np.complex64), P("x"))
    inside = xpr.jit(lambda v: xpr.pure_callback(lambda v: np.asarray(f(x)), x, v))
    close([f(x), inside(1.0)], [np.fft.fft(X).astype(np.complex64)] * 2, 1e-4)
    close(np.array(seen), np.full(2, X[0].sum(), complex), 1e-4)


def test_its_derivative_and_its_rows_are_those_of_the_function(mesh, fft):
    x = put(mesh, X, P("x"))
    norm = lambda fft: lambda x: (jnp.abs(fft(x)) ** 2).sum()
    close(xpr.jit(xpr.grad(norm(fft)))(x), xpr.grad(norm(jnp.fft.fft))(X), 1e-4)
    close(xpr.jit(xpr.vmap(fft))(x), np.fft.fft(X))
    jaxpr = xpr.make_jaxpr(lambda x: xpr.jvp(fft, (x,), (x,)))(x.astype(complex))
    assert custom_partitioning_p in [eqn.primitive for eqn in jaxpr.eqns]


def test_what_partition_returns_is_checked(mesh):
    def of(results, program=lambda x: x):
        f = custom_partitioning(lambda x: x)
        f.def_partition(
            lambda mesh, *_: (
                mesh,
                program,
                results and NamedSharding(mesh, results),
                NamedSharding(mesh, P("x", None)),
            ),
            sharding_rule="i j -> i j",
        )
        return lambda: xpr.jit(f)(put(mesh, X, P("x")))

    close(of(P("x", None))(), X)
    with pytest.raises(Exception, match=r"Mismatch in result shapes\..*f32\[8,16\].*f32\[32,4\]"):
        of(P(None, "x"))()
    with pytest.raises(Exception, match=r"rules must return NamedShardings, and those of results are None"):
        of(None)()
    with pytest.raises(Exception, match="program says no"):
        of(P("x", None), program=lambda x: (_ for _ in ()).throw(ValueError("program says no")))()


def test_what_def_partition_refuses():
    f = custom_partitioning(lambda x: x)
    with pytest.raises(AttributeError, match="No partitioning is defined for .*Give it one with .*def_partition"):
        f(1.0)
    partition = lambda *args: args
    f.def_partition(partition, infer_sharding_from_operands=partition)
    with pytest.raises(NotImplementedError, match="provide sharding_rule to migrate to Shardy"):
        xpr.jit(f)(1.0)
    with pytest.raises(NotImplementedError, match="decode_shardings=False"):
        f.def_partition(partition, decode_shardings=False, sharding_rule="i -> i")
    with pytest.raises(ValueError, match="reduction_factors, k go with a rule that is a text"):
        f.def_partition(partition, sharding_rule=partition, reduction_factors=("i",), k=2)
    with pytest.raises(TypeError, match="a static argument of .* is traced"):
        g = custom_partitioning(lambda x, n: x, static_argnums=1)
        g.def_partition(partition, sharding_rule="i -> i")
        xpr.jit(g)(1.0, 2)


# -- Rules


@pytest.mark.parametrize(
    "rule, options, shapes, results, expected",
    [
        ("i j, j k -> i k", {"reduction_factors": ("j",)}, [(2, 4), (4, 8)], [(2, 8)],
         "<([i, j], [j, k])->([i, k]) {i=2, j=4, k=8} reduction={j}, custom>"),
        ("... a -> ... a", {"need_replication_factors": ("a",)}, [(2, 3, 5)], [(2, 3, 5)],
         "<([i, j, k])->([i, j, k]) {i=2, j=3, k=5} need_replication={k}, custom>"),
        ("(a b) c -> a (b c)", {"b": 3}, [(6, 5)], [(2, 15)],
         "<([ij, k])->([i, jk]) {i=2, j=3, k=5}, custom>"),
        ("i -> ", {"permutation_factors": ("i",)}, [(8,)], [()], "<([i])->([]) {i=8} permutation={i}, custom>"),
        ("i, i -> i", {}, [(8,), (4,)], [(8,)], "<([i], [i])->([i]) {i=4}, custom>"),
    ],
)  # fmt: skip
def test_texts_of_rules(rule, options, shapes, results, expected):
    avals = [[ShapedArray(shape, "float32") for shape in each] for each in (shapes, results)]
    text = rule_text(str_to_sdy_sharding_rule(rule, **options), *avals)
    assert text == "sdy.sharding_rule = #sdy.op_sharding_rule" + expected


def test_many_factors_have_names():
    names = " ".join(f"a{i}" for i in range(20))
    aval = [ShapedArray((2,) * 20, "float32")]
    text = rule_text(str_to_sdy_sharding_rule(f"{names} -> {names}"), aval, aval)
    assert re.search(r"y, z, z_1, z_2\]", text)


def test_rules_as_objects():
    assert ArrayMapping(BATCHING, CompoundFactor("i", "j"), "k") == ("…", ("i", "j"), "k")
    rule = SdyShardingRule((("i", "j"),), (("j",),), reduction_factors=("i",))
    assert repr(rule) == "SdyShardingRule((('i', 'j'),), (('j',),), reduction_factors=('i',))"
    assert repr(str_to_sdy_sharding_rule("i j -> j", reduction_factors=("i",))) == repr(rule)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: str_to_sdy_sharding_rule("i j"), "There is no -> in rule"),
        (lambda: str_to_sdy_sharding_rule(3), "A sharding rule is a text or an SdyShardingRule, and is 3"),
        (lambda: str_to_sdy_sharding_rule("(i j -> i"), "Brackets are not balanced"),
        (lambda: str_to_sdy_sharding_rule("i) j -> i"), "Brackets are not balanced"),
        (lambda: str_to_sdy_sharding_rule("i 2 -> i"), "The name of a factor is a letter, .* one is '2'"),
        (lambda: str_to_sdy_sharding_rule("i ... -> i"), r"stands for leading axes, .* at position 1 of \('i', '…'\)"),
        (lambda: str_to_sdy_sharding_rule("(i) -> i"), r"two factors or more, and this one has \('i',\)"),
        (lambda: str_to_sdy_sharding_rule("(i j) -> j"), "Factor i occurs in compound factors alone: its size"),
        (lambda: str_to_sdy_sharding_rule("i -> i", k=2), "Factor k is not used by an axis, and its size"),
        (lambda: str_to_sdy_sharding_rule("i -> i", i=2), "Factor i is a whole axis, whose size is known"),
        (lambda: str_to_sdy_sharding_rule("i -> i", reduction_factors=["i"]), "reduction_factors must be a tuple"),
        (lambda: str_to_sdy_sharding_rule("i -> i", reduction_factors=("k",)), "Factor k in reduction_factors is not"),
        (lambda: str_to_sdy_sharding_rule("i -> i", reduction_factors=("i",), permutation_factors=("i",)),
         "Factor i is in reduction_factors and in permutation_factors"),
    ],
)  # fmt: skip
def test_rules_that_are_none(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    "rule, shape, message",
    [
        ("i, i -> i", (2,), r"Sharding rule for 2 operands, of an operation with 1: Sdy.* for \(f32\[2\]\)"),
        ("i j -> i", (2,), r"Sharding rule has rank 2 for an array of type f32\[2\]"),
        ("(i j) -> j", (6,), "An axis of size 6 doesn't match its compound factors: i=4 [*] j=2"),
        ("... i -> ... i", (3, 2), "Leading axes that belong together have two sizes: 3 and 4"),
    ],
)
def test_rules_that_do_not_fit(rule, shape, message):
    out = (4, 2) if "." in rule else (2,)
    options = {"i": 4} if "(" in rule else {}
    with pytest.raises(ValueError, match=message):
        rule_text(
            str_to_sdy_sharding_rule(rule, **options), [ShapedArray(shape, "float32")], [ShapedArray(out, "float32")]
        )
