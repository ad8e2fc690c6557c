"""What an answer's attempts used, as lines of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from accounting.ledger import Ledger, LedgerLine, Stage, generation_lines
from core.usage import TokenUsage
from generation.answer_draft import Consumption
from generation.asked_question import Question
from inference.protocols import Embedder, Generator
from storage.database import Database
from storage.events import EventBus
from storage.jobs import ClaimedJob

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AnswerAccounts:
    """Each attempt has lines of its own; those of the one that succeeds are billed."""

    database: Database
    events: EventBus
    ledger: Ledger
    embedder: Embedder
    generator: Generator

    def embedder_line(
        self, job: ClaimedJob, question: Question, stage: Stage, num_tokens: int, seconds: float
    ) -> LedgerLine:
        """A line for what the embedder computed for this attempt."""
        return LedgerLine(
            source=question.answer_id,
            attempt=job.attempt,
            stage=stage,
            model=self.embedder.name,
            model_revision=self.embedder.revision,
            num_tokens=num_tokens,
            engine_seconds=seconds,
            key_id=job.key_id,
            job_id=job.id,
            collection_id=question.collection_id,
        )

    def lines(
        self, job: ClaimedJob, question: Question, attempt: int, consumption: Consumption
    ) -> list[LedgerLine]:
        """All that the attempt has used: the embedder's lines, and the generator's."""
        if consumption.usage == TokenUsage():
            return consumption.lines
        info = self.generator.info()
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

    def record_burned(self, job: ClaimedJob, lines: Sequence[LedgerLine]) -> None:
        """Put lines on the ledger and on nobody's bill."""
        burned = [replace(line, billed=False) for line in lines]
        with self.database.write() as session:
            self.ledger.record(session, job.tenant_id, burned)

    def settle_lost_attempt(self, job: ClaimedJob, question: Question) -> None:
        """Put on the ledger what an attempt whose worker died is known to have decoded.

        Its last event has the engine's own count; an attempt that failed in good order has
        recorded its lines itself, and then this writes nothing.
        """
        if job.attempt == 1:
            return
        last = self.events.last_event(job.id, "delta")
        if last is None or "usage" not in last or last["attempt"] >= job.attempt:
            return
        lost = Consumption(usage=TokenUsage(**last["usage"]))
        self.record_burned(job, self.lines(job, question, last["attempt"], lost))
        log.info("answer.lost_attempt_settled", answer_id=question.answer_id, attempt=last["attempt"])
