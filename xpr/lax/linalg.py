"""Solves and decompositions of stacks of matrices: primitives, and the functions that apply them."""

from xpr.primitives.linalg.eigen_svd import eig as eig
from xpr.primitives.linalg.eigen_svd import eig_p as eig_p
from xpr.primitives.linalg.eigen_svd import eigh as eigh
from xpr.primitives.linalg.eigen_svd import eigh_p as eigh_p
from xpr.primitives.linalg.eigen_svd import svd as svd
from xpr.primitives.linalg.eigen_svd import svd_p as svd_p
from xpr.primitives.linalg.factorizations import cholesky as cholesky
from xpr.primitives.linalg.factorizations import cholesky_p as cholesky_p
from xpr.primitives.linalg.factorizations import lu as lu
from xpr.primitives.linalg.factorizations import lu_p as lu_p
from xpr.primitives.linalg.factorizations import lu_pivots_to_permutation as lu_pivots_to_permutation
from xpr.primitives.linalg.factorizations import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from xpr.primitives.linalg.orthogonal import qr as qr
from xpr.primitives.linalg.orthogonal import qr_p as qr_p
from xpr.primitives.linalg.solves import triangular_solve as triangular_solve
from xpr.primitives.linalg.solves import triangular_solve_p as triangular_solve_p
from xpr.primitives.linalg.solves import tridiagonal_solve as tridiagonal_solve
from xpr.primitives.linalg.solves import tridiagonal_solve_p as tridiagonal_solve_p
