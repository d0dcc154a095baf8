"""call_exported: a call of an exported function from another program.

The functions of its module are written into that program. Its derivative is another primitive, `call_exported_jvp`. The
transpose of that is the vjp that the function was exported with; where forward mode computes it, it is the vjp of this
vjp: J^T ct is linear in ct, and its vjp is J. `vmap` calls the function for one row after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr import dtypes, tree
from xpr.backend.array import Array
from xpr.backend.mlir_text import tensor_type
from xpr.backend.portable import Inlined
from xpr.backend.stablehlo import Builder, Value
from xpr.compile.evaluate import run_jaxpr
from xpr.control.groups import split_list
from xpr.control.scan.mapping import map as map_rows
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Primitive, Unsupported, is_linear, register
from xpr.core.source import here
from xpr.dimensions.expressions import evaluate, is_symbolic_dim
from xpr.dimensions.solving import solve
from xpr.errors import TreeMismatch
from xpr.export.checks import DisabledSafetyCheck
from xpr.primitives.shapes import instantiate, to_front, zeros_like_aval
from xpr.transforms.jvp import push_forward

if TYPE_CHECKING:
    from xpr.export.exported import Exported


def call_exported(exported: Exported, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The results of an exported function.

    Raises:
      ValueError: the arguments have another structure or other types.
    """
    leaves, in_tree = tree.flatten((tuple(args), kwargs))
    if in_tree != exported.in_tree:
        lines = tree.differences(exported.in_tree, in_tree, name="(args, kwargs)")
        raise TreeMismatch(
            "The invocation args and kwargs must have the same pytree structure, that for which "
            f"{exported.fun_name} was exported:\n" + "\n".join(lines)
        )

    return tree.unflatten(exported.out_tree, call_exported_p.bind(*leaves, exported=exported))


# -- Rules


def _abstract(avals: Sequence[ShapedArray], /, *, exported: Exported) -> list[ShapedArray]:
    if exported.in_avals == tuple([aval.strip_weak_type().on_mesh(None) for aval in avals]):
        return list(exported.out_avals)
    names = argument_paths(exported.in_tree, exported.in_avals)
    differences = [
        f"  {name:12} exported with {expected.str_short():12} called with {actual.str_short()}"
        for name, expected, actual in zip(names, exported.in_avals, avals)
        if _mismatch(name, expected, actual)
    ]
    if differences:
        first = next(filter(None, map(_mismatch, names, exported.in_avals, avals)))
        heading = f"{exported.fun_name}: called with other types of arguments than exported with. {first}:"
        raise ValueError("\n".join([heading, *differences]))
    solution = solve(exported.in_avals, names)
    sizes = {name: avals[i].shape[axis] for name, i, axis in solution.sizes}
    solution.check(sizes)
    values = {name: evaluate(value, sizes) for name, value in solution.values.items()}
    return [a.update(shape=tuple([evaluate(n, values) for n in a.shape])) for a in exported.out_avals]


def _mismatch(name: str, expected: ShapedArray, actual: ShapedArray) -> str:
    """How an argument's type differs where no dimension variable allows it to; empty if it doesn't."""
    if expected.ndim != actual.ndim:
        return f"Rank mismatch for {name}"
    for axis, (n, m) in enumerate(zip(expected.shape, actual.shape)):
        if not is_symbolic_dim(n) and (n != m or is_symbolic_dim(m)):
            return f"Shape mismatch for {name}.shape[{axis}] (expected same constant)"
    return "" if expected.dtype == actual.dtype else f"Dtype mismatch for {name}"


def argument_paths(in_tree: Any, in_avals: Sequence[ShapedArray]) -> list[str]:
    """The path of each leaf of `(args, kwargs)`: `args[0]['w']`."""
    return [argument_path(path) for path, _ in tree.leaves_with_path(tree.unflatten(in_tree, in_avals))]


def argument_path(path: Any) -> str:
    """The text of a path from `(args, kwargs)`."""
    return f"{('args', 'kwargs')[path[0].idx]}{tree.keystr(path[1:])}"


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    exported = params["exported"]
    avals = tuple([x.aval if type(x) is Array else aval_of(x) for x in args])
    jaxpr = exported._memo.get(avals)
    if jaxpr is None:
        invars = [Var(aval) for aval in avals]
        outvars = [Var(aval) for aval in call_exported_p.type_of(avals, params)]
        eqn = JaxprEqn(invars, outvars, call_exported_p, params, here())
        jaxpr = exported._memo[avals] = Jaxpr([], invars, outvars, [eqn])
    return run_jaxpr(jaxpr, args, exported.fun_name)


