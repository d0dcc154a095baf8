"""What devices send each other in a step is what they must, and no more."""

import numpy as np

import xpr
import xpr.numpy as jnp
from tests.ops.table import floats
from xpr import lax, nn
from xpr.sharding import NamedSharding
from xpr.sharding import PartitionSpec as P


def test_of_a_convolutional_network_the_gradients():
    """Of a batch that is sharded."""
    mesh = xpr.make_mesh((8,), ("data",))
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    params = {"first": floats(3, 3, 1, 4), "second": floats(3, 3, 4, 8), "dense": floats(8, 10)}

    def loss(params, images):
        for name in ("first", "second"):
            images = lax.conv_general_dilated(
                images, params[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            images = lax.reduce_window(nn.relu(images), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (images.mean(axis=(1, 2)) @ params["dense"]).mean()

    step = xpr.jit(xpr.value_and_grad(loss), in_shardings=(whole, rows), out_shardings=whole)
    images = floats(16, 8, 8, 1)
    (found,) = step.lower(params, images).compile().collectives()
    numbers = 1 + sum(leaf.size for leaf in xpr.tree.leaves(params))
    assert found == ("all-reduce", 4 * numbers, ("data",), 8, 1)
    for x, y in zip(xpr.tree.leaves(step(params, images)), xpr.tree.leaves(xpr.value_and_grad(loss)(params, images))):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
