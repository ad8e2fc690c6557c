from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import func, select

from accounting.billing import BurnReason, burned
from accounting.corrections import correct_entry
from accounting.ledger import Ledger, LedgerLine, generation_lines
from accounting.money import cost_of
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.reconciliation import ModelReconciliation, reconcile
from accounting.stages import Stage
from bootstrap.engine_sampling import CountedEngine, EngineSampler
from core.ids import TenantId
from core.usage import TokenUsage
from inference.engine_metrics import EngineCounters
from storage.database import Database
from storage.models import EngineSample, LedgerEntry, Tenant

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
OURS = TenantId("ten_ours")


@dataclass
class Bench:
    """An engine that counts, a clock, a ledger, and a sampler between them."""

    database: Database
    now: datetime = START
    started_at: datetime = START
    counted: TokenUsage = field(default_factory=TokenUsage)
    is_up: bool = True
    num_running: int = 0
    number: int = 0
    ledger: Ledger = field(init=False)
    sampler: EngineSampler = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(clock=lambda: self.now)
        engines = [CountedEngine("http://engine", "m")]
        self.sampler = EngineSampler(
            self.database, engines, read=lambda _: self.read(), clock=lambda: self.now
        )

    def read(self) -> EngineCounters | None:
        if not self.is_up:
            return None
        return EngineCounters(
            prompt_tokens=self.counted.prompt_tokens,
            cached_tokens=self.counted.cached_tokens,
            generation_tokens=self.counted.completion_tokens,
            prefix_cache_queries=0,
            prefix_cache_hits=0,
            num_running=self.num_running,
            num_waiting=0,
            started_at=self.started_at.timestamp(),
        )

    def wait(self, seconds: float = 5.0) -> None:
        self.now += timedelta(seconds=seconds)

    def sample(self) -> None:
        self.wait()
        self.sampler.sample()

    def lines(self, usage: TokenUsage, *, source: str = "", attempt: int = 1) -> list[LedgerLine]:
        self.number += 1
        return generation_lines(
            usage,
            source=source or f"ans_{self.number}",
            attempt=attempt,
            model="m",
            model_revision="r",
            prefill_seconds=1.0,
            decode_seconds=0.5,
        )

    def record(self, lines: list[LedgerLine]) -> list[LedgerEntry]:
        with self.database.write() as session:
            return self.ledger.record(session, OURS, lines)

    def ask(self, usage: TokenUsage, reason: BurnReason | None = None) -> None:
        """A request that engine and ledger both count."""
        self.wait(2.0)
        self.counted += usage
        self.record(self.lines(usage) if reason is None else burned(self.lines(usage), reason))

    def restart(self) -> None:
        self.wait()
        self.started_at, self.counted = self.now, TokenUsage()

    def reconcile(self, start: datetime | None = None, end: datetime | None = None) -> ModelReconciliation:
        with self.database.read() as session:
            (found,) = reconcile(session, start=start, end=end or self.now)
        return found


@pytest.fixture
def bench(database: Database) -> Bench:
    with database.write() as session:
        session.add(Tenant(id=OURS, name="我们"))
        sync_price_book(session, load_price_book(), now=START)
    return Bench(database)


USE = TokenUsage(prompt_tokens=100, cached_tokens=60, completion_tokens=20)


def test_what_was_billed_and_burned_is_what_the_engine_counted(bench: Bench) -> None:
    bench.sample()
    bench.ask(USE)
    bench.ask(USE, BurnReason.PREWARM)
    bench.ask(USE, BurnReason.FAILED)
    bench.sample()
    found = bench.reconcile()
    assert {name: (each.engine, each.ledger) for name, each in found.counters.items()} == {
        "prompt": (300, 300),
        "cached": (180, 180),
        "generation": (60, 60),
    }
    assert (found.is_quiet, found.is_alarming, found.num_starts) == (True, False, 1)
    assert found.billed.generation == 20
    assert {reason: tokens.prompt for reason, tokens in found.burned.items()} == {
        "failed": 100,
        "prewarm": 100,
    }
    assert found.engine_seconds == pytest.approx(4.5)
    assert found.busy_seconds >= found.engine_seconds


def test_a_call_that_is_on_no_line_alarms(bench: Bench) -> None:
    bench.sample()
    bench.ask(USE)
    bench.counted += TokenUsage(prompt_tokens=4, completion_tokens=1)
    bench.sample()
    found = bench.reconcile()
    assert (found.counters["prompt"].unexplained, found.counters["generation"].unexplained) == (-4, -1)
    assert found.is_alarming


def test_an_interval_of_its_own_has_only_its_own(bench: Bench) -> None:
    bench.ask(USE)
    bench.sample()
    middle = bench.now
    bench.ask(USE)
    bench.sample()
    for found in (bench.reconcile(end=middle), bench.reconcile(start=middle)):
        assert (found.counters["prompt"].engine, found.counters["prompt"].ledger) == (100, 100)


