"""The streams of questions of `bench prefix`, from `qa-dragonball`."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import NotFound
from generation.questions import ContextChoice

SEED = 20261201


@dataclass(frozen=True, slots=True)
class Report:
    """A document as it is ingested."""

    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question. `document`: the only one it may be answered from. `conversation`: its name."""

    text: str
    answers: tuple[str, ...] = ()
    document: str = ""
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """Groups of questions, one group after another. Those of a group are asked at once if
    `num_clients` is more than one; before each group the engine forgets all if `is_fresh`.
    `context` is that of each question; `num_passages` and `max_context_tokens` are the settings' where
    they are None."""

    name: str
    groups: tuple[tuple[Ask, ...], ...]
    num_clients: int = 1
    is_fresh: bool = False
    context: ContextChoice = "auto"
    num_passages: int | None = None
    max_context_tokens: int | None = None

    @property
    def asks(self) -> list[Ask]:
        return [ask for group in self.groups for ask in group]


@dataclass(frozen=True, slots=True)
class DragonBall:
    """Reports, and questions with the reports that answer them."""

    reports: tuple[Report, ...]
    questions: tuple[tuple[Ask, tuple[str, ...]], ...]

    def about(self, name: str) -> list[Ask]:
        """Answerable questions that this report alone answers, in the order of the data."""
        return [ask for ask, names in self.questions if names == (name,) and ask.answers]

    def most_asked(self) -> list[str]:
        """Reports, those with most questions first."""
        counts = {report.name: len(self.about(report.name)) for report in self.reports}
        return sorted(counts, key=lambda name: (-counts[name], name))


def read_dragonball(data_dir: Path) -> DragonBall:
    """The whole set.

    Raises:
        NotFound: the data folder lacks it.
    """
    folder = data_dir / "qa-dragonball"
    if not folder.is_dir():
        raise NotFound(f"There is no evaluation set {folder}.", remedy="Pass --data or set LONGLEAF_DATA.")
    reports = tuple(
        Report(_name(row["doc_id"]), row["title"], f"{row['title']}\n\n{row['text']}")
        for row in _rows(folder / "docs.jsonl")
    )
    questions = tuple(
        (
            Ask(row["question"], (row["answer"],) if row["answerable"] else ()),
            tuple(map(_name, row["doc_ids"])),
        )
        for row in _rows(folder / "questions.jsonl")
    )
    return DragonBall(reports, questions)


def zipf(data: DragonBall, *, num_questions: int | None = None) -> Workload:
    """Every question once, in an order drawn by a seed; or the first so many of them."""
    asks = [ask for ask, _ in data.questions]
    random.Random(SEED).shuffle(asks)
    return Workload("zipf", (tuple(asks[:num_questions]),))


def overlapping(data: DragonBall, *, num_reports: int, num_questions: int) -> Workload:
    """Questions about a few of the reports, in a drawn order: what `zipf` is like on a small scale."""
    names = _mixed(data, num_reports)
    asks = [ask for name in names for ask in data.about(name)[: num_questions // num_reports]]
    random.Random(SEED).shuffle(asks)
    return Workload("overlapping", (tuple(asks),))


def hot(data: DragonBall, name: str, *, num_questions: int) -> Workload:
    """Questions about one report alone, with somewhat more passages than by default: so much of a report
    is asked for where its questions are many."""
    asks = tuple(Ask(ask.text, ask.answers, document=name) for ask in data.about(name)[:num_questions])
    return Workload("hot", (asks,), num_passages=8, max_context_tokens=3_200)


def multi_turn(data: DragonBall, *, num_conversations: int, num_turns: int) -> Workload:
    """Conversations, each about one report, one after another."""
    groups = []
    for name in _mixed(data, num_conversations):
        asks = data.about(name)[:num_turns]
        groups.append(tuple(Ask(ask.text, ask.answers, conversation=name) for ask in asks))
    return Workload("multi_turn", tuple(groups))


def burst(data: DragonBall, names: Sequence[str], *, num_clients: int) -> Workload:
    """Clients that ask at once about a report that nobody has asked about yet, to be answered from all of it."""
    groups = tuple(
        tuple(Ask(ask.text, ask.answers, document=name) for ask in data.about(name)[:num_clients])
        for name in names
    )
    return Workload("burst", groups, num_clients=num_clients, is_fresh=True, context="whole")


def _mixed(data: DragonBall, number: int) -> list[str]:
    """The most asked reports, English (which are the longer ones in characters) and Chinese in turn."""
    sizes = {report.name: len(report.text) for report in data.reports}
    names = data.most_asked()
    by_language: defaultdict[bool, list[str]] = defaultdict(list)
    for name in names:
        by_language[sizes[name] < _CHINESE_CHARACTERS].append(name)
    turns = [name for pair in zip(by_language[False], by_language[True], strict=False) for name in pair]
    return turns[:number]


_CHINESE_CHARACTERS = 7_000
"""No Chinese report is longer, no English one shorter."""


def _name(number: int) -> str:
    return f"report-{number}.txt"


def _rows(path: Path) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
