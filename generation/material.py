"""What a written answer is made from: whole documents and passages, or sentences of passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accounting.stages import Stage
from core.errors import InvalidInput, NotFound
from core.ids import DocumentId
from core.settings import AskSettings
from generation.answer_json import extraction_json
from generation.attempt import Attempt
from generation.context import WholeCandidate, require_whole
from generation.prefix.planner import PlannedPassages, PrefixPlanner
from generation.prompt import PassageLayout
from generation.prompt_passages import passage_id
from retrieval.extraction import PassageExtractor
from retrieval.passages import Passage
from storage.chunks import ChunkRepository
from storage.database import Database
from storage.documents import DocumentRepository

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


@dataclass(frozen=True, slots=True)
class Material:
    """Excerpts in the order of the prompt; `ranking` has ids of those that matter, best first, where
    the order does not say it."""

    excerpts: tuple[Excerpt, ...]
    ranking: tuple[str, ...] = ()


class MaterialPlanner:
    """Chooses between whole documents and passages, and what of passages is kept.

    Args:
        extractors: by method. `auto` is `default_extraction`, which may be `none`.
        extracted_tokens: room for the sentences that are kept.
    """

    def __init__(
        self,
        database: Database,
        settings: AskSettings,
        *,
        prefix: PrefixPlanner,
        extractors: Mapping[str, PassageExtractor],
        default_extraction: str,
        extracted_tokens: int,
    ) -> None:
        self._database = database
        self._settings = settings
        self._prefix = prefix
        self._extractors = extractors
        self._default_extraction = default_extraction
        self._extracted_tokens = extracted_tokens

    def plan(
        self,
        attempt: Attempt,
        question: str,
        passages: Sequence[Passage],
        *,
        layout: PassageLayout,
        room_tokens: int,
        query_vector: NDArray[np.float32] | None,
    ) -> Material:
        """What the prompt is to hold; notes the steps `context`, `prefix` and `extraction`.

        Args:
            question: as it stands alone.
            passages: found for it, best first; at least one.
            layout: how the prompt begins.
            room_tokens: what the window leaves for them.

        Raises:
            InvalidInput, TooLong: the caller asked for a whole document that is not to be had.
        """
        if attempt.question.context != "passages":
            whole = self.whole_document(attempt, passages, room_tokens=room_tokens)
            if whole is not None:
                return Material((whole,))
        method = self._method(attempt)
        planned = self._planned(attempt, passages, method, layout, room_tokens)
        if method == "none":
            if planned is None:
                return Material(tuple(map(_all_of, passages)))
            excerpts = tuple(_all_of(piece.passage) for piece in planned.pieces)
            return Material(excerpts, tuple(passage_id(piece.passage) for piece in planned.ranking))
        static = planned.pieces[: planned.num_static] if planned is not None else ()
        held = {piece.document_id for piece in static}
        front = tuple(_all_of(piece.passage) for piece in static)
        tail = [passage for passage in passages if passage.document_id not in held]
        return Material(front + self._shorten(attempt, question, tail, method, query_vector, front))

    def whole_document(
        self, attempt: Attempt, passages: Sequence[Passage], *, room_tokens: int
    ) -> Excerpt | None:
        """The document that goes in whole because it was asked for, or is marked static and fits.

        None where there is none, or it was deleted since. Notes the step `context`.

        Raises:
            InvalidInput, TooLong: it was asked for, and is not to be had.
        """
        candidate, reason = self._candidate(attempt, passages), "asked for"
        if attempt.question.context == "whole":
            candidate = require_whole(candidate, room_tokens=room_tokens)
        elif candidate is None or not candidate.is_static or candidate.num_tokens > room_tokens:
            return None
        else:
            reason = "a static document, and it fits"
        attempt.note("context", {"context": "whole", "document_id": candidate.document_id, "reason": reason})
        whole = self._read_whole(attempt, candidate, passages)
        if whole is None:
            return None
        return Excerpt(whole, whole.text, is_whole=True, is_static=candidate.is_static)

    def _planned(
        self,
        attempt: Attempt,
        passages: Sequence[Passage],
        method: str,
        layout: PassageLayout,
        room_tokens: int,
    ) -> PlannedPassages | None:
        """The prefix planner's layout; None where it is switched off. Notes the step `context`."""
        planned = None
        if attempt.question.prefix_planner:
            found = sum(passage.num_generator_tokens for passage in passages)
            planned = self._prefix.plan(
                attempt,
                passages,
                layout=layout,
                room_tokens=room_tokens,
                max_owed_tokens=None if method == "none" else min(found, self._extracted_tokens),
            )
        whole = next((piece for piece in planned.pieces if piece.is_whole), None) if planned else None
        attempt.note(
            "context",
            {
                "context": "passages" if whole is None else "whole",
                "document_id": None if whole is None else whole.document_id,
                "reason": attempt.steps.get("prefix", {}).get("reason", "as found"),
            },
        )
        return planned

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

    def _candidate(self, attempt: Attempt, passages: Sequence[Passage]) -> WholeCandidate | None:
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
        return WholeCandidate(document_id, name, num_tokens, is_static)

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
        method: str,
        query_vector: NDArray[np.float32] | None,
        front: Sequence[Excerpt],
    ) -> tuple[Excerpt, ...]:
        """Sentences of the passages, those of each in the order of its rank."""
        if not passages:
            return ()
        extraction = self.extractor(method).extract(
            question,
            passages,
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
        if not kept and not front:  # not one sentence fits its room: better too much than nothing
            return tuple(map(_all_of, passages))
        # Of passages that no sentence was kept of nothing is sent.
        return tuple(
            Excerpt(passages[index], _OMISSION.join(kept[index]), is_whole=False) for index in sorted(kept)
        )


def _all_of(passage: Passage) -> Excerpt:
    return Excerpt(passage, passage.text, is_whole=True)


def _document_meant(filtered: Sequence[DocumentId], passages: Sequence[Passage]) -> DocumentId | None:
    """The one document a question is about: the only one filtered for, or the one that holds the
    best passage and at least half of all."""
    best = passages[0].document_id
    if len(filtered) == 1:
        return best
    return best if 2 * sum(passage.document_id == best for passage in passages) >= len(passages) else None
