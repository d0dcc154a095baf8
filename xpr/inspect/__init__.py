"""Visualization of programs: their graph, a page for the browser, the differences of two of them."""
