"""The laws that every primitive obeys, each a function of a `Case` that raises an AssertionError naming what is wrong.

Computing with XLA costs 10 ms or more for each operation and each shape, in compiling it. So most laws are tried on the
reference backend: what they compute is staged, the jaxpr is checked, and it is evaluated in NumPy (`run`). That the
compiled program computes the same as NumPy is the law `value`, and `commute` holds it for derivatives and batches too,
in one program. Laws of differentiation compute in 64 bits.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.ops.table import Row, Sample
from xpr import core, dtypes, tree
from xpr.api.grad import jvp, linear_transpose, vjp
from xpr.api.jit import jit
from xpr.api.staging import trace_function
from xpr.api.vmap import vmap
from xpr.backend.array import Array
from xpr.config import enable_x64
from xpr.core.avals import Zero, aval_of
from xpr.errors import UnsupportedRule
from xpr.primitives.shapes import instantiate
from xpr.testing import check_jvp
from xpr.transforms.evaluate import reference_eval
from xpr.transforms.jvp import push_forward
from xpr.transforms.linearize import linearize_flat

SHARP = 1e-9  # of two computations of the same thing in 64 bits
DIFFERENCE = 1e-6  # of a derivative and a finite difference in 64 bits
MOST_MAPPINGS = 24


class Case:
    """A primitive at a sample: a function of a list of operands that gives a list, and those operands."""

    def __init__(self, row: Row, sample: Sample, operands: Sequence[Any] | None = None, params: Any = None):
        self.row, self.sample, self.primitive = row, sample, row.primitive
        self.params = sample.params if params is None else params
        self.operands = [_numpy(x) for x in (sample.operands if operands is None else operands)]

    def __call__(self, *xs: Any) -> list[Any]:
        out = self.primitive.bind(*xs, **self.params)
        return list(out) if self.primitive.multiple_results else [out]

    def inexact(self, *xs: Any) -> list[Any]:
        """Those results that have derivatives."""
        return [x for x in self(*xs) if aval_of(x).dtype in dtypes.INEXACT]

    @property
    def active(self) -> list[int]:
        """The positions of the operands that have derivatives."""
        return [i for i, x in enumerate(self.operands) if x.dtype in dtypes.INEXACT]

    @property
    def has_reference(self) -> bool:
        return not isinstance(self.primitive.reference, core.Unsupported)

    def reference(self, *xs: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            return self.primitive.reference(list(xs), **self.params)

    def of(self, positions: Sequence[int], fun: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """The results as a function of some operands alone."""
        fun = fun or self

        def of_some(*xs: Any) -> Any:
            operands: list[Any] = list(self.operands)
            for i, x in zip(positions, xs, strict=True):
                operands[i] = x
            return fun(*operands)

        return of_some

    def at(self, positions: Sequence[int]) -> list[np.ndarray]:
        return [self.operands[i] for i in positions]

    def wide(self) -> Case:
        """The case with 64-bit inexact types, for `enable_x64`."""
        operands = [x.astype(_wider(x.dtype)) for x in self.operands]
        params = {k: _wider(v) if isinstance(v, np.dtype) else v for k, v in self.params.items()}
        return Case(self.row, self.sample, operands, params)

    def random_like(self, values: Iterable[Any], seed: int) -> list[np.ndarray]:
        return random_like(values, seed)


def _numpy(x: Any) -> np.ndarray:
    return np.asarray(x, aval_of(x).dtype) if type(x) in (bool, int, float, complex) else np.asarray(x)


def _wider(dtype: np.dtype) -> np.dtype:
    if dtype in dtypes.COMPLEX:
        return dtypes.complex128
    return dtypes.float64 if dtype in dtypes.FLOATS else dtype


def random_like(values: Iterable[Any], seed: int) -> list[np.ndarray]:
    """A random array of the type of each of `values`; float0 zeros for integers."""
    generator = np.random.default_rng(seed)

    def draw(x: Any) -> np.ndarray:
        aval = aval_of(x)
        if aval.dtype not in dtypes.INEXACT:
            return np.zeros(aval.shape, dtypes.float0)
        drawn: Any = generator.normal(size=aval.shape)
        if aval.dtype in dtypes.COMPLEX:
            drawn = drawn + 1j * generator.normal(size=aval.shape)
        return np.asarray(drawn, aval.dtype)

    return [draw(x) for x in values]


def run(fun: Callable[..., Any], *args: Any) -> Any:
    """Stages `fun`, checks the jaxpr, and evaluates it in NumPy, or in XLA where a primitive has no reference."""
    closed, out_tree = trace_function(fun, args, {}, "staged by a law")
    core.check_jaxpr(closed)
    leaves = tree.leaves(args)
    if _in_numpy(closed.jaxpr):
        outs = reference_eval(closed.jaxpr, closed.consts, *leaves)
    else:
        outs = [np.asarray(x) for x in jit(core.jaxpr_as_fun(closed))(*leaves)]
    return tree.unflatten(out_tree, outs)


def _in_numpy(jaxpr: core.Jaxpr) -> bool:
    return all(
        eqn.primitive.call or not isinstance(eqn.primitive.reference, core.Unsupported) for eqn in jaxpr.eqns
    ) and all(_in_numpy(sub) for eqn in jaxpr.eqns for sub in core.subjaxprs(eqn))


# -- Comparing


def same_type(got: Any, expected: Any, what: str) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise AssertionError(f"{what}: {got.dtype}{list(got.shape)}, and {expected.dtype}{list(expected.shape)} expected")


def same_bits(got: Any, expected: Any, what: str, signed_zeros: bool = True) -> None:
    """Equal, also in the sign of zeros where asked; any NaN is like another, and XLA may flush subnormal numbers."""
    same_type(got, expected, what)
    x, y = _flushed(np.asarray(got)), _flushed(np.asarray(expected))
    np.testing.assert_array_equal(x, y, what)
    if signed_zeros and x.dtype in dtypes.FLOATS:
        numbers = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(x)[numbers], np.signbit(y)[numbers], f"{what}: the signs of zeros")


def _flushed(x: np.ndarray) -> np.ndarray:
    if x.dtype in dtypes.COMPLEX:
        return np.stack([_flushed(x.real), _flushed(x.imag)])
    if x.dtype not in dtypes.FLOATS:
        return x
    x = x.astype(np.float64) if x.dtype not in (np.float16, np.float32) else x
    tiny = float(dtypes.finfo(x.dtype).tiny)
    return np.where(np.abs(x) < tiny, np.copysign(np.zeros_like(x), x), x)


def close(got: Any, expected: Any, tolerance: float, what: str, scale: bool = True) -> None:
    """Equal up to `tolerance`, relative to each entry, and (`scale`) to the largest of them or 1, the less."""
    same_type(got, expected, what)
    x, y = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) if _inexact(v) else v for v in (got, expected))
    if not _inexact(np.asarray(got)):
        np.testing.assert_array_equal(x, y, what)
        return
    finite = np.abs(y[np.isfinite(y)])
    floor = min(1.0, float(finite.max())) if scale and finite.size else 0.0
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * floor, err_msg=what)


def _inexact(x: Any) -> bool:
    return np.asarray(x).dtype in dtypes.INEXACT


def all_close(got: Any, expected: Any, tolerance: float, what: str) -> None:
    got, expected = tree.leaves(got), tree.leaves(expected)
    if len(got) != len(expected):
        raise AssertionError(f"{what}: {len(got)} values, and {len(expected)} expected")
    for index, (x, y) in enumerate(zip(got, expected, strict=True)):
        close(np.asarray(x), np.asarray(y), tolerance, what if len(got) == 1 else f"{what}, number {index}")


def inner(a: Iterable[Any], b: Iterable[Any]) -> float:
    """The real part of the sum of products, under which xpr transposes; integers have no part in it."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True)]
    return float(sum(np.sum(x * y).real for x, y in pairs if x.dtype != dtypes.float0))


