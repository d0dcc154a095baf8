"""Arrays that are not row-major: made by device_put and jit, and taken by everything."""

import pickle

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.experimental.layout import Format, Layout, with_layout_constraint
from xpr.sharding import NamedSharding, SingleDeviceSharding
from xpr.sharding import PartitionSpec as P

pytestmark = pytest.mark.quick

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)
BY_COLUMNS = Layout((1, 0), ())


def here():
    return SingleDeviceSharding(xpr.devices()[0])


def columns():
    return Format(BY_COLUMNS, here())


def rows():
    return Format(Layout((0, 1), ()), here())


def by_columns(values=VALUES):
    return xpr.device_put(values, columns())


def in_memory(x):
    """The numbers in the order in which they are in memory."""
    return np.asarray(x).ravel("K").tolist()


def test_device_put_gives_an_array_its_layout():
    x = by_columns()
    assert x.format == columns() and x.tolist() == VALUES.tolist()
    assert in_memory(x) == VALUES.T.ravel().tolist() and in_memory(jnp.asarray(VALUES)) == VALUES.ravel().tolist()
    tree = xpr.device_put({"a": VALUES, "b": VALUES}, {"a": columns(), "b": here()})
    assert tree["a"].format == columns() and tree["b"].format == rows()
    assert xpr.device_put(x, columns()) is x and xpr.device_put(x, here()) is x
    back = xpr.device_put(x, rows())
    assert back.format == rows() and in_memory(back) == VALUES.ravel().tolist()
    three = xpr.device_put(np.arange(24).reshape(2, 3, 4), Format(Layout((1, 2, 0)), here()))
    assert in_memory(three) == np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0).ravel().tolist()


def test_everything_takes_arrays_of_any_layout():
    x = by_columns()
    assert (x + 1).tolist() == (VALUES + 1).tolist() and (x @ x.T).tolist() == (VALUES @ VALUES.T).tolist()
    assert x[1].tolist() == VALUES[1].tolist() and x.reshape(-1).tolist() == VALUES.ravel().tolist()
    assert (
        xpr.jit(jnp.sum)(x) == VALUES.sum() and xpr.grad(lambda x: jnp.sum(x**2))(x).tolist() == (2 * VALUES).tolist()
    )
    assert np.from_dlpack(by_columns()).tolist() == VALUES.tolist()
    assert memoryview(by_columns()).tolist() == VALUES.tolist()
    assert pickle.loads(pickle.dumps(by_columns())).tolist() == VALUES.tolist()
    assert lax.fori_loop(0, 2, lambda i, x: x + 1, by_columns()).tolist() == (VALUES + 2).tolist()
    assert xpr.block_until_ready([by_columns()])[0].is_ready() and by_columns().copy().tolist() == VALUES.tolist()
    keys = xpr.random.split(xpr.random.key(0), (2, 3))
    laid_out = xpr.device_put(keys, columns())
    assert laid_out.format == columns()
    assert (xpr.random.key_data(laid_out) == xpr.random.key_data(keys)).all()


def test_arrays_of_any_layout_are_deleted():
    x = by_columns()
    assert not x.is_deleted()
    x.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        np.asarray(x)
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        xpr.jit(jnp.sin)(x)
    donated = by_columns()
    assert (
        xpr.jit(lambda x: 2 * x, in_shardings=columns(), out_shardings=columns(), donate_argnums=0)(donated)[0, 1] == 2
    )
    assert donated.is_deleted()


def test_programs_take_and_give_layouts():
    f = xpr.jit(lambda x, y: (2 * x, y + 1), in_shardings=(columns(), None), out_shardings=(columns(), None))
    for _ in range(3):  # the first call compiles, and the others find the program
        twice, more = f(by_columns(), VALUES)
        assert twice.format == columns() and twice.tolist() == (2 * VALUES).tolist()
        assert more.format.layout == Layout((0, 1), ()) and more.tolist() == (VALUES + 1).tolist()
    for moved in (VALUES, jnp.asarray(VALUES), twice / 2):  # which was put nowhere by name
        assert f(moved, VALUES)[0].tolist() == (2 * VALUES).tolist()
    compiled = f.lower(by_columns(), VALUES).compile()
    assert compiled.input_formats == ((columns(), rows()), {}) and compiled.output_formats == (columns(), rows())
    assert "{0,1}" in f.lower(VALUES, VALUES).as_text()
    assert compiled(by_columns(), VALUES)[0].format == columns()
    both = by_columns()
    assert (both + 1).tolist() == (VALUES + 1).tolist()  # which makes a row-major copy
    assert f(both, VALUES)[0].tolist() == (2 * VALUES).tolist() and f(f(both, VALUES)[0], VALUES)[0][0, 1] == 4
    assert xpr.eval_shape(f, by_columns(), VALUES)[0].format == columns()
    assert xpr.vmap(f)(VALUES[None], VALUES[None])[0].tolist() == [(2 * VALUES).tolist()]


