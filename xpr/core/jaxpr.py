"""Jaxprs: typed functional programs as data.

    { lambda constvars ; invars. let eqns in (outvars) }

Everything here is immutable by convention: `replace` gives a changed copy. A `Jaxpr` carries a `memo`, in which
transformations keep what they derived from it (its jvp, its compiled form), so that those live as long as it does.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import context
from xpr.core.primitive import Primitive
from xpr.core.source import Source, describe_function, saved, summarize
from xpr.dtypes import float0


class Var:
    """A variable of a jaxpr: an identity and a type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """A result that nothing uses; printed as `_`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class FillerVar(Var):
    """An argument that stands only to match the arguments of sibling jaxprs; printed with an underscore behind."""

    __slots__ = ()


class Unit:
    """The value of what is not needed: `unit`, printed as `*`. Its type holds nothing."""

    __slots__ = ()
    aval = ShapedArray((), float0)

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "unit"

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.zeros((), float0)


class UnitVar(Var):
    """The variable of what is not needed: `unitvar`, printed as `*`. It is always bound, and its value is `unit`."""

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
        """A copy with some of invars, outvars, primitive, params and source changed."""
        return _replaced(self, changes, JaxprEqn.__slots__)

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
    """The `split` rule of an operation that does the same to each of its operands apart."""

    def those(flag: bool) -> JaxprEqn:
        pairs = [pair for pair, known in zip(zip(eqn.invars, eqn.outvars), is_known) if known is flag]
        return eqn.replace(invars=[v for v, _ in pairs], outvars=[v for _, v in pairs])

    return [those(True)], [those(False)]


def _check_pickles(eqn: JaxprEqn, name: str, function: Any) -> None:
    """Raises:
    PicklingError: pickle has no name for a function among the parameters.
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
            "  xpr.jaxpr.dumps saves the program with a hole in the function's place, which "
            f"xpr.jaxpr.loads(text, functions={{{called!r}: ...}}) fills."
        ) from None


class Jaxpr:
    """A program: constvars and invars, equations in order, outvars."""

    __slots__ = ("constvars", "invars", "outvars", "eqns", "memo", "__weakref__")

    def __init__(
        self, constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Atom], eqns: Sequence[JaxprEqn]
    ):
        self.constvars, self.invars = list(constvars), list(invars)
        self.outvars, self.eqns = list(outvars), list(eqns)
        self.memo: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> Jaxpr:
        """A copy with some of constvars, invars, outvars and eqns changed."""
        return _replaced(self, changes, Jaxpr.__slots__[:4])

    def __repr__(self) -> str:
        return text_hooks["jaxpr"](self)

    def __reduce__(self) -> Any:
        return Jaxpr, (self.constvars, self.invars, self.outvars, self.eqns)

    def pformat(
        self, *, types: bool = True, source: bool = False, color: bool = False, width: int | None = None
    ) -> str:
        """The text of the program; see `xpr.jaxpr.pformat`."""
        return text_hooks["jaxpr"](self, types=types, source=source, color=color, width=width)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


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
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

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
        self, *, types: bool = True, source: bool = False, color: bool = False, width: int | None = None
    ) -> str:
        """The text of the program; see `xpr.jaxpr.pformat`."""
        return self.jaxpr.pformat(types=types, source=source, color=color, width=width)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


text_hooks: dict[str, Callable[..., Any]] = {}  # filled by text/printer.py, which stands on this file


def _replaced(record: Any, changes: dict[str, Any], fields: tuple[str, ...]) -> Any:
    values = [changes.pop(name) if name in changes else getattr(record, name) for name in fields]
    if changes:
        unknown = ", ".join(sorted(changes))
        raise TypeError(f"{type(record).__name__} has no {unknown}; it has {', '.join(fields)}.")
    return type(record)(*values)


# -- What users hand over


def given_jaxpr(verb: str, given: Any) -> Jaxpr:
    """The jaxpr of a program that was given to `verb`, closed or not.

    Raises:
      TypeError: it is no jaxpr.
    """
    if isinstance(given, ClosedJaxpr):
        return given.jaxpr
    if isinstance(given, Jaxpr):
        return given
    what = f"the function {describe_function(given)}" if callable(given) else describe(given)
    raise TypeError(f"{verb} takes a jaxpr, and got {what}. xpr.make_jaxpr(f)(*args) gives the jaxpr of a function f.")


