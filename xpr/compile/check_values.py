"""check : arrays -> arrays. Runs each operation and checks its results for nan or inf: `debug_nans` and `debug_infs`.

The bottom interpreter of a thread is replaced, so nothing is checked, and nothing costs time, while they are off. A
program whose results are not finite is run again, equation by equation, into the jaxprs it calls, to find the first
with such a result: the `reference` rules of loops and branches run their inner jaxprs through the search.

What only moves or selects elements makes none of them nan: `where(x > 0, x, nan)` is an error if it is followed by
arithmetic on an element that is nan, or if a program returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.compile.evaluate import EvalTrace, run_jaxpr
from xpr.compile.reference import jaxprs_run_by
from xpr.core.avals import aval_of
from xpr.core.interpreter import context
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params, make_literal, with_subjaxprs
from xpr.core.lines import with_lines
from xpr.core.primitive import Primitive, Unsupported
from xpr.core.regions import called_jaxpr, regions_of
from xpr.core.source import here, line_with_text, operation_of, summarize
from xpr.passes.physical import physical
from xpr.text.printer import format_eqn, letters


class CheckingTrace(EvalTrace):
    """Runs operations by another interpreter, and raises FloatingPointError where a result is nan (or infinite)."""

    __slots__ = ("infs", "inner", "nans")
    runs_programs = False
    runs_known_calls = False

    def __init__(self, inner: EvalTrace, nans: bool, infs: bool):
        super().__init__()
        self.inner, self.nans, self.infs = inner, nans, infs

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        outs = self.inner.process(primitive, args, params)
        if self.is_origin(primitive, args, params, outs):
            _Search(self, ()).operation(primitive, args, params, outs, context.source or here(2))
        return outs

    def is_origin(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any]) -> bool:
        """Whether a bad value comes from the operation: a result holds one, which is not just moved there."""
        if not any(map(self.bad_value, outs)):
            return False
        computes = primitive.flops is not None or _holds_jaxprs(params)
        return computes or not any(map(self.bad_value, args))

    def bad_value(self, x: Any) -> str | None:
        """The bad value that an array holds, "nan" or "inf"; None if it holds none."""
        if aval_of(x).dtype not in dtypes.INEXACT:
            return None
        value = np.asarray(x)
        if self.nans and np.isnan(value).any():
            return "nan"
        return "inf" if self.infs and np.isinf(value).any() else None


class _Search:
    """Searches for the first equation whose result is nan or infinite.

    `context_lines` are lines of the message that say which calls, loops and branches the equation is in.
    """

    __slots__ = ("context_lines", "trace")

    def __init__(self, trace: CheckingTrace, context_lines: tuple[str, ...]):
        self.trace, self.context_lines = trace, context_lines

    def operation(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any], source: Any
    ) -> None:
        """Raises FloatingPointError for an operation whose result is nan or infinite, or for the equation inside of it
        that caused it.
        """
        location = f"{summarize(source)}"
        eqn = JaxprEqn((), (), primitive, params)
        called = called_jaxpr(eqn)
        if called is not None:
            inside = _Search(
                self.trace, (f"in {params.get('name', primitive)}, called at {location}", *self.context_lines)
            )
            inside.equations(with_lines(called, source), args)
        elif _holds_jaxprs(params) and not isinstance(primitive.reference, Unsupported):
            on_words = with_subjaxprs(eqn, physical).params
            runner = _Runner(self, primitive, on_words, location)
            with jaxprs_run_by(runner.run):
                primitive.reference([np.asarray(x.host if type(x) is Array else x) for x in args], **on_words)
        raise FloatingPointError(self.message(primitive, args, params, outs, source))

    def equations(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Runs a jaxpr without constants equation by equation."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args))

        def read(atom: Any) -> Any:
            return atom.val if type(atom) is Literal else env[atom]

        moves = {}
        for eqn in jaxpr.eqns:
            values = [read(v) for v in eqn.invars]
            with jaxprs_run_by(None):
                outs = self.trace.inner.process(eqn.primitive, values, eqn.params)
            if self.trace.is_origin(eqn.primitive, values, eqn.params, outs):
                self.operation(eqn.primitive, values, eqn.params, outs, eqn.source)
            moves.update(dict.fromkeys(eqn.outvars, (eqn.primitive, values, eqn.params, outs, eqn.source)))
            env.update(zip(eqn.outvars, outs))
        results = [read(v) for v in jaxpr.outvars]
        for v, x in zip(jaxpr.outvars, results):
            if type(v) is Var and v in moves and self.trace.bad_value(x):
                self.operation(*moves[v])
        return results

    def message(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any], source: Any
    ) -> str:
        bad = next(x for x in outs if self.trace.bad_value(x))
        kind = self.trace.bad_value(bad)
        values = np.asarray(bad)
        number = int((np.isnan(values) if kind == "nan" else np.isinf(values)).sum())
        among = f", in {number} of {values.size} elements" if values.ndim else ""
        lines = [
            f"invalid value ({kind}) encountered in {primitive}{among}.",
            f"  {_equation(primitive, args, params, outs)}",
        ]
        lines += [f"  {name}: {_range(x)}" for name, x in _named_operands(args)]
        lines.append(f"  at {line_with_text(source)}")
        if source is not None and (operation := operation_of(source)):
            lines.append(f"  in the backward pass: a cotangent of that line, through the {operation} of its derivative")
        return "\n".join([*lines, *(f"  {line}" for line in self.context_lines)])


class _Runner:
    """Runs the jaxprs of one operation, and counts the runs of each."""

    __slots__ = ("counts", "location", "params", "primitive", "search")

    def __init__(self, search: _Search, primitive: Primitive, params: dict[str, Any], location: str):
        self.search, self.primitive, self.params, self.location = search, primitive, params, location
        self.counts: dict[Jaxpr, int] = {}

    def run(self, jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr, run as one program, and again equation by equation where they are not finite."""
        count = self.counts[jaxpr] = self.counts.get(jaxpr, -1) + 1
        trace = self.search.trace
        with jaxprs_run_by(None):
            outs: list[Any] = run_jaxpr(jaxpr, values, str(self.primitive)) if not jaxpr.constvars else []
        if jaxpr.constvars or any(map(trace.bad_value, outs)):
            location = f"in {self.region_name(jaxpr, count)} of {self.primitive}, at {self.location}"
            outs = _Search(trace, (location, *self.search.context_lines)).equations(
                jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), values
            )
        return [np.asarray(x, v.aval.dtype) for x, v in zip(outs, jaxpr.outvars)]

    def region_name(self, jaxpr: Jaxpr, count: int) -> str:
        """`branch 1`, or `iteration 3` of a loop."""
        for index, region in enumerate(regions_of(JaxprEqn((), (), self.primitive, self.params))):
            if region.kind == "branch" and region.jaxpr is jaxpr:
                return f"branch {index}"
        return f"iteration {count}"


