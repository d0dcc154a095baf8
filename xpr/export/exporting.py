"""export: a jitted function as an `Exported`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree
from xpr.api.grad import vjp
from xpr.api.jit import JitFunction, jit
from xpr.api.stages import ProgramShardings, Traced
from xpr.backend import devices, portable
from xpr.backend.sharding import NamedSharding
from xpr.backend.stablehlo_module import Module
from xpr.compile.lower import MainAttributes
from xpr.compile.partition import mesh_of
from xpr.compile.platforms import lower_for_platforms
from xpr.config import settings
from xpr.control.groups import split_list
from xpr.control.xla_call import call as call_jaxpr
from xpr.core.avals import ShapedArray, describe
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.source import function_name
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import RefError
from xpr.export.calling import argument_path, argument_paths
from xpr.export.checks import DisabledSafetyCheck
from xpr.export.exported import Exported
from xpr.export.exported import maximum_supported_calling_convention_version as _HIGHEST
from xpr.export.exported import minimum_supported_calling_convention_version as _LOWEST
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import named_like


def default_export_platform() -> str:
    """The platform that functions are exported for by default: that of the default device.

    >>> from xpr import export
    >>> export.default_export_platform() in ("cpu", "cuda")
    True
    """
    return portable.checked_platforms([devices.default_device().platform])[0]


def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Exports a jitted function, as a program that can be kept and run without its source.

    Args:
      fun_jit: what `jit` returned, or a function of the library, such as `jnp.sin`.
      platforms: "cpu", "cuda", "rocm", "tpu" ..., one or several; None for that of the default device.
      disabled_checks: what is not to be checked.

    Returns:
      A function of the same arguments (arrays, or anything with a shape and a dtype, of which dimensions may be
      symbolic) that returns an `Exported`.

    Raises:
      TypeError: `disabled_checks` has something else than checks.
      ValueError: `fun_jit` is not jitted, platforms are given twice, the program calls targets outside XLA that may
        change, dimension variables are of several scopes or can't be computed from the shapes of the arguments, or
        there is no such version as the setting export_calling_convention_version asks for.
      NotImplementedError: the program calls Python functions.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import export
    >>> exported = export.export(xpr.jit(jnp.sin))(xpr.ShapeDtypeStruct((4,), "float32"))
    >>> exported.in_avals
    (ShapedArray(float32[4]),)
    >>> export.deserialize(exported.serialize()).call(jnp.zeros(4))
    Array([0., 0., 0., 0.], dtype=float32)
    """
    if str(getattr(fun_jit, "__module__", "")).startswith("xpr.") and not isinstance(fun_jit, JitFunction):
        fun_jit = jit(fun_jit)
    if not isinstance(getattr(fun_jit, "jitted", fun_jit), JitFunction):
        raise ValueError(
            f"export: Function to be exported must be the result of `jit`, and it is {describe(fun_jit)}. Give jit(f)."
        )
    chosen = None if platforms is None else portable.checked_platforms(platforms)
    disabled = tuple(disabled_checks)
    if not all(isinstance(check, DisabledSafetyCheck) for check in disabled):
        raise TypeError(
            "export: disabled_checks has DisabledSafetyChecks, such as DisabledSafetyCheck.platform(), and is "
            f"{disabled_checks!r}."
        )

    def do_export(*args: Any, **kwargs: Any) -> Exported:
        _check_scopes(function_name(fun_jit), args, kwargs)
        traced = fun_jit.trace(*args, **kwargs)  # type: ignore[attr-defined]  # it is jitted
        return _export(traced, chosen or (default_export_platform(),), disabled)

    made = named_like(boundary(do_export), fun_jit)
    made.__name__ = made.__qualname__ = f"export({made.__name__})"
    return made


def _export(traced: Traced, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...]) -> Exported:
    name, closed = traced.fun_name, traced.jaxpr
    _check_program(traced)
    version = _checked_version(settings.export_calling_convention_version)
    shardings = _shardings_of(traced)
    in_shardings, out_shardings = shardings.inputs, shardings.outputs
    names = argument_paths(traced.in_tree, closed.in_avals)
    results = [f"result{tree.keystr(path)}" for path, _ in tree.leaves_with_path(traced.out_info)]
    attributes = MainAttributes(traced.interface.donated, in_shardings, out_shardings, names, results)
    scopes = (f"jit({name})",)
    module = lower_for_platforms(closed.jaxpr, platforms, attributes, shardings.mesh, closed.consts, scopes)
    _check_module(module, name, disabled)

    def get_vjp(primal: Exported) -> Exported:
        fun, avals = _vjp_of(closed, name)
        if shardings.mesh is None:
            fun = jit(fun)
        else:
            fun = jit(fun, in_shardings=(*in_shardings, *out_shardings), out_shardings=tuple(in_shardings))
        return export(fun, platforms=platforms, disabled_checks=disabled)(*avals)

    text = module.text(name)
    return Exported(
        fun_name=name,
        in_tree=traced.in_tree,
        in_avals=tuple([aval.on_mesh(None) for aval in closed.in_avals]),
        out_tree=traced.out_tree,
        out_avals=tuple([aval.on_mesh(None) for aval in closed.out_avals]),
        in_shardings_hlo=(None,) * len(closed.in_avals),
        out_shardings_hlo=(None,) * len(closed.out_avals),
        nr_devices=shardings.mesh.size if shardings.mesh is not None else 1,
        platforms=platforms,
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=disabled,
        mlir_module_serialized=portable.serialized(text),
        calling_convention_version=version,
        module_kept_var_idx=tuple(range(len(closed.in_avals))),
        uses_global_constants=module.is_polymorphic,
        _in_named_shardings=tuple(map(_abstract, in_shardings)),
        _out_named_shardings=tuple(map(_abstract, out_shardings)),
        _get_vjp=get_vjp,
    )


