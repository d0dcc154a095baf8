"""Jaxprs: typed functional programs as data.

    { lambda constvars ; invars. let eqns in (outvars) }

Everything here is immutable by convention: `replace` gives a changed copy. A `Jaxpr` has a dictionary `memo`, in which
transformations store what they derive from it (its jvp, its compiled form), so that this lives as long as the jaxpr.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpr.core.avals import ShapedArray, aval_of, describe, integer, same_type
from xpr.core.effects import EffectTypes, kind_of, no_effects
from xpr.core.interpreter import context
from xpr.core.primitive import Primitive
from xpr.core.refs import RefEffect
from xpr.core.source import (
    Source,
    describe_function,
    in_scopes,
    metadata_of,
    name_stack,
    saved,
    scopes_of,
    summarize,
)
from xpr.dtypes import float0


class Var:
    """A variable of a jaxpr: an identity and a type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """An unused result; printed as `_`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class FillerVar(Var):
    """An unused argument that matches one of sibling jaxprs; printed with a trailing underscore."""

    __slots__ = ()


class Unit:
    """The value of an operand that is not needed: `unit`, printed as `*`. Its dtype is float0."""

    __slots__ = ()
    aval = ShapedArray((), float0)

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "unit"

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.zeros((), float0)


class UnitVar(Var):
    """The variable of an operand that is not needed: `unitvar`, printed as `*`. Always bound; its value is `unit`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:  # type: ignore[override]
        return "unitvar"


unit = Unit()
unitvar = UnitVar(Unit.aval)


class Literal:
    """A scalar written into the program."""

    __slots__ = ("val", "aval")

    def __init__(self, val: Any, aval: ShapedArray | None = None):
        self.val = val
        self.aval = aval_of(val) if aval is None else aval

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal


class EquationContext(NamedTuple):
    """The settings under which an equation was traced: the attributes that `set_xla_metadata` gives it, or None."""

    xla_metadata: dict[str, Any] | None


class SourceInfo(NamedTuple):
    """Where an equation was traced: the names of the scopes around, as `layer/jvp(loss)`, and its line with these."""

    name_stack: str
    source: Source | None

    @property
    def traceback(self) -> Source | None:
        """The line by JAX's name, as `extend.source_info_util.user_context` takes it."""
        return self.source


class JaxprEqn:
    """`outvars = primitive[params] invars`, and the user's line it came from."""

    __slots__ = ("invars", "outvars", "primitive", "params", "source")

    def __init__(
        self,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        primitive: Primitive,
        params: dict[str, Any],
        source: Source | None = None,
    ):
        self.invars, self.outvars = invars, outvars
        self.primitive, self.params, self.source = primitive, params, source

    def replace(self, **changes: Any) -> JaxprEqn:
        """A copy with some of invars, outvars, primitive, params and source changed.

        Parameters of JAX's primitive that this one lacks may be among `params`, as None.
        """
        if "params" in changes:
            changes["params"] = changes.get("primitive", self.primitive).known_params(changes["params"])
        return _replaced(self, changes, JaxprEqn.__slots__)

    @property
    def source_info(self) -> SourceInfo:
        """The user's line and the name scopes of the equation, by JAX's names."""
        return SourceInfo(name_stack(self.source), self.source)

    @property
    def ctx(self) -> EquationContext:
        """The settings under which it was traced, by JAX's names."""
        metadata = metadata_of(self.source)
        return EquationContext(dict(metadata) if metadata else None)

    @property
    def effects(self) -> frozenset[Any]:
        """The side effects of the equation, see `Jaxpr.effects`."""
        return Jaxpr((), [v for v in self.invars if isinstance(v, Var)], (), [self]).effects

    def __repr__(self) -> str:
        return text_hooks["eqn"](self)

    def __reduce__(self) -> Any:
        for name, value in self.params.items():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if callable(item) and not isinstance(item, type):
                    _check_pickles(self, name, item)
        return JaxprEqn, (self.invars, self.outvars, self.primitive, self.params, saved(self.source))

    def __copy__(self) -> JaxprEqn:
        return self.replace()

    def __deepcopy__(self, memo: Any) -> JaxprEqn:
        eqn = with_subjaxprs(self, lambda inner: copy.deepcopy(inner, memo))  # other parameters don't change
        return eqn.replace(invars=copy.deepcopy(self.invars, memo), outvars=copy.deepcopy(self.outvars, memo))


