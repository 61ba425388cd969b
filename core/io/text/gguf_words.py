"""Patterns that split a text into words for BPE vocabularies of GGUF, by pre-tokenizer name.

The name is the file's `tokenizer.ggml.pre`. Each pattern in turn splits the words of the patterns
before it; matches and the text between them become words. The patterns are those of the models'
tokenizers, as llama.cpp (src/llama-vocab.cpp) lists them by these names.
"""

from __future__ import annotations

# English contractions in either case, spelled out, as case folding would also match U+017F.
CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ASCII_WORD = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"


def _words(digits: str) -> str:
    """The pattern of LLaMA 3 and relatives; `digits` is the quantifier of a number's digits."""
    return rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}|{_REST}"


def _cased(digits: str, suffix: str = "") -> str:
    """The pattern of GPT-4o and relatives, which splits before a capital."""
    lead, rest = r"[^\r\n\p{L}\p{N}]?", _REST.replace(r"[\r\n]*", r"[\r\n/]*", 1)
    first, other = f"{lead}{_UPPER}*{_LOWER}+{suffix}", f"{lead}{_UPPER}+{_LOWER}*{suffix}"
    return rf"{first}|{other}|\p{{N}}{digits}|{rest}"


# The letters with case of deepseek-llm's pattern (of Unicode 10).
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59"
    "\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)

_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
_DIGITS_APART = (r"\p{N}", GPT2)
_LLAMA3 = (_words("{1,3}"),)
_QWEN2 = (_words(""),)
_NOT_PUNCTUATION = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    _CJK,
    _ASCII_WORD + r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)

PATTERNS: dict[str, tuple[str, ...]] = {
    "": _DEFAULT,
    "default": _DEFAULT,
    **dict.fromkeys(
        "gpt-2 phi-2 mpt olmo jais exaone4 trillion granite-docling gigachat mellum jina-es "
        "jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe modern-bert "
        "a.x-4.0".split(),
        (GPT2,),
    ),
    **dict.fromkeys(
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2".split(),
        _DIGITS_APART,
    ),
    **dict.fromkeys(
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx "
        "smaug-bpe chatglm-bpe glm4 glm5".split(),
        _LLAMA3,
    ),
    **dict.fromkeys(
        "qwen2 stablelm2 deepseek-r1-qwen kormo f2llmv2 megrez hunyuan solar-open grok-2".split(),
        _QWEN2,
    ),
    "qwen35": (
        rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"),
    "deepseek-llm": (
        r"[\r\n]",
        rf"\s?[{_DEEPSEEK_LETTERS}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}+",
    ),
    "deepseek-coder": (
        r"[\r\n]",
        r"\s?\p{L}+",
        r"\s?\p{P}+",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}",
    ),
    **dict.fromkeys("deepseek-v3 hunyuan-dense joyai-llm hy_v4".split(), _DEEPSEEK3),
    "tekken": (_cased(""),),
    **dict.fromkeys(
        "gpt-4o llama4 kanana2 talkie minimax-m2".split(), (_cased("{1,3}", f"{CONTRACTIONS}?"),)
    ),
    **dict.fromkeys("poro-chat bloom gpt3-finnish".split(), (_NOT_PUNCTUATION,)),
    "viking": (_NOT_PUNCTUATION, r"\p{N}"),
}

# These look a whole word up before merging.
IGNORE_MERGES = frozenset(
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5 "
    "tekken".split()
)
# These add a start token by default.
ADD_BOS = IGNORE_MERGES - {"glm4", "glm5"}
