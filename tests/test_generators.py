"""Generators of random bits: those of the library beside jax's, one's own, and keys of each in programs and files."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest

import xpr
import xpr.jaxpr
import xpr.numpy as jnp
from tests import peer
from tests.peer import JAX, beside_jax
from xpr import checkify, core, lax, random, storage
from xpr.extend.random import (
    define_prng_impl,
    random_seed,
    rbg_prng_impl,
    seed_with_impl,
    threefry_2x32,
    threefry_prng_impl,
)
from xpr.primitives.counter_generators import philox2x32, philox4x32, threefry4x32

IMPLS = ["threefry2x32", "rbg", "unsafe_rbg"]
OF_COUNTS = ["threefry4x32", "philox2x32", "philox4x32"]


def same(ours, expected):
    assert ours.dtype == expected.dtype and ours.shape == expected.shape
    np.testing.assert_array_equal(random.key_data(ours), random.key_data(expected))


# Known answers of Random123 (Salmon et al., 2011), version 1.14: key, counter, result.
ZERO, ONES = 0, 0xFFFFFFFF
KNOWN = [
    (philox2x32, [ZERO], [ZERO] * 2, [0xFF1DAE59, 0x6CD10DF2]),
    (philox2x32, [ONES], [ONES] * 2, [0x2C3F628B, 0xAB4FD7AD]),
    (philox4x32, [ZERO] * 2, [ZERO] * 4, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (philox4x32, [ONES] * 2, [ONES] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (threefry4x32, [ZERO] * 4, [ZERO] * 4, [0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8]),
    (threefry4x32, [ONES] * 4, [ONES] * 4, [0x2A881696, 0x57012287, 0xF6C7446E, 0xA16A6732]),
]


@pytest.mark.parametrize("scramble, key, counter, expected", KNOWN)
def test_known_answers(scramble, key, counter, expected):
    found = scramble(*([np.uint32(x) for x in words] for words in (key, counter)))
    assert [int(x) for x in found] == expected


def test_keys_of_counts_are_not_those_of_others():
    for impl in OF_COUNTS:
        key = random.key(0, impl=impl)
        assert str(random.key_impl(key)) == impl and xpr.jit(random.split)(key).dtype == key.dtype
        with xpr.default_prng_impl(impl):
            assert random.key(0).dtype == key.dtype
            np.testing.assert_array_equal(random.bits(random.PRNGKey(0), (3,)), random.bits(key, (3,)))


# -- Beside jax

OF_KEYS = """
random.key_data(random.key(7, impl=impl))
random.key_data(random.split(key, (2, 3)))
random.key_data(random.fold_in(key, 77))
random.bits(key, (5,), "uint8")
random.bits(key, (5,))
random.uniform(key, (7,))
random.permutation(key, 9)
lib.vmap(lambda k: random.bits(k, (3,)))(random.split(key, 3))
random.key_data(lib.vmap(random.split)(random.split(key, 3)))
random.key_data(lib.vmap(lambda s: random.key(s, impl=impl))(jnp.arange(3)))
str(random.key_impl(key)), str(key.dtype)
"""
OF_NUMBERS = """
random.bits(key, (3, 2), "uint16")
random.bits(key)
random.normal(key, (7,), "complex64")
random.randint(key, (7,), -3, 1000)
random.categorical(key, jnp.zeros(4), shape=(5,))
random.gamma(key, jnp.array([0.5, 3.0]), (3, 2))
lib.vmap(random.normal)(random.split(key, 3))
lib.vmap(lambda k: random.gamma(k, 2.0))(random.split(key, 3))
random.key_data(lib.vmap(random.fold_in)(random.split(key, 3), jnp.arange(3)))
random.key_data(lax.scan(lambda k, _: (random.split(k)[0], random.split(k)[1]), key, None, length=3)[1])
"""


@pytest.mark.parametrize(
    "impl, partitionable, calls",
    [(impl, flag, OF_KEYS) for impl in IMPLS for flag in (True, False)]
    + [("rbg", True, OF_NUMBERS), *[(impl, True, OF_KEYS) for impl in OF_COUNTS], ("philox4x32", True, OF_NUMBERS)],
)
def test_numbers_are_the_peers(impl, partitionable, calls):
    def given(call, lib):
        with lib.threefry_partitionable(partitionable):
            names = {"lib": lib, "jnp": lib.numpy, "random": lib.random, "lax": lib.lax, "impl": impl}
            result = eval(call, {**names, "key": lib.random.key(3, impl=impl)})
        return list(result) if isinstance(result, tuple) else [result]

    for call in calls.strip().splitlines():
        name = f"{impl}{' partitionable' * partitionable}: {call}"
        beside_jax(name, {}, partial(given, call, JAX), partial(peer.compare, call, given(call, xpr), tolerance=3e-5))


def test_words_of_many_bits_are_the_peers():
    jax = pytest.importorskip("jax")
    for impl in IMPLS:
        for partitionable in (True, False):
            drawn = []
            for lib in (xpr, jax):
                with lib.enable_x64(True), lib.threefry_partitionable(partitionable):
                    key = lib.random.key(2**40 + 3, impl=impl)
                    drawn.append(
                        (np.asarray(lib.random.key_data(key)), np.asarray(lib.random.bits(key, (3,), "uint64")))
                    )
            for ours, theirs in zip(*drawn, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_bit_generator_is_the_peers():
    jax = pytest.importorskip("jax")
    key = np.arange(4, dtype=np.uint32)
    for options in ({}, {"algorithm": "philox"}, {"algorithm": "threefry"}, {"dtype": "uint8"}):
        ours = lax.rng_bit_generator(key, (3, 2), **options)
        algorithm = getattr(jax.lax.RandomAlgorithm, f"RNG_{options.pop('algorithm', 'default').upper()}", None)
        algorithm = jax.lax.RandomAlgorithm.RNG_THREE_FRY if algorithm is None else algorithm
        theirs = jax.lax.rng_bit_generator(key, (3, 2), algorithm=algorithm, **options)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y)
    assert [str(x) for x in lax.RandomAlgorithm] == [str(x) for x in jax.lax.RandomAlgorithm]


def test_programs_print_as_the_peers():
    jax = pytest.importorskip("jax")
    programs = [
        lambda lib: (lambda k: lib.random.split(k, 3), lib.random.key(0)),
        lambda lib: (lambda k: lib.random.fold_in(k, lib.numpy.uint32(3)), lib.random.key(0)),
        lambda lib: (lib.random.bits, lib.random.key(0)),
        lambda lib: (lib.random.key_data, lib.random.key(0, impl="rbg")),
        lambda lib: (lambda w: lib.random.wrap_key_data(w), lib.random.PRNGKey(0)),
        lambda lib: (lambda s: lib.random.key(s, impl="unsafe_rbg"), 3),
    ]
    for program in programs:
        texts = []
        for lib in (xpr, jax):
            fun, arg = program(lib)
            closed = xpr.jaxpr.inline_calls(xpr.make_jaxpr(fun)(arg)) if lib is xpr else jax.make_jaxpr(fun)(arg)
            texts.append(str(closed).replace(":u32[]", "").replace(":u32", ""))
        ours, theirs = (" ".join(text.split()) for text in texts)
        if "jit[" not in theirs:
            assert ours == theirs.replace("3:i32[]", "3")


# -- Settings


def test_the_default_generator():
    assert random.key_dtype() == random.key(0).dtype
    with xpr.default_prng_impl("rbg"):
        assert random.key(0).dtype == random.key_dtype("rbg") and random.PRNGKey(0).shape == (4,)
        old = random.PRNGKey(5)
        np.testing.assert_array_equal(random.bits(old, (3,)), random.bits(random.key(5, impl="rbg"), (3,)))
        with pytest.raises(TypeError, match=r"expected a random key, and got u32\[2\].*u32\[4\] with"):
            random.bits(jnp.zeros(2, jnp.uint32))
    with pytest.raises(ValueError, match="The setting default_prng_impl is 'threefry2x32', 'rbg', .* or 'philox4x32'"):
        xpr.config.update("jax_default_prng_impl", "pcg")


def test_a_function_is_traced_anew_where_the_setting_changes():
    draw = xpr.jit(lambda key: random.bits(key, (3,)))
    key = random.key(0)
    now = np.asarray(draw(key))
    with xpr.threefry_partitionable(False):
        before = np.asarray(draw(key))
        assert "partitionable=False" in str(xpr.make_jaxpr(lambda k: random.split(k))(key))
    assert not (now == before).all()
    np.testing.assert_array_equal(draw(key), now)
    np.testing.assert_array_equal(random.bits(key, (3,)), now)


def test_old_style_keys_are_typed_where_the_setting_says_so():
    words = random.PRNGKey(3)
    with xpr.enable_custom_prng():
        assert random.PRNGKey(3) == random.key(3)
        assert random.fold_in(words, 1).dtype == random.split(words).dtype == xpr.jit(random.PRNGKey)(3).dtype
        assert random.clone(words) == random.key(3)
    assert random.PRNGKey(3).dtype == jnp.uint32


# -- One's own


def counting(key_shape=(2,), name="counting", tag="count"):
    """A generator whose keys are numbers, repeated."""

    def words(number):
        return jnp.broadcast_to(number, key_shape).astype("uint32")

    def number(key):
        return key.reshape(-1)[0] if key_shape else key

    return define_prng_impl(
        key_shape=key_shape,
        seed=lambda seed: words(seed),
        split=lambda key, shape: (number(key) + 1 + jnp.arange(int(np.prod(shape)))).reshape(
            *shape, *(1 for _ in key_shape)
        ) * jnp.ones(key_shape, "uint32"),
        random_bits=lambda key, width, shape: jnp.full(shape, number(key), f"uint{width}"),
        fold_in=lambda key, data: key + data,
        name=name,
        tag=tag,
    )  # fmt: skip


@pytest.mark.parametrize("key_shape", [(2,), (), (3, 2), (1,)])
def test_a_generator_of_ones_own(key_shape):
    impl = counting(key_shape)
    key = random.key(5, impl=impl)
    assert str(key.dtype) == "key<count>" and random.key_data(key).shape == key_shape
    assert random.key_impl(key) == impl and random.key(1, impl=random.key_impl(key)).dtype == key.dtype
    keys = random.split(key, (2, 2))
    assert keys.shape == (2, 2)
    assert xpr.vmap(xpr.vmap(random.bits))(keys).tolist() == [[6, 7], [8, 9]]
    assert random.bits(random.fold_in(key, 3), (2,), "uint8").tolist() == [8, 8]
    flipped = xpr.jit(lambda k: jnp.where(k == k[0, 0], k.T[::-1], k))(keys)
    assert xpr.vmap(xpr.vmap(random.bits))(flipped).tolist() == [[7, 7], [8, 9]]
    assert (keys != keys[0, 0]).tolist() == [[False, True], [True, True]]
    looped = lax.fori_loop(0, 3, lambda i, k: random.fold_in(k, i), key)
    assert int(random.bits(looped)) == 8
    same(copy.deepcopy(keys), keys)


def test_functions_of_the_extension():
    same(random_seed(7, threefry_prng_impl), random.key(7))
    same(seed_with_impl(rbg_prng_impl, 7), random.key(7, impl="rbg"))
    assert random_seed(jnp.arange(3), rbg_prng_impl).shape == (3,)
    counts = np.arange(5, dtype=np.uint32)
    drawn = threefry_2x32((np.uint32(1), np.uint32(2)), counts)
    theirs = pytest.importorskip("jax.extend.random")
    np.testing.assert_array_equal(drawn, theirs.threefry_2x32((np.uint32(1), np.uint32(2)), counts))
    with pytest.raises(TypeError, match=r"threefry_2x32: takes a key and counts of u32, and got i32\[\]"):
        threefry_2x32((1, 2), counts)


# -- Keys in programs, texts and files


@pytest.mark.parametrize("impl", IMPLS)
def test_texts_and_files(impl, tmp_path):
    keys = random.split(random.key(3, impl=impl), 3)

    def program(k, i):
        carry, rows = lax.scan(lambda c, x: (random.fold_in(c, 1), jnp.stack([c, x])), k[0], k)
        return carry, rows, k[i], random.split(keys[1]), random.wrap_key_data(random.key_data(k), impl=impl)

    closed = xpr.make_jaxpr(program)(keys, 1)
    core.check_jaxpr(closed)
    assert keys.dtype.name in str(closed)
    assert str(xpr.jaxpr.parse(str(closed))) == str(closed)
    loaded = xpr.jaxpr.loads(xpr.jaxpr.dumps(closed))
    expected = core.jaxpr_as_fun(closed)(keys, 1)
    for program in (loaded, xpr.jaxpr.dce(closed), xpr.jaxpr.cse(closed), xpr.jaxpr.fold_constants(closed)):
        core.check_jaxpr(program)
        for x, y in zip(core.jaxpr_as_fun(program)(keys, 1), expected, strict=True):
            same(x, y)
    same(pickle.loads(pickle.dumps(keys)), keys)
    assert pickle.loads(pickle.dumps(keys.dtype)) is keys.dtype
    storage.save(tmp_path, {"keys": keys, "n": 3})
    same(storage.restore(tmp_path)["keys"], keys)
    same(storage.restore(tmp_path, like={"keys": keys, "n": 0})["keys"], keys)
    other = random.split(random.key(3, impl=IMPLS[impl == IMPLS[0]]), 3)
    with pytest.raises(xpr.errors.TreeMismatch, match=rf"{keys.dtype}\[3\] in the checkpoint, {other.dtype}\[3\] in"):
        storage.restore(tmp_path, like={"keys": other, "n": 0})


def test_keys_without_a_name_are_not_saved(tmp_path):
    keys = random.key(0, impl=counting())
    with pytest.raises(TypeError, match=r"key<count>\[\], whose generator has no name"):
        storage.save(tmp_path, {"keys": keys})


def test_damaged_checkpoints_of_keys_are_refused(tmp_path):
    storage.save(tmp_path, random.key(0))
    file = tmp_path / "checkpoint.json"
    for old, new in (('"threefry2x32"', '"rbg"'), ('"threefry2x32"', '"pcg"'), ('"threefry2x32"', "3")):
        text = file.read_text()
        file.write_text(text.replace(f'"keys":{old}', f'"keys":{new}').replace(f'"keys": {old}', f'"keys": {new}'))
        assert file.read_text() != text
        with pytest.raises(xpr.errors.CheckpointError):
            storage.restore(tmp_path)
        file.write_text(text)


def test_callbacks_get_keys(capsys):
    key = random.key(7)
    xpr.jit(lambda k: xpr.debug.print("{}", k))(key)
    xpr.effects_barrier()
    assert "key<fry>) overlaying:\n[0 7]" in capsys.readouterr().out
    words = xpr.ShapeDtypeStruct((2,), jnp.uint32)
    for run in (lambda f: f, xpr.jit):
        f = run(lambda k: xpr.pure_callback(random.key_data, words, k, vmap_method="sequential"))
        assert f(key).tolist() == [0, 7]
        assert xpr.vmap(f)(random.split(key, 3)).tolist() == random.key_data(random.split(key, 3)).tolist()


def test_checks_look_into_programs_with_keys():
    keys = random.split(random.key(0), 2)
    error, drawn = checkify.checkify(lambda k, i: random.uniform(k[i]), errors=checkify.index_checks)(keys, 5)
    assert "out of bounds" in str(error.get()) and drawn.shape == ()
    loop = xpr.jit(lambda k: lax.fori_loop(0, 2, lambda i, c: (c[0], jnp.log(-random.uniform(c[0]))), (k, 1.0))[1])
    with xpr.debug_nans(True), pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"):
        loop(keys[0])


def test_the_reference_backend():
    key = random.key(3)
    draw = lambda key: (random.split(key), random.uniform(key, (3,)))
    ours, theirs = xpr.jit(draw, backend="reference")(key), xpr.jit(draw)(key)
    same(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_donated_keys():
    keys = jnp.copy(random.split(random.key(0), 3))
    xpr.jit(lambda k: k[::-1], donate_argnums=0)(keys)
    assert keys.is_deleted() and repr(keys) == "Array(shape=(3,), dtype=key<fry>, deleted)"


def test_dtypes():
    dtype = random.key_dtype()
    assert jnp.result_type(dtype) is dtype is jnp.result_type(random.key(0)) is random.key_dtype(dtype)
    assert (
        xpr.ShapeDtypeStruct((3,), dtype).dtype is dtype and core.ShapedArray((3,), dtype).str_short() == "key<fry>[3]"
    )
    assert core.ShapedArray((3,), dtype).to_tangent_aval() == core.ShapedArray((3,), xpr.dtypes.float0)
    assert core.ShapedArray((3,), dtype).physical == core.ShapedArray((3, 2), "uint32")
    assert xpr.eval_shape(random.split, xpr.ShapeDtypeStruct((), dtype)).shape == (2,)
    with pytest.raises(TypeError):
        np.dtype(dtype)
