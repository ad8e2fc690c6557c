"""One job's events over a connection that may break."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import cast

import httpx
from httpx_sse import EventSource, SSEError

from client.problems import UnreachableError, raise_for_problem
from client.records import FINAL_JOB_STATUSES, Job

_MAX_BREAKS = 6


class JobWatch:
    """Follows a job, and comes back with `Last-Event-ID` until it has ended.

    Args:
        http: the client to send with.
        read_timeout: seconds of silence that count as a break; heartbeats come every 15.
        first_pause_seconds: after the first break; each pause is twice the last.
    """

    def __init__(self, http: httpx.Client, *, read_timeout: float, first_pause_seconds: float = 0.2) -> None:
        self._http = http
        self._timeout = httpx.Timeout(10.0, read=read_timeout)
        self._first_pause_seconds = first_pause_seconds
        self._last_event_id = ""
        self._num_breaks = 0

    def follow(self, job_id: str) -> Iterator[Job]:
        """The job as it stands, then whenever it has changed, last as it ended."""
        while True:
            try:
                for job in self._read(job_id):
                    yield job
                    if job["status"] in FINAL_JOB_STATUSES:
                        return
                reason = "the stream ended early"
            except (httpx.TransportError, SSEError) as error:
                reason = str(error) or type(error).__name__
            self._num_breaks += 1
            if self._num_breaks > _MAX_BREAKS:
                raise UnreachableError(f"The connection broke {self._num_breaks} times: {reason}.")
            time.sleep(self._first_pause_seconds * 2 ** (self._num_breaks - 1))

    def _read(self, job_id: str) -> Iterator[Job]:
        headers = {"Accept": "text/event-stream"}
        if self._last_event_id:
            headers["Last-Event-ID"] = self._last_event_id
        path = f"/v1/jobs/{job_id}/events"
        with self._http.stream("GET", path, headers=headers, timeout=self._timeout) as response:
            if not response.is_success:
                response.read()
                raise_for_problem(response)
            for message in EventSource(response).iter_sse():
                self._last_event_id, self._num_breaks = message.id, 0
                yield cast(Job, json.loads(message.data))
