"""BCOO arrays and all functions of them, by the name of JAX's module; they are defined in the files they come from."""

from xpr.experimental.sparse import methods as methods  # installs the operators
from xpr.experimental.sparse.coordinates import *  # noqa: F403
from xpr.experimental.sparse.layouts import *  # noqa: F403
from xpr.experimental.sparse.products import *  # noqa: F403
from xpr.experimental.sparse.shapes import *  # noqa: F403
