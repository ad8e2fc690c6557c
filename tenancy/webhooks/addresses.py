"""Where webhooks may be sent: to the outside, never to what only this machine can reach."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx

from core.errors import InvalidInput
from core.settings import WebhookSettings

MAX_URL_LENGTH = 2000
_WEB_PORTS = frozenset({80, 443})
_FREE_PORTS = range(1024, 65536)
_NAT64 = IPv6Network("64:ff9b::/96")
_PLATFORMS = frozenset({IPv4Address("168.63.129.16")})
"""Addresses that look public and yet are a cloud's own service to the machines in it."""

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host's name. Raises `OSError` where it has none."""


class UnknownHost(InvalidInput):
    code = "unknown_host"
    title = "The host has no address"


def resolve_host(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What a tenant may name as a receiver; `allowed_hosts` are exempt, as the operator wants it."""

    allow_private: bool = False
    allowed_hosts: frozenset[str] = frozenset()
    resolve: Resolve = resolve_host

    @classmethod
    def of(cls, settings: WebhookSettings) -> AddressPolicy:
        allowed = frozenset(host.lower() for host in settings.allowed_hosts)
        return cls(allow_private=settings.allow_private, allowed_hosts=allowed)

    def parse(self, url: str) -> httpx.URL:
        """The URL in its plain spelling.

        Raises:
            InvalidInput: it is no http(s) URL, carries a password, or names a port that is not for the web.
        """
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise _refused("this", "it is not a URL") from error  # not shown: it may hold a password
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise _refused("this", "it does not begin with http:// or https:// and a host")
        if parsed.userinfo:
            raise _refused(
                f"{parsed.scheme}://…@{parsed.host}",
                "it carries a user or password; the signature is the proof",
            )
        if parsed.fragment or len(str(parsed)) > MAX_URL_LENGTH:
            raise _refused(parsed.host, f"it has a fragment, or is longer than {MAX_URL_LENGTH} characters")
        port = port_of(parsed)
        if not (port in _WEB_PORTS or port in _FREE_PORTS or self._is_exempt(parsed)):
            raise _refused(parsed.host, f"port {port} is neither 80, 443 nor from 1024 to 65535")
        return parsed

    def addresses(self, url: httpx.URL) -> Sequence[str]:
        """The IP addresses to connect to, all of them allowed; connect to these and to no others.

        Raises:
            UnknownHost: its name leads nowhere at present.
            InvalidInput: its name leads to an address that is not a public one.
        """
        try:
            found = self.resolve(url.raw_host.decode(), port_of(url))
        except (OSError, UnicodeError) as error:
            raise UnknownHost(
                f"{url.host} has no address: {error}.", remedy="Check the name in the webhook's URL."
            ) from error
        if self._is_exempt(url):
            return found
        for address in found:
            if not is_public(address):
                raise _refused(str(url), f"{url.host} leads to {address}, which is not a public address")
        return found

    def _is_exempt(self, url: httpx.URL) -> bool:
        return self.allow_private or url.host.lower() in self.allowed_hosts


def port_of(url: httpx.URL) -> int:
    return (443 if url.scheme == "https" else 80) if url.port is None else url.port


def is_public(address: str) -> bool:
    """Whether an address is one of the internet's at large, however it is wrapped."""
    inner = _unwrapped(ip_address(address))
    is_special = inner.is_multicast or inner.is_reserved or inner in _PLATFORMS
    if isinstance(inner, IPv6Address):
        is_special = is_special or inner.is_site_local
    return inner.is_global and not is_special


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one that only carries it."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address


def _refused(url: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"A webhook cannot be sent to {url}: {why}.",
        remedy="Give a public http(s) address. An operator can exempt hosts by LONGLEAF_WEBHOOKS__ALLOWED_HOSTS.",
    )
