"""Solves and decompositions of stacks of matrices: primitives, and the functions that apply them."""

from xpr.lax.matrix_functions import *
from xpr.primitives.linalg.choices import *
from xpr.primitives.linalg.eigen_svd import *
from xpr.primitives.linalg.factorizations import *
from xpr.primitives.linalg.orthogonal import *
from xpr.primitives.linalg.reflections import *
from xpr.primitives.linalg.schur import *
from xpr.primitives.linalg.solves import *
