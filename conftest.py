"""Examples in docstrings are compared as those of the documentation are: see tests/same_text.py."""

import doctest

from tests.same_text import OutputChecker

doctest.OutputChecker = OutputChecker  # type: ignore[misc]  # what pytest's own checker, made later, is derived from
