"""`longleaf up` with everything but the engine, whose start takes longer than all the rest."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client import LongleafClient
from core.errors import Conflict, Misconfigured
from core.settings import Settings, load_settings
from embedded.components import PACKAGE_ROOT
from embedded.credentials import find_credentials
from embedded.home import find_free_port
from embedded.processes import ComponentEvent
from embedded.stack import EmbeddedStack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

COMPONENTS = ("valkey", "relay", "delivery", "ingest", "interactive", "api")


@pytest.fixture
def settings(tmp_path: Path, model_cache: Path) -> Settings:
    port = find_free_port("127.0.0.1", preferred=0)
    return load_settings(home=tmp_path / "home", model_cache=model_cache, api_port=port)


@pytest.fixture
def events() -> list[ComponentEvent]:
    return []


@pytest.fixture
def stack(settings: Settings, events: list[ComponentEvent]) -> Iterator[EmbeddedStack]:
    with EmbeddedStack(settings, with_engine=False, on_event=events.append) as stack:
        yield stack


def processes_of(home: Path) -> list[int]:
    """Whoever was told this data folder or writes a log into it, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Celery and Valkey write their titles over command line and environment, not over this.
            log = os.readlink(folder / "fd" / "1")
            told = os.fsencode(home) in (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if (told or log.startswith(str(home))) and state != "Z" and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.1)


Up = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def up(settings: Settings) -> Iterator[Up]:
    """Starts `longleaf up` as a user would; kills what a failed test leaves."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        environment = {
            "PATH": "/usr/bin:/bin",
            "LONGLEAF_API_PORT": str(settings.api_port),
            "LONGLEAF_MODEL_CACHE": str(settings.model_cache),
            "PYTHONUTF8": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", "up", "--home", str(settings.home), "--no-engine"],
            env=environment,
            cwd=PACKAGE_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} was never said:\n" + "".join(lines))


def test_the_stack_outlives_its_parts_and_leaves_nothing(
    stack: EmbeddedStack, settings: Settings, events: list[ComponentEvent]
) -> None:
    ready = [event.component for event in events if event.kind == "ready"]
    assert set(COMPONENTS) <= set(ready)
    with LongleafClient(stack.url, stack.key) as client:
        assert client.create_collection("合同")["name"] == "合同"
        for victim in ("valkey", "relay", "api"):
            before = stack.pid(victim)
            stack.kill(victim)
            wait_until(lambda name=victim: stack.state(name) != "ready", 10)  # type: ignore[misc]
            stack.wait_ready(victim)
            assert stack.pid(victim) != before
        wait_until(lambda: stack.state("api") == "ready", 30)
        assert [each["name"] for each in client.list_collections()] == ["合同"]

    with pytest.raises(Conflict, match="already runs"):
        EmbeddedStack(settings, with_engine=False).start()

    stack.stop()
    stopped = [event.component for event in events if event.kind == "stopped"]
    assert (stopped[0], set(stopped[1:3]), stopped[3:]) == (
        "api",
        {"interactive", "ingest"},
        ["delivery", "relay", "valkey"],
    )
    assert processes_of(settings.root) == []


def test_a_document_uploaded_by_the_command_line_is_searchable_and_asked(
    stack: EmbeddedStack, tmp_path: Path
) -> None:
    (tmp_path / "leave.md").write_text("# Leave\n\nIn the first year there are 27 days of paid leave.\n")
    (tmp_path / "望远镜.txt").write_text("观测站的主望远镜口径为二点四米。\n", encoding="utf-8")
    with LongleafClient(stack.url, stack.key) as client:
        collection = client.get_or_create_collection("demo")
        paths = [tmp_path / "leave.md", tmp_path / "望远镜.txt"]
        (batch,) = client.upload(collection["id"], paths)
        job = client.wait_for_job(batch.job["id"], timeout=120)
        assert [file["status"] for file in job["files"]] == ["ready", "ready"]
        answer = client.ask(collection["id"], "主望远镜的口径是多少？", mode="extractive")
        assert "二点四米" in (answer["text"] or "")
        assert answer["citations"][0]["document_name"] == "望远镜.txt"


def test_up_says_what_it_does_and_stops_clean_on_ctrl_c(up: Up, settings: Settings) -> None:
    process = up()
    said = read_until(process, "ll_")
    for component in COMPONENTS:
        assert f"✓ {component:<12} ready in" in said
    credentials = find_credentials(settings.root)
    assert credentials is not None
    assert credentials.key in said
    second = up()
    output, _ = second.communicate(timeout=30)
    assert f"already runs on {settings.root}" in output.replace("\n", "")
    assert second.returncode == 1
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in output
    assert processes_of(settings.root) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_however_up_ends(up: Up, settings: Settings, number: signal.Signals) -> None:
    process = up()
    read_until(process, "ll_")
    assert len(processes_of(settings.root)) > len(COMPONENTS)
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_until(lambda: processes_of(settings.root) == [], 10)


def test_a_second_ctrl_c_ends_everything_at_once(up: Up, settings: Settings) -> None:
    process = up()
    read_until(process, "ll_")
    process.send_signal(signal.SIGINT)
    read_until(process, "Stopping")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    wait_until(lambda: processes_of(settings.root) == [], 10)


def test_a_port_in_use_stops_the_start_before_anything_runs(settings: Settings) -> None:
    with (
        socket.create_server(("127.0.0.1", settings.api_port)),
        pytest.raises(Misconfigured, match=f"Port {settings.api_port} .* LONGLEAF_API_PORT"),
        EmbeddedStack(settings, with_engine=False),
    ):
        pass
    assert processes_of(settings.root) == []
