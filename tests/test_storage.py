"""xpr.storage: trees of arrays on disk. (xpr.checkpoint, rematerialization, is tested in test_remat.py.)"""

import collections
import contextlib
import copy
import dataclasses
import enum
import fcntl
import importlib
import inspect
import json
import math
import os
import random as random_numbers
import re
import shutil
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import xpr
import xpr.numpy as jnp
from xpr import dtypes, random, storage, tree, tree_util
from xpr.errors import CheckpointError, DeletedArrayError, NarrowingWarning, TreeMismatch
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P
from xpr.storage import files, manifest, numbered, regions, restoring

ROOT = Path(__file__).parent.parent
Moments = collections.namedtuple("Moments", ["mu", "nu"])


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = dataclasses.field(default="dense", metadata={"static": True})


class Pair:
    """A node without names."""

    def __init__(self, left, right):
        self.left, self.right = left, right


tree_util.register_pytree_node(Pair, lambda p: ((p.left, p.right), None), lambda _, both: Pair(*both))


class Color(enum.Enum):
    RED = 1


def same(one, other):
    """Whether two trees have the same structure, and leaves of the same kinds, types and bits."""
    ours, theirs = tree.flatten(one), tree.flatten(other)
    assert ours[1] == theirs[1]
    for a, b in zip(ours[0], theirs[0]):
        assert type(a) is type(b), (a, b)
        if xpr.dtypes.issubdtype(getattr(a, "dtype", None), xpr.dtypes.prng_key):
            assert a.dtype == b.dtype
            a, b = random.key_data(a), random.key_data(b)
        if isinstance(a, (xpr.Array, np.ndarray, np.generic)):
            assert a.shape == b.shape and a.dtype.newbyteorder("=") == b.dtype, (a, b)
            assert getattr(getattr(a, "aval", None), "weak_type", 0) == getattr(
                getattr(b, "aval", None), "weak_type", 0
            )
            bits = [np.asarray(x, a.dtype.newbyteorder("="), order="C").tobytes() for x in (a, b)]
            assert bits[0] == bits[1]
        else:
            assert a == b or (a != a and b != b), (a, b)
    return True


def content_of(folder):
    return json.loads((folder / "checkpoint.json").read_text())["content"]


# -- There and back


def state():
    return {
        "layers": [Layer(jnp.ones((2, 3)), jnp.zeros(3)), Layer(jnp.ones((3, 1)), None, "last")],
        "optimizer": Moments(jnp.full(3, 2.0), (np.arange(3.0), np.float64(0.1))),
        "key": random.key(3),
        "keys": random.split(random.key(4), (2, 3)),
        "count": 7, "rate": 0.1, "flag": True, "z": 1 - 2j, "name": "a name", "nothing": None, "empty": {},
        "pair": Pair(1, 2),
        "weak": jnp.asarray(2.0), "large": 10**40, "nan": math.nan, "inf": -math.inf,
    }  # fmt: skip


def test_like(tmp_path):
    path = storage.save(tmp_path / "new" / "folders", state())
    assert path == tmp_path / "new" / "folders"
    restored = storage.restore(path, like=state())
    assert type(restored["layers"][1]) is Layer and restored["layers"][1].name == "last"
    assert (restored["pair"].left, restored["pair"].right) == (1, 2)
    same(restored, state())
    same(storage.restore(str(path), state()), state())


def test_by_itself(tmp_path):
    """Classes come back as dicts of their fields, or lists."""
    restored = storage.restore(storage.save(tmp_path, state()))
    layers = [{"weight": jnp.ones((2, 3)), "bias": jnp.zeros(3)}, {"weight": jnp.ones((3, 1)), "bias": None}]
    moments = {"mu": jnp.full(3, 2.0), "nu": (np.arange(3.0), np.float64(0.1))}
    same(restored, {**state(), "layers": layers, "optimizer": moments, "pair": [1, 2]})
    assert list(restored) == list(state())


@pytest.mark.parametrize("leaf", [3, None, 1.5, np.arange(3), jnp.ones((2, 2)), random.key(1)], ids=str)
def test_a_leaf_alone(leaf, tmp_path):
    path = storage.save(tmp_path, leaf)
    same(storage.restore(path), leaf)
    same(storage.restore(path, like=leaf) if leaf is not None else None, leaf)


@pytest.mark.parametrize("dtype", sorted(dtypes.ANY, key=str), ids=str)
def test_dtypes(dtype, tmp_path):
    """Every one of them, as NumPy's array and scalar and as xpr's, with the same bits."""
    bits = np.random.default_rng(0).integers(0, 256, (3, 5, dtype.itemsize), np.uint8)
    if dtype in (np.bool_, dtypes.int4, dtypes.uint4, dtypes.int2, dtypes.uint2):
        bits = bits % 2
    values = bits.view(dtype)[..., 0]
    with xpr.enable_x64(True):
        one = {
            "numpy": values,
            "scalar": values[0, 0],
            "array": jnp.asarray(values),
            "none": values[:0],
            "0d": values[0, :1].reshape(()),
        }
        storage.save(tmp_path, one)
        same(storage.restore(tmp_path), one)
        same(storage.restore(tmp_path, like=one), one)


