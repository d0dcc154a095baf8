"""Differentiation: jvp, linearize, vjp, grad, linear_transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes, tree
from xpr.api.cotangent_refs import vjp_of
from xpr.api.make_jaxpr import shaped
from xpr.backend.array import Array
from xpr.control.custom.replicated_cotangents import count_copies, shares, sums
from xpr.control.groups import mask, split_list
from xpr.core.avals import ShapedArray, Zero, aval_of, is_differentiable, is_float0, same_type, types_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xpr.core.refs import AbstractRef, Ref
from xpr.core.source import check_function, describe_function, function_name
from xpr.errors import ArgumentError, RefError
from xpr.primitives.shapes import instantiate
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import (
    LEAF,
    FlatFunction,
    FunctionWithAux,
    argument_numbers,
    as_array,
    distinct_positions,
    flatten_arguments,
    named_like,
)
from xpr.transforms.jvp import push_forward, with_zeros, without_tangents
from xpr.transforms.linearize import linearize_flat
from xpr.transforms.stage import stage
from xpr.transforms.transpose import backward_pass
from xpr.tree_nodes import Partial

# -- Forward mode


@boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of a function, and its directional derivative.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      primals: the arguments, a sequence of pytrees of arrays.
      tangents: a direction for each argument, of the same structure, shapes and dtypes (float0 for integers).
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.

    Returns:
      `(value, tangent)`, followed by the auxiliary data with `has_aux`.

    Raises:
      TypeError: `fun` is no function, or primals and tangents don't match.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jvp(jnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_function(fun, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp: primals and tangents are given as tuples, one entry for each argument of the function.")
    leaves, in_tree = flatten_arguments(primals)
    tangent_leaves, tangent_tree = flatten_arguments(tangents)
    if type(primals) is not type(tangents) or (in_tree is not tangent_tree and in_tree != tangent_tree):
        tree.check_same_structure(primals, tangents, _SAME_STRUCTURE)
    _check_tangents(list(map(aval_of, leaves)), tangent_leaves, "jvp")
    flat = FunctionWithAux(fun, in_tree) if has_aux else FlatFunction(fun, in_tree)
    leaves, directions = list(map(as_array, leaves)), list(map(_symbolic, tangent_leaves))
    if isinstance(flat, FunctionWithAux):
        return _jvp_with_aux(flat, leaves, directions)
    outs, out_tangents = push_forward(flat, leaves, directions)
    if flat.out_tree is LEAF:
        return as_array(outs[0]), _tangent_out(out_tangents[0])
    values, directions = list(map(as_array, outs)), list(map(_tangent_out, out_tangents))
    return tree.unflatten(flat.out_tree, values), tree.unflatten(flat.out_tree, directions)


def _jvp_with_aux(flat: FunctionWithAux, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    aux: list[Any] = []

    def differentiated(*xs: Any) -> list[Any]:
        values, auxiliary = split_list(flat(*xs), flat.count)
        aux[:] = without_tangents(auxiliary)
        return values

    outs, out_tangents = push_forward(differentiated, primals, tangents)
    out_tree, aux_tree = flat.out_tree.children()
    values, directions = list(map(as_array, outs)), list(map(_tangent_out, out_tangents))
    return tree.unflatten(out_tree, values), tree.unflatten(out_tree, directions), tree.unflatten(aux_tree, aux)


def _symbolic(tangent: Any) -> Any:
    """A tangent from the user in the interpreters' form."""
    if type(tangent) is Array:
        return tangent
    aval = aval_of(tangent)
    return Zero(aval) if is_float0(aval) else as_array(tangent)


def _tangent_out(tangent: Any) -> Any:
    """A tangent in the user's form: zeros as arrays, those of integers as NumPy float0 arrays."""
    if type(tangent) is not Zero:
        return as_array(tangent)
    if is_float0(tangent.aval) and not tangent.aval.is_symbolic:
        return np.zeros(tangent.aval.shape, dtypes.float0)
    return as_array(instantiate(tangent))


_SAME_STRUCTURE = "jvp: the primal and tangent arguments to jax.jvp must have the same tree structure"
_NOWHERE: frozenset[Any] = frozenset()
_NO_TANGENT = (
    "{}: differentiates by arrays, and got a Ref of type {}. Differentiate a function of what it is to hold, which "
    "makes the ref."
)


