"""checkify : (a -> b) -> (a -> (Error, b)). Errors that depend on values, out of compiled programs.

The function is staged, and its jaxpr becomes one from (state, arguments) to (state, results), see errors.py:
where something can go wrong the state is changed, unless it tells of an error already. Operations that hold jaxprs pass
the state through them (`threaded`); `check_p` is what a user's check is until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.control.callback.host_call import is_array
from xpr.control.checkify.errors import CODE, Error, Place, Places, Slot, first_failed
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, constvars_to_invars, eval_jaxpr, subjaxprs
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import here, summarize
from xpr.dtypes import BOOL, INEXACT
from xpr.errors import CheckError, DivisionByZeroError, FailedCheckError, NaNError, OOBError, UnsupportedRule
from xpr.primitives.elementwise import bitwise_and, eq, ne
from xpr.primitives.gather.bounds_checks import DIVISION, INDEX
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import mapped_to, zeros_like_aval
from xpr.primitives.slicing import select
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, named_like, signature_of
from xpr.transforms.stage import stage

ErrorCategory = type[CheckError]
Errors = frozenset[ErrorCategory]

user_checks: Errors = frozenset({FailedCheckError})
nan_checks: Errors = frozenset({NaNError})
index_checks: Errors = frozenset({OOBError})
div_checks: Errors = frozenset({DivisionByZeroError})
float_checks: Errors = nan_checks | div_checks
automatic_checks: Errors = float_checks | index_checks
all_checks: Errors = automatic_checks | user_checks


# -- check: a state that joins that of the program around. Its operands are laid out as a state of its `places`.


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    if not params["debug"]:
        Error(args, params["places"]).throw()
    return []


def _lower(b: Any, operands: Any, avals: Any, *, places: Places, debug: bool) -> list[Any]:
    if debug or not places.by_code:
        return []
    lines = "\n".join(f"  {place.text} at {summarize(place.source)}" for place in places.by_code.values())
    raise ValueError(
        f"A function with a checkify.check was compiled, and nobody would see the check fail:\n{lines}\n"
        "Compile what checkify makes of it, error, out = jit(checkify.checkify(f))(x), and look at the error with "
        "error.throw(). A checkify.debug_check is left out instead."
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    check_p.bind(*primals, **params)
    return [], []


def _batch(size: int, values: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    """The check of the first row that fails."""
    if size:
        check_p.bind(*first_failed([mapped_to(x, d, size) for x, d in zip(values, dims)]), **params)
    return [], []


check_p = register(
    Primitive(
        "check",
        abstract=lambda avals, **params: [],
        params=("places", "debug"),
        reference=lambda values, **params: _evaluate(values, params),
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported("Check outside the function that is transposed: its values are cotangents there."),
        batch=_batch,
        evaluate=_evaluate,
        effect=lambda **params: "unordered",
        multiple_results=True,
        call=True,
    )
)


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Says what must hold: an error of the function where it doesn't, once `checkify` has made errors its results.

    Called eagerly it raises at once. In a program that is compiled without `checkify` it is an error.

    Args:
      pred: a scalar bool.
      msg: a format string; `msg.format(*fmt_args, **fmt_kwargs)` is the message.
      *fmt_args, **fmt_kwargs: pytrees of arrays, and anything else.
      debug: leave the check out where `checkify` doesn't see it.
    Raises:
      FailedCheckError: eagerly, where `pred` is False.
      TypeError: `pred` is no scalar bool.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "x must be positive, and is {x}", x=x)
    ...     return jnp.log(x)
    >>> error, out = xpr.jit(checkify.checkify(f))(-1.0)
    >>> error.get()
    'x must be positive, and is -1.0 (`check` failed) (<doctest xpr.control.checkify.checkify.check[2]>:2 (f))'
    """
    aval = aval_of(pred)
    if aval.shape or aval.dtype not in BOOL:
        raise TypeError(f"check takes a scalar bool, and got {describe(pred)}. Reduce it with .all() or .any().")
    leaves, in_tree = tree.flatten((fmt_args, fmt_kwargs))
    flags = [is_array(x) for x in leaves]
    operands = [stop_gradient(x) for x, flag in zip(leaves, flags) if flag]

    def message(payload: Sequence[Any]) -> str:
        values = iter(payload)
        args, kwargs = tree.unflatten_sorted(in_tree, [next(values) if flag else x for x, flag in zip(leaves, flags)])
        return f"{msg.format(*args, **kwargs)} (`check` failed)"

    slot = tuple([aval_of(x).strip_weak_type() for x in operands])
    for i, flag in enumerate(flags):
        leaves[i] = None if flag else leaves[i]
    place = Place(FailedCheckError, repr(msg), message, slot, context.source or here(2))
    code = select(pred, np.int32(0), np.int32(place.code))
    check_p.bind(code, *operands, places=Places([place]), debug=bool(debug))


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that is left out where `checkify` doesn't see it.

    >>> import xpr
    >>> from xpr import checkify
    >>> checkify.debug_check(xpr.numpy.array(False), "never seen")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raises an error that a function made by `checkify` gave; inside another such function it becomes that one's.

    Raises:
      CheckError: eagerly, where there is one.

    >>> from xpr import checkify
    >>> checkify.check_error(checkify.init_error)
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes the Error that a function made by checkify gives, not {describe(error)}.")
    state = error.state
    while aval_of(state[0]).ndim:  # mapped rows: the first that failed
        state = first_failed(state)
    check_p.bind(*state, places=error.places, debug=False)


