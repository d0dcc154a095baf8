"""Names for parts of programs, and evaluation while tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from xpr.core.avals import describe
from xpr.core.interpreter import DependentTrace, Trace, Tracer, context, current, transformations
from xpr.core.primitive import Primitive
from xpr.core.source import function_name, here, in_scopes, scopes_of, without_scopes
from xpr.transforms.flat import named_like

F = TypeVar("F", bound=Callable[..., Any])


class named_scope:
    """A context manager, and a decorator, that names the operations of a part of a program.

    Equations have the names of the scopes around them, as `layer/jvp(loss)`: transformations are written around the
    names within them, or stand alone as `jvp()`. `pretty_print(name_stack=True)` of a jaxpr and
    `as_text(debug_info=True)` of a lowered program show them. Operations that are evaluated at once have none.

    Args:
      name: the name.

    Raises:
      TypeError: the name is no string.

    >>> import xpr, xpr.numpy as jnp
    >>> def loss(x):
    ...     with xpr.named_scope("loss"):
    ...         return jnp.sin(x) * 2
    >>> print(xpr.make_jaxpr(xpr.grad(loss))(1.0).pretty_print(name_stack=True))
    { lambda ; a:f32[]. let
        b:f32[] = sin a        # [jvp(loss)]
        c:f32[] = cos a        # [jvp(loss)]
        _:f32[] = mul b 2.0    # [jvp(loss)]
        d:f32[] = mul 1.0 2.0  # [transpose(jvp(loss))]
        e:f32[] = mul d c      # [transpose(jvp(loss))]
      in (e,) }
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"named_scope: the name must be a string, and is {describe(name)}.")
        self.name = name
        self.entered: list[_ScopeTrace | None] = []

    def __enter__(self) -> None:
        self.entered.append(_enter(self.name))

    def __exit__(self, *error: object) -> None:
        trace = self.entered.pop()
        if trace is not None:
            _leave(trace)

    def __call__(self, fun: F) -> F:
        return _within(self.name, fun)


def _within(name: str, fun: F) -> F:
    """The function, whose operations are in the scope of a name."""

    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name):
            return fun(*args, **kwargs)

    return named_like(named, fun)  # type: ignore[no-any-return]  # a function of the same type


class _ScopeTrace(DependentTrace):
    """Passes operations on, in the scope of a name.

    `names` also has the transformations between this scope and the one around it, or the scopes of the operation whose
    rule entered this one. `source` is that operation's line, which has no names until the scope ends.
    """

    __slots__ = ("names", "source")
    names_equations = True

    def __init__(self, parent: Trace, name: str):
        super().__init__(parent)
        self.source = context.source
        self.names = (*(scopes_of(self.source) or transformations(parent)), name)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        before = context.source
        context.source = in_scopes(self.names, before or here())
        try:
            return self.parent.process(primitive, args, params)
        finally:
            context.source = before


def _enter(name: str) -> _ScopeTrace | None:
    """Begins a scope, below the traces that act for the current transformation; None where nothing is traced."""
    if context.trace.parent is None:
        return None
    above, trace = None, context.trace
    while not trace.of_transformation and not isinstance(trace, _ScopeTrace):
        above, trace = trace, trace.parent  # type: ignore[assignment]  # a dependent trace has a parent
    scope = _ScopeTrace(trace, name)
    context.source = without_scopes(scope.source)
    if above is None:
        context.trace = scope
    else:
        above.parent = scope
    return scope


def _leave(scope: _ScopeTrace) -> None:
    """Ends a scope; traces that began in it and act further, as those of masks, then act for its parent."""
    context.source = scope.source
    if context.trace is scope:
        context.trace = scope.parent
        return
    trace: Trace | None = context.trace
    while trace is not None and trace.parent is not scope:
        trace = trace.parent
    if trace is not None:
        trace.parent = scope.parent


def named_call(fun: F, *, name: str | None = None) -> F:
    """A function with another name, that of the scope of its operations, and of its calls where it is jitted.

    Args:
      fun: the function.
      name: the name; None for the function's own. See `named_scope`.

    Returns:
      A function of the same arguments and results.

    >>> import xpr
    >>> xpr.named_call(lambda x: x, name="layer").__name__
    'layer'
    """

    scope = function_name(fun) if name is None else name
    named = _within(scope, fun)
    named.__name__ = scope
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
    if context.trace.parent is None:  # the bottom one, which evaluates
        yield
    else:
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

    def constant_of(self, value: Any) -> Any:
        return value

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        is_traced = any(isinstance(x, Tracer) for x in args)
        below = self.parent if is_traced else self.evaluator
        return below.process(primitive, args, params)  # type: ignore[union-attr]  # it has a parent
