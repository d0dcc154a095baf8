"""The options of `jit`: static and donated arguments by number and name, compiler options, and where to run."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from xpr import tree
from xpr.core.avals import describe
from xpr.core.source import describe_function

OWN_OPTIONS = frozenset({"reroll", "steps"})  # compiler options of xpr's own; all others are XLA's


@dataclass(frozen=True, eq=False)
class JitOptions:
    """How a function is jitted; the arguments of `jit`, checked.

    Attributes:
      static_argnums, static_argnames: the positions and the names of static arguments.
      donate_argnums, donate_argnames: the same of donated ones.
      device, backend: where to run; None for what `jit` was not told.
      own_options, xla_options: compiler options of xpr's own, and XLA's or None.
      in_shardings, out_shardings: pytree prefixes of arguments and results.
      in_layouts, out_layouts: pytree prefixes of their layouts; None where no `Format` has one.
      out_memory: `out_shardings` where one of them names another memory than the device's; else None.
      inline: whether calls in programs are replaced by the function's equations.
    """

    static_argnums: tuple[int, ...]
    static_argnames: frozenset[str]
    donate_argnums: tuple[int, ...]
    donate_argnames: frozenset[str]
    device: Any
    backend: str | None
    own_options: dict[str, bool]
    xla_options: dict[str, Any] | None
    in_shardings: Any
    out_shardings: Any
    in_layouts: Any
    out_layouts: Any
    out_memory: Any
    inline: bool

    @property
    def has_layouts(self) -> bool:
        """Whether a layout in memory is asked for."""
        return self.in_layouts is not None or self.out_layouts is not None

    @property
    def static(self) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
        """The positions and the names of static arguments; None where there are none."""
        if not self.static_argnums and not self.static_argnames:
            return None
        return self.static_argnums, tuple(sorted(self.static_argnames))

    def key(self) -> tuple[Any, ...]:
        """The options as a part of cache keys."""
        layouts = self.in_layouts, self.out_layouts
        trees = self.own_options, self.xla_options, self.in_shardings, self.out_shardings, layouts, self.out_memory
        leaves, structure = tree.flatten(trees, is_leaf=lambda x: x is None)
        return (
            self.static_argnums, self.static_argnames, self.donate_argnums, self.donate_argnames, self.device,
            self.backend, self.inline, *leaves, structure,
        )  # fmt: skip

    __fingerprint__ = (
        "static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "device", "backend", "own_options",
        "xla_options", "in_shardings", "out_shardings", "in_layouts", "out_layouts", "out_memory", "inline",
    )  # fmt: skip


def check_options(verb: str, options: Any) -> None:
    """Raises TypeError if `options` is not a dict."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"{verb}: compiler_options is a dict of XLA options by name, and is {describe(options)}.")


def split_options(options: dict[str, Any] | None) -> tuple[dict[str, bool], dict[str, Any] | None]:
    """Splits compiler options into xpr's own and XLA's.

    Raises:
      ValueError: an option of xpr's is not a bool.
    """
    own_options = {name: chosen for name, chosen in (options or {}).items() if name in OWN_OPTIONS}
    for name, chosen in own_options.items():
        if type(chosen) is not bool:
            raise ValueError(f"jit: the compiler option {name!r} must be True or False, and is {chosen!r}.")
    return own_options, {name: chosen for name, chosen in (options or {}).items() if name not in own_options} or None


def read_once(option: Any) -> Any:
    """`static_argnums` or the like, which is read several times: an iterator as a tuple, anything else as it is."""
    return tuple(option) if isinstance(option, Iterator) else option


def numbers_of(option: int | Sequence[int] | None, name: str) -> tuple[int, ...]:
    """`static_argnums` or the like, of this name, as a tuple.

    Raises:
      TypeError: it holds something else than integers.
    """
    if option is None:
        return ()
    try:
        return tuple(map(operator.index, option if isinstance(option, Iterable) else (option,)))
    except TypeError:
        raise TypeError(f"jit: {name} must be an integer or a sequence of integers, and is {option!r}.") from None


def names_of(option: str | Sequence[str] | None, name: str) -> tuple[str, ...]:
    """`static_argnames` or the like, of this name, as a tuple.

    Raises:
      TypeError: it holds something else than strings.
    """
    if option is None:
        return ()
    names = tuple(option) if isinstance(option, Iterable) and not isinstance(option, str) else (option,)
    if not all(isinstance(each, str) for each in names):
        raise TypeError(f"jit: {name} must be a string or a sequence of strings, and is {option!r}.")
    return names


class _Parameters(NamedTuple):
    """The parameters of a function, as far as arguments can be matched with them.

    Attributes:
      positional: the names of those that take an argument by position.
      keywords: the names of those that take an argument by name, in order.
      others: the names of those that take none by name: positional-only ones, and `args` for `*args`.
      has_args: whether there is one for any further positional arguments.
      has_kwargs: whether there is one for any further keyword arguments.
    """

    positional: list[str]
    keywords: list[str]
    others: list[str]
    has_args: bool
    has_kwargs: bool


def _parameters_of(fun: Callable[..., Any]) -> _Parameters | None:
    """The parameters of a function; None where it has no signature."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return None
    others = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    return _Parameters(
        [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
        [p.name for p in parameters if p.name not in others],
        others,
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def by_number_and_name(
    fun: Callable[..., Any],
    kind: Literal["static", "donate"],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of the same parameters, so that an argument is matched however it is passed.

    If both are given they are returned unchanged.

    Raises:
      TypeError: numbers are no integers, or names no strings.
      ValueError: the function has no such parameter; or it has no signature, and arguments are donated by name.
    """
    numbers, names = numbers_of(argnums, f"{kind}_argnums"), names_of(argnames, f"{kind}_argnames")
    if not numbers and not names:
        return numbers, names
    parameters = _parameters_of(fun)
    if parameters is None:
        if names and kind == "donate":
            raise ValueError(
                f"jit: donate_argnames names {', '.join(map(repr, names))}. Getting the signature of function "
                f"{describe_function(fun)}, which says which argument that is, failed. Pass donate_argnums instead of "
                "donate_argnames."
            )
        return numbers, names
    _check_parameters(fun, kind, parameters, numbers, names)
    if argnums is not None and argnames is not None:
        return numbers, names
    positional = parameters.positional
    in_range = [n for n in numbers if -len(positional) <= n < len(positional)]
    all_names = dict.fromkeys([*names, *(positional[n] for n in in_range)])
    all_numbers = dict.fromkeys([*numbers, *(positional.index(name) for name in names if name in positional)])
    return tuple(all_numbers), tuple(all_names)


def _check_parameters(
    fun: Callable[..., Any], kind: str, parameters: _Parameters, numbers: Sequence[int], names: Sequence[str]
) -> None:
    """Raises ValueError where a function has no parameter of one of the numbers or names."""
    count = len(parameters.positional)
    for n in numbers:
        if not parameters.has_args and not -count <= n < count:
            raise ValueError(
                f"jit: {kind}_argnums has {n}, and {describe_function(fun)} takes {count} positional arguments."
            )
    for name in names:
        if name not in parameters.keywords and (not parameters.has_kwargs or name in parameters.others):
            raise ValueError(
                f"jit: {kind}_argnames has {name!r}, and the names by which {describe_function(fun)} takes arguments "
                f"are {', '.join(parameters.keywords) or 'none'}."
            )
