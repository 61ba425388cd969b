"""An agent: the model calls a calculator or a clock, and their results go back to it.

python examples/agent.py "What is 127 times 31?" [--model smollm2-135m-instruct] [--rounds 3]

Calls are forced to the tools' schemas, so even a small model's calls can be run. Which tool it
takes, and what it makes of the result, is up to the model: larger ones do it well.
"""

from __future__ import annotations

import argparse
import ast
import operator
from collections.abc import Callable
from datetime import datetime
from typing import Any

import rushlight as rl

OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "calculate",
            "description": "The value of numbers with + - * / and parentheses.",
            "parameters": {
                "type": "object",
                "properties": {
                    "expression": {"type": "string", "pattern": "^[0-9.+*/() -]{1,40}$"}
                },
                "required": ["expression"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "clock",
            "description": "The present date and time.",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    },
]


def calculate(expression: str) -> float:
    """The value of an expression of numbers; ValueError for anything else."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -value(inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return float(OPERATORS[type(op)](value(left), value(right)))
        raise ValueError(f"{ast.unparse(node)} is not arithmetic")

    return value(ast.parse(expression, mode="eval").body)


def run(name: str, arguments: dict[str, Any]) -> str:
    """The result of a call, or what is wrong with it, as text for the model."""
    try:
        if name == "calculate":
            return f"{calculate(str(arguments['expression'])):g}"
        return datetime.now().strftime("%A, %d %B %Y, %H:%M")
    except (ValueError, SyntaxError, ZeroDivisionError, OverflowError, KeyError) as error:
        return f"error: {error}"


def main() -> None:
    """Let the model call tools, show each call with its result, then let it answer."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("question")
    arguments.add_argument("--model", default="smollm2-135m-instruct")
    arguments.add_argument(
        "--rounds", type=int, default=1, help="the most calls, one after another"
    )
    arguments.add_argument("--device", default="cpu")
    args = arguments.parse_args()
    model = rl.models.load(args.model, device=args.device)
    messages: list[dict[str, Any]] = [{"role": "user", "content": args.question}]
    for number in range(args.rounds):
        choice = "required" if number == 0 else "auto"
        deltas = model.chat_parts(
            messages,
            tools=TOOLS,
            tool_choice=choice,
            parallel_tool_calls=False,
            max_new_tokens=120,
            temperature=0.0,
        )
        calls = [call for delta in deltas for call in delta.tool_calls]
        if not calls:
            break
        for call in calls:
            result = run(call.name, call.arguments)
            print(f"{call.name}({call.arguments}) = {result}")
            function = {"name": call.name, "arguments": call.arguments}
            messages.append(
                {"role": "assistant", "content": "",
                 "tool_calls": [{"type": "function", "function": function}]}
            )  # fmt: skip
            messages.append({"role": "tool", "name": call.name, "content": result})
    for piece in model.chat(messages, max_new_tokens=80, temperature=0.0):
        print(piece, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
