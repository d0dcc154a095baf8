"""The cache on disk of compiled programs, and of which calls run them, in `config.compilation_cache_dir`.

Loading a program is running code, and a damaged one can take the process down; so the folder belongs to the user
alone, and a file is used only if its hash is right. Anything wrong with a file means compiling again.

Reading a program takes a thirtieth of the time to compile it, writing it a thirtieth more. The least recently used
files go when there is more than `LIMIT`. Many processes may read, write and remove files at once: one appears whole, by
a rename, and who has opened one can read it to the end.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jaxlib.version

from xpr.backend import runtime
from xpr.backend.processor import model_and_instructions
from xpr.config import DEFAULT_CACHE, settings
from xpr.core import events
from xpr.core.source import depth_of_user

_FORMAT = b"xpr-executable-1\n"
_CALL_FORMAT = b"xpr-call-2\n"
_HASH_SIZE = hashlib.sha256().digest_size
LIMIT = 1 << 30  # bytes of files that are kept
_UNFINISHED = ".writing-"  # how the names of files begin that are being written, or were left unfinished
_HOUR = 3600  # seconds; the time of last use of a file is only updated if it is older


def folder_in_use() -> Path | None:
    """The folder, created if need be; None where there is none, or it can't be used."""
    return _usable(settings.programs_folder) if settings.programs_folder else None


def load(name: str, device: Any, options: Any) -> Any:
    """The program of a file in the folder; None where there is none."""
    folder = folder_in_use()
    return None if folder is None else _looked_up(folder / name, device, options)


def _looked_up(path: Path, device: Any, options: Any, stubs: Sequence[Any] = ()) -> Any:
    """The program of a file, and listeners of `xpr.monitoring` are told whether there is one."""
    program = _load(path, device, options, stubs)
    events.call(events.events, events.CACHE_REQUEST)
    events.call(events.events, events.CACHE_MISS if program is None else events.CACHE_HIT)
    return program


def read(name: str) -> bytes | None:
    """The bytes of the program of a file in the folder; None where there is none."""
    folder = folder_in_use()
    return None if folder is None else _read(folder / name)


def load_or_compile(
    name: str, text: str, device: Any, options: Any, compile_text: Callable[..., Any], stubs: Sequence[Any]
) -> tuple[Any, bool, bool]:
    """The program from the folder, or compiled and put there; whether it is there now, and whether it was.

    It is just compiled where the folder can't be used. `stubs` are callbacks that it has, and doesn't call.
    """
    folder = folder_in_use()
    if folder is None:
        return compile_text(text, device, options, stubs), False, False
    program = _looked_up(folder / name, device, options, stubs)
    if program is not None:
        return program, True, True
    program = compile_text(text, device, options, stubs)
    return program, _save(folder / name, program, device), False


def key_of(text: str, device: Any, options: Any) -> str:
    """The name of the program's file: a hash of everything that the compiled program depends on."""
    digest = hashlib.sha256()
    for part in (text.encode(), options.SerializeAsString(), *circumstances(device)):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


@functools.cache
def circumstances(device: Any) -> tuple[bytes, ...]:
    """What compiled programs depend on besides their text and options: flags, versions, processor, device."""
    client = device.client
    texts = (
        os.environ.get("XLA_FLAGS", ""), jaxlib.version.__version__, str(runtime.xc._version), model_and_instructions(),
        client.platform, client.platform_version, device.device_kind, str(device.id), str(client.device_count()),
    )  # fmt: skip
    return (_FORMAT, *(text.encode() for text in texts))


@functools.cache
def _usable(name: str) -> Path | None:
    """The folder, created if need be; None, with a warning, where other users could write programs into it."""
    folder = Path(name).expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        if name != DEFAULT_CACHE:
            warnings.warn(f"The compilation cache {folder} cannot be used: {error}.", stacklevel=depth_of_user())
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        warnings.warn(
            f"The compilation cache {folder} is not used, since other users could put programs into it. "
            f"Make it your own with `chmod 700 {folder}`, or choose another folder.",
            stacklevel=depth_of_user(),
        )
        return None
    return folder


def _load(path: Path, device: Any, options: Any, stubs: Sequence[Any]) -> Any:
    blob = _read(path)
    if blob is None:
        return None
    _mark_as_used(path)
    try:
        return device.client.deserialize_executable(blob, runtime._jax.DeviceList((device,)), options, list(stubs))
    except RuntimeError:  # the file is from another compiler with the same version
        return None


def _read(path: Path) -> bytes | None:
    """The program's bytes; None where the file is missing or damaged."""
    packed = _checked(path, _FORMAT)
    return None if packed is None else zlib.decompress(packed)


def _checked(path: Path, form: bytes) -> bytes | None:
    """The content of a file of that format; None where it is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(form) + _HASH_SIZE
    if not content.startswith(form) or hashlib.sha256(content[start:]).digest() != content[len(form) : start]:
        return None
    return content[start:]


def read_call(name: str) -> bytes | None:
    """The record of a call of a function (api/stored_calls.py), by the name of its file; None where there is none."""
    folder = folder_in_use()
    if folder is None:
        return None
    content = _checked(folder / name, _CALL_FORMAT)
    if content is not None:
        _mark_as_used(folder / name)
    return content


def write_call(name: str, content: bytes) -> None:
    """Puts the record of a call into the folder."""
    folder = folder_in_use()
    if folder is not None:
        _write(folder / name, _CALL_FORMAT, content)


def _save(path: Path, program: Any, device: Any) -> bool:
    """Whether the program can be serialized, and its file could be written."""
    try:
        packed = zlib.compress(device.client.serialize_executable(program), 1)
    except RuntimeError:  # not every program can be serialized
        return False
    return _write(path, _FORMAT, packed)


def _write(path: Path, form: bytes, content: bytes) -> bool:
    """Writes a file, which no reader ever sees half-written; returns whether that was possible."""
    try:
        replace_file(path, form + hashlib.sha256(content).digest() + content)
    except OSError as error:  # a full disk must not stop the computation
        if settings.compilation_cache_dir != DEFAULT_CACHE:
            warnings.warn(f"A compiled program could not be written to {path}: {error}.", stacklevel=depth_of_user())
        return False
    # On average once for every 64th of the limit that all processes write: looking at all files takes a while.
    chance = int(path.name[:8], 16) / 16**8
    if chance < 64 * len(content) / LIMIT:
        remove_oldest(path.parent, LIMIT)
    return True


def _mark_as_used(path: Path) -> None:
    with contextlib.suppress(OSError):  # it was removed, or is on a disk that can't be written to
        if time.time() - path.stat().st_mtime > _HOUR:
            os.utime(path)


def remove_oldest(folder: Path, limit: int) -> None:
    """Removes the files that were used least recently, until the others have no more bytes than the limit."""
    files = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process removed it
                status = entry.stat()
                abandoned = entry.name.startswith(_UNFINISHED) and time.time() - status.st_mtime > _HOUR
                files.append((0.0 if abandoned else status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file, through a temporary one beside it.

    Raises:
      OSError: it can't be written; what was there is left.
    """
    temporary = Path(path).parent / f"{_UNFINISHED}{os.getpid()}-{threading.get_ident()}"
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
