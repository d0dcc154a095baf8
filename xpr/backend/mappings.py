"""The mappings of memory that a process has, and what is done before they run out.

Linux allows a process some 65,000 of them (vm.max_map_count). A compiled program on CPU takes 3 to 50, and where none
is left XLA crashes the process. So when most are taken, all programs that can be compiled again are forgotten.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import cache

_PER_PROGRAM = 200  # mappings, more than a program takes
_MANY, _NEARLY_ALL = 0.7, 0.95  # fractions of the mappings that are allowed

_lock = threading.Lock()
until_count = 64  # programs; a count takes up to 0.1 s
_forget: Callable[[], object] = gc.collect


def when_scarce(forget: Callable[[], object]) -> None:
    """Names the function that forgets programs."""
    global _forget
    _forget = forget


def before_compiling() -> None:
    """Counts a program, and mappings from time to time; forgets programs where these are many.

    Raises:
      MemoryError: nearly all mappings are taken, and no program that could be forgotten has them.
    """
    global until_count
    with _lock:
        until_count -= 1
        if until_count > 0 or (most := allowed()) is None:
            return
        free = int(_MANY * most) - taken()
        until_count = max(16, free // _PER_PROGRAM)
    if free > 0:
        return
    _forget()
    gc.collect()
    kept = taken()
    until_count = max(until_count, (int(_NEARLY_ALL * most) - kept) // _PER_PROGRAM)
    if kept > _NEARLY_ALL * most:
        raise MemoryError(
            f"This process has {kept} mappings of memory, and the system allows it {most}; each compiled program takes "
            "some. Let go of programs that are not needed, such as the results of `compile()`, or have the system "
            f"allow more: sysctl vm.max_map_count={4 * most}."
        )


@cache
def allowed() -> int | None:
    """How many mappings the system allows a process; None where it doesn't say."""
    try:
        with open("/proc/sys/vm/max_map_count") as number:
            return int(number.read())
    except (OSError, ValueError):
        return None


def taken() -> int:
    """How many mappings this process has."""
    with open("/proc/self/maps", "rb") as maps:
        return maps.read().count(b"\n")
