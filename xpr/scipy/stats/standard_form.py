"""The functions of distributions, derived from those of their standard forms, with loc 0 and scale 1.

A distribution is a module of functions. It writes those of its standard form, and the decorators of this file turn them
into the functions that users call: `cdf(z, a)` becomes `cdf(x, a, loc=0, scale=1)`, where z is
(x - loc) / scale. Arguments are promoted to one floating dtype and broadcast to one shape first. Functions that follow
from others are derived: `pdf = exp_of(logpdf)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

from xpr import numpy as jnp
from xpr.nn.activations import log1mexp
from xpr.numpy.promotion import promote_inexact, promote_shapes

Function = Callable[..., Any]

# By the names of the functions; {} is their first argument.
_DOCSTRINGS = {
    "pdf": "The density.",
    "logpdf": "The logarithm of the density.",
    "pmf": "The probability of {}.",
    "logpmf": "The logarithm of the probability of {}.",
    "cdf": "The probability up to {}.",
    "logcdf": "The logarithm of the probability up to {}.",
    "sf": "The probability beyond {}.",
    "logsf": "The logarithm of the probability beyond {}.",
    "ppf": "The inverse of cdf.",
    "isf": "The inverse of sf.",
}
_LOC_AND_SCALE = {"loc": 0, "scale": 1}


# -- From standard forms


def log_density(standard: Function) -> Function:
    """`logpdf(x, *shapes, loc, scale)` of `logpdf(z, *shapes, scale)`, which has to subtract the logarithm of scale."""

    def logpdf(*arguments: Any) -> Any:
        z, *shapes, _, scale = _standardized(*arguments)
        return _nan_where_nan(z, standard(z, *shapes, scale), scale)

    _, *shapes, _ = _arguments(standard)
    return _public(logpdf, standard, ("x", *shapes), _LOC_AND_SCALE)


def probability(standard: Function) -> Function:
    """`cdf(x, *shapes, loc, scale)` of `cdf(z, *shapes)`, and `sf`, `logcdf` and `logsf` likewise."""

    def cdf(*arguments: Any) -> Any:
        z, *shapes, _, scale = _standardized(*arguments)
        return _nan_where_nan(z, standard(z, *shapes), scale)

    _, *shapes = _arguments(standard)
    return _public(cdf, standard, ("x", *shapes), _LOC_AND_SCALE)


def quantile(standard: Function) -> Function:
    """`ppf(q, *shapes, loc, scale)` of `ppf(q, *shapes)`, and `isf` likewise."""

    def ppf(*arguments: Any) -> Any:
        *arguments_of_standard, loc, scale = promoted(*arguments)
        return jnp.add(jnp.multiply(standard(*arguments_of_standard), scale), loc)

    return _public(ppf, standard, _arguments(standard), _LOC_AND_SCALE)


def checked_quantile(standard: Function) -> Function:
    """As `quantile`, of a function that need not be defined where q is not between 0 and 1: the result is nan there."""

    def ppf(*arguments: Any) -> Any:
        q, *shapes, loc, scale = promoted(*arguments)
        inside = between(q)
        z = standard(jnp.where(inside, q, 0.5), *shapes)
        return jnp.where(inside, jnp.add(jnp.multiply(z, scale), loc), math.nan)

    return _public(ppf, standard, _arguments(standard), _LOC_AND_SCALE)


def of_integers(standard: Function) -> Function:
    """`logpmf(k, *shapes, loc)` of `logpmf(k - loc, *shapes)`, and `cdf` likewise."""

    def logpmf(*arguments: Any) -> Any:
        k, *shapes, loc = promoted(*arguments)
        return _nan_where_nan(k, standard(jnp.subtract(k, loc), *shapes))

    _, *shapes = _arguments(standard)
    return _public(logpmf, standard, ("k", *shapes), {"loc": 0})


# -- From other functions


def exp_of(function: Function) -> Function:
    """`pdf` of `logpdf`, and likewise for any function whose name begins with `log`."""
    return _derived(jnp.exp, function, function.__name__.removeprefix("log"))


def log_of(function: Function) -> Function:
    """`logcdf` of `cdf`, or `logsf` of `sf`."""
    return _derived(jnp.log, function, f"log{function.__name__}")


def complement_of(function: Function) -> Function:
    """`cdf` of `logsf`, or `sf` of `logcdf`: 1 - exp(y) by expm1, which is accurate for y near 0."""
    name = {"logsf": "cdf", "logcdf": "sf"}[function.__name__]
    return _derived(lambda y: jnp.negative(jnp.expm1(y)), function, name)


def log_complement_of(function: Function) -> Function:
    """`logcdf` of `logsf`, or `logsf` of `logcdf`: log(1 - exp(y)), accurate for all y below 0."""
    name = {"logsf": "logcdf", "logcdf": "logsf"}[function.__name__]
    return _derived(lambda y: log1mexp(jnp.negative(y)), function, name)


def reparametrized(function: Function, parameters: Function) -> Function:
    """`function` of the arguments that `parameters(x, *shapes, loc, scale)` returns, in the module of `parameters`."""
    *arguments, _, _ = _arguments(parameters)

    def compute(*xs: Any) -> Any:
        return function(*parameters(*promoted(*xs)))

    return _public(compute, parameters, arguments, _LOC_AND_SCALE, function.__name__)


def _derived(of_values: Function, function: Function, name: str) -> Function:
    parameters = Signature.from_callable(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not Parameter.empty}
    arguments = [p.name for p in parameters if p.default is Parameter.empty]
    return _public(lambda *xs: of_values(function(*xs)), function, arguments, defaults, name)


# -- What users call


def _public(
    compute: Function, sibling: Function, arguments: Sequence[str], defaults: dict[str, Any], name: str = ""
) -> Function:
    """`compute` as a function of these arguments and of those with defaults, in the module of `sibling`.

    Its name is that of `sibling`, unless another one is given.
    """
    pairs = [*(dict.fromkeys(arguments, Parameter.empty) | defaults).items()]
    signature = Signature(
        [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, default=value, annotation=Any) for each, value in pairs],
        return_annotation=Any,
    )

    def function(*args: Any, **named: Any) -> Any:
        operands = (*args, *(dict(pairs[len(args) :]) | named).values())
        if len(operands) != len(pairs) or any(value is Parameter.empty for value in operands):
            _refuse(function, args, named)
        return compute(*operands)

    function.__name__ = function.__qualname__ = name or sibling.__name__
    function.__module__ = sibling.__module__
    function.__doc__ = _DOCSTRINGS[function.__name__].format(arguments[0])
    function.__signature__ = signature  # type: ignore[attr-defined]  # functions take any attribute
    return function


def _arguments(function: Function) -> list[str]:
    return [*Signature.from_callable(function).parameters]


def _refuse(function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raises the TypeError that says what is wrong with the arguments."""
    try:
        Signature.from_callable(function).bind(*args, **named)
    except TypeError as error:
        distribution = function.__module__.rpartition(".")[2]
        raise TypeError(f"{distribution}.{function.__name__}: {error}") from None


# -- Values


def promoted(*xs: Any) -> Any:
    """The arguments in one floating dtype and one shape; scalars stay scalars."""
    return promote_shapes(*promote_inexact(*xs))


def _standardized(x: Any, *parameters: Any) -> Any:
    """(x - loc) / scale, and the parameters, whose last are loc and scale."""
    x, *shapes, loc, scale = promoted(x, *parameters)
    return jnp.divide(jnp.subtract(x, loc), scale), *shapes, loc, scale


def _nan_where_nan(x: Any, value: Any, scale: Any = 1) -> Any:
    """The value, and nan where x is, which comparisons take for a number beyond a support, or scale is not positive."""
    return jnp.where(jnp.logical_or(jnp.isnan(x), jnp.less_equal(scale, 0)), math.nan, value)


def between(x: Any) -> Any:
    """Whether each element lies between 0 and 1."""
    return jnp.logical_and(jnp.greater_equal(x, 0), jnp.less_equal(x, 1))


def positive_part(x: Any) -> Any:
    """Each element, or 0 where it is negative."""
    return jnp.where(jnp.greater_equal(x, 0), x, 0.0)
