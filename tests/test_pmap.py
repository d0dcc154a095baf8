"""pmap: what it prints, its messages, on one device; on eight: test_eight_devices.py."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax


def test_the_documented_jaxpr():
    """As in JAX's documents."""

    def func13(arr, extra):
        def inner(x):
            return (x + extra + jnp.ones(1)) / lax.psum(x, axis_name="rows")

        return xpr.pmap(inner, axis_name="rows")(arr)

    assert (
        str(xpr.make_jaxpr(func13)(jnp.ones((1, 3)), 5.0))
        == """\
{ lambda ; a:f32[1,3] b:f32[]. let
    c:f32[1,3] = xla_pmap[
      axis_name=rows
      axis_size=1
      backend=None
      call_jaxpr={ lambda ; d:f32[] e:f32[3]. let
          f:f32[] = convert_element_type[new_dtype=float32 weak_type=False] d
          g:f32[3] = add e f
          h:f32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 1.0
          i:f32[3] = add g h
          j:f32[3] = psum[axes=('rows',) axis_index_groups=None] e
          k:f32[3] = div i j
        in (k,) }
      devices=None
      donated_invars=(False, False)
      global_arg_shapes=(None,)
      global_axis_size=None
      in_axes=(None, 0)
      name=inner
      out_axes=(0,)
    ] b a
  in (c,) }"""
    )


def test_staged_once_for_each_signature():
    calls = []

    @xpr.pmap
    def f(x):
        calls.append(x)
        return x + 1

    for _ in range(3):
        np.testing.assert_array_equal(f(np.zeros((1, 2), np.float32)), np.ones((1, 2)))
    assert len(calls) == 1
    f(np.zeros((1, 3), np.float32))
    assert len(calls) == 2


def test_disable_jit_maps_side_by_side():
    with xpr.disable_jit():
        y = xpr.pmap(lambda x, n: x * n / lax.psum(x, "i"), "i", static_broadcasted_argnums=1)(np.ones((5, 2)), 2)
    np.testing.assert_allclose(y, np.full((5, 2), 0.4), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: xpr.pmap(jnp.sin, devices=[3]), TypeError, "pmap: devices[0] is 3, which is no device"),
        (lambda: xpr.pmap(jnp.sin, devices=xpr.devices()[0]), TypeError, "pmap: devices is a sequence of devices, and"),
        (lambda: xpr.pmap(3), TypeError, "pmap: Expected a callable value, and got 3 of type int"),
        (lambda: xpr.pmap(jnp.sin)(1.0), ValueError, "pmap was requested to map its argument along axis 0"),
        (
            lambda: xpr.pmap(jnp.add)(jnp.ones(1), jnp.ones(2)),
            ValueError,
            "pmap got inconsistent sizes for array axes to be mapped:\n",
        ),
        (lambda: xpr.pmap(jnp.sin, out_axes=2)(jnp.ones((1, 2))) , ValueError, "pmap: out_axes=2 is out of range"),
        (
            lambda: xpr.pmap(jnp.sin, in_axes=None)(jnp.ones(1)),
            ValueError,
            "pmap requires at least one argument with a mapped axis, and sin has none, so that the number of rows",
        ),
    ],
)  # fmt: skip
def test_messages(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def test_static_arguments_must_be_hashable():
    with pytest.raises(
        ValueError, match=r"pmap: Non-hashable static arguments are not supported.* number 1 of <lambda> "
    ):
        xpr.pmap(lambda x, y: x, static_broadcasted_argnums=1)(jnp.ones((1, 2)), [3])
    with pytest.raises(
        ValueError, match="static_broadcasted_argnums=1 .* 1 positional argument. .* passed positionally"
    ):
        xpr.pmap(lambda x, y: x, static_broadcasted_argnums=1)(jnp.ones((1, 2)), y=3)
