"""The schema of exported functions, by which JAX reads and writes them too (`jax/_src/export/serialization.fbs`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np

from xpr import dtypes
from xpr.artifacts.flatbuffers import Table, Vector
from xpr.core.memory import MemorySpace
from xpr.key_types import KeyType
from xpr.primitives.generators import RBG, THREEFRY, UNSAFE_RBG

PyTreeDef = Table()
PyTreeDef.update(
    kind="int8", children=Vector(PyTreeDef), children_names=Vector("string"), custom_name="string",
    custom_auxdata=Vector("int8"),
)  # fmt: skip

AbstractDevice = Table(device_kind="string", num_cores="uint32", platform="string")
AbstractMesh = Table(
    axis_sizes=Vector("uint32"), axis_names=Vector("string"), axis_types=Vector("int8"),
    abstract_device=AbstractDevice,
)  # fmt: skip
PartitionSpec = Table(
    partitions=Vector(Table(axes=Vector("string"))), reduced=Vector("string"), unreduced=Vector("string")
)
NamedSharding = Table(mesh=AbstractMesh, spec=PartitionSpec, memory_kind="string", abstract_mesh_idx="uint32")
Sharding = Table(kind="int8", hlo_sharding_proto=Vector("int8"), named_sharding=NamedSharding)
AbstractValue = Table(kind="int8", shape=Vector("string"), dtype="int8", memory_space="int8")
Effect = Table(type_name="string")
Check = Table(kind="int8", custom_call_target="string")

Exported = Table()
Exported.update(
    serialization_version="uint16", function_name="string", in_tree=PyTreeDef, in_avals=Vector(AbstractValue),
    out_tree=PyTreeDef, out_avals=Vector(AbstractValue), nr_devices_short="int16", in_shardings=Vector(Sharding),
    out_shardings=Vector(Sharding), platforms=Vector("string"), ordered_effects=Vector(Effect),
    unordered_effects=Vector(Effect), disabled_checks=Vector(Check), mlir_module_serialized=Vector("int8"),
    calling_convention_version="uint16", module_kept_var_idx=Vector("uint16"), uses_global_constants="bool",
    vjp=Exported, nr_devices="uint32", unique_avals=Vector(AbstractValue),
    unique_abstract_meshes=Vector(AbstractMesh), unique_named_shardings=Vector(NamedSharding),
    in_avals_idxs=Vector("uint32"), out_avals_idxs=Vector("uint32"), in_shardings_idxs=Vector("uint32"),
    out_shardings_idxs=Vector("uint32"),
)  # fmt: skip

# Readers of JAX before 2026 accept no other; the fields themselves say what is there.
SERIALIZATION_VERSION = 3


class NodeKind(IntEnum):
    """The kinds of nodes of a pytree."""

    LEAF, NONE, TUPLE, LIST, DICT, CUSTOM = range(6)


class CheckKind(IntEnum):
    """The kinds of checks that can be disabled."""

    PLATFORM, CUSTOM_CALL, SHAPE_ASSERTIONS = range(3)


MEMORY_SPACES = {MemorySpace.Device: 1, MemorySpace.Host: 2}  # none is the device's

DTYPES: dict[int, Any] = {
    0: dtypes.bool_, 1: dtypes.int8, 2: dtypes.int16, 3: dtypes.int32, 4: dtypes.int64, 5: dtypes.uint8,
    6: dtypes.uint16, 7: dtypes.uint32, 8: dtypes.uint64, 9: dtypes.float16, 10: dtypes.float32, 11: dtypes.float64,
    12: dtypes.complex64, 13: dtypes.complex128, 14: dtypes.bf16, 15: dtypes.int4, 16: dtypes.uint4,
    17: dtypes.float8_e4m3b11fnuz, 18: dtypes.float8_e4m3fn, 19: dtypes.float8_e4m3fnuz, 20: dtypes.float8_e5m2,
    21: dtypes.float8_e5m2fnuz, 22: np.dtype(dtypes.float0), 23: np.dtype(ml_dtypes.float8_e4m3),
    24: np.dtype(ml_dtypes.float8_e3m4), 25: np.dtype(ml_dtypes.float8_e8m0fnu),
    26: np.dtype(ml_dtypes.float4_e2m1fn),
}  # fmt: skip
DTYPES.update({27: KeyType(THREEFRY), 28: KeyType(RBG), 29: KeyType(UNSAFE_RBG)})
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


# -- Compiled programs, which only xpr reads

Constant = Table(aval=AbstractValue, data=Vector("int8"))
CompiledProgram = Table(
    circumstances=Vector("string"), name="string", in_tree=PyTreeDef, out_tree=PyTreeDef,
    in_avals=Vector(AbstractValue), out_avals=Vector(AbstractValue), weak_inputs=Vector("bool"),
    weak_outputs=Vector("bool"), names=Vector("string"), donated=Vector("uint32"), constants=Vector(Constant),
    options=Vector("int8"), executable=Vector("int8"), libraries=Vector("string"),
)  # fmt: skip
