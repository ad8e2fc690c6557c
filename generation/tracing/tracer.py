"""Begins and keeps traces, as settings and questions want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from core.errors import LeaseLost
from core.ids import AnswerId, TenantId
from core.settings import AskSettings
from generation.answer_draft import PlacedStatement
from generation.citations import Citation
from generation.tracing.attribution_map import attribution_json
from generation.tracing.recorder import TraceRecorder
from generation.tracing.trace_json import trace_json
from inference.engine_load import EngineLoadSampler
from inference.protocols import ChatTokenizer
from storage.answer_traces import AnswerTraceRepository
from storage.database import Database
from storage.jobs import ClaimedJob

MAX_EARLIER_ATTEMPTS = 5


class Tracer:
    """One for all threads of a worker.

    Args:
        load_sampler: of the engine that answers; None: traces do not tell its load.
    """

    def __init__(
        self, settings: AskSettings, tokenizer: ChatTokenizer, load_sampler: EngineLoadSampler | None
    ) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._load_sampler = load_sampler

    def begin(self, wanted: bool | None, *, attempt: int) -> TraceRecorder:
        """A recorder for one attempt.

        Args:
            wanted: whether the question asked for tokens; None: as the settings say.
        """
        is_off = self._settings.trace == "off"
        is_full = self._settings.trace == "full" if wanted is None else wanted
        return TraceRecorder(
            attempt=attempt,
            is_kept=not is_off,
            is_full=is_full and not is_off,
            is_redacted=self._settings.trace_redacted,
            tokenizer=self._tokenizer,
            load_sampler=None if is_off else self._load_sampler,
        )

    def attribute(
        self, recorder: TraceRecorder, statements: Sequence[PlacedStatement], citations: Sequence[Citation]
    ) -> None:
        """Take down what the statements rest on."""
        if recorder.search is not None and recorder.is_kept:
            recorder.attribution = attribution_json(
                statements, citations, recorder.search.passages, written=recorder.written
            )

    def keep_unfinished(
        self, database: Database, recorder: TraceRecorder, job: ClaimedJob, answer_id: AnswerId
    ) -> None:
        """Store the trace of an attempt that failed or was cancelled: it explains what was burned.

        Not where the job is another worker's by now, whose own trace this would undo.
        """
        if not recorder.is_kept or recorder.error_code == LeaseLost.code:
            return
        with database.write() as session:
            self.keep(session, recorder, tenant_id=job.tenant_id, answer_id=answer_id)

    def keep(
        self, session: Session, recorder: TraceRecorder, *, tenant_id: TenantId, answer_id: AnswerId
    ) -> None:
        """Store the trace in the caller's transaction, instead of that of an earlier attempt, which
        stays with it in a few figures."""
        if not recorder.is_kept:
            return
        traces = AnswerTraceRepository(session, tenant_id)
        trace = trace_json(recorder)
        before = traces.find(answer_id)
        trace["earlier_attempts"] = [] if before is None else _with_earlier(before.trace)
        traces.save(answer_id, trace, is_redacted=recorder.is_redacted)


def _with_earlier(trace: dict[str, Any]) -> list[dict[str, Any]]:
    last = {
        "attempt": trace["attempt"],
        "error_code": trace["error_code"],
        "recorded_at": trace["recorded_at"],
        "generations": [
            {name: generation[name] for name in ("purpose", "finish_reason", "usage", "timings")}
            for generation in trace["generations"]
        ],
    }
    return [*trace["earlier_attempts"], last][-MAX_EARLIER_ATTEMPTS:]
