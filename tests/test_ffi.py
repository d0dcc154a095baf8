"""xpr.ffi: a handler in C++, compiled against jaxlib's headers, called from programs."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import ffi
from xpr.errors import CallbackDerivativeError
from xpr.experimental.layout import Layout
from xpr.extend import Primitive, ShapedArray
from xpr.interpreters import mlir

SOURCE = r"""
#include <string_view>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static int calls = 0;

// y = factor * x + the sum of terms; `first` is the first element in memory.
static ffi::Error Scaled(ffi::Buffer<ffi::F32> x, float factor, ffi::Span<const float> terms, std::string_view mode,
                         int64_t offset, bool negative, ffi::ResultBuffer<ffi::F32> y,
                         ffi::ResultBuffer<ffi::F32> first) {
  if (mode != "add") return ffi::Error::InvalidArgument("the mode is add");
  float sum = offset;
  for (float term : terms) sum += term;
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = (negative ? -factor : factor) * x.typed_data()[i] + sum;
  first->typed_data()[0] = x.element_count() > 1 ? x.typed_data()[1] : 0;
  ++calls;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ScaledHandler, Scaled,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Attr<float>("factor").Attr<ffi::Span<const float>>("terms")
        .Attr<std::string_view>("mode").Attr<int64_t>("offset").Attr<bool>("negative")
        .Ret<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

extern "C" int Calls() { return calls; }
"""
ATTRIBUTES = {
    "factor": np.float32(2), "terms": np.array([1, 2], np.float32), "mode": "add", "offset": 4, "negative": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no compiler of C++")
    folder = tmp_path_factory.mktemp("handlers")
    (folder / "scaled.cc").write_text(SOURCE)
    command = [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{ffi.include_dir()}", "scaled.cc", "-o", "scaled.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    library = ctypes.cdll.LoadLibrary(str(folder / "scaled.so"))
    ffi.register_ffi_target("xpr_test_scaled", ffi.pycapsule(library.ScaledHandler))
    return library


def scaled(x, vmap_method=None, terms=ATTRIBUTES["terms"], **options):
    results = (xpr.ShapeDtypeStruct(x.shape, np.float32), xpr.ShapeDtypeStruct(x.shape[:0], np.float32))
    return ffi.ffi_call("xpr_test_scaled", results, vmap_method=vmap_method, **options)(
        x, **{**ATTRIBUTES, "terms": terms}
    )


def test_a_handler_is_called(library):
    x = jnp.arange(6.0).reshape(2, 3)
    y, first = scaled(x)
    np.testing.assert_array_equal(y, 2 * np.asarray(x) + 7)
    assert float(first) == 1.0
    np.testing.assert_array_equal(scaled(x, terms=np.array([3, 3], np.float32))[0], 2 * np.asarray(x) + 10)
    jitted = xpr.jit(lambda x: scaled(x + 1)[0] * 2)
    np.testing.assert_array_equal(jitted(x), 2 * (2 * (np.asarray(x) + 1) + 7))


def test_layouts(library):
    """The handler sees the elements in the order that the layout says; the result is the same."""
    x = jnp.arange(6.0).reshape(2, 3)
    y, second = scaled(x, input_layouts=[(1, 0)], output_layouts=[(1, 0), ()])
    np.testing.assert_array_equal(y, 2 * np.asarray(x) + 7)
    assert float(second) == 3.0


@pytest.mark.parametrize("method, calls", [("sequential", 4), (None, 4)])
def test_vmap_calls_for_each_row(library, method, calls):
    before = library.Calls()
    x = jnp.arange(8.0).reshape(4, 2)
    y, first = xpr.vmap(lambda row: scaled(row, method))(x)
    np.testing.assert_array_equal(y, 2 * np.asarray(x) + 7)
    np.testing.assert_array_equal(first, np.asarray(x)[:, 1])
    assert library.Calls() - before == calls


@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "legacy_vectorized"])
def test_vmap_calls_once_for_all_rows(library, method):
    before = library.Calls()
    x = jnp.arange(8.0).reshape(4, 2)
    y, first = xpr.vmap(lambda row: scaled(row, method))(x)
    np.testing.assert_array_equal(y, 2 * np.asarray(x) + 7)
    assert first.shape == (4,) and library.Calls() - before == 1


def test_effects(library):
    """A call whose results nobody reads is left out, unless it has side effects."""
    x = jnp.arange(6.0)
    for has_side_effect in (False, True):
        before = library.Calls()
        xpr.jit(lambda x, flag=has_side_effect: (scaled(x, has_side_effect=flag), x)[1])(x).block_until_ready()
        assert library.Calls() - before == has_side_effect


def test_derivatives_are_said_by_users(library):
    with pytest.raises(CallbackDerivativeError, match="function of another library, whose derivative can't be known"):
        xpr.grad(lambda x: scaled(x)[0].sum())(jnp.ones(3))
    f = xpr.custom_jvp(lambda x: scaled(x)[0])
    f.defjvp(lambda primals, tangents: (f(*primals), 2 * tangents[0]))
    np.testing.assert_array_equal(xpr.grad(lambda x: f(x).sum())(jnp.ones(3)), [2.0, 2.0, 2.0])


def test_memory_that_is_shared(library):
    x = jnp.arange(6.0)
    y, _ = xpr.jit(lambda x: scaled(x * 1.5, input_output_aliases={0: 0}))(x)
    np.testing.assert_array_equal(y, 3 * np.asarray(x) + 7)
    with pytest.raises(ValueError, match="argument 0 can't share memory with result 1"):
        scaled(x, input_output_aliases={0: 1})


def test_an_error_of_the_handler_is_raised(library):
    call = ffi.ffi_call("xpr_test_scaled", [xpr.ShapeDtypeStruct((2,), np.float32), np.float32(0)])
    with pytest.raises(Exception, match="the mode is add"):
        call(jnp.ones(2), **{**ATTRIBUTES, "mode": "multiply"})


def test_what_does_not_fit():
    vector = xpr.ShapeDtypeStruct((2,), np.float32)
    with pytest.raises(ValueError, match="vmap_method is one of"):
        ffi.ffi_call("f", vector, vmap_method="all")
    with pytest.raises(ValueError, match="legacy_backend_config is for functions of an interface before 4"):
        ffi.ffi_call("f", vector, legacy_backend_config="x")
    with pytest.raises(ValueError, match=r"\(0, 1\) is no layout of an output of type f32\[2\]"):
        ffi.ffi_call("f", vector, output_layouts=(0, 1))
    with pytest.raises(ValueError, match="there are 1 inputs and 2 input layouts"):
        ffi.ffi_call("f", vector, input_layouts=[None, None])(jnp.ones(2))


@pytest.mark.parametrize(
    "value, text",
    [
        (np.array(2, np.int8), "dense<2> : tensor<i8>"),
        (np.array([[1.0, 2.0]]), "dense<[[1.000000e+00, 2.000000e+00]]> : tensor<1x2xf64>"),
        (np.zeros(0, np.float32), "dense<> : tensor<0xf32>"),
        (np.array(True), "dense<true> : tensor<i1>"),
        (jnp.bfloat16.dtype.type(1), "1.000000e+00 : bf16"),
        (np.array(1, jnp.float8_e4m3fn), "dense<1.000000e+00> : tensor<f8E4M3FN>"),
        ({"a b": 1}, '{"a b" = 1 : i64}'),
    ],
)
def test_attributes_of_arrays_and_of_other_dtypes(value, text):
    call = ffi.ffi_call("f", xpr.ShapeDtypeStruct((2,), np.float32))
    assert f"{{value = {text}}}" in xpr.jit(lambda x: call(x, value=value)).lower(jnp.ones(2)).as_text()


@pytest.mark.parametrize("value", [object(), np.array(["a"]), np.datetime64("2020-01-01"), np.array([object()])])
def test_an_attribute_that_is_none(value):
    call = ffi.ffi_call("f", xpr.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(TypeError, match="attribute value must be a bool, a number, a string, a NumPy array, a dtype"):
        call(jnp.ones(2), value=value)


def test_attributes_are_written_with_their_types():
    vector = xpr.ShapeDtypeStruct((2,), np.float32)
    call = ffi.ffi_call("f", vector)
    values = {"a": 1, "b": 2.5, "c": np.float32(np.inf), "d": {"e": (True, "x")}, "g": np.array([1, 2], np.int32)}
    text = xpr.jit(lambda x: call(x, **values)).lower(jnp.ones(2)).as_text()
    for part in ("a = 1 : i64", "c = 0x7F800000 : f32", "e = [true,", "dense<[1, 2]> : tensor<2xi32>", "b = 2.5"):
        assert part in text, text


# -- Lowering rules of primitives of users


def of_user(rule):
    """A primitive that takes what the handler takes, lowered by a rule."""
    scaled_p = Primitive("scaled_of_user", multiple_results=True)
    scaled_p.def_abstract_eval(lambda x, **params: [x, ShapedArray((), np.float32)])
    mlir.register_lowering(scaled_p, rule)
    return scaled_p


def test_names_of_any_characters():
    call = ffi.ffi_call('λ"', xpr.ShapeDtypeStruct((2,), np.float32))
    text = xpr.jit(lambda x: call(x, **{"é": "ü", "a-b": 1.0})).lower(jnp.ones(2)).as_text()
    assert '@"\\CE\\BB\\22"' in text
    assert '"\\C3\\A9" = "\\C3\\BC"' in text


def test_a_lowering_rule_that_calls_a_handler(library):
    x = jnp.arange(6.0).reshape(2, 3)
    bind = of_user(ffi.ffi_lowering("xpr_test_scaled")).bind
    for call in (bind, xpr.jit(lambda x: bind(x, **ATTRIBUTES))):
        y, second = call(x, **ATTRIBUTES) if call is bind else call(x)
        np.testing.assert_array_equal(y, 2 * np.asarray(x) + 7)
        assert float(second) == 1.0


@pytest.mark.parametrize("columns", [(0, 1), Layout((1, 0))])
def test_layouts_of_a_lowering_rule(library, columns):
    """Tuples begin with the axis that is the fastest in memory, unlike those of `ffi_call`, as in JAX."""
    x = jnp.arange(6.0).reshape(2, 3)
    rule = ffi.ffi_lowering("xpr_test_scaled", operand_layouts=[columns], result_layouts=[columns, None])
    y, second = of_user(rule).bind(x, **ATTRIBUTES)
    np.testing.assert_array_equal(y, 2 * np.asarray(x) + 7)
    assert float(second) == 3.0


def test_a_call_in_a_rule_of_ones_own(library):
    fixed = {name: value for name, value in ATTRIBUTES.items() if name != "factor"}
    write = ffi.build_ffi_lowering_function("xpr_test_scaled", backend_config=fixed, operand_output_aliases={0: 0})

    def rule(ctx, x, *, factor):
        return write(ctx, x, factor=np.float32(2 * factor)).results

    y, _ = xpr.jit(lambda x: of_user(rule).bind(x + 1, factor=3))(jnp.arange(4.0))
    np.testing.assert_array_equal(y, 6 * (np.arange(4.0) + 1) + 7)


def test_calls_in_rules_are_written_as_asked():
    options = {"has_side_effect": True, "api_version": 2, "backend_config": "text", "skip_ffi_layout_processing": True}
    text = xpr.jit(of_user(ffi.ffi_lowering("f", **options)).bind).lower(jnp.ones((2, 3))).as_text()
    assert all(part in text for part in ("@f(", "has_side_effect = true", 'backend_config = "text"'))
    assert "layouts" not in text

    def lower(ctx, x):
        write = ffi.build_ffi_lowering_function("f", result_types=[x.type], skip_ffi_layout_processing=True)
        return [write(ctx, x).results[0], mlir.ir_constant(np.float32(0))]

    assert "stablehlo.custom_call @f" in xpr.jit(of_user(lower).bind).lower(jnp.ones((2, 3))).as_text()


@pytest.mark.parametrize(
    "options, params, error, message",
    [
        ({"api_version": 1}, {"a": 1}, ValueError, "attributes from api_version 4 on, and with 1 there are a. Give"),
        ({"api_version": 1, "backend_config": {"b": 1}}, {}, ValueError, "and with 1 there are b"),
        ({"backend_config": "text"}, {}, ValueError, "backend_config must be a dictionary for an interface from 4 on"),
        ({"operand_layouts": [None, None]}, {}, ValueError, "there are 1 operands and 2 operand layouts"),
        ({"result_layouts": [None]}, {}, ValueError, "there are 2 results and 1 result layouts"),
        ({}, {"a": len}, TypeError, "attribute a must be a bool, a number, a string"),
    ],
)
def test_lowering_rules_that_do_not_fit(options, params, error, message):
    f = xpr.jit(lambda x: of_user(ffi.ffi_lowering("f", **options)).bind(x, **params))
    with pytest.raises(error, match=message):
        f.lower(jnp.ones(2))
