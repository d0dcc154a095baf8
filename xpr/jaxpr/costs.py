"""cost : (a -> b) -> a -> Cost. Estimates operations, bytes and memory of a program, by equation and by source line.

The estimate needs only the types of operands and results; nothing is compiled or run. Unused results count nothing.
The body of a loop counts as often as it runs, and of a cond's branches the one with most operations counts. A `while`,
whose length is unknown, counts as one step. On several devices operations and bytes are those of all together, memory
and sent bytes those of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from xpr.api.make_jaxpr import trace_function
from xpr.backend.communication import Collective
from xpr.control.remat.memory import predict_memory
from xpr.core.avals import describe
from xpr.core.jaxpr import Jaxpr, JaxprEqn
from xpr.core.lines import with_lines
from xpr.core.regions import regions_of
from xpr.core.source import Source, describe_function, summarize, text_of
from xpr.inspect.communication import communication
from xpr.inspect.weights import inner_runs, only_runs_jaxprs, weigh
from xpr.passes.dce import dce_jaxpr

SHOWN = 20  # lines of a table


class EquationCost(NamedTuple):
    """The cost of all runs of one equation, `times` in number.

    `line` is its source line, `sent` the bytes that each device sends.
    """

    equation: JaxprEqn
    times: int
    flops: int
    bytes: int
    line: str
    sent: float = 0.0


class LineCost(NamedTuple):
    """The cost of the equations of one source line."""

    flops: int
    bytes: int
    equations: int
    text: str
    sent: float = 0.0


class Cost:
    """The cost of a program; as text, a table of the most expensive lines.

    Attributes:
      flops: operations. A sum, a comparison and an exponential are one each; moving data takes none.
      bytes: what all equations read and write. A compiler fuses equations, so that a program moves less.
      peak_memory: the most bytes in use at a time, arguments and results included, as XLA is expected to lay it out; on
        several devices on each of them.
      held: the same in parts, `arguments`, `results` and `temporaries`.
      sent: the bytes that each device sends to others, at least.
      collectives: the `Collective`s by which it does, in order.
      by_equation: an `EquationCost` for each equation that holds no others, in order.
      by_line: for each line of source, as `file.py:12 (function)`, a `LineCost`.
      endless: how many loops there are whose length is unknown.
    """

    def __init__(self, jaxpr: Jaxpr, name: str):
        self.name = name
        self.held = predict_memory(jaxpr)
        self.peak_memory = self.held.peak
        sent: dict[int, float] = {}
        self.collectives: list[Collective] = []
        self.by_equation: list[EquationCost] = []
        self.by_line: dict[str, LineCost] = {}
        self.endless = 0
        lines = _Lines()
        jaxpr, _ = dce_jaxpr(with_lines(jaxpr), [True] * len(jaxpr.outvars), keep_inputs=True)
        for sending in communication(jaxpr):
            self.collectives.append(sending.collective)
            sent[id(sending.equation)] = sent.get(id(sending.equation), 0.0) + sending.bytes
        self.sent = sum(sent.values())
        for inner, times in _runs(jaxpr):
            for eqn in inner.eqns:
                if not only_runs_jaxprs(eqn):
                    flops, moved = weigh(eqn)
                    at = lines(eqn.source)
                    weighed = EquationCost(eqn, times, times * flops, times * moved, at, sent.get(id(eqn), 0.0))
                    self.by_equation.append(weighed)
                elif any(region.times is None for region in regions_of(eqn)):
                    self.endless += 1
        self.flops = sum(each.flops for each in self.by_equation)
        self.bytes = sum(each.bytes for each in self.by_equation)
        for each in self.by_equation:
            line = self.by_line.get(each.line) or LineCost(0, 0, 0, text_of(each.equation.source))
            self.by_line[each.line] = LineCost(
                line.flops + each.flops, line.bytes + each.bytes, line.equations + 1, line.text, line.sent + each.sent
            )

    def __str__(self) -> str:
        total = f"{_short(self.flops)} operations, {_short(self.bytes)}B read and written"
        rows = [f"{self.name}: {total}, peak memory {_short(self.peak_memory)}B"]
        if self.sent:
            parts = ", ".join(f"{name} {_short(n)}B" for name, n in zip(self.held._fields, self.held))
            rows.append(f"  (each device holds {parts}, and sends {_short(self.sent)}B)")
        if self.endless:
            rows.append(f"  ({self.endless} loop{'s' * (self.endless > 1)} of unknown length: one step counted)")
        ordered = sorted(self.by_line.items(), key=lambda item: -item[1].flops)
        rows.append(f"operations   share     bytes {'     sent' * bool(self.sent)} equations  line")
        for line, each in ordered[:SHOWN]:
            figures = f"{_short(each.flops):>10} {each.flops / max(self.flops, 1):7.1%} {_short(each.bytes):>8}B"
            figures += f" {_short(each.sent):>7}B" if self.sent else ""
            rows.append(f"{figures} {each.equations:10}  {line}  {each.text}")
        if len(ordered) > SHOWN:
            rows.append(f"and {len(ordered) - SHOWN} lines more")
        return "\n".join(row.rstrip() for row in rows)

    __repr__ = __str__


def cost(fun: Callable[..., Any]) -> Callable[..., Cost]:
    """A function of the same arguments that estimates the cost of `fun`: operations, bytes and memory.

    Args:
      fun: takes and gives pytrees of arrays; it is traced. Its arguments may be anything with a shape and a dtype.

    Returns:
      A function of the same arguments that returns a `Cost`.

    Raises:
      TypeError: `fun` is no function.

    >>> import xpr, xpr.numpy as jnp
    >>> total = xpr.jaxpr.cost(lambda a, b: jnp.tanh(a @ b))(jnp.ones((10, 20)), jnp.ones((20, 30)))
    >>> total.flops, total.bytes, total.peak_memory, total.sent
    (12300, 6800, 5600, 0)
    """

    if not callable(fun):
        raise TypeError(f"cost takes a function, which it traces, and got {describe(fun)}.")

    def of(*args: Any, **kwargs: Any) -> Cost:
        closed, _ = trace_function(fun, args, kwargs, "staged by cost")
        return Cost(closed.jaxpr, describe_function(fun))

    return of


def _short(number: float) -> str:
    """`12.3 k`, with the prefixes of the SI."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(number) < 999.5:
            return f"{number:.3g} {prefix}"
        number /= 1000
    return f"{number:.3g} P"


class _Lines:
    """The texts of lines, each worked out once."""

    def __init__(self) -> None:
        self.known: dict[Any, str] = {}

    def __call__(self, source: Source | None) -> str:
        key = source and (id(source[0]), source[1])
        line = self.known.get(key)
        if line is None:
            line = self.known[key] = summarize(source)
        return line


# -- How often each jaxpr runs


def _runs(jaxpr: Jaxpr) -> Iterator[tuple[Jaxpr, int]]:
    """The jaxpr and all that are run inside it, each once, with how often it is run; those that hold others first."""
    order: list[Jaxpr] = []
    seen: set[int] = set()

    def visit(inner: Jaxpr) -> None:
        seen.add(id(inner))
        for eqn in inner.eqns:
            if only_runs_jaxprs(eqn):
                for nested, _ in inner_runs(eqn):
                    if id(nested) not in seen:
                        visit(nested)
        order.append(inner)

    visit(jaxpr)
    times = {id(jaxpr): 1}
    for inner in reversed(order):
        count = times[id(inner)]
        yield inner, count
        for eqn in inner.eqns:
            if only_runs_jaxprs(eqn):
                for nested, often in inner_runs(eqn):
                    times[id(nested)] = times.get(id(nested), 0) + count * often
