"""Differentiation: jvp, linearize, vjp, grad, jacfwd, jacrev, hessian, linear_transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.api.staging import shaped
from xpr.api.vmap import vmap
from xpr.backend.array import Array
from xpr.control.custom.replicated_cotangents import count_copies, shares, sums
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.source import describe_function
from xpr.errors import ArgumentError
from xpr.primitives.shapes import instantiate, reshape
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import LEAF, FlatFunction, FunctionWithAux, as_array, flatten_arguments, named_like, positions
from xpr.transforms.jvp import push_forward, without_tangents
from xpr.transforms.linearize import linearize_flat
from xpr.transforms.stage import stage
from xpr.transforms.transpose import backward_pass
from xpr.tree_nodes import Partial

# -- Forward mode


@boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of `fun` and its directional derivative.

    Args:
      fun: takes and gives pytrees of arrays.
      primals: the arguments.
      tangents: a direction for each, of the same structure, shapes and dtypes (float0 where those are integers).
      has_aux: `fun` gives a pair of what is differentiated and auxiliary data, a pytree of any objects.
    Returns:
      (value, tangent), and the auxiliary data where there are any.
    Raises:
      TypeError: primals and tangents don't match.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jvp(jnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp: primals and tangents are given as tuples, one entry for each argument of the function.")
    leaves, in_tree = flatten_arguments(primals)
    tangent_leaves, tangent_tree = flatten_arguments(tangents)
    if in_tree is not tangent_tree and in_tree != tangent_tree:
        tree.check_same_structure(tuple(primals), tuple(tangents), "jvp: the tangents must have the primals' structure")
    _check_tangents(leaves, tangent_leaves, "jvp", "tangent")
    flat = FunctionWithAux(fun, in_tree) if has_aux else FlatFunction(fun, in_tree)
    directions = [_symbolic(t) for t in tangent_leaves]
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
        outs = flat(*xs)
        aux[:] = without_tangents(outs[flat.count :])
        return outs[: flat.count]

    outs, out_tangents = push_forward(differentiated, primals, tangents)
    out_tree, aux_tree = flat.out_tree.children()
    values, directions = list(map(as_array, outs)), list(map(_tangent_out, out_tangents))
    return tree.unflatten(out_tree, values), tree.unflatten(out_tree, directions), tree.unflatten(aux_tree, aux)


def _symbolic(tangent: Any) -> Any:
    """A tangent given by the user, as the interpreters take it."""
    if type(tangent) is Array:
        return tangent
    aval = aval_of(tangent)
    return Zero(aval) if aval.dtype == dtypes.float0 else tangent


def _tangent_out(tangent: Any) -> Any:
    """A tangent as the user gets it: zeros as arrays, those of integers as NumPy float0 arrays."""
    if type(tangent) is not Zero:
        return as_array(tangent)
    if tangent.aval.dtype == dtypes.float0:
        return np.zeros(tangent.aval.shape, dtypes.float0)
    return as_array(instantiate(tangent))


def _check_tangents(primals: Sequence[Any], tangents: Sequence[Any], who: str, what: str) -> None:
    for p, t in zip(primals, tangents):
        if type(p) is Array and type(t) is Array and p.aval is t.aval and t.aval.dtype in dtypes.INEXACT:
            continue  # as nearly always
        want, have = aval_of(p).to_tangent_aval(), aval_of(t)
        if want.shape != have.shape or want.dtype != have.dtype:
            hint = " Tangents of integers have dtype float0." if want.dtype == dtypes.float0 else ""
            raise ArgumentError(
                f"{who}: the {what} of a value of type {aval_of(p).str_short()} has type {want.str_short()}, "
                f"and {have.str_short()} was given.{hint}"
            )


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `fun` at some point, and its derivative there as a linear function.

    Use it to apply the derivative to many tangents: `fun` itself is run once.

    Returns:
      (value, f_jvp), where `f_jvp(*tangents)` gives the tangent of the value; and the auxiliary data where `has_aux`.
      `f_jvp` is a pytree of what it keeps.

    >>> import xpr, xpr.numpy as jnp
    >>> y, f_jvp = xpr.linearize(jnp.square, 3.0)
    >>> f_jvp(1.0)
    Array(6., dtype=float32, weak_type=True)
    """
    leaves, in_tree = flatten_arguments(primals)
    flat = FunctionWithAux(fun, in_tree) if has_aux else FlatFunction(fun, in_tree)
    is_active = [aval_of(x).dtype in dtypes.INEXACT for x in leaves]
    outs, linear, active_outs = linearize_flat(flat, leaves, is_active)
    out_tree, n_outs, aux = _split_aux(flat, outs)
    out_avals = [aval_of(x).to_tangent_aval() for x in outs[:n_outs]]
    active_outs, program = active_outs[:n_outs], linear.jaxpr

    def f_jvp(residuals: list[Any], *tangents: Any) -> Any:
        tangent_leaves, tangent_tree = tree.flatten((tangents, {}))
        if tangent_tree != in_tree:
            tree.check_same_structure(primals, tangents, "linearize: the tangents must have the primals' structure")
        _check_tangents(leaves, tangent_leaves, "linearize", "tangent")
        given = [t for t, active in zip(tangent_leaves, is_active) if active]
        found = iter(eval_jaxpr(program, residuals, *given))
        results = [next(found) if active else _tangent_out(Zero(a)) for active, a in zip(active_outs, out_avals)]
        return tree.unflatten(out_tree, results)

    value = tree.unflatten(out_tree, map(as_array, outs[:n_outs]))
    return (value, Partial(f_jvp, linear.consts), *aux)


