"""How fast is xpr, beside JAX in the same process? Run `python -m benchmarks`; see README.md."""
