"""Sets of multi-turn questions, whose last turn is to be searched for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.grounding_sets import read_rows
from bench.search_sets import Paragraph, SearchSet
from retrieval.history import Turn

Half = Literal["tuned", "held out"]


@dataclass(frozen=True, slots=True)
class TurnTask:
    """A conversation's question, what was said before it, and what answers it.

    `rewrite` is the set's own standalone question, where it has one.
    """

    conversation: str
    turns: tuple[Turn, ...]
    question: str
    relevant: Mapping[str, int]
    rewrite: str | None

    @property
    def half(self) -> Half:
        """Whole conversations are on one side. The rule's settings were chosen on the tuned half."""
        return "held out" if zlib.crc32(self.conversation.encode()) % 2 else "tuned"


@dataclass(frozen=True, slots=True)
class ConversationSet:
    name: str
    tasks: tuple[TurnTask, ...]

    @property
    def has_rewrites(self) -> bool:
        return all(task.rewrite is not None for task in self.tasks)


@dataclass(frozen=True, slots=True)
class ConversationCorpus:
    """Paragraphs, and the sets that ask for them."""

    paragraphs: SearchSet
    sets: tuple[ConversationSet, ...]


_QUICK_STRIDE = 4
_QUICK_OTHERS = 100


def load_corpora(data_dir: Path, *, quick: bool) -> Iterator[ConversationCorpus]:
    """MTRAG and MTRAG-UN, INSCIT, and DomainRAG's conversations (Chinese).

    `quick` keeps every fourth conversation, what answers it and some other paragraphs.

    Raises:
        NotFound: the data folder lacks one.
    """
    mtrag = read_rows(data_dir / "mt-mtrag/tasks.jsonl")
    sets = [
        ConversationSet("mtrag", _chat_tasks(row for row in mtrag if row["source"] == "MTRAG")),
        ConversationSet("mtrag-un", _chat_tasks(row for row in mtrag if row["source"] != "MTRAG")),
    ]
    yield _corpus("mtrag", data_dir / "mt-mtrag/passages.jsonl", sets, quick=quick)
    inscit = [ConversationSet("inscit", _chat_tasks(read_rows(data_dir / "mt-inscit/tasks.jsonl")))]
    yield _corpus("inscit", data_dir / "mt-inscit/passages.jsonl", inscit, quick=quick)
    domain = read_rows(data_dir / "qa-domainrag-zh/questions.jsonl")
    tasks = _history_tasks(row for row in domain if row["task"] == "conversation")
    corpus = data_dir / "qa-domainrag-zh/corpus.jsonl"
    # There are few of them: all are asked in a quick run too.
    yield _corpus("domainrag-zh", corpus, [ConversationSet("domainrag-zh", tasks)], quick=quick, stride=1)


def _corpus(
    name: str,
    path: Path,
    sets: Sequence[ConversationSet],
    *,
    quick: bool,
    stride: int = _QUICK_STRIDE,
) -> ConversationCorpus:
    paragraphs = [Paragraph(str(row["id"]), row.get("title", ""), row["text"]) for row in read_rows(path)]
    if quick:
        sets = [_every(each, stride) for each in sets]
        wanted = {key for each in sets for task in each.tasks for key in task.relevant}
        others = [paragraph.id for paragraph in paragraphs if paragraph.id not in wanted]
        wanted.update(others[:: max(1, len(others) // _QUICK_OTHERS)])
        paragraphs = [paragraph for paragraph in paragraphs if paragraph.id in wanted]
    return ConversationCorpus(SearchSet(name, paragraphs, [], has_answers=False), tuple(sets))


def _every(each: ConversationSet, stride: int) -> ConversationSet:
    names = sorted({task.conversation for task in each.tasks})[::stride]
    return ConversationSet(each.name, tuple(task for task in each.tasks if task.conversation in set(names)))


def _chat_tasks(rows: Iterator[Mapping[str, Any]] | Sequence[Mapping[str, Any]]) -> tuple[TurnTask, ...]:
    """From messages of `user` and `assistant`, the last of them the question."""
    return tuple(
        TurnTask(
            conversation=_conversation_of(row["id"]),
            turns=tuple(_turns(row["conversation"][:-1])),
            question=row["conversation"][-1]["text"],
            relevant=dict.fromkeys(map(str, row["relevant"]), 1),
            rewrite=row.get("rewrite"),
        )
        for row in rows
        if row["relevant"]
    )


def _history_tasks(rows: Iterator[Mapping[str, Any]]) -> tuple[TurnTask, ...]:
    return tuple(
        TurnTask(
            conversation=(row["history"][0] if row["history"] else row)["question"],
            turns=tuple(
                Turn(turn["question"], turn["answer"], number)
                for number, turn in enumerate(row["history"], start=1)
            ),
            question=row["question"],
            relevant=dict.fromkeys(row["relevant"], 1),
            rewrite=None,
        )
        for row in rows
        if row["relevant"]
    )


def _conversation_of(identifier: str) -> str:
    """`conversation<::>turn` or `conversation-turn`."""
    return identifier.split("<")[0] if "<" in identifier else identifier.rsplit("-", 1)[0]


def _turns(messages: Sequence[Mapping[str, str]]) -> Iterator[Turn]:
    question, number = None, 0
    for message in messages:
        if message["role"] == "user":
            if question is not None:
                number += 1
                yield Turn(question, "", number)
            question = message["text"]
        elif question is not None:
            number += 1
            yield Turn(question, message["text"], number)
            question = None
    if question is not None:
        yield Turn(question, "", number + 1)
