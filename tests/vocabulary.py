"""Makes docs/primitives.md: every primitive with its types, parameters and rules, from the op table.

    python -m tests.vocabulary

Types and parameters are those of the first sample of a primitive's first row, as an equation has them; parameters that
only further samples have are optional.
"""

import re
import sys
from pathlib import Path

import xpr
import xpr.jaxpr
from tests.ops import table
from tests.ops.case import Case
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr
from xpr.core.primitive import SLOTS, Primitive
from xpr.text.parameters import parameter_text

PAGE = Path(__file__).parent.parent / "docs" / "primitives.md"
OPENING = """# Primitives

The words of [the jaxpr language](jaxpr-language.md), by the files that define them, where all rules of a primitive
stand together. Each line has an example: the types of its operands and results, and its parameters as they are printed,
those in parentheses being optional; `jaxpr` stands for a whole program. *Not* names the rules that a primitive does
without: the message of the error says why, and what to do instead. `python -m tests.vocabulary` writes this page.
"""


def page() -> str:
    """The page as Markdown: a table for each file."""
    rows: dict[str, list[table.Row]] = {}
    for row in table.ROWS:
        rows.setdefault(row.primitive.name, []).append(row)
    modules = _modules()  # now that the rows have loaded all there are
    families: dict[str, list[str]] = {}
    for name, own in sorted(rows.items()):
        families.setdefault(modules[name], []).append(_line(*own))
    parts = [OPENING]
    for name in sorted(families, key=lambda name: ("primitives" not in name, name)):
        path = name.replace(".", "/") + ".py"
        subject = sys.modules[name].__doc__.strip().splitlines()[0]
        parts.append(f"## {path}\n\n{subject}\n\n| primitive | types | parameters | not |\n|---|---|---|---|")
        parts.append("\n".join(families[name]) + "\n")
    return "\n".join(parts)


def _modules() -> dict[str, str]:
    """For each primitive the module that makes it, which has it as `<name>_p`."""
    found: dict[str, str] = {}
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(("xpr.primitives.", "xpr.control.", "xpr.export.")):
            text = Path(module.__file__).read_text()
            for name, value in vars(module).items():
                if isinstance(value, Primitive) and re.search(rf"^(\w+, )*{name}(, \w+)*(: \w+)? = ", text, re.M):
                    found[value.name] = module.__name__
    return found


def _line(row: table.Row, *further: table.Row) -> str:
    case = Case(row, row.samples[0])
    operands, named = list(case.operands), []
    if row.along:
        named = [(row.along, operands[0].shape[0])] if operands else [(row.along, 4)]
        operands = [x[0] for x in operands]
    if row.of_refs:
        operands = [xpr.new_ref(operands[0]), *operands[1:]]
    bind = row.primitive.bind
    closed = xpr.make_jaxpr(lambda *xs: bind(*case.with_keys(xs), **case.params), axis_env=named)(*operands)
    eqn = next(eqn for eqn in closed.jaxpr.eqns if eqn.primitive is row.primitive)
    given, made = [" ".join(v.aval.str_short() for v in atoms) for atoms in (eqn.invars, eqn.outvars)]
    params = [f"`{name}={_text(value)}`" for name, value in sorted(eqn.params.items())]
    samples = [sample for each in (row, *further) for sample in each.samples]
    optional = {name: value for sample in samples for name, value in sample.params.items() if name not in eqn.params}
    params += [f"(`{name}={_text(value)}`)" for name, value in sorted(optional.items())]
    missing = ", ".join(slot for slot in SLOTS if not getattr(row.primitive, slot))
    return f"| `{row.primitive.name}` | `{f'{given} -> {made}'.strip()}` | {'<br>'.join(params)} | {missing} |"


def _text(value: object) -> str:
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        return "jaxpr"
    if isinstance(value, (tuple, list)) and any(isinstance(each, (Jaxpr, ClosedJaxpr)) for each in value):
        return f"({', '.join(map(_text, value))})"
    return parameter_text(value).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
