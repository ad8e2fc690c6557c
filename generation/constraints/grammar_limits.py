"""Which EBNF grammars an engine may be given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.errors import InvalidInput

MAX_GRAMMAR_CHARACTERS = 10_000
MAX_RULES = 200
MAX_REPEAT = 1_000
MAX_DEPTH = 20

_TOKEN = re.compile(
    r"(?P<space>\s+|#[^\n]*)"
    r"|(?P<define>::=)"
    r'|(?P<literal>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<klass>\[(?:[^\]\\\n]|\\.)*\])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)"
    r"|(?P<repeat>[*+?]|\{\s*\d*\s*(?:,\s*\d*\s*)?\})"
    r"|(?P<mark>[()|])"
)
_REMEDY = 'Write rules as `root ::= "a" | other`, one of them called root; see docs/constrained-output.md.'


class _Token(NamedTuple):
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Item:
    """A name (of a rule), a text, or alternatives in brackets."""

    name: str = ""
    is_empty: bool = False
    alternatives: tuple[tuple[_Item, ...], ...] = ()
    may_be_absent: bool = False
    is_repeated: bool = False


Rules = Mapping[str, tuple[tuple[_Item, ...], ...]]


def check_grammar(grammar: str) -> None:
    """Nothing, where an engine can be held to `grammar` and it describes at least one text.

    Raises:
        InvalidInput: it cannot be read, is too large, uses a rule that is not there, or describes no
            text at all. A rule that leads to itself with nothing read in between is refused too.
    """
    if not grammar.strip() or len(grammar) > MAX_GRAMMAR_CHARACTERS:
        raise InvalidInput(
            f"The grammar has {len(grammar):,} characters; 1 to {MAX_GRAMMAR_CHARACTERS:,} are taken.",
            remedy="Write a smaller one.",
        )
    rules = _Parser(list(_tokens(grammar))).rules()
    if "root" not in rules:
        raise InvalidInput("The grammar has no rule called root.", remedy=_REMEDY)
    if len(rules) > MAX_RULES:
        raise InvalidInput(
            f"The grammar has {len(rules)} rules; {MAX_RULES} are taken.", remedy="Write a smaller one."
        )
    for item in (item for body in rules.values() for item in _all_items(body)):
        if item.name and item.name not in rules:
            raise InvalidInput(f"The grammar uses `{item.name}`, which no rule defines.", remedy=_REMEDY)
    if "root" not in _ending(rules):
        raise InvalidInput(
            "The grammar describes no text: every way through it leads on without end.",
            remedy="Give a rule an alternative that does not lead back to itself.",
        )
    _refuse_empty_loops(rules)


def _tokens(grammar: str) -> Iterator[_Token]:
    position = 0
    while position < len(grammar):
        match = _TOKEN.match(grammar, position)
        if match is None or match.lastgroup is None:
            line = grammar.count("\n", 0, position) + 1
            raise InvalidInput(
                f"The grammar cannot be read at {grammar[position : position + 20]!r} in line {line}.",
                remedy=_REMEDY,
            )
        position = match.end()
        if match.lastgroup != "space":
            yield _Token(match.lastgroup, match.group())


class _Parser:
    """Reads rules from tokens; a rule ends where the next `name ::=` begins."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def rules(self) -> Rules:
        found: dict[str, tuple[tuple[_Item, ...], ...]] = {}
        while self._next < len(self._tokens):
            name = self._tokens[self._next]
            if not self._at_rule():
                raise InvalidInput(f"The grammar cannot be read at {name.text[:20]!r}.", remedy=_REMEDY)
            if name.text in found:
                raise InvalidInput(f"The grammar defines `{name.text}` twice.", remedy=_REMEDY)
            self._next += 2
            found[name.text] = self._alternatives(0)
        return found

    def _at_rule(self) -> bool:
        following = self._tokens[self._next : self._next + 2]
        return [token.kind for token in following] == ["name", "define"]

    def _alternatives(self, depth: int) -> tuple[tuple[_Item, ...], ...]:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"The grammar nests brackets more than {MAX_DEPTH} deep.", remedy="Use rules.")
        alternatives: list[list[_Item]] = [[]]
        while self._next < len(self._tokens) and not self._at_rule():
            token = self._tokens[self._next]
            if token.text == ")" and token.kind == "mark":
                break
            self._next += 1
            if token.text == "|" and token.kind == "mark":
                alternatives.append([])
                continue
            alternatives[-1].append(self._repeated(self._item(token, depth)))
        return tuple(map(tuple, alternatives))

    def _item(self, token: _Token, depth: int) -> _Item:
        if token.kind == "name":
            return _Item(name=token.text)
        if token.kind in ("literal", "klass"):
            return _Item(is_empty=token.text == '""')
        if token.text != "(" or token.kind != "mark":
            raise InvalidInput(f"The grammar cannot be read at {token.text[:20]!r}.", remedy=_REMEDY)
        inner = self._alternatives(depth + 1)
        if self._next >= len(self._tokens) or self._tokens[self._next].text != ")":
            raise InvalidInput("The grammar opens a bracket that it does not close.", remedy=_REMEDY)
        self._next += 1
        return _Item(alternatives=inner)

    def _repeated(self, item: _Item) -> _Item:
        if self._next >= len(self._tokens) or self._tokens[self._next].kind != "repeat":
            return item
        text = self._tokens[self._next].text
        self._next += 1
        bounds = [int(number) for number in re.findall(r"\d+", text)]
        if any(bound > MAX_REPEAT for bound in bounds):
            raise InvalidInput(
                f"The grammar repeats something {max(bounds):,} times; {MAX_REPEAT:,} are taken.",
                remedy="Lower the bound, or use `*` and `+`.",
            )
        if any(all(inner.is_repeated for inner in items) for items in item.alternatives if items):
            raise InvalidInput(
                "The grammar repeats something that is itself nothing but repetition: there are too many ways "
                "to read a text.",
                remedy="Repeat once, or put something fixed into what is repeated.",
            )
        may_be_absent = text in "*?" or (text.startswith("{") and (not bounds or bounds[0] == 0))
        return _Item(alternatives=((item,),), may_be_absent=may_be_absent, is_repeated=True)


