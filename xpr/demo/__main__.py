"""`python -m xpr.demo`: from numerical Python to a trained network, in five steps."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import xpr
from xpr import random
from xpr.demo.data import Digits, load_digits, split
from xpr.demo.model import SIZES, example_loss, init_params
from xpr.demo.plot import problem_with, write_curves
from xpr.demo.progress import progress
from xpr.demo.report import hardest, picture, table
from xpr.demo.train import Epoch, train


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.plot and (problem := problem_with(options.plot)):
        print(f"xpr.demo: {problem}", file=sys.stderr)
        return 2

    training, held_out = show_data(options.seed)
    show_jaxprs(training)
    history = show_training(training, held_out, options.epochs, options.seed)
    show_hardest(history[-1], training)
    if options.plot:
        write_curves(history, options.plot)
        print(f"\nWrote {options.plot}")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m xpr.demo", description="Trains a small network on handwritten digits.")
    parser.add_argument("--epochs", type=positive, default=40, help="passes over the training images (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the first parameters and the noise")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write loss and accuracy curves (needs matplotlib)")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def heading(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}\n")


def show_data(seed: int) -> tuple[Digits, Digits]:
    heading("1. The data")
    training, held_out = split(load_digits(), seed)
    print("Handwritten digits (E. Alpaydin, C. Kaynak; UCI Machine Learning Repository; CC BY 4.0), 8x8 pixels:")
    print(f"{len(training.labels)} images to train on, {len(held_out.labels)} held out. The first three:\n")
    print(picture(*training.images[:3]))
    return training, held_out


def show_jaxprs(training: Digits) -> None:
    params = init_params(random.key(0))
    example = training.images[0], training.labels[0]

    heading("2. The loss of one image, as a jaxpr")
    print(xpr.make_jaxpr(example_loss)(params, *example))

    heading("3. Its gradient, as a jaxpr")
    print(xpr.make_jaxpr(xpr.grad(example_loss))(params, *example))


def show_training(training: Digits, held_out: Digits, epochs: int, seed: int) -> list[Epoch]:
    heading(f"4. Training a {'-'.join(map(str, SIZES))} network")
    start = time.perf_counter()
    steps = train(training, held_out, epochs, seed)
    history = [next(steps), *progress(steps, epochs, describe)]
    seconds = time.perf_counter() - start

    print(f"\n{table(history)}\n")
    accuracy = history[-1].test_accuracy
    print(f"Held-out accuracy: {accuracy:.2%} after {epochs} epochs in {seconds:.1f} s, compiling included.")
    return history


def describe(epoch: Epoch) -> str:
    return f"loss {epoch.loss:.4f}  held-out accuracy {epoch.test_accuracy:.2%}"


def show_hardest(epoch: Epoch, training: Digits) -> None:
    heading("5. The images that pull hardest at the network")
    chosen = hardest(epoch)
    print("Of a sample of the training images, those whose gradients are the longest:")
    for index in chosen:
        print(f"  a {training.labels[index]} with gradient norm {epoch.norms[index]:.4f}")
    print("\n" + picture(*training.images[chosen]))


if __name__ == "__main__":
    sys.exit(main())
