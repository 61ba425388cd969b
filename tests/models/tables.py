"""Questions about tables, as ids and types, for tests and for the script that makes goldens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Changes of config.json, by the name of each golden.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"allow_empty_column_selection": False},
    "empty": {"allow_empty_column_selection": True},
}


def inputs() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """ids (2, 18), types (2, 18, 7) and a mask: a question of five tokens, and a table.

    The table has a head and two rows of three cells, one of two tokens; the second text is shorter.
    """
    draws = np.random.default_rng(6)
    ids = draws.integers(1, 50, (2, 18))
    types = np.zeros((2, 18, 7), np.int64)
    types[:, 5:, 0] = 1
    columns = [1, 2, 3, 1, 1, 2, 3, 1, 2, 2, 3, 3, 5]
    rows = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 6]
    types[:, 5:, 1], types[:, 5:, 2] = columns, rows
    types[:, 8:, 4], types[:, 8:, 6] = draws.integers(0, 7, 10), draws.integers(0, 4, 10)
    mask = np.ones((2, 18), np.int64)
    mask[1, 14:], types[1, 14:], ids[1, 14:] = 0, 0, 0
    return ids, types, mask