def test_programs_are_compiled_for_the_layouts_of_arguments():
    f = xpr.jit(lambda x: x @ x.T)
    for x in (xpr.device_put(VALUES, here()), by_columns(), by_columns()):
        assert f(x).tolist() == (VALUES @ VALUES.T).tolist()
    assert f._cache_size() == 2
    assert f.lower(by_columns()).compile().input_formats == ((columns(),), {})
    struct = xpr.ShapeDtypeStruct((3, 4), np.float32, sharding=columns())
    assert f.lower(struct).compile().input_formats == ((columns(),), {})


def test_the_compiler_may_choose():
    auto = Format(Layout.AUTO)
    struct = xpr.ShapeDtypeStruct((3, 4), np.float32)
    compiled = xpr.jit(jnp.transpose, in_shardings=auto, out_shardings=auto).lower(struct).compile()
    (taken,), given = compiled.input_formats[0], compiled.output_formats
    assert taken.layout.major_to_minor == given.layout.major_to_minor[::-1]
    out = compiled(xpr.device_put(VALUES, taken))
    assert out.format == given and out.tolist() == VALUES.T.tolist()
    flat = xpr.jit(lambda x: x + 1, in_shardings=auto, out_shardings=auto)(np.arange(3))
    assert flat.format.layout.major_to_minor == (0,) and flat.tolist() == [1, 2, 3]
    assert repr(auto) == "Format(layout=AUTO, sharding=None)" and pickle.loads(pickle.dumps(Layout.AUTO)) is Layout.AUTO


def test_arrays_over_a_mesh_have_layouts():
    sharding = NamedSharding(xpr.make_mesh((1,), ("x",)), P("x"))
    form = Format(BY_COLUMNS, sharding)
    x = xpr.device_put(VALUES, form)
    assert x.format == form and x.tolist() == VALUES.tolist()
    assert [shard.data.format.layout for shard in x.addressable_shards] == [BY_COLUMNS]
    made = xpr.make_array_from_callback((3, 4), form, lambda index: VALUES[index])
    assert made.format == form and made.tolist() == VALUES.tolist()
    f = xpr.jit(lambda x: 2 * x, in_shardings=form, out_shardings=form)
    assert (
        f(x).format == form == f.lower(VALUES).compile().output_formats and f(VALUES).tolist() == (2 * VALUES).tolist()
    )
    constrained = xpr.jit(lambda x: lax.with_sharding_constraint({"a": x}, {"a": Format(None, sharding)}))
    assert constrained(x)["a"].tolist() == VALUES.tolist()


def test_layouts_that_were_put_elsewhere_are_refused():
    f = xpr.jit(lambda x: 2 * x, in_shardings=columns())
    with pytest.raises(
        ValueError, match=r"Layout passed to jit does not match the layout on the respective arg, x(.|\n)*row-major"
    ):
        f(xpr.device_put(VALUES, here()))
    assert f(VALUES)[0, 1] == 2
    with pytest.raises(ValueError, match="Put it there before, by xpr.device_put, or leave the layout out"):
        f(xpr.device_put(VALUES, here()))
    with pytest.raises(ValueError, match="With AUTO the compiler chooses a layout: lower the function with"):
        xpr.jit(lambda x: x, in_shardings=Format(Layout.AUTO))(by_columns())
    with pytest.raises(
        ValueError, match=r"input layouts that disagree with the layouts \(1 of 1\)(.|\n)*compiled for \(1, 0\)"
    ):
        f.lower(VALUES).compile()(xpr.device_put(VALUES, here()))


