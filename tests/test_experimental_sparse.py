"""experimental.sparse: sparse arrays give what dense ones give, and what jax's give where it is installed."""

import functools
import importlib
import itertools
import warnings

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests import helpers
from tests.helpers import check_grads_in_numpy
from tests.peer import JAX, beside_jax, needs_jax
from xpr import lax
from xpr.experimental import sparse
from xpr.experimental.sparse import test_util


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def to_dense(results):
    is_sparse = lambda x: isinstance(x, sparse.JAXSparse)
    return xpr.tree.map(lambda x: x.todense() if is_sparse(x) else x, results, is_leaf=is_sparse)


def some(*shape, density=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * (rng.random(shape) < density)).astype(np.float32)


@pytest.fixture
def dense():
    return some(4, 5)


LAYOUTS = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 3)]  # numbers of batch and of dense axes


@pytest.fixture(params=LAYOUTS, ids=lambda layout: f"{layout[0]} batch, {layout[1]} dense")
def layout(request):
    n_batch, n_dense = request.param
    return {"n_batch": n_batch, "n_dense": n_dense}


def test_new_axes_before_all_others_are_batch_axes(layout):
    x = some(2, 3, 4)
    m = sparse.BCOO.fromdense(x, **layout)
    for key in (None, (None, None), (None, 1), (None, slice(None), None)):
        assert m[key].n_batch >= layout["n_batch"] + (key is None)
        close(m[key].todense(), x[key])
    rows = sparse.BCSR.fromdense(x[0])
    assert rows[None].n_batch == 1
    close(rows[None].todense(), x[:1])


class TestLayouts:
    """Each function on arrays [2, 3, 4] of every layout, with padding and without."""

    @pytest.mark.parametrize("padding", [0, 2])
    def test_functions_of_one_array(self, layout, padding):
        x = some(2, 3, 4)
        full = sparse.BCOO.fromdense(x, **layout)
        m = sparse.BCOO.fromdense(x, nse=full.nse + padding, **layout)
        assert (m.n_batch, m.n_dense, m.n_sparse) == (*layout.values(), 3 - sum(layout.values()))
        close(m.todense(), x)
        sparse_axes = range(m.n_batch, m.n_batch + m.n_sparse)
        shuffled = [*range(m.n_batch), *reversed(sparse_axes), *range(m.n_batch + m.n_sparse, 3)]
        for f, g in [
            (sparse.bcoo_sort_indices, lambda x: x),
            (lambda m: sparse.bcoo_sum_duplicates(m, nse=m.nse), lambda x: x),
            (sparse.bcoo_sum_duplicates, lambda x: x),
            (lambda m: sparse.bcoo_transpose(m, permutation=shuffled), lambda x: x.transpose(shuffled)),
            (lambda m: sparse.bcoo_update_layout(m, n_batch=0, n_dense=0), lambda x: x),
            (lambda m: sparse.bcoo_rev(m, (0, 2)), lambda x: x[::-1, :, ::-1]),
            (
                lambda m: sparse.bcoo_slice(m, start_indices=(0, 1, 1), limit_indices=(1, 3, 4), strides=(1, 1, 2)),
                lambda x: x[0:1, 1:3, 1:4:2],
            ),
            (lambda m: sparse.bcoo_dynamic_slice(m, (1, 5, -3), (1, 2, 2)), lambda x: x[1:2, 1:3, 1:3]),
            (lambda m: sparse.bcoo_concatenate([m, m], dimension=0), lambda x: np.concatenate([x, x]))
            if m.n_dense < 3
            else (lambda m: m, lambda x: x),
            (lambda m: m * 2.0 - m, lambda x: x),
            (lambda m: m * x[0], lambda x: x * x[0]),
            (lambda m: abs(m) + jnp.sin(1.0) * m**2, lambda x: abs(x) + np.sin(1.0) * x**2),
            (lambda m: m[1], lambda x: x[1]),
            (lambda m: m[:, 0:1], lambda x: x[:, 0:1]),
            (lambda m: m.astype("float16"), lambda x: x.astype("float16")),
        ]:
            close(f(m).todense(), g(x))
        for axes in [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()]:
            close(sparse.bcoo_reduce_sum(m, axes=axes).todense(), x.sum(axes))
        close(m.sum(), x.sum())
        close(m + x, 2 * x)

    def test_layouts_of_other_numbers_of_axes(self, layout):
        x = some(2, 3, 4)
        for n_batch, n_dense in LAYOUTS:
            m = sparse.BCOO.fromdense(x).update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
            assert (m.n_batch, m.n_dense) == (n_batch, n_dense)
            close(m.todense(), x)
            close(m.update_layout(**layout, on_inefficient=None).todense(), x)

    def test_products_with_dense_arrays(self, layout):
        x, y = some(2, 3, 4), some(4, 3, 2, seed=1)
        m = sparse.BCOO.fromdense(x, **layout)
        for numbers, y_shape in [
            ((((2,), (0,)), ((), ())), (4, 3, 2)),
            ((((1,), (1,)), ((), ())), (4, 3, 2)),
            ((((2, 1), (0, 1)), ((), ())), (4, 3, 2)),
            ((((2,), (0,)), ((0,), (2,))), (4, 3, 2)),
            ((((0, 1, 2), (2, 1, 0)), ((), ())), (4, 3, 2)),
            ((((1,), (1,)), ((2, 0), (0, 2))), (4, 3, 2)),
            ((((), ()), ((1,), (1,))), (4, 3, 2)),
        ]:
            assert y.shape == y_shape
            close(sparse.bcoo_dot_general(m, y, dimension_numbers=numbers), lax.dot_general(x, y, numbers))
            (a, b), (c, d) = numbers
            swapped = ((b, a), (d, c))
            close(sparse.bcoo_dot_general(y, m, dimension_numbers=swapped), lax.dot_general(y, x, swapped))

    def test_reshape(self, layout):
        x = some(2, 3, 4)
        m = sparse.BCOO.fromdense(x, **layout)
        close(m.reshape(2, 1, 3, 4, 1).todense(), x.reshape(2, 1, 3, 4, 1))
        if layout == {"n_batch": 0, "n_dense": 0}:
            close(m.reshape(6, 4).todense(), x.reshape(6, 4))
            close(m.reshape(-1).todense(), x.reshape(-1))
        if layout == {"n_batch": 1, "n_dense": 0}:
            with pytest.raises(ValueError, match="axes of different kinds would mix"):
                m.reshape(6, 4)

    def test_extract(self, layout):
        x, other = some(2, 3, 4), some(2, 3, 4, density=1.0, seed=2)
        m = sparse.BCOO.fromdense(x, **layout)
        mask = sparse.bcoo_extract(m, jnp.ones(x.shape)).todense()
        close(sparse.bcoo_extract(m, other).todense(), other * mask)

    def test_jit_vmap_and_gradients(self, layout):
        x, y = some(2, 3, 4), some(4, 5, seed=1)
        nse = sparse.BCOO.fromdense(x, **layout).nse

        def product(x, y):
            return sparse.BCOO.fromdense(x, nse=nse, **layout) @ y

        close(xpr.jit(product)(x, y), x @ y)
        check_grads_in_numpy(lambda y: product(x, y), (y,), 2, atol=1e-2, rtol=1e-2)
        m = sparse.BCOO.fromdense(x, **layout)
        if m.n_batch:
            close(xpr.vmap(lambda row: row.todense() * 2)(m), 2 * x)
            rows = xpr.vmap(lambda row: row * 2.0)(m)
            assert rows.shape == x.shape
            close(rows.todense(), 2 * x)
            if m.n_batch == 1 and not m.n_dense:
                close(xpr.vmap(lambda row: row @ y)(m), x @ y)


