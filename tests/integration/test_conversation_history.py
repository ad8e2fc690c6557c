"""What a conversation's earlier turns mean for its next, on both databases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from core.clock import utc_now
from core.errors import EngineUnavailable
from core.ids import AnswerId, CollectionId, ConversationId, DocumentId, JobId, KeyId, TenantId, new_id
from core.settings import AskSettings
from generation.conversations import ConversationHistory
from generation.questions import QuestionParameters, register_turn
from retrieval.history import HistorySummarizer, RuleCondenser
from storage.answers import AnswerRepository
from storage.collections import CollectionRepository
from storage.conversations import ConversationRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.jobs import JobQueue
from storage.models import ApiKey, Tenant
from tenancy.principal import Principal, Scope
from tests.pipeline_fixtures import WordTokenizer

LEASE = timedelta(seconds=60)


@dataclass
class Talk:
    """A conversation of a tenant, whose turns are answered by hand."""

    database: Database
    principal: Principal
    id: ConversationId

    def ask(self, question: str) -> JobId:
        with self.database.write() as session:
            answer = register_turn(
                session, self.principal, self.id, question, QuestionParameters(), max_attempts=1
            )
            return JobId(answer.job_id)

    def turn(self, question: str, text: str, *, outcome: str = "answered", cites: str = "") -> None:
        job_id = self.ask(question)
        with self.database.write() as session:
            JobQueue(session).claim_job(job_id, "hand", lease=LEASE)
            answers = AnswerRepository(session, self.principal.tenant_id)
            answer_id = AnswerId(answers.get_by_job(job_id).id)
            citations = [{"document_id": cites}] if cites else []
            answers.complete(
                answer_id, outcome=outcome, text=text, citations=citations, finished_at=utc_now()
            )
            JobQueue(session).finish(job_id, "hand")

    def fail(self, question: str) -> None:
        job_id = self.ask(question)
        with self.database.write() as session:
            JobQueue(session).claim_job(job_id, "hand", lease=LEASE)
            JobQueue(session).finish(job_id, "hand", error=EngineUnavailable("away"))

    def upload(self) -> DocumentId:
        with self.database.write() as session:
            documents = DocumentRepository(session, self.principal.tenant_id)
            collection_id = (
                ConversationRepository(session, self.principal.tenant_id).get(self.id).collection_id
            )
            return DocumentId(
                documents.create(CollectionId(collection_id), name="a", content_hash="a", num_bytes=1).id
            )

    def delete_document(self, document_id: DocumentId) -> None:
        with self.database.write() as session:
            DocumentRepository(session, self.principal.tenant_id).delete(document_id)

    def stored(self) -> Any:
        with self.database.read() as session:
            return ConversationRepository(session, self.principal.tenant_id).get_own(self.id)


@pytest.fixture
def talk(database: Database) -> Talk:
    tenant_id, key_id = TenantId(new_id("ten")), KeyId(new_id("key"))
    with database.write() as session:
        session.add(Tenant(id=tenant_id, name=tenant_id))
        session.flush()
        session.add(
            ApiKey(id=key_id, tenant_id=tenant_id, name="t", prefix=key_id, secret_hash="", scopes=["ask"])
        )
        session.flush()
        collection_id = CollectionId(CollectionRepository(session, tenant_id).create("年报").id)
        conversation = ConversationRepository(session, tenant_id).create(collection_id)
    principal = Principal(tenant_id=tenant_id, key_id=key_id, scopes=frozenset({Scope.ASK}))
    return Talk(database, principal, ConversationId(conversation.id))


def history_of(talk: Talk, **settings: int) -> ConversationHistory:
    return ConversationHistory(
        database=talk.database,
        condensers={"rule": RuleCondenser()},
        auto="rule",
        summarizer=HistorySummarizer(WordTokenizer()),
        settings=AskSettings.model_validate(settings),
    )


def test_history_is_what_succeeded_and_a_refusal_has_no_answer(talk: Talk) -> None:
    talk.turn("海天机械的总部在哪里？", "海天机械的总部在宁波。[1]")
    talk.fail("它有多少员工？")
    talk.turn("Who leads it?", "The documents do not answer this question.", outcome="refused")
    history = history_of(talk)
    state = history.load(talk.principal.tenant_id, talk.id, 4)
    assert [(turn.number, turn.question, turn.answer) for turn in state.turns] == [
        (1, "海天机械的总部在哪里？", "海天机械的总部在宁波。"),
        (3, "Who leads it?", ""),
    ]
    assert [turn.number for turn in state.answered] == [1]


def test_a_question_is_condensed_by_the_turns_before_it(talk: Talk) -> None:
    talk.turn("海天机械的总部在哪里？", "海天机械的总部在宁波。[1]")
    history = history_of(talk)
    state = history.load(talk.principal.tenant_id, talk.id, 2)
    condensed = history.condense(state, "它有多少员工？", "auto", cache_salt="")
    assert condensed.method == "rule"
    assert "海天机械" in condensed.text
    assert history.condense(state, "它有多少员工？", "none", cache_salt="").text == "它有多少员工？"


def test_a_first_question_stands_alone(talk: Talk) -> None:
    history = history_of(talk)
    state = history.load(talk.principal.tenant_id, talk.id, 1)
    assert history.condense(state, "它有多少员工？", "auto", cache_salt="").method == "none"
    assert history.fold(state, cache_salt="") is state


def test_turns_beyond_their_room_are_folded_half_at_once_and_kept(talk: Talk) -> None:
    for number in range(1, 6):
        talk.turn(f"第{number}个问题是什么？", f"第{number}个答案。[1]")
    history = history_of(talk, history_tokens=100, summary_tokens=60)
    state = history.fold(history.load(talk.principal.tenant_id, talk.id, 6), cache_salt="")
    assert [turn.number for turn in state.turns] == [5]
    assert state.summarized_turns == 4
    assert "第4个问题是什么？ → 第4个答案。" in state.summary
    assert state.folded is not None
    with talk.database.write() as session:
        history.keep(session, talk.principal.tenant_id, state)
    stored = talk.stored()
    assert (stored.summary, stored.summarized_turns) == (state.summary, 4)
    assert stored.summary_dropped[0] | {"tokens_before": 0} == {
        "first_turn": 1,
        "last_turn": 4,
        "method": "rule",
        "tokens_before": 0,
        "tokens_after": WordTokenizer().count(state.summary),
        "num_rejected": 0,
        "num_forgotten": 2,
    }
    again = history.load(talk.principal.tenant_id, talk.id, 6)
    assert ([turn.number for turn in again.turns], again.summary) == ([5], state.summary)


def test_a_fold_that_was_kept_is_not_kept_twice(talk: Talk) -> None:
    for number in range(1, 6):
        talk.turn(f"第{number}个问题是什么？", f"第{number}个答案。[1]")
    history = history_of(talk, history_tokens=100, summary_tokens=60)
    state = history.fold(history.load(talk.principal.tenant_id, talk.id, 6), cache_salt="")
    for _attempt in range(2):
        with talk.database.write() as session:
            history.keep(session, talk.principal.tenant_id, state)
    assert len(talk.stored().summary_dropped) == 1


def test_the_newest_turn_is_never_folded(talk: Talk) -> None:
    talk.turn("长答案？", "很长的答案。" * 100)
    history = history_of(talk, history_tokens=100)
    state = history.load(talk.principal.tenant_id, talk.id, 2)
    assert history.fold(state, cache_salt="") is state


def test_between_folds_the_history_only_grows(talk: Talk) -> None:
    history = history_of(talk, history_tokens=400, summary_tokens=80)
    tenant_id, num_folds = talk.principal.tenant_id, 0
    before: tuple[int, ...] = ()
    for number in range(1, 31):
        state = history.fold(history.load(tenant_id, talk.id, number), cache_salt="")
        numbers = tuple(turn.number for turn in state.turns)
        if state.folded is None:
            assert numbers[: len(before)] == before
        else:
            num_folds += 1
        assert sum(len(turn.question + turn.answer) for turn in state.turns) <= 400
        assert len(state.summary) <= 80
        with talk.database.write() as session:
            history.keep(session, tenant_id, state)
        talk.turn(f"第{number}个问题是什么呢？", f"这是第{number}个问题的答案。[1]")
        before = numbers
    assert 2 <= num_folds <= 6


def test_the_history_of_a_deleted_conversation_still_serves_its_last_question(talk: Talk) -> None:
    talk.turn("海天机械的总部在哪里？", "海天机械的总部在宁波。[1]")
    talk.ask("它有多少员工？")
    with talk.database.write() as session:
        ConversationRepository(session, talk.principal.tenant_id).delete(talk.id)
    state = history_of(talk).load(talk.principal.tenant_id, talk.id, 2)
    assert len(state.turns) == 1


def test_what_a_deleted_document_said_is_no_history(talk: Talk) -> None:
    document_id = talk.upload()
    talk.turn("密码是什么？", "密码是 4711。[1]", cites=document_id)
    talk.turn("Where is the head office?", "In Ningbo.")
    talk.delete_document(document_id)
    state = history_of(talk).load(talk.principal.tenant_id, talk.id, 3)
    assert [(turn.question, turn.answer) for turn in state.turns] == [
        ("密码是什么？", ""),
        ("Where is the head office?", "In Ningbo."),
    ]


def test_a_summary_that_may_repeat_a_deleted_document_is_emptied(talk: Talk) -> None:
    document_id = talk.upload()
    for number in range(1, 6):
        talk.turn(
            f"第{number}个问题是什么？", f"第{number}个答案。[1]", cites=document_id if number == 2 else ""
        )
    history = history_of(talk, history_tokens=100, summary_tokens=60)
    state = history.fold(history.load(talk.principal.tenant_id, talk.id, 6), cache_salt="")
    with talk.database.write() as session:
        history.keep(session, talk.principal.tenant_id, state)
    talk.delete_document(document_id)
    stored = talk.stored()
    assert (stored.summary, stored.summarized_turns) == ("", 4)
    emptied = stored.summary_dropped[-1]
    assert (emptied["method"], emptied["first_turn"], emptied["last_turn"]) == ("document_deleted", 1, 4)
    assert (emptied["tokens_before"], emptied["tokens_after"]) == (WordTokenizer().count(state.summary), 0)
