"""A llama whose answers are known, as a GGUF file, and a site with it.

Each of its tokens has one successor.
Embedding rows are unit vectors and the head maps each to its token's successor, so the last token
of the prompt begins a chain. The blocks between are random and small, in q8_0.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import rushlight as rl
from rushlight.site.builder.build import build

SIZE = 512
LAYERS = 2
CONTEXT = 2000
CONTROL, NORMAL, USER_DEFINED = 3, 1, 4
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if tools and not messages %}{{ tools }}{% endif %}"  # it knows tools, and needs no list
)
EVIL = (
    'Look: <img src=x onerror="document.title=1"> and ',
    "[one](javascript:document.title=2) [two](https://example.com/) ",
    "![three](https://example.com/pixel.png)",
    "\n\n<script>document.title=3</script>\n\n<b>bold</b> & **strong**",
)
LIGHT = (
    "A",
    " rushlight",
    " is a",
    " **cheap**",
    " light:",
    "\n\n- rush",
    "\n- fat",
    "\n\nNo wax.",
)
# Words of a message -> the answer when the message ends with one of them.
THOUGHT = ("<think>", "Hm **so**.", "</think>", "It", " burns.")
CALL = (
    "<tool_call>",
    '{"name": "calculator", "arguments": ',
    '{"expression": "6 * (3 + 4)"}}',
    "</tool_call>",
)
ANSWERS = {"light": LIGHT, "evil": EVIL, "ponder": THOUGHT, "reckon": CALL}
DICE = tuple(f" {n}" for n in range(1, 7))


def _spelled() -> dict[int, str]:
    """Byte -> the character that byte-level vocabularies write for it."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def write_chain(path: Path, **options: Any) -> None:
    """Write the model; its messages end in "clock" (for ever), "dice" or a word of ANSWERS."""
    spell = _spelled()

    def piece(text: str) -> str:
        return "".join(spell[b] for b in text.encode())

    tokens = [(spell[b], NORMAL) for b in range(256)]
    tokens += [(f"<|{name}|>", CONTROL) for name in ("end", "system", "user", "assistant")]
    tokens += [(word, USER_DEFINED) for word in (*ANSWERS, "clock", "dice")]
    made = ["ab", " tick", " tock", *LIGHT, *EVIL, *THOUGHT, *CALL, *DICE]
    seen = {name for name, _ in tokens}
    tokens += [(piece(text), NORMAL) for text in made if piece(text) not in seen]
    ids = {name: i for i, (name, _) in enumerate(tokens)}
    end = ids["<|end|>"]
    after = {i: ids[piece("A")] for i in range(len(tokens))}
    for word, texts in ANSWERS.items():
        chain = [ids[word], *(ids[piece(text)] for text in texts), end]
        after |= dict(pairwise(chain))
    after[ids["clock"]] = after[ids[piece(" tock")]] = ids[piece(" tick")]
    after[ids[piece(" tick")]] = ids[piece(" tock")]
    head = np.zeros((SIZE, SIZE), np.float32)
    for token, successor in after.items():
        head[successor, token] = 4.0
    for text in DICE:  # all equally likely, and the end after each
        head[:, ids[piece(text)]] = 0
        head[ids[piece(text)], ids["dice"]] = 4.0
        head[end, ids[piece(text)]] = 4.0
    head[ids[piece("A")], ids["dice"]] = 0
    tokens += [(f"[unused{i}]", NORMAL) for i in range(SIZE - len(tokens))]

    out = gguf.GGUFWriter(path, "llama", **options)
    out.add_context_length(CONTEXT)
    out.add_embedding_length(SIZE)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(SIZE)
    out.add_head_count(4)
    out.add_head_count_kv(2)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(SIZE // 4)
    out.add_vocab_size(SIZE)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list([name for name, _ in tokens])
    out.add_token_types([kind for _, kind in tokens])
    out.add_token_merges(["a b"])
    out.add_bos_token_id(end)
    out.add_eos_token_id(end)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    out.add_tensor("token_embd.weight", np.eye(SIZE, dtype=np.float32))
    out.add_tensor("output.weight", head)
    out.add_tensor("output_norm.weight", np.ones(SIZE, np.float32))
    rng = np.random.default_rng(0)
    kinds = {"attn_q": SIZE, "attn_k": SIZE // 2, "attn_v": SIZE // 2, "attn_output": SIZE}
    kinds |= {"ffn_gate": SIZE, "ffn_up": SIZE, "ffn_down": SIZE}
    q8 = gguf.GGMLQuantizationType.Q8_0
    for i in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{i}.{name}.weight", np.ones(SIZE, np.float32))
        for name, rows in kinds.items():
            values = rng.normal(0, 0.002, (rows, SIZE)).astype(np.float32)
            blocks = gguf.quants.quantize(values, q8)
            out.add_tensor(f"blk.{i}.{name}.weight", blocks, raw_dtype=q8)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model, 5.5 MB. Read only."""
    folder = tmp_path_factory.mktemp("gguf") / "chain"
    folder.mkdir()
    write_chain(folder / "chain.gguf")
    return folder


@pytest.fixture
def chain_parts(tmp_path: Path) -> dict[str, bytes]:
    """The same model in three files."""
    write_chain(tmp_path / "links.gguf", split_max_tensors=9)
    found = {path.name: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    assert [*found] == [f"links-{n:05}-of-00003.gguf" for n in (1, 2, 3)]
    return found


@pytest.fixture(scope="session")
def chain_native(chain: Path) -> Any:
    """The model in this process."""
    return rl.models.load(str(chain))


@pytest.fixture(scope="session")
def chat_site(tmp_path_factory: pytest.TempPathFactory, chain: Path, tiny_model: Path) -> Path:
    """A built site with the model, and a sentence model beside it. Read only."""
    out = tmp_path_factory.mktemp("chat") / "site"
    build(out, [("tiny", tiny_model), ("chain", chain)])
    return out


@pytest.fixture(scope="module")
def place(module_serve: Callable[..., Any], chat_site: Path) -> Any:
    """A server of the site."""
    return module_serve(chat_site)
