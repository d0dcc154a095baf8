"""Settings of glibc's allocator under which large CPU results are not paged in anew each time.

By default glibc gives every block above 32 MB back to the system when it is freed and the next one costs its page
faults again. Keeping freed memory makes results above 32 MB 6 to 10 times faster, at the price that the process stays
at its peak size until `release_memory()`. All of it has to be set before the client's threads exist: they take their
memory from heaps of at most 64 MB of their own unless there is one arena only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # the parameters of mallopt(3)
_LARGEST_INT = 2**31 - 1


def tune_allocator() -> bool:
    """Makes the allocator keep freed memory; gives whether it did.

    Nothing is done off Linux with glibc, where the user chose an allocator or its settings (GLIBC_TUNABLES, MALLOC_*,
    LD_PRELOAD), or with XPR_TUNE_ALLOCATOR=0.
    """
    if not _is_ours_to_tune():
        return False
    libc = ctypes.CDLL(None)
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    libc.mallopt(_ARENA_MAX, 1)
    libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(_TRIM_THRESHOLD, min(_LARGEST_INT, ram // 8))
    return True


def _is_ours_to_tune() -> bool:
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    if os.environ.get("XPR_TUNE_ALLOCATOR", "1").strip().lower() in ("0", "false", "no", "off"):
        return False
    chosen = ("GLIBC_TUNABLES", "LD_PRELOAD")
    return not any(name in chosen or name.startswith("MALLOC_") for name in os.environ)


def release_memory() -> None:
    """Gives freed memory back to the system."""
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
