"""Functions and objects on the host of their arguments' devices, which here is this process."""

import functools
import gc
import inspect
import pickle
import sys
import threading
import types
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.test_as_jax import run
from xpr.experimental.colocated_python import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
    serialization,
)
from xpr.sharding import NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

pytest.importorskip("cloudpickle")
Far = namedtuple("Far", ["process_index"])
X = jnp.float32(3)
SPEC = xpr.ShapeDtypeStruct((), "float32")


@colocated_python
def doubled(x):
    """Twice as much."""
    return x * 2


def host_state():
    """Of this module, which a copied function imports."""


# -- Functions


def test_functions():
    assert doubled(X) == 6
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Twice as much."
    assert str(inspect.signature(doubled)) == "(x)"
    of_trees = colocated_python(lambda tree, *, by: xpr.tree.map(lambda x: x * by, tree))
    assert of_trees({"a": X}, by=X)["a"] == 9
    assert colocated_python(lambda x: None)(X) is None
    assert colocated_python(functools.partial(jnp.add, 1))(X) == 4


def test_a_function_is_copied_for_each_signature():
    scale, calls = [2], []

    @colocated_python
    def scaled(x):
        calls.append(x)
        return x * scale[0]

    assert scaled(X) == 6
    scale[0] = 5
    assert scaled(X) == 6 and scaled(jnp.int32(3)) == 15 and calls == []


def test_functions_that_call_others():
    inner = colocated_python(lambda x: x + 1).specialize(out_specs_fn=lambda x: x)
    assert colocated_python(lambda x: inner(x) + doubled(x))(X) == 10
    assert colocated_python(lambda x: xpr.jit(xpr.grad(lambda x: x**2))(x))(X) == 6


def test_recursion():
    @colocated_python
    def factorial(n):
        return n if n == 1 else n * factorial(n - 1)

    assert factorial(jnp.int32(4)) == 24


def test_state_of_modules():
    """Functions that are copied import the modules that they read."""
    this = inspect.getmodule(host_state)

    @colocated_python
    def store(x):
        this.host_state.value = x
        return x

    store(X)
    assert host_state.value == 3


