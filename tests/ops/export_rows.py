"""Rows of xpr/export/calling.py: calls of exported functions, here of one that is linear in its first argument."""

import xpr
import xpr.numpy as jnp
from tests.ops.table import FromTypes, Row, Sample, floats, integers
from xpr.export import export
from xpr.export.calling import call_exported_jvp_p, call_exported_p


def scaled_sines(x, n, y):
    return x * jnp.sin(y) * n, n + 1, x.sum()


def times_sine(x, n):
    return jnp.sin(x) * n, n + 1, x.sum()


def exported(fun):
    return FromTypes(lambda *avals: export(xpr.jit(fun))(*avals[: fun.__code__.co_argcount]))


X, N, Y, TANGENT = floats(2, 3), integers(2, 3), floats(3), floats(2, 3, salt=1)

ROWS = [
    Row(call_exported_p, [Sample(X, N, Y, exported=exported(scaled_sines))]),
    Row(call_exported_jvp_p, [Sample(X, N, TANGENT, exported=exported(times_sine))]),
]
