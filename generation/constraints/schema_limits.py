"""Which JSON schemas an engine may be given: those it can enforce, can fill, and cannot choke on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from core.errors import InvalidInput
from generation.constraints.regex_limits import MAX_COMPILE_COST, check_regex

MAX_SCHEMA_CHARACTERS = 20_000
MAX_SCHEMA_DEPTH = 16
MAX_SCHEMA_NODES = 1_000
MAX_PROPERTIES = 200
MAX_ENUM_VALUES = 500
MAX_ITEMS = 1_000
MAX_STRING = 10_000
MAX_LEAST_CHARACTERS = 50_000
"""Of the shortest text that fits; no window has room for more. References to references double it each time."""

MAX_ENGINE_LENGTHS = 200
"""Characters of all bounded strings together that the engine itself counts."""

_FORMATS = frozenset(
    {"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
)
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema", "$comment", "deprecated"})
_ENFORCED = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems",
        "enum", "const", "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions",
    }
)  # fmt: skip
_BOUNDS = {"minItems": MAX_ITEMS, "maxItems": MAX_ITEMS, "minLength": MAX_STRING, "maxLength": MAX_STRING}
_PAIRS = (("minItems", "maxItems"), ("minLength", "maxLength"), ("minimum", "maximum"))
_MAPS, _LISTS = ("properties", "$defs", "definitions"), ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties")
_REMEDY = "See docs/constrained-output.md for what a schema may hold."


def check_schema(schema: Mapping[str, Any]) -> None:
    """Nothing, where an engine can be held to `schema` and something fits it.

    Raises:
        InvalidInput: it is no schema, is too large, uses what engines cannot enforce, or nothing
            finite fits it. The message names the place, as `#/properties/year`.
    """
    text = _serialized(schema)
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InvalidInput(
            f"The schema has {len(text):,} characters; {MAX_SCHEMA_CHARACTERS:,} are taken.",
            remedy="Leave out descriptions, or ask in several questions.",
        )
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        raise InvalidInput(
            f"This is not a JSON schema: at `#/{place}`, {error.message[:300]}.", remedy=_REMEDY
        ) from error
    nodes = list(_walk(schema, "#", schema))
    _check_sizes(nodes)
    cost = sum(_check_node(node) for node in nodes)
    if cost > MAX_COMPILE_COST:
        raise InvalidInput(
            "The schema's patterns repeat wide classes such as `.` up to so high bounds that engines would "
            "work on it for many seconds.",
            remedy="Use `*` and `+` in their place, narrower classes, or lower bounds.",
        )
    least = _LeastText(schema).of(schema)
    if MAX_LEAST_CHARACTERS < least < math.inf:
        raise InvalidInput(
            f"The shortest text that fits the schema has about {least:,.0f} characters; "
            f"{MAX_LEAST_CHARACTERS:,} are taken.",
            remedy="Ask for fewer items, or make what repeats optional.",
        )
    if least == math.inf:
        raise InvalidInput(
            "Nothing fits the schema: it wants something inside itself without end, or a value that no "
            "rule of it lets pass.",
            remedy="Make the part that refers to itself optional, and look for bounds that contradict.",
        )


def _serialized(schema: Mapping[str, Any]) -> str:
    try:
        _require_shallow(schema)
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (RecursionError, ValueError, TypeError) as error:
        raise InvalidInput(f"The schema cannot be read: {error}.", remedy=_REMEDY) from error


def _require_shallow(schema: Any) -> None:
    """By levels, since recursion is what a deep one would break."""
    level: list[Any] = [schema]
    for _ in range(3 * MAX_SCHEMA_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, Mapping) else node)
            if isinstance(child, Mapping | list)
        ]
        if not level:
            return
    raise ValueError(f"it nests more than {MAX_SCHEMA_DEPTH} schemas deep")


@dataclass(frozen=True, slots=True)
class _Node:
    schema: Mapping[str, Any]
    place: str
    root: Mapping[str, Any]


def _walk(schema: Any, place: str, root: Mapping[str, Any]) -> Iterator[_Node]:
    if not isinstance(schema, Mapping):
        return  # true and false
    yield _Node(schema, place, root)
    for key in _MAPS:
        for name, child in schema.get(key, {}).items():
            yield from _walk(child, f"{place}/{key}/{name}", root)
    for key in _LISTS:
        for i, child in enumerate(schema.get(key, ())):
            yield from _walk(child, f"{place}/{key}/{i}", root)
    for key in _SINGLES:
        yield from _walk(schema.get(key), f"{place}/{key}", root)


def _check_sizes(nodes: list[_Node]) -> None:
    counts = (
        ("schemas inside it", len(nodes), MAX_SCHEMA_NODES),
        ("properties", sum(len(n.schema.get("properties", ())) for n in nodes), MAX_PROPERTIES),
        ("enum values", sum(len(n.schema.get("enum", ())) for n in nodes), MAX_ENUM_VALUES),
    )
    for what, count, limit in counts:
        if count > limit:
            raise InvalidInput(
                f"The schema has {count:,} {what}; {limit:,} are taken.", remedy="Ask in several questions."
            )
    deepest = max(nodes, key=lambda node: node.place.count("/"))
    if deepest.place.count("/") > 2 * MAX_SCHEMA_DEPTH:
        raise InvalidInput(
            f"The schema nests more than {MAX_SCHEMA_DEPTH} deep, at `{deepest.place[:200]}`.",
            remedy="Flatten it.",
        )


def _check_node(node: _Node) -> float:
    """What its own pattern costs to compile."""
    cost = 0.0
    schema, place = node.schema, node.place
    unknown = schema.keys() - _ENFORCED - _ANNOTATIONS
    if unknown:
        raise InvalidInput(
            f"The schema uses `{min(unknown)}` at `{place}`, which engines cannot be held to.", remedy=_REMEDY
        )
    if len(schema.get("allOf", ())) > 1:
        raise InvalidInput(
            f"The schema joins several schemas by `allOf` at `{place}`, which engines cannot be held to.",
            remedy="Write them as one.",
        )
    if "$ref" in schema and _target(schema["$ref"], node.root) is None:
        raise InvalidInput(
            f"`{str(schema['$ref'])[:100]}` at `{place}` refers to nothing in the schema.",
            remedy="Refer to `#/$defs/…` of the same schema; nothing is fetched.",
        )
    if schema.get("format", "date") not in _FORMATS:
        raise InvalidInput(
            f"The format `{schema['format']}` at `{place}` is not one of: {', '.join(sorted(_FORMATS))}.",
            remedy="Use `pattern`.",
        )
    if "pattern" in schema:
        cost = check_regex(schema["pattern"], where=f"The pattern at `{place}`")
        if schema.keys() & {"minLength", "maxLength", "format"}:
            raise InvalidInput(
                f"`pattern` stands beside a length or a format at `{place}`; engines enforce one of them.",
                remedy="Say the length in the pattern, as `.{1,20}`.",
            )
    _check_bounds(schema, place)
    _check_values(node)
    return cost


def _check_bounds(schema: Mapping[str, Any], place: str) -> None:
    for key, limit in _BOUNDS.items():
        if schema.get(key, 0) > limit:
            raise InvalidInput(
                f"`{key}` is {schema[key]:,} at `{place}`; {limit:,} are taken.", remedy="Lower it."
            )
    for low, high in _PAIRS:
        if schema.get(low, -math.inf) > schema.get(high, math.inf):
            raise InvalidInput(
                f"Nothing fits the schema: `{low}` is above `{high}` at `{place}`.", remedy="Mend the bounds."
            )
    lowest = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    highest = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    is_open = "exclusiveMinimum" in schema or "exclusiveMaximum" in schema
    nothing_between = lowest > highest or (is_open and lowest == highest)
    if schema.get("type") == "integer" and math.isfinite(lowest) and math.isfinite(highest):
        first = math.floor(lowest) + 1 if schema.get("exclusiveMinimum") == lowest else math.ceil(lowest)
        last = math.ceil(highest) - 1 if schema.get("exclusiveMaximum") == highest else math.floor(highest)
        nothing_between = nothing_between or first > last
    if nothing_between:
        raise InvalidInput(
            f"Nothing fits the schema: no number fits at `{place}`.", remedy="Mend the bounds."
        )


def _check_values(node: _Node) -> None:
    """That the values listed fit the rules beside them, and that what is required is described."""
    schema, place = node.schema, node.place
    for key in ("enum", "const"):
        if key not in schema:
            continue
        values = schema["enum"] if key == "enum" else [schema["const"]]
        rest = {k: v for k, v in schema.items() if k not in (key, "$ref", "pattern", "$defs", "definitions")}
        is_plain = not any(k in rest for k in (*_LISTS, *_SINGLES, "properties"))
        if not values or (is_plain and not any(Draft202012Validator(rest).is_valid(v) for v in values)):
            raise InvalidInput(
                f"Nothing fits the schema: no value of `{key}` passes at `{place}`.",
                remedy="Mend the values.",
            )
    if "enum" not in schema and "const" not in schema:
        missing = [name for name in schema.get("required", ()) if name not in schema.get("properties", {})]
        if missing:
            raise InvalidInput(
                f"`required` names `{str(missing[0])[:100]}` at `{place}`, which `properties` does not describe.",
                remedy="Describe it, or do not require it.",
            )


def _target(reference: object, root: Mapping[str, Any]) -> Any:
    """What a reference within the schema points to; None for any other."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: Any = root
    for part in reference[2:].split("/") if len(reference) > 2 else ():
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found if isinstance(found, Mapping | bool) else None


