"""The machine: devices, buffers, programs and the cache of programs, below any tracing."""

import os
import shutil
import subprocess
import sys
import threading
import time
import weakref

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.helpers import one_operation, run_python, same
from xpr import dtypes
from xpr.backend import buffers, cache, compiler, devices, gpu_plugin, waiting
from xpr.backend.codegen import Codegen
from xpr.backend.compile_options import compile_options
from xpr.backend.mlir_text import tensor_type
from xpr.backend.runtime import _jax, xc
from xpr.config import config, settings
from xpr.core.avals import ShapedArray
from xpr.errors import ArrayTooLargeError, DeletedArrayError, DeviceNotFound

pytestmark = pytest.mark.optimized

F32_8 = ShapedArray((8,), "float32")
ALL_DTYPES = sorted(dtypes.ANY, key=lambda dtype: dtype.name)


@pytest.fixture
def device():
    return devices.local_devices(backend="cpu")[0]


@pytest.fixture(scope="module")
def two_devices():
    """The devices of a client of their own."""
    return xc.make_cpu_client(asynchronous=True, num_devices=2).local_devices()


@pytest.fixture
def setting():
    """Changes settings for one test."""
    before = {name: getattr(settings, name) for name in ("platforms", "default_device", "compilation_cache_dir")}
    yield config.update
    for name, value in before.items():
        config.update(name, value)


TWICE = one_operation("add", F32_8)


def samples(shape, dtype):
    values = np.arange(int(np.prod(shape))) % 2 == 1
    return np.asarray(values.reshape(shape)).astype(dtype)


# -- Devices


def test_the_cpu_has_devices(device):
    assert device.platform == "cpu" and device.id == 0
    assert devices.devices("cpu")[0] is device
    assert devices.local_devices(0, "cpu")[0] is device
    assert devices.device_count("cpu") == devices.local_device_count("cpu") == len(devices.devices("cpu"))
    assert (devices.process_index("cpu"), devices.process_count("cpu")) == (0, 1)


def test_a_client_is_made_once_by_many_threads():
    source = """
        import threading
        from xpr.backend import devices
        found = []
        threads = [threading.Thread(target=lambda: found.append(devices.client_of("cpu"))) for _ in range(8)]
        [t.start() for t in threads], [t.join() for t in threads]
        print(len(found), len({id(client) for client in found}))
    """
    assert run_python(source).split() == ["8", "1"]


def test_default_device_follows_the_setting(device, two_devices, setting):
    setting("platforms", "cpu")
    assert devices.default_device() is device and devices.default_backend() == "cpu"
    setting("default_device", two_devices[1])
    assert devices.default_device() is two_devices[1]
    setting("default_device", "cpu")
    assert devices.default_device() is device


def test_unknown_platform():
    with pytest.raises(DeviceNotFound, match=r"Unknown backend 'tpu': xpr runs on cpu and gpu.*XPR_PLATFORMS"):
        devices.devices("tpu")
    with pytest.raises(TypeError, match="A platform is a name, 'cpu' or 'gpu', and 3 of type builtins.int is none"):
        devices.devices(3)


def test_clients_stand_for_their_platforms(device):
    assert devices.devices(device.client) == device.client.devices()


def test_unknown_process():
    with pytest.raises(ValueError, match=r"no process 7; the processes are \[0\]"):
        devices.local_devices(7, "cpu")


def without_plugin(monkeypatch):
    monkeypatch.setattr(gpu_plugin, "find_plugin", lambda: None)
    monkeypatch.setattr(devices, "clients", {"cpu": devices.client_of("cpu")})
    monkeypatch.setattr(devices, "defaults", {})


def test_a_gpu_asked_for_without_plugin_is_an_error(monkeypatch, setting):
    without_plugin(monkeypatch)
    for name in ("gpu", "cuda"):
        with pytest.raises(DeviceNotFound) as caught:
            devices.devices(name)
    message = str(caught.value)
    assert "jax_plugins/xla_cuda12/xla_cuda_plugin.so" in message
    assert "pip install" in message and "XPR_PLATFORMS=cpu" in message
    setting("platforms", "cuda,cpu")
    with pytest.raises(DeviceNotFound):
        devices.default_device()


def test_no_gpu_and_none_asked_for_is_the_cpu(monkeypatch, setting):
    without_plugin(monkeypatch)
    setting("platforms", None)
    assert devices.default_backend() == "cpu"


def test_a_plugin_that_does_not_work_is_named(monkeypatch, setting, tmp_path):
    without_plugin(monkeypatch)
    plugin = tmp_path / "xla_cuda_plugin.so"
    monkeypatch.setattr(gpu_plugin, "find_plugin", lambda: (gpu_plugin.TOOLKITS[1], plugin))
    monkeypatch.setattr(gpu_plugin, "DEVICE_FILES", (str(tmp_path),))
    monkeypatch.setattr(gpu_plugin, "given_up", False)

    def fail(*_):
        raise RuntimeError("No visible GPU devices.")

    monkeypatch.setattr(gpu_plugin, "load_plugin", fail)
    with pytest.raises(DeviceNotFound, match=r"(?s)xla_cuda_plugin.so.*No visible GPU devices.*nvidia-smi"):
        devices.devices("gpu")
    setting("platforms", None)
    with pytest.warns(UserWarning, match="xpr uses the CPU"):
        assert devices.default_backend() == "cpu"
    assert devices.default_backend() == "cpu"  # and warns no second time


