"""Private names of JAX that libraries import nevertheless, with those libraries.

`MODULES` lists the names of a module that xpr lacks or has under another name: those of modules of xpr, by
name, and those below. A name is removed when no library uses it any more.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import xpr
from xpr.api import jit as jit_module
from xpr.api.current_mesh import entered_mesh
from xpr.api_util import DebugInfo, infer_argnums_and_argnames
from xpr.backend.array import Array
from xpr.backend.devices import clients
from xpr.backend.sharding import Sharding, SingleDeviceSharding
from xpr.control.callback.callback import effects_barrier
from xpr.control.stop_gradient import stop_gradient_p
from xpr.control.xla_call import xla_call_p
from xpr.core import ShapedArray, aval_of
from xpr.core.interpreter import Tracer, context
from xpr.core.jaxpr import Atom
from xpr.core.refs import AbstractRef, Ref
from xpr.core.source import excluded, is_internal
from xpr.dtypes import INEXACT, complex_of
from xpr.errors import ClosureDerivativeError, JaxRuntimeError, TypePromotionError
from xpr.extend import core as extend_core
from xpr.extend.backend import get_backend
from xpr.extend.core import valid_jaxtype
from xpr.extend.core.traces import Trace
from xpr.extend.source_info_util import register_exclusion
from xpr.fingerprint.pure import seen_elsewhere
from xpr.interpreters import xla
from xpr.numpy import promotion
from xpr.numpy.concrete import is_known
from xpr.numpy.refs import new_ref
from xpr.testing import check_grads
from xpr.transforms.boundary import UnfilteredStackTrace, boundary
from xpr.transforms.jvp import JVPTracer
from xpr.transforms.linearize import LinearizeTracer
from xpr.transforms.stage import StageTracer
from xpr.transforms.vmappable import handlers
from xpr.tree_nodes import open_tree, registered

VERSION = "0.10.2"  # of JAX, whose names and semantics xpr has


def _unchanged(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    return function


def _boundary(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return boundary(function)


def _ignored(*_: Any, **__: Any) -> None:
    return None


def _trace_state_clean() -> bool:
    return context.trace.parent is None


def _is_concrete(x: Any) -> bool:
    """Whether a value is known to JAX, which constants of staged functions are not."""
    while isinstance(x, (JVPTracer, LinearizeTracer)):
        x = x.primal
    return is_known(x) and not isinstance(x, StageTracer)


class TypedScalar:
    """JAX's scalars with a dtype; xpr's are NumPy's."""


class GlobalAsyncCheckpointManagerBase:
    """The class of JAX's own writers of checkpoints, of which xpr has others."""


class _GlobalAsyncCheckpointManager(GlobalAsyncCheckpointManagerBase):
    """JAX's writer of arrays that several processes hold, by TensorStore, which xpr does without."""

    def __init__(self, *_: Any, **__: Any):
        _get_tensorstore_spec("")


def _get_tensorstore_spec(path: str, *_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "jax.experimental.array_serialization.serialization: xpr does without TensorStore. Write arrays that several "
        "processes hold with orbax, or with pytree_serialization of the same package."
    )


class ExtendedDType:
    """A dtype that NumPy can't have."""


class _NodeClasses(Mapping[type, Any]):
    """The classes of pytree nodes, each with JAX's functions of one level."""

    _of_python = (tuple, list, dict, OrderedDict, defaultdict, type(None))
    _level = SimpleNamespace(
        to_iter=lambda node: (level := open_tree(node)) and (level.children, level.shape),
        from_iter=lambda shape, children: shape.unflatten(children),
    )

    def __getitem__(self, node_type: type) -> Any:
        if node_type in registered or node_type in self._of_python:
            return self._level
        raise KeyError(node_type)

    def __iter__(self) -> Iterator[type]:
        return iter((*registered, *self._of_python))

    def __len__(self) -> int:
        return len(registered) + len(self._of_python)


def _array_namespace(self: Any, *, api_version: str | None = None) -> Any:
    return importlib.import_module("jax.numpy")