def split_each(eqn: JaxprEqn, is_known: Sequence[bool]) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    """The `split` rule of an operation whose results each depend on the operand at the same position alone."""

    def half(flag: bool) -> JaxprEqn:
        pairs = [pair for pair, known in zip(zip(eqn.invars, eqn.outvars), is_known) if known is flag]
        return eqn.replace(invars=[v for v, _ in pairs], outvars=[v for _, v in pairs])

    return [half(True)], [half(False)]


def _check_pickles(eqn: JaxprEqn, name: str, function: Any) -> None:
    """Checks that pickle can store a function among the parameters.

    Raises:
      PicklingError: it has no name by which another process finds it.
    """
    try:
        pickle.dumps(function)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        for field in dataclasses.fields(function) if dataclasses.is_dataclass(function) else ():
            if callable(getattr(function, field.name)):
                _check_pickles(eqn, name, getattr(function, field.name))
        called = getattr(function, "__name__", type(function).__name__)
        raise pickle.PicklingError(
            f"This jaxpr holds a Python function that can't be pickled ({error}).\n"
            f"  it is the parameter {name}=<function {called}> of {eqn.primitive.name}, from {summarize(eqn.source)}\n"
            "  xpr.jaxpr.dumps saves the program with a hole instead of the function, which "
            f"xpr.jaxpr.loads(text, functions={{{called!r}: ...}}) fills."
        ) from None


class Jaxpr:
    """A program: constvars and invars, equations in order, outvars.

    Its effects are those of its equations. The arguments `effects` and `debug_info` of the constructor and of `replace`
    are there for programs that are written for JAX; they change nothing, and `debug_info` is None.
    """

    __slots__ = ("constvars", "invars", "outvars", "eqns", "memo", "__weakref__")
    debug_info: ClassVar[None] = None

    def __init__(
        self, constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Atom], eqns: Sequence[JaxprEqn],
        effects: Any = None, debug_info: Any = None,
    ):  # fmt: skip
        self.constvars, self.invars = list(constvars), list(invars)
        self.outvars, self.eqns = list(outvars), list(eqns)
        self.memo: dict[Any, Any] = {}

    @property
    def jaxpr(self) -> Jaxpr:
        """The jaxpr itself: by this and `consts`, a jaxpr without constvars can be used as a `ClosedJaxpr`."""
        return self

    @property
    def consts(self) -> list[Any]:
        """An empty list; ValueError for a jaxpr with constvars, which has to be closed first."""
        if self.constvars:
            raise ValueError("This jaxpr has constvars, whose values only its ClosedJaxpr has.")
        return []

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    @property
    def effects(self) -> frozenset[Any]:
        """The side effects of running it: "ordered", "unordered", and those that users' primitives declare.

        There is a `RefEffect` for each ref that is read or written, too.

        >>> import xpr
        >>> xpr.make_jaxpr(lambda ref: ref[...])(xpr.new_ref(1.0)).effects
        frozenset({Read<0>})
        """
        return _all_effects(self)

    @property
    def is_high(self) -> bool:
        """Whether the program, at any depth, has values of users' types, or operations of theirs; found out once."""
        known = self.memo.get("is_high")
        if known is None:
            variables = (*self.constvars, *self.invars)
            known = any(v.aval.is_high for v in variables) or any(map(_is_high, self.eqns))
            self.memo["is_high"] = known
        return known  # type: ignore[no-any-return]

    def replace(self, **changes: Any) -> Jaxpr:
        """A copy with some of constvars, invars, outvars and eqns changed."""
        return _replaced(self, changes, Jaxpr.__slots__[:4])

    def __repr__(self) -> str:
        return text_hooks["jaxpr"](self)

    def __reduce__(self) -> Any:
        return Jaxpr, (self.constvars, self.invars, self.outvars, self.eqns)

    def pformat(
        self,
        *,
        types: bool = True,
        source: bool = False,
        names: bool = False,
        color: bool = False,
        width: int | None = None,
    ) -> str:
        """The text of the program; see `xpr.jaxpr.pformat`."""
        return text_hooks["jaxpr"](self, types=types, source=source, names=names, color=color, width=width)

    def pretty_print(
        self, *, source_info: bool = False, print_shapes: bool = True, name_stack: bool = False, use_color: bool = False
    ) -> str:
        """`pformat` by JAX's name and options."""
        return self.pformat(types=print_shapes, source=source_info, names=name_stack, color=use_color)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def _is_high(eqn: JaxprEqn) -> bool:
    """Whether an equation is an operation on values of users' types, or holds a jaxpr of such."""
    primitive = eqn.primitive
    if primitive.regions is None:
        return primitive.on_arrays is not None
    return primitive.call and any(inner.is_high for inner in subjaxprs(eqn))


