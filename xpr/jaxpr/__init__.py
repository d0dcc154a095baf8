"""Jaxprs as a language: print, parse, compare and save them."""

from xpr.core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from xpr.core.parameters import Hole as Hole
from xpr.core.printer import pformat as pformat
from xpr.jaxpr.loading import loads as loads
from xpr.jaxpr.parser import parse as parse
from xpr.jaxpr.saving import dumps as dumps
from xpr.jaxpr.structure import equal as equal
from xpr.jaxpr.structure import hash as hash
from xpr.jaxpr.variables import effects as effects
from xpr.jaxpr.variables import substitute as substitute
from xpr.jaxpr.variables import unused_variables as unused_variables
from xpr.jaxpr.variables import used_variables as used_variables
