import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import EmptyDocument, EncryptedDocument, UnreadableDocument, UnsupportedFormat
from ingest.isolation import IsolatedDocument, parse_isolated
from ingest.parsers import parse
from tests.documents import make_docx, make_pdf, paragraph

SAMPLES = Path(__file__).parent.parent / "samples"
GIB = 1024**3
SEND_INFO = (
    "import sys, time; from ingest.frames import *; from ingest.parsed import DocumentInfo;"
    "send_frame(sys.stdout.buffer, INFO, pack_info(DocumentInfo('text/plain', '', 1)));"
)


def isolate(path: Path, name: str = "", *, timeout_seconds: float = 30.0) -> IsolatedDocument:
    return parse_isolated(path, name or path.name, timeout_seconds=timeout_seconds, memory_bytes=2 * GIB)


def run(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def test_gives_what_the_parser_gives(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf([["Page one"], [], ["第三页"]], title="手册"))
    info, expected = parse(path, "a.pdf")
    with isolate(path) as document:
        pages = list(document)
    assert document.info == info
    assert document.warnings == ("There is no text on page 2.",)
    assert [(page.number, page.text, page.headings) for page in pages] == [
        (page.number, page.text, page.headings) for page in expected
    ]
    assert pages[0].lines[0].x0 == pytest.approx(72, abs=3)


@pytest.mark.parametrize(
    ("sample", "error"),
    [("encrypted.pdf", EncryptedDocument), ("scan.pdf", EmptyDocument), ("picture.png", UnsupportedFormat)],
)
def test_errors_cross_as_they_are(sample: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=sample) as caught, isolate(SAMPLES / sample) as document:
        list(document)
    assert type(caught.value) is error
    assert caught.value.remedy  # type: ignore[attr-defined]


def test_a_crash_is_an_error_about_the_file() -> None:
    with pytest.raises(UnreadableDocument, match=r"bad\.pdf.*SIGSEGV"):
        IsolatedDocument(run("import os; os.kill(os.getpid(), 11)"), "bad.pdf", 30)


def test_a_crash_between_pages_is_an_error_about_the_file() -> None:
    process = run(SEND_INFO + "import os; os.kill(os.getpid(), 9)")
    with (
        IsolatedDocument(process, "bad.pdf", 30) as document,
        pytest.raises(UnreadableDocument, match="SIGKILL"),
    ):
        list(document)


def test_silence_ends_with_the_timeout_and_the_child() -> None:
    process = run(SEND_INFO + "time.sleep(60)")
    with (
        pytest.raises(UnreadableDocument, match=r"slow\.pdf.*longer than 0\.5 seconds"),
        IsolatedDocument(process, "slow.pdf", 0.5) as document,
    ):
        list(document)
    assert process.poll() == -signal.SIGKILL


def test_nonsense_on_the_pipe_is_an_error_about_the_file() -> None:
    with pytest.raises(UnreadableDocument, match="nonsense"):
        IsolatedDocument(run("print('i' + 'A' * 4000)"), "bad.pdf", 30)


def test_leaving_early_kills_the_child() -> None:
    process = run(SEND_INFO + "time.sleep(60)")
    with IsolatedDocument(process, "a.txt", 30):
        pass
    assert process.poll() == -signal.SIGKILL


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big.docx"
    path.write_bytes(make_docx(paragraph("word " * 10_000_000)))
    with pytest.raises(UnreadableDocument, match=r"big\.docx"):
        parse_isolated(path, "big.docx", timeout_seconds=60, memory_bytes=192 * 1024**2)


def test_the_child_sees_none_of_our_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGLEAF_DATABASE_URL", "postgresql://secret")
    path = tmp_path / "a.txt"
    path.write_text("words " * 1_000_000)
    with isolate(path):
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        environments = [Path(f"/proc/{child}/environ").read_bytes() for child in children]
    assert any(b"PYTHONUTF8" in environment for environment in environments)
    assert not any(b"secret" in environment for environment in environments if b"PYTHONUTF8" in environment)


def test_odd_names_are_only_names(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_text("text")
    with isolate(path, "../../etc/\x00pass\nwd \udcff" + "长" * 300 + ".txt") as document:
        assert [page.text for page in document] == ["text\n"]
