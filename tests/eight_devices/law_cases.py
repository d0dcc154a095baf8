"""Every row of the op table, on operands that are sharded over a mesh: results and gradients are those of NumPy."""

import numpy as np
import pytest

import xpr
from tests.ops import table
from tests.ops.case import Case
from xpr.config import enable_x64
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P

AXES = {"x": 2, "y": 3}
SLOW_OTHERWISE = "select_and_scatter_add-6"  # its unoptimized loops over all pairs of windows run for a minute


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
    for name, row, sample in table.cases(table.ROWS):
        of_its_own = row.along is not None or row.primitive.mesh is not None
        specs = [spec_of(np.shape(x)) for x in sample.operands]
        key = (row.primitive, *specs)
        if any(map(any, specs)) and not of_its_own and not calls_python(name) and key not in seen:
            seen.add(key)
            marks = [pytest.mark.optimized] if name == SLOW_OTHERWISE else []
            yield pytest.param(row, sample, specs, id=name, marks=marks)


CASES = list(cases())


def has_derivatives_of_its_own(row, sample):
    """Those of what is elementwise, and takes no parameters, are elementwise too."""
    return row.differentiable and sample.params and not sample.edges and not {"vjp", "linearize"} & row.skip.keys()


@pytest.mark.parametrize("row, sample, specs", CASES)
def test_sharded_operands(row, sample, specs):
    case = Case(row, sample)

    def with_gradient(*xs):
        def function(*active):
            values = dict(zip(case.active, active))
            return case.inexact(*[values.get(i, x) for i, x in enumerate(xs)])

        outs, pull = xpr.vjp(function, *[xs[i] for i in case.active])
        return [*case(*xs), *pull([0.5 * out + 1 for out in outs])]

    compare(case, specs, with_gradient if case.active and has_derivatives_of_its_own(row, sample) else case.__call__)


def compare(case, specs, function, axis_types=None):
    mesh = xpr.make_mesh(tuple(AXES.values()), tuple(AXES), axis_types)
    with enable_x64(any(x.dtype.itemsize // (1 + (x.dtype.kind == "c")) == 8 for x in case.operands)):
        operands = [xpr.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(case.operands, specs)]
        on_one = "reference" if case.has_reference else None  # which compiles nothing, or the default
        found, expected = xpr.jit(function)(*operands), xpr.jit(function, backend=on_one)(*case.operands)
    for x, y in zip(found, expected, strict=True):
        assert x.aval.plain == y.aval.plain
        x, y = (z if z.dtype.kind == "b" else z.astype(np.complex128) for z in (np.asarray(x), np.asarray(y)))
        tolerance = 1e-5 if expected[0].dtype.itemsize >= 4 and case.row.tolerance <= 16 else 2e-3
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=10 * tolerance)
