"""Traces of answers, as the pipeline keeps them with the answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.ledger import Ledger
from core.clock import utc_now
from core.errors import Conflict, EngineUnavailable, LeaseLost
from core.ids import AnswerId, DocumentId, JobId
from generation.tracing.attention_pipeline import AttentionPipeline
from generation.tracing.attention_requests import request_attention
from generation.tracing.tracer import Tracer
from inference.attention import Attention
from storage.answer_traces import AnswerTraceRepository, forget_traces
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.job_run import JobRun
from storage.models import AnswerTrace
from storage.trace_redaction import redact
from tests.pipeline_fixtures import House, WordTokenizer, build_house

ENGLISH = b"# Moons\n\nNeptune has fourteen known moons. Triton is the largest of them.\n"
CHINESE = "第一回\n\n关云长造青龙偃月刀，又名冷艳锯，重八十二斤。张飞造丈八点钢矛。\n".encode()
QUESTION = "How many known moons has Neptune?"
ANSWER = "Neptune has fourteen known moons. [1]"


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    built = build_house(database, tmp_path / "home")
    job_id = built.upload({"moons.md": ENGLISH, "三国.txt": CHINESE})
    assert built.ingest.run(built.claim(job_id)) == "done"
    built.generator.text = ANSWER
    return built


def set_traces(house: House, **changes: object) -> None:
    """Traces kept by other settings from now on."""
    settings = house.settings.ask.model_copy(update=changes)
    house.answers._tracer = Tracer(settings, WordTokenizer(), None)


def answered(house: House, question: str = QUESTION, **parameters: object) -> AnswerId:
    job_id, answer_id = house.ask(question, **parameters)
    house.answers.run(house.claim(job_id))
    return answer_id


def trace_of(house: House, answer_id: AnswerId) -> dict[str, Any]:
    with house.database.read() as session:
        return AnswerTraceRepository(session, house.principal.tenant_id).get(answer_id).trace


def test_a_written_answer_that_asks_for_it_has_every_token_where_it_stands(house: House) -> None:
    trace = trace_of(house, answered(house, mode="abstractive", trace=True))
    (generation,) = trace["generations"]
    assert generation["text"].strip() == ANSWER
    assert [generation["text"][t["start"] : t["end"]] for t in generation["tokens"]] == list(
        generation["text"]
    )
    assert {token["logprob"] for token in generation["tokens"]} == {round(math.log(0.5), 6)}
    segments = generation["prompt"]["segments"]
    assert "".join(s["text"] for s in segments if s["kind"] == "passage").count("Triton") == 1
    assert [s["start"] for s in segments[1:]] == [s["end"] for s in segments[:-1]]
    assert segments[-1]["end"] == generation["prompt"]["num_tokens"]
    assert all(s["round_trip"] for s in segments if s["kind"] != "frame")
    assert sum(s["cached_tokens"] for s in segments) == 32
    (statement,) = trace["attribution"]["statements"]
    assert generation["text"][statement["written_start"] : statement["written_end"]] == ANSWER[:-4]
    assert statement["cited"][0] == [1]
    assert statement["coverage"][0] == 1.0


def test_any_written_answer_has_a_light_trace_without_text(house: House) -> None:
    answer_id = answered(house, mode="abstractive", temperature=0.5, seed=3)
    trace = trace_of(house, answer_id)
    (generation,) = trace["generations"]
    assert trace["detail"] == "light"
    assert house.generator.requests[-1].num_logprobs == 0
    assert (generation["sampling"]["temperature"], generation["sampling"]["seed"]) == (0.5, 3)
    assert generation["finish_reason"] == "stop"
    assert generation["timings"]["decode_seconds"] == 0.2
    passages = trace["retrieval"]["passages"]
    assert passages[0]["dense_score"] is not None
    assert passages[0]["fused_rank"] == 1
    assert not any(word in json.dumps(trace) for word in ("Neptune", "Triton", "moons"))


def test_an_extractive_answer_has_a_trace_without_a_prompt(house: House) -> None:
    trace = trace_of(house, answered(house, "青龙偃月刀重多少斤？", trace=True))
    assert trace["generations"] == []
    assert any("重八十二斤" in sentence["text"] for sentence in trace["sentences"])
    assert trace["sentences"][0]["passage"] in trace["attribution"]["passages"]
    assert trace["retrieval"]["passages"][0]["lexical_score"] > 0


def test_a_failed_attempt_leaves_what_it_burned_and_the_next_one_keeps_it_in_figures(house: House) -> None:
    house.generator.failure, house.generator.fail_after = EngineUnavailable("gone"), 2
    job_id, answer_id = house.ask(QUESTION, mode="abstractive", trace=True)
    run = house.claim(job_id)
    with pytest.raises(EngineUnavailable):
        house.answers.run(run)
    burned = trace_of(house, answer_id)
    assert burned["error_code"] == EngineUnavailable.code
    assert burned["generations"][0]["text"] == "Neptune has "
    house.lose_worker(job_id)
    house.generator.failure = None
    house.answers.run(house.claim(job_id))
    trace = trace_of(house, answer_id)
    assert (trace["attempt"], trace["error_code"]) == (2, None)
    (earlier,) = trace["earlier_attempts"]
    assert (earlier["attempt"], earlier["error_code"]) == (1, EngineUnavailable.code)
    assert earlier["generations"][0]["usage"]["completion_tokens"] == 2


def test_an_attempt_that_lost_its_job_leaves_the_new_owner_s_trace_alone(house: House) -> None:
    def lost() -> None:
        raise LeaseLost("taken up by another worker")

    job_id, answer_id = house.ask(QUESTION)
    run = house.claim(job_id)
    with pytest.raises(LeaseLost):
        house.answers.run(JobRun(job=run.job, owner=run.owner, checkpoint=lost))
    with house.database.read() as session:
        assert AnswerTraceRepository(session, house.principal.tenant_id).find(answer_id) is None


def test_settings_turn_traces_off_make_them_full_or_redact_them_from_the_start(house: House) -> None:
    set_traces(house, trace="off")
    answer_id = answered(house, mode="abstractive", trace=True)
    with house.database.read() as session:
        assert AnswerTraceRepository(session, house.principal.tenant_id).find(answer_id) is None
    set_traces(house, trace="full")
    assert trace_of(house, answered(house, mode="abstractive"))["generations"][0]["tokens"]
    assert trace_of(house, answered(house, mode="abstractive", trace=False))["detail"] == "light"
    set_traces(house, trace="full", trace_redacted=True)
    answer_id = answered(house, mode="abstractive")
    trace = trace_of(house, answer_id)
    assert trace["generations"][0]["tokens"][0]["logprob"] < 0
    assert "Neptune" not in json.dumps(trace)
    with house.database.read() as session:
        row = AnswerTraceRepository(session, house.principal.tenant_id).get(answer_id)
        assert row.redacted_at is not None


def test_old_traces_are_forgotten_and_their_answers_stay(house: House) -> None:
    answer_id = answered(house)
    with house.database.write() as session:
        assert forget_traces(session, before=utc_now() - timedelta(days=1)) == 0
        assert forget_traces(session, before=utc_now() + timedelta(seconds=1)) == 1
    assert house.answer(answer_id).outcome == "answered"


class EvenReader:
    """Every token looks at all of the prompt's parts alike, and gives nothing to the answer."""

    max_tokens = 10_000

    def __init__(self, *, num_read: int | None = None) -> None:
        self._num_read = num_read
        self.prompt: Sequence[int] = ()

    def read(
        self,
        prompt: Sequence[int],
        answer: Sequence[int],
        *,
        segment_ends: Sequence[int],
        checkpoint: Callable[[], None],
    ) -> Attention:
        checkpoint()
        self.prompt = prompt
        num_tokens = len(answer) if self._num_read is None else self._num_read
        weights = np.full((num_tokens, len(segment_ends)), 1 / len(segment_ends), np.float32)
        return Attention(weights, np.zeros(num_tokens, np.float32), 0.1)


