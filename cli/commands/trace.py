"""`longleaf trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import JsonOption, KeyOption, UrlOption, connect
from cli.output import out, print_json, say


def trace(
    context: typer.Context,
    answer_id: Annotated[str, typer.Argument(metavar="ANSWER")],
    attention: Annotated[
        bool, typer.Option("--attention", help="First have the answer read again for where the model looked.")
    ] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="First take texts and tokens out of it for good.")
    ] = False,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as one HTML page.")
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="List every token with its figures.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Show how an answer came to be: prompt, cache, sampling, tokens, and what it rests on."""
    from cli.trace_view import print_tokens, print_trace

    with connect(context, url=url, key=key) as client:
        if attention:
            job = client.wait_for_job(client.read_attention(answer_id)["id"])
            if job["status"] != "succeeded":
                reason = job["error"]["detail"] if job["error"] else f"it was {job['status']}"
                say(f"Attention was not read: {reason}", style="red")
                raise typer.Exit(1)
        found = client.redact_trace(answer_id) if redact else client.get_trace(answer_id)
        if html_file is not None:
            html_file.write_text(client.get_trace_html(answer_id), encoding="utf-8")
            if not as_json:
                say(f"Wrote {html_file}.")
        answer = client.get_answer(answer_id)
    if as_json:
        print_json(found)
        return
    if html_file is None:
        print_trace(found, answer, out())
    if tokens:
        print_tokens(found)
