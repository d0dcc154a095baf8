"""What functions of sparse arrays raise and warn of where a layout would store many zeros."""

__all__ = ["CuSparseEfficiencyWarning", "SparseEfficiencyError", "SparseEfficiencyWarning"]


class SparseEfficiencyError(ValueError):
    """A layout that would store many zeros."""


class SparseEfficiencyWarning(UserWarning):
    """A layout that stores many zeros."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """An operation for which cuSPARSE has no program; xpr never warns so."""