class ClosedJaxpr:
    """A jaxpr with the values of its constvars."""

    __slots__ = ("jaxpr", "consts", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(f"The jaxpr has {len(jaxpr.constvars)} constvars and was given {len(consts)} values.")
        self.jaxpr, self.consts = jaxpr, list(consts)

    @property
    def literals(self) -> list[Any]:
        """The older name of `consts`."""
        return self.consts

    @property
    def constvars(self) -> list[Var]:
        return self.jaxpr.constvars

    @property
    def invars(self) -> list[Var]:
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        return self.jaxpr.outvars

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Any]:
        """The side effects of running it, see `Jaxpr.effects`."""
        return self.jaxpr.effects

    @property
    def is_high(self) -> bool:
        """Whether the program has values of users' types, see `Jaxpr.is_high`."""
        return self.jaxpr.is_high

    @property
    def in_avals(self) -> list[ShapedArray]:
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.jaxpr.out_avals

    def replace(self, **changes: Any) -> ClosedJaxpr:
        """A copy with jaxpr or consts changed."""
        return _replaced(self, changes, ClosedJaxpr.__slots__[:2])

    def __repr__(self) -> str:
        return repr(self.jaxpr)

    def pformat(
        self,
        *,
        types: bool = True,
        source: bool = False,
        names: bool = False,
        color: bool = False,
        width: int | None = None,
    ) -> str:
        """The text of the program; see `xpr.jaxpr.pformat`."""
        return self.jaxpr.pformat(types=types, source=source, names=names, color=color, width=width)

    def pretty_print(
        self, *, source_info: bool = False, print_shapes: bool = True, name_stack: bool = False, use_color: bool = False
    ) -> str:
        """`pformat` by JAX's name and options."""
        return self.pformat(types=print_shapes, source=source_info, names=name_stack, color=use_color)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


text_hooks: dict[str, Callable[..., Any]] = {}  # filled by text/printer.py, which imports this file


_DERIVED = frozenset({"effects", "debug_info"})  # parts that records of JAX have, which are not stored here


def _replaced(record: Any, changes: dict[str, Any], fields: tuple[str, ...]) -> Any:
    values = [changes.pop(name) if name in changes else getattr(record, name) for name in fields]
    if not changes.keys() <= _DERIVED:
        unknown = ", ".join(sorted(changes.keys() - _DERIVED))
        raise TypeError(f"{type(record).__name__} has no {unknown}; it has {', '.join(fields)}.")
    return type(record)(*values)


# -- Programs that users pass


def require_jaxpr(verb: str, value: Any) -> Jaxpr:
    """The jaxpr that was passed to the function named `verb`, closed or not.

    Raises:
      TypeError: it is no jaxpr.
    """
    if isinstance(value, ClosedJaxpr):
        return value.jaxpr
    if isinstance(value, Jaxpr):
        return value
    what = f"the function {describe_function(value)}" if callable(value) else describe(value)
    raise TypeError(f"{verb} takes a jaxpr, and got {what}. xpr.make_jaxpr(f)(*args) gives the jaxpr of a function f.")


def require_closed_jaxpr(verb: str, value: Any) -> ClosedJaxpr:
    """The closed jaxpr that was passed to the function named `verb`; one without constants may be open.

    Raises:
      TypeError: it is no jaxpr, or one with constants that have no values.
    """
    if isinstance(value, ClosedJaxpr):
        return value
    jaxpr = require_jaxpr(verb, value)
    if jaxpr.constvars:
        types = ", ".join(v.aval.str_short() for v in jaxpr.constvars)
        raise TypeError(
            f"{verb} takes a jaxpr with its constants, and got one that needs values of types {types}. "
            "Close it: xpr.core.ClosedJaxpr(jaxpr, consts)."
        )
    return ClosedJaxpr(jaxpr)


