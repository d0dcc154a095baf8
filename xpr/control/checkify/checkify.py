"""checkify : (a -> b) -> (a -> (Error, b)). Returns errors that depend on values from compiled programs.

The function is traced, and its jaxpr becomes one from (state, arguments) to (state, results), see errors.py: an
equation that fails changes the state, unless this has an error already. Operations that hold jaxprs pass the state
through them (`threaded`); a user's check is an equation of `check_p` until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xpr import tree
from xpr.config import override
from xpr.control.callback.host_call import is_array
from xpr.control.checkify.errors import CODE, Check, Checks, Error, Slot, first_failed
from xpr.control.groups import partition, split_list
from xpr.control.stop_gradient import stop_gradient
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, constvars_to_invars, eval_jaxpr, subjaxprs
from xpr.core.lines import with_lines
from xpr.core.primitive import Primitive, Unsupported, register
from xpr.core.source import check_function, here, summarize
from xpr.dtypes import BOOL, INEXACT
from xpr.errors import CheckError, DivisionByZeroError, FailedCheckError, NaNError, OOBError, UnsupportedRule
from xpr.primitives.elementwise import bitwise_and, eq, ne
from xpr.primitives.gather.bounds_checks import DIVISION, INDEX
from xpr.primitives.random_keys import zeros_or_keys
from xpr.primitives.reductions import reduce_or
from xpr.primitives.shapes import mapped_to
from xpr.primitives.slicing import select
from xpr.transforms.boundary import boundary
from xpr.transforms.calls import Call
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


# -- check: a state that is joined with that of the enclosing program. Its operands are a state of its `checks`.


def _evaluate(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    if not params["debug"]:
        Error(args, params["checks"]).throw()
    return []


def _lower(b: Any, operands: Any, avals: Any, *, checks: Checks, debug: bool) -> list[Any]:
    if debug or not checks.by_code:
        return []
    lines = "\n".join(f"  {check.text} at {summarize(check.source)}" for check in checks.by_code.values())
    raise ValueError(
        f"Cannot abstractly evaluate a checkify.check in a function that is compiled, where nobody would see it fail:\n"
        f"{lines}\nCompile what checkify makes of it, error, out = jit(checkify.checkify(f))(x), and look at the error "
        "with error.throw(). A checkify.debug_check is left out instead."
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
        params=("checks", "debug"),
        reference=lambda values, **params: _evaluate(values, params),
        lower=_lower,
        jvp=_jvp,
        transpose=Unsupported("Check outside the function that is transposed: its values are cotangents there."),
        batch=_batch,
        evaluate=_evaluate,
        effects=lambda avals, **params: ("unordered",),
        multiple_results=True,
        call=True,
    )
)


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Asserts a condition: where it is False it is an error, which `checkify` returns with the result.

    Called eagerly it raises at once. In a program that is compiled without `checkify` it is an error.

    Args:
      pred: a scalar bool.
      msg: a format string; `msg.format(*fmt_args, **fmt_kwargs)` is the message.
      *fmt_args: pytrees of arrays and numbers, to format.
      debug: whether to leave the check out where there is no `checkify`.
      **fmt_kwargs: pytrees of arrays and numbers, to format by name.

    Returns:
      None.

    Raises:
      TypeError: `pred` is not a boolean scalar, or a string or another object is to be formatted.
      FailedCheckError: eagerly, where `pred` is False.

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
        name = "debug_check" if debug else "check"
        raise TypeError(
            f"{name} takes a scalar pred, a bool, and got {describe(pred)}. Reduce it with .all() or .any()."
        )
    leaves, in_tree = tree.flatten((fmt_args, fmt_kwargs))
    for x in leaves:
        if not is_array(x):
            raise TypeError(
                f"Formatting arguments of a check are pytrees of arrays and numbers, and {x!r} of type "
                f"{type(x).__name__} is neither. What is known while the function is traced can stand in the message: "
                "write it there, as by an f-string."
            )
    operands = list(map(stop_gradient, leaves))

    def message(payload: Sequence[Any]) -> str:
        args, kwargs = tree.unflatten_sorted(in_tree, payload)
        return f"{msg.format(*args, **kwargs)} (`check` failed)"

    slot = tuple([aval_of(x).strip_weak_type() for x in operands])
    declared = Check(FailedCheckError, repr(msg), message, slot, context.source or here(2), str(in_tree))
    code = select(pred, np.int32(0), np.int32(declared.code))
    check_p.bind(code, *operands, checks=Checks([declared]), debug=bool(debug))


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that is left out where there is no `checkify`.

    Args:
      pred: as for `check`.
      msg: as for `check`.
      *fmt_args: as for `check`.
      **fmt_kwargs: as for `check`.

    Returns:
      None.

    Raises:
      TypeError: as for `check`.

    >>> import xpr
    >>> from xpr import checkify
    >>> checkify.debug_check(xpr.numpy.array(False), "never seen")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raises an error that a function made by `checkify` returned; inside another such function it becomes that one's.

    Args:
      error: the `Error`; of one with mapped rows it is the first row's that failed.

    Returns:
      None.

    Raises:
      TypeError: `error` is no `Error`.
      CheckError: eagerly, where there is an error.

    >>> from xpr import checkify
    >>> checkify.check_error(checkify.init_error)
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes the Error that a function made by checkify gives, not {describe(error)}.")
    state = error.state
    while aval_of(state[0]).ndim:  # mapped rows: the first that failed
        state = first_failed(state)
    check_p.bind(*state, checks=error.checks, debug=False)


# -- Jaxprs with the state passed through


class Plan:
    """The `Checks` of a jaxpr: those of each equation by its index, and all of them, inner jaxprs' too."""

    __slots__ = ("all", "by_equation")

    def __init__(self, jaxpr: Jaxpr, errors: Errors):
        self.by_equation: dict[int, list[Check]] = {}
        self.all = Checks()
        for i, eqn in enumerate(jaxpr.eqns):
            if eqn.primitive is check_p:
                self.all |= eqn.params["checks"] if FailedCheckError in errors else Checks()
                continue
            inner_jaxprs = list(subjaxprs(eqn))
            for inner in inner_jaxprs:
                self.all |= plan_of(inner, errors).all
            if not inner_jaxprs or eqn.primitive.threaded is None:
                self.by_equation[i] = _checks_of(eqn, errors)
                self.all |= Checks(self.by_equation[i])


