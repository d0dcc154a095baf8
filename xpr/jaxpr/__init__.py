"""Jaxprs as a language: print, parse, compare and save them."""

from xpr import lax as _vocabulary  # all primitives, so that programs can name them
from xpr.control.reroll.reroll import reroll
from xpr.core.jaxpr import jaxpr_as_fun
from xpr.inspect.dot import to_dot
from xpr.inspect.show import Page, show
from xpr.inspect.svg import to_svg
from xpr.jaxpr.costs import Cost, cost
from xpr.jaxpr.functions import functions
from xpr.jaxpr.loading import loads
from xpr.jaxpr.parser import parse
from xpr.jaxpr.saving import dumps
from xpr.jaxpr.structure import equal, hash
from xpr.jaxpr.variables import effects, substitute, unused_variables, used_variables
from xpr.passes.cse import cse
from xpr.passes.dce import dce
from xpr.passes.fold import fold_constants
from xpr.passes.inline import inline_calls
from xpr.passes.partial_eval import partial_eval
from xpr.passes.patterns import Rule
from xpr.passes.rewrite import rewrite
from xpr.text.parameters import Hole
from xpr.text.printer import pformat

__all__ = [
    "Cost", "cost", "cse", "dce", "dumps", "effects", "equal", "fold_constants", "functions", "hash", "Hole",
    "inline_calls", "jaxpr_as_fun", "loads", "Page", "parse", "partial_eval", "pformat", "reroll", "rewrite", "Rule",
    "show", "substitute", "to_dot", "to_svg", "unused_variables", "used_variables",
]  # fmt: skip
