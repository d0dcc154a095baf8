"""Array: operators, methods and properties, text, conversions, copies, pickles, DLPack, moving; and the errors."""

from __future__ import annotations

import copy
import enum
import operator
import pickle
import sys
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.peer import JAX, check, needs_jax
from tests.test_numpy_creation import calls
from xpr.api.transfer import block_until_ready, copy_to_host_async, device_get, device_put
from xpr.backend import native
from xpr.core.interpreter import Tracer
from xpr.errors import ConcretizationTypeError, TracerArrayConversionError

ARRAYS = {
    "i": np.array([7, -7, 3, 0, 2], np.int32),
    "f": np.array([1.5, -2.0, 0.25, 3.0, 2.0], np.float32),
    "k": np.array([1, 2, 3, 1, 2], np.int32),
    "c": np.array([1 + 2j, -1j, 2, 0.5, 1], np.complex64),
    "b": np.array([True, False, True, False, True]),
    "h": np.array([1, 2, 3, 4, 5], np.float16),
    "m": np.arange(6, dtype=np.float32).reshape(2, 3),
    "s": np.float32(2.5),
}

# -- Operators

OPERATORS = """
i + k | i - k | i * k | i / k | i // k | i % k | i ** k | f + f
f - 1 | 1 - f | f * 2.0 | 2 / f | f // 2 | f % 2 | f ** 2 | 2 ** f
-f | +f | abs(f) | ~i | ~b | i & k | i | k | i ^ k | i & 3 | 3 | i | i ^ 1 | i << 1 | i >> 1 | 1 << k | b & b
b ^ True | b | False
i == k | i != k | f < 1 | f <= 1 | f > 1 | f >= f | 1 < f | c == c | b == b | c + 1 | c * f | i + f
h + f | h * 2.0 | h + 1 | b + 1
f + np.float32(1) | np.float32(1) + f | f + np.ones(5, np.float32) | np.ones(5, np.float32) - f | h + np.float32(1)
i * 1.5
divmod(i, k) | divmod(f, 2) | divmod(7, k) | round(f) | round(f, 1) | m @ m.T | s * s | m + s
i + True | b * 1.5 | f + 1j | i ** 2 | f ** -1 | f ** 0.5 | k ** 0 | 7 // k | 7 % k | 7.5 - k
"""


def split_operators(text: str) -> list[str]:
    """Calls are separated by ` | `, and so are the operands of one of them."""
    parts = calls(text)
    joined: list[str] = []
    for part in parts:
        if joined and (joined[-1], part) in {("i", "k"), ("3", "i"), ("b", "False")}:
            joined[-1] += " | " + part
        else:
            joined.append(part)
    return [p for p in joined if p not in ("i", "3", "b")]


@pytest.mark.parametrize("call", split_operators(OPERATORS))
def test_operators(call: str) -> None:
    check(call, ARRAYS, 1e-6)


def test_in_place_operators_make_a_new_array() -> None:
    x = y = jnp.arange(3)
    x += 1
    assert x.tolist() == [1, 2, 3] and y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("other", [[1, 2], (1, 2), {1: 2}, {1, 2}])
def test_operators_refuse_collections(other: Any) -> None:
    x, kind = jnp.array([1, 2]), type(other).__name__
    for operate, symbol in ((operator.add, r"\+"), (operator.eq, "=="), (operator.ne, "!="), (operator.mul, r"\*")):
        with pytest.raises(TypeError, match=rf"unsupported operand .* {symbol}: 'Array' and '{kind}'. Convert lists"):
            operate(x, other)
        with pytest.raises(TypeError, match="unsupported operand"):
            xpr.jit(lambda x, operate=operate: operate(other, x))(x)


