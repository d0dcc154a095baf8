"""lower : jaxpr -> StableHLO. Translates each equation by its primitive's `lower` rule."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes
from xpr.backend.each_process import on_each_process
from xpr.backend.layout import AutoLayout, Layout
from xpr.backend.mesh import PROCESSES, MeshOfProcesses
from xpr.backend.mlir_text import quoted
from xpr.backend.sharding import Mesh, NamedSharding, typed
from xpr.backend.stablehlo import Builder, Value
from xpr.backend.stablehlo_module import Module
from xpr.compile.calls_of_python import expects_calls
from xpr.compile.fusion import fusion_barriers
from xpr.compile.scalars import split_scalars
from xpr.core.avals import ShapedArray
from xpr.core.effects import lowerable_effects
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, declared_effects, effects, subjaxprs
from xpr.core.memory import MemorySpace, kind_of_space
from xpr.core.primitive import Primitive, Unsupported
from xpr.core.source import NOT_WRAPPED, Call, is_of_call, joined, line_number, metadata_of, scopes_of, summarize
from xpr.errors import UnsupportedRule
from xpr.passes.dce import live_jaxpr
from xpr.passes.disjoint_sums import disjoint_sums
from xpr.passes.host_memory import computed_on_device
from xpr.passes.physical import physical
from xpr.primitives.random_bits import threefry2x32_p
from xpr.primitives.rng_bit_generator import rng_bit_generator_p
from xpr.primitives.shapes import written_before_reshape
from xpr.primitives.sharding_constraint import reshard_p
from xpr.transforms.on_arrays import arrays_alone
from xpr.transforms.stage import stage


class MainAttributes(NamedTuple):
    """What the text says of the arguments and results of `main` besides their types.

    Attributes:
      donated: which arguments may be overwritten.
      in_shardings, out_shardings: of arguments and results, None where the compiler is to choose; on a
        `MeshOfProcesses` those over the devices of this process.
      names, result_names: of arguments and results, or none at all. Those of arguments are in a text with locations.
      in_layouts, out_layouts: of arguments and results, None for row-major ones.
    """

    donated: Sequence[int] = ()
    in_shardings: Sequence[NamedSharding | None] = ()
    out_shardings: Sequence[NamedSharding | None] = ()
    names: Sequence[str] = ()
    result_names: Sequence[str] = ()
    in_layouts: Sequence[Layout | AutoLayout | None] = ()
    out_layouts: Sequence[Layout | AutoLayout | None] = ()

    def texts(
        self, module: Module, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
    ) -> tuple[list[str], list[str]]:
        """The attributes of each argument and of each result: donation, results' names, shardings, kinds of memory."""
        donors = set(self.donated)
        inputs = [["jax.buffer_donor = true"] if i in donors else [] for i in range(len(in_avals))]
        for texts, sharding, layout, aval in zip_longest(inputs, self.in_shardings, self.in_layouts, in_avals):
            texts += _argument_texts(module, sharding, layout, aval)
        outputs: list[list[str]] = [[] for _ in out_avals]
        for texts, name in zip(outputs, self.result_names):
            texts.append(f"jax.result_info = {quoted(name)}")
        for texts, sharding, layout, aval in zip_longest(outputs, self.out_shardings, self.out_layouts, out_avals):
            texts += _argument_texts(module, sharding, layout, aval)

        def attributes(every: list[list[str]]) -> list[str]:
            return [f" {{{', '.join(texts)}}}" if texts else "" for texts in every]

        if module.scopes is None:
            return attributes(inputs), attributes(outputs)
        locations = [f" loc({quoted(name)})" for name in self.names] or [" loc(unknown)"] * len(inputs)
        return list(map(operator.add, attributes(inputs), locations)), attributes(outputs)


NO_ATTRIBUTES = MainAttributes()


