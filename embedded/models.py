"""Which models the settings ask for."""

from __future__ import annotations

from core.settings import Settings
from inference.prepare import is_prepared
from inference.registry import ModelSpec, find_model


def wanted_models(settings: Settings) -> tuple[ModelSpec, ...]:
    """The embedder and the generator.

    The generator is wanted also where the engine is elsewhere: prompts are made of its tokens.
    """
    return (
        find_model(settings.embedder, role="embedder"),
        find_model(settings.engine.model, role="generator", revision=settings.engine.revision),
    )


def unprepared_models(settings: Settings) -> tuple[ModelSpec, ...]:
    """Those that cannot be loaded yet."""
    return tuple(
        spec
        for spec in wanted_models(settings)
        if not is_prepared(spec, settings.model_dir, backend=settings.encoder_backend)
    )
