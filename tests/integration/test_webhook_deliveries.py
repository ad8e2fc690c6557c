"""Events on their way to receivers, on both databases; time is passed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from bootstrap.job_kinds import finish_job
from client import verify_webhook
from core.clock import utc_now
from core.errors import Conflict, DeliveryFailed, NotFound
from core.ids import DeliveryId, JobId, TenantId, WebhookId
from core.settings import WebhookSettings
from storage.database import Database
from storage.job_run import JobRun, RunOutcome
from storage.jobs import ClaimedJob, JobQueue, JobRepository
from storage.models import Job, Webhook, WebhookDelivery
from storage.paging import PageRequest
from storage.webhooks import TEST_EVENT, DeliveryRepository, WebhookRepository, notify
from tenancy.keys import issue_key
from tenancy.tenants import create_tenant
from tenancy.webhooks.addresses import AddressPolicy
from tenancy.webhooks.pipeline import WebhookPipeline
from tenancy.webhooks.sender import Attempt, WebhookSender
from tenancy.webhooks.signature import new_secret
from tests.receivers import Receiver

OWNER = "test-worker"
LEASE = timedelta(seconds=60)
SETTINGS = WebhookSettings()  # type: ignore[call-arg]


@dataclass
class ScriptedSender:
    """Answers as told, and keeps what it was given to send."""

    status: int = 200
    sent: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    def post(self, url: str, body: bytes, headers: dict[str, str], *, at: datetime) -> Attempt:
        self.sent.append((url, body, headers))
        return Attempt(at, 0.1, self.status, "said so")


class House:
    """A tenant, a webhook of its, and the worker that delivers, at a time of the test's own."""

    def __init__(self, database: Database) -> None:
        # As the processes make theirs: what is due when a job ends is done in its transaction.
        self.database = Database(database.url.render_as_string(hide_password=False), on_job_ended=finish_job)
        self.now = utc_now()
        self.sender = ScriptedSender()
        self.pipeline = WebhookPipeline(
            self.database, self.sender, SETTINGS, clock=lambda: self.now, uniform=lambda low, high: low
        )
        with self.database.write() as session:
            self.tenant = TenantId(create_tenant(session, name="北", now=self.now).id)
            self.other = TenantId(create_tenant(session, name="南", now=self.now).id)
            self.key = issue_key(session, self.tenant, name="k", scopes=["ask"], now=self.now).key.id
        self.webhook = self.listen("job.finished")

    def listen(self, *event_types: str, url: str = "https://example.com/") -> WebhookId:
        with self.database.write() as session:
            row = WebhookRepository(session, self.tenant).create(
                url=url, event_types=event_types, description="", secret=new_secret()
            )
            return WebhookId(row.id)

    def happen(self, tenant: TenantId | None = None) -> int:
        with self.database.write() as session:
            return notify(session, tenant or self.tenant, "job.finished", {"job_id": "job_1"})

    def deliveries(self, webhook_id: WebhookId | None = None) -> list[WebhookDelivery]:
        with self.database.read() as session:
            repository = DeliveryRepository(session, self.tenant)
            return list(
                repository.list_page(webhook_id or self.webhook, PageRequest(newest_first=True)).items
            )

    def seen(self) -> Webhook:
        with self.database.read() as session:
            return WebhookRepository(session, self.tenant).get(self.webhook)

    def status(self, delivery: WebhookDelivery) -> str:
        with self.database.read() as session:
            return JobRepository(session, self.tenant).get(JobId(delivery.job_id)).status

    def claim(self, delivery: WebhookDelivery) -> ClaimedJob:
        with self.database.write() as session:
            job = JobQueue(session).claim_job(JobId(delivery.job_id), OWNER, lease=LEASE)
        assert job is not None
        return job

    def attempt(self, delivery: WebhookDelivery, pipeline: WebhookPipeline | None = None) -> RunOutcome:
        """What an executor does with the job once."""
        run = JobRun(job=self.claim(delivery), owner=OWNER, checkpoint=lambda: None)
        try:
            outcome = (pipeline or self.pipeline).run(run)
        except DeliveryFailed as error:
            with self.database.write() as session:
                JobQueue(session).finish(run.job.id, OWNER, error=error)
            raise
        if isinstance(outcome, datetime):
            with self.database.write() as session:
                JobQueue(session).yield_job(run.job.id, OWNER, available_at=outcome)
        return outcome

    def attempt_until_given_up(self, delivery: WebhookDelivery) -> int:
        """How many attempts were made, each when it was due."""
        before = len(self.sender.sent)
        while True:
            try:
                outcome = self.attempt(delivery)
            except DeliveryFailed:
                return len(self.sender.sent) - before
            assert isinstance(outcome, datetime)
            self.now = outcome


