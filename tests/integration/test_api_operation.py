"""Health, metrics, request ids, reports, and what happens when something of ours breaks."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import structlog
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, make_url, text

from api.app import create_app
from bootstrap.api_services import ApiServices, build_api_services
from core.ids import new_id
from core.settings import Settings
from storage.database import Database
from storage.models import LedgerEntry, Price
from tests.api_fixtures import House, make_answer, open_house


@pytest.fixture
def house(tmp_path: Path, redis_url: str) -> Iterator[House]:
    with open_house(tmp_path, redis_url) as house:
        yield house


def test_the_root_says_where_the_documentation_is(house: House) -> None:
    info = house.client.get("/").json()
    assert info["service"] == "longleaf"
    assert house.client.get(info["docs"]).is_success
    assert house.client.get(info["openapi"]).json()["info"]["title"] == "Longleaf"


def test_a_house_in_order_is_alive_and_ready(house: House) -> None:
    assert house.client.get("/healthz").json() == {"status": "ok"}
    response = house.client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "ready": True,
        "checks": {"database": "ok", "migrations": "ok", "redis": "ok"},
    }


def unprepared(home: Path) -> ApiServices:
    """Services over a database without tables; Redis is away."""
    settings = Settings(home=home, redis_url=f"unix://{home / 'none.sock'}")  # type: ignore[call-arg]
    return build_api_services(settings)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    services = unprepared(tmp_path)
    with TestClient(create_app(services)) as client:
        response = client.get("/readyz")
        assert client.get("/healthz").is_success
        assert client.get("/metrics").is_success
    services.close()
    assert response.status_code == 503
    checks = response.json()["checks"]
    assert checks["database"] == "ok"
    assert "migrations are pending" in checks["migrations"]
    assert "LONGLEAF_REDIS_URL" in checks["redis"]


def test_requests_are_counted_by_route_and_queues_by_status(house: House) -> None:
    make_answer(house)
    house.upload(("a.txt", b"x"))
    house.client.get("/v1/collections/col_none", headers=house.key())
    house.client.get("/nowhere")
    text = house.client.get("/metrics").text
    assert (
        'longleaf_http_requests_total{method="GET",route="/v1/collections/{collection_id}",status="404"} 1.0'
        in text
    )
    assert 'longleaf_http_requests_total{method="GET",route="unmatched",status="404"} 1.0' in text
    assert 'longleaf_http_request_seconds_count{method="POST"' in text
    assert 'longleaf_jobs{queue="interactive",status="queued"} 1.0' in text
    assert 'longleaf_jobs{queue="ingest",status="queued"} 1.0' in text
    assert 'longleaf_jobs{queue="batch",status="running"} 0.0' in text
    assert "col_none" not in text


def test_every_response_carries_a_request_id_and_a_tame_one_is_kept(house: House) -> None:
    assert house.client.get("/healthz").headers["x-request-id"].startswith("req_")
    kept = house.client.get("/v1/jobs", headers={"X-Request-ID": "from-proxy.7"})
    assert kept.headers["x-request-id"] == kept.json()["request_id"] == "from-proxy.7"
    wild = house.client.get("/healthz", headers={"X-Request-ID": "a b\tc" + "x" * 100})
    assert wild.headers["x-request-id"].startswith("req_")


def test_a_fault_of_ours_is_a_problem_that_gives_nothing_away(tmp_path: Path) -> None:
    # No table was made, so the first query fails as a broken database would.
    services = unprepared(tmp_path)
    with TestClient(create_app(services)) as client, structlog.testing.capture_logs() as logs:
        response = client.get("/v1/collections", headers={"Authorization": "Bearer ll_x"})
        count = client.get("/metrics").text
    services.close()
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "internal_error"
    assert problem["request_id"] == response.headers["x-request-id"]
    assert problem["request_id"] in problem["remedy"]
    assert "api_keys" not in response.text
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["request.crashed"]
    assert 'route="/v1/collections",status="500"} 1.0' in count


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "no_such_route"),
        ("GET", "/v1/collections/", 404, "no_such_route"),
        ("PATCH", "/v1/collections", 405, "method_not_allowed"),
        ("GET", "/v1/documents/%00", 422, "invalid_input"),
        ("GET", "/v1/documents/x%2F..%2F..", 404, "no_such_route"),
        ("GET", "/v1/collections?cursor=%00", 422, "invalid_input"),
    ],
)
def test_a_wrong_address_is_a_problem(house: House, method: str, path: str, status: int, code: str) -> None:
    response = house.client.request(method, path, headers=house.key())
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.json()["remedy"]


def test_a_method_that_is_not_possible_is_told_with_all_that_are(house: House) -> None:
    response = house.client.request("PUT", "/v1/collections", headers=house.key())
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert house.client.options("/healthz").headers["allow"] == "GET, HEAD"


def test_head_is_get_without_its_body(house: House) -> None:
    head, get = house.client.head("/healthz"), house.client.get("/healthz")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]
    assert house.client.head("/v1/collections").status_code == 401


def enter(house: House, tenant_id: str, *, stage: str, tokens: int, cost: str) -> None:
    with house.services.database.write() as session:
        session.add(
            LedgerEntry(
                id=new_id("led"),
                tenant_id=tenant_id,
                source=new_id("src"),
                attempt=1,
                stage=stage,
                price_stage=stage,
                model="m",
                model_revision="r",
                num_tokens=tokens,
                price_per_million=Decimal("0.02"),
                cost=Decimal(cost),
                currency="USD",
                created_at=datetime(2026, 11, 29, 17, tzinfo=UTC),
            )
        )


def test_costs_are_of_the_tenant_alone_exact_and_grouped(house: House) -> None:
    enter(house, house.north, stage="embed", tokens=10, cost="0.0000000002")
    enter(house, house.north, stage="decode", tokens=5, cost="0.0000000001")
    enter(house, house.south, stage="decode", tokens=99, cost="7")
    path = "/v1/reports/costs?group_by=day,stage&time_zone=Asia/Shanghai"
    report = house.client.get(path, headers=house.key("reports")).json()
    assert report["group_by"] == ["day", "stage"]
    assert [(row["day"], row["stage"], row["cost"]) for row in report["rows"]] == [
        ("2026-11-30", "decode", "0.0000000001"),
        ("2026-11-30", "embed", "0.0000000002"),
    ]
    assert report["total"]["cost"] == "0.0000000003"
    assert report["currency"] == "USD"


@pytest.mark.parametrize(("suffix", "accept"), [("&format=csv", "*/*"), ("", "text/csv")])
def test_costs_come_as_csv_by_parameter_or_header(house: House, suffix: str, accept: str) -> None:
    enter(house, house.north, stage="embed", tokens=10, cost="0.0000000002")
    path = f"/v1/reports/costs?group_by=stage{suffix}"
    response = house.client.get(path, headers=house.key("reports") | {"Accept": accept})
    assert response.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert (rows[0]["stage"], rows[0]["cost"]) == ("embed", "0.0000000002")


def test_usage_counts_an_interval(house: House) -> None:
    enter(house, house.north, stage="prefill_cached", tokens=30, cost="0")
    enter(house, house.north, stage="prefill_uncached", tokens=10, cost="0.0000000002")
    inside = "start=2026-11-30&end=2026-12-01&time_zone=Asia/Shanghai"
    usage = house.client.get(f"/v1/usage?{inside}", headers=house.key("reports")).json()
    assert (usage["prompt_tokens"], usage["cached_tokens"], usage["cached_share"]) == (40, 30, 0.75)
    assert usage["start"] == "2026-11-29T16:00:00+00:00"
    later = "start=2026-11-30T02:00:00%2B08:00"
    assert house.client.get(f"/v1/usage?{later}", headers=house.key("reports")).json()["prompt_tokens"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "start=yesterday",
        "start=0001-01-01",
        "end=9999-12-31",
        "start=2026-12-01&end=2026-11-01",
        "time_zone=Mars/Olympus",
        "time_zone=../../etc/passwd",
    ],
)
def test_a_bad_interval_is_refused(house: House, query: str) -> None:
    response = house.client.get(f"/v1/usage?{query}", headers=house.key("reports"))
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("query", ["group_by=colour", "format=xml"])
def test_a_bad_report_is_refused(house: House, query: str) -> None:
    response = house.client.get(f"/v1/reports/costs?{query}", headers=house.key("reports"))
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


def add_price(database: Database, tenant_id: str, price: str) -> None:
    with database.write() as session:
        session.add(
            Price(
                id=new_id("pri"),
                tenant_id=tenant_id,
                model="*",
                stage="decode",
                price=Decimal(price),
                currency="USD",
                effective_from=datetime(2026, 1, 1, tzinfo=UTC),
            )
        )


def test_prices_are_the_lists_and_the_tenants_own(house: House) -> None:
    for tenant_id, price in (("", "0.40"), (house.north, "0.25"), (house.south, "0.10")):
        add_price(house.services.database, tenant_id, price)
    items = house.client.get("/v1/prices", headers=house.key("reports")).json()["items"]
    assert [(item["price_per_million"], item["is_own"]) for item in items] == [("0.4", False), ("0.25", True)]


def test_pages_of_costs_and_an_invoice_are_served(house: House) -> None:
    page = house.client.get("/v1/reports/costs?group_by=stage&format=html", headers=house.key("reports"))
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    path = "/v1/reports/invoice?month="
    assert house.client.get(f"{path}2026-11", headers=house.key("reports")).json()["month"] == "2026-11"
    assert house.client.get(f"{path}2026-13", headers=house.key("reports")).status_code == 422
    assert house.client.get("/v1/reports/costs/top", headers=house.key("reports")).json()["documents"] == []
    assert house.client.get("/v1/reports/savings", headers=house.key("reports")).json()["saved"] == "0"


def test_a_database_that_goes_away_is_a_503_until_it_is_back(
    tmp_path: Path, new_postgresql_url: Callable[[], str]
) -> None:
    url = new_postgresql_url()
    with open_house(tmp_path, database_url=url) as house:
        assert house.client.get("/v1/jobs", headers=house.key()).status_code == 200
        house.services.database.dispose()
        with closed_to_everybody(url):
            away = house.client.get("/v1/jobs", headers=house.key())
            assert (away.status_code, away.json()["code"]) == (503, "database_unavailable")
            assert away.headers["retry-after"] == "2"
            assert "Idempotency-Key" in away.json()["remedy"]
        assert house.client.get("/v1/jobs", headers=house.key()).status_code == 200


@contextmanager
def closed_to_everybody(url: str) -> Iterator[None]:
    """The database takes no connections meanwhile."""
    target = make_url(url)
    server = create_engine(target.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f'ALTER DATABASE "{target.database}" ALLOW_CONNECTIONS false'))
        yield
        connection.execute(text(f'ALTER DATABASE "{target.database}" ALLOW_CONNECTIONS true'))
    server.dispose()
