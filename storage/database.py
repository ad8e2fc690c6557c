"""The engine and its two kinds of transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from core.errors import Misconfigured

if TYPE_CHECKING:
    from storage.models import Job

_WAKE = "wake_relay"
_JOB_ENDED = "on_job_ended"

OnJobEnded = Callable[[Session, "Job"], None]
"""Does what is due when a job has ended, in the transaction that ends it."""


def request_wake(session: Session) -> None:
    """Ask that the relay be woken once this session's transaction has committed."""
    session.info[_WAKE] = True


def tell_job_ended(session: Session, job: Job) -> None:
    """Have done what the session's database was given for it; only `storage.job_states` calls it."""
    on_job_ended: OnJobEnded | None = session.info.get(_JOB_ENDED)
    if on_job_ended is not None:
        on_job_ended(session, job)


class Database:
    """Hands out sessions: `read()` to look, `write()` for one transaction.

    Args:
        url: SQLAlchemy URL; SQLite runs in WAL mode, PostgreSQL through psycopg 3.
        on_commit: called after a commit whose session asked for it by `request_wake`; it must not
            raise, since the work is already done and the relay sweeps what it missed.
        on_job_ended: called for every job that ends in one of `write()`'s transactions; what it
            raises undoes the end.
    """

    def __init__(
        self,
        url: str,
        *,
        on_commit: Callable[[], None] | None = None,
        on_job_ended: OnJobEnded | None = None,
    ) -> None:
        self.url = make_url(url)
        self._on_commit = on_commit
        self._on_job_ended = on_job_ended
        self.engine = _create(url)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session whose changes are thrown away. All that is read in it is of one moment.

        Otherwise an answer could be shown as it was before its job ended, together with the job that has ended.
        """
        with Session(self.engine, expire_on_commit=False) as session:
            if not self.is_sqlite:  # which has a snapshot in any case
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction: committed at the end of the block, rolled back on any exception."""
        with Session(self.engine, expire_on_commit=False, info={_JOB_ENDED: self._on_job_ended}) as session:
            if self.is_sqlite:
                # Take the write lock at once: upgrading a read lock later fails with
                # SQLITE_BUSY however long the busy timeout is.
                session.connection(execution_options={"longleaf_begin": "IMMEDIATE"})
            yield session
            session.commit()
            wake = session.info.pop(_WAKE, False)
        if wake and self._on_commit is not None:
            self._on_commit()

    def ping(self) -> None:
        """Raise `Misconfigured` unless the database answers."""
        try:
            with self.engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except OperationalError as error:
            raise Misconfigured(
                f"The database {self.url.render_as_string(hide_password=True)} does not answer.",
                remedy="Check LONGLEAF_DATABASE_URL and that the server runs.",
            ) from error

    def dispose(self) -> None:
        """Close all connections; call it in a child right after a fork."""
        self.engine.dispose()


def _create(url: str) -> Engine:
    # hide_parameters: an error's trace must not carry questions or document text into a log.
    parsed = make_url(url)
    if not parsed.drivername.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=20, hide_parameters=True)
    if parsed.database and parsed.database != ":memory:":
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        url, connect_args={"timeout": 30, "check_same_thread": False}, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # BEGIN is ours, below
        cursor = connection.cursor()  # type: ignore[attr-defined]
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: object) -> None:
        options = connection.get_execution_options()  # type: ignore[attr-defined]
        connection.exec_driver_sql(f"BEGIN {options.get('longleaf_begin', 'DEFERRED')}")  # type: ignore[attr-defined]

    return engine
