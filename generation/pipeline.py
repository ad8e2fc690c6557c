"""From a question to a cited answer.

    question ─▶ search ─▶ supported? ─┬─ no ──────────────────────────▶ refusal, nearest passages
                                      ├─ extractive ─▶ sentences ──────┐
                                      └─ abstractive ─▶ prompt ─▶ vLLM ┴▶ verify quotes ─▶ one transaction

The transaction writes the answer, its ledger lines and the end of its job, if the lease is held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import structlog
from sqlalchemy.orm import Session

from accounting.ledger import Ledger, LedgerLine, Stage, generation_lines
from core.clock import utc_now
from core.errors import LongleafError, TooLong
from core.ids import AnswerId, CollectionId
from core.settings import AskSettings
from core.usage import TokenUsage
from generation.answer_draft import Consumption, Draft, Statement, compose_text
from generation.attribution import attribute, strip_marks
from generation.citations import CitationVerifier, Quote
from generation.instructions import REFUSALS, instructions_for
from generation.prompt import Prompt, build_prompt
from generation.segments import PromptPassage
from inference.protocols import (
    ChatTokenizer,
    Embedder,
    GenerationRequest,
    Generator,
    SamplingParameters,
)
from retrieval.extraction import Extraction, PassageExtractor
from retrieval.passages import Passage
from retrieval.pipeline import RetrievalPipeline, SearchResult
from storage.answers import AnswerRepository
from storage.database import Database
from storage.events import EventBus
from storage.job_run import JobRun, RunOutcome
from storage.jobs import ClaimedJob

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Question:
    """The stored question, with the server's defaults filled in."""

    answer_id: AnswerId
    collection_id: CollectionId
    text: str
    mode: str
    num_passages: int
    sampling: SamplingParameters
    accepted_at: datetime


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
        retrieval: RetrievalPipeline,
        extractor: PassageExtractor,
        min_support: float,
        generator: Generator,
        tokenizer: ChatTokenizer,
        ledger: Ledger,
    ) -> None:
        self._settings = settings
        self._default_mode = default_mode
        self._database = database
        self._events = events
        self._embedder = embedder
        self._retrieval = retrieval
        self._extractor = extractor
        self._min_support = min_support
        self._generator = generator
        self._tokenizer = tokenizer
        self._ledger = ledger
        self._verifier = CitationVerifier(database)

    def run(self, run: JobRun) -> RunOutcome:
        """Answer the job's question; the answer's row then has everything the API shows."""
        started_at = time.monotonic()
        question = self._load(run.job)
        self._settle_lost_attempt(run.job, question)
        event = "started" if run.job.attempt == 1 else "restart"
        self._events.publish(run.job.id, event, {"attempt": run.job.attempt})
        consumption = Consumption()
        finished = False
        try:
            search = self._search(run, question, consumption)
            draft = self._answer(run, question, search, consumption)
            self._finish(run, question, search, draft, consumption, started_at)
            finished = True
        finally:
            if not finished:  # whatever the reason, the tokens were spent
                lines = self._all_lines(run.job, question, run.job.attempt, consumption)
                self._record_burned(run.job, lines)
        return "done"

    def abandon(self, session: Session, job: ClaimedJob, error: LongleafError) -> None:
        """Nothing to close: an answer's status is its job's."""

    # ---- steps ---------------------------------------------------------------------------

    def _search(self, run: JobRun, question: Question, consumption: Consumption) -> SearchResult:
        self._require_short_question(question.text)
        search = self._retrieval.search(
            run.job.tenant_id,
            question.collection_id,
            question.text,
            num_candidates=self._settings.num_candidates,
            num_passages=question.num_passages,
            max_passage_tokens=self._settings.max_context_tokens,
        )
        consumption.seconds["embed_seconds"] = search.seconds["embed"]
        consumption.seconds["retrieval_seconds"] = sum(search.seconds.values())
        consumption.lines.append(
            self._embedder_line(
                run.job, question, Stage.EMBED, search.num_query_tokens, search.seconds["embed"]
            )
        )
        self._events.publish(run.job.id, "passages", {"passages": [passage_json(p) for p in search.passages]})
        run.checkpoint()
        return search

    def _answer(
        self, run: JobRun, question: Question, search: SearchResult, consumption: Consumption
    ) -> Draft:
        passages = search.passages
        if not passages:
            return self._refuse(question)
        extraction = self._extractor.extract(
            question.text,
            passages,
            num_sentences=self._settings.extractive_sentences,
            query_vector=search.query_vector,
        )
        consumption.seconds["extract_seconds"] = extraction.seconds
        consumption.lines.append(
            self._embedder_line(
                run.job, question, Stage.EXTRACT, extraction.num_embedded_tokens, extraction.seconds
            )
        )
        run.checkpoint()
        if extraction.support < self._min_support:
            return self._refuse(question)
        if question.mode == "extractive":
            return self._extractive(extraction, passages)
        return self._abstractive(run, question, passages, consumption)

    def _refuse(self, question: Question) -> Draft:
        refusal = Statement(instructions_for(question.text).refusal)
        return Draft(mode=question.mode, outcome="refused", statements=(refusal,))

    def _extractive(self, extraction: Extraction, passages: Sequence[Passage]) -> Draft:
        statements = tuple(
            Statement(
                s.text,
                Quote(s.document_id, passages[s.passage_index].document_name, s.start, s.end, s.text),
                separator="\n",
            )
            for s in extraction.sentences
        )
        return Draft(mode="extractive", outcome="answered", statements=statements, model=self._embedder.name)

    def _abstractive(
        self, run: JobRun, question: Question, passages: Sequence[Passage], consumption: Consumption
    ) -> Draft:
        prompt = self._build_prompt(question, passages)
        by_id = {_passage_id(passage): passage for passage in passages}
        included = [by_id[passage.id] for passage in prompt.included]
        text, finish_reason = self._generate(run, prompt, question.sampling, consumption)
        model = self._generator.info().model
        if _is_refusal(text):
            refusal = instructions_for(question.text).refusal
            return Draft(
                mode="abstractive",
                outcome="refused",
                statements=(Statement(refusal),),
                finish_reason=finish_reason,
                model=model,
            )
        attribution = attribute(text, question.text, included)
        warnings = [f"Nothing in the passages supports: {sentence}" for sentence in attribution.unsupported]
        warnings += [f"Passage {dropped.id} was left out: {dropped.reason}." for dropped in prompt.dropped]
        if finish_reason == "length":
            warnings.append(f"The answer was cut at max_tokens={question.sampling.max_tokens}.")
        if finish_reason == "repetition":
            warnings.append("The generator began to repeat itself and was stopped.")
        return Draft(
            mode="abstractive",
            outcome="answered",
            statements=attribution.statements,
            warnings=tuple(warnings),
            finish_reason=finish_reason,
            model=model,
        )

    def _build_prompt(self, question: Question, passages: Sequence[Passage]) -> Prompt:
        window = self._generator.info().max_model_len
        return build_prompt(
            self._tokenizer,
            self._tokenizer.chat_frame(has_system=True),
            instructions=instructions_for(question.text),
            passages=[PromptPassage(_passage_id(p), _header(p), p.text) for p in passages],
            question=question.text,
            max_prompt_tokens=window - question.sampling.max_tokens,
            max_passage_tokens=self._settings.max_context_tokens,
        )

    def _generate(
        self, run: JobRun, prompt: Prompt, sampling: SamplingParameters, consumption: Consumption
    ) -> tuple[str, str]:
        """The generated text and why it ended; each delta is published with its cumulative usage."""
        request = GenerationRequest(
            prompt_token_ids=prompt.token_ids,
            sampling=sampling,
            cache_salt=run.job.tenant_id,
            request_id=f"{run.job.id}-{run.job.attempt}",
        )
        text, finish_reason = "", ""
        with self._generator.stream(request) as deltas:
            for delta in deltas:
                consumption.usage = delta.usage
                run.checkpoint()
                consumption.first_token_at = consumption.first_token_at or time.monotonic()
                text += delta.text
                finish_reason = delta.finish_reason or finish_reason
                consumption.engine = delta.timings or consumption.engine
                if not delta.text:
                    continue
                data = {"text": delta.text, "usage": _usage_json(delta.usage), "attempt": run.job.attempt}
                self._events.publish(run.job.id, "delta", data)
        return text.strip(), finish_reason

    def _finish(
        self,
        run: JobRun,
        question: Question,
        search: SearchResult,
        draft: Draft,
        consumption: Consumption,
        started_at: float,
    ) -> None:
        job = run.job
        citations = self._verifier.verify(job.tenant_id, draft.quotes)
        text = compose_text(draft.statements, citations)
        if consumption.first_token_at is None:  # nothing was streamed while it was made
            consumption.first_token_at = time.monotonic()
            self._events.publish(job.id, "delta", {"text": text})
        with self._database.write() as session:
            run.succeed(session)
            now = utc_now()
            lines = self._all_lines(job, question, job.attempt, consumption)
            entries = self._ledger.record(session, job.tenant_id, lines, at=now)
            AnswerRepository(session, job.tenant_id).complete(
                question.answer_id,
                mode=draft.mode,
                outcome=draft.outcome,
                text=text,
                citations=[citation.as_json() for citation in citations],
                passages=[passage_json(passage) for passage in search.passages],
                warnings=list(draft.warnings),
                finish_reason=draft.finish_reason,
                model=draft.model or None,
                prompt_tokens=consumption.usage.prompt_tokens,
                cached_tokens=consumption.usage.cached_tokens,
                completion_tokens=consumption.usage.completion_tokens,
                timings=_timings(job, question, consumption, started_at, now),
                cost=sum((entry.cost for entry in entries), Decimal(0)),
                currency=entries[0].currency if entries else None,
                finished_at=now,
            )

    # ---- accounts ------------------------------------------------------------------------

    def _embedder_line(
        self, job: ClaimedJob, question: Question, stage: Stage, num_tokens: int, seconds: float
    ) -> LedgerLine:
        return LedgerLine(
            source=question.answer_id,
            attempt=job.attempt,
            stage=stage,
            model=self._embedder.name,
            model_revision=self._embedder.revision,
            num_tokens=num_tokens,
            engine_seconds=seconds,
            key_id=job.key_id,
            job_id=job.id,
            collection_id=question.collection_id,
        )

    def _all_lines(
        self, job: ClaimedJob, question: Question, attempt: int, consumption: Consumption
    ) -> list[LedgerLine]:
        if consumption.usage == TokenUsage():
            return consumption.lines
        info = self._generator.info()
        return consumption.lines + generation_lines(
            consumption.usage,
            source=question.answer_id,
            attempt=attempt,
            model=info.model,
            model_revision=info.revision,
            prefill_seconds=consumption.engine.prefill_seconds,
            decode_seconds=consumption.engine.decode_seconds,
            key_id=job.key_id,
            job_id=job.id,
            collection_id=question.collection_id,
        )

    def _record_burned(self, job: ClaimedJob, lines: Sequence[LedgerLine]) -> None:
        burned = [replace(line, billed=False) for line in lines]
        with self._database.write() as session:
            self._ledger.record(session, job.tenant_id, burned)

    def _settle_lost_attempt(self, job: ClaimedJob, question: Question) -> None:
        """Put on the ledger what an attempt whose worker died is known to have decoded.

        Its last event has the engine's own count; an attempt that failed in good order has
        recorded its lines itself, and then this writes nothing.
        """
        if job.attempt == 1:
            return
        last = self._events.last_event(job.id, "delta")
        if last is None or "usage" not in last or last["attempt"] >= job.attempt:
            return
        lost = Consumption(usage=TokenUsage(**last["usage"]))
        self._record_burned(job, self._all_lines(job, question, last["attempt"], lost))
        log.info("answer.lost_attempt_settled", answer_id=question.answer_id, attempt=last["attempt"])

    # ---- the question --------------------------------------------------------------------

    def _load(self, job: ClaimedJob) -> Question:
        with self._database.read() as session:
            answer = AnswerRepository(session, job.tenant_id).get_by_job(job.id)
        given: dict[str, Any] = answer.parameters
        mode = given.get("mode") or "auto"
        return Question(
            answer_id=AnswerId(answer.id),
            collection_id=CollectionId(answer.collection_id),
            text=answer.question,
            mode=self._default_mode if mode == "auto" else mode,
            num_passages=given.get("num_passages") or self._settings.num_passages,
            sampling=SamplingParameters(
                max_tokens=given.get("max_tokens") or self._settings.max_answer_tokens,
                temperature=_or(given.get("temperature"), 0.0),
                top_p=_or(given.get("top_p"), 1.0),
                seed=given.get("seed"),
                stop=tuple(given.get("stop") or ()),
            ),
            accepted_at=answer.accepted_at,
        )

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


