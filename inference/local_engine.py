"""The command that starts the engine of the settings on this machine."""

from __future__ import annotations

from pathlib import Path

from core.settings import EngineSettings
from inference.engine_checks import published_quantization
from inference.engine_plan import require_room
from inference.engine_profiles import EngineCommand, engine_command
from inference.kv_events import EventEndpoint
from inference.machine import choose_profile, detect_machine
from inference.prepare import model_path
from inference.registry import find_model


def local_engine_command(
    settings: EngineSettings,
    model_dir: Path,
    *,
    developer_endpoints: bool = False,
    kv_store_dir: Path | None = None,
    kv_events: EventEndpoint | None = None,
) -> EngineCommand:
    """The command, for models that are prepared below `model_dir`; other arguments as `engine_command`.

    Raises:
        Misconfigured: settings contradict each other, or this machine.
    """
    spec = find_model(settings.model, role="generator", revision=settings.revision)
    folder = model_path(spec, model_dir)
    profile, machine = choose_profile(settings), detect_machine()
    if profile == "cpu":
        require_room(settings, model_folder=folder, machine=machine)
    draft = find_model(settings.draft_model, role="generator") if settings.draft_model else None
    return engine_command(
        settings,
        model_folder=folder,
        profile=profile,
        machine=machine,
        developer_endpoints=developer_endpoints,
        draft_folder=model_path(draft, model_dir) if draft else None,
        published=published_quantization(folder),
        kv_store_dir=kv_store_dir,
        kv_events=kv_events,
    )
