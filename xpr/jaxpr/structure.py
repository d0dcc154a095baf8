"""equal, hash : jaxprs up to the names of variables; of their structures, see passes/structure.py."""

from __future__ import annotations

import builtins

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, given_jaxpr
from xpr.passes.structure import structure


def equal(a: Jaxpr | ClosedJaxpr, b: Jaxpr | ClosedJaxpr) -> bool:
    """Whether two jaxprs are the same up to the names of variables.

    The same are: the types of variables in shape and dtype (not weakness, which is no part of the text), equations in
    their order, parameters and literals in type and value (-0.0 is not 0.0, and nan is nan), the values of constants.
    Python functions among the parameters must be the same objects, or equal. Source lines don't count. A jaxpr without
    constants is the same as one that is closed over none.

    >>> import xpr
    >>> f, g = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0), xpr.make_jaxpr(lambda y: 2.0 * y)(3.0)
    >>> xpr.jaxpr.equal(f, g), xpr.jaxpr.equal(f, xpr.make_jaxpr(lambda x: x * 2.0)(1.0))
    (True, False)
    """
    for given in (a, b):
        given_jaxpr("equal", given)
    return a is b or structure(a) == structure(b)


def hash(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """A number that equal jaxprs share. It is of this process alone, like `hash` of a string.

    >>> import xpr
    >>> f, g = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0), xpr.make_jaxpr(lambda y: 2.0 * y)(3.0)
    >>> xpr.jaxpr.hash(f) == xpr.jaxpr.hash(g)
    True
    """
    given_jaxpr("hash", jaxpr)
    return builtins.hash(structure(jaxpr))