def test_without_sparse_axes_each_stored_element_has_the_same_indices():
    x = some(3, 2, density=1)
    m = sparse.BCOO.fromdense(x, n_batch=1, n_dense=1, nse=2)
    assert not m.unique_indices
    close(m.todense(), x)
    close(sparse.bcoo_extract(m, x).todense(), x)
    close(sparse.bcoo_extract(m, x, assume_unique=True).data, np.stack([x, x], 1))
    product = sparse.bcoo_dot_general_sampled(
        x, x.T, np.zeros((3, 3, 2, 0), int), dimension_numbers=(((1,), (0,)), ((), ()))
    )
    close(product, np.stack([x @ x.T] * 2, -1))


def test_sorting_keeps_batch_axes_of_size_1():
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 5, (1, 3, 1, 6, 2))
    m = sparse.BCOO((rng.normal(size=(1, 1, 4, 6)).astype("float32"), indices), shape=(2, 3, 4, 5, 5))
    in_order = m.sort_indices()
    assert in_order.indices_sorted
    assert (in_order.data.shape, in_order.indices.shape) == ((1, 3, 4, 6), (1, 3, 1, 6, 2))
    close(in_order.todense(), m.todense())


class TestMappedAxes:
    """vmap maps batch axes; along others, the arrays inside a sparse one would be split in a way that means nothing."""

    @pytest.mark.parametrize("kind", [sparse.BCOO, sparse.BCSR])
    def test_of_arguments(self, kind):
        rows = kind.fromdense(some(2, 3, 4), n_batch=1)
        assert xpr.vmap(lambda tree: tree["m"] @ jnp.ones(4))({"m": rows, "other": jnp.ones(2)}).shape == (2, 3)
        assert xpr.vmap(lambda m, x: m.todense() * x, (None, 0))(rows, jnp.ones(5)).shape == (5, 2, 3, 4)
        for mat, axis in [(kind.fromdense(some(3, 4)), 0), (rows, 1), (rows, -1)]:
            with pytest.raises(ValueError, match=r"vmap in_axes: axis \d of BC.*, and these alone can be mapped"):
                xpr.vmap(lambda tree: tree["m"].todense(), axis, axis_size=3)({"m": mat})

    def test_of_results(self):
        rows = sparse.BCOO.fromdense(some(2, 3, 4), n_batch=2)
        assert xpr.vmap(lambda m: 2 * m, out_axes=1)(rows).shape == (3, 2, 4)
        with pytest.raises(ValueError, match="vmap out_axes: axis 2 of BCOO.* is none of its 2 batch axes"):
            xpr.vmap(lambda m: 2 * m, out_axes=2)(rows)


class TestFlags:
    @pytest.mark.parametrize("n_batch, n_dense", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)])
    def test_what_is_sorted_and_summed_says_so(self, n_batch, n_dense):
        m = sparse.BCOO.fromdense(jnp.asarray(some(4, 3)), n_batch=n_batch, n_dense=n_dense)
        m.indices_sorted = m.unique_indices = False
        assert m.sort_indices().indices_sorted and not m.sort_indices().unique_indices
        summed = m.sum_duplicates(nse=m.nse)
        assert summed.unique_indices and summed.indices_sorted
        np.testing.assert_array_equal(summed.todense(), m.todense())

    def test_arrays_that_do_not_fit_have_a_text(self):
        m = sparse.BCOO.fromdense(jnp.ones((2, 3)))
        m.indices = jnp.zeros(0, int)
        assert repr(m) == "BCOO(<invalid>)"


