"""What a Python function computes, as a hash: of its code, and of all that the code can reach."""
