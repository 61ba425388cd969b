"""Every filter, test and function of jinja2 in chat templates, against jinja2's own sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.filters import FILTERS as DEFAULT_FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS as DEFAULT_TESTS

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text import sandbox_parts
from rushlight.core.io.text.template import ChatTemplate

VALUES: dict[str, Any] = {
    "t": "Hello <b>World</b> & 'you' \"x\"", "s": "a b,c  d", "l": [3, 1, 2], "n": -3.7, "i": 42,
    "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, 2], "C": "x"}, "e": [], "z": "",
    "none": None, "big": 2**70, "tr": True, "u": "é😀ß", "num": "12abc",
    "p": [{"n": "x", "v": 2, "k": {"q": 1}}, {"n": "y", "v": 1, "k": {"q": 2}},
          {"n": "X", "v": 2, "k": {"q": 1}}],
    "long": "the quick brown fox jumps over the lazy dog " * 4,
    "url": "see http://example.com/a?b=c and www.x.org (foo@bar.com)",
}  # fmt: skip
# Arguments that filters may take; most take few of them, and others refuse them in both.
ARGUMENTS = [
    "", "2", "'n'", "attribute='v'", "attribute='k.q'", "reverse=true", "5, true", "3, '-'",
    "'upper'", "'v', 'equalto', 2", "2, fill_with='?'", "1, 'ceil'", "'a', 'z'", "10, false, '!'",
    "separators=(',', ':')", "indent='  '", "40, target='x'", "default=7", "binary=true",
]  # fmt: skip
EXPRESSIONS = [
    "'%s-%d' % ('a',3)",
    "'%5.2f|' % n",
    "'%(a)s' % {'a':1}",
    "'%s' % l",
    "'%s' % d",
    "'%%' % ()",
    "'%x' % 255",
    "'%-6s|' % 'ab'",
    "'%s %s' | format('a', l)",
    "'%(x)s' | format(x=3)",
    "'{:>10}|{:.2f}|{!r}'.format('a', n, 'q')",
    "'{a}{0}'.format(1,a=2)",
    "'{:,}'.format(1234567)",
    "'{:05d}'.format(42)",
    "t|e ~ '<'",
    "'<' ~ (t|e)",
    "(t|e) + '<'",
    "'<' + (t|safe)",
    "(t|e)|e",
    "(t|e)|forceescape",
    "(t|safe)|upper",
    "[t|e,'<']|join",
    "'ab'.center(7,'*')",
    "'ab'.ljust(5)~'|'",
    "'ab'.rjust(5)~'|'",
    "'7'.zfill(3)",
    "'a\\tb'.expandtabs(4)",
    "'aB'.swapcase()",
    "'ß'.casefold()",
    "'abc'.index('c')",
    "'abc'.rindex('a')",
    "'1²'.isdecimal()",
    "'1²'.isnumeric()",
    "'a1'.isidentifier()",
    "'Ab'.istitle()",
    "d.copy()",
    "l.copy()",
    "i.bit_length()",
    "n.is_integer()",
    "2**100",
    "big+1",
    "big*big",
    "big//3",
    "big%7",
    "-big",
    "big|tojson",
    "l*2",
    "'ab'*3",
    "l+[1]",
    "(1,2)+(3,)",
    "l[::-1]",
    "t[2:5]",
    "d.a[0]",
    "d['zz']",
    "d.get('zz',5)",
    "d.items()|list",
    "d.keys()|list",
    "namespace(a=1).a",
    "dict(a=1)",
    "dict.fromkeys([1,2])",
    "cycler('a','b').next()",
    "joiner()()",
    "range(5)|list",
    "range(2,9,3)|list",
    "'a' in d",
    "3 in l",
    "l|sum(start=2)",
    "p|map(attribute='k')|map(attribute='q')|list",
    "p|groupby('v')",
    "p|groupby('v')|map(attribute='grouper')|list",
    "p|groupby('n',case_sensitive=true)|list",
    "p|groupby('zz',default='q')|list",
    "w|map('upper')|join",
    "w|select('equalto','a')|list",
    "l|map('string')|list",
    "p|selectattr('v','gt',1)|map(attribute='n')|list",
    "l|batch(2,'x')|list",
    "l|slice(2)|map('list')|list",
    "1 if i else 2",
    "not i",
    "i and n",
    "l|first",
    "w|last",
    "'a'~none~1",
    "x.y is defined",
    "(x|default({})).y is defined",
    "p|tojson(indent=1)",
    "1/3",
    "7//2",
    "-7%3",
    "2**0.5",
    "1e300*1e10",
    "1<2<3",
    "'b'>'a'",
    "l==[3,1,2]",
    "d|length",
    "u|length",
    "t|attr('upper')",
    "d|attr('items')",
    "d|attr('zz')",
    "p[0]|attr('n')",
    "(p|groupby('v'))[0].list",
    "(p|groupby('v'))[0]|length",
]
TEMPLATES = [
    (
        "{% for x in [[1,[2,[3]]]] recursive %}{{ loop.depth }}{% if x is iterable %}{{ l"
        "oop(x) }}{% else %}{{x}}{% endif %}{% endfor %}"
    ),
    (
        "{% for x in p recursive %}<{{x.n}}{{loop.index}}{{loop.last}}{{ loop(x.c) if x.c"
        " }}>{% endfor %}"
    ),
    (
        "{% for x in l %}{{ loop.cycle('a','b') }}{{ loop.changed(x) }}{{loop.previtem}}{"
        "{loop.nextitem}}{{loop.revindex}}{{loop.revindex0}}{{loop.length}}{{loop.first}}"
        "{{loop.index0}}{% else %}no{% endfor %}"
    ),
    "{% for x in l if x>1 %}{{x}}{{loop.length}}{% endfor %}",
    "{% for x in e %}a{% else %}none{% endfor %}",
    "{% for k,v in d.items() %}{{k}}{{v}}{% endfor %}",
    "{% for x in l %}{% if x==1 %}{% continue %}{% endif %}{{x}}{% endfor %}",
    "{% for x in l %}{% if x==1 %}{% break %}{% endif %}{{x}}{% endfor %}",
    (
        "{% macro m(a,b=2,*c,**k) %}{{a}}{{b}}{{varargs}}{{kwargs}}{{caller() if caller}}"
        "{% endmacro %}{{ m(1) }}{{ m(1,3) }}{% call m(5) %}in{% endcall %}"
    ),
    (
        "{% macro m(a) %}{{a}}{{varargs}}{{kwargs}}{% endmacro %}{{ m(1,2,3,x=4) }}{{m.na"
        "me}}{{m.arguments}}"
    ),
    (
        "{% macro li(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% c"
        "all(y) li(l) %}[{{y}}]{% endcall %}"
    ),
    "{% set x %}a{{i}}b{% endset %}{{x}}{{x|length}}",
    "{% set x | upper %}ab{% endset %}{{x}}",
    "{% filter upper %}a{{t}}{% endfilter %}",
    "{% with a=1,b=2 %}{{a}}{{b}}{% endwith %}{{a}}",
    "{% set ns=namespace(c=0) %}{% for x in l %}{% set ns.c=ns.c+x %}{% endfor %}{{ns.c}}",
    "{% raw %}{{x}}{% endraw %}",
    "{# c #}a{#- b -#} c",
    "{%- if i -%} x {%- endif -%} y",
    "  {% if i %}\n  a\n  {% endif %}\n b",
    "{% set a,b=1,2 %}{{a}}{{b}}",
    "{% if i %}{% elif n %}{% else %}{% endif %}",
    ("{% set c=cycler('a','b','c') %}{% for x in range(5) %}{{c.next()}}{{c.current}}{% endfor %}"),
    "{% set j=joiner('|') %}{% for x in l %}{{j()}}{{x}}{% endfor %}",
    (
        "{% for g in p|groupby('v') %}{{g.grouper}}:{{g.list|map(attribute='n')|join(',')"
        "}};{% endfor %}"
    ),
    "{% for a,b in p|groupby('v') %}{{a}}{{b|length}}{% endfor %}",
    "{% for row in l|batch(2) %}{{row}}{% endfor %}",
    "{% for col in w|slice(3) %}{{col}}{% endfor %}",
    "{{ 'a' if false }}",
    "{{ x }}{{ x.y }}",
    "{{ x.y.z }}",
    "{{ 1 + 'a' }}",
]
# What one of both gives, and the other does not.
KNOWN = ("random", "indent", "truncate", "pprint")


def reference() -> ImmutableSandboxedEnvironment:
    """The environment of transformers' chat templates."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )

    def tojson(
        x: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    made.filters["tojson"] = tojson
    return made


def agree(source: str, environment: ImmutableSandboxedEnvironment) -> None:
    """Both give the same text, or both refuse."""
    try:
        expected: str | None = environment.from_string(source).render(**VALUES)
    except (TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        expected = None
    if expected is None:
        with pytest.raises(FormatError):
            ChatTemplate(source).render([], **VALUES)
    elif " at 0x" not in expected and "<b" not in expected.replace("<b>World", ""):
        assert ChatTemplate(source).render([], **VALUES) == expected, source


def test_all_names_are_there() -> None:
    assert set(DEFAULT_FILTERS) == set(sandbox_parts.filter_table())
    assert set(DEFAULT_TESTS) == set(sandbox_parts.test_table())


@pytest.mark.parametrize("name", sorted(set(DEFAULT_FILTERS) - set(KNOWN)))
def test_filters(name: str) -> None:
    environment = reference()
    for value in VALUES:
        for arguments in ARGUMENTS if value in "tlpn" else [""]:
            called = f"{name}({arguments})" if arguments else name
            lazy = name in ("map", "select", "selectattr", "reject", "rejectattr", "batch", "slice",
                            "unique", "reverse", "items")  # fmt: skip
            agree(f"{{{{ {value} | {called}{' | list' * lazy} }}}}", environment)


@pytest.mark.parametrize("name", sorted(DEFAULT_TESTS))
def test_tests(name: str) -> None:
    environment = reference()
    others = {"divisibleby": "(3)", "in": " l", "sameas": " none"}
    compares = name in ("eq", "equalto", "ge", "greaterthan", "gt", "le", "lessthan", "lt", "ne")
    argument = " 3" if compares else others.get(name, "")
    if not name.isidentifier():
        return  # an operator; see the expressions
    values = [*VALUES, "nope", "'upper'", "'odd'", "t | e", "3"]
    if name in ("filter", "test"):  # both have no lists as keys
        values = [value for value in values if value not in ("l", "w", "d", "e", "p")]
    for value in values:
        agree(f"{{{{ ({value}) is {name}{argument} }}}}", environment)
        agree(f"{{{{ ({value}) is not {name}{argument} }}}}", environment)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    agree(f"{{{{ {expression} }}}}", reference())


@pytest.mark.parametrize("source", TEMPLATES)
def test_statements(source: str) -> None:
    agree(source, reference())


def test_text_filters_of_texts() -> None:
    environment = reference()
    for source in (
        "{{ t | indent }}",
        "{{ long | indent(2, true) }}",
        "{{ 'a\\n\\nb' | indent('--', blank=true) }}",
        "{{ long | truncate(20) }}",
        "{{ long | truncate(20, true, '!') }}",
        "{{ p | pprint }}",
        "{{ long | truncate(170, leeway=0) }}",
        "{{ ['a'] | random }}",
        "{{ '' | random }}",
    ):
        agree(source, environment)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% block b %}{% endblock %}", "the tag block is not supported; supported: if, for"),
        ("{% autoescape true %}{% endautoescape %}", "the tag autoescape is not supported"),
        ("{% do x %}", "unknown tag 'do'"),
        ("{{ '%*d' % (9, 1) }}", "widths up to 999"),
        ("{{ '{0.x}'.format(1) }}", r"format takes the fields"),
        ("{{ [1] | batch(10 ** 9) }}", "rows of 1000000000 items are not from 1 to 100000"),
        ("{{ [1] | slice(0) }}", "0 columns are not from 1"),
        ("{{ 1 | nothing }}", "No filter named 'nothing'"),
    ],
)
def test_what_is_refused_is_named(source: str, message: str) -> None:
    with pytest.raises(FormatError, match=f"chat template, line 1: .*{message}"):
        ChatTemplate(source).render([])