def test_other_layouts_of_numpy(tmp_path):
    values = {
        "big endian": np.arange(6, dtype=">i4"),
        "fortran": np.asfortranarray(np.ones((3, 4))),
        "strided": np.arange(10)[::-2],
    }
    same(values, storage.restore(storage.save(tmp_path, values)))
    same(values, storage.restore(tmp_path, like=values))


def test_containers(tmp_path):
    one = {
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]), "deque": collections.deque([1, 2], 5),
        "default": collections.defaultdict(list, {"x": 1}),
        3: 0, -1.5: 1, True: 2, (1, ("a", None)): 3, None: 4, Color.RED: 5, "'": 6, math.inf: 7,
    }  # fmt: skip
    storage.save(tmp_path, one)
    same(storage.restore(tmp_path, like=one), one)
    wanted = {**one, "default": {"x": 1}, repr(Color.RED): 5}
    del wanted[Color.RED]
    same(storage.restore(tmp_path), wanted)
    other = {**one, "ordered": {"a": 0, "b": 0}, "default": {"x": 0}}
    assert storage.restore(tmp_path, like=other)["ordered"] == {"a": 2, "b": 1}


ARRAYS = st.builds(
    lambda dtype, shape, kind: kind(np.arange(math.prod(shape)).reshape(shape).astype(dtype)),
    st.sampled_from(["float32", "int32", "uint8", "bool", dtypes.bf16, dtypes.int4, "complex64"]),
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.sampled_from([jnp.asarray, np.asarray]),
)
NUMBERS = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.complex_numbers(allow_nan=False), st.text(max_size=3), st.none()
)
KEYS = st.one_of(st.text(max_size=3), st.integers(), st.tuples(st.text(max_size=2), st.booleans()))
TREES = st.recursive(
    st.one_of(ARRAYS, NUMBERS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.tuples(inner, inner).map(lambda both: Moments(*both)),
        st.tuples(inner, inner).map(lambda both: Layer(*both)),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=TREES)
def test_any_tree(one, tmp_path):
    storage.save(tmp_path, one)
    if one is not None:
        same(storage.restore(tmp_path, like=one), one)
    plain = storage.restore(tmp_path)
    same(tree.leaves(plain), tree.leaves(storage.restore(storage.save(tmp_path, plain))))


def test_kinds_of_like(tmp_path):
    """Leaves are of the kind of those in `like`; a number and an array of shape () stand for each other."""
    storage.save(tmp_path, {"x": jnp.arange(3.0), "n": jnp.int32(3), "k": 4, "f": np.float32(0.5)})
    like = {"x": np.zeros(3, np.float32), "n": 0, "k": xpr.ShapeDtypeStruct((), jnp.int32), "f": jnp.float32(0)}
    wanted = {"x": np.arange(3, dtype=np.float32), "n": 3, "k": jnp.int32(4), "f": jnp.float32(0.5)}
    same(storage.restore(tmp_path, like=like), wanted)
    types = xpr.eval_shape(lambda: {"x": jnp.zeros(3), "n": jnp.int32(0), "k": 1, "f": 1.0})
    same(storage.restore(tmp_path, like=types), {**wanted, "x": jnp.arange(3.0), "n": jnp.int32(3)})


def test_numbers_are_on_no_device(tmp_path):
    storage.save(tmp_path, {"n": jnp.int32(3), "k": 4, "x": jnp.ones(2)})
    everywhere = NamedSharding(xpr.make_mesh((1,), ("x",)), P())
    restored = storage.restore(tmp_path, {"n": 0, "k": jnp.int32(0), "x": np.ones(2, np.float32)}, everywhere)
    assert restored["n"] == 3 and type(restored["n"]) is int
    assert restored["k"].sharding == restored["x"].sharding == everywhere and restored["k"] == 4


def test_traced_like(tmp_path):
    """`like` may be what a function is traced with: only its types are read."""
    storage.save(tmp_path, jnp.arange(3.0))
    assert xpr.jit(lambda x: x + storage.restore(tmp_path, like=x))(jnp.ones(3)).tolist() == [1, 2, 3]


def test_64_bits(tmp_path):
    with xpr.enable_x64(True):
        storage.save(tmp_path, {"x": jnp.arange(3.0), "i": jnp.asarray([2**40]), "n": np.arange(2.0)})
    with pytest.warns(NarrowingWarning):
        restored = storage.restore(tmp_path)
    assert [str(x.dtype) for x in restored.values()] == ["float32", "int32", "float64"]


def test_devices(tmp_path):
    device = xpr.devices()[0]
    storage.save(tmp_path, {"x": xpr.device_put(np.ones(2), device), "n": np.ones(2), "k": 1})
    plain = storage.restore(tmp_path)
    assert not plain["x"].committed and type(plain["n"]) is np.ndarray
    there = storage.restore(tmp_path, shardings=device)
    assert there["x"].committed and type(there["n"]) is xpr.Array and there["k"] == 1
    assert storage.restore(tmp_path, like={"x": xpr.device_put(1.0 + np.ones(2), device), "n": np.ones(2), "k": 1})[
        "x"
    ].committed


# -- Files


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(regions, "BLOCK", 40)
    monkeypatch.setattr(files, "FILE", 200)


def test_blocks_and_files(tmp_path, small_blocks):
    one = {"a": np.arange(210).reshape(3, 7, 10), "b": jnp.arange(33.0), "c": np.ones((5, 5), dtypes.int4)}
    storage.save(tmp_path, one)
    content = content_of(tmp_path)
    assert len(content["files"]) > 5
    for leaf, values in zip(content["leaves"], tree.leaves(one)):
        assert sum(math.prod(shape) for _, _, shape, _ in leaf["pieces"]) == values.size
        assert all(math.prod(shape) * values.dtype.itemsize <= 40 for _, _, shape, _ in leaf["pieces"])
    same(storage.restore(tmp_path), one)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (5, 9), (4, 1, 6), (3, 0, 2), (2, 3, 5, 4)], ids=str)
