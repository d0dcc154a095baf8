"""physical : jaxpr -> jaxpr. Replaces arrays of random keys by arrays of the words that the keys consist of.

The buffer of an array of keys `key<fry>[3]` is an array of words `u32[3,2]`, whose last axes are those of one key. So
an operation that moves whole elements is, on words, the same operation mapped over these axes, by its batching rule;
two keys are equal if all of their words are; and an operation that draws from keys is a function of one key's words,
mapped over the axes of the keys. The inner jaxprs of equations are rewritten likewise.

    a:key<fry>[3] i:i32[]                          a:u32[3,2] i:i32[]
    b:key<fry>[1] = dynamic_slice[sizes=(1,)] a i  b:u32[1,2] = dynamic_slice[sizes=(1, 2)] a i 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.avals import ShapedArray, aval_of, is_key
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr, subjaxprs, with_subjaxprs
from xpr.primitives.random_keys import impl_of, random_unwrap, random_wrap
from xpr.primitives.reductions import reduce_and, reduce_or
from xpr.primitives.shapes import broadcast_in_dim, mapped_to, reshape
from xpr.primitives.slicing import concatenate, slice_in_dim
from xpr.transforms.batch import batch_flat
from xpr.transforms.stage import StageTracer, stage


def physical(jaxpr: Jaxpr) -> Jaxpr:
    """The program on the words of its keys, cached with it; the jaxpr itself where it has no keys."""
    if not has_keys(jaxpr):
        return jaxpr
    known = jaxpr.memo.get("physical")
    if known is None:
        known = jaxpr.memo["physical"] = _rewritten(jaxpr)
    return known


def has_keys(jaxpr: Jaxpr) -> bool:
    """Whether a value of the program, at any depth, is an array of random keys; cached with it."""
    if "has_keys" not in jaxpr.memo:
        jaxpr.memo["has_keys"] = any(is_key(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)) or any(
            any(is_key(v.aval) for v in eqn.outvars) or (eqn.primitive.call and any(map(has_keys, subjaxprs(eqn))))
            for eqn in jaxpr.eqns
        )
    return jaxpr.memo["has_keys"]


def _rewritten(jaxpr: Jaxpr) -> Jaxpr:
    avals = [v.aval.physical if is_key(v.aval) else v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]
    closed = stage(lambda *values: _run_on_words(jaxpr, values), avals)
    if closed.consts:
        inner, consts = closed.jaxpr, closed.consts
        closed = stage(lambda *values: eval_jaxpr(inner, list(map(_from_scalars, consts)), *values), avals)
    invars, n = closed.jaxpr.invars, len(jaxpr.constvars)
    return physical(closed.jaxpr.replace(constvars=invars[:n], invars=invars[n:]))


def _from_scalars(constant: Any) -> Any:
    """A small array that a rule reads, computed from scalars: the rewritten jaxpr has no further constants."""
    table = np.asarray(constant)
    if not table.size:
        return broadcast_in_dim(np.zeros((), table.dtype)[()], table.shape, ())
    scalars = [broadcast_in_dim(scalar, (1,), ()) for scalar in table.ravel()]
    return reshape(concatenate(scalars, 0), table.shape)


def _run_on_words(jaxpr: Jaxpr, arguments: Sequence[Any]) -> list[Any]:
    """The results of the program, staged with words in place of its keys."""
    env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments))
    before, decides_later, context.decides_later = context.source, context.decides_later, True
    try:
        for eqn in jaxpr.eqns:
            context.source = eqn.source
            values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]  # type: ignore[index]
            env.update(zip(eqn.outvars, _physical_results(eqn, values)))
    finally:
        context.source, context.decides_later = before, decides_later
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]  # type: ignore[index]


def _physical_results(eqn: JaxprEqn, values: list[Any]) -> list[Any]:
    """The results of an equation, keys among them as words, from such operands."""
    avals = [v.aval for v in eqn.invars]
    with_keys = any(map(is_key, [*avals, *[v.aval for v in eqn.outvars]]))
    if with_keys and eqn.primitive.physical is None and eqn.primitive.lower_as is not None:
        return _by_function(eqn.primitive.lower_as, eqn, values)
    if eqn.primitive.physical is None or not with_keys:
        return _same_equation(with_subjaxprs(eqn, physical) if eqn.primitive.call else eqn, values)
    rule = eqn.primitive.physical
    if callable(rule):
        return list(rule(each_key, values, avals, **eqn.params))
    key_shape = next(v.aval.dtype for v in eqn.invars if is_key(v.aval)).key_shape  # type: ignore[attr-defined]
    reduce = {"moved": None, "all": reduce_and, "any": reduce_or}[rule]
    return _over_words(eqn, values, avals, key_shape, reduce)


def _by_function(function: Callable[..., Any], eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """The results of an operation that is a function of keys, which is rewritten in turn."""
    keys = [random_wrap(x, impl_of(v.aval)) if is_key(v.aval) else x for x, v in zip(values, eqn.invars)]
    return [random_unwrap(x) if is_key(aval_of(x)) else x for x in function(*keys, **eqn.params)]


def _same_equation(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Stages the same equation on other operands, without its typing rule; keys among its results become words."""
    trace: Any = context.trace
    operands = [x.variable if type(x) is StageTracer and x._trace is trace else trace.lift(x) for x in values]
    for i, v in enumerate(eqn.invars):
        if type(v) is Literal:
            operands[i] = v
    outvars = [Var(v.aval.physical) if is_key(v.aval) else v for v in eqn.outvars]
    trace.eqns.append(JaxprEqn(operands, outvars, eqn.primitive, eqn.params, eqn.source))
    return [StageTracer(trace, v.aval, v) for v in outvars]


def _over_words(
    eqn: JaxprEqn, values: Sequence[Any], avals: Sequence[ShapedArray], key_shape: tuple[int, ...],
    reduce: Callable[[Any, Sequence[int]], Any] | None,
) -> list[Any]:  # fmt: skip
    """The operation mapped over the axes of the words, whose sizes are `key_shape` and which are last in results."""
    if not key_shape:
        return context.trace.process(eqn.primitive, values, eqn.params)
    *others, size = key_shape
    dims = [aval_of(x).ndim - 1 if is_key(aval) else None for x, aval in zip(values, avals)]
    outs, out_dims = batch_flat(lambda *rows: _over_words(eqn, rows, avals, tuple(others), reduce), size, values, dims)
    results = []
    for v, x, dim in zip(eqn.outvars, outs, out_dims):
        last = aval_of(x).ndim - (dim is not None)
        if is_key(v.aval) or reduce is not None:
            x = mapped_to(x, dim, size, last)
            results.append(x if reduce is None else reduce(x, (last,)))
        else:  # no key: an operation that also moves keys gives the same result for all words
            results.append(x if dim is None else _first_row(x, dim))
    return results


def _first_row(x: Any, dim: int) -> Any:
    shape = aval_of(x).shape
    return reshape(slice_in_dim(x, 0, 1, axis=dim), (*shape[:dim], *shape[dim + 1 :]))


def each_key(fun: Callable[..., Any], ndim: int, *values: Any) -> Any:
    """The result of a function of one key's words, mapped over the first `ndim` axes of the values."""
    if not ndim:
        return fun(*values)
    size = aval_of(values[0]).shape[0]
    (out,), (dim,) = batch_flat(lambda *rows: [each_key(fun, ndim - 1, *rows)], size, values, [0] * len(values))
    return mapped_to(out, dim, size)