def test_layouts_that_arrays_cannot_have_are_refused():
    wrong = Format(Layout((0, 1, 2)), here())
    message = r"\(0, 1, 2\) are not the axes of an array of shape \(3, 4\). Length of major_to_minor and the rank"
    with pytest.raises(ValueError, match=r"device_put: x\['a'\]: A layout names each axis.*" + message):
        xpr.device_put({"a": VALUES}, wrong)
    with pytest.raises(ValueError, match="argument x: .*" + message):
        xpr.jit(lambda x: x, in_shardings=wrong)(VALUES)
    with pytest.raises(ValueError, match="result: .*" + message):
        xpr.jit(lambda x: x, out_shardings=wrong)(VALUES)
    with pytest.raises(ValueError, match="Arrays on CPUs and GPUs are not tiled: leave the tiling out"):
        xpr.device_put(VALUES, Format(Layout((0, 1), ((8, 128),)), here()))
    with pytest.raises(ValueError, match="device_put: sharding and layout of x should be concrete"):
        xpr.device_put(VALUES, Format(Layout.AUTO))
    with pytest.raises(ValueError, match="`jax.jit` does not accept device-local layouts directly"):
        xpr.jit(lambda x: x, in_shardings=Layout.AUTO)
    with pytest.raises(ValueError, match="Sharding has to be concrete when layout is of type"):
        Format(BY_COLUMNS)
    with pytest.raises(TypeError, match="Invalid value received for the layout argument"):
        Format(here())
    with pytest.raises(TypeError, match="Invalid value received for the sharding argument, .*: 3. The layout is"):
        Format(None, 3)
    with pytest.raises(TypeError, match="`Layout.AUTO` cannot be used in place of a device-local layout"):
        xpr.ShapeDtypeStruct((3, 4), np.float32, sharding=Format(Layout.AUTO))
    with pytest.raises(TypeError, match="`Layout.AUTO` cannot be used in place of a device-local layout"):
        xpr.make_array_from_callback((3, 4), Format(Layout.AUTO, here()), lambda index: VALUES[index])
    with pytest.raises(TypeError, match="sharding should be an instance of `jax.sharding`"):
        xpr.make_array_from_callback((3, 4), Format(), lambda index: VALUES[index])


def test_donated_arguments_have_the_layouts_of_their_results():
    auto = Format(Layout.AUTO)
    with pytest.raises(ValueError, match="Did you mean to set the output layout to AUTO"):
        xpr.jit(lambda x: 2 * x, donate_argnums=0, in_shardings=auto)(jnp.asarray(VALUES))
    with pytest.raises(ValueError, match="Did you mean to set the input layout to AUTO"):
        xpr.jit(lambda x: 2 * x, donate_argnums=0, out_shardings=auto)(jnp.asarray(VALUES))
    assert (
        xpr.jit(lambda x: 2 * x, donate_argnums=0, in_shardings=auto, out_shardings=auto)(jnp.asarray(VALUES))[0, 1]
        == 2
    )


def test_programs_that_call_python_are_row_major():
    def f(x):
        xpr.debug.callback(lambda x: None, x)
        return 2 * x

    with pytest.raises(NotImplementedError, match="f calls Python functions, so that all of its arguments and results"):
        xpr.jit(f, in_shardings=columns())(VALUES)
    auto = Format(Layout.AUTO)
    assert xpr.jit(f, in_shardings=auto, out_shardings=auto)(VALUES).tolist() == (2 * VALUES).tolist()
    assert xpr.jit(f)(xpr.device_put(VALUES, here())).tolist() == (2 * VALUES).tolist()


def test_programs_with_layouts_are_not_saved(tmp_path):
    compiled = xpr.jit(lambda x: 2 * x, in_shardings=columns()).lower(VALUES).compile()
    with pytest.raises(NotImplementedError, match="takes or gives arrays that are not row-major"):
        compiled.save(tmp_path / "program")


def test_layouts_are_compared_and_printed():
    assert Layout((1, 0)) == Layout((1, 0)) != Layout((1, 0), ()) and hash(Layout((1, 0))) == hash(Layout((1, 0)))
    assert BY_COLUMNS.update(tiling=None) == Layout((1, 0))
    assert repr(BY_COLUMNS) == "Layout(major_to_minor=(1, 0), tiling=(), sub_byte_element_size_in_bits=0)"


def test_constraints_give_layouts():
    assert xpr.jit(lambda x: with_layout_constraint(x, Layout((1, 0))) + 1)(VALUES).tolist() == (VALUES + 1).tolist()
    assert with_layout_constraint(jnp.asarray(VALUES), BY_COLUMNS).format.layout == BY_COLUMNS
    form = Format(BY_COLUMNS, NamedSharding(xpr.make_mesh((1,), ("x",)), P()))
    for f in (lambda x: with_layout_constraint(2 * x, BY_COLUMNS), lambda x: lax.with_sharding_constraint(2 * x, form)):
        for g in (f, xpr.jit(f), xpr.jit(f)):
            assert g(VALUES).format.layout == BY_COLUMNS and g(VALUES).tolist() == (2 * VALUES).tolist()
        assert xpr.vmap(f)(VALUES[None])[0].tolist() == (2 * VALUES).tolist()
        assert xpr.grad(lambda x, f=f: f(x).sum())(VALUES).tolist() == np.full((3, 4), 2).tolist()
