"""What the devices of a mesh send each other in a training step, as their number grows and the work of each does not.

Nothing runs: a transformer's step is compiled for up to 1024 devices, which the CPU is asked to have, and the
collectives of XLA's program are counted beside what they should be. `python -m benchmarks.scaling [DEVICES ...]`.

The model axis shards attention by heads and the hidden layer by units (Shoeybi et al., "Megatron-LM", 2019), so that
each block ends in a sum over it, and so does the gradient at its start; the scores of the vocabulary are sharded too,
and their softmax needs three numbers of all parts at each position. The data axis shards the batch, and gradients are
summed over it. In bytes on each device, with rows = batch / data, float32:

    along model:  4 * rows * length * (width * (4 * layers + 1) + 3)
    along data:   4 * (parameters of which each has all + parameters that are sharded / model + 1, the loss)

Of a sum of n bytes over g devices each one sends 2 (g - 1) / g * n.
"""

import argparse
import json
import math
import time
from typing import Any, NamedTuple

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import nn
from xpr.sharding import Mesh, NamedSharding
from xpr.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY = 4, 512, 8, 128, 4096
ROWS_OF_A_DEVICE = 2
MESHES = {1: (1, 1), 2: (2, 1), 4: (2, 2), 8: (4, 2), 16: (4, 4), 64: (16, 4), 256: (64, 4), 1024: (256, 4)}

SPECS = {
    "tokens": P(),
    "positions": P(),
    "layers": [
        {"scales": P(), "qkv": P(None, None, "model"), "mix": P("model"), "in": P(None, "model"), "out": P("model")}
    ]
    * LAYERS,
    "scores": P(None, "model"),
}
SHAPES = {
    "tokens": (VOCABULARY, WIDTH),
    "positions": (LENGTH, WIDTH),
    "layers": [
        {
            "scales": (2, WIDTH),
            "qkv": (WIDTH, 3, HEADS, WIDTH // HEADS),
            "mix": (HEADS, WIDTH // HEADS, WIDTH),
            "in": (WIDTH, 4 * WIDTH),
            "out": (4 * WIDTH, WIDTH),
        }
    ]
    * LAYERS,
    "scores": (WIDTH, VOCABULARY),
}


def loss(params: dict, tokens):
    """tokens int32[batch, length + 1] -> the cross entropy of each next token."""
    x = params["tokens"][tokens[:, :-1]] + params["positions"]
    for layer in params["layers"]:
        x = x + attention(layer, normalize(x, layer["scales"][0]))
        x = x + nn.gelu(normalize(x, layer["scales"][1]) @ layer["in"]) @ layer["out"]
    scores = normalize(x, 1.0) @ params["scores"]
    right = (scores * nn.one_hot(tokens[:, 1:], VOCABULARY)).sum(axis=-1)
    return (nn.logsumexp(scores, axis=-1) - right).mean()


def attention(layer: dict, x):
    query, key, value = jnp.einsum("blw,wthd->tbhld", x, layer["qkv"])
    weights = jnp.einsum("bhid,bhjd->bhij", query, key) / query.shape[-1] ** 0.5
    weights = nn.softmax(jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), weights, -1e9))
    return jnp.einsum("bhij,bhjd,hdw->biw", weights, value, layer["mix"])


def normalize(x, scale):
    centred = x - x.mean(axis=-1, keepdims=True)
    return scale * centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def step(params: dict, tokens):
    value, gradient = xpr.value_and_grad(loss)(params, tokens)
    return value, xpr.tree.map(lambda p, g: p - 1e-3 * g, params, gradient)


class Row(NamedTuple):
    """Bytes on each device in a step, by the axis of the mesh: counted in XLA's program, and by the closed form."""

    data: int
    model: int
    counted: dict[str, int]
    expected: dict[str, int]
    sent: float
    flops: float
    seconds: float  # to compile


def measure(data: int, model: int) -> Row:
    mesh = xpr.make_mesh((data, model), ("data", "model"))
    start = time.perf_counter()
    compiled = compile_step(mesh)
    seconds = time.perf_counter() - start
    counted = {"data": 0, "model": 0}
    for each in compiled.collectives():
        along = " and ".join(each.axes)
        counted[along] = counted.get(along, 0) + each.bytes * each.times
    sent = sum(each.sent * each.times for each in compiled.collectives())
    return Row(data, model, counted, closed_form(mesh), sent, compiled.cost_analysis()["flops"], seconds)


def compile_step(mesh: Mesh) -> Any:
    def sharding(spec: P) -> NamedSharding:
        return NamedSharding(mesh, spec)

    specs = xpr.tree.map(sharding, SPECS, is_leaf=is_spec)
    params = xpr.tree.map(lambda shape: xpr.ShapeDtypeStruct(shape, np.float32), SHAPES, is_leaf=is_shape)
    tokens = xpr.ShapeDtypeStruct((ROWS_OF_A_DEVICE * mesh.size, LENGTH + 1), np.int32)
    jitted = xpr.jit(step, in_shardings=(specs, sharding(P("data"))), out_shardings=(sharding(P()), specs))
    return jitted.lower(params, tokens).compile()


def closed_form(mesh: Mesh) -> dict[str, int]:
    """The bytes at the head of this file; none along an axis of one device."""
    data, model = mesh.axis_sizes
    rows = ROWS_OF_A_DEVICE * mesh.size // data
    specs, shapes = xpr.tree.leaves(SPECS, is_leaf=is_spec), xpr.tree.leaves(SHAPES, is_leaf=is_shape)
    parameters = sum(math.prod(shape) // (model if "model" in spec else 1) for spec, shape in zip(specs, shapes))
    along_model = 4 * rows * LENGTH * (WIDTH * (4 * LAYERS + 1) + 3)
    return {"data": 4 * (parameters + 1) if data > 1 else 0, "model": along_model if model > 1 else 0}


def is_spec(x: Any) -> bool:
    return isinstance(x, P)


def is_shape(x: Any) -> bool:
    return isinstance(x, tuple)


HEADER = (
    "devices  data x model   along data  closed form  along model  closed form  sent by each  operations  compiled in"
)


def line(row: Row) -> str:
    amounts = [row.counted["data"], row.expected["data"], row.counted["model"], row.expected["model"]]
    cells = "".join(f"{amount / 1e6:10.3f} MB" for amount in amounts)
    mesh = f"{row.data} x {row.model}"
    return (
        f"{row.data * row.model:7d}  {mesh:>12}{cells}{row.sent / 1e6:11.3f} MB{row.flops / 1e9:10.2f} G"
        f"{row.seconds:10.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.scaling", description=__doc__.split("\n")[0])
    parser.add_argument("devices", nargs="*", type=int, metavar="DEVICES", help=f"of {', '.join(map(str, MESHES))}")
    parser.add_argument("--json", action="store_true", help="a row of JSON on each line, and no table")
    options = parser.parse_args()
    chosen = options.devices or list(MESHES)
    if unknown := set(chosen) - MESHES.keys():
        parser.error(f"no mesh of {', '.join(map(str, sorted(unknown)))} devices")

    xpr.config.update("num_cpu_devices", max(chosen))
    if not options.json:
        print(HEADER)
    for devices in chosen:
        row = measure(*MESHES[devices])
        print(json.dumps(row._asdict()) if options.json else line(row), flush=True)


if __name__ == "__main__":
    main()
