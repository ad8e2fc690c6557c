from __future__ import annotations

import pytest

from core.errors import InvalidInput, NotPermitted
from core.ids import KeyId, TenantId
from tenancy.principal import Principal, Scope, parse_scopes, require_scope


def principal(*scopes: Scope) -> Principal:
    return Principal(TenantId("ten_1"), KeyId("key_1"), frozenset(scopes))


@pytest.mark.parametrize("scope", list(Scope))
def test_a_scope_permits_itself_and_admin_permits_all(scope: Scope) -> None:
    require_scope(principal(scope), scope)
    require_scope(principal(Scope.ADMIN), scope)


def test_a_missing_scope_is_named() -> None:
    with pytest.raises(NotPermitted, match="key_1 lacks the scope 'ingest'") as caught:
        require_scope(principal(Scope.ASK, Scope.REPORTS), Scope.INGEST)
    assert caught.value.context["scope"] == "ingest"


def test_only_admin_permits_what_admin_does() -> None:
    with pytest.raises(NotPermitted, match="'admin'"):
        require_scope(principal(Scope.ASK, Scope.INGEST, Scope.REPORTS), Scope.ADMIN)


def test_scopes_are_known_by_name() -> None:
    assert parse_scopes(["ask", "reports", "ask"]) == {Scope.ASK, Scope.REPORTS}


@pytest.mark.parametrize("names", [[], ["ask", "提问"], ["ADMIN"], [""]])
def test_unknown_scopes_or_none_are_refused_and_the_known_ones_listed(names: list[str]) -> None:
    with pytest.raises(InvalidInput, match="ask, ingest, reports, admin"):
        parse_scopes(names)
