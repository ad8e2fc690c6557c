"""`longleaf eval` against a small server that answers as the API does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.evaluation_suite import find_suite, parse_parameters
from cli.main import app
from core.errors import InvalidInput, NotFound

MEAN = {"mean": 0.75, "num": 4}
REFUSAL = {
    "num_refused": 1,
    "num_unanswerable": 1,
    "accuracy": 1.0,
    "precision": 1.0,
    "recall": 1.0,
    "f1": None,
}
GROUP = {"num_scored": 4, "metrics": {"f1": MEAN}, "refusal": REFUSAL}
REPORT = GROUP | {
    "num_questions": 5,
    "num_failed": 1,
    "work": {
        "prompt_tokens": {"mean": 1200.0, "p50": 1.0, "p95": 2.0, "total": 4.0, "num": 4},
        "total_seconds": {"mean": 0.5, "p50": 0.25, "p95": 2.0, "total": 4.0, "num": 4},
    },
    "stage_tokens": {"embed": 12_345},
    "burned_tokens": 0,
    "costs": [{"currency": "USD", "amount": "0.00001", "mean": "0.000002", "num": 4}],
    "by_language": {"zh": GROUP},
}
EVALUATION: dict[str, Any] = {
    "id": "eval_1",
    "job_id": "job_1",
    "collection_id": "col_1",
    "name": "suite",
    "status": "succeeded",
    "parameters": {},
    "num_questions": 5,
    "num_done": 5,
    "report": REPORT,
    "error": None,
    "created_at": "2026-11-30T00:00:00Z",
    "finished_at": "2026-11-30T00:01:00Z",
}
DIFFERENCE = {
    "first": 0.5,
    "second": 0.75,
    "difference": 0.25,
    "low": 0.1,
    "high": 0.4,
    "share_opposite": 0.01,
    "num": 4,
    "better": "second",
}
COMPARISON: dict[str, Any] = {
    "first": EVALUATION,
    "second": EVALUATION | {"id": "eval_2"},
    "same_questions": False,
    "num_common": 4,
    "num_compared": 4,
    "num_gold_differs": 2,
    "num_only_first": 1,
    "num_only_second": 0,
    "only_first": ["x?"],
    "only_second": [],
    "metrics": {"f1": DIFFERENCE},
    "by_language": {},
}
FILE = {"id": "file_1", "name": "好.txt", "status": "ready", "num_bytes": 3, "error": None, "progress": {}}
JOB: dict[str, Any] = {
    "id": "job_2",
    "kind": "ingest",
    "status": "succeeded",
    "progress": {},
    "files": [FILE],
    "error": None,
}


class FakeApi(BaseHTTPRequestHandler):
    """Answers from its server's `routes`, and remembers what it was sent."""

    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: test output stays clean."""

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def do_DELETE(self) -> None:
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        self.server.sent.append((self.command, path, body))
        if path.endswith("report.html"):
            text = f"<html>{query}</html>"
        elif (self.command, path) == ("GET", "/v1/collections/col_1/documents"):
            text = json.dumps({"items": self.server.documents, "next_cursor": None})
        else:
            text = json.dumps(self.server.routes[self.command, path])
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeApi)
        self.sent: list[tuple[str, str, bytes]] = []
        self.documents: list[dict[str, Any]] = []
        self.routes: dict[tuple[str, str], Any] = {
            ("GET", "/v1/collections"): {"items": [], "next_cursor": None},
            ("POST", "/v1/collections"): {"id": "col_1", "name": "suite"},
            ("POST", "/v1/collections/col_1/documents"): {"job": JOB, "files": [FILE]},
            ("GET", "/v1/jobs/job_2"): JOB,
            ("POST", "/v1/evaluations"): EVALUATION | {"status": "queued", "report": None},
            ("GET", "/v1/jobs/job_1"): JOB | {"id": "job_1", "progress": {"questions_done": 5}},
            ("GET", "/v1/evaluations/eval_1"): EVALUATION,
            ("DELETE", "/v1/evaluations/eval_1"): None,
            ("GET", "/v1/evaluations/eval_1/items"): {"items": [{"position": 0}], "next_cursor": None},
            ("GET", "/v1/evaluations"): {"items": [EVALUATION], "next_cursor": None},
            ("GET", "/v1/evaluations/eval_1/comparisons/eval_2"): COMPARISON,
            ("GET", "/v1/evaluations/eval_0/comparisons/eval_1"): COMPARISON,
        }

    def run(self, *arguments: object) -> Result:
        url = f"http://127.0.0.1:{self.server_address[1]}"
        command = ["eval", *map(str, arguments), "--url", url, "--key", "ll_test"]
        return CliRunner().invoke(app, command)

    def body(self, path: str) -> Any:
        return next(json.loads(body) for method, at, body in self.sent if (method, at) == ("POST", path))


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "questions.jsonl").write_text('{"question": "什么？", "answer": "好"}\n', encoding="utf-8")
    (suite / "好.txt").write_text("好", encoding="utf-8")
    (suite / "README.md").write_text("about", encoding="utf-8")
    return suite


def test_a_folder_is_uploaded_asked_and_reported(server: Server, folder: Path, tmp_path: Path) -> None:
    result = server.run(
        "run", folder, "--set", "mode=extractive", "--set", "num_passages=3",
        "--json", tmp_path / "out.json", "--html", tmp_path / "out.html", "--language", "zh",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    body = server.body("/v1/evaluations")
    assert body["parameters"] == {"mode": "extractive", "num_passages": 3}
    assert body["question_file"]["content"].startswith('{"question": "什么？"')
    assert (body["collection_id"], body["name"]) == ("col_1", "suite")
    [upload] = [sent for sent in server.sent if sent[:2] == ("POST", "/v1/collections/col_1/documents")]
    assert "好.txt".encode() in upload[2]
    assert b"README" not in upload[2]
    assert b"questions.jsonl" not in upload[2]
    assert "0.750" in result.stdout
    assert "12,345 tokens, 0.00001 USD" in result.stderr
    assert "1 failed" in result.stderr
    assert json.loads((tmp_path / "out.json").read_text())["items"] == [{"position": 0}]
    assert (tmp_path / "out.html").read_text() == "<html>language=zh</html>"


def test_documents_that_are_there_are_not_uploaded_again(server: Server, folder: Path) -> None:
    server.documents = [{"names": ["好.txt"]}]
    assert server.run("run", folder).exit_code == 0
    assert not [sent for sent in server.sent if sent[:2] == ("POST", "/v1/collections/col_1/documents")]


def test_a_document_that_cannot_be_read_stops_it_before_it_begins(server: Server, folder: Path) -> None:
    failed = FILE | {"status": "failed", "error": {"code": "x", "detail": "It is encrypted."}}
    server.routes["GET", "/v1/jobs/job_2"] = JOB | {"files": [failed]}
    result = server.run("run", folder)
    assert result.exit_code == 1
    assert "It is encrypted." in result.stdout
    assert not [sent for sent in server.sent if sent[1] == "/v1/evaluations"]


def test_a_question_file_alone_needs_a_collection(server: Server, folder: Path) -> None:
    result = server.run("run", folder / "questions.jsonl")
    assert result.exit_code == 2
    assert "--collection" in result.stderr
    assert server.sent == []
    missing = server.run("run", folder / "questions.jsonl", "-c", "nowhere")
    assert missing.exit_code == 1
    assert "no collection named 'nowhere'" in missing.stderr


def test_an_evaluation_that_failed_says_why(server: Server, folder: Path) -> None:
    error = {"code": "not_found", "detail": "There is no collection col_1."}
    server.routes["GET", "/v1/evaluations/eval_1"] = EVALUATION | {"status": "failed", "error": error}
    result = server.run("run", folder)
    assert result.exit_code == 1
    assert "There is no collection col_1." in result.stderr


def test_comparing_prints_what_is_better_and_that_the_questions_differ(server: Server, folder: Path) -> None:
    for result in (
        server.run("compare", "eval_1", "eval_2"),
        server.run("run", folder, "--compare", "eval_0"),
    ):
        assert result.exit_code == 0, result.stderr
        assert "+0.25" in result.stdout
        assert "second" in result.stdout
        assert "1 questions are in the first only" in result.stderr
        assert "2 common questions have other gold" in result.stderr


def test_json_on_standard_output_stands_alone(server: Server) -> None:
    shown = json.loads(server.run("show", "eval_1", "--json", "-").stdout)
    assert (shown["id"], shown["items"]) == ("eval_1", [{"position": 0}])
    assert json.loads(server.run("compare", "eval_1", "eval_2", "--json", "-").stdout) == COMPARISON


def test_an_evaluation_is_deleted_when_that_is_meant(server: Server) -> None:
    assert server.run("delete", "eval_1").exit_code == 1, "nobody says yes"
    assert server.run("delete", "eval_1", "--yes").exit_code == 0
    deleted = [path for method, path, _ in server.sent if method == "DELETE"]
    assert deleted == ["/v1/evaluations/eval_1"]


def test_evaluations_are_listed(server: Server) -> None:
    result = server.run("list")
    assert "eval_1" in result.stdout
    assert "5 of 5" in result.stdout
    assert json.loads(server.run("list", "--json").stdout)["items"] == [EVALUATION]


# ---- suites ----------------------------------------------------------------------------------


def test_what_is_no_suite_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing at"):
        find_suite(tmp_path / "nowhere")
    with pytest.raises(NotFound, match=r"no questions\.jsonl"):
        find_suite(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InvalidInput, match="no question file"):
        find_suite(tmp_path / "notes.txt")
    (tmp_path / "questions.csv").write_text("question\nx\n")
    (tmp_path / "questions.jsonl").write_text("{}")
    with pytest.raises(InvalidInput, match="both"):
        find_suite(tmp_path)


def test_a_question_file_in_another_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes("question\n谁造的刀？\n".encode("gb18030"))
    with pytest.raises(InvalidInput, match="not UTF-8"):
        find_suite(path).read_questions()
    path.write_bytes("\ufeffquestion\n什么\n".encode())
    assert find_suite(path).read_questions() == ("q.csv", "question\n什么\n")


def test_parameters_are_json_where_they_can_be() -> None:
    assert parse_parameters(["mode=extractive", "rerank=false", "seed=7", 'stop=["。"]', "x=a=b"]) == {
        "mode": "extractive",
        "rerank": False,
        "seed": 7,
        "stop": ["。"],
        "x": "a=b",
    }
    for wrong in (["mode"], ["=x"], ["a=1", "a=2"]):
        with pytest.raises(InvalidInput):
            parse_parameters(wrong)
