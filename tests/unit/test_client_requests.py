from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from client import LongleafClient, ProblemError, UnreachableError
from client.uploads import CountingReader, open_parts, plan_batches

URL = "http://longleaf.test"


def client_of(handler: Callable[[httpx.Request], httpx.Response]) -> LongleafClient:
    return LongleafClient(URL, "ll_key", transport=httpx.MockTransport(handler))


def collection(name: str, number: int = 1) -> dict[str, object]:
    return {"id": f"col_{number}", "name": name, "created_at": "2026-11-30T00:00:00Z", "num_documents": 0}


def answer(status: str, **fields: object) -> dict[str, object]:
    return {"id": "ans_1", "job_id": "job_1", "status": status, "error": None, **fields}


def test_every_request_carries_the_key() -> None:
    seen: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        return httpx.Response(200, json=collection("a"))

    client_of(handle).get_collection("col_1")
    assert seen == ["Bearer ll_key"]


def test_a_problem_is_raised_with_its_way_out() -> None:
    body = {
        "type": "urn:longleaf:problem:not_found",
        "title": "No such object",
        "status": 404,
        "code": "not_found",
        "detail": "There is no collection col_9.",
        "remedy": "List yours with GET /v1/collections.",
        "collection_id": "col_9",
    }
    client = client_of(lambda request: httpx.Response(404, json=body))
    with pytest.raises(ProblemError) as caught:
        client.get_collection("col_9")
    assert (caught.value.status, caught.value.code) == (404, "not_found")
    assert str(caught.value) == "There is no collection col_9. List yours with GET /v1/collections."
    assert caught.value.context == {"collection_id": "col_9"}


def test_an_error_page_of_a_proxy_is_a_problem_too() -> None:
    client = client_of(lambda request: httpx.Response(502, text="<h1>Bad Gateway</h1>"))
    with pytest.raises(ProblemError, match=r"answered 502 Bad Gateway without saying why"):
        client.get_job("job_1")


def test_a_success_that_is_not_json_says_that_this_is_no_longleaf() -> None:
    client = client_of(lambda request: httpx.Response(200, text="hello"))
    with pytest.raises(UnreachableError, match="Is that the address of a Longleaf server"):
        client.get_job("job_1")


def test_nobody_at_the_address_is_said_with_the_address() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(UnreachableError, match=f"Nobody answers at {URL}"):
        client_of(refuse).get_job("job_1")