def lower_jaxpr(
    jaxpr: Jaxpr,
    platform: str = "cpu",
    attributes: MainAttributes = NO_ATTRIBUTES,
    mesh: Mesh | None = None,
    scopes: tuple[str, ...] | None = None,
) -> Module:
    """A module whose `main` takes the jaxpr's constvars and then its invars.

    Args:
      jaxpr: the program. Its constants are arguments of `main`, never part of the text; random keys are words there.
      platform: what it is lowered for.
      attributes: of the arguments and results of `main`.
      mesh: the devices, of a program on several.
      scopes: the names around those of its operations, which are then written with them and with the user's lines that
        they come from; None for a text without locations.

    Raises:
      ValueError: a user's primitive has an effect that is not among `lowerable_effects`.
    """
    module = Module(platform)
    module.mesh, module.scopes = mesh, scopes
    jaxpr = physical(
        live_jaxpr(jaxpr if mesh is None else _with_unreduced_as_requested(jaxpr, attributes.out_shardings))
    )
    if refused := lowerable_effects.refused(declared_effects(jaxpr)):
        raise ValueError(f"Cannot lower jaxpr with effects: {set(refused)}. {lowerable_effects.advice(refused)}")
    if platform != "cpu":
        jaxpr = computed_on_device(jaxpr)
    in_avals = [v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]
    if isinstance(mesh, MeshOfProcesses):
        shardings = attributes.in_shardings, attributes.out_shardings
        in_shardings, out_shardings = (on_each_process(mesh, each) for each in shardings)
        attributes = attributes._replace(in_shardings=in_shardings, out_shardings=out_shardings)
    inputs, outputs = attributes.texts(module, in_avals, jaxpr.out_avals)
    module.function(
        "main",
        in_avals,
        lambda builder, arguments: _lower_main(builder, jaxpr, arguments),
        public=True,
        argument_attributes=inputs,
        result_attributes=outputs,
    )
    module.calls_expected |= bool(module.callbacks) and expects_calls(jaxpr)
    return module


def _with_unreduced_as_requested(jaxpr: Jaxpr, out_shardings: Sequence[NamedSharding | None]) -> Jaxpr:
    """The program with results resharded where a sharding has other unreduced axes than their type.

    Shardy, from jaxlib 0.11 on, refuses programs in which returning a value changes its unreduced axes.
    """
    outvars, eqns = list(jaxpr.outvars), list(jaxpr.eqns)
    for i, (v, sharding) in enumerate(zip(jaxpr.outvars, out_shardings)):
        explicit = v.aval.explicit
        if sharding is not None and sharding.spec.unreduced != (explicit.unreduced if explicit else frozenset()):
            out = outvars[i] = Var(typed(v.aval, sharding))
            eqns.append(JaxprEqn([v], [out], reshard_p, {"sharding": sharding}))
    return jaxpr if len(eqns) == len(jaxpr.eqns) else jaxpr.replace(outvars=outvars, eqns=eqns)


def _lower_main(builder: Builder, jaxpr: Jaxpr, arguments: list[Value]) -> list[Value]:
    module, mesh = builder.module, builder.module.mesh
    is_plain = module.platform == "cpu" and mesh is None and not (module.exported or module.is_polymorphic)
    split = split_scalars(jaxpr) if is_plain else None
    # Random numbers are JAX's to the last bit, and scalars beside them. In a function XLA rounds these in another way.
    if split is not None and not _draws_somewhere(jaxpr):

        def body(inner: Builder, scalars: list[Value]) -> list[Value]:
            # All are returned: XLA aborts the process where it has simplified away the last use of one.
            return [*lower_eqns(inner, split.jaxpr, scalars), *scalars]

        value_of = dict(zip((*jaxpr.constvars, *jaxpr.invars), arguments))
        operands = [value_of[v] for v in split.jaxpr.invars]
        function = module.function("scalars", split.jaxpr.in_avals, body, runs_once=True)
        avals = [*split.jaxpr.out_avals, *split.jaxpr.in_avals]
        scalars = builder.call(function, operands, avals, inline=False, one_kernel=True)
        results = lower_eqns(builder, split.rest, [*scalars[: len(split.jaxpr.outvars)], *arguments])
        return [written_before_reshape(builder, x) for x in results]
    if not isinstance(mesh, MeshOfProcesses):
        results = lower_eqns(builder, jaxpr, arguments)
        return [written_before_reshape(builder, x) for x in results] if is_plain else results
    return builder.manual_region(
        mesh, [PROCESSES], arguments, [()] * len(arguments), jaxpr.out_avals, [()] * len(jaxpr.outvars),
        lambda inner, own: lower_eqns(inner, jaxpr, own), ordered="ordered" in effects(jaxpr),
    )  # fmt: skip


def _argument_texts(
    module: Module, sharding: NamedSharding | None, layout: Layout | AutoLayout | None, aval: ShapedArray
) -> list[str]:
    """The attributes of an argument or a result: its sharding, its memory and its layout, where they are not None."""
    return [*_sharding_texts(module, sharding, aval), *_memory_texts(module, aval), *_layout_texts(layout, aval)]


def _layout_texts(layout: Layout | AutoLayout | None, aval: ShapedArray) -> list[str]:
    if layout is None:
        return []
    if isinstance(layout, AutoLayout):
        return ['mhlo.layout_mode = "auto"']
    order = (*layout.major_to_minor, *range(len(layout.major_to_minor), aval.ndim))  # words of random keys run fastest
    return [f'mhlo.layout_mode = "{{{",".join(map(str, reversed(order)))}}}"']