def test_operators_leave_others_to_themselves() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "radd"

        def __add__(self, other: Any) -> str:
            return "add"

        def __eq__(self, other: object) -> Any:
            return "eq"

    class Pair(NamedTuple):
        name: str

        def __rmul__(self, other: Any) -> str:
            return self.name

    x = jnp.arange(3)
    assert x * Pair("rmul") == "rmul"
    assert x + Other() == "radd" and Other() + x == "add" and (x == Other()) == "eq"
    for bad in ([1, 2, 3], "a", None):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + bad
    assert (x == None) is False and (x != None) is True  # noqa: E711  # the operator is what is tested
    assert isinstance(np.ones(3, np.float32) + x, xpr.Array) and isinstance(np.float32(1) * x, xpr.Array)
    assert isinstance(np.add(x, x), np.ndarray)
    assert isinstance(mock.Mock(spec=xpr.Array), xpr.Array) and not isinstance(mock.Mock(spec=np.ndarray), xpr.Array)

    class Wrapped:
        def __jax_array__(self) -> Any:
            return jnp.ones(3)

    assert (x + Wrapped()).tolist() == [1.0, 2.0, 3.0]


def test_the_class_makes_no_arrays() -> None:
    with pytest.raises(TypeError, match=r"made by functions: jnp.zeros\(shape\)"):
        jnp.ndarray((2, 3))


# -- Methods and properties

METHODS = """
m.shape | m.ndim | m.size | m.dtype | m.nbytes | m.itemsize | m.weak_type | (1.0 * i).weak_type | m.T | m.mT
c.real | c.imag | f.real
m.reshape(3, 2) | m.reshape((3, -1)) | m.ravel() | m.flatten() | m.transpose(1, 0) | m.swapaxes(0, 1)
m[None].squeeze() | m.copy()
i.astype("float32") | f.astype(int) | m.repeat(2, axis=1) | f.round() | f.round(1) | f.clip(0, 2)
c.conj() | c.conjugate() | m.diagonal()
m.sum() | m.mean(0) | m.max(1) | m.min() | m.prod() | m.std() | m.var(0) | b.any() | b.all() | m.argmax()
m.argmin(1) | m.cumsum(0)
m.cumprod(1) | f.argsort() | m.take(i % 2) | f.nonzero() | f.compress(b)
(i % 3).choose([i, f, 1], mode="clip") | m.ptp() | m.trace() | m.dot(m.T)
h.searchsorted(jnp.array([2.5], "float16")) | f.view("int32")
b.view("uint8")
f.at[0].set(9.0) | f[1:]
i.byteswap() | f.byteswap() | c.byteswap() | b.byteswap()
"""


@pytest.mark.parametrize("call", calls(METHODS))
def test_methods(call: str) -> None:
    check(call, ARRAYS, 1e-6, staged="nonzero" not in call and "compress" not in call)


def test_every_method_of_jax_arrays_is_there() -> None:
    if JAX is None:
        pytest.skip("jax is not installed")
    of_jax = {name for name in dir(JAX.numpy.arange(3)) if not name.startswith("_")}
    layout = {
        "addressable_data", "addressable_shards", "device_buffer", "device_buffers", "global_shards",
        "is_fully_addressable", "is_fully_replicated", "sharding", "traceback", "unsafe_buffer_pointer", "platform",
    }  # fmt: skip
    unusual = {"clone", "flat", "on_device_size_in_bytes"}
    missing = of_jax - layout - unusual - set(dir(jnp.arange(3)))
    assert not missing, missing


def test_methods_of_traced_arrays_are_not_hidden_by_what_tracers_carry() -> None:
    methods = {name for name in dir(xpr.Array) if not name.startswith("_")}

    def below(kind: type) -> list[type]:
        return [kind, *(k for sub in kind.__subclasses__() for k in below(sub))]

    carried = {(kind.__name__, name) for kind in below(Tracer) for name in vars(kind).get("__slots__", ())}
    hidden = {(kind, name) for kind, name in carried if name in methods}
    assert {name for _, name in hidden} <= {"aval"}, hidden


