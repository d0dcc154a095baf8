"""x[index] and x.at[index]: reading and updating by NumPy's rules, and functions of indices."""
