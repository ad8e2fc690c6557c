"""An evaluation as the command line follows and shows it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.job_progress import follow_job
from cli.output import err, format_money, format_seconds, print_table, say
from client import Evaluation, LongleafClient

_SECONDS = frozenset({"ttft_seconds", "total_seconds"})


def follow(client: LongleafClient, evaluation: Evaluation, console: Console) -> Evaluation:
    """The evaluation once it has ended, however it ended. Progress goes to `console`."""
    follow_job(client, evaluation["job_id"], "questions", total=evaluation["num_questions"], console=console)
    return client.get_evaluation(evaluation["id"])


def print_report(evaluation: Evaluation) -> None:
    """Means of all questions and by language, tokens, times and cost."""
    report = evaluation["report"]
    if report is None:
        say(
            f"{evaluation['id']} is {evaluation['status']}: {evaluation['num_done']} of "
            f"{evaluation['num_questions']} questions are done."
        )
        return
    languages = list(report["by_language"])
    groups = [report, *report["by_language"].values()]
    rows = [(name, *(_mean(group, name) for group in groups)) for name in report["metrics"]]
    rows += [
        (f"refusal_{name}", *(_share(group["refusal"][name]) for group in groups))
        for name in ("precision", "recall", "f1")
    ]
    columns = ("metric", "all", *languages)
    print_table(columns, rows, right=columns[1:])
    work = [
        (name, *(_work(name, spread[part]) for part in ("mean", "p50", "p95")))
        for name, spread in report["work"].items()
    ]
    print_table(("per question", "mean", "median", "95 %"), work, right=("mean", "median", "95 %"))
    say(_in_words(evaluation, report))


def print_comparison(comparison: dict[str, Any]) -> None:
    """Each metric of both, the difference and whether it is more than chance."""
    columns = ("metric", "first", "second", "difference", "95 % interval", "p", "n", "better")
    rows = [
        (
            name,
            f"{found['first']:.4g}",
            f"{found['second']:.4g}",
            f"{found['difference']:+.4g}",
            f"{found['low']:+.4g} … {found['high']:+.4g}",
            f"{found['share_opposite']:.3f}",
            found["num"],
            found["better"] or "–",
        )
        for name, found in comparison["metrics"].items()
    ]
    print_table(columns, rows, right=columns[1:-1])
    say(f"first:  {_named(comparison['first'])}")
    say(f"second: {_named(comparison['second'])}")
    if not comparison["same_questions"]:
        say(
            f"The question sets differ: {comparison['num_only_first']} questions are in the first only, "
            f"{comparison['num_only_second']} in the second only. The figures are of the "
            f"{comparison['num_compared']} that both have scored.",
            style="yellow",
        )
    if comparison["num_gold_differs"]:
        say(
            f"{comparison['num_gold_differs']} common questions have other gold answers or evidence.",
            style="yellow",
        )


def write_text(path: Path, text: str) -> None:
    """Into a file, or to standard output for `-`."""
    if str(path) == "-":
        sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
        sys.stdout.flush()
        return
    path.write_text(text, encoding="utf-8")
    err().print(f"wrote {path}", markup=False, style="dim", soft_wrap=True)


def document_of(client: LongleafClient, evaluation: Evaluation) -> str:
    """The evaluation with all its questions, as JSON text."""
    items = list(client.list_evaluation_items(evaluation["id"]))
    return json.dumps({**evaluation, "items": items}, ensure_ascii=False, indent=2) + "\n"


def _in_words(evaluation: Evaluation, report: dict[str, Any]) -> str:
    costs = ", ".join(format_money(cost["amount"], cost["currency"]) for cost in report["costs"])
    failed = f", {report['num_failed']} failed" if report["num_failed"] else ""
    return (
        f"{evaluation['id']} {evaluation['status']}: {report['num_scored']} of {report['num_questions']} questions "
        f"scored{failed}; {sum(report['stage_tokens'].values()):,} tokens{', ' + costs if costs else ''}."
    )


def _mean(group: dict[str, Any], name: str) -> str:
    found = group["metrics"].get(name)
    return f"{found['mean']:.3f}" if found else "–"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _work(name: str, value: float) -> str:
    return format_seconds(value) if name in _SECONDS else f"{value:,.0f}"


def _named(evaluation: dict[str, Any]) -> str:
    return f"{evaluation['id']} ({evaluation['name']}, {evaluation['created_at'][:16]})"
