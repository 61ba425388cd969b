"""JSON Schemas as grammars. What is not supported is refused by its name.

Properties stand in the schema's order, others behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from rushlight.models.generation.constrained.engine import values
from rushlight.models.generation.constrained.engine.grammar import Choice, Later, Leaf, Node
from rushlight.models.generation.constrained.engine.lexeme import Lexeme, Product
from rushlight.models.generation.constrained.engine.merging import (
    Unsatisfiable,
    merged,
    types_of,
)
from rushlight.models.generation.constrained.engine.regex import regex, texts
from rushlight.models.generation.constrained.engine.shapes import check_shapes

# Keywords that restrict values, and are not supported.
REFUSED = (
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
    "contains", "minContains", "maxContains", "uniqueItems", "propertyNames", "multipleOf",
    "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
# Schemas that one schema becomes by its alternatives and references, and their depth.
_MOST, _DEEPEST = 20_000, 200
_BLANK = values.BLANK


def schema_node(schema: Any) -> Node:
    """The grammar of a schema; ValueError for what is not supported or what nothing satisfies."""
    compiler = _Compiler(schema)
    node = compiler.node(schema)
    compiler.check()
    if node is None or id(node) in compiler.barren:
        raise ValueError("response_format: nothing satisfies the schema")
    return node


class _Compiler:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes: dict[str, Choice] = {}
        self._needs: dict[int, list[list[Node]]] = {}  # what each choice needs, by its row
        self._made = 0
        self.barren: set[int] = set()

    # --- schemas --------------------------------------------------------------------------------

    def node(self, schema: Any, depth: int = 0) -> Choice:
        """The grammar of a schema; one without rows if nothing satisfies it."""
        key = json.dumps(schema, sort_keys=False)
        if key in self._nodes:
            return self._nodes[key]
        self._made += 1
        if self._made > _MOST or depth > _DEEPEST:
            raise ValueError("response_format: the schema is too large, or nested too deeply")
        node = self._nodes[key] = Choice()
        rows: list[tuple[Sequence[Node], list[Node]]] = []
        for alternative in self._alternatives(schema, ()):
            rows += self._rows(alternative, depth)
        node.rows = [row for row, _ in rows]
        self._needs[id(node)] = [needs for _, needs in rows]
        return node

    def check(self) -> None:
        """Find the nodes that no finite text satisfies, and drop the rows that need them."""
        fertile: set[int] = set()
        grows = True
        while grows:
            grows = False
            for node in self._nodes.values():
                if id(node) not in fertile and any(
                    all(id(need) in fertile for need in needs) for needs in self._needs[id(node)]
                ):
                    fertile.add(id(node))
                    grows = True
        for node in self._nodes.values():
            if id(node) not in fertile:
                self.barren.add(id(node))
            node.rows = [
                row
                for row, needs in zip(node.rows, self._needs[id(node)], strict=True)
                if all(id(need) in fertile for need in needs)
            ]

    def _alternatives(self, schema: Any, seen: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """The schemas without references and combinations of which one must hold."""
        if schema is True:
            schema = {}
        if schema is False:
            return
        if not isinstance(schema, dict):
            raise ValueError(
                f"response_format: a schema is {type(schema).__name__}; it must be an object"
            )
        self._refuse(schema)
        rest = {k: v for k, v in schema.items() if k not in ("$ref", "anyOf", "oneOf", "allOf")}
        if "pattern" in rest:
            rest["patterns"] = [rest.pop("pattern")]
        groups: list[list[Any]] = []
        if "$ref" in schema:
            name = schema["$ref"]
            if name in seen:
                return  # a reference to itself alone describes nothing
            target = self._target(name)
            groups.append(list(self._alternatives(target, (*seen, name))))
        for part in schema.get("allOf", ()):
            groups.append(list(self._alternatives(part, seen)))
        if "anyOf" in schema:
            groups.append(
                [row for part in schema["anyOf"] for row in self._alternatives(part, seen)]
            )
        if "oneOf" in schema:
            parts = [list(self._alternatives(part, seen)) for part in schema["oneOf"]]
            self._check_apart(parts)
            groups.append([row for part in parts for row in part])
        rows = [rest]
        for group in groups:
            rows = [row for a in rows for b in group for row in _together(a, b)]
            self._made += len(rows)
            if self._made > _MOST:
                raise ValueError("response_format: the schema has too many alternatives")
        yield from rows

    def _refuse(self, schema: dict[str, Any]) -> None:
        check_shapes(schema)
        for key in REFUSED:
            if key in schema and not (key == "uniqueItems" and schema[key] is False):
                raise ValueError(
                    f"response_format: the keyword {key!r} of JSON Schema is not supported here; "
                    "leave it out and check the answer"
                )

    def _target(self, name: Any) -> Any:
        if not isinstance(name, str) or not name.startswith("#"):
            raise ValueError(
                f"response_format: $ref {name!r} is not supported; supported: references within "
                "the schema, such as #/$defs/name"
            )
        target = self._root
        for key in name[1:].split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and key.isdigit() and int(key) < len(target):
                target = target[int(key)]
            elif isinstance(target, dict) and key in target:
                target = target[key]
            else:
                raise ValueError(f"response_format: $ref {name!r} names nothing in the schema")
        return target

    def _check_apart(self, parts: list[list[dict[str, Any]]]) -> None:
        """Raise ValueError unless no value satisfies two of the parts of oneOf."""
        for i, first in enumerate(parts):
            for second in parts[i + 1 :]:
                if not all(_apart(a, b) for a in first for b in second):
                    raise ValueError(
                        "response_format: the keyword 'oneOf' is not supported where two of its "
                        "schemas may hold together; give each a type or a constant of its own, or "
                        "use 'anyOf'"
                    )

    # --- values ---------------------------------------------------------------------------------

    def _rows(self, schema: dict[str, Any], depth: int) -> list[tuple[Sequence[Node], list[Node]]]:
        """The rows that a schema without combinations allows, and what each needs."""
        types = types_of(schema)
        if "const" in schema or "enum" in schema:
            given = schema["enum"] if "enum" in schema else [schema["const"]]
            if "const" in schema:
                given = [value for value in given if _same(value, schema["const"])]
            fitting = [value for value in given if self._fits(value, schema)]
            plain = [value for value in fitting if not isinstance(value, dict | list)]
            words = [json.dumps(value, ensure_ascii=False).encode() for value in plain]
            leaves = [Leaf(texts(words, "enum"))] if words else []
            leaves += [Leaf(regex(_laid_out(v))) for v in fitting if isinstance(v, dict | list)]
            return [([leaf], []) for leaf in leaves]
        rows: list[tuple[Sequence[Node], list[Node]]] = []
        if "string" in types:
            rows.append(([Leaf(_string(schema))], []))
        if "number" in types or "integer" in types:
            number = _number(schema, "number" not in types)
            if number is not None:
                rows.append(([Leaf(number)], []))
        if "object" in types:
            rows += self._object(schema, depth)
        if "array" in types:
            rows += self._array(schema, depth)
        words = [w for n in ("boolean", "null") if n in types for w in _WORDS[n]]
        if words:
            rows.append(([Leaf(texts(words))], []))
        return rows

    def _fits(self, value: Any, schema: dict[str, Any]) -> bool:
        """Whether a value of an enumeration satisfies what stands beside it."""
        other = {k: v for k, v in schema.items() if k not in ("enum", "const")}
        other = {k: v for k, v in other.items() if k not in ("title", "description", "default")}
        types = types_of(other)
        if _type(value) not in types:
            return False
        if isinstance(value, str):
            return _string(other).matches(json.dumps(value, ensure_ascii=False).encode())
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = _number(other, False)
            return number is not None and number.matches(json.dumps(value).encode())
        extra = {*other} & {"properties", "required", "items", "prefixItems", "patternProperties"}
        extra |= {key for key in other if key.startswith(("min", "max", "additional"))}
        if isinstance(value, dict | list) and extra:
            raise ValueError(
                f"response_format: {sorted(extra)[0]!r} beside 'enum' or 'const' of objects is not "
                "supported"
            )
        return True

    def _array(self, schema: dict[str, Any], depth: int) -> list[tuple[Sequence[Node], list[Node]]]:
        first = schema.get("prefixItems", [])
        items = schema.get("items", True)
        if isinstance(items, list):  # drafts before 2020
            first, items = items, schema.get("additionalItems", True)
        least, most = _count(schema, "minItems", 0), _count(schema, "maxItems", None)
        if most is not None and least > most:
            return []
        heads = [self.node(part, depth + 1) for part in first]
        others = None if items is False else self.node(items, depth + 1)
        barren = self.barren
        nodes: dict[int, Node] = {}
        steady = max(len(heads), least, 1)

        def item(place: int) -> Node | None:
            node = heads[place] if place < len(heads) else others
            return None if node is None or id(node) in barren else node

        def after(count: int) -> Node:
            """What follows `count` items."""
            count = min(count, steady) if most is None else count
            if count not in nodes:
                nodes[count] = Later(lambda: rows(count))
            return nodes[count]

        def rows(count: int) -> list[list[Node]]:
            answer: list[list[Node]] = []
            if count >= least:
                answer.append([_leaf(rf"{_BLANK}\]" if count else r"\]")])
            node = item(count)
            if (most is None or count < most) and node is not None:
                comma = [_leaf(f"{_BLANK},{_BLANK}")] if count else []
                answer.append([*comma, node, after(count + 1)])
            return answer

        needed = [heads[i] if i < len(heads) else others for i in range(min(least, 4096))]
        if any(node is None for node in needed):
            return []
        return [([_leaf(rf"\[{_BLANK}"), after(0)], [n for n in needed if n is not None])]

    def _object(
        self, schema: dict[str, Any], depth: int
    ) -> list[tuple[Sequence[Node], list[Node]]]:
        declared: dict[str, Any] = schema.get("properties", {})
        required = list(dict.fromkeys(schema.get("required", ())))
        additional = schema.get("additionalProperties", True)
        patterns: dict[str, Any] = schema.get("patternProperties", {})
        if patterns and (declared or additional is not False or len(patterns) > 1 or required):
            raise ValueError(
                "response_format: the keyword 'patternProperties' is not supported but for one "
                "pattern alone with additionalProperties false"
            )
        declared = {**declared, **{n: additional for n in required if n not in declared}}
        least = _count(schema, "minProperties", 0)
        most = _count(schema, "maxProperties", None)
        if any(declared[name] is False for name in required):
            return []
        names = [name for name in declared if declared[name] is not False]
        inner = {name: self.node(declared[name], depth + 1) for name in names}
        others: Node | None = None
        if patterns:
            ((pattern, value),) = patterns.items()
            others_key: Lexeme = values.pattern_in_json(pattern, True)
            others = self.node(value, depth + 1)
        elif additional is not False:
            others_key = values.OtherKey(list(declared))
            others = self.node(additional, depth + 1)
        counted = bool(least) or most is not None
        barren = self.barren
        keys = {name: _key(name) for name in names}
        nodes: dict[tuple[int, bool, int], Node] = {}

        def after(place: int, begun: bool, count: int) -> Node:
            """What follows when the names before `place` are past."""
            if counted:
                count = min(count, least) if most is None else count
            else:
                count = 0
            key = (place, begun, count)
            if key not in nodes:
                nodes[key] = Later(lambda: rows(*key))
            return nodes[key]

        def possible(place: int, count: int) -> bool:
            """Whether an object with `count` members may still be completed."""
            left = [n for n in names[place:] if id(inner[n]) not in barren]
            needed = sum(n in required for n in left)
            room = others is not None and id(others) not in barren
            if most is not None and count + needed > most:
                return False
            return room or count + len(left) >= least

        def rows(place: int, begun: bool, count: int) -> list[list[Node]]:
            comma = [_leaf(f"{_BLANK},{_BLANK}")] if begun else []
            answer: list[list[Node]] = []
            for i in range(place, len(names)):
                name = names[i]
                if id(inner[name]) not in barren and possible(i + 1, count + 1):
                    answer.append([*comma, keys[name], inner[name], after(i + 1, True, count + 1)])
                if name in required:
                    return answer
            end = len(names)
            if others is not None and id(others) not in barren and possible(end, count + 1):
                key = [Leaf(others_key), _leaf(f"{_BLANK}:{_BLANK}")]
                answer.append([*comma, *key, others, after(end, True, count + 1)])
            if count >= least:
                answer.append([_leaf(rf"{_BLANK}\}}" if begun else r"\}")])
            return answer

        if least and others is None and len(names) < least:
            return []
        if most is not None and len(required) > most:
            return []
        needs: list[Node] = [inner[name] for name in required]
        if least > len(required) and others is None:
            pass  # optional members make up for the rest, see `possible`
        return [([_leaf(rf"\{{{_BLANK}"), after(0, False, 0)], needs)]


_WORDS = {"boolean": (b"true", b"false"), "null": (b"null",)}


def _leaf(pattern: str) -> Leaf:
    leaf = _leaves.get(pattern)
    if leaf is None:
        leaf = _leaves[pattern] = Leaf(values.lexeme(pattern))
    return leaf


_leaves: dict[str, Leaf] = {}


def _laid_out(value: Any) -> str:
    """The pattern of a value of JSON with blanks between its parts."""
    if not isinstance(value, dict | list):
        return re.escape(json.dumps(value, ensure_ascii=False))
    if isinstance(value, list):
        rows, ends = [_laid_out(item) for item in value], (r"\[", r"\]")
    else:
        ends = (r"\{", r"\}")
        rows = [f"{_laid_out(k)}{_BLANK}:{_BLANK}{_laid_out(v)}" for k, v in value.items()]
    inner = f"{_BLANK},{_BLANK}".join(rows)
    return f"{ends[0]}{_BLANK}{inner}{_BLANK}{ends[1]}" if rows else f"{ends[0]}{_BLANK}{ends[1]}"


def _key(name: str) -> Leaf:
    """A member's name, the colon and the blanks around it."""
    word = json.dumps(name, ensure_ascii=False)
    return Leaf(values.lexeme(f"{re.escape(word)}{_BLANK}:{_BLANK}"))


