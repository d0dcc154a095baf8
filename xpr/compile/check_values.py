"""check : run each operation now and look at its results. What `debug_nans` and `debug_infs` put at the bottom.

The bottom interpreter of a thread is replaced, so nothing is looked at, and nothing costs time, while they are off. A
program whose results are not finite is run again, equation by equation, into the jaxprs it calls, to find the first
that gives such a value: rules of loops and branches say in NumPy what they mean (`reference`), and run their jaxprs
through the search instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from xpr import dtypes
from xpr.backend.array import Array
from xpr.compile.evaluate import EvalTrace, jaxprs_run_by, run_jaxpr
from xpr.config import after_update, override, settings
from xpr.core.avals import aval_of
from xpr.core.interpreter import context, current, install_base
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, make_literal, subjaxprs
from xpr.core.primitive import Primitive, Unsupported
from xpr.core.regions import called_jaxpr, regions_of
from xpr.core.source import here, summarize, text_of
from xpr.text.printer import format_eqn, letters


class CheckingTrace(EvalTrace):
    """Runs operations and raises FloatingPointError where a result is nan (or infinite)."""

    __slots__ = ("infs", "nans")

    def __init__(self, nans: bool, infs: bool):
        super().__init__()
        self.nans, self.infs = nans, infs

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        outs = EvalTrace.process(self, primitive, args, params)
        if any(map(self.found_in, outs)):
            _Search(self, ()).operation(primitive, args, params, outs, context.source or here(2))
        return outs

    def found_in(self, x: Any) -> str | None:
        """What a value holds that it should not, "nan" or "inf"."""
        if aval_of(x).dtype not in dtypes.INEXACT:
            return None
        value = np.asarray(x)
        if self.nans and np.isnan(value).any():
            return "nan"
        return "inf" if self.infs and np.isinf(value).any() else None


class _Search:
    """Looks for the first equation with such a result; `places` are the lines of a message that say where it is."""

    __slots__ = ("places", "trace")

    def __init__(self, trace: CheckingTrace, places: tuple[str, ...]):
        self.trace, self.places = trace, places

    def operation(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any], source: Any
    ) -> None:
        """Raises for an operation that is known to have such a result, or for the equation inside that is to blame."""
        where = f"{summarize(source)}"
        called = called_jaxpr(JaxprEqn((), (), primitive, params))
        if called is not None:
            inside = _Search(self.trace, (f"in {params.get('name', primitive)}, called at {where}", *self.places))
            inside.equations(called, args)
        elif _holds_jaxprs(primitive, params) and not isinstance(primitive.reference, Unsupported):
            runner = _Runner(self, primitive, params, where)
            with jaxprs_run_by(runner.run):
                primitive.reference([np.asarray(x) for x in args], **params)
        raise FloatingPointError(self.message(primitive, args, params, outs, source))

    def equations(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Runs a jaxpr without constants equation by equation."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args))

        def read(atom: Any) -> Any:
            return atom.val if type(atom) is Literal else env[atom]

        for eqn in jaxpr.eqns:
            values = [read(v) for v in eqn.invars]
            with jaxprs_run_by(None):
                outs = EvalTrace.process(self.trace, eqn.primitive, values, eqn.params)
            if any(map(self.trace.found_in, outs)):
                self.operation(eqn.primitive, values, eqn.params, outs, eqn.source)
            env.update(zip(eqn.outvars, outs))
        return [read(v) for v in jaxpr.outvars]

    def message(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any], source: Any
    ) -> str:
        bad = next(x for x in outs if self.trace.found_in(x))
        kind = self.trace.found_in(bad)
        entries = np.asarray(bad)
        number = int((np.isnan(entries) if kind == "nan" else np.isinf(entries)).sum())
        among = f", in {number} of {entries.size} entries" if entries.ndim else ""
        lines = [f"{primitive} gave {kind}{among}.", f"  {_equation(primitive, args, params, outs)}"]
        lines += [f"  {name}: {_range(x)}" for name, x in _named_operands(args)]
        lines.append(f"  at {summarize(source)}: {text_of(source)}")
        if source is not None and len(source) == 3:
            lines.append(f"  in the backward pass: a cotangent of that line, through the {source[2]} of its derivative")
        return "\n".join([*lines, *(f"  {place}" for place in self.places)])


class _Runner:
    """Runs the jaxprs of one operation, and counts the runs of each."""

    __slots__ = ("counts", "name", "params", "search", "where")

    def __init__(self, search: _Search, name: Primitive, params: dict[str, Any], where: str):
        self.search, self.name, self.params, self.where = search, name, params, where
        self.counts: dict[Jaxpr, int] = {}

    def run(self, jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
        """The whole as one program; where its results are not finite, equation by equation."""
        count = self.counts[jaxpr] = self.counts.get(jaxpr, -1) + 1
        trace = self.search.trace
        with jaxprs_run_by(None):
            outs: list[Any] = run_jaxpr(jaxpr, values, str(self.name)) if not jaxpr.constvars else []
        if jaxpr.constvars or any(map(trace.found_in, outs)):
            place = f"in {self.place(jaxpr, count)} of {self.name}, at {self.where}"
            outs = _Search(trace, (place, *self.search.places)).equations(
                jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), values
            )
        return [np.asarray(x, v.aval.dtype) for x, v in zip(outs, jaxpr.outvars)]

    def place(self, jaxpr: Jaxpr, count: int) -> str:
        """Which of several branches, or which round of a loop."""
        for index, region in enumerate(regions_of(JaxprEqn((), (), self.name, self.params))):
            if region.kind == "branch" and region.jaxpr is jaxpr:
                return f"branch {index}"
        return f"iteration {count}"


def _holds_jaxprs(primitive: Primitive, params: dict[str, Any]) -> bool:
    return any(True for _ in subjaxprs(JaxprEqn((), (), primitive, params)))


def _equation(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], outs: Sequence[Any]) -> str:
    """The operation as an equation; without parameters where they hold whole programs."""
    shown = {} if _holds_jaxprs(primitive, params) else params
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
    """What values an operand has."""
    value = np.asarray(x)
    if aval_of(x).dtype not in dtypes.INEXACT or not value.size:
        return aval_of(x).str_short()
    wide = value.astype(np.complex128) if aval_of(x).dtype.kind == "c" else value.astype(np.float64)
    if not np.isfinite(wide).all():
        held = " and ".join(kind for kind, test in (("nan", np.isnan), ("inf", np.isinf)) if test(wide).any())
        return f"{aval_of(x).str_short()}, holds {held} already"
    if wide.dtype.kind == "c":
        return f"{aval_of(x).str_short()}, finite"
    if not wide.shape:
        return f"{aval_of(x).str_short()}, {wide[()]:.6g}"
    return f"{aval_of(x).str_short()}, from {wide.min():.6g} to {wide.max():.6g}"


# -- What users call


def _base() -> EvalTrace:
    """The bottom interpreter that the settings ask for."""
    if settings.debug_nans or settings.debug_infs:
        return CheckingTrace(settings.debug_nans, settings.debug_infs)
    return EvalTrace()


@contextmanager
def _checking(name: str, on: bool) -> Iterator[None]:
    at_the_bottom = isinstance(context.trace, EvalTrace)  # while something is traced there is nothing to look at
    with override(name, on), current(_base()) if at_the_bottom else nullcontext():
        yield


def debug_nans(new_val: bool = True) -> Any:
    """A context manager in which every result is looked at, and a nan is a FloatingPointError.

    The error names the equation that gave it and the user's line. A compiled program (`jit`, a loop) whose result holds
    a nan is run again equation by equation to find the first one; in a backward pass the error names the forward line
    whose cotangent it is. `config.update("debug_nans", True)`, or XPR_DEBUG_NANS=1, sets it for the process.

    Raises:
      FloatingPointError: inside, where a result is nan.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.debug_nans(True):
    ...     jnp.log(-jnp.ones(2))
    Traceback (most recent call last):
        ...
    FloatingPointError: log gave nan, in 2 of 2 entries.
      b:f32[2] = log a
      a: f32[2], from -1 to -1
      at <doctest ...>:2 (<module>): jnp.log(-jnp.ones(2))
    """
    return _checking("debug_nans", new_val)


def debug_infs(new_val: bool = True) -> Any:
    """A context manager in which every result is looked at, and an infinity is a FloatingPointError.

    See `debug_nans`.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.debug_infs(True):
    ...     jnp.ones(()) / 2
    Array(0.5, dtype=float32)
    """
    return _checking("debug_infs", new_val)


def _install() -> None:
    """For the whole process: for this thread at once, for others that start afterwards."""
    base = _base()
    install_base(base)
    if isinstance(context.trace, EvalTrace):
        context.trace = base


after_update.update(debug_nans=_install, debug_infs=_install)
if settings.debug_nans or settings.debug_infs:
    _install()
