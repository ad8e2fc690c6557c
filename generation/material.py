"""What a written answer is made from: a document whole, shared passages whole, sentences of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from accounting.stages import Stage
from core.clock import utc_now
from core.errors import InvalidInput, NotFound
from core.ids import DocumentId
from core.settings import AskSettings
from generation.answer_json import extraction_json
from generation.attempt import Attempt
from generation.context import WholeCandidate, decide_context
from generation.prompt_passages import passage_id, plan_passages
from retrieval.extraction import PassageExtractor
from retrieval.passages import Passage
from storage.chunks import ChunkRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.recent_answers import RecentAnswer, list_recent_answers

_MAX_RECENT = 50
_OMISSION = " … "


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage as the prompt gives it: `text` is all of it, or the sentences kept of it."""

    passage: Passage
    text: str
    is_whole: bool
    is_static: bool = False  # its document is marked so

    @property
    def id(self) -> str:
        return passage_id(self.passage)


class MaterialPlanner:
    """Chooses between whole documents and passages, and what of passages is kept.

    Args:
        extractors: by method. `auto` is `default_extraction`, which may be `none`.
        extracted_tokens: room for the sentences that are kept.
        hot_questions: as in `plan_passages`.
    """

    def __init__(
        self,
        database: Database,
        settings: AskSettings,
        *,
        extractors: Mapping[str, PassageExtractor],
        default_extraction: str,
        extracted_tokens: int,
        hot_questions: int,
    ) -> None:
        self._database = database
        self._settings = settings
        self._extractors = extractors
        self._default_extraction = default_extraction
        self._extracted_tokens = extracted_tokens
        self._hot_questions = hot_questions

    def plan(
        self,
        attempt: Attempt,
        question: str,
        passages: Sequence[Passage],
        *,
        room_tokens: int,
        query_vector: NDArray[np.float32] | None,
    ) -> list[Excerpt]:
        """Excerpts in the order of the prompt; notes the steps `context` and `extraction`.

        Args:
            question: as it stands alone.
            passages: found for it, best first; at least one.
            room_tokens: what the window leaves for them.

        Raises:
            InvalidInput, TooLong: the caller asked for a whole document that is not to be had.
        """
        method = self._method(attempt)
        # What was asked lately decides between whole and passages, and which passages stay whole.
        is_wanted = attempt.question.context == "auto" or method != "none"
        recent = self._recent(attempt) if is_wanted else []
        whole = self.whole_document(attempt, passages, room_tokens=room_tokens, recent=recent)
        if whole is not None:
            is_static = self._is_static(attempt, whole.document_id)
            return [Excerpt(whole, whole.text, is_whole=True, is_static=is_static)]
        if method == "none":
            excerpts = [Excerpt(passage, passage.text, is_whole=True) for passage in passages]
        else:
            excerpts = self._shorten(
                attempt, question, passages, recent, method=method, query_vector=query_vector
            )
        attempt.note("context", {"sent_whole": [excerpt.id for excerpt in excerpts if excerpt.is_whole]})
        return excerpts

    def whole_document(
        self,
        attempt: Attempt,
        passages: Sequence[Passage],
        *,
        room_tokens: int,
        recent: Sequence[RecentAnswer] = (),
    ) -> Passage | None:
        """The document to use whole, as a passage; None for passages. Notes the step `context`.

        `recent` answers matter where `context` is `auto` only.
        """
        question = attempt.question
        is_possible = question.context != "passages"
        candidate = self._candidate(attempt, passages, recent) if is_possible else None
        decision = decide_context(
            question.context,
            candidate,
            passage_tokens=self._passage_tokens(attempt, passages),
            room_tokens=room_tokens,
            max_whole_tokens=self._settings.max_whole_tokens,
            cached_token_share=self._settings.cached_token_share,
        )
        attempt.note("context", decision.as_json())
        return None if decision.whole is None else self._read_whole(attempt, decision.whole, passages)

    def extractor(self, method: str) -> PassageExtractor:
        """The extractor of that name.

        Raises:
            InvalidInput: none is configured.
        """
        if method not in self._extractors:
            raise InvalidInput(
                f"Extraction by `{method}` is not configured here.",
                remedy=f"Choose from {', '.join(sorted(self._extractors))}; "
                "`cross_encoder` needs a model in LONGLEAF_ASK__RERANKER.",
            )
        return self._extractors[method]

    def _method(self, attempt: Attempt) -> str:
        method = attempt.question.extraction
        return self._default_extraction if method == "auto" else method

    def _passage_tokens(self, attempt: Attempt, passages: Sequence[Passage]) -> int:
        """What passages take of a prompt: all that was found, or the room of what is kept of it."""
        found = min(attempt.question.max_context_tokens, sum(p.num_generator_tokens for p in passages))
        return found if self._method(attempt) == "none" else min(found, self._extracted_tokens)

    def _recent(self, attempt: Attempt) -> list[RecentAnswer]:
        since = utc_now() - timedelta(seconds=self._settings.whole_lookback_seconds)
        with self._database.read() as session:
            found = list_recent_answers(
                session,
                attempt.tenant_id,
                attempt.question.collection_id,
                since=since,
                limit=_MAX_RECENT,
                excluding=attempt.question.answer_id,
            )
        # The conversation's own prompts first: their passages are to stay where they are.
        own = attempt.question.conversation_id
        return sorted(found, key=lambda answer: own is None or answer.conversation_id != own)

    def _candidate(
        self, attempt: Attempt, passages: Sequence[Passage], recent: Sequence[RecentAnswer]
    ) -> WholeCandidate | None:
        document_id = _document_meant(attempt.question.filter.document_ids, passages)
        if document_id is None:
            return None
        try:
            with self._database.read() as session:
                num_tokens = ChunkRepository(session, attempt.tenant_id).count_generator_tokens(document_id)
                document = DocumentRepository(session, attempt.tenant_id).get(document_id)
                name, is_static = document.name, document.is_static
        except NotFound:
            return None  # deleted since it was found
        num_recent = sum(
            bool(answer.passages) and answer.passages[0]["document_id"] == document_id for answer in recent
        )
        return WholeCandidate(document_id, name, num_tokens, num_recent, is_static)

    def _is_static(self, attempt: Attempt, document_id: DocumentId) -> bool:
        with self._database.read() as session:
            try:
                return DocumentRepository(session, attempt.tenant_id).get(document_id).is_static
            except NotFound:
                return False  # deleted since it was found

    def _read_whole(
        self, attempt: Attempt, whole: WholeCandidate, passages: Sequence[Passage]
    ) -> Passage | None:
        with self._database.read() as session:
            documents = DocumentRepository(session, attempt.tenant_id)
            try:
                document = documents.get(whole.document_id)
            except NotFound:
                return None  # deleted since it was found
            text = documents.read_text(whole.document_id, 0, document.num_characters)
        if not text:
            return None
        best = next(passage for passage in passages if passage.document_id == whole.document_id)
        return replace(
            best,
            start=0,
            end=len(text),
            first_page=1,
            last_page=max(1, document.num_pages),
            headings=(),
            text=text,
            num_generator_tokens=whole.num_tokens,
            has_gaps=False,
        )

    def _shorten(
        self,
        attempt: Attempt,
        question: str,
        passages: Sequence[Passage],
        recent: Sequence[RecentAnswer],
        *,
        method: str,
        query_vector: NDArray[np.float32] | None,
    ) -> list[Excerpt]:
        plan = plan_passages(
            passages,
            sent_whole=[answer.steps.get("context", {}).get("sent_whole", []) for answer in recent],
            found_before=[[_stored_id(passage) for passage in answer.passages] for answer in recent],
            hot_questions=self._hot_questions,
            max_whole_tokens=max(0, attempt.question.max_context_tokens - self._extracted_tokens),
        )
        excerpts = [Excerpt(passage, passage.text, is_whole=True) for passage in plan.whole]
        if not plan.tail:
            return excerpts
        extraction = self.extractor(method).extract(
            question,
            plan.tail,
            max_tokens=min(self._extracted_tokens, attempt.question.max_context_tokens),
            vectors=attempt.vectors,
            query_vector=query_vector,
            cache_salt=attempt.tenant_id,
        )
        attempt.consumption.add(Stage.EXTRACT, extraction.uses)
        attempt.consumption.spend("extract_seconds", extraction.seconds)
        attempt.note("extraction", extraction_json(extraction))
        kept: defaultdict[int, list[str]] = defaultdict(list)
        for span in extraction.spans:
            kept[span.passage_index].append(span.text)
        if not kept and not excerpts:  # not one sentence fits its room: better too much than nothing
            return [Excerpt(passage, passage.text, is_whole=True) for passage in passages]
        # Passages keep the order of their rank; of those that no sentence was kept of nothing is sent.
        return excerpts + [
            Excerpt(plan.tail[index], _OMISSION.join(kept[index]), is_whole=False) for index in sorted(kept)
        ]


def _document_meant(filtered: Sequence[DocumentId], passages: Sequence[Passage]) -> DocumentId | None:
    """The one document a question is about: the only one filtered for, or the one that holds the
    best passage and at least half of all."""
    best = passages[0].document_id
    if len(filtered) == 1:
        return best
    return best if 2 * sum(passage.document_id == best for passage in passages) >= len(passages) else None


def _stored_id(passage: Mapping[str, object]) -> str:
    return f"{passage['document_id']}:{passage['start']}-{passage['end']}"
