"""Handwritten digits: 1,797 images of 8x8 pixels, shipped inside the package.

They are the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, licensed under CC BY 4.0; see digits.txt.
"""

from importlib import resources
from typing import NamedTuple

import numpy as np

SIDE = 8
HELD_OUT = 360


class Digits(NamedTuple):
    """Images float32[n, 64] with pixels from 0 (paper) to 1 (ink), row by row, and the digits int32[n] they show."""

    images: np.ndarray
    labels: np.ndarray


def load_digits() -> Digits:
    """All 1,797 images, in the order of the source."""
    source = resources.files("xpr.demo") / "digits.csv.gz"
    with resources.as_file(source) as path:
        table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return Digits(table[:, :-1] / 16, table[:, -1].astype(np.int32))


def split(digits: Digits, seed: int, held_out: int = HELD_OUT) -> tuple[Digits, Digits]:
    """Shuffles and parts the images: those to train on, and `held_out` that training never sees."""
    order = np.random.default_rng(seed).permutation(len(digits.labels))
    test, train = order[:held_out], order[held_out:]
    return Digits(*(column[train] for column in digits)), Digits(*(column[test] for column in digits))
