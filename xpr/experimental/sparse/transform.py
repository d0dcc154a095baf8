"""sparsify: functions of dense arrays as functions of sparse ones.

A `SparseTracer` has the type of the dense array and holds the sparse one. An operation on dense arrays alone is passed
on, and one with a sparse operand has a rule in `RULES`:

    rule(values, **params) -> result

Elementwise functions that map 0 to 0 are applied to the stored elements; an operation that moves elements is the
function of the same name for sparse arrays; calls are evaluated in place, and the carries of loops may be sparse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import lax, tree
from xpr import numpy as jnp
from xpr.control.cond.cond import cond_p
from xpr.control.cond.function import switch
from xpr.control.groups import split_list
from xpr.control.scan.function import scan
from xpr.control.scan.scan import scan_p
from xpr.control.while_.function import while_loop
from xpr.control.while_.while_loop import while_p
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import Trace, Tracer, context, current
from xpr.core.jaxpr import Jaxpr, eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.source import here, summarize
from xpr.experimental.sparse.bcsr import BCSR, bcsr_broadcast_in_dim, bcsr_concatenate
from xpr.experimental.sparse.coordinates import BCOO, like
from xpr.experimental.sparse.layouts import bcoo_sum_duplicates, bcoo_transpose
from xpr.experimental.sparse.products import (
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from xpr.experimental.sparse.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)

__all__ = ["SparseTracer", "sparsify"]


class SparseTracer(Tracer):
    """A sparse array, with the type of the dense one."""

    __slots__ = ("value",)

    def __init__(self, trace: Trace, value: Any):
        super().__init__(trace, ShapedArray(value.shape, value.dtype))
        self.value = value

    def todense(self) -> Any:
        """The dense array."""
        with current(self._trace.parent or self._trace):
            return self.value.todense()


class SparseTrace(Trace):
    """Applies operations to sparse arrays."""

    __slots__ = ()
    verb = "sparsified"

    def unwrapped(self, x: Any) -> Any:
        return x.value if isinstance(x, SparseTracer) and x._trace is self else x

    def wrapped(self, x: Any) -> Any:
        return SparseTracer(self, x) if _is_sparse(x) else x

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        values = list(map(self.unwrapped, args))
        if not any(map(_is_sparse, values)):
            assert self.parent is not None
            return self.parent.process(primitive, args, params)
        with current(self.parent or self):
            if primitive in LOOPS:
                outs = LOOPS[primitive](values, **params)
            elif primitive.call:
                outs = _called(primitive, values, params)
            else:
                outs = [_applied(primitive, values, params)]
        return list(map(self.wrapped, outs))


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function that takes, and may return, sparse arrays wherever `f` takes arrays.

    Args:
      f: a function of pytrees of arrays, made of the operations that have rules for sparse arrays: elementwise
        functions that map 0 to 0, products, sums, `dot_general`, those that move elements, calls and loops. In it,
        `sparse.todense` makes a sparse argument dense.
      use_tracer: has no effect: JAX has two ways to do this.

    Returns:
      A function of the same arguments.

    Raises:
      NotImplementedError: when called, an operation on sparse arrays has no rule.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> sparse.sparsify(lambda m, x: jnp.sin(m) @ x)(m, jnp.ones(2))
    Array([0.9092974, 0.14112  ], dtype=float32)
    """

    @functools.wraps(f)
    def on_sparse(*args: Any, **kwargs: Any) -> Any:
        trace = SparseTrace(context.trace)
        wrapped = tree.map(trace.wrapped, (args, kwargs), is_leaf=_is_sparse)
        with current(trace):
            out = f(*wrapped[0], **wrapped[1])
        trace.alive = False
        return tree.map(trace.unwrapped, out)

    return on_sparse


def _is_sparse(x: Any) -> bool:
    return isinstance(x, (BCOO, BCSR))


