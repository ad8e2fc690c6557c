"""One answer's events over a connection that may break."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError

from client.events import Accepted, AskEvent, Done, parse_event
from client.problems import UnreachableError, raise_for_problem, unreachable

_MAX_BREAKS = 6
_FIRST_PAUSE_SECONDS = 0.2  # 12 s in all, long enough for an API that is being restarted


class AnswerStream:
    """Asks, follows, and comes back with `Last-Event-ID` until the answer is done.

    Args:
        http: the client to send with.
        read_timeout: seconds of silence that count as a break; heartbeats come every 15.
        first_pause_seconds: after the first break; each pause is twice the last.
    """

    def __init__(
        self,
        http: httpx.Client,
        *,
        read_timeout: float,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ) -> None:
        self._http = http
        self._first_pause_seconds = first_pause_seconds
        self._timeout = httpx.Timeout(10.0, read=read_timeout)
        self._answer_id = ""
        self._last_event_id = ""
        self._num_breaks = 0

    def ask(self, path: str, body: dict[str, Any]) -> Iterator[AskEvent]:
        """Post the question and yield events; ends after `Done`.

        The same idempotency key goes with every try, so a question whose connection broke before
        it was accepted is not asked twice.
        """
        headers = {"Accept": "text/event-stream", "Idempotency-Key": str(uuid.uuid4())}
        while True:
            if self._answer_id:
                request = self._resume_request()
            else:
                request = self._http.build_request(
                    "POST", path, json=body, headers=headers, timeout=self._timeout
                )
            try:
                for event in self._follow(request):
                    yield event
                    if isinstance(event, Done):
                        return
                reason = "the stream ended early"
            except httpx.ConnectError as error:
                if not self._answer_id:
                    raise unreachable(str(self._http.base_url), error) from error
                reason = str(error)
            except (httpx.TransportError, SSEError) as error:
                reason = str(error) or type(error).__name__
            self._pause_after_break(reason)

    def _resume_request(self) -> httpx.Request:
        headers = {"Accept": "text/event-stream"}
        if self._last_event_id:
            headers["Last-Event-ID"] = self._last_event_id
        path = f"/v1/answers/{self._answer_id}/events"
        return self._http.build_request("GET", path, headers=headers, timeout=self._timeout)

    def _follow(self, request: httpx.Request) -> Iterator[AskEvent]:
        response = self._http.send(request, stream=True)
        try:
            if not response.is_success:
                response.read()
                raise_for_problem(response)
            for message in EventSource(response).iter_sse():
                event = self._receive(message)
                if event is not None:
                    yield event
        finally:
            response.close()

    def _receive(self, message: ServerSentEvent) -> AskEvent | None:
        event = parse_event(message.event, json.loads(message.data or "{}"))
        if message.id:
            self._last_event_id = message.id
            self._num_breaks = 0
        if isinstance(event, Accepted):
            if self._answer_id:
                return None
            self._answer_id = event.answer_id
        return event

    def _pause_after_break(self, reason: str) -> None:
        self._num_breaks += 1
        if self._num_breaks > _MAX_BREAKS:
            about = f" Its answer is {self._answer_id}." if self._answer_id else ""
            raise UnreachableError(
                f"The connection to {self._http.base_url} broke {self._num_breaks} times: {reason}.{about}"
            )
        time.sleep(self._first_pause_seconds * 2 ** (self._num_breaks - 1))
