"""What programs on CPU compute of scalar arguments alone is one function, of which XLA makes one kernel."""

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import export, lax
from xpr.compile.scalars import split_scalars
from xpr.config_contexts import enable_x64

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bitwise_not", "cbrt", "ceil", "clz", "cos",
    "cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "is_finite", "lgamma", "log", "log1p",
    "logistic", "neg", "population_count", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
]  # fmt: skip
BINARY = [
    "add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "eq", "ge", "gt", "igamma", "le", "lt", "max",
    "min", "mul", "ne", "nextafter", "pow", "rem", "shift_left", "shift_right_logical", "sub", "zeta",
]  # fmt: skip


def of_arrays(x: Any, n: int = 40) -> Any:
    for _ in range(n):
        x = jnp.sin(x) + 1
    return x


def adam(params: Any, grads: Any, mean: Any, scale: Any, count: Any) -> Any:
    """A step, with a learning rate that falls."""
    count = jnp.where(count < 2**31 - 1, count + 1, count)
    rate = -0.1 * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count, 100) / 100))
    mean = xpr.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    scale = xpr.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, scale, grads)
    updated = xpr.tree.map(
        lambda p, m, s: p + rate * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.999**count)) + 1e-8),
        params, mean, scale,
    )  # fmt: skip
    return updated, mean, scale, count


def state(rng: np.random.Generator) -> list[Any]:
    return [{"w": rng.random((8, 3), np.float32), "b": rng.random(3, np.float32)} for _ in range(3)]


def test_an_optimizers_scalars_are_computed_once():
    rng = np.random.default_rng(0)
    arguments = *(state(rng) for _ in range(4)), np.int32(3)
    text = xpr.jit(adam).lower(*arguments).as_text()
    scalars = text[text.index("func.func private @scalars") :]
    scalars = scalars[: scalars.index("return")]
    assert scalars.count("cosine") == 1 and scalars.count("power") == 2  # once for all parameters
    assert text.count("cosine") == 1 and text.count("power") == 2 and 'xla_cpu_small_call = "true"' in text
    results, expected = xpr.jit(adam)(*arguments), adam(*xpr.tree.map(jnp.asarray, arguments))
    xpr.tree.map(lambda x, y: np.testing.assert_allclose(x, y, 1e-6), results, expected)
    donated = xpr.jit(adam, donate_argnums=(0, 2, 3, 4))(*xpr.tree.map(jnp.array, arguments))
    xpr.tree.map(np.testing.assert_array_equal, donated, results)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "float64", "int64", "uint64"])
def test_all_functions_of_scalars(dtype):
    with enable_x64():
        x, y = np.array(3).astype(dtype), np.array(2).astype(dtype)
        functions = []
        for name in UNARY + BINARY:
            f, operands = getattr(lax, name), (x, y)[: 1 + (name in BINARY)]
            try:
                xpr.eval_shape(f, *operands)
            except TypeError:
                continue
            functions.append((f, len(operands)))

        def of_scalars(x: Any, y: Any) -> list[Any]:
            return [f(*(x, y)[:n]) for f, n in functions]

        whole = xpr.jit(lambda x, y, z: (of_scalars(x, y), of_arrays(z))).lower(x, y, np.ones(5, np.float32))
        assert "@scalars" in whole.as_text() and len(functions) >= 20
        results, expected = whole.compile()(x, y, np.ones(5, np.float32))[0], xpr.jit(of_scalars)(x, y)
        for (f, _), got, wanted in zip(functions, results, expected, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-6 if dtype == "float32" else 1e-14, err_msg=f.__name__)


def chain(s: Any, n: int = 8) -> Any:
    for _ in range(n):
        s = jnp.cos(s) * 3
    return s


@pytest.mark.parametrize(
    "name, f",
    [
        ("few scalars", lambda s, x: chain(s, 3) + of_arrays(x)),
        ("few others", lambda s, x: chain(s) + of_arrays(x, 5)),
        ("scalars of arrays", lambda s, x: chain(x.sum()) + of_arrays(x)),
        ("constants", lambda s, x: chain(jnp.float32(1)) + of_arrays(x)),
        ("arrays of one element", lambda s, x: chain(s[None]) + of_arrays(x)),
        ("16 bits", lambda s, x: chain(s.astype("bfloat16")) + of_arrays(x)),
        ("loops", lambda s, x: lax.fori_loop(0, 3, lambda _, s: chain(s), s) + of_arrays(x)),
        ("draws", lambda s, x: chain(xpr.random.uniform(xpr.random.key(s.astype(int)))) + of_arrays(x)),
    ],
)
def test_what_is_left_where_it_is(name, f):
    assert "@scalars" not in xpr.jit(f).lower(np.float32(2), np.ones(5, np.float32)).as_text()


