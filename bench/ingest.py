"""How fast documents become searchable, against the loop that everybody writes first.

The loop reads each PDF with pdfium, splits it with langchain's splitter at the same number of
tokens, encodes with sentence-transformers in fp32 and adds to a flat FAISS index, in one process.
Longleaf takes the same files over REST and is done when its job is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import faiss
import numpy as np
import pypdfium2
from langchain_text_splitters import RecursiveCharacterTextSplitter
from rapidocr import RapidOCR
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.service import running_service
from client import LongleafClient
from core.settings import load_settings
from embedded.stack import EmbeddedStack
from inference.prepare import model_path
from inference.registry import find_model
from ingest.isolation import parse_isolated

_FILES = ("debian-reference.en.pdf", "debian-reference.zh-cn.pdf")
_QUICK_PAGES = 40
_LARGE_PAGES = 2000


def run(options: BenchOptions) -> BenchResult:
    """Pages per second to searchable, first and second time, memory, and two ratios."""
    with TemporaryDirectory() as folder:
        files = _prepare_files(options, Path(folder))
        large = _repeat_pages(files[0], _LARGE_PAGES, Path(folder) / "large.pdf")
        parse_ratio, parse_rates = _compare_parsing(files)
        num_pages = sum(_count_pages(path) for path in files)
        with running_service(options, "ingest", with_engine=False) as (stack, client):
            first = _upload(client, files)
            second = _upload(client, files)
            memory = _peak_over_idle(stack, client, large)
        loop = _naive_loop(options, files)
    return BenchResult(
        name="ingest",
        config={"files": [path.name for path in files], "pages": num_pages, "quick": options.quick},
        figures={
            "parse_vs_pdfium": parse_ratio,
            "searchable_vs_fp32_loop": loop / first,
            "pages_per_second": num_pages / first,
            "rss_2000_pages_over_idle_bytes": memory,
            "ocr_pages_per_second": _ocr_rate(options),
            "reupload_speedup": first / second,
        },
        details={
            "seconds": {"first_upload": first, "second_upload": second, "fp32_loop": loop},
            "parse_pages_per_second": parse_rates,
            "ocr": "the prepared model alone: this version refuses pages without a text layer",
        },
        tables=[
            BenchTable(
                f"{num_pages} pages to searchable",
                ("way", "seconds", "pages/s"),
                [
                    ("Longleaf, over REST", f"{first:.1f}", f"{num_pages / first:.2f}"),
                    ("Longleaf, the same files again", f"{second:.2f}", f"{num_pages / second:.0f}"),
                    ("fp32 loop in one process", f"{loop:.1f}", f"{num_pages / loop:.2f}"),
                ],
            )
        ],
    )


def _prepare_files(options: BenchOptions, folder: Path) -> list[Path]:
    files = [options.data_dir / "demo" / name for name in _FILES]
    if not options.quick:
        return files
    return [_repeat_pages(path, _QUICK_PAGES, folder / path.name) for path in files]


def _repeat_pages(source: Path, num_pages: int, target: Path) -> Path:
    """A PDF of `num_pages` pages: those of `source`, over and over."""
    original, made = pypdfium2.PdfDocument(source), pypdfium2.PdfDocument.new()
    while len(made) < num_pages:
        made.import_pages(original, list(range(min(len(original), num_pages - len(made)))))
    made.save(target)
    return target


def _count_pages(path: Path) -> int:
    return len(pypdfium2.PdfDocument(path))


def _compare_parsing(files: Sequence[Path]) -> tuple[float, dict[str, float]]:
    """Our reading (isolated, with boxes and headings) over pdfium's bare text, best of three each."""
    pages = sum(_count_pages(path) for path in files)
    plain = min(_seconds(lambda: _read_plain(files)) for _ in range(3))
    ours = min(_seconds(lambda: _read_ours(files)) for _ in range(3))
    return plain / ours, {"pdfium": pages / plain, "longleaf": pages / ours}


def _read_plain(files: Sequence[Path]) -> None:
    for path in files:
        _plain_text(path)


def _read_ours(files: Sequence[Path]) -> None:
    for path in files:
        _our_text(path)


def _plain_text(path: Path) -> str:
    document = pypdfium2.PdfDocument(path)
    return "".join(page.get_textpage().get_text_range() for page in document)


def _our_text(path: Path) -> None:
    limits = load_settings().chunk
    with parse_isolated(
        path,
        path.name,
        timeout_seconds=limits.parse_timeout_seconds,
        memory_bytes=limits.parse_memory_bytes,
    ) as pages:
        for _ in pages:
            pass


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _upload(client: LongleafClient, files: Sequence[Path]) -> float:
    """Seconds from the request to the last file searchable."""
    collection_id = client.get_or_create_collection("bench")["id"]
    started = time.perf_counter()
    for upload in client.upload(collection_id, files):
        client.wait_for_job(upload.job["id"])
    return time.perf_counter() - started


def _peak_over_idle(stack: EmbeddedStack, client: LongleafClient, large: Path) -> int:
    """How far the ingest worker's resident memory rises above idle for a document of 2,000 pages."""
    pid = stack.pid("ingest")
    assert pid is not None
    idle = peak = _resident_bytes(pid)
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.1):
            peak = max(peak, _resident_bytes(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _upload(client, [large])
    stop.set()
    watcher.join()
    return peak - idle


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _ocr_rate(options: BenchOptions) -> float:
    """Pages per second of the packaged OCR model on rendered pages, at 144 dots per inch."""
    num_pages = 1 if options.quick else 3
    recognize = RapidOCR(params={"Global.log_level": "warning"})
    document = pypdfium2.PdfDocument(options.data_dir / "demo" / _FILES[1])
    pictures = [np.array(document[40 + i].render(scale=2).to_pil()) for i in range(num_pages)]
    started = time.perf_counter()
    for picture in pictures:
        recognize(picture)
    return num_pages / (time.perf_counter() - started)


def _naive_loop(options: BenchOptions, files: Sequence[Path]) -> float:
    settings = load_settings()
    folder = model_path(find_model(settings.embedder, role="embedder"), options.model_dir)
    model = SentenceTransformer(str(folder), local_files_only=True, model_kwargs={"dtype": "float32"})
    splitter = RecursiveCharacterTextSplitter.from_huggingface_tokenizer(
        AutoTokenizer.from_pretrained(folder),
        chunk_size=settings.chunk.max_tokens,
        chunk_overlap=settings.chunk.overlap_tokens,
    )
    started = time.perf_counter()
    index = faiss.IndexFlatIP(model.get_embedding_dimension())
    for path in files:
        chunks = splitter.split_text(_plain_text(path))
        vectors = model.encode([f"passage: {chunk}" for chunk in chunks], normalize_embeddings=True)
        index.add(np.asarray(vectors, dtype=np.float32))
    return time.perf_counter() - started