class TestOfTwoArrays:
    @pytest.mark.parametrize("n_batch", [0, 1, 2])
    def test_elementwise_products(self, n_batch):
        x, y = some(2, 3, 4), some(2, 3, 4, seed=1)
        a, b = (sparse.BCOO.fromdense(z, n_batch=n_batch) for z in (x, y))
        close((a * b).todense(), x * y)
        close(sparse.bcoo_multiply_sparse(a, sparse.BCOO.fromdense(y)).todense(), x * y)
        for shape in [(1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 1)]:
            z = some(*shape, density=0.8, seed=3)
            c = sparse.BCOO.fromdense(z, n_batch=n_batch)
            close(sparse.bcoo_multiply_sparse(a, c).todense(), x * z)
            close(sparse.bcoo_multiply_sparse(c, a).todense(), x * z)
        u, v = some(2, 1, 4, density=0.8), some(2, 3, 1, density=0.8, seed=4)
        close(sparse.bcoo_multiply_sparse(sparse.BCOO.fromdense(u), sparse.BCOO.fromdense(v)).todense(), u * v)

    def test_matrix_products(self, dense):
        m = sparse.BCOO.fromdense(dense)
        padded = sparse.BCOO.fromdense(dense, nse=18)
        for a, b in itertools.product([m, padded], repeat=2):
            assert isinstance(a @ b.T, sparse.BCOO)
            close((a @ b.T).todense(), dense @ dense.T)
        x, y = some(2, 3, 4), some(2, 4, 5, seed=1)
        a, b = (sparse.BCOO.fromdense(z, n_batch=1) for z in (x, y))
        close((a @ b).todense(), x @ y)

    def test_batch_axes_of_a_product_in_another_order(self):
        x, y = some(2, 3, 4, 5), some(3, 2, 5, 4)
        numbers = (((3,), (2,)), ((1, 0), (0, 1)))
        product = sparse.bcoo_dot_general(
            sparse.BCOO.fromdense(x, n_batch=2), sparse.BCOO.fromdense(y, n_batch=3), dimension_numbers=numbers
        )
        assert product.n_batch == 2
        close(product.todense(), lax.dot_general(x, y, numbers))

    def test_addition(self, dense):
        m, other = sparse.BCOO.fromdense(dense), np.ones((4, 5), np.float32)
        close((m + m).todense(), dense * 2)
        assert (m + m).nse == m.nse
        more = m + sparse.BCOO.fromdense(dense)
        close(more.todense(), dense * 2)
        close(more.sum_duplicates().todense(), dense * 2)
        assert more.sum_duplicates().nse == m.nse and (m - m).sum_duplicates().nse == 0
        close(m + other, dense + other)
        close(other - m, other - dense)
        close(m - other, dense - other)


class TestFormats:
    @pytest.mark.parametrize("name", ["BCOO", "BCSR", "COO", "CSR", "CSC"])
    @pytest.mark.parametrize("nse", [None, 17])
    def test_products(self, name, nse, dense):
        cls, v = getattr(sparse, name), some(5, density=1.0, seed=1)
        w = some(5, 3, density=1.0, seed=2)
        m = cls.fromdense(dense, nse=nse)
        assert m.shape == dense.shape and m.dtype == np.float32 and len(m) == 4
        close(m.todense(), dense)
        close(sparse.todense(m), dense)
        close(m.T.todense(), dense.T)
        close(m @ v, dense @ v)
        close(xpr.jit(lambda m, v: m @ v)(m, v), dense @ v)
        close(m @ w, dense @ w)
        gradient = sparse.grad(lambda m: ((m @ v) ** 2).sum())(m)
        assert type(gradient) is cls
        expected = xpr.grad(lambda m: ((m @ v) ** 2).sum())(jnp.asarray(dense))
        stored = np.asarray(cls.fromdense(dense, nse=nse).todense() != 0)
        close(gradient.todense() * stored, np.asarray(expected) * stored)

    @pytest.mark.parametrize("kind", ["csr", "coo"])
    def test_functions(self, kind, dense):
        fromdense, matvec, matmat, todense = (
            getattr(sparse, f"{kind}_{name}") for name in ("fromdense", "matvec", "matmat", "todense")
        )
        m, v = fromdense(dense), some(4, density=1.0)
        close(todense(m), dense)
        close(matvec(m, v, transpose=True), dense.T @ v)
        close(matmat(m, dense, transpose=True), dense.T @ dense)

    @pytest.mark.parametrize("name", ["bcoo", "bcsr", "coo", "csr", "csc"])
    def test_creation(self, name):
        close(sparse.empty((2, 3), sparse_format=name).todense(), np.zeros((2, 3)))
        if name == "bcsr":
            with pytest.raises(ValueError, match="sparse_format is one of 'bcoo', 'coo', 'csr', 'csc', not 'bcsr'"):
                sparse.eye(2, sparse_format=name)
            return
        for n, m, k in [(3, None, 0), (3, 4, 1), (4, 3, -2), (2, 3, 5), (2, 3, -5)]:
            close(sparse.eye(n, m, k, sparse_format=name).todense(), np.eye(n, m, k))

    def test_bcsr(self):
        x = some(2, 3, 4)
        m = sparse.BCSR.fromdense(x, n_batch=1)
        assert (m.n_batch, m.n_dense, m.n_sparse) == (1, 0, 2)
        close(m.todense(), x)
        close(m.to_bcoo().todense(), x)
        close((m * 2).todense(), 2 * x)
        assert isinstance(m * 2, sparse.BCSR) and isinstance(-m, sparse.BCSR)
        close(m[1].todense(), x[1])
        close(sparse.bcsr_concatenate([m, m], dimension=1).todense(), np.concatenate([x, x], 1))
        close(sparse.bcsr_sum_duplicates(m).todense(), x)
        close(sparse.bcsr_extract(m.indices, m.indptr, x), m.data)
        wide = sparse.bcsr_broadcast_in_dim(m, shape=(5, 2, 3, 4), broadcast_dimensions=(1, 2, 3))
        close(wide.todense(), np.broadcast_to(x, (5, 2, 3, 4)))
        close(xpr.vmap(lambda row: row.todense())(m), x)

    def test_arrays_of_scipy(self, dense):
        scipy_sparse = pytest.importorskip("scipy.sparse")
        for cls in (sparse.BCOO, sparse.BCSR):
            close(cls.from_scipy_sparse(scipy_sparse.coo_array(dense)).todense(), dense)


