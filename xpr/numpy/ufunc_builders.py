"""Builders of NumPy's elementwise functions: promotion of dtypes, broadcasting of shapes, then one primitive.

A binary function first tries the two cases that nearly all calls are: operands of one dtype and compatible shapes, and
an array beside a Python scalar.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from xpr.config import settings
from xpr.core.avals import aval_of
from xpr.dtypes import COMPLEX, INEXACT, bool_, promote_all
from xpr.numpy.promotion import (
    SCALARS,
    as_operand,
    convert,
    converter,
    promote_inexact,
    promote_ranks,
    promoted_pair,
    strong_unless_scalar,
    truth,
)
from xpr.primitives import elementwise as e
from xpr.primitives.slicing import select


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__module__ = sys._getframe(2).f_globals["__name__"]  # where it stands, for pickles and doctests
    return function


_F = TypeVar("_F", bound=Callable[..., Any])


def alias(function: _F, name: str) -> _F:
    """The same function under another name, by which tables of functions distinguish the two."""
    assert isinstance(function, FunctionType)
    parts = function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    same: Any = FunctionType(*parts)
    functools.update_wrapper(same, function)
    del same.__wrapped__
    same.__dict__.update(function.__dict__)  # where that is decorated, what it wraps
    same.__name__ = same.__qualname__ = name
    same.__kwdefaults__ = function.__kwdefaults__
    same.__doc__ = f"Alias of `{function.__name__}`: {function.__doc__}"
    return same


def float_unary(name: str, primitive: Any, doc: str) -> Callable[[Any], Any]:
    """A function of floats: integers and booleans are converted first."""
    bind = primitive.bind

    def function(x: Any, /) -> Any:
        aval = getattr(x, "aval", None)
        if aval is not None and aval.dtype in INEXACT:
            return bind(x)
        return bind(*promote_inexact(x))

    return _named(function, name, doc)


def fast_pair(bind: Callable[..., Any], slow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`bind(x, y)` for operands that need no conversion, or a scalar's only; `slow(x, y)` otherwise."""

    def function(x: Any, y: Any, /) -> Any:
        a = getattr(x, "aval", None)
        b = getattr(y, "aval", None)
        if a is not None:
            if b is not None:
                if a is b or (
                    a.dtype is b.dtype
                    and a.weak_type is b.weak_type
                    and (a.shape == b.shape or not a.shape or not b.shape)
                ):
                    return bind(x, y)
            elif type(y) in SCALARS:
                take = converter(a, type(y))
                if take is not None:
                    return bind(x, take(y))
        elif b is not None and type(x) in SCALARS:
            take = converter(b, type(x))
            if take is not None:
                return bind(take(x), y)
        return slow(x, y)

    return function


def binary(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays in the dtype to which they promote and the shape to which they broadcast."""
    bind = primitive.bind
    return _named(fast_pair(bind, lambda x, y: bind(*promoted_pair(x, y, primitive.name))), name, doc)


def ordering(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """A comparison by order: complex numbers by their real parts, then by their imaginary parts."""
    bind = primitive.bind

    def slow(x: Any, y: Any) -> Any:
        x, y = promoted_pair(x, y, primitive.name)
        if aval_of(x).dtype not in COMPLEX:
            return bind(x, y)
        left, right = e.real(x), e.real(y)
        return select(e.eq(left, right), bind(e.imag(x), e.imag(y)), bind(left, right))

    ready = fast_pair(bind, slow)

    def function(x: Any, y: Any, /) -> Any:
        aval = getattr(x, "aval", None) or getattr(y, "aval", None)
        return slow(x, y) if aval is None or aval.dtype in COMPLEX else ready(x, y)

    return _named(function, name, doc)


def float_binary(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """A function of two arrays of floats."""
    bind = primitive.bind
    slow = lambda x, y: bind(*promote_ranks(*promote_inexact(x, y), name=primitive.name))  # noqa: E731  # one expression, used once
    ready = fast_pair(bind, slow)

    def function(x: Any, y: Any, /) -> Any:
        aval = getattr(x, "aval", None) or getattr(y, "aval", None)
        return ready(x, y) if aval is not None and aval.dtype in INEXACT else slow(x, y)

    return _named(function, name, doc)


def or_logical(
    name: str, primitive: Any, logical: Any, doc: str, with_mask: Callable[[Any, Any], Any] | None = None
) -> Callable[[Any, Any], Any]:
    """An arithmetic function that is a logical one for booleans.

    Of booleans and floats it is `with_mask(booleans, floats)`, if that is given and the setting `exact_masks` is off.
    """
    bind, bind_logical = primitive.bind, logical.bind

    def slow(x: Any, y: Any) -> Any:
        if with_mask is not None and not settings.exact_masks:
            for mask, other in ((x, y), (y, x)):
                if aval_of(mask).dtype == bool_ and aval_of(other).dtype in INEXACT:
                    return with_mask(mask, other)
        x, y = promoted_pair(x, y, primitive.name)
        return (bind_logical if aval_of(x).dtype == bool_ else bind)(x, y)

    ready = fast_pair(bind, slow)

    def function(x: Any, y: Any, /) -> Any:
        aval = getattr(x, "aval", None)
        return slow(x, y) if aval is None or aval.dtype is bool_ else ready(x, y)

    return _named(function, name, doc)


def logical(name: str, primitive: Any, doc: str) -> Callable[[Any, Any], Any]:
    """A logical function: operands are compared with 0 first. Of weak scalars that are not booleans it is weak."""

    def function(x: Any, y: Any, /) -> Any:
        x, y = as_operand(x), as_operand(y)
        a, b = aval_of(x), aval_of(y)
        dtype, weak = promote_all([(a.dtype, a.weak_type), (b.dtype, b.weak_type)])
        result = primitive.bind(*promote_ranks(truth(not_zero(x)), truth(not_zero(y)), name=primitive.name))
        return convert(result, bool_, weak) if weak and dtype != bool_ and not (a.shape or b.shape) else result

    return _named(function, name, doc)


def not_zero(x: Any) -> Any:
    """Whether each element is not 0, weak where `x` is a weak scalar; booleans as they are."""
    x = strong_unless_scalar(as_operand(x))
    return x if aval_of(x).dtype == bool_ else e.ne(x, e.scalar(0, x))