# -- Evaluating


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """Evaluates a jaxpr by binding its primitives one by one, with the current interpreter.

    Args:
      jaxpr: the program.
      consts: a value for each constvar.
      *args: a value for each invar.
      propagate_source_info: whether equations that are traced meanwhile have the source lines of the jaxpr's; else they
        have that of the caller.

    Returns:
      A list with a value for each outvar.

    Raises:
      TypeError: the number of values differs from the number of variables.

    >>> import xpr
    >>> closed = xpr.make_jaxpr(lambda x: x + 1)(2)
    >>> xpr.core.eval_jaxpr(closed.jaxpr, closed.consts, 5)
    [Array(6, dtype=int32, weak_type=True)]
    """
    if len(args) != len(jaxpr.invars) or len(consts) != len(jaxpr.constvars):
        raise TypeError(
            f"The jaxpr takes {len(jaxpr.constvars)} constants and {len(jaxpr.invars)} arguments; "
            f"it was given {len(consts)} and {len(args)}."
        )
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    env[unitvar] = unit
    before = context.source, context.decides_later, context.unreduced
    names = scopes_of(before[0])  # those of the operation whose rule this is
    context.decides_later, context.unreduced = True, _NO_AXES  # the equations' parameters have their unreduced axes
    try:
        for eqn in jaxpr.eqns:
            values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]  # type: ignore[index]
            if propagate_source_info:
                context.source = in_scopes(names, eqn.source) if names else eqn.source
            outs = context.trace.process(eqn.primitive, values, eqn.params)
            env.update(zip(eqn.outvars, outs))
    finally:
        context.source, context.decides_later, context.unreduced = before
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]  # type: ignore[index]


_NO_AXES: frozenset[Any] = frozenset()