class TestSparsify:
    """Functions of dense arrays, of sparse ones."""

    @pytest.mark.parametrize("padding", [0, 3])
    @pytest.mark.parametrize(
        "f",
        [
            lambda m, x: jnp.einsum("ij,j->i", m, x) * 2,
            lambda m, x: jnp.einsum("ij,kj->ki", m, jnp.outer(x, x)),
            lambda m, x: jnp.einsum("ki,ji->kj", jnp.outer(x, x), m),
            lambda m, x: jnp.einsum("ij,ij->i", m, jnp.outer(x[:4], x)),
            lambda m, x: jnp.einsum("k,ij->ijk", x[:2], m),
            lambda m, x: m @ x + x[:4],
            lambda m, x: -m * x / 2.0,
            lambda m, x: (x[:4, None] * m - m).T,
            lambda m, x: m + m + 2 * m,
            lambda m, x: jnp.sin(m + m) + m**2,
            lambda m, x: xpr.jit(jnp.abs)(m).sum(1),
            lambda m, x: m.sum(),
            lambda m, x: m.reshape(2, 10)[None],
            lambda m, x: jnp.concatenate([m[1:3, ::2], m[::-1][:2, ::2]]),
            lambda m, x: jnp.broadcast_to(m[:, None, :], (4, 3, 5)) * m.sum(1, keepdims=True)[:, None],
            lambda m, x: {"m": m, "x": x.astype(jnp.float16)},
            lambda m, x: sparse.todense(m) + 1,
            lambda m, x: m[jnp.array([2, 0])] @ x,
            lambda m, x: xpr.nn.relu(x) @ m.T,
            lambda m, x: lax.fori_loop(0, 3, lambda i, y: m.T @ (m @ y), x),
            lambda m, x: lax.scan(lambda y, _: (m.T @ (m @ y), y.sum()), x, None, length=2),
            lambda m, x: lax.while_loop(lambda y: y.sum() < 10, lambda y: y + jnp.abs(m).sum(0) @ x, x),
            lambda m, x: lax.cond(x[0] > 0, lambda m: m * 2.0, lambda m: -m, m) @ x,
            lambda m, x: lax.fori_loop(0, 2, lambda i, m: m * 2.0, m) @ x,
        ],
    )
    def test_values(self, f, dense, padding):
        m = sparse.BCOO.fromdense(dense, nse=np.count_nonzero(dense) + padding)
        x = jnp.arange(1.0, 6.0)
        on_sparse = lambda m, x: to_dense(sparse.sparsify(f)(m, x))
        xpr.tree.map(close, on_sparse(m, x), f(jnp.asarray(dense), x))
        xpr.tree.map(close, xpr.jit(on_sparse)(m, x), f(jnp.asarray(dense), x))

    def test_rows_in_a_scan(self):
        x, y = some(3, 4, 5), some(5, density=1.0)
        m = sparse.BCOO.fromdense(x, n_batch=1)
        f = sparse.sparsify(lambda m: lax.scan(lambda c, row: (c + 1, row @ y), 0, m)[1])
        close(f(m), x @ y)

    def test_a_convolution(self):
        x, y = some(1, 1, 9), some(1, 1, 3, density=1.0, seed=1)
        for padding in ("VALID", "SAME", [(2, 1)]):
            f = functools.partial(lax.conv_general_dilated, window_strides=(1,), padding=padding)
            out = sparse.sparsify(f)(sparse.BCOO.fromdense(x), y)
            close(out.todense(), f(jnp.asarray(x), jnp.asarray(y)))
        with pytest.raises(NotImplementedError, match=r"only the convolution of one signal \[1, 1, n\]"):
            lhs = sparse.BCOO.fromdense(x)
            sparse.bcoo_conv_general_dilated(lhs, y, window_strides=(2,), padding="SAME")

    def test_gradient(self, dense):
        m = sparse.BCOO.fromdense(dense)
        of_sparse = lambda m: (sparse.sparsify(jnp.matmul)(m, jnp.arange(5.0)) ** 2).sum()
        of_dense = lambda m: ((m @ jnp.arange(5.0)) ** 2).sum()
        expected = xpr.grad(of_dense)(jnp.asarray(dense))[tuple(m.indices.T)]
        close(sparse.grad(of_sparse)(m).data, expected)
        value, gradient = xpr.jit(sparse.value_and_grad(of_sparse))(m)
        close(gradient.data, expected)
        (gradient,), aux = sparse.grad(lambda m: (of_sparse(m), 3), argnums=(0,), has_aux=True)(m)
        close(gradient.data, expected)
        assert aux == 3
        for jacobian in (sparse.jacfwd, sparse.jacrev, sparse.jacobian):
            found = jacobian(lambda m: (m @ jnp.arange(5.0)) ** 2)(m)
            wanted = xpr.jacfwd(lambda m: (m @ jnp.arange(5.0)) ** 2)(jnp.asarray(dense))
            assert found.shape == (4, 4, 5)
            close(found.todense(), wanted * (dense != 0))

    @pytest.mark.parametrize(
        "f, message",
        [
            (jnp.cos, "cos has no rule for sparse arrays, and was given BCOO"),
            (lambda m: m + 1, r"the sum of BCOO\(.*\) and a dense array of shape \(\) is dense"),
            (lambda m: 1 / m, "divides by zero where nothing is stored"),
            (lambda m: m**-1, r"\*\* -1 is not 0 where nothing is stored"),
            (lambda m: m > 0, "gt has no rule"),
            (lambda m: jnp.concatenate([m, jnp.ones((1, 5))]), "are concatenated as dense ones"),
        ],
    )
    def test_what_would_be_dense(self, f, message, dense):
        with pytest.raises(NotImplementedError, match=message):
            sparse.sparsify(f)(sparse.BCOO.fromdense(dense))


