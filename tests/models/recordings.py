"""Recordings of speech with what they say, fetched once and checked by their hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from rushlight.core.io.hub.fetch.http import cache_dir, is_there
from rushlight.core.io.hub.fetch.packages import npm_members, wheel_member

# The site's sample: web/assets.toml says where it is from.
ASSET = tomllib.loads((Path(__file__).parents[2] / "web/assets.toml").read_text("utf-8"))["jfk"]
PACKAGE, VERSION = "moonshine-voice", "0.1.5"
WHEEL = "moonshine_voice-0.1.5-py3-none-manylinux_2_34_x86_64.whl"
HASHES = {
    "beckett": "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
    "two_cities": "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
}
# John F. Kennedy, inaugural address (1961); Samuel Beckett, Worstward Ho (1983); Charles Dickens,
# A Tale of Two Cities (1859).
TEXTS = {
    "jfk": """And so, my fellow Americans, ask not what your country can do for you, ask what you
        can do for your country.""",
    "beckett": "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "two_cities": """It was the best of times, it was the worst of times, it was the age of wisdom,
        it was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity,
        it was the season of light, it was the season of darkness, it was the spring of hope, it was
        the winter of despair, we had everything before us, we had nothing before us, we were all
        going direct to heaven, we were all going direct the other way. In short, the period was so
        far like the present period that some of its noisiest authorities insisted on its being
        received, for good or for evil, in the superlative degree of comparison only.""",
}


def recording(name: str) -> Path:
    """The WAV file of a recording: jfk (11 s), beckett (10 s) or two_cities (44 s)."""
    path = cache_dir() / "recordings" / f"{name}.wav"
    member = f"moonshine_voice/assets/{name}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "jfk":
        (one,) = ASSET["members"]
        if not is_there(path, one["sha256"]):
            members = {one["from"]: path}
            npm_members(ASSET["package"], ASSET["version"], ASSET["integrity"], members)
        return path
    wheel_member(PACKAGE, VERSION, member, path, HASHES[name], wheel=WHEEL)
    return path


def spoken(text: str) -> list[str]:
    """The words without marks and case."""
    return re.sub(r"[^a-z' ]", " ", " ".join(text.lower().split())).split()


def word_errors(found: str, expected: str) -> float:
    """The word error rate: the least edits of words, over the expected ones (Levenshtein, 1966)."""
    a, b = spoken(found), spoken(expected)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1] / len(b)
