"""Every law of tests/ops/laws.py on every row of the op table: `pytest tests/test_laws.py -k "vjp-add"`."""

import pytest

from tests.ops import laws, table

WITHOUT_XLA = ("typing", "jvp", "linearize", "vjp", "transpose")


def _parameters(row):
    for law in laws.LAWS:
        if any(laws.applies(law, row, sample) for sample in row.samples):
            marks = [pytest.mark.skip(reason=row.skip[law])] if law in row.skip else []
            marks += [pytest.mark.quick] if law in WITHOUT_XLA else []
            yield pytest.param(law, row, id=f"{law}-{row.primitive}", marks=marks)


# All laws of a row one after another: they share what is traced and compiled of its samples.
@pytest.mark.parametrize("law, row", [parameter for row in table.ROWS for parameter in _parameters(row)])
def test_law(law, row):
    failures = {}
    for number, sample in enumerate(row.samples):
        if laws.applies(law, row, sample):
            try:
                laws.check(law, row, sample)
            except Exception as error:
                failures[number] = error
    if failures:
        first, error = next(iter(failures.items()))
        error.add_note(f"The law {law} of {row.primitive}: sample {first} of those that fail, {[*failures]}")
        raise error


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
