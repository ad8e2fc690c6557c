"""Attention of an answer's tokens over its passages, as a job of its own in the background."""

from __future__ import annotations

from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, LedgerLine, Stage
from core.ids import AnswerId
from generation.tracing.attention_requests import AttentionInputs, attention_inputs
from inference.attention import RULE, Attention, AttentionReader
from retrieval.sentences import split_sentences
from storage.answer_traces import AnswerTraceRepository
from storage.database import Database
from storage.job_run import JobRun, RunOutcome

log = structlog.get_logger()


class AttentionPipeline:
    """Runs jobs of kind `trace_attention`. It explains an answer, and is on nobody's bill."""

    def __init__(
        self, database: Database, reader: AttentionReader, ledger: Ledger, *, model: str, model_revision: str
    ) -> None:
        """`model` is the one that `reader` reads with."""
        self._database = database
        self._reader = reader
        self._ledger = ledger
        self._model = model
        self._model_revision = model_revision

    def run(self, run: JobRun) -> RunOutcome:
        """Read the answer again; its trace then has `attention`."""
        answer_id = AnswerId(run.job.payload["answer_id"])
        with self._database.read() as session:
            row = AnswerTraceRepository(session, run.job.tenant_id).get(answer_id)
            inputs = attention_inputs(answer_id, row.trace, is_redacted=row.redacted_at is not None)
        attention = self._reader.read(
            inputs.prompt, inputs.answer, segment_ends=inputs.segment_ends, checkpoint=run.checkpoint
        )
        found = attention_json(inputs, attention)
        with self._database.write() as session:
            run.succeed(session)
            AnswerTraceRepository(session, run.job.tenant_id).add_attention(answer_id, found)
            self._ledger.record(session, run.job.tenant_id, self._lines(run, answer_id, inputs, attention))
        log.info("answer.attention_read", answer_id=answer_id, seconds=round(attention.seconds, 3))
        return "done"

    def _lines(
        self, run: JobRun, answer_id: AnswerId, inputs: AttentionInputs, attention: Attention
    ) -> list[LedgerLine]:
        """The tokens that the worker read; no engine has counted them, so no price of an engine's is theirs."""
        line = LedgerLine(
            source=f"attention:{run.job.id}",
            attempt=run.job.attempt,
            stage=Stage.EXTRACT,
            model=self._model,
            model_revision=self._model_revision,
            num_tokens=len(inputs.prompt) + len(attention.by_token),
            engine_seconds=attention.seconds,
            key_id=run.job.key_id,
            job_id=run.job.id,
            collection_id=run.job.collection_id,
        )
        return burned([line], BurnReason.TRACE)


def attention_json(inputs: AttentionInputs, attention: Attention) -> dict[str, Any]:
    """For `attention` in a trace: token × segment, and sentence × passage.

    A sentence's `weights` are the means of its tokens', `shares` the same as parts of what goes to
    passages at all, so that they add up to 1.
    """
    num_read = len(attention.by_token)
    columns = [position for _, position in inputs.passages]
    by_passage = attention.by_token[:, columns]
    return {
        "rule": RULE,
        "num_tokens": num_read,
        "is_cut": num_read < len(inputs.answer),
        "seconds": round(attention.seconds, 3),
        "by_token": _listed(attention.by_token),
        "own": _listed(attention.own),
        "passages": [name for name, _ in inputs.passages],
        "sentences": [
            sentence for sentence in _sentences(inputs.generation, by_passage) if sentence["num_tokens"]
        ],
    }


def _sentences(generation: dict[str, Any], by_passage: NDArray[np.float32]) -> list[dict[str, Any]]:
    tokens = generation["tokens"][: len(by_passage)]
    found = []
    for sentence in split_sentences(generation["text"]):
        rows = [i for i, t in enumerate(tokens) if t["start"] < sentence.end and t["end"] > sentence.start]
        weights = by_passage[rows].mean(axis=0) if rows else np.zeros(by_passage.shape[1], np.float32)
        total = float(weights.sum())
        found.append(
            {
                "start": sentence.start,
                "end": sentence.end,
                "num_tokens": len(rows),
                "weights": _listed(weights),
                "shares": _listed(weights / total if total > 0 else weights),
            }
        )
    return found


def _listed(values: NDArray[np.float32]) -> list[Any]:
    listed: list[Any] = np.round(values.astype(np.float64), 5).tolist()
    return listed
