"""An answer for people: its text, what it rests on, what it took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from rich.console import Console
from rich.text import Text

from cli.output import format_money, format_pages, format_seconds
from client import Answer, AskEvent, Delta, Done, LongleafClient, Restarted
from client.records import Samples

_EXCERPT = 160
_MAX_NEAREST = 3
_MIN_WIDTH = 20


def print_stream(events: Iterable[AskEvent], console: Console) -> Answer:
    """Print text as it comes; the final answer, whose text stands on the console when this returns."""
    shown = ""
    answer: Answer | None = None
    for event in events:
        if isinstance(event, Delta):
            shown += event.text
            _write(console, event.text)
        elif isinstance(event, Restarted):
            _write(console, "\n(interrupted; starting again)\n")
            shown = ""
        elif isinstance(event, Done):
            answer = event.answer
    final = cast(Answer, answer)  # a stream ends with Done or raises
    text = final["text"] or ""
    if shown.strip() != text.strip():
        # Citations are set once the sentences are checked, so the streamed text lacks them.
        _write(console, ("\n\nChecked, with citations:\n" if shown else "") + text)
    _write(console, "\n")
    return final


def print_text(answer: Answer, console: Console) -> None:
    _write(console, (answer["text"] or "") + "\n")


def _write(console: Console, text: str) -> None:
    # Not through rich, which would wrap each piece as a line of its own.
    console.file.write(text)
    console.file.flush()


def print_sources(answer: Answer, client: LongleafClient, console: Console) -> None:
    """Citations; for a refusal the nearest passages, which the reader may judge."""
    if (short := answer["short_answer"]) is not None:
        _print_hanging(console, "  = ", f"{_one_line(short['text'])} [{short['citation']}]", style="bold")
    for citation in answer["citations"]:
        where = _where(citation["document_name"], citation["first_page"], citation["last_page"])
        gone = " (withdrawn since)" if citation["withdrawn"] else ""
        _print_hanging(console, f"  [{citation['number']}] ", f"“{_one_line(citation['quote'])}”")
        _print_hanging(console, "      ", f"{where}{gone}", style="cyan")
    if (samples := answer.get("samples")) is not None:
        _print_samples(samples, console)
    for warning in answer["warnings"]:
        _print_hanging(console, "  ! ", _one_line(warning), style="yellow")
    if answer["outcome"] == "refused" and answer["passages"]:
        _print_hanging(console, "  ", "Nearest passages:", style="dim")
        for passage in answer["passages"][:_MAX_NEAREST]:
            text = client.read_document_text(
                passage["document_id"], start=passage["start"], end=passage["end"]
            )
            where = _where(passage["document_name"], passage["first_page"], passage["last_page"])
            _print_hanging(console, "    – ", f"{where}: {_excerpt(text)}", style="dim")


def _print_samples(samples: Samples, console: Console) -> None:
    """How far they agree, then one of each group with what its samples cost."""
    share = f"{len(samples['clusters'][0])} of {len(samples['items'])}"
    _print_hanging(console, "  ~ ", f"{share} samples say this.", style="bold")
    for cluster in samples["clusters"][1:]:
        others = [samples["items"][index] for index in cluster]
        _print_hanging(console, "    – ", f"{len(others)}: {_excerpt(others[0]['text'])}", style="dim")
    costs = ", ".join(
        f"{item['usage']['completion_tokens']} tokens for {format_money(**item['cost'])}"
        for item in samples["items"]
    )
    _print_hanging(console, "    ", f"Each: {costs}", style="dim")


def describe_work(answer: Answer) -> str:
    """Mode, sampling, tokens, times and cost, in one line."""
    parts = (answer["mode"], _sampling(answer), _tokens(answer), _times(answer), _cost(answer))
    return " · ".join(part for part in parts if part)


def _sampling(answer: Answer) -> str:
    """What was applied to a written answer."""
    applied: dict[str, object] = (answer.get("steps") or {}).get("sampling") or {}
    return ", ".join(f"{name} {_value(value)}" for name, value in applied.items())


def _value(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={each:g}" for key, each in value.items())
    if isinstance(value, list):
        return " ".join(map(repr, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tokens(answer: Answer) -> str:
    usage = answer["usage"]
    if not usage or not usage["prompt_tokens"]:
        return ""
    return (
        f"{usage['prompt_tokens']} prompt tokens ({usage['cached_tokens']} cached), "
        f"{usage['completion_tokens']} written"
    )


def _times(answer: Answer) -> str:
    timings = answer["timings"] or {}
    named = (
        ("queue", "queue_seconds"),
        ("retrieval", "retrieval_seconds"),
        ("first token", "ttft_seconds"),
        ("prefill", "prefill_seconds"),
        ("decode", "decode_seconds"),
        ("total", "total_seconds"),
    )
    return ", ".join(
        f"{name} {format_seconds(seconds)}"
        for name, field in named
        if (seconds := timings.get(field))  # nothing was prefilled or decoded: 0
    )


def _cost(answer: Answer) -> str:
    cost = answer["cost"]
    return format_money(cost["amount"], cost["currency"]) if cost else ""


def _where(name: str, first_page: int | None, last_page: int | None) -> str:
    pages = format_pages(first_page, last_page)
    return f"{name}, {pages}" if pages else name


def _print_hanging(console: Console, label: str, text: str, *, style: str = "") -> None:
    """`text` beside `label`, its further lines below its first; no blanks at the ends of lines.

    Chinese has no blanks to break at: as one with the label, a long sentence would leave it alone on
    a line.
    """
    width = max(console.width - len(label), _MIN_WIDTH)
    for line in Text(text, style=style).wrap(console, width, overflow="fold"):
        line.rstrip()
        console.print(Text(label) + line, soft_wrap=True)
        label = " " * len(label)


def _excerpt(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())
