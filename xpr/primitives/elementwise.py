"""Elementwise primitives and their functions, gathered from the files of their families.

These alone import each other; everything else imports them from here, most often as `e`: `e.mul(x, e.cos(y))`. Their
builders are in elementwise_rules.py.
"""

from xpr.primitives.arithmetic import *
from xpr.primitives.bitwise import *
from xpr.primitives.comparisons import *
from xpr.primitives.complex_numbers import *
from xpr.primitives.complex_numbers import complex_ as complex_
from xpr.primitives.conversions import *
from xpr.primitives.conversions import copy as copy
from xpr.primitives.elementwise_rules import *
from xpr.primitives.elementwise_rules import add_any as add_any
from xpr.primitives.elementwise_rules import add_tangents as add_tangents
from xpr.primitives.elementwise_rules import scalar as scalar
from xpr.primitives.exponentials import *
from xpr.primitives.powers import *
from xpr.primitives.rounding import *
from xpr.primitives.trigonometric import *