def make_literal(value: Any, aval: ShapedArray) -> Literal:
    """A literal for a scalar of known type: a Python scalar where the type is weak, a NumPy scalar where not."""
    if type(value) is int and aval.dtype.kind in "iu":
        integer(value, aval.dtype)  # an OverflowError where it doesn't fit
    if aval.weak_type:
        return Literal(value if type(value) in (int, float, complex) else np.asarray(value).item(), aval)
    return Literal(np.asarray(value).astype(aval.dtype)[()], aval)


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The Python function that runs a closed jaxpr: flat arguments in, a list of results out.

    Raises:
      TypeError: `closed` is no jaxpr; when called, arguments have other shapes or dtypes than the program's, or their
        number differs.

    >>> import xpr
    >>> xpr.core.jaxpr_as_fun(xpr.make_jaxpr(lambda x: 2 * x)(1.0))(3.0)
    [Array(6., dtype=float32, weak_type=True)]
    """

    program = require_closed_jaxpr("jaxpr_as_fun", closed)
    jaxpr, expected = program.jaxpr, program.in_avals

    def run(*args: Any) -> list[Any]:
        if len(args) != len(expected) or not all(map(_fits, args, expected)):
            raise _other_arguments(args, expected)
        return eval_jaxpr(jaxpr, program.consts, *args)

    return run


def _fits(value: Any, expected: ShapedArray) -> bool:
    try:
        aval = aval_of(value)
    except TypeError:
        return False
    return same_type(expected, aval)


def _other_arguments(args: Sequence[Any], expected: Sequence[ShapedArray]) -> TypeError:
    """The error for arguments of other types, or another number of them, than a program takes: each that differs."""
    lines = []
    for i, (x, aval) in enumerate(zip_longest(args, expected, fillvalue=_MISSING)):
        if x is _MISSING or aval is _MISSING or not _fits(x, aval):
            takes = "nothing" if aval is _MISSING else aval.str_short()
            lines.append(f"  argument {i}   takes {takes:12} given {'nothing' if x is _MISSING else _type_text(x)}")
    return TypeError(
        "jaxpr_as_fun: the arguments differ from those of the program.\n"
        + "\n".join(lines)
        + "\n  Convert them, or trace the function anew for such arguments: xpr.make_jaxpr(f)(*args)."
    )


_MISSING: Any = object()


def _type_text(x: Any) -> str:
    try:
        return aval_of(x).str_short()
    except TypeError:
        return describe(x)


# -- Walking


def subjaxprs(eqn: JaxprEqn | Jaxpr | ClosedJaxpr) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of an equation, or of the equations of a jaxpr, in the order of printing.

    >>> import xpr
    >>> from xpr.core import subjaxprs
    >>> eqn = xpr.make_jaxpr(xpr.jit(lambda x: x + 1))(1.0).eqns[0]
    >>> [len(jaxpr.eqns) for jaxpr in subjaxprs(eqn)]
    [1]
    """
    if isinstance(eqn, JaxprEqn):
        return jaxprs_in_params(eqn.params)
    return chain.from_iterable(map(subjaxprs, eqn.eqns))


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of an operation, in the order of printing."""
    for name in sorted(params):
        value = params[name]
        if type(value) is Jaxpr:
            yield value
            continue
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, Jaxpr):
                yield item
            elif isinstance(item, ClosedJaxpr):
                yield item.jaxpr


def with_subjaxprs(eqn: JaxprEqn, change: Callable[[Jaxpr], Jaxpr]) -> JaxprEqn:
    """The equation with each jaxpr among its parameters changed to another one of the same type.

    `change` should memoize its result with the jaxpr, so that a function that is called twice remains one jaxpr.
    """

    changes = {}
    for name, value in eqn.params.items():
        kind = type(value)
        if kind is Jaxpr:
            new: Any = change(value)
        elif kind is ClosedJaxpr or isinstance(value, (tuple, list)):
            new = _changed(value, change)
        else:
            continue
        if new is not value:
            changes[name] = new
    if not changes:
        return eqn
    return JaxprEqn(eqn.invars, eqn.outvars, eqn.primitive, {**eqn.params, **changes}, eqn.source)


def _changed(value: Any, change: Callable[[Jaxpr], Jaxpr]) -> Any:
    """A parameter with the jaxprs in it changed."""
    if type(value) is Jaxpr:
        return change(value)
    if type(value) is ClosedJaxpr:
        inner = change(value.jaxpr)
        return value if inner is value.jaxpr else ClosedJaxpr(inner, value.consts)
    if not isinstance(value, (tuple, list)) or not any(type(x) in (Jaxpr, ClosedJaxpr) for x in value):
        return value
    items = [_changed(x, change) for x in value]
    if all(a is b for a, b in zip(items, value)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def own_effects(eqn: JaxprEqn) -> Collection[Any]:
    """The side effects of an equation, without those of the jaxprs that it holds."""
    rule = eqn.primitive.effects
    return () if rule is None else rule([v.aval for v in eqn.invars], **eqn.params)


def declared_effects(jaxpr: Jaxpr) -> frozenset[Any]:
    """The side effects of running a jaxpr as its primitives declare them. Memoized with it."""
    if "effects" not in jaxpr.memo:
        declared: set[Any] = set()
        for eqn in jaxpr.eqns:
            if eqn.primitive.effects is not None:
                declared.update(own_effects(eqn))
            for inner in subjaxprs(eqn):
                declared |= declared_effects(inner)
        jaxpr.memo["effects"] = frozenset(declared)
    return jaxpr.memo["effects"]


def effects(jaxpr: Jaxpr) -> frozenset[str]:
    """The side effects of running a jaxpr, a subset of "ordered" and "unordered"."""
    declared = declared_effects(jaxpr)
    return frozenset(map(kind_of, declared)) if declared else no_effects


def check_effects(what: str, jaxpr: Jaxpr, allowed: EffectTypes) -> None:
    """Raises NotImplementedError if a function that is given to `what` has effects that are not allowed there."""
    if refused := allowed.refused(declared_effects(jaxpr)):
        raise NotImplementedError(f"Effects not supported in `{what}`: {refused}. {allowed.advice(refused)}")


def _all_effects(jaxpr: Jaxpr) -> frozenset[Any]:
    """The declared effects, but for those of reads and writes of refs a `RefEffect` with the ref's position each."""
    position = {v: i for i, v in enumerate([*jaxpr.constvars, *jaxpr.invars])}
    on_refs: set[Any] = set()
    others: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.takes_refs:
            ref: Any = eqn.invars[0]
            is_read = len(eqn.invars) == 1  # a write has the new value as well
            on_refs.add(RefEffect("Read" if is_read else "Write", position[ref]))
        else:
            others.append(eqn)
    return frozenset(on_refs | declared_effects(jaxpr.replace(eqns=others)))


def used_vars(jaxpr: Jaxpr) -> set[Var]:
    """The variables that some equation or the result reads."""
    used = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for eqn in jaxpr.eqns:
        used.update(v for v in eqn.invars if isinstance(v, Var))
    return used


def constvars_to_invars(closed: ClosedJaxpr) -> Jaxpr:
    """The same program with its constants as leading arguments."""
    jaxpr = closed.jaxpr
    if not jaxpr.constvars:
        return jaxpr
    if "open" not in jaxpr.memo:
        jaxpr.memo["open"] = jaxpr.replace(constvars=[], invars=jaxpr.constvars + jaxpr.invars)
    return jaxpr.memo["open"]
