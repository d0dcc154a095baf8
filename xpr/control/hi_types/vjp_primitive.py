"""VJPHiPrimitive: an operation as a class, with its function of arrays, and derivative and batching rules of its own.

An object of the class is the operation on operands of certain types with certain parameters. In a program it is a
parameter of a `call_hi_primitive` equation, whose operands and results are the leaves of the object's arguments and
result. Rules are methods, on pytrees of values.

    call_hi_primitive[op] x
      evaluated, lowered    op.expand(x)
      reverse mode          op.vjp_fwd now, and op.vjp_bwd by a custom_lin (control/custom/custom_lin.py);
                            where it has none, as forward mode, transposed
      forward mode          op.jvp, or op.lin and op.linearized, or op.vjp_bwd transposed
      vmap                  op.batch, by default `VmapOf(op, dims)`
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xpr import tree
from xpr.compile.reference import reference_eval
from xpr.control.custom.custom_lin import tangents_of
from xpr.control.custom.rules import tangent_for_user
from xpr.control.groups import split_list
from xpr.control.hi_types.accumulators import GradAccum, NullAccum
from xpr.control.hi_types.hi_primitive import not_defined
from xpr.core.avals import Zero, aval_of, same_types, types_of
from xpr.core.hi_types import in_use
from xpr.core.interpreter import current
from xpr.core.jaxpr import DropVar, JaxprEqn
from xpr.core.primitive import Linear, Primitive, Unsupported, register
from xpr.primitives.shapes import mapped_to, reduce_sum
from xpr.transforms.batch import AxisData, batch_flat
from xpr.transforms.linearize import LinearizeTrace
from xpr.transforms.on_arrays import arrays_alone
from xpr.transforms.stage import stage
from xpr.tree_nodes import register_static

__all__ = ["call_hi_primitive_p"]


class VJPHiPrimitive:
    """An operation with derivative and batching rules of its own, to derive classes from.

    The constructor of a subclass sets three attributes and then calls `super().__init__()`: `in_avals`, a tuple with
    the types of each argument, a pytree; `out_aval`, those of the result; and `params`, a dictionary of hashable
    parameters, which become attributes.

    >>> import xpr
    >>> from xpr.experimental.hijax import VJPHiPrimitive
    >>> class Power(VJPHiPrimitive):
    ...     def __init__(self, aval, *, power):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {"power": power}
    ...         super().__init__()
    ...     def expand(self, x): return x ** self.power
    ...     def vjp_fwd(self, nzs_in, x): return self(x), x
    ...     def vjp_bwd_retval(self, x, ct): return (ct * self.power * x ** (self.power - 1),)
    >>> def power(x, n):
    ...     return Power(xpr.typeof(x), power=n)(x)
    >>> power(2.0, 3), xpr.grad(power)(2.0, 3)
    (8.0, Array(12., dtype=float32, weak_type=True))
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(
                    f"{type(self).__name__}: its __init__ should set self.{name} before it calls super().__init__()."
                )
        if self._defines("vjp_bwd") and self._defines("vjp_bwd_retval"):
            raise AttributeError(
                f"{type(self).__name__} should not define both vjp_bwd and vjp_bwd_retval: one of them is called."
            )
        self.in_avals_flat, self.in_tree = tree.flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree.flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def __call__(self, *args: Any) -> Any:
        """Applies the operation."""
        what = f"the arguments of {type(self).__name__}"
        outs = call_hi_primitive_p.bind(*tree.flatten_up_to(self.in_tree, args, what), _prim=self)
        return tree.unflatten(self.out_tree, outs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self.params.items(), self.in_tree))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts() == other._parts()  # type: ignore[attr-defined]  # of one class

    def _parts(self) -> tuple[Any, ...]:
        return self.params, self.in_tree, self.in_avals_flat, self.out_tree, self.out_avals_flat, self.effects

    def _defines(self, method: str) -> bool:
        """Whether the class of the operation defines one of the methods below."""
        return getattr(type(self), method) is not getattr(VJPHiPrimitive, method)

    # What subclasses define

    def check(self, *in_avals: Any) -> None:
        """Raises an error for types of arguments that the operation does not take; by default it takes all."""

    def expand(self, *args: Any) -> Any:
        """The result, as a function of arrays and of objects of users' classes."""
        raise not_defined(self, "expand", "Evaluation")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """`(result, residuals)`, and which results have a derivative if not all; `nzs_in` says which arguments have."""
        raise not_defined(self, "vjp_fwd", "Reverse mode")

    def vjp_bwd(self, residuals: Any, out_ct: Any, /, *accumulators: Any) -> None:
        """Adds to the accumulator of each leaf of the arguments its cotangent."""
        ct = self.vjp_bwd_retval(residuals, out_ct)
        what = f"the cotangents that {type(self).__name__}.vjp_bwd_retval returned"
        cts = tree.flatten_up_to(self.in_tree, tuple(ct), what)
        for accumulator, each in zip(tree.leaves(accumulators), cts):
            accumulator.accum(each)

    def vjp_bwd_retval(self, residuals: Any, out_ct: Any, /) -> Any:
        """A tuple with the cotangent of each argument, None for zero."""
        raise not_defined(self, "vjp_bwd or vjp_bwd_retval", "Reverse mode")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The result and its tangent, from the arguments and their tangents, of which some may be `Zero`s."""
        raise not_defined(self, "jvp", "Forward mode")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """`(result, residuals)`, as `vjp_fwd`."""
        raise not_defined(self, "lin", "Linearization")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result."""
        raise not_defined(self, "linearized", "Linearization")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Adds the cotangents to the accumulators, which stand for the arguments in which the operation is linear."""
        raise not_defined(self, "transpose", "The transpose")

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> Any:
        """The result of all rows, and how it is mapped; by default each rule is mapped by `vmap`."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """How the result is mapped, from how the arguments are: a pytree of axes, None where it is not mapped."""
        raise not_defined(self, "batch or batch_dim_rule", "vmap")

    def dce(self, used_outs: Any) -> tuple[Any, Any, VJPHiPrimitive | None]:
        """Which arguments the used results need, which results are computed, and the operation that does that."""
        return True, True, self


# -- The rules of the primitive: those methods on flat lists


def _abstract(avals: Sequence[Any], *, _prim: VJPHiPrimitive) -> list[Any]:
    if not same_types(_prim.in_avals_flat, avals):
        raise TypeError(
            f"{type(_prim).__name__}: it was made for arguments of types ({types_of(_prim.in_avals_flat)}), and is "
            f"called with ({types_of(avals)})."
        )
    if any(aval.is_high for aval in _prim.out_avals_flat):
        in_use()
    return list(_prim.out_avals_flat)


def _expand(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    operation = params["_prim"]
    return _results(operation, "expand", operation.expand(*_arguments(operation, args)))


def _arguments(operation: VJPHiPrimitive, leaves: Sequence[Any]) -> Any:
    return tree.unflatten(operation.in_tree, leaves)


def _results(operation: VJPHiPrimitive, method: str, out: Any) -> list[Any]:
    return tree.flatten_up_to(operation.out_tree, out, f"what {type(operation).__name__}.{method} returned")


def _reference(values: Sequence[Any], *, _prim: VJPHiPrimitive) -> list[Any]:
    closed = stage(lambda *xs: _expand(xs, {"_prim": _prim}), [aval_of(x) for x in values])
    if closed.is_high:
        closed = arrays_alone(closed)
    return reference_eval(closed.jaxpr, closed.consts, *values)


def _is_nonzero(tangents: Sequence[Any]) -> list[bool]:
    return [type(t) is not Zero for t in tangents]


class _Split:
    """The result, residuals and derivative of an operation, by `vjp_fwd` or `lin`.

    Attributes:
      outs: the leaves of the result.
      residuals: what the rule keeps, a pytree.
      is_active: which results have a derivative.
    """

    __slots__ = ("is_active", "outs", "residuals")

    def __init__(self, operation: VJPHiPrimitive, method: str, primals: Sequence[Any], tangents: Sequence[Any]):
        rule = getattr(operation, method)
        nzs_in = _arguments(operation, _is_nonzero(tangents))
        out, self.residuals, *active = rule(nzs_in, *_arguments(operation, primals))
        self.outs = _results(operation, method, out)
        self.is_active = [True] * len(self.outs)
        if active:
            self.is_active = tree.flatten_prefix(active[0], operation.out_tree, f"{type(operation).__name__}.{method}")

    def tangents(self, tangents: Sequence[Any]) -> list[Any]:
        """These tangents, and zeros for results without a derivative."""
        zeros = [Zero.from_primal_value(x) for x in self.outs]
        return [t if active else zero for t, zero, active in zip(tangents, zeros, self.is_active)]


def _linear_by_vjp(operation: VJPHiPrimitive, split: _Split, tangents: Sequence[Any]) -> list[Any]:
    """The tangents of the results, by an operation whose transpose is `vjp_bwd`."""
    residuals, residual_tree = tree.flatten(split.residuals)
    is_nonzero = _is_nonzero(tangents)

    def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        accumulators = [
            (GradAccum if flag else NullAccum)(aval.to_ct_aval())
            for aval, flag in zip(operation.in_avals_flat, is_nonzero)
        ]
        ct = tree.unflatten(operation.out_tree, [tangent_for_user(ct, symbolic_zeros=False) for ct in cts])
        operation.vjp_bwd(tree.unflatten(residual_tree, residuals), ct, *_arguments(operation, accumulators))
        return [Zero(each.aval) if each.value is None else each.value for each in accumulators]

    return tangents_of(split.outs, residuals, tangents, pull, type(operation).__name__)


def _linear_by_method(operation: VJPHiPrimitive, split: _Split, tangents: Sequence[Any]) -> list[Any]:
    """The tangents of the results, by `linearized`."""
    out = operation.linearized(split.residuals, *_arguments(operation, tangents))
    return _results(operation, "linearized", out)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, _prim: VJPHiPrimitive) -> Any:
    if not any(_is_nonzero(tangents)):
        outs = call_hi_primitive_p.bind(*primals, _prim=_prim)
        return outs, list(map(Zero.from_primal_value, outs))
    if _prim._defines("lin") and not _prim._defines("jvp"):
        split = _Split(_prim, "lin", primals, tangents)
        return split.outs, split.tangents(_linear_by_method(_prim, split, tangents))
    if _prim._defines("vjp_fwd") and not _prim._defines("jvp"):
        split = _Split(_prim, "vjp_fwd", primals, tangents)
        return split.outs, split.tangents(_linear_by_vjp(_prim, split, tangents))
    out, tangent = _prim.jvp(_arguments(_prim, primals), _arguments(_prim, tangents))
    return _results(_prim, "jvp", out), _results(_prim, "jvp", tangent)


def _linearize(trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    operation = params["_prim"]
    below: Any = trace.parent  # never None: a linearize trace is not the bottom
    for method, linear in (("vjp_fwd", _linear_by_vjp), ("lin", _linear_by_method)):
        if operation._defines(method):
            with current(below):
                split = _Split(operation, method, primals, tangents)
            return split.outs, split.tangents(linear(operation, split, tangents))
    with current(trace.rules):
        return _jvp(primals, tangents, _prim=operation)


def _transpose(cts: Sequence[Any], operands: Sequence[Any], *, _prim: VJPHiPrimitive) -> list[Any]:
    values = [GradAccum(x.aval.dual) if type(x) is Linear else x for x in operands]
    ct = tree.unflatten(_prim.out_tree, [tangent_for_user(ct, symbolic_zeros=False) for ct in cts])
    _prim.transpose(ct, *_arguments(_prim, values))
    return [x.value if type(x) is GradAccum else None for x in values]


def _batch_named(
    axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[Any], *, _prim: VJPHiPrimitive
) -> Any:
    out, out_dims = _prim.batch(AxisData(axis_name, size), _arguments(_prim, values), _arguments(_prim, dims))
    return _results(_prim, "batch", out), _results(_prim, "batch", out_dims)


def _dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    operation = eqn.params["_prim"]
    needed, given, smaller = operation.dce(tree.unflatten(operation.out_tree, used))
    if smaller is None or smaller is operation:
        return eqn
    what = f"{type(operation).__name__}.dce"
    is_needed = tree.flatten_prefix(needed, operation.in_tree, what)
    is_given = tree.flatten_prefix(given, operation.out_tree, what)
    outvars = [v if flag else DropVar(v.aval) for v, flag in zip(eqn.outvars, used)]
    return eqn.replace(
        invars=[v for v, flag in zip(eqn.invars, is_needed) if flag],
        outvars=[v for v, flag in zip(outvars, is_given) if flag],
        params={"_prim": smaller},
    )


call_hi_primitive_p = register(
    Primitive(
        "call_hi_primitive",
        abstract=_abstract,
        reference=_reference,
        lower=Unsupported("It is lowered as what the method expand of its class does."),
        lower_as=lambda *args, _prim: _expand(args, {"_prim": _prim}),
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch_named, None),
        batch_named=_batch_named,
        linearize=_linearize,
        evaluate=_expand,
        on_arrays=_expand,
        effects=lambda avals, *, _prim: _prim.effects,
        dce=_dce,
        multiple_results=True,
        call=True,
    )
)


# -- The operation on rows


class VmapOf(VJPHiPrimitive):
    """An operation mapped over rows, by mapping each of its rules.

    Args:
      prim: the operation on one row.
      axis_data: the mapped axis.
      in_dims: how its arguments are mapped, a pytree like them.
      out_dim: how its result is mapped.
    """

    prim: VJPHiPrimitive
    axis_data: AxisData
    in_dims: Any
    out_dim: Any

    def __init__(self, prim: VJPHiPrimitive, axis_data: AxisData, in_dims: Any, out_dim: Any):
        size = axis_data.size
        dims, self.out_dims_flat = _flat_dims(prim.in_tree, in_dims), _flat_dims(prim.out_tree, out_dim)
        self.in_dims_flat = dims
        self.in_avals = tree.unflatten(prim.in_tree, [_rows(a, size, d) for a, d in zip(prim.in_avals_flat, dims)])
        outs = [_rows(a, size, d) for a, d in zip(prim.out_avals_flat, self.out_dims_flat)]
        self.out_aval = tree.unflatten(prim.out_tree, outs)
        self.params = {"prim": prim, "axis_data": axis_data, "in_dims": in_dims, "out_dim": out_dim}
        super().__init__()

    def __repr__(self) -> str:
        return f"VmapOf[{self.prim!r}]"

    def _mapped(
        self, rule: Callable[..., Any], values: Sequence[Any], dims: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        return batch_flat(rule, self.axis_data.size, values, dims, self.axis_data.name)

    def _to_out_dims(self, outs: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
        return [_moved(x, d, to, self.axis_data.size) for x, d, to in zip(outs, dims, self.out_dims_flat)]

    def _out(self, leaves: Sequence[Any]) -> Any:
        return tree.unflatten(self.out_tree, leaves)

    def expand(self, *args: Any) -> Any:
        operation, leaves = self.prim, tree.flatten_up_to(self.in_tree, args)
        outs = self._mapped(lambda *xs: _expand(xs, {"_prim": operation}), leaves, self.in_dims_flat)
        return self._out(self._to_out_dims(*outs))

    def jvp(self, primals: Any, tangents: Any) -> Any:
        leaves = tree.flatten_up_to(self.in_tree, tuple(primals))
        moved = tree.flatten_up_to(self.in_tree, tuple(tangents))
        is_nonzero, count, active = _is_nonzero(moved), len(leaves), list[bool]()
        zeros: list[Any] = []

        def rule(*rows: Any) -> list[Any]:
            row_primals, nonzero = split_list(rows, count)
            row_tangents = _with_row_zeros(nonzero, moved, self.in_dims_flat)
            outs, out_tangents = _jvp(row_primals, row_tangents, _prim=self.prim)
            active[:], zeros[:] = _is_nonzero(out_tangents), out_tangents
            return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

        dims = [*self.in_dims_flat, *(d for d, flag in zip(self.in_dims_flat, is_nonzero) if flag)]
        values, value_dims = self._mapped(rule, [*leaves, *(t for t, flag in zip(moved, is_nonzero) if flag)], dims)
        outs, nonzero = split_list(values, len(self.out_dims_flat))
        out_dims, nonzero_dims = split_list(value_dims, len(outs))
        out = self._to_out_dims(outs, out_dims)
        rest = iter(zip(nonzero, nonzero_dims))
        tangents_out = [
            _moved(*next(rest), to, self.axis_data.size) if flag else Zero.from_primal_value(x)
            for x, to, flag in zip(out, self.out_dims_flat, active)
        ]
        return self._out(out), self._out(tangents_out)

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        leaves = tree.flatten_up_to(self.in_tree, args)
        nonzero = tree.flatten_up_to(self.in_tree, tuple(nzs_in))
        splits: list[_Split] = []
        trees: list[Any] = []

        def rule(*rows: Any) -> list[Any]:
            tangents = [None if flag else Zero.from_primal_value(x) for x, flag in zip(rows, nonzero)]
            splits.append(_Split(self.prim, "vjp_fwd", rows, tangents))
            residuals, residual_tree = tree.flatten(splits[0].residuals)
            trees.append(residual_tree)
            return [*splits[0].outs, *residuals]

        values, dims = self._mapped(rule, leaves, self.in_dims_flat)
        outs, residuals = split_list(values, len(self.out_dims_flat))
        out_dims, residual_dims = split_list(dims, len(outs))
        kept = _Residuals(trees[0], tuple(residual_dims))
        out = self._out(self._to_out_dims(outs, out_dims))
        return out, (residuals, kept), self._out(splits[0].is_active)

    def vjp_bwd(self, residuals: Any, out_ct: Any, /, *accumulators: Any) -> None:
        values, kept = residuals
        cts = tree.flatten_up_to(self.out_tree, out_ct)
        given = tree.leaves(accumulators)
        wanted = [type(each) is not NullAccum for each in given]
        is_nonzero = _is_nonzero(cts)
        active: list[bool] = []

        def rule(*rows: Any) -> list[Any]:
            row_residuals, row_cts = split_list(rows, len(values))
            all_cts = _with_row_zeros(row_cts, cts, self.out_dims_flat)
            own = [
                (GradAccum if flag else NullAccum)(aval.to_ct_aval())
                for aval, flag in zip(self.prim.in_avals_flat, wanted)
            ]
            of_row = tree.unflatten(kept.structure, row_residuals)
            self.prim.vjp_bwd(of_row, self._out(all_cts), *_arguments(self.prim, own))
            active[:] = [each.value is not None for each in own]
            return [each.value for each in own if each.value is not None]

        dims = [*kept.dims, *(d for d, flag in zip(self.out_dims_flat, is_nonzero) if flag)]
        outs, out_dims = self._mapped(rule, [*values, *(ct for ct, flag in zip(cts, is_nonzero) if flag)], dims)
        rest = iter(zip(outs, out_dims))
        for accumulator, to, flag in zip(given, self.in_dims_flat, active):
            if flag:
                accumulator.accum(_cotangent(*next(rest), to, self.axis_data.size))

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        outer = _flat_dims(self.in_tree, dims)
        of_row = [d if d is None or own is None else d - (own < d) for d, own in zip(outer, self.in_dims_flat)]
        out = _flat_dims(self.out_tree, self.prim.batch_dim_rule(axis_data, _arguments(self, of_row)))
        return self._out([d if d is None or own is None else d + (own < d) for d, own in zip(out, self.out_dims_flat)])


@register_static
@dataclass(frozen=True)
class _Residuals:
    """The structure of the residuals of one row, and how they are mapped."""

    structure: Any
    dims: tuple[Any, ...]


def _flat_dims(structure: Any, dims: Any) -> list[Any]:
    """The mapped axis of each leaf, from a pytree of them, or of None and integers that stand for whole subtrees."""
    return list(tree.flatten_prefix(dims, structure, "the axes that batch_dim_rule gave"))


def _rows(aval: Any, size: int, dim: Any) -> Any:
    return aval if dim is None else aval.with_axis(dim, size)


def _with_row_zeros(nonzero: Sequence[Any], mapped: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """The tangents of one row: those that are not zero, and the rows of symbolic zeros."""
    rest = iter(nonzero)
    return [
        next(rest) if type(t) is not Zero else t if d is None else Zero(t.aval.without_axis(d))
        for t, d in zip(mapped, dims)
    ]


def _moved(x: Any, dim: Any, to: Any, size: int) -> Any:
    """A result of all rows, mapped along `to`."""
    if dim == to:
        return x
    return mapped_to(x, dim, size, to)


def _cotangent(ct: Any, dim: Any, to: Any, size: int) -> Any:
    """The cotangent of an argument that is mapped along `to`, or not at all, from those of all rows."""
    if to is None:
        return reduce_sum(mapped_to(ct, dim, size), (0,))
    return _moved(ct, dim, to, size)
