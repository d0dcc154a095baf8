"""Symbolic dimensions: their arithmetic and comparisons, programs with them, and the checks when these are called."""

import itertools
import math
import operator
import random
from functools import partial

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import in_numpy
from tests.peer import JAX
from xpr import core, export, image, lax, nn, scipy
from xpr import random as xrandom
from xpr.backend import portable
from xpr.dimensions.expressions import DimExpr, evaluate, surely_at_least, surely_below
from xpr.dimensions.slices import broadcast_sizes, slice_bounds
from xpr.errors import InconclusiveDimensionOperation, UnexpectedDimVar, UnsupportedRule
from xpr.jaxpr import parse
from xpr.random.choices import _LEAST_OF_ROUND

try:
    import flatbuffers as _peers_flatbuffers  # noqa: F401  # JAX's serialization needs it
except ImportError:
    JAX = None
exchanges = pytest.mark.skipif(JAX is None, reason="exchanges files with jax; it or flatbuffers is not installed")

FLOAT = np.float32


def dims(text="a, b, c", **options):
    return export.symbolic_shape(text, **options)


# -- Dimensions

# What a term of a, b and c prints as, in JAX too.
TEXTS = {
    "a + b": "b + a",
    "a - 1": "a - 1",
    "1 - a": "- a + 1",
    "2 * b * a": "2*a*b",
    "a * a * b": "a^2*b",
    "(a + b) * (a - b)": "- b^2 + a^2",
    "a + a - 2 * a + 3": "3",
    "4 * a // 2": "2*a",
    "(4 * a + 3) % 4": "3",
    "(4 * a + 3) // 4": "a",
    "(a * b + a) // a": "b + 1",
    "a // 2": "floordiv(a, 2)",
    "(a + b) % 3": "mod(b + a, 3)",
    "2 % a": "mod(2, a)",
    "0 // a": "0",
    "-3 // a": "floordiv(- 3, a)",
    "max_dim(a, 0)": "a",
    "max_dim(a, b) + 1": "max(a, b) + 1",
    "min_dim(a, b * c)": "min(a, b*c)",
    "a ** 3": "a^3",
    "-a": "- a",
    "divmod(3 * a + 1, 3)[1]": "1",
}


@pytest.mark.parametrize("code, text", TEXTS.items())
def test_arithmetic_prints_as_in_jax(code, text):
    def value(lib_dims, lib_core):
        names = dict(zip("abc", lib_dims("a, b, c")))
        return str(eval(code, {"max_dim": lib_core.max_dim, "min_dim": lib_core.min_dim, **names}))

    assert value(export.symbolic_shape, core) == text
    if JAX is not None:
        from jax import export as jax_export
        from jax._src import core as jax_core

        assert value(jax_export.symbolic_shape, jax_core) == text


def random_expression(generator, depth):
    """A function of (a, b, c), of integers or dimensions."""
    if not depth:
        choice = generator.choice([0, 1, 2, generator.randint(-4, 9)])
        return (lambda v: v[choice]) if choice in (0, 1, 2) and generator.random() < 0.7 else (lambda v: choice)
    left, right = (random_expression(generator, depth - 1) for _ in range(2))
    operations = [
        operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, core.max_dim, core.min_dim
    ]  # fmt: skip
    apply = generator.choice(operations)
    return lambda v: apply(left(v), right(v))


@pytest.mark.parametrize("seed", range(4))
def test_bounds_and_comparisons_hold_for_all_values(seed):
    generator = random.Random(seed)
    variables = dims()
    values = list(itertools.product([1, 2, 3, 7], [1, 2, 5], [1, 4]))
    decided = 0
    for _ in range(60):
        one, two = (random_expression(generator, generator.randint(1, 3)) for _ in range(2))
        try:
            x, y = one(variables), two(variables)
            found = x >= y
        except ZeroDivisionError:
            continue
        except InconclusiveDimensionOperation:
            found = None
        decided += found is not None
        for numbers in values:
            names = dict(zip("abc", numbers))
            try:
                assert evaluate(x, names) == one(numbers) and evaluate(y, names) == two(numbers)
            except ZeroDivisionError:
                continue
            assert found is None or (one(numbers) >= two(numbers)) == found, (x, y, names)
            if isinstance(x, DimExpr):
                lower, upper = x.scope.bounds(x)
                assert lower <= one(numbers) <= upper, (x, lower, upper, names)
        if isinstance(x, DimExpr):
            assert dims(str(x), scope=x.scope) == (x,)
    assert decided > 5


def test_equality_is_that_of_normal_forms():
    a, b, _ = dims()
    assert a + b == b + a and hash(a + b) == hash(b + a) and a != b and a != 1 and a + 0 is not None
    assert (a == dims("a")[0]) is False  # of another scope
    assert b in [a, b] and 3 * a - a == 2 * a and bool(a)


def test_comparisons_as_documented():
    a, b, _ = dims()
    assert a >= 1 and b >= 0 and 2 * a + b >= 3 and a + 2 >= 3 and a // 4 >= 0 and a**2 >= 1 and a * b >= a
    assert not a < 1 and not a - 1 < 0 and a % 4 < 4 and a - a % 4 >= 0 and core.max_dim(a, b) >= a
    for comparison in (lambda: a >= 2, lambda: a >= b, lambda: a - b >= 0, lambda: a < b):
        with pytest.raises(InconclusiveDimensionOperation, match="comparison .* is inconclusive"):
            comparison()
    assert surely_at_least(a, 1) and not surely_at_least(a, 2) and surely_below(a % 3, 3) and not surely_below(a, 9)
    (a,) = dims("a", constraints=["a >= 8"])
    with pytest.raises(InconclusiveDimensionOperation, match="with the constraints a >= 8: .* Add it"):
        operator.ge(a, 9)


