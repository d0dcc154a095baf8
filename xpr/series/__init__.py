"""Higher derivatives in forward mode, by augmented traces: Taylor series and Laplacians of functions."""