def _sharding_texts(module: Module, sharding: NamedSharding | None, aval: ShapedArray) -> list[str]:
    """The attribute for the sharding of an argument or a result, if it has one."""
    if sharding is None:
        return []
    return [f"sdy.sharding = #sdy.sharding{module.sharding(sharding.mesh, sharding.spec, aval.ndim)}"]


def _memory_texts(module: Module, aval: ShapedArray) -> list[str]:
    """The attribute for the memory of an argument or a result, if it is not the device's.

    Exported programs, whose types don't say it when they are read, take and return what is in the device's.
    """
    if aval.memory_space is MemorySpace.Device or module.platform == "cpu" or module.exported:
        return []
    return [f"mhlo.memory_kind = {quoted(kind_of_space(aval.memory_space))}"]


def lower_eqns(builder: Builder, jaxpr: Jaxpr, arguments: Sequence[Value], region: str = "") -> list[Value]:
    """Appends a jaxpr's equations to the builder; returns the results.

    `region` is the name of the operation's region that the jaxpr is, where it has several: the name of a scope.
    """
    variables = [*jaxpr.constvars, *jaxpr.invars]
    module = builder.module
    jaxpr = disjoint_sums(jaxpr) if module.mesh is None else jaxpr
    around, location = module.scopes, module.location
    if module.mesh is not None:
        arguments = [as_unreduced(builder, v.aval, x) for v, x in zip(variables, arguments)]
    env: dict[Any, Value] = dict(zip(variables, arguments))
    barriers = fusion_barriers(jaxpr) if builder.platform == "cpu" else ()
    draws, builder.draws = builder.draws, builder.draws or draws_numbers(jaxpr)
    # Loops are compiled in one way, see backend/compile_options.py.
    builder.module.work.draws |= builder.draws and builder.runs_once and _draws_floats(jaxpr)
    barrier_of: dict[str, Value] = {}  # by the name of a value, which several variables may have: one barrier for all
    for eqn in jaxpr.eqns:
        if not eqn.outvars and not effects(Jaxpr([], [], [], [eqn])):
            continue  # without results and effects it does nothing
        start = len(builder.lines)
        operands = [env[v] if type(v) is not Literal else literal(builder, v) for v in eqn.invars]
        builder.metadata = metadata = metadata_of(eqn.source)
        if around is not None:
            _enter(module, eqn, (*around, region) if region else around)
        results = lower_eqn(builder, eqn, operands)
        if around is not None:
            builder.locate(start)
        start = max(start, builder.finished)  # those before are of equations of an inner jaxpr
        if metadata is not None:
            builder.metadata = metadata
            builder.annotate_results(results, start)
        builder.finished = len(builder.lines)
        for v, x in zip(eqn.outvars, results):
            if v in barriers and not _is_unreduced(v):
                x = barrier_of.get(x.name) or barrier_of.setdefault(x.name, builder.fusion_barrier(x))
            env[v] = x
    builder.draws = draws
    module.scopes, module.location = around, location
    return [env[v] if type(v) is not Literal else literal(builder, v) for v in jaxpr.outvars]


_RANDOM_BITS = (threefry2x32_p, rng_bit_generator_p)


def draws_numbers(jaxpr: Jaxpr) -> bool:
    """Whether some equation makes random bits: elementwise functions are then lowered as in JAX, bit for bit."""
    return any(eqn.primitive in _RANDOM_BITS for eqn in jaxpr.eqns)


def _draws_somewhere(jaxpr: Jaxpr) -> bool:
    """Whether some equation makes random bits, here or in the jaxprs of equations."""
    return draws_numbers(jaxpr) or any(map(_draws_somewhere, subjaxprs(jaxpr)))


def _draws_floats(jaxpr: Jaxpr) -> bool:
    """Whether floats are computed from random bits here, and not in the jaxprs of equations, which are given keys."""
    random: set[Any] = set()
    for eqn in jaxpr.eqns:
        if any(subjaxprs(eqn)):
            continue
        if eqn.primitive in _RANDOM_BITS or not random.isdisjoint([v for v in eqn.invars if type(v) is not Literal]):
            if any(dtypes.issubdtype(v.aval.dtype, np.inexact) for v in eqn.outvars):
                return True
            random.update(eqn.outvars)
    return False