def _applied(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    rules = RULES_OF_ROWS if any(isinstance(x, BCSR) for x in values) else RULES
    rule = rules.get(primitive) or RULES.get(primitive)
    if rule is None:
        sparse = ", ".join(repr(x) for x in values if _is_sparse(x))
        raise NotImplementedError(
            f"sparsify: {primitive} has no rule for sparse arrays, and was given {sparse}.\n"
            f"  at {summarize(here())}\n  Convert them there, by sparse.todense(x)."
        )
    if rules.get(primitive) is None:
        values = [x.to_bcoo() if isinstance(x, BCSR) else x for x in values]
    return rule(values, **params)


# -- Elementwise


def _with_data(x: Any, data: Any) -> Any:
    if isinstance(x, BCOO):
        return like(x, data)
    about = {"indices_sorted": x.indices_sorted, "unique_indices": x.unique_indices}
    return BCSR((data, x.indices, x.indptr), shape=x.shape, **about)


def _stored(linear: bool, primitive: Primitive) -> Callable[..., Any]:
    """A function with f(0) = 0, of the stored elements; one that is not linear needs each index once."""

    def rule(values: Sequence[Any], **params: Any) -> Any:
        (x,) = values
        if not linear and not x.unique_indices:
            x = bcoo_sum_duplicates(x, x.nse) if isinstance(x, BCOO) else x.sum_duplicates(x.nse, remove_zeros=False)
        (data,) = context.trace.process(primitive, [x.data], params)
        return _with_data(x, data)

    return rule


def _integer_pow(values: Sequence[Any], *, y: int) -> Any:
    if y <= 0:
        raise NotImplementedError(f"sparsify: {values[0]!r} ** {y} is not 0 where nothing is stored.")
    return _stored(False, lax.integer_pow_p)(values, y=y)


def _mul(values: Sequence[Any], **params: Any) -> Any:
    x, y = values if _is_sparse(values[0]) else reversed(values)
    x_shape, y_shape = x.shape, jnp.shape(y) if not _is_sparse(y) else y.shape
    if not _is_sparse(y):
        shape = jnp.broadcast_shapes(x_shape, y_shape)
        return _with_data(x, bcoo_multiply_dense(_bcoo(x), y)) if shape == x_shape else _mul([_broadcast(x, shape), y])
    if x.indices is y.indices and x.unique_indices:
        return _with_data(x, x.data * y.data)
    return bcoo_multiply_sparse(_bcoo(x), _bcoo(y))


def _bcoo(x: Any) -> BCOO:
    return x.to_bcoo() if isinstance(x, BCSR) else x


def _div(values: Sequence[Any], **params: Any) -> Any:
    x, y = values
    if _is_sparse(y):
        raise NotImplementedError(f"sparsify: a division by {y!r} divides by zero where nothing is stored.")
    return _mul([x, 1 / y])


def _add(values: Sequence[Any], **params: Any) -> Any:
    x, y = values
    if not (_is_sparse(x) and _is_sparse(y)):
        x, y = (x, y) if _is_sparse(x) else (y, x)
        if jnp.broadcast_shapes(x.shape, jnp.shape(y)) != jnp.shape(y):
            raise NotImplementedError(
                f"sparsify: the sum of {x!r} and a dense array of shape {jnp.shape(y)} is dense, and larger than that. "
                "Convert the former by sparse.todense(x)."
            )
        return x.todense() + y
    if x.indices is y.indices and x.shape == y.shape:
        return like(x, x.data + y.data)
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    x, y = _broadcast(x, shape), _broadcast(y, shape)
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        raise NotImplementedError(
            f"sparsify: the sum of {x!r} and {y!r}, which differ in batch or dense axes. Change them by update_layout."
        )
    batch = x.indices.shape[: x.n_batch]
    equal = batch == y.indices.shape[: x.n_batch] == x.data.shape[: x.n_batch] == y.data.shape[: x.n_batch]
    if not equal:
        x, y = (bcoo_broadcast_in_dim(z, shape=shape, broadcast_dimensions=range(len(shape))) for z in (x, y))
    data, indices = (lax.concatenate(list(pair), x.n_batch) for pair in ((x.data, y.data), (x.indices, y.indices)))
    return BCOO((data, indices), shape=shape)


def _sub(values: Sequence[Any], **params: Any) -> Any:
    x, y = values
    return _add([x, _with_data(y, -y.data) if _is_sparse(y) else -y])


def _broadcast(x: Any, shape: Sequence[int]) -> BCOO:
    """Axes of size 1 grown to a shape."""
    x = _bcoo(x)
    if x.shape == tuple(shape):
        return x
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(len(shape) - x.ndim, len(shape)))


# -- Operations that move elements


