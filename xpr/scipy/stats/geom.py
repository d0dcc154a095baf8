"""The geometric distribution: trials up to the first success of probability p.

>>> from xpr.scipy.stats import geom
>>> geom.pmf(2, 0.5)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, of_integers

__all__ = ["logpmf", "pmf"]


@of_integers
def logpmf(n: Any, p: Any) -> Any:
    inside = jnp.greater(n, 0) & jnp.equal(n, jnp.floor(n))
    before = jnp.subtract(jnp.where(inside, n, 1.0), 1)
    return jnp.where(inside, jnp.add(special.xlog1py(before, jnp.negative(p)), jnp.log(p)), -math.inf)


pmf = exp_of(logpmf)
