"""Prompts that share prefixes, through the whole pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from accounting.ledger import Ledger
from bootstrap.answer_services import ModelDefaults, build_answer_pipeline
from core.ids import AnswerId, ConversationId, DocumentId, JobId
from generation.questions import QuestionParameters, register_turn
from inference.small_model import ChatSmallModel
from storage.conversations import ConversationRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.models import Answer
from tests.databases import make_sqlite
from tests.pipeline_fixtures import House, WordTokenizer, build_house

SATURN = """# Saturn

Saturn has seven main rings. They are made of ice and dust, and are named by letters.

Saturn's moon Titan has a thick atmosphere of nitrogen. Lakes of methane cover its poles.

A day on Saturn lasts ten hours and a half. Its year is twenty-nine years of ours.
"""
CHINESE = """# 土星

土星有七个主要的环。它们由冰和尘埃组成，以字母命名。

土星的卫星泰坦有浓厚的氮气大气层。它的两极有甲烷湖。
"""
NEPTUNE = "# Neptune\n\nNeptune has fourteen known moons. Triton is the largest of them.\n"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    database = Database(make_sqlite(tmp_path / "longleaf.db"))
    built = build_house(database, tmp_path / "home")
    files = {"saturn.md": SATURN, "土星.md": CHINESE, "neptune.md": NEPTUNE}
    job_id = built.upload({name: text.encode() for name, text in files.items()})
    built.ingest.run(built.claim(job_id))
    built.generator.text = "Saturn has seven main rings."
    yield built
    database.dispose()


def ask(house: House, question: str, **parameters: object) -> Answer:
    job_id, answer_id = house.ask(question, mode="abstractive", **parameters)
    house.answers.run(house.claim(job_id))
    return house.answer(answer_id)


def prompt(house: House, number: int = -1) -> str:
    return "".join(map(chr, house.generator.requests[number].prompt_token_ids))


def shared(house: House, first: int, second: int) -> int:
    one, two = prompt(house, first), prompt(house, second)
    return next(
        (n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
    )


def test_questions_about_one_document_share_all_of_it(house: House) -> None:
    first = ask(house, "How many rings has Saturn?")
    second = ask(house, "What is the atmosphere of Saturn's moon Titan?")
    assert first.steps["prefix"]["num_static"] == 1
    assert second.steps["context"]["context"] == "whole"
    assert second.steps["prefix"]["predicted_cached_tokens"] >= len(SATURN) - 16
    assert shared(house, -2, -1) >= len(SATURN)


def test_the_planner_can_be_switched_off_for_a_question(house: House) -> None:
    answer = ask(house, "How many rings has Saturn?", prefix_planner=False)
    assert "prefix" not in answer.steps
    assert answer.steps["context"] == answer.steps["context"] | {"context": "passages", "reason": "as found"}


def test_asked_for_passages_no_document_goes_in_whole(house: House) -> None:
    for question in ("How many rings has Saturn?", "What is the atmosphere of Titan?"):
        answer = ask(house, question, context="passages")
    assert answer.steps["context"]["context"] == "passages"
    assert answer.steps["prefix"]["num_static"] == 0


def test_citations_and_the_ranking_follow_the_numbers_of_the_order_sent(house: House) -> None:
    ask(house, "How many moons has Neptune?")
    ask(house, "How many rings has Saturn?")
    house.generator.text = "Triton is the largest. [1]"
    answer = ask(house, "Is Titan of Saturn or Triton of Neptune the largest moon?")
    numbers = dict(re.findall(r"\[(\d+)\] (\S+\.md), p\.", prompt(house)))
    ranked = re.search(r"most relevant first: (.*)\.\n", prompt(house))
    assert ranked is None or set(re.findall(r"\[(\d+)\]", ranked[1])) <= numbers.keys()
    assert [key for key in answer.steps["prefix"]["order"] if key.startswith("whole:")]
    cited = next(c for c in answer.citations if "Triton" in c["quote"])
    assert cited["document_name"] == "neptune.md"


def test_a_deleted_document_is_in_no_prompt_again(house: House) -> None:
    first = ask(house, "How many rings has Saturn?")
    saturn = DocumentId(first.steps["prefix"]["document_id"])
    with house.database.write() as session:
        DocumentRepository(session, house.principal.tenant_id).delete(saturn)
    ask(house, "How many rings has Saturn?")
    assert "They are made of ice and dust" not in prompt(house)


def test_a_conversation_keeps_its_passages_in_place(house: House) -> None:
    with house.database.write() as session:
        conversation = ConversationRepository(session, house.principal.tenant_id).create(house.collection_id)
        conversation_id = ConversationId(conversation.id)
    orders = []
    for question in ("How many moons has Neptune?", "And how many rings has Saturn, beside Neptune's moons?"):
        with house.database.write() as session:
            answer = register_turn(
                session,
                house.principal,
                conversation_id,
                question,
                QuestionParameters(mode="abstractive", num_passages=1 if not orders else 3),
                max_attempts=1,
            )
            job_id, answer_id = JobId(answer.job_id), AnswerId(answer.id)
        house.answers.run(house.claim(job_id))
        orders.append(house.answer(answer_id).steps["prefix"]["order"])
    assert orders[1][: len(orders[0])] == orders[0]
    assert len(orders[1]) > len(orders[0])


def test_other_processes_prompts_are_learned_from_their_answers(house: House) -> None:
    ask(house, "How many rings has Saturn?")
    other = build_house_beside(house)
    answer = ask(other, "What is the atmosphere of Saturn's moon Titan?")
    assert answer.steps["prefix"]["predicted_cached_tokens"] >= len(SATURN) - 16
    assert answer.steps["prefix"]["reason"] == "the document whole first, held already"


def test_a_static_document_goes_in_whole_at_once_and_its_context_is_kept(house: House) -> None:
    found = ask(house, "How many moons has Neptune?", context="passages").passages[0]
    with house.database.write() as session:
        neptune = DocumentId(found["document_id"])
        DocumentRepository(session, house.principal.tenant_id).set_static(neptune, True)
    answer = ask(house, "How many moons has Neptune?", num_passages=1)
    assert answer.steps["context"]["reason"] == "a static document, and it fits"
    assert answer.steps["context"]["kept_tokens"] >= len(NEPTUNE) - 2
    assert "prefix" not in answer.steps


def build_house_beside(house: House) -> House:
    """The same tenant and collection, served by a worker process of its own."""
    tokenizer = WordTokenizer()
    return replace(
        house,
        answers=build_answer_pipeline(
            settings=house.settings.ask,
            defaults=replace(ModelDefaults.of(None), mode="extractive", condensing="rule"),
            database=house.database,
            events=house.events,
            embedder=house.embedder,
            retrieval=house.retrieval,
            generator=house.generator,
            tokenizer=tokenizer,
            small_model=ChatSmallModel(house.generator, tokenizer),
            cross_encoder=None,
            ledger=Ledger(),
            min_support=0.0,
        ),
    )
