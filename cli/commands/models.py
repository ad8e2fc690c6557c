"""`longleaf models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import JsonOption, settings_of
from cli.output import print_json, print_table

if TYPE_CHECKING:
    from core.settings import Settings
    from inference.registry import ModelSpec

app = typer.Typer(help="Models: what is known, and preparing them.", no_args_is_help=True)


@app.command("list")
def list_models(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the packaged models and those the settings name."""
    from embedded.models import wanted_models
    from inference.registry import list_models as packaged_models

    settings = settings_of(context)
    wanted = wanted_models(settings)
    specs = {spec.name: spec for spec in (*packaged_models(), *wanted)}
    items = [_shown(spec, settings, in_use=spec in wanted) for spec in specs.values()]
    if as_json:
        print_json({"items": items})
        return
    rows = [
        (
            item["name"],
            item["role"],
            "yes" if item["in_use"] else "",
            "yes" if item["prepared"] else "no",
            item["licence"],
            item["source"],
        )
        for item in items
    ]
    print_table(("model", "role", "in use", "prepared", "licence", "from"), rows)


@app.command("prepare")
def prepare_models(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make models ready to load; without a name, those that the settings ask for."""
    from embedded.models import wanted_models
    from inference.prepare import prepare_model
    from inference.registry import find_model

    settings = settings_of(context)
    specs = [find_model(name) for name in names] if names else wanted_models(settings)
    prepared = []
    for spec in specs:
        folder = prepare_model(
            spec,
            settings.model_dir,
            backend=settings.encoder_backend,
            on_progress=lambda step: typer.echo(step, err=as_json),
        )
        prepared.append({"name": spec.name, "role": spec.role, "folder": str(folder)})
    if as_json:
        print_json({"items": prepared})


def _shown(spec: ModelSpec, settings: Settings, *, in_use: bool) -> dict[str, Any]:
    from inference.prepare import is_prepared, model_path

    return {
        "name": spec.name,
        "role": spec.role,
        "in_use": in_use,
        "prepared": is_prepared(spec, settings.model_dir, backend=settings.encoder_backend),
        "licence": spec.licence or "see the model's card",
        "source": str(spec.source),
        "num_parameters": spec.num_parameters,
        "max_tokens": spec.max_tokens,
        "folder": str(model_path(spec, settings.model_dir)),
    }
