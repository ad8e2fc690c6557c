"""From questions to cited answers on a ledger, with a generator that says what it is told."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import select

from core.errors import EngineUnavailable, JobCancelled, LeaseLost, TooLong
from core.ids import AnswerId, ConversationId, DocumentId, JobId
from core.precedence import preceding
from core.usage import TokenUsage
from generation.questions import QuestionParameters, register_turn
from retrieval.filters import DocumentFilter
from storage.conversations import ConversationRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.job_run import JobRun
from storage.jobs import JobRepository
from storage.listings import Listings
from storage.models import Job, LedgerEntry
from tests.pipeline_fixtures import House, build_house
from workers.request_journal import JobJournal

ENGLISH = (
    b"# Moons\n\nNeptune has fourteen known moons. Triton is the largest of them.\n\n"
    b"# Rings\n\nSaturn has seven main rings. They are made of ice.\n"
)
CHINESE = "第一回\n\n关云长造青龙偃月刀，又名冷艳锯，重八十二斤。张飞造丈八点钢矛。\n".encode()


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    built = build_house(database, tmp_path / "home")
    job_id = built.upload({"moons.md": ENGLISH, "三国.txt": CHINESE})
    assert built.ingest.run(built.claim(job_id)) == "done"
    return built


def ledger(house: House, answer_id: AnswerId) -> list[LedgerEntry]:
    with house.database.read() as session:
        query = select(LedgerEntry).where(LedgerEntry.source == answer_id).order_by(LedgerEntry.id)
        return list(session.scalars(query))


def events(house: House, job_id: JobId) -> list[str]:
    return [event for job, event, _ in house.events.published if job == job_id]


def test_an_extractive_answer_quotes_its_document_and_never_asks_the_generator(house: House) -> None:
    job_id, answer_id = house.ask("How many known moons has Neptune?")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert answer.outcome == "answered"
    assert answer.mode == "extractive"
    assert "Neptune has fourteen known moons." in str(answer.text)
    assert answer.citations[0]["document_name"] == "moons.md"
    for citation in answer.citations:
        with house.database.read() as session:
            source = DocumentRepository(session, house.principal.tenant_id).read_text(
                DocumentId(citation["document_id"]), citation["start"], citation["end"]
            )
        assert source == citation["quote"]
    assert house.generator.requests == []
    # Who first looks at a sentence pays for it: reranking, mostly, and what is left extraction.
    assert {"embed", "rerank"} <= {line.stage for line in ledger(house, answer_id)}


def test_a_chinese_question_gets_a_chinese_answer(house: House) -> None:
    job_id, answer_id = house.ask("青龙偃月刀重多少斤？")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert "重八十二斤" in str(answer.text)
    assert answer.citations[0]["document_name"] == "三国.txt"


def test_a_written_answer_is_cited_timed_counted_and_priced(house: House) -> None:
    house.generator.text = "Neptune has fourteen known moons. [1]"
    job_id, answer_id = house.ask("How many known moons has Neptune?", mode="abstractive")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert answer.text == "Neptune has fourteen known moons. [1]"
    assert [c["quote"] for c in answer.citations] == ["Neptune has fourteen known moons."]
    assert (answer.cached_tokens, answer.completion_tokens) == (32, 6)
    assert answer.timings["total_seconds"] >= answer.timings["queue_seconds"] >= 0
    lines = {line.stage: line for line in ledger(house, answer_id)}
    assert lines["prefill_cached"].num_tokens == 32
    assert lines["prefill_uncached"].num_tokens == answer.prompt_tokens - 32
    assert lines["decode"].num_tokens == 6
    assert answer.cost == sum((line.cost for line in lines.values()), Decimal(0)) > 0
    assert events(house, job_id) == ["started", "passages", *["delta"] * 6]
    with house.database.read() as session:
        assert session.get_one(Job, job_id).status == "succeeded"


class RecordedPrecedence:
    """Notes what the generator had been asked when the work offered to give way, and the first token."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.gave_way: list[int] = []
        self.num_first_tokens = 0

    def is_behind(self) -> bool:
        return False

    def give_way(self) -> None:
        self.gave_way.append(len(self._house.generator.requests))

    def first_token(self) -> None:
        self.num_first_tokens += 1


