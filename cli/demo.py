"""The main job from end to end, for somebody who sees it for the first time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from cli.answers import describe_work, print_sources, print_stream
from cli.commands.costs import print_costs
from cli.interruption import stop_on_signals
from cli.output import format_seconds, out, print_table
from cli.status_lines import StatusLines
from cli.uploading import outcome_rows, upload_files
from client import Collection, LongleafClient
from client.records import AnswerMode
from core.errors import LongleafError, NotFound
from core.settings import Settings, evaluation_data_dir
from embedded.components import PACKAGE_ROOT
from embedded.home import with_free_ports
from embedded.stack import WORKER_QUEUES, EmbeddedStack

COLLECTION = "demo"
_WRITTEN_TOKENS = 100


@dataclass(frozen=True, slots=True)
class Act:
    """Documents, and a question that one of them answers."""

    documents: tuple[Path, ...]
    question: str


def find_acts() -> tuple[Act, Act]:
    """An English and a Chinese act, on the long documents of the evaluation data where they lie,
    else on the project's own samples.

    Raises:
        NotFound: neither is there.
    """
    data, samples = evaluation_data_dir() / "demo", PACKAGE_ROOT / "tests" / "samples" / "demo"
    choices = (
        (
            Act(
                (data / "debian-reference.en.pdf",),
                "How many switchable character consoles does a default Debian system offer?",
            ),
            Act(
                (data / "三国演义_1-40回.txt", data / "debian-reference.zh-cn.pdf"),
                "关云长的青龙偃月刀又叫什么名字，重多少斤？",
            ),
        ),
        (
            Act(
                (samples / "handbook.md",),
                "How many days of paid leave does an employee get in the first year?",
            ),
            Act((samples / "观测站手册.txt",), "观测站的主望远镜口径是多少？"),
        ),
    )
    for acts in choices:
        if all(path.is_file() for act in acts for path in act.documents):
            return acts
    raise NotFound(
        "There are no documents to show.", remedy="Run the demo from a checkout of the repository."
    )


def run_demo(settings: Settings) -> None:
    """Everything, with a running commentary on standard output. Leaves no process behind.

    The first question is asked as soon as its document is searchable. Reading that document and the
    start of the engine go on side by side.

    Raises:
        LongleafError: the stack did not start, or a document could not be read.
    """
    console = out()
    english, chinese = find_acts()
    started_at = time.monotonic()
    stack = EmbeddedStack(with_free_ports(settings), on_event=StatusLines(console))
    with stop_on_signals(stack.abandon):
        try:
            stack.start()
            stack.wait_ready("api", *WORKER_QUEUES)
            with LongleafClient(stack.url, stack.key) as client:
                collection = client.get_or_create_collection(COLLECTION)
                _upload(client, collection, english.documents, console)
                _ask(client, collection, english.question, console)
                first_answer_seconds = time.monotonic() - started_at
                _upload(client, collection, chinese.documents, console)
                _ask(client, collection, chinese.question, console)
                stack.wait_ready()
                _show_cache(client, collection, english.question, console)
                _title(console, "What it cost, by stage")
                print_costs(client.get_costs(group_by=["stage", "model"]))
            _title(console, "Stopping")
        finally:
            stack.stop()
    console.print(f"The first answer came {first_answer_seconds:.0f} s after the start.")


def _upload(
    client: LongleafClient, collection: Collection, documents: Sequence[Path], console: Console
) -> None:
    _title(console, "Uploading " + ", ".join(path.name for path in documents))
    started_at = time.monotonic()
    outcome = upload_files(client, collection, documents, wait=True, console=console)
    seconds = time.monotonic() - started_at
    if outcome.num_failed:
        print_table(("file", "status", "reason"), outcome_rows(outcome))
        raise LongleafError(
            f"{outcome.num_failed} of the demo's documents failed.", remedy="The table above says why."
        )
    for file in outcome.files:
        document = client.get_document(file["document_id"] or "")
        size = f"{document['num_pages']} pages, {document['num_chunks']} chunks"
        console.print(Text(f"{file['name']}: {file['status']}, {size}"))
    console.print(f"Searchable after {format_seconds(seconds)}.")


def _ask(
    client: LongleafClient,
    collection: Collection,
    question: str,
    console: Console,
    *,
    mode: AnswerMode = "auto",
    **options: object,
) -> None:
    _title(console, question)
    answer = print_stream(client.ask_stream(collection["id"], question, mode=mode, **options), console)
    print_sources(answer, client, console)
    console.print(Text(describe_work(answer), style="dim"), soft_wrap=True)


def _show_cache(client: LongleafClient, collection: Collection, question: str, console: Console) -> None:
    _title(console, "The English question, written by the generator; then again, from its cache")
    for _ in range(2):
        _ask(
            client,
            collection,
            question,
            console,
            mode="abstractive",
            num_passages=2,
            max_tokens=_WRITTEN_TOKENS,
        )


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Rule(Text(text), align="left"))
