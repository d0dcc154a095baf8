"""Derivatives in sparse arguments: `grad`, `value_and_grad`, `jacfwd`, `jacrev`, of the stored elements alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import numpy as jnp
from xpr import tree
from xpr.api import grad as dense
from xpr.api import jacobians
from xpr.experimental.sparse.base import JAXSparse
from xpr.transforms.flat import argument_numbers, distinct_positions

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]

Argnums = int | Sequence[int]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _by_data(fun: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The function of the data of sparse arguments, those data, and what makes results sparse again."""
    numbers = distinct_positions(argnums, len(args), "argnums")
    selected = [args[i] for i in numbers]
    leaves, structure = tree.flatten(selected, is_leaf=_is_sparse)
    data = [x.data if _is_sparse(x) else x for x in leaves]

    def of_data(data: Sequence[Any]) -> Any:
        values = tree.unflatten(structure, list(map(_with_data, leaves, data)))
        replaced = dict(zip(numbers, values))
        return fun(*[replaced.get(i, x) for i, x in enumerate(args)], **kwargs)

    def sparse_again(results: Sequence[Any]) -> Any:
        values = tree.unflatten(structure, list(map(_with_data, leaves, results)))
        return values[0] if isinstance(argnums, int) else tuple(values)

    return of_data, data, sparse_again


def _with_data(x: Any, data: Any) -> Any:
    """A sparse array with other elements, and with more batch axes where these have more."""
    if not _is_sparse(x):
        return data
    arrays, about = x.tree_flatten()
    more = jnp.ndim(data) - x.data.ndim
    others = [jnp.broadcast_to(a, (*data.shape[:more], *a.shape)) for a in arrays[1:]] if more else arrays[1:]
    return type(x).tree_unflatten(about, (data, *others))


def value_and_grad(fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`xpr.value_and_grad` for functions of sparse arrays, whose gradients have their indices.

    Args:
      fun: a function with a scalar result.
      argnums: in which arguments.
      has_aux: whether the function returns a pair, of which the second one is not differentiated.
      **kwargs: as in `xpr.value_and_grad`.

    Returns:
      A function that gives the value and the gradients.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.arange(3.0))
    >>> sparse.value_and_grad(lambda x, y: x @ y)(x, jnp.ones(3))
    (Array(3., dtype=float32), BCOO(float32[3], nse=2))
    """
    numbers = argument_numbers(argnums, "argnums")

    @functools.wraps(fun)
    def both(*args: Any, **kw: Any) -> Any:
        of_data, data, sparse_again = _by_data(fun, numbers, args, kw)
        value, gradient = dense.value_and_grad(of_data, has_aux=has_aux, **kwargs)(data)
        return value, sparse_again(gradient)

    return both


def grad(fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`xpr.grad` for functions of sparse arrays, whose gradients have their indices.

    Args:
      fun: a function with a scalar result.
      argnums: in which arguments.
      has_aux: whether the function returns a pair, of which the second one is not differentiated.
      **kwargs: as in `xpr.grad`.

    Returns:
      A function that gives the gradients.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.arange(3.0))
    >>> sparse.grad(lambda x, y: x @ y)(x, 2 * jnp.ones(3)).data
    Array([2., 2.], dtype=float32)
    """
    return _derivative(dense.grad, fun, argnums, has_aux, kwargs)


def jacfwd(fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`xpr.jacfwd` for functions of sparse arrays with dense results.

    Args:
      fun: a function of sparse arrays.
      argnums: in which arguments.
      has_aux: whether the function returns a pair, of which the second one is not differentiated.
      **kwargs: as in `xpr.jacfwd`.

    Returns:
      A function that gives the Jacobians, whose batch axes are those of the result.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.arange(3.0))
    >>> sparse.jacfwd(lambda x: x.todense() ** 2)(x)
    BCOO(float32[3, 3], nse=2, n_batch=1)
    """
    return _derivative(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`xpr.jacrev` for functions of sparse arrays with dense results.

    Args:
      fun: a function of sparse arrays.
      argnums: in which arguments.
      has_aux: whether the function returns a pair, of which the second one is not differentiated.
      **kwargs: as in `xpr.jacrev`.

    Returns:
      A function that gives the Jacobians, whose batch axes are those of the result.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.arange(3.0))
    >>> sparse.jacrev(lambda x: x.todense() ** 2)(x)
    BCOO(float32[3, 3], nse=2, n_batch=1)
    """
    return _derivative(jacobians.jacrev, fun, argnums, has_aux, kwargs)


def _derivative(
    transform: Callable[..., Any], fun: Callable[..., Any], argnums: Argnums, has_aux: bool, kwargs: dict[str, Any]
) -> Callable[..., Any]:
    numbers = argument_numbers(argnums, "argnums")

    @functools.wraps(fun)
    def derivative(*args: Any, **kw: Any) -> Any:
        of_data, data, sparse_again = _by_data(fun, numbers, args, kw)
        out = transform(of_data, has_aux=has_aux, **kwargs)(data)
        return (sparse_again(out[0]), out[1]) if has_aux else sparse_again(out)

    return derivative


jacobian = jacrev
