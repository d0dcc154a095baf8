"""Colouring of the columns of a sparse matrix: no two columns of one colour have a nonzero element in the same row.

So the sum of the columns of a colour has the elements of each. Curtis, Powell and Reid, "On the estimation of sparse
Jacobian matrices" (1974).
"""

from __future__ import annotations

import numpy as np

from xpr.sparsity.index_sets import IndexSets

_MUCH = 10**8  # elements times colours that the greedy search reads in a round


def colours(rows: IndexSets) -> np.ndarray:
    """A colour for each column, 0, 1, ...; the fewer, the better, and never fewer than the fullest row has elements."""
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
    """A different colour for each column that has elements."""
    colour = np.zeros(rows.width, np.int64)
    filled = np.unique(rows.indices)
    colour[filled] = np.arange(len(filled))
    return colour


def _cyclic(rows: IndexSets, fullest: int) -> np.ndarray | None:
    """Column j has colour j modulo some number: best for bands and for stencils on grids."""
    columns = np.arange(rows.width)
    for count in range(fullest, min(2 * fullest + 8, rows.width) + 1):
        colour = columns % count
        if _fits(rows, colour, count):
            return colour
    return None


def _fits(rows: IndexSets, colour: np.ndarray, count: int) -> bool:
    """Whether the elements of each row have different colours."""
    keys = rows.rows() * count + colour[rows.indices]
    return np.bincount(keys, minlength=1).max(initial=0) <= 1


def _greedy(rows: IndexSets) -> np.ndarray:
    """All columns without a colour propose the least that their rows allow; in a conflict the first ranked gets it.

    Columns are ranked at random, so a few rounds suffice. Gebremedhin and Manne, "Scalable parallel graph coloring
    algorithms" (2000).
    """
    n = rows.width
    rank = np.random.default_rng(0).permutation(n)
    by_column = np.argsort(rows.indices, kind="stable")
    element_row, element_column = rows.rows()[by_column], rows.indices[by_column]
    colour = np.full(n, -1)
    used = np.zeros((rows.count, int(rows.sizes.max()) + 4), bool)  # by row and colour
    pending = np.ones(len(element_column), bool)
    while pending.any():
        row, column = element_row[pending], element_column[pending]
        first = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
        asking = column[first]
        blocked = np.logical_or.reduceat(used[row], first, axis=0)
        blocked = np.concatenate([blocked, np.zeros((len(asking), 1), bool)], 1)
        wish = np.full(n, -1)
        wish[asking] = np.argmin(blocked, 1)
        if wish.max() >= used.shape[1]:
            used = np.concatenate([used, np.zeros_like(used)], 1)
        best = np.full(used.shape, n)
        np.minimum.at(best, (row, wish[column]), rank[column])
        lost = best[row, wish[column]] < rank[column]
        wins = ~np.logical_or.reduceat(lost, first)
        winners = np.zeros(n, bool)
        winners[asking[wins]] = True
        colour[asking[wins]] = wish[asking[wins]]
        won = winners[column]
        used[row[won], wish[column[won]]] = True
        pending[pending] = ~won
    return np.where(colour < 0, 0, colour)
