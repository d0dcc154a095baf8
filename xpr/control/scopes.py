"""Names for parts of programs, and evaluation while tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from typing import Any, TypeVar

from xpr.core.avals import describe
from xpr.core.interpreter import Trace, Tracer, context, current
from xpr.core.primitive import Primitive
from xpr.transforms.flat import named_like

F = TypeVar("F", bound=Callable[..., Any])


class named_scope(ContextDecorator):
    """A context manager, and a decorator, that names a part of a program.

    The name is for readers of the source only: equations record the user's line and function anyway.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.named_scope("loss"):
    ...     y = jnp.sin(1.0)
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"named_scope: the name must be a string, and is {describe(name)}.")
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def named_call(fun: F, *, name: str | None = None) -> F:
    """A function with another name, which messages and the names of jitted calls use.

    Args:
      fun: the function.
      name: the name; None for the function's own.

    Returns:
      A function of the same arguments and results.

    >>> import xpr
    >>> xpr.named_call(lambda x: x, name="layer").__name__
    'layer'
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    named = named_like(called, fun)
    if name is not None:
        named.__name__ = name
    return named


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A context manager in which operations on known values are evaluated, also while a function is traced.

    Those that depend on traced values are traced as anywhere else.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.jit
    ... def f(x):
    ...     with xpr.ensure_compile_time_eval():
    ...         n = int(jnp.sum(jnp.arange(3)))
    ...     return x * n
    >>> f(2)
    Array(6, dtype=int32, weak_type=True)
    """
    with current(_KnownTrace(context.trace)):
        yield


class _KnownTrace(Trace):
    """Evaluates operations without tracers among their operands; others go to the outer trace."""

    __slots__ = ("evaluator",)

    def __init__(self, parent: Trace):
        super().__init__(parent)
        while parent.parent is not None:
            parent = parent.parent
        self.evaluator = parent

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        is_traced = any(isinstance(x, Tracer) for x in args)
        below = self.parent if is_traced else self.evaluator
        return below.process(primitive, args, params)  # type: ignore[union-attr]  # it has a parent