def test_constraints():
    a, b = dims("a, b", constraints=("a >= b", "b >= 16"))
    assert a >= 16 and a - b >= 0 and a + 2 * b >= 48
    a, b, c, d = dims("a, b, c, d", constraints=("a * b == c + d",))
    assert str(2 * b * a) == "2*d + 2*c" and str(a * b * b) == "b*d + b*c"
    (a,) = dims("a", constraints=["mod(a, 3) == 0"])
    assert a % 3 == 0 and a // 3 * 3 == a
    (a,) = dims("a", constraints=["a <= 8"])
    assert a < 9 and core.min_dim(a, 10) == a
    (b,) = dims("b", constraints=["b >= mod(b, 3)"])
    assert b >= b % 3
    assert repr(b.scope) == "SymbolicScope(['b >= mod(b, 3)'])"


@pytest.mark.parametrize(
    "constraints, message",
    [
        ("a >= 1", "a sequence of texts, and are 'a >= 1'"),
        (["a > 1"], "'==', '>=' or '<=' between them, and is 'a > 1'"),
        (["a >= 4", "a <= 3"], "'a <= 3' holds for no values that satisfy the others"),
        (["1 >= 2"], "'1 >= 2' holds for no values"),
        (["a + b == 2"], "The left side of an equality is one term"),
        (["a >="], "can't be read: expected a dimension variable"),
    ],
)
def test_wrong_constraints(constraints, message):
    with pytest.raises(ValueError, match=message):
        export.SymbolicScope(constraints)


