from __future__ import annotations

from api.received_text import ReceivedText


def delta(text: str, after: int) -> dict[str, object]:
    return {"text": text, "after": after}


def test_a_text_without_holes_is_passed_on() -> None:
    received = ReceivedText()
    assert [received.receive(delta("长江", 0)), received.receive(delta(" is", 2))] == ["pass", "pass"]


def test_a_hole_is_told_once_and_nothing_follows_until_the_next_attempt() -> None:
    received = ReceivedText()
    received.receive(delta("The", 0))
    verdicts = [received.receive(delta(" river", 9)), received.receive(delta(" is", 15))]
    assert verdicts == ["restart", "drop"]
    received.begin()
    assert received.receive(delta("The", 0)) == "pass"


def test_who_resumes_goes_on_where_they_were() -> None:
    assert ReceivedText(num_characters=3).receive(delta(" river", 3)) == "pass"
    assert ReceivedText(num_characters=3).receive(delta(" is", 9)) == "restart"


def test_who_resumes_from_an_event_that_is_gone_is_told_even_if_the_next_delta_would_fit() -> None:
    assert ReceivedText(has_gap=True).receive(delta("The", 0)) == "restart"


def test_deltas_that_do_not_say_where_they_stand_are_passed_on() -> None:
    assert ReceivedText().receive({"text": "x"}) == "pass"
