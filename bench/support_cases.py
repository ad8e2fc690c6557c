"""Questions with the passages found for them, of which it is known whether they hold the answer.

The passages come from the product's own search. A question of a reading-comprehension set makes three
cases: with the paragraph that answers it; without it, the next best passages in its place; and with it, but
without the sentences that have the answer, as pages do that are about the very thing and leave out only what
was asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.grounding_sets import CONDITIONS, load_questions, read_rows
from bench.metrics import contains_answer
from bench.search_collection import SearchBed
from bench.search_sets import SETS, Paragraph, SearchSet, load_set
from core.ids import CollectionId, content_hash
from inference.protocols import Tokenizer
from ingest.chunking import chunk_document
from retrieval.passages import Passage
from retrieval.sentences import split_sentences

NUM_PASSAGES = 6
TAKEN_OUT = "-taken-out"
_CHUNK_TOKENS, _OVERLAP_TOKENS = 240, 24
_READABLE_TYPES = ("factual", "multi-hop", "unanswerable")  # what one or two sentences can answer


@dataclass(frozen=True, slots=True)
class SupportCase:
    """`group` names the document or article, so that no text is both fitted and tested."""

    set_name: str
    language: str
    group: str
    question: str
    passages: tuple[Passage, ...]
    query_vector: NDArray[np.float32]
    is_answerable: bool

    @property
    def is_test(self) -> bool:
        """Held out from fitting: half of the groups, by a hash that no run changes.

        All of the judgments and reports, to see how far what was fitted on encyclopedias and web pages
        carries; none of RGB's tuning half, whose other half `bench grounding` holds out.
        """
        if self.set_name.startswith("rgb-"):
            return False
        return (
            self.set_name.startswith(("cjrc", "dragonball-"))
            or int(content_hash(self.group)[:8], 16) % 2 == 1
        )


@dataclass(frozen=True, slots=True)
class CaseMaker:
    """Makes cases of the evaluation sets in `data_dir`, by search in throw-away collections."""

    bed: SearchBed
    tokenizer: Tokenizer
    data_dir: Path

    def left_out(self, name: str, *, asked: str, read: str, num_paragraphs: int) -> Iterator[SupportCase]:
        """The questions of search set `asked` about the first paragraphs of set `read`, all ways."""
        paragraphs = self._search_set(read).paragraphs[:num_paragraphs]
        articles = {_key(p.id): p.title or p.id for p in paragraphs}
        collection_id, names = self.bed.add(SearchSet(name, paragraphs, [], False))
        for question in self._search_set(asked).questions:
            relevant = articles.keys() & {_key(i) for i in question.relevant}
            if not relevant:
                continue
            passages, vector = self._search(collection_id, question.text, NUM_PASSAGES + len(relevant))
            own = [p for p in passages if relevant & {_key(names[i]) for i in p.chunk_ids}]
            first = passages[:NUM_PASSAGES]
            others = tuple(p for p in passages if p not in own)[:NUM_PASSAGES]
            group = articles[min(relevant)]
            if any(p in first for p in own):
                yield SupportCase(name, name, group, question.text, first, vector, True)
                if question.answers and asked == read:
                    yield from _taken_out(name, group, question.text, first, vector, question.answers)
            yield SupportCase(name, name, group, question.text, others, vector, False)

    def judgments(self, *, num_documents: int) -> Iterator[SupportCase]:
        """Chinese court judgments with their questions, a quarter of which they do not answer."""
        asked = defaultdict(list)
        for row in read_rows(self.data_dir / "qa-cjrc/questions.jsonl"):
            asked[str(row["doc_id"])].append(row)
        for row in read_rows(self.data_dir / "qa-cjrc/docs.jsonl")[:num_documents]:
            group = f"cjrc-{row['doc_id']}"
            paragraphs = self._cut(group, row.get("title") or "", row["text"])
            collection_id, _ = self.bed.add(SearchSet(group, paragraphs, [], False))
            for question in asked[str(row["doc_id"])]:
                passages, vector = self._search(collection_id, question["question"], NUM_PASSAGES)
                yield SupportCase(
                    "cjrc", "zh", group, question["question"], passages, vector, question["answerable"]
                )

    def reports(self, language: str, *, num_documents: int) -> Iterator[SupportCase]:
        """Company reports in one collection, their questions, and some that they do not answer.

        A case is answerable where a passage holds a verbatim piece of the evidence; where it was not
        found, nobody knows, and the question is left out.
        """
        name = f"dragonball-{language}"
        rows = [
            row
            for row in read_rows(self.data_dir / "qa-dragonball/questions.jsonl")
            if row["lang"] == language and row["type"] in _READABLE_TYPES
        ]
        unanswerable = [row for row in rows if not row["answerable"]]
        wanted = list(dict.fromkeys(i for row in unanswerable for i in row["doc_ids"]))[:num_documents]
        documents = {row["doc_id"]: row for row in read_rows(self.data_dir / "qa-dragonball/docs.jsonl")}
        paragraphs = [
            p
            for i in wanted
            for p in self._cut(str(i), documents[i].get("title") or "", documents[i]["text"])
        ]
        collection_id, _ = self.bed.add(SearchSet(name, paragraphs, [], False))
        for row in rows:
            if not set(row["doc_ids"]) <= set(wanted):
                continue
            passages, vector = self._search(collection_id, row["question"], NUM_PASSAGES)
            found = "".join(passage.text for passage in passages)
            if row["answerable"] and not any(piece in found for piece in row["evidence"]):
                continue
            group = f"{name}-{row['doc_ids'][0]}"
            yield SupportCase(name, language, group, row["question"], passages, vector, row["answerable"])

    def web_pages(self) -> Iterator[SupportCase]:
        """The half of RGB's questions that `bench grounding` does not ask, under its conditions."""
        for question in load_questions(self.data_dir, held_out=False, quick=False):
            if not question.tests_refusal:
                continue
            for condition in CONDITIONS:
                pages = question.pages(condition)
                paragraphs = [p for i, page in enumerate(pages) for p in self._cut(str(i), "", page)]
                name = f"{question.id}-{condition}"
                collection_id, _ = self.bed.add(SearchSet(name, paragraphs, [], False))
                passages, vector = self._search(collection_id, question.text, NUM_PASSAGES)
                yield SupportCase(
                    f"rgb-{question.set_name}",
                    question.language,
                    question.id,
                    question.text,
                    passages,
                    vector,
                    condition != "unanswerable",
                )

    def _search_set(self, name: str) -> SearchSet:
        return load_set(next(files for files in SETS if files.name == name), self.data_dir, quick=False)

    def _search(
        self, collection_id: CollectionId, question: str, num_passages: int
    ) -> tuple[tuple[Passage, ...], NDArray[np.float32]]:
        found = self.bed.pipeline.search(
            self.bed.tenant_id,
            collection_id,
            question,
            num_passages=num_passages,
            max_passage_tokens=num_passages * 2 * _CHUNK_TOKENS,
        )
        assert found.query_vector is not None
        return found.passages, found.query_vector

    def _cut(self, name: str, title: str, text: str) -> list[Paragraph]:
        drafts = chunk_document(
            text,
            [],
            [0],
            embedder_tokenizer=self.tokenizer,
            generator_tokenizer=self.tokenizer,
            max_tokens=_CHUNK_TOKENS,
            overlap_tokens=_OVERLAP_TOKENS,
        )
        return [Paragraph(f"{name}#{draft.position}", title, draft.text) for draft in drafts]


def _taken_out(
    name: str,
    group: str,
    question: str,
    passages: Sequence[Passage],
    vector: NDArray[np.float32],
    answers: Sequence[str],
) -> Iterator[SupportCase]:
    """Two cases, of a set of their own: the passages, and what is left without the answer."""
    left = tuple(p for p in (without_answer(p, answers) for p in passages) if p.text)
    if left:
        name += TAKEN_OUT
        yield SupportCase(name, name, group, question, tuple(passages), vector, True)
        yield SupportCase(name, name, group, question, left, vector, False)


def without_answer(passage: Passage, answers: Sequence[str]) -> Passage:
    """`passage` without the sentences that have one of `answers`."""
    sentences = [sentence.text for sentence in split_sentences(passage.text)]
    kept = [text for text in sentences if not contains_answer(text, answers)]
    return passage if len(kept) == len(sentences) else replace(passage, text="\n".join(kept))


def _key(paragraph_id: str) -> str:
    """The id without the language before it: parallel paragraphs have the same."""
    return paragraph_id.rpartition(":")[2]
