"""The systems of `bench answers`: our service over REST, and peers in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.answer_scores import OURS, Reply
from bench.answer_sets import AnswerSet, SetQuestion
from bench.peers.process import DEFAULT_PYTHON, PeerProcess
from bench.peers.protocol import PeerOptions
from bench.recorded_service import RecordedService
from client import ClientError

MAX_TOKENS = 64
"""Most tokens of any system's answer."""

_NUM_AT_ONCE = 4


class System(Protocol):
    """A pipeline under test."""

    name: str

    def index(self, files: Sequence[Path], answer_set: AnswerSet) -> None: ...

    def ask(self, questions: Sequence[SetQuestion]) -> list[Reply]: ...


class OurService:
    """The service over REST: one collection a set, questions at its defaults and `request` on top."""

    name = OURS

    def __init__(self, service: RecordedService, *, request: Mapping[str, Any], num_at_once: int) -> None:
        self._service = service
        self._request = dict(request)
        self._num_at_once = num_at_once
        self._collection_id = ""

    def index(self, files: Sequence[Path], answer_set: AnswerSet) -> None:
        with self._service.new_client() as client:
            self._collection_id = client.get_or_create_collection(answer_set.name)["id"]
            for batch in client.upload(self._collection_id, files):
                client.wait_for_job(batch.job["id"], timeout=600.0)

    def ask(self, questions: Sequence[SetQuestion]) -> list[Reply]:
        with ThreadPoolExecutor(self._num_at_once) as pool:
            return list(pool.map(self._ask, [question.text for question in questions]))

    def _ask(self, question: str) -> Reply:
        """The answer as a user gets it, then the one that the model writes, which the proxy notes."""
        try:
            with self._service.new_client() as client:
                ask = partial(client.ask, self._collection_id, question, max_tokens=MAX_TOKENS)
                answer = ask(**{"mode": "auto", **self._request})
                short = answer["short_answer"]
                text = short["text"] if short else answer["text"] or ""
                written = ask(**{**self._request, "mode": "abstractive"})["text"] or ""
        except (ClientError, TimeoutError) as error:
            return Reply(question, "", "", error=f"{type(error).__name__}: {error}")
        return Reply(question, text, written)


class PeerSystem:
    """A peer in its own process."""

    def __init__(self, process: PeerProcess, *, num_at_once: int) -> None:
        self.name = process.name
        self._process = process
        self._num_at_once = num_at_once

    def index(self, files: Sequence[Path], answer_set: AnswerSet) -> None:
        self._process.index(files, answer_set.language)

    def ask(self, questions: Sequence[SetQuestion]) -> list[Reply]:
        answers = self._process.ask([q.text for q in questions], num_at_once=self._num_at_once)
        return [Reply(a.question, a.answer, a.answer, a.error, a.num_dropped) for a in answers]


@contextmanager
def running_system(service: RecordedService, name: str, extra: Mapping[str, str]) -> Iterator[System]:
    """The one named, with `extra` as `bench.answers` describes it.

    Raises:
        Misconfigured: the peers are not installed.
    """
    num_at_once = int(extra.get("num_at_once", _NUM_AT_ONCE))
    if name == OURS:
        yield OurService(service, request=our_request(extra), num_at_once=num_at_once)
        return
    process = PeerProcess(
        name,
        python=Path(extra.get("peers.python", DEFAULT_PYTHON)),
        options=PeerOptions(
            engine_url=service.proxy.url,
            model=service.settings.engine.model,
            window=service.engine.info().max_model_len,
            embedder=str(service.embedder_folder),
            max_tokens=MAX_TOKENS,
        ),
        log_path=service.settings.log_dir / f"peer-{name}.log",
    )
    with process:
        yield PeerSystem(process, num_at_once=num_at_once)


def our_request(extra: Mapping[str, str]) -> dict[str, Any]:
    """Fields of our request from options `ours.FIELD=VALUE`; values are JSON, else text."""
    return {key.removeprefix("ours."): _value(text) for key, text in extra.items() if key.startswith("ours.")}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
