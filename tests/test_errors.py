"""The types of errors: where JAX raises a TypeError or a ValueError for a mistake, xpr does, or a subclass of it."""

import importlib.util
import pickle
import warnings

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import dtypes, errors, lax
from xpr.experimental.random import stateful_rng


def sine(lib):
    return lambda x: lib.pure_callback(np.sin, lib.ShapeDtypeStruct((), "float32"), x)


def io_sine(lib):
    io_callback = importlib.import_module(f"{lib.__name__}.experimental").io_callback
    return lambda x: io_callback(np.sin, lib.ShapeDtypeStruct((), "float32"), x)


MISTAKES = {
    TypeError: [
        'lib.lax.iota("int32", -3)',
        'lib.jit(lambda x: 1 if x else 2)(1.0)',
        'lib.jit(lambda x: x if x>0 else -x)(1.0)',
        'lib.jit(lambda x: int(x))(1.0)',
        'lib.jit(lambda x: float(x))(1.0)',
        'lib.jit(lambda x: list(range(x)))(3)',
        'lib.jit(lambda i: [1,2,3][i])(1)',
        'lib.jit(lambda x: np.asarray(x))(1.0)',
        'lib.jit(lambda x: np.sin(x))(1.0)',
        'lib.jit(lambda x: jnp.nonzero(x))(jnp.ones(3))',
        'lib.jit(lambda x: x.item())(1.0)',
        'lib.jit(lambda x: x.tolist())(jnp.ones(3))',
        'lib.jit(lambda k: jnp.zeros(k))(3)',
        'lib.jit(lambda k: jnp.ones(6).reshape(k,-1))(3)',
        'lib.jit(lambda k: jnp.arange(k))(3)',
        'lib.jit(lambda k: jnp.sum(jnp.ones((2,3)),axis=k))(1)',
        'lib.jit(lambda x: x)("a")',
        'lib.jit(lambda x: "a")(1.0)',
        'lib.jit(3)',
        'lib.grad(lambda x: x*2)(3)',
        'lib.grad(lambda x: x*2)(jnp.ones(3))',
        'lib.grad(lambda x: jnp.int32(3))(1.0)',
        'lib.grad(lambda x: x)("a")',
        'lib.grad(lambda x: x*2)(1j)',
        'lib.grad(lambda x: x, argnums=3)(1.0)',
        'lib.vmap(lambda x: x, in_axes="a")(jnp.ones(3))',
        'jnp.ones(3)+jnp.ones(4)',
        'jnp.ones(3)+"a"',
        'jnp.ones((2,3))@jnp.ones((2,3))',
        'jnp.dot(jnp.ones(3),jnp.ones(4))',
        'jnp.ones(6).reshape(4)',
        'jnp.ones(6).reshape(-1,-1)',
        'jnp.transpose(jnp.ones((2,3)),(0,0))',
        'jnp.concatenate([jnp.ones(3),jnp.ones((2,2))])',
        'jnp.concatenate(3.0)',
        'jnp.ones(3).__setitem__(0,1)',
        'jnp.ones(3)[1.5]',
        'jnp.ones(3)["a"]',
        'jnp.ones(3)[[0,1]]',
        'jnp.array(object())',
        'jnp.array(np.array([object()]))',
        'jnp.array("abc")',
        'jnp.array({})',
        'jnp.array(1,dtype="nope")',
        'jnp.sin("a")',
        'jnp.sum([1,2])',
        'jnp.zeros(-1)',
        'jnp.zeros(1.5)',
        'jnp.zeros("a")',
        'int(jnp.ones(3))',
        'float(jnp.ones(3))',
        'range(jnp.float32(1.0))',
        'lib.lax.scan(lambda c,x: (jnp.ones(3),x), 0.0, jnp.ones(3))',
        'lib.lax.scan(lambda c,x: ((c,c),x), 0.0, jnp.ones(3))',
        'lib.lax.scan(lambda c,x: c, 0.0, jnp.ones(3))',
        'lib.lax.while_loop(lambda c: c, lambda c: c, 1.0)',
        'lib.lax.while_loop(lambda c: c<3, lambda c: jnp.ones(3), 1.0)',
        'lib.lax.cond(True, lambda x: x, lambda x: jnp.ones(3), 1.0)',
        'lib.lax.cond(True, lambda x: x, lambda x: (x,x), 1.0)',
        'lib.lax.cond(jnp.ones(3), lambda x: x, lambda x: x, 1.0)',
        'lib.lax.cond(True, 1, 2, 1.0)',
        'lib.lax.switch(0.5, [lambda x:x]*2, 1.0)',
        'lib.lax.fori_loop(0.5, 3, lambda i,c:c, 1.0)',
        'lib.jvp(lambda x: x,(1.0,),((1.0,),))',
        'lib.jvp(lambda x: x,(1.0,),(1,))',
        'lib.jvp(lambda x: x,1.0,1.0)',
        'lib.lax.add(jnp.float32(1), jnp.int32(1))',
        'lib.lax.add(jnp.ones(3), jnp.ones(4))',
        'lib.lax.conv(jnp.ones((1,2,3)), jnp.ones((1,2)), (1,), "SAME")',
        'lib.lax.slice(jnp.ones(3),(0,),(5,))',
        'lib.lax.dynamic_slice(jnp.ones(3),(0,),(5,))',
        'lib.lax.sin(1)',
        'lib.lax.sqrt("a")',
        'lib.lax.full((2,), "a")',
        'lib.lax.concatenate([jnp.ones(3),jnp.ones((3,2))],0)',
        'lib.lax.reduce_window(jnp.ones(3),0.,lib.lax.add,(2,2),(1,1),"VALID")',
        'lib.random.normal(3)',
        'lib.random.normal(None)',
        'lib.random.normal(jnp.ones(3))',
        'lib.random.bernoulli(lib.random.key(0), 1)',
        'lib.tree.reduce(lambda a,b:a, ())',
        'jnp.where(jnp.ones(3)>0, 1)',
        'jnp.arange()',
        'jnp.eye(2.5)',
        'jnp.bitwise_and(1.0,2)',
        'jnp.ones(3)<<1',
        '-jnp.array(True)',
        'lib.eval_shape(lambda x: x, "a")',
        'lib.make_jaxpr(lambda x: "a")(1.0)',
        'jnp.array([2])**-1',
        'lib.lax.integer_pow(2.0, 0.5)',
        'lib.nn.one_hot(jnp.ones(3), 1.5)',
        'jnp.ones(3).at[1.5].set(1)',
        'lib.flatten_util.ravel_pytree("a")',
        'lib.jit(lambda x: x).lower(1.0).compile()(jnp.ones(3))',
        'lib.jit(lambda x: x).lower(1.0).compile()((1.0,))',
        'lib.hessian(lambda x: x)("a")',
        'lib.jacfwd(lambda x: x)(1)',
        'lib.ShapeDtypeStruct(3,"float32")',
    ],
    IndexError: [
        'lib.jit(lambda x: x[x>0])(jnp.ones(3))',
        'jnp.ones(3)[0,0]',
        'jnp.ones(3)[...,...]',
        'jnp.ones(3)[jnp.array([True,False])]',
    ],
    ValueError: [
        'lib.lax.conv(jnp.ones((1, 3, 8, 8)), jnp.ones((4, 2, 3, 3)), (1, 1), "SAME")',
        'lib.jit(lambda x: x, static_argnums=0)([1])',
        'lib.vmap(lambda x,y: x)(jnp.ones(3),jnp.ones(4))',
        'lib.vmap(lambda x: x)(1.0)',
        'lib.vmap(lambda x: x, in_axes=(0,0))(jnp.ones(3))',
        'lib.vmap(lambda x: x, in_axes=3)(jnp.ones(3))',
        'lib.vmap(lambda: 1)()',
        'lib.vmap(lambda x: x, out_axes=None)(jnp.ones(3))',
        'jnp.matmul(jnp.ones(3),2.0)',
        'jnp.sum(jnp.ones(3),axis=2)',
        'jnp.concatenate([])',
        'jnp.stack([jnp.ones(3),jnp.ones(4)])',
        'jnp.stack([])',
        'jnp.split(jnp.ones(5),2)',
        'jnp.squeeze(jnp.ones(3),axis=0)',
        'jnp.expand_dims(jnp.ones(3),5)',
        'jnp.broadcast_to(jnp.ones(3),(2,4))',
        'jnp.array([[1,2],[3]])',
        'jnp.array(None)',
        'lib.grad(sine(lib))(1.0)',
        'lib.jvp(sine(lib),(1.0,),(1.0,))',
        'lib.grad(io_sine(lib))(1.0)',
        'lib.jit(lib.grad(sine(lib)))(1.0)',
        'lib.lax.scan(lambda c,x: (c,x), 0.0, (jnp.ones(3),jnp.ones(4)))',
        'lib.lax.scan(lambda c,x: (c,x), 0.0, jnp.ones(3), length=4)',
        'lib.lax.scan(lambda c,x: (c,x), 0.0, None)',
        'lib.lax.scan(lambda c,x: (c,x), 0.0, 1.0)',
        'lib.lax.switch(0, [], 1.0)',
        'lib.jvp(lambda x: x,(1.0,),(jnp.ones(3),))',
        'lib.vjp(lambda x: (x,x),1.0)[1](1.0)',
        'lib.vjp(lambda x: x,1.0)[1](jnp.ones(3))',
        'lib.lax.dot(jnp.ones(3), jnp.ones(4))',
        'lib.lax.pad(jnp.ones(3),0.0,[(0,0,-1)])',
        'lib.lax.top_k(jnp.ones(3),5)',
        'lib.random.normal(lib.random.key(0), (1,), dtype=int)',
        'lib.random.choice(lib.random.key(0), jnp.ones(3), (5,), replace=False)',
        'jnp.linalg.inv(jnp.ones((2,3)))',
        'jnp.linalg.solve(jnp.ones((2,2)),jnp.ones(3))',
        'jnp.linalg.norm(jnp.ones((2,2)),ord="x")',
        'jnp.einsum("ij,jk",jnp.ones((2,3)),jnp.ones((2,3)))',
        'jnp.einsum("i->j",jnp.ones(3))',
        'lib.tree.map(lambda x,y: x, (1,2), (1,2,3))',
        'lib.tree.unflatten(lib.tree.structure((1,2)), [1])',
        'jnp.apply_along_axis(lambda x: x, 5, jnp.ones(3))',
        'jnp.vectorize(lambda x: x, signature="(n)->(n)")(1.0)',
        'jnp.clip(jnp.ones(3), 1j)',
        'jnp.take(jnp.ones(3), 1.5)',
        'jnp.cross(jnp.ones(4), jnp.ones(4))',
        'jnp.linspace(0,1,-1)',
        'lib.make_mesh((1000,),("x",))',
        'lib.nn.softmax(jnp.ones(3), axis=4)',
        'jnp.ones(3).at[0].set(jnp.ones(2))',
        'jnp.ones(3).at[0].set(1, mode="nope")',
        'lib.jit(lambda x: x, donate_argnums=5)(1.0)',
        'lib.jit(lambda x: x, static_argnums=5)(1.0)',
        'lib.jit(lambda x: x, static_argnames="y")(1.0)',
        'jnp.ones(3).item()',
    ],
    AttributeError: [
        'jnp.ones(3).nope',
        'lib.custom_jvp(lambda x: x)(1.0)',
        'lib.custom_vjp(lambda x: x)(1.0)',
    ],
    NameError: [
        'lib.lax.psum(1.0,"i")',
        'lib.lax.axis_index("i")',
    ],
    NotImplementedError: [
        'lib.linear_transpose(lambda x: jnp.sin(x), 1.0)(1.0)',
    ],
}  # fmt: skip


