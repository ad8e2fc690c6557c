from __future__ import annotations

import pytest

from core.errors import InvalidInput
from core.settings import WebhookSettings
from tenancy.webhooks.addresses import AddressPolicy, UnknownHost, is_public

PUBLIC = "93.184.216.34"


def policy(*addresses: str, allowed: tuple[str, ...] = ()) -> AddressPolicy:
    """One whose every name leads to these addresses."""
    return AddressPolicy(allowed_hosts=frozenset(allowed), resolve=lambda host, port: addresses)


@pytest.mark.parametrize(
    "address", [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_addresses_of_the_internet_at_large_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "100.64.0.1",
        "100.100.100.200",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)
def test_what_only_this_network_can_reach_is_not_public_however_it_is_wrapped(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "url", ["https://example.com/hook?x=1", "http://example.com", "https://例子.中国/钩"]
)
def test_web_addresses_are_taken(url: str) -> None:
    assert policy(PUBLIC).addresses(policy().parse(url)) == (PUBLIC,)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.com/", "http://"),
        ("example.com/hook", "http://"),
        ("https://", "host"),
        ("https://me:secret@example.com/", "password"),
        ("http://example.com:25/", "port 25"),
        ("http://example.com:99999/", "port 99999"),
        ("http://example.com:0/", "port 0"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com/" + "x" * 2000, "longer"),
        ("https://[1::/", "not a URL"),
    ],
)
def test_other_urls_are_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        policy().parse(url)
    assert "secret" not in str(caught.value)


def test_a_name_that_leads_inside_is_refused_even_beside_a_public_address() -> None:
    with pytest.raises(InvalidInput, match=r"rebound.example leads to 127\.0\.0\.1"):
        policy(PUBLIC, "127.0.0.1").addresses(policy().parse("https://rebound.example/"))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "2130706433", "0x7f.1", "localhost"])
def test_this_machine_is_refused_in_every_spelling(host: str) -> None:
    real = AddressPolicy()
    with pytest.raises(InvalidInput, match="not a public address"):
        real.addresses(real.parse(f"http://{host}/"))


def test_a_name_without_an_address_is_told_apart() -> None:
    def nowhere(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(UnknownHost, match="has no address"):
        AddressPolicy(resolve=nowhere).addresses(policy().parse("https://nowhere.example/"))


def test_an_operator_exempts_hosts_or_all() -> None:
    settings = WebhookSettings(allowed_hosts=["Inside.example"])
    inside = AddressPolicy.of(settings)
    inside = AddressPolicy(allowed_hosts=inside.allowed_hosts, resolve=lambda host, port: ["10.0.0.1"])
    assert inside.addresses(inside.parse("http://inside.example:99/")) == ["10.0.0.1"]
    with pytest.raises(InvalidInput):
        inside.addresses(inside.parse("http://other.example/"))
    everywhere = AddressPolicy(allow_private=True, resolve=lambda host, port: ["10.0.0.1"])
    assert everywhere.addresses(everywhere.parse("http://other.example:99/")) == ["10.0.0.1"]
