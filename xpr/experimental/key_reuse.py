"""`jax.experimental.key_reuse`: random keys that are used twice are found while `xpr.debug_key_reuse` is on.

`check_key_reuse` looks at a function without running it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.api.make_jaxpr import make_jaxpr
from xpr.core.lines import with_lines
from xpr.passes.key_reuse import key_uses

__all__ = ["check_key_reuse"]


def check_key_reuse(fun: Callable[..., Any], /, *args: Any) -> None:
    """Raises an error if a function uses a random key twice.

    Args:
      fun: a function of pytrees of arrays; it is traced.
      *args: its arguments.

    Returns:
      None.

    Raises:
      KeyReuseError: it uses a key twice.

    >>> from xpr import random
    >>> from xpr.experimental.key_reuse import check_key_reuse
    >>> check_key_reuse(lambda key: [random.normal(k) for k in random.split(key)], random.key(0))
    """
    key_uses(with_lines(make_jaxpr(fun)(*args).jaxpr))
