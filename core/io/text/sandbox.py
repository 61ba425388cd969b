"""Jinja templates from outside, run by jinja2 with bounds on steps, text, numbers and time.

jinja2's sandbox protects Python from a template, but does not bound its memory and time. So the
syntax tree is rewritten before it is compiled: every value that may grow passes through a function
of this module, which counts first. Only the filters, tests and methods of sandbox_parts exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from jinja2 import Template, nodes, pass_context
from jinja2 import tests as jinja_tests
from jinja2.exceptions import (
    TemplateError,
    TemplateRuntimeError,
    TemplateSyntaxError,
)
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.sandbox_parts import (
    METER,
    METHODS,
    NUMBER,
    TESTS,
    Meter,
    checked,
    filter_table,
    format_text,
    function_table,
    plain_key,
    replaced,
)


@pass_context
def _each(context: Any, value: Any) -> Iterator[Any]:
    """The items of a `for` loop, counted."""
    meter = METER.get()
    for item in value:
        meter.charge(1)
        yield item


@pass_context
def _concat(context: Any, values: list[Any]) -> str:
    """The operator ~."""
    meter = METER.get()
    for value in values:
        meter.weigh(value)
    texts = [str(value) for value in values]
    meter.size(sum(map(len, texts)))
    return "".join(texts)


@pass_context
def _weigh(context: Any, value: Any) -> Any:
    """An operand of a comparison."""
    METER.get().weigh(value)
    return value


@pass_context
def _made(context: Any, value: Any) -> Any:
    """A slice."""
    meter = METER.get()
    (meter.size if isinstance(value, str) else meter.items)(len(value))
    return value


@pass_context
def _key(context: Any, value: Any) -> Any:
    """A key of a dict literal."""
    return plain_key(value)


@pass_context
def _finalize(context: Any, value: Any) -> str:
    """Count a piece of output."""
    meter = METER.get()
    meter.weigh(value)
    return meter.write(str(value))


class _Bounded(NodeTransformer):
    """Inserts the functions above into a syntax tree."""

    def _through(self, name: str, node: nodes.Node) -> nodes.Filter:
        return nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        if node.recursive:
            raise TemplateSyntaxError("recursive loops are not supported", node.lineno)
        node.iter = self._through("!each", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._through("!concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        if len(node.ops) > 1:
            raise TemplateSyntaxError("a comparison has two sides here; use and", node.lineno)
        for side in (node, node.ops[0]):
            if not isinstance(side.expr, nodes.Const):
                side.expr = self._through("!weigh", side.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._through("!made", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = self._through("!key", node.key)
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        checked(node.value)
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        self.generic_visit(node)
        # Plain text would bypass finalize.
        node.nodes = [
            nodes.Const(n.data, lineno=n.lineno) if isinstance(n, nodes.TemplateData) else n
            for n in node.nodes
        ]
        return node

    def _refuse(self, node: nodes.Node) -> nodes.Node:
        name = type(node).__name__.lower()
        raise TemplateSyntaxError(f"{name} is not supported in chat templates", node.lineno)

    visit_Include = visit_Import = visit_FromImport = visit_Extends = visit_Block = _refuse


class _Generation(Extension):
    """{% generation %} marks the assistant's words for training; it has no effect here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    """jinja2's sandbox with counting, configured as chat templates expect."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            optimized=False,  # it would compute 10**10**10 while compiling
            finalize=_finalize,
        )
        self.globals = dict(function_table())
        self.filters = filter_table() | {
            "!each": _each,
            "!concat": _concat,
            "!weigh": _weigh,
            "!made": _made,
            "!key": _key,
        }
        self.tests = {name: _tested(jinja_tests.TESTS[name]) for name in TESTS}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Bounded().visit(super()._parse(source, name, filename))
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use an attribute: listed methods and jinja2's own ones."""
        if attr.startswith("_"):
            return False
        if isinstance(obj, LoopContext | Macro | Namespace | Undefined):
            return True
        return attr in METHODS.get(type(obj), ())

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """A restricted str.format in place of Python's."""
        owner = getattr(value, "__self__", None)
        if isinstance(owner, str) and getattr(value, "__name__", "") == "format":
            return lambda *args, **kwargs: format_text(owner, args, kwargs)
        return None

    def getitem(self, obj: Any, argument: Any) -> Any:
        """obj[argument] for strings and numbers."""
        return super().getitem(obj, plain_key(argument))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an object, counted."""
        METER.get().charge(1)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str | list | tuple | dict):
            given = {k: v for k, v in kwargs.items() if k not in ("_loop_vars", "_block_vars")}
            _weigh_call(owner, __obj.__name__, args, given)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, list):
            METER.get().items(len(result))
        return result

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """An operator, counted."""
        meter = METER.get()
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str | list | tuple):
                if operator == "+" and isinstance(other, str | list | tuple):
                    length = len(one) + len(other)
                elif operator == "*" and isinstance(other, int):
                    length = len(one) * other
                elif isinstance(other, Undefined):
                    continue
                else:
                    kinds = f"{type(left).__name__} and {type(right).__name__}"
                    raise TypeError(f"{operator} is not for {kinds}")
                (meter.size if isinstance(one, str) else meter.items)(length)
                break
        meter.charge(1)
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            if right * abs(left).bit_length() > 2 * NUMBER.bit_length():
                raise TemplateRuntimeError("the template makes a number beyond 2**53")
        return checked(super().call_binop(context, operator, left, right))


def _tested(test: Any) -> Callable[..., Any]:
    @pass_context
    def tested(context: Any, value: Any, *args: Any) -> bool:
        for item in args:
            METER.get().weigh(item)
            METER.get().weigh(value)
        return bool(test(value, *args))

    return tested


def _weigh_call(owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Count the possible cost of a method of a str, list or dict."""
    meter = METER.get()
    if isinstance(owner, dict):
        if args:
            plain_key(args[0])
        return
    for item in (*args, *kwargs.values(), owner):
        meter.weigh(item)
    if isinstance(owner, str):
        meter.size(len(owner))
        if name == "title":  # slow
            meter.charge(len(owner) >> 2)
        if name == "replace":
            meter.size(replaced(owner, *args, **kwargs))
        elif name == "join":
            items = list(args[0]) if args else []
            meter.size(sum(map(len, items)) + len(owner) * len(items))


class Renderer:
    """A compiled chat template; FormatError with the line if it is broken."""

    def __init__(self, source: str) -> None:
        self._environment = _Environment()
        try:
            self._template: Template = self._environment.from_string(source)
        except TemplateSyntaxError as error:
            raise FormatError(f"chat template, line {error.lineno}: {error.message}") from None
        except (TemplateError, RecursionError, SyntaxError, MemoryError, ValueError) as error:
            raise FormatError(f"chat template: it nests too deeply, or {error}") from None

    def __call__(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables; FormatError with the line for any error."""
        token = METER.set(Meter())
        try:
            context = self._template.new_context(dict(variables))
            return "".join(self._template.root_render_func(context))
        except Exception as error:
            reason = "it recurs too deeply" if isinstance(error, RecursionError) else str(error)
            raise FormatError(f"chat template, line {self._line(error)}: {reason}") from None
        finally:
            METER.reset(token)

    def _line(self, error: Exception) -> int:
        """The line of the template that an error comes from."""
        line, trace = 1, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals.get("__jinja_template__") is not None:
                line = self._template.get_corresponding_lineno(trace.tb_lineno)
            trace = trace.tb_next
        return line
