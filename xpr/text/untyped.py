"""Text of jaxprs without types, in the look of JAX's documents of 2020.

    { lambda  ; a b.
      let c = sin b
          d = reduce_sum[ axes=(0,) ] c
      in (d,) }

Names begin with `a` in each jaxpr. Lines have no maximal width; each parameter is on its own line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, used_vars
from xpr.text.literals import literal_text
from xpr.text.parameters import jaxprs_in, parameter_text, parts_of, primitive_text

Block = list[str]  # lines
_MARK = "\0"  # between a line and its comment until all lines are known
COMMENT_COLUMN = 64

Names = Callable[[set[Any]], Any]  # from the variables that are read to the names of one jaxpr's variables


def untyped_text(jaxpr: Jaxpr, names: Names, comment_of: Callable[[JaxprEqn], str]) -> str:
    """The text of a jaxpr; `comment_of` says what to write behind an equation."""
    lines = [line.split(_MARK) for line in _Untyped(names, comment_of).jaxpr(jaxpr)]
    column = min(max((len(line[0]) for line in lines if len(line) > 1), default=0), COMMENT_COLUMN)
    return "\n".join(f"{line[0]:<{column}}  # {line[1]}" if len(line) > 1 else line[0] for line in lines)


def _beside(left: str, right: Block) -> Block:
    """The text with a block to its right."""
    return [left + right[0], *(" " * len(left) + line for line in right[1:])]


class _Untyped:
    def __init__(self, names: Names, comment_of: Callable[[JaxprEqn], str]):
        self.names, self.comment_of = names, comment_of

    def jaxpr(self, jaxpr: Jaxpr) -> Block:
        name = self.names(used_vars(jaxpr))
        constants, arguments = (" ".join(map(name, variables)) for variables in (jaxpr.constvars, jaxpr.invars))
        eqns = [line for eqn in jaxpr.eqns for line in self.equation(eqn, name)]
        outs = ", ".join(literal_text(a) if isinstance(a, Literal) else name(a) for a in jaxpr.outvars)
        end = f"in ({outs}{',' * (len(jaxpr.outvars) == 1)}) }}"
        return [f"{{ lambda {constants} ; {arguments}.", *_beside("  let ", eqns or [""]), f"  {end}"]

    def equation(self, eqn: JaxprEqn, name: Any) -> Block:
        operands = [
            f" {literal_text(a, eqn.invars, eqn.outvars) if isinstance(a, Literal) else name(a)}" for a in eqn.invars
        ]
        binders = "".join(f"{name.bound(v)} " for v in eqn.outvars)
        block = _beside(f"{binders}= {primitive_text(eqn.primitive.name)}", self.parameters(eqn.params))
        block[-1] += "".join(operands)
        if comment := self.comment_of(eqn):
            block[0] = block[0].split(_MARK)[0] + _MARK + comment
        return block

    def parameters(self, params: dict[str, Any]) -> Block:
        pairs = [line for key, value in sorted(params.items()) for line in _beside(f"{key}=", self.value(value))]
        return _closed("[ ", pairs, " ]") if pairs else [""]

    def value(self, value: Any) -> Block:
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            return self.jaxpr(value)
        if any(jaxprs_in(value)):
            parts = parts_of(value)
            labelled = [("", item) for item in value] if parts is None else [(f"{k}=", x) for k, x in parts.items()]  # type: ignore[union-attr]
            items = [line for label, item in labelled for line in _beside(label, self.value(item))]
            return _closed(f"{'' if parts is None else type(value).__name__}( ", items, " )")
        return [parameter_text(value)]


def _closed(opening: str, block: Block, closing: str) -> Block:
    block = _beside(opening, block)
    block[-1] += closing
    return block
