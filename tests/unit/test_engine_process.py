"""Launching, guarding, stopping and restarting, with a stand-in for vLLM that starts at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import EngineUnavailable, Misconfigured
from inference.engine_launcher import EngineProcess
from inference.engine_log import describe_progress, rotate_log
from inference.engine_profiles import EngineCommand
from tests.engine_double import EngineDouble, running_double

DOUBLE = str(Path(__file__).parents[1] / "engine_double.py")


@pytest.fixture
def port() -> int:
    with EngineDouble() as double:
        return double.port


@pytest.fixture
def engine(tmp_path: Path, port: int) -> Iterator[EngineProcess]:
    process = make_engine(tmp_path, port)
    yield process
    process.stop()


def make_engine(folder: Path, port: int, *flags: str) -> EngineProcess:
    command = EngineCommand((sys.executable, DOUBLE, str(port), *flags), {"DOUBLE_SALT": "from here"})
    return EngineProcess(
        command, host="127.0.0.1", port=port, log_path=folder / "logs" / "engine.log", grace_seconds=2.0
    )


def pids(log_path: Path) -> list[int]:
    """The engine's process and its child, as it logged them."""
    found = re.search(r"pids (\d+) (\d+)", wait_for_text(log_path, "pids"))
    assert found is not None
    return [int(pid) for pid in found.groups()]


def wait_for_text(path: Path, text: str) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and text in (content := path.read_text()) and content.endswith("\n"):
            return content
        time.sleep(0.02)
    raise AssertionError(f"{text!r} never came in {path}")


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until_gone(*waited: int) -> None:
    deadline = time.monotonic() + 10
    while any(map(is_running, waited)):
        assert time.monotonic() < deadline, f"still there: {waited}"
        time.sleep(0.02)


def test_start_waits_for_health_and_tells_how_far_it_is(engine: EngineProcess) -> None:
    heard: list[str] = []
    engine.start()
    assert engine.wait_ready(timeout_seconds=10, on_progress=heard.append) < 10
    assert heard == ["vLLM 0.32.0", "room for 23,296 tokens in the KV cache"]
    assert engine.is_alive()
    assert engine.exit_status is None
    assert "salt=from here" in engine.log_path.read_text()


def test_stop_leaves_no_process_and_frees_the_port(engine: EngineProcess) -> None:
    engine.start()
    engine.wait_ready(timeout_seconds=10)
    engine.start()  # already runs: nothing happens
    family = pids(engine.log_path)
    engine.stop()
    assert not any(map(is_running, family))
    assert not engine.is_alive()
    engine.stop()
    engine.start()
    engine.wait_ready(timeout_seconds=10)


def test_children_of_a_killed_engine_do_not_outlive_it(engine: EngineProcess) -> None:
    engine.start()
    main, child = pids(engine.log_path)
    os.kill(main, signal.SIGKILL)
    wait_until_gone(child)
    deadline = time.monotonic() + 5
    while engine.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert engine.exit_status == 128 + signal.SIGKILL


def test_engine_dies_with_a_parent_that_was_killed(tmp_path: Path, port: int) -> None:
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from tests.unit.test_engine_process import make_engine
        make_engine(Path({str(tmp_path)!r}), {port}).start()
        time.sleep(600)
    """)
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=root)
    family = pids(tmp_path / "logs" / "engine.log")
    parent.kill()
    parent.wait()
    wait_until_gone(*family)


def test_engine_dies_when_even_its_guard_is_killed(engine: EngineProcess) -> None:
    engine.start()
    main, child = pids(engine.log_path)
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    wait_until_gone(main)
    os.kill(child, signal.SIGKILL)  # vLLM's own children notice by themselves, this one does not


def test_crash_at_start_quotes_the_end_of_the_log(tmp_path: Path, port: int) -> None:
    engine = make_engine(tmp_path, port, "--crash")
    engine.start()
    with pytest.raises(EngineUnavailable, match="显存不足 out of memory") as caught:
        engine.wait_ready(timeout_seconds=10)
    assert str(engine.log_path) in str(caught.value)
    assert "status 1" in str(caught.value)
    engine.stop()


def test_engine_that_never_answers_times_out(tmp_path: Path, port: int) -> None:
    engine = make_engine(tmp_path, port, "--mute")
    engine.start()
    with pytest.raises(EngineUnavailable, match=r"(?s)within 0\.5 s.*START_TIMEOUT") as caught:
        engine.wait_ready(timeout_seconds=0.5)
    assert caught.value.context["log_path"] == str(engine.log_path)
    assert engine.is_alive()
    engine.stop()


def test_port_in_use_by_an_engine_offers_to_use_that_one(tmp_path: Path) -> None:
    with running_double() as double:
        engine = make_engine(tmp_path, double.port)
        with pytest.raises(Misconfigured, match=rf"{double.port}.*LONGLEAF_ENGINE__URL={double.url}"):
            engine.start()
    assert engine.pid is None


def test_each_start_has_a_log_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    for number in range(5):
        rotate_log(path)
        path.write_text(f"start {number}")
    kept = {log.name: log.read_text() for log in tmp_path.iterdir()}
    assert kept == {"engine.log": "start 4", "engine.log.1": "start 3", "engine.log.2": "start 2"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("INFO [default_loader.py:501] Loading weights took 2.10 seconds", "weights loaded in 2.10 s"),
        (
            "INFO [core.py:402] init engine (profile, warmup model) took 2.05 s",
            "engine initialized in 2.05 s",
        ),
        ("INFO [cpu_model_runner.py:68] Starting to load model /models/x...", "loading the model"),
        ("INFO [launcher.py:186] Available routes are:", None),
    ],
)
def test_log_lines_become_progress_in_words(line: str, words: str | None) -> None:
    assert describe_progress(line) == words
