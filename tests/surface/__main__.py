"""`python -m tests.surface`: what jax has and xpr has not, unless the list of reasons (`reasons.py`) says why.

Exits with 1 where something has no reason, and where a reason stands for nothing any more.
"""

from __future__ import annotations

import sys

from tests.surface.compare import gaps
from tests.surface.reasons import NOT_BUILT_YET, REASONS, explain


def main() -> int:
    found = gaps()
    explained = explain(found)
    for gap in explained.without:
        print(gap)
    print(f"{len(explained.without)} without a reason; with one:")
    for why, entries in {**REASONS, "Not built yet.": NOT_BUILT_YET}.items():
        print(f"{sum(explained.counts[entry] for entry in entries):6} {why}")
    if explained.stale or explained.built:
        print("Take from the list what is there by now:", *explained.stale, *explained.built, sep="\n  ")
    return 1 if explained.without or explained.stale else 0


if __name__ == "__main__":
    sys.exit(main())
