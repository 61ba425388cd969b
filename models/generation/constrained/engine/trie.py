"""The trie of a vocabulary's tokens in arrays, and its walk by automata, level by level."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rushlight.models.generation.constrained.engine.lexeme import Lexeme

Array = npt.NDArray[Any]
Walk = tuple[Array, Array]
_KEPT = 48  # walks from the root that are kept for a lexeme


class Trie:
    """A node is a beginning of tokens; 0 is that of all. Children of a node are neighbours."""

    def __init__(self, tokens: list[bytes]) -> None:
        order = sorted((i for i, token in enumerate(tokens) if token), key=tokens.__getitem__)
        lengths = np.array([len(tokens[i]) for i in order], np.int64)
        flat = np.frombuffer(b"".join(tokens[i] for i in order), np.uint8)
        starts = np.cumsum(lengths) - lengths
        at = np.zeros(len(order), np.int64)  # the node of each token so far
        parents, values, count = [np.zeros(1, np.int64)], [np.zeros(1, np.uint8)], 1
        for depth in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > depth)
            parent, byte = at[longer], flat[starts[longer] + depth]
            new = np.ones(len(longer), np.bool_)
            new[1:] = (parent[1:] != parent[:-1]) | (byte[1:] != byte[:-1])
            at[longer] = count + np.cumsum(new) - 1
            parents.append(parent[new])
            values.append(byte[new])
            count += int(new.sum())
        self.size = count
        self.byte = np.concatenate(values)
        parent = np.concatenate(parents)[1:]
        self.children = np.bincount(parent, minlength=count)
        self.first = np.zeros(count, np.int64)
        # The children of the nodes in order follow each other, after the root.
        self.first[:] = 1 + np.cumsum(self.children) - self.children
        self.ids = np.array(order, np.int64)
        self.nodes = at
        self.vocabulary = len(tokens)
        self._walks: WeakKeyDictionary[Lexeme, dict[int, Walk]] = WeakKeyDictionary()

    def walk(self, lexeme: Lexeme, state: int, nodes: Array | None = None) -> Walk:
        """The nodes that an automaton reaches from a state at some nodes, by default the root.

        Returns the nodes that it reaches, and those with children at which it accepts.
        """
        if nodes is None:
            walks = self._walks.setdefault(lexeme, {})
            if state not in walks:
                if len(walks) >= _KEPT:
                    walks.clear()
                walks[state] = self.walk(lexeme, state, np.zeros(1, np.int64))
            return walks[state]
        states = np.full(len(nodes), state, np.int64)
        reached, exits = [], []
        while len(nodes):
            counts = self.children[nodes]
            total = int(counts.sum())
            if not total:
                break
            source = np.repeat(np.arange(len(nodes)), counts)
            offset = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            nodes = self.first[nodes][source] + offset
            if not lexeme.filled[states].all():
                for missing in np.unique(states[~lexeme.filled[states]]):
                    lexeme.fill(int(missing))
            states = lexeme.table[states[source], lexeme.classes[self.byte[nodes]]]
            alive = states >= 0
            nodes, states = nodes[alive], states[alive]
            reached.append(nodes)
            exits.append(nodes[lexeme.accepts[states] & (self.children[nodes] > 0)])
        none = np.zeros(0, np.int64)
        ends = np.concatenate(exits or [none])
        return np.concatenate(reached or [none]).astype(np.int32), ends

    def mask(self, live: Array) -> Array:
        """A boolean for each token: whether its node is live."""
        mask = np.zeros(self.vocabulary, np.bool_)
        mask[self.ids] = live[self.nodes]
        return mask
