"""Calls that were made before: programs found by the types and places of arrays alone, on one device or on several."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from xpr import dtypes, tree
from xpr.backend import devices
from xpr.backend.array import Array
from xpr.backend.compiler import Executable
from xpr.backend.plain_trees import flatten_plain
from xpr.backend.sequence import SequenceExecutable
from xpr.backend.shards import PartitionedExecutable
from xpr.compile.partition import lies_as
from xpr.config import settings
from xpr.core.interpreter import context

_LEAF = tree.structure(0)


class KnownCalls:
    """What a jitted or mapped function does when it is called as before, with arrays in plain containers.

    `direct` is for positional arguments that are all arrays: the key is what changes tracing, and of each array its
    type, followed by its place where it was put somewhere by name. `in_trees` is for other containers, whose structure
    is a part of the key. Entries are tuples: how to run the program; its handlers, None where running it gives
    buffers; the buffers of its constants; the types of the results; their places, None for the default device; how to
    put them together, None for a single array.
    """

    __slots__ = ("direct", "in_trees")

    def __init__(self) -> None:
        self.direct: dict[Any, Any] = {}
        self.in_trees: dict[Any, Any] = {}

    def clear(self) -> None:
        """Forgets all."""
        self.direct.clear()
        self.in_trees.clear()

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call that is known gives, evaluated; NotImplemented for others."""
        entry = None
        key: list[Any] = [settings.trace_key]
        buffers: list[Any] = []
        if not kwargs:
            for x in args:
                if type(x) is not Array:
                    break
                key.append(x.aval)
                if x._device is not None:
                    key.append(x._device)
                buffer = x._buffer
                buffers.append(x.buffer if buffer is None else buffer)
            else:
                entry = self.direct.get(tuple(key))
        if entry is None:
            if not self.in_trees:
                return NotImplemented
            plain = flatten_plain((args, kwargs))
            if plain is None:
                return NotImplemented
            leaves, structure = plain
            key, buffers = [settings.trace_key, structure], []
            for x in leaves:
                if type(x) is not Array:
                    return NotImplemented
                key.append(x.aval)
                if x._device is not None:
                    key.append(x._device)
                buffer = x._buffer
                buffers.append(x.buffer if buffer is None else buffer)
            entry = self.in_trees.get(tuple(key))
            if entry is None:
                return NotImplemented
        run, handlers, constants, avals, places, together = entry
        if constants:
            buffers = constants + buffers
        if handlers is None:
            outs = run(buffers)
        else:
            try:
                outs = run(buffers).consume_with_handlers(handlers)
            except RuntimeError:
                return NotImplemented  # the long road says why, or moves what lies elsewhere
        if places is None:
            if together is None:
                return Array(avals[0], None, outs[0])
            return together([Array(a, None, b) for a, b in zip(avals, outs)])
        if together is None:
            return Array(avals[0], None, outs[0], places[0])
        return together(list(map(Array, avals, repeat(None), outs, places)))

    def remember(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        program: Executable | SequenceExecutable | PartitionedExecutable,
        constants: list[Any],
        out_tree: Any,
    ) -> None:
        """Makes a call known that was made just now, where its leaves are arrays that lie as the program wants them."""
        if context.axes or not all(type(x) is Array for x in leaves):
            return
        if any(aval.dtype == dtypes.float0 for aval in program.out_avals):  # no arrays: they are made by the long road
            return
        key = [at for x in leaves for at in ((x.aval,) if x._device is None else (x.aval, x._device))]
        if isinstance(program, PartitionedExecutable):
            wanted = program.in_shardings[len(constants) :]
            if not all(lies_as(x, sharding) for x, sharding in zip(leaves, wanted)):
                return
            how: Any = program.run, None, constants, program.out_avals, program.out_shardings
        else:
            default = devices.default_device()
            if not all((x._device or default) is program.device for x in leaves):
                return
            places = None if program.device is default else (program.device,) * len(program.out_avals)
            how = *program.hot_path(), constants, program.out_avals, places
        if not kwargs and all(map(operator.is_, args, leaves)) and len(args) == len(leaves):
            self.direct[settings.trace_key, *key] = *how, None if out_tree == _LEAF else out_tree.unflatten
            return
        plain = flatten_plain((args, kwargs))
        if plain is not None and len(plain[0]) == len(leaves) and all(map(operator.is_, plain[0], leaves)):
            self.in_trees[settings.trace_key, plain[1], *key] = *how, out_tree.unflatten