def test_blocks_cover(shape, monkeypatch):
    """Each element lies in one block, and the blocks are small enough."""
    monkeypatch.setattr(regions, "BLOCK", 10)
    count, region = np.zeros(shape, int), regions.Box((0,) * len(shape), shape)
    for block in region.blocks(2):
        count[block.within(region)] += 1
        assert block.size * 2 <= 10
    assert (count == 1).all()


def test_regions():
    one, other = regions.Box((0, 2), (4, 4)), regions.Box((2, 0), (4, 3))
    both = one.shared_with(other)
    assert both == ((2, 2), (2, 1)) and both.within(one) == (slice(2, 4), slice(0, 1))
    assert one.shared_with(regions.Box((4, 0), (1, 9))).size == 0


def test_other_readers(tmp_path):
    """The files are those of safetensors."""
    storage.save(tmp_path, {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(2, jnp.bfloat16)})
    (file,) = tmp_path.glob("xpr-data-*/*.safetensors")
    found = load_file(file)
    assert sorted(found) == ["0@0", "1@0,0"]
    np.testing.assert_array_equal(found["1@0,0"], np.arange(6.0).reshape(2, 3))
    assert found["0@0"].dtype == dtypes.bf16


def test_replacing(tmp_path):
    """What was there is replaced, and nothing of it is left."""
    for number in range(3):
        storage.save(tmp_path, {"x": jnp.full(3, number)})
        assert storage.restore(tmp_path)["x"].tolist() == [number] * 3
        assert len(list(tmp_path.glob("xpr-data-*"))) == 1
    assert sorted(os.listdir(tmp_path))[:2] == ["checkpoint.json", "checkpoint.lock"] and len(os.listdir(tmp_path)) == 3


def test_reading_while_it_is_replaced(tmp_path):
    """Who reads finds one state or the other, whole."""
    storage.save(tmp_path, [np.zeros(1000)] * 3)
    done = threading.Event()

    def replace():
        for number in range(40):
            storage.save(tmp_path, [np.full(1000, number)] * 3)
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    while not done.is_set():
        restored = storage.restore(tmp_path)
        assert len({x[0] for x in restored}) == 1 and all((x == x[0]).all() for x in restored)
    writer.join()


def test_reading_the_last_step_while_others_go(tmp_path):
    storage.save(tmp_path, [np.zeros(1000)] * 3, step=0)
    done = threading.Event()

    def save():
        for step in range(1, 30):
            storage.save(tmp_path, [np.full(1000, step)] * 3, step=step, keep=1)
        done.set()

    writer = threading.Thread(target=save)
    writer.start()
    while not done.is_set():
        restored = storage.restore(tmp_path)
        assert len({x[0] for x in restored}) == 1
    writer.join()


def test_steps_that_go_while_they_are_listed(tmp_path, monkeypatch):
    storage.save(tmp_path, 0, step=0)
    begun = numbered.begun

    def slow(folder):
        monkeypatch.undo()
        there = begun(folder)
        storage.save(tmp_path, 1, step=1, keep=1)
        return there

    monkeypatch.setattr(numbered, "begun", slow)
    assert storage.steps(tmp_path) == [1]
    (tmp_path / "step_2").mkdir()  # a save was stopped
    assert storage.steps(tmp_path) == [1]
    shutil.rmtree(tmp_path / "step_1")
    assert storage.steps(tmp_path) == [] and storage.latest(tmp_path) is None


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    storage.save(tmp_path, {"x": 1, "a": np.ones(3)})

    def full(*args):
        raise safetensors.SafetensorError("No space left on device")

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(OSError, match=r"0-0.safetensors can't be written: No space left on device"):
        storage.save(tmp_path, {"x": 2, "a": np.ones(3)})
    assert storage.restore(tmp_path)["x"] == 1 and len(list(tmp_path.glob("xpr-data-*"))) == 1


