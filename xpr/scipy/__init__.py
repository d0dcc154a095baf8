"""Functions of SciPy that programs of arrays use: `linalg`, `sparse.linalg`, `special` and `stats`."""

from xpr.scipy import linalg as linalg
from xpr.scipy import sparse as sparse
from xpr.scipy import special as special
from xpr.scipy import stats as stats
