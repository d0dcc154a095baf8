"""What is asked of each program. A check takes a `Case` and gives the hits that it finds.

Each is made of a program with the probability that stands beside it in `CHECKS`: those that only trace and evaluate in
NumPy often, those that compile seldom, since compiling takes longer than all else together.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import xpr
from tests.fuzz.programs import Program
from tests.fuzz.tolerance import Noisy, Spread, eps, is_inexact
from tests.jaxpr_rows import with_holes
from tests.peer import JAX
from xpr import core
from xpr.jaxpr import cse, dce, dumps, equal, fold_constants, inline_calls, loads, parse, partial_eval, reroll


@dataclass(frozen=True)
class Hit:
    """Something wrong with a program, found by a check. `kind` groups what has one cause."""

    check: str
    kind: str
    text: str


class Case:
    """A program with what several checks need of it."""

    def __init__(self, program: Program, thorough: bool = False):
        self.program, self.thorough, self.compared = program, thorough, 0
        self.args = program.values()

    @cached_property
    def arrays(self) -> list[Any]:
        """The arguments as the library's arrays, which have methods."""
        return [xpr.numpy.asarray(x) for x in self.args]

    @cached_property
    def function(self) -> Callable[..., Any]:
        return self.program.function(xpr)

    @cached_property
    def closed(self) -> Any:
        return xpr.make_jaxpr(self.function)(*self.args)

    @cached_property
    def spread(self) -> Spread:
        return self.spread_of(self.closed, self.args)

    def spread_of(self, closed: Any, args: Sequence[Any], runs: int = 2) -> Spread:
        return Spread(closed.jaxpr, [*closed.consts, *args], runs)

    def against(
        self, check: str, outs: Sequence[Any], others: Sequence[Spread] = (), factor: float = 32.0
    ) -> Iterator[Hit]:
        """Hits for results that are not those of the references; what seems wrong is measured more closely first."""
        self.compared += len(outs)
        for i, out in enumerate(outs):
            text = self.spread.differences(i, out, others, factor)
            if text is not None:
                closer = Spread(self.closed.jaxpr, [*self.closed.consts, *self.args], 12, 3.0)
                text = closer.differences(i, out, others, factor)
            if text is not None:
                yield Hit(check, "value", text)


def honest(program: Program, check: str, error: Exception) -> bool:
    """Whether the program is refused for a reason: the peer refuses it, too, or a rule is said to be missing."""
    if JAX is None:
        return isinstance(error, NotImplementedError)
    if check != "trace" and not isinstance(error, NotImplementedError):
        return False
    function, args = program.function(JAX), program.values()
    try:
        JAX.eval_shape(function, *args)
        if check in ("derivatives", "gradients", "peer_gradients"):
            JAX.eval_shape(lambda *xs: differentiated(function, active_arguments(args), xs), *args)
    except Exception:
        return True
    return False


def differentiated(function: Callable[..., Any], active: Sequence[int], args: Sequence[Any]) -> Any:
    """The peer's derivatives of a function, both ways."""
    points = tuple(args[i] for i in active)

    def of_active(*xs: Any) -> Any:
        return [y for y in function(*with_arguments(args, active, xs)) if is_inexact(np.dtype(y.dtype))]

    outs, back = JAX.vjp(of_active, *points)
    return back(outs), JAX.jvp(of_active, points, points)


def active_arguments(args: Sequence[Any]) -> list[int]:
    """Those that derivatives are taken by: real arrays."""
    return [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and is_inexact(x.dtype) and x.dtype.kind != "c"]


def with_arguments(args: Sequence[Any], active: Sequence[int], values: Sequence[Any]) -> list[Any]:
    args = list(args)
    for i, x in zip(active, values):
        args[i] = x
    return args


def wrong(check: str) -> Callable[[Exception], Hit]:
    def hit(error: Exception) -> Hit:
        text = str(error).strip()
        return Hit(check, f"{type(error).__name__}: {text.splitlines()[0][:100] if text else ''}", text[:2000])

    return hit


# -- By tracing and in NumPy


def jaxprs(case: Case) -> Iterator[Hit]:
    """The jaxpr is well typed; text and files give it back."""
    core.check_jaxpr(case.closed)
    expected = with_holes(case.closed)
    case.compared += 1
    look = random.Random(case.program.function_text).choice([{}, {"width": 100_000}, {"width": 1, "source": True}])
    if not equal(parse(case.closed.pformat(**look), case.closed.consts), expected):
        yield Hit("jaxprs", "text", "what is printed is read back as another program")
    if not equal(loads(dumps(case.closed)), expected):
        yield Hit("jaxprs", "file", "what is saved is read back as another program")


