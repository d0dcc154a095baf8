"""The fast path of calls: compiled programs looked up by the types and devices of arguments alone.

`call_known` and `KnownCaller` are written twice: here, and in C in _known_calls.c, which takes a microsecond less. That
is compiled where there are a compiler and Python's headers when the package is installed; XPR_NATIVE=0 in the
environment turns it off.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from xpr import config, dtypes, tree
from xpr.backend import devices
from xpr.backend.argument_buffers import Writable, are_writable, writable_buffers
from xpr.backend.array import Array
from xpr.backend.buffers import Buffer
from xpr.backend.calling_executable import CallingExecutable
from xpr.backend.compiler import Executable
from xpr.backend.operands import plain_buffer, plain_type
from xpr.backend.plain_trees import flatten_plain
from xpr.backend.sequence import SequenceExecutable
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.waiting import KEEPERS, Waiting, keep_if_latest, keep_until_done
from xpr.compile.partition import has_sharding
from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import context
from xpr.core.primitive import cache_key
from xpr.transforms.boundary import drop_frame
from xpr.transforms.calls import Call, in_range
from xpr.tree_nodes import registered

try:
    from xpr.compile import _known_calls
except ImportError:
    _known_calls = None  # type: ignore[assignment]  # a module, where it is built

_LEAF = tree.structure(0)
Program = Executable | SequenceExecutable | PartitionedExecutable


class KnownProgram(NamedTuple):
    """A compiled program and how a call runs it; _known_calls.c knows the fields by their order.

    Attributes:
      run, handlers, waiting: what `Executable.hot_path` gives.
      constants: the buffers that its operands begin with.
      unused: buffers for the plain values among the leaves, those of one call in each list, that no call uses at the
        moment; None where new ones are made for each call.
      avals: the types of the results.
      devices: the device or the sharding of each result; None where all are on the default device.
      unflatten: makes the results from their leaves; None where they are a single array.
      donated: which of the leaves are donated, so that arrays among them lose their values.
      plan: what `unflatten` makes, as `plan_of` says it, for C; None where that can't, or there is a single array.
      failed: is called where a run fails whose results are waited for at once; None of other programs.
    """

    run: Callable[..., Any]
    handlers: list[Any] | None
    waiting: Waiting
    constants: list[Buffer]
    unused: list[list[Writable]] | None
    avals: tuple[ShapedArray, ...]
    devices: tuple[Any, ...] | None
    unflatten: Callable[[list[Array]], Any] | None
    donated: tuple[int, ...]
    plan: Any
    failed: Callable[[], None] | None


class KnownCalls:
    """The compiled programs of a jitted or mapped function for leaves in plain containers, by the leaves' types.

    Leaves are arrays, and plain values of NumPy and Python (`plain_type`). `direct` is for positional arguments that
    are all leaves: the key is what changes tracing, and of each leaf its type, followed by its device or sharding if it
    is a committed array, and by its class if it is a plain value. `in_trees` is for other plain containers, whose
    structure is part of the key; in C also for nodes of registered classes. `in_nodes` is for all other nodes.

    Where arguments can be static, `static` has their positions and names, and those of a call are part of the key. With
    `by_value` so is what is no operand of a function of control/compiled_eagerly.py: None, booleans, strings, types,
    tuples of these and of numbers, integers that don't fit or stand beside arrays of integers. That is for C alone,
    which looks whether the current trace runs known calls.
    """

    __slots__ = ("by_value", "direct", "in_nodes", "in_trees", "offered", "static")

    def __init__(
        self, static: tuple[tuple[int, ...], tuple[str, ...]] | None = None, by_value: bool = False
    ) -> None:  # fmt: skip
        self.static, self.by_value = static, by_value
        self.direct: dict[tuple[Any, ...], KnownProgram] = {}
        self.in_trees: dict[tuple[Any, ...], KnownProgram] = {}
        self.in_nodes: dict[tuple[Any, ...], KnownProgram] = {}
        self.offered: set[Any] = set()  # the kinds of calls that `remember` got, by types and devices

    def clear(self) -> None:
        """Forgets all."""
        self.direct.clear()
        self.in_trees.clear()
        self.in_nodes.clear()
        self.offered.clear()

    def forget(self, table: dict[tuple[Any, ...], KnownProgram], key: tuple[Any, ...]) -> None:
        """Forgets the program of a call whose run has failed, until the general path offers it again."""
        table.pop(key, None)
        self.offered.clear()

    def remember(
        self,
        call: Call,
        program: Program,
        constants: list[Buffer],
        out_tree: Any,
        donated: Sequence[int] = (),
    ) -> None:
        """Stores the program of a call, if its leaves are plain, or arrays with the program's shardings.

        As long as its path isn't known, see `direct_execute`, nothing is stored. `donated` are the positions of the
        leaves that the program was given for its results, and no longer hold anything.
        """
        kinds = call.key, *[x._device if type(x) is Array else type(x) for x in call.leaves]
        if context.axes or kinds in self.offered:
            return
        if donated and type(program) not in (Executable, PartitionedExecutable):  # which are refused a buffer twice
            return
        if any(not isinstance(call.leaves[i], Array | np.ndarray) for i in donated):  # numbers have shared buffers
            return
        path: tuple[Callable[..., Any], list[Any] | None, Waiting] | None
        if isinstance(program, PartitionedExecutable):
            path = program.run, None, Waiting.NEVER
        else:
            path = program.hot_path()
        if path is None:
            return
        self.offered.add(kinds)
        types: list[Any] = [x.aval if type(x) is Array else plain_type(x) for x in call.leaves]
        if None in types or not _are_in_place(program, call.leaves, len(constants)):
            return
        if any(aval.dtype == dtypes.float0 for aval in program.out_avals):  # not arrays: the general path returns them
            return
        run, handlers, waiting = path
        plain = [aval for x, aval in zip(call.leaves, types) if type(x) is not Array]
        unused: list[list[Writable]] | None = None
        # A result tells when the program has ended.
        can_tell = handlers and waiting in (Waiting.NEVER, Waiting.AT_ONCE) and not donated
        if can_tell and are_writable(plain, devices.default_device()):
            unused = []
        failed = None
        if isinstance(program, CallingExecutable) and waiting is Waiting.AT_ONCE:
            failed = program.failed
        unflatten = plan = None
        if out_tree != _LEAF:
            unflatten = out_tree.spec.unflatten
            plan = plan_of(out_tree.spec) if in_c else None
        known = KnownProgram(
            run, handlers, waiting, constants, unused, program.out_avals, _result_devices(program), unflatten,
            tuple(donated), plan, failed,
        )  # fmt: skip
        self.store(call, types, known)

    def store(self, call: Call, types: Sequence[ShapedArray], known: KnownProgram) -> None:
        """Stores a program in the table for the containers that the arguments of a call are in."""
        (args, kwargs), leaves = call.dynamic, call.leaves
        key: list[Any] = [] if self.static is None else [call.static_key()]
        for x, aval in zip(leaves, types):
            key += [aval, type(x)] if type(x) is not Array else [aval] if x._device is None else [aval, x._device]
        if not kwargs and _are_same(args, leaves):
            self.direct[settings.trace_key, *key] = known
            return
        flat = _flatten((args, kwargs))
        if flat is not None and _are_same(flat[0], leaves):
            try:
                self.in_trees[settings.trace_key, flat[1], *key] = known
                return
            except Exception:  # of static data in a node that have no hash: optree does without
                pass
        self.in_nodes[settings.trace_key, call.in_tree.spec, *key] = known


_TUPLE, _LIST, _DICT, _NAMEDTUPLE, _REGISTERED, _DATACLASS = range(6)  # the kinds of nodes in _known_calls.c


def plan_of(structure: Any) -> Any:
    """How a tree is made from its leaves: `...` for a leaf, None, or a tuple of a node's kind and its children's plans.

    What follows is for a dict its keys in order, each with the position of its child; for a namedtuple the class; for
    a node of a registered class the function that makes it, and its static data; for a dataclass that, the names of its
    fields, and its static data. None where a node is of another kind.
    """
    try:
        return _plan_of(structure)
    except NotImplementedError:
        return None


def _plan_of(structure: Any) -> Any:
    if structure.is_leaf():
        return ...
    kind, children = structure.type, tuple(map(_plan_of, structure.children()))
    if kind is type(None):
        return None
    node, positions = structure.one_level(), range(len(children))
    if kind in registered:
        data = node.walk(positions, lambda _, data, __: data, None)
        fields = registered[kind].fields
        if fields is not None:
            return _DATACLASS, children, kind, (*fields[0], *fields[1]), data
        return _REGISTERED, children, registered[kind].unflatten, data
    if kind is dict:
        return _DICT, children, tuple(node.unflatten(positions).items())
    if kind is tuple or kind is list:
        return (_TUPLE if kind is tuple else _LIST), children
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _NAMEDTUPLE, children, kind
    raise NotImplementedError


def _are_in_place(program: Program, leaves: Sequence[Any], n_constants: int) -> bool:
    """Whether no leaf has to be moved to where the program takes it, after its constants."""
    if isinstance(program, PartitionedExecutable):
        shardings = program.in_shardings[n_constants:]
        return all(type(x) is Array and has_sharding(x, sharding) for x, sharding in zip(leaves, shardings))
    default = devices.default_device()
    return all((x._device or default) is program.device for x in leaves if type(x) is Array)


def _result_devices(program: Program) -> tuple[Any, ...] | None:
    """The device or the sharding of each result; None where all are on the default device."""
    if isinstance(program, PartitionedExecutable):
        return program.placements
    return None if program.device is devices.default_device() else (program.device,) * len(program.out_avals)


def _are_same(values: Sequence[Any], leaves: Sequence[Any]) -> bool:
    return len(values) == len(leaves) and all(map(operator.is_, values, leaves))


def _call_in(
    known: KnownCalls, table: dict[tuple[Any, ...], KnownProgram], first: tuple[Any, ...], leaves: Sequence[Any]
) -> Any:
    """The results of a call with these leaves, if `table` of `known` has its program; else NotImplemented.

    `first` is what the key begins with.
    """
    key, buffers = list(first), []
    plain_at: list[tuple[int, ShapedArray]] = []  # where `buffers` has plain values so far, and their types
    for x in leaves:
        if type(x) is Array:
            key.append(x.aval)
            if x._device is not None:
                key.append(x._device)
            buffer = x._buffer
            if buffer is None and x._host is None:  # deleted, or with another layout in memory
                return NotImplemented
            buffers.append(x.buffer if buffer is None else buffer)
            continue
        aval = plain_type(x)
        if aval is None:
            return NotImplemented
        key += [aval, type(x)]
        plain_at.append((len(buffers), aval))
        buffers.append(x)
    try:
        program = table.get(tuple(key))
    except Exception:  # of a class that compares its nodes, which the general path explains
        return NotImplemented
    if program is None:
        return NotImplemented
    run, handlers, waiting, constants, unused, avals, result_devices, unflatten_results, donated, _, failed = program
    written: list[Writable] | None = None
    if plain_at:
        if result_devices is not None:
            return NotImplemented
        if unused is None:
            _put(buffers, plain_at)
        else:
            try:
                written = unused.pop()
            except IndexError:
                written = _new_buffers(plain_at)
            for (i, _), (memory, buffer) in zip(plain_at, written):
                memory[...] = buffers[i]
                buffers[i] = buffer
    if constants:
        buffers = constants + buffers
    arrays = [leaves[i] for i in donated if type(leaves[i]) is Array]
    for x in arrays:
        x._host = None  # a view of the memory that the program is to use again
    if handlers is None:
        try:
            outs = run(buffers)
        except RuntimeError:
            if donated:
                return NotImplemented
            raise
    else:
        try:
            results = run(buffers, waiting is Waiting.AT_EXIT)
            outs = results.consume_with_handlers(handlers)
            if waiting is Waiting.AT_ONCE:
                outs[0].block_until_ready()  # raises what the program failed with, as all of its results would
        except RuntimeError:
            if failed is not None:
                failed()
                known.forget(table, tuple(key))
            return NotImplemented  # the general path raises an error, moves arrays, or calls Python
        if waiting is Waiting.AT_EXIT:
            keep_until_done(results.consume_token())
        elif waiting in KEEPERS:
            KEEPERS[waiting](outs[0])
        elif unused is not None and written is not None and outs[0].is_ready():
            unused.append(written)
    for x in arrays:
        x.forget()
    if result_devices is None:
        if unflatten_results is None:
            return Array(avals[0], None, outs[0])
        return unflatten_results([Array(a, None, b) for a, b in zip(avals, outs)])
    if unflatten_results is None:
        return Array(avals[0], None, outs[0], result_devices[0])
    return unflatten_results(list(map(Array, avals, repeat(None), outs, result_devices)))


def _put(buffers: list[Any], plain_at: Sequence[tuple[int, ShapedArray]]) -> None:
    """Replaces plain values by buffers of them."""
    device = devices.default_device()
    for i, aval in plain_at:
        buffers[i] = plain_buffer(buffers[i], aval, device)


def _new_buffers(plain_at: Sequence[tuple[int, ShapedArray]]) -> list[Writable]:
    """Buffers to write plain values to."""
    return writable_buffers([aval for _, aval in plain_at], devices.default_device())


def _flatten_nodes(arguments: Any) -> tuple[list[Any], Any] | None:
    """The leaves and the structure; None where a class's own functions raise, which the general path explains."""
    try:
        leaves, structure = tree.flatten(arguments)
    except Exception:
        return None
    return leaves, structure.spec


