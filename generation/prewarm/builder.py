"""Heads in token ids, as the prefix planner's prompts begin."""

from __future__ import annotations

from functools import lru_cache

from core.ids import CollectionId, DocumentId, TenantId
from generation.instructions import instructions_for
from generation.prefix.pieces import Piece, PieceKey, is_whole
from generation.prefix.shelf import PieceShelf
from generation.prewarm.heads import BuiltHead, Head
from generation.prompt import PassageLayout
from inference.protocols import ChatTokenizer


class PieceHeads:
    """Builds heads from what is live in SQL. Safe to share between threads."""

    def __init__(self, shelf: PieceShelf, tokenizer: ChatTokenizer, *, is_brief: bool) -> None:
        """`is_brief`: as for the writer of answers, whose prompts these are to begin."""
        self._shelf = shelf
        self._tokenizer = tokenizer
        self._is_brief = is_brief
        self._layout = lru_cache(maxsize=8)(self._make_layout)

    def build(self, tenant_id: TenantId, collection_id: CollectionId, head: Head) -> BuiltHead | None:
        """The head up to the first passage that is gone; None if that is the first of all."""
        layout = self._layout(head.mode)
        known = self._shelf.load(tenant_id, collection_id, head.keys, layout)
        token_ids = list(layout.opening_ids)
        pieces: list[Piece] = []
        for number, key in enumerate(head.keys, start=1):
            piece = known.get(key) or self._whole(tenant_id, key, layout)
            if piece is None:
                break
            token_ids += (*layout.marker(number), *piece.token_ids)
            pieces.append(piece)
        if head.keys and not pieces:
            return None
        kept = pieces[0].document_id if head.is_marked and len(pieces) == 1 else None
        return BuiltHead(head, tuple(token_ids), kept_document=kept)

    def _whole(self, tenant_id: TenantId, key: PieceKey, layout: PassageLayout) -> Piece | None:
        if not is_whole(key):
            return None
        return self._shelf.whole(tenant_id, DocumentId(key.removeprefix("whole:")), layout)

    def _make_layout(self, mode: str) -> PassageLayout:
        # The language of a question shows behind its passages only.
        instructions = instructions_for("", mode=mode, brief=self._is_brief)
        return PassageLayout(self._tokenizer, self._tokenizer.chat_frame(has_system=True), instructions)
