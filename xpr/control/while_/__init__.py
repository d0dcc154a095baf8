"""Loops of unknown length: `while_loop`, `fori_loop`, and their reverse mode."""
