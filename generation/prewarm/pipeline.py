"""Jobs of kind `prewarm`: compute heads of a collection's prompts while nobody waits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog
from sqlalchemy.orm import Session

from accounting.billing import BurnReason, burned
from accounting.holds import require_left
from accounting.ledger import Ledger, generation_lines
from core.clock import utc_now
from core.errors import EngineOverloaded, InvalidInput, LongleafError
from core.ids import CollectionId, TenantId
from core.precedence import current_precedence
from core.settings import PrewarmSettings
from core.usage import TokenUsage
from generation.prewarm.heads import BuiltHead, Head, fit_heads, propose_heads
from inference.kv_store.kept_text import KeptText
from inference.pooled_engine import EngineClient
from inference.protocols import GenerationRequest, SamplingParameters
from storage.database import Database
from storage.job_run import JobRun, RunOutcome
from storage.jobs import JobRepository
from storage.prewarm_jobs import PromptHeads, weigh_all

log = structlog.get_logger()

PRIORITY = 20
"""Behind everything that somebody waits for, and behind background work that has an outcome."""

_MAX_SENT = 200
_LOOK_SECONDS = 0.25
_PATIENCE_SECONDS = 0.5
"""A worker waits so long for a busy engine, then the job comes back later: there may be one for each
collection, and an upload that waits in the same queue must not have to wait for all of them."""

_MAX_AGE = timedelta(minutes=30)
"""A job that an ever busy engine has held up so long is given up: questions warm the cache themselves."""


class HeadBuilder(Protocol):
    """Turns heads into the token ids that a question's prompt would begin with."""

    def build(self, tenant_id: TenantId, collection_id: CollectionId, head: Head) -> BuiltHead | None:
        """None if its text is gone, or none of it is left in front."""
        ...


@dataclass(slots=True)
class _Slice:
    """What a run has done so far, and the job's heads by identity, those of earlier slices too."""

    until: float  # time.monotonic()
    heads: dict[tuple[str, ...], dict[str, Any]]
    usage: TokenUsage = field(default_factory=TokenUsage)
    prefill_seconds: float = 0.0
    is_engine_busy: bool = False


