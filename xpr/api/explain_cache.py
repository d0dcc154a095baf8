"""explain_cache: whether another process finds the programs of a jitted function on disk, and else why not."""

from __future__ import annotations

from typing import Any

from xpr.api.jit import JitFunction
from xpr.api.stored_calls import StoredCall, check_circumstances, check_library, refusing_errors, visit_function
from xpr.compile.committed import device_of
from xpr.config import settings
from xpr.core.avals import aval_of
from xpr.core.source import describe_function
from xpr.fingerprint.walk import Refused, Walk

__all__ = ["explain_cache"]


def explain_cache(fun: Any, *args: Any, **kwargs: Any) -> str:
    """Whether the next process finds the compiled programs of a function on disk without tracing it; else why not.

    A process that calls a jitted function for the first time looks for its program in `config.compilation_cache_dir`,
    by a hash of the function's code and of all that the code reaches, of the types of its arguments, the settings, and
    the releases of libraries. Where not all that a function reads can be told from its code, it is traced.

    Args:
      fun: what `jit` returned.
      *args: arguments of a call that is asked about; without any it is the function's last call in this process, or, if
        there was none, the function by itself.
      **kwargs: its keyword arguments.

    Returns:
      The answer, with the line of the function that is in the way.

    Raises:
      TypeError: `fun` is no jitted function.

    >>> import xpr
    >>> @xpr.jit
    ... def f(x):
    ...     print("tracing", x)
    ...     return 2 * x
    >>> print(xpr.debug.explain_cache(f))  # doctest: +ELLIPSIS
    f at ... is traced in each process: f at ... uses print, which is not known to be pure.
    """
    if not isinstance(fun, JitFunction):
        raise TypeError(f"explain_cache takes what jit returned, and got {fun!r}. Pass the jitted function itself.")
    described = describe_function(fun.fun)
    reason = _reason(fun, args, kwargs) or ""
    if not reason and not settings.programs_folder:
        reason = "no folder for programs is set (compilation_cache_dir)"
    if reason:
        return f"{described} is traced in each process: {reason}."
    return (
        f"{described} is not traced in processes that find its program on disk: all that it reads is known from its "
        "code, and a part of the key."
    )


def _reason(fun: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    if args or kwargs:
        call = fun.flattened(args, kwargs)
        call.typed(list(map(aval_of, call.leaves)))
        return StoredCall(fun, call, fun.device() or device_of(call.leaves)).reason
    if fun.caches.reason is not None:
        return fun.caches.reason
    try:
        check_circumstances(fun)
        walk = Walk()
        with refusing_errors():
            visit_function(walk, fun)
            walk.digest()
        check_library()
    except Refused as error:
        return str(error)
    return None
