"""What a document's tag may be."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from core.errors import InvalidInput

MAX_TAG_CHARACTERS: Final = 64
MAX_TAGS: Final = 32
"""Of one document."""

SEPARATORS: Final = ",、"
"""What stands between tags in one line of text; a fullwidth comma is one too, by NFKC."""

_SPACE = re.compile(r"\s+")
_BETWEEN = re.compile(f"[{SEPARATORS}]")


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each tag once, as it is stored and compared, in the order given.

    NFKC, lower case, white space trimmed and otherwise single: `Ｈ１　Report` and `h1 report` are one
    tag. Lower case is what is kept, and not the caller's spelling, so that a tag is found by whoever
    types it, in one indexed comparison, and lists show no twins.

    Raises:
        InvalidInput: a tag is blank, longer than 64 characters, or holds a comma or a control character.
    """
    return tuple(dict.fromkeys(map(_clean, tags)))


def clean_document_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """`clean_tags`, and no more of them than one document may have. Raises `InvalidInput`."""
    cleaned = clean_tags(tags)
    if len(cleaned) > MAX_TAGS:
        raise InvalidInput(
            f"{len(cleaned)} tags are too many; a document has at most {MAX_TAGS}.",
            remedy="Leave some out.",
            max_tags=MAX_TAGS,
        )
    return cleaned


def split_tags(text: str) -> list[str]:
    """The tags of one line, as typed: `合同，2026, 租赁` are three. Blank ones are left out."""
    parts = _BETWEEN.split(unicodedata.normalize("NFKC", text))
    return [part for part in parts if part.strip()]


def _clean(tag: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", tag).lower())
    cleaned = _SPACE.sub(" ", folded).strip()
    if not cleaned:
        raise InvalidInput("A tag is blank.", remedy="Give it at least one character.")
    if len(cleaned) > MAX_TAG_CHARACTERS:
        raise InvalidInput(
            f"The tag {cleaned[:20]!r}… has {len(cleaned)} characters; at most {MAX_TAG_CHARACTERS} are allowed.",
            remedy="Shorten it.",
            max_characters=MAX_TAG_CHARACTERS,
        )
    if _BETWEEN.search(cleaned) or any(_is_hidden(character) for character in cleaned):
        raise InvalidInput(
            f"The tag {cleaned!r} holds a comma or a character that cannot be seen.",
            remedy="Take it out; several tags are given one by one.",
        )
    return cleaned


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