# -- Jaxprs with the state passed through


class Plan:
    """What can go wrong in a jaxpr: the places of each equation itself, by its number, and all, inner jaxprs' too."""

    __slots__ = ("all", "own")

    def __init__(self, jaxpr: Jaxpr, errors: Errors):
        self.own: dict[int, list[Place]] = {}
        self.all = Places()
        for i, eqn in enumerate(jaxpr.eqns):
            if eqn.primitive is check_p:
                self.all |= eqn.params["places"] if FailedCheckError in errors else Places()
                continue
            inner = list(subjaxprs(eqn))
            for each in inner:
                self.all |= plan_of(each, errors).all
            if not inner or eqn.primitive.threaded is None:
                self.own[i] = _places_of(eqn, errors)
                self.all |= Places(self.own[i])


def plan_of(jaxpr: Jaxpr, errors: Errors) -> Plan:
    """The plan of a jaxpr, remembered with it."""
    key = ("checkify plan", errors)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = Plan(jaxpr, errors)
    return jaxpr.memo[key]


_KINDS: dict[str, type[CheckError]] = {INDEX: OOBError, DIVISION: DivisionByZeroError}


def _places_of(eqn: JaxprEqn, errors: Errors) -> list[Place]:
    """What can go wrong in an equation by itself: its hazard first, then a nan."""
    places = []
    if eqn.primitive.hazard is not None and _KINDS[eqn.primitive.hazard[0]] in errors:
        if eqn.primitive.hazard[0] == INDEX:
            places.append(
                Place(OOBError, "an index", _index_message(eqn.invars[0].aval.shape), (CODE, CODE), eqn.source)
            )
        else:
            places.append(Place(DivisionByZeroError, "a division", lambda _: "division by zero", (), eqn.source))
    if NaNError in errors and any(v.aval.dtype in INEXACT for v in eqn.outvars):
        name = eqn.primitive.name
        places.append(
            Place(NaNError, f"a nan of {name}", lambda _: f"nan generated by primitive: {name}.", (), eqn.source)
        )
    return places