class TestLinearAlgebra:
    def test_spsolve(self):
        a = some(6, 6) + 3 * np.eye(6, dtype=np.float32)
        m, b = sparse.CSR.fromdense(a), some(6, density=1.0)
        solve = lambda data, b: sparse.linalg.spsolve(data, m.indices, m.indptr, b)
        close(solve(m.data, b), np.linalg.solve(a, b))
        check_grads_in_numpy(solve, (m.data, jnp.asarray(b)), 1, atol=1e-2, rtol=1e-2)
        with pytest.raises(ValueError, match="data and b must have one dtype"):
            sparse.linalg.spsolve(m.data, m.indices, m.indptr, b.astype("float16"))
        with pytest.raises(ValueError, match="indices and indptr must be integers, and are float32 and int32"):
            sparse.linalg.spsolve(m.data, m.data, m.indptr, b)
        with pytest.raises(ValueError, match=r"b \[n\], and were given"):
            sparse.linalg.spsolve(m.data, m.indices, m.indptr, b[:5])

    def test_lobpcg(self):
        a = some(40, 40, density=0.3)
        a = a @ a.T
        start = jnp.asarray(some(40, 3, density=1.0, seed=1))
        for matrix in (a, sparse.BCOO.fromdense(a).__matmul__):
            theta, vectors, steps = sparse.linalg.lobpcg_standard(matrix, start)
            np.testing.assert_allclose(theta, np.linalg.eigvalsh(a)[::-1][:3], rtol=1e-4)
            np.testing.assert_allclose(a @ np.asarray(vectors), np.asarray(theta * vectors), atol=1e-2)
            assert 0 < steps < 100
        with pytest.raises(ValueError, match="0 < 5 k < n"):
            sparse.linalg.lobpcg_standard(a, jnp.ones((40, 8)))
        with pytest.raises(ValueError, match="search dim > 0"):
            sparse.linalg.lobpcg_standard(a, jnp.ones((40, 0)))
        with pytest.raises(ValueError, match=r"A must be \(40, 40\).*: of float32\[40, 1\] A made float32\[1, 1\]"):
            sparse.linalg.lobpcg_standard(lambda x: x[:1], start)

    def test_lobpcg_of_equal_eigenvalues_is_in_order(self):
        for number_of_large in (0, 4, 6, 8):
            matrix = np.diag(np.repeat(np.float32([1000, 1]), [number_of_large, 80 - number_of_large]))
            theta, vectors, _ = sparse.linalg.lobpcg_standard(matrix, jnp.asarray(some(80, 8, density=1.0, seed=1)))
            assert (np.diff(theta) <= 0).all()
            np.testing.assert_allclose(matrix @ np.asarray(vectors), theta * vectors, atol=1e-2)


def of(library, sparse, code):
    """How a sparse array prints, without its elements, and its arrays."""
    result = eval(code, {"sp": sparse, "x": library.numpy.asarray(some(2, 3, 4))})
    return [repr(result).split("Array")[0], *library.tree.leaves(result)]