def raised(mistake, name):
    lib, jnp, *_ = [
        importlib.import_module(f"{name}{part}") for part in ("", ".numpy", ".flatten_util", ".scipy.linalg")
    ]
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        if name == "jax":
            warnings.simplefilter("ignore")
        eval(mistake, {"lib": lib, "jnp": jnp, "np": np, "sine": sine, "io_sine": io_sine})
    return caught.value


ROWS = [(mistake, kind) for kind, mistakes in MISTAKES.items() for mistake in mistakes]


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistakes(kind):
    for mistake in MISTAKES[kind]:
        error = raised(mistake, "xpr")
        assert isinstance(error, kind), (mistake, error)
        assert str(error), mistake


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="it compares with jax")
@pytest.mark.parametrize("kind", MISTAKES)
def test_the_peer_raises_those(kind):
    own = dict.fromkeys(name for name in dir(errors) if isinstance(getattr(errors, name), type))
    for mistake in MISTAKES[kind]:
        error = raised(mistake, "jax")
        assert isinstance(error, kind), (mistake, error)
        if type(error).__name__ in own:  # the very names of its own exceptions are caught, too
            assert isinstance(raised(mistake, "xpr"), getattr(errors, type(error).__name__)), mistake


def test_names_of_the_peer():
    assert errors.JAXTypeError is errors.TracerError and issubclass(errors.UnexpectedTracerError, TypeError)
    assert issubclass(errors.NonConcreteBooleanIndexError, errors.JAXIndexError)
    assert issubclass(errors.JaxRuntimeError, RuntimeError)
    with pytest.raises(AttributeError, match="module 'xpr.errors' has no attribute 'KeyReuse'"):
        _ = errors.KeyReuse


