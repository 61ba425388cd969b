"""Chat templates as this place runs them (jinja2 or, in a tab, JavaScript), and their bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2.exceptions import TemplateRuntimeError

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.sandbox_meter import Meter
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
    "doubling a block": _GROW
    % ("'x'", 0, "{% set b %}{{ ns.a }}{{ ns.a }}{% endset %}{% set ns.a = b %}"),
    "a repeated text": "{{ 'x' * 10 ** 9 }}",
    "a repeated list": "{{ [1] * 10 ** 9 }}",
    "a huge power": "{{ 10 ** (10 ** 10) }}",
    "a complex power": "{{ (-8) ** 0.5 }}",
    "a product": "{{ 2 ** 8000 * 2 ** 8000 }}",
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
    "many long texts": _BIG
    + (
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
    "a long source": "x" * 65537,
    "much source": "{{a}}" * 13000,
}

# Each ran for longer than the bound of time, because what it calls was not counted.
_LONG = "{% set s = 'a' * 4000000 %}{% for i in range(900) %}"
_DEEP = _GROW % ("(1,)", "(1,)", "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}")
_PAIR = "{% for x in [ns.a, ns.b] %}"
SLOW = {
    "unclosed tags": "{{ ('<' * 4000000) | striptags }}",
    "map over letters": _LONG + "{% set x = s | map(attribute='x') %}{% endfor %}",
    "rejectattr over letters": _LONG + "{% set x = s | rejectattr('x') %}{% endfor %}",
    "a cycle of letters": _LONG + "{{ loop.cycle(*s) }}{% endfor %}",
    "the case of a long text": _LONG + "{{ s is lower }}{% endfor %}",
    "a list of letters": _LONG + "{% set x = s | list %}{% endfor %}",
    "lists of letters": "{% set x = (['😀' * 2000000] * 99) | map('list') %}",
    "a loop over letters": "{% for c in '😀' * 2000000 %}{{ loop.length }}{% endfor %}",
    "has it changed": _DEEP + _PAIR + "{{ loop.changed(x) }}{% endfor %}",
    "a deep key of a namespace": _DEEP + "{{ namespace([(ns.a, 1)]) }}",
    "a deep key to look for": _DEEP + "{{ ns.a in {} }}",
    "deep keys": _DEEP + "{{ [ns.a] | unique }}",
    "a deep error": _DEEP + "{{ raise_exception(ns.a) }}",
    "a format that is even": "{{ '%1000000000d' is even }}",
    "a format that is divisible": "{{ '%1000000000d' is divisibleby(5) }}",
    "from the end": "{% set s = 'a' * 2000000 %}{{ s.rfind('ab' ~ 'a' * 1000000) }}",
    "cut from the end": "{% set s = 'a' * 2000000 %}{{ s.rsplit('ab' ~ 'a' * 1000000) }}",
    "a strip of many": "{% set s = 'a' * 2000000 %}{{ s.strip('b' * 2000000 ~ 'a') }}",
    "a trim of many": "{% set s = 'a' * 2000000 %}{{ s | trim('b' * 2000000 ~ 'a') }}",
    "a path of many": "{% set a = 'a.' * 20000 %}{{ ([{}] * 9999) | map(attribute=a) }}",
    "long names": _LONG + "{% set x = messages[0][s] %}{% endfor %}",
    "much in a loop": "{% set x = none %}" + _MANY + "{{ x or x or x }}" * 1000 + "{% endfor %}",
    "much in a macro": (
        "{% set x = none %}{% macro f() %}"
        + "{% if x %}{% endif %}" * 2000
        + "{% endmacro %}"
        + _MANY
        + "{{ f() }}{% endfor %}"
    ),
    "texts that sort slowly": (
        "{% set s = 'a' * 40000 %}{% set l = (s ~ 'b', s ~ 'c') * 40 %}"
        + _MANY
        + "{% set x = l | sort %}{% endfor %}"
    ),
    "lists in lists at great depth": (
        _GROW.replace("60", "60000") % ("[]", "[]", "{% set ns.a = [ns.a] %}") + "{{ ns.a }}"
    ),
    "long separators": (
        "{% set s = 'x' * 4000000 %}{{ [[[1]]] | tojson(indent=1, separators=(s, s)) }}"
    ),
}
# Each held hundreds of megabytes before it was stopped.
_KEEP = (
    "{%% set ns = namespace(l=[]) %%}"
    + _MANY.replace("%", "%%")
    + ("{%% set ns.l = [ns.l, %s] %%}{%% endfor %%}")
)
GREEDY = {
    "tags": "{{ ('a<>' * 1000000) | striptags | length }}",
    "letters": _KEEP % "('😀' * 99999) | list",
    "numbers": _KEEP % "range(99999) | list",
    "repeated lists": _KEEP % "[1] * 99999",
    "texts": _KEEP % "'😀' * 1000000",
    "a long literal": _KEEP % ("[" + "1," * 8000 + "]"),
    "methods": "{% set s = 'a' %}" + _KEEP % ("[" + "s.format," * 4000 + "]"),
    "arguments": (
        "{% macro f() %}{% set ns.l = [ns.l, varargs] %}{% endmacro %}{% set s = 'a' %}"
        "{% set ns = namespace(l=[]) %}" + _MANY + "{{ f(" + "s.format," * 4000 + ") }}{% endfor %}"
    ),
    "namespaces": _KEEP % "namespace(a=1)",
    "dicts": _KEEP % "{'a': 1, 'b': 2, 'c': 3}",
    "macros": _KEEP % "1"
    + _MANY
    + "{% macro f() %}{% endmacro %}{% set ns.l = [ns.l, f] %}"
    + "{% endfor %}",
    "loops": _MANY.join(("{% set ns = namespace(l=[]) %}", "{% for x in [1] %}"))
    + "{% set ns.l = [ns.l, loop] %}{% endfor %}{% endfor %}",
    "lines": "{% set s = '\n' * 4000000 %}{{ s.splitlines() | length }}",
    "words": "{% set s = 'a ' * 2000000 %}{{ s.split() | length }}",
    "titles": "{% set s = '- ' * 1900000 %}{{ s | title | length }}",
    "texts to sort": "{% set s = '😀' * 1000000 %}{{ ([s, s, s, s] * 24) | sort | length }}",
    "texts in lists": "{% set s = ['\U000e0001' * 100000] %}{{ " + "s ~ " * 900 + "s }}",
    "lists of many lists": (
        "{% set ns = namespace(l=[1] * 99999) %}{% for i in range(60) %}"
        "{% set ns.l = [ns.l] * 90000 %}{% endfor %}{{ ns.l == [ns.l] }}"
    ),
    "letters in capitals": "{% set s = 'ΐ' * 4000000 %}{{ s.upper() | length }}",
    "names in the source": "{{ f(" + "a," * 4000 + ") }}",
}
MOST_MB = 112


PRIVATE = ("each", "scope", "concat", "weigh", "made", "held", "key")


@pytest.mark.parametrize("name", [f"{mark}{name}" for name in PRIVATE for mark in ("!", "_", "")])
def test_the_meter_s_own_functions_are_out_of_reach(name: str) -> None:
    refused = (
        "{%% set _ = [-10**15] | map('%s', -10**15) | list %%}",
        "{%% set f = '%s' %%}{{ [1] | map(f) | list }}",
        "{{ [[1]] | map('map', '%s') | list }}",
        "{{ [1] | select('%s') | list }}",
        "{{ [1] | rejectattr('x', '%s') | list }}",
        "{{ [1] | sort(attribute='x') | map('%s', 1) }}",
    )
    for source in refused:
        with pytest.raises(FormatError, match="chat template, line 1: "):
            render(source % name)
    with pytest.raises(FormatError):
        render("{{ 1 | " + name + " }}")


def test_counts_are_never_negative() -> None:
    meter = Meter()
    for count in (meter.charge, meter.keep):
        with pytest.raises(TemplateRuntimeError, match="counts -1"):
            count(-1)
    before = meter.steps, meter.memory
    meter.size(-(10**9))
    meter.items(-(10**9))
    assert meter.steps < before[0] and meter.memory < before[1]
    for source in ("{{ 'a' * -10 ** 15 }}", "{{ [1] * -10 ** 15 | length }}", "{{ 'a'.rjust }}"):
        try:
            render(source)
        except FormatError:
            pass


def test_the_clock_is_read_however_little_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rushlight.core.io.text.sandbox_meter.SECONDS", -1)
    meter = Meter()
    with pytest.raises(TemplateRuntimeError, match="seconds"):
        for _ in range(2000):
            meter.charge(0)


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the bound of time: counting alone has to stop a template, on a busy machine too."""
    monkeypatch.setattr("rushlight.core.io.text.sandbox_meter.SECONDS", 1e9)


