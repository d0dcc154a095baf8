"""Loss and accuracy curves, with matplotlib, which is needed for nothing else."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from xpr.demo.train import Epoch


def problem_with(path: Path) -> str | None:
    """Why no plot can be written to `path`; known before training, not after."""
    if find_spec("matplotlib") is None:
        return "--plot needs matplotlib, which is not installed: pip install matplotlib"
    if not path.absolute().parent.is_dir():
        return f"--plot: there is no folder {path.absolute().parent}"
    known = figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        return f"--plot: {path.name} must end in one of .{', .'.join(sorted(known))}"
    return None


def figure():
    from matplotlib.figure import Figure

    return Figure(figsize=(9, 3.5), layout="constrained")


def write_curves(history: Sequence[Epoch], path: Path) -> None:
    """Writes a picture of the loss and both accuracies over the epochs."""
    sheet = figure()
    left, right = sheet.subplots(1, 2)
    numbers = [epoch.number for epoch in history]

    left.semilogy(numbers, [epoch.loss for epoch in history])
    left.set(title="Loss on the training images", xlabel="epoch")

    right.plot(numbers, [100 * epoch.train_accuracy for epoch in history], label="training")
    right.plot(numbers, [100 * epoch.test_accuracy for epoch in history], label="held out")
    right.set(title="Accuracy", xlabel="epoch", ylabel="%", ylim=(80, 100.5))
    right.legend(loc="lower right")

    sheet.savefig(path)
