"""One interpreter a file: stage, jvp, linearize, transpose, batch."""