def attention_pipeline(house: House, reader: EvenReader) -> AttentionPipeline:
    return AttentionPipeline(house.database, reader, Ledger(), model="m", model_revision="r")


def run_attention(house: House, answer_id: AnswerId, reader: EvenReader) -> None:
    with house.database.write() as session:
        job = request_attention(session, house.principal, answer_id, max_attempts=3)
        job_id = JobId(job.id)
    attention_pipeline(house, reader).run(house.claim(job_id))


def test_attention_is_put_into_the_trace_by_sentence_and_passage(house: House) -> None:
    house.generator.text = "Neptune has fourteen known moons. Triton is the largest of them."
    answer_id = answered(house, mode="abstractive", trace=True)
    reader = EvenReader()
    run_attention(house, answer_id, reader)
    trace = trace_of(house, answer_id)
    assert list(reader.prompt) == list(house.generator.requests[-1].prompt_token_ids)
    found = trace["attention"]
    assert [row["start"] for row in found["sentences"]] == [0, 34]
    assert sum(found["sentences"][0]["shares"]) == pytest.approx(1, abs=1e-3)
    assert len(found["by_token"]) == len(trace["generations"][0]["tokens"])
    assert not found["is_cut"]


def test_attention_of_an_answer_read_in_part_says_so(house: House) -> None:
    house.generator.text = "Neptune has fourteen known moons. Triton is the largest of them."
    answer_id = answered(house, mode="abstractive", trace=True)
    run_attention(house, answer_id, EvenReader(num_read=10))
    found = trace_of(house, answer_id)["attention"]
    assert (found["num_tokens"], found["is_cut"], len(found["sentences"])) == (10, True, 1)


