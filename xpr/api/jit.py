"""jit: trace a function once per abstract signature, compile it, and run the compiled program from then on.

A call has a fast path and a general path. For arrays, numbers, and containers of them, with concrete values, the
compiled program is looked up by their types and devices, and by the static arguments (`KnownCalls`). Anything else
(tracers, refs, what was not called before) takes the general path. Transformations work on the traced jaxpr: under them
the call becomes an `xla_call`.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from xpr import tree
from xpr.api.compile_log import explain_compilation, explain_miss, log_compile, timed
from xpr.api.compiled import Compiled, CompiledForSeveral
from xpr.api.jit_layouts import layouts_of_arguments, requested_layouts, split_formats
from xpr.api.jit_shardings import (
    check_placement,
    device_of_arguments,
    moving_results,
    names_memory,
    program_shardings,
    requested_shardings,
    single_device,
    types_with_requested,
)
from xpr.api.make_jaxpr import shaped
from xpr.api.options import JitOptions, by_number_and_name, check_options, read_once, split_options
from xpr.api.stages import Lowered, Traced, match_donations
from xpr.backend import compiler, devices, mappings
from xpr.backend.allocator import release_memory
from xpr.backend.array import Array, layout_of
from xpr.backend.mesh import MeshOfProcesses
from xpr.backend.sharding import NamedSharding
from xpr.compile.argument_shardings import ArgumentShardings
from xpr.compile.committed import device_of, different_devices
from xpr.compile.evaluate import EvalTrace
from xpr.compile.known_calls import KnownCaller, KnownCalls
from xpr.compile.partition import forget_moves, is_elsewhere, shardings_of
from xpr.compile.reference import reference_eval
from xpr.compile.relayout import forget_relayouts
from xpr.config import settings
from xpr.control.compiled import clear_compiled
from xpr.control.refs import check_aliases
from xpr.control.tracing import forget_bodies
from xpr.control.xla_call import call as call_jaxpr
from xpr.core.avals import ShapedArray, aval_of, full_name, integer, is_of_users, is_type_alone, shortened
from xpr.core.function_caches import cache_of, keep_trace, recorded, trace_of
from xpr.core.interpreter import Tracer, context, current_type, transformation
from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.primitive import all_primitives
from xpr.core.refs import AbstractRef, Ref
from xpr.core.source import check_function, depth_of_user, describe_function, function_name
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.errors import ArgumentError, DonationError
from xpr.garbage_collection import with_rare_collections
from xpr.notices import warn
from xpr.primitives.sharding_constraint import constrain
from xpr.transforms.boundary import boundary
from xpr.transforms.calls import Call, in_range
from xpr.transforms.flat import FlatFunction, as_array, named_like, signature_of
from xpr.transforms.on_arrays import lowered
from xpr.transforms.stage import StageTrace, is_staged, stage

__all__ = ["clear_caches", "jit"]


class _Caches:
    """The caches of one function under one set of options."""

    __slots__ = ("traces", "compiled", "known", "reason", "variants", "__weakref__")

    def __init__(self, options: JitOptions) -> None:
        # Why other processes trace the last call, too; "" if they don't, None if unknown.
        self.reason: str | None = None
        self.traces: dict[Any, Traced] = {}
        # By the keys of calls whose program closes over mutable values: these with their states, one for each trace.
        self.variants: dict[Any, list[list[tuple[Any, Any]]]] = {}
        self.compiled: dict[Any, Compiled] = {}
        self.known = KnownCalls(options.static)
        _all_caches.add(self)

    def clear(self) -> None:
        self.traces.clear()
        self.variants.clear()
        self.compiled.clear()
        self.known.clear()


_all_caches: weakref.WeakSet[_Caches] = weakref.WeakSet()
_by_callable: weakref.WeakKeyDictionary[Any, dict[Any, _Caches]] = weakref.WeakKeyDictionary()


def _caches_of(fun: Callable[..., Any], options: JitOptions) -> _Caches:
    """The caches shared by every `jit` of the same function with the same options; they are freed with it."""
    try:
        by_options = cache_of(fun, "jit") if type(fun) is FunctionType else _by_callable.setdefault(fun, {})
        return by_options.setdefault(options.key(), _Caches(options))  # type: ignore[no-any-return]
    except TypeError:  # no weak references to the callable, or no hash
        return _Caches(options)


def clear_caches() -> None:
    """Forgets every traced and compiled program, and returns free memory to the system.

    >>> import xpr
    >>> xpr.clear_caches()
    """
    for caches in list(_all_caches):
        caches.clear()
    clear_compiled()
    forget_bodies()
    forget_moves()
    forget_relayouts()
    compiler.forget_recent()
    for primitive in all_primitives():
        primitive.plans.clear()
        primitive.typed.clear()
    release_memory()


mappings.when_scarce(clear_caches)


def _makes_an_array(x: Any) -> bool:
    """Whether an argument is an object with `__jax_array__`, other than a symbolic dimension."""
    return hasattr(type(x), "__jax_array__") and not is_symbolic_dim(x) and not is_of_users(x)


def _type_of_argument(x: Any) -> ShapedArray:
    if _makes_an_array(x):
        raise TypeError("It is no array, but makes one.")
    aval = aval_of(x)
    return current_type(x) if aval.is_high else aval  # type: ignore[no-any-return]  # a user's type


class JitFunction(KnownCaller):
    """A function that is compiled when called; `jit` returns it."""

    __closes_over__ = ("fun",)
    __fingerprint__ = ("fun", "options")

    def __init__(self, fun: Callable[..., Any], options: JitOptions):
        self.fun, self.options, self.name = fun, options, function_name(fun)
        self.caches = _caches_of(fun, options)
        self.known = self.caches.known
        named_like(self, fun)

    @property
    def __signature__(self) -> inspect.Signature | None:
        """The function's signature, also for those who don't look at `__wrapped__`; None where it has none."""
        try:
            return inspect.signature(self.fun)
        except (TypeError, ValueError):
            return None

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self.fun!r}>"  # as JAX writes it, for doctests and logs
        except Exception:  # whatever the function's own __repr__ raises
            return "<PjitFunction>"

    def __copy__(self) -> JitFunction:
        """A copy without compiled programs, whose function will be replaced, see control/closures.py."""
        clone = JitFunction.__new__(JitFunction)
        clone.__dict__.update(self.__dict__)
        clone.caches = _Caches(self.options)
        clone.known = clone.caches.known
        return clone

    def __reduce__(self) -> Any:
        """One that its module has under its name is read as that; others are made anew from what they compile."""
        name = getattr(self, "__qualname__", "")
        if getattr(sys.modules.get(self.__module__), name, None) is self:
            return name
        return JitFunction, (self.fun, self.options)

    def __getstate__(self) -> dict[str, Any]:
        """What it consists of, by name, for those who look at it; pickles are made by `__reduce__`."""
        return {"fun": self.fun, "function_name": self.name, "options": self.options}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: `jit` may decorate one, with `self` static or a pytree."""
        return self if instance is None else _Bound(self, instance)

    @boundary
    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The general path, for every kind of call."""
        if settings.disable_jit:
            return self.fun(*args, **kwargs)
        call = self.flattened(args, kwargs)
        try:
            call.typed([x.aval if type(x) is Array else _type_of_argument(x) for x in call.leaves])
        except TypeError as error:
            self.check_arrays(call, error)
            raise
        if self.caches.variants:
            self.pick_variant(call)
        trace = context.trace
        if not isinstance(trace, EvalTrace) or not trace.runs_programs:
            traced = self.traced(call)
            self.check_refs(traced, call)
            return tree.unflatten(traced.out_tree, self.staged_call(traced, call.leaves))
        if self.options.backend == "reference":
            traced = self.traced(call)
            self.check_refs(traced, call)
            return tree.unflatten(traced.out_tree, _by_reference(traced, call.leaves))
        compiled = self.compiled_for(call)
        self.check_refs(compiled, call)
        self.check_committed(compiled, call)
        if self.options.in_layouts is not None:
            layouts_of_arguments(self.fun, self.options, call.in_tree, call.leaves, call.avals)  # refuses others
        trace.check_transfers(call.leaves, compiled.flat_shardings()[0])
        try:
            outs = compiled.run(call.leaves)
        except OverflowError:
            self.check_integers(call)
            raise
        except DonationError:
            if compiled.state is None:
                compiled.check_donated(compiled.buffers(call.leaves), call.names(self.fun))
            raise
        except TypeError as error:
            self.check_values(call, error)
            raise
        if compiled.state is None and compiled.layouts is None:  # only now is it known whether the program takes long
            self.known.remember(call, compiled.executable, compiled.constants, compiled.out_tree, compiled.donated)
        return tree.unflatten(compiled.out_tree, outs)

    def flattened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call with its leaves in a list, without their types.

        Raises:
          ValueError: a static argument can't be hashed.
        """
        numbers, names = self.options.static_argnums, self.options.static_argnames
        if not numbers and not names:
            return Call(args, kwargs, {})
        static: dict[int | str, Any] = {n: args[n] for n in sorted(in_range(numbers, len(args)))}
        static.update((name, kwargs[name]) for name in sorted(names & kwargs.keys()))
        call = Call(args, kwargs, static)
        call.check_hashable("jit", self.fun, "don't mark it static")
        return call

    def check_arrays(self, call: Call, error: TypeError) -> None:
        """Raises TypeError if an argument is not an array, naming it."""
        for name, x in zip(call.names(self.fun), call.leaves):
            if _makes_an_array(x):
                raise ArgumentError(
                    f"jit: argument {name} of {describe_function(self.fun)} is of type {full_name(type(x))}, which is "
                    "no array. Triggering __jax_array__() during abstractification is no longer supported. "
                    f"Pass xpr.numpy.asarray({name}), or register the class as a pytree."
                ) from None
            try:
                aval_of(x)
            except TypeError:
                raise TypeError(
                    f"jit: Error interpreting argument to {describe_function(self.fun)}, which is to be compiled, as "
                    f"an abstract array. The problematic value is of type {full_name(type(x))}, {shortened(x)}, and "
                    f"was passed to the function at path {name}. Mark it static (static_argnums or static_argnames) "
                    "if it is hashable and the same in many calls."
                ) from error

    def check_values(self, call: Call, error: TypeError) -> None:
        """Raises TypeError if an argument is only the type of an array, naming it."""
        for name, x in zip(call.names(self.fun), call.leaves):
            if is_type_alone(x):
                raise TypeError(
                    f"jit: Argument '{name}' of shape {x.dtype.name}[{','.join(map(str, x.shape))}] of type "
                    f"{type(x).__name__}, where {describe_function(self.fun)} takes an array, is only the type of one, "
                    "which is not a valid JAX type to compute with. Functions are traced with types by eval_shape, "
                    "make_jaxpr, and the methods lower and trace of a jitted function."
                ) from error

    def check_integers(self, call: Call) -> None:
        """Raises OverflowError if an argument is a Python integer that its dtype can't represent, naming it."""
        for name, x in zip(call.names(self.fun), call.leaves):
            if type(x) is int:
                try:
                    integer(x, aval_of(x).dtype)
                except OverflowError as error:
                    what = f"An overflow in a call of {describe_function(self.fun)}, whose argument path is {name}."
                    raise OverflowError(f"{what} {error}") from None

    def check_refs(self, stage: Traced | Compiled, call: Call) -> None:
        """Raises RefError if the function gets a ref, or a mutable value of a user's type, twice."""
        if isinstance(stage, Traced):
            closed_over = stage.closed_over if stage.refs is not None or stage.is_high else None
        else:
            closed_over = None if stage.state is None else stage.state.closed_over
        if closed_over is not None:
            check_aliases("jit", self.fun, lambda: call.names(self.fun), call.leaves, closed_over)

    def check_committed(self, compiled: Compiled, call: Call) -> None:
        """Raises ValueError where an argument is on other devices than `compiled` is for, or partitioned otherwise.

        On one device `compiled_for` has looked, and a program on those of several processes takes each one's own.
        """
        if not isinstance(compiled, CompiledForSeveral) or isinstance(compiled.mesh, MeshOfProcesses):
            return
        for i, (x, sharding) in enumerate(zip(call.leaves, compiled.argument_shardings())):
            if is_elsewhere(x, sharding):
                raise ValueError(self.message_elsewhere(call, i, sharding))

    def message_elsewhere(self, call: Call, number: int, sharding: Any) -> str:
        """The error message about an argument that was put on other devices than a program needs it on."""
        what, x, name = describe_function(self.fun), call.leaves[number], call.names(self.fun)[number]
        if x.sharding.devices == sharding.devices:
            return (
                f"jit: argument {name} of {what}, {x.aval.str_short()}, is not sharded as in_shardings say, and arrays "
                "that were put on devices are not moved:\n"
                f"  asked for   {sharding}\n  got         {x.sharding}\n"
                "Put it there before: xpr.device_put(x, sharding); or leave in_shardings out."
            )
        ids = [device.id for device in sharding.devices]
        of_program = (
            f"a sharding or a sharding_constraint inside jit with device ids {ids}, those of {sharding.mesh.text}"
        )
        return different_devices(self.at_line(), [x], [name], of_program)

    def at_line(self) -> str:
        """The function behind its line, `train.py:41: loss`."""
        name, _, line = describe_function(self.fun).partition(" at ")
        return f"{line}: {name}" if line else name

    def staged_call(self, traced: Traced, leaves: Sequence[Any]) -> list[Any]:
        """A call inside another program, with the arguments' and results' shardings as constraints there.

        Raises:
          ValueError: it has options for XLA, which are those of whole programs.
        """
        if self.options.xla_options and is_staged():
            raise ValueError(
                f"jit: {describe_function(self.fun)} is called inside of a function that is traced, and "
                "`compiler_options` can only be passed to top-level `jax.jit`, since XLA compiles programs as a whole: "
                f"{self.options.xla_options}."
            )
        if self.options.in_shardings is None and self.options.out_shardings is None:
            return self.call_or_inline(traced, leaves)
        ins, outs = requested_shardings(self.fun, self.options, traced)
        results = self.call_or_inline(traced, [x if s is None else constrain(x, s) for x, s in zip(leaves, ins)])
        return [x if s is None else constrain(x, s) for x, s in zip(results, outs)]

    def call_or_inline(self, traced: Traced, leaves: Sequence[Any]) -> list[Any]:
        """The call as an equation of the program that is traced, or the equations of the function, as `inline` says."""
        closed = traced.jaxpr
        if self.options.inline and traced.refs is None and is_staged():
            return list(map(as_array, eval_jaxpr(closed.jaxpr, closed.consts, *leaves)))
        return call_jaxpr(closed, leaves, self.name)

    def traced(self, call: Call) -> Traced:
        """The function's jaxpr for one abstract signature, traced the first time."""
        cached = self.cached_trace(call)
        if cached is not None and cached.in_shardings is None:
            return cached
        shardings = ArgumentShardings(call.leaves)
        if cached is not None and cached.in_shardings == shardings.all():
            return cached
        if settings.no_tracing:
            raise RuntimeError(
                f"jit: {describe_function(self.fun)} would be traced for a new signature, and no_tracing is set."
            )
        self.explain_miss(call)
        traced = self.newly_traced(call, shardings)
        self.note_variant(call, traced)
        if not any(isinstance(c, Tracer) or (type(c) is Ref and c.owner is not None) for c in traced.jaxpr.consts):
            keep_trace(self.caches.traces, call.key, traced)
        elif isinstance(trace := transformation(), StageTrace) and (traced.refs is not None or not traced.closed_over):
            trace.calls[self.caches, call.key] = traced
        return traced

    def explain_miss(self, call: Call) -> None:
        """Logs why a call is traced, while explain_cache_misses is on."""
        keys = [_without_variant(key) for key in self.caches.traces]
        explain_miss(self.fun, _without_variant(call.key), keys, lambda: call.names(self.fun))

    def pick_variant(self, call: Call) -> None:
        """Makes the key of a call that of the trace for the present states of mutable values that it closes over."""
        variants = self.caches.variants.get(call.key)
        if variants is not None:
            number = next((i for i, each in enumerate(variants) if _is_current(each)), len(variants))
            call.key = (call.key, number)

    def note_variant(self, call: Call, traced: Traced) -> None:
        """Remembers the states in which the mutable values are that a trace closes over, if there are any."""
        pairs = zip(traced.jaxpr.jaxpr.constvars, traced.jaxpr.consts)
        states = [(x, v.aval) for v, x in pairs if v.aval.has_qdd]
        if any(isinstance(x, Tracer) for x, _ in states):
            return  # it is not kept
        key = _without_variant(call.key)
        if states or key is not call.key:
            variants = self.caches.variants.setdefault(key, [])
            call.key = (key, len(variants))
            variants.append(states)

    def cached_trace(self, call: Call) -> Traced | None:
        """The jaxpr that was traced for the types of a call, by this function or while an outer one is staged."""
        try:
            cached = trace_of(self.caches.traces, call.key, self.fun)
        except Exception as error:  # a user's, by ==
            call.refuse_comparison("jit", self.fun, error)
        outer: Any = context.trace
        while cached is None and outer is not None:
            if isinstance(outer, StageTrace):
                cached = outer.calls.get((self.caches, call.key))
            outer = outer.parent
        return cached

    def newly_traced(self, call: Call, shardings: ArgumentShardings) -> Traced:
        """The function's jaxpr for the types of a call; it is traced, and `shardings` say whether it reads those."""
        flat = FlatFunction(call.of_dynamic(self.fun), call.in_tree)
        signature = signature_of("compiled with jit", flat.fun, *call.dynamic)
        options = self.options
        run = flat if options.out_memory is None else moving_results(flat, options.out_memory)
        with timed("tracing", self.name):
            if options.in_shardings is None:
                closed = stage(run, call.avals, signature, shardings)
            else:
                closed = stage(run, types_with_requested(self.fun, options, call), signature)
        if options.own_options.get("reroll"):
            from xpr.control.reroll.reroll import reroll  # 30 ms of imports that most programs never need

            closed = reroll(closed)
        asked = self.donated_leaves(call)
        traced_for = shardings.all() if shardings.was_read else None
        return Traced(
            closed, call.in_tree, flat.out_tree, self.name, self.usable(asked, closed, call), options.xla_options,
            options.own_options.get("steps", True), traced_for, asked,
        )  # fmt: skip

    def donated_leaves(self, call: Call) -> list[int]:
        """The flat positions of donated arguments."""
        numbers, names = self.options.donate_argnums, self.options.donate_argnames
        if not numbers and not names:
            return []
        return [i for i, flag in enumerate(call.flags(in_range(numbers, len(call.args)), names)) if flag]

    def usable(self, donated: Sequence[int], closed: ClosedJaxpr, call: Call) -> list[int]:
        """The donated arguments whose memory a result can use; warns of others that the program reads.

        What refs hold is donated in any case, and they remain.
        """
        if any(aval.is_high for aval in (*closed.in_avals, *closed.out_avals)):
            return []
        donated = [i for i in donated if type(closed.in_avals[i]) is not AbstractRef]
        if not donated:
            return []
        reusable, others = match_donations(closed.jaxpr, donated)
        if others:
            names = call.names(self.fun)
            texts = [f"{names[i]} {closed.in_avals[i].str_short()}" for i in others]
            more = f" and {len(texts) - 8} more" if len(texts) > 8 else ""
            warn(
                f"Some donated buffers were not usable: {', '.join(texts[:8])}{more}. No result of "
                f"{describe_function(self.fun)} is left that takes as many bytes, so these arrays are kept. Donate "
                "what the results replace.",
                stacklevel=depth_of_user(),
            )
        return reusable

    def device(self) -> Any:
        """The device that `jit` was told, or the first one of the platform; None where it was told neither."""
        device, backend = self.options.device, self.options.backend
        platform = None if backend == "reference" else backend
        if isinstance(device, str) or (device is None and platform):
            return devices.local_devices(backend=device or platform)[0]
        return device

    def compiled_for(self, call: Call) -> Compiled:
        """The program for a call on its arguments' devices, compiled the first time."""
        leaves = [x.held() if type(x) is Ref else x for x in call.leaves]
        arrays = lowered(call.avals, leaves)
        device = self.device() or device_of(arrays, self.at_line, lambda: call.names(self.fun))
        placement = shardings_of(arrays) if type(device) is NamedSharding else device
        if any(map(layout_of, arrays)):
            placement = tuple([x.format if type(x) is Array and x.committed else None for x in arrays])
        key = (call.key, placement)
        try:
            compiled = self.caches.compiled.get(key)
        except Exception as error:  # a user's, by ==
            call.refuse_comparison("jit", self.fun, error)
        if compiled is None:
            if settings.explain_cache_misses:
                before = [placement for known, placement in self.caches.compiled if known == call.key]
                explain_compilation(self.fun, key[1], before, lambda: call.names(self.fun))
            compiled = self.loaded_or_compiled(call, device, leaves)
            self.caches.compiled[call.key, placement] = compiled  # the trace may have changed the key
        return compiled

    @with_rare_collections
    def loaded_or_compiled(self, call: Call, device: Any, leaves: Sequence[Any]) -> Compiled:
        """The program for a call: from disk, without tracing, where that is known to give the same; else compiled."""
        stored = None
        with_layouts = self.options.has_layouts or any(map(layout_of, leaves))
        is_high = any(aval.is_high for aval in call.avals)
        if settings.programs_folder and not with_layouts and not is_high and self.cached_trace(call) is None:
            from xpr.api.stored_calls import StoredCall  # 10 ms of imports, for processes that keep programs

            stored = StoredCall(self, call, device)
            compiled = stored.load()
            if compiled is not None:
                self.caches.reason = ""
                return compiled
            with recorded(stored.recording):
                traced = self.traced(call)
        else:
            traced = self.traced(call)
        for constant in traced.program.consts:
            if isinstance(constant, Tracer):
                raise constant.misused()
        shardings = program_shardings(self.fun, self.options, traced, device, leaves)
        layouts = requested_layouts(self.fun, self.options, traced, leaves, shardings is not None)
        with timed("lowering", self.name):
            lowered = traced.placed(traced.interface.names, device, shardings, layouts).lower()
        log_compile(self.name, traced.jaxpr.in_avals)
        with timed("compiling", self.name):
            compiled = lowered._compiled(may_be_tiered=True)
        if stored is not None and compiled.layouts is None:
            stored.save(traced, compiled)
            self.caches.reason = stored.reason or ""
        return compiled

    @boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces without compiling; arguments may be anything with a shape and a dtype."""
        call = self.flattened(args, kwargs)
        call.typed(list(map(shaped, call.leaves)))
        if self.caches.variants:
            self.pick_variant(call)
        traced = self.traced(call)
        device = self.device()
        if traced.has_user_values:
            return traced.placed(call.names(self.fun), device, None)
        shardings = program_shardings(self.fun, self.options, traced, device, call.leaves)
        layouts = requested_layouts(self.fun, self.options, traced, call.leaves, shardings is not None)
        placed = traced.placed(call.names(self.fun), device, shardings, layouts)
        placed.default_device = device_of_arguments(call.leaves)
        return placed

    @boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers without compiling or running.

        If arguments (arrays, or `ShapeDtypeStruct`s with a sharding) are on several devices, it is for those.

        >>> import xpr
        >>> "stablehlo.sine" in xpr.jit(xpr.numpy.sin).lower(1.0).as_text()
        True
        """
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The structure of the result, a `ShapeDtypeStruct` at each leaf."""
        return self.trace(*args, **kwargs).out_info

    def _cache_size(self) -> int:
        """How many programs are compiled for this function: JAX's name, which tests of retracing use."""
        return len(self.caches.compiled)

    def clear_cache(self) -> None:
        """Forgets the traced and compiled programs of this function, and recent ones that may be of the same text."""
        self.caches.clear()
        compiler.forget_recent()


