"""Exponentials of constant nans are nan in compiled programs on CPU, whatever the way from one to the other."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, nn
from xpr.backend.nan_guards import guard_exponentials

X = np.arange(6, dtype="float32").reshape(2, 3)
MASK = np.array([True, False])


def masked(x, mask, value=np.nan):
    return jnp.where(mask[:, None], x, value)


PROGRAMS = {
    "exp": lambda x, mask: jnp.exp(masked(x, mask)),
    "exp2": lambda x, mask: jnp.exp2(masked(x, mask)),
    "expm1": lambda x, mask: jnp.expm1(masked(x, mask)),
    "cosh": lambda x, mask: jnp.cosh(masked(x, mask)),
    "sigmoid": lambda x, mask: nn.sigmoid(masked(x, mask)),
    "logaddexp": lambda x, mask: jnp.logaddexp(masked(x, mask), x),
    "array": lambda x, mask: jnp.exp(jnp.where(mask[:, None], x, np.full((2, 3), np.nan, x.dtype))),
    "take": lambda x, mask: jnp.exp(jnp.take(x, np.array([0, 7]), axis=0)),
    "call": lambda x, mask: xpr.jit(nn.softmax)(masked(x, mask)),
    "logsumexp": lambda x, mask: nn.logsumexp(masked(x, mask), axis=1),
    "loop": lambda x, mask: lax.fori_loop(0, 2, lambda i, c: jnp.exp(c) * 0 + c, masked(x, mask)),
    "body": lambda x, mask: lax.map(lambda v: jnp.exp(jnp.where(v < 3, v, np.nan)), x.reshape(-1)),
    "branch": lambda x, mask: lax.cond(mask[0], jnp.exp, lambda v: v, masked(x, mask)),
    "mapped": lambda x, mask: xpr.vmap(lambda x, mask: nn.softmax(jnp.where(mask, x, np.nan)))(x, mask),
    "difference of infinities": lambda x, mask: jnp.exp(masked(x, mask, -np.inf) - masked(-x, mask, -np.inf)),
    "difference of itself": lambda x, mask: jnp.exp((y := masked(x, mask, np.inf)) - y),
    "product": lambda x, mask: jnp.exp(masked(x, mask, np.inf) * masked(x, mask, 0)),
    "quotient": lambda x, mask: jnp.exp(masked(x, mask, 0) / masked(x, mask, 0)),
    "logarithm": lambda x, mask: jnp.exp(jnp.log(masked(x, mask, -1))),
    "constants": lambda x, mask: jnp.exp(masked(x, mask, jnp.log(-jnp.ones_like(x)))),
    "iota": lambda x, mask: jnp.exp(jnp.arange(3, dtype=x.dtype) / jnp.arange(3, dtype=x.dtype)),
    "padded": lambda x, mask: jnp.exp((y := jnp.pad(x + 1, 1)) / y),
    "nan of relu": lambda x, mask: jnp.exp(nn.relu(jnp.where(x > 2, x, x * np.float32(np.nan).astype(x.dtype)))),
    "rows without elements": lambda x, mask: nn.softmax(masked(x, mask, -np.inf)),
    "after a product": lambda x, mask: jnp.exp(masked(x, mask) @ x.T - 40),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_exponential_of_a_constant_nan_is_nan(name, dtype):
    program, x = PROGRAMS[name], jnp.asarray(X).astype(dtype)
    compiled = np.asarray(xpr.jit(program)(x, MASK), np.float32)
    np.testing.assert_array_equal(np.isnan(compiled), np.isnan(np.asarray(program(x, MASK), np.float32)))


def guards(f, *args):
    return xpr.jit(f).lower(*args).as_text().count("stablehlo.compare EQ")


def test_only_exponentials_that_a_nan_reaches_within_a_kernel_are_guarded():
    mask = MASK[:, None]
    assert guards(lambda x: jnp.exp(jnp.where(mask, x, np.nan)), X) == 1
    assert guards(lambda x: jnp.exp(x), X) == 0
    assert guards(lambda x: (jnp.exp(x), jnp.where(mask, x, np.nan)), X) == 0
    assert guards(lambda x: jnp.exp(jnp.where(mask, x, np.nan) @ x.T), X) == 0
    assert guards(lambda x: xpr.jit(jnp.exp)(jnp.where(mask, x, np.nan)) + xpr.jit(jnp.exp)(x), X) == 1
    assert guards(lambda x: xpr.jit(jnp.exp)(x) + jnp.where(mask, x, np.nan), X) == 0


def test_common_programs_have_no_guards():
    mask = MASK[:, None]
    assert guards(lambda x: nn.softmax(jnp.where(mask, x, -np.inf)), X) == 0
    assert guards(lambda x: nn.softmax(x / jnp.sqrt(64) + jnp.where(mask, 0, -1e9)), X) == 0
    assert guards(lambda x: nn.sigmoid(jnp.maximum(x, 0) * 2 - 1), X) == 0
    assert guards(xpr.grad(lambda x: nn.logsumexp(nn.gelu(x)).sum()), X) == 0
    assert guards(lambda x: lax.scan(lambda c, v: (nn.sigmoid(c + v), c), jnp.zeros(3), x), X) == 0


def test_programs_for_several_platforms_are_guarded():
    exported = xpr.export.export(
        xpr.jit(lambda x: jnp.exp(jnp.where(MASK[:, None], x, np.nan))), platforms=("cpu", "cuda")
    )
    assert "compare EQ" in exported(X).mlir_module()
    rows = xpr.export.symbolic_shape("n, 3")
    polymorphic = xpr.export.export(xpr.jit(lambda x: jnp.exp(jnp.where(x > 2, x, np.nan))))
    program = polymorphic(xpr.ShapeDtypeStruct(rows, np.float32))
    np.testing.assert_array_equal(np.isnan(program.call(X)), X <= 2)


def test_float64_needs_no_guard():
    with xpr.enable_x64():
        assert guards(lambda x: jnp.exp(jnp.where(MASK[:, None], x, np.nan)), X.astype("float64")) == 0


def test_functions_that_are_not_known_may_have_a_nan():
    line = '%1 = "stablehlo.exponential"(%2) : (tensor<?x2xbf16>) -> tensor<?x2xbf16>'
    call = '%2 = "func.call"() <{callee = @elsewhere}> : () -> tensor<?x2xbf16>'
    text = f"func.func private @f() -> (tensor<?x2xbf16>) {{\n{call}\n{line}\n}}"
    (guarded,) = guard_exponentials([text], {})
    assert guarded.count("tensor<?x2xi1>") == 2 and guarded.count("stablehlo.select") == 1
