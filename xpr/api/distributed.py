"""initialize and shutdown: connect this process to the others that run the same programs, and disconnect it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

from xpr.api.clusters import METHODS, Cluster, detected
from xpr.backend import devices, processes
from xpr.backend.links import NotConnected, is_loopback
from xpr.errors import MissingProcess


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
) -> None:
    """Makes this process one of several that run programs together, and waits until all have connected.

    Each process calls it before anything is computed. Then `devices()` are those of all processes, and
    `local_devices()` those of this one. Arguments left out are taken from the environment: from
    `XPR_COORDINATOR_ADDRESS`, `XPR_NUM_PROCESSES` and `XPR_PROCESS_ID` (or the same with JAX), which
    `python -m xpr.launch` sets; from SLURM; or from OpenMPI.

    Args:
      coordinator_address: host and port at which process 0 is reached, the same for all: "10.0.0.1:1234".
      num_processes: how many there are.
      process_id: the number of this process, from 0.
      local_device_ids: the GPUs of this machine that it uses; all if neither given nor in the environment.
      cluster_detection_method: "environment", "slurm" or "openmpi"; the first one that is detected if not given.
      initialization_timeout: seconds to wait for all to connect.
      heartbeat_timeout_seconds: seconds after which a process that does not answer counts as lost. One that dies is
        detected at once.
      shutdown_timeout_seconds: seconds that a process waits when it ends for all others to end.
      coordinator_bind_address: where process 0 listens: the coordinator's host where only this machine has it, else all
        addresses of the machine, with the coordinator's port.

    Returns:
      None.

    Raises:
      RuntimeError: it was called before, or after something was computed.
      ValueError: an argument is missing or invalid.
      MissingProcess: not all connected, or they disagree; the message names which.

    >>> import xpr
    >>> xpr.distributed.initialize("localhost:1234", num_processes=2)
    Traceback (most recent call last):
        ...
    ValueError: distributed.initialize: process_id is not given, and no launcher says it ...
    """
    if processes.group() is not None:
        raise RuntimeError("distributed.initialize was called before: once is enough, at the start of the script.")
    arguments = Cluster(coordinator_address, num_processes, process_id, _ids(local_device_ids))
    address, count, index, ids = _completed(arguments, cluster_detection_method)
    coordinator = _parsed("coordinator_address", address)
    if count < 1 or not 0 <= index < count:
        raise ValueError(
            f"distributed.initialize: process_id={index} of num_processes={count} makes no sense; processes are "
            "counted from 0."
        )
    for name, seconds in [("initialization_timeout", initialization_timeout),
                          ("heartbeat_timeout_seconds", heartbeat_timeout_seconds)]:  # fmt: skip
        if not seconds >= 1:
            raise ValueError(f"distributed.initialize: {name}={seconds} is no time; give at least 1 second.")
    if coordinator_bind_address is not None:
        bind = _parsed("coordinator_bind_address", coordinator_bind_address)
    else:
        host, port = coordinator
        bind = coordinator if is_loopback(host) else ("::" if ":" in host else "0.0.0.0", port)
    if devices.in_use():
        raise RuntimeError(
            "distributed.initialize comes too late: something was computed already, or devices were asked for, on the "
            f"{' and the '.join(name.upper() for name in devices.in_use())}. Call it first, right after `import xpr`."
        )
    if count == 1:
        return
    try:
        processes.join(
            index,
            count,
            coordinator,
            bind,
            initialization_timeout,
            heartbeat_timeout_seconds,
            shutdown_timeout_seconds,
            ids,
        )
    except NotConnected as error:
        raise MissingProcess(
            f"distributed.initialize: {error}. This is process {index} of {count}, with coordinator_address {address}."
        ) from None
    atexit.register(processes.leave)


def _ids(numbers: int | Sequence[int] | None) -> list[int] | None:
    ids = None if numbers is None else [numbers] if isinstance(numbers, int) else list(numbers)
    if ids is not None and not all(isinstance(each, int) and each >= 0 for each in ids):
        raise ValueError(f"distributed.initialize: local_device_ids are numbers of GPUs, from 0, and are {numbers!r}.")
    return ids


def _completed(arguments: Cluster, method: str | None) -> tuple[str, int, int, list[int] | None]:
    """The arguments, with missing ones taken from the environment."""
    launcher = None
    if method is not None or None in arguments[:3]:
        launcher = detected(os.environ, method)
    from_launcher = launcher[1] if launcher is not None else Cluster(None, None, None)
    values = [argument if argument is not None else default for argument, default in zip(arguments, from_launcher)]
    missing = [name for name, value in zip(Cluster._fields[:3], values) if value is None]
    if missing:
        who = f"{launcher[0]} does not say" if launcher else "no launcher says"
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        raise ValueError(
            f"distributed.initialize: {' and '.join(missing)} {are} not given, and {who} {them} (looked for: "
            f"{', '.join(METHODS)}). Give all three of coordinator_address, num_processes and process_id, or start the "
            "processes with `python -m xpr.launch -n 4 script.py`, srun or mpirun."
        )
    return tuple(values)  # type: ignore[return-value]  # none of the first three is None


def _parsed(what: str, address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if (
        not colon
        or not port.isdigit()
        or not 0 < int(port) < 1 << 16
        or not (host or what == "coordinator_bind_address")
    ):
        raise ValueError(
            f"distributed.initialize: {what}={address!r} is no address; it has a host and a port, like '10.0.0.1:1234'."
        )
    return host.strip("[]") or "0.0.0.0", int(port)


def shutdown() -> None:
    """Disconnects this process from the others, after waiting for all of them to call it.

    A script calls it by itself when it ends.

    Raises:
      RuntimeError: `initialize` was not called.

    >>> import xpr
    >>> xpr.distributed.shutdown()
    Traceback (most recent call last):
        ...
    RuntimeError: distributed.shutdown: distributed.initialize was not called, or shutdown was before.
    """
    if processes.group() is None:
        raise RuntimeError("distributed.shutdown: distributed.initialize was not called, or shutdown was before.")
    processes.leave()


def is_initialized() -> bool:
    """Whether `initialize` was called, and `shutdown` not yet.

    >>> import xpr
    >>> xpr.distributed.is_initialized()
    False
    """
    return processes.group() is not None