@pytest.mark.parametrize("parameters", [{}, {"n": 2, "temperature": 0.5}], ids=["once", "sampled"])
def test_a_written_answer_gives_way_before_the_engine_is_asked(
    house: House, parameters: dict[str, object]
) -> None:
    house.generator.text = "Neptune has fourteen known moons. [1]"
    job_id, _ = house.ask("How many known moons has Neptune?", mode="abstractive", **parameters)
    recorded = RecordedPrecedence(house)
    with preceding(recorded):
        house.answers.run(house.claim(job_id))
    assert 0 in recorded.gave_way
    if not parameters:  # of several samples nothing is shown before all are drawn
        assert recorded.num_first_tokens > 0


def test_the_prompt_is_salted_with_the_tenant_and_holds_passages_before_the_question(house: House) -> None:
    house.generator.text = "fourteen"
    job_id, _ = house.ask("How many known moons has Neptune?", mode="abstractive", max_tokens=50, seed=7)
    house.answers.run(house.claim(job_id))
    (request,) = house.generator.requests
    assert request.cache_salt == house.principal.tenant_id
    assert (request.sampling.max_tokens, request.sampling.seed) == (50, 7)
    prompt = "".join(map(chr, request.prompt_token_ids))
    assert prompt.index("Triton is the largest") < prompt.index("How many known moons has Neptune?")


def test_a_sentence_that_nothing_supports_is_flagged_and_not_cited(house: House) -> None:
    house.generator.text = "Neptune has fourteen known moons. Bananas grow there in summer."
    job_id, answer_id = house.ask("How many known moons has Neptune?", mode="abstractive")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert len(answer.citations) == 1
    assert any("Bananas" in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("question", "refusal"),
    [
        ("Who won the war?", "The documents do not answer this question."),
        ("谁赢了战争？", "文档中没有这个问题的答案。"),
    ],
)
def test_the_generators_refusal_is_an_outcome_in_the_questions_language(
    house: House, question: str, refusal: str
) -> None:
    house.generator.text = refusal
    job_id, answer_id = house.ask(question, mode="abstractive")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert (answer.outcome, answer.text, answer.citations) == ("refused", refusal, [])
    assert answer.passages, "the nearest passages are shown"


def test_a_collection_without_documents_refuses_and_costs_no_generation(
    database: Database, tmp_path: Path
) -> None:
    house = build_house(database, tmp_path / "empty")
    job_id, answer_id = house.ask("Anything?", mode="abstractive")
    house.answers.run(house.claim(job_id))
    assert house.answer(answer_id).outcome == "refused"
    assert house.generator.requests == []


def test_an_engine_that_dies_burns_tokens_that_nobody_pays(house: House) -> None:
    house.generator.text, house.generator.fail_after = "one two three four", 2
    house.generator.failure = EngineUnavailable("The engine died.")
    job_id, answer_id = house.ask("How many known moons has Neptune?", mode="abstractive")
    with pytest.raises(EngineUnavailable):
        house.answers.run(house.claim(job_id))
    lines = ledger(house, answer_id)
    assert {line.stage for line in lines} >= {"prefill_uncached", "decode"}
    assert not any(line.billed for line in lines)
    assert house.answer(answer_id).outcome is None


def test_a_worker_killed_while_decoding_is_followed_by_one_billed_attempt(house: House) -> None:
    house.generator.text = "Neptune has fourteen known moons."
    job_id, answer_id = house.ask("How many known moons has Neptune?", mode="abstractive")
    claimed = house.claim(job_id)
    info = house.generator.info()
    entry = JobJournal(house.database, claimed.job).open(info.model, info.revision)
    for decoded in (1, 2, 3):  # what the dead worker had heard of its engine
        entry.used(TokenUsage(90, 0, decoded))
    entry.close()
    assert claimed.job.attempt == 1
    house.lose_worker(job_id)
    house.answers.run(house.claim(job_id))
    lines = ledger(house, answer_id)
    burned = {line.stage: line.num_tokens for line in lines if not line.billed}
    assert burned == {"prefill_uncached": 90, "decode": 3}
    billed = [(line.attempt, line.stage) for line in lines if line.billed]
    assert len(billed) == len(set(billed))
    assert {attempt for attempt, _ in billed} == {2}
    assert "restart" in events(house, job_id)
    assert house.answer(answer_id).outcome == "answered"


