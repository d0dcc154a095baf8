"""1,797 handwritten digits, images of 8x8 pixels; digits.txt has their source and license."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

SIDE = 8
HELD_OUT = 360


class Digits(NamedTuple):
    """Images float32[n, 64] with pixels from 0 (paper) to 1 (ink), row by row, and the digits int32[n] they show."""

    images: np.ndarray
    labels: np.ndarray


def load_digits() -> Digits:
    """All images, in the order of the source."""
    table = np.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=",", dtype=np.float32)
    return Digits(table[:, :-1] / 16, table[:, -1].astype(np.int32))


def split(digits: Digits, seed: int, held_out: int = HELD_OUT) -> tuple[Digits, Digits]:
    """Shuffles the images and splits them: those to train on, and `held_out` for the test."""
    order = np.random.default_rng(seed).permutation(len(digits.labels))
    test, train = order[:held_out], order[held_out:]
    return Digits(*(column[train] for column in digits)), Digits(*(column[test] for column in digits))
