"""Memory that is freed on CPU and kept, so that large results are not paged in anew each time.

By default glibc gives every block above 32 MB back to the system when it is freed, and the next one costs its page
faults again. Keeping freed memory makes results of 32 to 60 MB 5 times faster, and training steps of deep networks 10 %
(their many small blocks come and go too), at the price that the process stays at its peak size until
`release_memory()`.

With glibc's settings alone results above 60 MB are no faster: the client's threads allocate them, whose heaps are
smaller. With one heap for all threads (M_ARENA_MAX) they would be 3 times faster, but compiling 20 % and training steps
10 % slower on two cores, since all threads wait for its lock. So c/large_blocks.c keeps them, where there is native
code; it makes them 5 times faster, and gives them pages of 2 MB instead of 4 KB, without which each new block takes
twice as long. The system takes the pages of what is kept there when it is short of memory, not those that glibc keeps.

Small blocks are kept in C, too, by each thread (c/small_blocks.c): a jitted call of few elements takes 3.7 microseconds
in place of 4.8. Each keeps 2 MB at most, until it ends, and most of them some kilobytes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import sys

from xpr.backend import native

if sys.platform != "win32":
    import resource

_MMAP_THRESHOLD, _TOP_PAD, _TRIM_THRESHOLD = -3, -2, -1  # the parameters of mallopt(3)
_HEAP = 64 << 20  # what a thread's heap holds at most
_LARGEST_INT = 2**31 - 1


def tune_allocator() -> bool:
    """Makes the allocator keep freed memory; returns whether it did.

    Nothing is done off Linux with glibc, where the user chose an allocator (LD_PRELOAD) or settings of it (MALLOC_*,
    GLIBC_TUNABLES with others of glibc.malloc than hugetlb), or with XPR_TUNE_ALLOCATOR=0.
    """
    if not is_untuned_glibc():
        return False
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(_TRIM_THRESHOLD, min(_LARGEST_INT, _memory() // 8))
    libc.mallopt(_TOP_PAD, _HEAP)  # a thread's empty heap is not freed only if this much may stay unused
    native.keep_blocks(_memory() // 8)
    return True


def is_untuned_glibc() -> bool:
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    if os.environ.get("XPR_TUNE_ALLOCATOR", "1").strip().lower() in ("0", "false", "no", "off"):
        return False
    tuned = re.search(r"glibc\.malloc\.(?!hugetlb)", os.environ.get("GLIBC_TUNABLES", ""))
    return not tuned and not any(name == "LD_PRELOAD" or name.startswith("MALLOC_") for name in os.environ)


def _ram() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _memory() -> int:
    """The bytes of the machine, or those that the process may address, if they are fewer (`ulimit -v`)."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return _ram() if most == resource.RLIM_INFINITY else min(_ram(), most)


@functools.cache
def machine_memory() -> int | None:
    """The bytes that a process can have at most, what is swapped out included; None where it is unknown."""
    try:
        with open("/proc/meminfo") as meminfo:
            swap = re.search(r"^SwapTotal: +(\d+) kB", meminfo.read(), re.M)
        return _ram() + (int(swap[1]) << 10 if swap else 0)
    except OSError:
        return None


def release_memory() -> None:
    """Returns freed memory to the system."""
    native.free_large_blocks()
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
