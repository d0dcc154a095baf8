"""Rows of xpr/primitives/fft.py."""

import numpy as np

from tests.ops.table import COMPLEX, Row, Sample, complexes, floats
from xpr.primitives.fft import fft_p

REAL = (np.dtype(np.float32), np.dtype(np.float64))


def halves(*shape: int) -> list[Sample]:
    """What IRFFT takes: samples of which it gives an even, and an odd number of elements."""
    even = 2 * (shape[-1] - 1)
    return [
        Sample(complexes(*shape), fft_type="IRFFT", fft_lengths=(*shape[1:-1], length)) for length in (even, even + 1)
    ]


ROWS = [
    Row(fft_p,
        [Sample(complexes(4), fft_type="FFT", fft_lengths=(4,)),
         Sample(complexes(2, 5), fft_type="FFT", fft_lengths=(5,)),
         Sample(complexes(3, 2), fft_type="FFT", fft_lengths=(3, 2)),
         Sample(complexes(6), fft_type="IFFT", fft_lengths=(6,)),
         Sample(complexes(2, 2, 3), fft_type="IFFT", fft_lengths=(2, 2, 3)),
         Sample(complexes(0, 3), fft_type="FFT", fft_lengths=(3,)),
         *halves(2, 4), *halves(2, 3, 2)], dtypes=COMPLEX, tolerance=64),
    Row(fft_p,
        [Sample(floats(6), fft_type="RFFT", fft_lengths=(6,)),
         Sample(floats(2, 5), fft_type="RFFT", fft_lengths=(5,)),
         Sample(floats(3, 4), fft_type="RFFT", fft_lengths=(3, 4)),
         Sample(floats(2, 1), fft_type="RFFT", fft_lengths=(1,))], dtypes=REAL, tolerance=64),
]  # fmt: skip
