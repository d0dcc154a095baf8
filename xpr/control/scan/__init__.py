"""Loops over the leading axis of arrays that carry state: `scan`, and `lax.map`, which is a scan."""
