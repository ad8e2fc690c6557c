"""Questions asked at once about one document, through the whole pipeline, with leads in Valkey."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from core.errors import JobCancelled
from inference.protocols import GenerationDelta, GenerationRequest
from storage.database import Database
from storage.prefix_leads import PrefixLeads
from tests.databases import make_sqlite
from tests.pipeline_fixtures import House, ScriptedGenerator, build_house

MOONS = b"""# Moons

Neptune has fourteen known moons. Triton is the largest of them. It circles its planet against the
planet's own turn, alone of all large moons. Its surface is frozen nitrogen, with geysers of dark dust.

Proteus is the second largest, dark as soot and shaped like a box. Nereid has the most eccentric
orbit: it comes as near as one and a half million kilometres and goes as far as ten.

Seven moons lie within the orbit of Triton. Naiad and Thalassa circle next to the atmosphere, in a
dance that keeps them apart. Despina, Galatea and Larissa tend the rings.

Halimede, Sao, Laomedeia, Psamathe and Neso are small, far and irregular. Neso needs twenty-six years
for one round. Hippocamp was found in 2013 on old pictures of the Hubble telescope.
"""


@dataclass
class SlowGenerator(ScriptedGenerator):
    """The first request gets its first token only when `gate` opens."""

    gate: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        with super().stream(request) as deltas:
            if len(self.requests) == 1:
                assert self.gate.wait(20)
            yield deltas


@pytest.fixture
def house(tmp_path: Path, redis_url: str) -> Iterator[House]:
    database = Database(make_sqlite(tmp_path / "longleaf.db"))
    leads = PrefixLeads(redis_url)
    built = build_house(
        database,
        tmp_path / "home",
        leads=leads,
        generator=SlowGenerator(text="Neptune has fourteen known moons."),
    )
    assert built.ingest.run(built.claim(built.upload({"moons.md": MOONS}))) == "done"
    yield built
    leads.close()
    database.dispose()


def gate_of(house: House) -> threading.Event:
    assert isinstance(house.generator, SlowGenerator)
    return house.generator.gate


def wait_until_sent(house: House, num_requests: int) -> None:
    deadline = time.monotonic() + 20
    while len(house.generator.requests) < num_requests:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_second_question_is_sent_when_the_first_has_its_first_token(house: House) -> None:
    asked = [
        house.ask(f"How many known moons has Neptune{end}", mode="abstractive") for end in ("?", " in all?")
    ]
    threads = [threading.Thread(target=house.answers.run, args=(house.claim(job_id),)) for job_id, _ in asked]
    threads[0].start()
    wait_until_sent(house, 1)
    threads[1].start()
    time.sleep(0.5)
    assert len(house.generator.requests) == 1
    gate_of(house).set()
    for thread in threads:
        thread.join(20)
    leader, follower = (house.answer(answer_id) for _, answer_id in asked)
    assert leader.outcome == follower.outcome == "answered"
    assert leader.steps["leader"] == {"role": "leader"}
    assert follower.steps["leader"]["ended"] == "computed"
    assert follower.steps["leader"]["shared_tokens"] >= 512
    assert follower.timings["leader_wait_seconds"] > 0
    assert "leader_wait_seconds" not in leader.timings


def test_a_question_can_be_cancelled_while_it_waits(house: House) -> None:
    (first, _), (second, _) = (
        house.ask("How many known moons has Neptune?", mode="abstractive") for _ in "ab"
    )
    leading = threading.Thread(target=house.answers.run, args=(house.claim(first),))
    leading.start()
    wait_until_sent(house, 1)
    cancelled = threading.Event()

    def checkpoint() -> None:
        if cancelled.is_set():
            raise JobCancelled("cancelled")

    threading.Timer(0.5, cancelled.set).start()
    with pytest.raises(JobCancelled):
        house.answers.run(replace(house.claim(second), checkpoint=checkpoint))
    assert len(house.generator.requests) == 1
    gate_of(house).set()
    leading.join(20)