def test_the_plugin_is_found_where_wheels_put_it(monkeypatch, tmp_path):
    folder = tmp_path / "jax_plugins" / "xla_cuda12"
    folder.mkdir(parents=True)
    (folder / "xla_cuda_plugin.so").touch()
    monkeypatch.setattr(gpu_plugin, "folders_of", lambda package: [str(tmp_path / package)])
    toolkit, path = gpu_plugin.find_plugin()
    assert toolkit.suffix == "cuda12" and path == str(folder / "xla_cuda_plugin.so")


# -- Buffers


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 0, 4)], ids=str)
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_put_then_get(dtype, shape, copy, device):
    host, aval = samples(shape, dtype), ShapedArray(shape, dtype)
    found = buffers.get(buffers.put(host, aval, device, copy), aval)
    same(found, host)
    assert not found.flags.writeable


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL_DTYPES if dtype not in dtypes.BOOL], ids=str)
def test_results_of_programs_are_read(dtype, device):
    aval = ShapedArray((9,), dtype)
    program = compiler.compile(one_operation("multiply", aval), [aval], device, codegen=Codegen(quick=True))
    host = samples((9,), dtype)
    (result,) = program.run([buffers.put(host, aval, device)])
    same(buffers.get(result, aval), host)


def test_put_takes_any_strides(device):
    host = np.arange(12, dtype=np.int32).reshape(3, 4).T[::-1]
    aval = ShapedArray(host.shape, host.dtype)
    same(buffers.get(buffers.put(host, aval, device), aval), np.ascontiguousarray(host))


@pytest.mark.parametrize("size", [8, 5_000_000])
def test_put_copies(size, device):
    host, aval = np.zeros(size, np.float32), ShapedArray((size,), "float32")
    buffer = buffers.put(host, aval, device)
    host[:] = 1
    assert not buffers.get(buffer, aval).any()


def test_a_read_array_outlives_its_buffer(device):
    aval = ShapedArray((1000,), "float32")
    buffer = buffers.put(np.arange(1000, dtype=np.float32), aval, device)
    found = buffers.get(buffer, aval)
    buffers.delete(buffer)
    others = [buffers.put(np.zeros(1000, np.float32), aval, device) for _ in range(20)]
    same(found, np.arange(1000, dtype=np.float32))
    assert len(others) == 20


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.int4], ids=str)
def test_a_deleted_buffer_is_named_so(dtype, device):
    aval = ShapedArray((8,), dtype)
    buffer = buffers.put(np.ones(8, dtype), aval, device)
    assert not buffers.is_deleted(buffer)
    buffers.delete(buffer)
    assert buffers.is_deleted(buffer)
    for use in (lambda: buffers.get(buffer, aval), lambda: buffers.block([buffer])):
        with pytest.raises(DeletedArrayError, match="deleted or donated"):
            use()


def test_block_says_which_is_deleted(device):
    several = [buffers.put(np.ones(8, np.float32), F32_8, device) for _ in range(3)]
    buffers.block(several)
    buffers.delete(several[1])
    with pytest.raises(DeletedArrayError, match="Of 3 arrays, number 1 has"):
        buffers.block(several)


def test_to_device(device, two_devices):
    host = np.arange(8, dtype=np.float32)
    buffer = buffers.put(host, F32_8, two_devices[0])
    assert buffers.to_device(buffer, F32_8, two_devices[0]) is buffer
    for target in (two_devices[1], device):  # of the same client, and of another
        moved = buffers.to_device(buffer, F32_8, target)
        assert buffers.device_of(moved) is target
        same(buffers.get(moved, F32_8), host)


# -- DLPack


