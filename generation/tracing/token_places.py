"""Where tokens stand in the text that they write."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Characters `start` to `end` of a text are those that the token writes, or a part of.

    A token that is not `is_whole` begins or ends inside a character, as each does of the two or
    three that many a Chinese character is written by: they all stand where the character stands.
    """

    start: int
    end: int
    is_whole: bool


def place_tokens(pieces: Sequence[bytes]) -> list[TokenPlace]:
    """A place for each token in the text of all together, `join_pieces(pieces)`.

    Args:
        pieces: what each token writes, in UTF-8; tokens may split characters.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    position, is_inside = 0, False
    places = []
    for piece in pieces:
        start, begins_inside = position, is_inside
        position += len(decoder.decode(piece))
        is_inside = bool(decoder.getstate()[0])
        ends_inside = is_inside and bool(piece)
        places.append(
            TokenPlace(start, position + ends_inside, not ((begins_inside and piece) or ends_inside))
        )
    return places


def join_pieces(pieces: Sequence[bytes]) -> str:
    """The text of all tokens; what is no UTF-8 is `U+FFFD`."""
    return b"".join(pieces).decode("utf-8", errors="replace")


def place_in_text(pieces: Sequence[bytes], text: str) -> list[TokenPlace] | None:
    """The tokens' places in what an engine made of them; None where that is some other text.

    An engine leaves out special tokens, a stop text and what follows it, and some the space that a
    text begins with. Tokens that left nothing stand at the end, and are empty.
    """
    whole = join_pieces(pieces)
    shift = whole.find(text)
    if shift < 0:
        return None

    def clip(position: int) -> int:
        return min(max(0, position - shift), len(text))

    return [TokenPlace(clip(p.start), clip(p.end), p.is_whole) for p in place_tokens(pieces)]