@pytest.mark.parametrize("name, part", [
    ("device_put_sharded", "xpr.device_put(xpr.numpy.stack(shards), sharding) with a sharding that partitions axis 0."),
    ("device_put_replicated", "use xpr.device_put(x, sharding) with a sharding that partitions no axis."),
    ("tree_map", "use xpr.tree.map."),
    ("nonsense", "module 'xpr' has no attribute 'nonsense'"),
])  # fmt: skip
def test_names_that_were_replaced(name, part):
    with pytest.raises(AttributeError) as caught:
        getattr(xpr, name)
    assert str(caught.value).endswith(part)


def test_what_replaces_device_put_sharded():
    devices = xpr.devices()
    mesh = xpr.sharding.Mesh(np.array(devices), ("x",))
    shards = [xpr.numpy.full(3, i) for i in range(len(devices))]
    placed = xpr.device_put(xpr.numpy.stack(shards), xpr.sharding.NamedSharding(mesh, xpr.sharding.PartitionSpec("x")))
    assert placed.shape == (len(devices), 3) and len(placed.addressable_shards) == len(devices)


@pytest.mark.parametrize("call", [
    lambda jnp: jnp.zeros(3, "U3"), lambda jnp: jnp.array([1], object), lambda jnp: jnp.ones(2).astype("S2"),
    lambda jnp: xpr.lax.convert_element_type(jnp.ones(2), object), lambda jnp: jnp.ones(3).view("U1"),
])  # fmt: skip
def test_dtypes_that_arrays_do_not_have(call):
    with pytest.raises(TypeError, match=r"was asked for. Arrays hold booleans, integers, floats and complex numbers"):
        call(xpr.numpy)


