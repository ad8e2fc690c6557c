"""The data folder before anything runs in it: made, locked, its database and keys in order."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sqlalchemy.orm import Session

from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from core.clock import utc_now
from core.errors import Conflict, Misconfigured, NotAuthenticated
from core.ids import TenantId
from core.settings import Settings
from embedded.credentials import Credentials, find_credentials, save_credentials
from storage.database import Database
from storage.migrate import upgrade
from tenancy.keys import authenticate, issue_key
from tenancy.principal import Scope
from tenancy.tenants import ensure_default_tenant

# The kernel's limit for the path of a unix socket is 108 bytes on Linux and 104 on macOS.
_MAX_SOCKET_PATH_BYTES = 100


def make_home(settings: Settings) -> None:
    """Create the data folder and what belongs in it.

    Raises:
        Misconfigured: it cannot be written, or its path is too long for a unix socket.
    """
    socket_path = settings.valkey_socket
    if len(os.fsencode(socket_path)) > _MAX_SOCKET_PATH_BYTES:
        raise Misconfigured(
            f"The path {socket_path} is too long for a unix socket.",
            remedy="Choose a shorter data folder with --home or LONGLEAF_HOME.",
        )
    try:
        # It holds tenants' documents: nobody else on the machine may read it.
        settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (settings.log_dir, socket_path.parent):
            folder.mkdir(exist_ok=True)
        socket_path.parent.chmod(0o700)
    except OSError as error:
        raise Misconfigured(
            f"The data folder {settings.root} cannot be used: {error.strerror}.",
            remedy="Choose another with --home or LONGLEAF_HOME.",
        ) from error


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the data folder; the system lets go of it however this process ends.

    Raises:
        Conflict: another `longleaf up` holds it; the message has its process id.
    """
    path = home / "run" / "up.lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _held(home, file) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _held(home: Path, file: IO[str]) -> Conflict:
    file.seek(0)
    holder = file.read().strip() or "unknown"
    return Conflict(
        f"Longleaf already runs on {home} (process {holder}).",
        remedy="Use that one, stop it, or choose another folder with --home and other ports.",
        pid=holder,
    )


def require_free_port(host: str, port: int, *, variable: str) -> None:
    """Raise `Misconfigured` where nothing can listen on the port; `variable` chooses another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server will: connections of one just stopped do not count as in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Misconfigured(
                f"Port {port} on {host} cannot be listened on: {error.strerror}.",
                remedy=f"Stop what uses it, or choose another with {variable}.",
                port=port,
            ) from error


def find_free_port(host: str, *, preferred: int) -> int:
    """`preferred` where it is free, else a free one that the system picks."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (preferred, 0):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Misconfigured(
        f"No port on {host} is free.", remedy="Set LONGLEAF_API_HOST to an address of this machine."
    )


def with_free_ports(settings: Settings) -> Settings:
    """The same settings, with other ports where the usual ones are taken."""
    engine = settings.engine
    return settings.model_copy(
        update={
            "api_port": find_free_port(settings.api_host, preferred=settings.api_port),
            "engine": engine.model_copy(update={"port": find_free_port(engine.host, preferred=engine.port)}),
        }
    )


def prepare_database(settings: Settings) -> tuple[Credentials, bool]:
    """Migrate, make the default tenant, load the prices; credentials, and whether they are new.

    A saved key that the database does not know (a new database, a revoked key) is replaced.
    """
    database = Database(settings.resolved_database_url)
    try:
        database.ping()
        upgrade(database)
        with database.write() as session:
            tenant_id = TenantId(ensure_default_tenant(session, now=utc_now()).id)
            sync_price_book(session, load_price_book(settings.price_book), now=utc_now())
            credentials, is_new = _credentials(session, tenant_id, settings)
        # After the commit: a saved key must be one that the database knows.
        save_credentials(credentials, settings.root)
        return credentials, is_new
    finally:
        database.dispose()


def _credentials(session: Session, tenant_id: TenantId, settings: Settings) -> tuple[Credentials, bool]:
    saved = find_credentials(settings.root)
    if saved is not None and _is_valid(session, saved, tenant_id):
        return Credentials(url=settings.api_url, key=saved.key, tenant_id=tenant_id), False
    issued = issue_key(
        session, tenant_id, name="longleaf up", scopes=[scope.value for scope in Scope], now=utc_now()
    )
    return Credentials(url=settings.api_url, key=issued.token, tenant_id=tenant_id), True


def _is_valid(session: Session, saved: Credentials, tenant_id: TenantId) -> bool:
    try:
        return authenticate(session, saved.key, now=utc_now()).tenant_id == tenant_id
    except NotAuthenticated:
        return False