def _epsilon(dtype: np.dtype) -> float:
    return float(dtypes.finfo(dtypes.real_part_of(dtype)).eps) if dtype in dtypes.INEXACT else 0.0


def _tolerance(case: Case, *values: Any) -> float:
    """What the row allows at the precision of the operands and results."""
    found = [_epsilon(np.asarray(x).dtype) for x in (*case.operands, *values)]
    return case.row.tolerance * max(found, default=0.0)


# -- Values and types


def value(case: Case) -> None:
    """Compiled = NumPy, for each dtype; and the reference backend gives what the reference rule gives."""
    if not case.has_reference:
        raise AssertionError(f"{case.primitive} has no reference rule: skip the law `value`, with the reason")
    jitted = jit(case.__call__)
    with enable_x64(any(x.dtype.itemsize // (1 + (x.dtype.kind == "c")) == 8 for x in case.operands)):
        got = [np.asarray(x) for x in jitted(*case.operands)]
        expected = case.reference(*case.operands)
        if len(got) != len(expected):
            raise AssertionError(f"value: {len(got)} results, and the reference gives {len(expected)}")
        backed = jit(case.__call__, backend="reference")(*case.operands)
        for x, y, z in zip(got, expected, backed, strict=True):
            y = np.asarray(y)
            same_bits(np.asarray(z), y, "value: the reference backend differs from the reference rule")
            _compare(case, x, y, "value: compiled and reference differ")


def _compare(case: Case, got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Bit for bit where the primitive is exact, save for products of complex numbers, which XLA may contract."""
    if case.primitive.exact and got.dtype not in dtypes.COMPLEX:
        same_bits(got, expected, what, case.row.signed_zeros)
    elif case.primitive.exact:
        close(got, expected, 2 * _tolerance(case, expected) / case.row.tolerance, what, scale=not case.sample.edges)
    else:
        close(got, expected, _tolerance(case, expected), what, scale=not case.sample.edges)


def converted(case: Case, dtype: np.dtype) -> Case:
    """The case with its operands of the leading dtype in another one."""
    leading = _leading(case.operands)
    operands = [_convert(x, dtype) if x.dtype == leading else x for x in case.operands]
    return Case(case.row, case.sample, operands, case.params)


def _leading(operands: Sequence[np.ndarray]) -> np.dtype | None:
    found = [x.dtype for x in operands if x.dtype in dtypes.INEXACT] or [x.dtype for x in operands]
    return found[0] if found else None


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


def value_dtypes(row: Row, sample: Sample) -> list[np.dtype]:
    """The dtypes to try a sample on: all for a row's first, of its own kind for edges, its own for the others."""
    own = _leading(Case(row, sample).operands)
    if row.dtypes is None or own is None:
        return [own] if own is not None else [np.dtype(bool)]
    wanted = [np.dtype(d) for d in row.dtypes]
    if sample is row.samples[0] and not sample.edges:
        return wanted
    if sample.edges:
        return [d for d in wanted if _kind(d) == _kind(own)] or [own]
    return [own]


def _kind(dtype: np.dtype) -> str:
    return next(name for name in ("BOOL", "INTEGERS", "FLOATS", "COMPLEX") if dtype in getattr(dtypes, name))


def eager(case: Case) -> None:
    """Operation by operation = compiled, in value and type."""
    at_once, compiled = case(*case.operands), jit(case.__call__)(*case.operands)
    _check_types(case, case.operands, "eager", [aval_of(x) for x in at_once])
    _check_types(case, case.operands, "compiled", [aval_of(x) for x in compiled])
    for x, y in zip(at_once, compiled, strict=True):
        _compare(case, np.asarray(x), np.asarray(y), "eager: eager and compiled differ")


def typing(case: Case) -> None:
    """The typing rule gives the types of the values, however they are computed, and only weak operands weak results."""
    _check_typing(case, case.operands)
    for x in case.primitive.type_of(tuple(map(aval_of, case.operands)), case.params):
        if x.weak_type and not case.params.get("weak_type"):
            raise AssertionError("typing: the result is weak, and no operand is")
    weak = [Array(aval_of(x).update(weak_type=x.dtype.kind != "b"), x) for x in case.operands]
    _check_typing(case, weak)
    if case.has_reference:
        with enable_x64():
            wide = case.wide()
            avals = wide.primitive.type_of(tuple(map(aval_of, wide.operands)), wide.params)
            _check_reference_types(wide, avals)


def _check_typing(case: Case, operands: Sequence[Any]) -> None:
    closed, _ = trace_function(case.__call__, operands, {}, "staged by a law")
    core.check_jaxpr(closed)
    _check_types(case, operands, "staged", closed.out_avals)
    if case.primitive.exact:  # runs in NumPy; what is compiled is looked at by the law `eager`
        _check_types(case, operands, "eager", [aval_of(x) for x in case(*operands)])
    if case.has_reference:
        _check_reference_types(case, closed.out_avals)


def _check_types(case: Case, operands: Sequence[Any], how: str, found: Sequence[Any]) -> None:
    expected = case.primitive.type_of(tuple(map(aval_of, operands)), case.params)
    if [*found] != [*expected]:
        raise AssertionError(f"typing: the rule says {expected}, and {how} it is {found}")


def _check_reference_types(case: Case, expected: Sequence[Any]) -> None:
    for x, aval in zip(case.reference(*case.operands), expected, strict=True):
        same_type(x, np.empty(aval.shape, aval.dtype), "typing: the reference rule gives another type than the typing rule")


# -- Derivatives


def subsets(positions: Sequence[int], most: int = 3) -> Iterator[tuple[int, ...]]:
    """All non-empty choices where there are few positions, else each alone, all but each, and all."""
    n = len(positions)
    sizes = range(1, n + 1) if n <= most else sorted({1, n - 1, n})
    for size in sizes:
        yield from itertools.combinations(positions, size)


def jvp_law(case: Case) -> None:
    """The tangent is the limit of finite differences."""
    with enable_x64():
        case = case.wide()
        f, xs = case.of(case.active, case.inexact), case.at(case.active)
        check_jvp(
            partial(run, f), lambda ps, ts: run(lambda p, t: jvp(f, p, t), ps, ts), xs, DIFFERENCE, DIFFERENCE, err_msg="jvp"
        )


def zeros(case: Case) -> None:
    """Symbolic zeros are zeros, and where all tangents are zero the result's are, symbolically."""
    if not case.row.differentiable:
        return _check_undifferentiable(case)
    with enable_x64():
        case = case.wide()
        none = [Zero(aval_of(x).to_tangent_aval()) for x in case.operands]
        outs, tangents = case.primitive.jvp(case.operands, none, **case.params)
        if any(type(t) is not Zero for t in tangents):
            raise AssertionError(f"zeros: no operand has a tangent, and the results have {tangents}")
        _check_tangent_types(outs, tangents)
        for chosen in subsets(case.active):
            _check_zeros(case, chosen)


def _check_undifferentiable(case: Case) -> None:
    tangents = [
        np.ones(x.shape, x.dtype) if x.dtype in dtypes.INEXACT else Zero(aval_of(x).to_tangent_aval())
        for x in case.operands
    ]
    try:
        _, out = case.primitive.jvp(case.operands, tangents, **case.params)
    except UnsupportedRule:
        return
    if any(type(t) is not Zero for t in out):
        raise AssertionError("zeros: the row says differentiable=False, and the jvp rule gives tangents")


def _check_tangent_types(outs: Sequence[Any], tangents: Sequence[Any]) -> None:
    for x, t in zip(outs, tangents, strict=True):
        want, have = aval_of(x).to_tangent_aval(), aval_of(t)
        if (want.shape, want.dtype) != (have.shape, have.dtype):
            raise AssertionError(f"zeros: the tangent of {aval_of(x).str_short()} is of type {have.str_short()}")


def _check_zeros(case: Case, chosen: tuple[int, ...]) -> None:
    def push(symbolic: bool, *given: Any) -> list[Any]:
        tangents = [Zero(aval_of(x).to_tangent_aval()) for x in case.operands]
        if not symbolic:
            tangents = [t if t.aval.dtype == dtypes.float0 else instantiate(t) for t in tangents]
        for i, t in zip(chosen, given, strict=True):
            tangents[i] = t
        outs, out_tangents = push_forward(case, case.operands, tangents)
        _check_tangent_types(outs, out_tangents)
        return [instantiate(t) for t in out_tangents if aval_of(t).dtype != dtypes.float0]

    given = random_like(case.at(chosen), 1)
    lazily, plainly = run(partial(push, True), *given), run(partial(push, False), *given)
    all_close(lazily, plainly, SHARP, f"zeros: with tangents for the operands {chosen} alone")


def linearize_law(case: Case) -> None:
    """The linear program gives the tangents that jvp gives."""
    with enable_x64():
        case = case.wide()
        f, xs = case.of(case.active), case.at(case.active)
        ts = random_like(xs, 2)

        def linearized(*tangents: Any) -> list[Any]:
            outs, linear, is_active = linearize_flat(f, xs, [True] * len(xs))
            core.check_jaxpr(linear)
            found = iter(core.eval_jaxpr(linear.jaxpr, linear.consts, *tangents))
            zeros = [Zero(aval_of(x).to_tangent_aval()) for x in outs]
            return [next(found) if a else instantiate(z) for a, z in zip(is_active, zeros, strict=True) if _has(a, z)]

        def pushed(*tangents: Any) -> list[Any]:
            return [t for t in jvp(f, xs, tangents)[1] if aval_of(t).dtype != dtypes.float0]

        all_close(run(linearized, *ts), run(pushed, *ts), SHARP, "linearize: linearize and jvp differ")


def _has(is_active: bool, zero: Zero) -> bool:
    return is_active or zero.aval.dtype != dtypes.float0


def vjp_law(case: Case) -> None:
    """<ct, J v> = <J^T ct, v>, for all operands together and each alone."""
    with enable_x64():
        case = case.wide()
        for chosen in subsets(case.active, most=2):
            f, xs = case.of(chosen, case.inexact), case.at(chosen)
            vs, cts = random_like(xs, 3), random_like(run(f, *xs), 4)
            pushed = run(lambda *ts: jvp(f, xs, ts)[1], *vs)  # noqa: B023  # called at once
            pulled = run(lambda *cs: vjp(f, *xs)[1]([*cs]), *cts)  # noqa: B023
            for x, ct in zip(xs, pulled, strict=True):
                same_type(ct, x, "vjp: the cotangent is not of its operand's type")
            forward, backward = inner(cts, pushed), inner(pulled, vs)
            if abs(forward - backward) > SHARP * (1 + abs(forward)):
                raise AssertionError(f"vjp: <ct, J v> is {forward} and <J^T ct, v> {backward}, for operands {chosen}")


def order2(case: Case) -> None:
    """The second derivative is the finite difference of the first, and the same by every pair of modes."""
    with enable_x64():
        case = case.wide()
        f, xs = case.of(case.active, case.inexact), case.at(case.active)
        vs, ws = random_like(xs, 5), random_like(xs, 6)
        cts = random_like(run(f, *xs), 7)

        def pushed(*ps: Any) -> Any:
            return jvp(f, ps, vs)[1]

        def pulled(*ps: Any) -> Any:
            return vjp(f, *ps)[1](cts)

        message = "order2: jvp of jvp"
        check_jvp(
            partial(run, pushed), lambda ps, ts: run(lambda p, t: jvp(pushed, p, t), ps, ts), xs, DIFFERENCE, DIFFERENCE,
            err_msg=message,
        )  # fmt: skip
        forward_over_reverse = run(lambda *ts: jvp(pulled, xs, ts)[1], *ws)
        reverse_over_forward = run(lambda *ts: vjp(lambda *ps: jvp(f, ps, ts)[1], *xs)[1](cts), *ws)
        reverse_over_reverse = run(lambda *ts: vjp(pulled, *xs)[1](ts), *ws)
        all_close(reverse_over_forward, forward_over_reverse, SHARP, "order2: reverse over forward, forward over reverse")
        all_close(reverse_over_reverse, forward_over_reverse, SHARP, "order2: reverse over reverse, forward over reverse")


def transpose(case: Case) -> None:
    """Transposing twice gives the function again, in whichever operands it is linear."""
    if isinstance(case.primitive.transpose, core.Unsupported):
        return
    with enable_x64():
        case = case.wide()
        if not run(case.of(case.active, case.inexact), *case.at(case.active)):
            return
        chosen = [s for s in subsets(case.active) if _is_linear(case, s)]
        if not chosen:
            raise AssertionError("transpose: there is a rule, and the primitive is linear in none of its operands")
        for some in chosen:
            _check_transpose(case, some)


def _is_linear(case: Case, chosen: tuple[int, ...]) -> bool:
    f, xs = case.of(chosen, case.inexact), case.at(chosen)
    ys = random_like(xs, 8)
    mixed = run(f, *(1.75 * x + y for x, y in zip(xs, ys, strict=True)))
    apart = [1.75 * x + y for x, y in zip(run(f, *xs), run(f, *ys), strict=True)]
    return all(np.allclose(x, y, rtol=SHARP, atol=SHARP) for x, y in zip(mixed, apart, strict=True))


def _check_transpose(case: Case, chosen: tuple[int, ...]) -> None:
    f, xs = case.of(chosen, case.inexact), case.at(chosen)
    outs = run(f, *xs)
    cts = random_like(outs, 9)

    def back(*cs: Any) -> list[Any]:
        return list(linear_transpose(f, *xs)([*cs]))

    def forth(*vs: Any) -> list[Any]:
        return list(linear_transpose(back, *outs)([*vs]))

    pulled = run(back, *cts)
    for x, ct in zip(xs, pulled, strict=True):
        same_type(ct, x, "transpose: the cotangent is not of its operand's type")
    if abs(inner(cts, outs) - inner(pulled, xs)) > SHARP * (1 + abs(inner(cts, outs))):
        raise AssertionError(f"transpose: <ct, f x> is not <f^T ct, x>, for operands {chosen}")
    all_close(run(forth, *xs), outs, SHARP, f"transpose: transposed twice, for operands {chosen}")


# -- Batches


def varied(x: np.ndarray, k: int) -> np.ndarray:
    """Row number `k` of a batch: `x`, and others that are much like it."""
    if x.dtype in dtypes.INEXACT:
        return (x * (1 + k / 16)).astype(x.dtype)
    if x.size != 1:
        return np.roll(x.ravel(), k).reshape(x.shape)
    if x.dtype.kind == "b":
        return x ^ bool(k % 2)
    return np.asarray(x - k if x.item() >= k else x + k, x.dtype)


def stacked(x: np.ndarray, axis: int | None, size: int) -> np.ndarray:
    if axis is None:
        return x
    if not size:
        return np.zeros((*x.shape[:axis], 0, *x.shape[axis:]), x.dtype)
    return np.stack([varied(x, k) for k in range(size)], axis)


def mappings(operands: Sequence[np.ndarray]) -> list[tuple[int | None, ...]]:
    """Choices of an axis, or none, for each operand: all where there are few, else the plain ones and a sample."""
    choices = [[None, *range(x.ndim + 1)] for x in operands]
    every = [axes for axes in itertools.product(*choices) if any(a is not None for a in axes)]
    if len(every) <= MOST_MAPPINGS:
        return every
    n = len(operands)
    plain = [(0,) * n, *(tuple(0 if j == i else None for j in range(n)) for i in range(n))]
    plain.append(tuple(x.ndim for x in operands))
    rest = random.Random(0).sample(every, MOST_MAPPINGS - min(len(plain), MOST_MAPPINGS))
    return list(dict.fromkeys([*plain, *rest]))


def vmap_law(case: Case) -> None:
    """vmap = loop."""
    operands = case.operands
    if not operands:
        return
    n = len(operands)
    for number, axes in enumerate(mappings(operands)):
        _check_vmap(case, axes, 3, number)
    for size in (0, 1):
        for axes in [(0,) * n, *(tuple(0 if j == i else None for j in range(n)) for i in range(n if n > 1 else 0))]:
            _check_vmap(case, axes, size, size)
    _check_nested_vmap(case, [True] * n, [True] * n)
    if n > 1:
        _check_nested_vmap(case, [True, *[False] * (n - 1)], [False, *[True] * (n - 1)])


def _check_vmap(case: Case, axes: tuple[int | None, ...], size: int, number: int) -> None:
    outs = run(case, *case.operands)
    out_axis = number % (1 + min((x.ndim for x in outs), default=0))
    batch = [stacked(x, axis, size) for x, axis in zip(case.operands, axes, strict=True)]
    got = run(vmap(case, axes, out_axis), *batch)
    if size:
        rows = [run(case, *_row(case.operands, axes, k)) for k in range(size)]
        expected = [np.stack(results, out_axis) for results in zip(*rows, strict=True)]
    else:
        expected = [stacked(x, out_axis, 0) for x in outs]
    for x, y in zip(got, expected, strict=True):
        close(x, y, 2 * _tolerance(case, y), f"vmap: in_axes={axes}, out_axes={out_axis}, size {size}")


def _row(operands: Sequence[np.ndarray], axes: Sequence[int | None], k: int) -> list[np.ndarray]:
    return [x if axis is None else varied(x, k) for x, axis in zip(operands, axes, strict=True)]


def _check_nested_vmap(case: Case, inside: Sequence[bool], outside: Sequence[bool]) -> None:
    """The inner mapping over axis 0 of rows, the outer over the last axis of the arrays."""
    batch, in_axes, out_axes = [], [], []
    for x, inner_mapped, outer_mapped in zip(case.operands, inside, outside, strict=True):
        rows = stacked(x, 0, 3) if inner_mapped else x
        batch.append(stacked(rows, rows.ndim, 2) if outer_mapped else rows)
        in_axes.append(0 if inner_mapped else None)
        out_axes.append(-1 if outer_mapped else None)
    got = run(vmap(vmap(case, tuple(in_axes)), tuple(out_axes)), *batch)

    def entry(i: int, j: int) -> list[np.ndarray]:
        flags = zip(batch, inside, outside, strict=True)
        outer = [(x[..., i] if out else x, into) for x, into, out in flags]
        return run(case, *(x[j] if into else x for x, into in outer))

    found = [[entry(i, j) for j in range(3)] for i in range(2)]
    for index, x in enumerate(got):
        expected = np.array([[entries[index] for entries in line] for line in found])
        close(x, expected, 2 * _tolerance(case, expected), "vmap: vmap of vmap")


# -- Pairs of transformations


def commute(case: Case) -> None:
    """vmap of jvp = jvp of vmap, the same for vjp; jit changes nothing, inside them or around them all."""
    if not case.operands:
        return
    with enable_x64():
        case = case.wide()
        around = _around(case)
        plain = run(around(case), *case.operands)
        all_close(run(around(jit(case.__call__)), *case.operands), plain, SHARP, "commute: jit inside")
        if _is_first_of_its_kind(case):
            compiled = tree.map(np.asarray, jit(around(case))(*case.operands))
            all_close(compiled, plain, max(SHARP, _tolerance(case)), "commute: jit outside, of all these together")
        for name in ("jvp", "vjp"):
            if name in plain:
                mapped = f"vmap of {name}", f"{name} of vmap"
                all_close(plain[mapped[0]], plain[mapped[1]], SHARP, f"commute: {mapped[0]}, {mapped[1]}")


def _is_first_of_its_kind(case: Case) -> bool:
    """Whether no earlier sample of the row is of its kind of dtype: compiling all transformations takes 0.2 s."""
    others = [s for s in case.row.samples if not s.edges and _kind_of(Case(case.row, s)) == _kind_of(case)]
    return others[0] is case.sample if others else case.sample is case.row.samples[0]


def _kind_of(case: Case) -> str:
    leading = _leading(case.operands)
    return _kind(leading) if leading is not None else ""


def _around(case: Case) -> Callable[[Any], Callable[..., dict[str, Any]]]:
    """From a function with the case's operands, one that transforms it in every way."""
    rows = [stacked(x, 0, 2) for x in case.operands]
    differentiable = case.row.differentiable and case.active and not case.sample.edges
    vs, row_vs = random_like(case.at(case.active), 10), random_like([rows[i] for i in case.active], 11)

    def around(f: Any) -> Callable[..., dict[str, Any]]:
        def all_ways(*xs: Any) -> dict[str, Any]:
            found: dict[str, Any] = {"value": f(*xs), "vmap": vmap(f)(*rows)}
            if not differentiable:
                return found
            g = case.of(case.active, lambda *ys: _inexact_of(f(*ys)))

            def with_integers(others: Sequence[Any]) -> Callable[..., Any]:
                return lambda *ys: _inexact_of(f(*_merged(others, case.active, ys)))

            points = [xs[i] for i in case.active]
            value, found["jvp"] = jvp(g, points, vs)
            if not value:
                return {"value": found["value"], "vmap": found["vmap"]}
            cts = random_like(value, 12)
            found["vjp"] = vjp(g, *points)[1](cts)
            integers = [x for i, x in enumerate(rows) if i not in case.active]
            active = [rows[i] for i in case.active]

            def one_jvp(others: Any, ps: Any, ts: Any) -> Any:
                return jvp(with_integers(others), ps, ts)[1]

            def one_vjp(others: Any, ps: Any, cs: Any) -> Any:
                return vjp(with_integers(others), *ps)[1](cs)

            def of_rows(*ps: Any) -> Any:
                return vmap(lambda others, ys: with_integers(others)(*ys))(integers, list(ps))

            row_cts = random_like(of_rows(*active), 13)
            found["vmap of jvp"] = vmap(one_jvp)(integers, active, row_vs)
            found["jvp of vmap"] = jvp(of_rows, active, row_vs)[1]
            found["vmap of vjp"] = list(vmap(one_vjp)(integers, active, row_cts))
            found["vjp of vmap"] = list(vjp(of_rows, *active)[1](row_cts))
            return found

        return all_ways

    return around


def _inexact_of(values: Iterable[Any]) -> list[Any]:
    return [x for x in values if aval_of(x).dtype in dtypes.INEXACT]


def _merged(others: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """`values` at `positions`, and `others` in order in the rest."""
    rest, given = iter(others), dict(zip(positions, values, strict=True))
    return [given[i] if i in given else next(rest) for i in range(len(others) + len(values))]


LAWS: dict[str, Callable[[Case], None]] = {
    "value": value, "typing": typing, "eager": eager, "jvp": jvp_law, "zeros": zeros, "linearize": linearize_law,
    "vjp": vjp_law, "order2": order2, "transpose": transpose, "vmap": vmap_law, "commute": commute,
}  # fmt: skip
OF_DERIVATIVES = frozenset({"jvp", "zeros", "linearize", "vjp", "order2", "transpose"})


def applies(law: str, row: Row, sample: Sample) -> bool:
    """Whether the law says anything of the sample."""
    if law not in OF_DERIVATIVES:
        return True
    if sample.edges or not Case(row, sample).active:
        return False
    return row.differentiable or law == "zeros"


def check(law: str, row: Row, sample: Sample) -> None:
    """Tries one law on one sample, on every dtype where the law is `value`."""
    case = Case(row, sample)
    if law != "value":
        LAWS[law](case)
        return
    for dtype in value_dtypes(row, sample):
        try:
            value(converted(case, dtype))
        except AssertionError as error:
            error.add_note(f"  in {dtype.name}")
            raise
