"""Which models the settings ask for."""

from __future__ import annotations

from core.settings import Settings
from inference.prepare import is_prepared
from inference.registry import ModelSpec, find_model


def wanted_models(settings: Settings) -> tuple[ModelSpec, ...]:
    """The embedder, the generator, and the model that guesses its next tokens if there is one.

    The generator is wanted also where the engine is elsewhere: prompts are made of its tokens.
    """
    wanted = (
        find_model(settings.embedder, role="embedder"),
        find_model(settings.engine.model, role="generator", revision=settings.engine.revision),
    )
    draft = settings.engine.draft_model
    return (*wanted, find_model(draft, role="generator")) if draft else wanted


def unprepared_models(settings: Settings) -> tuple[ModelSpec, ...]:
    """Those that cannot be loaded yet."""
    return tuple(
        spec
        for spec in wanted_models(settings)
        if not is_prepared(spec, settings.model_dir, backend=settings.encoder_backend)
    )
