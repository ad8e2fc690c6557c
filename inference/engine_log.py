"""The engine's log file: rotated at each start, followed for progress, quoted in errors."""

from __future__ import annotations

import re
from pathlib import Path

_NUM_KEPT = 3

# What vLLM 0.32 writes while it starts, and what it means to someone who waits.
_MILESTONES = (
    (re.compile(r"  version (\d\S+)"), "vLLM {0}"),
    (re.compile(r"Initializing a V1 LLM engine"), "starting the engine core"),
    (re.compile(r"(?:Starting to load model|Loading model from)"), "loading the model"),
    (re.compile(r"Loading weights took ([\d.]+) seconds"), "weights loaded in {0} s"),
    (re.compile(r"(?:Dynamo bytecode|Compiling a graph|Warming up model)"), "compiling, which takes minutes"),
    (re.compile(r"KV cache size: ([\d,]+) tokens"), "room for {0} tokens in the KV cache"),
    (re.compile(r"init engine .* took ([\d.]+) s"), "engine initialized in {0} s"),
)


def rotate_log(path: Path) -> None:
    """Move `engine.log` to `engine.log.1`, that to `.2`, and so on; the oldest is dropped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(_NUM_KEPT - 1, 0, -1):
        source = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        if source.exists():
            source.replace(path.with_name(f"{path.name}.{number}"))


def read_tail(path: Path, *, num_lines: int = 15) -> str:
    """The last lines of a log; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16_384))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(lines[-num_lines:])


class LogFollower:
    """Reads what is appended to a log and gives back its milestones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._last = ""

    def milestones(self) -> list[str]:
        """What has been reached since the last call, in words, repetitions left out."""
        found = []
        for line in self._new_lines():
            message = describe_progress(line)
            if message and message != self._last:
                self._last = message
                found.append(message)
        return found

    def _new_lines(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                complete, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(complete) + len(newline)
        return complete.decode("utf-8", errors="replace").splitlines()


def describe_progress(line: str) -> str | None:
    """What a line of vLLM's log tells someone who waits for it to start; None for most lines."""
    for pattern, words in _MILESTONES:
        if match := pattern.search(line):
            return words.format(*match.groups())
    return None
