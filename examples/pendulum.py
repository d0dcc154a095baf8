"""A differential equation, differentiated through: how long is a pendulum, and how strong its friction?

The pendulum's angle obeys  angle'' = -(g / length) sin(angle) - friction angle'.  It is integrated by the classical
Runge-Kutta method; `grad` runs back through all the steps, and gradient descent finds both parameters from noisy
measurements of the angle.

One step is compiled, by `jit`; the loop over the steps is Python's, and `grad` goes through both.

    python examples/pendulum.py
"""

from typing import NamedTuple

import numpy as np
from common.adam import adam_step, init_adam

import xpr
import xpr.numpy as jnp

GRAVITY = 9.81  # m / s^2
STEPS = 30
DURATION = 3.0  # s
START = (1.2, 0.0)  # rad, rad / s
RATE = 0.1  # of Adam, at first


class Pendulum(NamedTuple):
    """length in metres, friction in 1 / second."""

    length: float
    friction: float


def derivative(pendulum: Pendulum, state):
    """state float32[2]: the angle and how fast it changes."""
    angle, speed = state
    return jnp.stack([speed, -GRAVITY / pendulum.length * jnp.sin(angle) - pendulum.friction * speed])


@xpr.jit
def runge_kutta_step(pendulum: Pendulum, state, dt):
    """One step of the classical method, of order four."""
    k1 = derivative(pendulum, state)
    k2 = derivative(pendulum, state + dt / 2 * k1)
    k3 = derivative(pendulum, state + dt / 2 * k2)
    k4 = derivative(pendulum, state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def angles(pendulum: Pendulum):
    """float32[STEPS]: the angle after each step."""
    state, found = jnp.array(START), []
    for _ in range(STEPS):
        state = runge_kutta_step(pendulum, state, DURATION / STEPS)
        found.append(state[0])
    return jnp.stack(found)


def misfit(logarithms: Pendulum, measured):
    """The mean squared error. The parameters are positive, so that their logarithms are what is searched."""
    pendulum = Pendulum(*map(jnp.exp, logarithms))
    return ((angles(pendulum) - measured) ** 2).mean()


def fit(measured, guess: Pendulum, rounds: int) -> Pendulum:
    """Gradient descent, by Adam, since the misfit is far steeper in the length than in the friction."""
    logarithms = Pendulum(*map(jnp.log, guess))
    state = init_adam(logarithms)
    step = xpr.jit(adam_step)

    for round_ in range(rounds + 1):
        value, gradient = xpr.value_and_grad(misfit)(logarithms, measured)
        if round_ % 10 == 0:
            length, friction = map(jnp.exp, logarithms)
            print(f"round {round_:3d}  misfit {value:.5f}  length {length:.4f} m  friction {friction:.4f} / s")
        logarithms, state = step(logarithms, state, gradient, RATE * (1 - round_ / (rounds + 1)))
    return Pendulum(*map(jnp.exp, logarithms))


def gradient_error(measured, guess: Pendulum) -> float:
    """How far `grad` is from a central difference, relatively."""
    logarithms = Pendulum(*map(jnp.log, guess))
    gradient = xpr.grad(misfit)(logarithms, measured)
    h = 1e-2
    above = misfit(logarithms._replace(length=logarithms.length + h), measured)
    below = misfit(logarithms._replace(length=logarithms.length - h), measured)
    return float(abs((above - below) / (2 * h) / gradient.length - 1))


def main() -> None:
    truth = Pendulum(length=0.75, friction=0.3)
    guess = Pendulum(length=1.0, friction=0.1)
    noise = np.random.default_rng(0).normal(scale=0.02, size=STEPS).astype(np.float32)
    measured = angles(truth) + noise

    found = fit(measured, guess, rounds=60)
    print(f"\nfound  length {found.length:.3f} m  friction {found.friction:.3f} / s")
    print(f"truth  length {truth.length:.3f} m  friction {truth.friction:.3f} / s")
    print(f"gradient against a central difference: {gradient_error(measured, guess):.1e}")


if __name__ == "__main__":
    main()