def test_iteration_reads_the_array_once() -> None:
    x = jnp.arange(6.0).reshape(3, 2)
    rows = list(x)
    assert [r.tolist() for r in rows] == [[0, 1], [2, 3], [4, 5]] and all(isinstance(r, xpr.Array) for r in rows)
    assert all(r.weak_type for r in jnp.full(2, 1.0))
    assert [int(n) for n in jnp.arange(3)] == [0, 1, 2]
    a, b, c = x
    assert b.tolist() == [2, 3]
    total = xpr.jit(lambda x: sum(row for row in x))(x)
    assert total.tolist() == [6, 9]
    assert xpr.grad(lambda x: sum(v * v for v in x))(jnp.array([1.0, 2.0])).tolist() == [2, 4]
    assert len(x) == 3 and xpr.jit(lambda x: len(x) * x)(x).tolist() == (3 * x).tolist()


def test_membership() -> None:
    assert 2 in jnp.arange(3) and 5 not in jnp.arange(3)
    assert np.int8(2) in jnp.arange(3) and jnp.float32(2) in jnp.arange(3)
    for item, shape in ((jnp.arange(2), (2,)), (1, ()), (1, (2, 2))):
        with pytest.raises(ValueError, match=r"`in` looks for a scalar in a vector, .* jnp.isin\(x, array\)"):
            _ = item in jnp.ones(shape)


# -- Text


@needs_jax
@pytest.mark.parametrize("call", calls("""
jnp.arange(3) | jnp.arange(3.0) | jnp.asarray(1.0) | jnp.float32(1) | jnp.array([True])
jnp.array([1 + 2j]) | jnp.zeros((0, 3))
jnp.array([1, 2.5], jnp.bfloat16) | jnp.array([1, 2], "int4") | jnp.arange(4).reshape(2, 2)
jnp.arange(2000) | jnp.full(20, 1.5)
jnp.arange(30.0) | jnp.array([1e-8, 1.0, 1e8]) | jnp.array([np.nan, np.inf, -np.inf])
jnp.ones((2, 2), "float16") | jnp.array([])
jnp.ones(3, jnp.float8_e4m3fn) | jnp.array(3, "uint8") | jnp.array(1.5, jnp.bfloat16)
"""))  # fmt: skip
def test_text_is_that_of_jax(call: str) -> None:
    ours, theirs = eval(call, {"jnp": jnp, "np": np}), eval(call, {"jnp": JAX.numpy, "np": np})
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)
    assert f"{ours}" == f"{theirs}"
    if ours.ndim == 0 and ours.dtype.kind in "fV":
        assert f"{ours:.3f}" == f"{theirs:.3f}"


def test_long_text_has_the_dtype_on_a_line_of_its_own() -> None:
    assert repr(jnp.ones((3, 30))).endswith("]],\n      dtype=float32)")


def test_text_of_deleted_and_traced_arrays() -> None:
    x = jnp.arange(3)
    x.delete()
    assert repr(x) == "Array(shape=(3,), dtype=int32, deleted)"
    shown: list[str] = []
    xpr.jit(lambda x: shown.append(f"{x}") or x)(jnp.arange(3))
    assert "int32[3]" in shown[0]


# -- Conversions


def test_conversions_to_python() -> None:
    assert float(jnp.float32(2.5)) == 2.5 and int(jnp.float32(2.5)) == 2 and complex(jnp.float32(2)) == 2 + 0j
    assert bool(jnp.array([1])) and not bool(jnp.float32(0))
    assert [1, 2, 3][jnp.array(1)] == 2 and operator.index(jnp.int8(3)) == 3 and list(range(jnp.array(2))) == [0, 1]
    assert jnp.float32(2.5).item() == 2.5 and type(jnp.int8(1).item()) is int and type(jnp.array(True).item()) is bool
    assert jnp.bfloat16(1.5).item() == 1.5 and type(jnp.bfloat16(1.5).item()) is float
    assert jnp.arange(4).reshape(2, 2).tolist() == [[0, 1], [2, 3]] and jnp.arange(3).item(1) == 1
    assert jnp.array([1, 2], jnp.uint8).tobytes() == b"\x01\x02"
    assert f"{jnp.float32(3.14159):.2f}" == "3.14" and f"{jnp.int32(5):03d}" == "005"