def test_attention_of_a_trace_redacted_meanwhile_is_a_conflict(house: House) -> None:
    answer_id = answered(house, mode="abstractive", trace=True)
    with house.database.write() as session:
        job_id = JobId(request_attention(session, house.principal, answer_id, max_attempts=3).id)
        row = AnswerTraceRepository(session, house.principal.tenant_id).get(answer_id)
        row.trace, row.redacted_at = redact(row.trace), utc_now()
    with pytest.raises(Conflict):
        attention_pipeline(house, EvenReader()).run(house.claim(job_id))


@pytest.mark.parametrize(("full", "holds_text"), [(True, True), (False, False)])
def test_a_trace_says_whether_it_holds_text(house: House, full: bool, holds_text: bool) -> None:
    answer_id = answered(house, mode="abstractive", trace=full)
    with house.database.write() as session:
        traces = AnswerTraceRepository(session, house.principal.tenant_id)
        assert traces.get(answer_id).holds_text == holds_text
        traces.redact(traces.get(answer_id))
        assert not traces.get(answer_id).holds_text


def test_what_is_redacted_while_attention_is_written_stays_redacted(house: House) -> None:
    if house.database.is_sqlite:
        pytest.skip("there is one writer at a time")
    house.generator.text = "Neptune has fourteen known moons. Triton is the largest of them."
    answer_id = answered(house, mode="abstractive", trace=True)
    tenant_id = house.principal.tenant_id

    class Interrupted(AnswerTraceRepository):
        """Has read the trace when another transaction redacts it."""

        def _locked(self, answer_id: AnswerId) -> AnswerTrace:
            with house.database.write() as session:
                others = AnswerTraceRepository(session, tenant_id)
                others.redact(others.get(answer_id))
            return super()._locked(answer_id)

    with house.database.write() as session:
        Interrupted(session, tenant_id).add_attention(answer_id, {"rule": "even"})
    found = trace_of(house, answer_id)
    assert found["attention"] == {"rule": "even"}
    assert "Triton" not in json.dumps(found)


def test_a_deleted_document_s_text_goes_from_traces_too_and_others_stay(house: House) -> None:
    read = answered(house, mode="abstractive", trace=True)
    other = answered(house, "青龙偃月刀重多少斤？", trace=True)
    document_id = house.answer(read).passages[0]["document_id"]
    assert document_id not in str(trace_of(house, other))
    with house.database.write() as session:
        DocumentRepository(session, house.principal.tenant_id).delete(DocumentId(document_id))
    assert "Triton" not in json.dumps(trace_of(house, read))
    assert trace_of(house, read)["generations"][0]["prompt"]["num_tokens"] > 0
    assert "重八十二斤" in json.dumps(trace_of(house, other), ensure_ascii=False)
    with house.database.write() as session:
        CollectionRepository(session, house.principal.tenant_id).delete(house.collection_id)
    assert "重八十二斤" not in json.dumps(trace_of(house, other), ensure_ascii=False)