@pytest.mark.parametrize("url", ["", "localhost:8410", "http://host:port", "ftp://host"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(UnreachableError, match="not the address of a server"):
        LongleafClient(url, "ll_key")


def test_lists_follow_their_cursor_to_the_end() -> None:
    pages = {
        None: {"items": [collection("a", 1), collection("b", 2)], "next_cursor": "two"},
        "two": {"items": [collection("合同", 3)], "next_cursor": None},
    }

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=pages[request.url.params.get("cursor")])

    client = client_of(handle)
    assert [each["name"] for each in client.list_collections()] == ["a", "b", "合同"]
    found = client.find_collection_by_name("合同")
    assert found is not None
    assert found["id"] == "col_3"
    assert client.find_collection_by_name("c") is None


def test_tags_travel_before_the_files_and_in_queries(tmp_path: Path) -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        request.read()
        seen.append(request)
        return httpx.Response(200, json={"job": {}, "files": [], "items": [], "next_cursor": None})

    path = tmp_path / "a.txt"
    path.write_text("content")
    client = client_of(handle)
    client.upload("col_1", [path], tags=["合同", "2026"])
    client.upload("col_1", [path])
    list(client.list_documents("col_1", tags=["合同", "2026"]))
    client.set_document_tags("doc_1", ["终稿"])
    body = seen[0].content.decode()
    assert body.index("合同") < body.index("2026") < body.index("content")
    assert 'name="tags"' not in seen[1].content.decode()
    assert seen[2].url.params.get_list("tag") == ["合同", "2026"]
    assert (seen[3].method, json.loads(seen[3].content)) == ("PATCH", {"tags": ["终稿"]})


def test_a_collection_that_somebody_else_just_made_is_found_again() -> None:
    made = False

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal made
        if request.method == "POST":
            made = True
            return httpx.Response(409, json={"code": "conflict", "detail": "It exists already."})
        return httpx.Response(200, json={"items": [collection("a")] if made else [], "next_cursor": None})

    assert client_of(handle).get_or_create_collection("a")["id"] == "col_1"


def test_batches_keep_order_and_both_bounds(tmp_path: Path) -> None:
    paths = []
    for i, size in enumerate([4, 4, 4, 20, 1, 1, 1]):
        paths.append(tmp_path / str(i))
        paths[-1].write_bytes(b"x" * size)
    batches = plan_batches(paths, max_files=3, max_bytes=10)
    assert [[path.name for path in batch] for batch in batches] == [["0", "1"], ["2"], ["3"], ["4", "5", "6"]]


def test_an_upload_of_nothing_sends_nothing() -> None:
    assert client_of(lambda request: httpx.Response(500)).upload("col_1", []) == []


def test_an_upload_sends_each_file_once_under_its_name_and_counts_its_bytes(tmp_path: Path) -> None:
    names = [f"{i}.txt" for i in range(49)] + ["年度报告.txt", 'a "quoted" name.txt']
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    bodies: list[bytes] = []
    keys: list[str] = []
    counted: dict[str, int] = {}

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        keys.append(request.headers["Idempotency-Key"])
        return httpx.Response(202, json={"job": {"id": f"job_{len(bodies)}"}, "files": []})

    def count(path: Path, num_bytes: int) -> None:
        counted[path.name] = counted.get(path.name, 0) + num_bytes

    batches = client_of(handle).upload("col_1", [tmp_path / name for name in names], on_bytes=count)
    assert [batch.job["id"] for batch in batches] == ["job_1", "job_2"]
    assert [len(batch.paths) for batch in batches] == [50, 1]
    assert bodies[0].count(b'name="files"') == 50
    assert "年度报告.txt".encode() in bodies[0]
    assert len(set(keys)) == 2
    assert counted == {name: len(name.encode()) for name in names}


def test_a_file_is_read_in_pieces_while_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "big.bin"
    path.write_bytes(b"x" * 3_000_000)
    pieces: list[int] = []

    def handle(request: httpx.Request) -> httpx.Response:
        request.read()
        return httpx.Response(202, json={"job": {"id": "job_1"}, "files": []})

    client_of(handle).upload("col_1", [path], on_bytes=lambda _, num_bytes: pieces.append(num_bytes))
    assert sum(pieces) == 3_000_000
    assert max(pieces) <= 1_000_000


def test_a_counting_reader_gives_what_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcdef")
    counted: list[int] = []
    with path.open("rb") as file:
        reader = CountingReader(file, counted.append)
        assert reader.read(4) + reader.read(4) + reader.read(4) == b"abcdef"
    assert counted == [4, 2]


def test_a_question_is_waited_for_beyond_the_servers_own_wait() -> None:
    looks = iter(["running", "succeeded"])

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            assert json.loads(request.content)["mode"] == "extractive"
            return httpx.Response(202, json=answer("queued"))
        return httpx.Response(200, json=answer(next(looks), text="二十七天"))

    assert client_of(handle).ask("col_1", "假期有几天？", mode="extractive")["text"] == "二十七天"


def test_a_file_named_in_gbk_on_the_disk_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode("合同.txt".encode("gbk"))
    path.write_text("正文")
    with ExitStack() as stack:
        [(_, (name, _file))] = open_parts([path], stack, None)
    assert name == "合同.txt"


def test_a_failed_answer_is_a_problem_that_names_it() -> None:
    failed = answer("failed", error={"code": "engine_unavailable", "detail": "The engine is away."})
    client = client_of(lambda request: httpx.Response(200, json=failed))
    with pytest.raises(ProblemError, match="The engine is away") as caught:
        client.ask("col_1", "?")
    assert caught.value.code == "engine_unavailable"
    assert caught.value.context["answer_id"] == "ans_1"


def test_waiting_for_a_job_outlasts_a_restart_of_the_api() -> None:
    calls = 0

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json={"id": "job_1", "status": "succeeded" if calls == 3 else "running"})

    seen: list[str] = []
    job = client_of(handle).wait_for_job("job_1", on_progress=lambda job: seen.append(job["status"]))
    assert job["status"] == "succeeded"
    assert seen == ["running", "succeeded"]


def test_waiting_for_a_job_ends_at_its_time_limit() -> None:
    client = client_of(lambda request: httpx.Response(200, json={"id": "job_1", "status": "running"}))
    with pytest.raises(TimeoutError, match="job_1 is still running"):
        client.wait_for_job("job_1", timeout=0.0)
