"""Which routine computes a decomposition: JAX's names for them. Here each platform has one for each decomposition."""

from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = ["EigImplementation", "EighImplementation", "SvdAlgorithm"]


class SvdAlgorithm(Enum):
    """How singular values are computed."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class EigImplementation(Enum):
    """Which library computes the eigenvalues of a matrix."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(Enum):
    """How the eigenvalues of a Hermitian matrix are computed."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def check_choice(function: str, argument: str, chosen: Any, *possible: Any) -> None:
    """Raises NotImplementedError for a choice that there is no routine for; None leaves it to the library."""
    if chosen is not None and chosen not in possible:
        raise NotImplementedError(
            f"{function}: {argument} is None or {' or '.join(map(str, possible))}, and {chosen} was asked for."
        )
