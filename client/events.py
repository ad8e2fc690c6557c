"""What a streamed answer says on its way, as types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from client.problems import problem_from_body
from client.records import Answer, Passage


@dataclass(frozen=True, slots=True)
class Accepted:
    """The question is in the queue."""

    answer_id: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Started:
    """A worker has taken it up."""

    attempt: int


@dataclass(frozen=True, slots=True)
class PassagesFound:
    """What the answer will rest on, best first."""

    passages: list[Passage]


@dataclass(frozen=True, slots=True)
class Delta:
    """More text."""

    text: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """The work was interrupted and began again: throw away the text so far."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Done:
    """The final answer; its text is the truth, with citations checked."""

    answer: Answer


AskEvent = Accepted | Started | PassagesFound | Delta | Restarted | Done


def parse_event(name: str, data: Mapping[str, Any]) -> AskEvent | None:
    """The event as a type; None for a kind that a newer server may send.

    Raises:
        ProblemError: the event is `error`.
    """
    match name:
        case "accepted":
            return Accepted(answer_id=data["answer_id"], job_id=data["job_id"])
        case "started":
            return Started(attempt=int(data.get("attempt", 1)))
        case "passages":
            return PassagesFound(passages=list(data["passages"]))
        case "delta":
            return Delta(text=data["text"])
        case "restart":
            return Restarted(attempt=int(data.get("attempt", 1)))
        case "done":
            return Done(answer=cast(Answer, data))
        case "error":
            raise problem_from_body(data)
        case _:
            return None