def _count(schema: dict[str, Any], key: str, default: Any) -> Any:
    value = schema.get(key, default)
    return value if value is None else int(value)


def _string(schema: dict[str, Any]) -> Lexeme:
    """The lexeme of strings."""
    least = _count(schema, "minLength", 0)
    most = _count(schema, "maxLength", None)
    if most is not None and least > most:
        raise ValueError(f"response_format: minLength is {least}, maxLength is {most}")
    parts: list[Lexeme] = [
        values.pattern_in_json(pattern, True) for pattern in schema.get("patterns", ())
    ]
    form = schema.get("format")
    if form is not None:
        if form not in values.FORMATS:
            raise ValueError(
                f"response_format: format {form!r} is not supported; supported: "
                f"{', '.join(values.FORMATS)}"
            )
        parts.append(values.pattern_in_json(values.FORMATS[form], False))
    if not parts and not least and most is None:
        return values.string()
    if least or most is not None:
        counted = values.Counted(least, most)
        if not parts:
            return counted
        parts.append(counted)
    names = [n for n in ("patterns", "format", "minLength", "maxLength") if n in schema]
    what = " and ".join(names).replace("patterns", "pattern")
    return parts[0] if len(parts) == 1 else Product(parts, what)


def _number(schema: dict[str, Any], whole: bool) -> Lexeme | None:
    """The lexeme of numbers; None if none is within the bounds."""
    low: tuple[Fraction, bool] | None = None
    high: tuple[Fraction, bool] | None = None
    for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        value = schema.get(key)
        if value is None:
            continue
        bound = (Fraction(str(value)), key.startswith("exclusive"))
        if key.endswith("inimum"):
            low = bound if low is None else max(low, bound)
        else:
            high = bound if high is None else min(high, bound, key=lambda b: (b[0], not b[1]))
    if low is None and high is None:
        return values.lexeme(values.INTEGER if whole else values.NUMBER)
    try:
        return values.Bounded(
            low and low[0], high and high[0], bool(low and low[1]), bool(high and high[1]), whole
        )
    except ValueError:
        return None


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float) and value.is_integer():
        return "integer"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _together(a: dict[str, Any], b: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return [merged(a, b)]
    except Unsatisfiable:
        return []


def _apart(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether it is certain that no value satisfies two schemas."""
    if not types_of(a) & types_of(b):
        return True
    try:
        both = merged(a, b)
    except (Unsatisfiable, ValueError):
        return True
    values_of = [v for key in ("enum", "const") if key in both for v in [both[key]]]
    if values_of:
        first = {json.dumps(v) for v in a.get("enum", [a["const"]] if "const" in a else [])}
        second = {json.dumps(v) for v in b.get("enum", [b["const"]] if "const" in b else [])}
        if first and second and not first & second:
            return True
    common = types_of(a) & types_of(b)
    if common <= {"object"}:
        return any(both.get("properties", {}).get(n) is False or _apart_at(a, b, n)
                   for n in both.get("required", ()))  # fmt: skip
    return False


def _apart_at(a: dict[str, Any], b: dict[str, Any], name: str) -> bool:
    first, second = (s.get("properties", {}).get(name) for s in (a, b))
    if first is None:
        first = a.get("additionalProperties")
    if second is None:
        second = b.get("additionalProperties")
    if first is False or second is False:
        return True
    plain = isinstance(first, dict) and isinstance(second, dict)
    combined = {"$ref", "anyOf", "oneOf", "allOf"}
    return plain and not combined & {*first, *second} and _apart(first, second)
