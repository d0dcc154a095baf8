"""Solves and decompositions of stacks of matrices: primitives, and the functions that apply them."""

from xpr.primitives.factorizations import cholesky as cholesky
from xpr.primitives.factorizations import cholesky_p as cholesky_p
from xpr.primitives.factorizations import lu as lu
from xpr.primitives.factorizations import lu_p as lu_p
from xpr.primitives.factorizations import lu_pivots_to_permutation as lu_pivots_to_permutation
from xpr.primitives.factorizations import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from xpr.primitives.orthogonal import qr as qr
from xpr.primitives.orthogonal import qr_p as qr_p
from xpr.primitives.solves import triangular_solve as triangular_solve
from xpr.primitives.solves import triangular_solve_p as triangular_solve_p
from xpr.primitives.solves import tridiagonal_solve as tridiagonal_solve
from xpr.primitives.solves import tridiagonal_solve_p as tridiagonal_solve_p
from xpr.primitives.spectra import eig as eig
from xpr.primitives.spectra import eig_p as eig_p
from xpr.primitives.spectra import eigh as eigh
from xpr.primitives.spectra import eigh_p as eigh_p
from xpr.primitives.spectra import svd as svd
from xpr.primitives.spectra import svd_p as svd_p
