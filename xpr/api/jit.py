"""jit: trace a function once per abstract signature, compile it, and run the compiled program from then on.

A call takes the shortest road that fits it. Arrays, and plain containers of them, find the compiled program by their
types and places, where they are evaluated and were seen before (`KnownCalls`). Anything else (scalars, registered
classes, static arguments, tracers) takes the long road. The traced jaxpr is what transformations work on: under them
the call becomes an `xla_call`.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from xpr import tree
from xpr.api.known_calls import KnownCalls
from xpr.api.options import both_ways, check_options, own_options
from xpr.api.stages import Compiled, Layout, Lowered, Traced, given_to_results
from xpr.api.staging import ShapeDtypeStruct, shaped
from xpr.backend import devices
from xpr.backend.allocator import release_memory
from xpr.backend.array import Array
from xpr.backend.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
from xpr.compile.argument_shardings import ArgumentShardings
from xpr.compile.evaluate import EvalTrace, device_of, forget_recent, reference_eval
from xpr.compile.partition import mesh_of, shardings_of
from xpr.config import settings
from xpr.control.compiled import clear_compiled
from xpr.control.devices.sharding_constraint import constrain, flatten_shardings
from xpr.control.tracing import forget_bodies
from xpr.control.xla_call import call
from xpr.core.avals import HeldArrayError, ShapedArray, array_in, aval_of, describe
from xpr.core.interpreter import Tracer, context
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import all_primitives, told_apart
from xpr.core.source import describe_function, function_name
from xpr.numpy.promotion import depth_of_user
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import FlatFunction, argument_names, named_like, signature_of, with_static
from xpr.transforms.stage import StageTrace, stage


class _Caches:
    """What is remembered of one function under one set of options."""

    __slots__ = ("traces", "compiled", "known", "__weakref__")

    def __init__(self) -> None:
        self.traces: dict[Any, Traced] = {}
        self.compiled: dict[Any, Compiled] = {}
        self.known = KnownCalls()
        _all_caches.add(self)

    def clear(self) -> None:
        self.traces.clear()
        self.compiled.clear()
        self.known.clear()


_all_caches: weakref.WeakSet[_Caches] = weakref.WeakSet()
_by_callable: weakref.WeakKeyDictionary[Any, dict[Any, _Caches]] = weakref.WeakKeyDictionary()
_ATTRIBUTE = "__xpr_caches__"


def _caches_of(fun: Callable[..., Any], options: tuple[Any, ...]) -> _Caches:
    """The caches shared by every `jit` of the same function with the same options; they die with the function.

    A function holds its own, so that one whose program refers to it (through a custom rule that closes over it) is a
    cycle like any other. `functools.wraps` copies the attribute, which therefore says whose it is.
    """
    try:
        if type(fun) is not FunctionType:
            return _by_callable.setdefault(fun, {}).setdefault(options, _Caches())
        owner, held = fun.__dict__.get(_ATTRIBUTE, (None, None))
        if held is None or owner() is not fun:
            held = {}
            fun.__dict__[_ATTRIBUTE] = weakref.ref(fun), held
        return held.setdefault(options, _Caches())
    except TypeError:  # the callable can't be referred to weakly, or not be hashed
        return _Caches()


def clear_caches() -> None:
    """Forgets every traced and compiled program, and gives free memory back to the system.

    >>> import xpr
    >>> xpr.clear_caches()
    """
    for caches in list(_all_caches):
        caches.clear()
    clear_compiled()
    forget_bodies()
    forget_recent()
    for primitive in all_primitives():
        primitive.plans.clear()
        primitive.typed.clear()
    release_memory()


class JitFunction:
    """A function that is compiled when called; made by `jit`."""

    __closes_over__ = ("fun",)

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        donate_argnums: tuple[int, ...],
        donate_argnames: tuple[str, ...],
        device: Any,
        backend: str | None,
        options: dict[str, Any] | None,
        in_shardings: Any = None,
        out_shardings: Any = None,
    ):
        self.fun = fun
        self.in_shardings, self.out_shardings = in_shardings, out_shardings
        self.name = function_name(fun)
        self.static_argnums, self.static_argnames = static_argnums, frozenset(static_argnames)
        self.donate_argnums, self.donate_argnames = donate_argnums, frozenset(donate_argnames)
        self.device, self.backend = device, backend
        self.own_options, self.options = own_options(options)
        frozen = (
            static_argnums, static_argnames, donate_argnums, donate_argnames, device, backend,
            tuple(sorted(options.items())) if options else None, _frozen(in_shardings), _frozen(out_shardings),
        )  # fmt: skip
        self.caches = _caches_of(fun, frozen)
        self.known = self.caches.known
        named_like(self, fun)

    def __repr__(self) -> str:
        return f"<jit of {describe_function(self.fun)}>"

    def __copy__(self) -> JitFunction:
        """A copy with no programs of its own yet: it is made to be given another function, see control/closures.py."""
        clone = object.__new__(JitFunction)
        clone.__dict__.update(self.__dict__)
        clone.caches = _Caches()
        clone.known = clone.caches.known
        return clone

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: `jit` may decorate one, with `self` static or a pytree."""
        return self if instance is None else _Bound(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if type(context.trace) is EvalTrace:
            given = self.known.call(args, kwargs)
            if given is not NotImplemented:
                return given
        return self.call(args, kwargs)

    @boundary
    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The road for every kind of call."""
        if settings.disable_jit:
            return self.fun(*args, **kwargs)
        dynamic, dynamic_kwargs, static = self.split(args, kwargs)
        leaves, in_tree = tree.flatten((dynamic, dynamic_kwargs))
        avals = self.avals_of(leaves, args, kwargs)
        key = (settings.trace_key, context.axes, in_tree, static, *avals)
        if type(context.trace) is not EvalTrace:
            traced = self.traced(key, args, kwargs, dynamic, dynamic_kwargs, in_tree, avals)
            return tree.unflatten(traced.out_tree, self.staged_call(traced, leaves))
        if self.backend == "reference":
            traced = self.traced(key, args, kwargs, dynamic, dynamic_kwargs, in_tree, avals)
            outs = reference_eval(traced.jaxpr.jaxpr, traced.jaxpr.consts, *leaves)
            arrays = [Array(a, x) for a, x in zip(traced.jaxpr.out_avals, outs)]
            return tree.unflatten(traced.out_tree, arrays)
        compiled = self.compiled_for(key, args, kwargs, dynamic, dynamic_kwargs, in_tree, avals, leaves)
        try:
            outs = compiled.run(leaves)
        except HeldArrayError:
            outs = compiled.run(list(map(array_in, leaves)))
        return tree.unflatten(compiled.out_tree, outs)

    def staged_call(self, traced: Traced, leaves: Sequence[Any]) -> list[Any]:
        """A call inside another program, whose arguments and results lie there as was asked for."""
        if self.in_shardings is None and self.out_shardings is None:
            return call(traced.jaxpr, leaves, self.name)
        ins, outs = self.asked(traced)
        results = call(traced.jaxpr, [x if s is None else constrain(x, s) for x, s in zip(leaves, ins)], self.name)
        return [x if s is None else constrain(x, s) for x, s in zip(results, outs)]

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """Dynamic positional and keyword arguments, and a hashable record of the static ones."""
        if not self.static_argnums and not self.static_argnames:
            return args, kwargs, ()
        numbers = {n % len(args) for n in self.static_argnums if -len(args) <= n < len(args)} if args else set()
        names = self.static_argnames & kwargs.keys()
        given = [(n, args[n]) for n in sorted(numbers)] + [(name, kwargs[name]) for name in sorted(names)]
        for where, value in given:
            self.check_hashable(where, value)
        static = tuple([(where, told_apart(value)) for where, value in given])
        dynamic = tuple(x for i, x in enumerate(args) if i not in numbers)
        return dynamic, {k: v for k, v in kwargs.items() if k not in names}, static

    def check_hashable(self, where: int | str, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            which = f"number {where}" if isinstance(where, int) else repr(where)
            raise ValueError(
                f"jit: static argument {which} of {describe_function(self.fun)} is {describe(value)}, which can't be "
                "hashed, so calls with it can't be told apart. Pass something hashable (a tuple for a list), or don't "
                "mark it static."
            ) from None

    def names_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """A name for each leaf of the arguments that are not static."""
        dynamic_kwargs, static = self.split(args, kwargs)[1:]
        numbers = {where for where, _ in static}
        return argument_names(self.fun, [None if i in numbers else x for i, x in enumerate(args)], dynamic_kwargs)

    def avals_of(self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ShapedArray]:
        try:
            return [x.aval if type(x) is Array else aval_of(x) for x in leaves]
        except TypeError as error:
            for name, x in zip(self.names_of(args, kwargs), leaves):
                try:
                    aval_of(x)
                except TypeError:
                    raise TypeError(
                        f"jit: argument {name} of {describe_function(self.fun)} is {describe(x)}, which is no array. "
                        "Mark it static (static_argnums or static_argnames) if it is hashable and the same in many "
                        "calls."
                    ) from error
            raise

    def traced(
        self,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dynamic: tuple[Any, ...],
        dynamic_kwargs: dict[str, Any],
        in_tree: Any,
        avals: Sequence[ShapedArray],
    ) -> Traced:
        """The function's jaxpr for one abstract signature, traced the first time."""
        found = self.caches.traces.get(key)
        outer: Any = context.trace
        while found is None and outer is not None:
            if isinstance(outer, StageTrace):
                found = outer.calls.get((self.caches, key))
            outer = outer.parent
        if found is not None and found.in_shardings is None:
            return found
        shardings = ArgumentShardings(tree.leaves((dynamic, dynamic_kwargs)))
        if found is not None and found.in_shardings == shardings.all():
            return found
        static_kwargs = {k: v for k, v in kwargs.items() if k not in dynamic_kwargs}
        fun = self.fun
        if static_kwargs:
            fun = _with_keywords(fun, static_kwargs)
        numbers = [n % len(args) for n in self.static_argnums if -len(args) <= n < len(args)]
        flat = FlatFunction(with_static(fun, numbers, args), in_tree)
        signature = signature_of("compiled with jit", flat.fun, dynamic, dynamic_kwargs)
        closed = stage(flat, avals, signature, shardings if self.in_shardings is None else None)
        if self.own_options.get("reroll"):
            from xpr.control.reroll.reroll import reroll  # 30 ms of imports that most programs never need

            closed = reroll(closed)
        donated = self.usable(self.donated_leaves(args, dynamic_kwargs, numbers), closed, args, kwargs)
        in_steps = self.own_options.get("steps", True)
        traced_for = shardings.all() if shardings.asked else None
        made = Traced(closed, in_tree, flat.out_tree, self.name, donated, self.options, in_steps, traced_for)
        if not any(isinstance(c, Tracer) for c in closed.consts):
            self.caches.traces[key] = made
        elif isinstance(context.trace, StageTrace):
            context.trace.calls[self.caches, key] = made
        return made

    def donated_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any], static: Sequence[int]) -> list[int]:
        """The flat positions of donated arguments."""
        if not self.donate_argnums and not self.donate_argnames:
            return []
        chosen = {n % len(args) for n in self.donate_argnums if -len(args) <= n < len(args)}
        donated: list[int] = []
        at = 0
        for i, x in enumerate(args):
            if i in static:
                continue
            n = len(tree.leaves(x))
            if i in chosen:
                donated.extend(range(at, at + n))
            at += n
        for name in sorted(kwargs):
            n = len(tree.leaves(kwargs[name]))
            if name in self.donate_argnames:
                donated.extend(range(at, at + n))
            at += n
        return donated

    def usable(
        self, donated: Sequence[int], closed: ClosedJaxpr, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[int]:
        """Those of the donated arguments whose memory a result may take; warns of others that the program reads."""
        if not donated:
            return []
        wanted, others = given_to_results(closed.jaxpr, donated)
        if others:
            names = self.names_of(args, kwargs)
            texts = [f"{names[i]} {closed.in_avals[i].str_short()}" for i in others]
            more = f" and {len(texts) - 8} more" if len(texts) > 8 else ""
            warnings.warn(
                f"Some donated buffers were not usable: {', '.join(texts[:8])}{more}. No result of "
                f"{describe_function(self.fun)} is left that takes as many bytes, so these arrays are kept. Donate "
                "what the results replace.",
                stacklevel=depth_of_user(),
            )
        return wanted

    def compiled_for(
        self,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dynamic: tuple[Any, ...],
        dynamic_kwargs: dict[str, Any],
        in_tree: Any,
        avals: Sequence[ShapedArray],
        leaves: Sequence[Any],
    ) -> Compiled:
        device = self.device or (devices.devices(self.backend)[0] if self.backend else device_of(leaves))
        place = (key, shardings_of(leaves) if type(device) is NamedSharding else device)
        compiled = self.caches.compiled.get(place)
        if compiled is None:
            traced = self.traced(key, args, kwargs, dynamic, dynamic_kwargs, in_tree, avals)
            for constant in traced.jaxpr.consts:
                if isinstance(constant, Tracer):
                    raise constant.misused()
            layout = self.layout_of(traced, device, leaves)
            compiled = self.caches.compiled[place] = traced.lower(device, layout).compile()
            if not (self.static_argnums or self.static_argnames or traced.donated):
                self.known.remember(args, kwargs, leaves, compiled.executable, compiled.constants, compiled.out_tree)
        return compiled

    def layout_of(self, traced: Traced, device: Any, leaves: Sequence[Any]) -> Layout | None:
        """How a call lies on several devices; None where it runs on one.

        Raises:
          ValueError: an argument or a result can't be cut as asked.
        """
        if self.device is not None and mesh_of(traced.jaxpr.jaxpr) is None:
            return None
        asked_in, asked_out = self.asked(traced)
        there = [x.sharding if type(x) is ShapeDtypeStruct else s for x, s in zip(leaves, shardings_of(leaves))]
        constants = shardings_of(traced.jaxpr.consts)
        found = [*asked_in, *asked_out, device, *constants, *there]
        mesh = next((each.mesh for each in found if type(each) is NamedSharding), None) or mesh_of(traced.jaxpr.jaxpr)
        if mesh is None:
            return None
        return Layout(mesh, [*constants, *(want or have for want, have in zip(asked_in, there))], asked_out)

    def asked(self, traced: Traced) -> tuple[list[NamedSharding | None], list[NamedSharding | None]]:
        """What `in_shardings` and `out_shardings` say of each argument and result."""
        args_tree, jaxpr = traced.in_tree, traced.jaxpr
        ins: list[NamedSharding | None] = [None] * len(jaxpr.in_avals)
        outs: list[NamedSharding | None] = [None] * len(jaxpr.out_avals)
        if self.in_shardings is not None:
            args, kwargs = tree.unflatten(args_tree, range(args_tree.num_leaves))
            ins[: len(tree.leaves(args))] = flatten_shardings(
                f"jit of {describe_function(self.fun)}", self.in_shardings, tree.structure(args), "in_shardings"
            )
            names = argument_names(self.fun, args, kwargs)
            _check_cuts("argument", names, ins, jaxpr.in_avals, self.fun)
        if self.out_shardings is not None:
            outs = flatten_shardings(
                f"jit of {describe_function(self.fun)}", self.out_shardings, traced.out_tree, "out_shardings"
            )
            blank = tree.unflatten(traced.out_tree, range(len(outs)))
            names = [f"result{tree.keystr(path)}" for path, _ in tree.leaves_with_path(blank)]
            _check_cuts("", names, outs, jaxpr.out_avals, self.fun)
        return ins, outs

    @boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces without compiling; arguments may be anything with a shape and a dtype."""
        dynamic, dynamic_kwargs, static = self.split(args, kwargs)
        leaves, in_tree = tree.flatten((dynamic, dynamic_kwargs))
        avals = [shaped(x) for x in leaves]
        key = (settings.trace_key, context.axes, in_tree, static, *avals)
        traced = self.traced(key, args, kwargs, dynamic, dynamic_kwargs, in_tree, avals)
        traced.names = self.names_of(args, kwargs)
        return traced

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers without compiling or running.

        Where arguments lie on several devices, as arrays and `ShapeDtypeStruct`s with a sharding say, it is for those.

        >>> import xpr
        >>> "stablehlo.sine" in xpr.jit(xpr.numpy.sin).lower(1.0).as_text()
        True
        """
        traced = self.trace(*args, **kwargs)
        dynamic, dynamic_kwargs, _ = self.split(args, kwargs)
        leaves = tree.leaves((dynamic, dynamic_kwargs))
        return traced.lower(self.device, self.layout_of(traced, self.device, leaves))

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The structure of the result, a `ShapeDtypeStruct` at each leaf."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forgets what was traced and compiled for this function."""
        self.caches.clear()


class _Bound:
    """A jitted function bound to an instance, as a method is: calls and tracing get the instance first."""

    def __init__(self, jitted: JitFunction, instance: Any):
        self.jitted, self.__self__ = jitted, instance
        self.__doc__, self.__module__ = jitted.__doc__, jitted.__module__  # what its class would answer itself

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted(self.__self__, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.jitted!r} bound to {self.__self__!r}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.jitted, name)
        return partial(found, self.__self__) if name in _OF_ARGUMENTS else found