def plan_of(jaxpr: Jaxpr, errors: Errors) -> Plan:
    """The plan of a jaxpr; cached with it."""
    key = ("checkify plan", errors)
    if key not in jaxpr.memo:
        jaxpr.memo[key] = Plan(jaxpr, errors)
    return jaxpr.memo[key]


_KINDS: dict[str, type[CheckError]] = {INDEX: OOBError, DIVISION: DivisionByZeroError}


def _checks_of(eqn: JaxprEqn, errors: Errors) -> list[Check]:
    """The possible errors of an equation itself: its hazard first, then a nan."""
    checks = []
    if eqn.primitive.hazard is not None and _KINDS[eqn.primitive.hazard[0]] in errors:
        if eqn.primitive.hazard[0] == INDEX:
            aval = eqn.invars[0].aval
            checks.append(Check(OOBError, "an index", _index_message(aval), (CODE, CODE), eqn.source, aval.str_short()))
        else:
            checks.append(Check(DivisionByZeroError, "a division", lambda _: "division by zero", (), eqn.source))
    if NaNError in errors and any(v.aval.dtype in INEXACT for v in eqn.outvars):
        name = eqn.primitive.name
        checks.append(
            Check(NaNError, f"a nan of {name}", lambda _: f"nan generated by primitive: {name}.", (), eqn.source)
        )
    return checks


def _index_message(aval: ShapedArray) -> Callable[[Sequence[Any]], str]:
    def message(payload: Sequence[Any]) -> str:
        index, axis = (int(x) for x in payload)
        return (
            f"out-of-bounds indexing of {aval.str_short()}: index {index} is out of bounds for axis {axis} with size "
            f"{aval.shape[axis]}."
        )

    return message


