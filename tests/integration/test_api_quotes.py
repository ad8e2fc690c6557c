"""What a question would cost, before it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from accounting.ledger import Ledger, generation_lines
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from core.clock import utc_now
from core.ids import TenantId
from core.usage import TokenUsage
from storage.jobs import JobQueue
from storage.models import Answer, Chunk
from tests.api_fixtures import House, make_answer, make_document, open_house

MODEL = "smollm2-135m-instruct"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as house:
        with house.services.database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
        yield house


def quote(house: House, *, tenant: TenantId | None = None, **body: Any) -> Any:
    response = house.client.post("/v1/quotes", headers=house.key("ask", tenant=tenant), json=body)
    assert response.status_code == 200, response.text
    return response.json()


def make_chunks(house: House, *, number: int = 20) -> str:
    """The collection's id, with a document of so many chunks in it."""
    document_id, collection_id = make_document(house), house.collection()
    with house.services.database.write() as session:
        session.add_all(
            Chunk(
                id=position + 1,
                tenant_id=house.north,
                collection_id=collection_id,
                document_id=document_id,
                position=position,
                start=0,
                end=1,
                first_page=1,
                last_page=1,
                headings=[],
                text="。",
                num_tokens=200,
                num_generator_tokens=250,
            )
            for position in range(number)
        )
    return str(collection_id)


def make_written(house: House, *, prompt: int, cached: int, seconds: float) -> None:
    """A finished answer of the generator, with its lines on the ledger."""
    answer = make_answer(house)
    usage = TokenUsage(prompt, cached, 40)
    values = {
        "mode": "abstractive",
        "model": MODEL,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": 40,
        "timings": {
            "ttft_seconds": seconds + 0.1,
            "engine_ttft_seconds": seconds,
            "engine_queue_seconds": 0.0,
            "decode_seconds": 39 * 0.05,
            "total_seconds": seconds + 2.1,
        },
        "finished_at": utc_now(),
    }
    house.worker.claim(answer.job_id)
    house.worker.complete(house.north, answer.job_id, **values)
    lines = generation_lines(usage, source=answer.id, attempt=1, model=MODEL, model_revision="r")
    with house.services.database.write() as session:
        Ledger().record(session, house.north, lines)


def test_a_question_is_quoted_from_settings_and_lengths(house: House) -> None:
    collection_id = make_chunks(house)
    found = quote(
        house, collection_id=collection_id, question="这座塔有多高？", mode="abstractive", max_tokens=120
    )
    assert found["mode"] == "abstractive"
    assert found["completion_tokens"]["high"] == 120
    low, expected, high = (Decimal(found["price"][case]) for case in ("low", "expected", "high"))
    assert 0 < low < expected < high
    assert found["price"]["currency"] == "USD"
    assert found["seconds"] == dict.fromkeys(found["seconds"])
    assert any("estimated from its characters" in basis for basis in found["basis"])
    assert {line["stage"] for line in found["lines"]} >= {"embed", "prefill_uncached", "decode"}


def test_nothing_is_asked_or_stored(house: House) -> None:
    collection_id = make_chunks(house)
    quote(house, collection_id=collection_id, question="what?")
    with house.services.database.read() as session:
        assert session.query(Answer).count() == 0
        assert JobQueue(session) is not None
    assert house.worker.queued(house.north) == []


def test_answers_before_it_make_the_quote_what_they_were(house: House) -> None:
    collection_id = make_chunks(house)
    for prompt, seconds in ((400, 0.45), (800, 0.85), (1200, 1.25), (1600, 1.65), (2000, 2.05)):
        make_written(house, prompt=prompt, cached=0, seconds=seconds)
    found = quote(house, collection_id=collection_id, question="How high?", mode="abstractive")
    assert found["prompt_tokens"]["expected"] == 1200
    assert found["completion_tokens"]["expected"] == 40
    seconds = found["seconds"]
    assert seconds["ttft_seconds"] == pytest.approx(1.35, rel=0.1)
    assert seconds["tpot_seconds"] == pytest.approx(0.05, rel=0.1)
    assert seconds["total_seconds"] == pytest.approx(1.35 + 39 * 0.05, rel=0.1)
    assert seconds["high_seconds"] > seconds["total_seconds"]
    # The engine's pace is nobody's secret, what others asked is.
    theirs = quote(house, tenant=house.south, prompt_tokens=1200, max_tokens=40)
    assert theirs["seconds"]["ttft_seconds"] == pytest.approx(1.35, rel=0.1)


def test_known_tokens_are_quoted_to_the_last_digit(house: House) -> None:
    found = quote(house, prompt_tokens=1000, cached_tokens=600, max_tokens=100)
    price = Decimal(400) * Decimal("0.02") + Decimal(600) * Decimal("0.005") + Decimal(100) * Decimal("0.08")
    assert {Decimal(found["price"][case]) for case in ("low", "expected", "high")} == {price / 1_000_000}
    assert found["prompt_tokens"] == {"low": 1000, "expected": 1000, "high": 1000}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "collection_id and question, or prompt_tokens"),
        ({"question": "what?"}, 422, "collection_id and question"),
        ({"prompt_tokens": 5, "question": "what?"}, 422, "collection_id and question"),
        ({"prompt_tokens": 5, "cached_tokens": 6}, 422, "has 5"),
        ({"prompt_tokens": 8000, "max_tokens": 500}, 422, "window"),
        ({"prompt_tokens": 0}, 422, "prompt_tokens"),
        ({"prompt_tokens": 5, "colour": "red"}, 422, "no such field"),
    ],
)
def test_what_cannot_be_quoted_is_refused_with_the_reason(
    house: House, body: dict[str, Any], status: int, said: str
) -> None:
    response = house.client.post("/v1/quotes", headers=house.key("ask"), json=body)
    assert response.status_code == status
    assert said in response.json()["detail"]


def test_an_answer_longer_than_the_window_is_refused_before_it_runs(house: House) -> None:
    body = {"collection_id": make_chunks(house), "question": "what?", "max_tokens": 9000}
    response = house.client.post("/v1/quotes", headers=house.key("ask"), json=body)
    assert (response.status_code, response.json()["code"]) == (422, "too_long")


def test_anothers_collection_does_not_exist(house: House) -> None:
    body = {"collection_id": make_chunks(house), "question": "what?"}
    response = house.client.post("/v1/quotes", headers=house.key("ask", tenant=house.south), json=body)
    assert response.status_code == 404