def _check_tangents(avals: Sequence[Any], tangents: Sequence[Any], function: str) -> None:
    """Raises an error where tangents don't fit primals of these types."""
    for aval, t in zip(avals, tangents):
        if type(t) is Array and t.aval is aval and aval.dtype in dtypes.INEXACT:
            continue  # the usual case
        if type(aval) is AbstractRef:
            raise RefError(_NO_TANGENT.format(function, aval.str_short()))
        expected, actual = aval.to_tangent_aval(), aval_of(t)
        if expected.is_high or actual.is_high:
            _check_of_users(f"{function}: the tangent", aval, expected, actual)
            continue
        varying = actual.varying - expected.varying if function == "linearize" else _NOWHERE
        if expected.shape != actual.shape or expected.dtype != actual.dtype or varying:
            fault = "jvp: primal and tangent arguments to jax.jvp do not match."
            if expected.shape != actual.shape:
                fault = "jvp called with different primal and tangent shapes:"
            if function == "linearize":
                called = "linearized function called on tangent values"
                fault = f"linearize: {called} inconsistent with the original primal values:"
            hint = " Tangents of integers have dtype float0." if expected.dtype == dtypes.float0 else ""
            if varying:
                axes = tuple(sorted(varying, key=str))
                hint += (
                    f" The tangent may differ between the devices along {axes}, and the value is the same on all. Let "
                    f"both, by applying `jax.lax.pcast(..., {axes}, to='varying')` to the primal value passed."
                )
            raise ArgumentError(
                f"{fault} The tangent of a value of type "
                f"{aval.str_short()} has type {expected.str_short()}, and {actual.str_short()} was given.{hint}"
            )


