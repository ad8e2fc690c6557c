"""What a peer does, and the loop that lets the benchmark tell it to: one JSON object a line, both ways.

In comes `{"do": "index", "files": [...], "language": "en"}`, out goes `{"num_chunks": n, "seconds": s}`.
In comes `{"do": "ask", "questions": [...], "num_at_once": n}`, out goes one object a question, in
any order, then `{}`. Imports the standard library only; whatever a framework prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """What every system gets alike.

    Args:
        engine_url: root of an OpenAI-compatible endpoint, without `/v1`.
        model: the name it serves.
        window: its tokens.
        embedder: a sentence-transformers folder.
        max_tokens: most tokens to write; decoding is greedy.
    """

    engine_url: str
    model: str
    window: int
    embedder: str
    max_tokens: int


class Peer(Protocol):
    """A question-answering pipeline over one set of files. Retrieval and answering are told apart
    only because embedders do not bear two threads at once, while an engine wants many requests."""

    def index(self, files: Sequence[Path], language: Language) -> int:
        """Forget what was there and index these; the number of chunks."""

    def retrieve(self, question: str) -> Sequence[Any]:
        """What its retriever gives at its defaults, best first."""

    def answer(self, question: str, passages: Sequence[Any]) -> str:
        """What its generator makes of them."""


def serve(make_peer: Callable[[PeerOptions], Peer]) -> None:
    """Answer requests on standard input until it ends. The first line holds the options."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    peer = make_peer(PeerOptions(**json.loads(sys.stdin.readline())))
    _say(out, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "index":
            started = time.perf_counter()
            num_chunks = peer.index([Path(file) for file in request["files"]], request["language"])
            _say(out, {"num_chunks": num_chunks, "seconds": time.perf_counter() - started})
        else:
            for answer in answers(peer, request["questions"], num_at_once=request["num_at_once"]):
                _say(out, answer)
            _say(out, {})


def answers(peer: Peer, questions: Sequence[str], *, num_at_once: int) -> Sequence[dict[str, Any]]:
    """One object a question, as each is answered: `question`, `answer`, `num_passages`,
    `num_dropped`, `error` (a text where there is no answer)."""
    retrieved = [(question, peer.retrieve(question)) for question in questions]
    with ThreadPoolExecutor(num_at_once) as pool:
        asked = [pool.submit(answer_within_window, peer, *pair) for pair in retrieved]
        return [future.result() for future in as_completed(asked)]


def answer_within_window(peer: Peer, question: str, passages: Sequence[Any]) -> dict[str, Any]:
    """The peer's answer from as many of its passages, best first, as the engine's window takes.

    At their defaults peers count in words or in another model's tokens, and then send more than the
    engine takes; a user would retrieve less, so the worst passage is left out until it fits.
    """
    error = ""
    for num_passages in range(len(passages), 0, -1):
        try:
            text = peer.answer(question, passages[:num_passages])
        except Exception as failure:  # whatever a framework raises is its answer
            error = f"{type(failure).__name__}: {failure}"[:500]
            if not is_too_long(error):
                break
        else:
            dropped = len(passages) - num_passages
            return _result(question, text, num_passages=num_passages, num_dropped=dropped)
    return _result(question, "", error=error or "no passages")


def is_too_long(error: str) -> bool:
    """Whether an engine refused because the prompt exceeds its window."""
    return "context length" in error or "maximum model length" in error or "max_model_len" in error


def _result(
    question: str, answer: str, *, num_passages: int = 0, num_dropped: int = 0, error: str = ""
) -> dict[str, Any]:
    return {
        "question": question,
        "answer": answer,
        "num_passages": num_passages,
        "num_dropped": num_dropped,
        "error": error,
    }


def _say(out: TextIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message, ensure_ascii=False) + "\n")
    out.flush()
