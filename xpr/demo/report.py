"""What the demo shows in words and letters: images, and the table of the epochs."""

from collections.abc import Sequence

import numpy as np

from xpr.demo.data import SIDE
from xpr.demo.train import Epoch

INK = " .:-=+*#%@"
ROWS = 8

HEADER = """\
        loss on    training   held-out   gradient norm of one image
epoch   training   accuracy   accuracy      median        largest
-----   --------   --------   --------   ------------   -----------"""


def picture(*images: np.ndarray) -> str:
    """Images float32[64] side by side, in characters; pixels are doubled, for a character is twice as high as wide."""
    shades = [np.round(image.reshape(SIDE, SIDE) * (len(INK) - 1)).astype(int) for image in images]
    lines = ("   ".join("".join(INK[shade] * 2 for shade in row) for row in rows) for rows in zip(*shades, strict=True))
    return "\n".join(line.rstrip() for line in lines)


def table(history: Sequence[Epoch]) -> str:
    """A line for each of some epochs, evenly spaced, with the first and the last."""
    chosen = np.unique(np.linspace(0, len(history) - 1, ROWS).round().astype(int))
    return "\n".join([HEADER, *(table_line(history[i]) for i in chosen)])


def table_line(epoch: Epoch) -> str:
    return (
        f"{epoch.number:5d}   {epoch.loss:8.4f}   {epoch.train_accuracy:8.2%}   {epoch.test_accuracy:8.2%}"
        f"   {np.median(epoch.norms):12.5f}   {epoch.norms.max():11.4f}"
    )


def hardest(epoch: Epoch, count: int = 3) -> list[int]:
    """Which of the sampled training images pull most at the network after this epoch."""
    return np.argsort(-epoch.norms)[:count].tolist()