class TestAsInJax:
    """Data, indices and layouts are jax's."""

    @pytest.mark.parametrize(
        "code",
        [
            "sp.BCOO.fromdense(x)",
            "sp.BCOO.fromdense(x, nse=20, n_batch=1)",
            'sp.BCOO.fromdense(x, n_dense=1, index_dtype="uint8")',
            "sp.BCSR.fromdense(x[0], nse=9)",
            "sp.CSR.fromdense(x[0])",
            "sp.CSC.fromdense(x[0])",
            "sp.COO.fromdense(x[0])",
            "sp.eye(4, 5, k=1)",
            "sp.eye(4, n_batch=1)",
            "sp.empty((2, 3), nse=2)",
            "sp.BCOO.fromdense(x).T",
            "sp.BCOO.fromdense(x, n_batch=2).update_layout(n_batch=0)",
            "sp.BCOO.fromdense(x, n_dense=1).update_layout(n_dense=0)",
            "sp.BCOO.fromdense(x).sum(1).sum_duplicates()",
            "sp.BCOO.fromdense(x).sum()",
            "sp.bcoo_rev(sp.BCOO.fromdense(x), (0,))",
            "sp.bcoo_concatenate([sp.BCOO.fromdense(x)] * 2, dimension=1)",
            "sp.bcoo_broadcast_in_dim(sp.BCOO.fromdense(x), shape=(5, 2, 3, 4), broadcast_dimensions=(1, 2, 3))",
            "sp.BCOO.fromdense(x) * 2",
            "sp.BCOO.fromdense(x) @ x[0].T",
            "sp.BCOO.fromdense(x[0]) * x[0, 0]",
            "(sp.BCOO.fromdense(x[0]) @ sp.BCOO.fromdense(x[1]).T).todense()",
            "sp.grad(lambda m: (m @ x[0, 0]).sum())(sp.BCOO.fromdense(x))",
        ],
    )
    def test_results(self, code):
        ours = of(xpr, sparse, code)

        def compare(theirs):
            assert ours[0] == theirs[0]
            helpers.close(ours[1:], theirs[1:])

        beside_jax(code, {}, lambda: of(JAX, importlib.import_module("jax.experimental.sparse"), code), compare)

    @needs_jax
    def test_random(self):
        theirs = importlib.import_module("jax.experimental.sparse")
        arguments = {"dtype": "float32", "nse": 3, "n_batch": 1, "sorted_indices": True, "indices_dtype": "int16"}
        x = sparse.random_bcoo(xpr.random.key(1), (3, 4, 5), **arguments)
        y = theirs.random_bcoo(JAX.random.key(1), (3, 4, 5), **arguments)
        close(x.data, y.data)
        close(x.indices, y.indices)
        assert x.indices.dtype == y.indices.dtype and x.dtype == y.dtype


