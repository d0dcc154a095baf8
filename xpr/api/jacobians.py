"""Jacobians and Hessians: derivatives along all elements of the standard basis, by vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.api.grad import NOT_HOLOMORPHIC, check_input, jvp, vjp
from xpr.api.vmap import vmap
from xpr.backend.array import from_host
from xpr.core.avals import ShapedArray, aval_of, is_float0
from xpr.core.source import check_function, describe_function
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.numpy.matrices import eye
from xpr.primitives.shapes import reshape, zeros_like_aval
from xpr.primitives.sharding_constraint import constrain_to
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import argument_numbers, distinct_positions, named_like

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of a function by forward mode, a column at a time: for functions with more results than arguments.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      argnums: the positional argument to differentiate by, or a sequence of several.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.
      holomorphic: a promise that `fun` is holomorphic, with complex arguments and results.

    Returns:
      A function of the same arguments that returns, for each leaf of the result and each leaf of the argument, an array
      whose shape is that of the one followed by that of the other; with `has_aux` `(Jacobian, auxiliary data)`.

    Raises:
      TypeError: `fun` is no function; when called, an argument has no tangents, or is complex without `holomorphic`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacfwd(lambda x: x * x)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_function(fun, "jacfwd")
    numbers = argument_numbers(argnums, "argnums")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_active, point, point_tree = _active(fun, args, kwargs, numbers)
        for x in point:
            _check_input(x, holomorphic)

        def pushforward(*directions: Any) -> Any:
            return jvp(of_active, tuple(point), directions, has_aux=has_aux)

        axes = (None, -1, None) if has_aux else (None, -1)
        value, columns, *aux = vmap(named_like(pushforward, fun), out_axes=axes)(*_standard_basis(point))
        jac = tree.map(lambda out, column: _split_columns(column, out, point, point_tree, numbers), value, columns)
        return (jac, *aux) if has_aux else jac

    return named_like(boundary(jacobian), fun)


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function by reverse mode, a row at a time: for functions with more arguments than results.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      argnums: the positional argument to differentiate by, or a sequence of several.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.
      holomorphic: a promise that `fun` is holomorphic, with complex arguments and results.
      allow_int: whether integer arguments are allowed; their derivatives are zeros of their dtype.

    Returns:
      A function of the same arguments that returns, for each leaf of the result and each leaf of the argument, an array
      whose shape is that of the one followed by that of the other; with `has_aux` `(Jacobian, auxiliary data)`.

    Raises:
      TypeError: `fun` is no function; when called, an argument has no tangents, or the result is complex without
        `holomorphic`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacrev(lambda x: x * x)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_function(fun, "jacrev")
    numbers = argument_numbers(argnums, "argnums")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_active, point, point_tree = _active(fun, args, kwargs, numbers)
        for x in point:
            check_input(x, holomorphic, allow_int, "jacrev")
        value, pull, *aux = vjp(of_active, *point, has_aux=has_aux)
        out_leaves, out_tree = tree.flatten(value)
        for x in out_leaves:
            _check_output(fun, x, holomorphic)
        rows = vmap(pull)(tree.unflatten(out_tree, _standard_basis(out_leaves)))
        blocks = [_split_rows(row, out_leaves, x) for row, x in zip(rows, point)]
        nested = [_for_argnums([block[i] for block in blocks], point_tree, numbers) for i in range(len(out_leaves))]
        jac = tree.unflatten(out_tree, nested)
        return (jac, *aux) if has_aux else jac

    return named_like(boundary(jacobian), fun)


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Hessian of a function, the matrix of its second derivatives, by forward over reverse mode.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      argnums: the positional argument to differentiate by, or a sequence of several.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.
      holomorphic: a promise that `fun` is holomorphic, with complex arguments and results.

    Returns:
      A function of the same arguments that returns the second derivatives, with the axes of the result and twice those
      of the argument; with `has_aux` `(Hessian, auxiliary data)`.

    Raises:
      TypeError: `fun` is no function; when called, an argument has no tangents, or is complex without `holomorphic`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.hessian(lambda x: x[0] * x[1] ** 2)(jnp.array([1., 3.]))
    Array([[0., 6.],
           [6., 2.]], dtype=float32)
    """
    check_function(fun, "hessian")
    numbers = argument_numbers(argnums, "argnums")
    gradient = jacrev(fun, numbers, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(gradient, numbers, has_aux=has_aux, holomorphic=holomorphic)


def _active(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: int | Sequence[int]
) -> tuple[Callable[..., Any], list[Any], Any]:
    """`fun` as a function of the leaves of its active arguments, those leaves, and their structure."""
    active = distinct_positions(argnums, len(args), "argnums")
    leaves, in_tree = tree.flatten(tuple(args[i] for i in active))

    def of_active(*xs: Any) -> Any:
        full = list(args)
        for i, x in zip(active, tree.unflatten_sorted(in_tree, xs)):
            full[i] = x
        return fun(*full, **kwargs)

    return named_like(of_active, fun), leaves, in_tree


def _check_input(x: Any, holomorphic: bool) -> None:
    """Raises TypeError for an argument of `jacfwd` along which it can't differentiate."""
    dtype = aval_of(x).dtype
    allowed = dtypes.COMPLEX if holomorphic else dtypes.FLOATS
    if dtype not in allowed and holomorphic:
        raise TypeError(NOT_HOLOMORPHIC.format("jacfwd", dtype, aval_of(x).str_short()))
    if dtype not in allowed:
        raise TypeError(
            f"jacfwd requires real-valued inputs, and an argument is {aval_of(x).str_short()}. Pass floats, "
            "choose other arguments with argnums, or say holomorphic=True for complex ones."
        )


def _check_output(fun: Callable[..., Any], x: Any, holomorphic: bool) -> None:
    """Raises TypeError for a result of the function of `jacrev` that it can't differentiate."""
    dtype = aval_of(x).dtype
    if dtype not in (dtypes.COMPLEX if holomorphic else dtypes.FLOATS):
        kind = "complex" if holomorphic else "real floating-point"
        raise TypeError(
            f"jacrev: {describe_function(fun)} must return {kind} arrays, and returned {aval_of(x).str_short()}."
        )


def _standard_basis(leaves: Sequence[Any]) -> list[Any]:
    """For each leaf its columns of the identity matrix over all elements: (total, *shape)."""
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    basis, start = [], 0
    for aval in avals:
        block = (eye if is_symbolic_dim(total) else np.eye)(total, aval.size, -start, dtype=aval.dtype)
        block = block.reshape(total, *aval.shape)
        rows = from_host(block, True) if aval.weak_type and isinstance(block, np.ndarray) else block
        basis.append(rows if aval.explicit is None else constrain_to(rows, aval.with_axis(0, total)))
        start += aval.size
    return basis


def _split_columns(columns: Any, out: Any, point: Sequence[Any], point_tree: Any, argnums: Any) -> Any:
    """(*out, total) as one array (*out, *argument) for each argument leaf."""
    shape = aval_of(out).shape
    if is_float0(aval_of(columns)):
        zeros = [_zeros((*shape, *aval_of(x).shape), out) for x in point]
        return _for_argnums(zeros, point_tree, argnums)
    parts, start = [], 0
    for x in point:
        aval = aval_of(x)
        part = columns[..., start : start + aval.size]
        parts.append(reshape(part, (*shape, *aval.shape)))
        start += aval.size
    return _for_argnums(parts, point_tree, argnums)


def _split_rows(rows: Any, outs: Sequence[Any], x: Any) -> list[Any]:
    """(total, *argument) as one array (*out, *argument) for each leaf of the result."""
    if is_float0(aval_of(rows)):
        return [_zeros((*aval_of(out).shape, *aval_of(x).shape), x) for out in outs]
    parts, start = [], 0
    for out in outs:
        aval = aval_of(out)
        part = rows[start : start + aval.size]
        parts.append(reshape(part, (*aval.shape, *aval_of(x).shape)))
        start += aval.size
    return parts


def _zeros(shape: Sequence[Any], like: Any) -> Any:
    """The derivatives of or by integers or booleans, `like` which they are: zeros of their dtype, as in JAX."""
    aval = aval_of(like)
    return zeros_like_aval(ShapedArray(tuple(shape), aval.dtype, aval.weak_type))


def _for_argnums(parts: Sequence[Any], point_tree: Any, argnums: Any) -> Any:
    nested = tree.unflatten(point_tree, parts)
    return nested[0] if isinstance(argnums, int) else nested
