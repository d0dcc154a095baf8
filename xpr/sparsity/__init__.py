"""Which elements of a result depend on which of an input; sparse Jacobians and Hessians."""