_OF_ARGUMENTS = frozenset({"lower", "trace", "eval_shape"})


def _with_keywords(fun: Callable[..., Any], static: dict[str, Any]) -> Callable[..., Any]:
    def rest(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs, **static)

    return named_like(rest, fun)


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
) -> Any:
    """Compiles a function with XLA when it is called, once for each combination of argument types.

    Args:
      fun: takes and gives pytrees of arrays, without side effects. Without it, `jit` is a decorator with options.
      static_argnums, static_argnames: arguments that are plain Python values, by number and by name; the function
        is compiled anew for each new value. They must be hashable. Where one of the two is given it is for arguments
        however they are passed; where both are, numbers are for those passed by position and names for the others.
      donate_argnums, donate_argnames: arguments whose memory the results may use; they are deleted by the call.
      keep_unused: unused arguments are always kept.
      device, backend: where to run; `backend="reference"` evaluates in NumPy, without XLA.
      inline: has no effect; XLA inlines calls.
      compiler_options: XLA options by name, and two of our own: `{"reroll": True}` makes layers that Python wrote out
        one `scan` before XLA sees them, see `xpr.reroll`; `{"steps": False}` keeps a deep network one program, which
        takes several times as long to compile and runs some percent faster, or slower, on CPU.
      in_shardings, out_shardings: how the positional arguments and the results lie on several devices: a
        `NamedSharding`, or a pytree prefix of the tuple of arguments (of the result) of those and None. Arguments that
        lie otherwise are moved; where it is None arguments are taken as they lie, and the compiler chooses for results.
        A `SingleDeviceSharding` among them is the device of the whole program.
    Raises:
      ConcretizationTypeError: the function needs the value of an argument that is not static.
      ValueError: a static argument is not hashable, XLA has no such option, an array can't be cut as a sharding
        says, or shardings are of several single devices, or of one and of a mesh.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.jit
    ... def f(x):
    ...     return jnp.sum(x ** 2)
    >>> f(jnp.arange(3.0))
    Array(5., dtype=float32)
    """
    if fun is None:
        options = dict(
            static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options, in_shardings=in_shardings, out_shardings=out_shardings,
        )  # fmt: skip
        return lambda fun: jit(fun, **options)  # type: ignore[arg-type]  # the options are those of this very function
    if not callable(fun):
        raise TypeError(f"jit compiles functions, and got {describe(fun)}.")
    check_options("jit", compiler_options)
    named = _single_device(in_shardings, out_shardings)
    if named is not None:
        device, in_shardings, out_shardings = named, None, None
    numbers, names = both_ways(fun, static_argnums, static_argnames)
    donate_numbers, donate_names = both_ways(fun, donate_argnums, donate_argnames)
    donate_numbers = tuple(n for n in donate_numbers if n not in numbers)
    return JitFunction(
        fun,
        numbers,
        names,
        donate_numbers,
        donate_names,
        device,
        backend,
        compiler_options,
        in_shardings,
        out_shardings,
    )


