"""The forms of thoughts and calls in the answers of chat models: one table of each.

The forms are those that the models' published chat templates ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rushlight.models.generation.answers import bodies
from rushlight.models.generation.answers.bodies import Rows, any_of, named_json


@dataclass(frozen=True)
class Calls:
    """A form of calls: what opens it, what closes it, and the reader of its body.

    closing: none if the calls go on to the next opening or to the end. line: only where a line
    begins, as the opening is made of plain words. whole: the opening is part of the body.
    """

    opening: str
    closing: tuple[str, ...]
    read: Callable[[str], Rows]
    line: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Thoughts:
    """A form of thoughts. implied: prompts may hold the opening, so that only the closing stands.

    needed: it is a thought only if the closing follows, as the opening is made of plain words.
    """

    opening: str
    closing: str
    implied: bool = False
    needed: bool = False


_TAGGED = any_of(
    bodies.json_calls,
    bodies.xml_calls,
    bodies.keys_and_values,
    named_json("<tool_sep>"),
    bodies.name_alone,
    bodies.program_calls,
)
_DEEPSEEK = named_json(
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁begin｜>",
    end="<｜tool▁call▁end｜>",
)
_KIMI = named_json(
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    end="<|tool_call_end|>",
)
_SOLAR = named_json(
    "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"
)
_INNER = named_json("<tool_call>", "<tool_sep>", "</tool_call>")


def _several(body: str) -> Rows:
    """Calls in tags of their own within the tags of all."""
    parts = body.replace("<tool_call:opensource>", "<tool_call>")
    parts = parts.replace("</tool_call:opensource>", "</tool_call>")
    calls = []
    for tagged in parts.split("<tool_call>"):
        inner = tagged.strip().removesuffix("</tool_call>")
        if not inner:
            continue
        rows = _TAGGED(inner)
        if rows is None:
            return None
        calls += rows
    return calls or None


def _function_calls(body: str) -> Rows:
    """JSON, where a tag may stand between two calls that nothing closes."""
    return bodies.json_calls(body.replace("<function_call>", ";"))


def _functools(body: str) -> Rows:
    return bodies.json_calls(body.removeprefix("functools"))


CALLS = (
    # Hermes, Qwen 2.5 and 3, Granite 4, EXAONE 4, SmolLM3, ERNIE 4.5, Falcon-H1, OLMo 3 with JSON;
    # Qwen3-Coder, Qwen 3.5 and Nemotron 3 with XML; GLM 4.5 with keys and values.
    Calls("<tool_call>", ("</tool_call>",), _TAGGED),
    Calls("<tool_calls>", ("</tool_calls>",), any_of(bodies.json_calls, _several, _INNER)),
    Calls("<tool_calls:opensource>", ("</tool_calls:opensource>",), _several),  # Hunyuan 3
    Calls(
        "<function_calls>",
        ("</function_calls>",),  # OLMo 3
        any_of(bodies.program_calls, bodies.xml_calls, bodies.json_calls),
    ),
    Calls("<function=", ("</function>",), bodies.xml_calls, whole=True),
    Calls('<function name="', ("</function>",), bodies.xml_calls, whole=True),  # MiniCPM
    Calls("<seed:tool_call>", ("</seed:tool_call>",), bodies.xml_calls),
    Calls("<minimax:tool_call>", ("</minimax:tool_call>",), bodies.xml_calls),
    Calls("<longcat_tool_call>", ("</longcat_tool_call>",), _TAGGED),
    Calls("<steptml:toolcall>", ("</steptml:toolcall>",), bodies.xml_calls),
    Calls("<｜DSML｜function_calls>", ("</｜DSML｜function_calls>",), bodies.xml_calls),
    Calls("<｜DSML｜tool_calls>", ("</｜DSML｜tool_calls>",), bodies.xml_calls),
    Calls("<atem:function_calls>", ("</atem:function_calls>",), bodies.xml_calls),
    Calls("<function_call>", ("</function_call>",), _function_calls),  # Granite 20B
    Calls("<TOOLCALL>", ("</TOOLCALL>",), bodies.json_calls),  # Nemotron Nano
    Calls("<|tools_prefix|>", ("<|tools_suffix|>",), bodies.keyed_calls),  # Apertus
    Calls("<|START_ACTION|>", ("<|END_ACTION|>",), bodies.json_calls),  # Command R7B and A
    Calls("Action:\n```json", ("```",), bodies.json_calls, line=True),  # Command R
    Calls("Action: ```json", ("```",), bodies.json_calls, line=True),
    Calls("Action:```json", ("```",), bodies.json_calls, line=True),
    Calls(
        "<|tool_call_start|>",
        ("<|tool_call_end|>",),  # LFM2
        any_of(bodies.program_calls, bodies.json_calls),
    ),
    Calls("<|tool_calls_section_begin|>", ("<|tool_calls_section_end|>",), _KIMI),
    Calls("<|tool_call_begin|>", ("<|tool_call_end|>",), _KIMI),
    Calls("<｜tool▁calls▁begin｜>", ("<｜tool▁calls▁end｜>",), _DEEPSEEK),
    Calls("<｜tool▁call▁begin｜>", ("<｜tool▁call▁end｜>",), _DEEPSEEK),
    Calls("[TOOL_CALLS]", (), bodies.mistral_calls),
    Calls("<|tool_call>", ("<tool_call|>",), bodies.braced_calls),  # Gemma 4
    Calls("<start_function_call>", ("<end_function_call>",), bodies.braced_calls),
    Calls("<|tool_call|>", ("<|/tool_call|>",), bodies.json_calls),  # Granite 3, Phi-4-mini
    Calls("functools[", (), _functools, line=True, whole=True),  # Phi-4-mini
    Calls("<|python_tag|>", (), bodies.builtin_calls),  # Llama 3
    Calls(
        "<|python_start|>",
        ("<|python_end|>",),  # Llama 4
        any_of(bodies.program_calls, bodies.json_calls),
    ),
    Calls("<|action_start|><|plugin|>", ("<|action_end|>",), bodies.json_calls),  # InternLM
    Calls("<|action_start|> <|plugin|>", ("<|action_end|>",), bodies.json_calls),
    Calls("<|tool_call:begin|>", ("<|tool_call:end|>",), _SOLAR),
    Calls("<|function_call|>", ("<|message_sep|>",), bodies.json_calls),  # GigaChat
    Calls("function call<|role_sep|>", ("<|message_sep|>",), bodies.json_calls, line=True),
    Calls("```tool_code\n", ("```",), bodies.program_calls, line=True),  # Gemma
    Calls("```tool_call\n", ("```",), any_of(bodies.json_calls, bodies.program_calls), line=True),
    Calls("```function_call\n", ("```",), bodies.json_calls, line=True),
)

THOUGHTS = (
    Thoughts("<think>", "</think>", implied=True),
    Thoughts("<thinking>", "</thinking>"),
    Thoughts("<thought>", "</thought>"),
    Thoughts("<seed:think>", "</seed:think>", implied=True),
    Thoughts("<mm:think>", "</mm:think>", implied=True),
    Thoughts("<think:opensource>", "</think:opensource>", implied=True),
    Thoughts("[THINK]", "[/THINK]", implied=True),  # Magistral
    Thoughts("<|START_THINKING|>", "<|END_THINKING|>", implied=True),  # Command R7B and A
    Thoughts("<|channel>thought", "<channel|>"),  # Gemma 4
    Thoughts("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    Thoughts("<|begin_of_thought|>", "<|end_of_thought|>"),
    Thoughts("<unused94>thought", "<unused95>"),
    Thoughts("<|thought_start|>", "<|thought_end|>"),  # MiniCPM3
    Thoughts("<reasoning>", "</reasoning>"),  # Reka Flash
    Thoughts("◁think▷", "◁/think▷", implied=True),
    Thoughts("Here is my thought process:", "Here is my response:", needed=True),  # Granite 3.2
    Thoughts("Here's my thought process:", "Here's my response:", needed=True),
    Thoughts("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", implied=True, needed=True),
)

# Tags around what is said after a thought: dropped there.
WRAPPERS = {
    "<response>": "</response>",
    "<answer>": "</answer>",
    "<|START_RESPONSE|>": "<|END_RESPONSE|>",
    "<|START_TEXT|>": "<|END_TEXT|>",
    "<|begin_of_solution|>": "<|end_of_solution|>",
}
# Those that are tokens: dropped wherever they stand.
TOKENS = frozenset(tag for pair in WRAPPERS.items() for tag in pair if tag.startswith("<|"))
# Qwen3-Coder may leave out the opening of its calls, but not their closing.
STRAY = "</tool_call>"
# Tokens that end an answer, which a text has where its maker keeps special tokens.
ENDS = (
    "</s>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end|>",
    "<|return|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "<turn|>",
    "<|tool_response>", "<start_function_response>", "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>", "<|observation|>", "<|user|>", "[e~[", "<seed:eos>", "[|endofturn|]",
    "<|assistant_end|>",
)  # fmt: skip
# Harmony, the form of gpt-oss: messages with a header.
HARMONY = ("<|start|>", "<|channel|>")
HEAD_ENDS = "<|message|>"
MESSAGE_ENDS = ("<|end|>", "<|call|>", "<|return|>", *HARMONY)
LONGEST_HEAD = 512

# All that marks a part of an answer.
MARKS = (
    *(mark for row in CALLS for mark in (row.opening, *row.closing)),
    *(mark for row in THOUGHTS for mark in (row.opening, row.closing)),
    *(mark for pair in WRAPPERS.items() for mark in pair),
    *MESSAGE_ENDS, HEAD_ENDS, "<|constrain|>",
    "<|tool_call_argument_begin|>", "<｜tool▁sep｜>", "[ARGS]", "[CALL_ID]", '<|"|>', "<escape>",
    "<|tool_call:name|>", "<|tool_call:args|>", "<|plugin|>", "<arg_key>", "</arg_key>",
    "<arg_value>", "</arg_value>", "<|channel>", "<|action_start|>",
)  # fmt: skip
