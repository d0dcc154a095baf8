"""Forty-two short scripts, as users of JAX write them, each a function of the library that returns its results.

On small arrays, they mix operations outside of `jit` with jitted functions, derivatives, `vmap`, loops and draws.
"""

from benchmarks.scripts import (
    geometry,
    networks,
    optimization,
    sampling,
    signals,
    simulation,
    statistics,
    tables,
    time_series,
)

THEMES = tables, statistics, time_series, optimization, networks, sampling, simulation, signals, geometry
SCRIPTS = [script for theme in THEMES for script in theme.SCRIPTS]