class TestWhatDoesNotFit:
    def test_arrays(self):
        with pytest.raises(ValueError, match=r"an array of shape \(3, 3\) with indices of shape \(2, 1\) can't have"):
            sparse.BCOO((jnp.ones(2), jnp.zeros((2, 1), int)), shape=(3, 3))
        with pytest.raises(TypeError, match="indices must be integers, and are float32"):
            sparse.BCOO((jnp.ones(2), jnp.zeros((2, 2))), shape=(3, 3))
        with pytest.raises(ValueError, match=r"BCSR: an array of shape \(3, 3\) can't have data of shape"):
            sparse.BCSR((jnp.ones(2), jnp.zeros(2, int), jnp.zeros(3, int)), shape=(3, 3))
        with pytest.raises(ValueError, match="no n_batch=2, n_dense=1 for an array of shape"):
            sparse.BCOO.fromdense(jnp.ones((2, 2)), n_batch=2, n_dense=1)
        with pytest.raises(ValueError, match="two axes must be left as sparse ones"):
            sparse.BCSR.fromdense(jnp.ones((2, 2, 2)))
        with pytest.raises(NotImplementedError, match="must have two sparse axes, and has 1"):
            sparse.BCSR.from_bcoo(sparse.empty((2,)))
        with pytest.raises(ValueError, match="nse must be from 0 to below 4"):
            sparse.random_bcoo(xpr.random.key(0), (2, 2), nse=4)
        for name in ("coo", "csr", "csc"):
            with pytest.raises(ValueError, match=r"a matrix has two axes, and a shape \(3,\) has 1"):
                sparse.empty((3,), sparse_format=name)
        with pytest.raises(NotImplementedError, match="a matrix can only be transposed"):
            sparse.eye(2, sparse_format="coo").transpose((0, 1))
        with pytest.raises(NotImplementedError, match="is there for BCOO alone"):
            sparse.eye(2, sparse_format="csr") @ sparse.eye(2)
        with pytest.raises(NotImplementedError, match=r"not with an array of shape \(2, 1, 1\)"):
            sparse.eye(2, sparse_format="csr") @ jnp.ones((2, 1, 1))
        with pytest.raises(NotImplementedError, match="CSC has no __rmul__; BCOO arrays have: use"):
            2 * sparse.eye(2, sparse_format="csc")
        with pytest.raises(NotImplementedError, match="COO has no sum; BCOO arrays have: use"):
            sparse.eye(2, sparse_format="coo").sum()

    def test_functions(self, dense):
        m, batched = sparse.BCOO.fromdense(dense), sparse.BCOO.fromdense(dense, n_batch=1)
        with pytest.raises(sparse.SparseEfficiencyError, match="would store many zeros with 1 and 0"):
            m.update_layout(n_batch=1)
        with pytest.warns(sparse.SparseEfficiencyWarning, match="would store many zeros"):
            m.update_layout(n_dense=1, on_inefficient="warn")
        with pytest.raises(ValueError, match='on_inefficient is "error", "warn" or None'):
            m.update_layout(n_dense=1, on_inefficient="x")
        with pytest.raises(
            NotImplementedError, match="mixes batch, sparse and dense axes, of which there are 1, 1 and 0"
        ):
            batched.T  # noqa: B018
        for error in (TypeError, ValueError):
            with pytest.raises(error, match="is no permutation of the axes"):
                m.transpose((0, 0))
        with pytest.raises(
            TypeError, match="bcoo_extract: a BCOO array is needed, and the argument is of type ndarray"
        ):
            sparse.bcoo_extract(dense, dense)
        with pytest.raises(TypeError, match="bcoo_slice: a BCOO array is needed"):
            sparse.bcoo_slice(dense, start_indices=(0, 0), limit_indices=(1, 1))
        with pytest.raises(TypeError, match="bcoo_dynamic_slice: a BCOO array is needed"):
            sparse.bcoo_dynamic_slice(dense, (0, 0), (1, 1))
        with pytest.raises(ValueError, match="needs 2 of start_indices, limit_indices and strides, and has 1, 2 and 2"):
            sparse.bcoo_slice(m, start_indices=(0,), limit_indices=(1, 1))
        with pytest.raises(ValueError, match=r"can't be sliced from \(0, 3\) to \(4, 2\) by \(1, 1\)"):
            sparse.bcoo_slice(m, start_indices=(0, 3), limit_indices=(4, 2))
        with pytest.raises(xpr.errors.ConcretizationTypeError, match="fromdense: nse must be given where the array is"):
            xpr.jit(sparse.BCSR.fromdense)(dense)
        with pytest.raises(ValueError, match="bcoo_sum_duplicates: nse must be given where the array is traced"):
            xpr.jit(lambda m: m.sum_duplicates())(m)
        with pytest.raises(
            NotImplementedError, match="must be batch axes of the sparse arrays, of which there are 1 and 0"
        ):
            sparse.bcoo_dot_general(batched, m, dimension_numbers=(((1,), (1,)), ((0,), (0,))))
        with pytest.raises(ValueError, match="must have as many batch and dense axes, and have 0 and 0, 1 and 0"):
            sparse.bcoo_concatenate([m, batched], dimension=0)
        with pytest.raises(TypeError, match="all operands must be BCOO arrays, and are BCOO, ndarray"):
            sparse.bcoo_concatenate([m, dense], dimension=0)
        with pytest.raises(NotImplementedError, match="axis 1 is dense"):
            sparse.bcoo_concatenate([sparse.BCOO.fromdense(dense, n_dense=1)] * 2, dimension=1)
        with pytest.raises(ValueError, match="mixes batch, sparse and dense axes"):
            sparse.bcoo_broadcast_in_dim(batched, shape=(5, 4), broadcast_dimensions=(1, 0))
        with pytest.raises(ValueError, match="can't have shape"):
            sparse.bcoo_reshape(m, new_sizes=(3, 3))
        with pytest.raises(ValueError, match="don't all have size 1"):
            sparse.bcoo_squeeze(m, dimensions=(0,))
        with pytest.raises(ValueError, match="axis 2 is out of bounds"):
            sparse.bcoo_squeeze(sparse.eye(1), dimensions=(2,))
        with pytest.raises(ValueError, match="axis 2 is out of bounds"):
            sparse.bcoo_reduce_sum(m, axes=(2,))
        for transform in (sparse.grad, sparse.value_and_grad, sparse.jacfwd, sparse.jacrev):
            with pytest.raises(ValueError, match="argnums=1 is out of range for a function called with 1 positional"):
                transform(lambda x: x.sum(), argnums=1)(m)
        with pytest.raises(ValueError, match="arrays of one shape are needed"):
            sparse.bcoo_extract(m, dense.T)
        with pytest.raises(NotImplementedError, match="must have the shape of the sparse one"):
            sparse.bcoo_multiply_dense(m, jnp.ones((2, 4, 5)))
        with pytest.raises(TypeError, match="must have as many axes"):
            sparse.bcoo_multiply_sparse(m, m[0])
        with pytest.raises(NotImplementedError, match="must have as many dense axes, and have 0 and 1"):
            sparse.bcoo_multiply_sparse(m, sparse.BCOO.fromdense(dense, n_dense=1))
        with pytest.raises(NotImplementedError, match="differ in batch or dense axes"):
            m + batched
        with pytest.raises(NotImplementedError, match="two sparse arrays with dense axes"):
            m.T @ sparse.BCOO.fromdense(dense, n_dense=1)