def test_a_full_disk(tmp_path):
    if os.getuid() or not (shutil.which("mount") and shutil.which("unshare")):
        pytest.skip("mounting a small disk takes root")
    command = f"mount -t tmpfs -o size=1m none {tmp_path} && {sys.executable} -m tests.test_storage {tmp_path}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr or "permission denied" in done.stderr:
        pytest.skip("no mounts here")
    assert done.stdout.split() == ["OSError", "1", "1"], done.stderr


def fill_the_disk(folder):
    storage.save(folder, {"x": 1, "a": np.ones(3)})
    try:
        storage.save(folder, {"x": 2, "a": np.ones(1 << 20)})
    except OSError as error:
        print(type(error).__name__, storage.restore(folder)["x"], len(list(Path(folder).glob("xpr-data-*"))))


def test_killed_saves(tmp_path):
    """See killed_saves.py."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.killed_saves", str(tmp_path), "4"],
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    kills = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(kills) == 2 and all(operations > 50 and times > 0 for operations, times in kills), kills


@pytest.mark.parametrize("part", ["together", "wrong", "killed"])
def test_two_processes(part, tmp_path):
    """See two_processes_save.py."""
    command = [sys.executable, "-m", "xpr.launch", "-n", "2", "tests/two_processes_save.py", str(tmp_path), part]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XPR_NUM_CPU_DEVICES": "2", "XPR_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert part == "killed" or done.returncode == 0, done.stdout + done.stderr
    assert part != "killed" or (tmp_path / "survived").exists(), done.stdout + done.stderr


def test_two_savers(tmp_path):
    with open(tmp_path / "checkpoint.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match=f"save: another process, or thread, is saving to {tmp_path} now"):
            storage.save(tmp_path, 1)


# -- By step


def test_steps(tmp_path):
    folder = tmp_path / "run"
    assert storage.steps(folder) == [] and storage.latest(folder) is None
    for step in (0, 5, 10, 200):
        assert storage.save(folder, {"x": step}, step=np.int64(step)) == folder / f"step_{step}"
    assert storage.steps(folder) == [0, 5, 10, 200] and storage.latest(folder) == 200
    assert storage.restore(folder)["x"] == 200 and storage.restore(folder, step=5)["x"] == 5
    storage.save(folder, {"x": -1}, step=5)
    assert storage.restore(folder, step=5)["x"] == -1


def test_keep(tmp_path):
    for step in range(6):
        storage.save(tmp_path, {"x": step}, step=step, keep=3)
    assert storage.steps(tmp_path) == [3, 4, 5] and len(os.listdir(tmp_path)) == 3
    storage.save(tmp_path, {"x": 1}, step=1, keep=2)  # an earlier one, saved last, is kept
    assert storage.steps(tmp_path) == [1, 5]
    storage.save(tmp_path, {"x": 1}, step=jnp.int32(7), keep=1)
    assert storage.steps(tmp_path) == [7]


def test_what_is_not_ours_stays(tmp_path):
    """Only what a save has written is ever removed."""
    for name in ("xpr-data-mine", "data", "step_0", "step_x", "step_1/notes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "step_0" / "file").touch()
    for step in (1, 2, 3):
        storage.save(tmp_path, {"x": step}, step=step, keep=1)
    assert sorted(os.listdir(tmp_path)) == ["data", "step_0", "step_1", "step_3", "step_x", "xpr-data-mine"]
    assert os.listdir(tmp_path / "step_1") == ["notes"]
    with pytest.raises(CheckpointError):
        storage.save(tmp_path, {"x": 0})
    (tmp_path / "other" / "xpr-data-mine").mkdir(parents=True)
    storage.save(tmp_path / "other", {"x": 0})
    assert (tmp_path / "other" / "xpr-data-mine").exists()


# -- Damage


def damaged(tmp_path):
    folder = tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    storage.save(folder, {"w": jnp.arange(6.0), "layers": [np.arange(4, dtype=np.int8)], "n": 3})
    (data,) = folder.glob("xpr-data-*/*")
    return folder, data


def test_every_flipped_bit_is_found(tmp_path):
    folder, data = damaged(tmp_path)
    whole = storage.restore(folder)
    for path in (data, folder / "checkpoint.json"):
        right = path.read_bytes()
        for position in range(len(right)):
            path.write_bytes(right[:position] + bytes([right[position] ^ (1 << position % 8)]) + right[position + 1 :])
            try:
                same(storage.restore(folder), whole)  # a space in the header of a file is as good as a tab
            except CheckpointError as error:
                assert re.search("damaged|is of format", str(error)), error
            else:
                assert path == data and position < len(right) - 28
        path.write_bytes(right)
    same(storage.restore(folder), whole)


def test_damage_names_the_leaf(tmp_path):
    folder, data = damaged(tmp_path)
    right = data.read_bytes()
    data.write_bytes(right.replace(np.float32(4).tobytes(), np.float32(5).tobytes()))
    with pytest.raises(CheckpointError) as raised:
        storage.restore(folder)
    assert str(raised.value) == (
        f"{data} is damaged: in ['w'], the elements from [0] on, of shape [6], are not those that were saved."
    )
    data.write_bytes(right[:-1])
    with pytest.raises(CheckpointError, match=rf"it was saved with {len(right)} bytes, and has {len(right) - 1}\."):
        storage.restore(folder)
    data.write_bytes(b"\xff" * 8 + right[8:])
    with pytest.raises(CheckpointError, match=r"is damaged, and \['layers'\]\[0\] can't be read: .*header"):
        storage.restore(folder)
    data.unlink()
    with pytest.raises(CheckpointError, match=f"{folder} is damaged: {data} is missing"):
        storage.restore(folder)


def test_missing_pieces(tmp_path):
    folder, _ = damaged(tmp_path)
    content = content_of(folder)
    content["leaves"][2]["pieces"] = []
    manifest.write(folder, content)
    with pytest.raises(CheckpointError, match=r"is damaged: pieces of \['w'\] are missing"):
        storage.restore(folder)


# -- Folders from strangers


def changed(tmp_path, change):
    """A checkpoint whose content was changed by someone who also gives the hash."""
    folder, data = damaged(tmp_path)
    content = content_of(folder)
    change(content)
    (folder / "checkpoint.json").unlink()
    manifest.write(folder, content)
    return folder, data


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(data="/etc"),
        lambda c: c.update(data=".."),
        lambda c: c.update(data="../outside"),
        lambda c: c.update(data="."),
        lambda c: c.update(data=""),
        lambda c: c.update(data="checkpoint.lock"),
        lambda c: c.update(data=c["data"] + "/../../outside"),
        lambda c: c.update(data=c["data"] + "\0"),
        lambda c: c.update(data=None),
        lambda c: c.update(files={"/dev/zero": 0}),
        lambda c: c.update(files={"../../outside/0-0.safetensors": 8, **c["files"]}),
        lambda c: c.update(files={"0-0.safetensors\0": 8, **c["files"]}),
        lambda c: c["leaves"][0]["pieces"][0].__setitem__(0, "/etc/passwd"),
        lambda c: c["leaves"][0]["pieces"][0].__setitem__(0, "1-0.safetensors"),
    ],
)  # fmt: skip
def test_names_that_lead_out_of_the_folder(change, tmp_path, monkeypatch):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "0-0.safetensors").write_bytes(b"12345678")
    folder, _ = changed(tmp_path, change)
    monkeypatch.setattr(restoring, "Files", None)  # nothing is even looked at
    with pytest.raises(CheckpointError, match=r"checkpoint.json is damaged: .* is "):
        storage.restore(folder)


@pytest.mark.parametrize("what", ["checkpoint.json", "data", "file"])
@pytest.mark.parametrize("by", ["link", "absolute link", "device", "pipe", "folder"])
def test_links_and_devices(what, by, tmp_path):
    folder, data = damaged(tmp_path)
    path = {"checkpoint.json": folder / "checkpoint.json", "data": data.parent, "file": data}[what]
    outside = tmp_path / "outside"
    path.rename(outside)
    if by == "pipe":
        os.mkfifo(path)
    elif by == "folder":
        path.mkdir()
    else:
        target = {"link": os.path.relpath(outside, path.parent), "absolute link": outside, "device": "/dev/zero"}[by]
        path.symlink_to(target)
    if what == "checkpoint.json" and by in ("device", "pipe", "folder"):
        with pytest.raises(FileNotFoundError, match="it has no checkpoint.json"):
            storage.restore(folder)
        return
    wanted = r"is damaged: it is .*, where save wrote a|is damaged: .* is missing"
    with pytest.raises(CheckpointError, match=wanted):
        storage.restore(folder)


def test_a_folder_that_is_itself_a_link(tmp_path):
    """What the caller names is followed, and links in it are not: also where they are called step_3."""
    folder, _ = damaged(tmp_path)
    (tmp_path / "best").symlink_to(folder)
    same(storage.restore(tmp_path / "best"), storage.restore(folder))
    steps = tmp_path / "steps"
    storage.save(steps, 1, step=1)
    (steps / "step_3").symlink_to(folder)
    (steps / "step_007").mkdir()
    assert storage.steps(steps) == [1] and storage.restore(steps) == 1
    with pytest.raises(CheckpointError, match=rf"step_3 is a link, .* Give the folder it leads to: .*{folder}"):
        storage.restore(steps, step=3)
    storage.save(steps, 4, step=4, keep=1)
    assert storage.restore(folder)["n"] == 3


def test_saving_writes_to_no_link(tmp_path):
    folder, outside = tmp_path / "folder", tmp_path / "mine"
    for name in ("checkpoint.lock", "checkpoint.json.new"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        outside.write_text("mine")
        (folder / name).symlink_to(outside)
        with contextlib.suppress(OSError):
            storage.save(folder, {"x": 1})
        assert outside.read_text() == "mine"


@contextlib.contextmanager
def small_memory():
    """Less than 16 MB are asked for."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda leaf: leaf.update(dtype="object"), r"the dtype of \['w'\] is 'object'"),
        (lambda leaf: leaf.update(dtype=["float32"]), r"dtype is \['float32'\]"),
        (lambda leaf: leaf.update(shape=[1 << 40]), r"pieces of \['w'\] are missing"),
        (lambda leaf: leaf.update(shape=[1 << 62, 0]), r"the shape of \['w'\] is \[4611686018427387904, 0\]"),
        (lambda leaf: leaf.update(shape=[-6]), r"the shape of \['w'\] is \[-6\]"),
        (lambda leaf: leaf.update(shape=[1] * 70), r"the shape of \['w'\] is "),
        (lambda leaf: leaf.update(shape=[True]), r"the shape of \['w'\] is "),
        (lambda leaf: leaf.update(shape=[1 << 40], pieces=[[leaf["pieces"][0][0], [0], [1 << 40], 0]]),
         r"pieces of 4,398,046,511,108 bytes are in 0-0.safetensors, which has"),
        (lambda leaf: leaf.update(pieces=leaf["pieces"] * 2), r"pieces of \['w'\] are missing, or overlap"),
        (lambda leaf: leaf.update(pieces=[[leaf["pieces"][0][0], [start], [3], 0] for start in (0, 2)]),
         r"pieces of \['w'\] are missing, or overlap"),
        (lambda leaf: leaf.update(pieces=[[leaf["pieces"][0][0], [3], [3], 0]]), r"pieces of \['w'\] are missing"),
        (lambda leaf: leaf["pieces"][0].__setitem__(3, "crc"), r"the checksum of a piece of \['w'\] is 'crc'"),
        (lambda leaf: leaf["pieces"][0].__setitem__(1, [0, 0]), r"the region of a piece of \['w'\] is "),
        (lambda leaf: leaf.update(array="object"), r"the kind of \['w'\] is 'object'"),
        (lambda leaf: leaf.update(weak=1), r"weak of \['w'\] is 1"),
    ],
)  # fmt: skip
def test_arrays_that_no_save_wrote(change, message, tmp_path):
    """They are refused before anything is read or made."""
    folder, _ = changed(tmp_path, lambda content: change(content["leaves"][2]))
    with small_memory(), pytest.raises(CheckpointError, match=f"damaged: {message}"):
        storage.restore(folder)