def _holds_jaxprs(params: dict[str, Any]) -> bool:
    return next(jaxprs_in_params(params), None) is not None


def _equation(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any]) -> str:
    """The operation as an equation; without parameters where they hold whole programs."""
    shown = {} if _holds_jaxprs(params) else params
    invars = [_atom(x) for x in args]
    return format_eqn(JaxprEqn(invars, [Var(aval_of(x)) for x in outs], primitive, shown))


def _atom(x: Any) -> Any:
    aval = aval_of(x)
    return Var(aval) if type(x) is Array else make_literal(x, aval) if not aval.shape else Var(aval)


def _named_operands(args: Sequence[Any]) -> list[tuple[str, Any]]:
    """The operands that are variables of the equation, with their names there."""
    variables = [x for x in args if type(_atom(x)) is Var]
    return [(letters(i), x) for i, x in enumerate(variables)]


def _range(x: Any) -> str:
    """The type of an operand, and the range of its values."""
    value = np.asarray(x)
    if aval_of(x).dtype not in dtypes.INEXACT or not value.size:
        return aval_of(x).str_short()
    wide = value.astype(np.complex128) if aval_of(x).dtype.kind == "c" else value.astype(np.float64)
    if not np.isfinite(wide).all():
        kinds_of_bad = " and ".join(kind for kind, test in (("nan", np.isnan), ("inf", np.isinf)) if test(wide).any())
        return f"{aval_of(x).str_short()}, holds {kinds_of_bad} already"
    if wide.dtype.kind == "c":
        return f"{aval_of(x).str_short()}, finite"
    if not wide.shape:
        return f"{aval_of(x).str_short()}, {wide[()]:.6g}"
    return f"{aval_of(x).str_short()}, from {wide.min():.6g} to {wide.max():.6g}"