def given_program(verb: str, given: Any) -> ClosedJaxpr:
    """A program that was given to `verb`, closed; a jaxpr without constants is closed over none.

    Raises:
      TypeError: it is no jaxpr, or one with constants that have no values.
    """
    if isinstance(given, ClosedJaxpr):
        return given
    jaxpr = given_jaxpr(verb, given)
    if jaxpr.constvars:
        types = ", ".join(v.aval.str_short() for v in jaxpr.constvars)
        raise TypeError(
            f"{verb} takes a jaxpr with its constants, and got one that needs values of types {types}. "
            "Close it: xpr.core.ClosedJaxpr(jaxpr, consts)."
        )
    return ClosedJaxpr(jaxpr)


# -- Evaluating


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Runs a jaxpr by binding its primitives one by one, through whatever interpreter is current.

    Args:
      jaxpr: the program.
      consts: a value for each constvar.
      *args: a value for each invar.
    Returns:
      A list, one value for each outvar.
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
    before = context.source
    try:
        for eqn in jaxpr.eqns:
            values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]  # type: ignore[index]
            context.source = eqn.source
            outs = context.trace.process(eqn.primitive, values, eqn.params)
            env.update(zip(eqn.outvars, outs))
    finally:
        context.source = before
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]  # type: ignore[index]


def make_literal(value: Any, aval: ShapedArray) -> Literal:
    """A literal for a scalar of known type: a Python scalar where the type is weak, a NumPy scalar where not."""
    if type(value) is int and aval.dtype.kind in "iu":
        np.asarray(value, aval.dtype)  # an OverflowError where it doesn't fit
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

    program = given_program("jaxpr_as_fun", closed)
    jaxpr, wanted = program.jaxpr, program.in_avals

    def run(*args: Any) -> list[Any]:
        if len(args) != len(wanted) or not all(map(_fits, args, wanted)):
            raise _other_arguments(args, wanted)
        return eval_jaxpr(jaxpr, program.consts, *args)

    return run


def _fits(value: Any, wanted: ShapedArray) -> bool:
    try:
        aval = aval_of(value)
    except TypeError:
        return False
    return aval is wanted or (aval.shape == wanted.shape and aval.dtype == wanted.dtype)


def _other_arguments(args: Sequence[Any], wanted: Sequence[ShapedArray]) -> TypeError:
    lines = []
    for i in range(max(len(args), len(wanted))):
        if i >= len(args) or i >= len(wanted) or not _fits(args[i], wanted[i]):
            takes = wanted[i].str_short() if i < len(wanted) else "nothing"
            lines.append(
                f"  argument {i}   takes {takes:12} given {_type_text(args[i]) if i < len(args) else 'nothing'}"
            )
    return TypeError(
        "jaxpr_as_fun: the arguments differ from those of the program.\n"
        + "\n".join(lines)
        + "\n  Convert them, or trace the function anew for such arguments: xpr.make_jaxpr(f)(*args)."
    )


def _type_text(x: Any) -> str:
    try:
        return aval_of(x).str_short()
    except TypeError:
        return describe(x)


# -- Walking


def subjaxprs(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The jaxprs among an equation's parameters, in the order they are printed."""
    params = eqn.params
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

    What `change` gives for a jaxpr is best remembered with it: a function that is called twice then stays one.
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


def effects(jaxpr: Jaxpr) -> frozenset[str]:
    """The effects that running a jaxpr has beside its results: of "ordered" and "unordered". Remembered with it."""
    if "effects" not in jaxpr.memo:
        found: set[str] = set()
        for eqn in jaxpr.eqns:
            effect = eqn.primitive.effect and eqn.primitive.effect(**eqn.params)
            if effect:
                found.add(effect)
            for inner in subjaxprs(eqn):
                found |= effects(inner)
        jaxpr.memo["effects"] = frozenset(found)
    return jaxpr.memo["effects"]


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
