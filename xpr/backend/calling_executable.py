"""Programs on one device that call Python functions.

NOTE [callbacks that are seldom called]: in many programs all callbacks are in branches that are hardly ever taken, such
as those that raise errors. Such a program first runs without its callbacks, on the ordinary client and as fast as any
other: a call of Python fails there (failing_calls.py), and the program with it. If it fails, nothing has happened that
anyone could see, for it has no other effects and its arguments are not donated. Then it runs with its callbacks,
as in NOTE [programs with callbacks]; it is compiled for that when this happens for the first time.

If calls turn out to be frequent, trying first is a waste: after the n-th run in a row that came to a call, the next
2^n runs are made with callbacks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.backend.buffers import Buffer, Device, get_all, handler_for, put
from xpr.backend.callbacks import callback_depth, client_of_depth, stored_exception
from xpr.backend.executable import Executable, runnable
from xpr.backend.waiting import Waiting, block_until_ready, direct_execute
from xpr.core.avals import ShapedArray

_MOST_SKIPPED = 1024  # runs
_OFTEN = 3  # runs in a row that came to a call, from which on they are taken for frequent


class CallingExecutable(Executable):
    """A program that calls Python functions; it is waited for, see NOTE [programs with callbacks].

    Attributes:
      compile_for: the function that compiles it for a device of a client for callbacks.
      without_calls: the program that fails where it would call Python; None where calls are expected, so that it
        would not be worth trying.
      execute: runs `without_calls`.
    """

    __slots__ = (
        "compile_for", "_constants", "execute", "_failed", "_programs", "_sent", "_skipped", "without_calls"
    )  # fmt: skip

    def __init__(
        self, compile_for: Callable[[Device], Any], out_avals: Sequence[ShapedArray], device: Device, name: str,
        without_calls: Executable | None,
    ):  # fmt: skip
        self.compile_for = compile_for
        self.without_calls: Any = None if without_calls is None else without_calls.raw
        self.execute: Any = None if without_calls is None else without_calls.raw.execute_sharded
        self._failed = 1  # runs in a row that came to a call, which the first one is supposed to
        self._skipped = 0  # runs that are not to be tried without calls
        self._programs: dict[Device, Any] = {}
        self._constants: list[Buffer] = []
        self._sent: dict[Device, list[Buffer]] = {}  # the constants
        super().__init__(None, out_avals, device, name)
        if without_calls is None:
            self._program_on(self._device_for_callbacks())

    @property
    def raw(self) -> Any:
        """The program with its callbacks."""
        return self._program_on(self._device_for_callbacks())

    @raw.setter
    def raw(self, value: None) -> None:
        pass  # there is one for each client

    def _program_on(self, device: Device) -> Any:
        if device not in self._programs:
            self._programs[device] = runnable(self.compile_for(device), self.out_avals, device)
        return self._programs[device]

    def run(self, buffers: list[Buffer]) -> list[Buffer]:
        """Runs the program and waits for it.

        Raises:
          CallbackError: a callback raised.
          DeletedArrayError: one of the buffers was deleted or donated.
          RuntimeError: the program failed in XLA; the message is XLA's.
        """
        if self._skipped:
            self._skipped -= 1
        elif self.execute is not None:
            try:
                results = self.execute(buffers).consume_with_handlers(self.handlers)
                block_until_ready(results)
            except RuntimeError:  # a call of Python, or what the program with callbacks will raise, too
                self.failed()
                self._skipped -= 1
            else:
                if self._failed:
                    path = direct_execute(self.without_calls, self.out_avals)
                    self._failed, self.execute = (0, path[0]) if path else (1, self.execute)
                return results
        return self._run_with_callbacks(buffers)

    def failed(self) -> None:
        """Counts a run without calls that has failed: the same call is to be run with them next."""
        self._skipped = 1 + min(2**self._failed, _MOST_SKIPPED)
        self._failed += 1

    def _run_with_callbacks(self, buffers: list[Buffer]) -> list[Buffer]:
        device = self._device_for_callbacks()
        try:
            if device == self.device:
                return self._run_on(device, self._program_on(device), buffers)
            arguments = buffers[len(self._constants) :]
            sent = self._constants_on(device) + _sent(arguments, [b.aval for b in arguments], device)
            return _sent(self._run_on(device, self._program_on(device), sent), self.out_avals, self.device)
        except RuntimeError as failure:
            error = stored_exception(failure)
            if error is None:
                failure.add_note(f"In the program {self.name}.")
                raise
        raise error

    def begin_with(self, constants: list[Buffer]) -> None:
        """The constants that the operands of every run begin with from now on; they are sent but once."""
        self._constants = constants
        self._sent.clear()

    def _constants_on(self, device: Device) -> list[Buffer]:
        if device not in self._sent:
            self._sent[device] = _sent(self._constants, [b.aval for b in self._constants], device)
        return self._sent[device]

    def hot_path(self) -> tuple[Callable[..., Any], list[Any] | None, Waiting] | None:
        """As of other programs, once a run has come to no call; a run that fails then is another path's."""
        if self.without_calls is not None and self._failed < _OFTEN:
            return None if self._failed else (self.execute, self.handlers, Waiting.AT_ONCE)
        return self.run, None, Waiting.NEVER

    def _run_on(self, device: Device, program: Any, buffers: list[Buffer]) -> list[Buffer]:
        results = program.execute_sharded(buffers, with_tokens=True)
        outs = results.consume_with_handlers([handler_for(aval, device) for aval in self.out_avals])
        results.consume_token().block_until_ready()  # effects that no result depends on
        block_until_ready(outs)
        return outs

    def _device_for_callbacks(self) -> Device:
        if self.device.platform != "cpu":
            return self.device
        return client_of_depth(callback_depth(), 1).local_devices()[0]


def _sent(buffers: Sequence[Buffer], avals: Sequence[ShapedArray], device: Device) -> list[Buffer]:
    """The buffers for a device of another client, in the same memory where that is aligned."""
    return [put(x, aval, device, copy=False) for x, aval in zip(get_all(buffers, avals), avals)]
