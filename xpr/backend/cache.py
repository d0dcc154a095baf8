"""Compiled programs kept on disk between processes, in `config.compilation_cache_dir`.

Loading a program is running code, and a damaged one can take the process down; so the folder belongs to the user
alone, and a file is used only if its hash is right. Anything wrong with a file means compiling again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import stat
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxlib.version

from xpr.backend import runtime
from xpr.config import settings

_FORMAT = b"xpr-executable-1\n"
_HASH_SIZE = hashlib.sha256().digest_size


def load_or_compile(text: str, device: Any, options: Any, compile_text: Callable[[str, Any, Any], Any]) -> Any:
    """The program from the folder, or compiled and put there; just compiled where the folder can't be used."""
    folder = _usable(settings.compilation_cache_dir)
    if not folder:
        return compile_text(text, device, options)
    path = folder / key_of(text, device, options)
    program = _load(path, device, options)
    if program is None:
        program = compile_text(text, device, options)
        _save(path, program, device)
    return program


def key_of(text: str, device: Any, options: Any) -> str:
    """The name of the program's file: a hash of everything that decides what the compiler makes of it."""
    digest = hashlib.sha256()
    for part in (text.encode(), options.SerializeAsString(), *_circumstances(device)):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


@functools.cache
def _circumstances(device: Any) -> tuple[bytes, ...]:
    """What decides besides program and options: flags, versions, processor, device."""
    client = device.client
    texts = (
        os.environ.get("XLA_FLAGS", ""), jaxlib.version.__version__, str(runtime.xc._version), _processor(),
        client.platform, client.platform_version, device.device_kind, str(device.id), str(client.device_count()),
    )  # fmt: skip
    return (_FORMAT, *(text.encode() for text in texts))


def _processor() -> str:
    """The processor's model and its instruction sets, for which XLA:CPU makes code."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted(set(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", cpuinfo, re.M))))


@functools.cache
def _usable(name: str) -> Path | None:
    """The folder, made if need be; None, with a warning, where others could write programs into it."""
    folder = Path(name).expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        warnings.warn(f"The compilation cache {folder} cannot be used: {error}.", stacklevel=4)
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        warnings.warn(
            f"The compilation cache {folder} is not used, since other users could put programs into it. "
            f"Make it your own with `chmod 700 {folder}`, or choose another folder.",
            stacklevel=4,
        )
        return None
    return folder


def _load(path: Path, device: Any, options: Any) -> Any:
    blob = _read(path)
    if blob is None:
        return None
    try:
        return device.client.deserialize_executable(blob, runtime._jax.DeviceList((device,)), options, [])
    except RuntimeError:  # made by a compiler that only looks the same
        return None


def _read(path: Path) -> bytes | None:
    """The program's bytes; None where the file is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(_FORMAT) + _HASH_SIZE
    if not content.startswith(_FORMAT) or hashlib.sha256(content[start:]).digest() != content[len(_FORMAT) : start]:
        return None
    return zlib.decompress(content[start:])


def _save(path: Path, program: Any, device: Any) -> None:
    """Writes to a file of another name first, so that no reader ever sees half of it."""
    try:
        packed = zlib.compress(device.client.serialize_executable(program), 1)
    except RuntimeError:  # not every program can be serialized
        return
    content = _FORMAT + hashlib.sha256(packed).digest() + packed
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:  # a full disk must not stop the computation
        warnings.warn(f"A compiled program could not be written to {path}: {error}.", stacklevel=5)
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
