"""The laws of values and types: value, eager, typing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tests.compiler_options import OPTIMIZED, QUICK
from tests.ops.case import Case, allowed, close, kind, leading, random_like, same_bits, same_type
from xpr import core, dtypes
from xpr.api.grad import jvp, vjp
from xpr.api.jit import jit
from xpr.api.make_jaxpr import trace_function
from xpr.backend.array import Array
from xpr.config_contexts import enable_x64
from xpr.core.avals import aval_of
from xpr.core.primitive import cache_key
from xpr.primitives.sharding_rules import ElementwiseSharding


def value(case: Case) -> None:
    """Compiled = NumPy, for each dtype; and the reference backend gives what the reference rule gives."""
    if not case.has_reference:
        raise AssertionError(f"{case.primitive} has no reference rule: skip the law `value`, with the reason")
    with enable_x64(needs_x64(case)):
        got = [np.asarray(x) for x in case.compiled()]
        expected = case.reference(*case.operands)
        if len(got) != len(expected):
            raise AssertionError(f"value: {len(got)} results, and the reference gives {len(expected)}")
        backed = jit(case.__call__, backend="reference")(*case.operands)
        for x, y, z in zip(got, expected, backed, strict=True):
            y = np.asarray(y)
            same_bits(np.asarray(z), y, "value: the reference backend differs from the reference rule")
            _compare(case, x, y, "value: compiled and reference differ")


def needs_x64(case: Case) -> bool:
    """Whether an operand is of 64 bits, or its real part."""
    return any(x.dtype.itemsize // (1 + (x.dtype.kind == "c")) == 8 for x in case.operands)


def compile_together(cases: Iterable[Case]) -> None:
    """Computes what `compiled` gives of those cases that lack it, in up to four programs: alone each takes 30 ms.

    The dtypes that most programs compute in are optimized as programs of users are; others have the same loops, and are
    compiled quickly, in a third of the time. Elementwise operations are applied once to all their operands of the same
    dtypes: XLA writes a function anew for each application, which takes 0.3 s for a special one.
    """
    programs: dict[tuple[bool, bool], list[Case]] = {}
    for case in dict.fromkeys(cases):
        if not case.is_compiled(needs_x64(case)):
            programs.setdefault((needs_x64(case), _is_usual(case)), []).append(case)
    for (x64, is_usual), together in programs.items():
        groups = _applied_at_once(together)
        with enable_x64(x64):
            program = jit(_results, static_argnums=0, compiler_options=OPTIMIZED if is_usual else QUICK)
            results = program(tuple(group[0] for group in groups), [_one_after_another(group) for group in groups])
            for group, outs in zip(groups, results, strict=True):
                for case, own in zip(group, _taken_apart(group, outs), strict=True):
                    case.keep_compiled(own)


def _is_usual(case: Case) -> bool:
    own = leading(case.operands)
    return own is None or own.name in ("float32", "float64", "int32", "complex64")


def _results(functions: Sequence[Case], operands: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [f(*xs) for f, xs in zip(functions, operands, strict=True)]


def _applied_at_once(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases of one elementwise operation with the same parameters and dtypes; any other case alone."""
    groups: dict[Any, list[Case]] = {}
    for case in cases:
        key: Any = case
        if isinstance(case.primitive.sharding, ElementwiseSharding) and not case.row.along and not case.row.keys:
            key = cache_key(tuple(sorted(case.params.items()))), *[x.dtype for x in case.operands]
        groups.setdefault(key, []).append(case)
    return list(groups.values())


def _one_after_another(group: Sequence[Case]) -> list[np.ndarray]:
    """The operands, as they are for a single case; else those of all cases, broadcast and flat."""
    if len(group) == 1:
        return group[0].operands
    flat = [[x.ravel() for x in np.broadcast_arrays(*case.operands)] for case in group]
    return [np.concatenate(xs) for xs in zip(*flat, strict=True)]


def _taken_apart(group: Sequence[Case], outs: Sequence[Any]) -> list[list[Any]]:
    if len(group) == 1:
        return [[*outs]]
    shapes = [np.broadcast_shapes(*[x.shape for x in case.operands]) for case in group]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = zip(*[np.split(np.asarray(x), ends[:-1]) for x in outs], strict=True)
    return [
        [Array(aval_of(out).update(shape=shape), x.reshape(shape)) for out, x in zip(outs, xs, strict=True)]
        for xs, shape in zip(parts, shapes, strict=True)
    ]


