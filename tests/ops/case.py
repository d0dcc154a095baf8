"""What the laws are tried on: a primitive at a sample; running and comparing.

Computing with XLA costs 10 ms or more for each operation and each shape, in compiling it. So most laws are tried on the
reference backend: what they compute is staged, the jaxpr is checked, and it is evaluated in NumPy (`run`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tests.ops.table import FromTypes, Row, Sample
from xpr import core, dtypes, tree
from xpr.api.jit import jit
from xpr.api.make_jaxpr import trace_function
from xpr.api.vmap import vmap
from xpr.backend.array import from_words
from xpr.compile.evaluate import reference_eval
from xpr.config import settings
from xpr.core.avals import aval_of, is_key
from xpr.key_types import KeyType
from xpr.numpy.refs import freeze, new_ref
from xpr.passes.physical import each_key
from xpr.primitives.elementwise_while import in_numpy
from xpr.primitives.generators import THREEFRY
from xpr.primitives.random_keys import random_unwrap, random_wrap

SHARP = 1e-9  # of two computations of the same thing in 64 bits


class Case:
    """A primitive at a sample: a function of a list of operands that gives a list, and those operands."""

    def __init__(self, row: Row, sample: Sample, operands: Sequence[Any] | None = None, params: Any = None):
        self.row, self.sample, self.primitive = row, sample, row.primitive
        self.operands = [_numpy(x) for x in (sample.operands if operands is None else operands)]
        given = sample.params if params is None else params
        self.params = {k: self._from_types(v) if isinstance(v, FromTypes) else v for k, v in given.items()}
        self._compiled: dict[bool, list[Any]] = {}
        self._staged: dict[Any, Any] = {}

    def __call__(self, *xs: Any) -> list[Any]:
        if self.row.along is None:
            return self._bind(*xs)
        return vmap(self._bind, axis_name=self.row.along)(*xs)

    def _bind(self, *xs: Any) -> list[Any]:
        if self.row.of_refs:
            ref = new_ref(xs[0])
            out = jit(lambda *operands: self.primitive.bind(*operands, **self.params))(ref, *xs[1:])
            return [out, freeze(ref)]
        out = self.primitive.bind(*self.with_keys(xs), **self.params)
        outs = list(out) if self.primitive.multiple_results else [out]
        return [random_unwrap(x) if is_key(aval_of(x)) else x for x in outs]

    @property
    def is_exact(self) -> bool:
        """Whether NumPy is to give the very bits that the compiled program gives."""
        return self.primitive.is_exact([aval_of(x) for x in self.with_keys(self.operands)])

    def with_keys(self, xs: Sequence[Any]) -> list[Any]:
        """The operands of the primitive: of words random keys, where it takes such."""
        return [random_wrap(x, THREEFRY) if i in self.row.keys else x for i, x in enumerate(xs)]

    def _from_types(self, param: FromTypes) -> Any:
        return param.make(*map(aval_of, self.operands))

    def compiled(self) -> list[Any]:
        """The results as one compiled program gives them, which runs once for all laws."""
        if not self.is_compiled(settings.enable_x64):
            self.keep_compiled(jit(self.__call__)(*self.operands))
        return self._compiled[settings.enable_x64]

    def is_compiled(self, x64: bool) -> bool:
        return x64 in self._compiled

    def keep_compiled(self, outs: Sequence[Any]) -> None:
        self._compiled[settings.enable_x64] = list(outs)

    def run(self, *xs: Any) -> list[Any]:
        """The results as `run` gives them, staged once for each of the operands' types."""
        key = settings.enable_x64, *map(aval_of, xs)
        if key not in self._staged:
            self._staged[key] = staged(self, *xs)
        return evaluated(*self._staged[key], xs)

    def inexact(self, *xs: Any) -> list[Any]:
        """Those results that have derivatives."""
        return [x for x in self(*xs) if aval_of(x).dtype in dtypes.INEXACT]

    @property
    def active(self) -> list[int]:
        """The positions of the operands that have derivatives."""
        return [i for i, x in enumerate(self.operands) if x.dtype in dtypes.INEXACT]

    def types(self, operands: Sequence[Any]) -> list[core.ShapedArray]:
        """The types of the results by the typing rule."""
        if self.row.along is None and not self.row.of_refs and not callable(self.primitive.physical):
            return self.primitive.type_of(tuple(map(aval_of, operands)), self.params)
        return trace_function(self.__call__, operands, {}, "staged by a law")[0].out_avals

    @property
    def has_reference(self) -> bool:
        given = self.row.meaning is not None or self.primitive.call or callable(self.primitive.physical)
        return given or not isinstance(self.primitive.reference, core.Unsupported)

    def reference(self, *xs: Any) -> list[Any]:
        if self.row.meaning is not None:
            with np.errstate(all="ignore"):
                return self.row.meaning(*xs, **self.params)
        if "call_jaxpr" in self.params and self.primitive.mesh is None:
            return reference_eval(self.params["call_jaxpr"], (), *xs)
        with np.errstate(all="ignore"):
            if callable(self.primitive.physical):
                return self._on_words(*xs)
            return self.primitive.reference(list(xs), **self.params)

    def _on_words(self, *xs: Any) -> list[Any]:
        """An operation on random keys by its rule for their words, in NumPy."""
        avals = [from_words(x, KeyType(THREEFRY)).aval if i in self.row.keys else aval_of(x) for i, x in enumerate(xs)]
        return in_numpy(lambda *words: self.primitive.physical(each_key, words, avals, **self.params), *xs)

    def of(self, positions: Sequence[int], fun: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """The results as a function of some operands alone."""
        fun = fun or self

        def of_chosen(*xs: Any) -> Any:
            operands: list[Any] = list(self.operands)
            for i, x in zip(positions, xs, strict=True):
                operands[i] = x
            return fun(*operands)

        return of_chosen

    def at(self, positions: Sequence[int]) -> list[np.ndarray]:
        return [self.operands[i] for i in positions]

    def wide(self) -> Case:
        """The case with 64-bit inexact types, for `enable_x64`."""
        operands = [x.astype(_wider(x.dtype)) for x in self.operands]
        params = {k: _wider(v) if isinstance(v, np.dtype) else v for k, v in self.sample.params.items()}
        return Case(self.row, self.sample, operands, params)


def leading(operands: Sequence[np.ndarray]) -> np.dtype | None:
    found = [x.dtype for x in operands if x.dtype in dtypes.INEXACT] or [x.dtype for x in operands]
    return found[0] if found else None


@np.errstate(all="ignore")
def kind(dtype: np.dtype) -> str:
    return next(name for name in ("BOOL", "INTEGERS", "FLOATS", "COMPLEX") if dtype in getattr(dtypes, name))


def kind_of(case: Case) -> str:
    dtype = leading(case.operands)
    return kind(dtype) if dtype is not None else ""


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
    return evaluated(*staged(fun, *args), args)


def staged(fun: Callable[..., Any], *args: Any) -> tuple[core.ClosedJaxpr, Any]:
    closed, out_tree = trace_function(fun, args, {}, "staged by a law")
    core.check_jaxpr(closed)
    return closed, out_tree


def evaluated(closed: core.ClosedJaxpr, out_tree: Any, args: Sequence[Any]) -> Any:
    leaves = tree.leaves(args)
    if has_numpy_rules(closed.jaxpr):
        outs = reference_eval(closed.jaxpr, closed.consts, *leaves)
    else:
        outs = [np.asarray(x) for x in jit(core.jaxpr_as_fun(closed))(*leaves)]
    return tree.unflatten(out_tree, outs)


def has_numpy_rules(jaxpr: core.Jaxpr) -> bool:
    return all(
        eqn.primitive.call or eqn.primitive.physical or not isinstance(eqn.primitive.reference, core.Unsupported)
        for eqn in jaxpr.eqns
    ) and all(has_numpy_rules(sub) for eqn in jaxpr.eqns for sub in core.subjaxprs(eqn))


# -- Comparing


def same_type(got: Any, expected: Any, what: str) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype or got.shape != expected.shape:
        have, want = (f"{x.dtype}{list(x.shape)}" for x in (got, expected))
        raise AssertionError(f"{what}: {have}, and {want} expected")


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


def close(got: np.ndarray, expected: np.ndarray, tolerance: float, what: str, scale: bool = True) -> None:
    """Equal up to `tolerance`, relative to each element, and (`scale`) to the largest of them or 1, the less."""
    same_type(got, expected, what)
    if got.dtype not in dtypes.INEXACT:
        np.testing.assert_array_equal(got, expected, what)
        return
    x, y = (v.astype(_wider(v.dtype)) for v in (got, expected))
    finite = np.abs(y[np.isfinite(y)])
    floor = min(1.0, float(finite.max())) if scale and finite.size else 0.0
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * floor, err_msg=what)


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


def allowed(case: Case, *values: Any) -> float:
    """What the row allows at the precision of the operands and results."""
    found = [_epsilon(np.asarray(x).dtype) for x in (*case.operands, *values)]
    return case.row.tolerance * max(found, default=0.0)
