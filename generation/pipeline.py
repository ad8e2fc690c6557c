"""From a question to a cited answer.

    question ─▶ search ─▶ supported? ─┬─ no ──────────────────────────▶ refusal, nearest passages
                                      ├─ extractive ─▶ sentences ──────┐
                                      └─ abstractive ─▶ prompt ─▶ vLLM ┴▶ verify quotes ─▶ one transaction

The transaction writes the answer, its ledger lines and the end of its job, if the lease is held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal

from sqlalchemy.orm import Session

from accounting.ledger import Ledger, Stage
from core.clock import utc_now
from core.errors import LongleafError, TooLong
from core.settings import AskSettings
from generation.accounts import AnswerAccounts
from generation.answer_draft import Consumption, Draft, Statement, compose_text
from generation.answer_json import passage_json, timings_json, usage_json
from generation.asked_question import Question, question_of
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
        self._accounts = AnswerAccounts(database, events, ledger, embedder, generator)
        self._verifier = CitationVerifier(database)

    def run(self, run: JobRun) -> RunOutcome:
        """Answer the job's question; the answer's row then has everything the API shows."""
        started_at = time.monotonic()
        question = self._load(run.job)
        self._accounts.settle_lost_attempt(run.job, question)
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
                lines = self._accounts.lines(run.job, question, run.job.attempt, consumption)
                self._accounts.record_burned(run.job, lines)
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
            self._accounts.embedder_line(
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
            self._accounts.embedder_line(
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
        refusal = Statement(instructions_for(question.text).refusal)
        attribution = attribute(text, question.text, included)
        is_refusal = _is_refusal(text)
        if is_refusal or not any(statement.quote for statement in attribution.statements):
            # Better unanswered than uncited: what nothing supports is told apart, as a warning.
            unfounded = () if is_refusal else (f"The model wrote, without support: {strip_marks(text)}",)
            return Draft(
                mode="abstractive",
                outcome="refused",
                statements=(refusal,),
                warnings=unfounded,
                finish_reason=finish_reason,
                model=model,
            )
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
        window, max_tokens = self._generator.info().max_model_len, question.sampling.max_tokens
        if max_tokens >= window:
            raise TooLong(
                f"max_tokens is {max_tokens}, but the model's whole window has {window} tokens.",
                remedy=f"Ask for less: {self._settings.max_answer_tokens} is the default.",
                max_tokens=max_tokens,
                max_model_len=window,
            )
        return build_prompt(
            self._tokenizer,
            self._tokenizer.chat_frame(has_system=True),
            instructions=instructions_for(question.text),
            passages=[PromptPassage(_passage_id(p), _header(p), p.text) for p in passages],
            question=question.text,
            max_prompt_tokens=window - max_tokens,
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
                data = {"text": delta.text, "usage": usage_json(delta.usage), "attempt": run.job.attempt}
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
            lines = self._accounts.lines(job, question, job.attempt, consumption)
            entries = self._accounts.ledger.record(session, job.tenant_id, lines, at=now)
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
                timings=timings_json(job, question, consumption, started_at, now),
                cost=sum((entry.cost for entry in entries), Decimal(0)),
                currency=entries[0].currency if entries else None,
                finished_at=now,
            )

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


def _passage_id(passage: Passage) -> str:
    return f"{passage.document_id}:{passage.start}-{passage.end}"


def _header(passage: Passage) -> str:
    """Document and place; the headings help a small model as much as they help the reader."""
    place = " > ".join(passage.headings)
    return f"{passage.document_name}, p. {passage.first_page}" + (f", {place}" if place else "")


def _is_refusal(text: str) -> bool:
    plain = strip_marks(text)
    return not plain or any(plain.startswith(refusal.rstrip(".。")) for refusal in REFUSALS)
