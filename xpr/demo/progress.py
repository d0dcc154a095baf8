"""A progress bar in a few lines: redrawn in place on a terminal, a few plain lines anywhere else."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

Item = TypeVar("Item")

WIDTH = 30
PLAIN_LINES = 5


def progress(
    items: Iterable[Item], total: int, describe: Callable[[Item], str], out: TextIO | None = None
) -> Iterator[Item]:
    """Passes on `items`, of which `total` are expected, and writes what `describe` says of each to `out` (stdout)."""
    out = out or sys.stdout
    live = out.isatty()
    every = max(1, total // PLAIN_LINES)
    start = time.perf_counter()

    for done, item in enumerate(items, start=1):
        line = f"{done:4d}/{total}  {describe(item)}  {time.perf_counter() - start:.1f} s"
        if live:
            out.write(f"\r{bar(done / total)} {line}\x1b[K")
        elif done % every == 0 or done == total:
            out.write(f"{line}\n")
        out.flush()
        yield item

    if live:
        out.write("\n")


def bar(share: float) -> str:
    """`share` of the whole, from 0 to 1, as a bar."""
    full = round(WIDTH * share)
    return "[" + "#" * full + "." * (WIDTH - full) + "]"
