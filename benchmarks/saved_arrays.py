"""Trees of arrays written to disk, and read, beside `np.savez`, which is made to wait for the disk as `save` does."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.case import Call, Case, Library, warm

MANY = {f"{i:04}": np.full(4, i, np.float32) for i in range(2000)}


def large() -> dict[str, np.ndarray]:
    """256 MB."""
    return {name: np.random.default_rng(0).standard_normal((8 << 20,), np.float32) for name in "abcdefgh"}


def saver(arrays: Callable[[], dict[str, np.ndarray]], library: Library, folder: Path) -> Call:
    tree = {name: library.numpy.asarray(array) for name, array in arrays().items()}
    if library.numpy is np:
        return partial(save_with_numpy, folder / "arrays.npz", tree)
    return partial(library.storage.save, folder, tree)


def save_with_numpy(path: Path, tree: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as file:
        np.savez(file, **tree)
        file.flush()
        os.fsync(file.fileno())


def load_with_numpy(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def saving(arrays: Callable[[], dict[str, np.ndarray]], library: Library) -> Call:
    folder = Path(tempfile.mkdtemp())
    return removing(folder, saver(arrays, library, folder))


def reading(arrays: Callable[[], dict[str, np.ndarray]], library: Library) -> Call:
    folder = Path(tempfile.mkdtemp())
    saver(arrays, library, folder)()
    if library.numpy is np:
        return removing(folder, partial(load_with_numpy, folder / "arrays.npz"))
    return removing(folder, partial(library.storage.restore, folder))


def removing(folder: Path, call: Call) -> Call:
    """The call, with which the folder goes."""
    weakref.finalize(call, shutil.rmtree, folder)
    return call


CASES = [
    Case(f"{verb} {what}", warm(partial(build, arrays)), with_numpy=True, with_jax=False)
    for what, arrays in (("256 MB", large), ("2000 arrays of 4 numbers", lambda: MANY))
    for verb, build in (("save", saving), ("read", reading))
]
