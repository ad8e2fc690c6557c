"""What tests of every kind share."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

import inference

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def model_cache() -> Path:
    """Where packaged models are prepared once, and anew when the code that prepares them changes."""
    folder = ROOT / ".cache" / "models"
    stamp, code = folder / "code", _preparing_code()
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not stamp.is_file() or stamp.read_text() != code:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            stamp.write_text(code)
    return folder


def _preparing_code() -> str:
    """A hash of the modules that shape a prepared folder."""
    whole = hashlib.sha256()
    for pattern in ("packed_*.py", "packed_*/*.py", "prepare.py", "manifest.py", "openvino_encoder.py"):
        for path in sorted(Path(inference.__file__).parent.glob(pattern)):
            whole.update(path.read_bytes())
    return whole.hexdigest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of an engine first, since they take longest."""
    items.sort(key=lambda item: not _starts_engines(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> EnginesInTurn:
    return EnginesInTurn(config, log)


class EnginesInTurn(LoadFileScheduling):
    """Files are spread over the processes, but one of them runs all that start engines, one after the other.

    xdist's own groups are lost with pytest 9.2, which no longer reads what they write.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "engines" if _starts_engines(nodeid) else str(super()._split_scope(nodeid))


def _starts_engines(nodeid: str) -> bool:
    return nodeid.partition("::")[0].endswith("_vllm.py")
