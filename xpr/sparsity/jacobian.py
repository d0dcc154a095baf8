"""Sparse Jacobians: the nonzero elements are determined from the jaxpr, and computed by a few products.

Columns that share no row are added up, so that one product with the Jacobian has the elements of all of them. A
tridiagonal Jacobian takes three products, whatever its size. Where rows share less than columns do, products are
with the transpose instead.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.api.grad import grad, vjp
from xpr.api.make_jaxpr import trace_function
from xpr.backend.array import from_host
from xpr.control.groups import split_list
from xpr.control.xla_call import call
from xpr.core.avals import ShapedArray, Zero, aval_of
from xpr.core.interpreter import Tracer
from xpr.core.jaxpr import Jaxpr, constvars_to_invars, eval_jaxpr
from xpr.core.source import check_function, describe_function
from xpr.numpy.creation import zeros
from xpr.numpy.indexing.take import take
from xpr.primitives.elementwise import convert_element_type, eq
from xpr.primitives.shapes import broadcast_in_dim, instantiate, mapped_to, reshape
from xpr.primitives.slicing import broadcasted_iota
from xpr.sparsity.colouring import colours
from xpr.sparsity.index_sets import IndexSets, empty, from_pairs, identity
from xpr.sparsity.propagation import Dependence, concrete, propagate
from xpr.transforms.batch import batch_flat
from xpr.transforms.boundary import boundary
from xpr.transforms.flat import LEAF, distinct_positions, named_like
from xpr.transforms.jvp import push_forward
from xpr.transforms.stage import stage
from xpr.tree_nodes import register_pytree_node


class _Coordinates:
    """Rows and columns of elements, with equality by value."""

    __slots__ = ("cols", "rows")

    def __init__(self, rows: np.ndarray, cols: np.ndarray):
        self.rows, self.cols = rows, cols

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, _Coordinates)
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.cols, other.cols)
        )

    def __hash__(self) -> int:
        return hash((self.rows.tobytes(), self.cols.tobytes()))


class SparseMatrix:
    """A matrix as the list of its elements: `data[k]` is at row `rows[k]` and column `cols[k]`, all others are 0.

    It is a pytree with the array `data` as its leaf, so transformed functions may return it.

    Attributes:
      data: the elements, an array.
      coords: `(rows, cols)`, NumPy arrays in the order of rows, then columns.
      shape: of the matrix.
      colours: how many products computed it.
    """

    __slots__ = ("_coordinates", "colours", "data", "shape")

    def __init__(self, data: Any, coordinates: _Coordinates, shape: tuple[int, int], colours: int):
        self.data, self._coordinates, self.shape, self.colours = data, coordinates, shape, colours

    @property
    def coords(self) -> tuple[np.ndarray, np.ndarray]:
        return self._coordinates.rows, self._coordinates.cols

    @property
    def nnz(self) -> int:
        """The number of listed elements."""
        return len(self._coordinates.rows)

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    def to_scipy(self) -> Any:
        """The matrix as a `scipy.sparse.coo_array`."""
        return importlib.import_module("scipy.sparse").coo_array((np.asarray(self.data), self.coords), self.shape)

    def todense(self) -> Any:
        """The matrix as an array."""
        return zeros(self.shape, self.data.dtype).at[self.coords].set(self.data)

    def __repr__(self) -> str:
        return f"SparseMatrix(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype}, colours={self.colours})"


register_pytree_node(
    SparseMatrix,
    lambda m: ((m.data,), (m._coordinates, m.shape, m.colours)),
    lambda aux, children: SparseMatrix(children[0], *aux),
)


def sparse_jacobian(fun: Callable[..., Any], argnums: int = 0) -> Callable[..., SparseMatrix]:
    """The Jacobian of a function as a sparse matrix, in a few products however large it is.

    The elements that may differ from zero come from propagating sets of elements through the program of `fun`; the plan
    for a program (shapes, dtypes, constant indices) is cached between calls.

    Args:
      fun: a function of arrays to an array of floats.
      argnums: the argument to differentiate by, an array of floats.

    Returns:
      A function of the same arguments that returns a `SparseMatrix` with a row for each element of the result, and a
      column for each element of the argument, both in row-major order.

    Raises:
      TypeError: the argument or the result is no array of floats.
      ValueError: `argnums` names several arguments, or one that is not there.
      MemoryError: a loop of unknown length makes the matrix dense, and too large.

    >>> import xpr, xpr.numpy as jnp
    >>> J = xpr.sparse_jacobian(lambda x: x[1:] ** 2 - x[:-1])(jnp.arange(4.0))
    >>> J
    SparseMatrix(shape=(3, 4), nnz=6, dtype=float32, colours=2)
    >>> J.todense()
    Array([[-1.,  2.,  0.,  0.],
           [ 0., -1.,  4.,  0.],
           [ 0.,  0., -1.,  6.]], dtype=float32)
    """
    check_function(fun, "sparse_jacobian")
    return named_like(boundary(_SparseJacobian(fun, argnums, "sparse_jacobian")), fun)


def sparse_hessian(fun: Callable[..., Any], argnums: int = 0) -> Callable[..., SparseMatrix]:
    """The Hessian of a function with a scalar result as a sparse matrix: the sparse Jacobian of its gradient.

    Args:
      fun: a function of arrays to a scalar.
      argnums: the argument to differentiate by, an array of floats.

    Returns:
      A function of the same arguments that returns a `SparseMatrix` with a row and a column for each element of the
      argument.

    Raises:
      TypeError: the argument is no array of floats, or the result is no scalar.
      ValueError: `argnums` names several arguments, or one that is not there.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.sparse_hessian(lambda x: jnp.sum(x[1:] * x[:-1] ** 2))(jnp.ones(1000))
    SparseMatrix(shape=(1000, 1000), nnz=2997, dtype=float32, colours=3)
    """
    check_function(fun, "sparse_hessian")
    return named_like(boundary(_SparseJacobian(grad(fun, argnums), argnums, "sparse_hessian")), fun)


class _JacobianPlan:
    """The nonzero elements of the Jacobian of a program, and a program that computes them, compiled once."""

    __slots__ = ("closed", "colours", "count", "elements", "out_aval", "argument", "coordinates", "shape")

    def __init__(self, jaxpr: Jaxpr, argument: int, sets: IndexSets):
        rows, cols = sets.rows(), sets.indices
        self.argument, self.coordinates, self.shape = argument, _Coordinates(rows, cols), (sets.count, sets.width)
        transposed = from_pairs(cols, rows, sets.width, sets.count)
        by_columns = sets.sizes.max(initial=0) <= transposed.sizes.max(initial=0)
        self.colours = colours(sets if by_columns else transposed)
        self.count = int(self.colours.max(initial=-1)) + 1 if len(cols) else 0
        summed, other = (cols, rows) if by_columns else (rows, cols)
        self.elements = self.colours[summed] * self.shape[0 if by_columns else 1] + other
        self.out_aval: ShapedArray = jaxpr.outvars[0].aval
        product = self.columns if by_columns else self.rows
        tables = [_integers(self.colours), _integers(self.elements)]

        def run(groups: Any, elements: Any, *operands: Any) -> list[Any]:
            numbers = broadcasted_iota(dtypes.int32, (self.count, len(self.colours)), 0)
            same = eq(numbers, broadcast_in_dim(groups, (self.count, len(self.colours)), (1,)))
            compressed = product(jaxpr, operands, convert_element_type(same, self.out_aval.dtype))
            return [take(_flat(compressed), elements)]

        self.closed = stage(run, [*map(aval_of, tables), *jaxpr.in_avals]) if self.count else None

    def columns(self, jaxpr: Jaxpr, operands: Sequence[Any], seeds: Any) -> Any:
        """Products of the Jacobian with the rows of `seeds`."""
        x = aval_of(operands[self.argument])

        def pushforward(seed: Any) -> list[Any]:
            tangents: list[Any] = [Zero.from_primal_value(v) for v in operands]
            tangents[self.argument] = convert_element_type(reshape(seed, x.shape), x.dtype, x.weak_type)
            return [instantiate(push_forward(lambda *xs: eval_jaxpr(jaxpr, (), *xs), operands, tangents)[1][0])]

        return self.mapped(pushforward, seeds)

    def rows(self, jaxpr: Jaxpr, operands: Sequence[Any], seeds: Any) -> Any:
        """Products of the transposed Jacobian with the rows of `seeds`."""

        before, _, after = split_list(operands, self.argument, 1)

        def one(x: Any) -> Any:
            return eval_jaxpr(jaxpr, (), *before, x, *after)[0]

        _, pull = vjp(one, operands[self.argument])
        out = self.out_aval
        return self.mapped(lambda ct: list(pull(convert_element_type(reshape(ct, out.shape), out.dtype))), seeds)

    def mapped(self, product: Callable[[Any], list[Any]], seeds: Any) -> Any:
        (products,), (dim,) = batch_flat(product, self.count, [seeds], [0])
        return mapped_to(products, dim, self.count)

    def __call__(self, operands: Sequence[Any]) -> SparseMatrix:
        if self.closed is None:
            data = from_host(np.zeros(0, self.out_aval.dtype))
        else:
            tables = [_integers(self.colours), _integers(self.elements)]
            (data,) = call(self.closed, [*tables, *operands], "sparse_jacobian")
        return SparseMatrix(data, self.coordinates, self.shape, self.count)


def _integers(x: np.ndarray) -> Any:
    return from_host(x.astype(np.int32))


def _flat(x: Any) -> Any:
    return reshape(x, (aval_of(x).size,))


class _SparseJacobian:
    """Called with the arguments of the function; remembers a plan for each of their types."""

    def __init__(self, fun: Callable[..., Any], argnums: int, what: str):
        self.fun, self.argnums, self.what = fun, argnums, what
        self.plans: dict[Any, tuple[list[Any], _JacobianPlan]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> SparseMatrix:
        numbers = distinct_positions(self.argnums, len(args), "argnums")
        if len(numbers) != 1:
            raise ValueError(f"{self.what}: it is by one argument, and argnums={self.argnums!r} names {len(numbers)}.")
        (position,) = numbers
        self.check(tree.structure(args[position]) == LEAF, f"argument {position} of", args[position])
        leaves, in_tree = tree.flatten((args, kwargs))
        key = (in_tree, *map(aval_of, leaves))
        if key in self.plans:
            consts, plan = self.plans[key]
        else:
            consts, plan = self.plan(args, kwargs, len(tree.leaves(args[:position])), leaves)
            if not any(isinstance(c, Tracer) for c in consts):
                self.plans[key] = consts, plan
        return plan([*consts, *leaves])

    def plan(self, args: Any, kwargs: Any, at: int, leaves: Sequence[Any]) -> tuple[list[Any], _JacobianPlan]:
        closed, out_tree = trace_function(self.fun, args, kwargs, f"traced by {self.what}")
        self.check(out_tree == LEAF, "the result of", closed.out_avals[0] if closed.out_avals else None)
        jaxpr, n = constvars_to_invars(closed), len(closed.consts)
        known = [concrete(c, aval_of(c)) for c in closed.consts]
        known += [Dependence(aval_of(x), identity(aval_of(x).size) if i == at else None) for i, x in enumerate(leaves)]
        (result,) = propagate(jaxpr, known)
        width, count = aval_of(leaves[at]).size, result.aval.size
        return closed.consts, _JacobianPlan(jaxpr, n + at, result.sets or empty(count, width))

    def check(self, is_array: bool, what: str, x: Any) -> None:
        aval = (x if isinstance(x, ShapedArray) else aval_of(x)) if is_array else None
        if aval is None or aval.dtype not in dtypes.FLOATS:
            kind = "a pytree" if aval is None else aval.str_short()
            name = describe_function(self.fun)
            raise TypeError(f"{self.what}: {what} {name} must be an array of floats, and is {kind}.")
