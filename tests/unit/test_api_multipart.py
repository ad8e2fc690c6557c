from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.multipart import MAX_OPEN_FILES, UploadParser
from core.errors import InvalidInput
from core.ids import KeyId, TenantId
from core.settings import UploadSettings
from ingest.uploads import FileReceiver
from storage.blobs import LocalBlobStore
from tenancy.principal import Principal, Scope

BOUNDARY = b"longleaf-test"
PRINCIPAL = Principal(TenantId("ten_1"), KeyId("key_1"), frozenset({Scope.INGEST}))
LIMITS = UploadSettings.model_validate({"max_file_bytes": 1000, "max_files": 100})


def part(name: str, content: bytes, headers: str = "") -> bytes:
    disposition = f'Content-Disposition: form-data; name="files"; filename="{name}"\r\n{headers}\r\n'
    return b"--" + BOUNDARY + b"\r\n" + disposition.encode() + content + b"\r\n"


def tags_part(value: bytes, headers: str = "") -> bytes:
    disposition = f'Content-Disposition: form-data; name="tags"{headers}\r\n\r\n'
    return b"--" + BOUNDARY + b"\r\n" + disposition.encode() + value + b"\r\n"


def body(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def parser(folder: Path) -> UploadParser:
    store = LocalBlobStore(folder)
    return UploadParser(BOUNDARY, lambda name: FileReceiver(PRINCIPAL, store, name, LIMITS), LIMITS)


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def slices(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_files_are_the_same_however_the_body_is_cut(parser: UploadParser, folder: Path, size: int) -> None:
    contents = {"年报.txt": "收入增长。".encode(), "b.bin": b"\r\n--longleaf-tes\r\n--", "c": b"-" * 300}
    whole = body(*(part(name, content) for name, content in contents.items()))
    for piece in slices(whole, size):
        parser.feed(piece)
    files = parser.finish()
    assert [file.name for file in files] == list(contents)
    for file, content in zip(files, contents.values(), strict=True):
        assert (folder / "ten_1" / file.content_hash[:2] / file.content_hash).read_bytes() == content


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_tags_come_before_between_or_after_the_files(parser: UploadParser, size: int) -> None:
    whole = body(
        tags_part("合同，Lease".encode()),
        part("a.txt", b"1"),
        tags_part(b"2026"),
        part("b.txt", b"2"),
        tags_part(b" lease , "),
        tags_part(b""),
    )
    for piece in slices(whole, size):
        parser.feed(piece)
    assert [file.name for file in parser.finish()] == ["a.txt", "b.txt"]
    assert parser.tags == ("合同", "lease", "2026")


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (tags_part("合同".encode("gbk")), "not in UTF-8"),
        (tags_part("字".encode() * 65), "at most 64"),
        (tags_part(b",".join(str(i).encode() for i in range(33))), "too many"),
        (tags_part(b"a, " * 6000), "longer than 16,384 bytes"),
        (tags_part(b"a\x00b"), "cannot be seen"),
        (tags_part(b"x", headers='; filename="tags.txt"'), "`tags` is a file"),
    ],
)
def test_bad_tags_stop_the_upload_before_its_files(parser: UploadParser, sent: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parser.feed(sent + body(part("a.txt", b"1")))


def test_a_refused_file_does_not_disturb_the_others(parser: UploadParser) -> None:
    parser.feed(body(part("a", b"1"), part("empty", b""), part("huge", b"x" * 1001), part("z", b"2")))
    files = parser.finish()
    assert [file.error.code if file.error else None for file in files] == [
        None,
        "empty_document",
        "too_large",
        None,
    ]


def test_a_body_that_breaks_off_leaves_nothing(parser: UploadParser, folder: Path) -> None:
    parser.feed(body(part("a", b"1"), part("b", b"2"))[:-20])
    with pytest.raises(InvalidInput, match="closing boundary"):
        parser.finish()
    parser.discard()
    assert stored(folder) == []


def test_no_file_becomes_visible_before_the_body_is_complete(parser: UploadParser, folder: Path) -> None:
    parser.feed(part("a", b"1") + part("b", b"2"))
    assert all(name.endswith(".part") for name in stored(folder))


def test_a_large_batch_holds_only_so_many_files_open(parser: UploadParser, folder: Path) -> None:
    parser.feed(b"".join(part(f"{i}.txt", str(i).encode()) for i in range(MAX_OPEN_FILES + 5)))
    assert sum(name.endswith(".part") for name in stored(folder)) <= MAX_OPEN_FILES + 1
    parser.feed(body())
    assert [file.name for file in parser.finish()] == [f"{i}.txt" for i in range(MAX_OPEN_FILES + 5)]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (b'Content-Disposition: form-data; name="file"; filename="a"', "named 'file'"),
        (b'Content-Disposition: form-data; name="files"', "no file name"),
        (b'Content-Disposition: form-data; name="files"; filename=""', "no file name"),
        (b"Content-Disposition: form-data", "has no name"),
        (b"Content-Type: text/plain", "has no name"),
        (
            b'Content-Disposition: form-data; name="files"; filename="a"\r\nContent-Transfer-Encoding: base64',
            "Content-Transfer-Encoding 'base64'",
        ),
    ],
)
def test_a_part_that_is_no_file_is_named(
    parser: UploadParser, folder: Path, headers: bytes, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        parser.feed(b"--" + BOUNDARY + b"\r\n" + headers + b"\r\n\r\nx\r\n--" + BOUNDARY + b"--\r\n")
    assert stored(folder) == []


def test_a_malformed_body_is_located(parser: UploadParser) -> None:
    with pytest.raises(InvalidInput, match="malformed near byte"):
        parser.feed(b"this is not multipart")


def test_more_files_than_allowed_are_refused(parser: UploadParser, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="more than 100 files"):
        parser.feed(b"".join(part(f"{i}", b"x") for i in range(101)))
    parser.discard()
    assert not any(name.endswith(".part") for name in stored(folder))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        (r"..\..\boot.ini", "boot.ini"),
        ("a\x07b\u202egpj.exe", "abgpj.exe"),
        ("..", "unnamed"),
    ],
)
def test_path_tricks_and_control_characters_are_taken_out_of_names(
    parser: UploadParser, sent: str, kept: str
) -> None:
    parser.feed(body(part(sent, b"x")))
    assert parser.finish()[0].name == kept


def test_three_hundred_chinese_characters_are_shortened_and_keep_their_suffix(parser: UploadParser) -> None:
    parser.feed(body(part("报" * 300 + ".pdf", b"x")))
    name = parser.finish()[0].name
    assert name.endswith("报.pdf")
    assert len(name.encode()) <= 255


def test_three_hundred_chinese_characters_may_come_percent_encoded(parser: UploadParser) -> None:
    encoded = "%E6%8A%A5" * 300 + ".pdf"
    line = f"Content-Disposition: form-data; name=files; filename=\"{encoded}\"; filename*=UTF-8''{encoded}"
    parser.feed(body(b"--" + BOUNDARY + b"\r\n" + line.encode() + b"\r\n\r\nx\r\n"))
    assert parser.finish()[0].name.startswith("报报")