def _split_aux(flat: FlatFunction, outs: Sequence[Any]) -> tuple[Any, int, list[Any]]:
    """The structure of the differentiated result, its number of leaves, and the auxiliary data in a list."""
    if not isinstance(flat, FunctionWithAux):
        return flat.out_tree, len(outs), []
    out_tree, aux_tree = flat.out_tree.children()
    return out_tree, flat.count, [tree.unflatten(aux_tree, outs[flat.count :])]


# -- Reverse mode


@boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `fun`, and the function that takes a cotangent of it to cotangents of the arguments.

    Returns:
      (value, f_vjp), where `f_vjp(ct)` gives a tuple with a cotangent for each argument; and the auxiliary data where
      `has_aux`. `f_vjp` is a pytree of the residuals, so a jitted function can return it, or the fwd of a custom_vjp.

    >>> import xpr, xpr.numpy as jnp
    >>> y, f_vjp = xpr.vjp(jnp.sin, 0.0)
    >>> f_vjp(2.0)
    (Array(2., dtype=float32, weak_type=True),)
    """
    leaves, in_tree = flatten_arguments(primals)
    flat = FunctionWithAux(fun, in_tree) if has_aux else FlatFunction(fun, in_tree)
    is_active = [aval_of(x).dtype in dtypes.INEXACT for x in leaves]
    outs, linear, active_outs = linearize_flat(flat, leaves, is_active)
    out_tree, n_outs, aux = _split_aux(flat, outs)
    out_avals = [aval_of(x) for x in outs[:n_outs]]
    in_avals, program = [aval_of(x) for x in leaves], linear.jaxpr
    active_leaves = [x for x, active in zip(leaves, is_active) if active]
    active_results = [x for x, active in zip(outs[:n_outs], active_outs) if active]
    number = len(active_results)

    def f_vjp(residuals: list[Any], ct: Any) -> tuple[Any, ...]:
        ct_leaves, ct_tree = tree.flatten(ct)
        if ct_tree != out_tree:
            blank = tree.unflatten(out_tree, [0] * n_outs)
            tree.check_same_structure(blank, ct, "vjp: the cotangent must have the structure of the function's result")
        _check_cotangents([a.to_tangent_aval() for a in out_avals], ct_leaves, "vjp")
        residuals, copied = residuals[: len(linear.consts)], residuals[len(linear.consts) :]
        cts = [_symbolic(c) for c, active in zip(ct_leaves, active_outs) if active]
        cts = shares(cts, copied[: len(cts)])
        cts += [Zero(v.aval) for v in program.outvars[len(cts) :]]  # the auxiliary results have none
        found = iter(sums(backward_pass(program, residuals, cts), copied[number:]))
        results = [next(found) if active else Zero(a.to_tangent_aval()) for active, a in zip(is_active, in_avals)]
        args, _ = tree.unflatten(in_tree, [_tangent_out(r) for r in results])
        return args

    kept = [*linear.consts, *active_results, *active_leaves] if count_copies() else linear.consts
    return (tree.unflatten(out_tree, map(as_array, outs[:n_outs])), Partial(f_vjp, kept), *aux)


def _check_cotangents(wanted: Sequence[ShapedArray], cts: Sequence[Any], what: str) -> None:
    for want, ct in zip(wanted, cts):
        have = aval_of(ct)
        if want.shape != have.shape or want.dtype != have.dtype:
            raise ArgumentError(
                f"{what}: the cotangent of a result of type {want.str_short()} must have that type, "
                f"and {have.str_short()} was given."
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
      fun: takes pytrees of arrays, gives a real scalar (complex if `holomorphic`).
      argnums: the positional arguments to differentiate by; a tuple of gradients is given for a sequence.
      has_aux: `fun` gives a pair (scalar, auxiliary data); then so does the gradient function.
      holomorphic: `fun` is holomorphic: arguments and result are complex.
      allow_int: differentiate also by integer arguments; their gradients have dtype float0.
      reduce_axes: must be empty.
    Raises:
      TypeError: the result is no real scalar, or an argument has no tangents.

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
    """Like `grad`, giving the value too: (value, gradient), or ((value, aux), gradient) with `has_aux`.

    >>> import xpr
    >>> xpr.value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise TypeError(f"grad differentiates functions, and got {fun!r}.")
    if tuple(reduce_axes):
        raise NotImplementedError(
            "grad: reduce_axes is not supported; sum over the axis with lax.psum in the function."
        )

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        active = positions(argnums, len(args), "argnums")
        leaves, in_tree = tree.flatten(tuple(args[i] for i in active))
        for x in leaves:
            _check_input(x, holomorphic, allow_int)
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
                    f"has_aux=True: {describe_function(fun)} must return a pair (scalar, auxiliary data); "
                    f"it returned {out!r}."
                )
            aux_leaves, aux_tree = tree.flatten(out[1])
            aux = aux_tree
            return [_checked_scalar(fun, out[0], holomorphic), *aux_leaves]

        is_active = [aval_of(x).dtype in dtypes.INEXACT for x in leaves]
        outs, linear, active_outs = linearize_flat(of_active, leaves, is_active)
        gradients = tree.unflatten(in_tree, _gradients(outs[0], linear, active_outs[0], leaves, is_active))
        value = as_array(outs[0])
        if has_aux:
            value = (value, tree.unflatten(aux, outs[1:]))
        return value, gradients if not isinstance(argnums, int) else gradients[0]

    return named_like(boundary(value_and_gradient), fun)


