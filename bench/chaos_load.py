"""What many users do at once, while parts of the service die under them."""

from __future__ import annotations

import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client import LongleafClient
from client.events import Delta, Done, Restarted
from client.problems import ProblemError, UnreachableError
from core.ids import content_hash

ANSWER_TOKENS = 24
"""Every written answer has just so many, so that a shorter one is a truncated one."""

_UPLOADS = "chaos uploads"
_SUBJECTS = ("bridge", "lighthouse", "market", "观测站", "图书馆", "运河")


@dataclass(slots=True)
class Promises:
    """What the service said yes to, and what it said later. Written by many threads."""

    job_ids: set[str] = field(default_factory=set)
    content_hashes: dict[str, str] = field(default_factory=dict)  # of uploaded files, to their job
    texts: dict[str, str] = field(default_factory=dict)  # of finished answers, as they were given
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_job(self, kind: str, job_id: str) -> None:
        with self.lock:
            self.job_ids.add(job_id)
            self.counts[kind] += 1

    def add_text(self, answer_id: str, text: str) -> None:
        with self.lock:
            self.texts[answer_id] = text

    def add_file(self, text: str, job_id: str) -> None:
        with self.lock:
            self.content_hashes[content_hash(text)] = job_id

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where the load goes: the service, and a collection that does not change."""

    url: str
    key: str
    collection_id: str
    questions: Sequence[str]


class Load:
    """Threads of users; each does one thing again and again until it is stopped."""

    def __init__(self, place: Place, *, seed: int) -> None:
        self.promises = Promises()
        self._place = place
        self._stop = threading.Event()
        users: dict[str, tuple[Callable[[LongleafClient, random.Random], None], float]] = {
            "uploads": (self._upload, 12.0),
            "questions": (self._ask, 0.5),
            "streams": (self._stream, 0.5),
            "leaving": (self._leave, 6.0),
            "cancelling": (self._cancel, 15.0),
            "summaries": (self._summarize, 60.0),
        }
        self._threads = [
            threading.Thread(target=self._repeat, args=(name, *user, random.Random(f"{seed}{name}")))
            for name, user in users.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Nobody begins anything new; returns when the last has heard what came of it."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(
        self,
        name: str,
        act: Callable[[LongleafClient, random.Random], None],
        pause_seconds: float,
        chance: random.Random,
    ) -> None:
        while not self._stop.is_set():
            with LongleafClient(self._place.url, self._place.key, timeout=60.0) as client:
                try:
                    act(client, chance)
                # A user whose request found nobody, or was told of a fault, comes again.
                except (ProblemError, UnreachableError, TimeoutError) as error:
                    self.promises.count(f"{name}: {getattr(error, 'code', type(error).__name__)}")
            self._stop.wait(pause_seconds * chance.uniform(0.5, 1.5))

    def _upload(self, client: LongleafClient, chance: random.Random) -> None:
        collection_id = client.get_or_create_collection(_UPLOADS)["id"]
        texts = [_document(chance) for _ in range(chance.randint(1, 4))]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{content_hash(text)[:12]}.md" for text in texts]
            for path, text in zip(paths, texts, strict=True):
                path.write_text(text, encoding="utf-8")
            for upload in client.upload(collection_id, paths):
                self.promises.add_job("uploads", upload.job["id"])
                for text in texts:
                    self.promises.add_file(text, upload.job["id"])

    def _ask(self, client: LongleafClient, chance: random.Random) -> None:
        answer = client.ask(self._place.collection_id, self._question(chance), **_options(chance))
        self.promises.add_job("questions", answer["job_id"])
        self.promises.add_text(answer["id"], answer["text"] or "")

    def _stream(self, client: LongleafClient, chance: random.Random) -> None:
        for event in client.ask_stream(self._place.collection_id, self._question(chance), **_options(chance)):
            match event:
                case Restarted():
                    self.promises.count("streams that began again")
                case Done():
                    self.promises.add_job("streams", event.answer["job_id"])
                    self.promises.add_text(event.answer["id"], event.answer["text"] or "")

    def _leave(self, client: LongleafClient, chance: random.Random) -> None:
        """Go away in the middle of a stream."""
        for event in client.ask_stream(self._place.collection_id, self._question(chance), **_options(chance)):
            if isinstance(event, Delta):
                self.promises.count("streams that were left")
                return

    def _cancel(self, client: LongleafClient, chance: random.Random) -> None:
        """Change one's mind about a question, wherever it is by then."""
        questions = client.ask_stream(self._place.collection_id, self._question(chance), **_options(chance))
        for event in questions:
            if job_id := getattr(event, "job_id", None):
                self._stop.wait(chance.uniform(0, 2))
                client.cancel_job(job_id)
                self.promises.add_job("cancelled questions", job_id)
                return

    def _summarize(self, client: LongleafClient, chance: random.Random) -> None:
        """Of what is uploaded meanwhile, so that each has something new to read."""
        collection_id = client.get_or_create_collection(_UPLOADS)["id"]
        self.promises.add_job("summaries", client.create_summary(collection_id)["job_id"])

    def _question(self, chance: random.Random) -> str:
        return chance.choice(list(self._place.questions))


def _options(chance: random.Random) -> dict[str, Any]:
    return {
        "mode": "abstractive",
        "max_tokens": ANSWER_TOKENS,
        "min_tokens": ANSWER_TOKENS,
        "num_passages": chance.randint(1, 3),
    }


def _document(chance: random.Random) -> str:
    """A page of its own, in both languages."""
    lines = [
        f"# Register {chance.getrandbits(64):016x}",
        *(
            f"The {chance.choice(_SUBJECTS)} number {chance.randint(1, 999)} was inspected on day "
            f"{chance.randint(1, 365)}. 第{chance.randint(1, 99)}号{chance.choice(_SUBJECTS)}已检修。"
            for _ in range(chance.randint(3, 40))
        ),
    ]
    return "\n\n".join(lines)