class PrewarmPipeline:
    """Sends the beginnings of prompts to the engine for the sake of its cache.

    Idempotent: what is cached costs next to nothing. Yields: it sends in pieces, at the lowest
    priority, each only when the engine has nothing else to do. Its use of the KV space is bounded
    by a share of it.
    """

    def __init__(
        self,
        *,
        settings: PrewarmSettings,
        database: Database,
        engine: EngineClient,
        builder: HeadBuilder,
        ledger: Ledger,
        default_mode: str,
        lookback_seconds: float,
        slice_seconds: float,
    ) -> None:
        """`lookback_seconds`: what was asked longer ago is not expected to be asked again."""
        self._settings = settings
        self._database = database
        self._engine = engine
        self._builder = builder
        self._ledger = ledger
        self._default_mode = default_mode
        self._lookback = timedelta(seconds=lookback_seconds)
        self._slice_seconds = slice_seconds

    def run(self, run: JobRun) -> RunOutcome:
        """Compute what fits; postponed when the engine is busy."""
        collection_id = run.job.collection_id
        if collection_id is None:
            raise InvalidInput(f"Job {run.job.id} names no collection to prewarm.")
        with self._database.read() as session:
            earlier = JobRepository(session, run.job.tenant_id).get(run.job.id).progress
            if self._settings.billed:
                require_left(session, run.job)
        work = _Slice(
            until=time.monotonic() + self._slice_seconds,
            heads={_identity(head): dict(head) for head in earlier.get("heads", [])},
        )
        try:
            is_whole = self._compute(run, collection_id, work)
        finally:
            self._record(run, collection_id, work)
        is_over = is_whole or utc_now() - run.job.created_at > _MAX_AGE
        with self._database.write() as session:
            run.set_progress(session, _progress(run, work, is_whole=is_whole))
            if is_over:
                run.succeed(session)
        if not is_over:
            return "postponed" if work.is_engine_busy else "yielded"
        log.info(
            "collection.prewarmed",
            collection_id=collection_id,
            num_heads=len(work.heads),
            computed_tokens=work.usage.uncached_tokens,
            cached_tokens=work.usage.cached_tokens,
        )
        return "done"

    def _compute(self, run: JobRun, collection_id: CollectionId, work: _Slice) -> bool:
        """Whether all that fits was computed; False when the slice ended before."""
        for built in self._heads(run.job.tenant_id, collection_id):
            told = built.head.as_json() | {"num_tokens": len(built), "sent_tokens": 0, "computed_tokens": 0}
            head = work.heads.setdefault(_identity(told), told)
            if not self._compute_head(run, built, head, work):
                return False
        return True

    def _compute_head(self, run: JobRun, built: BuiltHead, head: dict[str, Any], work: _Slice) -> bool:
        """Go on with a head where an earlier slice left it; True if it is done."""
        for length in _pieces(head["sent_tokens"], len(built), self._settings.piece_tokens):
            # One piece at least, or a job of short slices would never end.
            if work.usage.prompt_tokens and time.monotonic() > work.until:
                return False
            if not self._wait_for_quiet(run):
                work.is_engine_busy = True
                return False
            before = work.usage
            try:
                self._prefill(run, built, length, work)
            except EngineOverloaded:
                work.is_engine_busy = True
                return False
            head["sent_tokens"] = length
            head["computed_tokens"] += work.usage.uncached_tokens - before.uncached_tokens
        return True

    def _heads(self, tenant_id: TenantId, collection_id: CollectionId) -> Iterator[BuiltHead]:
        since = utc_now() - self._lookback
        with self._database.read() as session:
            stored = PromptHeads(session, tenant_id)
            sent = stored.list_sent(collection_id, since=since, limit=_MAX_SENT)
            static = stored.list_static(collection_id)
            share = _share(session, tenant_id, collection_id, since)
        budget = round(share * self._capacity_tokens() * self._settings.kv_share)
        heads = propose_heads(sent, static, default_mode=self._default_mode)
        window = self._engine.info().max_model_len
        built = (self._builder.build(tenant_id, collection_id, head) for head in heads)
        return fit_heads(
            (each for each in built if each is not None and len(each) < window), budget_tokens=budget
        )

    def _capacity_tokens(self) -> int:
        try:
            told = self._engine.engine_counters().kv_cache_tokens
        except LongleafError:  # not a vLLM, or one without metrics
            told = None
        return told or self._settings.assumed_kv_tokens

    def _wait_for_quiet(self, run: JobRun) -> bool:
        """Until the engine has nothing else to do and nobody's question is on its way to it; False when that
        takes too long.

        Raises:
            JobCancelled, LeaseLost: meanwhile.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            run.checkpoint()
            if not current_precedence().is_behind() and self._is_quiet():
                return True
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)

    def _is_quiet(self) -> bool:
        try:
            counters = self._engine.engine_counters()
        except LongleafError:
            return True  # it does not tell; priorities must do
        return not counters.num_running + counters.num_waiting

    def _prefill(self, run: JobRun, built: BuiltHead, length: int, work: _Slice) -> None:
        request = GenerationRequest(
            prompt_token_ids=built.token_ids[:length],
            sampling=SamplingParameters(max_tokens=1),
            cache_salt=run.job.tenant_id,
            priority=PRIORITY,
            request_id=f"{run.job.id}-{run.job.attempt}",
            kept=KeptText(length, label=built.kept_document) if built.kept_document else None,
        )
        usage = TokenUsage()
        try:
            with self._engine.stream(request) as deltas:
                for delta in deltas:
                    usage = delta.usage
                    if delta.timings is not None:
                        work.prefill_seconds += delta.timings.prefill_seconds
        finally:
            work.usage += usage

    def _record(self, run: JobRun, collection_id: CollectionId, work: _Slice) -> None:
        """What this slice used, on the ledger."""
        if work.usage == TokenUsage():
            return
        info = self._engine.info()
        lines = generation_lines(
            work.usage,
            # Each slice has an owner of its own, and each has really computed what it says.
            source=f"{run.job.id}:{run.owner[-8:]}",
            attempt=run.job.attempt,
            model=info.model,
            model_revision=info.revision,
            prefill_seconds=work.prefill_seconds,
            key_id=run.job.key_id,
            job_id=run.job.id,
            collection_id=collection_id,
        )
        if not self._settings.billed:
            lines = burned(lines, BurnReason.PREWARM)
        with self._database.write() as session:
            self._ledger.record(session, run.job.tenant_id, lines)


def _share(session: Session, tenant_id: TenantId, collection_id: CollectionId, since: datetime) -> float:
    """The collection's part of what all tenants' collections may take together."""
    total = weigh_all(session, since=since)
    own = PromptHeads(session, tenant_id).weigh_collections(since=since).get(collection_id, 0)
    return own / total if total else 0.0


def _identity(head: Mapping[str, Any]) -> tuple[str, ...]:
    return head["mode"], *head["order"]


def _progress(run: JobRun, work: _Slice, *, is_whole: bool) -> dict[str, Any]:
    """What the job's slices have done together."""
    heads = list(work.heads.values())
    return {
        "reason": run.job.payload.get("reason", ""),
        "is_whole": is_whole,
        "computed_tokens": sum(head["computed_tokens"] for head in heads),
        "heads": heads,
    }


def _pieces(sent_tokens: int, num_tokens: int, piece_tokens: int) -> Iterator[int]:
    """Growing lengths from beyond `sent_tokens` up to `num_tokens`: each finds the one before it cached."""
    if sent_tokens < num_tokens:
        yield from range(sent_tokens + piece_tokens, num_tokens, piece_tokens)
        yield num_tokens