PASSES: dict[str, Callable[[Any], Any]] = {
    "dce": lambda j: dce(j),
    "cse": lambda j: cse(j),
    "fold_constants": lambda j: fold_constants(j),
    "inline_calls": lambda j: inline_calls(j),
    "reroll": lambda j: reroll(inline_calls(j), least=3),
    "all": lambda j: dce(cse(fold_constants(inline_calls(j)))),
}


def passes(case: Case) -> Iterator[Hit]:
    """Each pass gives a well typed program of the same types and the same results; so do the halves of a split."""
    types = [a.str_short() for a in case.closed.out_avals]
    chance = random.Random(case.program.function_text)
    for name in chance.sample(list(PASSES), len(PASSES) if case.thorough else 2):
        made = PASSES[name](case.closed)
        core.check_jaxpr(made)
        if [a.str_short() for a in made.out_avals] != types:
            yield Hit("passes", f"{name}: type", f"{name} gives {made.out_avals} instead of {case.closed.out_avals}")
            continue
        outs = Noisy(0, 0.0)(made.jaxpr, [*made.consts, *case.args])
        yield from case.against(f"passes ({name})", outs)
        fresh = made.replace(jaxpr=made.jaxpr.replace())  # without what is remembered of it
        if name != "all" and str(PASSES[name](fresh)) != str(made):
            yield Hit(f"passes ({name})", "again", "the pass changes what it gave")
    if not case.thorough and chance.random() < 0.5:
        return
    known = [i % 2 == 0 for i in range(len(case.args))]
    halves = partial_eval(case.closed, known)
    core.check_jaxpr(halves.known)
    core.check_jaxpr(halves.unknown)
    first = Noisy(0, 0.0)(halves.known.jaxpr, [*halves.known.consts, *chosen(case.args, known, True)])
    n = sum(halves.out_known)
    rest = [*halves.unknown.consts, *first[n:], *chosen(case.args, known, False)]
    one, two = iter(first[:n]), iter(Noisy(0, 0.0)(halves.unknown.jaxpr, rest))
    yield from case.against("passes (partial_eval)", [next(one) if flag else next(two) for flag in halves.out_known])


def chosen(items: Sequence[Any], flags: Sequence[bool], flag: bool) -> list[Any]:
    return [x for x, f in zip(items, flags, strict=True) if f is flag]


def rows(case: Case) -> Iterator[Hit]:
    """The program mapped, in NumPy, gives what it gives for each row."""
    chance = random.Random(case.program.function_text)
    axes = [None if not isinstance(x, np.ndarray) else chance.choice([0, 0, -1, None]) for x in case.args]
    if all(axis is None for axis in axes) or sum(np.size(x) for x in case.args) > 100_000:
        return
    inputs = [[x, rolled(x), rolled(rolled(x))] if axis is not None else [x] * 3 for x, axis in zip(case.args, axes)]
    stacked = [xs[0] if axis is None else np.stack(xs, axis) for xs, axis in zip(inputs, axes)]
    mapped = xpr.make_jaxpr(xpr.vmap(case.function, in_axes=tuple(axes)))(*stacked)
    core.check_jaxpr(mapped)
    outs = Noisy(0, 0.0)(mapped.jaxpr, [*mapped.consts, *stacked])
    for row in range(3):
        args = [xs[row] for xs in inputs]
        one = Case(case.program) if row else case
        one.args = args
        if row:
            one.__dict__["closed"] = case.closed
        yield from one.against("rows", [out[row] for out in outs])
        case.compared += one.compared if row else 0


def rolled(x: np.ndarray) -> np.ndarray:
    return np.roll(x, 1) if x.size > 1 or x.dtype == bool else np.asarray(x + np.asarray(1, x.dtype), x.dtype)


