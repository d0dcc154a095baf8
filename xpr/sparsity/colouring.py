"""Colours for the columns of a sparse matrix: no two columns of one colour have an entry in the same row.

So the sum of the columns of a colour holds the entries of each. Curtis, Powell and Reid, "On the estimation of sparse
Jacobian matrices" (1974).
"""

from __future__ import annotations

import numpy as np

from xpr.sparsity.index_sets import IndexSets

_MUCH = 10**8  # entries times colours that the greedy search would look through in a round


def colours(rows: IndexSets) -> np.ndarray:
    """A colour for each column, 0, 1, ...; the fewer, the better, and never fewer than the fullest row has entries."""
    n, fullest = rows.width, int(rows.sizes.max(initial=0))
    if not rows.indices.size:
        return np.zeros(n, np.int64)
    if fullest == n:
        return np.arange(n)
    cyclic = _cyclic(rows, fullest)
    if cyclic is not None and cyclic.max() <= fullest:
        return cyclic
    if rows.indices.size * fullest > _MUCH:
        return _numbered(rows) if cyclic is None else cyclic
    greedy = _greedy(rows)
    return cyclic if cyclic is not None and cyclic.max() <= greedy.max() else greedy


def _numbered(rows: IndexSets) -> np.ndarray:
    """A colour for each column that has entries."""
    found = np.zeros(rows.width, np.int64)
    filled = np.unique(rows.indices)
    found[filled] = np.arange(len(filled))
    return found


def _cyclic(rows: IndexSets, fullest: int) -> np.ndarray | None:
    """Column j has colour j modulo some number: best for bands and for stencils on grids."""
    columns = np.arange(rows.width)
    for count in range(fullest, min(2 * fullest + 8, rows.width) + 1):
        found = columns % count
        if _fits(rows, found, count):
            return found
    return None


def _fits(rows: IndexSets, found: np.ndarray, count: int) -> bool:
    """Whether the entries of each row have different colours."""
    keys = rows.rows() * count + found[rows.indices]
    return np.bincount(keys, minlength=1).max(initial=0) <= 1


def _greedy(rows: IndexSets) -> np.ndarray:
    """All columns without a colour ask for the least that their rows allow, and of those that clash the first has it.

    Columns are ranked at random, so a few rounds suffice. Gebremedhin and Manne, "Scalable parallel graph coloring
    algorithms" (2000).
    """
    n = rows.width
    rank = np.random.default_rng(0).permutation(n)
    by_column = np.argsort(rows.indices, kind="stable")
    entry_row, entry_column = rows.rows()[by_column], rows.indices[by_column]
    found = np.full(n, -1)
    taken = np.zeros((rows.count, int(rows.sizes.max()) + 4), bool)  # by row and colour
    pending = np.ones(len(entry_column), bool)
    while pending.any():
        row, column = entry_row[pending], entry_column[pending]
        first = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
        asking = column[first]
        blocked = np.logical_or.reduceat(taken[row], first, axis=0)
        blocked = np.concatenate([blocked, np.zeros((len(asking), 1), bool)], 1)
        wish = np.full(n, -1)
        wish[asking] = np.argmin(blocked, 1)
        if wish.max() >= taken.shape[1]:
            taken = np.concatenate([taken, np.zeros_like(taken)], 1)
        best = np.full(taken.shape, n)
        np.minimum.at(best, (row, wish[column]), rank[column])
        lost = best[row, wish[column]] < rank[column]
        wins = ~np.logical_or.reduceat(lost, first)
        winners = np.zeros(n, bool)
        winners[asking[wins]] = True
        found[asking[wins]] = wish[asking[wins]]
        won = winners[column]
        taken[row[won], wish[column[won]]] = True
        pending[pending] = ~won
    return np.where(found < 0, 0, found)