def _by_reference(traced: Traced, leaves: Sequence[Any]) -> list[Any]:
    """Runs a traced function in NumPy."""
    program, refs = traced.program, traced.state
    outs = reference_eval(program.jaxpr, program.consts, *(leaves if refs is None else refs.inputs(leaves, ())))
    arrays = [Array(a, x) for a, x in zip(program.out_avals, outs)]
    return arrays if refs is None else refs.store(leaves, arrays)


def _without_variant(key: Any) -> Any:
    """The key of a call without the number that `pick_variant` adds, as (key, number)."""
    return key[0] if type(key[0]) is tuple else key  # a key itself begins with that of the settings


def _is_current(states: Sequence[tuple[Any, Any]]) -> bool:
    """Whether mutable values are in the states in which a function was traced that closes over them."""
    return all(current_type(x) == aval for x, aval in states)


class _Bound:
    """A jitted function bound to an instance, like a method: calls and tracing pass the instance first."""

    def __init__(self, jitted: JitFunction, instance: Any):
        self.jitted, self.__self__ = jitted, instance
        self.__doc__, self.__module__ = jitted.__doc__, jitted.__module__  # which the class has, too

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted(self.__self__, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.jitted!r} bound to {self.__self__!r}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.jitted, name)
        return partial(found, self.__self__) if name in _OF_ARGUMENTS else found


