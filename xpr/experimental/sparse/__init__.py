"""Sparse arrays, as `jax.experimental.sparse` has them.

`BCOO` has batch, sparse and dense axes, and most functions; `BCSR`, `COO`, `CSR` and `CSC` are other formats.
`sparsify` makes functions of dense arrays into functions of sparse ones; `grad` and the like differentiate in them.
"""

from xpr.experimental.sparse import linalg as linalg
from xpr.experimental.sparse import methods as methods  # installs the operators
from xpr.experimental.sparse.ad import grad, jacfwd, jacobian, jacrev, value_and_grad
from xpr.experimental.sparse.api import empty, eye, todense
from xpr.experimental.sparse.base import JAXSparse
from xpr.experimental.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_todense,
)
from xpr.experimental.sparse.coo import COO, coo_fromdense, coo_matmat, coo_matvec, coo_todense
from xpr.experimental.sparse.coordinates import BCOO, bcoo_extract, bcoo_fromdense, bcoo_todense
from xpr.experimental.sparse.csr import CSC, CSR, csr_fromdense, csr_matmat, csr_matvec, csr_todense
from xpr.experimental.sparse.layouts import (
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
)
from xpr.experimental.sparse.products import (
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from xpr.experimental.sparse.random import random_bcoo
from xpr.experimental.sparse.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)
from xpr.experimental.sparse.transform import SparseTracer, sparsify
from xpr.experimental.sparse.util import CuSparseEfficiencyWarning, SparseEfficiencyError, SparseEfficiencyWarning

__all__ = [
    "BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError",
    "SparseEfficiencyWarning", "SparseTracer", "bcoo_broadcast_in_dim", "bcoo_concatenate",
    "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_dynamic_slice", "bcoo_extract",
    "bcoo_fromdense", "bcoo_gather", "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum", "bcoo_reshape",
    "bcoo_rev", "bcoo_slice", "bcoo_sort_indices", "bcoo_squeeze", "bcoo_sum_duplicates", "bcoo_todense",
    "bcoo_transpose", "bcoo_update_layout", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general",
    "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_todense", "coo_fromdense", "coo_matmat",
    "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense", "empty", "eye", "grad",
    "jacfwd", "jacobian", "jacrev", "linalg", "random_bcoo", "sparsify", "todense", "value_and_grad",
]  # fmt: skip
