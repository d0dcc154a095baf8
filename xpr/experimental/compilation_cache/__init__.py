"""`jax.experimental.compilation_cache`: compiled programs that are kept between processes."""
