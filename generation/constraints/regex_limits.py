"""Which patterns an engine may be given.

xgrammar compiles a pattern with every token of the vocabulary in mind. Most take milliseconds, but one
that can match a text in many ways (`(.{0,50}){0,50}`) was measured to take more than six minutes, and
vLLM gives up waiting after five seconds without stopping the thread that works on it. So what could
grow so is refused here, by rules that take no time themselves.

A bounded repetition of a wide class is dear too: `.{0,20}` took 0.2 s with SmolLM2's 49,152 tokens, and
`.{0,200}` 2.7 s, beyond which it grows no more; `.*` takes milliseconds. `compile_cost` counts that.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from core.errors import InvalidInput

MAX_PATTERN_CHARACTERS = 2_000
MAX_PATTERN_DEPTH = 20
MAX_REPEAT = 2_000
MAX_POSITIONS = 4_000
"""Characters that a pattern could name one by one with its bounded repetitions written out."""

MAX_COMPILE_COST = 100
"""That of `.{0,100}`: a second or two, and vLLM stops waiting after five, on a busy machine too."""

_SATURATION = 200  # a longer repetition costs no more
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT)
_WIDE_CATEGORIES = (
    ops.CATEGORY_NOT_DIGIT,
    ops.CATEGORY_NOT_SPACE,
    ops.CATEGORY_NOT_WORD,
    ops.CATEGORY_WORD,
)
_OPPOSITES = (
    (ops.CATEGORY_DIGIT, ops.CATEGORY_NOT_DIGIT),
    (ops.CATEGORY_SPACE, ops.CATEGORY_NOT_SPACE),
    (ops.CATEGORY_WORD, ops.CATEGORY_NOT_WORD),
)
_UNSUPPORTED = {
    ops.ASSERT: "lookahead and lookbehind",
    ops.ASSERT_NOT: "lookahead and lookbehind",
    ops.GROUPREF: "backreferences",
    ops.GROUPREF_EXISTS: "conditional groups",
    ops.ATOMIC_GROUP: "atomic groups",
    ops.POSSESSIVE_REPEAT: "possessive repetition",
}
_REMEDY = "Write a plain pattern of literals, classes, groups, alternatives and bounded repetition."


def check_regex(pattern: str, *, where: str = "The pattern") -> float:
    """Its `compile_cost`, where an engine can be held to `pattern` at no risk.

    Args:
        where: what to call it in the message.

    Raises:
        InvalidInput: it is no pattern, uses what engines cannot enforce, or could hang one.
    """
    if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS or "\x00" in pattern:
        raise InvalidInput(
            f"{where} has {len(pattern):,} characters"
            + (
                ", one of them NUL." if "\x00" in pattern else f"; 1 to {MAX_PATTERN_CHARACTERS:,} are taken."
            ),
            remedy="Shorten it.",
        )
    if _depth(pattern) > MAX_PATTERN_DEPTH:
        raise InvalidInput(
            f"{where} nests groups more than {MAX_PATTERN_DEPTH} deep.", remedy="Flatten its groups."
        )
    parsed = _parse(pattern, where)
    if parsed.state.groupdict or parsed.state.flags & ~re.UNICODE:
        raise InvalidInput(f"{where} uses named groups or flags, which engines do not know.", remedy=_REMEDY)
    items = list(parsed)
    for operator, argument in items[1:-1] if len(items) > 1 else []:
        _refuse_anchor(operator, argument, where)
    size = sum(_size(item, where, top=True) for item in items)
    if _longest(items) < 1:
        raise InvalidInput(
            f"{where} matches nothing, or the empty text only.", remedy="Let it match what an answer may say."
        )
    if size > MAX_POSITIONS:
        raise InvalidInput(
            f"{where} repeats so much that it stands for {size:,} characters; {MAX_POSITIONS:,} are taken.",
            remedy="Lower the bounds of its repetitions, or use `*` and `+`.",
        )
    cost = compile_cost(items)
    if cost > MAX_COMPILE_COST:
        raise InvalidInput(
            f"{where} repeats wide classes such as `.` up to so high bounds that engines would work on it for "
            "many seconds.",
            remedy="Use `*` and `+` in their place, narrower classes, or lower bounds.",
        )
    return cost


def compile_cost(items: Sequence[Any]) -> float:
    """How long compiling takes, in places of `.` that bounded repetitions offer."""
    return sum(_cost(item, times=1) for item in items)


def _cost(item: Any, *, times: int) -> float:
    operator, argument = item
    if operator in _REPEATS:
        _, high, body = argument
        bound = 1 if high is ops.MAXREPEAT else min(int(high), _SATURATION)
        return sum(_cost(part, times=bound) for part in body)
    bodies = list(_bodies(item))
    if bodies:
        return sum(_cost(part, times=times) for body in bodies for part in body)
    return _width(item) * times if times > 1 else 0.0


def _width(item: Any) -> float:
    """How much of the vocabulary a class lets pass, `.` being 1."""
    operator, argument = item
    if operator in (ops.ANY, ops.NOT_LITERAL):
        return 1.0
    if operator is not ops.IN:
        return 0.0
    if any(part[0] is ops.NEGATE or part[1] in _WIDE_CATEGORIES for part in argument):
        return 1.0
    ascii_size = sum(_ascii_size(part) for part in argument)
    return 1.0 if ascii_size > 64 else 0.25 if ascii_size > 16 else 0.1


def _ascii_size(part: Any) -> int:
    operator, argument = part
    if operator is ops.RANGE:
        first, last = (int(bound) for bound in argument)
        return max(0, min(last, 127) - first + 1)
    return 10 if operator is ops.CATEGORY else 1


def _parse(pattern: str, where: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that may mean something else some day
            return _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{where} is not a regular expression: {error}.", remedy=_REMEDY) from error


def _depth(pattern: str) -> int:
    """How deep round brackets nest; those in classes and escaped ones count too, which does no harm."""
    depth = deepest = 0
    for character in pattern:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest


def _refuse_anchor(operator: Any, argument: Any, where: str) -> None:
    if operator is ops.AT:
        raise InvalidInput(
            f"{where} has `^`, `$` or a word boundary in its middle, which engines cannot enforce.",
            remedy="It always matches the whole text: leave anchors out.",
        )


def _size(item: Any, where: str, *, top: bool = False) -> int:
    """Positions of one element, refusing what is not taken on the way."""
    operator, argument = item
    if operator in _UNSUPPORTED:
        raise InvalidInput(
            f"{where} uses {_UNSUPPORTED[operator]}, which engines cannot enforce.", remedy=_REMEDY
        )
    if operator is ops.AT:
        if not top or argument not in (
            ops.AT_BEGINNING,
            ops.AT_BEGINNING_STRING,
            ops.AT_END,
            ops.AT_END_STRING,
        ):
            _refuse_anchor(operator, argument, where)
        return 0
    if operator in _REPEATS:
        return _repeated(argument, where)
    return sum(_size(part, where) for body in _bodies(item) for part in body) or 1


def _repeated(argument: Any, where: str) -> int:
    low, high, body = argument
    bounds = [bound for bound in (low, high) if bound is not ops.MAXREPEAT]
    if max(bounds) > MAX_REPEAT:
        raise InvalidInput(
            f"{where} repeats something {max(bounds):,} times; {MAX_REPEAT:,} are taken.",
            remedy="Lower the bound, or use `*` and `+`.",
        )
    if low != high and _is_elastic(list(body)):
        raise InvalidInput(
            f"{where} repeats something that is itself nothing but repetition, as `(a+)+` does: there are "
            "too many ways to match a text.",
            remedy="Put something fixed, as a separator, into what is repeated, or repeat once.",
        )
    times = low + 1 if high is ops.MAXREPEAT else high
    return int(max(1, times)) * sum(_size(part, where) for part in body)


def _longest(items: Sequence[Any]) -> float:
    """Characters of the longest text that matches, infinity included; below 0: no text does."""
    lengths = list(map(_longest_of, items))
    return -math.inf if any(length < 0 for length in lengths) else sum(lengths)


def _longest_of(item: Any) -> float:
    operator, argument = item
    if operator is ops.AT:
        return 0
    if operator in _REPEATS:
        low, high, body = argument
        longest = _longest(body)
        if longest <= 0 or high == 0:
            return longest if low else 0  # without the part that nothing matches
        return math.inf if high is ops.MAXREPEAT else longest * int(high)
    bodies = list(_bodies(item))
    if bodies:
        return max(_longest(body) for body in bodies)
    return -math.inf if operator is ops.IN and _lets_nothing_pass(argument) else 1


def _lets_nothing_pass(parts: Sequence[Any]) -> bool:
    """Whether it is a class as `[^\\s\\S]`, which excludes every character."""
    if parts[0][0] is not ops.NEGATE:
        return False
    categories = {argument for operator, argument in parts if operator is ops.CATEGORY}
    if any(plain in categories and opposite in categories for plain, opposite in _OPPOSITES):
        return True
    covered = 0
    for first, last in sorted(argument for operator, argument in parts if operator is ops.RANGE):
        if first > covered:
            break
        covered = max(covered, last + 1)
    return covered > sys.maxunicode


def _is_elastic(items: Sequence[Any]) -> bool:
    """Whether every part of it, in one alternative at least, is of variable length."""
    plain = [item for item in items if item[0] is not ops.AT]
    return any(map(_is_variable, plain)) and all(map(_is_variable, plain))


def _is_variable(item: Any) -> bool:
    operator, argument = item
    if operator in _REPEATS:
        return bool(argument[0] != argument[1]) or _is_elastic(list(argument[2]))
    bodies = list(_bodies(item))
    return bool(bodies) and any(_is_elastic(list(body)) or not list(body) for body in bodies)


def _bodies(item: Any) -> Iterator[Any]:
    """What stands inside a group, or each of several alternatives."""
    operator, argument = item
    if operator is ops.SUBPATTERN:
        yield argument[-1]
    elif operator is ops.BRANCH:
        yield from argument[1]
