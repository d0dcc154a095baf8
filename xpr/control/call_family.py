"""call_family: primitives that call one jaxpr, with the transformation rules that they share.

Operands are laid out as the jaxpr's invars; it has no constants, as values that the function closes over are
operands. Every rule turns the jaxpr into another one, which is cached with the first, and calls that:

    jvp         call[f] x            ->   call[jvp f] x t
    linearize   call[f] x            ->   call[primal of f] x, with residuals as results; call[linear of f] residuals t
    transpose   call[f] x            ->   call[transpose f] ct
    batch       call[f] x            ->   call[batch f] xs
    dce         call[f] x y          ->   call[the part of f that is read] x

A `JaxprCall` is one such call. Its subclasses define what differs between primitives: the name of the parameter that
holds the jaxpr, the axes in scope inside it, and the sharding of operands and results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from xpr.compile.reference import reference_eval
from xpr.control.activity import is_active
from xpr.control.groups import mask, split_list, unmask
from xpr.control.refs import call_on_values
from xpr.core.avals import ShapedArray, same_types, types_of
from xpr.core.hi_types import at_end, leave_in_final_states
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, constvars_to_invars
from xpr.core.primitive import Linear, Primitive, register
from xpr.passes.dce import smaller_call
from xpr.passes.discharge import uses_of_refs
from xpr.transforms.batch import batch_jaxpr
from xpr.transforms.jvp import jvp_jaxpr, with_zeros
from xpr.transforms.linearize import Linearized, LinearizeTrace, linearize_jaxpr
from xpr.transforms.on_arrays import OnArrays, on_arrays
from xpr.transforms.transpose import transpose_jaxpr

Specs = Sequence[Any]
InOutSpecs = tuple[Specs, Specs]  # of operands and of results
NO_SPECS: InOutSpecs = (), ()
T = TypeVar("T")


class JaxprCall:
    """One call of a jaxpr, and how calls of jaxprs derived from it are made.

    Its operands and results are those of the jaxpr. Specs, which describe sharding over devices, are empty here; see
    devices/multi_device_call.py.
    """

    parameter: ClassVar[str] = "jaxpr"

    def __init__(self, primitive: Primitive, params: dict[str, Any]):
        self.primitive, self.params = primitive, params
        self.jaxpr: Jaxpr = params[self.parameter]

    def derived(self, transformation: Callable[..., T], *args: Any) -> T:
        """The jaxpr that a transformation of jaxprs derives from this one."""
        return transformation(self.jaxpr, *args)

    def operation(
        self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs = (), out_specs: Specs = ()
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The operands, constants first, and the parameters of a call of another jaxpr."""
        return [*closed.consts, *operands], {**self.params, self.parameter: constvars_to_invars(closed)}

    def bind(
        self, closed: ClosedJaxpr, operands: Sequence[Any], in_specs: Specs = (), out_specs: Specs = ()
    ) -> list[Any]:
        """Calls another jaxpr."""
        all_operands, params = self.operation(closed, operands, in_specs, out_specs)
        if uses_of_refs(params[self.parameter]).used:
            return call_on_values(self.primitive, all_operands, params, self.parameter)
        return self.primitive.bind(*all_operands, **params)

    # -- Types

    def types(self, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
        """The types of the results for these operand types; cached with the jaxpr.

        Raises:
          TypeError: the jaxpr takes others.
        """
        known = self.jaxpr.memo.get("types")
        if known is None or known[0] != avals:
            self.check(avals)
            if self.jaxpr.is_high:
                leave_in_final_states(avals, self.jaxpr.in_avals)
                return list(map(at_end, self.jaxpr.out_avals))
            known = self.jaxpr.memo["types"] = avals, self.jaxpr.out_avals
        return known[1]

    def check(self, avals: Sequence[ShapedArray]) -> None:
        """Raises TypeError if operands have other types than the call takes."""
        if not self.takes(avals):
            raise TypeError(self.mismatch(types_of(self.jaxpr.in_avals), types_of(self.argument_avals(avals))))

    def takes(self, avals: Sequence[ShapedArray]) -> bool:
        """Whether operands of these types are right."""
        return same_types(self.jaxpr.in_avals, self.argument_avals(avals))

    def argument_avals(self, avals: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        """The types that operands of these types have inside the jaxpr."""
        return avals

    def mismatch(self, expected: str, actual: str) -> str:
        """The message for arguments of the types `actual` instead of `expected`."""
        return f"{self.primitive}: the jaxpr takes ({expected}) and was given ({actual})."

    def result_avals(self) -> list[ShapedArray]:
        """The types of the call's results."""
        return self.jaxpr.out_avals

    # -- Methods that the rules call

    def jvp_specs(self, is_active: Sequence[bool], out_active: Sequence[bool]) -> InOutSpecs:
        """The specs of primals and active tangents, in and out."""
        return NO_SPECS

    def halves(self, split: Linearized, is_active: Sequence[bool]) -> tuple[ClosedJaxpr, InOutSpecs, Jaxpr, InOutSpecs]:
        """The primal jaxpr and the linear one as they are called, each with the specs of operands and results."""
        return split.primal, NO_SPECS, split.linear, NO_SPECS

    def transposed(
        self, closed: ClosedJaxpr, known: Sequence[Any], cts: Sequence[Any], is_linear: Sequence[bool],
        has_ct: Sequence[bool], affected: Sequence[bool],
    ) -> Sequence[Any]:  # fmt: skip
        """Calls the transposed jaxpr, for the cotangents of those linear operands that are reached."""
        return self.bind(closed, [*known, *cts])

    def batched(self, axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
        """Calls the batched jaxpr."""
        closed, out_dims = batch_jaxpr(self.jaxpr, size, tuple(dims), axis_name)
        return self.bind(closed, values), out_dims

    def on_arrays(self, values: Sequence[Any]) -> list[Any]:
        """Calls the jaxpr on the arrays that values of users' types consist of."""
        program = self.derived(on_arrays)
        outs = self.bind(program.jaxpr, program.arguments(values), *self.array_specs(program))
        return program.results(values, outs)

    def array_specs(self, program: OnArrays) -> InOutSpecs:
        """The specs of the operands and results of the call on arrays."""
        return NO_SPECS

    def smaller(self, jaxpr: Jaxpr, inputs: Sequence[bool], used: Sequence[bool]) -> dict[str, Any]:
        """The parameters of a call of the part of the jaxpr with these arguments and results."""
        return {**self.params, self.parameter: jaxpr}

    def threaded(self, state: Sequence[Any], thread: Any, values: Sequence[Any]) -> Any:
        """Calls the jaxpr with a state."""
        outs = self.bind(ClosedJaxpr(thread(self.jaxpr)), [*state, *values])
        return split_list(outs, len(state))


def _reference(kind: type[JaxprCall]) -> Callable[..., Any]:
    return lambda values, **params: reference_eval(params[kind.parameter], (), *values)


def call_family(
    name: str,
    kind: type[JaxprCall] = JaxprCall,
    *,
    params: Sequence[str],
    lower: Callable[..., Any],
    evaluate: Callable[..., Any],
    regions: Callable[..., Any],
    split: Callable[..., Any],
    reference: Callable[..., Any] | None = None,
    linearize: Callable[..., Any] | None = None,
    mesh: Callable[..., Any] | None = None,
    prepare: Callable[..., Any] | None = None,
    scope: Callable[..., str] | None = None,
    cls: type[Primitive] = Primitive,
) -> Primitive:
    """A primitive, of the class `cls`, that calls a jaxpr; `linearize` is for calls that don't save all residuals."""

    def abstract(avals: Sequence[ShapedArray], /, **params: Any) -> list[ShapedArray]:
        return kind(primitive, params).types(avals)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        call, active = kind(primitive, params), is_active(tangents)
        closed, out_active = call.derived(jvp_jaxpr, active)
        operands = [*primals, *mask(tangents, active)]
        outs = call.bind(closed, operands, *call.jvp_specs(active, out_active))
        outs, out_tangents = split_list(outs, len(out_active))
        return outs, _tangents(call, out_tangents, out_active)

    def keeping_residuals(
        trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """One call for the results and residuals, one in the linear program for the tangents."""
        call, active = kind(primitive, params), is_active(tangents)
        split = call.derived(linearize_jaxpr, active)
        primal, primal_specs, linear, linear_specs = call.halves(split, active)
        operands, params = call.operation(primal, primals, *primal_specs)
        results = trace.parent.process(primitive, operands, params)  # type: ignore[union-attr]  # never the bottom
        outs, computed = split_list(results, len(split.active_outs))
        if not any(split.active_outs):
            return outs, with_zeros([], split.active_outs, call.result_avals())
        operands = [*split.residuals(primals, computed), *mask(tangents, active)]
        out_tangents = call.bind(ClosedJaxpr(linear), operands, *linear_specs)
        return outs, _tangents(call, out_tangents, split.active_outs)

    def transpose(cts: Sequence[Any], operands: Sequence[Any], /, **params: Any) -> list[Any]:
        call = kind(primitive, params)
        is_linear = tuple([type(x) is Linear for x in operands])
        has_ct = is_active(cts)
        closed, affected = call.derived(transpose_jaxpr, is_linear, has_ct)
        known = [x for x in operands if type(x) is not Linear]
        linear_cts = call.transposed(closed, known, mask(cts, has_ct), is_linear, has_ct, affected)
        return unmask(unmask(linear_cts, affected), is_linear)

    def batch_named(
        axis_name: Any, size: int, values: Sequence[Any], dims: Sequence[int | None], /, **params: Any
    ) -> Any:
        return kind(primitive, params).batched(axis_name, size, values, dims)

    def batch(size: int, values: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> Any:
        return kind(primitive, params).batched(None, size, values, dims)

    def dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
        call = kind(primitive, eqn.params)
        smaller, inputs = smaller_call(call.jaxpr, used)
        if smaller is call.jaxpr:
            return eqn
        invars, outvars = mask(eqn.invars, inputs), mask(eqn.outvars, used)
        return JaxprEqn(invars, outvars, primitive, call.smaller(smaller, inputs, used), eqn.source)

    def threaded(state: Sequence[Any], thread: Any, values: Sequence[Any], /, **params: Any) -> Any:
        return kind(primitive, params).threaded(state, thread, values)

    primitive = register(
        cls(
            name,
            abstract=abstract,
            params=params,
            prepare=prepare,
            reference=reference or _reference(kind),
            lower=lower,
            jvp=jvp,
            transpose=transpose,
            batch=batch,
            linearize=linearize or keeping_residuals,
            batch_named=batch_named,
            evaluate=evaluate,
            dce=dce,
            split=split,
            threaded=threaded,
            on_arrays=lambda args, params: kind(primitive, params).on_arrays(args),
            mesh=mesh,
            multiple_results=True,
            regions=regions,
            scope=scope,
            call=True,
        )
    )
    return primitive


def _tangents(call: JaxprCall, nonzero: Sequence[Any], is_active: Sequence[bool]) -> Sequence[Any]:
    """The tangents of all results, from those that have one."""
    return nonzero if len(nonzero) == len(is_active) else with_zeros(nonzero, is_active, call.result_avals())