@pytest.mark.parametrize("header", [
    {"dtype": "F32", "shape": [3]}, {"dtype": "I32", "shape": [6]}, {"dtype": "F32", "shape": [2, 3]},
    {"dtype": "F32", "shape": [1 << 40]}, {"dtype": "F8_E8M0", "shape": [24]}, {"dtype": "F4", "shape": [48]},
    {"dtype": "F32", "shape": [6], "data_offsets": [0, 1 << 40]}, {"dtype": "object", "shape": [6]}, {},
])  # fmt: skip
def test_headers_of_files_that_lie(header, tmp_path):
    """The bytes are those that were saved, and the file says that they are something else."""
    folder, data = damaged(tmp_path)
    right = data.read_bytes()
    length = int.from_bytes(right[:8], "little")
    saved = json.loads(right[8 : 8 + length])
    saved["2@0"] = {**saved["2@0"], **header} if header else None
    text = json.dumps(saved).encode()
    data.write_bytes(len(text).to_bytes(8, "little") + text + right[8 + length :])
    content = content_of(folder)
    content["files"][data.name] = data.stat().st_size
    manifest.write(folder, content)
    with pytest.raises(CheckpointError, match=r"0-0.safetensors is damaged"):
        storage.restore(folder)


@pytest.mark.parametrize(
    "node",
    ["[" * 100_000, '{"kind":"list","children":[' * 300 + "]}" * 300, "NaN", "1e400", "9" * 5000, '"\\ud800"'],
    ids=lambda node: node[:12],
)
def test_what_json_can_be(node, tmp_path):
    folder, _ = damaged(tmp_path)
    head, _, tail = (folder / "checkpoint.json").read_text().partition('"tree":')
    (folder / "checkpoint.json").write_text(f'{head}"tree":{node},"leaves"' + tail.partition(',"leaves"')[2])
    with pytest.raises(CheckpointError, match="damaged"):
        storage.restore(folder)


