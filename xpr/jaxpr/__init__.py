"""Jaxprs as a language: print, parse, compare and save them."""

from xpr import lax as _vocabulary  # all primitives, so that programs can name them
from xpr.control.reroll.reroll import reroll as reroll
from xpr.core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from xpr.inspect.dot import to_dot as to_dot
from xpr.inspect.show import Page as Page
from xpr.inspect.show import show as show
from xpr.inspect.svg import to_svg as to_svg
from xpr.jaxpr.costs import Cost as Cost
from xpr.jaxpr.costs import cost as cost
from xpr.jaxpr.functions import functions as functions
from xpr.jaxpr.loading import loads as loads
from xpr.jaxpr.parser import parse as parse
from xpr.jaxpr.saving import dumps as dumps
from xpr.jaxpr.structure import equal as equal
from xpr.jaxpr.structure import hash as hash
from xpr.jaxpr.variables import effects as effects
from xpr.jaxpr.variables import substitute as substitute
from xpr.jaxpr.variables import unused_variables as unused_variables
from xpr.jaxpr.variables import used_variables as used_variables
from xpr.passes.cse import cse as cse
from xpr.passes.dce import dce as dce
from xpr.passes.fold import fold_constants as fold_constants
from xpr.passes.inline import inline_calls as inline_calls
from xpr.passes.partial_eval import partial_eval as partial_eval
from xpr.passes.patterns import Rule as Rule
from xpr.passes.rewrite import rewrite as rewrite
from xpr.text.parameters import Hole as Hole
from xpr.text.printer import pformat as pformat
