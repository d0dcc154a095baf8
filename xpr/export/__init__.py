"""Functions as programs that can be kept and sent elsewhere: `export`, and `deserialize` for its bytes.

The bytes are those of `jax.export`: each reads what the other writes. `docs/export.md` shows how.
"""

from xpr.api.symbolic_args import symbolic_args_specs
from xpr.artifacts.trees import register_namedtuple_serialization, register_pytree_node_serialization
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.dimensions.scope import SymbolicScope, symbolic_shape
from xpr.export.checks import DisabledSafetyCheck
from xpr.export.exported import (
    Exported,
    deserialize,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xpr.export.exporting import default_export_platform, export
from xpr.text import dimensions as _dimensions  # by which parameters are printed

__all__ = [
    "DisabledSafetyCheck", "Exported", "SymbolicScope", "default_export_platform", "deserialize", "export",
    "is_symbolic_dim", "maximum_supported_calling_convention_version", "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization", "register_pytree_node_serialization", "symbolic_args_specs", "symbolic_shape",
]  # fmt: skip