def test_threads_run_at_once():
    this = inspect.getmodule(host_state)
    host_state.barrier = threading.Barrier(2)

    @colocated_python
    def wait(x):
        this.host_state.barrier.wait(timeout=30)
        return x

    results = []
    threads = [threading.Thread(target=lambda: results.append(wait(X))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [X, X]


def test_strings_and_keys():
    words = np.array(["one", "two"], np.dtypes.StringDType())
    upper = colocated_python(lambda x: xpr.device_put(np.strings.upper(xpr.device_get(x)), x.sharding))
    assert upper(xpr.device_put(words)).tolist() == ["ONE", "TWO"]
    key = xpr.random.key(1, impl="rbg")
    assert colocated_python(lambda key: xpr.random.split(key))(key).dtype == key.dtype
    assert colocated_python(lambda x: xpr.random.key(7, impl="rbg"))(X).dtype == key.dtype


def test_errors_come_up_at_the_call():
    def fails(x):
        raise KeyError("of the user")

    for function in (colocated_python(fails), colocated_python(fails).specialize(out_specs_fn=lambda x: x)):
        with pytest.raises(KeyError, match="of the user"):
            function(X)


@pytest.mark.parametrize("x", [3, np.ones(2)], ids=["number", "numpy"])
def test_arguments_and_results_are_arrays(x):
    with pytest.raises(ValueError, match=r"only supports jax.Array .* an input of doubled is"):
        doubled(x)
    with pytest.raises(ValueError, match=r"only supports jax.Array .* an output of <lambda> is"):
        colocated_python(lambda _: x)(X)


def test_traced_arguments():
    with pytest.raises(ValueError, match=r"an input of doubled is traced, f32\[\], and is on no device"):
        xpr.jit(doubled)(X)


def test_what_can_not_be_copied():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot pickle") as caught:
        colocated_python(lambda x: lock and x)(X)
    assert "<lambda> is copied to the host of its devices" in caught.value.__notes__[0]


def test_without_cloudpickle(monkeypatch):
    monkeypatch.setattr(serialization, "cloudpickle", None)
    with pytest.raises(ModuleNotFoundError, match=r'No module named "cloudpickle".*pip install cloudpickle'):
        colocated_python(lambda x: x)(X)
    with pytest.raises(ModuleNotFoundError, match="cloudpickle"):
        serialization.deserialize(b"")


# -- Specialization


def test_devices_of_functions_without_arguments():
    make = colocated_python(lambda: jnp.zeros(()))
    message = r"No devices found. .* must be first specialized with devices: <lambda>.specialize\(devices=...\)"
    for function in (make, make.specialize(in_specs=((), {}))):
        with pytest.raises(ValueError, match=message):
            function()
    for specs in (None, ((), {})):
        assert make.specialize(in_specs=specs, devices=xpr.devices())() == 0


def test_specifications_of_arguments():
    for function in (doubled.specialize(((SPEC,), {})), doubled.specialize(((SPEC,), {}), lambda x: x)):
        assert function(X) == 6
        with pytest.raises(
            ValueError, match=r"takes what its in_specs say:\n  \[0\]\[0\]   expected f32\[\], got f32\[2\]"
        ):
            function(jnp.ones(2))
        with pytest.raises(ValueError, match=r"takes what its in_specs say:\n  \[0\]\[0\]   expected a leaf"):
            function([X])


def test_specifications_of_results():
    asked = []
    function = doubled.specialize(out_specs_fn=lambda x: asked.append(x) or x)
    assert function(X) == function(X) == 6 and function(jnp.ones(2)).shape == (2,)
    assert [(spec.shape, spec.dtype) for spec in asked] == [((), "float32"), ((2,), "float32")]
    with pytest.raises(
        ValueError, match=r"doubled returns what its out_specs_fn says:\n  the array   expected i32\[7\], got"
    ):
        doubled.specialize(out_specs_fn=lambda x: xpr.ShapeDtypeStruct((7,), "int32"))(X)
    with pytest.raises(ValueError, match="expected list of 1"):
        doubled.specialize(out_specs_fn=lambda x: [x])(X)


def test_more_is_specialized_step_by_step():
    once = doubled.specialize(devices=xpr.devices())
    assert once.specialize(((SPEC,), {})).specialize(out_specs_fn=lambda x: x)(X) == 6
    for more in ({"devices": xpr.devices()}, {"in_specs": ((), {})}, {"out_specs_fn": abs}):
        (name,) = more
        with pytest.raises(ValueError, match=f"{name} already specified: doubled was specialized by it"):
            doubled.specialize(**more).specialize(**more)
    with pytest.raises(ValueError, match="devices is empty, and doubled runs on the host of one at least"):
        doubled.specialize(devices=[])
    with pytest.raises(TypeError, match="'cpu' of type builtins.str is no device"):
        doubled.specialize(devices=["cpu"])


# -- Devices


def test_devices_and_meshes():
    mesh = xpr.make_mesh((1,), ("x",))
    assert colocated_cpu_devices(mesh) == mesh and colocated_cpu_devices(xpr.devices()) == xpr.devices()
    (device,) = colocated_cpu_devices([SimpleNamespace(platform="gpu", process_index=0)])
    assert device == xpr.devices("cpu")[0]
    with pytest.raises(ValueError, match="process 3 has too few CPU devices"):
        colocated_cpu_devices([SimpleNamespace(platform="gpu", process_index=3)])


def test_other_processes():
    far = doubled.specialize(devices=[Far(process_index=7)])
    with pytest.raises(NotImplementedError, match="doubled would run on other hosts"):
        far(X)


def test_what_functions_hold_is_copied():
    mesh = xpr.make_mesh((1,), ("x",))
    sharding, device, array = NamedSharding(mesh, P()), xpr.devices()[0], jnp.arange(3)
    of_one, module = SingleDeviceSharding(device, memory_kind="pinned_host"), types.ModuleType("unknown")
    copy = serialization.deserialize(serialization.serialize([mesh, sharding, device, of_one, SPEC, jnp, array]))
    assert copy[0] is mesh and copy[1] == sharding and copy[2] is device and copy[3:6] == [of_one, SPEC, jnp]
    assert (copy[6] == array).all()
    assert colocated_python(lambda x: xpr.device_put(x, sharding))(X).sharding == sharding
    assert serialization.deserialize(serialization.serialize(module)).__name__ == "unknown"


def test_modules_of_other_classes(monkeypatch):
    lazy = type("Lazy", (types.ModuleType,), {})("lazy")
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    assert serialization.deserialize(serialization.serialize(lazy)) is lazy


def test_devices_that_are_no_cpus():
    gpu = SimpleNamespace(platform="gpu", id=5)
    sharding = SingleDeviceSharding(gpu)
    with pytest.raises(ValueError, match="Invalid device ID 5, of .*shardings of CPU devices alone"):
        colocated_python(lambda x: xpr.device_put(x, sharding))(X)


# -- Objects


@colocated_python_class
class Total:
    """A sum of what it was given."""

    rate = 3

    def __init__(self, start):
        """With a first value."""
        host_state.made = getattr(host_state, "made", 0) + 1
        self.total = start

    def add(self, x):
        """One more."""
        self.total += np.asarray(x)
        return xpr.device_put(self.total, x.sharding)

    def __call__(self, x):
        return self.add(x)

    def now(self):
        return jnp.asarray(self.total)

    @staticmethod
    def same(x):
        return x

    def fails(self, x):
        raise KeyError("of the user")

    def __del__(self):
        host_state.gone = getattr(host_state, "gone", 0) + 1


def test_objects():
    start = np.array(5.0)
    total = Total(start)
    assert total.add(X) == 8 and total.add(X) == 11 and total(X) == 14 and total.same(X) == 3
    assert start == 5
    with pytest.raises(ValueError, match=r"No devices found. .*: now.specialize\(devices=...\)"):
        total.now()
    total.now = total.now.specialize(devices=xpr.devices(), out_specs_fn=lambda: SPEC)
    assert total.now() == 14
    with pytest.raises(KeyError, match="of the user"):
        total.fails(X)
    assert Total(0.0).add(X) == 3


def test_classes_are_like_theirs():
    assert Total.__name__ == "Total" and Total.__doc__ == "A sum of what it was given."
    assert str(inspect.signature(Total.__init__)) == "(self, start)" and isinstance(Total(1.0), Total)
    assert Total(1.0).add.__doc__ == "One more." and not hasattr(Total(1.0), "rate")
    assert not callable(colocated_python_class(type("Plain", (), {}))())
    with pytest.raises(TypeError, match="3 is no class. Functions are for colocated_python"):
        colocated_python_class(3)


def test_objects_are_made_by_their_first_call_and_go():
    host_state.made = host_state.gone = 0
    total = Total(1.0)
    del total
    assert (host_state.made, host_state.gone) == (0, 0)
    total = Total(1.0)
    total.add(X)
    total.add(jnp.ones(2))
    assert (host_state.made, host_state.gone) == (1, 0)
    add = total.add
    del total
    assert host_state.gone == 0 and add(X).shape == (2,)
    del add
    gc.collect()
    assert (host_state.made, host_state.gone) == (1, 1)


def test_objects_that_functions_call():
    total = Total(1.0)
    assert colocated_python(lambda x: total.add(x) + 1)(X) == 5 and total.add(X) == 7


def test_objects_that_can_not_be_made():
    @colocated_python_class
    class Failing:
        def __init__(self):
            raise ValueError("of the user")

        def call(self, x):
            return x

    failing = Failing()
    for _ in range(2):
        with pytest.raises(ValueError, match="of the user"):
            failing.call(X)
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Failing(3).call(X)


# -- As jax


def test_modules_of_jax_hold_state(tmp_path):
    """Functions of a script are copied whole, and name the modules that stand in for those of jax."""
    out = run(
        """
        import threading
        import jax
        import jax.numpy as jnp
        from jax.experimental import colocated_python
        from jax.experimental.colocated_python import serialization, func

        colocated_python.lock = threading.Lock()

        @colocated_python.colocated_python
        def store(x):
            colocated_python.state = jnp.sum(x)
            return x

        @colocated_python.colocated_python
        def load(x):
            assert "state" in colocated_python.__dict__
            return colocated_python.state

        store(jnp.ones(3))
        print(load(jnp.ones(3)), serialization._deserialize(serialization._serialize(lambda x: x + 1))(2))
        print(serialization.DeviceList)
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines()[:2] == ["3.0 3", "collections.abc.Sequence[typing.Any]"]


def test_copies_by_pickle():
    assert pickle.loads(pickle.dumps(doubled)) is doubled
