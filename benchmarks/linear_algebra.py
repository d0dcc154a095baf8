"""Linear algebra beside jax's and NumPy's, and inverses of functions beside inverses written by hand."""

from collections.abc import Callable

import numpy as np

from benchmarks.case import Call, Case, Library, cold, warm

RNG = np.random.default_rng(0)


def positive(*shape: int) -> np.ndarray:
    x = RNG.normal(size=shape)
    return (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(np.float32)


MATRICES = {
    "256 x 256": (positive(256, 256), RNG.normal(size=(256, 8)).astype(np.float32)),
    "10000 of 4 x 4": (positive(10_000, 4, 4), RNG.normal(size=(10_000, 4, 1)).astype(np.float32)),
    "one of 8 x 8": (positive(8, 8), RNG.normal(size=(8, 1)).astype(np.float32)),
}

FUNCTIONS = {
    "solve": lambda linalg, a, b: linalg.solve(a, b),
    "cholesky": lambda linalg, a, b: linalg.cholesky(a),
    "eigvalsh": lambda linalg, a, b: linalg.eigvalsh(a),
    "svd": lambda linalg, a, b: linalg.svd(a)[1],
    "qr": lambda linalg, a, b: linalg.qr(a)[1],
    "slogdet": lambda linalg, a, b: linalg.slogdet(a)[1],
}


def eager(name: str, size: str) -> Callable[[Library], Call]:
    def build(library: Library) -> Call:
        linalg = library.numpy.linalg
        a, b = map(library.numpy.asarray, MATRICES[size])
        return lambda: FUNCTIONS[name](linalg, a, b)

    return build


def gradient(name: str, size: str) -> Callable[[Library], Call]:
    def build(library: Library) -> Call:
        a, b = map(library.numpy.asarray, MATRICES[size])
        compiled = library.jit(library.grad(lambda a, b: FUNCTIONS[name](library.numpy.linalg, a, b).sum()))
        return lambda: compiled(a, b)

    return build


# -- Inverses

WIDTH, DEPTH = 64, 4


def layers(library: Library) -> list[tuple]:
    rng = np.random.default_rng(0)
    array = library.numpy.asarray
    weights = [np.eye(WIDTH) + rng.normal(size=(WIDTH, WIDTH)) / WIDTH for _ in range(DEPTH)]
    return [(array(w.astype(np.float32)), array(np.ones(WIDTH, np.float32) / 9)) for w in weights]


def network(library: Library) -> Callable:
    made = layers(library)

    def function(x):
        for weights, bias in made:
            x = library.numpy.arcsinh(weights @ x + bias)
        return x

    return function


def by_hand(library: Library, log_det: bool) -> Callable:
    made = layers(library)

    def back(y):
        total = 0.0
        for weights, bias in made[::-1]:
            y = library.numpy.sinh(y)
            total = total + library.numpy.log1p(y * y).sum() / 2
            if log_det:
                total = total - library.numpy.linalg.slogdet(weights)[1]
            y = library.numpy.linalg.solve(weights, y - bias)
        return (y, total) if log_det else y

    return back


def back_of(library: Library, log_det: bool) -> Callable:
    """xpr's inverse of the network; elsewhere the one that is written by hand."""
    if hasattr(library, "inverse"):
        return (library.inverse_and_log_det if log_det else library.inverse)(network(library))
    return by_hand(library, log_det)


def inverse(log_det: bool) -> Callable[[Library], Call]:
    def build(library: Library) -> Call:
        y = network(library)(library.numpy.ones(WIDTH) / 2)
        compiled = library.jit(back_of(library, log_det))
        return lambda: compiled(y)

    return build


def gradient_of_inverse(library: Library) -> Call:
    y = network(library)(library.numpy.ones(WIDTH) / 2)
    back = back_of(library, True)
    compiled = library.jit(library.grad(lambda y: back(y)[1] - (back(y)[0] ** 2).sum() / 2))
    return lambda: compiled(y)


def series_of_inverse(library: Library) -> Call:
    """All derivatives along a line up to order 5: by `taylor`, and by forward mode in forward mode."""
    y = network(library)(library.numpy.ones(WIDTH) / 2)
    direction, back = library.numpy.ones(WIDTH), back_of(library, False)
    if hasattr(library, "taylor"):
        compiled = library.jit(lambda y: library.taylor(back, (y,), ([direction, 0.0, 0.0, 0.0, 0.0],)))
        return lambda: compiled(y)

    def with_derivative(outs_of):
        def further(x):
            outs, tangents = library.jvp(outs_of, (x,), (direction,))
            return [*outs, tangents[-1]]

        return further

    derivatives = lambda x: [back(x)]  # noqa: E731  # it is wrapped again and again
    for _ in range(5):
        derivatives = with_derivative(derivatives)
    compiled = library.jit(derivatives)
    return lambda: compiled(y)


CASES = [
    Case("inverse of a network, beside one by hand", warm(inverse(False)), target=1),
    Case("with the log-determinant", warm(inverse(True)), target=1),
    Case("first call", cold(inverse(True)), target=1),
    Case("gradient of both", warm(gradient_of_inverse), target=1),
    Case("order 5 of the inverse, beside nested jvp", warm(series_of_inverse), target=2),
    *(
        Case(f"{name}, {size}", warm(eager(name, size)), target=1, with_numpy=True)
        for size in MATRICES
        for name in FUNCTIONS
    ),
    *(Case(f"gradient of {name}, 256 x 256", warm(gradient(name, "256 x 256")), target=1) for name in FUNCTIONS),
    Case("gradient of solve, 10000 of 4 x 4", warm(gradient("solve", "10000 of 4 x 4")), target=1),
    Case("first call of solve", cold(eager("solve", "one of 8 x 8")), target=1),
]