@pytest.mark.parametrize("name", [*HOSTILE, *SLOW, *GREEDY])
def test_a_hostile_template_ends(name: str) -> None:
    try:
        template = load_template((HOSTILE | SLOW | GREEDY)[name])
    except FormatError:
        return
    # It is stopped by what it counts: without that it would not end.
    with pytest.raises(FormatError, match="^chat template, line 1: |^chat template, line 2: ") as e:
        template.render(MESSAGES)
    assert len(str(e.value)) < 600


_GROWTH = """
import json, os, sys
from rushlight.core.io.text.template import load_template
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
load_template("{{ messages }}").render([])
found = {}
for name, source in json.load(sys.stdin).items():
    read, write = os.pipe()
    if not os.fork():
        before = peak()
        try:
            load_template(source).render([])
        except ValueError:
            pass
        os.write(write, str(peak() - before).encode())
        os._exit(0)
    os.close(write)
    found[name] = float(os.read(read, 99))
    os.wait()
print(json.dumps(found))
"""


def test_what_is_never_closed_is_looked_for_once() -> None:
    """A search from every place to the end would take hours."""
    source = "{{ (first * 90000 ~ 'x' * 3000000) | striptags | length }}"
    for first, lasting in (("<!--", 1), ("<", 1), ("<!-- ", 2)):
        words = [first.strip()] * 90_000
        length = len(" ".join(words) if lasting == 2 else "".join(words)) + 3_000_000 + lasting - 1
        assert render(source, first=first) == str(length)
    assert render("{{ 'a<!-- <b> -->b<i>c</i>&lt;<' | striptags }}") == "abc<<"