def test_what_can_be_written_can_be_read(tmp_path):
    """A tree that is nested too deeply is so already when it is written."""
    storage.save(tmp_path, 3)
    node, content = 0, content_of(tmp_path)
    with pytest.raises(RecursionError):
        for depth in range(1000):
            node = {"kind": "list", "children": [node]}
            if depth % 20 == 0:
                manifest.write(tmp_path, {**content, "tree": node})
                assert tree.leaves(storage.restore(tmp_path)) == [3]


def test_keys_that_are_written_alike(tmp_path):
    one = {Color.RED: 1, repr(Color.RED): 2}
    storage.save(tmp_path, collections.OrderedDict(one))
    with pytest.raises(
        CheckpointError, match="Keys of a dict are written alike .* Give a `like` with the keys themselv"
    ):
        storage.restore(tmp_path)


HOSTILE = [
    None, True, False, -1, 0, 1, 2, 7, 1 << 31, 1 << 62, 1 << 64, 10**30, 0.5, "", "\0", "/", "..", "/dev/zero", "w",
    "nan", "object", "float64", "int4", "deque", "class", "dict", [], {}, [[]], [0], [-1], [1 << 62, 1 << 62],
    {"kind": "list", "children": [0]}, {"int": 1}, {"float": "1e9"}, {"tuple": [{}]}, {"str": 1}, {"array": "ndarray"},
]  # fmt: skip


