"""Linear algebra: factorizations, eigenvalues, singular values, solutions of equations."""
