"""Every law of tests/ops/laws.py on every row of the op table: `pytest tests/test_laws.py -k "vjp and add-1"`."""

import pytest

from tests import eight_devices
from tests.ops import laws, table

CASES = table.cases(table.ROWS)
WITHOUT_XLA = ("typing", "jvp", "linearize", "vjp", "transpose")


def _parameters(name, row, sample):
    for law in laws.LAWS:
        if laws.applies(law, row, sample):
            marks = [pytest.mark.skip(reason=row.skip[law])] if law in row.skip else []
            if law in WITHOUT_XLA and sample is row.samples[0]:
                marks.append(pytest.mark.quick)
            yield pytest.param(law, row, sample, id=f"{law}-{name}", marks=marks)


# All laws of a sample in a row: they share what is traced and compiled of it.
@pytest.mark.parametrize("law, row, sample", [p for case in CASES for p in _parameters(*case)])
def test_law(law, row, sample):
    laws.check(law, row, sample)


SKIPS = [
    pytest.param(row, law, id=f"{row.primitive}-{law}")
    for row in table.ROWS
    for law, reason in row.skip.items()
    if not reason.startswith("sometimes")
]


@pytest.mark.parametrize("row, law", SKIPS)
def test_a_skipped_law_does_not_hold(row, law):
    """What is excused must be at fault: once a law holds, its `skip` goes."""
    samples = [sample for sample in row.samples if laws.applies(law, row, sample)]
    with pytest.raises((AssertionError, NotImplementedError)):
        for sample in samples:
            laws.check(law, row, sample)


def test_on_several_devices():
    eight_devices.run("law_cases.py")
