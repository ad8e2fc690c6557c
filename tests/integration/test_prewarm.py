"""Prewarming a collection, with an engine that has a prefix cache and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from accounting.ledger import Ledger
from bootstrap.api_services import ApiServices
from core.clock import utc_now
from core.errors import EngineIncapable, JobCancelled
from core.ids import JobId
from core.settings import PrewarmSettings
from core.usage import TokenUsage
from generation.prefix.shelf import PieceShelf
from generation.prewarm.builder import PieceHeads
from generation.prewarm.pipeline import PrewarmPipeline
from generation.prewarm.report import PrewarmReport, measure_prewarm
from inference.engine_metrics import EngineCounters
from inference.protocols import EngineTimings, GenerationDelta, GenerationRequest
from storage.collections import CollectionRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.events import EventBus
from storage.models import Document, Job, LedgerEntry
from storage.prewarm_jobs import PREWARM_KIND, request_prewarm
from tenancy.rate_limits import RateLimiter
from tests.pipeline_fixtures import House, ScriptedGenerator, WordTokenizer, build_house
from workers.relay import Relay

BLOCK = 32
MOONS = b"""# Moons

Neptune has fourteen known moons. Triton is the largest of them. It circles its planet against the
planet's own turn, alone of all large moons. Its surface is frozen nitrogen, with geysers of dark dust.

