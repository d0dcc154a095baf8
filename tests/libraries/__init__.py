"""Programs of libraries that are written for JAX, run on xpr: `python -m tests.libraries` says which run."""
