"""A peer in a process of its own, as the benchmark sees it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.peers.protocol import Language, PeerOptions
from core.errors import Misconfigured

_ROOT = Path(__file__).resolve().parents[2]
_VARIABLES = (
    "ANONYMIZED_TELEMETRY=False",
    "HAYSTACK_TELEMETRY_ENABLED=False",
    "HF_HUB_OFFLINE=1",
    "LANGSMITH_TRACING=false",
    "NO_PROXY=127.0.0.1",  # a proxy cannot see this machine
    "TOKENIZERS_PARALLELISM=false",
)
"""No telemetry, no hubs."""

DEFAULT_PYTHON = _ROOT / ".cache" / "peers" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """`num_dropped` of the passages it found were left out, for the prompt exceeded the window.
    `error` says why there is no text."""

    question: str
    answer: str
    num_passages: int
    num_dropped: int
    error: str


class PeerProcess:
    """A context manager; the process ends with the block.

    Args:
        name: one of `bench.peers.PEERS`.
        python: of the virtual environment with the extra `peers`.
        log_path: what the peer prints.
    """

    def __init__(self, name: str, *, python: Path, options: PeerOptions, log_path: Path) -> None:
        self.name = name
        self._python = python
        self._options = options
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        if not self._python.is_file():
            raise Misconfigured(
                f"There is no Python of the peers at {self._python}.",
                remedy='python -m venv .cache/peers && .cache/peers/bin/pip install -e ".[peers]"',
            )
        with self._log_path.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                ["env", *_VARIABLES, str(self._python), "-m", f"bench.peers.{self.name}"],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
            )
        try:
            self._send(asdict(self._options))
            self._receive()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        process = self._process
        if process is None:
            return
        self._process = None
        process.terminate()  # it may be in the middle of a question, and keeps nothing
        process.communicate()

    def index(self, files: Sequence[Path], language: Language) -> dict[str, Any]:
        """`num_chunks` and `seconds`."""
        self._send({"do": "index", "files": [str(file) for file in files], "language": language})
        return self._receive()

    def ask(self, questions: Sequence[str], *, num_at_once: int) -> list[PeerAnswer]:
        """In no order."""
        self._send({"do": "ask", "questions": list(questions), "num_at_once": num_at_once})
        received: list[PeerAnswer] = []
        while message := self._receive():
            received.append(PeerAnswer(**message))
        return received

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._died() from error

    def _receive(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        message: dict[str, Any] = json.loads(line)
        return message

    def _died(self) -> Misconfigured:
        tail = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return Misconfigured(
            f"The peer {self.name} ended. Its log ends:\n" + "\n".join(tail),
            remedy=f"The whole log is in {self._log_path}.",
        )