def test_a_worker_that_lost_its_lease_writes_no_answer(house: House) -> None:
    job_id, answer_id = house.ask("How many known moons has Neptune?")
    slow = house.claim(job_id)
    house.lose_worker(job_id)
    house.claim(job_id)
    with pytest.raises(LeaseLost):
        house.answers.run(slow)
    assert house.answer(answer_id).outcome is None
    assert not any(line.billed for line in ledger(house, answer_id))


def test_cancelling_while_decoding_stops_the_engine(house: House) -> None:
    house.generator.text = "word " * 50
    job_id, answer_id = house.ask("How many known moons has Neptune?", mode="abstractive")
    claimed = house.claim(job_id)

    def checkpoint() -> None:
        if len([e for e in events(house, job_id) if e == "delta"]) >= 2:
            raise JobCancelled("stop")

    with pytest.raises(JobCancelled):
        house.answers.run(JobRun(job=claimed.job, owner=claimed.owner, checkpoint=checkpoint))
    decoded = [line.num_tokens for line in ledger(house, answer_id) if line.stage == "decode"]
    assert decoded == [3], "two were passed on, and one more was decoded before the stop"


def test_a_question_longer_than_its_room_is_refused_with_the_numbers(house: House) -> None:
    job_id, _ = house.ask("why " * 1000)
    with pytest.raises(TooLong, match="4000 tokens"):
        house.answers.run(house.claim(job_id))


def test_an_answer_longer_than_the_window_is_refused_with_the_numbers(house: House) -> None:
    job_id, _ = house.ask("How many known moons has Neptune?", mode="abstractive", max_tokens=100_000)
    with pytest.raises(TooLong, match="max_tokens is 100000, but the model's whole window has 8192"):
        house.answers.run(house.claim(job_id))
    assert house.generator.requests == []


def test_a_citation_of_a_deleted_document_is_known_as_withdrawn(house: House) -> None:
    job_id, answer_id = house.ask("How many known moons has Neptune?")
    house.answers.run(house.claim(job_id))
    document_id = house.answer(answer_id).citations[0]["document_id"]
    with house.database.write() as session:
        DocumentRepository(session, house.principal.tenant_id).delete(DocumentId(document_id))
    with house.database.read() as session:
        listings = Listings(session, house.principal.tenant_id)
        assert listings.deleted_documents([document_id]) == {document_id}


def test_a_cancelled_question_is_never_answered(house: House) -> None:
    job_id, answer_id = house.ask("How many known moons has Neptune?")
    claimed = house.claim(job_id)
    with house.database.write() as session:
        JobRepository(session, house.principal.tenant_id).request_cancel(job_id)
    with pytest.raises(JobCancelled):
        house.answers.run(claimed)
    assert house.answer(answer_id).outcome is None


def test_a_written_answer_without_any_support_is_a_refusal_that_keeps_the_text_apart(house: House) -> None:
    house.generator.text = "Bananas grow on Mars in summer."
    job_id, answer_id = house.ask("How many known moons has Neptune?", mode="abstractive")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert (answer.outcome, answer.citations) == ("refused", [])
    assert answer.text == "The documents do not answer this question."
    assert any("Bananas grow on Mars" in warning for warning in answer.warnings)


def test_the_same_sentence_in_two_documents_is_given_once(house: House) -> None:
    copy = ENGLISH + b"\nA second edition.\n"
    upload = house.upload({"copy.md": copy})
    assert house.ingest.run(house.claim(upload)) == "done"
    job_id, answer_id = house.ask("How many known moons has Neptune?")
    house.answers.run(house.claim(job_id))
    quotes = [citation["quote"] for citation in house.answer(answer_id).citations]
    assert len(quotes) == len(set(quotes))


