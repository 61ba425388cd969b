"""Hierarchical clustering of vectors: average linkage, by chains of nearest neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def cosine_distances(vectors: npt.NDArray[np.floating]) -> Matrix:
    """1 minus the cosines (n, n) of vectors (n, size), in float64; a vector of zeros is far."""
    wide = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit = wide / np.where(lengths > 0, lengths, 1.0)
    return np.asarray(1.0 - unit @ unit.T)


def average_linkage(distances: Matrix) -> Matrix:
    """The merges (n - 1, 4) of n places by their distances (n, n), nearest first.

    A row: the two groups (a number below n is a place, n + i what row i made), the mean distance of
    their members, and how many these are. Groups are merged along chains of nearest neighbours
    (Murtagh, 1983), which needs n * n steps. It raises nothing.
    """
    count = len(distances)
    held = np.array(distances, np.float64)
    np.fill_diagonal(held, np.inf)
    sizes, merges, chain = np.ones(count), list[tuple[int, int, float]](), list[int]()
    alive = np.ones(count, np.bool_)
    for _ in range(count - 1):
        if not chain:
            chain.append(int(alive.argmax()))
        while True:
            last = chain[-1]
            near = int(held[last].argmin())
            if len(chain) > 1 and held[last, chain[-2]] <= held[last, near]:
                near = chain[-2]
                break
            chain.append(near)
        chain = chain[:-2]
        merges.append((last, near, float(held[last, near])))
        both = sizes[last] + sizes[near]
        row = (held[last] * sizes[last] + held[near] * sizes[near]) / both
        row[near] = np.inf
        held[near], held[:, near] = row, row
        held[last], held[:, last] = np.inf, np.inf
        sizes[near], alive[last] = both, False
    return _numbered(merges, count)


def _numbered(merges: list[tuple[int, int, float]], count: int) -> Matrix:
    """Merges of places in the order of their distances, with numbers of groups."""
    root, number, members = list(range(count)), list(range(count)), [1] * count

    def top(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    rows = []
    for i, (a, b, far) in enumerate(sorted(merges, key=lambda merge: merge[2])):
        first, second = top(a), top(b)
        low, high = sorted((number[first], number[second]))
        root[first] = second
        members[second] += members[first]
        number[second] = count + i
        rows.append((low, high, far, members[second]))
    return np.array(rows, np.float64).reshape(-1, 4)


def groups(merges: Matrix, far: float, count: int | None = None) -> npt.NDArray[np.int64]:
    """The group of each place, by merges of at most the distance `far`, or until `count` are left.

    Groups are numbered in the order of their first places. `merges` are `average_linkage`'s.
    """
    places = len(merges) + 1
    chosen = merges[merges[:, 2] <= far] if count is None else merges[: max(0, places - count)]
    of: list[list[int]] = [[i] for i in range(places)]
    for a, b, _, _ in chosen:
        of.append(of[int(a)] + of[int(b)])
        of[int(a)], of[int(b)] = [], []
    found = np.zeros(places, np.int64)
    for number, group in enumerate(sorted(filter(None, of), key=min)):
        found[group] = number
    return found


def without_small(
    vectors: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], least: int
) -> npt.NDArray[np.int64]:
    """Labels in which groups of fewer than `least` have joined the nearest larger one.

    Nearest are the means of `vectors` by their cosine. Without a larger one all are one group. It
    raises nothing.
    """
    sizes = np.bincount(labels)
    large = np.nonzero(sizes >= least)[0]
    if not len(large):
        return np.zeros_like(labels)
    means = np.stack([vectors[labels == i].mean(0) for i in range(len(sizes))])
    near = cosine_distances(means)[:, large].argmin(1)
    joined = np.where(sizes >= least, np.arange(len(sizes)), large[near])[labels]
    _, first, inverse = np.unique(joined, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return np.asarray(order[inverse], np.int64)
