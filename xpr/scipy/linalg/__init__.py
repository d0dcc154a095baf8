"""Linear algebra with SciPy's names: factors to solve with, decompositions, functions of matrices, special matrices.

`overwrite_a`, `overwrite_b` and `check_finite` are accepted and have no effect: arrays are immutable, and what is not
finite gives nans.
"""

from xpr.scipy.linalg.decompositions import eigh, eigh_tridiagonal, polar, qr, qr_multiply, svd
from xpr.scipy.linalg.exponential import expm, expm_frechet
from xpr.scipy.linalg.matrix_functions import (
    funm,
    hessenberg,
    rsf2csf,
    schur,
    solve_banded,
    solve_sylvester,
    sqrtm,
)
from xpr.scipy.linalg.solving import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    inv,
    lu,
    lu_factor,
    lu_solve,
    solve,
    solve_triangular,
)
from xpr.scipy.linalg.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    fiedler,
    fiedler_companion,
    hankel,
    leslie,
    toeplitz,
)
from xpr.scipy.linalg.special_matrices_by_order import (
    dft,
    hadamard,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    pascal,
)

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det", "dft",
    "eigh", "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel",
    "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve",
    "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_banded", "solve_sylvester",
    "solve_triangular", "sqrtm", "svd", "toeplitz",
]  # fmt: skip