def test_a_conversations_question_keeps_the_sentences_that_its_standalone_form_asks_for(house: House) -> None:
    with house.database.write() as session:
        conversation = ConversationRepository(session, house.principal.tenant_id).create(house.collection_id)
        conversation_id = ConversationId(conversation.id)
    house.generator.text = "Neptune has fourteen known moons. [1]"
    for question in ("How many moons has Neptune?", "And the largest of them?"):
        with house.database.write() as session:
            parameters = QuestionParameters(mode="abstractive", extraction="rule")
            answer = register_turn(
                session, house.principal, conversation_id, question, parameters, max_attempts=1
            )
            job_id, answer_id = JobId(answer.job_id), AnswerId(answer.id)
        house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert "Neptune" in answer.steps["condense"]["question"]
    prompt = "".join(map(chr, house.generator.requests[-1].prompt_token_ids))
    assert "Triton is the largest of them." in prompt


def test_a_whole_document_goes_in_when_asked_for_and_its_reason_is_told(house: House) -> None:
    house.generator.text = "Saturn has seven main rings. [1]"
    job_id, answer_id = house.ask("How many rings has Saturn?", mode="abstractive", context="whole")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert answer.steps["context"]["context"] == "whole"
    prompt = "".join(map(chr, house.generator.requests[-1].prompt_token_ids))
    assert ENGLISH.decode().strip() in prompt
    assert answer.citations[0]["quote"] == "Saturn has seven main rings."


def test_a_static_document_goes_in_whole_and_the_engine_is_asked_to_keep_it(house: House) -> None:
    house.generator.text = "Saturn has seven main rings. [1]"
    question = "How many rings has Saturn?"
    job_id, answer_id = house.ask(question, mode="abstractive")
    house.answers.run(house.claim(job_id))
    assert house.generator.requests[-1].kept is None
    document_id = DocumentId(house.answer(answer_id).citations[0]["document_id"])
    with house.database.write() as session:
        DocumentRepository(session, house.principal.tenant_id).set_static(document_id, True)
    job_id, answer_id = house.ask(
        question, mode="abstractive", filter=DocumentFilter(document_ids=(document_id,))
    )
    house.answers.run(house.claim(job_id))
    assert house.answer(answer_id).steps["context"]["reason"] == "a static document, and it fits"
    request = house.generator.requests[-1]
    assert request.kept is not None
    assert request.kept.label == document_id
    kept = "".join(map(chr, request.prompt_token_ids[: request.kept.num_tokens]))
    assert kept.rstrip().endswith(ENGLISH.decode().strip())
    assert question not in kept


def test_a_passage_longer_than_the_room_for_passages_is_still_read(house: House) -> None:
    house.generator.text = "Saturn has seven main rings. [1]"
    job_id, answer_id = house.ask("How many rings has Saturn?", mode="abstractive", max_context_tokens=64)
    house.answers.run(house.claim(job_id))
    assert house.answer(answer_id).outcome == "answered"


def test_quotes_without_an_answer_below_them_are_an_answer(house: House) -> None:
    house.generator.text = "> [1] Saturn has seven main rings."
    job_id, answer_id = house.ask("How many rings has Saturn?", mode="quoted")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert answer.outcome == "answered"
    assert "“Saturn has seven main rings.” [1]" in str(answer.text)


def test_unsupported_sentences_are_removed_on_request(house: House) -> None:
    house.generator.text = "Saturn has seven main rings. [1] It was discovered by pirates. [1]"
    job_id, answer_id = house.ask("How many rings has Saturn?", mode="abstractive", unsupported="remove")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    assert answer.text == "Saturn has seven main rings. [1]"
    assert [statement["supported"] for statement in answer.statements] == [True]
    assert any("pirates" in warning for warning in answer.warnings)


def test_an_engine_that_dies_in_a_small_task_burns_that_too(house: House) -> None:
    house.generator.text, house.generator.fail_after = "one two three", 2
    house.generator.failure = EngineUnavailable("It died.", remedy="Wait.")
    job_id, answer_id = house.ask("Which moons has Neptune?", expansion="multi_query")
    house.answers.run(house.claim(job_id))
    assert house.answer(answer_id).outcome == "answered"  # more queries are an extra
    condensed = [line for line in ledger(house, answer_id) if line.stage == "condense"]
    assert {line.price_stage for line in condensed} == {"prefill_uncached", "prefill_cached", "decode"}
