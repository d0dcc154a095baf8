"""Python's garbage collection while the library is imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Within it nothing is collected, and what there is at its end belongs to the oldest generation.

    Modules, functions and classes live as long as the process. Collections looked through all of them again and again:
    a tenth of the time of an import, and once more as long in the first call of a function.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what the user froze is to stay so
            gc.freeze()
            gc.unfreeze()  # into the oldest generation, whichever it came from
        if was_enabled:
            gc.enable()
