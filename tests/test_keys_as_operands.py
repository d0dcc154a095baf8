"""Typed keys as operands of functions that move whole entries: values and shapes are jax's where it is installed."""

import importlib
import json

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import peer
from xpr import lax, random

CALLS = """
jnp.where(True, a, b)
jnp.where(jnp.array([True, False, True, False]), k, a)
jnp.where(jnp.array([[True], [False]]), k, k[::-1])
jnp.stack([a, b])
jnp.stack([k, k], axis=1)
jnp.stack(k)
jnp.concatenate([k, k])
jnp.concatenate([k[None], k[None]], axis=-1)
jnp.append(k, k)
jnp.vstack([k, k])
jnp.hstack([k, k])
jnp.array([a, b])
jnp.asarray(k)
jnp.array(k)
jnp.reshape(k, (2, 2))
jnp.reshape(k, (2, -1))
jnp.ravel(k.reshape(2, 2))
jnp.expand_dims(k, -1)
jnp.squeeze(k[:, None], 1)
jnp.transpose(k.reshape(2, 2))
jnp.swapaxes(k.reshape(1, 4), 0, 1)
jnp.moveaxis(k.reshape(1, 4), 0, -1)
jnp.broadcast_to(a, (3,))
jnp.broadcast_to(k, (2, 4))
jnp.tile(k, 2)
jnp.repeat(k, 2)
jnp.roll(k, 1)
jnp.flip(k)
jnp.take(k, jnp.array([0, 2]))
jnp.split(k, 2)
jnp.unstack(k)
jnp.atleast_1d(a)
jnp.shape(k), jnp.ndim(k), jnp.size(k)
k.at[0].set(a)
k.at[jnp.array([0, 1])].set(jnp.stack([a, b]))
k.at[1:3].set(a)
k[jnp.array([True, False, True, False])]
k[jnp.array(2)]
k[-1]
k[:, None].shape
lax.select(jnp.array([True, False, True, False]), k, k[::-1])
lax.select(True, a, b)
lax.dynamic_index_in_dim(k, 1, keepdims=False)
jnp.isclose(k, k[::-1])
jnp.allclose(k, k)
lax.dynamic_slice(k, (1,), (2,))
lax.dynamic_slice_in_dim(k, 1, 2)
lax.dynamic_update_slice(k, k[:1], (2,))
lax.dynamic_update_index_in_dim(k, a, 2, 0)
lax.concatenate([k, k], 0)
lax.rev(k, (0,))
lax.reshape(k, (2, 2))
lax.broadcast(k, (2,))
lax.slice_in_dim(k, 1, 3)
lax.expand_dims(k, (0,))
lax.squeeze(k[None], (0,))
lax.cond(True, lambda: a, lambda: b)
lax.cond(True, lambda x: random.split(x)[0], lambda x: x, a)
lax.scan(lambda c, x: (random.fold_in(c, 1), x), a, k)
lax.while_loop(lambda s: s[1] < 3, lambda s: (random.split(s[0])[1], s[1] + 1), (a, 0))
lax.fori_loop(0, 3, lambda i, c: random.split(c)[0], a)
lax.map(lambda x: random.split(x)[0], k)
lax.switch(1, [lambda x: x, lambda x: random.fold_in(x, 3)], a)
lib.jit(lambda x: jnp.where(x == x[0], x, a))(k)
lib.vmap(lambda x: jnp.stack([x, x]))(k)
lib.vmap(lambda x: random.split(x), out_axes=1)(k)
lib.vmap(lambda x: random.split(x), out_axes=-1)(k)
lib.vmap(lambda x: random.fold_in(x, 1), in_axes=-1)(k)
lib.vmap(lambda x: random.uniform(x[0]), in_axes=-1)(k.reshape(2, 2)).shape
lib.eval_shape(random.key, 0).shape
str(lib.eval_shape(random.key, 0).dtype)
jnp.issubdtype(k.dtype, lib.dtypes.prng_key)
jnp.issubdtype(jnp.float32, lib.dtypes.prng_key)
lib.dtypes.issubdtype(k.dtype, lib.dtypes.extended)
jnp.issubdtype(k.dtype, np.floating)
jnp.issubdtype(k.dtype, jnp.uint32)
isinstance(k, lib.Array)
lib.jit(lambda k: isinstance(k, lib.Array))(k)
lib.jit(lambda k: isinstance(k, lib.Array))(1.0)
isinstance(1.0, lib.Array), isinstance(np.ones(2), lib.Array)
lib.tree.map(lambda x: x, {'k': k})['k']
[x for x in k][0]
k == k[0]
k.dtype == a.dtype
k.T.shape
lib.device_put(k)
jnp.result_type(k) == k.dtype, str(jnp.result_type(k, a))
lib.tree.map(lambda x: str(x.dtype), {'k': k})['k']
lib.tree.leaves({'k': k, 'x': 1})[0]
lib.tree.structure(k) == lib.tree.structure(1)
lib.typeof(k).shape, str(lib.typeof(k).dtype)
isinstance(k.dtype, type(random.key_dtype('rbg')))
issubclass(k.dtype.type, lib.dtypes.prng_key), k.dtype.name, k.dtype.itemsize
random.key_dtype('rbg') == random.key(0, impl='rbg').dtype, random.key_dtype() == random.key_dtype('rbg')
hash(random.key_dtype()) == hash(k.dtype)
random.key_impl(random.key(0, impl='unsafe_rbg'))
random.key_data(random.key(3, impl='rbg'))
random.wrap_key_data(jnp.arange(8, dtype=jnp.uint32).reshape(2, 4), impl='rbg').shape
random.wrap_key_data(jnp.arange(4, dtype=jnp.uint32).reshape(2, 2), dtype=random.key_dtype()).shape
random.PRNGKey(7, impl='rbg')
repr(k[0]), str(k.reshape(2, 2)), repr(random.key(1, impl='rbg'))
str(lib.eval_shape(lambda: random.split(random.key(0), 3)).dtype)
lib.jit(lambda x, y: (x, y + 1), donate_argnums=0)(jnp.copy(k), 1)
lib.jit(lambda key: (random.split(key), random.normal(key)))(a)
lib.jit(lambda i: k[i])(2)
lib.jit(lambda i: k.at[i].set(a))(2)
lib.jit(lambda i: lax.dynamic_update_index_in_dim(k, a, i, 0))(3)
lib.jit(lambda i: lax.cond(i > 0, lambda: a, lambda: b))(1)
lib.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c.at[i].set(random.fold_in(c[i], i)), x))(k)
lib.vmap(lambda x, i: x[i], in_axes=(None, 0))(k, jnp.array([3, 1]))
lib.vmap(lambda x, i: x.at[i].set(a))(k.reshape(2, 2), jnp.array([0, 1]))
lib.vmap(lambda x: jnp.where(x == a, x, b))(k)
lib.vmap(lib.vmap(random.fold_in), in_axes=(0, None))(k.reshape(2, 2), jnp.arange(2))
lib.vmap(random.fold_in, in_axes=(None, 0))(a, jnp.arange(3))
lib.vmap(random.key)(jnp.arange(3))
lib.vmap(lambda s: random.key(s, impl='rbg'))(jnp.arange(3))
lib.vmap(lambda x: random.bits(x, (2,), 'uint8'))(k)
lib.vmap(lambda x: random.permutation(x, 4))(k)
lib.vmap(lambda x: random.randint(x, (2,), 0, 10))(k)
lax.scan(lambda c, x: (c, jnp.stack([c, x])), a, k, reverse=True)
lax.optimization_barrier((k, 1.0))[0]
lax.stop_gradient(k)
lax.select_n(jnp.array(1), a, b)
lax.full_like(k, a), lax.full((2,), a)
jnp.full((2,), a), jnp.full_like(k, b), jnp.ones_like(k)
jnp.array([[a, b], [b, a]])
jnp.take(k, jnp.array([[0], [3]]), axis=0).shape
jnp.take(k.reshape(2, 2), 1, axis=1)
jnp.insert(k, 1, b)
jnp.broadcast_arrays(a, k)[0]
jnp.array_split(k, 3)
jnp.dstack([k, k]).shape, jnp.column_stack([k, k]).shape, jnp.block([k, k]).shape
jnp.permute_dims(k.reshape(2, 2), (1, 0)), jnp.rollaxis(k.reshape(1, 4), 1)
jnp.select([jnp.array([True, False, False, True])], [k], a)
jnp.choose(jnp.array([0, 1, 0, 1]), [k, k[::-1]])
k.at[jnp.array([0, 9])].get(mode='clip'), k.at[1].get()
k.at[::2].set(k[1::2]), k.at[jnp.array([True, False, False, True])].set(b)
k.flatten(), k.swapaxes(0, 0), k.take(jnp.array([1])), k.squeeze(), k.copy()
k != b, a == a
lib.checkpoint(lambda key: random.normal(key, (2,)))(a)
lib.value_and_grad(lambda x, key: (x * random.uniform(key)).sum())(jnp.ones(2), a)
lib.jvp(lambda x: random.normal(a, (2,)) * x, (2.0,), (1.0,))
lib.grad(lambda x: lax.scan(lambda c, key: (c * random.uniform(key), None), x, k)[0])(1.0)
lib.linearize(lambda x, key: random.normal(key) * x, 1.0, a)[0]
lib.hessian(lambda x: lax.map(lambda key: random.uniform(key), k).sum() * x * x)(2.0)
lib.random.clone(k)
random.gamma(random.key(1, impl='rbg'), jnp.array([0.5, 2.0]), (3, 2)).shape
random.bits(random.key(4, impl='rbg'), (3,)), random.bits(random.key(4, impl='unsafe_rbg'), (3,), 'uint16')
random.split(random.key(4, impl='unsafe_rbg'), (2, 3)), random.fold_in(random.key(4, impl='rbg'), 9)
lib.vmap(lambda x: random.bits(x, (2,)))(random.split(random.key(4, impl='rbg'), 3))
lib.vmap(random.split)(random.split(random.key(4, impl='unsafe_rbg'), 3))
lib.jit(lambda x: random.permutation(x, 6))(random.key(4, impl='rbg'))
lib.random.wrap_key_data(jnp.zeros((3, 2), jnp.uint32)).shape
k.size, k.nbytes, k.itemsize
jnp.zeros_like(k)
jnp.empty_like(k)
lib.grad(lambda x, key: x * random.normal(key))(1.0, a)
lib.jacfwd(lambda x: x * random.normal(a))(1.0)
lib.value_and_grad(lambda x, key: (x * 2, key), has_aux=True)(1.0, a)
lib.checkpoint(lambda x, key: random.normal(key) * x)(1.0, a)
lib.linearize(lambda x: random.normal(a) * x, 1.0)[0]
jnp.take_along_axis(k, jnp.array([1, 0]), 0)
jnp.rot90(k.reshape(2, 2))
jnp.delete(k, 0)
jnp.insert(k, 0, a)
"""


