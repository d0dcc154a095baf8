"""The number, address and ids of the processes of a distributed program, read from a launcher's environment variables.

Each launcher has a function from the environment to a `Cluster`, or None if it did not start this process.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

Environment = Mapping[str, str]


class Cluster(NamedTuple):
    """The processes of a distributed program; None for what is unknown."""

    coordinator_address: str | None
    num_processes: int | None
    process_id: int | None
    local_device_ids: list[int] | None = None


def _from_variables(environ: Environment) -> Cluster | None:
    """`XPR_COORDINATOR_ADDRESS`, `XPR_NUM_PROCESSES`, `XPR_PROCESS_ID`, which `python -m xpr.launch` sets, or the same
    with JAX for XPR."""
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
    """A step of SLURM (`srun`): the first node has process 0, and the job's number determines the port."""
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
    """A process of OpenMPI's `mpirun`: the first host of the job has process 0, whose name determines the port."""
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
    """One GPU for each process of a machine, in order."""
    return [int(environ[name])] if environ.get(name, "").isdigit() else None


METHODS: dict[str, Callable[[Environment], Cluster | None]] = {
    "environment": _from_variables, "slurm": _from_slurm, "openmpi": _from_open_mpi,
}  # fmt: skip


def detected(environ: Environment, method: str | None = None) -> tuple[str, Cluster] | None:
    """The name and the `Cluster` of the first launcher that is detected; None if there is none.

    Raises:
      ValueError: there is no such method, or a variable is not a number.
    """
    if method is not None and method not in METHODS:
        raise ValueError(f"There is no cluster_detection_method {method!r}; there are {', '.join(METHODS)}.")
    for name, read in METHODS.items():
        if method in (None, name):
            cluster = read(environ)
            if cluster is not None:
                return name, cluster
    return None
