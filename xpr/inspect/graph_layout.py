"""layered : boxes and arrows -> positions. A drawing of an acyclic graph in rows, arrows pointing down.

The method of Sugiyama, Tagawa and Toda (1981): boxes go to rows, by their longest path from above; the boxes of a row
are ordered so that few arrows cross, by sweeps that put each at the mean of its neighbours; then they get positions,
close to their neighbours. An arrow over several rows has a dummy box in each, shared with the others that start where
it does, unless it is so long that all arrows would have many more points than there are boxes: then it is drawn over
what lies in between.

Every step is linear, or n log n, in boxes and arrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GAP = 16.0  # between two boxes of a row
ROW_GAP = 34.0
SWEEPS, LARGE = 4, 4000  # sweeps, half as many over graphs of more boxes than that


class GraphLayout(NamedTuple):
    """The positions of boxes, in a drawing that reaches from (0, 0) to (width, height).

    `x` and `y` are the middles of the boxes; `row` says in which row each is. `paths` are the arrows' points, x0 y0 x1
    y1 and so on, from the lower edge of one box to the upper edge of another.
    """

    x: list[float]
    y: list[float]
    row: list[int]
    paths: list[list[float]]
    width: float
    height: float


def layered(widths: Sequence[float], heights: Sequence[float], arrows: Sequence[tuple[int, int]]) -> GraphLayout:
    """The positions of boxes that are joined by arrows, each from an earlier box to a later one.

    >>> layout = layered([40, 40, 40], [20, 20, 20], [(0, 1), (0, 2)])
    >>> layout.row, layout.x[0] == (layout.x[1] + layout.x[2]) / 2
    ([0, 1, 1], True)
    """
    if not widths:
        return GraphLayout([], [], [], [], 0.0, 0.0)
    drawing = _Drawing(widths, arrows)
    sweeps = SWEEPS if len(widths) <= LARGE else SWEEPS // 2
    for sweep in range(sweeps):
        drawing.order(downwards=sweep % 2 == 0)
    drawing.center_rows()
    for sweep in range(sweeps + 1):
        drawing.align(downwards=sweep % 2 == 0)
    return drawing.layout(heights)


class _Drawing:
    """Boxes 0 ... n-1 and, numbered on, the dummy boxes of long arrows in the rows they cross."""

    def __init__(self, widths: Sequence[float], arrows: Sequence[tuple[int, int]]):
        self.boxes, self.arrows = len(widths), arrows
        self.widths = list(widths)
        self.row = _rows(len(widths), arrows)
        self.above: list[list[int]] = [[] for _ in widths]
        self.below: list[list[int]] = [[] for _ in widths]
        self.trunks: dict[int, list[int]] = {}  # by the box where arrows start: their shared dummy boxes
        self.dummies: list[list[int]] = []  # of each arrow
        for (start, end), has in zip(arrows, self._has_dummies()):
            self.dummies.append(self._dummies(start, end) if has else [])
            last = self.dummies[-1][-1] if self.dummies[-1] else start
            self.below[last].append(end)
            self.above[end].append(last)
        self.rows: list[list[int]] = [[] for _ in range(max(self.row) + 1)]
        for item, row in enumerate(self.row):
            self.rows[row].append(item)
        self.x = [0.0] * len(self.row)

    def _has_dummies(self) -> list[bool]:
        """Which arrows have dummy boxes: the shorter ones, as long as these are few."""
        spans = [self.row[end] - self.row[start] for start, end in self.arrows]
        allowed, longest = 2 * self.boxes + 200, 1
        for span in sorted(spans):
            allowed -= span - 1
            if allowed < 0:
                break
            longest = span
        return [span <= longest for span in spans]

    def _dummies(self, start: int, end: int) -> list[int]:
        """The dummy boxes of an arrow, shared by all that start at one box."""
        trunk = self.trunks.setdefault(start, [])
        count = self.row[end] - self.row[start] - 1
        while len(trunk) < count:
            upper, dummy = trunk[-1] if trunk else start, len(self.row)
            self.row.append(self.row[start] + len(trunk) + 1)
            self.widths.append(0.0)
            self.above.append([upper])
            self.below.append([])
            self.below[upper].append(dummy)
            trunk.append(dummy)
        return trunk[:count]

    def order(self, downwards: bool) -> None:
        """Sorts each row by the mean position of what its boxes are joined with in the row before."""
        position = [0.0] * len(self.row)
        neighbours = self.above if downwards else self.below
        for row in self.rows if downwards else reversed(self.rows):
            for index, item in enumerate(row):
                joined = neighbours[item]
                position[item] = sum([position[i] for i in joined]) / len(joined) if joined else index
            row.sort(key=position.__getitem__)
            for index, item in enumerate(row):
                position[item] = index

    def center_rows(self) -> None:
        """First positions: side by side, every row centred."""
        for row in self.rows:
            total = sum([self.widths[item] + GAP for item in row])
            left = -total / 2
            for item in row:
                self.x[item] = left + (self.widths[item] + GAP) / 2
                left += self.widths[item] + GAP

    def align(self, downwards: bool) -> None:
        """Moves each box towards the mean of its neighbours, as far as those to its left and right allow."""
        x, boxes = self.x, self.boxes
        neighbours = self.above if downwards else self.below
        for row in self.rows if downwards else reversed(self.rows):
            targets, weights = [], []
            for item in row:
                joined = neighbours[item]
                if len(joined) == 1:
                    targets.append(x[joined[0]])
                else:
                    targets.append(sum([x[i] for i in joined]) / len(joined) if joined else x[item])
                weights.append((4.0 if item >= boxes else 1.0) if joined else 0.1)  # long arrows are to be straight
            for item, position in zip(
                row, _nonoverlapping(targets, weights, [self.widths[item] + GAP for item in row])
            ):
                x[item] = position

    def layout(self, heights: Sequence[float]) -> GraphLayout:
        tops, y = [0.0], []
        for row in self.rows:
            tallest = max([heights[item] for item in row if item < self.boxes], default=0.0)
            y.append(tops[-1] + tallest / 2)
            tops.append(tops[-1] + tallest + ROW_GAP)
        left = min([x - w / 2 for x, w in zip(self.x, self.widths)])
        right = max([x + w / 2 for x, w in zip(self.x, self.widths)])
        xs = [x - left for x in self.x]
        ys = [y[row] for row in self.row]
        paths = self._paths(xs, ys, heights)
        return GraphLayout(
            xs[: self.boxes], ys[: self.boxes], self.row[: self.boxes], paths, right - left, tops[-1] - ROW_GAP
        )

    def _paths(self, xs: list[float], ys: list[float], heights: Sequence[float]) -> list[list[float]]:
        leaving = self._ports(xs, at_end=False)
        entering = self._ports(xs, at_end=True)
        lower = [y + height / 2 for y, height in zip(ys, heights)]
        upper = [y - height / 2 for y, height in zip(ys, heights)]
        paths = []
        for (start, end), dummies, x, to_x in zip(self.arrows, self.dummies, leaving, entering):
            path = [x, lower[start]]
            for item in dummies:
                path += (xs[item], ys[item])
            path += (to_x, upper[end])
            paths.append(path)
        return paths

    def _ports(self, xs: list[float], at_end: bool) -> list[float]:
        """Where each arrow meets its box: side by side, in the order of what comes next; together, if that is one.

        Those that are drawn over what lies in between leave together, too.
        """
        meeting: dict[int, dict[int, list[int]]] = {}  # by box, and by what comes next
        over: dict[int, int] = {}
        for arrow, (ends, dummies) in enumerate(zip(self.arrows, self.dummies)):
            beyond = dummies[-at_end] if dummies else ends[not at_end]
            if not at_end and not dummies and self.row[ends[1]] - self.row[ends[0]] > 1:
                beyond = over.setdefault(ends[0], beyond)
            meeting.setdefault(ends[at_end], {}).setdefault(beyond, []).append(arrow)
        ports = [0.0] * len(self.arrows)
        for item, groups in meeting.items():
            step = min(9.0, self.widths[item] * 0.8 / len(groups))
            left = xs[item] - step * (len(groups) - 1) / 2
            for index, beyond in enumerate(sorted(groups, key=xs.__getitem__)):
                for arrow in groups[beyond]:
                    ports[arrow] = left + step * index
        return ports


def _rows(boxes: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each box: right below those above it; for values of arguments alone, right above their reader."""
    above: list[list[int]] = [[] for _ in range(boxes)]
    below: list[list[int]] = [[] for _ in range(boxes)]
    for start, end in arrows:
        above[end].append(start)
        below[start].append(end)
    row = [0] * boxes
    hangs = [
        True
    ] * boxes  # whether its row follows from those below: all above it have no other readers, or nothing above
    for box, starts in enumerate(above):
        if starts:
            row[box] = max([row[start] for start in starts]) + 1
            hangs[box] = all(not above[start] or (hangs[start] and len(below[start]) == 1) for start in starts)
    for box in reversed(range(boxes)):
        if hangs[box] and below[box]:
            row[box] = min([row[end] for end in below[box]]) - 1
    return row


def _nonoverlapping(targets: Sequence[float], weights: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The positions nearest to the targets, by weighted squares, at which boxes in this order don't overlap.

    Less the widths to the left of each, the positions must not decrease: isotonic regression, by pooling
    adjacent violators.
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    offset, offsets = 0.0, []
    for index, (target, weight) in enumerate(zip(targets, weights)):
        if index:
            offset += (widths[index - 1] + widths[index]) / 2
        offsets.append(offset)
        mean, count = target - offset, 1
        while pools and pools[-1][0] > mean:
            before, before_weight, before_count = pools.pop()
            mean = (mean * weight + before * before_weight) / (weight + before_weight)
            weight, count = weight + before_weight, count + before_count
        pools.append((mean, weight, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets)]
