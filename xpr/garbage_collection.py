"""Python's garbage collection while the library is imported, and while it traces and compiles functions.

The collector looks through all containers that were made since it ran last, each time there are 700 more (in Python
3.11), and now and then through all there are. What modules and jaxprs consist of lives on, so that is in vain: it took
a tenth of the time of an import, and a fifth of that in which a large model is traced.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
RARE = 100_003  # containers, some ten megabytes of them; a number that nobody else chooses


@contextmanager
def without_collections() -> Iterator[None]:
    """Within it there is no collection, and what there is at its end belongs to the oldest generation.

    So does what the user has made before, which the next full collection looks through.
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


def collect_rarely() -> int:
    """From now on there is a collection each time there are `RARE` more containers.

    Returns:
      For `collect_as_before`: how many there were until now, or 0 where nothing changes.
    """
    number, *others = gc.get_threshold()
    if not 0 < number < RARE:  # there are no collections, or a caller has seen to it
        return 0
    gc.set_threshold(RARE, *others)
    return number


def collect_as_before(number: int) -> None:
    """Ends `collect_rarely`; what the user has set meanwhile stays."""
    current, *others = gc.get_threshold()
    if number and current == RARE:
        gc.set_threshold(number, *others)


def with_rare_collections(fun: F) -> F:
    """A function during whose calls collections are rare."""

    @wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        number = collect_rarely()
        try:
            return fun(*args, **kwargs)
        finally:
            collect_as_before(number)

    return wrapper  # type: ignore[return-value]  # which has the type of `fun`