def _check_of_users(what: str, of: Any, expected: Any, actual: Any) -> None:
    """Raises ArgumentError where a tangent or a cotangent has another type than one that a user defines says."""
    if not same_type(expected, actual):
        raise ArgumentError(
            f"{what} of a value of type {of.str_short()} has type {expected.str_short()}, and {actual.str_short()} "
            "was given."
        )


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function at a point, and its derivative there as a linear function.

    The derivative can be applied to many tangents while `fun` runs once.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      *primals: the arguments at which to differentiate, pytrees of arrays.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.

    Returns:
      `(value, f_jvp)`, followed by the auxiliary data with `has_aux`. `f_jvp(*tangents)` returns the tangent of the
      value; it is a pytree of residuals.

    Raises:
      TypeError: `fun` is no function; when `f_jvp` is called, the tangents are not of the types of the primals.

    >>> import xpr, xpr.numpy as jnp
    >>> y, f_jvp = xpr.linearize(jnp.square, 3.0)
    >>> f_jvp(1.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_function(fun, "linearize")
    in_tree, leaves, is_active, linear, active_outs, out_tree, values, aux = _linearized(fun, primals, has_aux)
    in_avals, out_avals = [aval_of(x) for x in leaves], [aval_of(x) for x in values]

    def f_jvp(program: Jaxpr, residuals: list[Any], *tangents: Any) -> Any:
        tangent_leaves, tangent_tree = tree.flatten((tangents, {}))
        if tangent_tree != in_tree:
            blank, _ = tree.unflatten(in_tree, [0] * len(in_avals))
            tree.check_same_structure(blank, tangents, "linearize: the tangents must have the primals' structure")
        _check_tangents(in_avals, tangent_leaves, "linearize")
        out_tangents = eval_jaxpr(program, residuals, *mask(tangent_leaves, is_active))
        return tree.unflatten(out_tree, map(_tangent_out, with_zeros(out_tangents, active_outs, out_avals)))

    return (tree.unflatten(out_tree, map(as_array, values)), Partial(partial(f_jvp, linear.jaxpr), linear.consts), *aux)


class _Linearized(NamedTuple):
    """A function of pytrees, linearized at a point.

    Attributes:
      in_tree: the structure of `(args, kwargs)`.
      leaves: the primals.
      is_active: which of them have tangents.
      linear: the jaxpr from their tangents to those of the active results, with its residuals.
      active_outs: which results have tangents.
      out_tree: the structure of the result, without auxiliary data.
      values: the leaves of the result.
      aux: the auxiliary data in a list, which is empty where there is none.
    """

    in_tree: Any
    leaves: list[Any]
    is_active: list[bool]
    linear: ClosedJaxpr
    active_outs: Sequence[bool]
    out_tree: Any
    values: list[Any]
    aux: list[Any]


def _linearized(fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool) -> _Linearized:
    leaves, in_tree = flatten_arguments(primals)
    flat = FunctionWithAux(fun, in_tree) if has_aux else FlatFunction(fun, in_tree)
    is_active = [not is_float0(aval_of(x).to_tangent_aval()) for x in leaves]
    outs, linear, active_outs = linearize_flat(flat, leaves, is_active)
    if not isinstance(flat, FunctionWithAux):
        return _Linearized(in_tree, leaves, is_active, linear, active_outs, flat.out_tree, outs, [])
    out_tree, aux_tree = flat.out_tree.children()
    values, aux = split_list(outs, flat.count)
    return _Linearized(
        in_tree, leaves, is_active, linear, active_outs, out_tree, values, [tree.unflatten(aux_tree, aux)]
    )


# -- Reverse mode


@boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function at a point, and the function from cotangents of the value to cotangents of the arguments.

    Args:
      fun: a function of pytrees of arrays to a pytree of arrays.
      *primals: the arguments at which to differentiate, pytrees of arrays.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.

    Returns:
      `(value, f_vjp)`, followed by the auxiliary data with `has_aux`. `f_vjp(ct)` returns a tuple with a cotangent for
      each argument; it is a pytree of residuals, so a jitted function, or the fwd of a custom_vjp, can return it.
      `f_vjp.with_refs(*refs)(ct)` adds the cotangents to refs instead.

    Raises:
      TypeError: `fun` is no function; when `f_vjp` is called, the cotangent is not of the type of the value.

    >>> import xpr, xpr.numpy as jnp
    >>> y, f_vjp = xpr.vjp(jnp.sin, 0.0)
    >>> f_vjp(2.0)
    (Array(2., dtype=float32, weak_type=True),)
    """
    check_function(fun, "vjp")
    in_tree, leaves, is_active, linear, active_outs, out_tree, values, aux = _linearized(fun, primals, has_aux)
    out_avals = [aval_of(x) for x in values]
    in_avals, program = [aval_of(x) for x in leaves], linear.jaxpr
    active_leaves, active_results = mask(leaves, is_active), mask(values, active_outs)
    number = len(active_results)

    def f_vjp(residuals: list[Any], ct: Any, wanted: Sequence[bool] | None = None) -> list[Any]:
        ct_leaves, ct_tree = tree.flatten(ct)
        if ct_tree != out_tree:
            blank = tree.unflatten(out_tree, [0] * len(out_avals))
            what = "vjp: unexpected tree structure of the cotangent, which must be that of the function's result"
            tree.check_same_structure(blank, ct, what)
        _check_cotangents([a.to_tangent_aval() for a in out_avals], ct_leaves, "vjp")
        residuals, result_copies, leaf_copies = split_list(residuals, len(program.constvars), number)
        cts = shares(list(map(_symbolic, mask(ct_leaves, active_outs))), result_copies)
        _, auxiliary = split_list(program.outvars, number)  # they have no cotangents
        cts = [*cts, *(Zero(v.aval) for v in auxiliary)]
        cts = backward_pass(program, residuals, cts, wanted=None if wanted is None else mask(wanted, is_active))
        results = with_zeros(sums(cts, leaf_copies), is_active, in_avals)
        return [_tangent_out(r) if wanted is None or wanted[i] else r for i, r in enumerate(results)]

    f_vjp.__name__ = function_name(fun)
    closed_over = [*linear.consts, *active_results, *active_leaves] if count_copies() else linear.consts
    return (
        tree.unflatten(out_tree, map(as_array, values)),
        vjp_of(f_vjp, in_tree.children()[0], leaves, closed_over),
        *aux,
    )


def _check_cotangents(expected_avals: Sequence[ShapedArray], cts: Sequence[Any], what: str) -> None:
    for expected, ct in zip(expected_avals, cts):
        actual = aval_of(ct)
        if expected.is_high or actual.is_high:
            _check_of_users(f"{what}: the cotangent", expected, expected, actual)
            continue
        is_known_zero = (
            expected.dtype == dtypes.float0 and actual.dtype in dtypes.INTEGERS
        )  # as results of integers are
        if expected.shape != actual.shape or (expected.dtype != actual.dtype and not is_known_zero):
            raise ArgumentError(
                f"{what}: cotangent type does not match: unexpected JAX type {actual.str_short()}. The cotangent of a "
                f"result of type {expected.str_short()} must have that type."
            )


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a function with a scalar result.

    Args:
      fun: a function of pytrees of arrays to a real scalar (complex with `holomorphic`).
      argnums: the positional argument to differentiate by, or a sequence of several.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.
      holomorphic: a promise that `fun` is holomorphic, with complex arguments and results.
      allow_int: whether integer arguments are allowed; their derivatives have dtype float0.
      reduce_axes: must be empty.

    Returns:
      A function of the same arguments that returns the gradient, of the structure of the argument; a tuple of them for
      a sequence `argnums`; with `has_aux` `(gradient, auxiliary data)`.

    Raises:
      TypeError: `fun` is no function; when called, the result is not a real scalar, or an argument has no tangents.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.grad(jnp.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    with_value = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = with_value(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return named_like(boundary(gradient), fun)


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The value and the gradient of a function with a scalar result; see `grad`.

    Args:
      fun: a function of pytrees of arrays to a real scalar (complex with `holomorphic`).
      argnums: the positional argument to differentiate by, or a sequence of several.
      has_aux: whether `fun` returns `(result, auxiliary data)`, of which only the result is differentiated.
      holomorphic: a promise that `fun` is holomorphic, with complex arguments and results.
      allow_int: whether integer arguments are allowed; their derivatives have dtype float0.
      reduce_axes: must be empty.

    Returns:
      A function of the same arguments that returns `(value, gradient)`, or `((value, auxiliary data), gradient)` with
      `has_aux`.

    Raises:
      TypeError: `fun` is no function; when called, the result is not a real scalar, or an argument has no tangents.

    >>> import xpr
    >>> xpr.value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_function(fun, "grad")
    numbers = argument_numbers(argnums, "argnums")
    if tuple(reduce_axes):
        raise NotImplementedError(
            "grad: reduce_axes is not supported; sum over the axis with lax.psum in the function."
        )

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        active = distinct_positions(numbers, len(args), "argnums")
        leaves, in_tree = tree.flatten(tuple(args[i] for i in active))
        for x in leaves:
            check_input(x, holomorphic, allow_int, "grad")
        aux: Any = None

        def of_active(*xs: Any) -> list[Any]:
            nonlocal aux
            full = list(args)
            for i, x in zip(active, tree.unflatten_sorted(in_tree, xs)):
                full[i] = x
            out = fun(*full, **kwargs)
            if not has_aux:
                return [_checked_scalar(fun, out, holomorphic)]
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(
                    f"has_aux=True: {describe_function(fun)} must return a two-element tuple (scalar, auxiliary data); "
                    f"it returned {out!r}."
                )
            aux_leaves, aux_tree = tree.flatten(out[1])
            aux = aux_tree
            return [_checked_scalar(fun, out[0], holomorphic), *aux_leaves]

        is_active = [not is_float0(aval_of(x).to_tangent_aval()) for x in leaves]
        outs, linear, active_outs = linearize_flat(of_active, leaves, is_active)
        gradients = tree.unflatten(in_tree, _gradients(outs[0], linear, active_outs[0], leaves, is_active))
        value = as_array(outs[0])
        if has_aux:
            value = (value, tree.unflatten(aux, outs[1:]))
        return value, gradients[0] if isinstance(numbers, int) else gradients

    return named_like(boundary(value_and_gradient), fun)


def _gradients(
    out: Any, linear: ClosedJaxpr, out_is_active: bool, leaves: Sequence[Any], is_active: Sequence[bool]
) -> list[Any]:
    """Pulls the cotangent 1 of a scalar back through the linear program."""
    cts: list[Any] = [Zero(v.aval) for v in linear.jaxpr.outvars]
    if out_is_active:
        aval = aval_of(out)
        cts[0] = Array(aval.to_tangent_aval(), np.ones((), aval.dtype))
        cts[:1] = shares(cts[:1], [out])
    flat_cts = backward_pass(linear.jaxpr, linear.consts, cts)
    nonzero = iter(sums(flat_cts, [x for x, active in zip(leaves, is_active) if active]))
    return [
        _tangent_out(next(nonzero) if active else Zero.from_primal_value(x)) for x, active in zip(leaves, is_active)
    ]


NOT_HOLOMORPHIC = (
    "{} with holomorphic=True requires inputs with complex dtype, but got {}: an argument is {}. Make it complex, or "
    "leave out holomorphic=True."
)


def check_input(x: Any, holomorphic: bool, allow_int: bool, who: str) -> None:
    """Raises TypeError or RefError where the function named `who` can't differentiate by a value in reverse mode."""
    if type(x) is Ref:
        raise RefError(_NO_TANGENT.format(who, x.aval.str_short()))
    if aval_of(x).is_high:
        return
    dtype = aval_of(x).dtype
    if holomorphic and dtype not in dtypes.COMPLEX:
        raise TypeError(NOT_HOLOMORPHIC.format(who, dtype, aval_of(x).str_short()))
    if dtype in dtypes.INEXACT or (allow_int and (dtype in dtypes.INTEGERS or dtype == dtypes.bool_)):
        return
    raise TypeError(
        f"{who} requires real- or complex-valued inputs, and an argument is {aval_of(x).str_short()}. Pass floats "
        "(2.0, not 2), choose other arguments with argnums, or say allow_int=True for gradients of dtype float0."
    )


def _checked_scalar(fun: Callable[..., Any], out: Any, holomorphic: bool) -> Any:
    try:
        aval = aval_of(out)
    except TypeError:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. {describe_function(fun)} returned "
            f"{type(out).__name__}: {out!r}. For a pair of a loss and other data, say has_aux=True."
        ) from None
    if type(out) is Ref:
        raise TypeError(
            f"grad: {describe_function(fun)} must return a scalar array, and returned a Ref of type "
            f"{aval.str_short()}. Return what it holds: ref[...]."
        )
    if aval.is_high or aval.shape != ():
        raise TypeError(
            f"Gradient only defined for scalar-output functions. {describe_function(fun)} returned an array of type "
            f"{aval.str_short()}. Sum or average it, or use jacrev or jacfwd for its Jacobian."
        )
    if holomorphic and aval.dtype not in dtypes.COMPLEX:
        raise TypeError(
            f"grad: holomorphic=True needs a complex result, and {describe_function(fun)} gave {aval.str_short()}."
        )
    if not holomorphic and aval.dtype not in dtypes.FLOATS:
        hint = " For a complex-differentiable function say holomorphic=True." if aval.dtype in dtypes.COMPLEX else ""
        raise TypeError(
            f"grad requires real-valued outputs, and {describe_function(fun)} returned {aval.str_short()}.{hint}"
        )
    return out


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[..., Any]:
    """The transpose of a linear function.

    Args:
      fun: a function that is linear in its arguments: floats, complex numbers, or integers with integer results.
      *primals: arrays, or anything with a shape and a dtype, for the types of the arguments.
      reduce_axes: must be empty.

    Returns:
      A function from a cotangent of the result to a tuple with a cotangent for each argument; it is a pytree.

    Raises:
      TypeError: `fun` is no function, or arguments or results are integers, and others are not.

    >>> import xpr
    >>> xpr.linear_transpose(lambda x: 3 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_function(fun, "linear_transpose")
    leaves, in_tree = flatten_arguments(primals)
    flat = FlatFunction(fun, in_tree)
    avals = [shaped(x) for x in leaves]
    closed = stage(flat, avals)
    out_tree = flat.out_tree
    _check_linear(fun, avals, closed.out_avals)

    every = (*avals, *closed.out_avals)
    are_integers = not any(map(is_differentiable, every))
    ct_avals = closed.out_avals if are_integers else [a.to_tangent_aval() for a in closed.out_avals]

    def transposed(consts: Sequence[Any], copied: Sequence[Any], ct: Any) -> tuple[Any, ...]:
        ct_leaves, ct_tree = tree.flatten(ct)
        if ct_tree != out_tree:
            blank = tree.unflatten(out_tree, [0] * out_tree.num_leaves)
            tree.check_same_structure(blank, ct, "linear_transpose: cotangent tree does not match that of the result")
        _check_cotangents(ct_avals, ct_leaves, "linear_transpose")
        pulled = backward_pass(closed.jaxpr, consts, shares(ct_leaves, ct_leaves), [True] * len(avals))
        args, _ = tree.unflatten(in_tree, [_tangent_out(r) for r in sums(pulled, copied)])
        return args

    copied = [x if count_copies() and isinstance(x, (Array, Tracer)) else np.zeros(()) for x in leaves]
    return Partial(transposed, closed.consts, copied)


def _check_linear(fun: Callable[..., Any], avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> None:
    """Raises TypeError where arguments or results have dtypes in which nothing is linear."""
    every = [a for a in (*avals, *out_avals) if not a.is_high]
    if not any(all(a.dtype in kind for a in every) for kind in (dtypes.INEXACT, dtypes.INTEGERS)):
        raise TypeError(
            "linear_transpose only supports functions from and to floats and complex numbers, or from and to integers, "
            f"and {describe_function(fun)} takes ({types_of(avals)}) and returns ({types_of(out_avals)})."
        )


__all__ = ["grad", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp"]