def spoil(rng, value):
    """Changes, doubles or removes something in a value of JSON."""
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and rng.random() < 0.85:
            value = value[key]
            continue
        action = rng.randrange(4)
        if action == 0:
            del value[key]
        elif action == 1 and isinstance(value, list):
            value.insert(rng.randrange(len(value) + 1), copy.deepcopy(value[key]))
        else:
            value[key] = copy.deepcopy(rng.choice(HOSTILE))
        return


def test_spoiled_checkpoints(tmp_path, monkeypatch):
    """Whatever is changed in a manifest, whose hash is right, or in the files, it is read or said to be damaged."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    rng, times = random_numbers.Random(0), 400
    one = {
        "layers": [Layer(jnp.ones((2, 3)), np.int8(4)), Moments(np.zeros((0, 2)), None)], "key": random.key(3),
        "deque": collections.deque([1.5, True, 1j], 3), "last": collections.OrderedDict(b="a", a=jnp.zeros(2, "int4")),
    }  # fmt: skip
    storage.save(tmp_path, one)
    right, refused, (data,) = content_of(tmp_path), 0, tmp_path.glob("xpr-data-*/*")
    whole_file = data.read_bytes()
    for number in range(times):
        content, file = copy.deepcopy(right), bytearray(whole_file)
        if number % 3:
            for _ in range(rng.randint(1, 3)):
                spoil(rng, content)
        else:
            for _ in range(rng.randint(1, 4)):
                file[rng.randrange(8 if rng.random() < 0.2 else len(file))] = rng.randrange(256)
            del file[rng.choice([len(file), rng.randrange(len(file))]) :]
            content["files"] = {data.name: len(file)}
        data.write_bytes(file)
        manifest.write(tmp_path, content)
        for like in (None, one):
            try:
                storage.restore(tmp_path, like=like)
            except TreeMismatch:
                assert like is not None
            except CheckpointError:
                refused += 1
    assert refused > times


# -- Messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged, or was not written by xpr.storage.save: its format is not 'xpr.checkpoint'"),
        ("[1]", "was not written by xpr.storage.save"),
        ('{"format": "orbax"}', "was not written by xpr.storage.save"),
        ('{"format": "xpr.checkpoint", "version": [2, 0]}', "is of format 2.0, and this xpr reads 1.0 to 1.0."),
        ('{"format": "xpr.checkpoint", "version": [1, 1]}', "is of format 1.1, and this xpr reads"),
        ('{"format": "xpr.checkpoint", "version": [1, 0], "content": {}}', "does not have the hash that it gives"),
    ],
)  # fmt: skip
def test_other_manifests(text, message, tmp_path):
    (tmp_path / "checkpoint.json").write_text(text)
    for call in (lambda: storage.restore(tmp_path), lambda: storage.save(tmp_path, 1)):
        with pytest.raises(CheckpointError) as raised:
            call()
        assert message in str(raised.value)
    assert (tmp_path / "checkpoint.json").read_text() == text


def test_missing(tmp_path):
    def message(*args, **kwargs):
        with pytest.raises(FileNotFoundError) as raised:
            storage.restore(*args, **kwargs)
        return str(raised.value)

    assert message(tmp_path / "x") == f"restore: there is no folder {tmp_path / 'x'}."
    assert message(tmp_path) == (
        f"restore: there is no checkpoint in {tmp_path}: it has no checkpoint.json, which is written when all else has "
        "been."
    )
    storage.save(tmp_path / "whole", 1)
    assert message(tmp_path / "whole", step=3).endswith("/whole: it is one saved without a step.")
    storage.save(tmp_path, 1, step=2)
    assert message(tmp_path, step=3) == f"restore: there is no checkpoint of step 3 in {tmp_path}: it has those of [2]."
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file is a file, and a checkpoint is a folder with a checkpoint.json"):
        storage.restore(tmp_path / "file")


def test_mismatch(tmp_path):
    """All differences, by path."""
    saved = {
        "w": jnp.ones((2, 3)),
        "b": np.ones(3),
        "m": Moments(1, 2.0),
        "l": [1, 2],
        "gone": jnp.ones(2),
        "k": random.key(0),
        "n": None,
    }
    path = storage.save(tmp_path, saved)
    like = {
        "w": jnp.ones((2, 4)),
        "b": jnp.ones(3),
        "m": Moments(1, 2),
        "l": (1, 2),
        "new": {"a": 1},
        "k": jnp.ones(2),
        "n": 1,
    }
    with pytest.raises(TreeMismatch) as raised:
        storage.restore(path, like=like)
    assert str(raised.value).splitlines() == [
        f"restore: the checkpoint {path} does not fit `like`:",
        "  ['w']      f32[2,3] in the checkpoint, f32[2,4] in `like`",
        "  ['b']      f64[3] in the checkpoint, f32[3] in `like`",
        "  ['m'].nu   float in the checkpoint, int in `like`",
        "  ['l']      list of 2 in the checkpoint, tuple of 2 in `like`",
        "  ['gone']   only in the checkpoint: f32[2]",
        "  ['k']      key<fry>[] in the checkpoint, f32[2] in `like`",
        "  ['n']      None in the checkpoint, int in `like`",
        "  ['new']    only in `like`: dict of 1",
        "Give a `like` of what was saved; or none, and convert what comes.",
    ]
    with pytest.raises(TreeMismatch, match=r"the tree itself   dict of 7 in the checkpoint, f32\[2\] in `like`"):
        storage.restore(path, like=jnp.ones(2))


def test_a_class_that_was_renamed(tmp_path):
    Renamed = collections.namedtuple("Renamed", ["nu", "mu"])
    restored = storage.restore(storage.save(tmp_path, Moments(1, 2)), like=Renamed(0, 0))
    assert restored == Renamed(nu=2, mu=1)


def deleted():
    x = jnp.ones(3) + 1
    x.delete()
    return {"x": x}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda path: storage.save(path, {"f": len, "t": ["a", object()], "a": np.array(["x"])}), TypeError,
         "texts, and these are something else:\n  ['a']   ndarray of dtype <U1\n  ['f']   builtin_function_or_method\n"
         "  ['t'][1]   object\nTake them"),
        (lambda path: storage.save(path, object()), TypeError, "  the tree itself   object"),
        (lambda path: storage.save(path, xpr.ShapeDtypeStruct((2,), "float32")), TypeError, "ShapeDtypeStruct"),
        (lambda path: xpr.jit(lambda x: storage.save(path, [x]) and x)(1.0), TypeError, "  [0]   a traced f32[]"),
        (lambda path: storage.save(path, deleted()), DeletedArrayError, "to a jitted call: ['x']. Save what"),
        (lambda path: storage.save(path, 1, step=-1), ValueError, "step must be an integer from 0 on, not -1"),
        (lambda path: storage.save(path, 1, step=1.5), ValueError, "step must be an integer from 0 on, not 1.5"),
        (lambda path: storage.save(path, 1, keep=3), ValueError, "no step is given"),
        (lambda path: storage.save(path, 1, step=1, keep=0), ValueError, "keep=0 would leave nothing"),
        (lambda path: storage.save(path, 1, step=1, keep=1.5), ValueError, "keep is the number of steps to keep, an"),
        (lambda path: [storage.save(path, 1, step=1), storage.save(path, 1)], CheckpointError,
         "holds checkpoints by step. Give step="),
        (lambda path: [storage.save(path, 1), storage.save(path, 1, step=1)], CheckpointError,
         "is a checkpoint saved without a step. Choose another folder"),
    ],
)  # fmt: skip
def test_messages(call, error, message, tmp_path):
    with pytest.raises(error) as raised:
        call(tmp_path)
    assert message in str(raised.value)


# -- Names


def test_checkpoint_is_a_function():
    assert xpr.checkpoint is xpr.ad_checkpoint.checkpoint and xpr.storage is storage is sys.modules["xpr.storage"]
    assert inspect.isfunction(xpr.checkpoint) and inspect.signature(xpr.checkpoint) == inspect.signature(xpr.remat)
    assert "checkpoint" in str(xpr.make_jaxpr(xpr.checkpoint(jnp.sin))(1.0))
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'xpr\.checkpoint'"):
        importlib.import_module("xpr.checkpoint")


def test_storage_is_loaded_when_it_is_asked_for():
    code = "import sys, xpr; print('safetensors' in sys.modules); xpr.storage; print('safetensors' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("path", [3, None, b"folder"])
@pytest.mark.parametrize("verb", ["save", "restore", "steps", "latest"])
def test_what_is_no_path(verb, path):
    args = [{"w": 1}] if verb == "save" else []
    with pytest.raises(TypeError, match=f"{verb}: the first argument is the path of a folder, and is {path!r} of type"):
        getattr(storage, verb)(path, *args)


if __name__ == "__main__":
    fill_the_disk(sys.argv[1])