def test_the_derivative_of_a_callback_is_of_both_types():
    with pytest.raises(
        errors.CallbackDerivativeError, match="Differentiation rule for 'pure_callback' not.* with defjvp"
    ) as caught:
        xpr.grad(sine(xpr))(1.0)
    assert isinstance(caught.value, errors.UnsupportedRule) and isinstance(caught.value, ValueError)


def test_traced_arrays_have_no_sharding():
    def f(x):
        assert not hasattr(x, "sharding")
        return x.sharding

    with pytest.raises(AttributeError, match=r"of type f32\[2\] is on no device.*xpr\.typeof\(x\)\.sharding"):
        xpr.jit(f)(np.ones(2, np.float32))


X = np.ones(3, np.float32)


def leaked():
    """A tracer that outlived its function."""
    seen = []
    xpr.jit(lambda x: seen.append(x) or x)(1.0)
    return seen[0]


ruled = xpr.custom_jvp(lambda x, y: x)
ruled.defjvp(lambda primals, tangents: (primals[0], tangents[0]))


@pytest.mark.parametrize(
    "call, phrase",
    [
        (lambda: xpr.jit(lambda x: 1 if x else 2)(1.0), "boolean conversion of traced array with shape f32[].\nbool()"),
        (lambda: xpr.jit(float)(1.0), "Abstract tracer value encountered where concrete value is expected"),
        (lambda: xpr.jit(int)(1.0), "try using `x.astype(int)`"),
        (lambda: xpr.jit(range)(3), "The __index__() method was called on traced array"),
        (lambda: xpr.jit(bool)(X), "The truth value of an array with more than one element is ambiguous"),
        (lambda: bool(jnp.asarray(X)), "It is f32[3]; use .any() or .all()"),
        (lambda: xpr.jit(bool)(X[:0]), "The truth value of an empty array is ambiguous"),
        (lambda: xpr.jit(int)(X), "Only scalar arrays can be converted to Python scalars; this one is f32[3]"),
        (lambda: float(jnp.asarray(X)), "Only scalar arrays can be converted to Python scalars"),
        (lambda: int(jnp.ones((1, 1))), "this one is f32[1,1]. Take an element, as by x[0], or x.item()"),
        (lambda: xpr.jit(hex)(X), "Only integer scalar arrays can be converted to a scalar index"),
        (lambda: xpr.jit(np.sin)(X), "The numpy.ndarray conversion failed"),
        (lambda: leaked() + 1, "Encountered an unexpected tracer, of type float32[]"),
        (lambda: lax.add(np.zeros((), dtypes.float0), 1.0), "float0s do not support any operations by design"),
        (lambda: lax.add(1, 1.0), "add requires arguments to have the same dtypes, and got i32[], f32[]"),
        (
            lambda: lax.add(X, np.array("a")),
            "operation add as a JAX value. The problematic value is of type numpy.ndarray, which is no array, and was"
            " passed to add at position 1. A NumPy array of dtype <U1 is not a valid JAX type.",
        ),
        (lambda: xpr.jit(lambda x: lax.sin("a"))(X), "builtins.str, which is no array, and was passed to sin at"),
        (lambda: xpr.jvp(jnp.sin, (X,), (X[:2],)), "jvp called with different primal and tangent shapes: The tangent"),
        (lambda: xpr.jvp(jnp.sin, (X,), (X.astype("f2"),)), "arguments to jax.jvp do not match. The tangent"),
        (lambda: xpr.jvp(jnp.sin, (X,), [X]), "arguments to jax.jvp must have the same tree structure"),
        (lambda: xpr.jit(jnp.zeros)(3), "Shapes must be 1D sequences of concrete values of integer type:\na size"),
        (lambda: xpr.jit(jnp.arange)(3), "It arose in the jnp.arange argument 'stop':\nthe length of the result needs"),
        (lambda: xpr.jit(lambda n: jnp.arange(n, 3))(1), "It arose in the jnp.arange argument 'start'"),
        (lambda: xpr.jit(lambda n: jnp.mgrid[n:3])(1), "It arose in the slice start of jnp.mgrid"),
        (lambda: xpr.jit(lambda n: jnp.r_[1:n])(1), "It arose in the slice stop of jnp.r_"),
        (lambda: xpr.jit(xpr.nn.one_hot)(3, 5), "in jax.nn.one_hot argument `num_classes`, needs the value"),
        (lambda: jnp.zeros(2, 3), "Did you accidentally write `jax.numpy.zeros(2, 3)` when you meant"),
        (lambda: jnp.corrcoef(X, dtype=int), "corrcoef: dtype must be a subclass of float or complex"),
        (lambda: lax.cond(None, max, min, 1), "cond predicate is None. It must be a scalar"),
        (lambda: lax.fori_loop(0, 1, 3, 4), "lax.fori_loop: body_fun must be callable, and is 3"),
        (
            lambda: xpr.jit(lambda n: lax.scan(lambda c, _: (c, c), X, None, 5, unroll=n))(3),
            "The `unroll` argument to `scan` expects a concrete `int` or `bool` value, and is i32[], traced.",
        ),
        (lambda: xpr.sharding.NamedSharding(xpr.make_mesh((1,), ("x",)), None), "Unexpected None, which is no Part"),
        (lambda: jnp.fft.rfftfreq(3, [1]), "The d argument of jax.numpy.fft.rfftfreq only takes a single value. Got d"),
        (lambda: jnp.pad(X, 1, "foo"), "Unimplemented padding mode 'foo' for np.pad. Modes are"),
        (lambda: xpr.jit(lambda i: jnp.ravel_multi_index((i,), (3,)))(1), "because ravel_multi_index was jit-compiled"),
        (lambda: lax.scan(3, 0, 1), "lax.scan: the body of a scan must be callable, and is 3"),
        (lambda: lax.associative_scan(3, 0), "lax.associative_scan: fn must be callable, a function of two pytrees"),
        (lambda: jnp.fft.fftfreq(1.5), "The n argument of jax.numpy.fft.fftfreq only takes an int. Got n = 1.5. It is"),
        (lambda: jnp.fft.rfft(X, axis=[0, 0]), "Please use jax.numpy.fft.rfftn. Got axis = [0, 0]"),
        (lambda: lax.fft(X + 0j, "FFT", (3, 3)), "FFT input shape (3,) must have at least as many input dimensions as"),
        (lambda: jnp.arange(2j), "Passing complex start/stop/step to jnp.arange is no longer supported: complex"),
        (lambda: jnp.nanargmax(X[:0]), "nanargmax: attempt to get argmax of an empty sequence, f32[0] along axis None"),
        (lambda: jnp.array(None), "None is not a valid value for jnp.array. Was a result not returned?"),
        (lambda: lax.broadcast_shapes((-1,)), "A shape has no negative sizes, and (-1,) was asked for."),
        (lambda: lax.iota("int32", -3), "iota: a shape has no negative sizes, and (-3,) was asked for."),
        (lambda: lax.broadcast_shapes("hello"), "Shapes must be 1D sequences"),
        (lambda: jnp.broadcast_to(X, (1,)), "Incompatible shapes for broadcasting: (3,) does not broadcast to (1,)"),
        (lambda: jnp.broadcast_to(X[None], (3,)), "Cannot broadcast to shape with fewer dimensions: (1, 3) does not"),
        (lambda: jnp.r_["other", X], "could not understand directive 'other'. One is \"r\""),
        (lambda: xpr.jit(lambda i: jnp.choose(i, [X, X]))(0), "because jnp.choose was jit-compiled with mode='raise'"),
        (lambda: jnp.clip(X + 1j, 0), "Complex values have no ordering and cannot be clipped. Clip the real"),
        (lambda: jnp.sum(X, axis=(0, -1)), "duplicate value in 'axis': (0, -1) has a repeated axis; the array has 1"),
        (lambda: jnp.pad(X, 1, "edge", end_values=0), "unsupported keyword arguments for mode 'edge': ['end"),
        (lambda: jnp.tensordot(X, X, axes=2), "Number of tensordot axes (2) exceeds input ranks, those of f32[3] and"),
        (lambda: jnp.trace(X[None], axis1=1, axis2=-1), "axis1 and axis2 can not be same, and are both 1"),
        (lambda: xpr.jit(lambda x: x.tolist())(X), "The tolist() method was called on traced array:\nit needs"),
        (lambda: lax.fori_loop(np.int8(0), np.int16(2), max, 0), "arguments to fori_loop must have equal types, and"),
        (lambda: lax.scan(max, 0, X, unroll=-1), "`unroll` must be a bool or an integer that isn't negative"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, [1, 2]), "got value with no leading axis to scan over: xs[0], xs[1]"),
        (lambda: lax.scan(max, 0, X, 5), "got `length` argument of 5 which disagrees with leading axis sizes [3]."),
        (
            lambda: xpr.jit(lambda n: lax.scan(lambda c, _: (c, c), X, None, n))(3),
            "The `length` argument to `scan` expects a concrete `int` value, and is i32[], traced.",
        ),
        (
            lambda: xpr.random.categorical(xpr.random.key(0), X, shape=(5,), replace=False),
            "Number of samples without replacement (5) is greater than that of categories (3)",
        ),
        (
            lambda: xpr.vmap(lambda x: lax.pshuffle(x, "i", [0, 0, 1]), axis_name="i")(X),
            "`perm` does not represent a permutation: [0, 0, 1], for the 3 rows of 'i'",
        ),
        (
            lambda: xpr.jit(lambda x: stateful_rng().uniform() + x)(X),
            "When used within transformed code, as it is here, a generator would be traced with one seed",
        ),
        (lambda: lax.rem(1j, 1j), "rem does not accept dtype complex64"),
        (lambda: lax.reshape(X, (1.5, 2)), "Shapes must be 1D sequences of concrete values of integer type"),
        (lambda: lax.broadcast_in_dim(X, (3, 3), (0, 1)), "must have length equal to operand ndim"),
        (lambda: lax.broadcast_in_dim(X, (), (0,)), "shape has a lower rank than the operand"),
        (lambda: lax.broadcast_in_dim(X, (3, 3), (2,)), "must be a subset of output dimensions"),
        (lambda: lax.broadcast_in_dim(X[None], (1, 3), (1, 1)), "must not contain duplicates"),
        (lambda: lax.broadcast_in_dim_p.bind(X[None], shape=(3, 3), broadcast_dimensions=(1, 0)), "increasing"),
        (lambda: lax.broadcast_in_dim(X, (4,), (0,)), "operand dimension sizes must be 1"),
        (lambda: xpr.grad(lambda x: x)(X), "Gradient only defined for scalar-output functions"),
        (
            lambda: xpr.jacrev(lambda x: x, holomorphic=True)(X),
            "jacrev with holomorphic=True requires inputs with complex dtype, but got float32: an argument is f32[3]",
        ),
        (
            lambda: lax.dot_general(X, X[:2], (((0,), (0,)), ((), ()))),
            "dot_general requires contracting dimensions to have the same shape, got (3,) and (2,): axes [0] of f32[3]",
        ),
        (
            lambda: lax.conv(X[None, None], X[None, None, None], (1,), "SAME"),
            "conv_general_dilated lhs and rhs must have the same number of dimensions, and have 3 and 4: their shapes",
        ),
        (lambda: xpr.vmap(lambda x: x, in_axes=([1.5],))([X]), "vmap in_axes must be an int, None, or"),
        (lambda: xpr.vmap(lambda x: x, out_axes=(X,))(X), "vmap out_axes must be an int, None, or"),
        (lambda: xpr.vjp(jnp.sin, X)[1](X[:2]), "vjp: cotangent type does not match: unexpected JAX type f32[2]."),
        (
            lambda: lax.reduce_window(X, 0.0, lambda x, y: [x + y], (2,), (1,), "VALID"),
            "reduce_window output must have the same tree structure as the operands; that of <lambda> at",
        ),
        (lambda: lax.squeeze(X[None], (0, 0)), "squeeze: dimensions are not unique"),
        (lambda: lax.squeeze(X[None], 0), "squeeze: dimensions is a sequence with a value for each axis, and is 0."),
        (lambda: lax.expand_dims(X, 0), "expand_dims: dimensions is a sequence with a value for each axis"),
        (lambda: lax.transpose(X, 0), "transpose: permutation is a sequence"),
        (lambda: lax.rev(X, 0), "rev: dimensions is a sequence"),
        (lambda: lax.reduce_sum(X, 0), "reduce_sum: axes is a sequence"),
        (lambda: lax.reduce_max(X, 0), "reduce_max: axes is a sequence"),
        (lambda: lax.reduce(X, 0.0, lax.add, 0), "reduce: dimensions is a sequence"),
        (lambda: lax.slice(X, 0, (1,)), "slice: start_indices is a sequence"),
        (lambda: lax.broadcast(X, 3), "broadcast: sizes is a sequence"),
        (lambda: lax.split(X, 3), "split: sizes is a sequence"),
        (lambda: lax.broadcasted_iota("int32", 3, 0), "broadcasted_iota: shape is a sequence"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, 2, (1,)), "reduce_window: window_dimensions is a sequence"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,), 1), "reduce_window: window_strides is a sequence"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,), (1,), 3), "reduce_window: padding argument must be"),
        (lambda: lax.conv(X[None, None], X[None, None], 1, "SAME"), "conv_general_dilated: window_strides is a seq"),
        (lambda: lax.pad(X, 0.0, 3), "pad: padding_config is (low, high, interior) for each axis, not 3."),
        (lambda: lax.pad(X, 0.0, [3]), "pad: padding_config is (low, high, interior) for each axis, not [3]."),
        (lambda: lax.dot_general(X, X, 3), "dimension_numbers is ((lhs contracted, rhs contracted), (lhs batched, rhs"),
        (lambda: lax.dot_general(X, X, ((0,), (0,))), "dot_general: dimension_numbers is ((lhs contracted, rhs"),
        (lambda: lax.dot_general(X, X, ((0, 0), ((), ()))), "dot_general: each of dimension_numbers is a sequence"),
        (lambda: lax.slice(X, (0,), 1), "slice: limit_indices is a sequence"),
        (lambda: lax.dynamic_slice(X, 0, (1,)), "dynamic_slice: start_indices is a sequence"),
        (lambda: lax.dynamic_update_slice(X, X, 0), "dynamic_update_slice: start_indices is a sequence"),
        (lambda: xpr.jit(lambda x: lax.squeeze(x, (0, -2)))(X[None]), "squeeze: dimensions are not unique"),
        (lambda: lax.reduce({"x": X}, {"y": 0.0}, lax.add, (0,)), "Operands must have the same tree structure as init"),
        (lambda: lax.pad(X, 0.0, [(0, 1, -1)]), "interior padding in padding_config must be nonnegative"),
        (lambda: xpr.random.key(xpr.random.key(0)), "random.key accepts a scalar seed, an integer"),
        (lambda: ruled(1.0), "The input arguments to the custom_jvp-decorated function"),
        (lambda: xpr.jit(lambda x: x, static_argnums=0)(X), "Non-hashable static arguments are not supported"),
        (lambda: xpr.ShapeDtypeStruct((), None), "dtype must be specified"),
        (lambda: len(xpr.ShapeDtypeStruct((), float)), "len() of unsized object"),
        (lambda: [1, 2][jnp.asarray(X)], "Only integer scalar arrays can be converted to a scalar index"),
    ],
)  # fmt: skip
def test_messages_have_the_phrases_that_users_search_for(call, phrase):
    with pytest.raises((TypeError, ValueError, NotImplementedError)) as caught:
        call()
    assert phrase in str(caught.value)


