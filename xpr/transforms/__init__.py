"""One interpreter a file: stage, lower, evaluate, jvp, linearize, transpose, batch."""
