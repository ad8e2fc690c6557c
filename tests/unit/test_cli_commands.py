"""Commands against a small server that answers as the API does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.file_selection import collect_files
from cli.main import app
from core.errors import EmptyInput, InvalidInput
from core.settings import load_settings
from embedded.components import PACKAGE_ROOT
from embedded.home import make_home, prepare_database
from tests.trace_samples import ATTENTION, full_trace

COLLECTION = {"id": "col_1", "name": "合同", "created_at": "2026-11-30T00:00:00Z", "num_documents": 2}
CITATION = {
    "number": 1,
    "document_id": "doc_1",
    "document_name": "租赁合同.pdf",
    "start": 10,
    "end": 22,
    "first_page": 3,
    "last_page": 4,
    "quote": "租期为 三年，\n自2025年起。",
    "withdrawn": False,
}
ANSWER: dict[str, Any] = {
    "id": "ans_1",
    "job_id": "job_2",
    "collection_id": "col_1",
    "status": "succeeded",
    "question": "租期多久？",
    "mode": "extractive",
    "outcome": "answered",
    "text": "租期为三年 [1]",
    "short_answer": None,
    "citations": [CITATION],
    "passages": [],
    "warnings": [],
    "finish_reason": "stop",
    "model": "m",
    "usage": {"prompt_tokens": 1200, "cached_tokens": 1024, "completion_tokens": 12},
    "timings": {"queue_seconds": 0.004, "ttft_seconds": 1.5, "total_seconds": 2.0},
    "cost": {"amount": "0.00001230", "currency": "USD"},
    "error": None,
    "accepted_at": "2026-11-30T00:00:00Z",
    "finished_at": "2026-11-30T00:00:02Z",
}
REFUSED = ANSWER | {
    "outcome": "refused",
    "text": "The documents do not say.",
    "citations": [],
    "passages": [
        {
            "document_id": "doc_1",
            "document_name": "a.md",
            "start": 0,
            "end": 9,
            "first_page": None,
            "last_page": None,
            "headings": [],
            "score": 0.1,
        }
    ],
}


def file(name: str, status: str, detail: str = "") -> dict[str, Any]:
    return {
        "id": f"file_{name}",
        "name": name,
        "status": status,
        "num_bytes": 3,
        "document_id": None,
        "progress": {},
        "error": {"code": "x", "detail": detail} if detail else None,
    }


DOCUMENT: dict[str, Any] = {
    "id": "doc_1",
    "collection_id": "col_1",
    "name": "租赁合同.pdf",
    "names": ["租赁合同.pdf"],
    "tags": ["draft", "租赁"],
    "static": False,
    "title": "",
    "status": "ready",
    "media_type": "application/pdf",
    "num_bytes": 100,
    "num_pages": 3,
    "num_chunks": 4,
    "num_characters": 900,
    "warnings": [],
    "error": None,
    "created_at": "2026-11-30T00:00:00Z",
    "indexed_at": None,
}
JOB: dict[str, Any] = {
    "id": "job_1",
    "kind": "ingest",
    "queue": "ingest",
    "status": "succeeded",
    "collection_id": "col_1",
    "progress": {"files_done": 2, "files_total": 2},
    "attempt": 1,
    "error": None,
    "created_at": "2026-11-30T00:00:00Z",
    "started_at": None,
    "finished_at": None,
}
COSTS = {
    "group_by": ["stage"],
    "start": None,
    "end": None,
    "time_zone": "UTC",
    "currency": "USD",
    "rows": [
        {"stage": "embed", "num_tokens": 120000, "cost": "0.0024", "burned_tokens": 7, "burned_cost": "0"}
    ],
    "total": {"num_tokens": 120000, "cost": "0.0024", "burned_tokens": 7, "burned_cost": "0"},
}


class FakeApi(BaseHTTPRequestHandler):
    """Answers with the `routes` of its server: (method, path) to a JSON document."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: test output stays clean."""

    def do_GET(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.sent = sent.decode(errors="replace")  # type: ignore[attr-defined]
        self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        body = self.server.routes.get((self.command, path))  # type: ignore[attr-defined]
        if body is None:
            problem = {"code": "not_found", "detail": f"There is no {path}.", "remedy": "Look around."}
            self._send(404, "application/problem+json", json.dumps(problem))
        elif "text/event-stream" in self.headers.get("Accept", ""):
            self._send(200, "text/event-stream", body)
        else:
            self._send(200, "application/json", json.dumps(body, ensure_ascii=False))

    def _send(self, status: int, media_type: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Cli:
    """Runs `longleaf` in this process, against a server whose answers a test sets."""

    def __init__(self, home: Path, server: ThreadingHTTPServer) -> None:
        self.routes: dict[tuple[str, str], Any] = {
            ("GET", "/v1/collections"): {"items": [COLLECTION], "next_cursor": None}
        }
        server.routes = self.routes  # type: ignore[attr-defined]
        self._home = home
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    @property
    def sent(self) -> str:
        """The body of the last request that had one."""
        return str(self._server.sent)  # type: ignore[attr-defined]

    def __call__(self, *arguments: object, remote: bool = True) -> Result:
        where = ["--url", self.url, "--key", "ll_test"] if remote else []
        command = ["--home", str(self._home), *map(str, arguments), *where]
        # Models prepared for other tests are none of this home's.
        return CliRunner(env={"LONGLEAF_MODEL_CACHE": None}).invoke(app, command)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeApi)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield Cli(tmp_path / "home", server)
    server.shutdown()
    server.server_close()


def events(*pairs: tuple[str, object]) -> str:
    return "".join(
        f"id: {i}-0\nevent: {name}\ndata: {json.dumps(data)}\n\n" for i, (name, data) in enumerate(pairs)
    )


def serve_upload(cli: Cli, files: list[dict[str, Any]]) -> None:
    cli.routes["POST", "/v1/collections/col_1/documents"] = {"job": JOB, "files": files}
    cli.routes["GET", "/v1/jobs/job_1"] = JOB | {"files": files}


def test_help_is_quick_because_it_loads_next_to_nothing() -> None:
    code = (
        "import sys, cli.main\n"
        "heavy = {'torch', 'transformers', 'numpy', 'faiss', 'sqlalchemy', 'pydantic', 'httpx', 'rich.table'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE_ROOT, capture_output=True, check=True)
    assert run.stdout == b"[]\n"


def test_an_upload_lists_what_became_of_each_file_and_fails_if_one_did(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "好.txt").write_text("好")
    (tmp_path / "bad.pdf").write_text("no")
    serve_upload(cli, [file("bad.pdf", "failed", "It is encrypted."), file("好.txt", "ready")])
    result = cli("upload", tmp_path / "bad.pdf", tmp_path / "好.txt", "-c", "合同")
    assert result.exit_code == 1
    assert "好.txt" in result.stdout
    assert "It is encrypted." in result.stdout
    assert "1 ready, 1 failed in collection '合同'." in result.stderr


def test_an_upload_as_json_is_one_document_on_standard_output(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "好.txt").write_text("好")
    serve_upload(cli, [file("好.txt", "duplicate")])
    result = cli("upload", tmp_path / "好.txt", "-c", "合同", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["files"][0]["status"] == "duplicate"
    assert document["files"][0]["path"] == str(tmp_path / "好.txt")


def test_tags_go_with_an_upload(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "好.txt").write_text("好")
    serve_upload(cli, [file("好.txt", "ready")])
    assert cli("upload", tmp_path / "好.txt", "-c", "合同", "--tag", "租赁", "-t", "2026").exit_code == 0
    assert cli.sent.count('name="tags"') == 2
    assert "租赁" in cli.sent


def test_documents_are_listed_with_their_tags_and_tagged(cli: Cli) -> None:
    cli.routes["GET", "/v1/collections/col_1/documents"] = {"items": [DOCUMENT], "next_cursor": None}
    cli.routes["PATCH", "/v1/documents/doc_1"] = DOCUMENT
    assert "draft, 租赁" in cli("documents", "list", "-c", "合同", "--tag", "租赁").stdout
    tagged = cli("documents", "tag", "doc_1", "租赁", "Draft")
    assert json.loads(cli.sent) == {"tags": ["租赁", "Draft"]}
    assert tagged.stderr == "租赁合同.pdf (doc_1) has draft, 租赁.\n"
    assert json.loads(cli("documents", "tag", "doc_1", "--clear", "--json").stdout) == DOCUMENT
    assert json.loads(cli.sent) == {"tags": []}


def test_a_document_is_marked_static_and_unmarked(cli: Cli) -> None:
    cli.routes["PATCH", "/v1/documents/doc_1"] = DOCUMENT | {"static": True}
    assert cli("documents", "static", "doc_1").stderr == "租赁合同.pdf (doc_1) is static.\n"
    assert json.loads(cli.sent) == {"static": True}
    cli.routes["PATCH", "/v1/documents/doc_1"] = DOCUMENT
    assert json.loads(cli("documents", "static", "doc_1", "--off", "--json").stdout) == DOCUMENT
    assert json.loads(cli.sent) == {"static": False}


@pytest.mark.parametrize("arguments", [(), ("x", "--clear")])
def test_tagging_takes_either_tags_or_clear(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("documents", "tag", "doc_1", *arguments).exit_code == 2


def test_an_answer_streams_then_shows_its_citations_and_cost(cli: Cli) -> None:
    cli.routes["POST", "/v1/collections/col_1/questions"] = events(
        ("accepted", {"answer_id": "ans_1", "job_id": "job_2"}),
        ("delta", {"text": "租期为"}),
        ("delta", {"text": "三年 [1]"}),
        ("done", ANSWER),
    )
    result = cli("ask", "租期多久？", "-c", "合同")
    assert result.exit_code == 0
    assert result.stdout.startswith("租期为三年 [1]\n")
    assert "“租期为 三年， 自2025年起。”" in result.stdout
    assert "租赁合同.pdf, pp. 3-4" in result.stdout
    said = " ".join(result.stdout.split())
    assert "1200 prompt tokens (1024 cached), 12 written" in said
    assert "queue 4 ms, first token 1.50 s, total 2.00 s" in said
    assert "0.0000123 USD" in said


def test_sampling_goes_with_a_question_and_what_was_applied_is_shown(cli: Cli) -> None:
    applied = {
        "preset": "creative",
        "temperature": 0.9,
        "max_tokens": 300,
        "stop": ["。"],
        "logit_bias": {"7": -1.0},
    }
    cli.routes["POST", "/v1/collections/col_1/questions"] = ANSWER | {"steps": {"sampling": applied}}
    flags = ("--preset", "creative", "--stop", "。", "--logit-bias", "7=-1", "--bad-word", "坏", "-n", "3")
    result = cli("ask", "?", "-c", "合同", "--no-stream", "--top-k", "5", "--seed", "7", *flags)
    sent = json.loads(cli.sent)
    asked = {"preset": "creative", "stop": ["。"], "logit_bias": {"7": -1.0}, "bad_words": ["坏"], "n": 3}
    assert {name: sent.get(name) for name in asked} == asked
    assert (sent["top_k"], sent["seed"]) == (5, 7)
    assert "temperature" not in sent
    said = " ".join(result.stdout.split())
    assert "preset creative, temperature 0.9, max_tokens 300, stop '。', logit_bias 7=-1" in said


def test_samples_are_shown_with_how_far_they_agree_and_what_each_cost(cli: Cli) -> None:
    usage = {"prompt_tokens": 9, "cached_tokens": 0, "completion_tokens": 4}
    cost = {"amount": "0.000002", "currency": "USD"}
    items = [
        {"text": text, "finish_reason": "stop", "seed": None, "cluster": group, "usage": usage, "cost": cost}
        for text, group in (("租期为三年", 0), ("两年", 1), ("三年", 0))
    ]
    samples = {"agreement": 0.6667, "chosen": 0, "clusters": [[0, 2], [1]], "items": items}
    cli.routes["POST", "/v1/collections/col_1/questions"] = ANSWER | {"samples": samples}
    said = " ".join(cli("ask", "?", "-c", "合同", "--no-stream").stdout.split())
    assert "2 of 3 samples say this." in said
    assert "– 1: 两年" in said
    assert "4 tokens for 0.000002 USD, 4 tokens for 0.000002 USD" in said


def test_a_bias_that_is_no_pair_is_a_usage_error(cli: Cli) -> None:
    assert cli("ask", "?", "-c", "合同", "--logit-bias", "the").exit_code == 2


def test_a_restarted_answer_ends_with_the_final_text(cli: Cli) -> None:
    cli.routes["POST", "/v1/collections/col_1/questions"] = events(
        ("accepted", {"answer_id": "ans_1", "job_id": "job_2"}),
        ("delta", {"text": "half an ans"}),
        ("restart", {"attempt": 2}),
        ("done", ANSWER),
    )
    assert "starting again)\n租期为三年 [1]\n" in cli("ask", "?", "-c", "合同").stdout


def test_citations_that_the_stream_did_not_have_yet_are_shown_in_the_checked_text(cli: Cli) -> None:
    cli.routes["POST", "/v1/collections/col_1/questions"] = events(
        ("accepted", {"answer_id": "ans_1", "job_id": "job_2"}),
        ("delta", {"text": "租期为三年"}),
        ("done", ANSWER),
    )
    assert cli("ask", "?", "-c", "合同").stdout.startswith(
        "租期为三年\n\nChecked, with citations:\n租期为三年 [1]\n"
    )


def test_an_answer_that_nothing_supports_says_so(cli: Cli) -> None:
    warning = "Nothing in the passages supports: 租期为三年"
    cli.routes["POST", "/v1/collections/col_1/questions"] = ANSWER | {"citations": [], "warnings": [warning]}
    assert f"  ! {warning}\n" in cli("ask", "?", "-c", "合同", "--no-stream").stdout


def test_a_long_chinese_quotation_stands_beside_its_number(cli: Cli) -> None:
    citation = CITATION | {"quote": "租期为三年自签字之日起算" * 12}
    cli.routes["POST", "/v1/collections/col_1/questions"] = ANSWER | {"citations": [citation]}
    lines = cli("ask", "?", "-c", "合同", "--no-stream").stdout.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("  [1] “租期为三年"))
    quoted = lines[first : first + 3]
    assert all(line.startswith(" " * 6) for line in quoted[1:])
    assert "".join(line.strip() for line in quoted) == f"[1] “{citation['quote']}”"
    assert quoted == [line.rstrip() for line in quoted]


def test_a_refusal_shows_the_nearest_passages(cli: Cli) -> None:
    cli.routes["POST", "/v1/collections/col_1/questions"] = REFUSED
    cli.routes["GET", "/v1/documents/doc_1/text"] = {"text": "Something\nelse."}
    result = cli("ask", "?", "-c", "合同", "--no-stream")
    assert result.exit_code == 0
    assert "The documents do not say." in result.stdout
    assert "a.md: Something else." in result.stdout


def test_an_answer_as_json_is_the_apis_own(cli: Cli) -> None:
    cli.routes["POST", "/v1/collections/col_1/questions"] = ANSWER
    assert json.loads(cli("ask", "?", "-c", "合同", "--json").stdout) == ANSWER


def test_an_unknown_collection_is_named_with_what_makes_one(cli: Cli) -> None:
    result = cli("ask", "?", "-c", "nowhere")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: There is no collection named 'nowhere'.")
    assert "-c nowhere" in result.stderr


def test_a_problem_of_the_server_is_one_line_without_traceback(cli: Cli) -> None:
    result = cli("jobs", "show", "job_9")
    assert result.exit_code == 1
    assert result.stderr == "error: There is no /v1/jobs/job_9. Look around.\n"


def test_what_the_server_cannot_understand_is_wrong_use(cli: Cli) -> None:
    problem = {"status": 422, "code": "empty_input", "detail": "The question is empty.", "remedy": "Ask."}
    cli.routes["POST", "/v1/collections/col_1/questions"] = events(
        ("accepted", {"answer_id": "ans_1", "job_id": "job_2"}), ("error", problem)
    )
    result = cli("ask", "", "-c", "合同")
    assert (result.exit_code, result.stderr) == (2, "error: The question is empty. Ask.\n")


def test_without_a_key_the_way_to_one_is_shown(cli: Cli) -> None:
    result = cli("jobs", "list", remote=False)
    assert result.exit_code == 2
    assert "There is no API key for" in result.stderr
    assert "longleaf up" in result.stderr


def test_a_path_that_does_not_exist_is_wrong_use(cli: Cli, tmp_path: Path) -> None:
    result = cli("upload", tmp_path / "nothing")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_costs_come_as_table_and_as_json(cli: Cli) -> None:
    cli.routes["GET", "/v1/reports/costs"] = COSTS
    result = cli("costs", "--by", "stage")
    assert "120,000" in result.stdout
    assert "0.0024 USD" in result.stdout
    assert json.loads(cli("costs", "--by", "stage", "--json").stdout) == COSTS


def test_costs_show_what_the_machine_cost_where_it_has_an_hourly_rate(cli: Cli) -> None:
    assert "machine" not in cli_costs(cli, COSTS)
    rated = {"engine_cost": "0.5", "margin": "-0.4976"}
    row, other = COSTS["rows"][0], COSTS["rows"][0] | {"stage": "embed"}
    shown = cli_costs(cli, COSTS | {"rows": [row | rated, other], "total": COSTS["total"] | rated})
    assert "machine" in shown
    assert "-0.4976 USD" in shown
    assert "–" in shown
    assert "the machine cost 0.5 USD, which leaves -0.4976 USD" in shown


def cli_costs(cli: Cli, report: dict[str, Any]) -> str:
    cli.routes["GET", "/v1/reports/costs"] = report
    result = cli("costs", "--by", "stage")
    return f"{result.stdout}{result.stderr}"


def test_what_cost_most_stands_with_its_name(cli: Cli) -> None:
    thing = {"id": "doc_1", "text": "合同.pdf", "cost": "0.25"}
    found = {"currency": "USD", "documents": [thing], "questions": []}
    cli.routes["GET", "/v1/reports/costs/top"] = found
    shown = cli("costs", "top").stdout
    assert "合同.pdf" in shown
    assert "0.25 USD" in shown
    assert json.loads(cli("costs", "top", "--json").stdout) == found


def test_savings_are_told_in_a_sentence_each(cli: Cli) -> None:
    found = {
        "currency": "USD",
        "cached_tokens": 120_000,
        "uncached_cost": "0.8",
        "cost": "0.1",
        "reused_tokens": 5_000,
        "reused_cost": "0.02",
        "saved": "0.72",
    }
    cli.routes["GET", "/v1/reports/savings"] = found
    shown = " ".join(cli("costs", "savings").stderr.split())
    assert "120,000 tokens" in shown
    assert "0.7 USD saved" in shown
    assert "5,000 tokens of uploads were embedded before: 0.02 USD saved, 0.72 USD in all." in shown


def test_an_invoice_is_told_line_by_line_and_says_that_its_month_is_not_over(cli: Cli) -> None:
    line = {
        "model": "m",
        "stage": "decode",
        "is_correction": True,
        "num_tokens": -400,
        "price_per_million": "0.8",
        "amount": "-0.00032",
    }
    found = {
        "number": "2026-11-abc",
        "currency": "USD",
        "lines": [line],
        "subtotal": "-0.00032",
        "rounding": "0.00032",
        "total": "0.00",
        "is_final": False,
    }
    cli.routes["GET", "/v1/reports/invoice"] = found
    result = cli("costs", "invoice", "2026-11")
    assert "decode, correction" in result.stdout
    assert "2026-11-abc: 0.00 USD (the month is not over)" in result.stderr


def test_stored_reports_are_listed_and_shown(cli: Cli) -> None:
    report = {
        "id": "rep_1",
        "status": "succeeded",
        "parameters": {"interval": "last_month", "group_by": ["stage"]},
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
    }
    cli.routes["GET", "/v1/reports/costs/stored"] = {"items": [report], "next_cursor": None}
    cli.routes["GET", "/v1/reports/costs/stored/rep_1"] = report | {"content": {"costs": COSTS}}
    assert "last_month" in cli("costs", "stored").stdout
    assert "120,000" in cli("costs", "stored", "rep_1").stdout


def test_a_ledger_that_differs_from_the_engines_ends_the_command_with_a_status_of_its_own(cli: Cli) -> None:
    zero = {"prompt": 0, "cached": 0, "generation": 0}
    differs = {"engine": 1000, "ledger": 990, "difference": -10, "unexplained": -10, "share": 0.01}
    model = {
        "model": "m",
        "compared_from": "2026-11-30T00:00:00Z",
        "compared_to": "2026-12-01T00:00:00Z",
        "counters": {"prompt": differs},
        "billed": zero | {"prompt": 890},
        "burned": {"failed": zero | {"prompt": 100}},
        "is_alarming": True,
        "notes": [],
    }
    cli.routes["GET", "/v1/reports/reconciliation"] = {"models": [model], "is_alarming": True}
    result = cli("costs", "reconcile")
    assert result.exit_code == 2
    assert "-10" in result.stdout
    assert "m: ALARM, 2026-11-30 00:00Z to 2026-12-01 00:00Z." in result.stderr
    cli.routes["GET", "/v1/reports/reconciliation"] = {"models": [], "is_alarming": False}
    assert cli("costs", "reconcile").exit_code == 0


def test_jobs_and_collections_are_listed(cli: Cli) -> None:
    cli.routes["GET", "/v1/jobs"] = {"items": [JOB], "next_cursor": None}
    jobs = cli("jobs", "list").stdout
    assert "2 of 2 files" in jobs
    assert "2026-11-30 00:00Z" in jobs
    assert "合同" in cli("collections", "list").stdout


def test_keys_and_tenants_are_kept_in_the_local_database(cli: Cli, tmp_path: Path) -> None:
    unready = cli("tenants", "list", remote=False)
    assert unready.exit_code == 2
    assert "is not migrated" in unready.stderr
    settings = load_settings(home=tmp_path / "home")
    make_home(settings)
    prepare_database(settings)

    tenant = json.loads(cli("tenants", "create", "律所", "--json", remote=False).stdout)
    made = cli("keys", "create", "portal", "--tenant", "律所", "--scope", "ask", "--json", remote=False)
    key = json.loads(made.stdout)
    assert key["key"].startswith("ll_")
    assert (key["tenant_id"], key["scopes"]) == (tenant["id"], ["ask"])
    cli("keys", "revoke", key["id"], "--tenant", tenant["id"], remote=False)
    listed = json.loads(cli("keys", "list", "--tenant", "律所", "--json", remote=False).stdout)["items"]
    assert [each["id"] for each in listed] == [key["id"]]
    assert listed[0]["revoked_at"] is not None
    assert "key" not in listed[0]
    names = [
        each["name"] for each in json.loads(cli("tenants", "list", "--json", remote=False).stdout)["items"]
    ]
    assert names == ["default", "律所"]


def test_an_unknown_scope_is_wrong_use(cli: Cli, tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path / "home")
    make_home(settings)
    prepare_database(settings)
    result = cli("keys", "create", "portal", "--scope", "everything", remote=False)
    assert result.exit_code == 2
    assert "There is no scope 'everything'" in result.stderr


def test_a_key_cannot_outlive_the_calendar(cli: Cli) -> None:
    result = cli("keys", "create", "portal", "--expires-in-days", 10**12, remote=False)
    assert result.exit_code == 2
    assert "--expires-in-days" in result.stderr


def test_the_models_in_use_are_listed(cli: Cli) -> None:
    items = json.loads(cli("models", "list", "--json", remote=False).stdout)["items"]
    in_use = {item["role"]: item["name"] for item in items if item["in_use"]}
    assert in_use == {"embedder": "multilingual-e5-small", "generator": "smollm2-135m-instruct"}
    assert not any(item["prepared"] for item in items)


def test_doctor_names_what_is_wrong_on_an_empty_machine(cli: Cli) -> None:
    result = cli("doctor", "--json", remote=False)
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    verdicts = {finding["subject"]: finding["verdict"] for finding in document["findings"]}
    assert verdicts["data folder"] == "fault"
    assert verdicts["database"] == "fault"
    assert verdicts["redis"] == "away"


def test_folders_are_searched_without_what_is_hidden(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".hidden", "sub/c.txt", ".git/config", "sub/.d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [path.relative_to(tmp_path).as_posix() for path in collect_files([tmp_path, tmp_path / "b.txt"])]
    assert found == ["a.txt", "b.txt", "sub/c.txt"]
    assert collect_files([tmp_path / ".hidden"]) == [tmp_path / ".hidden"]


def test_nothing_to_upload_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EmptyInput, match="There is no file in"):
        collect_files([tmp_path])
    with pytest.raises(InvalidInput, match="does not exist"):
        collect_files([tmp_path / "nothing"])


def with_trace(cli: Cli, trace: dict[str, Any]) -> None:
    cli.routes["GET", "/v1/answers/ans_1"] = ANSWER
    cli.routes["GET", "/v1/answers/ans_1/trace"] = trace


def test_a_trace_is_shown_with_its_cache_its_certainty_and_its_tokens(cli: Cli) -> None:
    with_trace(cli, full_trace())
    shown = cli("trace", "ans_1", "--tokens").stdout
    assert "60 prompt tokens, 32 cached; 12 written, ended by stop" in shown
    assert "perplexity 1.19" in shown
    assert "<0xE5><0x85>" in shown
    assert json.loads(cli("trace", "ans_1", "--json").stdout)["detail"] == "full"


def test_attention_is_waited_for_and_its_failure_told(cli: Cli) -> None:
    with_trace(cli, full_trace(attention=ATTENTION))
    cli.routes["POST", "/v1/answers/ans_1/trace/attention"] = JOB
    cli.routes["GET", "/v1/jobs/job_1"] = JOB
    assert "attention among passages" in cli("trace", "ans_1", "--attention").stdout
    error = {"code": "too_long", "detail": "The prompt has 9,000 tokens."}
    cli.routes["GET", "/v1/jobs/job_1"] = JOB | {"status": "failed", "error": error}
    result = cli("trace", "ans_1", "--attention")
    assert result.exit_code == 1
    assert "9,000 tokens" in result.output


def test_doctor_looks_at_an_answer_from_afar_and_ends_with_1_if_something_is_wrong(cli: Cli) -> None:
    with_trace(cli, full_trace())
    result = cli("doctor", "answer", "ans_1")
    assert result.exit_code == 0
    assert "✓ stop: it ended by itself after 12 tokens." in result.stdout
    with_trace(cli, full_trace(finish_reason="length"))
    result = cli("doctor", "answer", "ans_1", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["num_wrong"] == 1
    (wrong,) = [check for check in document["checks"] if check["verdict"] == "wrong"]
    assert (wrong["subject"], wrong["remedy"]) == ("stop", "Raise `max_tokens`.")


def test_a_question_can_ask_for_its_trace(cli: Cli) -> None:
    cli.routes["POST", "/v1/collections/col_1/questions"] = ANSWER
    cli("ask", "租期多久？", "--collection", COLLECTION["name"], "--trace", "--json")
    assert json.loads(cli.sent)["trace"] is True
