"""How a public name is deprecated: it goes on working for a while, and warns with what to use in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from xpr.notices import warn

__all__ = ["deprecated"]

F = TypeVar("F", bound=Callable[..., Any])


def deprecated(replacement: str, *, removed_in: str) -> Callable[[F], F]:
    """A decorator for a function that will be removed: its calls warn, at the line of the caller.

    Args:
      replacement: what to use instead, as users write it.
      removed_in: the version that will not have the function any more.

    >>> import warnings
    >>> from xpr.deprecation import deprecated
    >>> @deprecated("jnp.sort(x)", removed_in="0.3")
    ... def sorted_array(x):
    ...     return x
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = sorted_array([1])
    >>> print(caught[0].category.__name__, caught[0].message, sep=": ")
    DeprecationWarning: sorted_array is deprecated, and will be removed in xpr 0.3. Use jnp.sort(x) instead.
    """

    def decorate(fun: F) -> F:
        message = f"{fun.__name__} is deprecated, and will be removed in xpr {removed_in}. Use {replacement} instead."

        @functools.wraps(fun)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            warn(message, DeprecationWarning, stacklevel=2)
            return fun(*args, **kwargs)

        wrapper.__deprecated__ = message  # type: ignore[attr-defined]  # PEP 702's name, which tools show
        wrapper.__removed_in__ = removed_in  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]  # of the same signature

    return decorate
