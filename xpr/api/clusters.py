"""clusters: what the environment says about the processes that belong together, by who started them.

Each kind of launcher is a function of the environment that gives what it says, or None where it is not the one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

Environment = Mapping[str, str]


class Cluster(NamedTuple):
    """What is known of the processes; None for what is not said."""

    coordinator_address: str | None
    num_processes: int | None
    process_id: int | None
    local_device_ids: list[int] | None = None


def _from_variables(environ: Environment) -> Cluster | None:
    """`XPR_COORDINATOR_ADDRESS`, `XPR_NUM_PROCESSES`, `XPR_PROCESS_ID`, which `python -m xpr.launch` sets, or the same
    with JAX in place of XPR."""
    for prefix in ("XPR", "JAX"):
        names = [f"{prefix}_{name}" for name in ("COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID")]
        address, count, index = map(environ.get, names)
        if address or count or index:
            ids = environ.get(f"{prefix}_LOCAL_DEVICE_IDS")
            return Cluster(
                address or None, _number(names[1], count), _number(names[2], index),
                [int(i) for i in ids.split(",")] if ids else None,
            )  # fmt: skip
    return None


def _number(name: str, text: str | None) -> int | None:
    if not text:
        return None
    if not text.strip().isdigit():
        raise ValueError(f"{name} is a number of processes, or of one, and not {text!r}.")
    return int(text)


def _from_slurm(environ: Environment) -> Cluster | None:
    """A step of SLURM (`srun`): the first node has process 0, and the job's number makes the port."""
    if not {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"} <= environ.keys() or "SLURM_STEP_ID" not in environ:
        return None
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    port = 20480 + int(environ["SLURM_JOB_ID"]) % 40960
    address = f"{first_node(nodes)}:{port}" if nodes else None
    count, index = int(environ["SLURM_NTASKS"]), int(environ["SLURM_PROCID"])
    return Cluster(address, count, index, _one_each(environ, "SLURM_LOCALID"))


def first_node(nodes: str) -> str:
    """The first host of a SLURM node list: `gpu[003-006,9],login` is `gpu003`."""
    match = re.match(r"([^,\[]*)(?:\[([^\]]*)\])?([^,\[]*)", nodes)
    if match is None or match[2] is None:
        return nodes.split(",")[0]
    return match[1] + re.split("[-,]", match[2])[0] + match[3]


def _from_open_mpi(environ: Environment) -> Cluster | None:
    """A process of OpenMPI's `mpirun`: the first host of the job has process 0, and its name makes the port."""
    if not {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"} <= environ.keys():
        return None
    known = ("OMPI_MCA_orte_hnp_uri", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2")
    uri = next((environ[name] for name in known if name in environ), "")
    job, host = re.split(r"[.;]", uri)[0], re.search(r"tcp\d?://\[?([0-9a-zA-Z.\-]+)", uri)
    address = f"{host[1]}:{20480 + zlib.crc32(job.encode()) % 40960}" if host else None
    return Cluster(
        address, int(environ["OMPI_COMM_WORLD_SIZE"]), int(environ["OMPI_COMM_WORLD_RANK"]),
        _one_each(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
    )  # fmt: skip


def _one_each(environ: Environment, name: str) -> list[int] | None:
    """The processes of one machine have a GPU each, in their order."""
    return [int(environ[name])] if environ.get(name, "").isdigit() else None


METHODS: dict[str, Callable[[Environment], Cluster | None]] = {
    "environment": _from_variables, "slurm": _from_slurm, "openmpi": _from_open_mpi,
}  # fmt: skip


def detected(environ: Environment, method: str | None = None) -> tuple[str, Cluster] | None:
    """What the first launcher says that is there, with its name; None where there is none.

    Raises:
      ValueError: there is no such method, or a variable is no number.
    """
    if method is not None and method not in METHODS:
        raise ValueError(f"There is no cluster_detection_method {method!r}; there are {', '.join(METHODS)}.")
    for name, read in METHODS.items():
        if method in (None, name):
            found = read(environ)
            if found is not None:
                return name, found
    return None
