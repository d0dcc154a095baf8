"""Compiled programs on one device.

The hot path of a call is `executable.run(buffers)`: two calls into jaxlib, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xpr.backend import native, runtime
from xpr.backend.allocator import machine_memory
from xpr.backend.buffers import Buffer, Device, handler_for, moved
from xpr.backend.waiting import Waiting, direct_execute
from xpr.core.avals import ShapedArray


class StoredProgram(NamedTuple):
    """The file of a program in the cache on disk, and what else is needed to load it.

    Attributes:
      file: the name of its file.
      options: those that it was compiled with, serialized.
      has_loops: whether it has loops, which may take long, see waiting.py.
      has_calls: whether it calls functions that XLA knows nothing of.
      calls: the libraries whose functions it calls, as in `LIBRARIES`.
    """

    file: str
    options: bytes
    has_loops: bool
    has_calls: bool
    calls: tuple[str, ...]


class Executable:
    """A compiled program on one device. Callers on the hottest path may use `raw` and `handlers` themselves.

    Attributes:
      stored: where the cache on disk has it; None where it hasn't.
      read_from: the bytes that it was read from, or True for the cache on disk; False where it was compiled here. The
        bytes that XLA makes of a program that it has read have no machine code.
    """

    __slots__ = ("__weakref__", "device", "handlers", "name", "out_avals", "raw", "read_from", "stored")

    def __init__(
        self, raw: Any, out_avals: Sequence[ShapedArray], device: Device, name: str,
        stored: StoredProgram | None = None, read_from: bytes | bool = False,
    ):  # fmt: skip
        self.raw, self.stored, self.read_from = raw, stored, read_from
        self.handlers = [handler_for(aval, device) for aval in out_avals]
        self.out_avals, self.device, self.name = tuple(out_avals), device, name

    def __repr__(self) -> str:
        return f"<Executable {self.name} on {self.device}>"

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program. Long ones go on in the background, and their errors come up where a result is read.

        Raises:
          DeletedArrayError: one of the buffers was deleted or donated.
          RuntimeError: the program failed in XLA; the message is XLA's.
        """
        try:
            return self.raw.execute_sharded(buffers).consume_with_handlers(self.handlers)
        except RuntimeError as error:
            on_device = moved(buffers, self.device, error)
            if on_device is None:
                error.add_note(f"In the program {self.name}.")
                raise
        return self.run(on_device)

    def hot_path(self) -> tuple[Callable[..., Any], list[Any] | None, Waiting] | None:
        """How the program is run from now on: the function, the handlers of its results, and when these are waited for.

        The function is that of `direct_execute`; None where that is None. Where there are no handlers, the function has
        one argument, and returns buffers.
        """
        path = direct_execute(self.raw, self.out_avals)
        return None if path is None else (path[0], self.handlers, path[1])

    def as_text(self) -> str:
        """The optimized program, in HLO."""
        return "\n\n".join(module.to_string() for module in self.raw.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates for the optimized program: flops, also of functions in C, bytes accessed, transcendentals."""
        return native.with_flops(self.raw.cost_analysis(), self.as_text())

    def memory_analysis(self) -> Any:
        """The sizes in bytes of arguments, outputs, temporaries, aliases, code and the peak, as attributes."""
        return self.raw.get_compiled_memory_stats()


class _TooLargeProgram:
    """A program that needs more memory than there is: it can be inspected, and raises when it is run.

    If it ran, the system would end the process when memory runs out.
    """

    __slots__ = ("_needed", "_out_avals", "raw")

    def __init__(self, raw: Any, needed: int, out_avals: Sequence[ShapedArray]):
        self.raw, self._needed, self._out_avals = raw, needed, out_avals

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, *_: Any, **__: Any) -> Any:
        stats = self.raw.get_compiled_memory_stats()
        sizes = {"arguments": stats.argument_size_in_bytes, "results": stats.output_size_in_bytes,
                 "temporaries": stats.temp_size_in_bytes}  # fmt: skip
        largest = sorted(set(self._out_avals), key=lambda aval: -aval.size * aval.dtype.itemsize)[:3]
        raise runtime._jax.JaxRuntimeError(
            f"RESOURCE_EXHAUSTED: Out of memory: the program needs {_gibibytes(self._needed)} "
            f"({', '.join(f'{name} {_gibibytes(n)}' for name, n in sizes.items())}), and the machine has "
            f"{_gibibytes(machine_memory() or 0)}. Its results are of types "
            f"{', '.join(aval.str_short() for aval in largest)}{', ...' if len(set(self._out_avals)) > 3 else ''}. "
            "Compute less at a time, in batches say; for a gradient, see xpr.checkpoint."
        )


class _PluginProgram:
    """A program on another platform than the CPU, whose plugin would end the process if it were given a CPU buffer."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any):
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute_sharded(self, buffers: list[Buffer], with_tokens: bool = False) -> Any:
        for buffer in buffers:
            if not buffer.is_deleted() and buffer.platform() == "cpu":
                raise RuntimeError("A buffer is on CPU, and the program is not.")
        return self.raw.execute_sharded(buffers, with_tokens)


def _gibibytes(n: int) -> str:
    return f"{n / 2**30:,.1f} GiB"


def runnable(raw: Any, out_avals: Sequence[ShapedArray], device: Device) -> Any:
    """The program, if there is enough memory for it; else one that raises when it is run."""
    if device.platform != "cpu":
        return _PluginProgram(raw)
    most = machine_memory()
    if most is None:
        return raw
    stats = raw.get_compiled_memory_stats()
    needed = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    needed -= stats.alias_size_in_bytes
    return _TooLargeProgram(raw, needed, out_avals) if needed > most else raw
