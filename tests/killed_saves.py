"""Processes that are killed while they save: `python -m tests.killed_saves FOLDER`.

Each save is done by a child, which is killed with SIGKILL: right before each operation on the file system in turn, in
the middle of the writing of a file, or after a random time. Then another child looks at what is there: the last state
that was saved for certain, or the next one, whole; and saves again, after which nothing is left of the killed one.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.testing import assert_array_equal  # at once: a child would import it for 60 ms

from xpr import storage
from xpr.storage import files

FEW, MANY = 3, 50  # saves of one child
FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "fcntl.flock", "shutil.rmtree"}


def state(number: int, size: int) -> dict:
    return {"number": number, "w": np.full((size, 7), number, np.float32), "b": [np.arange(number), None]}


def check(found: dict, size: int) -> int:
    number = found["number"]
    wanted = state(number, size)
    assert_array_equal(found["w"], wanted["w"])
    assert_array_equal(found["b"][0], wanted["b"][0])
    return number


def save(folder: Path, by_step: bool, number: int, size: int) -> None:
    storage.save(folder, state(number, size), **({"step": number, "keep": 2} if by_step else {}))


def saves(folder: Path, by_step: bool, times: int, size: int, done: int) -> None:
    """Saves one state after another, and writes down the number of each when it has been saved."""
    for number in range(1, times + 1):
        save(folder, by_step, number, size)
        os.pwrite(done, bytes([number]), 0)


def inspect(folder: Path, by_step: bool, size: int, last: int) -> None:
    """What must hold after a kill, when `last` was the last number written down."""
    if by_step:
        steps = storage.steps(folder)
        for step in steps:
            assert check(storage.restore(folder, step=step), size) == step
        assert (steps[-1] if steps else 0) in (last, last + 1), (steps, last)
        assert last < 2 or {last - 1, last} <= {*steps} or {last, last + 1} <= {*steps}, (steps, last)
    elif last or (folder / "checkpoint.json").exists():
        assert check(storage.restore(folder), size) in (last, last + 1)
    save(folder, by_step, MANY + 1, size)
    assert check(storage.restore(folder), size) == MANY + 1
    for kept in [folder / name for name in os.listdir(folder)] if by_step else [folder]:
        assert sorted(name[:9] for name in os.listdir(kept)) == ["checkpoin", "checkpoin", "xpr-data-"], os.listdir(
            kept
        )
    assert not by_step or set(os.listdir(folder)) == {f"step_{step}" for step in storage.steps(folder)[-2:]}


def child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int) -> bool:
    """Whether the child came to its end, and was not killed."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(number: int, folder: Path) -> None:
    """Has this process killed before the operation on the folder that has this number."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            die()

    def on_event(event: str, args: tuple) -> None:
        if event in FILE_EVENTS and (event == "fcntl.flock" or str(args[0]).startswith(str(folder))):
            count()

    def half_a_file(tensors: dict, path: Path, save_file: Callable = files.save_file) -> None:
        save_file(tensors, path)
        size = os.stat(path).st_size
        whole = Path(path).read_bytes()
        for part in (0, 9, size // 2):
            os.truncate(path, part)
            count()
        Path(path).write_bytes(whole)

    files.save_file = half_a_file
    sys.addaudithook(on_event)


def each_operation(root: Path, by_step: bool) -> int:
    """Kills before one operation after the other, until a child comes to its end; gives the number of kills."""
    number = 0
    while True:
        folder = root / f"operation{number}"
        done = os.open(root / f"done{number}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)

        def work(folder: Path = folder, number: int = number, done: int = done) -> None:
            killed_at(number, folder)
            saves(folder, by_step, FEW, 5, done)

        whole = ended(child(work))
        last = (os.pread(done, 1, 0) or b"\0")[0]
        assert ended(child(lambda folder=folder, last=last: inspect(folder, by_step, 5, last)))
        os.close(done)
        shutil.rmtree(folder)
        if whole:
            return number
        number += 1


def random_times(root: Path, by_step: bool, times: int) -> int:
    """Kills after random times while larger arrays are saved; gives the number of kills that hit a save."""
    size, kills = 200_000, 0
    for turn in range(times):
        folder = root / f"time{turn}"
        done = os.open(root / f"done{turn}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        pid = child(lambda folder=folder, done=done: saves(folder, by_step, MANY, size, done))
        time.sleep(random.uniform(0.02, 0.4))
        os.kill(pid, signal.SIGKILL)
        kills += not ended(pid)
        last = (os.pread(done, 1, 0) or b"\0")[0]
        assert ended(child(lambda folder=folder, last=last: inspect(folder, by_step, size, last)))
        os.close(done)
        shutil.rmtree(folder, ignore_errors=True)
    return kills


if __name__ == "__main__":
    for by_step in (False, True):
        root = Path(sys.argv[1]) / f"by_step_{by_step}"
        root.mkdir(parents=True)
        print(each_operation(root, by_step), random_times(root, by_step, int(sys.argv[2])))