def _reference(values: Sequence[Any], *, exported: Exported) -> list[np.ndarray]:
    return [np.asarray(x) for x in _evaluate(values, {"exported": exported})]


def _lower(b: Builder, operands: list[Value], avals: list[ShapedArray], *, exported: Exported) -> list[Value]:
    _check_devices(b, exported)
    key = ("exported", exported)
    if key not in b.module.shared:
        prefix = f"call_exported_{exported.fun_name}"
        inlined = Inlined(
            exported.mlir_module_serialized, lambda name: b.module.unique_name(f"{prefix}_{name}"),
            exported.nr_devices > 1,
        )  # fmt: skip
        b.module.functions += inlined.functions
        b.module.inlined_meshes += inlined.meshes
        b.module.shared[key] = inlined
    inlined = b.module.shared[key]
    b.module.work.add_foreign()
    b.module.is_polymorphic |= exported.uses_global_constants
    kept = [operands[i] for i in exported.module_kept_var_idx]
    if len(exported.platforms) > 1:
        index = ShapedArray((), dtypes.int64 if "i64" in inlined.inputs[0] else dtypes.int32)
        kept.insert(0, b.constant(_index_of_platform(exported, b.platform), index))
    else:
        _index_of_platform(exported, b.platform)
    kept = list(map(partial(_constrained, b), kept, inlined.in_shardings))
    names = [_converted(b, v.name, tensor_type(v.aval), kind) for v, kind in zip(kept, inlined.inputs)]
    out = b.module.fresh()
    binder = f"{out}:{len(avals)} = " if avals else ""
    types = f"({', '.join(inlined.inputs)}) -> ({', '.join(inlined.outputs)})"
    b.lines.append(f'{binder}"func.call"({", ".join(names)}) <{{callee = @{inlined.name}}}> : {types}')
    outs = [
        Value(_converted(b, f"{out}#{i}", kind, tensor_type(aval)), aval)
        for i, (kind, aval) in enumerate(zip(inlined.outputs, avals))
    ]
    return list(map(partial(_constrained, b), outs, inlined.out_shardings))


def _check_devices(b: Builder, exported: Exported) -> None:
    """Raises ValueError if it was exported for another number of devices, which is not one."""
    number = 1 if b.module.mesh is None else b.module.mesh.size
    if exported.nr_devices not in (1, number):
        raise ValueError(
            f"{exported.fun_name} was exported for {exported.nr_devices} devices, and is called on {number}. Put its "
            f"arguments on a mesh of {exported.nr_devices}, see Exported.in_shardings_jax(mesh)."
        )


def _constrained(b: Builder, value: Value, sharding: str | None) -> Value:
    """A value with the sharding that the module has for it."""
    return value if sharding is None else b.op("sdy.sharding_constraint", [value], value.aval, f"sharding = {sharding}")


def _converted(b: Builder, name: str, have: str, want: str) -> str:
    """The name of a value converted to a type with the same elements, of whose shape more or fewer sizes are known."""
    if have == want:
        return name
    out = b.module.fresh()
    b.lines.append(f'{out} = "stablehlo.convert"({name}) : ({have}) -> {want}')
    return out


def _index_of_platform(exported: Exported, platform: str) -> int:
    """The number of the platform among those that the function was exported for.

    Raises:
      ValueError: it is none of them.
    """
    if platform in exported.platforms:
        return exported.platforms.index(platform)
    if DisabledSafetyCheck.platform() in exported.disabled_safety_checks:
        return 0
    raise ValueError(
        f"Function {exported.fun_name} was exported for platforms {', '.join(exported.platforms)}, and is called on "
        f"{platform}. Export it with platforms=[...] for all that it is to run on, or with "
        "disabled_checks=[DisabledSafetyCheck.platform()]."
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], /, *, exported: Exported) -> Any:
    outs = call_exported_p.bind(*primals, exported=exported)
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero.from_primal_value(x) for x in outs]
    moved = [instantiate(t) for x, t in zip(exported.in_avals, tangents) if _is_inexact(x)]
    computed = iter(call_exported_jvp_p.bind(*primals, *moved, exported=exported))
    return outs, [
        next(computed) if _is_inexact(a) else Zero.from_primal_value(x) for a, x in zip(exported.out_avals, outs)
    ]


def _is_inexact(aval: ShapedArray) -> bool:
    return aval.dtype in dtypes.INEXACT


def _transpose(cotangents: Sequence[Any], operands: Sequence[Any], /, *, exported: Exported) -> list[Any]:
    """The vjp at zero, of a function that is linear in these operands."""
    values = [zeros_like_aval(x.aval) if is_linear(x) else x for x in operands]
    of_results = [
        instantiate(ct) if _is_inexact(aval) else zeros_like_aval(aval.to_tangent_aval())
        for ct, aval in zip(cotangents, call_exported_p.type_of(tuple(map(aval_of, values)), {"exported": exported}))
    ]
    of_arguments = call_exported_p.bind(*values, *of_results, exported=exported.vjp())
    return [ct if is_linear(x) else None for ct, x in zip(of_arguments, operands)]