def test_calls_effects_and_results_of_scalars():
    printed = []

    def f(s: Any, t: Any, x: Any) -> Any:
        inner = xpr.jit(chain)(s)
        xpr.debug.callback(lambda s: printed.append(float(s)), inner)
        return inner, s, t, of_arrays(x) * inner

    whole = xpr.jit(f)
    assert "@scalars" in whole.lower(2.0, 3, np.ones(5, np.float32)).as_text()
    inner, s, t, product = whole(2.0, 3, np.ones(5, np.float32))
    xpr.effects_barrier()
    np.testing.assert_allclose([inner, printed[0]], chain(np.float32(2)), 1e-5)
    np.testing.assert_allclose(product, of_arrays(np.ones(5, np.float32)) * inner, 1e-5)
    assert (float(s), int(t)) == (2, 3)


@pytest.mark.optimized
def test_scalars_beside_draws_are_computed_as_in_jax():
    """As all of the program is, bit for bit."""

    def of_scalar(s: Any) -> Any:
        return chain(jnp.cbrt(s), 2), [f(s) for f in (jnp.log, jnp.exp, jnp.sin, jnp.tan, jnp.cbrt, jnp.expm1)]

    def draws(s: Any, x: Any) -> Any:
        return of_scalar(s), of_arrays(x) * xpr.random.normal(xpr.random.key(0), (5,))

    def draws_little(s: Any) -> Any:
        return of_scalar(s), xpr.random.normal(xpr.random.key(0), (5,))

    for s in np.linspace(0.1, 9, 50, dtype=np.float32):
        got, expected = xpr.jit(draws)(s, np.ones(5, np.float32))[0], xpr.jit(draws_little)(s)[0]
        xpr.tree.map(np.testing.assert_array_equal, got, expected)
    assert "@scalars" not in xpr.jit(draws).lower(np.float32(1), np.ones(5, np.float32)).as_text()


def test_programs_for_elsewhere_have_no_such_function():
    whole = xpr.jit(lambda s, x: chain(s) + of_arrays(x))
    exported = export.export(whole)(np.float32(2), np.ones(5, np.float32))
    assert "@scalars" not in exported.mlir_module()
    for_gpu = whole.trace(np.float32(2), np.ones(5, np.float32)).lower(lowering_platforms=("cuda",))
    assert "@scalars" not in for_gpu.as_text()


def test_the_two_parts_are_the_program():
    jaxpr = xpr.make_jaxpr(lambda s, t, x: (chain(s) + t + 0 * s, of_arrays(x), chain(s)))(2.0, 3.0, jnp.ones(5)).jaxpr
    split = split_scalars(jaxpr)
    assert split is not None and len(split.jaxpr.outvars) == len(split.rest.constvars)
    assert len(split.jaxpr.eqns) < len(jaxpr.eqns) - len(split.rest.eqns)  # equal ones are done once
    assert not any(v.aval.shape for eqn in split.jaxpr.eqns for v in eqn.outvars)


@pytest.mark.parametrize("times, apart", [(20, True), (100, False)])
def test_few_equations_read_results_of_their_own(times, apart):
    """So that XLA compiles once what they are part of; and what is computed twice is still computed once."""

    def f(s: Any, x: Any) -> Any:
        scale = chain(s)
        return [jnp.exp(scale * (x + i)) for i in [*range(times), 0]], scale

    split = split_scalars(xpr.make_jaxpr(f)(np.float32(2), jnp.ones(5)).jaxpr)
    assert split is not None and len(set(split.jaxpr.outvars)) == 1
    assert len(split.jaxpr.outvars) == len(split.rest.constvars) == (times + 1 if apart else 1)
    exponentials, scale = xpr.jit(f)(np.float32(2), np.arange(5, dtype=np.float32) / 100)
    np.testing.assert_allclose(scale, chain(np.float32(2)), 1e-5)
    np.testing.assert_allclose(exponentials[1], np.exp(float(scale) * (np.arange(5) / 100 + 1)), 1e-5)
    np.testing.assert_array_equal(exponentials[0], exponentials[-1])
    assert len([eqn for eqn in split.rest.eqns if eqn.primitive.name == "exp"]) == (times if apart else times + 1)


@pytest.mark.optimized
@pytest.mark.parametrize(
    "use",
    [
        lambda s, i, b: i * 0 + 3, lambda s, i, b: i - i, lambda s, i, b: (i & 0) + 1, lambda s, i, b: b & False,
        lambda s, i, b: jnp.where(b, s, s), lambda s, i, b: s**0, lambda s, i, b: i * 1, lambda s, i, b: s * 1.0,
    ],
)  # fmt: skip
def test_arguments_that_nothing_depends_on(use):
    """XLA finds that when it simplifies the function."""

    def f(s: Any, i: Any, b: Any, x: Any) -> Any:
        return of_arrays(x) * chain(s) * use(s, i, b)

    arguments = np.float32(0.7), np.int32(5), np.bool_(True), np.arange(5, dtype=np.float32)
    assert "@scalars" in xpr.jit(f).lower(*arguments).as_text()
    expected = of_arrays(arguments[-1]) * chain(arguments[0]) * use(*map(jnp.asarray, arguments[:3]))
    np.testing.assert_allclose(xpr.jit(f)(*arguments), expected, 1e-5)
