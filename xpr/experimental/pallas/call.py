"""pallas_call: a kernel that is run for each index of a grid, on blocks of arrays.

The kernel is traced once, to a jaxpr on refs. The call is a loop over the grid, in row-major order:

    for i, j in grid:
        refs = blocks of the arguments, blocks of the results, scratch
        kernel(*refs)
        the blocks that were written are put back

That loop is a scan, or a while loop where the grid is not known while tracing, under a `jit`. It carries the results,
the scratch, and those arguments that the kernel writes. So every transformation of loops is one of kernels, reverse
mode too, and there is no primitive for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpr import dtypes, tree
from xpr.api.jit import jit
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray, aval_of, describe
from xpr.core.interpreter import context
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.refs import AbstractRef, Ref
from xpr.core.source import check_function, describe_function, function_name
from xpr.dimensions.expressions import is_symbolic_dim
from xpr.experimental.pallas.blocks import Blocks, unwritten_of, varying_as_type
from xpr.experimental.pallas.grids import GridSpec, RunningGrid
from xpr.experimental.pallas.loops import Loops
from xpr.experimental.pallas.specs import BlockSpec, no_block_spec
from xpr.numpy.promotion import as_operand
from xpr.primitives.dimension_values import size_as
from xpr.primitives.elementwise import convert_element_type
from xpr.transforms.boundary import boundary
from xpr.transforms.stage import Signature, StageTrace, stage
from xpr.tree_differences import difference_lines, mismatch_message

__all__ = ["pallas_call"]

_INDEX = ShapedArray((), np.dtype(np.int32))


@boundary
def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] | None = None,
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    metadata: dict[str, str] | None = None,
) -> Callable[..., Any]:
    """A function that runs a kernel for each index of a grid, on blocks of its arguments and results.

    The programs of the grid run one after the other, the last axis fastest, compiled by XLA on every platform. Later
    programs read what earlier ones wrote to results and scratch. All transformations apply.

    Args:
      kernel: a function of refs, of each argument, of each result, of scratch. It reads and writes them (`ref[...]`)
        and returns None. Arrays from outside are arguments; it may close over refs.
      out_shape: a pytree of the types of the results, anything with a shape and a dtype. The refs of a tuple or list
        are arguments of the kernel by themselves.
      grid_spec: a `GridSpec`, instead of the next four.
      grid: the size of each axis, as for `GridSpec`; () for one program.
      in_specs: a tuple or list with a pytree of `BlockSpec`s for each argument; whole arrays by default.
      out_specs: a pytree of `BlockSpec`s with the structure of the results; whole arrays by default.
      scratch_shapes: types of refs that the kernel uses besides them (`pl.ANY(shape, dtype)`), which keep their
        values from program to program. A tuple or list, or a dict, whose refs are keyword arguments.
      input_output_aliases: for numbers of arguments, counted over their leaves, the number of the result that starts
        with its value.
      debug: whether to print the kernel's jaxpr.
      interpret: a hint, which changes nothing.
      name: the name of the call; None for the kernel's.
      compiler_params: a hint, which changes nothing.
      cost_estimate: a hint, which changes nothing.
      metadata: a hint, which changes nothing.

    Returns:
      A function of positional pytrees of arrays. It returns arrays of the types of `out_shape`, a tuple for a list.
      Elements that no program writes are nan, of integers the least number.

    Raises:
      ValueError: specs don't fit the arguments or results, index maps give other than an integer for each axis, the
        kernel returns something or uses an array from outside, or aliases have different types.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.experimental import pallas as pl
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = 2 * x_ref[...]
    >>> block = pl.BlockSpec((4,), lambda i: (i,))
    >>> f = pl.pallas_call(double, xpr.ShapeDtypeStruct((8,), "float32"), grid=2, in_specs=[block], out_specs=block)
    >>> f(jnp.arange(8.0))
    Array([ 0.,  2.,  4.,  6.,  8., 10., 12., 14.], dtype=float32)
    >>> xpr.grad(lambda x: f(x).sum())(jnp.ones(8))
    Array([2., 2., 2., 2., 2., 2., 2., 2.], dtype=float32)
    """
    check_function(kernel, "pallas_call")
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    else:
        parts = {"grid": grid, "in_specs": in_specs, "out_specs": out_specs, "scratch_shapes": scratch_shapes}
        for name_of_part, part in parts.items():
            if part is not no_block_spec and not (isinstance(part, (tuple, list, dict)) and not part):
                raise ValueError(
                    f"pallas_call: `{name_of_part}` is part of `grid_spec`, and is given beside it: {part!r}."
                )
    called = _Call(kernel, out_shape, grid_spec, dict(input_output_aliases or {}), debug, name)
    bounds = [size for size in grid_spec.grid if not _is_static(size)]

    def run(*args: Any) -> Any:
        computed, args = args[: len(bounds)], args[len(bounds) :]
        return called(computed, args)

    run.__name__ = run.__qualname__ = called.name
    run.__doc__ = kernel.__doc__
    compiled = jit(run)
    return partial(compiled, *bounds) if bounds else compiled


def _is_static(size: Any) -> bool:
    return isinstance(size, int) or is_symbolic_dim(size)


def _size(size: Any) -> Any:
    return size_as(size, _INDEX.dtype) if is_symbolic_dim(size) else size


class _Call:
    """A kernel with its grid and specs, to be called with arguments of any types."""

    def __init__(
        self,
        kernel: Callable[..., None],
        out_shape: Any,
        spec: GridSpec,
        aliases: dict[int, int],
        debug: bool,
        name: str | None,
    ):
        self.kernel, self.spec, self.aliases, self.debug = kernel, spec, aliases, debug
        self.name = function_name(kernel) if name is None else name
        out_shape = tuple(out_shape) if isinstance(out_shape, list) else out_shape
        paths = tree.leaves_with_path(out_shape)
        self.out_names = [f"outputs{tree.keystr(path)}" for path, _ in paths]
        self.out_avals = [_typed(f"pallas_call: `out_shape`{tree.keystr(path)}", x) for path, x in paths]
        self.out_tree = tree.structure(out_shape)
        scratch, self.scratch_tree = tree.flatten(spec.scratch_shapes)
        self.scratch_avals = [_typed("pallas_call: an element of `scratch_shapes`", x) for x in scratch]

    def __call__(self, bounds: Sequence[Any], args: Sequence[Any]) -> Any:
        run = _Run(self, bounds, args)
        return tree.unflatten(self.out_tree, run.results())


def _typed(what: str, x: Any) -> ShapedArray:
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise ValueError(
            f"{what} is {describe(x)}, which has no shape and dtype. Use xpr.ShapeDtypeStruct(shape, dtype)."
        )
    return ShapedArray(tuple(x.shape), dtypes.canonical(x.dtype))


def _structured(parameter: str, specs: Any, others: str, structure: Any) -> list[BlockSpec]:
    """The specs of all leaves.

    Raises:
      ValueError: they have another structure than what they are for.
    """
    if specs is no_block_spec:
        return [BlockSpec()] * structure.num_leaves
    flat, specs_structure = tree.flatten(specs)
    if specs_structure != structure:
        expected, actual = [tree.unflatten(each, range(each.num_leaves)) for each in (structure, specs_structure)]
        lines = difference_lines(expected, actual, parameter)
        what = f"pallas_call: Pytree for `{parameter}` and `{others}` do not match. There are {len(lines)} mismatches"
        advice = f"Give `{parameter}` a pl.BlockSpec, or pl.no_block_spec, for each leaf of `{others}`."
        raise ValueError(mismatch_message(what, lines, advice))
    for spec in flat:
        if spec is not no_block_spec and not isinstance(spec, BlockSpec):
            raise ValueError(f"pallas_call: `{parameter}` has {describe(spec)}, which is no pl.BlockSpec.")
    return [BlockSpec() if spec is no_block_spec else spec for spec in flat]


class _Run:
    """A `_Call` with its arguments, which may be traced."""

    def __init__(self, call: _Call, bounds: Sequence[Any], args: Sequence[Any]):
        self.call, spec = call, call.spec
        computed = iter(bounds)
        self.sizes = [_size(size) if _is_static(size) else _strong(next(computed), _INDEX.dtype) for size in spec.grid]
        self.bounds = [n for n in self.sizes if not isinstance(n, int)]
        paths = tree.leaves_with_path(tuple(args))
        values = [_strong(x) for _, x in paths]
        varying = frozenset().union(*[aval_of(x).varying for x in values])
        self.values = [varying_as_type(x, aval_of(x).with_varying(varying)) for x in values]
        self.in_names = [f"args{tree.keystr(path)}" for path, _ in paths]
        scalars, blocked = split_list(list(args), spec.num_scalar_prefetch)
        self.scalar_tree, self.in_tree = tree.structure(tuple(scalars)), tree.structure(tuple(blocked))
        self.n_scalars = self.scalar_tree.num_leaves
        self.out_avals = [aval.with_varying(varying) for aval in call.out_avals]
        self.scratch_avals = [aval.with_varying(varying) for aval in call.scratch_avals]
        in_specs = _structured("in_specs", spec.in_specs, "inputs", self.in_tree)
        out_specs = _structured("out_specs", spec.out_specs, "out_shape", call.out_tree)
        names, avals = self.in_names[self.n_scalars :], list(map(aval_of, self.values))
        self.ins = [Blocks(*each) for each in zip(names, in_specs, avals[self.n_scalars :])]
        self.outs = [Blocks(*each) for each in zip(call.out_names, out_specs, self.out_avals)]
        self.scalar_avals = avals[: self.n_scalars]
        self.check_aliases(avals)

    def check_aliases(self, avals: Sequence[ShapedArray]) -> None:
        """Raises ValueError if an argument and the result that starts with it don't exist, or differ in type."""
        for i, o in self.call.aliases.items():
            what = f"pallas_call: input_output_aliases contains the mapping '{i}:{o}'"
            for kind, number, count in (("input", i, len(avals)), ("output", o, len(self.out_avals))):
                if not 0 <= number < count:
                    raise ValueError(f"{what} with {kind} index {number} outside the range [0, {count}).")
            aval, out_aval = avals[i], self.out_avals[o]
            if (aval.shape, aval.dtype) != (out_aval.shape, out_aval.dtype):
                names = self.in_names[i].replace("args", "input"), self.call.out_names[o].replace("outputs", "output")
                types = [f"{a.dtype.name}[{','.join(map(str, a.shape))}]" for a in (aval, out_aval)]
                raise ValueError(
                    f"{what}, and {names[0]} is {types[0]}, {names[1]} {types[1]}. What shares memory has one type."
                )

    # -- The user's functions as jaxprs

    def staged(self, what: str, advice: str, fun: Callable[..., Any], user: Any, refs: Sequence[Any]) -> ClosedJaxpr:
        """The jaxpr of `fun(indices, *refs)`, whose leading arguments are the indices and the traced sizes of the grid.

        Raises:
          ValueError: it uses an array from outside, traced or not.
        """
        n, names = len(self.sizes), self.call.spec.grid_names

        def flat(*xs: Any) -> Any:
            indices, bounds, arguments = split_list(xs, n, len(self.bounds))
            computed = iter(bounds)
            sizes = [size if isinstance(size, int) else next(computed) for size in self.sizes]
            with RunningGrid(names, sizes, indices):
                return fun(indices, *arguments)

        def argument_names() -> list[str]:
            return [f"program_id({i})" for i in range(n)] + ["num_programs"] * len(self.bounds) + ["a ref"] * len(refs)

        avals: list[Any] = [*[_INDEX] * (n + len(self.bounds)), *map(AbstractRef, refs)]
        trace = StageTrace(context.trace, Signature("traced by pallas_call", user, argument_names))
        closed = stage(flat, avals, trace=trace)
        constants = [x for _, _, x in trace.constants.values()]
        # Refs may be closed over; NumPy arrays are arrays of indices that operations make.
        captured = [aval_of(x).str_short() for x in constants if type(x) is not Ref and not isinstance(x, np.ndarray)]
        if captured:
            raise ValueError(f"{what} [{', '.join(captured)}]. {advice}")
        return closed

    def staged_map(self, blocks: Blocks) -> ClosedJaxpr:
        def fun(indices: Sequence[Any], *scalars: Any) -> list[Any]:
            return blocks.index_map(*indices, *tree.unflatten(self.scalar_tree, scalars))

        user = blocks.user_map
        what = f"Index map function {describe_function(user)} for {blocks.origin} must not capture constants:"
        advice = "Compute them from the indices, or pass them as scalars: pltpu.PrefetchScalarGridSpec."
        return self.staged(what, advice, fun, user, self.scalar_avals)

    def staged_kernel(self) -> ClosedJaxpr:
        call, described = self.call, describe_function(self.call.kernel)
        counts = self.n_scalars, len(self.ins), len(self.outs)

        def fun(_: Sequence[Any], *refs: Any) -> list[Any]:
            scalars, ins, outs, scratch = split_list(refs, *counts)
            results, others = tree.unflatten(call.out_tree, outs), tree.unflatten(call.scratch_tree, scratch)
            arguments = [*tree.unflatten(self.scalar_tree, scalars), *tree.unflatten(self.in_tree, ins)]
            arguments += results if isinstance(results, (tuple, list)) else [results]
            if isinstance(others, dict):
                returned = call.kernel(*arguments, **others)
            else:
                arguments += others if isinstance(others, (tuple, list)) else [others]
                returned = call.kernel(*arguments)
            if returned is not None:
                raise ValueError(
                    f"The kernel function of the pallas_call {described} should return None, as its results are what "
                    f"it writes to its refs. It returned {describe(returned)}."
                )
            return []

        what = f"The kernel function of the pallas_call {described} captures constants"
        advice = "Arrays from outside are arguments of the kernel, with a ref and a spec: pass them."
        refs = [*self.scalar_avals, *[blocks.ref_aval for blocks in (*self.ins, *self.outs)], *self.scratch_avals]
        closed = self.staged(what, advice, fun, call.kernel, refs)
        if call.debug:
            print(f"The kernel of the pallas_call {described}:\n{closed}")
        return closed

    def results(self) -> list[Any]:
        """Runs all programs."""
        all_blocks = [*self.ins, *self.outs]
        maps = {blocks.key: None if blocks.user_map is None else self.staged_map(blocks) for blocks in all_blocks}
        of_results = {o: self.values[i] for i, o in self.call.aliases.items()}
        scalars, ins = split_list(self.values, self.n_scalars)
        arrays = [blocks.padded(x) for blocks, x in zip(self.ins, ins)]
        arrays += [
            blocks.padded(of_results[o]) if o in of_results else blocks.unwritten()
            for o, blocks in enumerate(self.outs)
        ]
        arrays += list(map(unwritten_of, self.scratch_avals))
        loops = Loops(self.sizes, [*self.bounds, *scalars], self.ins, self.outs, maps, f"{self.call.name}_program")
        last = loops.run(self.staged_kernel(), arrays, [o not in of_results for o in range(len(self.outs))])
        return [blocks.unpadded(x) for blocks, x in zip(self.outs, last)]


def _strong(x: Any, dtype: Any = None) -> Any:
    """An array of a dtype that is not weak."""
    operand = as_operand(x)
    aval = aval_of(operand)
    wanted = aval.dtype if dtype is None else np.dtype(dtype)
    return convert_element_type(operand, wanted) if aval.weak_type or aval.dtype != wanted else operand