def derivatives(case: Case) -> Iterator[Hit]:
    """Forward, linearized and reverse derivatives agree; with finite differences, too, where all is float64."""
    active = active_arguments(case.args)
    outs = [i for i, a in enumerate(case.closed.out_avals) if is_inexact(a.dtype) and a.dtype.kind != "c"]
    if not active or not outs:
        return
    closed = case.closed

    def of_active(*xs: Any) -> list[Any]:
        found = core.jaxpr_as_fun(closed)(*with_arguments(case.args, active, xs))
        return [found[i] for i in outs]

    generator = np.random.default_rng(len(case.program.function_text))
    points = [case.args[i] for i in active]
    tangents = [np.asarray(generator.uniform(-1, 1, x.shape), x.dtype) for x in points]
    avals = [closed.out_avals[i] for i in outs]
    cotangents = [np.asarray(generator.uniform(-1, 1, a.shape), a.dtype) for a in avals]
    n = len(points)
    forward = xpr.make_jaxpr(lambda *xs: xpr.jvp(of_active, xs[:n], xs[n:])[1])(*points, *tangents)
    linear = xpr.make_jaxpr(lambda *xs: xpr.linearize(of_active, *xs[:n])[1](*xs[n:]))(*points, *tangents)
    reverse = xpr.make_jaxpr(lambda *xs: xpr.vjp(of_active, *xs[:n])[1](list(xs[n:])))(*points, *cotangents)
    for each in (forward, linear, reverse):
        core.check_jaxpr(each)
    one = spread_at(case, forward, [*points, *tangents])
    two = spread_at(case, linear, [*points, *tangents])
    for i, value in enumerate(two.center):
        text = one.differences(i, value, [two])
        if text is not None:
            yield Hit("derivatives", "linearize", f"linearize gives {text}, by jvp")
    yield from of_reverse(case, one, spread_at(case, reverse, [*points, *cotangents]), tangents, cotangents)
    if case.program.x64 and all(t.dtype in ("float64", "int64", "bool") for t in case.program.types.values()):
        yield from of_differences(case, one, points, tangents, active, outs)


def spread_at(case: Case, closed: Any, args: Sequence[Any]) -> Spread:
    case.compared += len(closed.out_avals)
    return Spread(closed.jaxpr, [*closed.consts, *args], 2, 2.0)


def of_reverse(case: Case, forward: Spread, reverse: Spread, tangents: Any, cotangents: Any) -> Iterator[Hit]:
    """<cotangents, J tangents> = <J^T cotangents, tangents>"""

    def products(values: Any, others: Any) -> float:
        with np.errstate(all="ignore"):
            return float(sum(np.sum(x.astype(np.float64) * y.astype(np.float64)) for x, y in zip(values, others)))

    one, two = products(forward.center, cotangents), products(reverse.center, tangents)
    if not np.isfinite(one) or not np.isfinite(two):
        return  # 0 * inf in one of them alone
    ones, twos = ([products(s, w) for s in each.samples] for each, w in ((forward, cotangents), (reverse, tangents)))
    spread = max(abs(x - one) for x in ones) + max(abs(x - two) for x in twos)
    with np.errstate(all="ignore"):
        size = sum(float(np.sum(np.abs(x.astype(np.float64) * y))) for x, y in zip(forward.center, cotangents))
        size += sum(float(np.sum(np.abs(x.astype(np.float64) * y))) for x, y in zip(reverse.center, tangents))
    coarsest = max(eps(x.dtype) for x in (*tangents, *cotangents, *forward.center))
    if abs(one - two) > 64 * (spread + coarsest * size) + 1e-30:
        yield Hit("derivatives", "reverse", f"<ct, J t> is {one} by jvp and {two} by vjp")


NO_DIFFERENCES = (
    "stop_gradient",
    "nextafter",
    "spacing",
    "reduce_precision",
)  # derivatives are what they are said to be


def of_differences(case: Case, forward: Spread, points: Any, tangents: Any, active: Any, outs: Any) -> Iterator[Hit]:
    """Central differences with three steps: where these don't agree with each other nothing is said."""
    if any(word in s.text for s in case.program.all_statements() for word in NO_DIFFERENCES):
        return
    if any(np.any(np.abs(x) > 100) for x in points):
        return  # the steps are too small beside them
    found = []
    for step in (1e-4, 3e-5, 1e-5):
        ends = []
        for sign in (1, -1):
            args = with_arguments(case.args, active, [x + sign * step * t for x, t in zip(points, tangents)])
            values = Noisy(0, 0.0)(case.closed.jaxpr, [*case.closed.consts, *args])
            ends.append([values[i] for i in outs])
        with np.errstate(all="ignore"):
            found.append([(x - y) / (2 * step) for x, y in zip(*ends)])
    case.compared += len(outs)
    for i, tangent in enumerate(forward.center):
        differences = np.array([f[i] for f in found])
        with np.errstate(all="ignore"):
            spread = np.ptp(differences, 0) * 20 + 1e-5 * (1 + np.abs(differences[1]))
            bend = np.abs(ends[0][i] - 2 * case.spread.center[outs[i]] + ends[1][i]) / (2 * step)
            bad = bend < 1e-3 * (1 + np.abs(differences[1]))  # it would not be so at a corner
            bad &= np.abs(differences[1] - tangent) > spread
            bad &= (
                np.isfinite(differences).all(0) & np.isfinite(tangent) & (spread < 1e-2 * (1 + np.abs(differences[1])))
            )
        if np.any(bad):
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            yield Hit(
                "derivatives", "difference", f"jvp gives {tangent[at]}, and a difference {differences[1][at]}, at {at}"
            )