def _enter(module: Module, eqn: JaxprEqn, around: tuple[str, ...]) -> None:
    """Sets the location of an equation's operations, and the scopes of those of its jaxprs.

    The location has the names of the scopes, the primitive and the user's line, as MLIR writes them.
    """
    primitive, source = eqn.primitive, eqn.source
    name = primitive.name if primitive.scope is None else primitive.scope(**eqn.params)
    names = (name,) if isinstance(name, Call) else (NOT_WRAPPED, name)
    module.scopes = scopes = (*around, *scopes_of(source), *names)
    where = "unknown"
    if source is not None and not is_of_call(source):
        code = source[0]
        where = f"{quoted(code.co_name)}({quoted(code.co_filename)}:{line_number(source)}:0)"
    module.location = f" loc({quoted(joined(scopes))}({where}))"


def lower_eqn(builder: Builder, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
    """Writes an equation, over a mesh with the sharding constraints that its types say; returns the results."""
    try:
        if builder.module.mesh is None:
            return lower_operation(builder, eqn.primitive, operands, [v.aval for v in eqn.outvars], eqn.params)
        mesh = _explicit_mesh(eqn)
        if mesh is None:
            return _lower_unconstrained(builder, eqn, operands)
        return _lower_over_explicit_axes(builder, eqn, operands, mesh)
    except UnsupportedRule as error:
        error.add_note(f"  at {summarize(eqn.source)}")
        raise


def _lower_unconstrained(builder: Builder, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
    """Lowers an operation over a mesh that has no sharding constraints, or whose lowering rule writes them."""
    if eqn.primitive.decides_sharding and _is_unreduced(eqn.outvars[0]):
        operands = [_before_sums(builder, eqn, operands[0])]
    avals = [v.aval for v in eqn.outvars]
    results = lower_operation(builder, eqn.primitive, operands, [aval.plain for aval in avals], eqn.params)
    if not eqn.primitive.call:
        return results
    return [as_unreduced(builder, aval, x) for aval, x in zip(avals, results)]


def _lower_over_explicit_axes(builder: Builder, eqn: JaxprEqn, operands: list[Value], mesh: Any) -> list[Value]:
    """Lowers an operation whose operands or results are partitioned over Explicit axes of the mesh."""
    avals = [v.aval for v in eqn.outvars]
    if eqn.primitive.sharding is None:  # then its operands have to be replicated
        operands = [partitioned_value(builder, mesh, x.aval.plain, x) for x in operands]
    plain = [aval.plain for aval in avals]
    if any(map(_is_unreduced, (*eqn.outvars, *eqn.invars))):
        results = _lower_unreduced(builder, eqn, operands, plain)
    else:
        results = lower_operation(builder, eqn.primitive, operands, plain, eqn.params)
    return [partitioned_value(builder, mesh, aval, x) for aval, x in zip(avals, results)]


def _before_sums(builder: Builder, eqn: JaxprEqn, x: Value) -> Value:
    """An operand that becomes unreduced; constrained to be replicated if its type says so.

    Without the constraint, Shardy would take the whole value that each device computes for one addend of a sum.
    """
    aval, explicit = eqn.invars[0].aval, eqn.outvars[0].aval.explicit
    return x if explicit is None or aval.explicit is not None else partitioned_value(builder, explicit.mesh, aval, x)


def _is_unreduced(v: Any) -> bool:
    explicit = v.aval.explicit
    return explicit is not None and bool(explicit.unreduced)


def _lower_unreduced(builder: Builder, eqn: JaxprEqn, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
    """Lowers an operation on unreduced values as for an unknown platform, for which rules write one operation.

    For CPU they may write several operations and function calls, through which Shardy does not propagate that values
    are unreduced.
    """
    module = builder.module
    platform, module.platform = module.platform, "any"
    try:
        return lower_operation(builder, eqn.primitive, operands, avals, eqn.params)
    finally:
        module.platform = platform


def _explicit_mesh(eqn: JaxprEqn) -> Any:
    """The mesh over whose Explicit axes operands or results are partitioned; None where none are.

    None also for an operation that holds jaxprs, whose equations are lowered one by one, and for one that decides the
    sharding of its result (`decides_sharding`), whose lowering rule writes it.
    """
    if eqn.primitive.call or eqn.primitive.decides_sharding:
        return None
    for v in (*eqn.outvars, *eqn.invars):
        if v.aval.explicit is not None:
            return v.aval.explicit.mesh
    return None


def as_unreduced(builder: Builder, aval: ShapedArray, x: Value) -> Value:
    """A value marked as unreduced if its type is: Shardy does not propagate that into inner jaxprs, nor out of them."""
    explicit = aval.explicit
    return x if explicit is None or not explicit.unreduced else partitioned_value(builder, explicit.mesh, aval, x)


def partitioned_value(builder: Builder, mesh: Any, aval: ShapedArray, x: Value) -> Value:
    """A value constrained to the sharding of its type over the Explicit axes of the mesh, and free along Auto axes.

    Over Explicit axes that the type does not name, it is replicated.
    """
    explicit = aval.explicit
    if explicit is not None and explicit.is_undecided:
        return x
    spec = () if explicit is None else explicit.spec
    text = builder.module.sharding(mesh, spec, aval.physical.ndim, bool(mesh.auto_axes))
    return builder.op("sdy.sharding_constraint", [x], x.aval, f"sharding = #sdy.sharding{text}")


def lower_operation(
    builder: Builder, primitive: Primitive, operands: list[Value], avals: list[ShapedArray], params: dict[str, Any]
) -> list[Value]:
    """Writes one operation; one whose rule is a traceable function is traced, and its equations written."""
    if primitive.lower_as is None or not isinstance(primitive.lower, Unsupported):
        return primitive.lower(builder, operands, avals, **params)
    operand_avals = [v.aval.plain.update(weak_type=False) for v in operands]  # numbers have the dtype of the operation
    closed = stage(lambda *xs: primitive.lower_as(*xs, **params), operand_avals)  # type: ignore[misc]
    check_lowered(primitive.name, closed.out_avals, avals)
    if closed.is_high:
        closed = arrays_alone(closed)
    return lower_eqns(builder, physical(closed.jaxpr), [*constants(builder, closed), *operands])


def check_lowered(name: str, lowered: Sequence[ShapedArray], avals: Sequence[ShapedArray]) -> None:
    """Raises TypeError if the results of a user's lowering rule have other shapes than the typing rule says."""
    if [aval.physical.shape for aval in lowered] != [aval.physical.shape for aval in avals]:
        actual, expected = (", ".join(aval.str_short() for aval in each) or "none" for each in (lowered, avals))
        raise TypeError(
            f"{name}: its lowering rule returns results of the types {actual}, and its typing rule (abstract_eval) "
            f"says {expected}. Make both agree."
        )


def constants(builder: Builder, closed: ClosedJaxpr) -> list[Value]:
    """The constants of a jaxpr that was traced while lowering, written into the text: small tables, never user data."""
    return [builder.constant(np.asarray(c), v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars)]


def literal(builder: Builder, atom: Literal) -> Value:
    """The constant of a literal, which is written once in a function or region."""
    key = (atom.aval, repr(atom.val))
    known = builder.literals.get(key)
    if known is None:
        value = np.asarray(atom.val).astype(atom.aval.dtype)[()]
        known = builder.literals[key] = builder.constant(value, atom.aval)
    return known


def lower_call(
    builder: Builder, jaxpr: Jaxpr, operands: Sequence[Value], name: str, inline: bool = True
) -> list[Value]:
    """A call of a function for the jaxpr, one for each jaxpr in a module; `inline` as in `Builder.call`.

    On CPU it may be two: one for operands that are varied (`Builder.varied`), as all are where it isn't inlined.
    """
    if builder.module.mesh is not None and any(map(_is_unreduced, (*jaxpr.invars, *jaxpr.outvars))):
        return lower_eqns(builder, jaxpr, operands)  # Shardy does not propagate unreduced arguments into functions
    takes_varied = builder.platform == "cpu" and (not inline or builder.are_varied(operands))
    function = lower_function(builder, jaxpr, name, takes_varied)
    if "ordered" not in effects(jaxpr):
        return builder.call(function, operands, jaxpr.out_avals, inline)
    types = [builder.token_type, *jaxpr.out_avals]
    builder.token, *results = builder.call(function, [builder.take_token(), *operands], types, inline)
    return results


def lower_function(builder: Builder, jaxpr: Jaxpr, name: str, takes_varied: bool = False) -> str:
    """The name of a function for the jaxpr, one for each jaxpr in a module; two if loops call it and others, too.

    With ordered effects the function takes a token as its first argument, and returns one as its first result.
    `takes_varied` as in `Module.function`.
    """
    key = ("call", jaxpr, takes_varied, builder.runs_once, *builder.module.manual.items())
    shared = builder.module.shared
    ordered = "ordered" in effects(jaxpr)
    if key not in shared:

        def body(inner: Builder, args: list[Value]) -> list[Value]:
            if not ordered:
                return lower_eqns(inner, jaxpr, args)
            inner.token = args[0]
            results = lower_eqns(inner, jaxpr, args[1:])
            return [inner.take_token(), *results]

        avals = [builder.token_type] * ordered + jaxpr.in_avals
        once = builder.runs_once
        shared[key] = builder.module.function(name, avals, body, takes_varied=takes_varied, runs_once=once)
    return shared[key]
