"""For tests of functions of sparse arrays: random sparse arrays, their layouts, and comparisons with dense arrays."""

from __future__ import annotations

import itertools
import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xpr import dtypes, lax, tree
from xpr import numpy as jnp
from xpr.api.jacobians import jacfwd, jacrev
from xpr.api.jit import jit
from xpr.api.vmap import vmap
from xpr.experimental.sparse.api import todense
from xpr.experimental.sparse.base import JAXSparse
from xpr.experimental.sparse.bcsr import BCSR
from xpr.experimental.sparse.coordinates import BCOO, split_shape
from xpr.experimental.sparse.products import DimensionNumbers
from xpr.experimental.sparse.transform import sparsify

try:  # its tests may have parameters
    from absl.testing.parameterized import TestCase
except ImportError:
    from unittest import TestCase  # type: ignore[assignment]

__all__ = [
    "BatchedDotGeneralProperties", "MATMUL_TOL", "SparseLayout", "SparseTestCase", "is_sparse", "iter_bcsr_layouts",
    "iter_sparse_layouts", "iter_subsets", "rand_bcoo", "rand_bcsr", "rand_sparse",
]  # fmt: skip

Tolerance = float | Mapping[Any, float] | None
Sampler = Callable[..., Any]  # of a shape and a dtype

MATMUL_TOL = {np.float32: 1e-5, np.float64: 1e-10, np.complex64: 1e-5, np.complex128: 1e-10}


