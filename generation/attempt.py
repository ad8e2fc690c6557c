"""One attempt at one answer: what is being done, with what, and what it took so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accounting.stages import Stage
from core.ids import TenantId
from generation.asked_question import Question
from generation.consumption import Consumption
from generation.tracing.recorder import TraceRecorder
from retrieval.sentence_vectors import SentenceVectors
from storage.job_run import JobRun


@dataclass(slots=True)
class Attempt:
    """`steps` becomes `Answer.steps`: how the passages came about, a key for each step. `samples`
    becomes `Answer.samples`, where several were asked for."""

    run: JobRun
    question: Question
    vectors: SentenceVectors
    started_at: float  # time.monotonic()
    consumption: Consumption = field(default_factory=Consumption)
    steps: dict[str, Any] = field(default_factory=dict)
    trace: TraceRecorder = field(default_factory=TraceRecorder)
    samples: dict[str, Any] = field(default_factory=dict)

    @property
    def tenant_id(self) -> TenantId:
        return self.run.job.tenant_id

    def note(self, step: str, values: Mapping[str, Any]) -> None:
        """Tell how a step went; a later note of the same step adds to it."""
        self.steps[step] = self.steps.get(step, {}) | dict(values)

    def note_cached(self, cached_tokens: int) -> None:
        """What the first prompt found cached, in the step `prefix`: later ones find the first itself."""
        if "cached_tokens" not in self.steps.get("prefix", {"cached_tokens": 0}):
            self.note("prefix", {"cached_tokens": cached_tokens})

    def charge_vectors(self, stage: Stage) -> None:
        """Put on the account of `stage` what was embedded since the last call."""
        use = self.vectors.take_use()
        if use.num_tokens:
            self.consumption.add(stage, [use])
            self.consumption.spend(f"{stage.value}_seconds", use.seconds)
