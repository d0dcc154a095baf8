"""Logistic regression by Newton's method: `hessian` gives the curvature that gradient descent must do without.

Tells the digits 3 and 8 apart. The loss is convex, so that a handful of steps reach its minimum to float32's last
digits; gradient descent from the same start, given a hundred steps, is still on its way.

    python examples/newton_logistic_regression.py
"""

import numpy as np
from common.digits import Digits, load_digits, split

import xpr
import xpr.numpy as jnp
from xpr import nn

PENALTY = 1e-2  # on the squared weights: keeps the minimum finite, and the Hessian's eigenvalues from zero


def threes_and_eights() -> tuple[Digits, Digits]:
    """Images with a column of ones for the bias, and +1 for an eight, -1 for a three; a part is held out."""
    images, labels = load_digits()
    chosen = np.isin(labels, (3, 8))
    images = np.pad(images[chosen], [(0, 0), (0, 1)], constant_values=1)
    signs = np.where(labels[chosen] == 8, 1, -1).astype(np.int32)
    return split(Digits(images, signs), seed=0, held_out=80)


def loss(weights, images, signs):
    """The mean of log(1 + exp(-margin)), where a positive margin is a right answer, plus the penalty."""
    margins = signs * (images @ weights)
    return nn.softplus(-margins).mean() + PENALTY / 2 * weights @ weights


gradient = xpr.jit(xpr.grad(loss))
hessian = xpr.jit(xpr.hessian(loss))


def newton(weights, data: Digits, steps: int):
    """Each step jumps to the minimum of the parabola that fits the loss here."""
    for step in range(steps + 1):
        g = gradient(weights, *data)
        report(f"Newton step {step}", weights, g, data)
        if step < steps:
            weights = weights - np.linalg.solve(hessian(weights, *data), g)
    return weights


def descent(weights, data: Digits, steps: int):
    """The same by gradient descent, with the longest step that is sure to go down: one over the greatest curvature."""
    rate = 1 / np.linalg.eigvalsh(hessian(weights, *data)).max()
    for _ in range(steps):
        weights = weights - rate * gradient(weights, *data)
    report(f"descent, {steps} steps", weights, gradient(weights, *data), data)
    return weights


def report(name: str, weights, g, data: Digits) -> None:
    print(f"{name:18}  loss {loss(weights, *data):.6f}  gradient norm {np.linalg.norm(g):.1e}")


def hessian_error(weights, data: Digits) -> float:
    """How far `hessian` is from the formula: images^T diag(p (1 - p)) images / n + penalty."""
    images, signs = data
    p = nn.sigmoid(signs * (images @ weights))
    formula = (images.T * (p * (1 - p))) @ images / len(signs) + PENALTY * jnp.eye(len(weights))
    return float(abs(hessian(weights, *data) - formula).max())


def main() -> None:
    training, held_out = threes_and_eights()
    start = jnp.zeros(training.images.shape[1])

    weights = newton(start, training, steps=6)
    descent(start, training, steps=100)

    right = float((held_out.labels * (held_out.images @ weights) > 0).mean())
    print(f"\nheld-out accuracy {right:.1%} on {len(held_out.labels)} images")
    print(f"Hessian against its formula: greatest difference {hessian_error(weights, training):.1e}")


if __name__ == "__main__":
    main()