def _batch(
    primitive: Callable[[], Primitive], size: int, values: Sequence[Any], dims: Sequence[int | None], /,
    *, exported: Exported,
) -> Any:  # fmt: skip
    rows = [to_front(x, dim) for x, dim in zip(values, dims) if dim is not None]

    def of_row(row: Sequence[Any]) -> list[Any]:
        mapped = iter(row)
        operands = [x if dim is None else next(mapped) for x, dim in zip(values, dims)]
        return primitive().bind(*operands, exported=exported)

    outs = map_rows(of_row, rows)
    return outs, [0] * len(outs)


def _on_words(each: Any, words: Sequence[Any], avals: Sequence[ShapedArray], /, *, exported: Exported) -> list[Any]:
    """The call with the words of keys, which are what the module takes and returns."""
    if "words" not in exported._memo:
        exported._memo["words"] = replace(
            exported,
            in_avals=tuple([a.physical for a in exported.in_avals]),
            out_avals=tuple([a.physical for a in exported.out_avals]),
        )
    return call_exported_p.bind(*words, exported=exported._memo["words"])


call_exported_p = register(
    Primitive(
        "call_exported",
        abstract=_abstract,
        params=("exported",),
        reference=_reference,
        lower=_lower,
        jvp=_jvp,
        transpose=_transpose,
        batch=partial(_batch, lambda: call_exported_p),
        evaluate=_evaluate,
        physical=_on_words,
        multiple_results=True,
        call=True,
    )
)


# -- The derivative: operands are the arguments, then the tangents of those that are inexact; results the tangents of
# the inexact results.


def _tangent_types(avals: Sequence[ShapedArray], /, *, exported: Exported) -> list[ShapedArray]:
    results = call_exported_p.type_of(tuple(avals[: len(exported.in_avals)]), {"exported": exported})
    return [aval.to_tangent_aval() for aval in results if _is_inexact(aval)]


def _derivative(*operands: Any, exported: Exported) -> list[Any]:
    """The tangents of the results, by the vjp of the vjp.

    The vjp is linear in the cotangents that it takes, so its vjp takes tangents of the arguments to those of results.
    """
    values, tangents = split_list(operands, len(exported.in_avals))
    remaining = iter(tangents)
    avals = call_exported_p.type_of(tuple(map(aval_of, values)), {"exported": exported})
    cotangents = [zeros_like_aval(aval.to_tangent_aval()) for aval in avals]
    moved = [
        next(remaining) if _is_inexact(x) else zeros_like_aval(aval_of(value).to_tangent_aval())
        for x, value in zip(exported.in_avals, values)
    ]
    results = call_exported_p.bind(*values, *cotangents, *moved, exported=exported.vjp().vjp())
    return [x for x, aval in zip(results[len(values) :], avals) if _is_inexact(aval)]


def _derivative_jvp(primals: Sequence[Any], tangents: Sequence[Any], /, *, exported: Exported) -> Any:
    return push_forward(partial(_derivative, exported=exported), primals, tangents)


def _derivative_transpose(cotangents: Sequence[Any], operands: Sequence[Any], /, *, exported: Exported) -> list[Any]:
    """The cotangents of the arguments, by the vjp, for the tangents."""
    values, _ = split_list(operands, len(exported.in_avals))
    remaining = iter(cotangents)
    of_results = [
        instantiate(next(remaining)) if _is_inexact(aval) else zeros_like_aval(aval.to_tangent_aval())
        for aval in call_exported_p.type_of(tuple(map(aval_of, values)), {"exported": exported})
    ]
    of_arguments = call_exported_p.bind(*values, *of_results, exported=exported.vjp())
    return [*[None] * len(values), *[ct for ct, x in zip(of_arguments, exported.in_avals) if _is_inexact(x)]]


call_exported_jvp_p = register(
    Primitive(
        "call_exported_jvp",
        abstract=_tangent_types,
        params=("exported",),
        reference=lambda values, **params: [np.asarray(x) for x in _derivative(*values, **params)],
        lower=Unsupported("It is lowered as the vjp of the vjp, which is traced."),
        lower_as=_derivative,
        jvp=_derivative_jvp,
        transpose=_derivative_transpose,
        batch=partial(_batch, lambda: call_exported_jvp_p),
        evaluate=lambda args, params: _derivative(*args, **params),
        multiple_results=True,
        call=True,
    )
)
