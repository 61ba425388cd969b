"""Chat templates as this place runs them (jinja2 or, in a tab, JavaScript), and their bounds."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.template import ChatTemplate, load_template, load_template_async

DATA = Path(__file__).parents[1] / "data"
SNIPPETS = json.loads((DATA / "template_snippets.json").read_text(encoding="utf-8"))
MESSAGES = [{"role": "user", "content": "hé"}, {"role": "assistant", "content": "b"}]


def render(source: str, messages: Any = MESSAGES, **extra: Any) -> str:
    return load_template(source).render(messages, **extra)


@pytest.mark.parametrize(("source", "expected"), SNIPPETS, ids=range(len(SNIPPETS)))
def test_gives_what_jinja2_gives(source: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(
            FormatError, match="^chat template, line 1: .|^chat template, line 2: ."
        ):
            render(source)
    else:
        assert render(source) == expected


def test_variables() -> None:
    source = (
        "{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools }}{{ documents }}{{ n }}"
    )
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    assert template.render([]) == "<s></s>TrueNoneNone"
    assert template.render([], add_generation_prompt=False, n=1.0) == "<s></s>FalseNoneNone1.0"
    assert template.render([], tools=[{"b": 1, "a": (2, 3.0)}], n=2**53) == (
        "<s></s>True[{'b': 1, 'a': (2, 3.0)}]None9007199254740992"
    )
    assert template.render([], bos_token="x") == "x</s>TrueNoneNone"
    assert template.source == source


def test_the_time_of_day() -> None:
    pattern = "%Y-%m-%d %B %b %j %A %a %-d %p %% %y %e %I %F"
    before = datetime.now()
    found = render(f"{{{{ strftime_now('{pattern}') }}}}")
    assert found in {moment.strftime(pattern) for moment in (before, datetime.now())}
    with pytest.raises(FormatError, match="strftime_now: %Q is not supported"):
        render("{{ strftime_now('%Q') }}")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (b"x", TypeError, "x is a bytes; supported: JSON's types"),
        ([{1}], TypeError, r"x\[0\] is a set"),
        ({"a": object()}, TypeError, r"x\.a is a object"),
        ({1: 2}, TypeError, "keys are not all str"),
        (2**53 + 1, ValueError, "the number 9007199254740993"),
        (["a\ud800"], ValueError, r"x\[0\] has a lone surrogate"),
    ],
)
def test_values_that_are_not_json_s(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"render: .*{message}"):
        render("{{ x }}", x=value)


def test_a_template_cannot_change_what_it_is_given() -> None:
    messages = [{"role": "user", "content": ["a"]}]
    for source in ("{{ messages[0].content.append(1) }}", "{{ messages[0].update({}) }}"):
        with pytest.raises(FormatError):
            render(source, messages)
    assert messages == [{"role": "user", "content": ["a"]}]


def test_the_line_is_named() -> None:
    source = (
        "a\n{% for m in messages %}\n{{ m.role }}\n{{ m.content.nothing.more }}\n{% endfor %}\n"
    )
    with pytest.raises(FormatError, match="^chat template, line 4: "):
        render(source)
    with pytest.raises(FormatError, match="^chat template, line 3: must alternate$"):
        render("a\n\n{{ raise_exception('must alternate') }}")
    macro = "{% macro f(x) %}\n{{ x.y.z }}\n{% endmacro %}\n\n{{ f(1) }}"
    with pytest.raises(FormatError, match="^chat template, line 2: "):
        render(macro)
    with pytest.raises(FormatError, match="^chat template, line 3: "):
        load_template("a\nb\n{% if %}\n{% endif %}")
    with pytest.raises(FormatError, match="^chat template, line 2: "):
        load_template("{% if 1 %}\n{{ 'a }}\n{% endif %}")


# Each would take more memory or time than there is, or lead out of the sandbox.
_GROW = "{%% set ns = namespace(a=%s, b=%s) %%}{%% for i in range(60) %%}%s{%% endfor %%}"
_LISTS = "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
_MANY = "{% for i in range(99999) %}"
_BIG = "{% set a = 'x' * 4000000 %}{% set b = 'x' * 3999999 ~ 'x' %}"
HOSTILE = {
    "a long range": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "loops in loops": _MANY + _MANY + "{% endfor %}{% endfor %}",
    "much output": _MANY + "" + "x" * 1000 + "{% endfor %}",
    "doubling with +": _GROW % ("'x'", 0, "{% set ns.a = ns.a + ns.a %}"),
    "doubling with ~": _GROW % ("'x'", 0, "{% set ns.a = ns.a ~ ns.a %}"),
    "doubling a list": _GROW % ("[1]", 0, "{% set ns.a = ns.a + ns.a %}"),
    "doubling a block": _GROW % (
        "'x'", 0, "{% set b %}{{ ns.a }}{{ ns.a }}{% endset %}{% set ns.a = b %}"
    ),
    "a repeated text": "{{ 'x' * 10 ** 9 }}",
    "a repeated list": "{{ [1] * 10 ** 9 }}",
    "a huge power": "{{ 10 ** 10 ** 10 }}",
    "a complex power": "{{ (-8) ** 0.5 }}",
    "a product": "{{ 1000000000 * 1000000000 }}",
    "a huge literal": "{{ " + "9" * 5000 + " }}",
    "printing lists in lists": _GROW % ([1], [1], _LISTS) + "{{ ns.a }}",
    "comparing lists in lists": _GROW % ([1], [1], _LISTS) + "{{ ns.a == ns.b }}",
    "searching lists in lists": _GROW % ([1], [1], _LISTS) + "{{ ns.a in [ns.b] }}",
    "JSON of lists in lists": _GROW % ([1], [1], _LISTS) + "{{ ns.a | tojson }}",
    "sorting lists in lists": _GROW % ([1], [1], _LISTS) + "{{ [ns.a, ns.b] | sort | length }}",
    "a list as a key": _GROW % ([1], [1], _LISTS) + "{{ {ns.a: 1} }}",
    "a list as an index": _GROW % ([1], [1], _LISTS) + "{{ {}[ns.a] }}",
    "a list to look up": _GROW % ([1], [1], _LISTS) + "{{ {}.get(ns.a) }}",
    "a dict of lists": _GROW % ([1], [1], _LISTS) + "{{ dict([(ns.a, 1)]) }}",
    "a namespace in itself": "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
    "a width": "{{ 'x'.center(10 ** 9) }}{{ 'x' | center(1000000000) }}",
    "a format's width": "{{ '{:1000000000}'.format(1) }}",
    "a percent format": "{{ '%1000000000d' % 1 }}",
    "an indent": "{{ 'a\nb' | indent(10 ** 9) }}",
    "an indent of JSON": "{{ [1] | tojson(indent=10 ** 9) }}",
    "a replacement": _BIG + "{{ a.replace('x', a) | length }}",
    "a replacement by filter": _BIG + "{{ a | replace('', a) | length }}",
    "a join": _BIG + "{{ a.join(a) | length }}",
    "a join by filter": _BIG + "{{ ([a] * 99999) | join | length }}",
    "a formatted text": _BIG + "{{ ('{0}' * 99999).format(a) | length }}",
    "a macro that calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "macros without end": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}"
    ),
    "comparing long texts": _BIG + _MANY + "{% if a == b %}{% endif %}{% endfor %}",
    "slicing long texts": _BIG + _MANY + "{% set c = a[1:] %}{% endfor %}",
    "folding long texts": _BIG + _MANY + "{% set c = a.upper() %}{% endfor %}",
    "titles of long texts": (
        "{% set a = 'x ' * 2000000 %}" + _MANY + "{% set b = a | title %}{% endfor %}"
    ),
    "many long texts": _BIG + (
        "{% set ns = namespace(l=[]) %}"
        "{% for i in range(1000) %}{% set ns.l = ns.l + [a ~ ''] %}{% endfor %}"
    ),
    "deep brackets": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "deep lists": "{{ " + "[" * 9999 + "1" + "]" * 9999 + " }}",
    "many nots": "{{ " + "not " * 9999 + "1 }}",
    "Python's classes": "{{ ''.__class__.__mro__ }}",
    "Python's globals": "{{ raise_exception.__globals__.x }}",
    "a class in a format": "{{ '{0.__class__}'.format(1) }}",
    "a macro's function": "{% macro f() %}{% endmacro %}{{ f._func.__globals__ }}",
    "a loop's parts": "{% for i in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "a private name": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "another file": "{% include 'other' %}",
    "a base template": "{% extends 'other' %}",
    "many blanks": "{% if 1" + " " * 5000 + "%}{% endif %}",
    "a long source": "x" * 65537,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_ends(name: str) -> None:
    try:
        template = load_template(HOSTILE[name])
    except FormatError:
        return
    # It is stopped by its bounds of steps, text and time: without them it would not end.
    with pytest.raises(FormatError, match="^chat template, line 1: |^chat template, line 2: "):
        template.render(MESSAGES)


def test_a_template_can_be_rendered_again() -> None:
    template = load_template("{% for i in range(20000) %}x{% endfor %}{{ messages[0].role }}")
    for _ in range(3):
        assert template.render(MESSAGES) == "x" * 20000 + "user"
    broken = load_template("{{ messages[5].role }}")
    with pytest.raises(FormatError):
        broken.render(MESSAGES)
    assert broken.render(MESSAGES * 3) == "assistant"


def test_a_long_conversation() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<u>' + m.content.strip() + '</u>' }}"
        "{% elif m.role == 'assistant' %}{{ '<a>' + m['content'] | trim + '</a>' }}{% endif %}"
        "{% endfor %}"
    )
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": "word " * 200}
                for i in range(1000)]  # fmt: skip
    assert len(render(source, messages)) == 1000 * (199 * 5 + 4 + 7)


@pytest.mark.native  # a tab's event loop runs already
def test_loading_can_be_awaited() -> None:
    import asyncio

    template = asyncio.run(load_template_async("{{ bos_token }}a", bos_token="<s>"))
    assert template.render([]) == "<s>a"