@pytest.fixture
def house(database: Database) -> Iterator[House]:
    house = House(database)
    yield house
    house.database.dispose()


def test_an_event_reaches_a_real_receiver_signed_and_the_log_tells(house: House) -> None:
    sender = WebhookSender(AddressPolicy(allow_private=True), timeout_seconds=5.0)
    pipeline = WebhookPipeline(house.database, sender, SETTINGS)
    with Receiver().listening() as receiver:
        house.webhook = house.listen("*", url=receiver.url)
        house.happen()
        [delivery] = house.deliveries()
        assert house.attempt(delivery, pipeline) == "done"
    [(headers, body)] = receiver.got
    told = verify_webhook(house.seen().secret, headers, body)
    assert (told["type"], told["data"]) == ("job.finished", {"job_id": "job_1"})
    assert headers["webhook-id"] == delivery.id
    [delivery] = house.deliveries()
    [attempt] = delivery.attempts
    assert (attempt["status"], attempt["response"], attempt["error"]) == (200, "thanks", None)
    assert (house.status(delivery), delivery.next_attempt_at) == ("succeeded", None)


def test_nothing_is_written_where_nobody_listens(house: House) -> None:
    with house.database.write() as session:
        assert notify(session, house.tenant, "budget.warning", {}) == 0
        WebhookRepository(session, house.tenant).change(house.webhook, enabled=False)
    assert house.happen() == 0
    assert house.happen(house.other) == 0
    with house.database.read() as session:
        assert session.scalars(select(Job)).all() == []