@pytest.mark.native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_greedy_template_is_stopped_before_it_holds_much() -> None:
    command = [sys.executable, "-c", _GROWTH]
    given = json.dumps(GREEDY | SLOW)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found.keys() == (GREEDY | SLOW).keys()
    assert {name: mb for name, mb in found.items() if mb > MOST_MB} == {}


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].items }}",
        "{{ range }}",
        "{{ [range] }}",
        "{{ 'a' ~ range }}",
        "{{ range | string }}",
        "{{ [range] | join }}",
        "{{ range | upper }}",
        "{{ '{}'.format(range) }}",
        "{{ raise_exception(range) }}",
        "{{ 'a'.upper ~ '' }}",
        "{% macro f() %}{% endmacro %}{{ f }}",
    ],
)
def test_a_method_is_not_text(source: str) -> None:
    """Python would print the address of an object on the heap."""
    with pytest.raises(FormatError, match="a method is neither text nor data; was it to be called"):
        render(source)


@pytest.mark.parametrize("after", ["", "{% set ns.l = 0 %}", "{{ 1 / 0 }}"])
def test_lists_in_lists_are_freed_one_by_one(after: str) -> None:
    """The stack of a tab is too small to free a list in 50,000 lists at once."""
    grow = "{% for i in range(50000) %}{% set ns.l = [ns.l] %}{% endfor %}"
    source = "{% set ns = namespace(l=[]) %}" + grow + after
    if "/" in after:
        with pytest.raises(FormatError, match="division by zero"):
            render(source)
    else:
        assert render(source) == ""


def test_only_data_lasts_beyond_a_loop() -> None:
    for kept in ("range", "loop", "'a'.upper", "m"):
        for keep in ("ns.a = ", "b = ", "b = namespace(a=%s) and "):
            value = f"[{kept}]" if keep == "b = " else kept
            source = "{% macro m() %}{% endmacro %}{% set ns = namespace() %}{% for i in [1] %}"
            target = keep % kept if "%" in keep else keep
            with pytest.raises(FormatError, match="neither text nor data"):
                render(source + "{% set " + target + value + " %}{% endfor %}")


def test_json_of_many_tools() -> None:
    """Its steps grow with its length, not with the square."""
    tools = [{"name": f"tool {i}", "text": "word " * 20, "of": [1, 2, 3]} for i in range(3000)]
    assert render("{{ tools | tojson }}", tools=tools) == json.dumps(tools, ensure_ascii=False)


def test_join_and_sum_of_attributes() -> None:
    rows = [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "y"}}]
    source = (
        "{{ rows | join(', ', attribute='b.c') }} {{ rows | sum('a') }} {{ [1] | sum(start=2) }}"
    )
    assert render(source, rows=rows) == "x, y 3 3"


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
    messages = [
        {"role": "user" if i % 2 == 0 else "assistant", "content": "word " * 200}
        for i in range(1000)
    ]
    assert len(render(source, messages)) == 1000 * (199 * 5 + 4 + 7)


@pytest.mark.native  # a tab's event loop runs already
def test_loading_can_be_awaited() -> None:
    import asyncio

    template = asyncio.run(load_template_async("{{ bos_token }}a", bos_token="<s>"))
    assert template.render([]) == "<s>a"


def test_what_jinja2_cannot_compile_is_a_format_error() -> None:
    with pytest.raises(FormatError, match="chat template: "):
        load_template("{% set x | indent(messages) %}a{% endset %}{{ x }}")
    assert render("{{ 1[0] }}|") == "|"  # without a warning of Python's
