"""SentencePiece's table of replaced characters, built from the format of its trie (Darts)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any


def charsmap(rows: Mapping[str, str]) -> str:
    """The `precompiled_charsmap` that replaces each key by its value, in base64.

    A unit of the trie has its label in the low 8 bits, in bit 8 whether a value follows, and from
    bit 10 on the distance (by exclusive or) to the units of its children. A value's unit has bit
    31. The units are followed by the values' texts, each ended by a zero.
    """
    texts, places = b"", {}
    root: dict[Any, Any] = {}
    for key, text in rows.items():
        places[key] = len(texts)
        texts += text.encode() + b"\0"
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = places[key]
    units = {0: 0}
    waiting = [(0, root)]
    while waiting:
        place, node = waiting.pop()
        base = next(b for b in range(1, 1 << 16) if not any(b ^ label in units for label in node))
        units[place] |= (place ^ base) << 10 | (0 in node) << 8
        for label, child in node.items():
            units[base ^ label] = child | 1 << 31 if label == 0 else label
            if label:
                waiting.append((base ^ label, child))
    trie = [units.get(i, 0) for i in range((max(units) | 255) + 1)]
    packed = struct.pack(f"<I{len(trie)}I", 4 * len(trie), *trie) + texts
    return base64.b64encode(packed).decode()
