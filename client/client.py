"""`LongleafClient`: one method per thing the API does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast

import httpx

from client.events import AskEvent
from client.job_watch import JobWatch
from client.problems import (
    ProblemError,
    UnreachableError,
    problem_from_body,
    raise_for_problem,
    unreachable,
)
from client.records import (
    FINAL_JOB_STATUSES,
    Answer,
    AnswerMode,
    Batch,
    Budget,
    Collection,
    Conversation,
    Delivery,
    Document,
    DocumentPage,
    Evaluation,
    Extraction,
    Job,
    Queue,
    Quote,
    Schedule,
    ScheduleRun,
    Slot,
    StoredReport,
    Summary,
    Webhook,
)
from client.streaming import AnswerStream
from client.uploads import OnBytes, UploadedBatch, open_parts, plan_batches
from client.webhooks import verify_webhook

_POLL_SECONDS = 0.3
_STORED_REPORTS = "/v1/reports/costs/stored"
_FIRST_POLL_SECONDS = 0.02  # many jobs end at once, as an upload of known files does
_SERVER_WAIT_SECONDS = 60.0
_UPLOAD_TIMEOUT_SECONDS = 600.0
_PATIENCE_SECONDS = 20.0
_BATCH_TIMEOUT_SECONDS = 120.0  # fifty thousand questions are looked at before the answer comes
_COMPARE_TIMEOUT_SECONDS = 120.0  # thousands of questions are drawn thousands of times

Result = TypeVar("Result")


class LongleafClient:
    """Synchronous; use it as a context manager, or call `close`. Not shared between threads.

    Args:
        url: root of the server, such as `http://127.0.0.1:8410`.
        key: an API key, `ll_...`.
        timeout: seconds of silence after which a request is given up.
        transport: how requests travel; the network by default.

    Every method raises `ProblemError` when the server refuses, `UnreachableError` when nobody answers.
    """

    def __init__(
        self,
        url: str,
        key: str,
        timeout: float = 30.0,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout,
            transport=transport,
            # uvicorn closes a connection idle for 5 s; ours must be dropped before it does.
            limits=httpx.Limits(keepalive_expiry=4.0),
            trust_env=not _is_local(self.url),  # a proxy cannot reach this machine's own addresses
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Collections

    def create_collection(self, name: str) -> Collection:
        return cast(Collection, self._json("POST", "/v1/collections", json={"name": name}))

    def get_collection(self, collection_id: str) -> Collection:
        return cast(Collection, self._json("GET", f"/v1/collections/{collection_id}"))

    def list_collections(self) -> Iterator[Collection]:
        """All of them, oldest first; pages are fetched as they are needed."""
        yield from cast(Iterator[Collection], self._items("/v1/collections"))

    def find_collection_by_name(self, name: str) -> Collection | None:
        return next((found for found in self.list_collections() if found["name"] == name), None)

    def get_or_create_collection(self, name: str) -> Collection:
        """The tenant's collection of that name; safe when two callers ask at once."""
        found = self.find_collection_by_name(name)
        if found is not None:
            return found
        try:
            return self.create_collection(name)
        except ProblemError as problem:
            found = self.find_collection_by_name(name) if problem.status == 409 else None
            if found is None:
                raise
            return found

    def delete_collection(self, collection_id: str) -> None:
        self._send("DELETE", f"/v1/collections/{collection_id}")

    # Documents

    def upload(
        self,
        collection_id: str,
        paths: Sequence[Path],
        *,
        tags: Sequence[str] = (),
        on_bytes: OnBytes | None = None,
    ) -> list[UploadedBatch]:
        """Send files, in requests of at most 50 files or 200 MB; one ingest job per request.

        Files are read while they are sent and never held in memory. Each document gets the `tags`,
        in addition to those that it has. The jobs run on after this returns: see `wait_for_job`.

        Raises:
            OSError: a file cannot be read.
        """
        return [self._upload_batch(collection_id, batch, tags, on_bytes) for batch in plan_batches(paths)]

    def _upload_batch(
        self, collection_id: str, paths: tuple[Path, ...], tags: Sequence[str], on_bytes: OnBytes | None
    ) -> UploadedBatch:
        with ExitStack() as stack:
            body = self._json(
                "POST",
                f"/v1/collections/{collection_id}/documents",
                data={"tags": list(tags)} if tags else None,  # sent first: a bad one is refused at once
                files=open_parts(paths, stack, on_bytes),
                headers={"Idempotency-Key": str(uuid.uuid4())},
                timeout=max(self._timeout, _UPLOAD_TIMEOUT_SECONDS),
            )
        return UploadedBatch(paths=paths, job=body["job"], files=body["files"])

    def list_documents(
        self,
        collection_id: str,
        *,
        status: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
    ) -> Iterator[Document]:
        """Oldest first; with `tags`, those that have any of them."""
        params = {"status": status, "name": name, "tag": list(tags) or None}
        yield from cast(Iterator[Document], self._items(f"/v1/collections/{collection_id}/documents", params))

    def get_document(self, document_id: str) -> Document:
        return cast(Document, self._json("GET", f"/v1/documents/{document_id}"))

    def read_document_text(self, document_id: str, *, start: int, end: int) -> str:
        """Characters `start` to `end` of the text that citations count in."""
        body = self._json("GET", f"/v1/documents/{document_id}/text", params={"start": start, "end": end})
        return str(body["text"])

    def set_document_tags(self, document_id: str, tags: Sequence[str]) -> Document:
        """Replace the document's tags by these; none takes all off."""
        return cast(Document, self._json("PATCH", f"/v1/documents/{document_id}", json={"tags": list(tags)}))

    def set_document_static(self, document_id: str, *, static: bool = True) -> Document:
        """Have what the engine computes of the document kept across restarts, or no longer."""
        return cast(Document, self._json("PATCH", f"/v1/documents/{document_id}", json={"static": static}))

    def get_document_page(self, document_id: str, number: int) -> DocumentPage:
        """Page `number`, from 1, with its text; formats without pages have one."""
        return cast(DocumentPage, self._json("GET", f"/v1/documents/{document_id}/pages/{number}"))

    def get_page_picture(
        self, document_id: str, number: int, *, answer_id: str | None = None, width: int | None = None
    ) -> bytes:
        """PNG of a PDF's page, `width` pixels wide, with what the answer cites of it marked."""
        params = _given({"answer": answer_id, "width": width})
        return self._send("GET", f"/v1/documents/{document_id}/pages/{number}.png", params=params).content

    def delete_document(self, document_id: str) -> None:
        self._send("DELETE", f"/v1/documents/{document_id}")

    # Jobs

    def get_job(self, job_id: str) -> Job:
        return cast(Job, self._json("GET", f"/v1/jobs/{job_id}"))

    def list_jobs(
        self, *, status: str | None = None, kind: str | None = None, parked: bool = False
    ) -> Iterator[Job]:
        """Newest first; `parked`: only those given up because their workers died or crashed each time."""
        wanted = {"status": status, "kind": kind, "parked": "true" if parked else None}
        yield from cast(Iterator[Job], self._items("/v1/jobs", wanted))

    def watch_job(self, job_id: str) -> Iterator[Job]:
        """The job as it stands, then whenever it has changed, last as it ended."""
        return JobWatch(self._http, read_timeout=max(self._timeout, 60.0)).follow(job_id)

    def retry_job(self, job_id: str) -> Job:
        """Try a job again that failed or was cancelled; see `wait_for_job`."""
        return cast(Job, self._json("POST", f"/v1/jobs/{job_id}/retry"))

    # ---- queues --------------------------------------------------------------------------

    def list_queues(self) -> list[Queue]:
        """For the operator."""
        return cast(list[Queue], self._json("GET", "/v1/queues")["items"])

    def pause_queue(self, name: str, *, tenant_id: str | None = None, reason: str = "") -> Queue:
        """Have no job of the queue begin, or none of one tenant. For the operator."""
        body = {"tenant_id": tenant_id, "reason": reason}
        return cast(Queue, self._json("POST", f"/v1/queues/{name}/pause", json=body))

    def resume_queue(self, name: str, *, tenant_id: str | None = None) -> Queue:
        """Undo `pause_queue`, for everybody or for that tenant."""
        return cast(Queue, self._json("POST", f"/v1/queues/{name}/resume", json={"tenant_id": tenant_id}))

    def wait_for_job(
        self,
        job_id: str,
        *,
        on_progress: Callable[[Job], None] | None = None,
        timeout: float | None = None,
    ) -> Job:
        """The job once it has ended, however it ended; `on_progress` sees every look at it.

        Raises:
            TimeoutError: it still runs after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_POLL_SECONDS
        while True:
            job = self._patiently(partial(self.get_job, job_id))
            if on_progress is not None:
                on_progress(job)
            if job["status"] in FINAL_JOB_STATUSES:
                return job
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"Job {job_id} is still {job['status']} after {timeout:g} s.")
            time.sleep(pause)
            pause = min(_POLL_SECONDS, 1.5 * pause)

    def cancel_job(self, job_id: str) -> Job:
        return cast(Job, self._json("POST", f"/v1/jobs/{job_id}/cancel"))

    # Questions and answers

    def ask(
        self,
        collection_id: str,
        question: str,
        *,
        mode: AnswerMode = "auto",
        wait_seconds: float = 300.0,
        **options: Any,
    ) -> Answer:
        """The finished answer. `options` are the API's own: `num_passages`, `max_tokens`, `seed`...

        Raises:
            ProblemError: also where the answer's job failed.
            TimeoutError: no answer within `wait_seconds`; it is still being worked on.
        """
        body = {"question": question, "mode": mode, **options}
        return self._ask(f"/v1/collections/{collection_id}/questions", body, wait_seconds)

    def ask_stream(
        self, collection_id: str, question: str, *, mode: AnswerMode = "auto", **options: Any
    ) -> Iterator[AskEvent]:
        """Events of the answer as they happen, ending with `Done`.

        A connection that breaks is taken up again where it broke, so no text comes twice.

        Raises:
            ProblemError: the question was refused, or answering it failed.
            UnreachableError: the connection broke too often.
        """
        body = {"question": question, "mode": mode, **options}
        yield from self._ask_stream(f"/v1/collections/{collection_id}/questions", body)

    def _ask(self, path: str, body: dict[str, Any], wait_seconds: float) -> Answer:
        deadline = time.monotonic() + wait_seconds
        server_wait = min(wait_seconds, _SERVER_WAIT_SECONDS)
        accepted = self._json(
            "POST",
            path,
            json=body | {"wait_seconds": server_wait},
            headers={"Idempotency-Key": str(uuid.uuid4())},
            timeout=server_wait + self._timeout,
        )
        answer = cast(Answer, accepted)
        while answer["status"] not in FINAL_JOB_STATUSES:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Answer {answer['id']} is still {answer['status']} after {wait_seconds:g} s."
                )
            time.sleep(_POLL_SECONDS)
            answer = self._patiently(partial(self.get_answer, answer["id"]))
        return _require_success(answer)

    def _ask_stream(self, path: str, body: dict[str, Any]) -> Iterator[AskEvent]:
        stream = AnswerStream(self._http, read_timeout=max(self._timeout, 60.0))
        yield from stream.ask(path, body | {"stream": True})

    def quote(self, collection_id: str, question: str, *, mode: AnswerMode = "auto", **options: Any) -> Quote:
        """What asking this would take and cost; nothing is asked. Arguments are those of `ask`."""
        body = {"collection_id": collection_id, "question": question, "mode": mode, **options}
        return cast(Quote, self._json("POST", "/v1/quotes", json=body))

    def get_answer(self, answer_id: str) -> Answer:
        """The answer as it stands, whatever its status."""
        return cast(Answer, self._json("GET", f"/v1/answers/{answer_id}"))

    def list_answers(self) -> Iterator[Answer]:
        yield from cast(Iterator[Answer], self._items("/v1/answers"))

    # Conversations

    def create_conversation(self, collection_id: str, *, title: str = "") -> Conversation:
        """A conversation about the collection, whose questions may refer to those before them."""
        body = {"collection_id": collection_id, "title": title}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return cast(Conversation, self._json("POST", "/v1/conversations", json=body, headers=headers))

    def get_conversation(self, conversation_id: str) -> Conversation:
        return cast(Conversation, self._json("GET", f"/v1/conversations/{conversation_id}"))

    def list_conversations(self, *, collection_id: str | None = None) -> Iterator[Conversation]:
        """Newest first."""
        found = self._items("/v1/conversations", {"collection_id": collection_id})
        yield from cast(Iterator[Conversation], found)

    def list_turns(self, conversation_id: str) -> Iterator[Answer]:
        """Its questions with their answers, oldest first; failed and cancelled ones too."""
        yield from cast(Iterator[Answer], self._items(f"/v1/conversations/{conversation_id}/turns"))

    def delete_conversation(self, conversation_id: str) -> None:
        """It takes no more questions; its answers can still be read one by one."""
        self._send("DELETE", f"/v1/conversations/{conversation_id}")

    def ask_next(
        self,
        conversation_id: str,
        question: str,
        *,
        mode: AnswerMode = "auto",
        wait_seconds: float = 300.0,
        **options: Any,
    ) -> Answer:
        """As `ask`, as the conversation's next turn.

        Raises:
            ProblemError: also, with status 409, while the turn before it still runs.
            TimeoutError: as `ask`.
        """
        body = {"question": question, "mode": mode, **options}
        return self._ask(f"/v1/conversations/{conversation_id}/questions", body, wait_seconds)

    def ask_next_stream(
        self, conversation_id: str, question: str, *, mode: AnswerMode = "auto", **options: Any
    ) -> Iterator[AskEvent]:
        """As `ask_stream`, as the conversation's next turn."""
        body = {"question": question, "mode": mode, **options}
        yield from self._ask_stream(f"/v1/conversations/{conversation_id}/questions", body)

    # Extractions

    def create_extraction(
        self, collection_id: str, *, schema: Mapping[str, Any], **options: Any
    ) -> Extraction:
        """Have a table made of the collection's documents; its job runs on after this returns.

        Args:
            schema: a JSON schema of an object, whose properties are the columns.
            options: the API's own: `instructions`, `filter`, `method`, …
        """
        body = {"collection_id": collection_id, "schema": schema, **options}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return cast(Extraction, self._json("POST", "/v1/extractions", json=body, headers=headers))

    def get_extraction(self, extraction_id: str) -> Extraction:
        return cast(Extraction, self._json("GET", f"/v1/extractions/{extraction_id}"))

    def list_extractions(self, *, collection_id: str | None = None) -> Iterator[Extraction]:
        """Newest first."""
        yield from cast(
            Iterator[Extraction], self._items("/v1/extractions", {"collection_id": collection_id})
        )

    def list_extraction_rows(self, extraction_id: str) -> Iterator[dict[str, Any]]:
        """Its rows in order: each cell with its value and citation, or why there is none."""
        yield from self._items(f"/v1/extractions/{extraction_id}/rows", {"limit": 200})

    def download_extraction(self, extraction_id: str) -> str:
        """The table as CSV, with the quote, page and place of every value."""
        return self._send("GET", f"/v1/extractions/{extraction_id}/rows.csv").text

    # Summaries

    def create_summary(self, collection_id: str, **options: Any) -> Summary:
        """Have a collection's documents summarized; its job runs on after this returns.

        Args:
            options: the API's own: `style`, `prompt`, `length`, `filter`, `max_cost`, …
        """
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"collection_id": collection_id, **options}
        return cast(Summary, self._json("POST", "/v1/summaries", json=body, headers=headers))

    def quote_summary(self, collection_id: str, **options: Any) -> Quote:
        """What that would take and cost; nothing is read."""
        body = {"collection_id": collection_id, **options}
        return cast(Quote, self._json("POST", "/v1/summaries/quotes", json=body))

    def get_summary(self, summary_id: str) -> Summary:
        return cast(Summary, self._json("GET", f"/v1/summaries/{summary_id}"))

    def render_summary(self, summary_id: str, *, format: Literal["markdown", "html"]) -> str:
        """It as a text with its sources, or as a page."""
        return self._send("GET", f"/v1/summaries/{summary_id}", params={"format": format}).text

    def list_summaries(
        self, *, collection_id: str | None = None, versions_of: str | None = None
    ) -> Iterator[Summary]:
        """Newest first."""
        query = {"collection_id": collection_id, "versions_of": versions_of}
        yield from cast(Iterator[Summary], self._items("/v1/summaries", query))

    def list_summary_documents(self, summary_id: str) -> Iterator[dict[str, Any]]:
        """Its documents in order: what is said of each, and what of it was read."""
        yield from self._items(f"/v1/summaries/{summary_id}/documents", {"limit": 200})

    def compare_summaries(self, summary_id: str, *, against: str | None = None) -> dict[str, Any]:
        """What it says that another run did not, by default the version before."""
        query = {} if against is None else {"against": against}
        return self._json("GET", f"/v1/summaries/{summary_id}/diff", params=query)

    # Batches

    def create_batch(
        self,
        collection_id: str,
        questions: bytes,
        *,
        name: str | None = None,
        on_invalid: Literal["refuse", "skip"] = "refuse",
        max_cost: str | None = None,
        expires_after_seconds: int | None = None,
    ) -> Batch:
        """Have a file of questions answered when nobody waits; its job runs on after this returns.

        Args:
            questions: the file's bytes: lines as OpenAI's batch files have them, plain lines, or CSV.
            on_invalid: `skip` has wrong lines among the errors, where `refuse` takes nothing.
            max_cost: no question is asked once the answers cost so much.
        """
        params = {
            "name": name,
            "on_invalid": on_invalid,
            "max_cost": max_cost,
            "expires_after_seconds": expires_after_seconds,
        }
        made = self._json(
            "POST",
            f"/v1/collections/{collection_id}/batches",
            params=_given(params),
            content=questions,
            headers={"Idempotency-Key": str(uuid.uuid4())},
            timeout=max(self._timeout, _BATCH_TIMEOUT_SECONDS),
        )
        return cast(Batch, made)

    def get_batch(self, batch_id: str) -> Batch:
        return cast(Batch, self._json("GET", f"/v1/batches/{batch_id}"))

    def list_batches(self, *, collection_id: str | None = None) -> Iterator[Batch]:
        """Newest first."""
        yield from cast(Iterator[Batch], self._items("/v1/batches", {"collection_id": collection_id}))

    def cancel_batch(self, batch_id: str) -> Batch:
        """Stop it; what was answered stays."""
        return cast(Batch, self._json("POST", f"/v1/batches/{batch_id}/cancel"))

    def stream_batch_file(
        self,
        batch_id: str,
        kind: Literal["output", "errors"] = "output",
        *,
        format: Literal["jsonl", "csv"] = "jsonl",
    ) -> Iterator[bytes]:
        """The results so far, or the errors, piece by piece, in the order of the questions."""
        path = f"/v1/batches/{batch_id}/{kind}"
        try:
            with self._http.stream("GET", path, params={"format": format}) as response:
                if response.is_error:
                    response.read()
                raise_for_problem(response)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    # Evaluations

    def create_evaluation(
        self,
        collection_id: str,
        *,
        questions: Sequence[Mapping[str, Any]] | None = None,
        question_file: tuple[str, str] | None = None,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """Have questions with known answers asked and scored; its job runs on after this returns.

        Args:
            questions: each with `question`, `answers`, `evidence`, …; or instead of them
            question_file: name (`….jsonl`, `….csv`) and text of a file of them.
            parameters: of every question, such as `mode`.
        """
        file = question_file and {"name": question_file[0], "content": question_file[1]}
        body = {"collection_id": collection_id, "name": name, "questions": questions, "question_file": file}
        return cast(
            Evaluation,
            self._json(
                "POST",
                "/v1/evaluations",
                json=_given(body | {"parameters": parameters}),
                headers={"Idempotency-Key": str(uuid.uuid4())},
            ),
        )

    def get_evaluation(self, evaluation_id: str) -> Evaluation:
        return cast(Evaluation, self._json("GET", f"/v1/evaluations/{evaluation_id}"))

    def list_evaluations(self, *, collection_id: str | None = None) -> Iterator[Evaluation]:
        """Newest first."""
        params = {"collection_id": collection_id}
        yield from cast(Iterator[Evaluation], self._items("/v1/evaluations", params))

    def delete_evaluation(self, evaluation_id: str) -> None:
        """It must have ended; its answers can still be read one by one."""
        self._send("DELETE", f"/v1/evaluations/{evaluation_id}")

    def list_evaluation_items(self, evaluation_id: str) -> Iterator[dict[str, Any]]:
        """Its questions in order, each with its answer and its metrics."""
        yield from self._items(f"/v1/evaluations/{evaluation_id}/items", {"limit": 200})

    def get_evaluation_html(self, evaluation_id: str, *, language: str = "en") -> str:
        """The report as one HTML file."""
        path = f"/v1/evaluations/{evaluation_id}/report.html"
        return self._send("GET", path, params={"language": language}).text

    def compare_evaluations(self, first_id: str, second_id: str) -> dict[str, Any]:
        """How the second differs from the first on the questions that both have."""
        path = f"/v1/evaluations/{first_id}/comparisons/{second_id}"
        return self._json("GET", path, timeout=max(self._timeout, _COMPARE_TIMEOUT_SECONDS))

    def get_comparison_html(self, first_id: str, second_id: str, *, language: str = "en") -> str:
        """The comparison as one HTML file."""
        path = f"/v1/evaluations/{first_id}/comparisons/{second_id}/report.html"
        timeout = max(self._timeout, _COMPARE_TIMEOUT_SECONDS)
        return self._send("GET", path, params={"language": language}, timeout=timeout).text

    # Schedules

    def create_schedule(
        self, name: str, action: str, parameters: Mapping[str, Any], **options: Any
    ) -> Schedule:
        """Have work begin by itself.

        Args:
            action: what it does, such as `extraction`.
            parameters: the body of the route that does it at once.
            options: the API's own: `cron` with `time_zone` or `every_seconds`, `catch_up`, `overlap`, …
        """
        body = {"name": name, "action": action, "parameters": parameters, **options}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return cast(Schedule, self._json("POST", "/v1/schedules", json=body, headers=headers))

    def get_schedule(self, schedule_id: str) -> Schedule:
        return cast(Schedule, self._json("GET", f"/v1/schedules/{schedule_id}"))

    def list_schedules(self, *, action: str | None = None) -> Iterator[Schedule]:
        """Newest first."""
        yield from cast(Iterator[Schedule], self._items("/v1/schedules", {"action": action}))

    def change_schedule(self, schedule_id: str, **changes: Any) -> Schedule:
        """What is left out stays; `paused` pauses or resumes it."""
        return cast(Schedule, self._json("PATCH", f"/v1/schedules/{schedule_id}", json=changes))

    def delete_schedule(self, schedule_id: str) -> None:
        """The jobs that it has begun go on."""
        self._send("DELETE", f"/v1/schedules/{schedule_id}")

    def run_schedule(self, schedule_id: str) -> ScheduleRun:
        """Have its work begin now; its slots stay as they are."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return cast(ScheduleRun, self._json("POST", f"/v1/schedules/{schedule_id}/run", headers=headers))

    def list_schedule_runs(self, schedule_id: str) -> Iterator[ScheduleRun]:
        """What became of each slot, newest first."""
        yield from cast(Iterator[ScheduleRun], self._items(f"/v1/schedules/{schedule_id}/runs"))

    def list_next_slots(self, schedule_id: str, *, count: int = 10) -> list[Slot]:
        """When it is due next."""
        body = self._json("GET", f"/v1/schedules/{schedule_id}/next", params={"count": count})
        return cast(list[Slot], body["items"])

    def preview_schedule(self, **times: Any) -> list[Slot]:
        """When a schedule would be due that is not made: `cron`, `time_zone`, `every_seconds`, `count`, …"""
        return cast(list[Slot], self._json("POST", "/v1/schedules/preview", json=times)["items"])

    # Traces

    def get_trace(self, answer_id: str) -> dict[str, Any]:
        """How an answer came to be: prompt, cache, sampling, tokens, scores."""
        return self._json("GET", f"/v1/answers/{answer_id}/trace")

    def get_trace_html(self, answer_id: str) -> str:
        """The same as one HTML page, with the heat map."""
        return self._send("GET", f"/v1/answers/{answer_id}/trace", params={"format": "html"}).text

    def redact_trace(self, answer_id: str) -> dict[str, Any]:
        """Take texts and tokens out of it for good; what is left."""
        return self._json("POST", f"/v1/answers/{answer_id}/trace/redact")

    def read_attention(self, answer_id: str) -> Job:
        """The job that puts `attention` into the trace; needs a full one."""
        return cast(Job, self._json("POST", f"/v1/answers/{answer_id}/trace/attention"))

    # Money

    def get_usage(self, *, start: str | None = None, end: str | None = None) -> dict[str, Any]:
        return self._json("GET", "/v1/usage", params=_given({"start": start, "end": end}))

    def get_costs(
        self,
        *,
        group_by: Sequence[str] = ("day", "stage"),
        start: str | None = None,
        end: str | None = None,
        time_zone: str | None = None,
        all_tenants: bool = False,
    ) -> dict[str, Any]:
        """The cost report, grouped as asked; `all_tenants` is the operator's."""
        params = _cost_query(group_by, start, end, time_zone, all_tenants)
        return self._json("GET", "/v1/reports/costs", params=params)

    def get_costs_csv(
        self,
        *,
        group_by: Sequence[str] = ("day", "stage"),
        start: str | None = None,
        end: str | None = None,
        time_zone: str | None = None,
        all_tenants: bool = False,
    ) -> str:
        """The same report as CSV text."""
        params = _cost_query(group_by, start, end, time_zone, all_tenants)
        return self._send("GET", "/v1/reports/costs", params=params | {"format": "csv"}).text

    def get_costs_page(
        self,
        *,
        group_by: Sequence[str] = ("day", "stage"),
        start: str | None = None,
        end: str | None = None,
        time_zone: str | None = None,
        language: str = "en",
    ) -> str:
        """The same report as one HTML page with plots."""
        params = _cost_query(group_by, start, end, time_zone) | {"format": "html", "language": language}
        return self._send("GET", "/v1/reports/costs", params=params).text

    def get_top_costs(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        time_zone: str | None = None,
        limit: int = 10,
    ) -> dict[str, Any]:
        """The documents and the questions that cost most."""
        params = _given({"start": start, "end": end, "time_zone": time_zone, "limit": limit})
        return self._json("GET", "/v1/reports/costs/top", params=params)

    def get_savings(
        self, *, start: str | None = None, end: str | None = None, time_zone: str | None = None
    ) -> dict[str, Any]:
        """What the prefix cache, and not embedding anything twice, saved."""
        params = _given({"start": start, "end": end, "time_zone": time_zone})
        return self._json("GET", "/v1/reports/savings", params=params)

    def get_invoice(self, month: str, *, time_zone: str | None = None) -> dict[str, Any]:
        """What is owed for a month such as `2026-11`."""
        params = _given({"month": month, "time_zone": time_zone})
        return self._json("GET", "/v1/reports/invoice", params=params)

    def get_invoice_text(
        self, month: str, *, format: str, time_zone: str | None = None, language: str = "en"
    ) -> str:
        """The invoice as `csv` or as an `html` page."""
        params = _given({"month": month, "format": format, "time_zone": time_zone, "language": language})
        return self._send("GET", "/v1/reports/invoice", params=params).text

    def create_cost_report(self, interval: str, **options: Any) -> StoredReport:
        """Have a report over `last_month`, `last_week`, `last_day` or `month_to_date` made and kept.

        Args:
            options: the API's own: `group_by`, `time_zone`, `language`.
        """
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"interval": interval, **options}
        return cast(StoredReport, self._json("POST", _STORED_REPORTS, json=body, headers=headers))

    def list_stored_reports(self) -> Iterator[StoredReport]:
        """Reports that are kept, newest first, without their content."""
        yield from cast(Iterator[StoredReport], self._items(_STORED_REPORTS))

    def get_stored_report(self, report_id: str) -> StoredReport:
        return cast(StoredReport, self._json("GET", f"{_STORED_REPORTS}/{report_id}"))

    def get_stored_report_text(self, report_id: str, *, format: Literal["csv", "html"]) -> str:
        """The report as it was made."""
        return self._send("GET", f"{_STORED_REPORTS}/{report_id}", params={"format": format}).text

    def get_prices(self, *, at: str | None = None) -> dict[str, Any]:
        """List prices and the tenant's own; `at`: only what applies then."""
        return self._json("GET", "/v1/prices", params=_given({"at": at}))

    def announce_price(
        self,
        *,
        stage: str,
        price_per_million: str,
        effective_from: str,
        model: str = "*",
        revision: str = "",
        tenant_id: str | None = None,
    ) -> dict[str, Any]:
        """A price from a moment to come on; the operator's to do."""
        body = {
            "model": model,
            "revision": revision,
            "stage": stage,
            "price_per_million": price_per_million,
            "effective_from": effective_from,
            "tenant_id": tenant_id,
        }
        return self._json("POST", "/v1/prices", json=_given(body))

    def withdraw_price(self, price_id: str) -> None:
        """Before it holds; the operator's to do."""
        self._send("DELETE", f"/v1/prices/{price_id}")

    def list_ledger(
        self, *, source: str | None = None, job_id: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Entries, newest first; pages are fetched as they are needed."""
        yield from self._items("/v1/ledger", _given({"source": source, "job_id": job_id}))

    def correct_ledger_entry(
        self, entry_id: str, *, reason: str, num_tokens: int = 0, cost: str | None = None
    ) -> dict[str, Any]:
        """The new entry that corrects one; the operator's to do."""
        body = {"entry_id": entry_id, "reason": reason, "num_tokens": num_tokens, "cost": cost}
        return self._json("POST", "/v1/ledger/corrections", json=_given(body))

    def get_reconciliation(self, *, start: str | None = None, end: str | None = None) -> dict[str, Any]:
        """The ledger against the engines' counters; the operator's to see."""
        return self._json("GET", "/v1/reports/reconciliation", params=_given({"start": start, "end": end}))

    # Webhooks: scope `admin`

    verify_webhook = staticmethod(verify_webhook)

    def create_webhook(
        self, url: str, *, event_types: Sequence[str] = ("*",), description: str = ""
    ) -> Webhook:
        """Have events sent to a URL; `secret` holds what they are signed with, this once only."""
        body = {"url": url, "event_types": list(event_types), "description": description}
        return cast(Webhook, self._post_once("/v1/webhooks", json=body))

    def get_webhook(self, webhook_id: str) -> Webhook:
        return cast(Webhook, self._json("GET", f"/v1/webhooks/{webhook_id}"))

    def list_webhooks(self) -> Iterator[Webhook]:
        """Oldest first."""
        yield from cast(Iterator[Webhook], self._items("/v1/webhooks"))

    def change_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        event_types: Sequence[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """What is None stays as it is. Enabling one forgets that it failed."""
        values = {"url": url, "description": description, "enabled": enabled}
        body = _given(values | {"event_types": None if event_types is None else list(event_types)})
        return cast(Webhook, self._json("PATCH", f"/v1/webhooks/{webhook_id}", json=body))

    def delete_webhook(self, webhook_id: str) -> None:
        """With its log."""
        self._send("DELETE", f"/v1/webhooks/{webhook_id}")

    def rotate_webhook_secret(self, webhook_id: str) -> Webhook:
        """The webhook with a new `secret`; the old one signs too for 24 hours."""
        return cast(Webhook, self._post_once(f"/v1/webhooks/{webhook_id}/rotate"))

    def test_webhook(self, webhook_id: str) -> Delivery:
        """An event `webhook.test` on its way; see `wait_for_attempt`."""
        return cast(Delivery, self._post_once(f"/v1/webhooks/{webhook_id}/test"))

    def get_delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        return cast(Delivery, self._json("GET", f"/v1/webhooks/{webhook_id}/deliveries/{delivery_id}"))

    def list_deliveries(self, webhook_id: str) -> Iterator[Delivery]:
        """Newest first."""
        yield from cast(Iterator[Delivery], self._items(f"/v1/webhooks/{webhook_id}/deliveries"))

    def redeliver(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Send it once more, now, under the same id."""
        path = f"/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver"
        return cast(Delivery, self._post_once(path))

    def wait_for_attempt(self, delivery: Delivery, *, timeout: float) -> Delivery:
        """The delivery once it was tried once more, or as it is after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        webhook_id, num_before = delivery["webhook_id"], len(delivery["attempts"])
        while len(delivery["attempts"]) == num_before and delivery["status"] not in FINAL_JOB_STATUSES:
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
            delivery = self.get_delivery(webhook_id, delivery["id"])
        return delivery

    def _post_once(self, path: str, **arguments: Any) -> dict[str, Any]:
        return self._json("POST", path, headers={"Idempotency-Key": str(uuid.uuid4())}, **arguments)

    # Budgets: scope `reports` to look, `admin` to set

    def create_budget(
        self,
        limit: str,
        *,
        unit: str,
        period: str,
        time_zone: str | None = None,
        warn_at: Sequence[int] | None = None,
        key_id: str | None = None,
        collection_id: str | None = None,
        tenant_id: str | None = None,
    ) -> Budget:
        """A budget of a key or a collection; of neither, or of another tenant, it is the operator's to set."""
        body = {
            "limit": limit,
            "unit": unit,
            "period": period,
            "time_zone": time_zone,
            "warn_at": None if warn_at is None else list(warn_at),
            "key_id": key_id,
            "collection_id": collection_id,
            "tenant_id": tenant_id,
        }
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return cast(Budget, self._json("POST", "/v1/budgets", json=_given(body), headers=headers))

    def get_budget(self, budget_id: str) -> Budget:
        return cast(Budget, self._json("GET", f"/v1/budgets/{budget_id}"))

    def list_budgets(self, *, all_tenants: bool = False) -> Iterator[Budget]:
        """As they stand now, oldest first; `all_tenants` is for the operator."""
        params = {"all_tenants": True} if all_tenants else None
        yield from cast(Iterator[Budget], self._items("/v1/budgets", params))

    def change_budget(
        self, budget_id: str, *, limit: str | None = None, warn_at: Sequence[int] | None = None
    ) -> Budget:
        body = _given({"limit": limit, "warn_at": None if warn_at is None else list(warn_at)})
        return cast(Budget, self._json("PATCH", f"/v1/budgets/{budget_id}", json=body))

    def delete_budget(self, budget_id: str) -> None:
        self._send("DELETE", f"/v1/budgets/{budget_id}")

    # Keys and tenants: scope `admin`

    def create_key(
        self, name: str, *, scopes: Sequence[str], expires_in_days: int | None = None
    ) -> dict[str, Any]:
        """The new key; `key` holds its secret, this once only."""
        body = _given({"name": name, "scopes": list(scopes), "expires_in_days": expires_in_days})
        return self._json("POST", "/v1/keys", json=body)

    def list_keys(self) -> Iterator[dict[str, Any]]:
        yield from self._items("/v1/keys")

    def revoke_key(self, key_id: str) -> None:
        self._send("DELETE", f"/v1/keys/{key_id}")

    def create_tenant(self, name: str) -> dict[str, Any]:
        return self._json("POST", "/v1/tenants", json={"name": name})

    def list_tenants(self) -> Iterator[dict[str, Any]]:
        yield from self._items("/v1/tenants")

    # Transport

    def _items(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        query = _given(params or {})
        while True:
            body = self._json("GET", path, params=query)
            yield from body["items"]
            if not body.get("next_cursor"):
                return
            query["cursor"] = body["next_cursor"]

    def _patiently(self, look: Callable[[], Result]) -> Result:
        """Outlast a restart of the API: what is waited for goes on without it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return look()
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    def _json(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        response = self._send(method, path, **arguments)
        try:
            return cast(dict[str, Any], response.json())
        except ValueError as error:
            raise UnreachableError(
                f"{self.url} answered, but not with JSON. Is that the address of a Longleaf server?"
            ) from error

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **arguments)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        raise_for_problem(response)
        return response


def _require_success(answer: Answer) -> Answer:
    if answer["status"] == "succeeded":
        return answer
    error = answer["error"] or {
        "code": "job_cancelled",
        "detail": f"Answer {answer['id']} was {answer['status']}.",
    }
    raise problem_from_body({**error, "answer_id": answer["id"], "job_id": answer["job_id"]})


def _cost_query(
    group_by: Sequence[str],
    start: str | None,
    end: str | None,
    time_zone: str | None,
    all_tenants: bool = False,
) -> dict[str, Any]:
    return _given(
        {
            "group_by": ",".join(group_by),
            "start": start,
            "end": end,
            "time_zone": time_zone,
            "all_tenants": "true" if all_tenants else None,
        }
    )


def _is_local(url: str) -> bool:
    """Whether it names this machine. Raises `UnreachableError` where it is no address at all."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise _no_address(url) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _no_address(url)
    return parsed.host in ("localhost", "::1") or parsed.host.startswith("127.")


def _no_address(url: str) -> UnreachableError:
    return UnreachableError(
        f"{url!r} is not the address of a server. Give one such as http://127.0.0.1:8410."
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