def _without_static(
    numbers: tuple[int, ...], names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]:
    """The dynamic arguments, and `Call.static_key` of the static ones."""
    chosen = in_range(numbers, len(args))
    key: list[tuple[int | str, Any]] = [(i, cache_key(x)) for i, x in enumerate(args) if i in chosen]
    key += [(name, cache_key(kwargs[name])) for name in names if name in kwargs]
    args = tuple([x for i, x in enumerate(args) if i not in chosen])
    return args, {name: x for name, x in kwargs.items() if name not in names}, tuple(key)


def _call_known(known: KnownCalls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of a call whose program is known; NotImplemented for other calls."""
    statics: tuple[Any, ...] = ()
    if known.by_value:
        return NotImplemented
    if known.static is not None:
        args, kwargs, key = _without_static(*known.static, args, kwargs)
        statics = (key,)
    if known.direct and not kwargs:
        results = _call_in(known, known.direct, (settings.trace_key, *statics), args)
        if results is not NotImplemented:
            return results
    for table, flatten in ((known.in_trees, flatten_plain), (known.in_nodes, _flatten_nodes)):
        flat = flatten((args, kwargs)) if table else None
        if flat is not None:
            leaves, structure = flat
            results = _call_in(known, table, (settings.trace_key, structure, *statics), leaves)
            if results is not NotImplemented:
                return results
    return NotImplemented


class KnownCaller:
    """A callable whose calls are looked up in `known`; a method `call` takes the arguments of all others.

    Errors leave it without a frame of its own, as from C.
    """

    __slots__ = ("known",)
    known: KnownCalls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if context.trace.runs_known_calls:
            results = _call_known(self.known, args, kwargs)
            if results is not NotImplemented:
                return results
        try:
            return self.call(args, kwargs)
        except Exception as error:
            drop_frame(error)
            raise

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


call_known: Callable[[KnownCalls, tuple[Any, ...], dict[str, Any]], Any] = _call_known
_flatten: Callable[[Any], tuple[list[Any], Any] | None] = flatten_plain
in_c = _known_calls is not None and tree.flatten_natively is not None
if in_c:
    _known_calls.bind({
        "Array": Array, "KnownCalls": KnownCalls, "context": context, "settings": settings, "config": vars(config),
        "INEXACT": dtypes.INEXACT, "dtype": np.dtype, "generic": np.generic, "plain_type": plain_type,
        "cache_key": cache_key, "keep_until_done": keep_until_done, "keep_if_latest": keep_if_latest, "put": _put,
        "new_buffers": _new_buffers, "flatten_plain": tree.flatten_natively, "flatten_nodes": _flatten_nodes,
    })  # fmt: skip
    call_known, _flatten = _known_calls.call_known, tree.flatten_natively
    KnownCaller = _known_calls.KnownCaller  # type: ignore[assignment,misc]
