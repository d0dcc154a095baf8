"""`xpr.as_jax`: what `import jax` gives from then on, and what is said of names that are not there."""

import importlib
import subprocess
import sys
import textwrap

import pytest

from tests.processes import ROOT
from xpr.numpy import promotion


def run(code, *arguments, tmp_path, fails=False, environment=None):
    """What a script prints that is run under the alias."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "xpr.as_jax", *arguments[:1], str(script), *arguments[1:]]
    environment = {"PYTHONPATH": str(ROOT), **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout if not fails else done.stdout + done.stderr


def test_modules_are_those_of_xpr(tmp_path):
    out = run(
        """
        import importlib.metadata
        import jax, xpr
        import jax.numpy as jnp
        import jax.scipy.stats.norm
        from jax import lax, random
        from jax.experimental import io_callback
        from jax._src.traceback_util import register_exclusion
        from jax._src.tree_util import _registry

        print(jax.__version__, jax.__version_info__, jax.__xpr__ == xpr.__version__, importlib.metadata.version("jax"))
        print(jnp.sin is xpr.numpy.sin, lax.scan is xpr.lax.scan, jax.Array is xpr.Array, jax.config is xpr.config)
        print(jax.grad(lambda x: jnp.sum(x**2))(jnp.ones(2)), jax.scipy.stats.norm.pdf(0.0))
        print(jax.checkpoint is xpr.checkpoint, "sin" in dir(jnp), hasattr(jax, "nothing"))
        leaf, node = type("leaf", (), {}), jax.tree_util.register_static(type("node", (), {}))
        print([each in _registry for each in (dict, node, leaf)])
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == [
        "0.10.2 (0, 10, 2) True 0.10.2", "True True True True", "[2. 2.] 0.3989423", "True True False",
        "[True, True, False]",
    ]  # fmt: skip


@pytest.mark.parametrize("checked", [None, "1"])
def test_indices_out_of_range_are_clamped_as_in_jax(tmp_path, checked):
    code = """
        import jax, jax.numpy as jnp
        x = jnp.arange(6).reshape(2, 3)
        print(x[5], x[-7, 1], x[:, 9], x.at[4].set(0).sum(), jax.jit(lambda x: x[0, 8])(x), x[1, 2], x[1:, ::-1])
        """
    environment = {} if checked is None else {"XPR_CHECK_STATIC_INDICES": checked}
    out = run(code, tmp_path=tmp_path, fails=checked is not None, environment=environment)
    if checked is None:
        assert out == "[3 4 5] 1 [2 5] 15 2 5 [[5 4 3]]\n"
    else:
        assert "IndexError: index 5 out of bounds for axis 0 with size 2" in out


def test_integers_wrap_around_as_in_jax(tmp_path):
    out = run(
        """
        import jax, jax.numpy as jnp
        x = jnp.array([1, 2], jnp.uint8)
        negative = x * -1, x + 300, jnp.where(x > 1, x, -1), x.at[0].set(-1), jax.jit(lambda x: -1 * x)(x)
        for y in (*negative, x & -1, x * 7):
            print(y, y.dtype, end="; ")
        for f in (lambda: jnp.array(300, jnp.uint8), lambda: x + 2**40):
            try:
                f()
            except OverflowError as error:
                print(error)
        """,
        tmp_path=tmp_path,
    )
    values = "[255 254]", "[45 46]", "[255   2]", "[255   2]", "[255 254]", "[1 2]", "[ 7 14]"
    *lines, too_large = out.splitlines()
    assert lines == ["".join(f"{value} uint8; " for value in values) + "Python int 300 too large to convert to uint8."]
    assert "1099511627776 too large to convert to int32" in too_large


