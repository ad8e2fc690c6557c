"""`longleaf batch` against a small server that answers as the API does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from cli.main import app

BATCH: dict[str, Any] = {
    "id": "batch_1",
    "object": "batch",
    "endpoint": "/v1/questions",
    "job_id": "job_1",
    "collection_id": "col_1",
    "name": "问题.csv",
    "status": "completed",
    "stopped_by": None,
    "request_counts": {"total": 3, "completed": 2, "failed": 1},
    "usage": {"prompt_tokens": 1200, "cached_tokens": 0, "completion_tokens": 34},
    "cost": {"amount": "0.5", "currency": "USD"},
    "max_cost": None,
    "error": None,
    "created_at": "2026-12-01T00:00:00Z",
    "in_progress_at": None,
    "expires_at": None,
    "finished_at": None,
}
COLLECTION = {"id": "col_1", "name": "reports", "created_at": "2026-12-01T00:00:00Z", "num_documents": 1}


class Server:
    """Answers, and remembers what was posted."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, list[str]], bytes]] = []
        self.status = "completed"

    def answer(self, path: str, query: dict[str, list[str]]) -> bytes:
        if path.endswith(("/output", "/errors")):
            return f"{path.rsplit('/')[-1]} as {query['format'][0]}: 答\n".encode()
        if path.startswith("/v1/jobs/"):
            return json.dumps({"id": "job_1", "status": "succeeded", "progress": {}}).encode()
        batch = BATCH | {"status": self.status}
        if path == "/v1/collections":
            return json.dumps({"items": [COLLECTION]}).encode()
        return json.dumps({"items": [batch]} if path == "/v1/batches" else batch).encode()


@pytest.fixture
def server() -> Iterator[tuple[Server, str]]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(200)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            state.posted.append((parts.path, parse_qs(parts.query), body))
            self._respond(202)

        def _respond(self, status: int) -> None:
            parts = urlsplit(self.path)
            body = state.answer(parts.path, parse_qs(parts.query))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=http.serve_forever)
    thread.start()
    yield state, f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    thread.join()
    http.server_close()


def call(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["batch", *arguments, "--url", url, "--key", "ll_x"])


def test_a_file_is_sent_as_it_is_and_its_results_are_written(
    server: tuple[Server, str], tmp_path: Path
) -> None:
    state, url = server
    file, output, errors = tmp_path / "问题.csv", tmp_path / "out.jsonl", tmp_path / "bad.csv"
    file.write_bytes("question\n什么？\n".encode("gb18030"))
    result = call(
        url, "run", str(file), "-c", "reports", "-o", str(output), "--errors", str(errors), "--max-cost", "2"
    )
    assert result.exit_code == 0, result.output
    [(path, query, body)] = state.posted
    assert path == "/v1/collections/col_1/batches"
    assert query == {"name": ["问题.csv"], "on_invalid": ["refuse"], "max_cost": ["2"]}
    assert body == file.read_bytes()
    assert output.read_text("utf-8") == "output as jsonl: 答\n"
    assert errors.read_bytes() == "\ufefferrors as csv: 答\n".encode()
    assert "2 of 3 questions answered, 1 not; 1,234 tokens" in result.output


def test_a_batch_that_does_not_complete_is_a_failure_that_keeps_its_results(
    server: tuple[Server, str], tmp_path: Path
) -> None:
    state, url = server
    state.status = "expired"
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "x"}')
    result = call(url, "run", str(file), "-c", "reports", "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert (tmp_path / "out").is_file()


def test_batches_are_listed_shown_cancelled_and_downloaded(server: tuple[Server, str]) -> None:
    state, url = server
    assert "batch_1" in call(url, "list").output
    assert "2 of 3" in call(url, "show", "batch_1").output
    assert json.loads(call(url, "show", "batch_1", "--json").output) == BATCH
    assert call(url, "cancel", "batch_1").exit_code == 0
    assert state.posted[-1][0] == "/v1/batches/batch_1/cancel"
    assert call(url, "download", "batch_1", "--wait", "--format", "csv").output.endswith(
        "output as csv: 答\n"
    )


def test_a_file_that_is_not_there_is_named(server: tuple[Server, str]) -> None:
    result = call(server[1], "run", "nowhere.jsonl")
    assert result.exit_code != 0
    assert server[0].posted == []