class StateThreading:
    """Makes jaxprs from (state, arguments) to (state, results), for states with the same `Checks`."""

    __slots__ = ("errors", "checks")

    def __init__(self, errors: Errors, checks: Checks):
        self.errors, self.checks = errors, checks

    def __call__(self, jaxpr: Jaxpr) -> Jaxpr:
        key = ("checkify", self.errors, self.checks)
        if key not in jaxpr.memo:
            avals = self.checks.state_avals()

            def run(*args: Any) -> list[Any]:
                return self.evaluate(jaxpr, *split_list(args, len(avals)))

            jaxpr.memo[key] = constvars_to_invars(stage(run, [*avals, *jaxpr.in_avals]))
        return jaxpr.memo[key]

    def may_fail(self, jaxpr: Jaxpr) -> bool:
        """Whether a jaxpr can have one of the errors asked for."""
        return bool(plan_of(jaxpr, self.errors).all.by_code)

    def without_checks(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr without checks."""
        if "without checks" not in jaxpr.memo:
            eqns = [self.inner_without_checks(eqn) for eqn in jaxpr.eqns if eqn.primitive is not check_p]
            same = len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns))
            jaxpr.memo["without checks"] = jaxpr if same else jaxpr.replace(eqns=eqns)
        return jaxpr.memo["without checks"]

    def refuse_checks(self, jaxpr: Jaxpr, what: str) -> Jaxpr:
        """The jaxpr without checks.

        Raises:
          UnsupportedRule: it has checks, and they were asked for.
        """
        smaller = self.without_checks(jaxpr)
        if FailedCheckError in self.errors and _has_check(jaxpr):
            raise UnsupportedRule(
                f"checkify: a check in {what} can't become an error of the function around it. Check before or after "
                "it, or in the body of a lax.scan, lax.while_loop or lax.cond."
            )
        return smaller

    def inner_without_checks(self, eqn: JaxprEqn) -> JaxprEqn:
        """The equation with inner jaxprs without checks."""
        if all(self.without_checks(inner) is inner for inner in subjaxprs(eqn)):
            return eqn
        return eqn.replace(params={name: self._value_without_checks(value) for name, value in eqn.params.items()})

    def _value_without_checks(self, value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return self.without_checks(value)
        if isinstance(value, ClosedJaxpr):
            return value.replace(jaxpr=self.without_checks(value.jaxpr))
        return tuple(map(self._value_without_checks, value)) if type(value) is tuple else value

    def evaluate(self, jaxpr: Jaxpr, state: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Runs a jaxpr without constants under the current interpreter; returns (state, results)."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args))
        plan = plan_of(jaxpr, self.errors)
        state = list(state)
        before = context.source
        try:
            for i, eqn in enumerate(jaxpr.eqns):
                values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
                context.source = eqn.source
                state, outs = self.equation(eqn, plan.by_equation.get(i, ()), state, values)
                env.update(zip(eqn.outvars, outs))
        finally:
            context.source = before
        return [*state, *(v.val if type(v) is Literal else env[v] for v in jaxpr.outvars)]

    def equation(
        self, eqn: JaxprEqn, checks: Sequence[Check], state: list[Any], values: list[Any]
    ) -> tuple[list[Any], Sequence[Any]]:
        """Runs an equation; returns the state with its possible errors, and its results."""
        primitive = eqn.primitive
        if primitive is check_p:
            if FailedCheckError in self.errors:
                state = self.joined(state, eqn.params["checks"], values)
            return state, []
        if primitive.threaded is not None and any(map(self.may_fail, subjaxprs(eqn))):
            return primitive.threaded(state, self, values, **eqn.params)
        for inner in subjaxprs(eqn):
            self.refuse_checks(inner, str(primitive))
        eqn = self.inner_without_checks(eqn)
        hazards, nans = partition(checks, [check.kind is not NaNError for check in checks])
        for hazard in hazards:
            failed, payload = primitive.hazard[1](values, **eqn.params)  # type: ignore[index]  # the plan saw it
            state = self.changed(state, hazard.slot, select(failed, np.int32(hazard.code), np.int32(0)), payload)
        outs = context.trace.process(primitive, values, eqn.params)
        for nan in nans:
            state = self.changed(state, (), select(_any_nan(outs), np.int32(nan.code), np.int32(0)), ())
        return state, outs

    def joined(self, state: list[Any], checks: Checks, other: Sequence[Any]) -> list[Any]:
        """The state if it has an error, else another state, which has fewer `Checks`."""
        state = list(state)
        before = state[0]
        for slot in checks.slots:
            state = [before, *self.changed(state, slot, other[0], other[checks.part(slot)])[1:]]
        return self.changed(state, (), other[0], ())

    def changed(self, state: Sequence[Any], slot: Slot, code: Any, payload: Sequence[Any]) -> list[Any]:
        """The state with an error of that code, if the code isn't 0 and the state has no error yet."""
        new = bitwise_and(eq(state[0], np.int32(0)), ne(code, np.int32(0)))
        changed = [select(new, code, state[0]), *state[1:]]
        part = self.checks.part(slot)
        if slot:
            changed[part] = [select(new, stop_gradient(x), y) for x, y in zip(payload, state[part])]
        return changed


def _has_check(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.params["checks"].by_code if eqn.primitive is check_p else any(map(_has_check, subjaxprs(eqn)))
        for eqn in jaxpr.eqns
    )


def _any_nan(outs: Sequence[Any]) -> Any:
    any_nan: Any = np.bool_(False)
    for x in outs:
        aval = aval_of(x)
        if aval.dtype in INEXACT:
            x = stop_gradient(x)
            is_nan = ne(x, x)
            has_nan = reduce_or(is_nan, tuple(range(aval.ndim))) if aval.ndim else is_nan
            any_nan = select(has_nan, np.bool_(True), any_nan)
    return any_nan


# -- Public functions


init_error = Error([np.int32(0)], Checks())


def checkify(f: Callable[..., Any], errors: Errors = user_checks) -> Callable[..., tuple[Error, Any]]:
    """Makes a function that returns, with the result, the first error among those asked for.

    It can be compiled, mapped (an error for each row) and differentiated (`value_and_grad(..., has_aux)`, or the result
    alone), and `f` may use `jit`, `lax.scan`, `while_loop`, `cond`, `vmap`, `grad`.

    Args:
      f: a function of pytrees; it is traced, for arguments that are arrays or numbers. Booleans of Python and other
        objects are passed on as they are.
      errors: `user_checks` (those of `check`), `nan_checks`, `div_checks`, `index_checks`; `float_checks` are nan and
        division, `automatic_checks` float and index, `all_checks` all of them. Sets, to be joined with `|`.

    Returns:
      A function of the same arguments that returns `(error, result)`; `error.throw()` raises the error.

    Raises:
      TypeError: `f` is not a function, or `errors` no set of kinds of errors.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import checkify
    >>> f = checkify.checkify(lambda x, i: x[i], errors=checkify.index_checks)
    >>> error, out = xpr.jit(f)(jnp.arange(3), 5)
    >>> print(error.get().split(" (<")[0])
    out-of-bounds indexing of i32[3]: index 5 is out of bounds for axis 0 with size 3.
    """
    check_function(f, "checkify")
    kinds = frozenset(errors) if isinstance(errors, Iterable) else None
    if kinds is None or not all(isinstance(kind, type) and issubclass(kind, CheckError) for kind in kinds):
        raise TypeError(f"checkify: errors must be a set such as user_checks | nan_checks, and is {errors!r}.")

    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        call = Call(args, kwargs, _static_arguments(args, kwargs))
        leaves, fun = call.leaves, call.of_dynamic(f)
        flat = FlatFunction(fun, call.in_tree)
        blank = [None if i in call.static else x for i, x in enumerate(args)]
        signature = signature_of("checked", f, blank, call.dynamic[1])
        with override("check_static_indices", False):  # one out of range is an error to return, if that is asked for
            closed = stage(flat, [aval_of(x) for x in leaves], signature)
        jaxpr = with_lines(constvars_to_invars(closed))
        thread = StateThreading(kinds, plan_of(jaxpr, kinds).all)
        avals: Sequence[ShapedArray] = thread.checks.state_avals()
        state = [np.int32(0), *(zeros_or_keys(aval) for aval in avals[1:])]
        results = eval_jaxpr(thread(jaxpr), (), *state, *closed.consts, *leaves)
        state, outs = split_list(results, len(avals))
        return Error(state, thread.checks), tree.unflatten(flat.out_tree, outs)

    return named_like(boundary(checked), f)


def _static_arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> dict[int | str, Any]:
    """The arguments that are not traced, by position or name: Python booleans, and objects that are no arrays."""
    named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    return {name: x for name, x in named if type(x) is bool or not all(map(_is_numeric, tree.leaves(x)))}


def _is_numeric(x: Any) -> bool:
    try:
        aval_of(x)
    except TypeError:
        return False
    return True
