"""`jax.extend.linear_util`: functions wrapped in a list of transformations, the form JAX's own transformations use.

`wrap_init(f, debug_info=...)` returns one; a function decorated with `transformation2` wraps one, and `call_wrapped`
runs all. xpr's own transformations don't use them: this is for programs that do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = [
    "StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation", "transformation2",
    "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]  # fmt: skip


class StoreException(Exception):
    """A store was read before it was written, or written twice."""


class Store:
    """The auxiliary output of a transformation, written once."""

    _EMPTY = object()

    def __init__(self) -> None:
        self._val: Any = self._EMPTY

    def store(self, val: Any) -> None:
        if self._val is not self._EMPTY:
            raise StoreException("The store is full already.")
        self._val = val

    @property
    def val(self) -> Any:
        if self._val is self._EMPTY:
            raise StoreException("The store is empty: the function has not been called yet.")
        return self._val

    def reset(self) -> None:
        self._val = self._EMPTY

    def __bool__(self) -> bool:
        return self._val is not self._EMPTY


class WrappedFun:
    """A function with transformations around it."""

    def __init__(
        self, f: Callable[..., Any], f_transformed: Callable[..., Any], transforms: tuple[Any, ...], debug_info: Any
    ):
        self.f, self.f_transformed, self.transforms, self.debug_info = f, f_transformed, transforms, debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(self, transform: Callable[..., Any], args: tuple[Any, ...], store: Store | None = None) -> WrappedFun:
        """The function with one more transformation: `transform(f, [store,] *args, *arguments of the call)`."""
        bound = (store, *args) if store is not None else args
        transformed = functools.partial(transform, self.f_transformed, *bound)
        return WrappedFun(self.f, transformed, ((transform, args), *self.transforms), self.debug_info)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function with its transformations."""
        return self.f_transformed(*args, **kwargs)

    def _key(self) -> Any:
        return self.f, self.transforms

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()

    def __repr__(self) -> str:
        return "\n".join(
            [*(f"{transform.__name__} {args}" for transform, args in self.transforms), f"Core: {self.__name__}"]
        )


def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None) -> WrappedFun:
    """A function without transformations yet; `params` are keyword arguments of every call."""
    fun = functools.partial(f, **params) if params else f
    return WrappedFun(f, fun, (), debug_info)


def transformation2(gen: Callable[..., Any], fun: WrappedFun | None = None, *args: Any) -> Any:
    """A decorator: `gen(f, *args, *arguments)` calls f itself. The result takes a `WrappedFun` and `args`."""
    if fun is None:
        return functools.partial(transformation2, gen)
    return fun.wrap(gen, args)


def transformation_with_aux2(
    gen: Callable[..., Any],
    fun: WrappedFun | None = None,
    *args: Any,
    use_eq_store: bool = False,
    unk_names: bool = False,
) -> Any:
    """`transformation2` with a store: `gen(f, store, *args, *arguments)`. Returns the function and a thunk."""
    if fun is None:
        return functools.partial(transformation_with_aux2, gen)
    store = Store()
    return fun.wrap(gen, args, store), lambda: store.val


def _run_generator(generator: Callable[..., Any], f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A transformation written as a generator: it yields the arguments, receives the result, and yields a result."""
    running = generator(*args, **kwargs)
    inner_args, inner_kwargs = next(running)
    return running.send(f(*inner_args, **inner_kwargs))


def transformation(gen: Callable[..., Any], fun: WrappedFun | None = None, *args: Any) -> Any:
    """`transformation2` of a generator, which yields the arguments and then the result."""
    if fun is None:
        return functools.partial(transformation, gen)

    @functools.wraps(gen)
    def transform(f: Callable[..., Any], *rest: Any, **kwargs: Any) -> Any:
        return _run_generator(gen, f, rest, kwargs)

    return fun.wrap(transform, args)


def transformation_with_aux(gen: Callable[..., Any], fun: WrappedFun | None = None, *args: Any) -> Any:
    """`transformation_with_aux2` of a generator, which yields the arguments and then (result, what is stored)."""
    if fun is None:
        return functools.partial(transformation_with_aux, gen)
    store = Store()

    @functools.wraps(gen)
    def transform(f: Callable[..., Any], *rest: Any, **kwargs: Any) -> Any:
        result, aux = _run_generator(gen, f, rest, kwargs)
        store.store(aux)
        return result

    return fun.wrap(transform, args), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """The value of the one of two thunks that has one: (True, value) of the first, (False, value) of the second."""
    try:
        return True, aux1()
    except StoreException:
        return False, aux2()


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """Caches `call(fun, *args)` by the function with its transformations, and the arguments; nothing is explained."""
    known: dict[Any, Any] = {}

    @functools.wraps(call)
    def remembered(fun: WrappedFun, *args: Any) -> Any:
        key = (fun, args)
        if key not in known:
            known[key] = call(fun, *args)
        return known[key]

    remembered.cache_clear = known.clear  # type: ignore[attr-defined]  # as functools names it
    return remembered
