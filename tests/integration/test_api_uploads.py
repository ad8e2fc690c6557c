"""Uploads through a real HTTP server: limits, broken connections, names, repetition."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.ids import JobId
from storage.jobs import JobRepository
from tests.api_fixtures import House, open_house, serve, upload_limits

LIMITS = upload_limits(max_request_bytes=3_000_000, max_file_bytes=2_000_000, max_files=50)
BOUNDARY = "longleaf-test"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
HEAD = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="big.bin"\r\n\r\n'.encode()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path, upload=LIMITS) as house:
        yield house


@pytest.fixture
def address(house: House) -> Iterator[tuple[str, int]]:
    with serve(house.services) as address:
        yield address


def path_of(house: House) -> str:
    return f"/v1/collections/{house.collection()}/documents"


def head_of(house: House, *headers: str) -> bytes:
    lines = [
        f"POST {path_of(house)} HTTP/1.1",
        "Host: longleaf",
        f"Authorization: {house.key()['Authorization']}",
        f"Content-Type: {TYPE}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def read_response(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def post(house: House, **content: Any) -> Any:
    headers = house.key() | content.pop("headers", {})
    return house.client.post(path_of(house), headers=headers, **content)


def wait_until_empty(house: House) -> None:
    deadline = time.monotonic() + 5
    while house.blobs() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert house.blobs() == []


def test_files_are_accepted_with_a_job_and_a_row_each(house: House) -> None:
    upload = house.upload(("年报.txt", "收入增长。".encode()), ("report.md", b"# Growth"), ("empty.txt", b""))
    files = upload["files"]
    assert [file["name"] for file in files] == ["年报.txt", "report.md", "empty.txt"]
    assert [file["status"] for file in files] == ["queued", "queued", "failed"]
    assert files[2]["error"]["code"] == "empty_document"
    assert "empty.txt" in files[2]["error"]["detail"]
    assert upload["job"]["progress"] == {"files_done": 1, "files_total": 3}
    job = house.client.get(f"/v1/jobs/{upload['job']['id']}", headers=house.key()).json()
    assert job["files"] == files
    assert len(house.blobs()) == 2


def test_a_declared_2_gb_is_refused_before_a_byte_is_read(house: House, address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(head_of(house, "Content-Length: 2147483648"))
        status, problem = read_response(connection)
    assert (status, problem["code"], problem["max_bytes"]) == (413, "too_large", 3_000_000)
    assert "LONGLEAF_UPLOAD__MAX_REQUEST_BYTES" in problem["remedy"]
    assert house.blobs() == []


def test_an_endless_chunked_upload_is_cut_off_at_the_limit(house: House, address: tuple[str, int]) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield HEAD
        while sent < 2**31:
            sent += 65536
            yield b"\0" * 65536

    response = httpx.post(
        f"http://{address[0]}:{address[1]}{path_of(house)}",
        headers=house.key() | {"Content-Type": TYPE},
        content=endless(),
        timeout=30,
    )
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert sent < 64_000_000  # what the sockets of both sides held
    wait_until_empty(house)


def test_a_file_beyond_its_limit_fails_alone(house: House) -> None:
    files = [("files", ("big.bin", b"x" * 2_000_001)), ("files", ("small.txt", "小".encode()))]
    body = post(house, files=files).json()
    assert [file["status"] for file in body["files"]] == ["failed", "queued"]
    assert body["files"][0]["error"]["code"] == "too_large"
    assert "big.bin" in body["files"][0]["error"]["detail"]
    assert len(house.blobs()) == 1


def test_a_client_that_breaks_off_leaves_nothing(house: House, address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(head_of(house, "Content-Length: 2500000"))
        connection.sendall(HEAD + b"x" * 1_500_000)
        deadline = time.monotonic() + 5
        while not house.blobs() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert house.blobs()[0].endswith(".part")
    wait_until_empty(house)
    assert house.client.get("/v1/jobs", headers=house.key()).json()["items"] == []


def test_a_body_without_its_end_is_refused_and_leaves_nothing(house: House) -> None:
    response = post(house, headers={"Content-Type": TYPE}, content=HEAD + b"half of a file")
    assert response.status_code == 422
    assert "closing boundary" in response.json()["detail"]
    assert house.blobs() == []


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 415),
        ("application/pdf", 415),
        ("", 415),
        ("multipart/form-data", 422),
        ("multipart/form-data; boundary=" + "b" * 71, 422),
    ],
)
def test_a_body_of_another_type_is_refused(house: House, content_type: str, status: int) -> None:
    response = post(house, headers={"Content-Type": content_type}, content=b"{}")
    assert response.status_code == status
    assert "multipart/form-data" in response.json()["remedy"]


def test_a_part_under_another_name_is_refused_by_name(house: House) -> None:
    response = post(house, files=[("document", ("a.txt", b"x"))])
    assert response.status_code == 422
    assert "'document'" in response.json()["detail"]
    assert house.blobs() == []


def test_a_part_without_a_file_name_is_refused(house: House) -> None:
    response = post(house, files=[("files", (None, b"just text"))])
    assert response.status_code == 422
    assert "no file name" in response.json()["detail"]


def test_an_upload_without_files_is_refused(house: House) -> None:
    response = post(house, headers={"Content-Type": TYPE}, content=f"--{BOUNDARY}--\r\n".encode())
    assert (response.status_code, response.json()["code"]) == (422, "empty_input")


def test_more_files_than_allowed_are_refused(house: House) -> None:
    response = post(house, files=[("files", (f"{i}.txt", b"x")) for i in range(51)])
    assert response.status_code == 422
    assert response.json()["max_files"] == 50


def test_an_unknown_collection_is_refused_before_anything_is_read(
    house: House, address: tuple[str, int]
) -> None:
    head = head_of(house, "Content-Length: 2000000").replace(house.collection().encode(), b"col_none")
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(head)
        connection.settimeout(5)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"col_none" in answer


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../../etc/cron.d/evil", "evil"),
        (r"C:\Windows\system32\年报.docx", "年报.docx"),
        ("报\x01告\x7f.txt", "报告.txt"),
        ("/", "unnamed"),
    ],
)
def test_a_name_is_shown_and_never_a_path(house: House, tmp_path: Path, sent: str, kept: str) -> None:
    header = f'Content-Disposition: form-data; name="files"; filename="{sent}"'
    content = f"--{BOUNDARY}\r\n{header}\r\n\r\nx\r\n--{BOUNDARY}--\r\n".encode()
    body = post(house, headers={"Content-Type": TYPE}, content=content).json()
    assert body["files"][0]["name"] == kept
    assert not list(tmp_path.rglob("*evil*"))


def test_300_chinese_characters_are_shortened_and_the_same_bytes_stored_once(house: House) -> None:
    body = house.upload(("报" * 300 + ".pdf", b"same"), ("b.pdf", b"same"))
    assert body["files"][0]["name"].endswith("报.pdf")
    assert len(body["files"][0]["name"].encode()) <= 255
    assert len(house.blobs()) == 1


def test_a_repeated_upload_gives_the_first_job(house: House) -> None:
    headers = {"Idempotency-Key": "batch-7"}
    first = house.upload(("a.txt", b"one"), ("b.txt", b"two"), headers=headers)
    again = house.upload(("a.txt", b"one"), ("b.txt", b"two"), headers=headers)
    assert again == first
    other = post(house, headers=headers, files=[("files", ("a.txt", b"three"))])
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert len(house.client.get("/v1/jobs", headers=house.key()).json()["items"]) == 1


def test_tags_go_with_the_job_to_every_file(house: House) -> None:
    files = [("files", ("a.txt", b"x")), ("files", ("b.txt", b"y"))]
    response = post(house, files=files, data={"tags": ["Contracts, ２０２６", "合同"]})
    assert response.status_code == 202
    with house.services.database.read() as session:
        job = JobRepository(session, house.north).get(JobId(response.json()["job"]["id"]))
        assert job.payload == {"tags": ["contracts", "2026", "合同"]}


def test_the_same_files_with_other_tags_are_another_request(house: House) -> None:
    arguments = {"files": [("files", ("a.txt", b"x"))], "headers": {"Idempotency-Key": "batch-8"}}
    first = post(house, data={"tags": ["一"]}, **arguments)
    assert first.status_code == 202
    assert post(house, data={"tags": ["一"]}, **arguments).json() == first.json()
    assert post(house, data={"tags": ["二"]}, **arguments).json()["code"] == "idempotency_mismatch"


def test_bad_tags_are_refused_and_leave_nothing(house: House) -> None:
    response = post(house, files=[("files", ("a.txt", b"x"))], data={"tags": ["t" * 65]})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert house.blobs() == []
    only = post(house, files=[("tags", (None, b"alone"))])
    assert (only.status_code, only.json()["code"]) == (422, "empty_input")


def test_a_full_disk_stops_the_upload_and_leaves_nothing(tmp_path: Path) -> None:
    limits = upload_limits(min_free_disk_bytes=2**60)
    with open_house(tmp_path, upload=limits) as house:
        response = post(house, files=[("files", ("a.txt", b"x"))])
        assert response.status_code == 413
        assert "disk" in response.json()["detail"]
        assert house.blobs() == []
