"""Rows of xpr/primitives/linalg/solves.py, linalg/factorizations.py, linalg/orthogonal.py and linalg/eigen_svd.py."""

import numpy as np

from tests.ops.table import Row, Sample, complexes, floats, integers
from xpr.primitives.linalg.eigen_svd import eig_p, eigh_p, svd_p
from xpr.primitives.linalg.factorizations import cholesky_p, lu_p, lu_pivots_to_permutation_p
from xpr.primitives.linalg.orthogonal import qr_p
from xpr.primitives.linalg.reflections import hessenberg_p, householder_product_p, ormqr_p, tridiagonal_p
from xpr.primitives.linalg.schur import schur_p
from xpr.primitives.linalg.solves import triangular_solve_p, tridiagonal_solve_p

LAPACK = tuple(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def dominant(x):
    """Matrices with a diagonal that leads."""
    return x + (x.shape[-1] + 2) * np.eye(x.shape[-2], x.shape[-1], dtype=x.dtype)


def positive_definite(x):
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])).astype(x.dtype)


def solved(a, b, left_side=True, lower=True, transpose_a=False, conjugate_a=False, unit_diagonal=False, edges=False):
    return Sample(
        a, b, left_side=left_side, lower=lower, transpose_a=transpose_a, conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal, edges=edges,
    )  # fmt: skip


A3 = dominant(floats(3, 3))
C3 = dominant(complexes(3, 3))
SOLVES = [
    solved(A3, floats(3, 2)),
    solved(A3, floats(3, 2), lower=False),
    solved(A3, floats(3, 2), transpose_a=True),
    solved(A3, floats(2, 3), left_side=False),
    solved(A3, floats(2, 3), left_side=False, lower=False, transpose_a=True, unit_diagonal=True),
    solved(C3, complexes(3, 2), transpose_a=True, conjugate_a=True),
    solved(C3, complexes(3, 2), conjugate_a=True, unit_diagonal=True, lower=False),
    solved(C3, complexes(2, 3), left_side=False, transpose_a=True, conjugate_a=True),
    solved(dominant(floats(2, 3, 3)), floats(2, 3, 1)),
    solved(dominant(floats(300, 2, 2)), floats(300, 1, 2), left_side=False),  # many tiny ones, by XLA itself
    solved(floats(0, 3, 3), floats(0, 3, 2), edges=True),
    solved(floats(0, 0), floats(0, 2), edges=True),
    solved(np.diag(np.float32([1, 0, 2])), floats(3, 2, low=0.5), edges=True),
]

TRIDIAGONAL = [
    *[
        Sample(
            floats(*shape), floats(*shape, low=4, high=5), floats(*shape, salt=1), floats(*shape, m), perturb_singular=p
        )
        for shape, m, p in [((4,), 2, False), ((2, 3), 1, False), ((2, 3), 2, True)]
    ],
    Sample(complexes(3), complexes(3) + np.complex64(6), complexes(3, salt=1), complexes(3, 2), perturb_singular=False),
    Sample(floats(0, 3), floats(0, 3), floats(0, 3), floats(0, 3, 2), edges=True, perturb_singular=False),
    Sample(
        floats(3), np.zeros(3, np.float32), np.zeros(3, np.float32), floats(3, 1), edges=True, perturb_singular=False
    ),
]

CHOLESKY = [
    Sample(positive_definite(floats(3, 3))),
    Sample(positive_definite(floats(2, 4, 4))),
    Sample(positive_definite(complexes(3, 3))),
    Sample(np.stack([np.eye(2), -np.eye(2)]).astype(np.float32), edges=True),
    Sample(floats(0, 2, 2), edges=True),
    Sample(floats(2, 0, 0), edges=True),
]

LU = [
    Sample(floats(3, 3)),
    Sample(floats(2, 4, 4)),
    Sample(floats(5, 3)),
    Sample(floats(3, 5)),
    Sample(complexes(3, 3)),
    Sample(complexes(4, 2)),
    Sample(floats(0, 2, 3), edges=True),
    Sample(floats(0, 3), edges=True),
    Sample(np.zeros((2, 2), np.float32), edges=True),
]


def orthogonal(x, full_matrices=False, pivoting=False, edges=False):
    return Sample(x, full_matrices=full_matrices, pivoting=pivoting, edges=edges)


QR = [
    orthogonal(floats(3, 3)),
    orthogonal(floats(4, 2)),
    orthogonal(floats(2, 2, 3), full_matrices=True),
    orthogonal(complexes(4, 3)),
    orthogonal(complexes(2, 3)),
    orthogonal(floats(4, 3), pivoting=True),
    orthogonal(floats(2, 3), pivoting=True),
    orthogonal(floats(4, 3), full_matrices=True),
    orthogonal(complexes(4, 2), full_matrices=True, pivoting=True),
    orthogonal(floats(0, 3, 2), edges=True),
    orthogonal(floats(3, 0), full_matrices=True, edges=True),
]


def spread_out(x):
    """Symmetric matrices whose eigenvalues are well apart."""
    symmetric = (x + np.conj(np.swapaxes(x, -1, -2))) / 8
    return (symmetric + np.diag(np.arange(x.shape[-1]))).astype(x.dtype)


EIGH = [
    Sample(spread_out(floats(3, 3)), lower=True, compute_v=True),
    Sample(spread_out(floats(2, 4, 4)), lower=False, compute_v=True),
    Sample(spread_out(complexes(3, 3)), lower=True, compute_v=False),
    Sample(spread_out(complexes(3, 3)), lower=True, compute_v=True, edges=True),  # its vectors have any phase
    Sample(floats(0, 2, 2), lower=True, compute_v=True, edges=True),
    Sample(floats(2, 0, 0), lower=True, compute_v=False, edges=True),
]


