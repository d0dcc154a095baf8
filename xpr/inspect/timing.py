"""Time of a program by equation and by the user's line: each equation runs by itself, as a compiled program.

Equations of one type are measured once. A loop, and a branch, is measured as a whole; its equations share its time, in
proportion to what they take alone, in the loop's first step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import tree
from xpr.api.jit import jit
from xpr.api.make_jaxpr import trace_function
from xpr.api.transfer import block_until_ready, device_put
from xpr.core.avals import aval_of, describe
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, effects, eval_jaxpr
from xpr.core.lines import with_lines
from xpr.core.primitive import key_of
from xpr.core.regions import Region, regions_of
from xpr.core.source import describe_function, summarize, text_of
from xpr.inspect.show import Page

SHOWN = 20  # lines of a table
PER_LINE = 4  # equations of a line
MEASURED_FOR = 0.01  # seconds that an equation is run for, and at least three times, if it is not slower than this
LONG = 0.1


class EquationTime(NamedTuple):
    """The time that all runs of an equation take together; `times` in number, None where that is not known."""

    equation: JaxprEqn
    times: int | None
    seconds: float
    line: str


class LineTime(NamedTuple):
    """The time of the equations of one line of source."""

    seconds: float
    equations: int
    text: str


class Timings:
    """What a program's equations take; as text, a table of the lines that take most of the time.

    Attributes:
      seconds: what the program takes, compiled as one.
      alone: the sum of what its equations take, each compiled by itself.
      by_equation: an `EquationTime` for each equation that holds no others, in order.
      by_line: for each line of source, as `file.py:12 (function)`, a `LineTime`.
    """

    def __init__(self, name: str, jaxpr: Jaxpr, seconds: float, measured: Sequence[_Measured]):
        self.name, self.jaxpr, self.seconds = name, jaxpr, seconds
        self.alone = sum(each.seconds for each in measured)
        self.by_equation: list[EquationTime] = []
        self.by_line: dict[str, LineTime] = {}
        self._seconds: dict[int, float] = {}  # by equation, those that hold others included
        for each in measured:
            self._add(each, 1.0, 1)
        for of_eqn in self.by_equation:
            known = self.by_line.get(of_eqn.line) or LineTime(0.0, 0, text_of(of_eqn.equation.source))
            self.by_line[of_eqn.line] = LineTime(known.seconds + of_eqn.seconds, known.equations + 1, known.text)

    def _add(self, measured: _Measured, scale: float, times: int | None) -> None:
        eqn, seconds = measured.equation, measured.seconds * scale
        self._seconds[id(eqn)] = self._seconds.get(id(eqn), 0.0) + seconds
        if not measured.inner:
            self.by_equation.append(EquationTime(eqn, times, seconds, summarize(eqn.source)))
            return
        inside = sum(each.seconds * (n or 1) for each, n in measured.inner)
        for each, n in measured.inner:
            share = seconds / inside if inside else 0.0
            self._add(each, share * (n or 1), None if times is None or n is None else times * n)

    def show(self) -> Page:
        """The program as a page, as `xpr.jaxpr.show` makes it, with the time of each equation."""
        return Page([self.jaxpr], [self.name], self._seconds)

    def __str__(self) -> str:
        rows = [
            f"{self.name}: {duration(self.seconds)} as one program, "
            f"{duration(self.alone)} as {len(self.by_equation)} equations by themselves",
            "      time   share    runs  line",
        ]
        ordered = sorted(self.by_line.items(), key=lambda item: -item[1].seconds)
        for line, each in ordered[:SHOWN]:
            rows.append(f"{duration(each.seconds):>10} {self._share(each.seconds)}          {line}  {each.text}")
            rows += self._equations_of(line)
        if len(ordered) > SHOWN:
            rows.append(f"and {len(ordered) - SHOWN} lines more")
        return "\n".join(row.rstrip() for row in rows)

    __repr__ = __str__

    def _share(self, seconds: float) -> str:
        return f"{seconds / self.alone if self.alone else 0.0:7.1%}"

    def _equations_of(self, line: str) -> list[str]:
        of_line = [each for each in self.by_equation if each.line == line]
        rows = []
        for each in sorted(of_line, key=lambda each: -each.seconds)[:PER_LINE]:
            runs = "?" if each.times is None else str(each.times)
            types = " ".join(v.aval.str_short() for v in each.equation.invars)
            text = f"{each.equation.primitive.name} {types}"
            rows.append(f"{duration(each.seconds):>10} {self._share(each.seconds)} {runs:>7}    {text}")
        if len(of_line) > PER_LINE:
            rows.append(f"{'':27} and {len(of_line) - PER_LINE} equations more")
        return rows


def duration(seconds: float) -> str:
    """A time in the unit that fits.

    >>> duration(0.00123), duration(4.5e-8)
    ('1.23 ms', '0.045 us')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def table(fun: Callable[..., Any]) -> Callable[..., Timings]:
    """A function of the same arguments that measures what takes the time in `fun`, by your lines and by equation.

    The program is run equation by equation, each compiled by itself, waited for, and repeated; the least time counts,
    less that of calling a compiled program that does nothing. So these times are not those of the equations *inside*
    the compiled program, where XLA fuses many of them: a chain of elementwise functions takes less there than its
    parts together. The two sums at the top of the table say how much is saved. Equations of one type are measured once.
    A `scan`, `while` or `cond` is measured as a whole, as it runs; its equations have shares of its time, in proportion
    to what they take by themselves in its first step, or in the branch that is taken. Callbacks are called once more
    for each program that holds them.

    Args:
      fun: takes and gives pytrees of arrays; it is traced, and need not be jitted. All that it computes is run, several
        times: arguments need values.

    Returns:
      A function of the same arguments that returns `Timings`: printed, a table of lines; `.by_line` and `.by_equation`
      have the numbers, `.show()` is a page of the program with the times.

    Raises:
      TypeError: `fun` is no function.

    >>> import xpr, xpr.numpy as jnp
    >>> times = xpr.profiler.table(lambda a: jnp.tanh(a @ a))(jnp.ones((300, 300)))
    >>> [each.equation.primitive.name for each in times.by_equation]
    ['dot_general', 'tanh']
    >>> times.by_equation[0].seconds > 0
    True
    """
    if not callable(fun):
        raise TypeError(f"profiler.table takes a function, which it traces, and got {describe(fun)}.")

    def of(*args: Any, **kwargs: Any) -> Timings:
        closed, _ = trace_function(fun, args, kwargs, "staged by profiler.table")
        jaxpr = with_lines(closed.jaxpr)
        values = device_put([*closed.consts, *tree.leaves((args, kwargs))])
        clock = _Clock()
        whole = Jaxpr([], [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns)
        seconds = clock.time(whole, values)
        _, measured = clock.run(whole, values)
        return Timings(describe_function(fun), jaxpr, seconds, measured)

    return of


class _Measured(NamedTuple):
    """The time of one run of an equation; and the equations in it, with how often it runs them."""

    equation: JaxprEqn
    seconds: float
    inner: list[tuple[_Measured, int | None]]


class _Clock:
    """Measures programs; remembers what equations of a type take."""

    def __init__(self) -> None:
        self.known: dict[Any, float] = {}
        self.floor = 0.0
        x = Var(aval_of(np.float32(0)))
        self.floor = self.time(Jaxpr([], [x], [x], []), device_put([np.float32(0)]))

    def time(self, jaxpr: Jaxpr, values: Sequence[Any]) -> float:
        """The least time of a program, in seconds, without that of calling a program."""
        run = jit(lambda *xs: eval_jaxpr(jaxpr, (), *xs))
        if effects(jaxpr):
            start = time.perf_counter()
            block_until_ready(run(*values))
            return time.perf_counter() - start
        block_until_ready(run(*values))
        times: list[float] = []
        while len(times) < 3 or (sum(times) < MEASURED_FOR and len(times) < 1000):
            start = time.perf_counter()
            block_until_ready(run(*values))
            times.append(time.perf_counter() - start)
            if times[-1] > LONG:
                break
        return max(min(times) - self.floor, 0.0)

    def run(self, jaxpr: Jaxpr, values: Sequence[Any]) -> tuple[list[Any], list[_Measured]]:
        """The results of a program, equation by equation, and what these take."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, values))
        read = lambda atom: atom.val if type(atom) is Literal else env[atom]  # noqa: E731  # one expression, used twice
        measured = []
        for eqn in jaxpr.eqns:
            outs, each = self.equation(eqn, list(map(read, eqn.invars)))
            env.update(zip(eqn.outvars, outs))
            measured.append(each)
        return list(map(read, jaxpr.outvars)), measured

    def equation(self, eqn: JaxprEqn, operands: list[Any]) -> tuple[list[Any], _Measured]:
        """The results of an equation, and its time."""
        indices = [i for i, atom in enumerate(eqn.invars) if type(atom) is not Literal]
        invars = [Var(eqn.invars[i].aval) for i in indices]
        atoms = list(eqn.invars)
        for i, v in zip(indices, invars):
            atoms[i] = v
        alone = Jaxpr([], invars, eqn.outvars, [eqn.replace(invars=atoms)])
        values = [operands[i] for i in indices]
        seconds = self.remembered(eqn, alone, values)
        inner: list[tuple[_Measured, int | None]] = []
        if eqn.primitive.regions is not None and eqn.primitive.mesh is None and not effects(alone):
            for region in _taken(regions_of(eqn), operands):
                _, parts = self.run(region.jaxpr, _first_operands(region, operands))
                inner += [(each, region.times) for each in parts]
        return jit(lambda *xs: eval_jaxpr(alone, (), *xs))(*values), _Measured(eqn, seconds, inner)

    def remembered(self, eqn: JaxprEqn, alone: Jaxpr, values: Sequence[Any]) -> float:
        """The time of an equation, or of one like it that was measured before."""
        operands = [(v.aval, repr(v.val)) if type(v) is Literal else v.aval for v in eqn.invars]
        key = (eqn.primitive, *operands, *key_of(eqn.params))
        try:
            known = self.known.get(key)
        except TypeError:  # a parameter has no hash
            return self.time(alone, values)
        if known is None:
            known = self.known[key] = self.time(alone, values)
        return known


def _taken(regions: Sequence[Region], operands: Sequence[Any]) -> list[Region]:
    """The regions that run: all but the branches that are not taken."""
    branches = [region for region in regions if region.kind == "branch"]
    if not branches:
        return [region for region in regions if region.times != 0]
    index = int(np.clip(int(operands[branches[0].chosen_by[0]]), 0, len(branches) - 1))
    return [region for region in regions if region.kind != "branch" or region is branches[index]]


def _first_operands(region: Region, operands: Sequence[Any]) -> list[Any]:
    """The arguments of a region in its first run: operands, their first rows, or zeros."""
    values = []
    for v, i in zip(region.jaxpr.invars, region.operands):
        x = None if i is None else operands[i]
        if x is not None and aval_of(x).shape != v.aval.shape:
            x = x[0]
        values.append(np.zeros(v.aval.shape, v.aval.dtype) if x is None else x)
    return values
