"""Query parameters that a route does not have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api_fixtures import House, open_house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("parameters")) as house:
        yield house


def test_a_misspelt_filter_is_refused_with_those_that_there_are(house: House) -> None:
    response = house.client.get("/v1/jobs?stauts=failed&limit=5", headers=house.key())
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, "invalid_input")
    assert problem["detail"] == "GET /v1/jobs has no parameter 'stauts'."
    assert problem["parameters"] == ["stauts"]
    assert {"status", "kind", "limit", "cursor"} <= set(
        problem["remedy"].removeprefix("It has ").rstrip(".").split(", ")
    )


def test_a_route_without_any_says_so(house: House) -> None:
    response = house.client.post("/v1/collections?name=报告", headers=house.key(), json={"name": "a"})
    assert response.status_code == 422
    assert response.json()["remedy"] == "It has none."
    assert house.client.get("/v1/collections", headers=house.key()).json()["items"] == []


@pytest.mark.parametrize("path", ["/v1/jobs?limit=1", "/v1/collections?cursor=", "/openapi.json?v=1"])
def test_what_a_route_has_passes(house: House, path: str) -> None:
    problem = house.client.get(path, headers=house.key()).json()
    assert "no parameter" not in str(problem.get("detail"))
