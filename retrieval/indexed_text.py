"""The one place that says what text of a chunk is embedded and indexed."""

from __future__ import annotations

from collections.abc import Sequence

from core.ids import content_hash

_MAX_TITLE_CHARACTERS = 160
_MAX_HEADINGS_CHARACTERS = 240


def embedding_text(title: str, headings: Sequence[str], text: str) -> str:
    """Title, heading path and text, one a line; empty parts are left out.

    Without titles nDCG@10 on Cranfield falls by .05. The same text goes to the embedder and to
    BM25, and its hash names the vector in SQL. A heading that repeats the title is said once;
    the innermost headings are kept where the path is long.
    """
    title = " ".join(title.split())[:_MAX_TITLE_CHARACTERS]
    path = [" ".join(heading.split()) for heading in headings]
    path = [heading for heading in path if heading and heading != title]
    while len(path) > 1 and sum(map(len, path)) > _MAX_HEADINGS_CHARACTERS:
        path.pop(0)
    line = " > ".join(path)[:_MAX_HEADINGS_CHARACTERS]
    return "\n".join(part for part in (title, line, text) if part)


def embedding_key(title: str, headings: Sequence[str], text: str) -> str:
    """The `text_hash` under which SQL keeps the vector of a chunk."""
    return content_hash(embedding_text(title, headings, text))
