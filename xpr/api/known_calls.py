"""The fast path of `jit` and `pmap`: compiled programs looked up by the types and devices of arguments alone.

`call_known` is written twice: here, and in C in _known_calls.c, which takes a microsecond less. That is compiled where
there are a compiler and Python's headers when the package is installed; XPR_NATIVE=0 in the environment turns it off.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from xpr import dtypes, tree
from xpr.backend import devices, native
from xpr.backend.argument_buffers import Writable, writable_buffers
from xpr.backend.array import Array, host_buffer, plain_type
from xpr.backend.compiler import Executable
from xpr.backend.plain_trees import flatten_plain
from xpr.backend.sequence import SequenceExecutable
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.waiting import keep_until_done
from xpr.compile.partition import has_sharding
from xpr.config import settings
from xpr.core.avals import ShapedArray
from xpr.core.interpreter import context
from xpr.transforms.calls import Call

try:
    from xpr.api import _known_calls
except ImportError:
    _known_calls = None  # type: ignore[assignment]

_LEAF = tree.structure(0)


class KnownCalls:
    """The compiled programs of a jitted or mapped function for leaves in plain containers, by the leaves' types.

    Leaves are arrays, and plain values of NumPy and Python (`plain_type`). `direct` is for positional arguments that
    are all leaves: the key is what changes tracing, and of each leaf its type, followed by its device or sharding if it
    is a committed array, and by its class if it is a plain value. `in_trees` is for other containers, whose
    structure is part of the key. Values are tuples: how to run the program; its handlers, None if it returns buffers;
    whether to keep its token (`Executable.hot_path` says how); the buffers of its constants; lists of buffers for the
    plain values among its leaves that no call uses, None where they are put anew; the types of the results;
    their devices, None for the default one; how to unflatten them, None for a single array.
    """

    __slots__ = ("direct", "in_trees", "offered")

    def __init__(self) -> None:
        self.direct: dict[Any, Any] = {}
        self.in_trees: dict[Any, Any] = {}
        self.offered: set[Any] = set()  # the kinds of calls that `remember` got

    def clear(self) -> None:
        """Forgets all."""
        self.direct.clear()
        self.in_trees.clear()
        self.offered.clear()

    def remember(
        self,
        call: Call,
        program: Executable | SequenceExecutable | PartitionedExecutable,
        constants: list[Any],
        out_tree: Any,
    ) -> None:
        """Stores the program of a call, if its leaves are plain, or arrays with the program's shardings."""
        args, kwargs, leaves = call.args, call.kwargs, call.leaves
        kinds = call.key, *map(type, leaves)
        if context.axes or kinds in self.offered:
            return
        is_cut = isinstance(program, PartitionedExecutable)
        path: Any = (program.run, None, False) if is_cut else program.hot_path()  # type: ignore[union-attr]
        if path is None:
            return
        self.offered.add(kinds)
        arrays = [x for x in leaves if type(x) is Array]
        types: list[Any] = [x.aval if type(x) is Array else plain_type(x) for x in leaves]
        if None in types:
            return
        if any(aval.dtype == dtypes.float0 for aval in program.out_avals):  # not arrays: the general path returns them
            return
        key: list[Any] = []
        for x, aval in zip(leaves, types):
            key += [aval, type(x)] if type(x) is not Array else [aval] if x._device is None else [aval, x._device]
        unused: list[list[Writable]] | None = None
        if isinstance(program, PartitionedExecutable):
            if len(arrays) < len(leaves):
                return
            in_shardings = program.in_shardings[len(constants) :]
            if not all(has_sharding(x, sharding) for x, sharding in zip(leaves, in_shardings)):
                return
            result_devices: Any = tuple(program.out_shardings)
        else:
            default = devices.default_device()
            if not all((x._device or default) is program.device for x in arrays):
                return
            result_devices = None if program.device is default else (program.device,) * len(program.out_avals)
            _, handlers, in_background = path
            if len(arrays) < len(leaves) and handlers and not in_background:  # a result tells when it has ended
                first = writable_buffers([types[i] for i, x in enumerate(leaves) if type(x) is not Array], default)
                unused = None if first is None else [first]
        how = *path, constants, unused, program.out_avals, result_devices
        if not kwargs and all(map(operator.is_, args, leaves)) and len(args) == len(leaves):
            self.direct[settings.trace_key, *key] = *how, None if out_tree == _LEAF else out_tree.spec.unflatten
            return
        plain = _flatten((args, kwargs))
        if plain is not None and len(plain[0]) == len(leaves) and all(map(operator.is_, plain[0], leaves)):
            self.in_trees[settings.trace_key, plain[1], *key] = *how, out_tree.spec.unflatten


def _call_in(table: dict[Any, Any], first: tuple[Any, ...], leaves: Sequence[Any]) -> Any:
    """The results of a call with these leaves, if `table` has its program; else NotImplemented."""
    key, buffers = list(first), []
    plain_at: list[tuple[int, ShapedArray]] = []  # where `buffers` has plain values so far, and their types
    for x in leaves:
        if type(x) is Array:
            key.append(x.aval)
            if x._device is not None:
                key.append(x._device)
            buffer = x._buffer
            buffers.append(x.buffer if buffer is None else buffer)
            continue
        aval = plain_type(x)
        if aval is None:
            return NotImplemented
        key += [aval, type(x)]
        plain_at.append((len(buffers), aval))
        buffers.append(x)
    program = table.get(tuple(key))
    if program is None:
        return NotImplemented
    run, handlers, in_background, constants, unused, avals, result_devices, unflatten_results = program
    written = None
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
    if handlers is None:
        outs = run(buffers)
    else:
        try:
            results = run(buffers, in_background)
            outs = results.consume_with_handlers(handlers)
        except RuntimeError:
            return NotImplemented  # the general path raises an error, or moves arrays
        if in_background:
            keep_until_done(results.consume_token())
        elif written is not None and outs[0].is_ready():
            unused.append(written)
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
        buffers[i] = host_buffer(buffers[i], aval, device)


def _new_buffers(plain_at: Sequence[tuple[int, ShapedArray]]) -> list[Writable]:
    """Buffers for plain values of types for which there have been some."""
    return writable_buffers([aval for _, aval in plain_at], devices.default_device()) or []


def _call_known(known: KnownCalls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of a call whose program is known; NotImplemented for other calls."""
    if not kwargs:
        results = _call_in(known.direct, (settings.trace_key,), args)
        if results is not NotImplemented:
            return results
    if not known.in_trees:
        return NotImplemented
    plain = flatten_plain((args, kwargs))
    if plain is None:
        return NotImplemented
    leaves, structure = plain
    return _call_in(known.in_trees, (settings.trace_key, structure), leaves)


def _fastest() -> tuple[Callable[[KnownCalls, tuple[Any, ...], dict[str, Any]], Any], Callable[[Any], Any]]:
    if _known_calls is None or not native.wanted():
        return _call_known, flatten_plain
    _known_calls.bind(Array, settings, plain_type, _put, _new_buffers, keep_until_done)
    return _known_calls.call_known, _known_calls.flatten_plain


call_known, _flatten = _fastest()
