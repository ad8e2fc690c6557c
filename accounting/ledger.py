"""The append-only ledger: what was consumed, priced at the moment it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from accounting import append_only as append_only  # who can write the ledger has it protected
from accounting.holds import charge
from accounting.money import cost_of, cost_of_time
from accounting.price_table import PricesInForce, prices_in_force
from accounting.stages import GENERATOR_STAGES, Stage
from core.clock import Clock, utc_now
from core.errors import InvalidInput
from core.ids import TenantId, new_id
from core.usage import TokenUsage
from storage.engine_requests import forget_requests
from storage.insertion import insert_if_absent
from storage.models import LedgerEntry

__all__ = ["Ledger", "LedgerLine", "Stage", "generation_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """Tokens of one stage, done by one model, for one effect.

    Args:
        source: names the effect that is paid for, once and for all: an answer's id, a batch's.
        attempt: which attempt at it; what each attempt burned is a line of its own.
        stage: what the work was for.
        price_stage: whose price it has, where that is another: a generator's work for `CONDENSE` is
            priced as `PREFILL_UNCACHED`, `PREFILL_CACHED` and `DECODE`, a line each.
        engine_seconds: its share of the time that the model's machine was busy.
        billed: False for what came to nothing: on the ledger, but on nobody's bill; see `burned`.
        reason: why it is not billed.
    """

    source: str
    attempt: int
    stage: Stage
    model: str
    model_revision: str
    num_tokens: int
    price_stage: Stage | None = None
    engine_seconds: float = 0.0
    billed: bool = True
    reason: str | None = None
    key_id: str | None = None
    job_id: str | None = None
    collection_id: str | None = None
    document_id: str | None = None

    @property
    def priced_as(self) -> Stage:
        return self.price_stage or self.stage

    @property
    def identity(self) -> tuple[str, int, str, str, str]:
        """What the ledger holds once."""
        return self.source, self.attempt, self.stage.value, self.priced_as.value, self.model


class Ledger:
    """Writes lines. Prices are those in force at `clock()`, unless a call says when."""

    def __init__(self, clock: Clock = utc_now) -> None:
        self._clock = clock

    def record(
        self,
        session: Session,
        tenant_id: TenantId,
        lines: Sequence[LedgerLine],
        *,
        at: datetime | None = None,
    ) -> list[LedgerEntry]:
        """The ledger's entries for `lines`, in their order, written unless they were there before.

        A second call for the same source, attempt and stages writes nothing and gives what the first
        one wrote, so that a task delivered twice is billed once. Lines of zero tokens are left out.
        What the journal has of the jobs of a generator's lines is forgotten: it is on the ledger now.

        Raises:
            InvalidInput: a line has a negative count (a correction is `accounting.corrections`'), or two have one source, attempt, stages and model.
            Misconfigured: the price book has no price for a line.
        """
        _check(lines)
        written = [line for line in lines if line.num_tokens]
        if not written:
            return []
        moment = at or self._clock()
        prices = prices_in_force(session, tenant_id, moment, models={line.model for line in written})
        rows = [
            {
                "id": new_id("led"),
                "tenant_id": tenant_id,
                "created_at": moment,
                **_values(line, prices),
            }
            for line in written
        ]
        is_new = insert_if_absent(session, LedgerEntry, *rows) == len(rows)
        entries = [LedgerEntry(**row) for row in rows] if is_new else _find(session, tenant_id, written)
        new_ids = {row["id"] for row in rows}
        charge(session, tenant_id, [entry for entry in entries if entry.id in new_ids])
        generated = (line for line in written if line.priced_as in GENERATOR_STAGES)
        if job_ids := {line.job_id for line in generated if line.job_id}:
            forget_requests(session, job_ids)
        return entries


def generation_lines(
    usage: TokenUsage,
    *,
    source: str,
    attempt: int,
    model: str,
    model_revision: str,
    purpose: Stage | None = None,
    prefill_seconds: float = 0.0,
    decode_seconds: float = 0.0,
    billed: bool = True,
    key_id: str | None = None,
    job_id: str | None = None,
    collection_id: str | None = None,
    document_id: str | None = None,
) -> list[LedgerLine]:
    """Lines for a call of the generator: prefill uncached, prefill cached, decode; none of zero tokens.

    The cached part of the prompt is counted once, at its own price, and takes none of the engine's time
    unless there is nothing else.

    Args:
        purpose: the stage the call served, where it did not write the answer.
        prefill_seconds: as waited for. Where the usage has the call's share of the engine's time, these two
            only say which part of it was the prefill's.
    """
    waited = prefill_seconds + decode_seconds
    seconds = usage.engine_seconds or waited
    prefill_part = prefill_seconds / waited if waited else 0.0
    if not usage.completion_tokens:
        prefill_part = 1.0
    elif not usage.prompt_tokens:
        prefill_part = 0.0
    uncached_part = prefill_part if usage.uncached_tokens else 0.0
    counts = (
        (Stage.PREFILL_UNCACHED, usage.uncached_tokens, seconds * uncached_part),
        (Stage.PREFILL_CACHED, usage.cached_tokens, seconds * (prefill_part - uncached_part)),
        (Stage.DECODE, usage.completion_tokens, seconds * (1.0 - prefill_part)),
    )
    return [
        LedgerLine(
            source=source,
            attempt=attempt,
            stage=purpose or stage,
            price_stage=stage,
            model=model,
            model_revision=model_revision,
            num_tokens=num_tokens,
            engine_seconds=seconds,
            billed=billed,
            key_id=key_id,
            job_id=job_id,
            collection_id=collection_id,
            document_id=document_id,
        )
        for stage, num_tokens, seconds in counts
        if num_tokens
    ]


def _check(lines: Sequence[LedgerLine]) -> None:
    identities = Counter(line.identity for line in lines)
    for line in lines:
        if line.num_tokens < 0:
            raise InvalidInput(
                f"{line.source} has {line.num_tokens} tokens of {line.stage.value}.",
                remedy="Counts start at zero; cached tokens are a part of the prompt's.",
                source=line.source,
            )
        if identities[line.identity] > 1:
            raise InvalidInput(
                f"{line.source} has two lines of {line.stage.value} in attempt {line.attempt}.",
                remedy="Sum them, or give each a source of its own.",
                source=line.source,
            )


def _values(line: LedgerLine, prices: PricesInForce) -> dict[str, object]:
    price = prices.get(line.model, line.priced_as, revision=line.model_revision)
    hourly_rate = prices.find_hourly_rate(line.model, revision=line.model_revision)
    return {
        **asdict(line),
        "stage": line.stage.value,
        "price_stage": line.priced_as.value,
        "price_per_million": price.price_per_million,
        "cost": cost_of(line.num_tokens, price.price_per_million),
        "currency": price.currency,
        "engine_cost": None if hourly_rate is None else cost_of_time(line.engine_seconds, hourly_rate),
    }


def _find(session: Session, tenant_id: TenantId, lines: Sequence[LedgerLine]) -> list[LedgerEntry]:
    identity = tuple_(
        LedgerEntry.source,
        LedgerEntry.attempt,
        LedgerEntry.stage,
        LedgerEntry.price_stage,
        LedgerEntry.model,
    )
    entries = session.scalars(
        select(LedgerEntry).where(
            LedgerEntry.tenant_id == tenant_id, identity.in_([line.identity for line in lines])
        )
    )
    found = {
        (entry.source, entry.attempt, entry.stage, entry.price_stage, entry.model): entry for entry in entries
    }
    return [found[line.identity] for line in lines]