class TestTestUtil:
    """sparse.test_util: random sparse arrays, and comparisons that pass what is right and fail what is not."""

    def test_random_arrays(self):
        rng = np.random.RandomState(0)
        x = test_util.rand_sparse(rng, nse=5, post=lambda x: 2 * x)((4, 5), "int32")
        assert isinstance(x, np.ndarray) and x.dtype == "int32" and np.count_nonzero(x) <= 5
        assert np.count_nonzero(test_util.rand_sparse(rng)((4, 5), "complex64", nse=0.25)) == 5
        m = test_util.rand_bcoo(rng, n_batch=1)((2, 3, 4), "float32", n_dense=1)
        assert (m.nse, m.n_batch, m.n_dense, m.unique_indices) == (2, 1, 1, False)
        ones = lambda rng: lambda shape, dtype: np.ones(shape, dtype)
        m = test_util.rand_bcsr(rng, ones, nse=7, n_batch=1)((2, 3, 4), "uint8")
        assert (m.nse, m.dtype) == (7, "uint8")
        assert np.all(m.data == 1) and np.all(m.indptr[:, 0] == 0) and np.all(np.diff(m.indptr) >= 0)

    def test_layouts(self):
        assert len(list(test_util.iter_sparse_layouts((2, 3), min_n_batch=1))) == 3
        for layout in test_util.iter_bcsr_layouts((2, 3, 4, 5)):
            assert (layout.n_sparse, layout.n_batch + layout.n_dense) == (2, 2)
        assert len(list(test_util.iter_subsets(range(4)))) == 16

    def test_errors(self):
        rng = np.random.RandomState(0)
        with pytest.raises(ValueError, match=r"no array of shape=\(2,\) has n_batch=1 and n_dense=1"):
            test_util.rand_bcoo(rng, n_batch=1, n_dense=1)((2,), "float32")
        with pytest.raises(ValueError, match="BCSR arrays have two sparse axes"):
            test_util.rand_bcsr(rng)((2, 3, 4), "float32")
        with pytest.raises(ValueError, match="modes are 'fwd' and 'rev', not"):
            self.case()._CheckGradsSparse(None, None, None, modes=["both"])

    def case(self):
        case = test_util.SparseTestCase("run")
        case.setUp()
        return case

    def test_random_numbers_are_those_of_the_name(self):
        assert self.case().rng().randint(1000) == self.case().rng().randint(1000)

    def test_comparisons_of_arrays(self):
        case = self.case()
        case.assertAllClose({"a": [jnp.ones(2), 1.0]}, {"a": (np.ones(2), np.float32(1))}, atol={np.float32: 1e-3})
        case.assertArraysEqual(jnp.ones(2, "bfloat16"), np.ones(2, "float32"), check_dtypes=False)
        for a, b in [
            ([1.0], [1.0, 2.0]),
            ({"a": 1}, {"b": 1}),
            (np.ones(2), np.ones((2, 1))),
            (1.0, 1.00001),
            (1, 1.0),
        ]:
            with pytest.raises(AssertionError):
                case.assertAllClose(a, b)
        with pytest.raises(AssertionError):
            case.assertArraysEqual(np.float32(1), np.nextafter(np.float32(1), np.float32(2)))
        with pytest.raises(UserWarning), case.assertNoWarnings():
            warnings.warn("told", stacklevel=1)

    def test_comparisons_with_dense_arrays(self):
        case = self.case()
        make = test_util.rand_bcoo(case.rng(), n_batch=1, n_dense=1)
        args = lambda: [make((2, 3, 4), np.float32), case.rng().rand(4).astype("float32")]
        product = lambda m, x: m @ x
        wrong = lambda m, x: (m @ x) * (1.001 if isinstance(m, sparse.BCOO) else 1)
        checks = [
            case._CheckAgainstDense,
            case._CheckGradsSparse,
            functools.partial(case._CheckBatchingSparse, bdims=(1, 0)),
        ]
        for check in checks:
            check(product, product, args, rtol=1e-4, atol=1e-4)
            with pytest.raises(AssertionError):
                check(product, wrong, args, rtol=1e-4, atol=1e-4)
        case._CheckBatchingSparse(product, product, args, bdims=(0, None), tol=1e-4)
        case._CheckBatchingSparse(abs, abs, lambda: args()[:1], tol=1e-4)
        case._CompileAndCheck(lambda m, x: 2 * m, args)
        case._CheckAgainstNumpy(np.sin, jnp.sin, lambda: [np.ones(3, "float32")])
        with pytest.raises(AssertionError):
            case.assertSparseArraysEquivalent(sparse.eye(2), sparse.eye(2, 3))


def test_arrays_of_symbolic_sizes():
    """As keras traces layers with inputs whose batch is of any size."""
    rows = xpr.export.symbolic_shape("rows", constraints=["rows >= 2"])[0]
    of_any_size = xpr.ShapeDtypeStruct((rows, 3), np.float32)

    def fun(x, weights):
        mat = sparse.BCOO.fromdense(x, nse=4)
        total = sparse.sparsify(jnp.add)(mat, 2 * mat).todense()
        return mat @ weights, total, mat.T.sum(0).todense(), sparse.sparsify(lambda m: m[::-1, 1:])(mat).todense()

    assert xpr.eval_shape(lambda x: sparse.BCOO.fromdense(x, nse=1), of_any_size).shape == (rows, 3)
    exported = xpr.export.export(xpr.jit(fun))(of_any_size, xpr.ShapeDtypeStruct((3, 2), np.float32))
    x, weights = np.zeros((5, 3), np.float32), some(3, 2, density=1)
    x[[0, 2, 4], [1, 2, 0]] = [1, 2, 3]
    for out, want in zip(exported.call(x, weights), (x @ weights, 3 * x, x.sum(1), x[::-1, 1:]), strict=True):
        close(out, want)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (1, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("nse", [None, 2, 5])
def test_summing_duplicates_keeps_batch_axes_of_size_1(sizes, nse):
    """So keras adds the indices of another array to those of one whose rows are all the same."""
    of_data, of_indices = sizes
    data = np.arange(4 * of_data, dtype=np.float32).reshape(of_data, 4)
    indices = np.broadcast_to([[[2], [0], [2], [3]]], (of_indices, 4, 1))
    mat = sparse.BCOO((data, indices), shape=(2, 3))
    summed = sparse.bcoo_sum_duplicates(mat, nse)
    assert summed.data.shape == (max(sizes), nse or 2) and summed.indices.shape == (of_indices, nse or 2, 1)
    close(summed.todense(), mat.todense())
