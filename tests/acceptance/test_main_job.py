"""Upload, ask, cited answer, ledger: through the public API, on the real parts."""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from pathlib import Path

import pytest

from client import LongleafClient
from client.records import Answer

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def collection_id(stack, samples: list[Path]) -> str:  # type: ignore[no-untyped-def]
    with LongleafClient(stack.url, stack.key) as client:
        collection = client.create_collection("样本 samples")
        for upload in client.upload(collection["id"], samples):
            job = client.wait_for_job(upload.job["id"], timeout=300)
            assert job["status"] == "succeeded"
            assert {file["status"] for file in job["files"] or ()} == {"ready"}
    return str(collection["id"])


def require_verbatim(client: LongleafClient, answer: Answer) -> None:
    """Every citation stands in its document, letter by letter, where it says."""
    assert answer["citations"]
    for citation in answer["citations"]:
        source = client.read_document_text(
            citation["document_id"], start=citation["start"], end=citation["end"]
        )
        assert source == citation["quote"]
        assert not citation["withdrawn"]


@pytest.mark.parametrize(
    ("question", "expected", "document"),
    [
        ("How many days of paid leave does an employee get in the first year?", "27 days", "handbook.md"),
        ("Who is the managing director?", "Adaeze Okonkwo", "handbook.md"),
        ("主望远镜望舒的口径是多少？", "二点四米", "观测站手册.txt"),
        ("第一任站长是谁？", "沈怀远", "观测站手册.txt"),
    ],
)
def test_the_default_answer_quotes_the_right_sentence(
    client: LongleafClient, collection_id: str, question: str, expected: str, document: str
) -> None:
    answer = client.ask(collection_id, question)
    assert (answer["outcome"], answer["mode"]) == ("answered", "extractive")
    assert expected in str(answer["text"])
    assert unicodedata.normalize("NFC", answer["citations"][0]["document_name"]) == document
    require_verbatim(client, answer)


@pytest.mark.parametrize(
    "question", ["What is the boiling point of tungsten hexafluoride?", "红楼梦的作者写了多少首诗词？"]
)
def test_what_the_documents_do_not_answer_is_said_to_be_unanswered(
    client: LongleafClient, collection_id: str, question: str
) -> None:
    answer = client.ask(collection_id, question)
    assert answer["outcome"] == "refused"
    assert answer["citations"] == []
    assert answer["passages"]


def test_a_written_answer_reuses_its_prefix_and_every_token_is_on_the_ledger(
    client: LongleafClient, collection_id: str
) -> None:
    question = "How many days of paid leave does an employee get in the first year?"
    options = {"num_passages": 2, "max_tokens": 40}
    first = client.ask(collection_id, question, mode="abstractive", **options)
    before = _tokens(client)
    second = client.ask(collection_id, question, mode="abstractive", **options)
    spent = {stage: n - before.get(stage, 0) for stage, n in _tokens(client).items()}

    usage, timings, cost = second["usage"], second["timings"], second["cost"]
    assert usage is not None
    assert timings is not None
    assert cost is not None
    assert second["text"] == first["text"], "greedy answers are the same"
    assert usage["cached_tokens"] > 0.8 * usage["prompt_tokens"]
    assert spent["prefill_cached"] == usage["cached_tokens"]
    assert spent["prefill_uncached"] == usage["prompt_tokens"] - usage["cached_tokens"]
    assert spent["decode"] == usage["completion_tokens"]
    assert Decimal(cost["amount"]) > 0
    for name in ("queue_seconds", "ttft_seconds", "prefill_seconds", "decode_seconds", "tpot_seconds"):
        assert timings[name] is not None, name


def _tokens(client: LongleafClient) -> dict[str, int]:
    rows = client.get_costs(group_by=["stage"])["rows"]
    return {row["stage"]: row["num_tokens"] for row in rows}


def test_the_report_adds_up_to_what_the_answers_cost(client: LongleafClient, collection_id: str) -> None:
    answers = sum(
        (Decimal(answer["cost"]["amount"]) for answer in client.list_answers() if answer["cost"]), Decimal(0)
    )
    rows = client.get_costs(group_by=["stage"])["rows"]
    total = sum((Decimal(row["cost"]) for row in rows), Decimal(0))
    ingest = sum(
        (Decimal(row["cost"]) for row in client.get_costs(group_by=["document"])["rows"] if row["document"]),
        Decimal(0),
    )
    assert total == answers + ingest


def test_uploading_the_same_files_again_costs_nothing(
    client: LongleafClient, collection_id: str, samples: list[Path]
) -> None:
    before = _tokens(client)
    for upload in client.upload(collection_id, samples):
        job = client.wait_for_job(upload.job["id"], timeout=60)
        assert {file["status"] for file in job["files"] or ()} == {"duplicate"}
    assert _tokens(client) == before


def test_a_deleted_document_is_unfindable_and_its_citations_withdrawn(
    client: LongleafClient, tmp_path: Path
) -> None:
    collection_id = client.create_collection("short-lived")["id"]
    note = tmp_path / "note.md"
    note.write_text("# Note\n\nThe password of the archive is heliotrope.\n")
    for upload in client.upload(collection_id, [note]):
        client.wait_for_job(upload.job["id"], timeout=60)
    question = "What is the password of the archive?"
    answer = client.ask(collection_id, question)
    assert "heliotrope" in str(answer["text"])
    client.delete_document(answer["citations"][0]["document_id"])
    assert client.ask(collection_id, question)["outcome"] == "refused"
    assert client.get_answer(answer["id"])["citations"][0]["withdrawn"]