def test_what_a_process_counted_unseen_before_it_died_is_explained_by_what_was_recorded_since(
    bench: Bench,
) -> None:
    bench.ask(USE)
    bench.sample()
    bench.ask(USE)  # and nobody looks before it dies
    bench.restart()
    bench.sample()
    bench.ask(USE)
    bench.sample()
    found = bench.reconcile()
    prompt = found.counters["prompt"]
    assert (prompt.engine, prompt.ledger, prompt.unexplained) == (200, 300, 0)
    assert (found.unsampled.prompt, found.num_starts, found.is_alarming) == (100, 2, False)
    assert any("process ended" in note for note in found.notes)


def test_a_request_broken_off_may_have_written_a_little_more(bench: Bench) -> None:
    bench.sample()
    bench.ask(USE, BurnReason.CANCELLED)
    bench.counted += TokenUsage(completion_tokens=3)
    bench.sample()
    assert bench.reconcile().counters["generation"].unexplained == 0
    bench.counted += TokenUsage(completion_tokens=30)
    bench.sample()
    assert bench.reconcile().counters["generation"].unexplained == -(33 - 8)


def test_a_corrected_count_agrees_and_goodwill_changes_no_count(bench: Bench) -> None:
    bench.counted += USE
    entries = bench.record(bench.lines(USE + TokenUsage(completion_tokens=7)))
    decode = next(entry for entry in entries if entry.stage == "decode")
    bench.sample()
    assert bench.reconcile().counters["generation"].unexplained == 7
    with bench.database.write() as session:
        correct_entry(session, decode.id, reason="Counted on.", num_tokens=-7, now=bench.now)
        correct_entry(session, decode.id, reason="Goodwill.", cost=Decimal("-0.000001"), now=bench.now)
    bench.sample()
    found = bench.reconcile()
    assert (found.corrected.generation, found.counters["generation"].difference) == (-7, 0)


def test_an_interval_that_ends_in_the_midst_of_work_says_so(bench: Bench) -> None:
    bench.sample()
    bench.now += timedelta(hours=1)
    bench.num_running = 1
    bench.counted += USE
    bench.sample()
    found = bench.reconcile()
    assert not found.is_quiet
    assert any("under way" in note for note in found.notes)


def test_without_samples_nothing_is_compared_and_nothing_alarms(bench: Bench) -> None:
    bench.is_up = False
    bench.ask(USE)
    bench.sample()
    found = bench.reconcile()
    assert (found.counters, found.is_alarming) == ({}, False)
    assert "nothing can be compared" in found.notes[0]


def test_a_look_at_an_engine_that_has_done_nothing_is_not_kept(bench: Bench) -> None:
    for _ in range(5):
        bench.sample()
    bench.ask(USE)
    bench.sample()
    with bench.database.read() as session:
        samples = session.scalars(select(EngineSample).order_by(EngineSample.sampled_at)).all()
    assert [sample.prompt_tokens for sample in samples] == [0, 100]
    assert samples[-1].busy_seconds == 7.0  # since the look before


@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_what_was_used_whatever_is_killed_retried_and_delivered_twice(
    bench: Bench, seed: int
) -> None:
    dice = random.Random(seed)
    used, billed = TokenUsage(), TokenUsage()
    bench.sample()
    for number in range(30):
        attempt = 0
        while True:
            attempt += 1
            prompt = dice.randrange(1, 5000)
            usage = TokenUsage(prompt, dice.randrange(0, prompt), dice.randrange(0, 400))
            lines = bench.lines(usage, source=f"work_{number}", attempt=attempt)
            bench.counted += usage
            used += usage
            fate = dice.choice(["done", "done", "failed", "cancelled", "killed before", "killed after"])
            if fate in ("done", "killed after"):  # the commit is there; its worker may not know
                for _ in range(dice.randrange(1, 4)):
                    bench.record(lines)
                billed += usage
                break
            # One that was killed before is settled by the next attempt, perhaps more than once.
            reason = BurnReason.LOST if fate == "killed before" else BurnReason(fate)
            for _ in range(dice.randrange(1, 3)):
                bench.record(burned(lines, reason))
            if fate == "cancelled":
                break
        if dice.random() < 0.3:
            bench.sample()
    bench.sample()
    found = bench.reconcile()
    assert [each.difference for each in found.counters.values()] == [0, 0, 0]
    assert found.billed.as_dict() == {
        "prompt": billed.prompt_tokens,
        "cached": billed.cached_tokens,
        "generation": billed.completion_tokens,
    }
    with bench.database.read() as session:
        cost = session.scalar(select(func.sum(LedgerEntry.cost)))
        identities = select(
            LedgerEntry.source, LedgerEntry.attempt, LedgerEntry.stage, LedgerEntry.price_stage
        )
        rows = session.execute(identities).all()
    prices = {Stage.PREFILL_UNCACHED: "0.20", Stage.PREFILL_CACHED: "0.05", Stage.DECODE: "0.80"}
    tokens = {
        Stage.PREFILL_UNCACHED: used.uncached_tokens,
        Stage.PREFILL_CACHED: used.cached_tokens,
        Stage.DECODE: used.completion_tokens,
    }
    assert cost == sum(cost_of(tokens[stage], Decimal(price)) for stage, price in prices.items())
    assert len(rows) == len(set(rows))
