"""Supervision, with small real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import LongleafError, NotFound
from embedded.children import ChildProcess, ProcessOwner, ProcessSpec, run_once, says_ready
from embedded.components import PACKAGE_ROOT
from embedded.processes import ComponentEvent, RestartPauses, Supervisor, describe_status

SERVE = "import time; print('service ready', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SERVE
WITH_CHILD = (
    "import subprocess, sys, time; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
    "print(f'child={child.pid} ready', flush=True); time.sleep(60)"
)


@pytest.fixture
def owner() -> Iterator[ProcessOwner]:
    owner = ProcessOwner()
    yield owner
    owner.close()


@pytest.fixture
def events() -> list[ComponentEvent]:
    return []


@pytest.fixture
def supervisor(events: list[ComponentEvent]) -> Iterator[Supervisor]:
    pauses = RestartPauses(first_seconds=0.05, max_seconds=0.2)
    supervisor = Supervisor(on_event=events.append, pauses=pauses)
    yield supervisor
    supervisor.stop()


def spec(name: str, code: str, folder: Path, **options: object) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        argv=(sys.executable, "-c", code),
        log_path=folder / f"{name}.log",
        is_ready=says_ready,
        cwd=folder,
        **options,  # type: ignore[arg-type]
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended but was not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


def child_in_log(path: Path) -> int:
    return int(path.read_text().split("child=")[1].split()[0])


def test_a_process_is_ready_when_its_log_says_so(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path, events: list[ComponentEvent]
) -> None:
    supervisor.start(ChildProcess(spec("a", SERVE, tmp_path), owner))
    supervisor.wait_ready()
    assert [event.kind for event in events] == ["starting", "ready"]
    assert supervisor.state("a") == "ready"


def test_a_ready_line_of_an_earlier_run_does_not_count(owner: ProcessOwner, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("service ready\n")
    child = ChildProcess(spec("a", "import time; time.sleep(60)", tmp_path), owner)
    child.start()
    assert not child.is_ready()
    child.destroy()


def test_the_environment_is_inherited_and_added_to(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path
) -> None:
    code = (
        "import os; print(os.environ['PATH'] != '', os.environ['LONGLEAF_名'], 'ready', flush=True); " + SERVE
    )
    child = ChildProcess(spec("a", code, tmp_path, environment={"LONGLEAF_名": "值"}), owner)
    supervisor.start(child)
    supervisor.wait_ready()
    assert "True 值 ready" in (tmp_path / "a.log").read_text()


def test_a_killed_process_is_started_again_and_a_line_says_so(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path, events: list[ComponentEvent]
) -> None:
    supervisor.start(ChildProcess(spec("a", SERVE, tmp_path), owner))
    supervisor.wait_ready()
    first = supervisor.pid("a")
    supervisor.kill("a")
    wait_until(lambda: [event.kind for event in events].count("ready") == 2)
    assert supervisor.pid("a") != first
    died = next(event for event in events if event.kind == "died")
    assert died.detail == "was ended by SIGKILL; starting it again in 0.05 s"


def test_children_of_a_killed_process_are_gone_before_it_starts_again(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path, events: list[ComponentEvent]
) -> None:
    supervisor.start(ChildProcess(spec("a", WITH_CHILD, tmp_path), owner))
    supervisor.wait_ready()
    orphan = child_in_log(tmp_path / "a.log")
    assert is_alive(orphan)
    supervisor.kill("a")
    wait_until(lambda: "restarting" in [event.kind for event in events])
    wait_until(lambda: not is_alive(orphan))


def test_a_process_that_dies_before_it_was_ready_is_reported_with_its_log(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path
) -> None:
    supervisor.start(ChildProcess(spec("a", "raise SystemExit('no such table: 任务')", tmp_path), owner))
    with pytest.raises(LongleafError, match="a ended with status 1 before it was ready") as caught:
        supervisor.wait_ready()
    assert "no such table: 任务" in caught.value.detail
    assert str(tmp_path / "a.log") in caught.value.remedy


def test_a_command_that_does_not_exist_is_reported(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path
) -> None:
    missing = ProcessSpec("a", ("/no/such/program",), tmp_path / "a.log", says_ready, tmp_path)
    supervisor.start(ChildProcess(missing, owner))
    with pytest.raises(LongleafError, match="/no/such/program cannot be run: No such file or directory"):
        supervisor.wait_ready()


def test_a_process_that_is_never_ready_is_given_up(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path
) -> None:
    silent = spec("a", "import time; time.sleep(60)", tmp_path, start_timeout_seconds=0.3)
    supervisor.start(ChildProcess(silent, owner))
    with pytest.raises(LongleafError, match=r"a was not ready within 0\.3 s"):
        supervisor.wait_ready()


def test_waiting_for_some_does_not_wait_for_others(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path
) -> None:
    supervisor.start(ChildProcess(spec("slow", "import time; time.sleep(60)", tmp_path), owner))
    supervisor.start(ChildProcess(spec("quick", SERVE, tmp_path), owner))
    supervisor.wait_ready(["quick"])
    assert supervisor.state("slow") == "starting"
    with pytest.raises(NotFound, match="no component 'other'"):
        supervisor.wait_ready(["other"])


def test_the_last_started_is_stopped_first(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path, events: list[ComponentEvent]
) -> None:
    for name in ("broker", "worker", "api"):
        supervisor.start(ChildProcess(spec(name, SERVE, tmp_path), owner))
    supervisor.wait_ready()
    pids = [supervisor.pid(name) for name in ("broker", "worker", "api")]
    supervisor.stop()
    stopped = [event.component for event in events if event.kind == "stopped"]
    assert stopped == ["api", "worker", "broker"]
    assert not any(is_alive(pid) for pid in pids if pid)


def test_members_of_a_group_are_stopped_together(
    supervisor: Supervisor, owner: ProcessOwner, tmp_path: Path, events: list[ComponentEvent]
) -> None:
    slow = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), exit())); " + SERVE
    )
    supervisor.start(ChildProcess(spec("broker", SERVE, tmp_path), owner))
    for name in ("one", "two"):
        supervisor.start(ChildProcess(spec(name, slow, tmp_path), owner), group="workers")
    supervisor.wait_ready()
    supervisor.stop()
    stopping = [(event.component, event.kind) for event in events if event.kind in ("stopping", "stopped")]
    assert set(stopping[:2]) == {("one", "stopping"), ("two", "stopping")}
    assert stopping[-2:] == [("broker", "stopping"), ("broker", "stopped")]


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(
    owner: ProcessOwner, tmp_path: Path
) -> None:
    child = ChildProcess(spec("a", STUBBORN, tmp_path, stop_timeout_seconds=0.2), owner)
    child.start()
    wait_until(child.is_ready)
    pid = child.pid()
    assert pid is not None
    child.stop()
    assert not is_alive(pid)


def test_pauses_double_up_to_a_limit() -> None:
    pauses = RestartPauses(first_seconds=0.5, max_seconds=30.0)
    assert [pauses.pause_seconds(n) for n in (1, 2, 3, 7, 1000)] == [0.5, 1.0, 2.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("status", "words"),
    [(1, "ended with status 1"), (-9, "was ended by SIGKILL"), (143, "was ended by SIGTERM")],
)
def test_exit_statuses_are_put_in_words(status: int, words: str) -> None:
    assert describe_status(status) == words


@pytest.mark.parametrize(
    ("log", "is_ready"),
    [("[info] ready queue=ingest", True), ("already there", False), ("not ready yet", False), ("", False)],
)
def test_only_the_word_itself_means_ready(log: str, is_ready: bool) -> None:
    assert says_ready(log) is is_ready


def test_a_command_that_runs_once_tells_its_lines_and_its_failure(
    owner: ProcessOwner, tmp_path: Path
) -> None:
    lines: list[str] = []
    run_once(owner, spec("a", "print('one'); print('两')", tmp_path), on_line=lines.append)
    assert lines == ["one", "两"]
    with pytest.raises(LongleafError, match="a ended with status 3"):
        run_once(owner, spec("a", "raise SystemExit(3)", tmp_path), on_line=lines.append)


PARENT = """
import sys, time
from pathlib import Path
from embedded.children import ChildProcess, ProcessOwner, ProcessSpec, says_ready
from embedded.processes import Supervisor
folder = Path(sys.argv[1])
owner, supervisor = ProcessOwner(), Supervisor()
for name in ("a", "b"):
    supervisor.start(ChildProcess(ProcessSpec(
        name, (sys.executable, "-c", sys.argv[2]), folder / f"{name}.log", says_ready, folder), owner))
supervisor.wait_ready()
print(supervisor.pid("a"), supervisor.pid("b"), owner._reaper.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_process_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), WITH_CHILD],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PACKAGE_ROOT,
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    pids += [child_in_log(tmp_path / "a.log"), child_in_log(tmp_path / "b.log")]
    assert all(is_alive(pid) for pid in pids)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
