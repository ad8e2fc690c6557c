"""Leads in a real Valkey."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from storage.prefix_leads import Claim, PrefixLeads


@pytest.fixture
def leads(redis_url: str) -> Iterator[PrefixLeads]:
    found = PrefixLeads(redis_url, lease_seconds=0.4, held_seconds=0.6)
    yield found
    found.close()


def claim(leads: PrefixLeads, prefixes: list[str], owner: str) -> Claim:
    found = leads.claim(prefixes, owner)
    assert found is not None
    return found


def test_the_first_to_claim_leads_and_the_next_sees_it_up_to_where_they_part(leads: PrefixLeads) -> None:
    assert claim(leads, ["p1", "p2", "p3"], "one") == Claim(0, 0, "")
    second = claim(leads, ["p1", "p2", "q3"], "two")
    assert (second.num_held, second.num_led) == (0, 2)
    assert leads.is_led("p2", second.leader)
    third = claim(leads, ["p1", "p2", "q3", "q4"], "three")
    assert (third.num_led, third.leader == second.leader) == (3, False)


def test_what_was_computed_is_held_for_a_while(leads: PrefixLeads) -> None:
    claim(leads, ["p1", "p2"], "one")
    leads.mark_held(["p1", "p2"])
    assert claim(leads, ["p1", "p2", "p3"], "two") == Claim(2, 0, "")
    time.sleep(0.7)
    assert claim(leads, ["p1", "p2"], "three") == Claim(0, 0, "")


def test_what_is_given_up_is_free_and_takes_nothing_of_others_with_it(leads: PrefixLeads) -> None:
    claim(leads, ["p1"], "one")
    claim(leads, ["p1", "p2"], "two")
    leads.give_up(["p1", "p2"], "one")
    third = claim(leads, ["p2"], "three")
    assert (third.num_led, leads.is_led("p2", third.leader)) == (1, True)
    assert claim(leads, ["p1", "p2"], "two").num_led == 0


def test_nobody_follows_itself(leads: PrefixLeads) -> None:
    claim(leads, ["p1", "p2"], "one")
    assert claim(leads, ["p1", "p2"], "one") == Claim(0, 0, "")


def test_the_lead_of_a_process_that_died_expires_and_a_renewed_one_does_not(leads: PrefixLeads) -> None:
    claim(leads, ["p1"], "dead")
    claim(leads, ["q1"], "alive")
    for _ in range(3):
        time.sleep(0.2)
        leads.renew(["q1", "p9"], "alive")
    assert claim(leads, ["p1"], "next").num_led == 0
    assert claim(leads, ["q1"], "next").num_led == 1


def test_no_redis_costs_a_moment_once() -> None:
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        leads = PrefixLeads(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", patience_seconds=0.1)
        started = time.monotonic()
        assert leads.claim(["p1"], "one") is None
        assert time.monotonic() - started < 0.5
        started = time.monotonic()
        for _ in range(100):
            assert leads.claim(["p1"], "one") is None
            leads.mark_held(["p1"])
        assert time.monotonic() - started < 0.1
        leads.close()