def eigen(x, left=False, right=False, edges=False):
    return Sample(x, compute_left_eigenvectors=left, compute_right_eigenvectors=right, edges=edges)


def nearly_diagonal(x):
    """Matrices whose eigenvalues every routine gives in the order in which they stand on the diagonal."""
    return (0.1 * x + 4 * np.diag(np.arange(1, x.shape[-1] + 1))).astype(x.dtype)


EIG = [
    eigen(nearly_diagonal(floats(3, 3))),
    eigen(nearly_diagonal(floats(2, 3, 3))),
    eigen(nearly_diagonal(complexes(3, 3))),
    eigen(nearly_diagonal(floats(3, 3, dtype=np.float64)), right=True),
    eigen(floats(3, 3, dtype=np.float64) - 2 * floats(3, 3, dtype=np.float64).T, right=True),
    eigen(np.float32([[0, 1], [-1, 0]]), right=True, edges=True),
    eigen(floats(0, 2, 2), edges=True),
    eigen(floats(2, 0, 0), right=True, edges=True),
]


def singular(x, full_matrices=False, compute_uv=True, edges=False):
    return Sample(x, full_matrices=full_matrices, compute_uv=compute_uv, edges=edges)


SVD = [
    singular(floats(3, 3)),
    singular(floats(4, 2)),
    singular(floats(2, 2, 3)),
    singular(floats(3, 3), full_matrices=True),
    singular(complexes(4, 3), compute_uv=False),
    singular(complexes(3, 2), edges=True),  # its vectors have any phase
    singular(floats(4, 3), full_matrices=True, edges=True),
    singular(floats(0, 3, 2), edges=True),
    singular(floats(3, 0), full_matrices=True, edges=True),
]


def times_reflections(a, taus, c, left=True, transpose=False, edges=False):
    return Sample(a, taus, c, left=left, transpose=transpose, edges=edges)


REFLECTIONS = [
    Sample(floats(4, 3), floats(3)),
    Sample(floats(2, 4, 3), floats(2, 2)),
    Sample(complexes(3, 3), complexes(2)),
    Sample(floats(0, 3, 2), floats(0, 2), edges=True),
]
TIMES_REFLECTIONS = [
    times_reflections(floats(4, 3), floats(3), floats(4, 2)),
    times_reflections(floats(3, 3), floats(2), floats(2, 3), left=False),
    times_reflections(complexes(3, 2), complexes(2), complexes(3, 2), transpose=True),
    times_reflections(complexes(2, 3, 2), complexes(2, 1), complexes(2, 1, 3), left=False, transpose=True),
    times_reflections(floats(3, 2), floats(0), floats(3, 2), edges=True),
]
HESSENBERG = [Sample(floats(4, 4)), Sample(complexes(2, 3, 3)), Sample(floats(0, 3, 3)), Sample(floats(1, 1))]
TRIDIAGONAL_FORM = [
    Sample(spread_out(floats(4, 4)), lower=True),
    Sample(floats(2, 3, 3), lower=False),  # of which the lower triangle is not read
    Sample(spread_out(complexes(3, 3)), lower=True),
    Sample(spread_out(complexes(4, 4)), lower=False),
    Sample(floats(0, 3, 3), lower=True),
]
SCHUR = [
    Sample(floats(3, 3), compute_schur_vectors=True),
    Sample(floats(2, 4, 4), compute_schur_vectors=False),
    Sample(complexes(3, 3), compute_schur_vectors=True),
    Sample(floats(0, 2, 2), compute_schur_vectors=True),
]
NO_SCHUR = "NumPy has no Schur decomposition: tests/test_linalg.py compares with SciPy's, and multiplies the factors"

ROWS = [
    Row(householder_product_p, REFLECTIONS, tolerance=256, dtypes=LAPACK),
    Row(ormqr_p, TIMES_REFLECTIONS, tolerance=256, dtypes=LAPACK),
    Row(hessenberg_p, HESSENBERG, tolerance=1024, dtypes=LAPACK, differentiable=False),
    Row(tridiagonal_p, TRIDIAGONAL_FORM, tolerance=1024, dtypes=LAPACK, differentiable=False),
    Row(schur_p, SCHUR, differentiable=False, skip={"value": NO_SCHUR}),
    Row(triangular_solve_p, SOLVES, tolerance=256, dtypes=LAPACK),
    Row(tridiagonal_solve_p, TRIDIAGONAL, tolerance=256, dtypes=LAPACK),
    Row(cholesky_p, CHOLESKY, tolerance=256, dtypes=LAPACK),
    Row(
        lu_pivots_to_permutation_p,
        [
            Sample(np.array([2, 2], np.int32), permutation_size=3),
            Sample(integers(2, 9, low=8, below=12), permutation_size=12),
            Sample(np.zeros((2, 0), np.int32), permutation_size=2),
        ],
    ),
    Row(lu_p, LU, tolerance=1024, dtypes=LAPACK),
    Row(qr_p, QR, tolerance=1024, dtypes=LAPACK),
    Row(eigh_p, EIGH, tolerance=1024, dtypes=LAPACK),
    Row(eig_p, EIG, tolerance=1024, dtypes=LAPACK),
    Row(svd_p, SVD, tolerance=1024, dtypes=LAPACK),
]