@pytest.mark.parametrize("use", [lambda f: f, xpr.jit])
def test_an_index_out_of_range_is_told_alike_in_eager_and_traced_calls(use):
    for index, message in (((0, 0), "Too many indices: array is 1-dimensional, but 2 were indexed."),
                           (3, "index 3 out of bounds for axis 0 with size 3")):  # fmt: skip
        with pytest.raises(IndexError) as caught:
            use(lambda x, index=index: x[index])(jnp.asarray(X))
        assert str(caught.value) == message


def test_a_tracer_without_a_type_has_a_repr() -> None:
    """Messages that name it are made also before it has one."""

    class Bare(xpr.core.Tracer):
        def __init__(self) -> None:
            super().__init__(None, None)

    assert repr(Bare()) == "Bare(no type)"
    assert "Bare(no type)" in str(errors.TracerArrayConversionError(Bare()))


def takes_the_value(first, second=1.0, *rest, keyword=None, **others):
    return bool((second, *rest)[-1])


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: xpr.jit(takes_the_value)(1.0, 2.0), "second"),
        (lambda: xpr.jit(takes_the_value)(1.0, 2.0, 3.0, 4.0), "rest[1]"),
        (lambda: xpr.jit(takes_the_value)(1.0, 2.0, 3.0, keyword=4.0), "rest[0]"),
        (lambda: xpr.jit(takes_the_value, static_argnums=0)("a", 2.0), "second"),
        (lambda: xpr.jit(takes_the_value, static_argnums=(0, 2))(1, 2.0, 3, 4.0), "rest[1]"),
        (lambda: xpr.jit(lambda first, second: bool(second), static_argnames="first")(second=1.0, first=2), "second"),
        (lambda: xpr.make_jaxpr(takes_the_value, static_argnums=0)("a", 2.0), "second"),
        (lambda: xpr.pmap(takes_the_value, static_broadcasted_argnums=0)("a", jnp.ones(1)), "second"),
        (lambda: xpr.checkpoint(takes_the_value, static_argnums=0)("a", 2.0), "second"),
    ],
)
def test_messages_name_arguments_beside_static_and_keyword_only_ones(call, name):
    with pytest.raises(errors.TracerBoolConversionError) as caught:
        call()
    assert f"The value depends on the argument {name} of" in str(caught.value)