def test_conversions_to_numpy() -> None:
    x = jnp.arange(3.0)
    host = np.asarray(x)
    assert host.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        host[0] = 1
    writeable = np.array(x)
    writeable[0] = 5
    assert x.tolist() == [0, 1, 2]
    assert np.asarray(x, np.float64).dtype == np.float64 and np.sum(x) == 3
    assert np.asarray(jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
    assert sys.modules["xpr.numpy"] is x.__array_namespace__()


ERRORS = [
    ("x[0].__setitem__(0, 1)", TypeError, r"x\.at\[i\]\.set"),
    ("x.__setitem__(0, 1)", TypeError, r"x = x\.at\[i\]\.set\(y\)"),
    ("hash(x)", TypeError, "unhashable"),
    ("len(jnp.float32(3))", TypeError, "without axes"),
    ("iter(jnp.float32(3))", TypeError, "iterated"),
    ("bool(x)", ValueError, r"\.any\(\) or \.all\(\)"),
    ("int(x)", TypeError, ""),
    ("operator.index(jnp.float32(3))", TypeError, "integer"),
    ("x.item()", ValueError, "size 1"),
    ("x.nothing", AttributeError, "nothing"),
    ("x.__dlpack__(dl_device=(2, 0))", BufferError, "to_device"),
    ("device_put(x, 'cpu')", TypeError, "xpr.devices"),
    ("device_put('a')", TypeError, "not numeric"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[0] for row in ERRORS])
def test_errors(call: str, error: type[Exception], message: str) -> None:
    scope = {"x": jnp.arange(3), "jnp": jnp, "operator": operator, "device_put": device_put}
    with pytest.raises(error) as raised:
        eval(call, scope)
    raised.match(message) if message else None


def test_assignment_is_refused() -> None:
    x = jnp.arange(3)
    with pytest.raises(TypeError, match="immutable"):
        x[0] = 1
    with pytest.raises(TypeError, match="immutable"):
        xpr.jit(lambda x: x.__setitem__(0, 1))(x)


@pytest.mark.parametrize(
    "use", [float, int, bool, complex, lambda x: x.item(), lambda x: x.tolist(), lambda x: f"{x:.2f}"]
)
def test_traced_values_have_no_python_value(use: Any) -> None:
    with pytest.raises(ConcretizationTypeError):
        xpr.jit(use)(1.0)


def test_traced_values_have_no_numpy_value() -> None:
    with pytest.raises(TracerArrayConversionError, match=r"xpr\.numpy"):
        xpr.jit(lambda x: np.asarray(x))(1.0)
    with pytest.raises(TracerArrayConversionError):
        xpr.jit(lambda x: np.sin(x))(jnp.arange(3.0))


# -- Copies and pickles


@pytest.mark.parametrize("value", [
    jnp.arange(3), jnp.asarray(1.0), jnp.ones((2, 0)), jnp.array([1, 2.5], jnp.bfloat16), jnp.array([1j]),
    jnp.array([1], "int4"),
], ids=str)  # fmt: skip
def test_copies_and_pickles(value: xpr.Array) -> None:
    pickled = pickle.loads(pickle.dumps(value))
    for other in (copy.copy(value), copy.deepcopy(value), pickled, value.copy(), jnp.array(value)):
        assert other is not value and other.aval is value.aval
        np.testing.assert_array_equal(np.asarray(other), np.asarray(value))


def test_copies_of_results_and_inside_containers() -> None:
    x = xpr.jit(lambda x: x * 2)(jnp.arange(3.0))
    nested = copy.deepcopy({"x": x, "y": [x, x]})
    assert nested["y"][0].tolist() == [0, 2, 4]
    y = jnp.array(x)
    x.delete()
    assert y.tolist() == [0, 2, 4]
    assert xpr.jit(lambda x: copy.deepcopy(x) + copy.copy(x))(1.0).item() == 2.0


# -- DLPack and devices


@pytest.mark.parametrize("dtype", "int8 int32 uint16 float16 float32 complex64 bool".split())
def test_dlpack_both_ways(dtype: str) -> None:
    x = jnp.arange(4).reshape(2, 2).astype(dtype)
    theirs = np.from_dlpack(x)
    assert theirs.dtype == dtype
    np.testing.assert_array_equal(theirs, np.asarray(x))
    back = jnp.from_dlpack(np.asarray(x).copy())
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(back), np.asarray(x))
    assert jnp.from_dlpack(x).tolist() == x.tolist() and jnp.from_dlpack(x, copy=True).tolist() == x.tolist()


