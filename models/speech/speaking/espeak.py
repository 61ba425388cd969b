"""eSpeak NG, where the user has installed it: phonemes of a hundred languages.

It is under the GPL, so nothing of it comes with this library: a program on PATH is run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

_PROGRAMS = ("espeak-ng", "espeak")
_SECONDS = 30.0
_SWITCHED = re.compile(r"\([a-z-]+\)")  # where a word is of another language
WAY_OUT = (
    "install the program espeak-ng (it is under the GPL and comes apart), or write phonemes into "
    "the text between [[ and ]]"
)


@cache
def program() -> str | None:
    """The path of eSpeak's program; None where there is none."""
    return next((path for name in _PROGRAMS if (path := shutil.which(name))), None)


def phonemes(clauses: list[str], voice: str) -> list[str]:
    """The phonemes of each clause, in IPA, words with spaces between them.

    clauses: texts of one line each. RuntimeError where the program is missing or fails.
    """
    path = program()
    if path is None:
        raise RuntimeError(f"espeak-ng is not installed; {WAY_OUT}")
    out = []
    for clause in clauses:
        command = [path, "-q", "--ipa", "-v", voice, "--", clause.replace("\n", " ")]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"{path} failed: {error}; {WAY_OUT}") from None
        if done.returncode:
            told = done.stderr.decode("utf-8", "replace").strip()[:200]
            raise RuntimeError(f"{path} failed: {told}; {WAY_OUT}")
        lines = _SWITCHED.sub("", done.stdout.decode("utf-8", "replace")).split()
        out.append(" ".join(lines))
    return out
