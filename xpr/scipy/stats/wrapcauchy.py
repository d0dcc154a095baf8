"""The Cauchy distribution wrapped around the circle, of angles from 0 to 2 pi and a concentration c between 0 and 1.

>>> from xpr.scipy.stats import wrapcauchy
>>> round(float(wrapcauchy.pdf(0.0, 0.5)), 4)
0.4775
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy.stats.standard_form import exp_of, log_density

__all__ = ["logpdf", "pdf"]


@log_density
def logpdf(z: Any, c: Any, scale: Any) -> Any:
    """1 + c^2 - 2 c cos z is (1 - c)^2 + 4 c sin(z / 2)^2."""
    inside = (z >= 0) & (z <= 2 * math.pi)
    bottom = (1 - c) ** 2 + 4 * c * jnp.sin(jnp.where(inside, z, 0.0) / 2) ** 2
    logs = jnp.log((1 - c) * (1 + c)) - jnp.log(2 * math.pi * scale) - jnp.log(bottom)
    return jnp.where((c > 0) & (c < 1), jnp.where(inside, logs, -math.inf), math.nan)


pdf = exp_of(logpdf)