def test_dlpack_devices_and_narrowing() -> None:
    assert jnp.ones(2).__dlpack_device__()[0] in (1, 2)
    assert jnp.from_dlpack(np.arange(3.0)).dtype == jnp.float32
    with xpr.enable_x64(True):
        assert jnp.from_dlpack(np.arange(3.0)).dtype == jnp.float64
    if JAX is not None:
        shared = JAX.numpy.from_dlpack(jnp.ones((2, 2), jnp.bfloat16))
        assert str(shared.dtype) == "bfloat16"
        assert jnp.from_dlpack(shared).tolist() == [[1, 1], [1, 1]]


def test_moving_pytrees() -> None:
    device = xpr.devices()[0]
    put = device_put({"a": np.ones(2, np.float32), "b": (1.0, jnp.arange(2))}, device)
    assert put["a"].committed and put["b"][0].weak_type and put["b"][1].device == device
    assert not device_put(np.ones(2, np.float32)).committed
    mixed = device_put(({"a": 1, "b": 2}, 3), ({"a": device, "b": None}, None))
    assert mixed[0]["a"].committed and not mixed[0]["b"].committed
    assert jnp.zeros(2, device=device).committed and jnp.arange(2).to_device(device).devices() == {device}
    got = device_get(put)
    assert type(got["a"]) is np.ndarray and got["b"][1].tolist() == [0, 1]
    assert device_get(1.0) == 1.0
    assert block_until_ready(put) is put and copy_to_host_async(put) is put
    assert xpr.jit(lambda x: device_put(x) + 1)(1.0).item() == 2.0
    assert xpr.jit(device_get)(1.0).item() == 1.0
    assert xpr.jit(lambda x: x.to_device(device) + x.to_device(None))(1.0).item() == 2.0


def test_a_64_bit_array_used_where_those_are_off_is_narrowed():
    with xpr.enable_x64(True):
        x = jnp.arange(3.0)
        assert (x * 2.0).dtype == np.float64
    assert x.dtype == jnp.asarray(x).dtype == np.float64
    for fun in (
        lambda x: x * 2.0, lambda x: 1 - x, lambda x: x + jnp.ones(3), jnp.mean, jnp.var, xpr.nn.relu, xpr.nn.softmax,
        lambda x: x.at[0].set(5.0), lambda x: x.sum() / 2, xpr.grad(lambda x: jnp.sum(x * 3)), jnp.cumsum,
    ):  # fmt: skip
        result = fun(x)
        np.testing.assert_allclose(result, fun(x.astype(np.float32)), rtol=1e-6)
    assert (x + 1).dtype == (x * 2.5).dtype == x.mean().dtype == np.float32
    with xpr.enable_x64(True):
        assert (x * 2.5).dtype == np.float64


class TestDevicePut:
    def test_aliases(self):
        device = xpr.devices()[0]
        x = xpr.device_put(np.arange(8), device)
        assert xpr.device_put(x) is x and xpr.device_put(x, device) is x and xpr.device_put(x, may_alias=True) is x
        copied = xpr.device_put({"x": x, "y": x}, device, may_alias={"x": False, "y": None})
        assert copied["x"] is not x and copied["y"] is x
        np.testing.assert_array_equal(copied["x"], x)
        with pytest.raises(
            ValueError, match="may_alias and donate cannot be True at the same time, for one array: what"
        ):
            xpr.device_put(x, may_alias=True, donate=True)

    def test_objects_that_can_be_copied_to_the_host(self):
        class Remote:
            copied = 0

            def copy_to_host_async(self):
                self.copied += 1

        remote = Remote()
        assert xpr.copy_to_host_async([remote, 1])[0] is remote and remote.copied == 1