def test_multiples():
    b, c = dims("b, c", constraints=["mod(b, 4) == 0"])
    assert 4 * (b // 4) == b == -4 * (b // -4) and b // 4 * c * 2 * 2 == b * c and b % -4 == 0
    assert b >= b // 4 and b >= 3 * (b // 4) and b >= 4 * (b // 4)
    (a,) = dims("a", constraints=["mod(a + mod(a, 2), -2) == 0"])
    assert divmod(a + a % 2, -2)[1] == 0 == (a + a % 2) % 2 and (a + a % 2) // 2 * 2 == a + a % 2


def test_equalities_hold_in_either_order():
    a, b = dims("a, b", constraints=["b >= 2", "min(a, b) == b - 2"])
    assert core.min_dim(b, a) == core.min_dim(a, b) == b - 2 and str(core.max_dim(b, a)) == "max(a, b)"


def test_two_equalities_of_one_term():
    with pytest.raises(NotImplementedError, match="several equalities with the left side a"):
        export.SymbolicScope(["2*a == c", "a == d"])


def test_scopes_do_not_mix():
    (a,), (b,) = dims("a"), dims("b", constraints=["b >= 8"])
    message = r"Invalid mixing of symbolic scopes in a sum.*'b' scope 0x\w+ with constraints b >= 8"
    with pytest.raises(ValueError, match=message):
        a + b
    (c,) = dims("c", scope=a.scope)
    assert str(a + c) == "c + a"
    with pytest.raises(TypeError, match="symbolic_shape: scope is a SymbolicScope, and is 3"):
        dims("a", scope=3)
    with pytest.raises(ValueError, match="constraints for a new scope, or a scope, which has its own; not both"):
        dims("a", scope=a.scope, constraints=["a >= 1"])


def test_shapes_from_text():
    assert str(dims("(a, 2*b + 1, 3)")) == "(a, 2*b + 1, 3)" and dims("3,") == (3,) and dims("") == ()
    assert str(dims("floordiv(a, 2), mod(a, 3), max(a, 2), min(a, b), a^2, -1 + a")) == (
        "(floordiv(a, 2), mod(a, 3), max(a, 2), min(a, b), a^2, a - 1)"
    )
    assert str(dims("_, b, ...", like=(2, 3, 4, 5))) == "(2, b, 4, 5)" and dims(None, like=(1, 2)) == (1, 2)
    assert export.is_symbolic_dim(dims("a")[0]) and not export.is_symbolic_dim(3)


@pytest.mark.parametrize(
    "text, like, message",
    [
        (3, None, "a text or None, and is 3"),
        ("a b", None, "expected ',', and found 'b' after 'a'"),
        ("a +", None, "expected a dimension variable or an integer, and found the end"),
        ("max(a)", None, r"expected ',', and found '\)'"),
        ("(a", None, r"expected '\)', and found the end"),
        ("a)", None, r"expected the end, and found '\)'"),
        ("a^b", None, "expected an integer"),
        ("_", None, "a placeholder needs a shape `like`"),
        ("a, _", (2,), "`like` has only 1 dimensions"),
        ("_", (None,), "is not known in `like`"),
        ("a, 3", (2, 4), "dimension 1 is 4 in `like`, and not 3"),
        ("a", (2, 4), r"has 1 dimensions, and `like` is \(2, 4\)"),
    ],
)
def test_texts_that_are_no_shapes(text, like, message):
    with pytest.raises(ValueError, match=message):
        dims(text, like=like)


def test_specs_of_arguments():
    args = {"x": np.ones((3, 4), FLOAT), "y": (jnp.ones((3, 2), jnp.int32), 1.0)}
    specs = export.symbolic_args_specs(args, {"x": "a, _", "y": ("a, ...", None)})
    assert str(specs["x"]) == "ShapeDtypeStruct(shape=(a, 4), dtype=float32)"
    assert str(specs["y"][0].shape) == "(a, 2)" and specs["y"][1].shape == ()
    assert specs["x"].shape[0] == specs["y"][0].shape[0]
    assert specs["x"].size == 4 * specs["x"].shape[0] and len(specs["x"].shape) == 2
    with pytest.raises(ValueError, match="not both"):
        export.symbolic_args_specs(args, "a", constraints=["a >= 1"], scope=export.SymbolicScope())


def test_a_dimension_is_no_integer():
    (a,) = dims("a")
    for use in (int, float, operator.index, range, lambda n: [0] * n):
        with pytest.raises(InconclusiveDimensionOperation, match="'a' is used where an integer is needed"):
            use(a)
    with pytest.raises(ValueError, match="Powers of a symbolic dimension are integers from 0 on"):
        a**-1
    with pytest.raises(ZeroDivisionError, match="'a' is divided by zero"):
        a // 0


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_slices_and_broadcasts_are_those_of_integers(n):
    (a,) = dims("a", constraints=["a >= 3"]) if n >= 3 else dims("a")
    for start, stop, step in itertools.product((None, 0, 1, -1), (None, 2, -1, 0), (None, 1, 2, -1, -2)):
        try:
            found = slice_bounds(slice(start, stop, step), a)
        except InconclusiveDimensionOperation:
            continue
        positions = range(n)[start:stop:step]
        count = evaluate(found[3], {"a": n})
        assert count == len(positions), (start, stop, step)
        assert not count or evaluate(found[0], {"a": n}) == positions[0]
    b, c = dims("b, c")
    assert broadcast_sizes([(b, 1), (c,), ()]) == (b, c) and broadcast_sizes([(2, 1), (3,)]) == (2, 3)
    with pytest.raises(ValueError, match="sizes b and 2 don't broadcast"):
        broadcast_sizes([(b,), (2,)])


# -- Programs

INTEGER = np.int32
ROWS = np.array([0, 2])
SIZES = {"a": 3, "b": 5, "c": 2, "h": 4, "t": 7}
NHWC, NWC = ("NHWC", "HWIO", "NHWC"), ("NWC", "WIO", "NWC")

# By a name the function, and the types of its arguments: shapes as text, with a dtype where it is not float32.
PROGRAMS = {
    "a row from the end": (lambda x: x[-1], "a, 4"),
    "without the last row": (lambda x: x[:-1], "a + 1, 4"),
    "every second row": (lambda x: x[::2], "a, 4"),
    "rows in reverse": (lambda x: x[::-1], "a, 4"),
    "new axes": (lambda x: x[None, :, None], "a"),
    "mean": (lambda x: x.mean(0), "a, 4"),
    "variance": (lambda x: (x.var(0), jnp.std(x, axis=1, ddof=1)), "a, b"),
    "maximum": (lambda x: (x.max(0), x.max(), x.argmax(1)), "a, b"),
    "any": (lambda x: (x > 1).any(), "a, b"),
    "softmax": (lambda x: (nn.softmax(x), nn.logsumexp(x, axis=0)), "a, b"),
    "matrix product": (lambda x, y: x @ y, "a, b", "b, c"),
    "einsum": (lambda x, y: jnp.einsum("abi,bij->aj", x, y), "a, b, 3", "b, 3, 5"),
    "outer": (lambda x: jnp.outer(x, x), "a"),
    "flattened": (lambda x: (x.reshape(x.shape[0], -1), x.ravel()), "a, b, 4"),
    "reshaped": (lambda x: x.reshape((x.shape[0] * x.shape[1], 4)), "a, b, 4"),
    "in pairs": (lambda x: x.reshape((-1, 2)), "2*a, 4"),
    "filled": (lambda x: jnp.zeros(x.shape) + jnp.full((x.shape[0], 1), 3.0), "a, b"),
    "counted": (lambda x: (jnp.arange(x.shape[0]) * x[:, 0], jnp.arange(0, 2 * x.shape[0], 2)), "a, b"),
    "linspace": (lambda x: jnp.linspace(0, 1, x.shape[0]), "a"),
    "triangle": (lambda x: jnp.tril(x) + jnp.eye(x.shape[0]), "a, a"),
    "concatenated": (lambda x, y: jnp.concatenate([x, y, jnp.ones((1, 4))]), "a, 4", "b, 4"),
    "stacked": (lambda x: jnp.stack([x, x]), "a, b"),
    "padded": (lambda x: jnp.pad(x, ((1, x.shape[1]), (0, 0))), "a, b"),
    "broadcast": (lambda x, y: x + y, "a, 1", "1, b"),
    "tiled": (lambda x: (jnp.tile(x, (2, 1)), jnp.repeat(x, 3, axis=0), jnp.roll(x, 1, axis=0)), "a, b"),
    "cumulative": (lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1)), "a, b"),
    "sorted": (lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=1)), "a, b"),
    "top": (lambda x: lax.top_k(x, 2), "a, b + 2"),
    "rows by index": (lambda x, i: x[i], "a, b", ("c", INTEGER)),
    "one of each row": (lambda x, i: jnp.take_along_axis(x, i, 1), "a, b", ("a, 1", INTEGER)),
    "updated": (lambda x, i: x.at[0].set(1.0).at[i].add(1.0), "a, b", ("c", INTEGER)),
    "one hot": (lambda i: nn.one_hot(i, 5), ("a", INTEGER)),
    "segments": (lambda x, i: xpr.ops.segment_sum(x, i, num_segments=3), "a, 4", ("a", INTEGER)),
    "a window": (lambda x: lax.dynamic_slice(x, (1, 0), (2, x.shape[1])), "a + 2, b"),
    "a symbolic window": (lambda x: lax.dynamic_slice_in_dim(x, 0, x.shape[0] - 1, 0), "a + 1, b"),
    "a window written": (lambda x: lax.dynamic_update_slice(x, x[:1], (1, 0)), "a + 1, b"),
    "a loop over rows": (lambda x: lax.scan(lambda c, r: (c + r, c * 2), x[0], x, reverse=True), "a, b"),
    "rows one by one": (lambda x: lax.map(jnp.linalg.cholesky, x @ x.transpose(0, 2, 1) + jnp.eye(3)), "a, 3, 3"),
    "as many steps as rows": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c * 2, x), "a, b"),
    "a while loop": (lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, x), "a, b"),
    "a branch": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), "a, b"),
    "mapped": (lambda x: xpr.vmap(lambda r: r[0] * jnp.sort(r))(x), "a, b"),
    "differentiated": (lambda x: xpr.grad(lambda x: (x[1:] * x[:-1]).mean())(x), "a + 1, b"),
    "a loss": (lambda x: xpr.grad(lambda x: -nn.log_softmax(x)[:, 0].mean())(x), "a, b"),
    "through a loop": (lambda x: xpr.grad(lambda x: lax.scan(lambda c, r: (c * r, None), x[0], x)[0].sum())(x), "a, b"),
    "through indices": (lambda x, i: xpr.grad(lambda x: (x[i] ** 2).sum())(x), "a, b", ("c", INTEGER)),
    "mapped gradients": (lambda x, w: xpr.vmap(xpr.grad(lambda w, r: jnp.tanh(w @ r)), (None, 0))(w, x), "a, 4", "4"),
    "as numbers": (
        lambda x: (5.0 + x.shape[0], x.shape[0] - np.arange(5, dtype=INTEGER), x + x.shape[0], x / x.shape[0] ** 0.5),
        "a",
    ),
    "a shape as an array": (lambda x: jnp.array(x.shape), "a, b"),
    "convolved": (lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC),
                  "a, h, 8, 3", "3, 3, 3, 4"),
    "pooled": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), "a, 8, 8, 3"),
    "random": (lambda x: xrandom.normal(xrandom.key(0), x.shape) + x, "a, b"),
    "dropout": (lambda x: jnp.where(xrandom.bernoulli(xrandom.key(0), 0.5, x.shape), x, 0), "a, b"),
    "attention": (lambda q: nn.dot_product_attention(q, q, q), "a, t, 2, 8"),
    "split": (lambda x: jnp.split(x, 2), "2*a, 4"),
    "half": (lambda x: lax.slice_in_dim(x, 0, x.shape[0] // 2), "a, 4"),
    "in a jitted function": (lambda x: xpr.jit(lambda y: y * 2 + y.shape[0])(x), "a, b"),
    "looked up": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), "a", "b"),
    "of a whole axis": (lambda x: jnp.diag(x) + jnp.trace(x), "a, a"),
    "slices that may be empty": (lambda x, y: [
        x[i:j:k, :2] for n in y.shape for i, j, k in (
            (2, n, 1), (None, -n, 2), (-n, 4, -2), (n, None, 2), (-2, n, -1), (0, -4, 3), (None, None, n),
            (None, n, -n),
        )
    ], "b, h", "c"),
    "factorized": (lambda x: [jnp.linalg.qr(x), jnp.linalg.svd(x)[1], jnp.linalg.eigh(x.mT @ x)[0]], "a, 4, 3"),
    "solved": (lambda x: jnp.linalg.solve(x @ x.mT + 9 * jnp.eye(x.shape[1]), x), "a, b, b"),
    **{
        f"padded, {mode}": (lambda x, y, mode=mode: jnp.pad(x, ((0, 0), (y.shape[0], 1)), mode=mode), "2, t", "c")
        for mode in ("edge", "wrap", "reflect", "symmetric")
    },
    "by XLA's generator": (lambda x: xrandom.uniform(xrandom.key(0, impl="unsafe_rbg"), x.shape) + x, "a, b"),
    "gamma": (lambda x: xrandom.gamma(xrandom.key(0), 2.0, x.shape), "a, b"),
    "one-hot": (lambda x: nn.one_hot(jnp.arange(3), x.shape[0]), "a"),
    "repeated by a size": (lambda x: [jnp.repeat(x, x.shape[0], axis=1), jnp.repeat(x, x.shape[1])], "a, b"),
    "a diagonal of a size": (lambda x, y: jnp.tril(x, y.shape[0]) - jnp.triu(x, -y.shape[0]), "a, b", "c"),
    "split at sizes": (lambda x, y: jnp.split(x, [2, y.shape[0] + 2]), "t, 2", "c"),
    "counted up to a size": (lambda x: jnp.bincount(jnp.arange(2), length=x.shape[0]), "a"),
    "chosen": (lambda x: xrandom.choice(xrandom.key(0), x.shape[0], (4,)), "b"),
    "resized": (lambda x: image.resize(x, (3, 2 * x.shape[1]), "linear"), "3, b"),
    "resized to the nearest": (lambda x: image.resize(x, (2, 2 * x.shape[1]), "nearest"), "3, b"),
    "einsum of three": (lambda x, y: jnp.einsum("ab,cb,cd->ad", x, y, y), "a, b", "c, b"),
    "at indices that are known": (
        lambda x: [x[1], x[-2, 1], x[ROWS], x[:, -1 - ROWS], x[np.array(1)], x[ROWS, -2]], "b, h"),
    "updated at indices that are known": (
        lambda x: x.at[1].set(0).at[-2, 1].add(1).at[np.array([0, -1])].mul(2).at[1:, ::2].max(0), "b, h"),
    "beyond the end": (lambda x: x.at[jnp.array([-7, 7])].get(mode="fill", fill_value=3.0), "b"),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=x.shape[0], fill_value=x.shape[0]), "b, 2"),
    "triangles": (lambda x: [*jnp.tril_indices(*x.shape), *jnp.triu_indices(x.shape[0], 1, x.shape[1]),
                             *jnp.triu_indices(x.shape[1], -x.shape[0]), *jnp.tril_indices(x.shape[0], 1)], "b, h"),
    "the most of a size": (lambda x: lax.top_k(x, x.shape[1] - 1), "a, b"),
    "incomplete gamma": (lambda x: scipy.special.gammainc(jnp.exp(x), jnp.exp(x[0])), "b, 2"),
    "permuted": (lambda x: [xrandom.permutation(xrandom.key(0), x), xrandom.permutation(xrandom.key(1), x.shape[1])],
                 "h, t"),
    "permuted independently": (lambda x: xrandom.permutation(xrandom.key(2), x, 1, independent=True), "h, t"),
    "chosen once": (lambda x: xrandom.choice(xrandom.key(0), x, (3,), replace=False), "b + 3"),
    "gamma by XLA's generator": (
        lambda x: xrandom.gamma(xrandom.split(xrandom.key(0, impl="unsafe_rbg"), x.shape[0])[0], x**2), "a, 2"),
    "windows truncated at the ends": (lambda x: [lax.reduce_window(x, 0.0, lax.add, (2, 3), (2, 2), "SAME"),
                                           xpr.grad(lambda x: lax.reduce_window(
                                               x, -np.inf, lax.max, (3, 2), (2, 1), "SAME").sum())(x)],
                                "b, t"),
    "windows of a size": (lambda x: [lax.reduce_window(x, -np.inf, lax.max, (2, x.shape[0]), (1, 1), "VALID"),
                                     xpr.grad(lambda x: lax.reduce_window(
                                         x, 0.0, lax.add, x.shape, (1, 2), "SAME").std())(x)], "a, t"),
    "windows by a function": (
        lambda x: lax.reduce_window(x, 0.0, lambda a, b: a + b + 1, (2, 3), (2, 2), "SAME"), "b, t"),
    "on a diagonal": (lambda x: jnp.diag(x, 1), "b"),
    "repeated up to a length": (lambda x: jnp.repeat(x, x.shape[0], total_repeat_length=8), "b"),
    "windows read": (lambda x, i: lax.gather(x, i[:, None], lax.GatherDimensionNumbers((1,), (), (0,)), i.shape),
                     "10", ("c", INTEGER)),
    "jacobians": (lambda x: [xpr.jacfwd(jnp.sin)(x), xpr.jacrev(lambda x: x[:, None] * x)(x),
                             xpr.hessian(lambda x, y: (x**2 * y).sum(), (0, 1))(x, x + 1)], "b"),
    "rolled by a size": (lambda x: [jnp.roll(x, x.shape[0] // 2, 0), jnp.roll(x, (1, -x.shape[1]), (0, 1))], "b, h"),
    "inserted and deleted": (lambda x: [jnp.insert(x, 1, 5.0), jnp.insert(x, -1, x[0], axis=0), jnp.delete(x, -2, 1)],
                             "b, h"),
    "diagonals": (lambda x: [jnp.diagonal(x), jnp.diagonal(x, 2), jnp.trace(x, -1)], "b, h"),
    "determinants": (lambda x: [jnp.linalg.det(x), *jnp.linalg.slogdet(x + 3 * jnp.eye(x.shape[1]))], "c, h, h"),
    "distinct": (lambda x: [*jnp.unique(x > 0, True, True, True, size=3), jnp.union1d(x, x[:2], size=x.shape[0]),
                            *jnp.intersect1d(x, jnp.abs(x), return_indices=True, size=2)], "b"),
    "members": (lambda x: [jnp.isin(jnp.arange(3.0), jnp.round(x)), jnp.isin(x, jnp.abs(x))], "b, h"),
    "indices of a flat one": (lambda x: jnp.unravel_index(jnp.arange(-2, 3), x.shape), "b, h"),
    "compressed": (lambda x: jnp.compress(jnp.array([True, False, True]), x, size=2, axis=0, fill_value=7), "b, c"),
    "in another size": (lambda x: [jnp.resize(x, (2, 3)), jnp.resize(x, (x.shape[1], 7))], "b, c"),
    "crossed": (lambda x, y: jnp.cross(x, y), "b, 3", "3"),
    "an exponential": (lambda x: scipy.linalg.expm(x / 4), "c, 3, 3"),
    "Toeplitz": (lambda x: scipy.linalg.toeplitz(x, x**2), "b"),
    "Hankel": (lambda x: [scipy.linalg.hankel(x, x**2), scipy.linalg.circulant(x)], "b"),
    "LU factors": (lambda x: scipy.linalg.lu_solve(scipy.linalg.lu_factor(x + 9 * jnp.eye(x.shape[0])), x), "b, b"),
    "a gradient through strides": (
        lambda x: xpr.grad(lambda x: (lax.conv_general_dilated(
            x, jnp.ones((3, 3, 2)), (2,), "SAME", dimension_numbers=NWC) ** 2).sum())(x), "c, t, 3"),
    "every second window": (lambda x, k: lax.conv_general_dilated(x, k, (2,), "SAME", dimension_numbers=NWC),
                            "2, b, 3", "3, 3, 4"),
}  # fmt: skip


def types_and_values(specs):
    scope = export.SymbolicScope()
    types, values = [], []
    for i, each in enumerate(specs):
        text, dtype = each if isinstance(each, tuple) else (each, FLOAT)
        shape = dims(text, scope=scope)
        types.append(xpr.ShapeDtypeStruct(shape, dtype))
        numbers = np.random.default_rng(i).normal(size=[evaluate(n, SIZES) for n in shape])
        values.append(numbers.astype(dtype) if dtype == FLOAT else (numbers > 0).astype(dtype))
    return types, values


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_symbolic_shapes(name):
    """The exported program gives what the function gives for each shape; its jaxpr is well typed and is read back."""
    fun, *specs = PROGRAMS[name]
    types, values = types_and_values(specs)
    closed = xpr.make_jaxpr(fun)(*types)
    core.check_jaxpr(closed.jaxpr)
    assert str(parse(str(closed))) == str(closed)
    found = export.export(xpr.jit(fun))(*types).call(*values)
    evaluated = xpr.jit if "XLA's generator" in name else in_numpy  # it has its bits of XLA alone
    expected = evaluated(fun)(*values)
    for x, y in zip(xpr.tree.leaves(found), xpr.tree.leaves(expected), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_types_print_and_parse():
    x = xpr.ShapeDtypeStruct(dims("a + 1, 2*b"), FLOAT)
    closed = xpr.make_jaxpr(lambda x: x.reshape(-1)[1:] * x.shape[0])(x)
    assert str(closed).startswith("{ lambda ; a:f32[a + 1,2*b]. let\n    b:f32[2*a*b + 2*b] = reshape[")
    assert str(parse(str(closed))) == str(closed)
    exported = export.export(xpr.jit(lambda x: x.sum(0)))(x)
    assert str(exported.in_avals) == "(ShapedArray(float32[a + 1,2*b]),)"
    assert str(exported.out_avals) == "(ShapedArray(float32[2*b]),)" and exported.uses_global_constants


def exported_double(text="b, b, 2*d", **options):
    return export.export(xpr.jit(lambda x: x * 2))(xpr.ShapeDtypeStruct(dims(text, **options), FLOAT))


@pytest.mark.parametrize("again", [False, True], ids=["fresh", "read"])
def test_shapes_that_do_not_match_are_refused(again):
    exported = exported_double()
    exported = export.deserialize(exported.serialize()) if again else exported
    np.testing.assert_array_equal(exported.call(np.ones((3, 3, 4), FLOAT)), np.full((3, 3, 4), 2))
    opening = r"Shapes of arguments do not match the symbolic ones\. "
    specs = (
        r"\. Using the following .* specifications: args\[0\].shape = \(b, b, 2\*d\)\. Obtained dimension variables: "
    )
    b = r"'b' = 3 from specification 'b' for dimension args\[0\].shape\[0\] \(= 3\)"
    for shape, message in [
        (
            (3, 2, 4),
            r"Found inconsistency between .* args\[0\].shape\[1\] \(= 2\) and the specification 'b' \(= 3\)"
            + specs
            + b,
        ),
        (
            (3, 3, 5),
            f"Division had remainder 1 when computing the value of 'd', by 2{specs}{b}, 'd' = 2 from specification",
        ),
        (
            (3, 3, 0),
            f"Expected value >= 1 for dimension variable 'd'{specs}{b}, 'd' = 0 from specification '2.d' for dim",
        ),
    ]:
        with pytest.raises(ValueError, match=opening + message):
            exported.call(np.ones(shape, FLOAT))
    types = r"\n  args\[0\] +exported with f32\[b,b,2\*d\] +called with "
    with pytest.raises(ValueError, match=r"Rank mismatch for args\[0\]:" + types + r"f32\[3,3\]"):
        exported.call(np.ones((3, 3), FLOAT))
    with pytest.raises(ValueError, match=r"Dtype mismatch for args\[0\]:" + types + r"i32\[3,3,4\]"):
        exported.call(np.ones((3, 3, 4), np.int32))


def test_the_assertions_in_the_program_hold_too():
    """Where another program calls it, whose own shapes are not checked by xpr."""
    types = xpr.ShapeDtypeStruct(dims("b, b, 2*d"), FLOAT)
    text = str(export.export(xpr.jit(lambda x: x.sum()))(types).mlir_module(serialized=False))
    assert text.count("@shape_assertion") == 4
    main = """
    func.func public @main(%x: tensor<SHAPExf32>) -> tensor<f32> {
      %0 = stablehlo.convert %x : (tensor<SHAPExf32>) -> tensor<?x?x?xf32>
      %1 = call @inner(%0) : (tensor<?x?x?xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    }"""
    outer = text.replace("public @main", "private @inner").rstrip().removesuffix("}") + main
    portable.refined(outer.replace("SHAPE", "3x3x4"))
    with pytest.raises(ValueError, match=r"^Shapes of .* \(= 2\) and the specification 'b' \(= 3\)\. .*\(= 3\)\.$"):
        portable.refined(outer.replace("SHAPE", "3x2x4"))


def test_constraints_are_checked():
    exported = exported_double("a, b", constraints=["a >= b + 2"])
    exported.call(np.ones((4, 2), FLOAT))
    with pytest.raises(ValueError, match="They have to satisfy a >= b \\+ 2; the difference of the two sides is -1"):
        exported.call(np.ones((3, 2), FLOAT))
    sliced = export.export(xpr.jit(lambda x: x[: x.shape[1], :16]))
    a, b = dims("a, b", constraints=("a >= b", "b >= 16"))
    assert str(sliced(xpr.ShapeDtypeStruct((a, b), FLOAT)).out_avals) == "(ShapedArray(float32[b,16]),)"


@pytest.mark.parametrize("again", [False, True], ids=["fresh", "read"])
@pytest.mark.parametrize("text, constraints, right, wrong, message", [
    ("a, b", ["a == b"], (3, 3), (3, 4), r"shape\[1\] \(= 4\) and the specification 'b' \(= 3\)"),
    ("a, b", ["a >= 2", "a == b"], (2, 2), (1, 1), "They have to satisfy a >= 2"),
    ("a, b", ["max(a, b) == 4", "a == b"], (4, 4), (3, 3), r"They have to satisfy max\(a, b\) == 4"),
    ("a, b, c", ["a == b + c", "b == 2*c", "a <= 6"], (6, 4, 2), (9, 6, 3), "They have to satisfy a <= 6"),
])  # fmt: skip
def test_variables_that_equal_others(text, constraints, right, wrong, message, again):
    exported = export.export(xpr.jit(jnp.sum))(xpr.ShapeDtypeStruct(dims(text, constraints=constraints), FLOAT))
    exported = export.deserialize(exported.serialize()) if again else exported
    assert exported.call(np.ones(right, FLOAT)) == math.prod(right)
    with pytest.raises(ValueError, match=message):
        exported.call(np.ones(wrong, FLOAT))


def test_calls_in_other_programs_with_symbolic_shapes():
    double = exported_double()
    (c,) = dims("c")
    outer = export.export(xpr.jit(lambda y: double.call(y).sum(0)))(xpr.ShapeDtypeStruct((c, c, 4 * c), FLOAT))
    assert str(outer.out_avals) == "(ShapedArray(float32[c,4*c]),)"
    y = np.ones((2, 2, 8), FLOAT)
    np.testing.assert_array_equal(export.deserialize(outer.serialize()).call(y), 2 * y.sum(0))
    with pytest.raises(ValueError, match=r"had remainder mod\(3\*c, 2\) when computing the value of 'd'"):
        export.export(xpr.jit(double.call))(xpr.ShapeDtypeStruct((c, c, 3 * c), FLOAT))
    with pytest.raises(ValueError, match=r"exported with f32\[3\] +called with f32\[c\]"):
        export.export(xpr.jit(exported_double("3").call))(xpr.ShapeDtypeStruct((c,), FLOAT))


def test_derivatives_rows_and_platforms():
    function = lambda x: (jnp.sin(x) ** 2).sum(0) * x.shape[0]
    types = xpr.ShapeDtypeStruct(dims("a, b"), FLOAT)
    exported = export.deserialize(export.export(xpr.jit(function), platforms=("cpu", "tpu"))(types).serialize(2))
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(FLOAT)
    total = lambda f: lambda x: (f(x) ** 2).sum()
    np.testing.assert_allclose(exported.call(x), function(x), rtol=1e-5)
    np.testing.assert_allclose(xpr.grad(total(exported.call))(x), xpr.grad(total(function))(x), rtol=1e-4)
    tangents = [xpr.jvp(total(f), (x,), (x,))[1] for f in (exported.call, function)]
    np.testing.assert_allclose(*tangents, rtol=1e-4)
    rows = np.stack([x, 2 * x])
    np.testing.assert_allclose(xpr.vmap(exported.call)(rows), xpr.vmap(function)(rows), rtol=1e-5)


def test_integers_with_symbolic_shapes_have_no_derivatives():
    scope = export.SymbolicScope()
    types = [xpr.ShapeDtypeStruct(dims("a, 3", scope=scope), dtype) for dtype in (INTEGER, FLOAT)]
    exported = export.export(xpr.jit(lambda n, x: (x * n).sum(0)))(*types)
    assert [aval.str_short() for aval in exported.vjp().out_avals] == ["float0[a,3]", "f32[a,3]"]
    n, x = np.arange(6, dtype=INTEGER).reshape(2, 3), np.ones((2, 3), FLOAT)
    found = xpr.grad(lambda x: export.deserialize(exported.serialize(1)).call(n, x).sum())(x)
    np.testing.assert_array_equal(found, n)


@pytest.mark.parametrize(
    "fun, message",
    [
        (lambda x: x + jnp.ones(4), r"add got incompatible shapes for broadcasting: \(a,\), \(4,\)\."),
        (lambda x: [x for _ in range(x.shape[0])], "'a' is used where an integer is needed"),
        (lambda x: x @ jnp.ones((4, 4)), r"got \(a,\) and \(4,\): axes \[0\] of f32\[a\]"),
        (lambda x: x if x.shape[0] >= 2 else -x, "comparison 'a' >= '2' is inconclusive"),
        (lambda x: x.reshape(jnp.array(x.shape[0])), "traced"),
        (
            lambda x: jnp.arange(0, x.shape[0], 0.5),
            "are 0, a and 0.5; if one is symbolic, all must",
        ),
        (jnp.squeeze, "comparison 'a' < '2' is inconclusive"),
        (lambda x: lax.top_k(x, 2), "comparison 'a' >= '2' is inconclusive"),
        (lambda x: xrandom.choice(xrandom.key(0), x, (2,), replace=False), "comparison 'a' < '2' is inconclusive"),
        (
            lambda x: xpr.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, x.shape, (1,), "SAME").sum())(x),
            "'a' is used where an integer is needed",
        ),
    ],
)
def test_what_needs_to_know_a_dimension(fun, message):
    with pytest.raises(Exception, match=message):
        export.export(xpr.jit(fun))(xpr.ShapeDtypeStruct(dims("a"), FLOAT))


def test_matrices_that_are_known_to_be_tall():
    shape, x = dims("a, b", constraints=["a >= b"]), np.random.default_rng(0).normal(size=(5, 3)).astype(FLOAT)
    for fun in (jnp.linalg.qr, partial(jnp.linalg.svd, full_matrices=False), scipy.linalg.lu_factor):
        found = export.export(xpr.jit(fun))(xpr.ShapeDtypeStruct(shape, FLOAT)).call(x)
        for got, expected in zip(xpr.tree.leaves(found), xpr.tree.leaves(fun(x)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_routines_of_nvidia_take_no_symbolic_dimensions():
    with pytest.raises(UnsupportedRule, match=r"routines of libraries take no symbolic dimensions on cuda.*lax.map"):
        export.export(xpr.jit(jnp.linalg.qr), platforms=["cuda"])(xpr.ShapeDtypeStruct(dims("a, 3, 3"), FLOAT))


def test_variables_that_can_not_be_computed():
    (a,) = dims("a")
    with pytest.raises(ValueError, match=r"variables a can't be computed .* args\[0\].shape = \(a\^2,\)"):
        export.export(xpr.jit(lambda x: x))(xpr.ShapeDtypeStruct((a * a,), FLOAT))
    with pytest.raises(UnexpectedDimVar, match=r"'a' that is in no shape .* Pass an array of shape \(0, a\)"):
        export.export(xpr.jit(lambda n, x: jnp.ones(n) * x, static_argnums=0))(a, 1.0)
    (b,) = dims("b")
    message = r"when exporting <lambda>, at args\[1\].shape\[0\]. .*\(from args\[0\]\) .* 'b' \(args\[1\]\) scope"
    with pytest.raises(ValueError, match=message):
        export.export(xpr.jit(lambda x, y: x))(xpr.ShapeDtypeStruct((a,), FLOAT), xpr.ShapeDtypeStruct((b,), FLOAT))
    top = export.export(xpr.jit(lambda k, x: lax.slice_in_dim(x, 0, k.shape[1], axis=1)))
    k, _ = dims("k, 10", constraints=["k <= 10"])
    found = top(xpr.ShapeDtypeStruct((0, k), INTEGER), xpr.ShapeDtypeStruct((4, 10), FLOAT))
    assert found.call(np.zeros((0, 3), INTEGER), np.ones((4, 10), FLOAT)).shape == (4, 3)


def test_lowered_text_has_symbolic_shapes_and_is_not_compiled():
    lowered = xpr.jit(jnp.sin).lower(xpr.ShapeDtypeStruct(dims("a"), FLOAT))
    assert "tensor<?xf32>" in lowered.as_text()
    with pytest.raises(ValueError, match=r"sin was lowered for arguments of symbolic shapes, f32\[a\]"):
        lowered.compile()


# -- With JAX


EXCHANGED = {
    "sum": (lambda np, lax, nn: lambda x: (np.sin(x).sum(0) * x.shape[0], x.reshape(-1)), "a, 2*b"),
    "layer": (lambda np, lax, nn: lambda x, w: nn.softmax(np.tanh(x @ w)).mean(0), "a, 4", "4, c"),
    "rows": (lambda np, lax, nn: lambda x: np.concatenate([x, x[:-1] + x[1:]]), "a + 1, b"),
    "loop": (lambda np, lax, nn: lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x), "3, b"),
    "padded": (lambda np, lax, nn: lambda x: np.pad(x, ((0, x.shape[1]), (1, 1))), "a, b"),
    "windows": (lambda np, lax, nn: lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (2, x.shape[1]), (1, 1), "SAME"), x[1]), "a, b"),
}  # fmt: skip