def _vjp_of(closed: ClosedJaxpr, name: str) -> tuple[Callable[..., Any], list[ShapedArray]]:
    """The function of flat arguments and cotangents to cotangents, and the types of what it takes."""
    n = len(closed.in_avals)

    def fun_vjp(*values: Any) -> Any:
        _, pull = vjp(lambda *xs: call_jaxpr(closed, xs, name), *values[:n])
        return pull(list(values[n:]))

    fun_vjp.__name__ = fun_vjp.__qualname__ = f"{name}_vjp"
    return fun_vjp, [*closed.in_avals, *(aval.to_tangent_aval() for aval in closed.out_avals)]


def _shardings_of(traced: Traced) -> ProgramShardings:
    """The mesh, None for one device, and the shardings of arguments and results."""
    closed = traced.jaxpr
    shardings = traced.program_shardings()
    mesh = mesh_of(closed.jaxpr) if shardings is None else shardings.mesh
    if shardings is None:
        return ProgramShardings(mesh, [None] * len(closed.in_avals), [None] * len(closed.out_avals))  # type: ignore[arg-type]
    _, inputs = split_list(shardings.inputs, len(shardings.inputs) - len(closed.in_avals))
    return ProgramShardings(shardings.mesh, inputs, shardings.outputs)


def _abstract(sharding: NamedSharding | None) -> NamedSharding | None:
    return None if sharding is None else NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)


# -- Checks


def _checked_version(version: int) -> int:
    """The version of the calling convention that the setting asks for.

    Raises:
      ValueError: there is no such version.
    """
    if _LOWEST <= version <= _HIGHEST:
        return version
    raise ValueError(
        f"export: calling convention version {version} was asked for, and those from {_LOWEST} to {_HIGHEST} are "
        "supported. Change the setting export_calling_convention_version."
    )


def _check_scopes(name: str, args: Any, kwargs: Any) -> None:
    """Raises ValueError if symbolic dimensions of arguments are of different scopes."""
    first: Any = None
    argument = ""
    for path, x in tree.leaves_with_path((args, kwargs)):
        for axis, n in enumerate(getattr(x, "shape", ())):
            if is_symbolic_dim(n):
                if first is None:
                    first, argument = n, argument_path(path)
                when = f"when exporting {name}, at {argument_path(path)}.shape[{axis}]"
                first.scope.check_same(n, when, argument, argument_path(path))


def _check_program(traced: Traced) -> None:
    """Raises an error where the program can't be exported."""
    if traced.refs is not None:
        raise RefError(
            f"export: {traced.fun_name} takes or closes over a Ref, which a portable program can't. Export a function "
            "of what the ref holds, that returns what it is to hold."
        )
    if traced.has_user_values:
        raise NotImplementedError(
            f"export: {traced.fun_name} takes, returns or closes over a value of a user's type, of which a portable "
            "program knows nothing. Export a function of the arrays that it consists of."
        )
    if any(isinstance(c, Tracer) for c in traced.jaxpr.consts):
        raise next(c for c in traced.jaxpr.consts if isinstance(c, Tracer)).misused()


# Targets that JAX keeps stable: programs that call them can be read by later releases.
_STABLE = frozenset(
    "Sharding SPMDFullToShardShape SPMDShardToFullShape annotate_device_placement cu_threefry2x32_ffi "
    "hip_threefry2x32_ffi Eigh Qr ProductOfElementaryHouseholderReflectors LuDecomposition ApproxTopK "
    "AllocateBuffer stablehlo.dynamic_approx_top_k stablehlo.dynamic_reduce_window "
    "stablehlo.dynamic_rng_bit_generator stablehlo.dynamic_top_k shape_assertion cu_lu_pivots_to_permutation "
    "hip_lu_pivots_to_permutation cusparse_gtsv2_ffi".split()
)
_STABLE_FAMILIES = re.compile(
    r"lapack_[sdcz](potrf|geqrf|orgqr|ungqr|syevd|heevd|geev|gesdd|getrf|sytrd|hetrd|gehrd|gees|trsm|gtsv)_ffi"
    r"|(cu|hip)solver_(getrf|geqrf|orgqr|potrf|syevd|gesvd|gesvdj|gesdd|sytrd)_ffi"
)
_TARGET = re.compile(r'call_target_name = "([^"]*)"')


def _check_module(module: Module, name: str, disabled: Sequence[DisabledSafetyCheck]) -> None:
    """Raises an error if the module calls what other processes do not have."""
    if module.callbacks:
        raise NotImplementedError(
            f"{name} calls Python functions (callbacks, prints), which can't be exported. Leave them out."
        )
    allowed = {check.is_custom_call() for check in disabled}
    if "ALL" in allowed:
        return
    targets = {target for function in module.functions for target in _TARGET.findall(function)}
    unstable = sorted(t for t in targets - _STABLE - allowed if not _STABLE_FAMILIES.fullmatch(t))
    if unstable:
        raise ValueError(
            f"{name} calls targets outside XLA whose meaning may change between releases: {', '.join(unstable)}. "
            f'Export it with disabled_checks=[DisabledSafetyCheck.custom_call("{unstable[0]}")] if it will be read '
            "by the same release."
        )
