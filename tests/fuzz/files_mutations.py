"""Mutations of weight files of any format: bytes, numbers, opcodes, and members of an archive.

Deterministic: a case is its number.
"""

from __future__ import annotations

import importlib
import io
import random
import struct
import zipfile
from typing import Any

gguf_mutations: Any = importlib.import_module("gguf_mutations")
OPCODES = b"()]}.012abcdehjlqrstuBCJKMNGQRTUX\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e"
OPCODES += b"\x8f\x90\x91\x92\x93\x94\x95\x96"
TEXTS = (
    b"torch\nFloatStorage\n", b"torch\nDoubleStorage\n", b"torch\nfloat16\n", b"os\nsystem\n",
    b"torch._utils\n_rebuild_tensor_v2\n", b"collections\nOrderedDict\n", b"torch\nSize\n",
    b"collections\nCounter\n", b"collections\ndefaultdict\n", b"collections\ndeque\n",
    b"numpy\ndtype\n", b"numpy._core.multiarray\n_reconstruct\n", b"__builtin__\nset\n",
    b"numpy._core.multiarray\nscalar\n", b"decimal\nDecimal\n", b"__builtin__\ngetattr\n",
    b"datetime\ndatetime\n", b"torch._utils\n_rebuild_sparse_tensor\n",
    b"copy_reg\n_reconstructor\n",
    b"'<f8'", b"'>f4'", b"'|O'", b"True", b"False", b"()", b"(3,)", b"(9999999999, 0)",
)  # fmt: skip


def numbers(content: bytes, rng: random.Random, reach: int) -> bytes:
    """A number of two, four or eight bytes is another."""
    size = rng.choice([2, 4, 4, 8])
    at = rng.randrange(max(1, min(reach, len(content)) - size))
    value = rng.choice(gguf_mutations.WHOLE) % 2 ** (8 * size)
    order = rng.choice(["little", "little", "little", "big"])
    packed: bytes = value.to_bytes(size, order)
    return content[:at] + packed + content[at + size :]


def opcodes(content: bytes, rng: random.Random, reach: int) -> bytes:
    """A pickle has other opcodes, or asks for other names."""
    at, how = rng.randrange(max(1, min(reach, len(content)))), rng.randrange(4)
    if how == 0:
        return content[:at] + bytes([rng.choice(OPCODES)]) + content[at + 1 :]
    if how == 1:
        new = bytes(rng.choice(OPCODES) for _ in range(rng.choice([1, 2, 5, 40])))
        return content[:at] + new * rng.choice([1, 1, 1, 200]) + content[at:]
    if how == 2:
        return content[:at] + rng.choice(TEXTS) + content[at:]
    old = rng.choice(TEXTS)
    return content.replace(old, rng.choice(TEXTS), 1)


def cut(content: bytes, rng: random.Random, _: int) -> bytes:
    """The end is missing, or there is more of it."""
    if rng.random() < 0.8:
        return content[: rng.randrange(len(content) + 1)]
    return content + rng.randbytes(rng.choice([1, 8, 1000]))


def scrambled(content: bytes, rng: random.Random) -> bytes:
    """Some places of the content are others; half of the time near its beginning."""
    if rng.random() < 0.25:  # one bit, which is often valid
        at = rng.randrange(len(content))
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    reach = 1500 if rng.random() < 0.5 else len(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        how = rng.choice([numbers, numbers, opcodes, cut, None])
        if how is not None:
            content = how(content, rng, reach)
        else:
            content = gguf_mutations.random_bytes(content or b"\0", rng)
    return content


def members(content: bytes, rng: random.Random) -> bytes:
    """A member of an archive is another, is missing, stands twice or has another name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found: list[tuple[str, bytes]] = [
            (info.filename, archive.read(info)) for info in archive.infolist()
        ]
    at, how = rng.randrange(len(found)), rng.randrange(12)
    if how < 8:
        pickled = [i for i, (name, _) in enumerate(found) if name.endswith(".pkl")]
        at = pickled[0] if pickled and how < 7 else at
        found[at] = found[at][0], scrambled(found[at][1] or b"\0", rng)
    elif how == 8:
        found.pop(at)
    elif how == 9:
        name = rng.choice(["a", "x/data.pkl", "a/byteorder", "../a.npy", "a" * 60_000])
        found[at] = name, found[at][1]
    elif how == 10:
        found.append(("a/byteorder", rng.choice([b"big", b"little", b"middle"])))
    else:
        rng.shuffle(found)
    buffer = io.BytesIO()
    packed = zipfile.ZIP_DEFLATED if rng.random() < 0.2 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", packed) as made:
        names = set()
        for name, data in found:
            if name not in names:
                made.writestr(name, data)
            names.add(name)
    return buffer.getvalue()


def directory(content: bytes, rng: random.Random) -> bytes:
    """A number in an archive's directory, or before a member, is another."""
    signs = [b"PK\1\2", b"PK\5\6", b"PK\3\4", b"PK\6\6", b"PK\6\7"]
    places = [at for sign in signs for at in (content.find(sign), content.rfind(sign)) if at >= 0]
    at = rng.choice(places) + rng.randrange(46)
    form = rng.choice("BHIIQ")
    value = rng.choice([*gguf_mutations.WHOLE, len(content)]) % 2 ** (8 * struct.calcsize(form))
    new = struct.pack("<" + form, value)
    return content[:at] + new + content[at + len(new) :]


WORDS = (b"0", b"1", b"2", b"3", b"7", b"-1", b"-4", b"33", b"65536", b"999999999", b"10000000000",
         b"", b"x", b"1.5", "\u0663".encode(), b"0,1", b"leaky", b"[net]", b"=")  # fmt: skip


def settings(content: bytes, rng: random.Random) -> bytes:
    """A .cfg has other numbers, or lines that are missing or stand twice."""
    lines = content.split(b"\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(lines.index(CUT) if CUT in lines else len(lines))
        how, (key, sign, _) = rng.randrange(6), lines[at].partition(b"=")
        if how == 0 and lines[at] != CUT:
            lines.pop(at)
        elif how == 1:
            lines.insert(at, rng.choice(lines[: at + 1]))
        elif sign:
            lines[at] = key + sign + rng.choice(WORDS)
    return b"\n".join(lines)


CUT = b";;"  # the line between a .cfg and its .weights


def mutate(content: bytes, number: int) -> bytes:
    """The mutation of a valid file that has this number."""
    rng = random.Random(number)
    if content.startswith(b"\n[net]") and rng.random() < 0.8:
        return settings(content, rng)
    if content[:2] == b"PK" and rng.random() < 0.8:
        return members(content, rng) if rng.random() < 0.7 else directory(content, rng)
    if content[:4] == b"GGUF" and content[4] in (2, 3) and rng.random() < 0.6:
        return bytes(gguf_mutations.mutate(content, number))
    return scrambled(content, rng)
