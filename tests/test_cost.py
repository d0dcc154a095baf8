"""What programs are said to take, beside XLA's own counts."""

import numpy as np
import pytest

import benchmarks.models
import xpr
import xpr.numpy as jnp
from tests import eight_devices
from xpr import lax
from xpr.jaxpr import cost

pytestmark = [pytest.mark.quick, pytest.mark.optimized]

X = np.ones((100, 100), np.float32)


@pytest.mark.parametrize("build", ["mlp_step", "transformer_step"])
def test_networks_are_counted_as_xla_counts_them(build):
    call = getattr(benchmarks.models, build)(xpr)
    found = cost(call.func)(*call.args)
    compiled = call.func.lower(*call.args).compile({"xla_backend_optimization_level": 0})  # of which no count depends
    assert found.flops == pytest.approx(compiled.cost_analysis()["flops"], rel=0.02)
    sizes = compiled.memory_analysis()
    given = sizes.argument_size_in_bytes + sizes.output_size_in_bytes
    assert given < found.peak_memory < 1.5 * (given + sizes.temp_size_in_bytes)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x @ x,
        lambda x: x * 3 + 1,
        lambda x: x > 3,
        lambda x: x / x,
        lambda x: x.T,
        lambda x: lax.integer_pow(x, 3),
        lambda x: x.astype(np.int32),
        lambda x: jnp.sum(x, 0),
        lambda x: jnp.einsum("ij,kj->ik", x, x),
        lambda x: lax.clamp(0.0, x, 1.0),
        lambda x: xpr.jit(lambda y: y @ y)(x),
        lambda x: lax.cond(x[0, 0] > 0, lambda: x @ x, lambda: x + 1),
        lambda x: xpr.random.bits(xpr.random.key(0), (1000,)),
        lambda x: xpr.random.bits(xpr.random.key(0), (20_000,)),
        lambda x: x @ x[0],
        lambda x: x[0] @ x,
    ],
)
def test_operations_are_counted_as_xla_counts_them(fun):
    expected = xpr.jit(fun).lower(X).compile().cost_analysis().get("flops", 0)
    assert cost(fun)(X).flops == pytest.approx(expected, rel=0.1)


def test_transcendental_functions_are_one_operation_each():
    assert cost(lambda x: jnp.exp(jnp.tanh(x)))(X).flops == 20000


def _products(n, window, stride, pads, dilation, window_dilation):
    """How often an element of a kernel meets one of an image along an axis, by trying all positions."""
    counts = 0
    for start in range(0, (n - 1) * dilation + sum(pads) - (window - 1) * window_dilation + 1, stride):
        positions = start + window_dilation * np.arange(window) - pads[0]
        counts += np.count_nonzero((positions % dilation == 0) & (positions >= 0) & (positions <= (n - 1) * dilation))
    return counts


def test_convolutions_and_windows():
    image, kernel = np.ones((1, 2, 8, 8), np.float32), np.ones((4, 2, 3, 3), np.float32)
    found = cost(lambda x, k: lax.conv(x, k, (1, 1), "VALID"))(image, kernel)
    assert found.flops == 2 * (4 * 6 * 6) * (2 * 3 * 3)
    found = cost(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))(image, kernel)  # less the padding's part
    assert found.flops == 2 * (4 * 2) * (8 * 3 - 2) ** 2
    strided = cost(lambda x, k: lax.conv_general_dilated(x, k, (3, 2), [(2, 0), (1, 4)], (2, 3), (1, 2)))(image, kernel)
    assert strided.flops == 2 * (4 * 2) * _products(8, 3, 3, (2, 0), 2, 1) * _products(8, 3, 2, (1, 4), 3, 2)
    found = cost(lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"))(image)
    assert found.flops == 2 * 8 * 8


def test_loops_are_multiplied():
    assert cost(lambda x: lax.scan(lambda c, _: (c @ x, None), x, None, length=10)[0])(X).flops == 10 * 2 * 100**3
    nested = lambda x: lax.fori_loop(0, 3, lambda i, y: lax.fori_loop(0, 5, lambda j, z: z * x, y), x)
    assert cost(nested)(X).flops == pytest.approx(15 * 10000, rel=0.01)


def test_functions_that_are_called_several_times():
    square = xpr.jit(lambda x: x @ x)
    found = cost(lambda x: square(square(square(x))))(X)
    assert found.flops == 3 * 2 * 100**3
    (only,) = found.by_equation
    assert (only.times, only.equation.primitive.name) == (3, "dot_general")


def test_the_costliest_branch_counts():
    f = lambda i, x: lax.switch(i, [lambda y: y, lambda y: y @ y, lambda y: y * 2], x)
    assert cost(f)(1, X).flops == pytest.approx(2 * 100**3, rel=0.01)


def test_loops_of_unknown_length_count_one_step():
    found = cost(lambda x: lax.while_loop(lambda c: c[0, 0] < 3, lambda c: c @ x, x))(X)
    assert found.endless == 1 and found.flops == pytest.approx(2 * 100**3, rel=0.01)
    assert "1 loop of unknown length: one step counted" in str(found)


def test_linear_equations_are_solved_once():
    f = lambda b: lax.custom_linear_solve(lambda x: X @ x, b, lambda mv, b: X @ b, symmetric=True)
    assert cost(f)(X[0]).flops == 2 * 100**2


def test_bytes_and_memory():
    found = cost(lambda x, y: x @ y)(X, X)
    assert found.bytes == found.peak_memory == 3 * 4 * 10000


def test_only_elements_at_computed_indices_are_moved():
    row = 4 * 100
    assert cost(lambda x: lax.dynamic_slice(x, (1, 0), (3, 100)))(X).bytes == 2 * 3 * row + 2 * 4
    assert cost(lambda x: lax.dynamic_update_slice(x, X[:3], (1, 0)))(X).bytes == 2 * 3 * row + 2 * 4
    rows = lax.GatherDimensionNumbers((1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    indices = np.zeros((5, 1), np.int32)
    assert cost(lambda x: lax.gather(x, indices, rows, (1, 100)))(X).bytes == 2 * 5 * row + 5 * 4
    written = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    found = cost(lambda x: lax.scatter_add(x, indices, X[:5], written))(X)
    assert (found.flops, found.bytes) == (5 * 100, 3 * 5 * row + 5 * 4)


def test_types_are_enough():
    struct = xpr.ShapeDtypeStruct((1000, 1000), "float32")
    assert cost(lambda x: x @ x)(struct).flops == 2 * 1000**3


def test_the_table():
    def f(x):
        y = x @ x
        return jnp.sin(y)

    found = cost(f)(X)
    (first, product), (_, sine) = found.by_line.items()
    assert first.startswith("test_cost.py:") and first.endswith("(f)")
    assert (product.flops, product.equations, product.text) == (2 * 100**3, 1, "y = x @ x")
    assert (sine.flops, sine.bytes) == (10000, 80000)
    lines = str(found).splitlines()
    assert lines[0].startswith("f at test_cost.py:") and "2.01 M operations, 200 kB read and written" in lines[0]
    assert lines[1].split() == ["operations", "share", "bytes", "equations", "line"]
    assert lines[2].split()[:4] == ["2", "M", "99.5%", "120"]
    assert lines[2].endswith("y = x @ x")


def test_long_tables_are_shortened():
    lines = "\n".join(["def f(x):", *["    x = x * 2.0"] * 30, "    return x"])
    names = {}
    exec(compile(lines, "made.py", "exec"), names)
    assert str(cost(names["f"])(X)).endswith("and 10 lines more")


def test_on_eight_devices():
    eight_devices.run("cost_cases.py")