def names(lib):
    modules = {name: importlib.import_module(f"{lib.__name__}.{name}") for name in ("numpy", "lax", "random", "dtypes")}
    given = {"lib": lib, "np": np, "jnp": modules.pop("numpy"), **modules}
    key, split = given["random"].key, given["random"].split
    return {**given, "k": split(key(0), 4), "a": key(1), "b": key(2)}


def described(lib, x):
    """A result as what can be compared: of keys the shape and the words."""
    if isinstance(x, (list, tuple)):
        return [described(lib, each) for each in x]
    if not str(getattr(x, "dtype", "")).startswith("key"):
        return np.asarray(x).tolist()
    words = np.asarray(lib.random.key_data(x))
    assert words.shape[:-1] == x.shape
    return x.shape, str(x.dtype), words.tolist()


@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_beside_jax(call):
    ours, theirs = (lambda lib=lib: [json.dumps(described(lib, eval(call, names(lib))))] for lib in (xpr, peer.JAX))

    def compare(expected):
        assert ours() == expected

    peer.beside_jax(call, {}, theirs, compare)


K, A = random.split(random.key(0), 4), random.key(1)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: jnp.where(True, A, 0), TypeError, "Random keys are no numbers: .* promote to no other dtype"),
        (lambda: jnp.stack([A, jnp.ones(())]), TypeError, "Random keys are no numbers"),
        (lambda: jnp.where(K, 1, 2), TypeError, r"takes no random keys, and its operands are key<fry>\[4\]"),
        (lambda: K.at[0].set(1), TypeError, "Random keys are no numbers"),
        (lambda: K.at[0].add(K[1]), TypeError, r"x.at\[...\].add: Random keys are no numbers.*at\[...\].set"),
        (lambda: K + 1, TypeError, "Random keys are no numbers.*random.key_data"),
        (
            lambda: K + K,
            TypeError,
            r"add does not accept dtype key<fry>: .* are key<fry>\[4\], key<fry>\[4\]",
        ),
        (lambda: K < K, TypeError, "lt does not accept dtype key<fry>"),
        (lambda: jnp.sin(K), TypeError, "no random keys"),
        (lambda: jnp.sort(K), TypeError, "sort does not accept dtype key<fry>"),
        (lambda: jnp.unique(K), TypeError, "key_data"),
        (lambda: lax.sort(K), TypeError, "sort does not accept dtype key<fry>: it takes no random keys"),
        (lambda: K.astype("float32"), TypeError, "convert_element_type does not accept dtype key<fry>"),
        (lambda: lax.convert_element_type(K, int), ValueError, "Cannot convert_element_type from key<fry> to int32"),
        (
            lambda: lax.convert_element_type(1, K.dtype),
            ValueError,
            "Cannot convert_element_type from int32 to",
        ),
        (lambda: jnp.ones(3).astype(K.dtype), TypeError, "dtype key<fry> was asked for"),
        (lambda: lax.select(True, A, random.key(0, impl="rbg")), TypeError, r"key<rbg>\[\]"),
        (lambda: xpr.grad(lambda k: 1.0)(A), TypeError, r"key<fry>\[\]"),
        (lambda: np.asarray(A), TypeError, "cannot be converted to a NumPy array.*key_data"),
        (lambda: (bool(A), int(A)), TypeError, "key_data"),
        (lambda: float(A), TypeError, "key_data"),
        (lambda: A.item(), TypeError, "key_data"),
        (lambda: np.from_dlpack(A), TypeError, "key_data"),
        (lambda: jnp.stack([K, A]), ValueError, "all shapes must be equal"),
        (lambda: xpr.vmap(lambda x: x)(A), ValueError, r"along axis 0, which argument x of .*, of type key<fry>\[\]"),
        (
            lambda: xpr.vmap(lambda x: x, in_axes=1)(K),
            ValueError,
            r"along axis 1, which argument x of .*, of type key<fry>\[4\]",
        ),
        (lambda: xpr.vmap(lambda x: x, out_axes=1)(K), ValueError, "out_axes=1 is out of range"),
        (
            lambda: lax.scan(lambda c, x: (c, x), 0, A),
            ValueError,
            "no leading axis to scan over: xs. It goes over the first axis of each of the xs",
        ),
        (lambda: lax.map(lambda x: x, A), ValueError, "scan got value with no leading axis to scan over: xs"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match="(?s)" + message):
        call()


def test_traced_values_and_keys_are_arrays_to_isinstance():
    seen = []
    xpr.jit(lambda x, key: seen.extend([isinstance(x, xpr.Array), isinstance(key, jnp.ndarray)]))(1.0, A)
    xpr.grad(lambda x: seen.append(isinstance(x, xpr.Array)) or x)(1.0)
    xpr.vmap(lambda x: seen.append(isinstance(x, xpr.Array)) or x)(jnp.ones(2))
    assert all(seen) and len(seen) == 4
    assert not any(isinstance(x, xpr.Array) for x in (1.0, np.ones(2), np.float32(1), [1.0], None, xpr.Array))
