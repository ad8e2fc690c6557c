"""What of a prompt is static text, whose computed context the engine is asked to keep."""

from __future__ import annotations

from collections.abc import Sequence

from generation.material import Excerpt
from generation.prompt import Prompt
from inference.kv_store.kept_text import KeptText


def kept_text(prompt: Prompt, excerpts: Sequence[Excerpt]) -> KeptText | None:
    """The prompt up to the end of a static document that it begins with; None if it begins with none.

    What stands before the document, instructions and labels, belongs to it: the engine's values of
    a token depend on all tokens before.
    """
    first = next((segment for segment in prompt.segments if segment.source_ids), None)
    static = next((e for e in excerpts if first and e.is_static and e.id == first.source_ids[0]), None)
    if first is None or static is None:
        return None
    before = prompt.segments[: prompt.segments.index(first)]
    return KeptText(sum(len(segment) for segment in before) + len(first), label=static.passage.document_id)