def _include_frame(frame: Any) -> bool:
    return not is_internal(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith(tuple(excluded))


def _no_compile(*_: Any, **__: Any) -> None:
    raise NotImplementedError("xpr compiles by functions of its own: chex.restrict_backends has no effect on them.")


def _named_after(wrapped: Callable[..., Any], namestr: str = "{fun}", docstr: str = "{doc}") -> Callable[..., Any]:
    def named(fun: Callable[..., Any]) -> Callable[..., Any]:
        name = functools.update_wrapper(fun, wrapped).__name__
        fun.__name__, fun.__doc__ = namestr.format(fun=name), docstr.format(fun=name, doc=wrapped.__doc__ or "")
        return fun

    return named


def _check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    def check(x: Any, y: Any) -> None:
        x, y = np.asarray(x), np.asarray(y)
        default = 10 * float(xpr.numpy.finfo(x.dtype).eps) if x.dtype in INEXACT else 0.0
        of_dtype = [each.get(str(x.dtype), default) if isinstance(each, Mapping) else each for each in (atol, rtol)]
        used = [default if each is None else each for each in of_dtype]
        np.testing.assert_allclose(x, y, atol=used[0], rtol=used[1], err_msg=err_msg)

    xpr.tree.map(check, xs, ys)


def _sharding_with_axes(sharding: Any, *_: Any, **__: Any) -> Any:
    return None if sharding is None or sharding.mesh.empty else sharding


def _promoted_to_complex(*args: Any) -> list[Any]:
    dtype = complex_of(xpr.numpy.result_type(*args))
    return [xpr.numpy.asarray(x, dtype) for x in args]


def _einsum(
    operands: Sequence[Any],
    contractions: Sequence[tuple[Sequence[int], Any, str]],
    precision: Any,
    preferred_element_type: Any,
    _dot_general: Callable[..., Any] | None = None,
    out_sharding: Any = None,
) -> Any:
    """The contractions of a path by opt_einsum, in order: the operands of each are taken out of the list."""
    values = list(operands)
    for positions, _, subscripts in contractions:
        values.append(
            xpr.numpy.einsum(
                subscripts,
                *[values.pop(position) for position in positions],
                precision=precision,
                preferred_element_type=preferred_element_type,
                _dot_general=_dot_general,
                out_sharding=out_sharding,
            )
        )
    return values[0]


def _no_polymorphic_einsum(*_: Any, **__: Any) -> None:
    raise NotImplementedError("haliax: dot with a `dot_general` of its own has no contraction path of symbolic sizes.")


def _grouped_matmul(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    preferred_element_type: Any = np.float32,
    tiling: Any = None,
    group_offset: Any = None,
    existing_out: Any = None,
    transpose_rhs: bool = False,
    interpret: bool = False,
) -> Any:
    """What JAX's kernel for TPUs computes: consecutive rows of lhs, each group of them times its matrix of rhs."""
    if group_offset is not None or existing_out is not None:
        raise NotImplementedError("megablox.gmm: xpr takes no group_offset and no existing_out; use lax.ragged_dot.")
    rhs = xpr.numpy.swapaxes(rhs, 1, 2) if transpose_rhs else rhs
    return xpr.lax.ragged_dot(lhs, rhs, group_sizes, preferred_element_type=preferred_element_type)


class _ThreadResources:
    """The mesh that a thread entered by `with mesh:`."""

    @property
    def env(self) -> Any:
        return SimpleNamespace(physical_mesh=entered_mesh() or xpr.sharding.get_mesh())


# Used by: equinox, flax, jaxtyping (register_exclusion), haiku, chex (api_boundary)
traceback_util = SimpleNamespace(
    register_exclusion=register_exclusion,
    api_boundary=_boundary,
    include_frame=_include_frame,
    UnfilteredStackTrace=UnfilteredStackTrace,
    _exclude_paths=excluded,
)
# equinox waits for callbacks before it raises what they raised, jaxdecomp says of primitives that they lower by devices
dispatch = SimpleNamespace(wait_for_tokens=effects_barrier, prim_requires_devices_during_lowering=set())
# mpi4jax declares what may hold its effect; recomputation under `checkpoint` never repeats one
effects = SimpleNamespace(
    ordered_effects=xpr.core.ordered_effects, lowerable_effects=xpr.core.lowerable_effects,
    control_flow_allowed_effects=xpr.core.control_flow_allowed_effects,
    custom_derivatives_allowed_effects=xpr.core.custom_derivatives_allowed_effects,
    remat_allowed_effects=xpr.core.EffectTypes("remat_allowed_effects"), Effect=xpr.core.Effect,
)  # fmt: skip
# jaxdecomp, which jaxpm is written with, registers a class whose `defjvp` and the like `custom_jvp` would pass on
custom_api_util = SimpleNamespace(register_custom_decorator_type=_unchanged)
# lineax defines rules for it
ad_util = SimpleNamespace(stop_gradient_p=stop_gradient_p)
# quax, flax: types and the state of tracing
core = SimpleNamespace(AbstractValue=ShapedArray, Trace=Trace, Tracer=Tracer, trace_state_clean=_trace_state_clean)
# Names of jax.extend.core that JAX 0.10 still has in jax.core
OF_EXTEND_CORE = (
    "DropVar", "JaxprTypeError", "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym",
    "get_opaque_trace_state", "jaxprs_in_params", "new_jaxpr_eqn", "no_effects",
)  # fmt: skip
# kfac-jax
extension_core = SimpleNamespace(DebugInfo=DebugInfo)
# tensorflow-probability adds a type of its own, pennylane asks what is traced; lineax, haiku, orbax and kfac-jax use
# the others
public_core = SimpleNamespace(
    pytype_aval_mappings=xla.pytype_aval_mappings, AbstractValue=ShapedArray, Atom=Atom, valid_jaxtype=valid_jaxtype,
    ensure_compile_time_eval=xpr.ensure_compile_time_eval, is_concrete=_is_concrete,
    CallPrimitive=extend_core.CallPrimitive, DebugInfo=DebugInfo, Effect=extend_core.Effect, Effects=frozenset,
    ParamDict=dict, Trace=Trace, Value=Any,
    **{name: getattr(extend_core, name) for name in OF_EXTEND_CORE},
)  # fmt: skip
# e3nn-jax finds the arguments that it counts, pennylane dtypes of tangents
api = SimpleNamespace(_infer_argnums_and_argnames=infer_argnums_and_argnames, _dtype=lambda x: aval_of(x).dtype)
# flax.nnx checks whether a type is that of a mutable array
state_types = SimpleNamespace(AbstractRef=AbstractRef)
experimental = SimpleNamespace(MutableArray=Ref, mutable_array=new_ref)
# equinox.nn catches an error; tinygp computes with a complex dtype
dtypes = SimpleNamespace(
    TypePromotionError=TypePromotionError, ExtendedDType=ExtendedDType, DType=np.dtype, to_complex_dtype=complex_of
)
# quax, equinox: scalars with a dtype
literals = SimpleNamespace(
    TypedInt=TypedScalar, TypedFloat=TypedScalar, TypedComplex=TypedScalar, TypedNdArray=TypedScalar,
    LiteralArray=TypedScalar,
)  # fmt: skip
# chex wraps it in a check
compiler = SimpleNamespace(backend_compile_and_load=_no_compile)
# chex counts the devices of clients that exist, keras' tests look at the default one, flax' guides say how many to make
xla_bridge = SimpleNamespace(_backends=clients, get_backend=get_backend, backends_are_initialized=lambda: bool(clients))
# chex tests functions so curved that differences must be taken with JAX's step
test_util = SimpleNamespace(check_grads=functools.partial(check_grads, eps=1e-4))
# tinygp's tests
public_test_util = SimpleNamespace(check_close=_check_close)
version = SimpleNamespace(__version__=VERSION, __version_info__=tuple(map(int, VERSION.split("."))))
lib = SimpleNamespace(__version__=importlib.metadata.version("jaxlib"))
# flax.nnx looks up classes that are pytrees, jaxlie maps one level of them
tree_util = SimpleNamespace(_registry=_NodeClasses())
# rax, which JAX had until 0.8
util = SimpleNamespace(wraps=_named_after)
# quax interprets calls, jaxns maps over batches of arrays whose mesh may have Explicit axes
pjit = SimpleNamespace(jit_p=xla_call_p, auto_axes=xpr.sharding.auto_axes)
sharding_impls = SimpleNamespace(canonicalize_sharding=_sharding_with_axes)
# jaxns
typing = SimpleNamespace(DType=np.dtype, DimSize=Any, Shape=Sequence[Any])
# dynamiqs catches it
xla_client = SimpleNamespace(XlaRuntimeError=JaxRuntimeError)
# evermore: in annotations
random = SimpleNamespace(Shape=Sequence[int])
# orthax and cuthbert, s2fft
numpy_util = SimpleNamespace(
    promote_dtypes_inexact=promotion.promote_inexact, promote_dtypes_complex=_promoted_to_complex
)
# haliax contracts named axes by functions of its own, and multiplies the rows of each expert
megablox = SimpleNamespace(gmm=_grouped_matmul)
einsum = SimpleNamespace(_einsum=_einsum, _poly_einsum_handlers={}, _default_poly_einsum_handler=_no_polymorphic_einsum)
# esquilax, which jumanji is written with: in annotations
ufuncs = SimpleNamespace(ufunc=xpr.numpy.ufunc)
# jaxoplanet maps over types that map themselves
batching = SimpleNamespace(is_vmappable=lambda x: type(x) in handlers)
# jaxopt's tests catch it
ad = SimpleNamespace(CustomVJPException=ClosureDerivativeError)
config = SimpleNamespace(config=xpr.config)
# haliax, which levanter is written with
pxla = SimpleNamespace(thread_resources=_ThreadResources())

# orbax: the devices of a sharding in this process, in order
Sharding._addressable_device_assignment = property(  # type: ignore[attr-defined]
    lambda self: tuple([self.devices[i] for i in self.local])
)
SingleDeviceSharding._device = property(lambda self: self.device)  # type: ignore[attr-defined]  # haliax

xpr.core.Trace.main = property(lambda self: self)  # type: ignore[attr-defined]  # equinox compares traces by it

# orbax: whether there are several processes, what its manager is a kind of, and what it would patch or run elsewhere
distributed = SimpleNamespace(global_state=SimpleNamespace(client=None, coordinator_address=None, process_id=0))
array_serialization = SimpleNamespace(  # the last two: flax.training.checkpoints, for arrays of several processes
    GlobalAsyncCheckpointManagerBase=GlobalAsyncCheckpointManagerBase,
    GlobalAsyncCheckpointManager=_GlobalAsyncCheckpointManager,
    get_tensorstore_spec=_get_tensorstore_spec,
)
colocated_serialization = SimpleNamespace(DeviceList=Sequence[Any])  # in annotations
ifrt_programs = SimpleNamespace(ifrt_programs=SimpleNamespace())

# Modules that `import jax` loads, and that libraries look up in `sys.modules` (array_api_compat, of traced values)
LOADED = ("jax.core", "jax.numpy")

# Whose submodules are those of jaxlib's bindings of MLIR: public ones, and those that packages of kernels import
BINDINGS = ("jax.extend.mlir.", "jax._src.lib.mlir.")

MODULES: dict[str, list[Any]] = {
    "jax.experimental.array_serialization.serialization": [array_serialization],
    "jax.experimental.colocated_python.func": [],
    "jax.experimental.colocated_python.serialization": [
        colocated_serialization,
        "xpr.experimental.colocated_python.serialization",
    ],
    "jax.extend.ifrt_programs": [ifrt_programs],
    "jax._src.distributed": [distributed],
    "jax.experimental": ["xpr.experimental", experimental],
    "jax.lib": [lib],
    "jax.util": [util, "xpr.api_util"],
    "jax.version": [version],
    "jax.core": [public_core, "xpr.core"],
    "jax.extend.core": [extension_core, "xpr.extend.core"],
    "jax.experimental.checkify": ["xpr.checkify"],
    # keras: kernels for TPUs, which it calls on those alone
    "jax.experimental.pallas.ops": [],
    "jax.experimental.pallas.ops.tpu": [],
    "jax.experimental.pallas.ops.tpu.splash_attention": [],
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel": [],
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask": [],
    "jax.experimental.pallas.ops.tpu.megablox": [megablox],
    "jax.interpreters.pxla": [pxla, "xpr.interpreters.pxla"],
    "jax.test_util": [test_util, "xpr.testing"],
    "jax._src": [],
    "jax._src.ad_checkpoint": ["xpr.ad_checkpoint"],
    "jax._src.ad_util": [ad_util, "xpr.interpreters.ad"],
    "jax._src.api": [api, "xpr"],
    "jax._src.api_util": ["xpr.api_util"],
    "jax._src.checkify": ["xpr.checkify"],
    "jax._src.compiler": [compiler],
    "jax._src.config": [config, "xpr.config", "xpr.config_contexts"],
    "jax._src.core": [core, "xpr.extend.core", "xpr.core"],
    "jax._src.custom_api_util": [custom_api_util],
    "jax._src.dispatch": [dispatch],
    "jax._src.effects": [effects],
    "jax._src.dtypes": [dtypes, "xpr.dtypes"],
    "jax._src.flatten_util": ["xpr.flatten_util"],
    "jax._src.lib": [],
    "jax._src.lib.mlir": [],
    "jax._src.lib.xla_client": [xla_client],
    "jax._src.lib.mlir.dialects": ["jaxlib.mlir.dialects"],
    "jax._src.lib.mlir.dialects.hlo": ["jaxlib.mlir.dialects.stablehlo"],
    "jax._src.interpreters": ["xpr.interpreters"],
    "jax._src.interpreters.ad": [ad, "xpr.interpreters.ad"],
    "jax._src.interpreters.batching": [batching, "xpr.interpreters.batching"],
    "jax._src.interpreters.mlir": ["xpr.interpreters.mlir"],
    "jax._src.interpreters.partial_eval": ["xpr.interpreters.partial_eval"],
    "jax._src.interpreters.pxla": ["xpr.interpreters.pxla"],
    "jax._src.lax": ["xpr.lax"],
    "jax._src.lax.lax": ["xpr.lax"],  # JAX's page about primitives
    "jax._src.lax.control_flow": ["xpr.lax"],  # pytensor
    "jax._src.lax.linalg": ["xpr.lax.linalg"],  # unxt
    "jax._src.literals": [literals],
    "jax._src.mesh": ["xpr.sharding"],  # jaxns
    "jax._src.numpy": [],
    "jax._src.numpy.einsum": [einsum],
    "jax._src.numpy.ufuncs": [ufuncs],
    "jax._src.numpy.util": [numpy_util],
    "jax._src.partition_spec": ["xpr.sharding"],  # jaxns
    "jax._src.pjit": [pjit],
    "jax._src.public_test_util": [public_test_util],
    "jax._src.random": [random, "xpr.random"],
    "jax._src.scipy": ["xpr.scipy"],
    "jax._src.scipy.linalg": ["xpr.scipy.linalg"],  # jaxns
    "jax._src.scipy.special": ["xpr.scipy.special"],
    "jax._src.sharding_impls": [sharding_impls],
    "jax._src.source_info_util": ["xpr.extend.source_info_util"],
    "jax._src.state": [],
    "jax._src.state.types": [state_types],
    "jax._src.typing": [typing, "xpr.typing"],
    "jax._src.traceback_util": [traceback_util],
    "jax._src.tree_util": [tree_util, "xpr.tree_util"],
    "jax._src.util": ["xpr.api_util"],
    "jax._src.xla_bridge": [xla_bridge],
}


def _subclasses(of: type[Any]) -> Iterator[type]:
    for each in of.__subclasses__():
        yield each
        yield from _subclasses(each)


def adapt() -> None:
    """Changes xpr in a process with the alias: what JAX allows without a word is allowed, and classes have JAX's names.

    Libraries ask for `__module__` and `__qualname__` of the classes of arrays, tracers and jitted functions.
    """
    # JAX says nothing of arrays in 64 bits that become 32, and numpyro's and others' tests take warnings for errors
    promotion.warn_of_changed_values = _ignored
    # nor of indices beyond the end of an axis, as numpyro's in branches that are not taken, of integers that the dtype
    # of the other operand can't hold, as distrax' unsigned arrays times -1, and of infinities times False, as jax_md's
    for name in ("check_static_indices", "check_python_integers", "exact_masks"):
        if f"XPR_{name.upper()}" not in os.environ:
            xpr.config.update(name, False)
    # chex finds functions that `jit` has made by the text of their type
    jit_module.PjitFunction = jit_module.JitFunction  # type: ignore[attr-defined]
    jit_module.JitFunction.__qualname__ = "PjitFunction"
    # autoray, and with it quimb and pennylane, knows the library of an array by the module of its class
    modules: dict[type, str] = {Array: "jax", **dict.fromkeys(_subclasses(Tracer), "jax.core")}
    for kind, module in modules.items():
        seen_elsewhere[kind] = kind.__module__
        kind.__module__ = module
    # array-api-compat knows the namespace of an array by its name
    Array.__array_namespace__ = Tracer.__array_namespace__ = _array_namespace  # type: ignore[attr-defined]
