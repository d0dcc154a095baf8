"""Functions that move whole entries take arrays of keys, too, whose entries are rows of words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from xpr import tree
from xpr.core.avals import aval_of, describe
from xpr.core.key_words import is_words, leaves_of_users
from xpr.primitives.shapes import mapped_to
from xpr.transforms.batch import batch_flat
from xpr.transforms.flat import named_like

F = TypeVar("F", bound=Callable[..., Any])


def moves(*names: str) -> Callable[[F], F]:
    """Says of a function that it moves entries, and of which parameters: these may be arrays of keys, all together.

    On arrays of numbers it costs nothing but a call. An array of keys is refused by what the function is made of; then
    it is mapped over the words.
    """

    def decorated(fun: F) -> F:
        def entry(*args: Any, **kwargs: Any) -> Any:
            try:
                return fun(*args, **kwargs)
            except TypeError as error:
                if not any(map(is_words, leaves_of_users((args, kwargs)))):
                    raise
                refused = error
            return _of_keys(fun, names, args, kwargs, refused)

        return named_like(entry, fun)

    return decorated


def _of_keys(
    fun: Callable[..., Any], names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any], refused: TypeError
) -> Any:
    """The function mapped over the words of its arguments."""
    bound = inspect.signature(fun).bind(*args, **kwargs)
    moved = {name: bound.arguments[name] for name in names if name in bound.arguments}
    leaves, structure = tree.flatten(moved, is_leaf=is_words)
    if not any(map(is_words, leaves)):
        raise refused
    numbers = [x for x in leaves if not is_words(x)]
    if numbers:
        keys = next(x for x in leaves if is_words(x))
        raise TypeError(
            f"{fun.__name__}: keys don't mix with anything else, and {keys.str_short()} was given beside "
            f"{describe(numbers[0])}. Give keys for all of them."
        )
    found: list[Any] = []

    def of_words(*rows: Any) -> list[Any]:
        bound.arguments.update(tree.unflatten(structure, rows))
        results, found[:] = fun(*bound.args, **bound.kwargs), []
        outs, out_tree = tree.flatten(results)
        found.append(out_tree)
        return outs

    words = [x.words for x in leaves]
    size = aval_of(words[0]).shape[-1]
    outs, dims = batch_flat(of_words, size, words, [aval_of(x).ndim - 1 for x in words])
    made = type(leaves[0])
    return tree.unflatten(
        found[0],
        [
            made(mapped_to(x, d, size, aval_of(x).ndim - (d is not None))) if hasattr(x, "aval") else x
            for x, d in zip(outs, dims)
        ],
    )