def _all_items(alternatives: Sequence[Sequence[_Item]]) -> Iterator[_Item]:
    for items in alternatives:
        for item in items:
            yield item
            yield from _all_items(item.alternatives)


def _ending(rules: Rules) -> set[str]:
    """The rules that describe a finite text."""

    def ends(item: _Item) -> bool:
        if item.name:
            return item.name in found
        return item.may_be_absent or not item.alternatives or any(map(all_end, item.alternatives))

    def all_end(items: Sequence[_Item]) -> bool:
        return all(map(ends, items))

    found: set[str] = set()
    while True:
        more = {name for name, body in rules.items() if name not in found and any(map(all_end, body))}
        if not more:
            return found
        found |= more


def _refuse_empty_loops(rules: Rules) -> None:
    """`a ::= a | "x"` has no end of ways to read the same text."""
    empty: set[str] = set()

    def can_be_empty(item: _Item) -> bool:
        if item.name:
            return item.name in empty
        if item.alternatives:
            return item.may_be_absent or any(all(map(can_be_empty, items)) for items in item.alternatives)
        return item.is_empty

    while True:
        more = {n for n, b in rules.items() if n not in empty and any(all(map(can_be_empty, i)) for i in b)}
        if not more:
            break
        empty |= more

    def alone(alternatives: Sequence[Sequence[_Item]]) -> Iterator[str]:
        """Rules that may make up the whole of one of these."""
        for items in alternatives:
            for i, item in enumerate(items):
                if all(can_be_empty(other) for j, other in enumerate(items) if j != i):
                    if item.name:
                        yield item.name
                    yield from alone(item.alternatives)

    reached = {name: set(alone(body)) for name, body in rules.items()}
    for name in rules:
        if name in _reached(name, reached):
            raise InvalidInput(
                f"The grammar's rule `{name}` leads back to itself with nothing read in between.",
                remedy="Have every way back to a rule read at least one character.",
            )
    _refuse_both_ways(rules, can_be_empty)


def _refuse_both_ways(rules: Rules, can_be_empty: Callable[[_Item], bool]) -> None:
    """`a ::= a a | "x"` has so many ways to read a text that each further token takes longer: with 150
    tokens 0.1 s, and it grows with their square."""

    def edge(alternatives: Sequence[Sequence[_Item]], *, step: int) -> Iterator[str]:
        """Rules that one of these may begin with, or end with where `step` is -1."""
        for items in alternatives:
            for item in items[::step]:
                if item.name:
                    yield item.name
                yield from edge(item.alternatives, step=step)
                if not can_be_empty(item):
                    break

    first, last = ({name: set(edge(body, step=step)) for name, body in rules.items()} for step in (1, -1))
    for name in rules:
        if name in _reached(name, first) and name in _reached(name, last):
            raise InvalidInput(
                f"The grammar's rule `{name}` can begin and end with itself: there are too many ways to read "
                "a text.",
                remedy='Write a list as `item ("+" item)*`.',
            )


def _reached(name: str, following: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(following[name])
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting.extend(following[found])
    return seen
