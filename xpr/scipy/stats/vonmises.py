"""The von Mises distribution of angles, of concentration kappa around 0.

>>> from xpr.scipy.stats import vonmises
>>> round(float(vonmises.pdf(0.0, 0.0)), 4)
0.1592
"""

from __future__ import annotations

import math
from typing import Any

from xpr import numpy as jnp
from xpr.scipy import special
from xpr.scipy.stats.standard_form import exp_of, log_density

__all__ = ["logpdf", "pdf"]


@log_density
def logpdf(z: Any, kappa: Any, scale: Any) -> Any:
    """kappa (cos z - 1), which is -2 kappa sin(z / 2)^2, over 2 pi i0e(kappa)."""
    logs = -2 * kappa * jnp.sin(z / 2) ** 2 - jnp.log(2 * math.pi * special.i0e(kappa)) - jnp.log(scale)
    return jnp.where(kappa >= 0, logs, math.nan)


pdf = exp_of(logpdf)
