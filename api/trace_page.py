"""A trace as one HTML file that needs nothing else, and prints.

Everything in it that came from outside is escaped by the template; a content security policy in the
file itself forbids whatever might slip through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Template

from api.schemas.traces import Trace, TracedGeneration, TracedToken
from core.html.page import CONTENT_SECURITY_POLICY, load_template
from storage import models

SURE_ENTROPY, LOST_ENTROPY = 0.0, 3.5
"""Nats between which a token's shade runs: from no doubt to some thirty equally likely tokens."""

_TOKENS_A_LINE = 80


@dataclass(frozen=True, slots=True)
class ShadedToken:
    """`text` is drawn once where several tokens share a character: with the last of them."""

    text: str
    shade: float
    hint: str


@dataclass(frozen=True, slots=True)
class HeatCell:
    shade: float
    text: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Rows of cells; `columns` are names of passages."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]


@dataclass(frozen=True, slots=True)
class TokenMapLine:
    """Some tokens of the answer as columns, the prompt's parts as rows of shades."""

    tokens: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]


def render_trace(trace: Trace, answer: models.Answer) -> str:
    """The page. What a light or redacted trace lacks is left out, and said."""
    names = passage_names(trace, answer.passages)
    written = None if trace.answer_generation is None else trace.generations[trace.answer_generation]
    return _template().render(
        policy=CONTENT_SECURITY_POLICY,
        trace=trace,
        answer=answer,
        is_redacted=trace.redacted_at is not None,
        names=names,
        written=written,
        tokens=[] if written is None else shaded_tokens(written),
        maps=heat_maps(trace, answer, names),
        token_map=[] if written is None else token_map(trace, written, names),
    )


def passage_names(trace: Trace, passages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What to call each passage: its rank, document and page."""
    by_id = {f"{p['document_id']}:{p['start']}-{p['end']}": (rank, p) for rank, p in enumerate(passages, 1)}
    by_document = {p["document_id"]: p["document_name"] for p in passages}
    wanted = [*by_id]
    for generation in trace.generations:
        wanted += [name for segment in generation.prompt.segments for name in segment.source_ids]
    names = {}
    for name in wanted:
        if name in by_id:
            rank, passage = by_id[name]
            names[name] = f"{rank} · {passage['document_name']}, p. {passage['first_page'] or 1}"
        else:
            names[name] = by_document.get(name.partition(":")[0], name)
    return names


def shaded_tokens(generation: TracedGeneration) -> list[ShadedToken]:
    """The text token by token, darker where the model was less sure."""
    text, shown, found = generation.text or "", 0, []
    for token in generation.tokens:
        piece = text[max(shown, token.start) : token.end]
        shown = max(shown, token.end)
        found.append(ShadedToken(piece, shade_of(token), _hint(token)))
    return found


def shade_of(token: TracedToken) -> float:
    """From 0, sure, to 1."""
    if token.entropy is None:
        return 0.0
    return min(1.0, max(0.0, (token.entropy - SURE_ENTROPY) / (LOST_ENTROPY - SURE_ENTROPY)))


def _hint(token: TracedToken) -> str:
    parts = [f"token {token.token_id}" if token.token_id is not None else "token"]
    parts += [f"{token.text!r}"] if token.text is not None else []
    parts += [f"log-probability {token.logprob:.3f}"] if token.logprob is not None else []
    parts += [f"rank {token.rank}"] if token.rank is not None else []
    parts += [f"entropy {token.entropy:.2f}"] if token.entropy is not None else []
    others = ", ".join(
        f"{choice.text!r} {choice.logprob:.2f}"
        for choice in token.alternatives
        if choice.text is not None and choice.logprob is not None
    )
    return "; ".join(parts) + (f"; of {others}" if others else "")


def heat_maps(trace: Trace, answer: models.Answer, names: Mapping[str, str]) -> list[HeatMap]:
    """What the sentences rest on: by citations and words, and by attention where it was read."""
    maps = []
    found = trace.attribution
    if found and found["statements"]:
        rows = [_attributed(row, answer.text or "") for row in found["statements"]]
        note = "Numbers are citations; the shade is the share of the sentence's words in the passage."
        maps.append(HeatMap("Support", note, _named(found["passages"], names), tuple(rows)))
    attention = trace.attention
    if attention and attention["sentences"] and trace.answer_generation is not None:
        text = trace.generations[trace.answer_generation].text
        rows = [_attended(row, text) for row in attention["sentences"]]
        note = (
            f"The share of what goes to passages at all: {attention['rule']}, averaged over a sentence's "
            "tokens." + (" Only the answer's first tokens were read." if attention["is_cut"] else "")
        )
        maps.append(HeatMap("Attention", note, _named(attention["passages"], names), tuple(rows)))
    return maps


def _named(passages: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(name, name) for name in passages)


def _attributed(row: Mapping[str, Any], text: str) -> tuple[str, tuple[HeatCell, ...]]:
    coverage = row["coverage"] or [1.0 if cited else 0.0 for cited in row["cited"]]
    cells = [
        HeatCell(share, " ".join(f"[{number}]" for number in cited))
        for share, cited in zip(coverage, row["cited"], strict=True)
    ]
    return text[row["start"] : row["end"]], tuple(cells)


def _attended(row: Mapping[str, Any], text: str | None) -> tuple[str, tuple[HeatCell, ...]]:
    sentence = f"{row['start']}–{row['end']}" if text is None else text[row["start"] : row["end"]]
    return sentence, tuple(HeatCell(share, f"{share:.2f}") for share in row["shares"])


def token_map(trace: Trace, written: TracedGeneration, names: Mapping[str, str]) -> list[TokenMapLine]:
    """Attention token by token, some a line; a row's shades are relative to its greatest weight."""
    if not trace.attention:
        return []
    weights, segments = trace.attention["by_token"], written.prompt.segments
    rows = [
        (names.get(s.source_ids[0], s.source_ids[0]) if s.source_ids else s.kind, position)
        for position, s in enumerate(segments)
        if s.kind != "frame"
    ]
    greatest = max((row[position] for row in weights for _, position in rows), default=0.0) or 1.0
    lines = []
    for first in range(0, len(weights), _TOKENS_A_LINE):
        part = weights[first : first + _TOKENS_A_LINE]
        tokens = written.tokens[first : first + len(part)]
        lines.append(
            TokenMapLine(
                tuple(token.text or "" for token in tokens),
                tuple((name, tuple(row[position] / greatest for row in part)) for name, position in rows),
            )
        )
    return lines


@cache
def _template() -> Template:
    return load_template("api", "trace.html.jinja", figure=_figure)


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value}"
