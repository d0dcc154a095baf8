"""Colocated classes: an object here stands for one on the host of devices, which its methods are called of.

The object on the host is made by the first call of a method. Methods are copied like other colocated functions, each
by itself, and their copies find the object by its number. It lives as long as the object here, and what holds its
methods.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from xpr.experimental.colocated_python.functions import Colocated, as_function

__all__ = ["colocated_python_class"]


def colocated_python_class(cls: type[Any]) -> type[Any]:
    """A class whose objects stand for objects of another class, on the host of the devices of their arguments.

    An object is made there by the first call of a method, from copies of the arguments that were passed here. It goes
    when the one here does.

    Args:
      cls: a class. What its methods take and return is as of `colocated_python`.

    Returns:
      A class with its name. Its objects have the methods of `cls`, each with `specialize`, and no other attributes.

    Raises:
      TypeError: `cls` is no class.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.colocated_python import colocated_python_class
    >>> @colocated_python_class
    ... class Sum:
    ...     def __init__(self, start):
    ...         self.total = start
    ...     def add(self, x):
    ...         self.total = self.total + x
    ...         return self.total
    >>> total = Sum(1)
    >>> total.add(jnp.float32(2)), total.add(jnp.float32(3))
    (Array(3., dtype=float32), Array(6., dtype=float32))
    """
    if not isinstance(cls, type):
        raise TypeError(f"colocated_python_class: {cls!r} is no class. Functions are for colocated_python.")
    functions = {name: member for name in dir(cls) if inspect.isfunction(member := getattr(cls, name))}
    methods = {name: function for name, function in functions.items() if name not in _NOT_CALLED_HERE}

    class Standing:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            on_host = _object(next(_numbers))
            for name, like in methods.items():
                method = _Method(on_host, name, cls, args, kwargs)
                setattr(self, name, as_function(Colocated(method, name=name), like))

    standing: Any = Standing
    if "__call__" in methods:  # which Python looks for in the class
        standing.__call__ = lambda self, *args, **kwargs: vars(self)["__call__"](*args, **kwargs)
    functools.update_wrapper(standing.__init__, cls.__init__)
    functools.update_wrapper(standing, cls, updated=())
    return standing


_NOT_CALLED_HERE = ("__init__", "__new__", "__del__", "__reduce__", "__reduce_ex__")


class _OnHost:
    """An object on the host, once it is made, or the error that making it ended with."""

    def __init__(self, number: int) -> None:
        self.number, self.lock = number, threading.RLock()
        self.value: Any = None
        self.error: Exception | None = None
        self.is_made = False

    def __reduce__(self) -> Any:
        return _object, (self.number,)

    def get(self, make: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The object, made by the first call; others wait for it.

        Raises:
          Exception: what making it ended with, at every call.
        """
        with self.lock:
            if not self.is_made:
                self.is_made = True
                try:
                    self.value = make(*args, **kwargs)
                except Exception as error:
                    self.error = error
        if self.error is not None:
            raise self.error
        return self.value


_numbers = itertools.count()
_objects: WeakValueDictionary[int, _OnHost] = WeakValueDictionary()


def _object(number: int) -> _OnHost:
    return _objects.setdefault(number, _OnHost(number))


@dataclass(frozen=True)
class _Method:
    """A method of an object on the host, and what the first one makes the object of."""

    on_host: _OnHost
    name: str
    cls: type[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.on_host.get(self.cls, self.args, self.kwargs), self.name)(*args, **kwargs)
