"""When the output of an example is what the page or docstring shows: one rule for both."""

import doctest
import math
import re

NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?:e[+-]\d+)?")


def same_text(shown: str, printed: str) -> bool:
    """Whether two texts agree: to the letter, or but for the last digits of numbers and the spaces that align them.

    Numbers are those with a decimal point. Their last digits depend on the machine that XLA compiles for.
    """
    if shown == printed:
        return True
    if re.sub(r" +", "", NUMBER.sub("#", shown)) != re.sub(r" +", "", NUMBER.sub("#", printed)):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=1e-5) for a, b in pairs)


class OutputChecker(doctest.OutputChecker):
    """Doctest's comparison, or ours."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or same_text(want, got)