Proteus is the second largest, dark as soot and shaped like a box. Nereid has the most eccentric
orbit: it comes as near as one and a half million kilometres and goes as far as ten.
"""


@dataclass
class CachingEngine(ScriptedGenerator):
    """Finds whole blocks that it computed for the same salt; the last token is always computed."""

    num_running: int = 0
    kv_cache_tokens: int | None = 100_000
    tells: bool = True
    cached: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)

    def engine_counters(self) -> EngineCounters:
        if not self.tells:
            raise EngineIncapable("no metrics")
        return EngineCounters(0, 0, 0, 0, 0, self.num_running, 0, kv_cache_tokens=self.kv_cache_tokens)

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        self.requests.append(request)
        tokens = tuple(request.prompt_token_ids)
        ends = range(BLOCK, len(tokens), BLOCK)
        found = 0
        for end in ends:
            if (request.cache_salt, tokens[:end]) not in self.cached:
                break
            found = end
        self.cached |= {(request.cache_salt, tokens[:end]) for end in ends}
        usage = TokenUsage(len(tokens), found, 6)
        timings = EngineTimings(0.0, 0.1, 0.2, 0.1, 0.3)
        yield iter([GenerationDelta(self.text, usage, finish_reason="stop", timings=timings)])


@pytest.fixture
def engine() -> CachingEngine:
    return CachingEngine(text="Neptune has fourteen known moons.")


@pytest.fixture
def house(database: Database, tmp_path: Path, engine: CachingEngine) -> House:
    built = build_house(database, tmp_path / "home", generator=engine)
    assert built.ingest.run(built.claim(built.upload({"moons.md": MOONS}))) == "done"
    return built


def pipeline(
    house: House, engine: CachingEngine, *, slice_seconds: float = 20.0, **settings: object
) -> PrewarmPipeline:
    tokenizer = WordTokenizer()
    return PrewarmPipeline(
        settings=PrewarmSettings(**settings),  # type: ignore[arg-type]
        database=house.database,
        engine=engine,
        builder=PieceHeads(PieceShelf(house.database), tokenizer, is_brief=False),
        ledger=Ledger(),
        default_mode="abstractive",
        lookback_seconds=3600,
        slice_seconds=slice_seconds,
    )


def request(house: House) -> JobId:
    with house.database.write() as session:
        request_prewarm(
            session, house.principal.tenant_id, house.collection_id, reason="engine_start", max_attempts=3
        )
    with house.database.read() as session:
        query = select(Job.id).where(Job.kind == PREWARM_KIND, Job.status == "queued")
        return JobId(session.scalars(query).one())


def prewarm(house: House, engine: CachingEngine, **settings: object) -> dict[str, Any]:
    """The progress of a job that ran to its end."""
    job_id = request(house)
    assert pipeline(house, engine, **settings).run(house.claim(job_id)) == "done"
    with house.database.read() as session:
        return session.get_one(Job, job_id).progress


def ask(house: House, question: str = "How many known moons has Neptune?") -> TokenUsage:
    job_id, answer_id = house.ask(question, mode="abstractive")
    house.answers.run(house.claim(job_id))
    answer = house.answer(answer_id)
    return TokenUsage(answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens)


def restart(engine: CachingEngine) -> None:
    engine.cached.clear()
    engine.requests.clear()


def report(house: House) -> PrewarmReport:
    with house.database.read() as session:
        return measure_prewarm(session, since=utc_now() - timedelta(hours=1))


def test_after_a_restart_what_was_asked_about_is_computed_before_it_is_asked_again(
    house: House, engine: CachingEngine
) -> None:
    ask(house)
    ask(house, "How many known moons has Neptune in all?")
    restart(engine)
    progress = prewarm(house, engine)
    assert progress["is_whole"]
    assert progress["computed_tokens"] > 500
    assert all(each.priority > 0 for each in engine.requests)
    assert {each.cache_salt for each in engine.requests} == {house.principal.tenant_id}
    assert {each.sampling.max_tokens for each in engine.requests} == {1}
    assert report(house).found_tokens == 0
    usage = ask(house)
    assert usage.uncached_tokens < 0.5 * usage.prompt_tokens
    measured = report(house)
    assert measured.num_found >= 1
    assert 0 < measured.found_tokens <= measured.computed_tokens <= progress["computed_tokens"]


def test_a_second_job_computes_next_to_nothing(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    first, second = prewarm(house, engine), prewarm(house, engine)
    assert second["computed_tokens"] <= len(second["heads"]) * BLOCK < first["computed_tokens"]


def test_a_static_document_is_computed_before_anyone_asks_and_is_to_be_kept(
    house: House, engine: CachingEngine
) -> None:
    with house.database.write() as session:
        document = session.scalars(select(Document)).one()
        DocumentRepository(session, house.principal.tenant_id).set_static(document.id, True)
    progress = prewarm(house, engine)
    assert [head["kind"] for head in progress["heads"]] == ["instructions", "static"]
    kept = engine.requests[-1].kept
    assert kept is not None
    assert (kept.label, kept.num_tokens) == (document.id, len(engine.requests[-1].prompt_token_ids))
    text = "".join(map(chr, engine.requests[-1].prompt_token_ids))
    assert "Nereid has the most eccentric" in text
    usage = ask(house)
    assert usage.cached_tokens >= kept.num_tokens - BLOCK
    assert report(house).wasted_tokens == 0


def test_a_deleted_document_is_not_computed(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    with house.database.write() as session:
        document = session.scalars(select(Document)).one()
        DocumentRepository(session, house.principal.tenant_id).delete(document.id)
    restart(engine)
    assert [head["kind"] for head in prewarm(house, engine)["heads"]] == ["instructions"]


def test_long_heads_are_sent_in_pieces_that_grow(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    prewarm(house, engine, piece_tokens=200)
    lengths = [len(each.prompt_token_ids) for each in engine.requests]
    assert 200 in lengths
    assert 400 in lengths
    computed = [a - b for a, b in zip(lengths[1:], lengths, strict=False)]
    assert max(computed) <= 200


@pytest.mark.parametrize(("capacity", "share"), [(100_000, 0.0), (300, 0.5), (None, 0.0)])
def test_what_does_not_fit_its_share_of_the_cache_is_left(
    house: House, engine: CachingEngine, capacity: int | None, share: float
) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    engine.kv_cache_tokens = capacity
    progress = prewarm(house, engine, kv_share=share)
    assert progress["computed_tokens"] <= share * (capacity or 0)


def test_a_busy_engine_is_left_to_those_who_wait(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    engine.num_running = 1
    job_id = request(house)
    run = house.claim(job_id)
    assert pipeline(house, engine).run(run) == "postponed"
    assert engine.requests == []
    engine.num_running = 0
    assert pipeline(house, engine).run(run) == "done"
    assert engine.requests


def test_a_slice_that_ends_is_taken_up_where_it_stood(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    run = house.claim(request(house))
    slices = 0
    while pipeline(house, engine, slice_seconds=0.0001, piece_tokens=200).run(run) == "yielded":
        slices += 1
        assert slices < 50
    with house.database.read() as session:
        progress = session.get_one(Job, run.job.id).progress
    assert slices > 2
    assert all(head["sent_tokens"] == head["num_tokens"] for head in progress["heads"])
    assert sum(head["computed_tokens"] for head in progress["heads"]) > 500


def test_an_engine_that_tells_nothing_is_sent_to_at_low_priority(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    engine.tells = False
    assert prewarm(house, engine)["computed_tokens"] > 500


def test_a_job_that_is_cancelled_stops_between_pieces_and_what_it_used_is_on_the_ledger(
    house: House, engine: CachingEngine
) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    job_id = request(house)

    def checkpoint() -> None:
        if engine.requests:
            raise JobCancelled("cancelled")

    with pytest.raises(JobCancelled):
        pipeline(house, engine).run(replace(house.claim(job_id), checkpoint=checkpoint))
    assert len(engine.requests) == 1
    assert lines_of(house, job_id)


def lines_of(house: House, job_id: JobId) -> list[LedgerEntry]:
    with house.database.read() as session:
        return list(session.scalars(select(LedgerEntry).where(LedgerEntry.job_id == job_id)))


@pytest.mark.parametrize("billed", [False, True])
def test_it_is_on_the_ledger_and_billed_only_if_the_operator_says_so(
    house: House, engine: CachingEngine, billed: bool
) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    job_id = request(house)
    pipeline(house, engine, billed=billed).run(house.claim(job_id))
    lines = {line.stage: line for line in lines_of(house, job_id)}
    total = sum(len(each.prompt_token_ids) for each in engine.requests)
    cached = lines["prefill_cached"].num_tokens if "prefill_cached" in lines else 0
    assert lines["prefill_uncached"].num_tokens + cached == total
    assert all(line.billed is billed for line in lines.values())


def test_collections_share_the_room_by_how_much_they_are_asked(house: House, engine: CachingEngine) -> None:
    for _ in "ab":
        ask(house)
    restart(engine)
    with house.database.write() as session:
        quiet = CollectionRepository(session, house.principal.tenant_id).create("quiet")
        request_prewarm(session, house.principal.tenant_id, quiet.id, reason="engine_start", max_attempts=3)
        job_id = JobId(session.scalars(select(Job.id).where(Job.kind == PREWARM_KIND)).one())
    assert pipeline(house, engine).run(house.claim(job_id)) == "done"
    assert engine.requests == []


def requested(house: House) -> list[str]:
    with house.database.read() as session:
        jobs = session.scalars(select(Job).where(Job.kind == PREWARM_KIND, Job.status == "queued"))
        return [job.payload["reason"] for job in jobs]


def test_an_ingest_asks_for_it_where_the_collection_is_in_use(house: House) -> None:
    house.ingest.run(house.claim(house.upload({"rings.md": b"# Rings\n\nSaturn has seven main rings.\n"})))
    assert requested(house) == []
    ask(house)
    house.ingest.run(house.claim(house.upload({"belts.md": b"# Belts\n\nThe main belt is wide.\n"})))
    assert requested(house) == ["ingest"]


def test_an_engine_that_started_has_it_asked_for_once_for_every_collection_in_use(
    house: House, redis_url: str
) -> None:
    events = EventBus(redis_url, ttl_seconds=60)
    broker: Any = None
    relay = Relay(
        ApiServices(
            house.settings,
            house.database,
            house.blobs,
            events,
            RateLimiter("redis://", house.settings.limits),
        ),
        broker,
    )
    relay.prewarm_all()
    assert requested(house) == []
    ask(house)
    relay.prewarm_all()
    relay.prewarm_all()
    assert requested(house) == ["engine_start"]
    events.close()
