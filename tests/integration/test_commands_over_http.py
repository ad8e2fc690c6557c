"""The command line against a real API: what it makes, shows and refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from cli.main import app
from core.clock import utc_now
from core.errors import EngineUnavailable
from core.ids import JobId
from tests.api_fixtures import House, make_answer, open_house, serve

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("commands")) as house:
        with house.services.database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
        yield house


@pytest.fixture(scope="module")
def run(house: House) -> Iterator[Run]:
    with serve(house.services) as (host, port):
        where = ["--url", f"http://{host}:{port}", "--key", house.issue("admin")]

        def invoke(*words: str, code: int = 0) -> Result:
            result = CliRunner().invoke(app, [*words, *where], env={"COLUMNS": "200"})
            assert result.exit_code == code, result.output
            return result

        yield invoke


def shown(run: Run, *words: str) -> Any:
    # The server is in this process, and what it logs stands before.
    found = re.search(r"^\{.*", run(*words, "--json").output, re.MULTILINE | re.DOTALL)
    assert found is not None
    return json.loads(found[0])


def test_budgets_are_made_shown_changed_and_deleted(house: House, run: Run) -> None:
    of_collection = ("--of-collection", str(house.collection()))
    made = shown(run, "budgets", "create", "25.00", "--per", "day", "--warn-at", "80", *of_collection)
    assert (made["limit"], made["unit"], made["period"], made["warn_at"]) == ("25", "money", "day", [80])
    listed = run("budgets", "list").output
    assert made["id"] in listed
    assert "USD per day" in listed
    assert "25" in run("budgets", "show", made["id"]).output
    assert "nothing new begins before" in run("budgets", "change", made["id"], "--limit", "0").output
    assert "is deleted" in run("budgets", "delete", made["id"]).output
    gone = run("budgets", "show", made["id"], code=1).output
    assert made["id"] in gone
    assert shown(run, "budgets", "list")["items"] == []


def test_a_budget_of_nothing_sensible_is_refused_with_the_reason(run: Run) -> None:
    refused = run("budgets", "create", "five", code=2)
    assert "limit" in refused.output


def test_webhooks_are_made_changed_rotated_and_deleted(run: Run) -> None:
    made = shown(run, "webhooks", "create", "https://example.org/hook", "--event", "job.finished")
    assert made["secret"].startswith("whsec_")
    assert made["id"] in run("webhooks", "list").output
    changed = run("webhooks", "change", made["id"], "--event", "summary.finished", "--disable").output
    assert "summary.finished; disabled" in changed
    assert "summary.finished; enabled" in run("webhooks", "change", made["id"], "--enable").output
    rotated = shown(run, "webhooks", "rotate", made["id"])
    assert rotated["secret"] != made["secret"]
    assert shown(run, "webhooks", "deliveries", made["id"])["items"] == []
    assert "is deleted" in run("webhooks", "delete", made["id"]).output


def test_a_webhook_to_an_internal_address_is_refused_before_it_is_made(run: Run) -> None:
    refused = run("webhooks", "create", "http://169.254.169.254/latest", code=2).output
    assert "169.254.169.254" in refused
    assert shown(run, "webhooks", "list")["items"] == []


def test_a_job_is_watched_to_its_end(house: House, run: Run) -> None:
    job_id = make_answer(house).job_id

    def answer(queued: JobId) -> None:
        if queued == job_id:
            house.worker.answer(house.north, queued)

    with house.worker.running(answer, house.north):
        lines = run("jobs", "watch", job_id).output.splitlines()
    assert lines[-1].startswith("succeeded, attempt 1")
    assert job_id in run("jobs", "list", "--status", "succeeded").output


def test_a_failed_job_is_watched_listed_and_tried_again(house: House, run: Run) -> None:
    job_id = make_answer(house).job_id
    house.worker.claim(job_id)
    house.worker.fail(JobId(job_id), EngineUnavailable("The engine is gone.", remedy="Start it."))
    watched = run("jobs", "watch", job_id, code=1).output
    assert "The engine is gone." in watched
    assert "failed" in run("jobs", "show", job_id).output
    assert f"{job_id} is queued" in run("jobs", "retry", job_id).output
    assert f"{job_id} is cancelled" in run("jobs", "cancel", job_id).output
    assert "cancelled" in run("jobs", "watch", job_id, code=1).output


def test_a_paused_queue_says_why_until_it_goes_on(run: Run) -> None:
    run("queues", "pause", "batch", "--reason", "迁移 moving")
    assert "迁移 moving" in run("queues", "list").output
    run("queues", "resume", "batch")
    assert "迁移 moving" not in run("queues", "list").output
