"""debug.print: values of a running program, formatted on the host."""

from __future__ import annotations

import logging
import re
import string
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xpr.control.callback.callback import bind_debug_callback, refuse_early_arguments
from xpr.control.callback.host_call import flatten_call, is_array
from xpr.core.avals import describe


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints values while a program runs: `fmt.format(*args, **kwargs)`, once the values are known.

    Under `vmap` it prints a line for each row, under `grad` the primal values.

    Args:
      fmt: a format string, `"x is {}"` or `"loss {loss:.3f}"`; never an f-string, which is formatted while tracing.
        Without it, `debug.print(ordered=True)` returns a function that takes the other arguments.
      *args: pytrees of arrays, and anything else, to format.
      ordered: whether it is run in order with the other ordered callbacks.
      partitioned: whether each device prints its parts of the arrays, in a program on several devices; otherwise whole
        arrays are printed once. In `shard_map` and `pmap` each device prints its part in any case.
      skip_format_check: whether not to check before running that the format string fits the arguments.
      **kwargs: pytrees of arrays, and anything else, to format by name.

    Returns:
      None.

    Raises:
      IndexError: the format asks for a positional argument that is not given.
      KeyError: the format asks for a keyword argument that is not given.
      TypeError: there are other arguments, and no format.
      ValueError: an argument is not used, `fmt` is an f-string, or it is both ordered and partitioned.

    >>> import xpr
    >>> @xpr.jit
    ... def f(x):
    ...     xpr.debug.print("x is {}, its square {y:.2f}", x, y=x * x)
    ...     return x
    >>> _ = f(1.5)
    x is 1.5, its square 2.25
    """
    if fmt is None:
        refuse_early_arguments("debug.print", args, kwargs)
        return partial(_print, _write, ordered, partitioned, skip_format_check)
    return _print(_write, ordered, partitioned, skip_format_check, fmt, *args, **kwargs)


def debug_log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Logs values while a program runs, with level INFO, to the logger "xpr.debug".

    Args:
      fmt: as for `debug.print`.
      *args: as for `debug.print`.
      ordered: as for `debug.print`.
      partitioned: as for `debug.print`.
      skip_format_check: as for `debug.print`.
      **kwargs: as for `debug.print`.

    Returns:
      None.

    >>> import logging, xpr
    >>> logging.getLogger("xpr.debug").info("the logger")
    >>> xpr.debug.log("x is {}", 1.5)
    """
    if fmt is None:
        refuse_early_arguments("debug.log", args, kwargs)
        return partial(_print, _LOGGER.info, ordered, partitioned, skip_format_check)
    return _print(_LOGGER.info, ordered, partitioned, skip_format_check, fmt, *args, **kwargs)


_LOGGER = logging.getLogger("xpr.debug")


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print(
    write: Callable[[str], None],
    ordered: bool,
    partitioned: bool,
    skip_format_check: bool,
    fmt: str,
    /,
    *args: Any,
    **kwargs: Any,
) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print takes a format string first, and got {describe(fmt)}.")
    if not skip_format_check:
        _check_format(fmt, args, kwargs)
    call, operands = flatten_call("debug.print", _Printer(fmt, write), args, kwargs, None, is_array)
    bind_debug_callback("debug.print", operands, call, ordered, partitioned)


class _Printer:
    """Formats and prints values, with NumPy's print options as they were when it was created."""

    __slots__ = ("__name__", "fmt", "options", "write")

    def __init__(self, fmt: str, write: Callable[[str], None]):
        self.fmt, self.write, self.options = fmt, write, np.get_printoptions()
        self.__name__ = f"print {fmt!r}"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**self.options):
            self.write(self.fmt.format(*args, **kwargs))


class _Checker(string.Formatter):
    """Formats without the values, which aren't known yet."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return value

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        positions = [str(i) for i in range(len(args)) if i not in used_args]
        names = [name for name in kwargs if name not in used_args]
        unused = [("positional", positions), ("keyword", names)]
        if positions or names:
            texts = [f"Unused {kind} arguments to `jax.debug.print`: {each}" for kind, each in unused if each]
            raise ValueError("; ".join(texts))


def _check_format(fmt: str, args: Any, kwargs: Any) -> None:
    if re.search(r"\b(Jit|Vmap|JVP|Grad)Tracer\(", fmt):
        raise ValueError(
            f"debug.print: the format {fmt!r} holds the text of a traced value. You may be passing an f-string, which "
            'is formatted before there are values. Write debug.print("x is {x}", x=x).'
        )
    try:
        _Checker().vformat(fmt, args, kwargs)
    except (IndexError, KeyError, ValueError) as error:
        what = f"argument {error} is missing" if isinstance(error, KeyError) else str(error)
        raise type(error)(
            f"debug.print: the format {fmt!r} does not fit {len(args)} arguments and {sorted(kwargs)} by name: {what}."
        ) from None