def test_an_event_of_a_transaction_that_fails_is_told_to_nobody(house: House) -> None:
    def fail() -> None:
        with house.database.write() as session:
            notify(session, house.tenant, "job.finished", {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert house.deliveries() == []


@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
def test_a_job_that_ends_is_told_of_once_without_any_text(house: House, end: str) -> None:
    with house.database.write() as session:
        jobs = JobRepository(session, house.tenant)
        payload = {"question": "机密?"}
        job = jobs.create(
            "answer", queue="batch", payload=payload, collection_id=None, key_id=house.key, max_attempts=3
        )
    with house.database.write() as session:
        if end == "cancelled":
            JobRepository(session, house.tenant).request_cancel(JobId(job.id))
        else:
            JobQueue(session).claim_job(JobId(job.id), OWNER, lease=LEASE)
            JobQueue(session).finish(JobId(job.id), OWNER)
    [delivery] = house.deliveries()
    told = delivery.payload
    assert (told["job_id"], told["kind"], told["status"], told["error"]) == (job.id, "answer", end, None)
    assert told["links"] == {"job": f"/v1/jobs/{job.id}"}
    assert "机密" not in str(told)
    assert house.attempt(delivery) == "done"
    assert len(house.deliveries()) == 1, "a delivery that ends must tell nobody"


def test_five_hundred_for_a_day_is_given_up_and_five_days_disable(house: House) -> None:
    house.sender.status = 500
    began_at = house.now
    house.happen()
    [delivery] = house.deliveries()
    assert 8 <= house.attempt_until_given_up(delivery) <= 14
    assert timedelta(hours=17) < house.now - began_at <= timedelta(hours=24)
    [delivery] = house.deliveries()
    assert (house.status(delivery), delivery.next_attempt_at) == ("failed", None)
    assert house.seen().enabled
    assert house.seen().failing_since == began_at

    house.happen()
    house.happen()
    second, first, _ = house.deliveries()
    house.now = began_at + timedelta(days=5)
    with pytest.raises(DeliveryFailed):
        house.attempt(first)
    assert not house.seen().enabled
    assert "500" in (house.seen().disabled_reason or "")
    with pytest.raises(DeliveryFailed, match="disabled"):
        house.attempt(second)
    assert house.happen() == 0


def test_a_refusal_is_no_attempt_of_the_job(house: House) -> None:
    house.sender.status = 503
    house.happen()
    [delivery] = house.deliveries()
    for _ in range(4):
        due = house.attempt(delivery)
        assert isinstance(due, datetime)
        house.now = due
    assert house.claim(delivery).attempt == 1


def test_the_body_and_the_id_are_the_same_at_every_attempt(house: House) -> None:
    house.sender.status = 500
    house.happen()
    [delivery] = house.deliveries()
    due = house.attempt(delivery)
    assert isinstance(due, datetime)
    house.now, house.sender.status = due, 204
    assert house.attempt(delivery) == "done"
    first, second = house.sender.sent
    assert first[1] == second[1]
    assert first[2]["webhook-id"] == second[2]["webhook-id"] == delivery.id
    assert house.seen().failing_since is None


def test_gone_disables_at_once(house: House) -> None:
    house.sender.status = 410
    house.happen()
    with pytest.raises(DeliveryFailed):
        house.attempt(house.deliveries()[0])
    assert not house.seen().enabled
    assert "410" in (house.seen().disabled_reason or "")


def test_others_wait_while_a_receiver_fails(house: House) -> None:
    house.sender.status = 500
    house.happen()
    house.happen()
    second, first = house.deliveries()
    house.attempt(first)
    assert house.attempt(second) == house.seen().held_until
    assert len(house.sender.sent) == 1


def test_a_test_event_is_tried_once_and_disables_nothing(house: House) -> None:
    house.sender.status = 410
    with house.database.write() as session:
        delivery = DeliveryRepository(session, house.tenant).create(house.webhook, TEST_EVENT, {})
    with pytest.raises(DeliveryFailed):
        house.attempt(delivery)
    assert house.seen().enabled
    assert house.seen().failing_since is None


def test_redelivery_sends_the_same_again_whatever_became_of_it(house: House) -> None:
    house.happen()
    [delivery] = house.deliveries()
    house.attempt(delivery)
    with house.database.write() as session:
        again = DeliveryRepository(session, house.tenant).redeliver(house.webhook, DeliveryId(delivery.id))
    house.attempt(again)
    assert house.sender.sent[0][1] == house.sender.sent[1][1]
    assert house.sender.sent[0][2]["webhook-id"] == house.sender.sent[1][2]["webhook-id"]
    assert len(house.deliveries()[0].attempts) == 2


def test_redelivery_of_one_that_waits_takes_its_place_and_not_while_it_is_sent(house: House) -> None:
    house.happen()
    [delivery] = house.deliveries()
    with house.database.write() as session:
        DeliveryRepository(session, house.tenant).redeliver(house.webhook, DeliveryId(delivery.id))
    assert house.status(delivery) == "cancelled"
    [delivery] = house.deliveries()
    house.claim(delivery)
    with pytest.raises(Conflict, match="is being sent"), house.database.write() as session:
        DeliveryRepository(session, house.tenant).redeliver(house.webhook, DeliveryId(delivery.id))


def test_a_deleted_webhook_takes_its_log_along_and_its_jobs_end(house: House) -> None:
    house.happen()
    [delivery] = house.deliveries()
    with house.database.write() as session:
        WebhookRepository(session, house.tenant).delete(house.webhook)
    assert house.attempt(delivery) == "done"
    assert (house.sender.sent, house.deliveries()) == ([], [])


def test_during_a_rotation_both_secrets_sign_and_then_the_new_one_alone(house: House) -> None:
    old, new = house.seen().secret, new_secret()
    until = house.now + timedelta(hours=24)
    with house.database.write() as session:
        WebhookRepository(session, house.tenant).replace_secret(house.webhook, new, old_until=until)
    for moment, num in ((house.now, 2), (until, 1)):
        house.now = moment
        house.happen()
        house.attempt(house.deliveries()[0])
        _, body, headers = house.sender.sent[-1]
        assert len(headers["webhook-signature"].split()) == num
        assert verify_webhook(new, headers, body, now=moment.timestamp())
    assert verify_webhook(old, house.sender.sent[0][2], house.sender.sent[0][1], tolerance_seconds=1e9)


def test_another_tenant_sees_neither_webhook_nor_delivery(house: House) -> None:
    house.happen()
    [delivery] = house.deliveries()
    with house.database.read() as session:
        with pytest.raises(NotFound):
            WebhookRepository(session, house.other).get(house.webhook)
        with pytest.raises(NotFound):
            DeliveryRepository(session, house.other).get(house.webhook, DeliveryId(delivery.id))
        assert DeliveryRepository(session, house.other).find_by_job(JobId(delivery.job_id)) is None