@exchanges
@pytest.mark.parametrize("name", EXCHANGED)
def test_symbolic_programs_are_exchanged_with_jax(name):
    make, *specs = EXCHANGED[name]
    types, values = types_and_values(specs)
    ours = export.export(xpr.jit(make(jnp, lax, nn)))(*types)
    scope = JAX.export.SymbolicScope()
    types = [JAX.ShapeDtypeStruct(JAX.export.symbolic_shape(text, scope=scope), FLOAT) for text in specs]
    theirs = JAX.export.export(JAX.jit(make(JAX.numpy, JAX.lax, JAX.nn)))(*types)
    assert [str(a.shape) for a in ours.out_avals] == [str(a.shape) for a in theirs.out_avals]
    there, here = JAX.export.deserialize(ours.serialize(1)), export.deserialize(theirs.serialize(1))
    expected = make(jnp, lax, nn)(*values)
    for found in (there.call(*values), here.call(*values)):
        for x, y in zip(xpr.tree.leaves(xpr.tree.map(np.asarray, found)), xpr.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    gradients = [
        lib.grad(lambda x: lib.tree.leaves(read.call(x, *values[1:]))[0].sum())(values[0])  # noqa: B023
        for lib, read in ((JAX, there), (xpr, here))
    ]
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-5)


