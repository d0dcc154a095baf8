"""What the options of `jit` say: which arguments are meant, by number and by name, and how to compile."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpr.core.avals import describe
from xpr.core.source import describe_function

OWN_OPTIONS = frozenset({"reroll", "steps"})  # of compiling; the others are XLA's


def check_options(verb: str, options: Any) -> None:
    """Raises TypeError where `options` is no dict."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"{verb}: compiler_options is a dict of XLA options by name, and is {describe(options)}.")


def own_options(options: dict[str, Any] | None) -> tuple[dict[str, bool], dict[str, Any] | None]:
    """The options that are ours, and those that are XLA's.

    Raises:
      ValueError: one of ours is not a bool.
    """
    own = {name: chosen for name, chosen in (options or {}).items() if name in OWN_OPTIONS}
    for name, chosen in own.items():
        if type(chosen) is not bool:
            raise ValueError(f"jit: the compiler option {name!r} must be True or False, and is {chosen!r}.")
    return own, {name: chosen for name, chosen in (options or {}).items() if name not in own} or None


def numbers_of(given: int | Sequence[int] | None) -> tuple[int, ...]:
    """`static_argnums` and the like as a tuple."""
    return () if given is None else (given,) if isinstance(given, int) else tuple(given)


def names_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """`static_argnames` and the like as a tuple."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def both_ways(
    fun: Callable[..., Any], argnums: int | Sequence[int] | None, argnames: str | Sequence[str] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of the same parameters, so that an argument counts however it is passed.

    Where both are given they stay as they are.

    Raises:
      ValueError: the function has no such parameter.
    """
    numbers, names = numbers_of(argnums), names_of(argnames)
    if not numbers and not names:
        return numbers, names
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = {p.name for p in parameters}
    for n in numbers:
        if not open_ended and not -len(positional) <= n < len(positional):
            raise ValueError(
                f"jit: static_argnums or donate_argnums has {n}, and {describe_function(fun)} takes "
                f"{len(positional)} positional arguments."
            )
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in names:
        if name not in keywords and not takes_any:
            raise ValueError(
                f"jit: static_argnames or donate_argnames has {name!r}, and the parameters of {describe_function(fun)} "
                f"are {', '.join(p.name for p in parameters)}."
            )
    if argnums is not None and argnames is not None:
        return numbers, names
    in_range = [n for n in numbers if -len(positional) <= n < len(positional)]
    all_names = dict.fromkeys([*names, *(positional[n] for n in in_range)])
    all_numbers = dict.fromkeys([*numbers, *(positional.index(name) for name in names if name in positional)])
    return tuple(all_numbers), tuple(all_names)
