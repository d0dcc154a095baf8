"""debug_key_reuse: which programs use a random key twice, and what is said of them."""

import gc

import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax, random
from xpr.compile import key_reuse
from xpr.errors import KeyReuseError
from xpr.experimental.key_reuse import check_key_reuse


def both(keys):
    return random.normal(keys[0]), random.normal(keys[1])


def following(key, x):
    key, now = random.split(key)
    return key, random.normal(now)


FINE = {
    "split": lambda k: [random.normal(each) for each in random.split(k)],
    "fold_in": lambda k: [random.normal(random.fold_in(k, i)) for i in range(3)],
    "clone": lambda k: (random.normal(random.clone(k)), random.normal(k)),
    "elements": lambda k: both(random.split(k)),
    "carry": lambda k: lax.scan(following, k, jnp.arange(3)),
    "rows": lambda k: lax.scan(lambda c, k: (c, random.normal(k)), 0.0, random.split(k, 3)),
    "branches": lambda k: lax.cond(True, random.normal, random.uniform, k),
    "vmap": lambda k: xpr.vmap(random.normal)(random.split(k, 3)),
    "while": lambda k: lax.while_loop(
        lambda c: c[0] < 3,
        lambda c: (c[0] + 1 + random.uniform(random.fold_in(c[1], 1)), random.fold_in(c[1], 2)),
        (0.0, k),
    ),
    "comparison": lambda k: (k == k, random.key_data(k), random.normal(k)),
    "choice": lambda k: random.normal(jnp.where(True, k, random.key(3))),
    "stack": lambda k: xpr.vmap(random.normal)(jnp.stack([k, random.key(5)])),
    "derivatives": lambda k: xpr.grad(lambda x: x * random.normal(k))(1.0),
    "checkpoint": lambda k: xpr.grad(xpr.checkpoint(lambda x: x * random.normal(k)))(1.0),
    "derivatives of draws": lambda k: xpr.grad(lambda x: jnp.sum(random.gamma(k, x)))(jnp.ones(2)),
}  # fmt: skip
REUSED = {
    "draws": (lambda k: random.normal(k) + random.uniform(k), "uniform"),
    "after a split": (lambda k: (random.split(k), random.normal(k)), "normal"),
    "two splits": (lambda k: (random.split(k), random.split(k)), "random_split"),
    "an element": (lambda k: (lambda ks: both([ks[1], ks[1]]))(random.split(k)), "slice"),
    "the same in another shape": (lambda k: (random.normal(k), random.normal(k[None][0])), "already consumed"),
    "constants of loops": (lambda k: lax.map(lambda x: x + random.normal(k), jnp.arange(3.0)), "again and again"),
    "carries": (lambda k: lax.scan(lambda k, x: (k, random.normal(k)), k, jnp.arange(3)), "again and again"),
    "a used carry": (
        lambda k: lax.scan(lambda k, x: (random.split(k)[0], random.normal(k)), k, jnp.arange(3)), "normal",
    ),
    "while": (
        lambda k: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + random.uniform(c[1]), c[1]), (0.0, k)), "again",
    ),
    "predicates": (lambda k: lax.while_loop(lambda c: random.uniform(k) < c, lambda c: c / 2, 1.0), "again and again"),
    "after branches": (lambda k: (lax.cond(True, random.normal, lambda k: 0.0, k), random.normal(k)), "normal"),
    "calls": (lambda k: (xpr.jit(random.normal)(k), random.normal(k)), "normal"),
    "results of calls": (lambda k: xpr.jit(lambda k: (random.normal(k), k))(k)[1], None),
}  # fmt: skip


@pytest.mark.parametrize("stage", [lambda f: f, xpr.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FINE)
def test_keys_that_are_used_once(name, stage):
    with xpr.debug_key_reuse():
        stage(FINE[name])(random.key(0))
    check_key_reuse(FINE[name], random.key(0))


@pytest.mark.parametrize("stage", [lambda f: f, xpr.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", [name for name in REUSED if REUSED[name][1]])
def test_keys_that_are_used_twice(name, stage):
    function, says = REUSED[name]
    with xpr.debug_key_reuse(), pytest.raises(KeyReuseError, match=says) as raised:
        stage(function)(random.key(0))
    assert "test_key_reuse.py" in str(raised.value) and "random.split(key)" in str(raised.value)
    assert isinstance(raised.value, TypeError)
    with pytest.raises(KeyReuseError, match=says):
        check_key_reuse(function, random.key(0))
    stage(function)(random.key(0))  # it is off


def test_no_keys_are_used_any_number_of_times():
    def draw(key):
        one, other = random.split(key)
        return random.bits(one) + random.bits(other) + random.bits(key)

    none = random.split(random.key(0), 0)
    with xpr.debug_key_reuse():
        assert xpr.vmap(draw)(none).shape == xpr.jit(xpr.vmap(draw))(none).shape == (0,)


def test_keys_are_followed_through_calls():
    with xpr.debug_key_reuse():
        _, key = xpr.jit(lambda k: (random.normal(k), k))(random.key(0))
        with pytest.raises(KeyReuseError, match="uniform"):
            random.uniform(key)
        _, made = xpr.jit(lambda s: (random.normal(k := random.key(s)), k))(1)
        with pytest.raises(KeyReuseError, match="uniform"):
            random.uniform(made)


def test_the_lines_of_both_uses():
    with xpr.debug_key_reuse(), pytest.raises(KeyReuseError) as raised:
        key = random.key(0)
        x = random.normal(key)
        x += random.normal(key)
    first, again = str(raised.value).splitlines()[1:3]
    assert first.startswith("  first at test_key_reuse.py:") and first.endswith("x = random.normal(key)")
    assert again.startswith("  again at test_key_reuse.py:") and again.endswith("x += random.normal(key)")


@pytest.mark.parametrize(
    "draw",
    [
        lambda k: random.permutation(k, 10), lambda k: random.choice(k, 10), lambda k: random.gamma(k, 2.0),
        lambda k: random.poisson(k, 2.0), lambda k: random.beta(k, 1.0, 2.0), lambda k: random.t(k, 3.0),
        lambda k: random.ball(k, 3), lambda k: random.binomial(k, 10, 0.5), lambda k: random.orthogonal(k, 3),
        lambda k: random.randint(k, (3,), 0, 10), lambda k: random.dirichlet(k, jnp.ones(3)),
        lambda k: random.multivariate_normal(k, jnp.zeros(2), jnp.eye(2)), lambda k: random.wald(k, 1.0),
        lambda k: random.multinomial(k, 10, jnp.full(3, 1 / 3)),
    ],
)  # fmt: skip
def test_functions_of_the_library_use_keys_once(draw):
    check_key_reuse(draw, random.key(0))
    with pytest.raises(KeyReuseError):
        check_key_reuse(lambda key: (draw(key), draw(key)), random.key(1))


def test_setting_for_the_process():
    try:
        xpr.config.update("debug_key_reuse", True)
        key = random.key(0)
        random.normal(key)
        with pytest.raises(KeyReuseError):
            random.normal(key)
    finally:
        xpr.config.update("debug_key_reuse", False)
    random.normal(key)


def test_what_is_remembered_lives_no_longer_than_the_array():
    with xpr.debug_key_reuse():
        key = random.key(0)
        random.normal(key)
        assert key_reuse.states
        del key
        gc.collect()
        assert not [state for state in key_reuse.states.values() if state[0]() is not None]
