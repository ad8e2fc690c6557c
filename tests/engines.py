"""Real vLLM engines for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.settings import EngineSettings
from embedded.home import find_free_port
from inference.engine_launcher import EngineProcess
from inference.local_engine import local_engine_command
from inference.prepare import prepare_model
from inference.registry import find_model

MODEL = "smollm2-135m-instruct"
START_SECONDS = 600
"""More than an engine takes that starts while other tests use all cores."""


def make_engine(
    model_cache: Path, log_folder: Path, settings: dict[str, Any], **command: Any
) -> EngineProcess:
    """An engine on a free port that is not started yet, as `longleaf up` starts it but for `settings`, and with developer endpoints.

    Args:
        settings: what differs from the default settings.
        command: further arguments of `local_engine_command`.
    """
    port = find_free_port("127.0.0.1", preferred=0)
    chosen = EngineSettings(port=port, **settings)  # type: ignore[call-arg]
    prepare_model(find_model(MODEL), model_cache)
    argv = local_engine_command(chosen, model_cache, developer_endpoints=True, **command)
    return EngineProcess(argv, host=chosen.host, port=chosen.port, log_path=log_folder / "engine.log")
