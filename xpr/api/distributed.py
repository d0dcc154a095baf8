"""initialize and shutdown: makes this process one of several that run programs together."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

from xpr.api.clusters import METHODS, Cluster, detected
from xpr.backend import devices, processes
from xpr.backend.links import Refused, is_loopback
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
    """Makes this process one of several that run programs together; it waits until all have come.

    Before anything is computed, each of them calls it. From then on `devices()` are those of all processes, and
    `local_devices()` those of this one. What is not given is taken from the environment: from
    `XPR_COORDINATOR_ADDRESS`, `XPR_NUM_PROCESSES` and `XPR_PROCESS_ID` (or the same with JAX), which
    `python -m xpr.launch` sets; from SLURM; or from OpenMPI.

    Args:
      coordinator_address: host and port at which process 0 is reached, the same for all: "10.0.0.1:1234".
      num_processes: how many there are.
      process_id: the number of this one, from 0.
      local_device_ids: the GPUs of this machine that it uses; all if neither given nor said by the environment.
      cluster_detection_method: "environment", "slurm" or "openmpi"; the first one that is there if not given.
      initialization_timeout: seconds to wait for all to come.
      heartbeat_timeout_seconds: seconds after which a process that does not answer is taken for lost. One that dies is
        noticed at once.
      shutdown_timeout_seconds: seconds that a process waits at its end for all others to come to theirs.
      coordinator_bind_address: where process 0 listens: the coordinator's host where only this machine has it, else all
        addresses of the machine, with the coordinator's port.
    Raises:
      RuntimeError: it was called before, or after something was computed.
      ValueError: an argument is missing, or makes no sense.
      MissingProcess: not all came, or they do not agree; the message names who.

    >>> import xpr
    >>> xpr.distributed.initialize("localhost:1234", num_processes=2)
    Traceback (most recent call last):
        ...
    ValueError: distributed.initialize: process_id is not given, and no launcher says it ...
    """
    if processes.group() is not None:
        raise RuntimeError("distributed.initialize was called before: once is enough, at the start of the script.")
    given = Cluster(coordinator_address, num_processes, process_id, _ids(local_device_ids))
    address, count, index, ids = _completed(given, cluster_detection_method)
    where = _parsed("coordinator_address", address)
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
        bind = where if is_loopback(where[0]) else ("::" if ":" in where[0] else "0.0.0.0", where[1])
    if devices.in_use():
        raise RuntimeError(
            "distributed.initialize comes too late: something was computed already, or devices were asked for, on the "
            f"{' and the '.join(name.upper() for name in devices.in_use())}. Call it first, right after `import xpr`."
        )
    if count == 1:
        return
    try:
        processes.join(
            index, count, where, bind, initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds, ids
        )
    except Refused as error:
        raise MissingProcess(
            f"distributed.initialize: {error}. This is process {index} of {count}, with coordinator_address {address}."
        ) from None
    atexit.register(processes.leave)


def _ids(given: int | Sequence[int] | None) -> list[int] | None:
    ids = None if given is None else [given] if isinstance(given, int) else list(given)
    if ids is not None and not all(isinstance(each, int) and each >= 0 for each in ids):
        raise ValueError(f"distributed.initialize: local_device_ids are numbers of GPUs, from 0, and are {given!r}.")
    return ids


def _completed(given: Cluster, method: str | None) -> tuple[str, int, int, list[int] | None]:
    """The arguments, those that are not given from the environment."""
    found = None
    if method is not None or None in given[:3]:
        found = detected(os.environ, method)
    said = found[1] if found is not None else Cluster(None, None, None)
    values = [mine if mine is not None else theirs for mine, theirs in zip(given, said)]
    missing = [name for name, value in zip(Cluster._fields[:3], values) if value is None]
    if missing:
        who = f"{found[0]} does not say" if found else "no launcher says"
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
    """Ends what `initialize` began: waits for all others to do the same. The end of a script does it by itself.

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
