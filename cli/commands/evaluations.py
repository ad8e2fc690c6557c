"""`longleaf eval`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import err, format_moment, print_json, print_table, say

if TYPE_CHECKING:
    from cli.evaluation_suite import Suite
    from client import Collection, LongleafClient

app = typer.Typer(
    help="Evaluations: questions with known answers, asked, scored and compared.", no_args_is_help=True
)
EvaluationArgument = Annotated[str, typer.Argument(metavar="ID")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write it as JSON; - for standard output.")
]
HtmlFile = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the report as one HTML file.")
]
ReportLanguage = Annotated[Literal["en", "zh"], typer.Option("--language", help="Of the HTML's own words.")]


@app.command("run")
def run_evaluation(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="SUITE", help="A question file, or a folder of documents with questions.jsonl."
        ),
    ],
    collection: Annotated[
        str,
        typer.Option("--collection", "-c", metavar="NAME", help="By name or id; for a folder: its own name."),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="What a question may set, as mode=extractive; repeatable."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="For people; default: the suite's.")] = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="ID", help="Compare with this earlier evaluation.")
    ] = None,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
    language: ReportLanguage = "en",
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Ask every question of a suite, and score the answers.

    A folder's documents are uploaded first, those that its collection lacks.
    """
    from cli.evaluation_suite import find_suite, parse_parameters
    from cli.evaluations import document_of, follow, print_comparison, print_report, write_text

    suite = find_suite(path)
    parameters = parse_parameters(settings or [])
    question_file = suite.read_questions()
    with connect(context, url=url, key=key) as client:
        target = _collection(client, suite, collection)
        evaluation = client.create_evaluation(
            target["id"], question_file=question_file, name=name or suite.name, parameters=parameters
        )
        say(
            f"{evaluation['id']}: {evaluation['num_questions']} questions to {target['name']!r}. "
            f"It goes on without this command; `longleaf jobs cancel {evaluation['job_id']}` stops it."
        )
        evaluation = follow(client, evaluation, err())
        if str(json_file) != "-":
            print_report(evaluation)
        if compare is not None and str(json_file) != "-":
            print_comparison(client.compare_evaluations(compare, evaluation["id"]))
        if json_file is not None:
            write_text(json_file, document_of(client, evaluation))
        if html_file is not None:
            write_text(html_file, client.get_evaluation_html(evaluation["id"], language=language))
    if evaluation["status"] != "succeeded":
        if evaluation["error"]:
            say(evaluation["error"]["detail"], style="red")
        raise typer.Exit(1)


@app.command("list")
def list_evaluations(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """List evaluations, newest first."""
    with connect(context, url=url, key=key) as client:
        found = list(islice(client.list_evaluations(), limit))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (
            each["id"],
            each["name"],
            each["status"],
            f"{each['num_done']} of {each['num_questions']}",
            _headline(each["report"]),
            format_moment(each["created_at"]),
        )
        for each in found
    ]
    print_table(("id", "name", "status", "done", "f1", "created"), rows, right=("done", "f1"))


@app.command("show")
def show_evaluation(
    context: typer.Context,
    evaluation_id: EvaluationArgument,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
    language: ReportLanguage = "en",
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show an evaluation's report."""
    from cli.evaluations import document_of, print_report, write_text

    with connect(context, url=url, key=key) as client:
        evaluation = client.get_evaluation(evaluation_id)
        if json_file is not None:
            write_text(json_file, document_of(client, evaluation))
        if html_file is not None:
            write_text(html_file, client.get_evaluation_html(evaluation_id, language=language))
    if str(json_file) != "-":
        print_report(evaluation)


@app.command("delete")
def delete_evaluation(
    context: typer.Context,
    evaluation_id: EvaluationArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Delete an evaluation that has ended; its answers can still be read one by one."""
    with connect(context, url=url, key=key) as client:
        found = client.get_evaluation(evaluation_id)
        if not yes:
            typer.confirm(f"Delete {found['id']} ({found['name']}) with its report?", abort=True, err=True)
        client.delete_evaluation(evaluation_id)
    say(f"Evaluation {evaluation_id} is deleted.")


@app.command("compare")
def compare_evaluations(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="The id of the one to compare with.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="The id of the one that may be better.")],
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
    language: ReportLanguage = "en",
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Compare two evaluations of the same questions by paired bootstrap."""
    import json

    from cli.evaluations import print_comparison, write_text

    with connect(context, url=url, key=key) as client:
        comparison = client.compare_evaluations(first, second)
        if json_file is not None:
            write_text(json_file, json.dumps(comparison, ensure_ascii=False, indent=2) + "\n")
        if html_file is not None:
            write_text(html_file, client.get_comparison_html(first, second, language=language))
    if str(json_file) != "-":
        print_comparison(comparison)


def _collection(client: LongleafClient, suite: Suite, name: str) -> Collection:
    """The collection to ask, holding the suite's documents."""
    from cli.lookup import require_collection
    from core.errors import InvalidInput

    if not suite.documents:
        if not name:
            raise InvalidInput(
                "A question file needs a collection to ask.",
                remedy="Name one with --collection, or point at a folder with the documents too.",
            )
        return require_collection(client, name)
    target = require_collection(client, name) if name.startswith("col_") else None
    target = target or client.get_or_create_collection(name or suite.name)
    _upload_missing(client, target, suite)
    return target


def _upload_missing(client: LongleafClient, target: Collection, suite: Suite) -> None:
    from cli.uploading import outcome_rows, upload_files

    ready = {name for found in client.list_documents(target["id"], status="ready") for name in found["names"]}
    missing = [path for path in suite.documents if path.name not in ready]
    if not missing:
        return
    say(f"Uploading {len(missing)} documents into {target['name']!r}.")
    outcome = upload_files(client, target, missing, wait=True, console=err())
    if outcome.num_failed:
        print_table(("file", "status", "reason"), outcome_rows(outcome))
        say("A document that failed cannot be found; the evaluation was not begun.", style="red")
        raise typer.Exit(1)


def _headline(report: dict[str, object] | None) -> str:
    metrics = report["metrics"] if report else {}
    assert isinstance(metrics, dict)
    return f"{metrics['f1']['mean']:.3f}" if "f1" in metrics else ""