class Lent:
    """A buffer as an object that speaks DLPack."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __dlpack__(self, **_):
        return buffers.to_dlpack(self.buffer)

    def __dlpack_device__(self):
        return buffers.dlpack_device(self.buffer)


def test_dlpack_out_shares_memory(device):
    host = np.arange(8, dtype=np.float32)
    buffer = buffers.put(host, F32_8, device)
    seen = np.from_dlpack(Lent(buffer))
    same(seen, host)
    assert np.shares_memory(seen, buffers.get(buffer, F32_8))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 4)], ids=str)
def test_dlpack_in(shape, device):
    host = samples(shape, np.float64)
    for tensor in (host, host.__dlpack__()):
        buffer, aval = buffers.from_dlpack(tensor, device)
        assert aval is ShapedArray(shape, "float64")
        same(buffers.get(buffer, aval), host)


def test_dlpack_in_feeds_a_program(device):
    buffer, aval = buffers.from_dlpack(np.ones(8, np.float32), device)
    (result,) = compiler.compile(TWICE, [aval], device).run([buffer])
    same(buffers.get(result, aval), np.full(8, 2, np.float32))


def test_dlpack_can_copy_and_move(device, two_devices):
    host = np.zeros(64, np.float32)
    buffer, aval = buffers.from_dlpack(host, device, copy=True)
    moved, _ = buffers.from_dlpack(Lent(buffer), two_devices[1])
    host[:] = 1
    assert not buffers.get(buffer, aval).any() and not buffers.get(moved, aval).any()
    assert buffers.device_of(moved) is two_devices[1]


def test_dlpack_in_of_something_else(device):
    with pytest.raises(TypeError, match="__dlpack__ and __dlpack_device__, and got list"):
        buffers.from_dlpack([1, 2], device)


# -- Programs


def test_compile_and_run(device):
    program = compiler.compile(TWICE, [F32_8], device, name="twice")
    (result,) = program.run([buffers.put(np.arange(8, dtype=np.float32), F32_8, device)])
    same(buffers.get(result, F32_8), 2 * np.arange(8, dtype=np.float32))
    assert result.aval is F32_8 and repr(program) == "<Executable twice on cpu:0>"


def test_a_program_runs_on_the_device_it_was_compiled_for(two_devices):
    for target in two_devices:
        program = compiler.compile(TWICE, [F32_8], target, codegen=Codegen(quick=True))
        (result,) = program.run([buffers.put(np.ones(8, np.float32), F32_8, target)])
        assert buffers.device_of(result) is target


def test_analyses(device):
    program = compiler.compile(TWICE, [F32_8], device)
    assert "ENTRY" in program.as_text()
    assert program.cost_analysis()["flops"] == 8
    sizes = program.memory_analysis()
    assert (sizes.argument_size_in_bytes, sizes.output_size_in_bytes, sizes.alias_size_in_bytes) == (32, 32, 0)
    assert sizes.temp_size_in_bytes >= 0 and sizes.generated_code_size_in_bytes >= 0
    assert sizes.peak_memory_in_bytes >= 32


def donating(text):
    """The same program with its argument donated."""
    return text.replace("@main(%arg0: tensor<8xf32>)", "@main(%arg0: tensor<8xf32> {jax.buffer_donor = true})")


def test_donation(device):
    program = compiler.compile(donating(TWICE), [F32_8], device, name="twice")
    assert program.memory_analysis().alias_size_in_bytes == 32
    buffer = buffers.put(np.ones(8, np.float32), F32_8, device)
    (result,) = program.run([buffer])
    assert buffers.is_deleted(buffer)
    same(buffers.get(result, F32_8), np.full(8, 2, np.float32))
    with pytest.raises(DeletedArrayError, match="donated to a jitted call"):
        program.run([buffer])


def test_donation_spares_what_is_being_read(device):
    program = compiler.compile(donating(TWICE), [F32_8], device)
    buffer = buffers.put(np.ones(8, np.float32), F32_8, device)
    seen = buffers.get(buffer, F32_8)
    program.run([buffer])
    same(seen, np.ones(8, np.float32))


def test_errors_of_a_run_name_the_program(device):
    huge = ShapedArray((1 << 41,), "float32")
    text = (
        f"module {{ func.func public @main(%arg0: tensor<f32>) -> ({tensor_type(huge)}) {{\n"
        f"%0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> {tensor_type(huge)}\n"
        f"return %0 : {tensor_type(huge)} }} }}"
    )
    program = compiler.compile(text, [huge], device, name="huge")
    scalar = ShapedArray((), "float32")
    with pytest.raises(RuntimeError, match="Out of memory") as caught:
        buffers.block(program.run([buffers.put(np.ones((), np.float32), scalar, device)]))
    assert any("huge" in note for note in getattr(caught.value, "__notes__", ["huge"]))


def test_errors_in_the_background_come_up_where_results_are_read(device):
    class Failed:
        shape, dtype, weak_type, sharding = (8,), np.dtype("float32"), False, buffers.sharding_of(device)

    recorded = _jax.tracebacks_enabled()
    _jax.set_tracebacks_enabled(True)  # jaxlib makes such an array only where it records stacks
    failed = _jax._make_error_array(device.client, Failed, "the background failed")
    _jax.set_tracebacks_enabled(recorded)
    (dependent,) = compiler.compile(TWICE, [F32_8], device).run([failed])
    for use in (
        lambda: buffers.get(failed, F32_8),
        lambda: buffers.block([failed]),
        lambda: buffers.get(dependent, F32_8),
    ):
        with pytest.raises(RuntimeError, match="the background failed"):
            use()


def test_long_programs_run_in_the_background(device):
    aval = ShapedArray((1000, 1000), "float32")
    t = tensor_type(aval)
    text = (
        f"module {{ func.func public @main(%arg0: {t}) -> ({t}) {{\n"
        f"%0 = stablehlo.dot %arg0, %arg0 : ({t}, {t}) -> {t}\nreturn %0 : {t} }} }}"
    )
    program = compiler.compile(text, [aval], device)
    buffer = buffers.put(np.ones(aval.shape, np.float32), aval, device)
    (result,) = program.run(program.run([buffer]))
    buffers.block([result])
    assert result.is_ready() and buffers.get(result, aval)[0, 0] == 1e9


def test_text_that_does_not_parse(device):
    with pytest.raises(RuntimeError, match=r"stablehlo\.nothing"):
        compiler.compile(TWICE.replace("stablehlo.add", "stablehlo.nothing"), [F32_8], device)


# -- The cache on disk


@pytest.fixture
def folder(tmp_path, setting):
    path = tmp_path / "programs"
    setting("compilation_cache_dir", str(path))
    return path


@pytest.fixture
def compiled(monkeypatch):
    """The texts that were really compiled."""
    texts, compile_text = [], compiler.compile_text
    monkeypatch.setattr(compiler, "compile_text", lambda text, *rest: texts.append(text) or compile_text(text, *rest))
    return texts


def twice(device, text=TWICE, **options):
    compiler.forget_recent()  # the program in memory, so that the one on disk is looked for
    program = compiler.compile(text, [F32_8], device, **options)
    (result,) = program.run([buffers.put(np.ones(8, np.float32), F32_8, device)])
    same(buffers.get(result, F32_8), np.full(8, 2, np.float32))


def test_a_function_that_is_defined_anew_is_not_compiled_anew(compiled):
    xpr.clear_caches()
    for _ in range(3):
        assert xpr.jit(lambda x: x * 3 + 1)(np.float32(2)) == 7
    assert len(compiled) == 1


def test_programs_that_were_read_can_be_saved(folder, tmp_path):
    """XLA's bytes of a program that it has read have no machine code: those that were read are saved again."""
    path, x = tmp_path / "saved", jnp.arange(4.0)

    def program():
        xpr.clear_caches()
        return xpr.jit(lambda x: jnp.sin(x) * 5 + x[::-1]).lower(x).compile()

    for _ in range(2):  # compiled, then from the folder
        made = program()
        made.save(path)
        for _ in range(2):  # what was loaded is saved and loaded again
            again = xpr.load_compiled(path)
            same(np.asarray(again(x)), np.asarray(made(x)))
            again.save(path)
    made = program()
    shutil.rmtree(folder)
    with pytest.raises(NotImplementedError, match="it was read from the cache of compiled programs, which has it no"):
        made.save(path)
    same(np.asarray(xpr.load_compiled(path)(x)), np.asarray(made(x)))