def _gradients(
    out: Any, linear: ClosedJaxpr, out_is_active: bool, leaves: Sequence[Any], is_active: Sequence[bool]
) -> list[Any]:
    """Pulls the cotangent 1 of a scalar back through the linear program."""
    cts: list[Any] = [Zero(v.aval) for v in linear.jaxpr.outvars]
    if out_is_active:
        aval = aval_of(out)
        cts[0] = 1.0 if aval.weak_type and aval.dtype in dtypes.FLOATS else aval.dtype.type(1)
        cts[:1] = shares(cts[:1], [out])
    pulled = backward_pass(linear.jaxpr, linear.consts, cts)
    found = iter(sums(pulled, [x for x, active in zip(leaves, is_active) if active]))
    return [
        _tangent_out(next(found) if active else Zero(aval_of(x).to_tangent_aval()))
        for x, active in zip(leaves, is_active)
    ]


def _check_input(x: Any, holomorphic: bool, allow_int: bool) -> None:
    dtype = aval_of(x).dtype
    if holomorphic and dtype not in dtypes.COMPLEX:
        raise TypeError(f"grad: holomorphic=True needs complex arguments, and one is {aval_of(x).str_short()}.")
    if dtype in dtypes.INEXACT or (allow_int and (dtype in dtypes.INTEGERS or dtype == dtypes.bool_)):
        if dtype in dtypes.COMPLEX and not holomorphic:
            return
        return
    raise TypeError(
        f"grad: differentiates by floating-point or complex arguments, and got one of type {aval_of(x).str_short()}. "
        "Pass floats (2.0, not 2), choose other arguments with argnums, or say allow_int=True for gradients of dtype "
        "float0."
    )