def test_pickling_needs_a_value():
    with pytest.raises(errors.ConcretizationTypeError, match="pickling needs the value of a traced array of type i32"):
        xpr.jit(pickle.dumps)(0)
    restored = []
    xpr.grad(lambda x: (restored.append(pickle.loads(pickle.dumps(x))), x)[1])(2.0)
    assert restored == [2.0] and isinstance(restored[0], (float, xpr.Array))


def test_tracers_are_shown_by_what_they_are_and_their_type():
    shown = []

    def f(x):
        shown.append(str(x))
        return x * 2

    x = jnp.arange(3.0)
    xpr.jit(f)(x), xpr.jit(f)(1.0), xpr.vmap(f)(x), xpr.jvp(f, (x,), (x,)), xpr.grad(lambda x: f(x).sum())(x)
    xpr.vmap(xpr.grad(f))(x), xpr.jit(lambda r: shown.append(repr(r)))(xpr.new_ref(x))
    assert shown == [
        "JitTracer(float32[3])",
        "JitTracer(~float32[])",
        "VmapTracer(aval=float32[], batched=float32[3])",
        "JVPTracer(primal=[0. 1. 2.], tangent=[0. 1. 2.])",
        "GradTracer(primal=[0. 1. 2.], typeof(tangent)=f32[3])",
        "GradTracer(primal=VmapTracer(aval=float32[], batched=float32[3]), typeof(tangent)=f32[])",
        "JitTracer(Ref{float32[3]})",
    ]
    assert str(xpr.typeof(x)) == "float32[3]" and str(xpr.typeof(1.0)) == "~float32[]"
