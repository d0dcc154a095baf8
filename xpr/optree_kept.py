"""optree, imported so that it works until Python ends.

By itself optree forgets what tuples, lists and dicts are when Python exits, before handlers of `atexit` run that were
registered earlier; a jitted function called by one of those would take its arguments for leaves.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

_register = atexit.register


def _unless_built_in(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return function if type(function) is BuiltinFunctionType else _register(function, *args, **kwargs)


atexit.register = _unless_built_in  # type: ignore[assignment]
try:
    import optree as optree
    from optree import PyTreeKind as PyTreeKind
    from optree.utils import total_order_sorted as total_order_sorted
finally:
    atexit.register = _register
