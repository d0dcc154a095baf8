"""roofline : (a -> b) -> a -> (b's shapes, RooflineResult). Adds what the equations of a program count.

Functions inside count as often as they run: the body of a loop as often as its length, one step where that is unknown,
and of a cond's branches the one with most operations. A function that `shard_map` maps counts as on one device. Over
Explicit axes of a mesh a program counts as on all devices together, without what they send: `jaxpr.cost` has that.

Memory holds arguments, from the start, and results of equations, each until it is read for the last time. An equation
may write its results over the operands that it reads last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xpr import tree
from xpr.api.forward_backward import fwd_and_bwd
from xpr.api.make_jaxpr import ShapeDtypeStruct, eval_shape, trace_function
from xpr.api.shard_map import shard_map
from xpr.backend.sharding import NamedSharding, PartitionSpec
from xpr.control.remat.memory import bytes_held
from xpr.core.avals import aval_of, is_key
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal
from xpr.core.regions import Region
from xpr.core.source import check_function
from xpr.dtypes import bfloat16, int32
from xpr.experimental.roofline.results import RooflineResult
from xpr.experimental.roofline.rules import RooflineRuleContext, registered, result_of
from xpr.inspect.weights import only_runs_jaxprs, regions_run
from xpr.passes.dce import dce_jaxpr
from xpr.primitives.bytes_moved import size_of
from xpr.transforms.flat import named_like


def roofline(
    f: Callable[..., Any],
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult]]:
    """A function of the same arguments that counts what `f` computes, moves and sends. Nothing is compiled or run.

    Args:
      f: a function of pytrees of arrays. With `in_specs` it is what one device does, as in `shard_map`.
      mesh: the mesh of devices; None for one device.
      in_specs: the sharding of arguments, see `shard_map`; None if `f` is of whole arrays.
      out_specs: the sharding of results, likewise.
      pin_lhs_in_vmem: whether the first operand of products, and their result, are not read from memory and written to
        it, as they are in a faster one.
      pin_rhs_in_vmem: whether the second one is not.
      vjp: whether the backward pass is counted, from residuals and the cotangents of results to those of arguments,
        rather than `f`.
      print_jaxpr: whether the program that is counted is printed.

    Returns:
      A function of the same arguments, which may be anything with a shape and a dtype. It returns `(shapes, result)`:
      the `ShapeDtypeStruct`s of what `f` returns, or with `vjp` of the cotangents, and a `RooflineResult`.

    Raises:
      TypeError: `f` is no function.
      ValueError: there are only some of `mesh`, `in_specs` and `out_specs`; a mesh may be given alone.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.roofline import roofline
    >>> _, result = roofline(lambda a, b: jnp.tanh(a @ b))(jnp.ones((10, 20)), jnp.ones((20, 30)))
    >>> result.flops, result.hbm_bytes, result.unfused_flops, result.unfused_hbm_bytes
    (12000, 4400, 12300, 6800)
    """
    check_function(f, "roofline")
    sharded = in_specs is not None and out_specs is not None and mesh is not None
    if not sharded and not (in_specs is None and out_specs is None):
        raise ValueError(
            f"roofline: in_specs, out_specs and mesh are given together, or mesh alone. They are {in_specs}, "
            f"{out_specs} and {mesh}."
        )
    fun = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs) if sharded else f

    def analyze(*args: Any) -> tuple[Any, RooflineResult]:
        closed, shapes = _backward(fun, args) if vjp else _traced(fun, args)
        jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
        if print_jaxpr:
            print(jaxpr)
        if sharded and not vjp:
            shapes = _with_shardings(shapes, mesh, out_specs)
        sizes = {} if mesh is None else dict(mesh.shape)
        return shapes, _Analysis(mesh, pin_lhs_in_vmem, pin_rhs_in_vmem).count(jaxpr, sizes, frozenset())

    return named_like(analyze, f)


def roofline_and_grad(
    f: Callable[..., Any],
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult, RooflineResult]]:
    """A function of the same arguments that counts the forward pass of `f`, and its backward pass in bfloat16.

    Args:
      f: a function of pytrees of arrays, see `roofline`.
      mesh: the mesh of devices; None for one device.
      in_specs: the sharding of arguments; None if `f` is of whole arrays.
      out_specs: the sharding of results, likewise.
      pin_lhs_in_vmem: see `roofline`.
      pin_rhs_in_vmem: see `roofline`.
      print_jaxpr: whether both programs are printed.

    Returns:
      A function of the same arguments that returns `(shapes, forward, backward)`: the `ShapeDtypeStruct`s of results
      and two `RooflineResult`s. For the backward pass all arguments but int32 ones and random keys are bfloat16.

    Raises:
      TypeError: `f` is no function.
      ValueError: there are only some of `mesh`, `in_specs` and `out_specs`.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.roofline import roofline_and_grad
    >>> count = roofline_and_grad(lambda a, b: a @ b, None, None, None)
    >>> _, forward, backward = count(jnp.ones((10, 20)), jnp.ones((20, 30)))
    >>> forward.flops, backward.flops
    (12000, 24000)
    """
    pins = {"pin_lhs_in_vmem": pin_lhs_in_vmem, "pin_rhs_in_vmem": pin_rhs_in_vmem, "print_jaxpr": print_jaxpr}
    forward = roofline(f, mesh, in_specs, out_specs, **pins)
    backward = roofline(f, mesh, in_specs, out_specs, vjp=True, **pins)

    def analyze(*args: Any) -> tuple[Any, RooflineResult, RooflineResult]:
        shapes, result = forward(*args)
        return shapes, result, backward(*tree.map(_in_bfloat16, args))[1]

    return named_like(analyze, f)


def _in_bfloat16(x: Any) -> ShapeDtypeStruct:
    aval = aval_of(x)
    dtype = aval.dtype if is_key(aval) or aval.dtype == int32 else bfloat16
    return ShapeDtypeStruct(aval.shape, dtype, sharding=getattr(x, "sharding", None))


def _with_shardings(shapes: Any, mesh: Any, specs: Any) -> Any:
    """The types of results over a mesh, sharded by a prefix of specs."""
    leaves, structure = tree.flatten(shapes)
    flat = tree.flatten_prefix(specs, shapes, "out_specs", is_leaf=lambda x: isinstance(x, PartitionSpec))
    placed = [ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, p)) for x, p in zip(leaves, flat)]
    return tree.unflatten(structure, placed)


# -- Programs


def _traced(fun: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, Any]:
    """The program of a function, and the types of its results."""
    closed, structure = trace_function(fun, args, {}, "staged by roofline")
    return closed, tree.unflatten(structure, [ShapeDtypeStruct.of_type(aval) for aval in closed.jaxpr.out_avals])


def _backward(fun: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, Any]:
    """The program from residuals and the cotangents of results to those of arguments, and the types of the latter."""
    forward, backward = fwd_and_bwd(fun, range(len(args)), jitted=False)
    results, residuals = eval_shape(forward, *args)
    cotangents = tree.map(lambda x: ShapeDtypeStruct.of_type(aval_of(x).to_tangent_aval()), results)
    return _traced(backward, (residuals, cotangents))


# -- Counting


@dataclass(frozen=True)
class _Analysis:
    """Counts the equations of jaxprs, each jaxpr once for the same surroundings."""

    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool
    counted: dict[Any, tuple[Jaxpr, RooflineResult]] = field(default_factory=dict)

    def count(self, jaxpr: Jaxpr, sizes: dict[Any, int], kept: frozenset[int]) -> RooflineResult:
        """The counts of a jaxpr inside axes of these sizes; arguments number `kept` are in memory throughout."""
        key = (id(jaxpr), kept, *sizes.items())
        if key not in self.counted:
            self.counted[key] = jaxpr, self._count(jaxpr, sizes, kept)
        return self.counted[key][1]

    def _count(self, jaxpr: Jaxpr, sizes: dict[Any, int], kept: frozenset[int]) -> RooflineResult:
        held = bytes_held(jaxpr)
        last = _last_readers(jaxpr, kept)
        live = peak = sum([held(v) for v in {*jaxpr.constvars, *jaxpr.invars}])
        total = RooflineResult.zeros()
        for position, eqn in enumerate(jaxpr.eqns):
            ending = {v for v in eqn.invars if type(v) is not Literal and last[v] == position}
            result, meanwhile = self._of_equation(eqn, sizes, ending)
            total += result
            peak = max(peak, live + meanwhile)
            live += sum(map(held, eqn.outvars)) - sum(map(held, ending))
            peak = max(peak, live)
            live -= sum([held(v) for v in eqn.outvars if v not in last])
        return total + RooflineResult(peak_hbm_bytes=peak)

    def _of_equation(self, eqn: JaxprEqn, sizes: dict[Any, int], ending: set[Any]) -> tuple[RooflineResult, int]:
        """The counts of an equation, and the memory that jaxprs in it need besides its operands."""
        context = RooflineRuleContext(
            name_stack=eqn.source_info.name_stack,
            primitive=eqn.primitive,
            avals_in=[v.aval for v in eqn.invars],
            avals_out=[v.aval for v in eqn.outvars],
            jaxpr_eqn_ctx=eqn.ctx,
            mesh=self.mesh,
            pin_lhs_in_vmem=self.pin_lhs_in_vmem,
            pin_rhs_in_vmem=self.pin_rhs_in_vmem,
        )
        own = result_of(eqn, context, sizes)
        if eqn.primitive in registered or not only_runs_jaxprs(eqn):
            return own, 0
        runs, meanwhile = RooflineResult.zeros(), 0
        for region, times in regions_run(eqn):
            inner = self.count(region.jaxpr, {**sizes, **dict(region.devices)}, _outliving(eqn, region, ending))
            arguments = sum(map(bytes_held(region.jaxpr), region.jaxpr.invars))
            meanwhile = max(meanwhile, inner.peak_hbm_bytes - arguments + _stacked(eqn, region))
            runs += replace(inner, peak_hbm_bytes=0) * times
        if eqn.primitive.bytes_moved is not None:  # which says what it moves, whatever is computed of elements
            runs = replace(runs, hbm_bytes=0, unfused_hbm_bytes=0)
        return own + runs, meanwhile


def _last_readers(jaxpr: Jaxpr, kept: frozenset[int]) -> dict[Any, int | None]:
    """For each value that is read, the position of the last equation to do so; None if it is in memory to the end."""
    last: dict[Any, int | None] = {}
    for position, eqn in enumerate(jaxpr.eqns):
        last.update({v: position for v in eqn.invars if type(v) is not Literal})
    last.update({v: None for v in jaxpr.outvars if type(v) is not Literal})
    last.update({jaxpr.invars[i]: None for i in kept})
    return last


def _outliving(eqn: JaxprEqn, region: Region, ending: set[Any]) -> frozenset[int]:
    """The arguments of a region that are in memory while it runs: all but operands of a call that it reads last."""
    if region.kind != "call":
        return frozenset(range(len(region.operands)))
    return frozenset([i for i, n in enumerate(region.operands) if n is None or eqn.invars[n] not in ending])


def _stacked(eqn: JaxprEqn, region: Region) -> int:
    """The bytes of the results that a loop writes row by row."""
    if region.kind != "loop":
        return 0
    rows = [indices for indices, argument in zip(region.results, region.carry) if argument is None]
    return size_of([eqn.outvars[i].aval for indices in rows for i in indices])
