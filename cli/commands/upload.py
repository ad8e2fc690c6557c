"""`longleaf upload`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import err, print_json, print_table, say

if TYPE_CHECKING:
    from cli.uploading import UploadOutcome


def upload(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, and folders to search.")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="Tag of each document; repeatable.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until all is searchable.")] = True,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Upload documents into a collection, which is made if there is none of that name."""
    from cli.file_selection import collect_files
    from cli.uploading import outcome_rows, upload_files

    files = collect_files(paths)
    with connect(context, url=url, key=key) as client:
        target = client.get_or_create_collection(collection)
        outcome = upload_files(client, target, files, wait=wait, console=err(), tags=tag or ())
    if as_json:
        print_json(_document(outcome))
    elif wait:
        print_table(("file", "status", "reason"), outcome_rows(outcome))
        say(_summary(outcome))
    else:
        say(f"{len(outcome.files)} files sent. Follow them with `longleaf jobs show ID`:")
        print_table(("job", "status"), [(job["id"], job["status"]) for job in outcome.jobs])
    if outcome.num_failed:
        raise typer.Exit(1)


def _summary(outcome: UploadOutcome) -> str:
    counts = dict.fromkeys(("ready", "duplicate", "failed"), 0)
    for file in outcome.files:
        counts[file["status"]] = counts.get(file["status"], 0) + 1
    words = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return f"{words} in collection {outcome.collection['name']!r}."


def _document(outcome: UploadOutcome) -> dict[str, object]:
    return {
        "collection": outcome.collection,
        "jobs": [{"id": job["id"], "status": job["status"]} for job in outcome.jobs],
        "files": [
            {"path": str(path), **file} for path, file in zip(outcome.paths, outcome.files, strict=True)
        ],
        "num_failed": outcome.num_failed,
    }