def passage_json(passage: Passage) -> dict[str, Any]:
    """A passage as answers store it and events carry it: where it stands, not its text."""
    return {
        "document_id": passage.document_id,
        "document_name": passage.document_name,
        "start": passage.start,
        "end": passage.end,
        "first_page": passage.first_page,
        "last_page": passage.last_page,
        "headings": list(passage.headings),
        "score": round(passage.score, 6),
    }


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _passage_id(passage: Passage) -> str:
    return f"{passage.document_id}:{passage.start}-{passage.end}"


def _header(passage: Passage) -> str:
    """Document and place; the headings help a small model as much as they help the reader."""
    place = " > ".join(passage.headings)
    return f"{passage.document_name}, p. {passage.first_page}" + (f", {place}" if place else "")


def _is_refusal(text: str) -> bool:
    plain = strip_marks(text)
    return not plain or any(plain.startswith(refusal.rstrip(".。")) for refusal in REFUSALS)


def _usage_json(usage: TokenUsage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def _timings(
    job: ClaimedJob,
    question: Question,
    consumption: Consumption,
    started_at: float,
    finished: datetime,
) -> dict[str, float]:
    """Seconds, each from the clock named in the glossary; engine figures are the engine's own."""
    engine, usage = consumption.engine, consumption.usage
    queue_seconds = (job.claimed_at - question.accepted_at).total_seconds()
    first = consumption.first_token_at
    decoded_after_first = max(1, usage.completion_tokens - 1)
    timings = consumption.seconds | {
        "queue_seconds": queue_seconds,
        "ttft_seconds": queue_seconds + (first - started_at) if first is not None else 0.0,
        "engine_queue_seconds": engine.queue_seconds,
        "engine_ttft_seconds": engine.ttft_seconds,
        "prefill_seconds": engine.prefill_seconds,
        "decode_seconds": engine.decode_seconds,
        "tpot_seconds": engine.decode_seconds / decoded_after_first,
        "engine_seconds": engine.total_seconds,
        "total_seconds": (finished - question.accepted_at).total_seconds(),
    }
    return {name: round(seconds, 6) for name, seconds in timings.items()}
