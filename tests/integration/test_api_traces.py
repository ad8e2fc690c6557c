"""Traces over the API: read, drawn, redacted, and attention asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.ids import AnswerId
from storage.answer_traces import AnswerTraceRepository
from storage.answers import AnswerRepository
from tests.api_fixtures import House, make_answer, open_house
from tests.trace_samples import full_trace, light_trace


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("traces")) as house:
        yield house


def traced(house: House, trace: dict[str, Any]) -> str:
    """The id of an answer with this trace."""
    answer_id = make_answer(house).id
    stored = {name: trace[name] for name in trace if name not in ("answer_id", "redacted_at", "steps")}
    with house.services.database.write() as session:
        AnswerTraceRepository(session, house.north).save(AnswerId(answer_id), stored)
        AnswerRepository(session, house.north).complete(
            AnswerId(answer_id), steps={"queries": {"texts": ["重多少斤"]}}, text="八十二斤。 [1]"
        )
    return answer_id


def get(house: House, answer_id: str, query: str = "") -> Any:
    return house.client.get(f"/v1/answers/{answer_id}/trace{query}", headers=house.key("ask"))


def test_a_trace_is_read_with_the_answer_s_steps(house: House) -> None:
    body = get(house, traced(house, full_trace())).json()
    assert body["detail"] == "full"
    assert body["generations"][0]["tokens"][0]["start"] == 0
    assert body["generations"][0]["prompt"]["segments"][1]["cached"] == "partly"
    assert body["steps"]["queries"]["texts"] == ["重多少斤"]


def test_an_answer_without_a_trace_has_none(house: House) -> None:
    response = get(house, make_answer(house).id)
    assert response.status_code == 404
    assert "has no trace" in response.json()["detail"]


def test_a_page_comes_with_a_policy_that_loads_nothing(house: House) -> None:
    response = get(house, traced(house, full_trace()), "?format=html")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "&lt;script&gt;" in response.text
    assert get(house, traced(house, light_trace()), "?format=pdf").status_code == 422


def test_redaction_takes_texts_for_good_and_leaves_numbers(house: House) -> None:
    answer_id = traced(house, full_trace())
    redacted = house.client.post(f"/v1/answers/{answer_id}/trace/redact", headers=house.key("ask")).json()
    again = get(house, answer_id).json()
    assert again == redacted
    assert redacted["redacted_at"] is not None
    assert not any(part in str(redacted) for part in ("八", "关云长", "重多少斤"))
    token = redacted["generations"][0]["tokens"][0]
    assert (token["text"], token["token_id"], token["logprob"]) == (None, None, -0.2)
    assert get(house, answer_id, "?format=html").status_code == 200
    second = house.client.post(f"/v1/answers/{answer_id}/trace/redact", headers=house.key("ask")).json()
    assert second["redacted_at"] == redacted["redacted_at"]


def test_attention_is_a_job_in_the_background(house: House) -> None:
    answer_id = traced(house, full_trace())
    response = house.client.post(f"/v1/answers/{answer_id}/trace/attention", headers=house.key("ask"))
    assert response.status_code == 202
    job = response.json()
    assert (job["kind"], job["queue"], job["status"]) == ("trace_attention", "batch", "queued")
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert house.client.get(response.headers["location"], headers=house.key("ask")).status_code == 200


@pytest.mark.parametrize("kind", ["light", "redacted", "extractive"])
def test_attention_of_a_trace_without_tokens_is_refused(house: House, kind: str) -> None:
    trace = light_trace() if kind == "light" else full_trace()
    if kind == "extractive":
        trace |= {"generations": [], "answer_generation": None}
    answer_id = traced(house, trace)
    if kind == "redacted":
        house.client.post(f"/v1/answers/{answer_id}/trace/redact", headers=house.key("ask"))
    response = house.client.post(f"/v1/answers/{answer_id}/trace/attention", headers=house.key("ask"))
    assert response.status_code == 409
    assert "`trace` true" in response.json()["remedy"]
