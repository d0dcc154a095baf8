"""Sparse Jacobians and Hessians, from the elements of an input that each element of a result depends on."""
