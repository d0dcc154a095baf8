"""Arrays on eight devices, saved, and restored on other meshes."""

import json

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.ops.table import floats
from xpr import random, storage
from xpr.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P
from xpr.storage import files, regions

X = floats(8, 16)
SPECS = [P(), P("x"), P("x", "y"), P("y", "x"), P(None, "x"), P(("x", "y")), P(None, ("y", "x"))]


def mesh(shape=(4, 2)):
    return xpr.make_mesh(shape, ("x", "y"))


def line(n):
    return Mesh(np.array(xpr.devices()[8 - n :]), "x")


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(regions, "BLOCK", 64)
    monkeypatch.setattr(files, "FILE", 256)


@pytest.fixture
def read_pieces(monkeypatch):
    """The blocks that are read."""
    seen, read = [], files.Files.read_piece

    def noted(self, leaf, dtype, path, piece, *where):
        seen.append(piece)
        return read(self, leaf, dtype, path, piece, *where)

    monkeypatch.setattr(files.Files, "read_piece", noted)
    return seen


def targets():
    yield None
    yield xpr.devices()[3]
    yield SingleDeviceSharding(xpr.devices()[5])
    yield from (NamedSharding(mesh(), spec) for spec in SPECS)
    yield from (NamedSharding(mesh((2, 2)), spec) for spec in SPECS)
    yield from (NamedSharding(mesh((1, 8)), P(*spec)) for spec in [("y",), (None, "y"), ()])
    yield from (NamedSharding(line(n), P(None, "x")) for n in (1, 2, 8))


@pytest.mark.parametrize("blocks", ["whole", "small"])
@pytest.mark.parametrize("source", [P(), P("x", "y"), P(None, ("y", "x"))], ids=str)
def test_onto_any_mesh(source, blocks, tmp_path, request):
    if blocks == "small":
        request.getfixturevalue("small_blocks")
    x = xpr.device_put(X, NamedSharding(mesh(), source)) + 0
    storage.save(tmp_path, {"x": x})
    for target in targets():
        y = storage.restore(tmp_path, shardings=target)["x"]
        np.testing.assert_array_equal(y, X)
        if isinstance(target, NamedSharding):
            assert y.sharding == target
            for shard in y.addressable_shards:
                np.testing.assert_array_equal(shard.data, X[shard.index])
        else:
            device = xpr.devices()[0] if target is None else getattr(target, "device", target)
            assert y.devices() == {device}
            assert y.committed == (target is not None)
        np.testing.assert_array_equal(xpr.jit(lambda x: x + 1)(y), X + 1)


def test_from_one_device(tmp_path, small_blocks):
    storage.save(tmp_path, jnp.asarray(X))
    for target in targets():
        np.testing.assert_array_equal(storage.restore(tmp_path, shardings=target), X)


def test_each_part_is_written_once(tmp_path):
    for spec in SPECS:
        path = storage.save(tmp_path, xpr.device_put(X, NamedSharding(mesh(), spec)))
        content = json.loads((path / "checkpoint.json").read_text())["content"]
        pieces = content["leaves"][0]["pieces"]
        assert sum(np.prod(shape) for _, _, shape, _ in pieces) == X.size
        assert sum(content["files"].values()) < X.nbytes + 2000


def test_only_what_is_needed_is_read(tmp_path, small_blocks, read_pieces):
    """Of an array on eight devices a mesh of one needs all, and the last two columns of devices only their own."""
    storage.save(tmp_path, xpr.device_put(X, NamedSharding(mesh((1, 8)), P(None, "y"))))
    storage.restore(tmp_path, shardings=NamedSharding(mesh((8, 1)), P("x")))
    assert len(read_pieces) == len(set(read_pieces)) == 8  # each of them once, for eight devices
    read_pieces.clear()
    record = json.loads((tmp_path / "checkpoint.json").read_text())["content"]
    content = files.Files(tmp_path / record["data"], record["files"])
    with files.threads() as pool:
        wanted = regions.Box((2, 4), (3, 3))
        (part,) = content.read(0, record["leaves"][0], "", [wanted], pool)
    np.testing.assert_array_equal(part, X[2:5, 4:7])
    assert sorted(piece.start for piece in read_pieces) == [(0, 4), (0, 6)]


def test_states(tmp_path):
    """Parameters, the state of an optimizer, a count and keys; their shardings come from `like` or are named."""
    rows, none = NamedSharding(mesh(), P("x")), NamedSharding(mesh(), P())
    state = {"w": xpr.device_put(X, rows), "b": jnp.ones(16), "n": 3, "key": random.split(random.key(0), 8)}
    state["key"] = xpr.device_put(state["key"], rows)
    storage.save(tmp_path, state)

    same = storage.restore(tmp_path, like=state)
    assert same["w"].sharding == rows == same["key"].sharding and same["n"] == 3
    assert not same["b"].committed
    np.testing.assert_array_equal(random.key_data(same["key"]), random.key_data(state["key"]))

    types = {**state, "w": xpr.ShapeDtypeStruct((8, 16), jnp.float32, sharding=NamedSharding(line(2), P("x")))}
    there = storage.restore(tmp_path, like=types)
    assert there["w"].sharding == NamedSharding(line(2), P("x"))

    named = storage.restore(tmp_path, like=state, shardings={"w": none, "b": rows, "n": None, "key": None})
    assert named["w"].sharding == none and named["b"].sharding == rows and named["key"].sharding == rows

    everywhere = storage.restore(tmp_path, shardings=none)
    assert everywhere["b"].sharding == none and everywhere["n"] == 3  # a number is on no device


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "int64", "bfloat16", "float8_e5m2", "complex64"])
def test_dtypes(dtype, tmp_path):
    with xpr.enable_x64(True):
        x = jnp.arange(16).reshape(8, 2).astype(dtype)
        sharded = xpr.device_put(x, NamedSharding(mesh(), P("x", "y")))
        storage.save(tmp_path, sharded)
        y = storage.restore(tmp_path, shardings=NamedSharding(line(8), P("x")))
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(y).view(np.uint8), np.asarray(x).view(np.uint8))


def test_narrowed(tmp_path):
    with xpr.enable_x64(True):
        storage.save(tmp_path, jnp.arange(8.0))
    y = storage.restore(tmp_path, shardings=NamedSharding(line(8), P("x")))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.arange(8))


def test_messages(tmp_path):
    storage.save(tmp_path, {"a": jnp.ones((6, 2)), "b": jnp.ones(8), "c": jnp.ones(3)})
    with pytest.raises(ValueError) as raised:
        storage.restore(tmp_path, shardings=NamedSharding(mesh(), P("x")))
    a, c = str(raised.value).splitlines()
    assert a.startswith("restore: ['a'] of shape (6, 2) can't be sharded by P('x',) over Mesh('x': 4, 'y': 2)")
    assert c.startswith("restore: ['c'] of shape (3,)")
    with pytest.raises(TypeError, match="restore: Received invalid value 3, which is neither a device nor a sharding"):
        storage.restore(tmp_path, shardings={"a": 3, "b": None, "c": None})
    with pytest.raises(xpr.errors.TreeMismatch, match="shardings specification must be a tree prefix"):
        storage.restore(tmp_path, shardings={"a": None})