def _single_device(*shardings: Any) -> Any:
    """The one device that shardings name, if they name one and no mesh.

    Raises:
      ValueError: they name something else, too.
    """
    found = dict.fromkeys(tree.leaves(shardings, is_leaf=lambda x: isinstance(x, PartitionSpec)))
    if not any(isinstance(each, SingleDeviceSharding) for each in found):
        return None
    if len(found) > 1:
        raise ValueError(
            f"jit: in_shardings and out_shardings hold {', '.join(map(repr, found))}. A program runs on one device, or "
            "on those of one mesh: give shardings that name the same device, or NamedShardings over one mesh, of which "
            "P() puts a whole array on each."
        )
    return next(iter(found)).device


def _frozen(shardings: Any) -> Any:
    """A pytree of shardings and None as a part of keys."""
    leaves, structure = tree.flatten(shardings, is_leaf=lambda x: x is None)
    return tuple(leaves), structure


def _check_cuts(
    what: str,
    names: Sequence[str],
    shardings: Sequence[NamedSharding | None],
    avals: Sequence[ShapedArray],
    fun: Callable[..., Any],
) -> None:
    for name, sharding, aval in zip(names, shardings, avals):
        if sharding is not None:
            sharding.check(aval.shape, "jit", f"{what} {name} of {describe_function(fun)}".lstrip())
