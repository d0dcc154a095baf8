"""Interpreters that walk jaxprs or carry more than values: inverse, taylor, laplacian, sparse Jacobians."""