# -- Compiled


def eager(case: Case) -> Iterator[Hit]:
    """Operation by operation; types and weak types, too."""
    outs = case.function(*case.arrays)
    yield from types_of("eager", case, outs)
    yield from case.against("eager", [np.asarray(y) for y in outs])


def jit(case: Case) -> Iterator[Hit]:
    outs = xpr.jit(case.function)(*case.args)
    yield from types_of("jit", case, outs)
    yield from case.against("jit", [np.asarray(y) for y in outs])


def gradients(case: Case) -> Iterator[Hit]:
    """Compiled derivatives give what their jaxprs give by the references."""
    active = tuple(active_arguments(case.args))
    if not active:
        return

    def total(*args: Any) -> Any:
        outs = map(xpr.numpy.asarray, core.jaxpr_as_fun(case.closed)(*args))  # literals, too
        return sum((xpr.numpy.sum(y.real).astype("float32") for y in outs if is_inexact(y.dtype)), xpr.numpy.float32(0))

    yield from compiled_as_referenced("gradients", case, xpr.grad(total, active), case.args)


def mapped(case: Case) -> Iterator[Hit]:
    """The compiled program of rows gives what its jaxpr gives by the references."""
    axes = tuple(0 if isinstance(x, np.ndarray) else None for x in case.args)
    if all(axis is None for axis in axes):
        return
    stacked = [x if axis is None else np.stack([x, rolled(x)]) for x, axis in zip(case.args, axes)]
    yield from compiled_as_referenced("mapped", case, xpr.vmap(case.function, in_axes=axes), stacked)


def compiled_as_referenced(check: str, case: Case, function: Callable[..., Any], args: Sequence[Any]) -> Iterator[Hit]:
    other = Case(case.program)
    other.args = list(args)
    other.__dict__["closed"] = xpr.make_jaxpr(function)(*args)
    outs = xpr.tree.leaves(xpr.jit(function)(*args))
    yield from other.against(check, [np.asarray(y) for y in outs])
    case.compared += other.compared


def types_of(check: str, case: Case, outs: Sequence[Any]) -> Iterator[Hit]:
    found = [str(core.aval_of(y).str_short()) for y in outs]
    expected = [a.str_short() for a in case.closed.out_avals]
    weak = [core.aval_of(y).weak_type for y in outs], [a.weak_type for a in case.closed.out_avals]
    if found != expected or weak[0] != weak[1]:
        yield Hit(check, "type", f"{found} {weak[0]}, and traced {expected} {weak[1]}")


# -- The peer


def peer_types(case: Case) -> Iterator[Hit]:
    """Shapes, dtypes and weak types are those of the peer."""
    try:
        theirs = JAX.eval_shape(case.program.function(JAX), *case.args)
    except Exception:
        return  # it refuses more
    case.compared += len(theirs)
    for ours, y in zip(case.closed.out_avals, theirs, strict=True):
        if (ours.shape, str(ours.dtype), ours.weak_type) != (y.shape, str(y.dtype), bool(y.weak_type)):
            one, two = (f"{a.dtype}{list(a.shape)}{' weak' if a.weak_type else ''}" for a in (ours, y))
            yield Hit("peer_types", "type", f"{one}, and {two} by the peer")


_PEER_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}  # with those it loses nan


def peer(case: Case) -> Iterator[Hit]:
    """Values are those of the peer, compiled."""
    try:
        theirs = JAX.jit(case.program.function(JAX), compiler_options=_PEER_OPTIONS)(*case.args)
        theirs = [np.asarray(y) for y in theirs]
    except Exception:
        return
    yield from case.against("peer", theirs, factor=128.0)