class BatchedDotGeneralProperties(NamedTuple):
    """A contraction of a sparse array with a dense one: their shapes, the layout of the former, and the axes."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    n_batch: int
    n_dense: int
    dimension_numbers: DimensionNumbers


class SparseLayout(NamedTuple):
    """The numbers of batch, dense and sparse axes of an array."""

    n_batch: int
    n_dense: int
    n_sparse: int


def is_sparse(x: Any) -> bool:
    """Whether a value is a sparse array, of any format.

    >>> from xpr.experimental import sparse
    >>> from xpr.experimental.sparse.test_util import is_sparse
    >>> is_sparse(sparse.eye(2))
    True
    """
    return isinstance(x, JAXSparse)


# -- Layouts


def iter_subsets(s: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """All subsets of a sequence, the smallest first.

    >>> from xpr.experimental.sparse.test_util import iter_subsets
    >>> list(iter_subsets("ab"))
    [(), ('a',), ('b',), ('a', 'b')]
    """
    return itertools.chain.from_iterable(itertools.combinations(s, n) for n in range(len(s) + 1))


def iter_sparse_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """All layouts of BCOO arrays of a shape.

    Args:
      shape: of the arrays.
      min_n_batch: the least number of batch axes.

    Returns:
      An iterator of `SparseLayout`.

    >>> from xpr.experimental.sparse.test_util import iter_sparse_layouts
    >>> [(layout.n_batch, layout.n_dense) for layout in iter_sparse_layouts((3,))]
    [(0, 0), (0, 1), (1, 0)]
    """
    for n_batch in range(min_n_batch, len(shape) + 1):
        for n_dense in range(len(shape) + 1 - n_batch):
            yield SparseLayout(n_batch, n_dense, len(shape) - n_batch - n_dense)


def iter_bcsr_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """All layouts of BCSR arrays of a shape, which have two sparse axes.

    Args:
      shape: of the arrays.
      min_n_batch: the least number of batch axes.

    Returns:
      An iterator of `SparseLayout`.

    >>> from xpr.experimental.sparse.test_util import iter_bcsr_layouts
    >>> [(layout.n_batch, layout.n_dense) for layout in iter_bcsr_layouts((3, 4, 5))]
    [(0, 1), (1, 0)]
    """
    return (layout for layout in iter_sparse_layouts(shape, min_n_batch) if layout.n_sparse == 2)


# -- Random arrays


def _normal(rng: np.random.RandomState) -> Sampler:
    """Normal numbers of mean 0 and standard deviation 3, cast to a dtype."""

    def sample(shape: Sequence[int], dtype: Any) -> Any:
        values = 3 * rng.standard_normal(tuple(shape))
        if np.dtype(dtype).kind == "c":
            values = values + 3j * rng.standard_normal(tuple(shape))
        return np.asarray(abs(values) if np.dtype(dtype).kind == "u" else values).astype(dtype)

    return sample


def rand_sparse(
    rng: np.random.RandomState,
    nse: float = 0.5,
    post: Callable[[Any], Any] = lambda x: x,
    rand_method: Callable[[np.random.RandomState], Sampler] = _normal,
) -> Sampler:
    """A function that makes random dense arrays of which many elements are zero.

    Args:
      rng: NumPy's random numbers.
      nse: how many elements are not set to zero, or their fraction, where it is less than 1.
      post: a function of the array, whose result is returned.
      rand_method: `rand_method(rng)(shape, dtype)` makes an array of random elements.

    Returns:
      A function of a shape, a dtype and optionally `nse`.

    >>> import numpy as np
    >>> from xpr.experimental.sparse.test_util import rand_sparse
    >>> int(np.count_nonzero(rand_sparse(np.random.RandomState(0), nse=0.25)((4, 5), "float32")))
    5
    """

    def sample(shape: Sequence[int], dtype: Any, nse: float = nse) -> Any:
        size = math.prod(shape)
        count = min(size, int(nse * size if 0 <= nse < 1 else nse))
        values = np.array(rand_method(rng)(shape, dtype))
        values.flat[rng.choice(size, size - count, replace=False)] = 0
        return post(values)

    return sample


def rand_bcoo(
    rng: np.random.RandomState,
    rand_method: Callable[[np.random.RandomState], Sampler] = _normal,
    nse: float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Sampler:
    """A function that makes random BCOO arrays, in which indices may occur twice and are not sorted.

    Args:
      rng: NumPy's random numbers.
      rand_method: `rand_method(rng)(shape, dtype)` makes an array of random elements.
      nse: the number of stored elements, or their fraction of all in the sparse axes, where it is less than 1.
      n_batch: how many of the first axes are batch axes.
      n_dense: how many of the last axes are dense.

    Returns:
      A function of a shape and a dtype, and optionally of `nse`, `n_batch` and `n_dense`. It raises a ValueError where
      arrays of the shape have no such layout.

    >>> import numpy as np
    >>> from xpr.experimental.sparse.test_util import rand_bcoo
    >>> rand_bcoo(np.random.RandomState(0), n_batch=1)((2, 3, 4), "float32")
    BCOO(float32[2, 3, 4], nse=6, n_batch=1)
    """

    def sample(
        shape: Sequence[int], dtype: Any, *, nse: float = nse, n_batch: int = n_batch, n_dense: int = n_dense
    ) -> BCOO:
        batch, sparse, dense = _groups(shape, n_batch, n_dense)
        count = _count(nse, sparse)
        data = jnp.asarray(rand_method(rng)((*batch, count, *dense), dtype))
        indices = rng.randint(0, sparse, (*batch, count, len(sparse)), "int32")
        return BCOO((data, indices), shape=shape)

    return sample


def rand_bcsr(
    rng: np.random.RandomState,
    rand_method: Callable[[np.random.RandomState], Sampler] = _normal,
    nse: float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Sampler:
    """A function that makes random BCSR arrays, in which indices may occur twice and are not sorted in a row.

    Args:
      rng: NumPy's random numbers.
      rand_method: `rand_method(rng)(shape, dtype)` makes an array of random elements.
      nse: the number of stored elements, or their fraction of all in the sparse axes, where it is less than 1. The
        rows may end before the last ones, which are padding.
      n_batch: how many of the first axes are batch axes.
      n_dense: how many of the last axes are dense.

    Returns:
      A function of a shape and a dtype, and optionally of `nse`, `n_batch` and `n_dense`. It raises a ValueError where
      arrays of the shape have no such layout.

    >>> import numpy as np
    >>> from xpr.experimental.sparse.test_util import rand_bcsr
    >>> rand_bcsr(np.random.RandomState(0))((3, 4), "float32")
    BCSR(float32[3, 4], nse=6)
    """

    def sample(
        shape: Sequence[int], dtype: Any, *, nse: float = nse, n_batch: int = n_batch, n_dense: int = n_dense
    ) -> BCSR:
        batch, sparse, dense = _groups(shape, n_batch, n_dense)
        if len(sparse) != 2:
            raise ValueError(f"rand_bcsr: BCSR arrays have two sparse axes, and {shape=}, {n_batch=}, {n_dense=}.")
        count = _count(nse, sparse)
        data = jnp.asarray(rand_method(rng)((*batch, count, *dense), dtype))
        indices = rng.randint(0, sparse[1], (*batch, count), "int32")
        indptr = np.sort(rng.randint(0, count + 1, (*batch, sparse[0] + 1), "int32"), -1)
        indptr[..., 0] = 0
        return BCSR((data, indices, indptr), shape=shape)

    return sample


def _groups(shape: Sequence[int], n_batch: int, n_dense: int) -> tuple[Any, Any, Any]:
    """The batch, sparse and dense sizes."""
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"no array of {shape=} has {n_batch=} and {n_dense=}.")
    return split_shape(shape, n_batch, n_sparse)


def _count(nse: float, sparse: Sequence[int]) -> int:
    return math.ceil(nse * math.prod(sparse)) if 0 <= nse < 1 else int(nse)


# -- Comparisons


def _dtype(x: Any, canonicalize: bool = True) -> np.dtype[Any]:
    dtype = np.asarray(x).dtype
    return dtypes.canonicalize_dtype(dtype) if canonicalize else dtype


def _tolerance(given: Tolerance, dtype: np.dtype[Any]) -> float:
    """What is allowed of a dtype: what is given, by itself or for the dtype, else a few of its last digits."""
    if given is not None and not isinstance(given, Mapping):
        return given
    by_dtype = {np.dtype(key): value for key, value in (given or {}).items()}
    usual = 8 * float(dtypes.finfo(dtype).eps) if dtypes.issubdtype(dtype, np.inexact) else 0.0
    return by_dtype.get(dtype, usual)


def _wide(x: Any) -> np.ndarray:
    """The array, in a dtype that NumPy compares."""
    array = np.asarray(x)
    return (
        array.astype(np.float32) if array.dtype.kind == "V" and dtypes.issubdtype(array.dtype, np.floating) else array
    )


def _to_dense(values: Any) -> Any:
    return tree.map(todense, values, is_leaf=is_sparse)


class SparseTestCase(TestCase):
    """A test case with comparisons of functions of sparse arrays with those of dense ones.

    It is an `absl.testing.parameterized.TestCase` where absl is installed, else a `unittest.TestCase`. Tolerances are
    numbers, dicts of numbers by dtype, or None for a few of the last digits.

    >>> import numpy as np
    >>> from xpr.experimental.sparse.test_util import SparseTestCase, rand_bcoo
    >>> class TestSums(SparseTestCase):
    ...     def test_sum(self):
    ...         args = lambda: [rand_bcoo(self.rng())((3, 4), np.float32)]
    ...         self._CheckAgainstDense(lambda x: x.sum(0), lambda x: x.sum(0), args, tol=1e-5)
    >>> TestSums("test_sum").debug()
    """

    def setUp(self) -> None:
        super().setUp()
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))

    def rng(self) -> np.random.RandomState:
        """NumPy's random numbers, with a seed of the test's name."""
        return self._rng

    def assertNoWarnings(self) -> AbstractContextManager[None]:
        """A context in which warnings are errors."""

        @contextmanager
        def strict() -> Iterator[None]:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                yield

        return strict()

    def assertDtypesMatch(self, actual: Any, desired: Any, *, canonicalize_dtypes: bool = True) -> None:
        """Checks that values have one dtype; 64-bit types count as 32-bit ones unless they are enabled, or told."""
        self.assertEqual(_dtype(actual, canonicalize_dtypes), _dtype(desired, canonicalize_dtypes))

    def assertArraysEqual(self, actual: Any, desired: Any, *, check_dtypes: bool = True, err_msg: str = "") -> None:
        """Checks that arrays have the same shape, elements and dtype."""
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)
        np.testing.assert_array_equal(_wide(actual), _wide(desired), err_msg)

    def assertArraysAllClose(
        self, actual: Any, desired: Any, *, check_dtypes: bool = True, atol: Tolerance = None, rtol: Tolerance = None,
        err_msg: str = "",
    ) -> None:  # fmt: skip
        """Checks that arrays have the same shape and dtype, and elements that are close."""
        self.assertEqual(np.shape(actual), np.shape(desired))
        both = [_dtype(actual), _dtype(desired)]
        relative, absolute = (max(_tolerance(tol, dtype) for dtype in both) for tol in (rtol, atol))
        np.testing.assert_allclose(_wide(actual), _wide(desired), relative, absolute, err_msg=err_msg)
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)

    def assertAllClose(
        self, actual: Any, desired: Any, *, check_dtypes: bool = True, atol: Tolerance = None, rtol: Tolerance = None,
        canonicalize_dtypes: bool = True, err_msg: str = "",
    ) -> None:  # fmt: skip
        """Checks that arrays, or those in dicts and sequences, have the same shape and dtype, and are close."""
        again = partial(
            self.assertAllClose, check_dtypes=check_dtypes, atol=atol, rtol=rtol,
            canonicalize_dtypes=canonicalize_dtypes, err_msg=err_msg,
        )  # fmt: skip
        if isinstance(actual, dict):
            self.assertEqual(set(actual), set(desired))
            for key, value in actual.items():
                again(value, desired[key])
        elif isinstance(actual, (list, tuple)):
            self.assertEqual(len(actual), len(desired))
            for a, d in zip(actual, desired):
                again(a, d)
        else:
            if check_dtypes:
                self.assertDtypesMatch(actual, desired, canonicalize_dtypes=canonicalize_dtypes)
            self.assertArraysAllClose(actual, desired, check_dtypes=False, atol=atol, rtol=rtol, err_msg=err_msg)

    def assertSparseArraysEquivalent(
        self, x: Any, y: Any, *, check_dtypes: bool = True, atol: Tolerance = None, rtol: Tolerance = None,
        canonicalize_dtypes: bool = True, err_msg: str = "",
    ) -> None:  # fmt: skip
        """Checks that sparse arrays have the same format and layout, and stored elements and indices that are close."""
        (x_arrays, x_structure), (y_arrays, y_structure) = tree.flatten(x), tree.flatten(y)
        self.assertEqual(x_structure, y_structure)
        self.assertAllClose(
            x_arrays, y_arrays, check_dtypes=check_dtypes, atol=atol, rtol=rtol,
            canonicalize_dtypes=canonicalize_dtypes, err_msg=err_msg,
        )  # fmt: skip

    # The names of what follows are those of JAX's class, whose tests call them.

    def _CheckAgainstNumpy(
        self, numpy_reference_op: Any, lax_op: Any, args_maker: Callable[[], Sequence[Any]], check_dtypes: bool = True,
        tol: Tolerance = None, atol: Tolerance = None, rtol: Tolerance = None, canonicalize_dtypes: bool = True,
    ) -> None:  # fmt: skip
        """Checks that two functions give the same of the same arguments."""
        args = args_maker()
        self.assertAllClose(
            lax_op(*args), numpy_reference_op(*args), check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol,
            canonicalize_dtypes=canonicalize_dtypes,
        )  # fmt: skip

    def _CompileAndCheck(
        self, fun: Callable[..., Any], args_maker: Callable[[], Sequence[Any]], *, check_dtypes: bool = True,
        tol: Tolerance = None, rtol: Tolerance = None, atol: Tolerance = None,
    ) -> None:  # fmt: skip
        """Checks that `jit` of a function gives what the function gives."""
        args = args_maker()
        self.assertSparseArraysEquivalent(
            jit(fun)(*args), fun(*args), check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol
        )

    def _CheckAgainstDense(
        self, dense_op: Callable[..., Any], sparse_op: Callable[..., Any], args_maker: Callable[[], Sequence[Any]],
        check_jit: bool = True, check_dtypes: bool = True, tol: Tolerance = None, atol: Tolerance = None,
        rtol: Tolerance = None, canonicalize_dtypes: bool = True,
    ) -> None:  # fmt: skip
        """Checks a function of sparse arrays, and `jit` of it, against a function of the dense ones."""
        args = args_maker()
        result = sparse_op(*args)
        tolerances: dict[str, Any] = {"atol": atol or tol, "rtol": rtol or tol}
        self.assertAllClose(
            dense_op(*_to_dense(args)), _to_dense(result), check_dtypes=check_dtypes,
            canonicalize_dtypes=canonicalize_dtypes, **tolerances,
        )  # fmt: skip
        if check_jit:
            self.assertSparseArraysEquivalent(result, jit(sparse_op)(*args), **tolerances)

    def _CheckGradsSparse(
        self, dense_fun: Callable[..., Any], sparse_fun: Callable[..., Any], args_maker: Callable[[], Sequence[Any]],
        *, argnums: Sequence[int] | None = None, modes: Sequence[str] = ("fwd", "rev"), atol: Tolerance = None,
        rtol: Tolerance = None,
    ) -> None:  # fmt: skip
        """Checks Jacobians in the stored elements against those of a function of dense arrays.

        `argnums` are the arguments to differentiate in, None for all; `modes` are "fwd" for `jacfwd` and "rev" for
        `jacrev`.
        """
        if not set(modes) <= {"fwd", "rev"}:
            raise ValueError(f"_CheckGradsSparse: modes are 'fwd' and 'rev', not {modes}.")
        args = args_maker()
        arrays, structure = tree.flatten(args)
        starts = np.cumsum([0, *[len(tree.leaves(arg)) for arg in args]])  # of each argument, its first array: the data
        numbers = [int(starts[n]) for n in (range(len(args)) if argnums is None else argnums)]

        def of_dense(*arrays: Any) -> Any:
            return dense_fun(*_to_dense(tree.unflatten(structure, arrays)))

        def of_sparse(*arrays: Any) -> Any:
            return _to_dense(sparse_fun(*tree.unflatten(structure, arrays)))

        for mode, transform in (("rev", jacrev), ("fwd", jacfwd)):
            if mode in modes:
                expected, found = (transform(f, argnums=numbers)(*arrays) for f in (of_dense, of_sparse))
                self.assertAllClose(expected, found, atol=atol, rtol=rtol)

    def _random_bdims(self, *args: int) -> list[int]:
        """For each number of axes, a random position of a further one."""
        return [int(self.rng().randint(0, arg + 1)) for arg in args]

    def _CheckBatchingSparse(
        self, dense_fun: Callable[..., Any], sparse_fun: Callable[..., Any], args_maker: Callable[[], Sequence[Any]],
        *, batch_size: int = 3, bdims: Sequence[int | None] | None = None, check_jit: bool = False,
        check_dtypes: bool = True, tol: Tolerance = None, atol: Tolerance = None, rtol: Tolerance = None,
        canonicalize_dtypes: bool = True,
    ) -> None:  # fmt: skip
        """Checks `vmap` of a function of sparse arrays against that of a function of dense ones.

        `bdims` are the mapped axes, which are batch axes of sparse arguments; None for random ones.
        """
        if bdims is None:
            bdims = self._random_bdims(*[arg.n_batch if is_sparse(arg) else np.ndim(arg) for arg in args_maker()])

        def stacked(arrays: Sequence[Any], axis: int) -> Any:
            expand = sparsify(lambda x: lax.expand_dims(x, [axis]))
            return sparsify(lambda arrays: lax.concatenate(arrays, axis))([expand(x) for x in arrays])

        def batched_args() -> list[Any]:
            columns = zip(*[args_maker() for _ in range(batch_size)])
            return [xs[0] if axis is None else stacked(xs, axis) for xs, axis in zip(columns, bdims)]

        in_axes = tuple(bdims)
        self._CheckAgainstDense(
            vmap(dense_fun, in_axes), vmap(sparse_fun, in_axes), batched_args, check_jit=check_jit,
            check_dtypes=check_dtypes, tol=tol, atol=atol, rtol=rtol, canonicalize_dtypes=canonicalize_dtypes,
        )  # fmt: skip
