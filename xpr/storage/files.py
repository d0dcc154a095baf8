"""Pieces of arrays in safetensors files: written, with their checksums, and read, checked against those.

A file is a header of names, dtypes and offsets, and the bytes; any reader of safetensors can open one. Types that not
every such reader has are kept as bytes, along an axis more.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from xpr import dtypes
from xpr.errors import CheckpointError
from xpr.storage.leaves import DTYPES
from xpr.storage.manifest import check_no_link, sync
from xpr.storage.regions import Box

FILE = 256 << 20  # bytes; what is on other devices is fetched for one file at a time
_AS_BYTES = {*dtypes.SMALL_FLOATS, dtypes.complex128, dtypes.int2, dtypes.uint2, dtypes.int4, dtypes.uint4}


def threads() -> ThreadPoolExecutor:
    """Threads that copy and check pieces; a few are as fast as memory is."""
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1))


class Part(NamedTuple):
    """A part of the array that is the leaf of that number."""

    leaf: int
    region: Box
    values: np.ndarray

    @property
    def name(self) -> str:
        """The name of the part in a file."""
        return name_of(self.leaf, self.region)


def name_of(leaf: int, region: Box) -> str:
    """The name of a part in a file."""
    return f"{leaf}@{','.join(map(str, region.start))}"


# -- Writing


def write(parts: Iterable[Part], folder: Path, process: int) -> tuple[dict[str, int], list[tuple[int, Any]]]:
    """Writes parts of arrays, in blocks, to files in the folder, and waits until they are on the disk.

    Returns:
      the sizes of the files by name, and for each block the leaf and the piece, as the manifest has it.
    Raises:
      OSError: they can't be written.
    """
    sizes: dict[str, int] = {}
    pieces: list[tuple[int, Any]] = []
    with threads() as pool:
        for number, batch in enumerate(_batches(block for part in parts for block in _blocks(part))):
            name = f"{process}-{number}.safetensors"
            stored = list(pool.map(_stored, batch))
            try:
                save_file({block.name: values for block, (values, _) in zip(batch, stored)}, folder / name)
            except SafetensorError as error:
                raise OSError(f"save: {folder / name} can't be written: {error}") from None
            sync(folder / name)
            sizes[name] = (folder / name).stat().st_size
            pieces += [(block.leaf, [name, *map(list, block.region), crc]) for block, (_, crc) in zip(batch, stored)]
    return sizes, pieces


def _blocks(part: Part) -> Iterator[Part]:
    for region in part.region.blocks(part.values.itemsize):
        yield Part(part.leaf, region, part.values[region.within(part.region)])


def _batches(blocks: Iterable[Part]) -> Iterator[list[Part]]:
    """Blocks for one file after another."""
    batch: list[Part] = []
    size = 0
    for block in blocks:
        batch.append(block)
        size += block.values.nbytes
        if size >= FILE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _stored(block: Part) -> tuple[np.ndarray, int]:
    """The values as they are in a file, and their checksum."""
    values = np.asarray(block.values, block.values.dtype.newbyteorder("="), order="C")
    as_bytes = values.reshape(*values.shape, 1).view(np.uint8)
    return as_bytes if values.dtype in _AS_BYTES else values, zlib.crc32(as_bytes.data)


# -- Reading


def _header(dtype: np.dtype, shape: Sequence[int]) -> tuple[str, list[int]]:
    """How the header of a file gives the type of a piece."""
    if dtype in _AS_BYTES:
        return "U8", [*shape, dtype.itemsize]
    names = {dtypes.bool_: "BOOL", dtypes.bf16: "BF16"}
    return names.get(dtype) or f"{dtype.kind.upper()}{8 * dtype.itemsize}", list(shape)


class Files:
    """The files of a checkpoint, for reading.

    Raises:
      FileNotFoundError: a file is missing.
      CheckpointError: a file has another size than it had, or is something else.
    """

    def __init__(self, folder: Path, sizes: dict[str, int]):
        self.folder = folder
        self.opened: dict[str, Any] = {}
        check_no_link(folder, folder=True)
        for name, size in sizes.items():
            actual = check_no_link(folder / name).st_size
            if actual != size:
                raise CheckpointError(
                    f"{folder / name} is damaged: it was saved with {size:,} bytes, and has {actual:,}."
                )

    def read(
        self, leaf: int, record: dict[str, Any], path: str, regions: Sequence[Box], pool: ThreadPoolExecutor
    ) -> list[np.ndarray]:
        """The values of an array in some different regions. Pieces that have nothing of them are not read.

        Raises:
          CheckpointError: a piece is damaged or missing; the message names the leaf by its path.
        """
        dtype = DTYPES[record["dtype"]]
        pieces = {Box(tuple(start), tuple(shape)): (name, crc) for name, start, shape, crc in record["pieces"]}
        values = {region: np.empty(region.shape, dtype) for region in regions if region not in pieces}
        shared = {
            piece: [(region, both) for region in regions if (both := piece.shared_with(region)).size or piece == region]
            for piece in pieces
        }

        def fill(piece: Box) -> None:
            block = self.read_piece(leaf, dtype, path, piece, *pieces[piece])
            for region, both in shared[piece]:
                if piece == region:
                    values[region] = block
                else:
                    values[region][both.within(region)] = block[both.within(piece)]

        needed = [piece for piece, users in shared.items() if users]
        list(map(fill, needed) if len(needed) == 1 else pool.map(fill, needed))
        return [values[region] for region in regions]

    def read_piece(self, leaf: int, dtype: np.dtype, path: str, piece: Box, file: str, crc32: int) -> np.ndarray:
        """The values of one piece of an array.

        Raises:
          CheckpointError: the file doesn't hold the piece, or its bytes have another checksum.
        """
        where = self.folder / file
        try:
            if file not in self.opened:
                self.opened[file] = safe_open(where, "np")
            stored = self.opened[file].get_slice(name_of(leaf, piece))
            has_type = (stored.get_dtype(), stored.get_shape()) == _header(dtype, piece.shape)
            values = np.asarray(self.opened[file].get_tensor(name_of(leaf, piece)), order="C") if has_type else None
        except SafetensorError as error:
            raise CheckpointError(f"{where} is damaged, and {path or 'the array'} can't be read: {error}") from None
        as_bytes = None if values is None else values.reshape(*values.shape, 1).view(np.uint8)
        if as_bytes is None or zlib.crc32(as_bytes.data) != crc32:
            raise CheckpointError(
                f"{where} is damaged: in {path or 'the array'}, the elements from {list(piece.start)} on, of shape "
                f"{list(piece.shape)}, are not those that were saved."
            )
        return as_bytes.reshape(-1).view(dtype).reshape(piece.shape)
