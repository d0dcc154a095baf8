"""check : operands -> operands. Refuses or logs transfers between host and devices: `transfer_guard`.

As with `debug_nans`, the bottom interpreter of a thread is replaced, so nothing is checked while all is allowed. A
transfer from the host is a NumPy array or a Python number that becomes an operand or an array; one between devices is
an operand on another device than the operation; one to the host is a read of an array in an accelerator's memory (the
CPU's is the host's). Explicit transfers (`device_put`, `device_get`) run under the interpreter below the guard.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xpr.backend.array import Array, before_fetch
from xpr.backend.sharding import NamedSharding, SingleDeviceSharding
from xpr.compile.committed import device_of
from xpr.compile.evaluate import EvalTrace
from xpr.config import logger, settings
from xpr.core.avals import aval_of
from xpr.core.interpreter import context, current
from xpr.core.primitive import Primitive
from xpr.errors import TransferError

in_use = False  # whether this process ever had a guard; tested where arrays are made, before anything is looked up

_SETTINGS = {
    "host-to-device": "transfer_guard_host_to_device",
    "device-to-device": "transfer_guard_device_to_device",
    "device-to-host": "transfer_guard_device_to_host",
}


def is_on() -> bool:
    """Whether some transfer is logged or refused in this thread."""
    return any(getattr(settings, name) != "allow" for name in _SETTINGS.values())


def check(direction: str, what: str, explicit: bool = False) -> None:
    """Logs or refuses a transfer, as the settings of this thread say.

    Raises:
      TransferError: it is refused.
    """
    level = getattr(settings, _SETTINGS[direction])
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    kind = "Explicit" if explicit else "Implicit"
    if level.startswith("log"):
        logger().warning("%s %s transfer of %s.", kind, direction, what)
        return
    way_out = "" if explicit else "Move it before, with device_put or device_get, or "
    allow = f'{"allow" if way_out else "Allow"} it: with xpr.{_SETTINGS[direction]}("allow").'
    raise TransferError(
        f'{kind} {direction} transfer of {what}, and {_SETTINGS[direction]} is "{level}". {way_out}{allow}'
    )


def described(x: Any) -> str:
    """The value of a number, the type of an array."""
    return repr(x) if isinstance(x, (bool, int, float, complex)) else f"an array of type {aval_of(x).str_short()}"


class GuardingTrace(EvalTrace):
    """Checks the operands of operations, which the interpreter `inner` runs."""

    __slots__ = ("inner", "runs_programs")
    runs_known_calls = False

    def __init__(self, inner: EvalTrace):
        super().__init__()
        self.inner, self.runs_programs = inner, inner.runs_programs

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        target = device_of(args)
        sharding = target if isinstance(target, NamedSharding) else SingleDeviceSharding(target)
        self.check_transfers(args, [sharding] * len(args))
        with current(self.inner):
            return self.inner.process(primitive, args, params)

    def check_transfers(self, args: Sequence[Any], shardings: Sequence[Any]) -> None:
        """Checks the transfers that bring operands to where an operation or a program needs them.

        Raises:
          TransferError: one of them is refused.
        """
        for x, sharding in zip(args, shardings):
            if type(x) is not Array:
                check("host-to-device", described(x))
            elif x._buffer is not None and x.sharding.device_set != sharding.device_set:
                check("device-to-device", f"{described(x)} with {x.sharding} to {sharding}")


def check_from_host(x: Any) -> None:
    """Checks that a value of the host may become an array, if this thread runs operations under a guard.

    Raises:
      TransferError: it may not.
    """
    if type(context.trace) is GuardingTrace:
        check("host-to-device", described(x))


def in_host_memory(x: Array) -> bool:
    """Whether NumPy reads the array without a transfer."""
    return x._host is not None or all(device.platform == "cpu" for device in x.devices())


def _check_read(x: Array) -> None:
    """Checks that NumPy, or a print, may read an array.

    Raises:
      TransferError: it may not.
    """
    if type(context.trace) is GuardingTrace and not in_host_memory(x):
        check("device-to-host", described(x))


before_fetch.append(_check_read)


@contextmanager
def explicit(direction: str, leaves: Sequence[Any], targets: Sequence[Any] = ()) -> Iterator[None]:
    """A context manager in which values are moved because the user asked for it, where `targets` say to.

    To distribute an array otherwise over the devices that it is on is a program on these, and no transfer.

    Raises:
      TransferError: explicit transfers are refused, too.
    """
    trace = context.trace
    if type(trace) is not GuardingTrace:
        yield
        return
    for x, target in itertools.zip_longest(leaves, targets):
        if direction == "host-to-device" and type(x) is Array:
            if isinstance(target, NamedSharding) and x.sharding.device_set == target.device_set:
                continue
            check("device-to-device", described(x), explicit=True)
        elif direction == "host-to-device" or not in_host_memory(x):
            check(direction, described(x), explicit=True)
    with current(trace.inner):
        yield