def for_engine(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as an engine is given it: without those lengths of strings that would take it many
    seconds to compile. Validation holds texts to them all the same.

    A string of a length costs what `.` repeated so often costs. The shortest are kept first.
    """
    lengths = sorted(
        max(node.schema.get("maxLength", 0), node.schema.get("minLength", 0))
        for node in _walk(schema, "#", schema)
    )
    longest, left = 0, MAX_ENGINE_LENGTHS
    for length in lengths:
        if length > left:
            break
        longest, left = length, left - length
    loosened: dict[str, Any] = _without_lengths(schema, above=longest)
    return loosened


def _without_lengths(schema: Any, *, above: int) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    is_dear = max(schema.get("maxLength", 0), schema.get("minLength", 0)) > above
    kept = {
        key: value for key, value in schema.items() if not (is_dear and key in ("minLength", "maxLength"))
    }
    for key in _MAPS:
        if key in kept:
            kept[key] = {name: _without_lengths(child, above=above) for name, child in kept[key].items()}
    for key in _LISTS:
        if key in kept:
            kept[key] = [_without_lengths(child, above=above) for child in kept[key]]
    for key in _SINGLES:
        if key in kept:
            kept[key] = _without_lengths(kept[key], above=above)
    return kept


class _LeastText:
    """Characters of the shortest JSON that fits, infinity if nothing finite does: the least fixpoint
    over what the schema refers to. What types and patterns add beyond one character is not counted."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        references = {
            node.schema["$ref"]: _target(node.schema["$ref"], root)
            for node in _walk(root, "#", root)
            if "$ref" in node.schema
        }
        self._least: dict[str, float] = {}
        shrank = True
        while shrank:  # at most as often as there are references: each round settles one at least
            found = {name: self.of(target) for name, target in references.items()}
            shrank = found != self._least
            self._least = found

    def of(self, schema: Any) -> float:
        if not isinstance(schema, Mapping):
            return math.inf if schema is False else 1
        wanted = [1.0, self._of_object(schema), self._of_array(schema)]
        if schema.get("type") == "string":
            wanted.append(2 + schema.get("minLength", 0))
        if "$ref" in schema:
            wanted.append(self._least.get(schema["$ref"], math.inf))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                wanted.append(min(map(self.of, schema[key])))
        wanted += map(self.of, schema.get("allOf", ()))
        return max(wanted)

    def _of_object(self, schema: Mapping[str, Any]) -> float:
        properties = schema.get("properties", {})
        names = [name for name in schema.get("required", ()) if name in properties]
        return sum(len(name) + len('"":,') + self.of(properties[name]) for name in names)

    def _of_array(self, schema: Mapping[str, Any]) -> float:
        further = schema.get("minItems", 0) - len(schema.get("prefixItems", ()))
        return further * (1 + self.of(schema.get("items", True))) if further > 0 else 0