def _index_message(shape: tuple[int, ...]) -> Callable[[Sequence[Any]], str]:
    def message(payload: Sequence[Any]) -> str:
        index, axis = (int(x) for x in payload)
        return (
            f"out-of-bounds indexing for array of shape {shape}: index {index} is out of bounds for axis {axis} with "
            f"size {shape[axis]}."
        )

    return message


class Thread:
    """Makes jaxprs from (state, arguments) to (state, results), for states of the same places."""

    __slots__ = ("errors", "places")

    def __init__(self, errors: Errors, places: Places):
        self.errors, self.places = errors, places

    def __call__(self, jaxpr: Jaxpr) -> Jaxpr:
        key = ("checkify", self.errors, self.places)
        if key not in jaxpr.memo:
            n = len(self.places.state_avals())

            def run(*args: Any) -> list[Any]:
                return self.evaluate(jaxpr, args[:n], args[n:])

            jaxpr.memo[key] = constvars_to_invars(stage(run, [*self.places.state_avals(), *jaxpr.in_avals]))
        return jaxpr.memo[key]

    def sees(self, jaxpr: Jaxpr) -> bool:
        """Whether something can go wrong in a jaxpr, of what was asked for."""
        return bool(plan_of(jaxpr, self.errors).all.by_code)

    def without(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr without checks."""
        if "without checks" not in jaxpr.memo:
            eqns = [self.without_inside(eqn) for eqn in jaxpr.eqns if eqn.primitive is not check_p]
            same = len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns))
            jaxpr.memo["without checks"] = jaxpr if same else jaxpr.replace(eqns=eqns)
        return jaxpr.memo["without checks"]

    def unseen(self, jaxpr: Jaxpr, what: str) -> Jaxpr:
        """The jaxpr without checks.

        Raises:
          UnsupportedRule: it has checks, and they were asked for.
        """
        smaller = self.without(jaxpr)
        if FailedCheckError in self.errors and _has_check(jaxpr):
            raise UnsupportedRule(
                f"checkify: a check in {what} can't become an error of the function around it. Check before or after "
                "it, or in the body of a lax.scan, lax.while_loop or lax.cond."
            )
        return smaller

    def without_inside(self, eqn: JaxprEqn) -> JaxprEqn:
        if all(self.without(inner) is inner for inner in subjaxprs(eqn)):
            return eqn
        return eqn.replace(params={name: self._without_in(value) for name, value in eqn.params.items()})

    def _without_in(self, value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return self.without(value)
        if isinstance(value, ClosedJaxpr):
            return value.replace(jaxpr=self.without(value.jaxpr))
        return tuple(map(self._without_in, value)) if type(value) is tuple else value

    def evaluate(self, jaxpr: Jaxpr, state: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Runs a jaxpr without constants, through whatever interpreter is current: (state, results)."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args))
        plan = plan_of(jaxpr, self.errors)
        state = list(state)
        before = context.source
        try:
            for i, eqn in enumerate(jaxpr.eqns):
                values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
                context.source = eqn.source
                state, outs = self.equation(eqn, plan.own.get(i, ()), state, values)
                env.update(zip(eqn.outvars, outs))
        finally:
            context.source = before
        return [*state, *(v.val if type(v) is Literal else env[v] for v in jaxpr.outvars)]

    def equation(
        self, eqn: JaxprEqn, places: Sequence[Place], state: list[Any], values: list[Any]
    ) -> tuple[list[Any], Sequence[Any]]:
        primitive = eqn.primitive
        if primitive is check_p:
            if FailedCheckError in self.errors:
                state = self.joined(state, eqn.params["places"], values)
            return state, []
        if primitive.threaded is not None and any(map(self.sees, subjaxprs(eqn))):
            return primitive.threaded(state, self, values, **eqn.params)
        for inner in subjaxprs(eqn):
            self.unseen(inner, str(primitive))
        eqn = self.without_inside(eqn)
        hazards = [place for place in places if place.kind is not NaNError]
        for place in hazards:
            failed, payload = primitive.hazard[1](values, **eqn.params)  # type: ignore[index]  # the plan saw it
            state = self.changed(state, place.slot, select(failed, np.int32(place.code), np.int32(0)), payload)
        outs = context.trace.process(primitive, values, eqn.params)
        for place in places[len(hazards) :]:
            state = self.changed(state, (), select(_any_nan(outs), np.int32(place.code), np.int32(0)), ())
        return state, outs

    def joined(self, state: list[Any], places: Places, other: Sequence[Any]) -> list[Any]:
        """The state, or another one of fewer places where the former tells of no error."""
        state = list(state)
        before = state[0]
        for slot in places.slots:
            state = [before, *self.changed(state, slot, other[0], other[places.part(slot)])[1:]]
        return self.changed(state, (), other[0], ())

    def changed(self, state: Sequence[Any], slot: Slot, code: Any, payload: Sequence[Any]) -> list[Any]:
        """The state with an error of that code, if it isn't 0, and if it tells of none."""
        new = bitwise_and(eq(state[0], np.int32(0)), ne(code, np.int32(0)))
        changed = [select(new, code, state[0]), *state[1:]]
        part = self.places.part(slot)
        if slot:
            changed[part] = [select(new, stop_gradient(x), y) for x, y in zip(payload, state[part])]
        return changed


def _has_check(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.params["places"].by_code if eqn.primitive is check_p else any(map(_has_check, subjaxprs(eqn)))
        for eqn in jaxpr.eqns
    )


def _any_nan(outs: Sequence[Any]) -> Any:
    found: Any = np.bool_(False)
    for x in outs:
        aval = aval_of(x)
        if aval.dtype in INEXACT:
            x = stop_gradient(x)
            is_nan = ne(x, x)
            some = reduce_or(is_nan, tuple(range(aval.ndim))) if aval.ndim else is_nan
            found = select(some, np.bool_(True), found)
    return found


# -- What users call


init_error = Error([np.int32(0)], Places())


def checkify(f: Callable[..., Any], errors: Errors = user_checks) -> Callable[..., tuple[Error, Any]]:
    """The function that gives, with its result, the first error among those asked for.

    It can be compiled, mapped (an error for each row) and differentiated (`value_and_grad(..., has_aux)`, or the result
    alone), and so can what `f` does inside: `jit`, `lax.scan`, `while_loop`, `cond`, `vmap`, `grad`.

    Args:
      f: a function of pytrees; it is traced.
      errors: `user_checks` (those of `check`), `nan_checks`, `div_checks`, `index_checks`; `float_checks` are nan and
        division, `automatic_checks` float and index, `all_checks` all of them. Sets, to be joined with `|`.
    Returns:
      A function of the same arguments that gives (error, result); `error.throw()` raises it.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import checkify
    >>> f = checkify.checkify(lambda x, i: x[i], errors=checkify.index_checks)
    >>> error, out = xpr.jit(f)(jnp.arange(3), 5)
    >>> print(error.get().split(" (<")[0])
    out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with size 3.
    """
    if not callable(f):
        raise TypeError(f"checkify checks functions, and got {describe(f)}.")
    wanted = frozenset(errors)

    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, in_tree = tree.flatten((args, kwargs))
        flat = FlatFunction(f, in_tree)
        closed = stage(flat, [aval_of(x) for x in leaves], signature_of("checked", f, args, kwargs))
        jaxpr = constvars_to_invars(closed)
        thread = Thread(wanted, plan_of(jaxpr, wanted).all)
        avals: Sequence[ShapedArray] = thread.places.state_avals()
        state = [np.int32(0), *(zeros_like_aval(aval) for aval in avals[1:])]
        results = eval_jaxpr(thread(jaxpr), (), *state, *closed.consts, *leaves)
        return Error(results[: len(avals)], thread.places), tree.unflatten(flat.out_tree, results[len(avals) :])

    return named_like(boundary(checked), f)