def test_rounds_of_a_shuffle_are_those_of_its_number_of_elements():
    """Random words sort once, twice or three times, by how many elements there are."""
    f = xpr.jit(lambda x: xrandom.permutation(xrandom.key(3), x))
    exported = export.export(f)(xpr.ShapeDtypeStruct(dims("n"), "int32"))
    for count in (1, 2, 1625, 1626):
        np.testing.assert_array_equal(exported.call(jnp.arange(count)), f(jnp.arange(count)))
    for least, rounds in zip(_LEAST_OF_ROUND, range(3), strict=True):
        assert [math.ceil(3 * math.log(n) / math.log(2**32 - 1)) for n in (least - 1, least)] == [rounds, rounds + 1]


def test_quantiles_of_as_many_elements_as_there_will_be():
    (n,) = export.symbolic_shape("n")
    f = xpr.jit(lambda x: (jnp.median(x), jnp.quantile(x, 0.25)))
    exported = export.export(f)(xpr.ShapeDtypeStruct((n,), "float32"))
    for count in (1, 4, 7):
        x = jnp.arange(float(count)) ** 2
        assert [float(y) for y in exported.call(x)] == [float(y) for y in f(x)]


def test_cumulative_operations_along_symbolic_axes_are_lowered_for_gpus():
    x = xpr.ShapeDtypeStruct(dims("a, b"), FLOAT)
    for fun in (jnp.cumsum, lax.cummax, lax.cumlogsumexp, xpr.grad(lambda x: lax.cumlogsumexp(x).sum())):
        text = export.export(xpr.jit(fun), platforms=("cuda",))(x).mlir_module()
        assert "stablehlo.while" in text


def test_vectors_of_unknown_length_are_refused_by_their_size():
    vector = xpr.ShapeDtypeStruct(export.symbolic_shape("a"), jnp.float32)
    for function in (
        jnp.poly,
        lambda p: jnp.polyval(p, 2.0),
        jnp.polyder,
        jnp.polyint,
        lambda x: jnp.histogramdd(jnp.stack([x, x])),
        xpr.scipy.signal.detrend,
    ):
        with pytest.raises(InconclusiveDimensionOperation, match="'a' is used where an integer is needed"):
            export.export(xpr.jit(function))(vector)
    with pytest.raises(InconclusiveDimensionOperation, match=r"'mod\(a, 2\)' > '0'"):
        export.export(xpr.jit(xpr.nn.glu))(vector)
