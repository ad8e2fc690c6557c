"""What is remembered of pieces' token ids."""

from __future__ import annotations

from pathlib import Path

from generation.instructions import instructions_for
from generation.prefix.pieces import PieceKey
from generation.prefix.shelf import PieceShelf
from generation.prompt import PassageLayout
from storage.database import Database
from tests.pipeline_fixtures import WordTokenizer
from tests.prefix_pieces import piece


def test_long_pieces_are_remembered_only_as_far_as_their_tokens_have_room(tmp_path: Path) -> None:
    tokenizer = WordTokenizer()  # a token a character
    layout = PassageLayout(
        tokenizer, tokenizer.chat_frame(has_system=True), instructions_for("", mode="abstractive", brief=True)
    )
    shelf = PieceShelf(Database(f"sqlite:///{tmp_path}/none.db"), max_tokens=1000)

    def token_ids(name: str) -> tuple[int, ...]:
        return shelf._piece(PieceKey(name), piece(name * 300).passage, layout).token_ids

    first, second = token_ids("a"), token_ids("b")
    assert token_ids("a") is first
    for name in "cde":
        token_ids("a")
        token_ids(name)
    assert token_ids("a") is first  # asked for again and again
    assert token_ids("b") is not second
    assert token_ids("b") == second
    assert sum(map(len, shelf._token_ids.values())) <= 1000