def test_cache_hits_and_misses(folder, compiled, device):
    twice(device)
    twice(device)
    assert len(compiled) == 1 and len(list(folder.iterdir())) == 1
    twice(device, options={"xla_backend_optimization_level": 2})
    twice(device, donating(TWICE))
    assert len(compiled) == 3 and len(list(folder.iterdir())) == 3
    twice(device, donating(TWICE))
    assert len(compiled) == 3
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"?" * 99, lambda b: b[:-9] + bytes(9)])
def test_a_damaged_file_is_replaced(damage, folder, compiled, device):
    twice(device)
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    twice(device)
    twice(device)
    assert len(compiled) == 2


def test_a_file_that_xla_refuses_is_replaced(folder, compiled, device):
    import hashlib
    import zlib

    twice(device)
    (path,) = folder.iterdir()
    packed = zlib.compress(b"not a program")
    path.write_bytes(cache._FORMAT + hashlib.sha256(packed).digest() + packed)
    twice(device)
    assert len(compiled) == 2


def test_the_key_knows_the_device(two_devices):
    options = [compile_options(target, None) for target in two_devices]
    keys = [cache.key_of(TWICE, target, option) for target, option in zip(two_devices, options, strict=True)]
    assert keys[0] != keys[1]


def test_a_folder_others_can_write_to_is_not_used(folder, compiled, device):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="chmod 700"):
        twice(device)
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path, setting, device):
    (tmp_path / "file").touch()
    setting("compilation_cache_dir", str(tmp_path / "file" / "folder"))
    with pytest.warns(UserWarning, match="cannot be used"):
        twice(device)


def test_the_files_least_recently_used_are_removed(folder, compiled, device):
    texts = [TWICE, donating(TWICE), TWICE.replace("main", "main ")]
    for age, text in enumerate(texts):
        twice(device, text)
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (0, time.time() - 10_000 * (3 - age)))
    twice(device, texts[0])  # which is then the latest
    unfinished = folder / ".writing-1-2"
    unfinished.write_bytes(b"?")
    os.utime(unfinished, (0, 0))
    sizes = [path.stat().st_size for path in folder.iterdir()]
    cache.remove_oldest(folder, sum(sizes))
    assert len(list(folder.iterdir())) == 4
    cache.remove_oldest(folder, sum(sizes) - 1)
    assert len(list(folder.iterdir())) == 3 and not unfinished.exists()
    cache.remove_oldest(folder, max(sizes))
    twice(device, texts[0])
    assert len(compiled) == 3 and len(list(folder.iterdir())) == 1