def test_live_arrays():
    x = xpr.jit(lambda x: x * 2)(jnp.ones((3, 571)))
    alive = [y for y in xpr.live_arrays() if y.shape == (3, 571)]
    assert any(np.array_equal(y, x) for y in alive)
    x.delete()
    with pytest.raises(xpr.errors.DeviceNotFound):
        xpr.live_arrays("tpu")


@pytest.mark.skipif(sys.version_info < (3, 12) and not native.available(), reason="classes have no buffers before 3.12")
def test_buffers_of_arrays_are_their_values():
    x = jnp.arange(6.0).reshape(2, 3)
    view = memoryview(x)
    assert view.readonly and view.shape == (2, 3) and view.tobytes() == np.asarray(x).tobytes()
    x.delete()
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]  # it holds the values
    with pytest.raises(TypeError, match="cannot be converted to a NumPy array.*key<fry>"):
        memoryview(xpr.random.key(0))
    assert memoryview(jnp.ones((), bool)).tolist() and not np.asarray(jnp.ones(2)).flags.writeable
    with pytest.raises(BufferError, match="buffer protocol has no format for bfloat16"):
        memoryview(jnp.ones(2, jnp.bfloat16))
    for dtype in (jnp.bfloat16, jnp.int4, jnp.float8_e4m3fn):
        x = jnp.asarray([1, 2], dtype)
        assert np.asarray(x).dtype == dtype and np.asarray(x).astype(int).tolist() == [1, 2]


def test_dtypes_without_buffers_are_not_fetched_twice(monkeypatch):
    """NumPy asks for a buffer before it calls `__array__`."""
    x, fetched = jnp.ones(2, jnp.bfloat16), []
    monkeypatch.setattr(type(x), "numbers", lambda x: fetched.append(x) or x.host)
    np.asarray(x)
    assert len(fetched) == 1


def test_an_array_in_place_of_a_dtype_warns():
    with pytest.warns(DeprecationWarning, match="Implicit conversion of an array to a dtype is deprecated, and will"):
        assert jnp.arange(2).__numpy_dtype__ == np.int32


class Color(enum.IntEnum):
    RED = 1


def test_operators_take_numbers_of_derived_classes():
    x = jnp.arange(3)
    assert (x == Color.RED).tolist() == [False, True, False] and (Color.RED + x).tolist() == [1, 2, 3]
    assert (x - type("Half", (float,), {})(0.5)).tolist() == [-0.5, 0.5, 1.5]
    assert jnp.full(2, Color.RED).tolist() == [1, 1] and jnp.full(2, Color.RED).weak_type
    assert xpr.jit(lambda x: x < Color.RED)(x).tolist() == [True, False, False]


def test_dtypes_are_classes():
    class Step(jnp.int8):
        FIRST = jnp.array(0, jnp.int8)

    assert isinstance(jnp.float32, type) and issubclass(Step, jnp.int8) and isinstance(np.int8(3), jnp.int8)
    assert Step.dtype == jnp.int8 and Step(3).dtype == jnp.int8 and jnp.zeros(2, Step).dtype == jnp.int8
    assert Step.FIRST.item() == 0 and repr(jnp.bfloat16) == "<class 'xpr.numpy.bfloat16'>"
    assert isinstance(None, jnp.float32 | None) and {jnp.float32: 1}[np.float32] == 1
    for each in (jnp.bool_, jnp.bfloat16, jnp.float32):
        assert pickle.loads(pickle.dumps(each)) is copy.deepcopy(each) is each
