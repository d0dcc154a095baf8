"""Every row of the op table, on operands that are sharded over a mesh: results and gradients are those of NumPy."""

import itertools

import numpy as np
import pytest

import xpr
from tests.ops import table
from tests.ops.case import Case
from tests.ops.value_laws import needs_x64
from xpr.config_contexts import enable_x64
from xpr.primitives.sharding_rules import ElementwiseSharding
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

AXES = {"x": 2, "y": 3}
SLOW = {"window_dimensions": (5, 4)}  # windows whose unoptimized loops over all pairs run for a minute: smaller ones do


def spec_of(shape):
    """As many axes are partitioned as can be, the first ones first."""
    left, entries = dict(AXES), []
    for n in shape:
        name = next((name for name, size in left.items() if n and n % size == 0), None)
        left.pop(name, None)
        entries.append(name)
    return P(*entries)


def calls_python(name):
    return "callback" in name or "custom_partitioning" in name


def cases():
    """Collectives and regions for each device have axes of their own, and the rows of calls of Python do nothing."""
    seen = set()  # samples whose operands are sharded alike show nothing new
    for row in table.ROWS:
        of_its_own = row.along is not None or row.primitive.mesh is not None
        if of_its_own or calls_python(row.primitive.name):
            continue
        is_elementwise = isinstance(row.primitive.sharding, ElementwiseSharding)
        for sample in row.samples:
            if sample.params.items() >= SLOW.items() or (sample.edges and is_elementwise):  # edges are other values
                continue
            specs = [spec_of(np.shape(x)) for x in sample.operands]
            key = (row.primitive, *specs)
            if any(map(any, specs)) and key not in seen:
                seen.add(key)
                yield Case(row, sample), specs


CASES = list(cases())
OF_PRIMITIVES = {
    primitive.name: list(group) for primitive, group in itertools.groupby(CASES, lambda each: each[0].primitive)
}


def has_derivatives_of_its_own(row, sample):
    """Those of what is elementwise, and takes no parameters, are elementwise too."""
    return row.differentiable and sample.params and not sample.edges and not {"vjp", "linearize"} & row.skip.keys()


def with_gradient(case):
    """The function that gives a case's results, and the gradient where it says something of its own."""
    if not case.active or not has_derivatives_of_its_own(case.row, case.sample):
        return case

    def results_and_gradient(*xs):
        def function(*active):
            values = dict(zip(case.active, active))
            return case.inexact(*[values.get(i, x) for i, x in enumerate(xs)])

        outs, pull = xpr.vjp(function, *[xs[i] for i in case.active])
        return [*case(*xs), *pull([0.5 * out + 1 for out in outs])]

    return results_and_gradient


@pytest.mark.parametrize("name", OF_PRIMITIVES)
def test_sharded_operands(name):
    """All samples in one program, or two: each takes 25 ms to compile, besides what it computes."""
    for _, group in itertools.groupby(OF_PRIMITIVES[name], lambda each: needs_x64(each[0])):
        compare([(case, specs, with_gradient(case)) for case, specs in group])


def compare(tried, axis_types=None):
    """What functions of cases give over a mesh is what they give on one device; their operands are of one width."""
    mesh = xpr.make_mesh(tuple(AXES.values()), tuple(AXES), axis_types)
    with enable_x64(needs_x64(tried[0][0])):
        operands = [
            [xpr.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(case.operands, specs)]
            for case, specs, _ in tried
        ]
        found = xpr.jit(lambda *all: [function(*xs) for (_, _, function), xs in zip(tried, all)])(*operands)
        for (case, specs, function), outs in zip(tried, found, strict=True):
            on_one = "reference" if case.has_reference else None  # which compiles nothing, or the default
            same(case, specs, outs, xpr.jit(function, backend=on_one)(*case.operands))


def same(case, specs, found, expected):
    for x, y in zip(found, expected, strict=True):
        about = f"{case.primitive} of {case.params}, operands over {specs}"
        assert x.aval.plain == y.aval.plain, about
        x, y = (z if z.dtype.kind == "b" else z.astype(np.complex128) for z in (np.asarray(x), np.asarray(y)))
        tolerance = 1e-5 if expected[0].dtype.itemsize >= 4 and case.row.tolerance <= 16 else 2e-3
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=10 * tolerance, err_msg=about)
