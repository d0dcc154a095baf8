"""equal, hash: structural equality of jaxprs, up to the names of variables; see passes/structure.py."""

from __future__ import annotations

import builtins

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, require_jaxpr
from xpr.passes.structure import structure


def equal(a: Jaxpr | ClosedJaxpr, b: Jaxpr | ClosedJaxpr) -> bool:
    """Whether two jaxprs are the same up to the names of variables.

    The same are: the types of variables in shape and dtype (not weakness, which is no part of the text), equations in
    their order, parameters and literals in type and value (-0.0 is not 0.0, and nan is nan), the values of constants.
    Python functions among the parameters must be the same objects, or equal. Source lines don't count. A jaxpr without
    constants is the same as one that is closed over none.

    Args:
      a: a jaxpr, open or closed.
      b: a jaxpr, open or closed.

    Returns:
      A boolean.

    >>> import xpr
    >>> f, g = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0), xpr.make_jaxpr(lambda y: 2.0 * y)(3.0)
    >>> xpr.jaxpr.equal(f, g), xpr.jaxpr.equal(f, xpr.make_jaxpr(lambda x: x * 2.0)(1.0))
    (True, False)
    """
    for jaxpr in (a, b):
        require_jaxpr("equal", jaxpr)
    return a is b or structure(a) == structure(b)


def hash(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """A hash of a jaxpr's structure, the same for jaxprs that are `equal`.

    Like the `hash` of a string it holds in this process alone.

    >>> import xpr
    >>> f, g = xpr.make_jaxpr(lambda x: 2.0 * x)(1.0), xpr.make_jaxpr(lambda y: 2.0 * y)(3.0)
    >>> xpr.jaxpr.hash(f) == xpr.jaxpr.hash(g)
    True
    """
    require_jaxpr("hash", jaxpr)
    return builtins.hash(structure(jaxpr))
