"""What two processes save together: `python -m xpr.launch -n 2 tests/two_processes_save.py FOLDER PART`."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import storage
from xpr.errors import CheckpointError, ProcessLost, TreeMismatch
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P
from xpr.storage import files

X = np.arange(64, dtype=np.float32).reshape(8, 8)
SPECS = [P(), P("x"), P(None, "x")]


def state(number: int = 0) -> dict:
    mesh = xpr.make_mesh((xpr.device_count(),), ("x",))
    arrays = [make(NamedSharding(mesh, spec), number) for spec in SPECS]
    return {"everywhere": arrays, "here": jnp.ones((4, 4)), "number": number, "keys": xpr.random.key(number)}


def make(sharding: NamedSharding, number: int) -> xpr.Array:
    return xpr.make_array_from_callback((8, 8), sharding, lambda index: X[index] + number)


def check(tree: dict, number: int) -> None:
    for array in tree["everywhere"]:
        for shard in array.addressable_shards:
            np.testing.assert_array_equal(shard.data, X[shard.index] + number)
    assert tree["number"] == number
    np.testing.assert_array_equal(tree["here"], np.ones((4, 4)))


def raised(kind: type[Exception], message: str, tree: object, folder: Path) -> None:
    try:
        storage.save(folder, tree, step=9)
    except kind as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"no {kind}")


def together(folder: Path) -> None:
    for number in range(4):
        path = storage.save(folder, state(number), step=number, keep=2)
    assert len(list(path.glob("*/1-*.safetensors"))) == 1  # the other one has written too
    assert storage.steps(folder) == [2, 3]
    check(storage.restore(folder, like=state()), 3)
    for spec in SPECS:
        mesh = xpr.make_mesh((xpr.device_count(),), ("x",))
        others = storage.restore(folder, shardings={"everywhere": NamedSharding(mesh, spec), **rest()})
        check(others, 3)
    assert type(storage.restore(folder)["everywhere"][0]) is xpr.Array  # whole, on this process


def rest() -> dict:
    return dict.fromkeys(["here", "number", "keys"])


def wrong(folder: Path) -> None:
    me = xpr.process_index()
    raised(TreeMismatch, "['a']   f32[2] on process 0, nothing on process 1", {"ac"[me]: jnp.ones(2), "b": 1}, folder)
    raised(RuntimeError if me == 0 else TypeError, "object", [1 if me == 0 else object()], folder)
    (folder / "step_9").mkdir(parents=True, exist_ok=True)
    (folder / "step_9" / "checkpoint.json").write_text("{}")
    raised(CheckpointError if me == 0 else RuntimeError, "was not written by xpr.storage.save", [1], folder)


def killed(folder: Path) -> None:
    """Process 1 dies while it writes; what was saved before is there, and process 0 can say so."""
    storage.save(folder, state(1))
    if xpr.process_index() == 1:
        files.save_file = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    try:
        storage.save(folder, state(2))
    except ProcessLost as error:
        assert "process 1" in str(error), error
        assert storage.restore(folder)["number"] == 1
        assert len(list(folder.glob("xpr-data-*"))) == 1
        xpr.distributed.shutdown()
        own = storage.save(folder / "own", {"number": 3, "here": jnp.ones(2)})  # what it has by itself
        assert storage.restore(own)["number"] == 3
        (folder / "survived").touch()


if __name__ == "__main__":
    xpr.distributed.initialize(heartbeat_timeout_seconds=5)
    {"together": together, "wrong": wrong, "killed": killed}[sys.argv[2]](Path(sys.argv[1]))