_OF_ARGUMENTS = frozenset({"lower", "trace", "eval_shape"})


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
      fun: a function of pytrees of arrays to a pytree of arrays, without side effects; without it `jit` is a decorator
        with options.
      static_argnums: positions of arguments that are plain Python values, which must be hashable; the function is
        compiled anew for each new value. Without `static_argnames` it holds however these are passed.
      static_argnames: their names. Without `static_argnums` it holds however these are passed; with both, positions are
        for arguments passed by position and names for the others.
      donate_argnums: positions of arguments whose memory the results may use; the call deletes them.
      donate_argnames: their names.
      keep_unused: has no effect; unused arguments are always kept.
      device: where to run, or the name of a platform, whose first device it is; None for the default device.
      backend: "reference" evaluates in NumPy, without XLA; else the platform to run on.
      inline: whether programs that call the function have its equations in place of the call; the result is the same.
      compiler_options: XLA options by name, and two of xpr's own: `{"reroll": True}` turns unrolled layers into one
        `scan` before XLA sees them, see `xpr.reroll`; `{"steps": False}` keeps a deep network one program, which
        takes several times as long to compile and runs a few percent faster or slower on CPU.
      in_shardings: the shardings of the positional arguments: a `NamedSharding`, or a pytree prefix of the tuple of
        arguments of those and None; there are no arguments by name then. Arguments that were put on devices
        otherwise are refused, and all others moved; None takes them as they are. A `SingleDeviceSharding` is the device
        of the whole program. A `Format` is a sharding and a layout in memory: arrays that were put on devices with
        another one are refused. `Layout.AUTO` lets the compiler choose; see `input_formats` of the compiled program.
      out_shardings: the shardings of the results, in the same form; None lets the compiler choose. Results are
        row-major but for those of a `Format`.

    Returns:
      A function of the same arguments and results, with the methods `trace`, `lower` and `eval_shape`.

    Raises:
      ConcretizationTypeError: the function needs the value of an argument that is not static.
      TypeError: `device` is no device and no name, or positions or names of arguments are no integers or strings.
      ValueError: a static argument is not hashable, XLA has no such option, a sharding doesn't fit an array, or is
        given beside `device` or `backend`, or shardings are of several single devices, or of one and of a mesh; in
        calls, arguments were put on different devices, or otherwise than `in_shardings` say.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.jit
    ... def f(x):
    ...     return jnp.sum(x ** 2)
    >>> f(jnp.arange(3.0))
    Array(5., dtype=float32)
    """
    static_argnums, static_argnames = read_once(static_argnums), read_once(static_argnames)
    donate_argnums, donate_argnames = read_once(donate_argnums), read_once(donate_argnames)
    if fun is None:
        options = dict(
            static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options, in_shardings=in_shardings, out_shardings=out_shardings,
        )  # fmt: skip
        return lambda fun: jit(fun, **options)  # type: ignore[arg-type]  # the options are those of this very function
    check_function(fun, "jit")
    check_options("jit", compiler_options)
    in_shardings, in_layouts = split_formats(in_shardings, "in_shardings")
    out_shardings, out_layouts = split_formats(out_shardings, "out_shardings")
    check_placement(device, backend, in_shardings=in_shardings, out_shardings=out_shardings)
    out_memory = out_shardings if names_memory(out_shardings) else None
    named = single_device(in_shardings, out_shardings)
    if named is not None:
        device, in_shardings, out_shardings = named, None, None
    numbers, names = by_number_and_name(fun, "static", static_argnums, static_argnames)
    donate_numbers, donate_names = by_number_and_name(fun, "donate", donate_argnums, donate_argnames)
    for kind, static, donated in (("argnames", names, donate_names), ("argnums", numbers, donate_numbers)):
        both = [each for each in static if each in donated]
        if both:
            raise ValueError(
                f"jit: static_{kind} and donate_{kind} cannot intersect, and {both[0]!r} is in both: a static argument "
                "has no memory to donate."
            )
    own_options, xla_options = split_options(compiler_options)
    options_of_jit = JitOptions(
        numbers, frozenset(names), donate_numbers, frozenset(donate_names), device, backend, own_options, xla_options,
        in_shardings, out_shardings, in_layouts, out_layouts, out_memory, inline,
    )  # fmt: skip
    return JitFunction(fun, options_of_jit)