def _compare(case: Case, got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Bit for bit where the primitive is exact, save for products of complex numbers, which XLA may contract."""
    if case.is_exact and got.dtype not in dtypes.COMPLEX:
        same_bits(got, expected, what, case.row.signed_zeros)
    elif case.is_exact:
        close(got, expected, 2 * allowed(case, expected) / case.row.tolerance, what, scale=not case.sample.edges)
    else:
        close(got, expected, allowed(case, expected), what, scale=not case.sample.edges)


def converted(case: Case, dtype: np.dtype) -> Case:
    """The case with its operands of the leading dtype in another one."""
    own = leading(case.operands)
    if dtype == own:
        return case
    operands = [_convert(x, dtype) if x.dtype == own else x for x in case.operands]
    return Case(case.row, case.sample, operands)


@np.errstate(all="ignore")
def _convert(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "c" and x.dtype not in dtypes.COMPLEX:
        return (x.astype(np.float64) * (1 + 0.5j)).astype(dtype)
    if x.dtype in dtypes.COMPLEX and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b":
        return x > 0
    if dtype in dtypes.INTEGERS and x.dtype in dtypes.INEXACT:
        x = np.rint(x.astype(np.float64))
        x = np.abs(x) if dtype.kind == "u" else x
    return x.astype(dtype)


def value_dtypes(case: Case) -> list[np.dtype]:
    """The dtypes to try a sample on: all for a row's first, of its own kind for edges, its own for the others."""
    row, sample, own = case.row, case.sample, leading(case.operands)
    if row.dtypes is None or own is None:
        return [own] if own is not None else [np.dtype(bool)]
    wanted = [np.dtype(d) for d in row.dtypes]
    if sample is row.samples[0] and not sample.edges:
        return wanted
    if sample.edges:
        return [d for d in wanted if kind(d) == kind(own)] or [own]
    return [own]


def eager(case: Case) -> None:
    """Operation by operation = compiled, in value and type."""
    eagerly, compiled = case(*case.operands), case.compiled()
    _check_types(case, case.operands, "eager", [aval_of(x) for x in eagerly])
    _check_types(case, case.operands, "compiled", [aval_of(x) for x in compiled])
    for x, y in zip(eagerly, compiled, strict=True):
        _compare(case, np.asarray(x), np.asarray(y), "eager: eager and compiled differ")


def typing(case: Case) -> None:
    """The typing rule gives the types of the values, however they are computed, and only weak operands weak results."""
    _check_typing(case, case.operands)
    for x in case.types(case.operands):
        if x.weak_type and not case.params.get("weak_type"):
            raise AssertionError("typing: the result is weak, and no operand is")
    weak = [Array(aval_of(x).update(weak_type=x.dtype.kind != "b"), x) for x in case.operands]
    _check_typing(case, weak)
    if case.has_reference:
        with enable_x64():
            wide = case.wide()
            _check_reference_types(wide, wide.types(wide.operands))
    if case.row.differentiable and case.active and not case.sample.edges:
        for dtype in value_dtypes(case):
            if dtype in dtypes.INEXACT and not dtypes.is_narrowed(dtype):
                _check_derivative_types(converted(case, dtype))


def _check_derivative_types(case: Case) -> None:
    """Tangents and cotangents have the types of what they belong to: rules bring no dtype of their own."""
    f, xs = case.of(case.active), case.at(case.active)
    ts = random_like(xs, 14)

    def push(*ps: Any) -> Any:
        return jvp(f, ps, tuple(ts))

    closed, _ = trace_function(push, xs, {}, "staged by a law")
    core.check_jaxpr(closed)
    half = len(closed.out_avals) // 2
    for x, t in zip(closed.out_avals[:half], closed.out_avals[half:], strict=True):
        if (t.shape, t.dtype) != (x.shape, x.to_tangent_aval().dtype):
            raise AssertionError(f"typing: the tangent of {x.str_short()} is of type {t.str_short()}")
    if "vjp" in case.row.skip:
        return
    cts = random_like([np.zeros(x.shape, x.dtype) for x in closed.out_avals[:half]], 15)
    closed, _ = trace_function(lambda *ps: vjp(f, *ps)[1](cts), xs, {}, "staged by a law")
    core.check_jaxpr(closed)
    for x, ct in zip(xs, closed.out_avals, strict=True):
        if (ct.shape, ct.dtype) != (x.shape, x.dtype):
            raise AssertionError(f"typing: the cotangent of {aval_of(x).str_short()} is of type {ct.str_short()}")


def _check_typing(case: Case, operands: Sequence[Any]) -> None:
    closed, _ = trace_function(case.__call__, operands, {}, "staged by a law")
    core.check_jaxpr(closed)
    _check_types(case, operands, "staged", closed.out_avals)
    if case.is_exact:  # runs in NumPy; what is compiled is looked at by the law `eager`
        _check_types(case, operands, "eager", [aval_of(x) for x in case(*operands)])
    if case.has_reference:
        _check_reference_types(case, closed.out_avals)


def _check_types(case: Case, operands: Sequence[Any], how: str, found: Sequence[Any]) -> None:
    """The types are those of the rule, but for the mesh of Auto axes that results of a program on devices are on."""
    expected = case.types(operands)
    if [x.on_mesh(None) for x in found] != [x.on_mesh(None) for x in expected]:
        raise AssertionError(f"typing: the rule says {expected}, and {how} it is {found}")


def _check_reference_types(case: Case, expected: Sequence[Any]) -> None:
    for x, aval in zip(case.reference(*case.operands), expected, strict=True):
        same_type(x, np.empty(aval.shape, aval.dtype), "typing: the type the reference rule gives, by the typing rule")
