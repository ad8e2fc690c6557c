"""One embedded stack with the real vLLM server for the whole session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from client import LongleafClient
from core.settings import load_settings
from embedded.home import with_free_ports
from embedded.stack import EmbeddedStack
from storage.database import Database

SAMPLES = Path(__file__).resolve().parent.parent / "samples" / "demo"


@pytest.fixture(scope="session")
def stack(model_cache: Path) -> Iterator[EmbeddedStack]:
    # A short path: pytest's own folders are too deep for Valkey's unix socket.
    with tempfile.TemporaryDirectory(prefix="longleaf-", ignore_cleanup_errors=True) as home:
        settings = with_free_ports(load_settings(home=Path(home), model_cache=model_cache))
        with EmbeddedStack(settings) as running:
            yield running


@pytest.fixture
def client(stack: EmbeddedStack) -> Iterator[LongleafClient]:
    with LongleafClient(stack.url, stack.key) as connected:
        yield connected


@pytest.fixture
def database(stack: EmbeddedStack) -> Iterator[Database]:
    """The stack's own database, to look into."""
    opened = Database(stack.settings.resolved_database_url)
    yield opened
    opened.dispose()


@pytest.fixture(scope="session")
def samples() -> list[Path]:
    """The project's own documents, English and Chinese."""
    return sorted(path for path in SAMPLES.iterdir() if path.is_file())
