"""What `auto` means for a generator. Loads nothing, so that quotes can be made without models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SMALL_BELOW_PARAMETERS = 1_000_000_000
"""A generator smaller than this writes worse answers than the sentences it was given."""


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """What `auto` means for a generator: its size decides."""

    mode: str
    extraction: str
    condensing: Literal["rule", "model"]
    extracted_tokens: int
    is_brief: bool

    @classmethod
    def of(cls, num_parameters: int | None) -> ModelDefaults:
        """A model of unknown size is taken for a large one."""
        if num_parameters is not None and num_parameters < SMALL_BELOW_PARAMETERS:
            # It reads little at a time: a whole passage hides from it what two sentences say.
            return cls(
                mode="extractive",
                extraction="embedding",
                condensing="rule",
                extracted_tokens=150,
                is_brief=True,
            )
        return cls(
            mode="abstractive",
            extraction="none",
            condensing="model",
            extracted_tokens=600,
            is_brief=False,
        )
