"""What tests of every kind share."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from pathlib import Path

import pytest

import inference

ROOT = Path(__file__).resolve().parent.parent
ENGINE_TESTS = "engine"
"""The group of all tests that start an engine: one process runs them, one after the other."""


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


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of an engine first, since they take longest; each other file is a group of its own."""
    for item in items:
        group = ENGINE_TESTS if item.get_closest_marker("engine") else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("engine") is None)
