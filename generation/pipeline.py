"""From a question to a cited answer.

    question ─▶ stand alone ─▶ search, rerank ─▶ supported? ─┬─ no ─────────────────▶ refusal, nearest passages
                                                             ├─ extractive ─▶ sentences ──────┐
                                                             └─ written ─▶ prompt ─▶ vLLM ────┴▶ verify quotes ─▶ one transaction

The transaction writes the answer, its ledger lines and the end of its job, if the lease is held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal

from accounting.billing import BurnReason, burn_reason
from accounting.ledger import Ledger, Stage
from core.clock import utc_now
from core.errors import LongleafError, TooLong
from core.settings import AskSettings
from core.usage import ModelUse
from generation.accounts import AnswerAccounts, priced_samples
from generation.answer_draft import (
    Draft,
    PlacedStatement,
    Statement,
    compose,
    short_answer_json,
    statements_json,
)
from generation.answer_json import extraction_json, passage_json, timings_json
from generation.asked_question import Question, question_of
from generation.attempt import Attempt
from generation.citations import Citation, CitationVerifier, Quote
from generation.exact_answer import compose_exact
from generation.instructions import instructions_for
from generation.leading import LeaderFirst, Leads
from generation.material import MaterialPlanner
from generation.sampling import given_controls
from generation.tracing.tracer import Tracer
from generation.understanding import QuestionReader, Understood
from generation.writer import AnswerWriter
from inference.protocols import ChatTokenizer, Embedder, Generator
from inference.small_model import SmallModel
from retrieval.extraction import Extraction
from retrieval.passages import Passage
from retrieval.pipeline import RetrievalPipeline, SearchResult
from retrieval.sentence_vectors import SentenceVectors
from retrieval.short_answer import short_answer
from retrieval.support import SupportEstimator
from storage.answers import AnswerRepository
from storage.database import Database
from storage.events import EventBus
from storage.job_run import JobRun, RunOutcome
from storage.jobs import ClaimedJob


class AnswerPipeline:
    """Runs jobs of kind `answer`. One instance serves all threads of a worker."""

    def __init__(
        self,
        *,
        settings: AskSettings,
        default_mode: str,
        database: Database,
        events: EventBus,
        embedder: Embedder,
        reader: QuestionReader,
        retrieval: RetrievalPipeline,
        support: SupportEstimator,
        material: MaterialPlanner,
        generator: Generator,
        tokenizer: ChatTokenizer,
        is_brief: bool,
        small_model: SmallModel | None = None,
        ledger: Ledger,
        leads: Leads | None = None,
        tracer: Tracer,
    ) -> None:
        """`leads` tells workers what prefixes are being computed; without it none waits for another."""
        self._settings = settings
        self._default_mode = default_mode
        self._database = database
        self._events = events
        self._embedder = embedder
        self._reader = reader
        self._retrieval = retrieval
        self._support = support
        self._material = material
        self._tokenizer = tokenizer
        self._writer = AnswerWriter(
            settings=settings,
            events=events,
            generator=generator,
            tokenizer=tokenizer,
            material=material,
            leaders=LeaderFirst(leads, settings.leader),
            is_brief=is_brief,
            small_model=small_model,
        )
        self._accounts = AnswerAccounts(database, ledger, generator)
        self._verifier = CitationVerifier(database)
        self._tracer = tracer

    def run(self, run: JobRun) -> RunOutcome:
        """Answer the job's question; the answer's row then has everything the API shows."""
        started_at = time.monotonic()
        question = self._load(run.job)
        event = "started" if run.job.attempt == 1 else "restart"
        self._events.publish(run.job.id, event, {"attempt": run.job.attempt})
        attempt = Attempt(run, question, SentenceVectors(self._embedder), started_at)
        attempt.trace = self._tracer.begin(question.trace, attempt=run.job.attempt)
        finished, reason = False, BurnReason.FAILED
        try:
            self._require_short_question(question.text)
            understood = self._reader.understand(attempt)
            search = self._search(attempt, understood)
            draft = self._answer(attempt, understood, search)
            self._finish(attempt, understood, search, draft)
            finished = True
        except LongleafError as error:
            attempt.consumption.add(Stage.CONDENSE, error.uses)
            attempt.trace.error_code = error.code
            reason = burn_reason(error)
            raise
        finally:
            if not finished:  # whatever the reason, the tokens were spent
                attempt.charge_vectors(Stage.EXTRACT)
                lines = self._accounts.lines(run.job, question, run.job.attempt, attempt.consumption)
                self._accounts.record_burned(run.job, lines, reason)
                self._tracer.keep_unfinished(self._database, attempt.trace, run.job, question.answer_id)
        return "done"

    # ---- steps ---------------------------------------------------------------------------

    def _search(self, attempt: Attempt, understood: Understood) -> SearchResult:
        question, consumption = attempt.question, attempt.consumption
        search = self._retrieval.search(
            attempt.tenant_id,
            question.collection_id,
            understood.text,
            queries=understood.queries,
            filter=question.filter,
            rerank=question.rerank,
            num_candidates=self._settings.num_candidates,
            num_passages=question.num_passages,
            max_passage_tokens=question.max_context_tokens,
            vectors=attempt.vectors,
        )
        consumption.seconds["embed_seconds"] = search.seconds["embed"]
        consumption.seconds["rerank_seconds"] = search.seconds["rerank"]
        consumption.seconds["retrieval_seconds"] = sum(search.seconds.values())
        queries = ModelUse(
            self._embedder.name,
            self._embedder.revision,
            num_tokens=search.num_query_tokens,
            seconds=search.seconds["embed"],
        )
        consumption.add(Stage.EMBED, [queries])
        consumption.add(Stage.RERANK, search.rerank_uses)
        attempt.trace.searched(search)
        attempt.note(
            "search",
            {
                "reranked": bool(search.rerank_uses),
                "num_duplicates": search.num_duplicates,
                "seconds": {step: round(seconds, 6) for step, seconds in search.seconds.items()},
            },
        )
        self._events.publish(
            attempt.run.job.id, "passages", {"passages": [passage_json(p) for p in search.passages]}
        )
        attempt.run.checkpoint()
        return search

    def _answer(self, attempt: Attempt, understood: Understood, search: SearchResult) -> Draft:
        if not search.passages:
            return self._refuse(attempt.question)
        support = self._support.estimate(
            understood.text, search.passages, vectors=attempt.vectors, query_vector=search.query_vector
        )
        attempt.charge_vectors(Stage.EXTRACT)
        attempt.consumption.add(Stage.EXTRACT, support.uses)
        attempt.note("support", {"value": round(support.value, 4), "threshold": support.threshold})
        attempt.run.checkpoint()
        if not support.is_supported:
            return self._refuse(attempt.question)
        if attempt.question.mode == "extractive":
            return self._extract(attempt, understood, search)
        return self._writer.write(
            attempt,
            understood.text,
            search.passages,
            query_vector=search.query_vector,
            summary=understood.summary,
            history=understood.history,
        )

    def _refuse(self, question: Question) -> Draft:
        return Draft(mode=question.mode, outcome="refused")

    def _extract(self, attempt: Attempt, understood: Understood, search: SearchResult) -> Draft:
        passages: tuple[Passage, ...] = search.passages
        if attempt.question.context == "whole":
            whole = self._material.whole_document(
                attempt, passages, room_tokens=self._settings.max_whole_tokens
            )
            passages = passages if whole is None else (whole.passage,)
        method = attempt.question.extraction
        extractor = self._material.extractor("embedding" if method in ("auto", "none") else method)
        extraction = extractor.extract(
            understood.text,
            passages,
            num_sentences=self._settings.extractive_sentences,
            vectors=attempt.vectors,
            query_vector=search.query_vector,
            cache_salt=attempt.tenant_id,
        )
        attempt.consumption.spend("extract_seconds", extraction.seconds)
        attempt.consumption.add(Stage.EXTRACT, extraction.uses)
        attempt.note("extraction", extraction_json(extraction))
        attempt.trace.extracted(extraction.sentences, passages)
        attempt.run.checkpoint()
        statements = tuple(
            Statement(
                s.text,
                (Quote(s.document_id, passages[s.passage_index].document_name, s.start, s.end, s.text),),
                separator="\n",
            )
            for s in extraction.sentences
        )
        if not statements:
            return self._refuse(attempt.question)
        return Draft(
            mode="extractive",
            outcome="answered",
            statements=statements,
            warnings=_unsampled(attempt.question),
            model=self._embedder.name,
            short_answer=_short_answer(understood.text, extraction, passages),
        )

    def _finish(self, attempt: Attempt, understood: Understood, search: SearchResult, draft: Draft) -> None:
        job, question, consumption = attempt.run.job, attempt.question, attempt.consumption
        citations = self._verifier.verify(job.tenant_id, draft.quotes)
        text, statements, warnings = _compose(draft, citations, question)
        self._tracer.attribute(attempt.trace, statements, citations)
        if consumption.first_token_at is None:  # nothing was streamed while it was made
            consumption.first_token_at = time.monotonic()
            self._events.publish(job.id, "delta", {"text": text})
        with self._database.write() as session:
            attempt.run.succeed(session)
            now = utc_now()
            lines = self._accounts.lines(job, question, job.attempt, consumption)
            entries = self._accounts.ledger.record(session, job.tenant_id, lines, at=now)
            AnswerRepository(session, job.tenant_id).complete(
                question.answer_id,
                mode=draft.mode,
                outcome="answered" if statements or (draft.exact and text) else "refused",
                text=text,
                statements=statements_json(statements),
                short_answer=short_answer_json(draft.short_answer, citations),
                citations=[citation.as_json() for citation in citations],
                passages=[passage_json(passage) for passage in search.passages],
                steps=attempt.steps,
                samples=priced_samples(attempt.samples, entries),
                warnings=warnings,
                finish_reason=draft.finish_reason,
                model=draft.model or None,
                prompt_tokens=consumption.usage.prompt_tokens,
                cached_tokens=consumption.usage.cached_tokens,
                completion_tokens=consumption.usage.completion_tokens,
                timings=timings_json(job, question, consumption, attempt.started_at, now),
                cost=sum((entry.cost for entry in entries), Decimal(0)),
                currency=entries[0].currency if entries else None,
                finished_at=now,
            )
            self._tracer.keep(session, attempt.trace, tenant_id=job.tenant_id, answer_id=question.answer_id)
            self._reader.keep(session, attempt, understood)

    def _load(self, job: ClaimedJob) -> Question:
        with self._database.read() as session:
            answer = AnswerRepository(session, job.tenant_id).get_by_job(job.id)
        return question_of(answer, self._settings, default_mode=self._default_mode)

    def _require_short_question(self, text: str) -> None:
        num_tokens = self._tokenizer.count(text)
        if num_tokens > self._settings.max_question_tokens:
            raise TooLong(
                f"The question has {num_tokens} tokens; at most {self._settings.max_question_tokens} fit "
                "beside the passages.",
                remedy="Shorten it, or upload its long part as a document and ask about that.",
                num_tokens=num_tokens,
                max_tokens=self._settings.max_question_tokens,
            )


def _short_answer(question: str, extraction: Extraction, passages: Sequence[Passage]) -> Quote | None:
    found = short_answer(question, extraction.sentences)
    if found is None:
        return None
    name = next(p.document_name for p in passages if p.document_id == found.document_id)
    return Quote(found.document_id, name, found.start, found.end, found.text)


def _unsampled(question: Question) -> tuple[str, ...]:
    """What `auto` made extractive is not sampled, whatever was said of it: the caller is told."""
    given = given_controls(question.choice)
    if not given:
        return ()
    return (f"Nothing was sampled, so {', '.join(given)} had no effect: ask with mode `abstractive`.",)


def _compose(
    draft: Draft, citations: Sequence[Citation], question: Question
) -> tuple[str, tuple[PlacedStatement, ...], list[str]]:
    """Text, statements and warnings; a refusal has no statements, for it states nothing."""
    refusal = instructions_for(question.text).refusal
    if draft.outcome == "refused":
        return refusal, (), list(draft.warnings)
    if draft.exact is not None:
        exact = compose_exact(draft.exact, draft.statements, citations)
        return exact.text, exact.statements, [*draft.warnings, *exact.warnings]
    composed = compose(draft.statements, citations, unsupported=question.unsupported)
    warnings = [*draft.warnings, *composed.warnings]
    if not any(statement.supported for statement in composed.statements):
        return refusal, (), warnings  # better unanswered than uncited
    return composed.text, composed.statements, warnings
