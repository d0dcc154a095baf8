"""Special functions. Arguments broadcast; integers are converted to floats.

Definitions are those of Abramowitz and Stegun, Handbook of Mathematical Functions, and of SciPy where it goes beyond.
DLMF is the Digital Library of Mathematical Functions (dlmf.nist.gov), the handbook's successor.
"""

from xpr.nn.normalizing import logsumexp
from xpr.scipy.special.bessel import bessel_jn
from xpr.scipy.special.bessel_orders import iv, ive, j0, j1, jn, jv, k0, k0e, k1, k1e, kv, kve, y0, y1, yv
from xpr.scipy.special.complex_gamma import loggamma
from xpr.scipy.special.dilogarithm import owens_t, spence
from xpr.scipy.special.entropies import entr, kl_div, rel_entr, xlog1py, xlogy
from xpr.scipy.special.error_functions import erf, erfc, erfinv, log_ndtr, ndtr, ndtri
from xpr.scipy.special.expn_sici import expn, sici
from xpr.scipy.special.exponential_integrals import exp1, expi
from xpr.scipy.special.faddeeva import dawsn, erfcx, fresnel, wofz
from xpr.scipy.special.gamma_functions import (
    beta,
    betainc,
    betaln,
    comb,
    digamma,
    factorial,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    multigammaln,
    poch,
    polygamma,
)
from xpr.scipy.special.hypergeometric import hyp1f1, hyp2f1
from xpr.scipy.special.integer_sequences import bernoulli
from xpr.scipy.special.legendre import lpmn, lpmn_values
from xpr.scipy.special.modified_bessel import i0, i0e, i1, i1e
from xpr.scipy.special.spherical_harmonics import sph_harm_y
from xpr.scipy.special.transformations import boxcox, boxcox1p, expit, log_softmax, logit, softmax
from xpr.scipy.special.zeta import zeta

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr",
    "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "fresnel", "gamma", "gammainc",
    "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jn",
    "jv", "k0", "k0e", "k1", "k1e", "kl_div", "kv", "kve", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp",
    "lpmn", "lpmn_values", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma", "rel_entr", "sici",
    "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "y0", "y1", "yv", "zeta",
]  # fmt: skip
