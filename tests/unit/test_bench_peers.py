from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.peers.process import PeerProcess
from bench.peers.protocol import PeerOptions, answers
from core.errors import Misconfigured


class Peer:
    """Finds three passages; its engine takes as many as `room`."""

    def __init__(self, *, room: int = 3, failure: str = "") -> None:
        self._room = room
        self._failure = failure
        self.asked: list[int] = []

    def index(self, files: Sequence[Path], language: str) -> int:
        return len(files)

    def retrieve(self, question: str) -> Sequence[Any]:
        return ["a", "b", "c"]

    def answer(self, question: str, passages: Sequence[Any]) -> str:
        self.asked.append(len(passages))
        if self._failure:
            raise RuntimeError(self._failure)
        if len(passages) > self._room:
            raise ValueError("This model's maximum context length is 8192 tokens.")
        return f"{question} {''.join(passages)}"


def test_each_question_gets_an_answer() -> None:
    found = answers(Peer(), ["Who?", "谁？"], num_at_once=2)

    assert sorted(one["answer"] for one in found) == ["Who? abc", "谁？ abc"]


def test_passages_are_left_out_from_the_worst_until_the_prompt_fits() -> None:
    [found] = answers(Peer(room=1), ["Who?"], num_at_once=1)

    assert found["answer"] == "Who? a"
    assert found["num_dropped"] == 2
    assert found["num_passages"] == 1


def test_a_prompt_that_never_fits_is_an_answer_not_given() -> None:
    [found] = answers(Peer(room=0), ["Who?"], num_at_once=1)

    assert found["answer"] == ""
    assert "context length" in found["error"]


def test_any_other_failure_is_told_and_not_tried_again() -> None:
    peer = Peer(failure="boom")

    [found] = answers(peer, ["Who?"], num_at_once=1)

    assert found["error"] == "RuntimeError: boom"
    assert peer.asked == [3]


def test_peers_that_are_not_installed_say_how_to_install_them(tmp_path: Path) -> None:
    options = PeerOptions("http://127.0.0.1:1", "m", 8192, "folder", 64)
    process = PeerProcess("haystack", python=tmp_path / "python", options=options, log_path=tmp_path / "log")

    with pytest.raises(Misconfigured) as error, process:
        pass

    assert "[peers]" in (error.value.remedy or "")
