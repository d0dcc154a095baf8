"""The fast path of `jit` and `pmap`: compiled programs looked up by the types and devices of arguments alone."""

from __future__ import annotations

import operator
from itertools import repeat
from typing import Any

from xpr import dtypes, tree
from xpr.backend import devices
from xpr.backend.array import Array, host_buffer, plain_type
from xpr.backend.compiler import Executable
from xpr.backend.plain_trees import flatten_plain
from xpr.backend.sequence import SequenceExecutable
from xpr.backend.shards import PartitionedExecutable
from xpr.backend.waiting import keep_until_done
from xpr.compile.partition import has_sharding
from xpr.config import settings
from xpr.core.interpreter import context
from xpr.transforms.calls import Call

_LEAF = tree.structure(0)


class KnownCalls:
    """The compiled programs of a jitted or mapped function for leaves in plain containers, by the leaves' types.

    Leaves are arrays, and plain values of NumPy and Python (`plain_type`). `direct` is for positional arguments that
    are all leaves: the key is what changes tracing, and of each leaf its type, followed by its device or sharding if it
    is a committed array. `in_trees` is for other containers, whose
    structure is part of the key. Values are tuples: how to run the program; its handlers, None if it returns buffers;
    whether to keep its token (`Executable.hot_path` says how); the buffers of its constants; the types of the results;
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

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of a call whose program is known; NotImplemented for other calls."""
        entry = None
        plain_at: list[Any] | None = None  # where `buffers` has plain values so far, and their types
        if not kwargs:
            key, buffers = [settings.trace_key], []
            for x in args:
                if type(x) is Array:
                    key.append(x.aval)
                    if x._device is not None:
                        key.append(x._device)
                    buffer = x._buffer
                    buffers.append(x.buffer if buffer is None else buffer)
                    continue
                aval = plain_type(x)
                if aval is None:
                    break
                key.append(aval)
                if plain_at is None:
                    plain_at = []
                plain_at.append((len(buffers), aval))
                buffers.append(x)
            else:
                entry = self.direct.get(tuple(key))
        if entry is None:
            if not self.in_trees:
                return NotImplemented
            plain = flatten_plain((args, kwargs))
            if plain is None:
                return NotImplemented
            leaves, structure = plain
            key, buffers, plain_at = [settings.trace_key, structure], [], None
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
                key.append(aval)
                if plain_at is None:
                    plain_at = []
                plain_at.append((len(buffers), aval))
                buffers.append(x)
            entry = self.in_trees.get(tuple(key))
            if entry is None:
                return NotImplemented
        run, handlers, in_background, constants, avals, result_devices, unflatten_results = entry
        if plain_at is not None:
            if result_devices is not None:
                return NotImplemented
            device = devices.default_device()
            for i, aval in plain_at:
                buffers[i] = host_buffer(buffers[i], aval, device)
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
        if result_devices is None:
            if unflatten_results is None:
                return Array(avals[0], None, outs[0])
            return unflatten_results([Array(a, None, b) for a, b in zip(avals, outs)])
        if unflatten_results is None:
            return Array(avals[0], None, outs[0], result_devices[0])
        return unflatten_results(list(map(Array, avals, repeat(None), outs, result_devices)))

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
        types = [x.aval if type(x) is Array else plain_type(x) for x in leaves]
        if None in types:
            return
        if any(aval.dtype == dtypes.float0 for aval in program.out_avals):  # not arrays: the general path returns them
            return
        key: list[Any] = []
        for x, aval in zip(leaves, types):
            key += [aval] if type(x) is not Array or x._device is None else [aval, x._device]
        if isinstance(program, PartitionedExecutable):
            if len(arrays) < len(leaves):
                return
            in_shardings = program.in_shardings[len(constants) :]
            if not all(has_sharding(x, sharding) for x, sharding in zip(leaves, in_shardings)):
                return
            how: Any = *path, constants, program.out_avals, program.out_shardings
        else:
            default = devices.default_device()
            if not all((x._device or default) is program.device for x in arrays):
                return
            result_devices = None if program.device is default else (program.device,) * len(program.out_avals)
            how = *path, constants, program.out_avals, result_devices
        if not kwargs and all(map(operator.is_, args, leaves)) and len(args) == len(leaves):
            self.direct[settings.trace_key, *key] = *how, None if out_tree == _LEAF else out_tree.spec.unflatten
            return
        plain = flatten_plain((args, kwargs))
        if plain is not None and len(plain[0]) == len(leaves) and all(map(operator.is_, plain[0], leaves)):
            self.in_trees[settings.trace_key, plain[1], *key] = *how, out_tree.spec.unflatten
