"""What a request says about keeping: the field `kv_transfer_params` of a completion request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIELD = "kv_transfer_params"
_NAME = "longleaf_keep"


@dataclass(frozen=True, slots=True)
class KeptText:
    """The first `num_tokens` of the prompt are static text; `label` names the document."""

    num_tokens: int
    label: str = ""

    def as_json(self) -> dict[str, Any]:
        """The value of `kv_transfer_params`."""
        return {_NAME: {"num_tokens": self.num_tokens, "label": self.label}}

    @classmethod
    def of_json(cls, params: object) -> KeptText | None:
        """What `as_json` gave; None where the request says nothing of the kind."""
        given = params.get(_NAME) if isinstance(params, Mapping) else None
        if not isinstance(given, Mapping):
            return None
        num_tokens, label = given.get("num_tokens"), given.get("label", "")
        if not isinstance(num_tokens, int) or not isinstance(label, str):
            return None
        return cls(max(0, num_tokens), label)


def loaded_json(num_tokens: int) -> dict[str, Any]:
    """What the engine answers in `kv_transfer_params`, so that who asks sees that it keeps blocks."""
    return {_NAME: {"loaded_tokens": num_tokens}}


def keeps_blocks(response: object) -> bool:
    """Whether a completion's answer came from an engine with our store."""
    params = response.get(FIELD) if isinstance(response, Mapping) else None
    return isinstance(params, Mapping) and _NAME in params