BY_DEFAULT = """
    import sys, warnings
    warnings.simplefilter("error")
    import xpr
    from xpr.backend import compiler
    compile_text, compiled = compiler.compile_text, []
    compiler.compile_text = lambda text, *rest: compiled.append(text) or compile_text(text, *rest)
    assert xpr.jit(lambda x: x * 3 + 1)(2.0) == 7
    print(len(compiled))
"""


def test_programs_are_kept_by_default(tmp_path):
    """In the user's folder; quietly not where there can't be one, and not where the user says so."""

    def run(**environment):
        kept = {"XDG_CACHE_HOME": str(tmp_path), **environment}
        return run_python(BY_DEFAULT, without=["XPR_COMPILATION_CACHE_DIR"], **kept).strip()

    assert [run(), run(), run(XPR_COMPILATION_CACHE_DIR="")] == ["1", "0", "1"]
    assert (tmp_path / "xpr" / "programs").stat().st_mode & 0o777 == 0o700
    assert run(XDG_CACHE_HOME="/dev/null") == "1"


# -- Other threads, and jax in the same process

EVERYTHING = """
    import sys
    import ml_dtypes, numpy as np
    import xpr
    from xpr.backend import buffers, compiler, devices
    from xpr.core.avals import ShapedArray

    def everything():
        double = xpr.jit(lambda x: x + x)
        results = [double(x) for x in (np.ones(3), 2.0, np.ones(3, np.float32)) for _ in range(3)]
        assert all(x.is_ready() and x.unsafe_buffer_pointer() for x in results)
        device = devices.default_device()
        for dtype in (np.float32, ml_dtypes.bfloat16, ml_dtypes.int4, np.bool_):
            aval = ShapedArray((8,), dtype)
            assert (buffers.get(buffers.put(np.ones(8, dtype), aval, device), aval) == 1).all()
        aval = ShapedArray((8,), "float32")
        t = "tensor<8xf32>"
        body = f"%0 = stablehlo.add %arg0, %arg0 : {t} return %0 : {t}"
        text = f"func.func public @main(%arg0: {t}) -> ({t}) {{ {body} }}"
        program = compiler.compile(text, [aval], device)
        buffer, aval = buffers.from_dlpack(np.ones(8, np.float32), device)
        assert (buffers.get(program.run([buffer])[0], aval) == 2).all()
        program.as_text(), program.cost_analysis(), program.memory_analysis()
        buffers.to_dlpack(buffers.put(np.ones(8, np.float32), aval, device))
"""


def test_nothing_imports_jax(tmp_path):
    tail = """
    everything()
    everything()
    print([name for name in sys.modules if name == "jax" or name.startswith("jax.")])
    """
    assert run_python(EVERYTHING + tail, XPR_COMPILATION_CACHE_DIR=str(tmp_path / "programs")).strip() == "[]"


@pytest.mark.parametrize("jax_first", [True, False])
def test_lives_with_jax(jax_first):
    pytest.importorskip("jax")
    ours, theirs = "    everything()\n", "    the_others()\n"
    other = """
    def the_others():
        import jax, jax.numpy as jnp
        assert float(jax.jit(lambda x: x * 2 + 1)(1.5)) == 4
        assert jnp.ones(3, jnp.bfloat16).addressable_shards[0].data.dtype == jnp.bfloat16
        assert float(jax.grad(jnp.sin)(0.0)) == 1
        with jax.enable_x64(True):
            assert jnp.arange(3.0).dtype == np.float64
        assert jnp.arange(3.0).dtype == np.float32
        assert type(jax.dlpack.from_dlpack(np.ones(16, np.float32)).aval).__module__.startswith("jax")
    """
    order = [theirs, ours] if jax_first else [ours, theirs]
    assert run_python(EVERYTHING + other + "\n" + "".join([*order, ours, theirs, "    print('done')\n"])) == "done\n"


def test_threads_share_a_program(device):
    program = compiler.compile(TWICE, [F32_8], device)
    found = {}

    def work(number):
        for _ in range(50):
            buffer = buffers.put(np.full(8, number, np.float32), F32_8, device)
            found[number] = buffers.get(program.run([buffer])[0], F32_8)[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: 2 * number for number in range(4)}