def _checked_scalar(fun: Callable[..., Any], out: Any, holomorphic: bool) -> Any:
    try:
        aval = aval_of(out)
    except TypeError:
        raise TypeError(
            f"grad: {describe_function(fun)} must return a scalar array, and returned {type(out).__name__}: {out!r}. "
            "For a pair of a loss and other data, say has_aux=True."
        ) from None
    if aval.shape != ():
        raise TypeError(
            f"grad: {describe_function(fun)} must return a scalar, and returned an array of type {aval.str_short()}. "
            "Sum or average it, or use jacrev or jacfwd for its Jacobian."
        )
    if holomorphic and aval.dtype not in dtypes.COMPLEX:
        raise TypeError(
            f"grad: holomorphic=True needs a complex result, and {describe_function(fun)} gave {aval.str_short()}."
        )
    if not holomorphic and aval.dtype not in dtypes.FLOATS:
        hint = "For a complex-differentiable function say holomorphic=True." if aval.dtype in dtypes.COMPLEX else ""
        raise TypeError(
            f"grad: {describe_function(fun)} must return a real number, and returned {aval.str_short()}. {hint}"
        )
    return out


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[..., Any]:
    """The transpose of a function that is linear.

    Args:
      fun: linear in its arguments, of floats or complex numbers, or of integers and to integers.
      *primals: arrays, or anything with a shape and a dtype, to say the arguments' types.
    Returns:
      A function of a cotangent of the result giving a tuple with a cotangent for each argument; it is a pytree.

    >>> import xpr
    >>> xpr.linear_transpose(lambda x: 3 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    leaves, in_tree = flatten_arguments(primals)
    flat = FlatFunction(fun, in_tree)
    avals = [shaped(x) for x in leaves]
    closed = stage(flat, avals)
    out_tree = flat.out_tree

    are_integers = all(a.dtype in dtypes.INTEGERS for a in (*avals, *closed.out_avals))
    ct_avals = closed.out_avals if are_integers else [a.to_tangent_aval() for a in closed.out_avals]

    def transposed(consts: Sequence[Any], copied: Sequence[Any], ct: Any) -> tuple[Any, ...]:
        ct_leaves, ct_tree = tree.flatten(ct)
        if ct_tree != out_tree:
            blank = tree.unflatten(out_tree, [0] * out_tree.num_leaves)
            tree.check_same_structure(
                blank, ct, "linear_transpose: the cotangent must have the structure of the result"
            )
        _check_cotangents(ct_avals, ct_leaves, "linear_transpose")
        pulled = backward_pass(closed.jaxpr, consts, shares(ct_leaves, ct_leaves), [True] * len(avals))
        args, _ = tree.unflatten(in_tree, [_tangent_out(r) for r in sums(pulled, copied)])
        return args

    copied = [x if isinstance(x, (Array, Tracer)) else np.zeros(()) for x in leaves]
    return Partial(transposed, closed.consts, copied)


# -- Jacobians


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian by forward mode, a column at a time: for functions with more results than arguments.

    Returns:
      A function giving, for each leaf of the result and each leaf of the argument, an array whose shape is the one's
      followed by the other's.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacfwd(lambda x: x * x)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_active, point, point_tree = _active(fun, args, kwargs, argnums)
        for x in point:
            _check_jacobian_input(x, holomorphic, "jacfwd")

        def push(*directions: Any) -> Any:
            return jvp(of_active, tuple(point), directions, has_aux=has_aux)

        axes = (None, -1, None) if has_aux else (None, -1)
        value, columns, *aux = vmap(named_like(push, fun), out_axes=axes)(*_standard_basis(point))
        jac = tree.map(lambda out, column: _split_columns(column, out, point, point_tree, argnums), value, columns)
        return (jac, *aux) if has_aux else jac

    return named_like(boundary(jacobian), fun)


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, a row at a time: for functions with more arguments than results.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.jacrev(lambda x: x * x)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        of_active, point, point_tree = _active(fun, args, kwargs, argnums)
        for x in point:
            _check_input(x, holomorphic, allow_int)
        value, pull, *aux = vjp(of_active, *point, has_aux=has_aux)
        out_leaves, out_tree = tree.flatten(value)
        for x in out_leaves:
            _check_jacobian_output(fun, x, holomorphic, "jacrev")
        rows = vmap(pull)(tree.unflatten(out_tree, _standard_basis(out_leaves)))
        blocks = [_split_rows(row, out_leaves, x) for row, x in zip(rows, point)]
        nested = [_for_argnums([block[i] for block in blocks], point_tree, argnums) for i in range(len(out_leaves))]
        jac = tree.unflatten(out_tree, nested)
        return (jac, *aux) if has_aux else jac

    return named_like(boundary(jacobian), fun)


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The matrix of second derivatives, forward over reverse.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.hessian(lambda x: x[0] * x[1] ** 2)(jnp.array([1., 3.]))
    Array([[0., 6.],
           [6., 2.]], dtype=float32)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


def _active(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: int | Sequence[int]
) -> tuple[Callable[..., Any], list[Any], Any]:
    """`fun` as a function of the leaves of its active arguments, those leaves, and their structure."""
    active = positions(argnums, len(args), "argnums")
    leaves, in_tree = tree.flatten(tuple(args[i] for i in active))

    def of_active(*xs: Any) -> Any:
        full = list(args)
        for i, x in zip(active, tree.unflatten_sorted(in_tree, xs)):
            full[i] = x
        return fun(*full, **kwargs)

    return named_like(of_active, fun), leaves, in_tree


def _check_jacobian_input(x: Any, holomorphic: bool, who: str) -> None:
    dtype = aval_of(x).dtype
    wanted = dtypes.COMPLEX if holomorphic else dtypes.FLOATS
    if dtype not in wanted:
        kind = "complex" if holomorphic else "real floating-point"
        raise TypeError(f"{who}: needs {kind} arguments here, and got {aval_of(x).str_short()}.")


def _check_jacobian_output(fun: Callable[..., Any], x: Any, holomorphic: bool, who: str) -> None:
    dtype = aval_of(x).dtype
    if dtype not in (dtypes.COMPLEX if holomorphic else dtypes.FLOATS):
        kind = "complex" if holomorphic else "real floating-point"
        raise TypeError(
            f"{who}: {describe_function(fun)} must return {kind} arrays, and returned {aval_of(x).str_short()}."
        )


def _standard_basis(leaves: Sequence[Any]) -> list[Any]:
    """For each leaf its share of the identity matrix of all entries: (total, *shape)."""
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    basis, start = [], 0
    for aval in avals:
        block = np.eye(total, aval.size, -start, dtype=aval.dtype)
        basis.append(reshape(block, (total, *aval.shape)))
        start += aval.size
    return basis


def _split_columns(columns: Any, out: Any, point: Sequence[Any], point_tree: Any, argnums: Any) -> Any:
    """(*out, total) as one array (*out, *argument) for each argument leaf."""
    parts, start = [], 0
    shape = aval_of(out).shape
    for x in point:
        aval = aval_of(x)
        part = columns[..., start : start + aval.size]
        parts.append(reshape(part, (*shape, *aval.shape)))
        start += aval.size
    return _for_argnums(parts, point_tree, argnums)


def _split_rows(rows: Any, outs: Sequence[Any], x: Any) -> list[Any]:
    """(total, *argument) as one array (*out, *argument) for each leaf of the result."""
    parts, start = [], 0
    for out in outs:
        aval = aval_of(out)
        part = rows[start : start + aval.size]
        parts.append(reshape(part, (*aval.shape, *aval_of(x).shape)))
        start += aval.size
    return parts


def _for_argnums(parts: Sequence[Any], point_tree: Any, argnums: Any) -> Any:
    nested = tree.unflatten(point_tree, parts)
    return nested[0] if isinstance(argnums, int) else nested


__all__ = [
    "grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp",
]  # fmt: skip
