"""Rate limits: buckets in a real Valkey with a clock that the test sets, and what callers of the API see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import RateLimited
from core.ids import KeyId, TenantId
from core.settings import LimitSettings
from tenancy.principal import Principal
from tenancy.rate_limits import RateLimiter, Taken, Unit
from tests.api_fixtures import House, open_house


class Limiter:
    def __init__(self, url: str, **limits: int) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        settings = LimitSettings.model_validate(limits)
        self._limiter = RateLimiter(url, settings, clock=lambda: self.now, patience_seconds=5)

    def take(self, amount: int = 1, unit: Unit = "requests", *, key: str = "k", tenant: str = "t") -> Taken:
        return self._limiter.take(Principal(TenantId(tenant), KeyId(key), frozenset()), unit, amount)

    def left(self, *args: Any, **kwargs: Any) -> list[int]:
        return [bucket.left for bucket in self.take(*args, **kwargs).buckets]


def test_a_bucket_is_had_at_once_and_fills_evenly(redis_url: str) -> None:
    limiter = Limiter(redis_url, requests_per_key=6)
    assert [limiter.left() for _ in range(6)] == [[5], [4], [3], [2], [1], [0]]
    assert limiter.take().wait_seconds == 10
    limiter.now += timedelta(seconds=9)
    assert limiter.take().wait_seconds == 1
    limiter.now += timedelta(seconds=1)
    assert limiter.left() == [0]
    limiter.now += timedelta(hours=1)
    assert limiter.left() == [5]


def test_a_key_s_and_a_tenant_s_bucket_are_taken_of_together_or_not_at_all(redis_url: str) -> None:
    limiter = Limiter(redis_url, requests_per_key=2, requests_per_tenant=3)
    assert [limiter.left(key=key) for key in "aab"] == [[1, 2], [0, 1], [1, 0]]
    refused = limiter.take(key="b")
    assert (refused.wait_seconds, [bucket.left for bucket in refused.buckets]) == (20, [1, 0])
    with pytest.raises(RateLimited, match="A tenant may have 3 requests per minute; 0 are left"):
        refused.require()
    assert limiter.left(key="b", tenant="another") == [1, 2]


def test_more_than_a_bucket_holds_is_let_in_when_it_is_full_and_paid_off(redis_url: str) -> None:
    limiter = Limiter(redis_url, tokens_per_key=100)
    assert limiter.left(250, "tokens") == [-150]
    assert limiter.take(1, "tokens").wait_seconds == 91
    limiter.now += timedelta(seconds=91)
    assert limiter.left(1, "tokens") == [0]
    assert limiter.take(250, "tokens").wait_seconds == 60
    assert limiter.take(1, "requests").buckets == ()


def test_a_clock_that_is_behind_takes_nothing_back(redis_url: str) -> None:
    limiter = Limiter(redis_url, requests_per_key=6)
    limiter.left()
    limiter.now -= timedelta(seconds=30)
    assert limiter.left() == [4]
    limiter.now += timedelta(seconds=30)
    assert limiter.left() == [3]


def test_where_redis_is_away_everybody_is_let_in(tmp_path: Path) -> None:
    limiter = Limiter(f"unix://{tmp_path / 'nobody-listens.sock'}", requests_per_key=1)
    for _ in range(3):
        taken = limiter.take()
        taken.require()
        assert taken.buckets == ()


def ask(house: House, **body: Any) -> Any:
    path = f"/v1/collections/{house.collection()}/questions"
    return house.client.post(
        path, headers=house.key(), json={"question": "Who? 谁？", "wait_seconds": 0} | body
    )


def test_callers_are_told_what_is_left_and_refused_with_the_time_to_wait(
    tmp_path: Path, redis_url: str
) -> None:
    limits = LimitSettings(requests_per_tenant=3, tokens_per_key=5000)  # type: ignore[call-arg]
    with open_house(tmp_path, redis_url, limits=limits) as house:
        first = ask(house, max_context_tokens=4000)
        assert first.status_code == 202
        assert (
            first.headers["ratelimit-policy"]
            == '"requests-per-tenant";q=3;w=60, "tokens-per-key";q=5000;w=60'
        )
        requests, tokens = first.headers["ratelimit"].split(", ")
        assert requests == '"requests-per-tenant";r=2;t=20'
        assert tokens.startswith('"tokens-per-key";r=6')
        refused = ask(house, max_context_tokens=4000)
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["policy"], problem["limit"]) == (
            429,
            "rate_limited",
            "tokens-per-key",
            5000,
        )
        assert 30 <= int(refused.headers["retry-after"]) <= 60
        assert "ratelimit" in refused.headers
        house.client.get("/v1/jobs", headers=house.key())
        assert house.client.get("/v1/jobs", headers=house.key()).json()["policy"] == "requests-per-tenant"
        assert house.client.get("/v1/jobs", headers=house.key(tenant=house.south)).status_code == 200
        assert house.client.get("/health/live").status_code != 429


def test_only_so_many_questions_wait_at_once(tmp_path: Path) -> None:
    limits = LimitSettings(questions_per_key=1, questions_per_tenant=2)  # type: ignore[call-arg]
    with open_house(tmp_path, limits=limits) as house:
        first = ask(house).json()
        refused = ask(house)
        assert (refused.status_code, refused.json()["policy"]) == (429, "questions-per-key")
        assert refused.headers["retry-after"] == "2"
        house.worker.answer(house.north, first["job_id"])
        assert ask(house).status_code == 202