def _first(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function of one sparse array."""
    return lambda values, **params: fun(values[0], **params)


def _concatenate(values: Sequence[Any], *, dimension: int) -> Any:
    if not all(map(_is_sparse, values)):
        raise NotImplementedError(
            "sparsify: sparse and dense arrays are concatenated as dense ones; use sparse.todense(x)."
        )
    return bcoo_concatenate([_bcoo(x) for x in values], dimension=dimension)


def _reduce_sum(values: Sequence[Any], *, axes: Sequence[int], **params: Any) -> Any:
    out = bcoo_reduce_sum(values[0], axes=axes)
    return out if out.shape else jnp.sum(out.data, dtype=out.dtype)


def _dynamic_slice(values: Sequence[Any], *, slice_sizes: Sequence[int]) -> Any:
    return bcoo_dynamic_slice(values[0], values[1:], slice_sizes)


def _gather(values: Sequence[Any], **params: Any) -> Any:
    return bcoo_gather(*values, **params)


def _dot_general(values: Sequence[Any], **params: Any) -> Any:
    return bcoo_dot_general(*values, **params)


def _convolution(values: Sequence[Any], **params: Any) -> Any:
    return bcoo_conv_general_dilated(*values, **params)


# -- Calls and loops


def _sparse_jaxpr(jaxpr: Jaxpr) -> Callable[..., Any]:
    """A jaxpr as a function of dense and sparse arrays."""
    return sparsify(lambda *args: eval_jaxpr(jaxpr, (), *args))


def _called(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """The function that is called, in place; the rules of custom derivatives are those of its operations."""
    function = params.get("call_jaxpr", params.get("jaxpr"))
    if not isinstance(function, Jaxpr):
        if not callable(function):
            raise NotImplementedError(f"sparsify: {primitive} has no rule for sparse arrays. Use sparse.todense(x).")
        return sparsify(lambda *args: list(function(*args)))(*values)  # type: ignore[no-any-return]
    return _sparse_jaxpr(function)(*values)  # type: ignore[no-any-return]


def _scan(
    values: Sequence[Any], *, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int, reverse: bool, unroll: Any,
    **params: Any,
) -> Sequence[Any]:  # fmt: skip
    consts, carry, xs = split_list(values, num_consts, num_carry)
    body = _sparse_jaxpr(jaxpr)

    def step(carry: Any, xs: Any) -> Any:
        return tuple(split_list(body(*consts, *carry, *xs), num_carry))

    carry, ys = scan(step, carry, xs, length=length, reverse=reverse, unroll=unroll)
    return [*carry, *ys]


def _while(
    values: Sequence[Any], *, cond_jaxpr: Jaxpr, cond_nconsts: int, body_jaxpr: Jaxpr, body_nconsts: int, **params: Any
) -> Sequence[Any]:
    cond_consts, body_consts, carry = split_list(values, cond_nconsts, body_nconsts)
    cond, body = _sparse_jaxpr(cond_jaxpr), _sparse_jaxpr(body_jaxpr)
    out: Sequence[Any] = while_loop(
        lambda carry: cond(*cond_consts, *carry)[0], lambda carry: body(*body_consts, *carry), carry
    )
    return out


def _cond(values: Sequence[Any], *, branches: Sequence[Jaxpr], **params: Any) -> Sequence[Any]:
    index, *operands = values
    out: Sequence[Any] = switch(index, list(map(_sparse_jaxpr, branches)), *operands)
    return out


LOOPS: dict[Primitive, Callable[..., Any]] = {scan_p: _scan, while_p: _while, cond_p: _cond}

LINEAR = (lax.neg_p, lax.real_p, lax.imag_p, lax.conj_p, lax.copy_p)
MAPPING_ZERO_TO_ZERO = (
    lax.abs_p, lax.sign_p, lax.sin_p, lax.tan_p, lax.sinh_p, lax.tanh_p, lax.asin_p, lax.atan_p, lax.asinh_p,
    lax.atanh_p, lax.sqrt_p, lax.cbrt_p, lax.expm1_p, lax.log1p_p, lax.floor_p, lax.ceil_p, lax.round_p,
    lax.bessel_i1e_p, lax.square_p, lax.convert_element_type_p,
)  # fmt: skip
RULES: dict[Primitive, Callable[..., Any]] = {
    **{p: _stored(True, p) for p in LINEAR},
    **{p: _stored(False, p) for p in MAPPING_ZERO_TO_ZERO},
    lax.integer_pow_p: _integer_pow, lax.mul_p: _mul, lax.div_p: _div, lax.add_p: _add, lax.sub_p: _sub,
    lax.transpose_p: _first(bcoo_transpose), lax.reduce_sum_p: _reduce_sum, lax.reshape_p: _first(bcoo_reshape),
    lax.squeeze_p: _first(bcoo_squeeze), lax.rev_p: _first(bcoo_rev), lax.slice_p: _first(bcoo_slice),
    lax.dynamic_slice_p: _dynamic_slice, lax.gather_p: _gather, lax.concatenate_p: _concatenate,
    lax.broadcast_in_dim_p: _first(bcoo_broadcast_in_dim), lax.dot_general_p: _dot_general,
    lax.conv_general_dilated_p: _convolution,
}  # fmt: skip
# For BCSR arrays, what keeps the format; other rules get BCOO arrays.
RULES_OF_ROWS: dict[Primitive, Callable[..., Any]] = {
    **{p: RULES[p] for p in (*LINEAR, *MAPPING_ZERO_TO_ZERO, lax.integer_pow_p, lax.mul_p, lax.div_p)},
    lax.broadcast_in_dim_p: _first(bcsr_broadcast_in_dim),
    lax.concatenate_p: lambda values, dimension: bcsr_concatenate(values, dimension=dimension),
}
