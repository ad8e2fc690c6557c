"""What `longleaf doctor` finds in a house, and what it repairs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.rollups import roll_up
from accounting.stages import Stage
from cli.doctor import Finding, examine
from core.clock import utc_now
from core.settings import Settings
from storage.models import BudgetPeriod, LedgerRollup
from tests.api_fixtures import House, make_document, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as house:
        with house.services.database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
        yield house


@pytest.fixture
def settings(house: House, model_cache: Path) -> Settings:
    return house.services.settings.model_copy(update={"model_cache": model_cache})


def spend(house: House, *, days_ago: int = 0) -> None:
    line = LedgerLine(
        source=f"work of {days_ago} days ago",
        attempt=1,
        stage=Stage.DECODE,
        model="m",
        model_revision="r",
        num_tokens=100,
    )
    with house.services.database.write() as session:
        Ledger().record(session, house.north, [line], at=utc_now() - timedelta(days=days_ago))


def findings(settings: Settings, *, repair: bool = False) -> dict[str, Finding]:
    return {finding.subject: finding for finding in examine(settings, repair=repair)}


def test_an_empty_house_is_sound_but_for_what_does_not_run(settings: Settings) -> None:
    found = findings(settings)
    sound = {"data folder", "kv store", "database", "prewarm", "budgets", "ledger sums"}
    assert {subject for subject, each in found.items() if each.verdict == "ok"} >= sound
    assert {subject for subject, each in found.items() if each.verdict == "away"} == {
        "redis",
        "engine",
        "api",
    }


def test_sums_that_are_not_those_of_the_lines_are_found_and_summed_anew(
    house: House, settings: Settings
) -> None:
    spend(house, days_ago=3)
    roll_up(house.services.database, house.north, now=utc_now())
    assert findings(settings)["ledger sums"].verdict == "ok"
    with house.services.database.write() as session:
        session.execute(update(LedgerRollup).values(num_tokens=LedgerRollup.num_tokens + 1))
    fault = findings(settings)["ledger sums"]
    assert (fault.verdict, fault.figures, fault.remedy) == (
        "fault",
        {"num_days": 1},
        "Run `longleaf doctor --repair`.",
    )
    assert findings(settings, repair=True)["ledger sums"].verdict == "repaired"
    assert findings(settings)["ledger sums"].verdict == "ok"


def test_a_budget_that_counts_wrongly_is_found_and_put_right(house: House, settings: Settings) -> None:
    body = {"limit": 1000, "unit": "tokens", "period": "day"}
    budget = house.client.post("/v1/budgets", headers=house.key(), json=body).json()
    spend(house)
    with house.services.database.write() as session:
        session.execute(update(BudgetPeriod).values(used=1))
    fault = findings(settings)["budgets"]
    assert (fault.verdict, fault.detail) == ("fault", f"{budget['id']} counts 1, not 100")
    assert findings(settings, repair=True)["budgets"].verdict == "repaired"
    used = house.client.get(f"/v1/budgets/{budget['id']}", headers=house.key()).json()["used"]
    assert (findings(settings)["budgets"].verdict, used) == ("ok", "100")


def test_a_stored_file_that_is_gone_is_named(house: House, settings: Settings) -> None:
    make_document(house)
    for blob in house.services.settings.blob_dir.rglob("*"):
        if blob.is_file():
            blob.unlink()
    [(subject, fault)] = [each for each in findings(settings).items() if each[0].startswith("files of ")]
    assert (fault.verdict, fault.figures["num_missing"]) == ("fault", 1)
    assert "'指南.txt'" in fault.detail
    assert "upload these documents again" in fault.remedy
    assert "年报 reports" in subject
