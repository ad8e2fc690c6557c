"""The bytes that each token writes: tokens need not end where characters do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tokenizers import Tokenizer as FastTokenizer

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_ANCHOR = "a"


class TokenSpeller:
    """Spells a tokenizer's tokens in UTF-8.

    A byte-level vocabulary (GPT-2 and its kin) spells every byte as a character of its own, which is
    undone here; a SentencePiece one has tokens `<0xE9>` for bytes. Any other token is decoded behind
    a token that is known, since decoders strip the space that a text would begin with.
    """

    def __init__(self, tokenizer: FastTokenizer) -> None:
        self._tokenizer = tokenizer
        document = json.loads(tokenizer.to_str())
        self._special = {token["id"] for token in document["added_tokens"] if token["special"]}
        self._added = {token["id"]: token["content"] for token in document["added_tokens"]}
        self._bytes = _byte_alphabet() if _is_byte_level(document.get("decoder")) else {}
        self._anchor = tokenizer.encode(_ANCHOR, add_special_tokens=False).ids
        self._known: dict[int, bytes] = {}

    @property
    def vocabulary_size(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def spell(self, token_ids: Sequence[int]) -> list[bytes]:
        """One entry a token; special tokens and ids beyond the vocabulary write nothing."""
        return [self._spelled(token_id) for token_id in token_ids]

    def _spelled(self, token_id: int) -> bytes:
        if token_id not in self._known:
            self._known[token_id] = self._spell(token_id)
        return self._known[token_id]

    def _spell(self, token_id: int) -> bytes:
        name = self._tokenizer.id_to_token(token_id)
        if name is None or token_id in self._special:
            return b""
        if token_id in self._added:
            return str(self._added[token_id]).encode()
        if self._bytes:
            return bytes(self._bytes[character] for character in name if character in self._bytes)
        if byte := _BYTE_TOKEN.fullmatch(name):
            return bytes.fromhex(byte[1])
        before = self._tokenizer.decode(self._anchor, skip_special_tokens=False)
        both = self._tokenizer.decode([*self._anchor, token_id], skip_special_tokens=False)
        return str(both[len(before) :]).encode()


def _is_byte_level(decoder: object) -> bool:
    return '"ByteLevel"' in json.dumps(decoder)


def _byte_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + position): byte for position, byte in enumerate(others)}