TOO_LARGE = {
    "zeros": lambda n: jnp.zeros((n,)),
    "two axes": lambda n: (
        jnp.zeros((n >> 31, 1 << 31)) if n > 1 << 60 else jnp.ones((n >> 20, 1)) + jnp.ones((1 << 20,))
    ),
    "arange": lambda n: jnp.arange(n),
    "tile": lambda n: jnp.tile(jnp.ones(2), n // 2),
    "broadcast_to": lambda n: jnp.broadcast_to(jnp.ones(3), (n, 3)) + 1,
    "random numbers": lambda n: xpr.random.normal(xpr.random.key(0), (n,)),
    "jit": lambda n: xpr.jit(lambda x: jnp.broadcast_to(x, (n,)))(1.0),
    "compile": lambda n: xpr.jit(lambda x: jnp.broadcast_to(x, (n,))).lower(1.0).compile()(1.0),
    "vmap": lambda n: xpr.vmap(lambda: jnp.ones(()), axis_size=n)(),
    "scan": lambda n: xpr.lax.scan(lambda c, _: (c, jnp.full(n >> 20, c)), 1.0, None, length=1 << 20)[1],
    "temporaries": lambda n: xpr.jit(lambda x: jnp.sort(jnp.sin(jnp.arange(n) * x))[::2])(1.0),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_arrays_too_large_for_the_machine_are_exceptions(name):
    """XLA ended the process, or left a result that did when it was read."""
    with pytest.raises(ArrayTooLargeError, match=r"An array of type .* has .* bytes; no array can have more than"):
        np.asarray(TOO_LARGE[name](1 << 62))
    with pytest.raises(_jax.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED: Out of memory"):
        np.asarray(TOO_LARGE[name](1 << 40))


def test_a_program_that_needs_more_than_the_machine_has_can_be_looked_at():
    compiled = xpr.jit(lambda x: jnp.broadcast_to(x, (1 << 40, 2))).lower(1.0).compile()
    assert compiled.memory_analysis().output_size_in_bytes == 1 << 43 and "broadcast" in compiled.as_text()
    needs = r"needs 8,192\.0 GiB \(arguments .*, results 8,192\.0 GiB, .*the machine has .* f32\[1099511627776,2\]"
    with pytest.raises(RuntimeError, match=needs):
        compiled(1.0)


FORKS = """
import multiprocessing, os
import numpy as np
import xpr, xpr.numpy as jnp

total = xpr.jit(lambda x: (x @ x).sum())
x = np.ones((600, 600), np.float32)

def work(_):
    return float(total(x))

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:  # nothing was computed here
        assert pool.map(work, [0]) == [600.0**3]
    y, compiled, sine = xpr.device_put(x), total.lower(x).compile(), jnp.sin(x).block_until_ready()
    total(y)
    ways = [lambda: total(y), lambda: jnp.sin(y), lambda: compiled(y), lambda: xpr.grad(total)(y)]
    ways.append(lambda: jnp.ones(3) + 1)
    if os.fork() == 0:
        for way in ways:
            try:
                way()
            except xpr.errors.ForkedProcessError as error:
                assert 'get_context("spawn") or "forkserver"' in str(error) and str(os.getpid()) in str(error)
            else:
                os._exit(1)
        os._exit(float(np.asarray(sine)[0, 0]) < 0.8)
    assert os.wait()[1] == 0 and float(total(y)) == 600.0**3
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork")
def test_computing_in_a_fork_is_an_error_where_the_parent_computed(tmp_path):
    """It waited forever for threads that a fork has not."""
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    done = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_any_error_of_a_watched_program_comes_up():
    class Program:
        def execute_sharded(self, buffers, with_tokens):
            raise MemoryError("no memory for the results")

    with pytest.raises(MemoryError, match="no memory for the results"):
        waiting.WatchedProgram(Program(), is_large=True).execute_sharded([])


def test_results_of_long_programs_are_freed_with_their_arrays():
    x = xpr.jit(lambda x: xpr.lax.fori_loop(0, 100_000_000, lambda i, x: x * 0.5, x))(jnp.ones(3)).block_until_ready()
    buffer = weakref.ref(x._buffer)
    del x
    end = time.monotonic() + 10
    while buffer() is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert buffer() is None


def test_interrupts_come_through_while_a_loop_runs():
    """Also where the loop never ends; other programs can run afterwards."""
    script = """
import os, signal, threading, xpr
from xpr import lax

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background jobs ignore interrupts
loop = xpr.jit(lambda x: lax.while_loop(lambda x: x < 1, lax.sin, x)).lower(0.5).compile()
threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    loop(0.5)
except KeyboardInterrupt as interrupt:
    print(*interrupt.__notes__)
print(lax.fori_loop(0, 3, lambda i, x: x * 2, 1.0), flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "Interrupted while a compiled program ran" in done.stdout and done.stdout.endswith("\n8.0\n"), done


class TestEndOfTheProcess:
    """Handlers of `atexit` run in the reverse order, so one registered before the import sees what was waited for."""

    def test_it_waits_for_programs_in_the_background(self):
        """XLA's threads went on while libc freed what they used, so that one process in thirty crashed."""
        out = run_python("""
            import atexit
            kept = []
            atexit.register(lambda: print([y.is_ready() for y in kept], f(x).is_ready()))
            import xpr, xpr.numpy as jnp
            f = xpr.jit(lambda x: xpr.lax.fori_loop(0, 30, lambda i, y: y @ x * 1e-3, x))
            x = jnp.ones((500, 500))
            for _ in range(3):
                f(x)  # nobody has the result
            kept.append(f(x))
        """)
        assert out == "[True] True\n"

    def test_it_waits_for_programs_on_several_devices(self):
        out = run_python(
            """
            import atexit
            kept = []
            atexit.register(lambda: print([y.is_ready() for y in kept]))
            import xpr, xpr.numpy as jnp
            from xpr.sharding import Mesh, NamedSharding, PartitionSpec as P
            x = xpr.device_put(jnp.ones((500, 500)), NamedSharding(Mesh(xpr.devices(), "i"), P("i")))
            kept.append(xpr.jit(lambda x: xpr.lax.fori_loop(0, 30, lambda i, y: y @ x * 1e-3, x))(x))
            """,
            XPR_NUM_CPU_DEVICES="2",
        )
        assert out == "[True]\n"

    def test_it_waits_for_a_program_that_was_interrupted(self):
        script = """
            import atexit, os, signal, threading
            signal.signal(signal.SIGINT, signal.default_int_handler)
            atexit.register(lambda: print([worker.is_alive() for worker in waiting.interrupted], len(ended)))
            import xpr
            from xpr import lax
            from xpr.backend import waiting
            ended = []
            steps = lax.fori_loop(0, 3, lambda i, x: x * 2, 1.0)
            loop = xpr.jit(lambda x: lax.fori_loop(0, 400_000_000, lambda i, x: lax.sin(x), x)).lower(0.5).compile()
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                loop(0.5)
            except KeyboardInterrupt:
                ended.append(1)
            """
        assert run_python(script) == "[False] 1\n"

    def test_it_waits_for_programs_whose_calls_are_known(self, monkeypatch):
        product, x = xpr.jit(lambda x: x @ x), jnp.ones((250, 250))
        product(x)
        waiting.kept.clear()
        product(x)
        assert len(waiting.kept) == 1

    def test_it_waits_by_small_results(self):
        """They take less time than tokens, and don't count as arrays that are alive."""
        x = jnp.ones(30_000, jnp.float16)
        few = jnp.ones(20_000, jnp.int8)
        line = xpr.jit(lambda x: (x * 2 + 1) * x[0])
        of_few = xpr.jit(lambda x: (x[:3000] * 2 + 1) * x[0])
        for run, shape, those in (
            (lambda: line(x), (30_000,), waiting.kept), (lambda: xpr.lax.add(x, x), (30_000,), waiting.kept),
            (lambda: of_few(x), (3000,), waiting.latest), (lambda: xpr.lax.add(few, few), (20_000,), waiting.latest),
        ):  # fmt: skip
            run()
            waiting.kept.clear(), waiting.latest.clear()
            run()
            kept = those.pop()
            assert kept.aval.shape == shape
            kept.block_until_ready()
            those.append(kept)
            xpr.live_arrays()
            assert not waiting.kept and not waiting.latest

    def test_of_short_programs_it_keeps_the_latest_results(self):
        line, x = xpr.jit(lambda x: x * 2 + 1), jnp.ones(3000)
        results = [line(x) for _ in range(50)]
        assert [id(each) for each in waiting.latest] == [id(y.buffer) for y in results[-32:]]

    def test_it_waits_for_programs_that_start_after_the_handler(self):
        out = run_python("""
            import atexit
            atexit.register(lambda: print(len(waiting.kept), f(x).shape, len(waiting.kept)))
            import xpr, xpr.numpy as jnp
            from xpr.backend import waiting
            f = xpr.jit(lambda x: (x @ x)[0])
            x = jnp.ones((500, 500))
            for _ in range(3):
                f(x), xpr.lax.dot(x, x)
        """)
        assert out == "0 (500,) 0\n"

    def test_it_waits_for_short_programs_that_start_after_the_handler(self):
        out = run_python("""
            import atexit
            atexit.register(lambda: print(len(waiting.latest), f(x).shape, len(waiting.latest), len(waiting.kept)))
            import xpr, xpr.numpy as jnp
            from xpr.backend import waiting
            f = xpr.jit(lambda x: x * 2 + 1)
            x = jnp.ones(3000)
            for _ in range(3):
                f(x)
        """)
        assert out == "0 (3000,) 0 0\n"

    def test_what_is_kept_may_be_deleted(self, monkeypatch):
        monkeypatch.setattr(waiting, "most_in_background", 0)
        line, x = xpr.jit(lambda x: x * 2 + 1), jnp.ones(3000)
        results = [line(x) for _ in range(3)]
        waiting.kept.extend([y.buffer for y in results])
        for y in results:
            y.delete()
        assert float(line(x)[0]) == 3

    def test_more_programs_than_are_kept(self, monkeypatch):
        monkeypatch.setattr(waiting, "most_in_background", 2)
        most = max(len(waiting.kept), 3)  # those of other tests
        x = jnp.ones((200, 200))
        for _ in range(5):
            y = xpr.jit(lambda x: x @ x)(x)
        assert float(y[0, 0]) == 200 and len(waiting.kept) <= most


class TestShortestPath:
    """Known calls of programs that were done soon go to jaxlib's function."""

    def run_of(self, fun, *args):
        """How a call of a jitted function is run from the second one on, and whether its token is kept."""
        jitted = xpr.jit(fun)
        jitted(*args)
        (entry,) = jitted.known.direct.values()
        return entry[0], entry[2]

    def test_of_short_loops(self, monkeypatch):
        monkeypatch.setattr(waiting, "SOON", 1e6)
        run, keeps = self.run_of(lambda x: xpr.lax.while_loop(lambda y: y < 100, lambda y: y * 2, x), jnp.ones(()))
        assert type(run.__self__).__module__.startswith("jaxlib") and not keeps

    def test_it_is_chosen_when_a_program_was_done_soon(self, monkeypatch):
        monkeypatch.setattr(waiting, "SOON", -1)
        doubled = xpr.jit(lambda x: xpr.lax.while_loop(lambda y: y < 100, lambda y: y * 2, x))
        doubled(jnp.ones(()))
        assert not doubled.known.direct
        monkeypatch.setattr(waiting, "SOON", 1e6)
        doubled(jnp.ones(()))
        assert doubled.known.direct and float(doubled(jnp.ones(()))) == 128

    def test_of_programs_in_the_background(self):
        run, keeps = self.run_of(lambda x: x @ x, jnp.ones((250, 250)))
        assert type(run.__self__).__module__.startswith("jaxlib") and keeps is waiting.Waiting.AT_EXIT

    def test_of_programs_in_the_background_with_small_results(self):
        run, keeps = self.run_of(lambda x: x * 2 + 1, jnp.ones(16_000))
        assert type(run.__self__).__module__.startswith("jaxlib") and keeps is waiting.Waiting.AT_EXIT_BY_RESULT

    def test_of_short_programs_in_the_background(self):
        run, keeps = self.run_of(lambda x: x * 2 + 1, jnp.ones(3000))
        assert type(run.__self__).__module__.startswith("jaxlib") and keeps is waiting.Waiting.AT_EXIT_IF_LATEST

    def test_of_short_programs_where_there_are_several_devices(self):
        """Each of them runs as many at a time as results are kept in all."""
        out = run_python("""
            import xpr, xpr.numpy as jnp
            xpr.config.update("num_cpu_devices", 2)
            f = xpr.jit(lambda x: x * 2 + 1)
            f(jnp.ones(3000))
            (entry,) = f.known.direct.values()
            print(entry.waiting.name)
        """)
        assert out == "AT_EXIT_BY_RESULT\n"

    def test_of_large_programs(self):
        x = jnp.ones((600, 600))
        run, keeps = self.run_of(lambda x: x @ x, x)
        assert type(run.__self__) is waiting.WatchedProgram and not keeps


def test_exact_operations_of_few_elements_need_no_program(monkeypatch):
    texts, compile_text = [], compiler.compile_text
    monkeypatch.setattr(compiler, "compile_text", lambda text, *rest: texts.append(text) or compile_text(text, *rest))
    xpr.clear_caches()
    x = jnp.array([0.3, 0.7, 1.9])
    for f in (lambda x: xpr.lax.div(x, x + 1), xpr.lax.sqrt, xpr.lax.abs, lambda x: xpr.lax.integer_pow(x, 7)):
        f(x)
    assert not texts
    xpr.lax.div(x, np.float32(0.3)), xpr.lax.sqrt(x + 1j)
    assert len(texts) == 2, "XLA multiplies by the inverse of a divisor that is broadcast"


def named(name, factor):
    def f(x):
        return x * factor + 1

    f.__name__ = name
    return xpr.jit(f)


@pytest.mark.parametrize("name", ["main", "é", "1st", "x²", ".x", "", "a b", 'a"b', "<lambda>", "x" * 500])
def test_functions_of_any_name_are_compiled_and_called_from_programs(name):
    f = named(name, 2)
    assert f(jnp.ones(())) == 3
    assert xpr.jit(lambda x: f(x) + f(x[None])[0])(jnp.ones(())) == 6
    exported = xpr.export.export(xpr.jit(lambda x: f(x) * 3))(jnp.ones(()))
    assert exported.call(jnp.ones(())) == 9


def test_functions_whose_names_end_in_numbers_are_told_from_those_that_are_numbered():
    functions = [named("step", 2), named("step", 3), named("step_1", 5), named("step_1", 7)]
    for order in (functions, functions[::-1], functions[2:] + functions[:2]):
        assert xpr.jit(lambda x, order=order: sum(f(x) for f in order))(1.0) == 21
