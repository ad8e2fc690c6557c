"""What an answer's attempts used, as lines of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, LedgerLine, Stage, generation_lines
from accounting.money import cost_of, format_amount
from core.usage import ModelUse, TokenUsage
from generation.asked_question import Question
from generation.consumption import Consumption
from inference.protocols import Generator
from storage.database import Database
from storage.jobs import ClaimedJob
from storage.models import LedgerEntry


@dataclass(frozen=True, slots=True)
class AnswerAccounts:
    """Each attempt has lines of its own; those of the one that succeeds are billed."""

    database: Database
    ledger: Ledger
    generator: Generator

    def lines(
        self, job: ClaimedJob, question: Question, attempt: int, consumption: Consumption
    ) -> list[LedgerLine]:
        """All that the attempt has used: a line for each stage, model and price."""
        whose: dict[str, Any] = {
            "source": question.answer_id,
            "attempt": attempt,
            "key_id": job.key_id,
            "job_id": job.id,
            "collection_id": question.collection_id,
        }
        return consumption_lines(consumption, self.generator, whose)

    def record_burned(self, job: ClaimedJob, lines: Sequence[LedgerLine], reason: BurnReason) -> None:
        """Put lines on the ledger and on nobody's bill."""
        with self.database.write() as session:
            self.ledger.record(session, job.tenant_id, burned(lines, reason))


def priced_samples(samples: Mapping[str, Any], entries: Sequence[LedgerEntry]) -> dict[str, Any]:
    """`samples` with what each cost, at the prices that its answer's entries have.

    Together they cost what the entries of prefill and decode do.
    """
    prices = {
        entry.stage: entry.price_per_million for entry in entries if entry.stage == entry.price_stage
    }  # of the answer's own tokens: a small model's are another stage's

    def cost(item: Mapping[str, Any]) -> Decimal:
        counts = {
            Stage.PREFILL_UNCACHED: item["prompt_tokens"] - item["cached_tokens"],
            Stage.PREFILL_CACHED: item["cached_tokens"],
            Stage.DECODE: item["completion_tokens"],
        }
        costs = (cost_of(count, prices[stage.value]) for stage, count in counts.items() if count)
        return sum(costs, Decimal(0))

    if not samples:
        return {}
    items = [{**item, "cost": format_amount(cost(item))} for item in samples["items"]]
    return {**samples, "items": items}


def consumption_lines(
    consumption: Consumption, generator: Generator, whose: Mapping[str, Any]
) -> list[LedgerLine]:
    """A line for each stage, model and price; `whose` are the fields that all of them share."""
    lines = [
        line for stage, use in _summed(consumption.uses) for line in _step_lines(stage, use, dict(whose))
    ]
    if consumption.usage == TokenUsage():
        return lines
    info = generator.info()
    return lines + generation_lines(
        consumption.usage,
        model=info.model,
        model_revision=info.revision,
        prefill_seconds=consumption.engine.prefill_seconds,
        decode_seconds=consumption.engine.decode_seconds,
        **whose,
    )


def _summed(uses: Iterable[tuple[Stage, ModelUse]]) -> list[tuple[Stage, ModelUse]]:
    """One use for each stage and model, in the order first met."""
    sums: dict[tuple[Stage, str], ModelUse] = {}
    for stage, use in uses:
        known = sums.get((stage, use.model))
        sums[stage, use.model] = use if known is None else known + use
    return [(stage, use) for (stage, _), use in sums.items()]


def _step_lines(stage: Stage, use: ModelUse, whose: dict[str, Any]) -> list[LedgerLine]:
    encoded = LedgerLine(
        stage=stage,
        model=use.model,
        model_revision=use.model_revision,
        num_tokens=use.num_tokens,
        engine_seconds=use.seconds if use.num_tokens else 0.0,
        **whose,
    )
    # Engines tell a small task's time as a whole: it stands with the tokens that were written.
    generated = generation_lines(
        use.usage,
        model=use.model,
        model_revision=use.model_revision,
        purpose=stage,
        decode_seconds=use.seconds,
        **whose,
    )
    return [encoded, *generated] if use.num_tokens else generated
