"""`jax.experimental.source_mapper`: which line of the user's code each line of a program came from, as source maps.

Programs are jaxprs, StableHLO, and HLO before and after XLA's passes. Source maps are those of browsers, ECMA-426
(https://tc39.es/source-map/), so that viewers of generated code show a program beside its source.
"""

from xpr.experimental.source_mapper.hlo import parse_hlo_dump
from xpr.experimental.source_mapper.jaxprs import canonicalize_filename
from xpr.experimental.source_mapper.maps import MappingsGenerator, SourceMap
from xpr.experimental.source_mapper.passes import (
    Pass,
    SourceMapDump,
    all_passes,
    filter_passes,
    generate_sourcemaps,
    register_pass,
)
from xpr.experimental.source_mapper.stablehlo import create_mlir_sourcemap

__all__ = [
    "MappingsGenerator", "Pass", "SourceMap", "SourceMapDump", "all_passes", "canonicalize_filename",
    "create_mlir_sourcemap", "filter_passes", "generate_sourcemaps", "parse_hlo_dump", "register_pass",
]  # fmt: skip
