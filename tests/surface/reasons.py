"""Why xpr has not all that jax has: names, or patterns of names, grouped by reason.

An entry stands for the name, for what is in it (`jax.ffi` for all of that module), and for its parameters; `*` stands
for any text. What is to come is in `NOT_BUILT_YET`.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.surface.compare import Gap


@dataclass(frozen=True)
class Explained:
    """Gaps that no entry stands for, how many each entry stands for, and entries that stand for none: `stale` reasons,
    and what is `built` by now.
    """

    without: list[Gap]
    counts: Counter[str]
    stale: list[str]
    built: list[str]


def explain(gaps: Sequence[Gap]) -> Explained:
    """Finds the entry for each gap: that of a reason, or of what is not built yet."""
    reasons = [entry for entries in REASONS.values() for entry in entries]
    patterns = {entry: _pattern(entry) for entry in (*reasons, *NOT_BUILT_YET)}
    counts: Counter[str] = Counter()
    without = []
    for gap in gaps:
        matching = [entry for entry, pattern in patterns.items() if pattern.match(gap.name)]
        counts.update(matching[:1])
        if not matching:
            without.append(gap)
    stale, built = ([entry for entry in each if not counts[entry]] for each in (reasons, NOT_BUILT_YET))
    return Explained(without, counts, stale, built)


def _pattern(entry: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(entry).removesuffix(r"\Z") + r"(?:[.(].*)?\Z")


_UFUNCS = (
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract",
)  # fmt: skip

REASONS: dict[str, tuple[str, ...]] = {
    "Of Pallas what is about the hardware, or its compilers: kernels run through XLA, without Mosaic and Triton.": (
        "jax.experimental*.mosaic*",
        "jax.extend.pallas",
        *(
            f"jax.experimental.pallas.{name}"
            for name in (
                "BlockSpec.to_block_mapping",
                "DeviceIdType",
                "Indirect",
                "core_map",
                "delay",
                "enable_poison_buffers",
                "fuser",
                "get_global",
                "kernel",
                "lower_as_mlir",
                "ops*",
                "pallas_export_experimental",
                "select_ref",
                "semaphore*",
                "tpu_sc",
                "triton.elementwise_inline_asm",
            )
        ),
        *(
            f"jax.experimental.pallas.tpu.{name}"
            for name in (
                "*Buffer*",
                "ChipVersion",
                "CoreType",
                "InterpretParams",
                "LoweringException",
                "MemorySpace.SEMAPHORE",
                "SEMAPHORE",
                "SemaphoreType",
                "Tiling",
                "TpuInfo",
                "async_*",
                "bitcast",
                "core_barrier",
                "create_tensorcore_mesh",
                "dma_semaphore",
                "einshape",
                "emit_*",
                "*tpu_i*",
                "get_barrier_semaphore",
                "is_tpu_device",
                "make_async_*",
                "matmul_*",
                "*pack_elementwise",
                "prng_*",
                "run_on_first_core",
                "sample_block",
                "stateful_*",
                "stochastic_round",
                "to_pallas_key",
                "trace_value",
            )
        ),
        "jax.lax.GatherScatterMode.ONE_HOT",
    ),
    "xpr writes programs as text, and uses no MLIR in Python: rules get a builder of that text.": (
        "jax.extend.lowering",
        "jax.extend.mlir",
        "jax.ffi.register_ffi_type_id",
        "jax.interpreters.mlir",
        "jax.interpreters.pxla.create_compile_options",
    ),
    "Objects that the library makes and users read: their parts, and what they are made of, are the library's.": (
        *(f"jax.scipy.stats.gaussian_kde.{name}" for name in ("covariance", "dataset", "inv_cov", "neff", "weights")),
        "jax.scipy.stats.gaussian_kde.tree_flatten",
        "jax.scipy.stats.gaussian_kde.tree_unflatten",
        "jax.core.ShapedArray",
        "jax.core.Trace",
        "jax.core.Tracer",
        "jax.experimental.checkify.Error",
        "jax.experimental.checkify.checkify(errors)",
        "jax.extend.core.ClosedJaxpr",
        "jax.extend.core.DropVar",
        "jax.extend.core.Jaxpr",
        "jax.extend.core.JaxprEqn",
        "jax.extend.core.Literal",
        "jax.extend.core.Primitive",
        "jax.extend.core.Var",
        "jax.extend.core.set_current_trace",
        "jax.extend.core.take_current_trace",
        "jax.extend.linear_util.WrappedFun",
        "jax.interpreters.ad.JVPTrace*",
        "jax.interpreters.partial_eval.*Tracer",
        "jax.set_mesh",
        "jax.sharding.use_abstract_mesh",
        "jax.stages.Compiled(*",
        "jax.stages.Lowered(*",
        "jax.stages.Traced(*",
        "jax.Shard(*",
        "jax.experimental.pallas.Slice",
        "jax.experimental.pallas.enable_debug_checks(new_val)",
        "jax.Ref.format",
        "jax.Ref(refs)",
        "jax.core.AbstractValue",
        "jax.custom_jvp.jvp",
        "jax.custom_jvp.symbolic_zeros",
        "jax.debug.*DebugEffect",
        "jax.experimental.topologies.Device",
        "jax.extend.sharding.GSPMDSharding",
        "jax.extend.core.AbstractToken",
        "jax.extend.core.Token.block_until_ready",
        "jax.extend.core.CallPrimitive",
        "jax.extend.core.DebugInfo",
        "jax.extend.core.call_impl",
        "jax.interpreters.partial_eval.*_rule*",
        "jax.stages.Compiled.call",
        "jax.stages.Compiled",
        "jax.stages.Traced",
        "jax.tree_util.PyTreeDef.from_iterable_tree",
    ),
    "Sparse arrays are made of other operations: xpr has neither primitives for them nor lists of their buffers.": (
        "jax.experimental.sparse.*_p",
        "jax.experimental.sparse.*SparseTrace*",
        "jax.experimental.sparse.*Properties",
        "jax.experimental.sparse.*Info",
        "jax.experimental.sparse.*.sum",
        "jax.experimental.sparse.JAXSparse.tree_unflatten",
        "jax.experimental.sparse.ad.flatten_fun_for_sparse_ad",
        "jax.experimental.sparse.bcoo.[Bnr]*",
        "jax.experimental.sparse.bcsr.bcsr_eliminate_zeros",
        "jax.experimental.sparse.transform.*[Ss]parse*",
        "jax.experimental.sparse.transform.Sparsify*",
        "jax.experimental.sparse.transform.sparsify_*",
        "jax.experimental.sparse.transform.*spvalues*",
        "jax.experimental.sparse.util",
    ),
    "What a module of jax imported for its own use.": (
        "jax.experimental.sparse.ad.*",
        "jax.experimental.sparse.*.Array",
        "jax.experimental.sparse.*.JAXSparse",
        "jax.experimental.sparse.*.CUSPARSE_*",
        "jax.experimental.sparse.*Warning",
        "jax.experimental.sparse.*.Gather*",
        "jax.experimental.sparse.*.canonicalize_axis",
        "jax.experimental.sparse.*.safe_zip",
        "jax.experimental.sparse.*.split_list",
        "jax.experimental.sparse.*.unzip2",
        "jax.experimental.sparse.*.vmap",
        "jax.experimental.sparse.*.SparseEfficiencyError",
        "jax.experimental.sparse.*.nfold_vmap",
        "jax.experimental.sparse.*.promote_dtypes",
        "jax.experimental.sparse.transform.*",
        "jax.example_libraries.optimizers.*map",
        "jax.example_libraries.optimizers.*zip*",
        "jax.experimental.jet.[cdjlrtuwz]*_*",
        "jax.experimental.jet.*Trace*",
        "jax.experimental.jet.def*",
        "jax.experimental.jet.Zero*",
        "jax.experimental.jet.unzip2",
        "jax.experimental.jet.safe_zip",
        "jax.experimental.ode.[a-np-z]*",
        "jax.experimental.ode.optimal_step_size",
        "jax.experimental.multihost_utils.*_impl",
        "jax.experimental.multihost_utils.*_p",
        "jax.experimental.multihost_utils.P",
        "jax.experimental.multihost_utils.gtl_abstract_eval",
        "jax.experimental.multihost_utils.ltg_*",
        "jax.experimental.multihost_utils.safe_zip",
        "jax.experimental.multihost_utils.tree_*",
        "jax.experimental.rnn.[Acst]*",
        "jax.experimental.scheduling_groups.[adFmtuwz]*",
        "jax.experimental.scheduling_groups.s[apu]*",
    ),
    "Parameters of another name that are given by position alone, by what calls the function.": (
        "jax.example_libraries.optimizers.optimizer(opt_maker)",
        "jax.example_libraries.optimizers.l2_norm(tree)",
        "jax.Ref.addupdate(idx)",
        "jax.extend.core.jaxpr_as_fun(closed_jaxpr)",
        "jax.extend.core.subjaxprs(jaxpr)",
        "jax.tree_util.Partial(func)",
    ),
    "Functions that are compositions of others here, so that there is no primitive of their name.": (
        "jax.experimental.pallas.pallas_call_p",
        "jax.*.mulhi_p",
        "jax.*.after_all_p",
        "jax.*.create_token_p",
        "jax.*.ragged_all_to_all_p",
        "jax.*.split_p",
        "jax.*.stack_p",
        "jax.*.tile_p",
        "jax.*.unstack_p",
        "jax.*.cholesky_update_p",
        "jax.*.symmetric_product_p",
        "jax.*.approx_top_k_p",
        "jax.*.reduce_p",
        "jax.*.reduce_window_p",
        "jax.*.select_and_scatter_p",
        "jax.*.eq_to_p",
        "jax.*.le_to_p",
        "jax.*.lt_to_p",
        "jax.*.empty2_p",
        "jax.*.remat_opt_p",
        "jax.*.stage_p",
        "jax.*.xla_metadata_call_p",
    ),
    "Refused by jax itself, whatever is given.": (
        *(f"jax.numpy.{name}({parameter})" for name in _UFUNCS for parameter in ("out", "where")),
        "jax.Array.flat",
        "jax.Array.view(type)",
        "jax.scipy.stats.gaussian_kde.integrate_box",
        *(
            f"jax.sharding.AbstractMesh.{name}"
            for name in ("device_ids", "devices", "is_multi_process", "local_devices", "local_mesh")
        ),
        "jax.scipy.stats.gaussian_kde.set_bandwidth",
        "jax.vjp(reduce_axes)",
        "jax.default_device(new_val)",
        "jax.default_prng_impl(new_val)",
        "jax.legacy_prng_key(new_val)",
        "jax.numpy_dtype_promotion(new_val)",
        "jax.numpy_rank_promotion(new_val)",
        "jax.transfer_guard_*(new_val)",
    ),
    "Of types of one's own (hijax) what jax's interpreters ask for, and the types of arrays, refs and views too; and \
the arrays and dtypes of jax's unfinished frame.": (
        "jax.P.to_lo",
        "jax.experimental.hijax.AbstractRef",
        "jax.experimental.hijax.AbstractValue",
        "jax.experimental.hijax.AvalMutableQDD",
        "jax.experimental.hijax.AvalQDD",
        "jax.experimental.hijax.HiPrimitive",
        "jax.experimental.hijax.HiPspec",
        "jax.experimental.hijax.HiType",
        "jax.experimental.hijax.MutableHiType",
        "jax.experimental.hijax.TransformedRef",
        "jax.experimental.hijax.VJPHiPrimitive",
        "jax.experimental.hijax.Zero.instantiate",
        "jax.experimental.hijax.aval_method.fun",
        "jax.experimental.hijax.aval_property.fget",
        "jax.experimental.hijax.is_undefined_primal",
        "jax.experimental.EArray",
        "jax.experimental.primal_tangent_dtype",
    ),
    "Choices between two ways of doing a thing, of which xpr has one: softmax has a rule of its own, values are made \
varying where they have to be.": (
        "jax.auto_pcast",
        "jax.jax2tf_associative_scan_reductions",
        "jax.remove_size_one_mesh_axis_from_type",
        "jax.softmax_custom_jvp",
    ),
    "Guards of jaxlib's own arrays and threads, and of what goes on without a process that is lost: here processes \
compare the programs that they run, and all end with one of them (ProgramMismatch, ProcessLost).": (
        "jax.array_garbage_collection_guard",
        "jax.experimental.multihost_utils.ProcessFailureError",
        "jax.experimental.multihost_utils.live_devices",
        "jax.thread_guard",
    ),
    "For TPUs, or for what only their compiler knows: estimates, calls that it replaces, transfers between hosts, \
parts of a network.": (
        "jax.experimental.control_deps",
        "jax.experimental.fused",
        "jax.experimental.transfer",
        "jax.distributed.initialize(slice_index)",
        "jax.distributed.initialize(partition_index)",
        "jax.experimental.mesh_utils.device_kind_handler_dict",
        "jax.extend.backend.register_backend_factory",
        "jax.lax.precv",
        "jax.lax.psend",
    ),
    "cuDNN's part of a function that is made of scans here.": (
        "jax.experimental.rnn.lstm_*wd",
        "jax.experimental.rnn.rnn_*",
    ),
    "Names of scopes are text: `eqn.source_info.name_stack`.": ("jax.extend.source_info_util",),
    "How a module is made of parts.": ("jax.experimental.colocated_python.*",),
    "Of jaxlib, for libraries: there where `import jax` gives xpr.": ("jax.extend.ifrt_programs", "jax.lib"),
    "In `xpr` itself, since `xpr.core` is below what it is made of.": ("jax.core.ensure_compile_time_eval",),
    "The default says the same by another object.": (
        "jax.example_libraries.stax.*_init)",
        "jax.experimental.pallas.pallas_call(input_output_aliases)",
        "jax.numpy.einsum(_dot_general)",
        "jax.shard_map(in_specs)",
        "jax.smap(in_axes)",
    ),
    "Private to jax, though some functions show it.": (
        "jax.extend.core.find_top_trace(_)",
        "jax.export.Exported(_*",
        "jax.export.export(_override_lowering_rules)",
        "jax.interpreters.ad.jvp(*",
        "jax.interpreters.ad.linearize(*",
        "jax.ref.swap(_function_name)",
        "jax.vmap(sum_match)",
    ),
}

NOT_BUILT_YET: tuple[str, ...] = ()
