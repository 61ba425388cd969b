"""Jinja templates from outside, run by jinja2 with bounds on steps, memory, text and time.

jinja2's sandbox protects Python from a template, but does not bound its memory and time. So the
syntax tree is rewritten before it is compiled: every value that may grow passes through a function
of this module, which counts. Only the filters, tests and methods of the files beside it exist. A
process and a tab run this code.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from jinja2 import Template, nodes, pass_context
from jinja2.exceptions import (
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
from rushlight.core.io.text.chat.filters import ATTRIBUTES, Marked, side, together
from rushlight.core.io.text.chat.formats import braces, percent
from rushlight.core.io.text.chat.values import check_characters
from rushlight.core.io.text.sandbox_meter import (
    BITS,
    CALLS,
    ENTRY,
    METER,
    NODES,
    SCOPE,
    Meter,
    width,
)
from rushlight.core.io.text.sandbox_methods import METHODS, call_method, plain_key
from rushlight.core.io.text.sandbox_parts import (
    PUBLIC,
    checked,
    filter_table,
    function_table,
    test_table,
)

_TAGS: dict[type, str] = {nodes.ScopedEvalContextModifier: "autoescape"}
_REASON = 500  # characters of an error
# In the names of the functions below, which are filters to jinja2: a template cannot know it.
_SECRET = secrets.token_hex(16)


def _private(name: str) -> str:
    """The name of a filter that the rewritten tree uses, and that no template can ask for."""
    return f"!{name} {_SECRET}"


@pass_context
def _each(context: Any, value: Any, inside: int) -> Iterator[Any]:
    """The items of a `for` loop with so many nodes inside, counted."""
    meter, rows = METER.get(), iter(value)
    meter.items(len(value))
    meter.keep(SCOPE)
    for item in rows:
        meter.charge(1 + (inside >> 4))
        yield item


@pass_context
def _scope(context: Any, inside: int, nbytes: int) -> None:
    """Count a macro where it is made and when it is called."""
    METER.get().charge(1 + (inside >> 4))
    METER.get().keep(nbytes)


@pass_context
def _concat(context: Any, values: list[Any]) -> str:
    """The operator ~."""
    return together(values)


@pass_context
def _weigh(context: Any, value: Any) -> Any:
    """An operand of a comparison."""
    METER.get().weigh(value)
    return value


@pass_context
def _made(context: Any, value: Any) -> Any:
    """A slice."""
    return METER.get().made(value)


@pass_context
def _held(context: Any, value: Any) -> Any:
    """A list, tuple or dict of the source, or arguments that a list or a dict holds."""
    METER.get().items(len(value), ENTRY)
    return METER.get().hold(value)


@pass_context
def _key(context: Any, value: Any) -> Any:
    """A key of a dict literal."""
    return plain_key(value)


@pass_context
def _finalize(context: Any, value: Any) -> str:
    """Count a piece of output."""
    return METER.get().write(value)


class _Bounded(NodeTransformer):
    """Inserts the functions above into a syntax tree."""

    seen = 0
    recursive = 0  # nodes in the largest recursive loop

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """Rewrite a node, and count it."""
        self.seen += 1
        if self.seen > NODES:
            raise TemplateSyntaxError(f"more than {NODES} names, values and tags", node.lineno)
        return super().visit(node, *args, **kwargs)

    def _inner(self, node: nodes.Node) -> int:
        """Rewrite the parts of a node; returns their number."""
        before = self.seen
        self.generic_visit(node)
        return self.seen - before

    def _through(self, name: str, node: nodes.Node, *more: int) -> nodes.Filter:
        arguments = [nodes.Const(number, lineno=node.lineno) for number in more]
        value = cast(nodes.Expr, node)
        return nodes.Filter(value, _private(name), arguments, [], None, None, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        count = self._inner(node)
        if node.recursive:  # a loop that is called gets its items elsewhere
            self.recursive = max(self.recursive, count)
        node.iter = self._through("each", node.iter, count)
        return node

    def _visit_macro(self, node: nodes.Macro | nodes.CallBlock) -> list[nodes.Node]:
        def scope(count: int, nbytes: int) -> nodes.Node:
            number = nodes.Const(count, lineno=node.lineno)
            call = self._through("scope", number, nbytes)
            return nodes.ExprStmt(call, lineno=node.lineno)

        count = self._inner(node)
        node.body = [scope(count, 0), *node.body]
        return [scope(0, SCOPE), node]

    visit_Macro = visit_CallBlock = _visit_macro

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._through("concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        sides: list[nodes.Compare | nodes.Operand] = [node, *node.ops]
        for operand in sides:
            if not isinstance(operand.expr, nodes.Const):
                operand.expr = self._through("weigh", operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._through("made", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = self._through("key", node.key)
        return node

    def _visit_literal(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        stored = isinstance(node, nodes.Tuple) and node.ctx != "load"
        return node if stored else self._through("held", node)

    visit_List = visit_Tuple = visit_Dict = _visit_literal

    def _visit_call(self, node: nodes.Call | nodes.Filter | nodes.Test) -> nodes.Node:
        self.generic_visit(node)
        if node.dyn_args is not None:
            node.dyn_args = self._through("held", node.dyn_args)
        if node.dyn_kwargs is not None:
            node.dyn_kwargs = self._through("held", node.dyn_kwargs)
        return node

    visit_Call = visit_Filter = visit_Test = _visit_call

    def visit_Name(self, node: nodes.Name) -> nodes.Node:
        made_by_macro = node.name in ("varargs", "kwargs") and node.ctx == "load"
        return self._through("held", node) if made_by_macro else node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        if isinstance(node.value, int) and node.value.bit_length() > BITS:
            raise TemplateSyntaxError(f"a number of more than {BITS} bits", node.lineno)
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
        name = _TAGS.get(type(node), type(node).__name__.lower())
        raise TemplateSyntaxError(
            f"the tag {name} is not supported; supported: if, for, set, macro, call, filter, with, "
            "raw, generation, break, continue",
            node.lineno,
        )

    visit_Include = visit_Import = visit_FromImport = visit_Extends = visit_Block = _refuse
    visit_ScopedEvalContextModifier = visit_EvalContextModifier = _refuse  # autoescape


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
            _private("each"): _each,
            _private("scope"): _scope,
            _private("concat"): _concat,
            _private("weigh"): _weigh,
            _private("made"): _made,
            _private("held"): _held,
            _private("key"): _key,
        }
        self.tests = cast(Any, test_table())

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        bounded = _Bounded()
        tree: nodes.Template = bounded.visit(super()._parse(source, name, filename))
        self._recursive = bounded.recursive
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use an attribute: listed methods and jinja2's own ones."""
        if attr.startswith("_"):
            return False
        if isinstance(obj, LoopContext | Macro | Namespace | Undefined):
            return True
        kind = str if isinstance(obj, str) else type(obj)
        return attr in METHODS.get(kind, ATTRIBUTES.get(kind, ()))

    def call_filter(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A filter by its name, as map asks for it: only those that templates have."""
        if not isinstance(name, str) or name not in PUBLIC:
            raise TemplateRuntimeError(f"there is no filter named {METER.get().words(name)!r:.100}")
        return super().call_filter(name, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """A restricted str.format in place of Python's."""
        owner = getattr(value, "__self__", None)
        if isinstance(owner, str) and getattr(value, "__name__", "") == "format":
            return partial(braces, owner)
        return None

    def getitem(self, obj: Any, argument: Any) -> Any:
        """obj[argument] for strings and numbers."""
        return super().getitem(obj, plain_key(argument))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an object, counted."""
        meter, owner = METER.get(), getattr(__obj, "__self__", None)
        meter.charge(1)
        meter.keep((len(args) + len(kwargs)) * ENTRY)
        if isinstance(owner, str | list | tuple | dict):
            keywords = {k: v for k, v in kwargs.items() if k not in ("_loop_vars", "_block_vars")}
            return call_method(owner, __obj.__name__, args, keywords)
        if isinstance(__obj, LoopContext) and args:  # a recursive loop
            args = (_each(__context, args[0], __self._recursive), *args[1:])
        if isinstance(owner, LoopContext):  # loop.changed compares
            for item in args:
                meter.weigh(item)
        meter.calls += 1
        if meter.calls > CALLS:
            raise TemplateRuntimeError(f"calls nest deeper than {CALLS}")
        try:
            return super().call(__context, __obj, *args, **kwargs)
        finally:
            meter.calls -= 1

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """An operator, counted."""
        meter = METER.get()
        if operator == "%" and isinstance(left, str):
            return percent(left, right)
        if operator == "+":
            left, right = side(left, right), side(right, left)
        for operand, other in ((left, right), (right, left)):
            if isinstance(operand, str | list | tuple):
                if operator == "+" and isinstance(other, str | list | tuple):
                    length = len(operand) + len(other)
                elif operator == "*" and isinstance(other, int):
                    length = len(operand) * other
                elif isinstance(other, Undefined):
                    continue
                else:
                    kinds = f"{type(left).__name__} and {type(right).__name__}"
                    raise TypeError(f"{operator} is not for {kinds}")
                if isinstance(operand, str):
                    meter.size(length, max(width(operand), width(other) if operator == "+" else 1))
                else:
                    meter.items(length)
                    meter.charge(1)
                    result = super().call_binop(context, operator, left, right)
                    meter.held.append(result)
                    return result
                break
        meter.charge(1)
        checked(left), checked(right)
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            if right * left.bit_length() > 2 * BITS:
                raise TemplateRuntimeError(f"the template makes a number of more than {BITS} bits")
        result = checked(super().call_binop(context, operator, left, right))
        marked = isinstance(result, str) and isinstance(left, Marked) | isinstance(right, Marked)
        return Marked(result) if marked else result


class Renderer:
    """A compiled chat template; FormatError with the line if it is broken."""

    def __init__(self, source: str) -> None:
        self._environment = _Environment()
        try:
            with warnings.catch_warnings():  # Python warns of 1[0] and the like
                warnings.simplefilter("ignore", SyntaxWarning)
                self._template: Template = self._environment.from_string(source)
        except TemplateSyntaxError as error:
            raise FormatError(f"chat template, line {error.lineno}: {error.message}") from None
        except Exception as error:  # jinja2 has assertions for what it cannot compile
            wrong = f"chat template: it nests too deeply, or {error}"
            raise FormatError(wrong[:_REASON]) from None

    def __call__(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables; FormatError with the line for any error."""
        meter = Meter()
        token = METER.set(meter)
        try:
            return self._text(variables)
        finally:
            METER.reset(token)
            meter.release()

    def _text(self, variables: Mapping[str, Any]) -> str:
        try:
            context = self._template.new_context(dict(variables))
            text = "".join(self._template.root_render_func(context))
            check_characters(text, "what the template writes")
            return text
        except Exception as error:
            reason = "it recurs too deeply" if isinstance(error, RecursionError) else str(error)
            wrong = f"chat template, line {self._line(error)}: {reason[:_REASON]}"
        raise FormatError(wrong)  # here, so that it does not hold what the template made

    def _line(self, error: Exception) -> int:
        """The line of the template that an error comes from."""
        line, trace = 1, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals.get("__jinja_template__") is not None:
                line = self._template.get_corresponding_lineno(trace.tb_lineno)
            trace = trace.tb_next
        return line
