"""The caller, once authenticated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from core.errors import InvalidInput, NotPermitted
from core.ids import KeyId, TenantId


class Scope(StrEnum):
    """What a key may be used for. `admin` implies the others."""

    ASK = "ask"
    INGEST = "ingest"
    REPORTS = "reports"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """A tenant, the key that speaks for it, and what the key may do."""

    tenant_id: TenantId
    key_id: KeyId
    scopes: frozenset[Scope]

    def has(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


def require_scope(principal: Principal, scope: Scope) -> None:
    """Raises `NotPermitted`, naming the scope, unless the key has it or is an admin's."""
    if not principal.has(scope):
        raise NotPermitted(
            f"Key {principal.key_id} lacks the scope {scope.value!r}.",
            remedy=f"Use a key with the scope {' or '.join(dict.fromkeys([scope.value, 'admin']))}.",
            key_id=principal.key_id,
            scope=scope.value,
        )


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes by their names.

    Raises:
        InvalidInput: a name is unknown, or there is none.
    """
    names = list(names)
    known = ", ".join(scope.value for scope in Scope)
    for name in names:
        if name not in {scope.value for scope in Scope}:
            raise InvalidInput(f"There is no scope {name!r}.", remedy=f"The scopes are {known}.", scope=name)
    if not names:
        raise InvalidInput("A key needs at least one scope.", remedy=f"The scopes are {known}.")
    return frozenset(Scope(name) for name in names)
