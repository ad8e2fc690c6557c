"""What prewarming was good for: an estimate from what was computed and what was found afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from core.ids import CollectionId, TenantId
from storage.prewarm_jobs import PromptHeads, SentPrompt, list_prewarm_runs

_MAX_RUNS = 500
_MAX_SENT = 1000
_BLOCK_TOKENS = 64
"""Of a head's tokens so many may be missing in what is found: blocks are whole, heads are not."""


@dataclass(frozen=True, slots=True)
class PrewarmedHead:
    """A head that a job computed: `computed_tokens` of its `num_tokens` were not cached before."""

    mode: str
    order: tuple[str, ...]
    num_tokens: int
    computed_tokens: int
    at: datetime


@dataclass(frozen=True, slots=True)
class PrewarmReport:
    """Tokens that were computed beforehand, and those of them that a question found. What is not
    found yet counts as wasted: it may still be."""

    num_heads: int = 0
    num_found: int = 0
    computed_tokens: int = 0
    found_tokens: int = 0

    @property
    def wasted_tokens(self) -> int:
        return self.computed_tokens - self.found_tokens

    @property
    def hit_rate(self) -> float:
        """The share of heads that a question found; 0 where none was computed."""
        return self.num_found / self.num_heads if self.num_heads else 0.0

    def __add__(self, other: PrewarmReport) -> PrewarmReport:
        return PrewarmReport(
            self.num_heads + other.num_heads,
            self.num_found + other.num_found,
            self.computed_tokens + other.computed_tokens,
            self.found_tokens + other.found_tokens,
        )


def heads_of(progress: Mapping[str, Any], at: datetime) -> list[PrewarmedHead]:
    """The heads that a job says it computed something of; less than two blocks is the remainder that
    no cache holds."""
    return [
        PrewarmedHead(head["mode"], tuple(head["order"]), head["num_tokens"], head["computed_tokens"], at)
        for head in progress.get("heads", [])
        if head["computed_tokens"] >= _BLOCK_TOKENS
    ]


def report_prewarm(heads: Sequence[PrewarmedHead], sent: Sequence[SentPrompt]) -> PrewarmReport:
    """How much of the heads, all of one collection, prompts sent after them have found.

    A head is found when a later prompt begins with it and as many tokens were cached. Only that
    counts which the head had computed: later prompts would have found it by the first one anyway.
    """
    found = [head for head in heads if any(_finds(prompt, head) for prompt in sent)]
    return PrewarmReport(
        num_heads=len(heads),
        num_found=len(found),
        computed_tokens=sum(head.computed_tokens for head in heads),
        found_tokens=sum(head.computed_tokens for head in found),
    )


def measure_prewarm(session: Session, *, since: datetime) -> PrewarmReport:
    """Of all tenants' jobs that ended since then, of the newest at least."""
    heads: defaultdict[tuple[TenantId, CollectionId], list[PrewarmedHead]] = defaultdict(list)
    for run in list_prewarm_runs(session, since=since, limit=_MAX_RUNS):
        heads[run.tenant_id, run.collection_id] += heads_of(run.progress, run.finished_at)
    total = PrewarmReport()
    for (tenant_id, collection_id), each in heads.items():
        if not each:
            continue
        first = min(head.at for head in each)
        sent = PromptHeads(session, tenant_id).list_sent(collection_id, since=first, limit=_MAX_SENT)
        total += report_prewarm(each, sent)
    return total


def _finds(prompt: SentPrompt, head: PrewarmedHead) -> bool:
    return (
        prompt.finished_at > head.at
        and prompt.mode == head.mode
        and tuple(prompt.prefix.get("order", []))[: len(head.order)] == head.order
        and prompt.cached_tokens >= head.num_tokens - _BLOCK_TOKENS
    )