def peer_gradients(case: Case) -> Iterator[Hit]:
    """So are gradients of the whole program."""
    active = tuple(active_arguments(case.args))
    if not active:
        return

    def total(library: Any) -> Any:
        function = case.program.function(library)

        def of(*args: Any) -> Any:
            outs = [y for y in function(*args) if is_inexact(np.dtype(y.dtype))]
            return sum((library.numpy.sum(y.real).astype("float32") for y in outs), library.numpy.float32(0))

        return library.grad(of, active)

    try:
        theirs = [np.asarray(y) for y in JAX.jit(total(JAX), compiler_options=_PEER_OPTIONS)(*case.args)]
    except Exception:
        return
    other = Case(case.program)
    other.__dict__["closed"] = xpr.make_jaxpr(total(xpr))(*case.args)
    yield from other.against("peer_gradients", theirs, factor=128.0)
    case.compared += other.compared


CHECKS: dict[str, tuple[Callable[[Case], Iterator[Hit]], float]] = {
    "jaxprs": (jaxprs, 1.0),
    "passes": (passes, 1.0),  # two of the passes each time
    "rows": (rows, 0.6),
    "derivatives": (derivatives, 0.5),
    "eager": (eager, 0.08),
    "jit": (jit, 0.15),
    "mapped": (mapped, 0.05),
    "gradients": (gradients, 0.05),
}
if JAX is not None:
    CHECKS |= {"peer_types": (peer_types, 0.2), "peer": (peer, 0.15), "peer_gradients": (peer_gradients, 0.05)}


def together(library: Any, cases: Sequence[Case], **options: Any) -> list[list[np.ndarray] | None]:
    """The results of several programs, compiled as one, which takes half the time; None for those that are refused."""
    refused = set()

    def all_of(arguments: Sequence[Any]) -> list[list[Any]]:
        outs: list[list[Any]] = []
        for i, (case, args) in enumerate(zip(cases, arguments)):
            try:
                outs.append(list(case.program.function(library)(*args)))
            except Exception:
                refused.add(i)
                outs.append([])
        return outs

    with settings(cases[0].program):
        found = library.jit(all_of, **options)([case.args for case in cases])
        return [None if i in refused else [np.asarray(y) for y in outs] for i, outs in enumerate(found)]


def suspects(name: str, cases: Sequence[Case]) -> list[int]:
    """Which of several programs should be given a check of `TOGETHER` alone."""
    library, options, factor = TOGETHER[name]
    try:
        found = together(library, cases, **options)
    except Exception:
        return list(range(len(cases)))
    ours = name == "jit"
    with settings(cases[0].program):
        return [
            i
            for i, (case, outs) in enumerate(zip(cases, found))
            if (outs is None and ours) or (outs is not None and any(case.against(name, outs, (), factor)))
        ]


TOGETHER: dict[str, tuple[Any, dict[str, Any], float]] = {"jit": (xpr, {}, 32.0)}
if JAX is not None:
    TOGETHER["peer"] = (JAX, {"compiler_options": _PEER_OPTIONS}, 128.0)


def settings(program: Program) -> Any:
    """The contexts in which both libraries run a program."""
    stack = contextlib.ExitStack()
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")
    stack.enter_context(np.errstate(all="ignore"))
    stack.enter_context(xpr.enable_x64(program.x64))
    if JAX is not None:
        stack.enter_context(JAX.enable_x64(program.x64))
    return stack


def run(program: Program, names: Sequence[str], case: Case | None = None) -> list[Hit]:
    """All hits of some checks."""
    case = case or Case(program, thorough=True)
    hits: list[Hit] = []
    with settings(program):
        try:
            _ = case.closed
        except Exception as error:
            return [] if honest(program, "trace", error) else [wrong("trace")(error)]
        try:
            _ = case.spread
        except Exception as error:
            return [wrong("reference")(error)]
        for name in names:
            try:
                hits.extend(CHECKS[name][0](case))
            except Exception as error:
                if not honest(program, name, error):
                    hits.append(wrong(name)(error))
    return hits


def turns(seed: Any, share: float = 1.0) -> list[str]:
    """The checks that the program of a seed is given, or that share of them."""
    chance = random.Random(f"checks {seed}")
    return [name for name, (_, probability) in CHECKS.items() if chance.random() < probability * share]
