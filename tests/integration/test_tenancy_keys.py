from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from core.errors import Conflict, InvalidInput, KeyExpired, KeyRevoked, NotAuthenticated, NotFound
from core.ids import KeyId, TenantId
from storage.database import Database
from storage.models import ApiKey
from storage.paging import PageRequest
from tenancy.keys import IssuedKey, authenticate, get_key, issue_key, list_keys, revoke_key
from tenancy.principal import Principal, Scope
from tenancy.tenants import (
    create_tenant,
    ensure_default_tenant,
    find_tenant_by_name,
    get_tenant,
    list_tenants,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def new_tenant(database: Database, name: str = "松林") -> TenantId:
    with database.write() as session:
        return TenantId(create_tenant(session, name=name, now=NOW).id)


def issue(database: Database, tenant_id: TenantId, expires_at: datetime | None = None) -> IssuedKey:
    with database.write() as session:
        return issue_key(
            session, tenant_id, name="app", scopes=["ask", "ingest"], now=NOW, expires_at=expires_at
        )


def present(database: Database, token: str, *, now: datetime = NOW) -> Principal:
    with database.read() as session:
        return authenticate(session, token, now=now)


def test_a_key_speaks_for_its_tenant_with_its_scopes(database: Database) -> None:
    tenant_id = new_tenant(database)
    issued = issue(database, tenant_id)
    assert present(database, issued.token) == Principal(
        tenant_id, issued.key.id, frozenset({Scope.ASK, Scope.INGEST})
    )


def test_the_secret_is_neither_stored_nor_shown_again(database: Database) -> None:
    tenant_id = new_tenant(database)
    issued = issue(database, tenant_id)
    secret = issued.token.split("_")[2]
    with database.read() as session:
        row = session.scalars(select(ApiKey)).one()
        stored = [str(getattr(row, column.key)) for column in ApiKey.__table__.columns]
        listed = list_keys(session, tenant_id, PageRequest())
    assert not any(secret in value for value in stored)
    assert secret not in repr(issued)
    assert row.secret_hash not in repr(listed)
    assert listed.items == [issued.key]


def test_a_wrong_secret_and_an_unknown_prefix_are_refused_in_the_same_words(database: Database) -> None:
    token = issue(database, new_tenant(database)).token
    wrong_secret = token[:-1] + ("0" if token[-1] != "0" else "1")
    unknown_prefix = "ll_" + "0" * 12 + token[15:]
    messages = set()
    for presented in (wrong_secret, unknown_prefix, "nonsense"):
        with pytest.raises(NotAuthenticated) as caught:
            present(database, presented)
        assert type(caught.value) is NotAuthenticated
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize(
    "presented",
    [
        "",
        "ll_",
        "ll__",
        "sk-abc",
        "ll_short_short",
        "ll_" + "0" * 12 + "_",
        "ll_" + "0" * 12 + "_" + "0" * 53,
        "ll_" + "０" * 12 + "_" + "0" * 52,
        "ll_" + "0" * 12 + "_" + "0" * 52 + "\n",
        "ll_\x00",
        "钥匙",
        "ll_" + "' OR 1=1 --",
        "x" * 1_000_000,
    ],
)
def test_malformed_keys_are_refused(database: Database, presented: str) -> None:
    issue(database, new_tenant(database))
    with pytest.raises(NotAuthenticated):
        present(database, presented)


def test_a_key_expires_at_the_moment_it_says(database: Database) -> None:
    issued = issue(database, new_tenant(database), expires_at=NOW + DAY)
    present(database, issued.token, now=NOW + DAY - timedelta(microseconds=1))
    with pytest.raises(KeyExpired, match=f"{issued.key.id} expired at 2026-12-01"):
        present(database, issued.token, now=NOW + DAY)


def test_a_revoked_key_is_refused_and_revoking_again_changes_nothing(database: Database) -> None:
    tenant_id = new_tenant(database)
    issued = issue(database, tenant_id, expires_at=NOW + DAY)
    for moment in (NOW, NOW + DAY):
        with database.write() as session:
            revoked = revoke_key(session, tenant_id, issued.key.id, now=moment)
        assert revoked.revoked_at == NOW
    with pytest.raises(KeyRevoked, match="was revoked"):
        present(database, issued.token, now=NOW + 2 * DAY)


def test_that_a_key_was_revoked_is_told_only_to_who_has_its_secret(database: Database) -> None:
    tenant_id = new_tenant(database)
    issued = issue(database, tenant_id)
    with database.write() as session:
        revoke_key(session, tenant_id, issued.key.id, now=NOW)
    with pytest.raises(NotAuthenticated) as caught:
        present(database, issued.token[:16] + "0" * 52)
    assert type(caught.value) is NotAuthenticated


def test_another_tenants_key_does_not_exist(database: Database) -> None:
    ours, theirs = new_tenant(database, "ours"), new_tenant(database, "theirs")
    key_id = issue(database, theirs).key.id
    with database.write() as session:
        with pytest.raises(NotFound):
            revoke_key(session, ours, key_id, now=NOW)
        with pytest.raises(NotFound):
            get_key(session, ours, key_id)
        assert list_keys(session, ours, PageRequest()).items == []
        assert get_key(session, theirs, key_id).revoked_at is None


@pytest.mark.parametrize(
    ("name", "scopes", "expires_at"),
    [
        ("", ["ask"], None),
        ("  ", ["ask"], None),
        ("a\nb", ["ask"], None),
        ("长" * 201, ["ask"], None),
        ("app", [], None),
        ("app", ["root"], None),
        ("app", ["ask"], NOW),
        ("app", ["ask"], datetime(2027, 1, 1)),
    ],
)
def test_a_key_that_makes_no_sense_is_not_issued(
    database: Database, name: str, scopes: list[str], expires_at: datetime | None
) -> None:
    tenant_id = new_tenant(database)
    with database.write() as session:
        with pytest.raises(InvalidInput):
            issue_key(session, tenant_id, name=name, scopes=scopes, now=NOW, expires_at=expires_at)
        assert list_keys(session, tenant_id, PageRequest()).items == []


def test_keys_list_by_pages(database: Database) -> None:
    tenant_id = new_tenant(database)
    issued = {issue(database, tenant_id).key.id for _ in range(5)}
    seen: list[KeyId] = []
    cursor = None
    with database.read() as session:
        while True:
            page = list_keys(session, tenant_id, PageRequest(limit=2, cursor=cursor))
            seen += [key.id for key in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
    assert len(seen) == 5
    assert set(seen) == issued


def test_a_scope_of_a_newer_version_grants_nothing(database: Database) -> None:
    issued = issue(database, new_tenant(database))
    with database.write() as session:
        session.scalars(select(ApiKey)).one().scopes = ["ask", "teleport"]
    assert present(database, issued.token).scopes == {Scope.ASK}


def test_tenants_are_found_by_id_and_by_name(database: Database) -> None:
    tenant_id = new_tenant(database, "松林图书馆")
    with database.read() as session:
        assert get_tenant(session, tenant_id).name == "松林图书馆"
        found = find_tenant_by_name(session, "松林图书馆")
        assert found is not None
        assert found.id == tenant_id
        assert find_tenant_by_name(session, "nobody") is None
        assert [tenant.id for tenant in list_tenants(session, PageRequest()).items] == [tenant_id]
        with pytest.raises(NotFound, match="ten_nobody"):
            get_tenant(session, TenantId("ten_nobody"))


def test_a_tenants_name_is_its_own(database: Database) -> None:
    new_tenant(database, "ours")
    with pytest.raises(Conflict, match="'ours' exists already"):
        new_tenant(database, "ours")


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "名" * 201])
def test_a_tenant_needs_a_name_one_can_read(database: Database, name: str) -> None:
    with pytest.raises(InvalidInput):
        new_tenant(database, name)


def test_the_default_tenant_is_made_once(database: Database) -> None:
    ids = set()
    for _ in range(2):
        with database.write() as session:
            ids.add(ensure_default_tenant(session, now=NOW).id)
    assert len(ids) == 1