def test_modules_that_are_names_of_others(tmp_path):
    out = run(
        """
        import jax
        from jax.extend.mlir import ir
        from jax.extend.mlir.dialects import stablehlo
        from jax.interpreters import mlir
        from jax._src.lib.mlir.dialects import hlo
        print(mlir.ir.Module is ir.Module, hlo.add is stablehlo.add, jax.checkpoint_policies.dots_saveable.__name__)
        print(hasattr(jax.numpy, "np"), hasattr(jax.numpy, "linalg"))
        with jax.core.ensure_compile_time_eval():
            print(jax.core.get_opaque_trace_state() == jax.core.get_opaque_trace_state(), jax.core.DebugInfo.__name__)
        print(jax.extend.core.DebugInfo is jax.core.DebugInfo, jax.extend.core.JaxprEqn.__name__)
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == ["True True dots_saveable", "False True", "True DebugInfo", "True JaxprEqn"]


def test_arguments_and_modules(tmp_path):
    assert run("import sys; print(sys.argv[1:], __name__)", tmp_path=tmp_path).strip() == "[] __main__"
    (tmp_path / "shown.py").write_text("import sys, jax; print(jax.__version__, sys.argv[1:])")
    command = [sys.executable, "-m", "xpr.as_jax", "-m", "shown", "a", "--b"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    )
    assert done.stdout.strip() == "0.10.2 ['a', '--b']", done.stderr


@pytest.mark.parametrize(
    "line, error",
    [
        ("from jax.numpy import nothing", "ImportError: jax.numpy.nothing is not there: jax is xpr here"),
        ("import jax; jax.lax.nothing", "AttributeError: jax.lax.nothing is not there: jax is xpr here"),
        ("import jax.experimental.nothing", "ModuleNotFoundError: No module named 'jax.experimental.nothing'"),
    ],
)
def test_names_that_are_not_there(line, error, tmp_path):
    assert error in run(line, tmp_path=tmp_path, fails=True)


def test_all_that_is_asked_for_in_vain(tmp_path):
    out = run(
        """
        import jax
        import jax.experimental.nothing as n
        from jax.numpy import nobody
        @jax.lax.never
        def f(x): return x
        class C(n.Base): pass
        print(f(3))
        """,
        "--missing",
        tmp_path=tmp_path,
        fails=True,
    )
    assert "\n3\n" in "\n" + out
    assert "4 names of jax were asked for that xpr lacks" in out
    for name, line in {
        "experimental.nothing": 3,
        "numpy.nobody": 4,
        "lax.never": 5,
        "experimental.nothing.Base": 7,
    }.items():
        assert f"jax.{name}\n    {tmp_path / 'script.py'}:{line}" in out


def test_nothing_is_missing(tmp_path):
    assert "Every name that was asked for is there." in run("import jax", "--missing", tmp_path=tmp_path)


def test_the_real_jax_can_not_be_replaced():
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", "import jax, xpr.as_jax"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert "ImportError: xpr can't take the place of jax: jax 0.10.2 is imported already, from" in done.stderr


def test_nothing_changes_for_others():
    code = "import sys, xpr, xpr.interpreters.ad; assert 'jax' not in sys.modules and 'xpr.as_jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    importlib.import_module("xpr.alias.private")  # as tests of all modules do, without installing anything
    assert promotion.warn_of_changed_values.__name__ == "warn_of_changed_values"


def test_what_libraries_look_at(tmp_path):
    """Attributes of JAX's own objects, and what its calls accept, that libraries' suites were found to rely on."""
    out = run(
        """
        import inspect, pickle, typing
        import jax, jax.dtypes, jax.lib, jax.test_util, jax.tree_util
        import xpr.testing
        import jax.numpy as jnp
        from jax._src import traceback_util, xla_bridge

        x = jnp.ones((2, 3))
        sharding = jax.typeof(x).sharding
        print(sharding.is_fully_replicated, sharding.spec, sharding.mesh.empty)
        assert jax.core.ShapedArray((2, 3), jnp.float32, sharding=sharding) is jax.typeof(x)
        print(isinstance(jax.dtypes.bfloat16(1), jax.dtypes.bfloat16), jax.lib.__version__ != "")
        print(isinstance(jax.jit(jnp.sin)(x).unsafe_buffer_pointer(), int), "cpu" in xla_bridge._backends)
        print(xla_bridge.backends_are_initialized())
        print(inspect.signature(jax.jit(lambda a, b=1: a), follow_wrapped=False), jax.lax.sin_p.get_bind_params({}))

        class Called:
            def __init__(self): self.__qualname__ = self.__annotations__ = 3
            def __call__(self, x): return x

        print(jax.vmap(Called())(x).shape)
        print(type(jax.jit(jnp.sin)), pickle.loads(pickle.dumps(jax.jit(jnp.sin)))(0.0))
        assert isinstance((jax.tree_util.SequenceKey(0),), tuple) and type(jax.tree_util.KeyEntry) is typing.TypeVar
        steep = lambda x: (x**8) ** 8
        jax.test_util.check_grads(steep, (1.2,), 1, atol=1.0, rtol=0.01)
        try:
            xpr.testing.check_grads(steep, (1.2,), 1, atol=1.0, rtol=0.01)
        except AssertionError:
            print("JAX's step is smaller")
        with jax.numpy_dtype_promotion("strict"):
            print(jax.lax.reduce_window(jnp.arange(4), -jnp.inf, jax.lax.max, (2,), (2,)))
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == [
        "True P(None, None) True", "True True", "True True", "True", "(a, b=1) {}", "(2, 3)",
        "<class 'xpr.api.jit.PjitFunction'> 0.0", "JAX's step is smaller", "[1 3]",
    ]  # fmt: skip


def test_functions_that_name_modules_are_pickled(tmp_path):
    pytest.importorskip("cloudpickle")
    out = run(
        """
        import pickle
        import cloudpickle, jax
        import jax.numpy as jnp

        double = jax.grad(lambda x: jnp.sum(x) * jax.numpy.linalg.norm(x))
        print(pickle.loads(cloudpickle.dumps(double))(jnp.ones(1)), pickle.loads(pickle.dumps(jnp)) is jnp)
        """,
        tmp_path=tmp_path,
    )
    assert out == "[2.] True\n"


def test_private_names(tmp_path):
    """What stands in xpr/alias/private.py with more than a name."""
    out = run(
        """
        import jax, jax.util
        import jax.numpy as jnp
        from jax._src.custom_api_util import register_custom_decorator_type
        from jax._src.dispatch import prim_requires_devices_during_lowering
        from jax._src.lax.linalg import svd_p
        from jax._src.lib.xla_client import XlaRuntimeError
        from jax._src.mesh import Mesh
        from jax._src.numpy.util import promote_dtypes_complex, promote_dtypes_inexact
        from jax._src.partition_spec import PartitionSpec
        from jax._src.public_test_util import check_close
        from jax._src.random import Shape
        from jax._src.scipy.linalg import solve_triangular
        from jax._src.scipy.special import gammaln
        from jax._src.sharding_impls import canonicalize_sharding
        from jax._src.tree_util import _registry
        from jax._src.typing import DType, SupportsDType
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        from jax.experimental.array_serialization import serialization

        for refused in (serialization.GlobalAsyncCheckpointManager, lambda: serialization.get_tensorstore_spec("path")):
            try:
                refused()
            except NotImplementedError as error:
                print("TensorStore" in str(error))
        to_iter, from_iter = _registry[dict].to_iter, _registry[dict].from_iter
        children, data = to_iter({"a": 1, "b": [2, 3]})
        print(children, from_iter(data, [x * 2 for x in children]), data == to_iter({"a": 0, "b": 1})[1])
        print(len(set(_registry)) == len(_registry))
        print(register_custom_decorator_type(dict) is dict, prim_requires_devices_during_lowering)
        print(promote_dtypes_inexact(jnp.arange(2), 1)[0], issubclass(XlaRuntimeError, RuntimeError))
        print(promote_dtypes_complex(jnp.ones(2), 1)[1], canonicalize_sharding(jax.typeof(jnp.ones(2)).sharding, "f"))

        @jax.util.wraps(jnp.sin, namestr="my_{fun}", docstr="Mine: {doc}")
        def f(x): return x

        print(f.__name__, f.__doc__[:6], "jax_enable_x64" in jax.config.values)
        class Counting(jax.core.Trace):  # as haiku's, which draws graphs
            def __init__(self, parent):
                super().__init__()
                self.parent_trace, self.names = parent, []
            def process_primitive(self, primitive, tracers, params):
                self.names.append(primitive.name)
                return primitive.bind_with_trace(self.parent_trace, tracers, [*map(jax.typeof, tracers)], params)

        with jax.extend.core.take_current_trace() as trace, jax.extend.core.set_current_trace(Counting(trace)) as trace:
            print(jnp.sin(1.0) + 2, trace.names)
        variable = jax.core.gensym()(jax.typeof(1.0))
        eqn = jax.core.new_jaxpr_eqn([variable], [variable], jax.lax.sin_p, {"accuracy": None}, jax.core.no_effects)
        print(eqn.primitive, isinstance(eqn.effects, jax.core.Effects), jax.typeof(1).at_least_vspace().dtype)
        def derivative_of_closure(x):
            constant = jax.custom_vjp(lambda y: x * y)
            constant.defvjp(lambda y: (y, None), lambda _, ct: (ct,))
            return constant(1.0)
        try:
            jax.grad(derivative_of_closure)(2.0)
        except jax._src.interpreters.ad.CustomVJPException:
            print("of a closure")
        check_close([jnp.ones(2)], [jnp.ones(2) + 1e-4], atol={"float32": 1e-3}, rtol=0.0)
        try:
            check_close(jnp.ones(2), jnp.ones(2) + 1e-4)
        except AssertionError:
            print("not close")
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] + pl.num_programs(0)

        print(pl.pallas_call(kernel, jax.ShapeDtypeStruct((2,), "f4"), grid=3)(jnp.ones(2)), triton.CompilerParams())
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == [
        "True", "True",
        "[1, [2, 3]] {'a': 2, 'b': [2, 3, 2, 3]} True", "True", "True set()", "[0. 1.] True", "(1+0j) None",
        "my_sin Mine:  True",
        "2.841471 ['sin', 'add']", "sin True [('float0', 'V')]", "of a closure", "not close",
        "[4. 4.] CompilerParams(num_warps=None, num_stages=None)",
    ]  # fmt: skip


def test_private_names_that_haliax_uses(tmp_path):
    """Einsum by a path, with a product of one's own; rows of each expert times its matrix; the mesh of a thread."""
    out = run(
        """
        import jax, jax.numpy as jnp, numpy as np, opt_einsum
        from jax._src.ad_checkpoint import saved_residuals
        from jax._src.numpy import einsum
        from jax.experimental.pallas.ops.tpu.megablox import gmm

        products = []
        def product(*args, **kwargs):
            products.append(1)
            return jax.lax.dot_general(*args, **kwargs)

        x, y, z = (np.random.default_rng(0).normal(size=size).astype("f4") for size in [(2, 3), (3, 4), (4, 2)])
        operands, path = opt_einsum.contract_path("ij,jk,kl->il", x, y, z, einsum_call=True, use_blas=True)
        contractions = tuple((a, frozenset(b), c) for a, b, c, *_ in path)
        out = einsum._einsum(operands, contractions, None, None, product)
        print(np.allclose(out, x @ y @ z, rtol=1e-5), len(products), einsum._poly_einsum_handlers)

        matrices, sizes = jnp.stack([y, 2 * y]), jnp.array([1, 1])
        want = np.stack([x[0] @ y, 2 * x[1] @ y])
        print(np.allclose(gmm(jnp.array(x), matrices, sizes, tiling=(8, 8, 8)), want, rtol=1e-5))
        print(np.allclose(gmm(jnp.array(x), matrices.swapaxes(1, 2), sizes, transpose_rhs=True), want, rtol=1e-5))
        from jax.interpreters.pxla import thread_resources

        mesh = jax.make_mesh((1,), ("x",))
        with mesh:
            print(jax.sharding.get_abstract_mesh().empty, thread_resources.env.physical_mesh is mesh)
        print(jax.sharding.SingleDeviceSharding(jax.devices()[0])._device, len(saved_residuals(jnp.sin, 1.0)))
        for refused in (lambda: gmm(x, matrices, sizes, existing_out=want), einsum._default_poly_einsum_handler):
            try:
                refused()
            except NotImplementedError as error:
                print(error)
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == [
        "True 2 {}", "True", "True", "True True", "cpu:0 1",
        "megablox.gmm: xpr takes no group_offset and no existing_out; use lax.ragged_dot.",
        "haliax: dot with a `dot_general` of its own has no contraction path of symbolic sizes.",
    ]  # fmt: skip


def test_arrays_in_64_bits_become_32_bits_without_a_word(tmp_path):
    out = run(
        """
        import warnings
        import jax.numpy as jnp, numpy as np
        warnings.simplefilter("error")
        print(jnp.asarray(np.array([0.1])).dtype, jnp.sin(np.array(0.3)).dtype)
        try:
            jnp.zeros(2, "float64")
        except UserWarning as warning:
            print(type(warning).__name__)
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == ["float32 float32", "NarrowingWarning"]


def test_frames_that_libraries_leave_out(tmp_path):
    (tmp_path / "library.py").write_text(
        "import jax\njax._src.traceback_util.register_exclusion(__file__)\ndef apply(f, x):\n    return f(x)\n"
        "outer = jax._src.traceback_util.api_boundary(apply, repro_api_name='library.outer')\n"
    )
    code = """
    import jax._src.traceback_util
    import sys, traceback
    sys.path.insert(0, ".")
    import library
    def fails(x):
        raise ValueError("mine")
    for call in (jax.jit(lambda x: library.apply(fails, x)), lambda x: library.outer(fails, x)):
        try:
            call(1.0)
        except ValueError as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            print("fails" in names, "apply" in names)
    jax._src.traceback_util._exclude_paths.remove(library.__file__)
    """
    assert run(code, tmp_path=tmp_path).splitlines() == ["True False"] * 2


def test_flags_of_the_command_line(tmp_path):
    code = """
    import sys
    from types import SimpleNamespace
    import jax
    jax.config.parse_flags_with_absl()
    print(jax.config.jax_enable_x64, jax.config.jax_platform_name, jax.config.jax_default_matmul_precision)
    sys.modules["absl.flags"] = SimpleNamespace(FLAGS=SimpleNamespace(mark_as_parsed=lambda: print("parsed")))
    jax.config.parse_flags_with_absl()
    """
    arguments = ["--jax_enable_x64", "--jax_platform_name=cpu", "--other=1", "--", "--jax_no=1"]
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "xpr.as_jax", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, check=True)
    assert done.stdout.splitlines() == ["True cpu None", "parsed"]


def test_what_libraries_ask_arrays_for(tmp_path):
    """The namespace and the module of an array, by which array-api-compat, autoray and pennylane know its library."""
    out = run(
        """
        import sys
        import jax, numpy as np
        print("jax.core" in sys.modules, "jax.numpy" in sys.modules)
        import jax.numpy as jnp
        from jax._src.api import _dtype
        from jax._src.interpreters.batching import is_vmappable
        from jax._src.lax.control_flow import scan
        from jax._src.numpy.ufuncs import ufunc
        from jax._src.xla_bridge import get_backend
        from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
        from xpr.fingerprint.pure import is_library, library_name

        x = jnp.ones(2)
        print(x.__array_namespace__() is jnp, jax.jit(lambda x: x.__array_namespace__().sum(x))(x))
        kinds = []
        jax.jit(jax.vmap(jax.grad(lambda x: (kinds.append(type(x).__module__), x)[1])))(x)
        print(type(x).__module__, jax.Array.__name__, kinds)
        concrete = []
        jax.grad(lambda x: (concrete.append(jax.core.is_concrete(x)), x)[1])(1.0)
        jax.jit(lambda x: (concrete.append(jax.core.is_concrete(x)), x)[1])(1.0)
        jax.jit(lambda: concrete.append(jax.core.is_concrete(jnp.array(1))))()
        print(concrete, library_name(jax.Array), is_library(jax.Array))
        print(scan is jax.lax.scan, _dtype(1.0), ufunc is jnp.ufunc, get_backend().platform, is_vmappable(x))
        print(hasattr(splash_attention_kernel, "make_splash_mha"), hasattr(splash_attention_mask, "CausalMask"))
        """,
        tmp_path=tmp_path,
    )
    assert out.splitlines() == [
        "True True", "True 2.0", "jax Array ['jax.core']", "[True, False, False] xpr.backend.array.Array True",
        "True float32 True cpu False", "False False",
    ]  # fmt: skip
