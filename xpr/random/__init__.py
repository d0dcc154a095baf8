"""Random numbers, drawn from keys: the same key always gives the same numbers, bit for bit those that JAX draws."""

from xpr.primitives.random_gamma import random_gamma_p as random_gamma_p
from xpr.random.binomials import *
from xpr.random.choices import *
from xpr.random.gammas import *
from xpr.random.inverse_transform import *
from xpr.random.keys import *
from xpr.random.matrices import *
from xpr.random.normals import *
from xpr.random.uniforms import *
