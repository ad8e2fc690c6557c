"""A trace in the terminal: figures, the prompt as a bar, tokens in shades, heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from cli.output import format_seconds, print_table
from client import Answer

_LOST_ENTROPY = 3.5
_BAR_WIDTH = 72
_CACHE_STYLES = {"cached": "green", "partly": "yellow", "uncached": "bright_black"}


def print_trace(trace: Mapping[str, Any], answer: Answer, console: Console) -> None:
    """All of it but the list of tokens."""
    names = _names(trace, answer)
    written = answer_generation(trace)
    console.print(_headline(trace, answer), style="bold", markup=False)
    if written is not None:
        _print_figures(written, console)
        _print_prompt(written["prompt"], names, console)
        _print_written(written, console)
    for sentence in trace["sentences"]:
        name = names.get(sentence["passage"], sentence["passage"])
        console.print(Text(f"  {sentence['score']:8.3f}  {name}  {sentence.get('text', '')}"))
    _print_retrieval(trace["retrieval"], names)
    _print_support(trace, answer, names, console)
    _print_attention(trace, written, names, console)
    for reason in trace["missing"]:
        console.print(Text(f"· {reason}", style="dim"))


def print_tokens(trace: Mapping[str, Any]) -> None:
    """A line a token."""
    written = answer_generation(trace)
    rows = [
        (
            position,
            token.get("token_id"),
            repr(token.get("text") or ""),
            f"{token['start']}–{token['end']}" + ("" if token["is_whole"] else " part"),
            _number(token["logprob"]),
            token["rank"],
            _number(token["entropy"]),
            "  ".join(f"{a.get('text')!r} {_number(a['logprob'])}" for a in token["alternatives"][:3]),
        )
        for position, token in enumerate(written["tokens"] if written else [])
    ]
    header = ("", "id", "text", "characters", "log p", "rank", "entropy", "most probable")
    print_table(header, rows, right=("id", "log p", "rank", "entropy"))


def answer_generation(trace: Mapping[str, Any]) -> dict[str, Any] | None:
    """The request that wrote the answer; None where no model did."""
    index = trace["answer_generation"]
    found: dict[str, Any] | None = None if index is None else trace["generations"][index]
    return found


def _headline(trace: Mapping[str, Any], answer: Answer) -> str:
    engine = trace["engine"] or {}
    parts = [trace["answer_id"], f"{trace['detail']} trace", f"attempt {trace['attempt']}"]
    parts += [engine["model"]] if engine else []
    parts += [answer["mode"], answer["outcome"] or answer["status"]]
    parts += [f"ended by {trace['error_code']}"] if trace["error_code"] else []
    parts += ["redacted"] if trace["redacted_at"] else []
    return " · ".join(parts)


def _print_figures(written: Mapping[str, Any], console: Console) -> None:
    prompt, usage, certainty = written["prompt"], written["usage"], written["certainty"]
    lines = [
        f"{prompt['num_tokens']} prompt tokens, {prompt['cached_tokens']} cached; "
        f"{usage['completion_tokens']} written, ended by {written['finish_reason'] or 'a break'}"
        + (f" ({written['stop_reason']!r})" if written.get("stop_reason") is not None else "")
    ]
    if timings := written["timings"]:
        lines.append(
            ", ".join(
                f"{name} {format_seconds(timings[field])}"
                for name, field in (
                    ("queue", "queue_seconds"),
                    ("prefill", "prefill_seconds"),
                    ("decode", "decode_seconds"),
                )
            )
        )
    if certainty:
        lines.append(
            f"perplexity {certainty['perplexity']:.2f}, entropy {certainty['mean_entropy']:.2f} nats on average, "
            f"{certainty['max_entropy']:.2f} at most"
        )
    if load := written["engine_load"]:
        lines.append(
            f"engine then: KV space {_share(load['kv_cache_usage'])} full, {load['num_running']} running, "
            f"{load['num_waiting']} waiting, {load['num_preemptions']} preempted"
        )
    applied = {
        name: value for name, value in written["sampling"].items() if value not in (None, [], "", False)
    }
    lines.append("sampling: " + ", ".join(f"{name} {value}" for name, value in applied.items()))
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _print_prompt(prompt: Mapping[str, Any], names: Mapping[str, str], console: Console) -> None:
    total = max(1, prompt["num_tokens"])
    bar = Text()
    for segment in prompt["segments"]:
        length = segment["end"] - segment["start"]
        bar.append("█" * max(1, round(_BAR_WIDTH * length / total)), _CACHE_STYLES[segment["cached"]])
    console.print(bar)
    rows = [
        (
            segment["kind"],
            " ".join(names.get(name, name) for name in segment["source_ids"]),
            segment["end"] - segment["start"],
            segment["cached"],
            segment["cached_tokens"] or "",
            "" if segment.get("round_trip") is not False else "other tokens again",
        )
        for segment in prompt["segments"]
        if segment["kind"] != "frame"
    ]
    print_table(("part", "source", "tokens", "cache", "cached", ""), rows, right=("tokens", "cached"))
    for cut in prompt["cut"]["passages"]:
        console.print(Text(f"  left out: {names.get(cut['id'], cut['id'])}, {cut['reason']}", style="yellow"))
    if prompt["cut"]["num_turns"]:
        console.print(Text(f"  left out: {prompt['cut']['num_turns']} earlier turns", style="yellow"))


def _print_written(written: Mapping[str, Any], console: Console) -> None:
    text, shown = written.get("text"), 0
    if not text:
        return
    drawn = Text()
    for token in written["tokens"]:
        piece = text[max(shown, token["start"]) : token["end"]]
        shown = max(shown, token["end"])
        drawn.append(piece, _doubt(token["entropy"]))
    console.print(drawn if written["tokens"] else Text(text))


def _doubt(entropy: float | None) -> Style:
    """Darker orange where the model was less sure."""
    share = min(1.0, (entropy or 0.0) / _LOST_ENTROPY)
    return Style(bgcolor=f"rgb(255,{round(245 - 110 * share)},{round(235 - 200 * share)})", color="black")


def _heat(share: float) -> Style:
    level = round(255 - 190 * min(1.0, max(0.0, share)))
    return Style(
        bgcolor=f"rgb({level},{min(255, level + 25)},255)", color="black" if level > 130 else "white"
    )


def _print_retrieval(retrieval: Mapping[str, Any] | None, names: Mapping[str, str]) -> None:
    if not retrieval or not retrieval["passages"]:
        return
    rows = [
        (
            names.get(passage["id"], passage["id"]),
            _number(passage["score"]),
            passage["fused_rank"],
            _number(passage["dense_score"]),
            passage["dense_rank"],
            _number(passage["lexical_score"]),
            passage["lexical_rank"],
        )
        for passage in retrieval["passages"]
    ]
    header = ("passage", "score", "fused", "dense", "dense rank", "BM25", "BM25 rank")
    print_table(header, rows, right=header[1:])


def _print_support(
    trace: Mapping[str, Any], answer: Answer, names: Mapping[str, str], console: Console
) -> None:
    found = trace["attribution"]
    if not found or not found["statements"]:
        return
    text = answer["text"] or ""
    rows = [
        (
            text[row["start"] : row["end"]],
            row["coverage"] or [float(bool(cited)) for cited in row["cited"]],
            [" ".join(f"[{number}]" for number in cited) for cited in row["cited"]],
        )
        for row in found["statements"]
    ]
    _print_map("support: citations, shaded by shared words", found["passages"], rows, names, console)


def _print_attention(
    trace: Mapping[str, Any],
    written: Mapping[str, Any] | None,
    names: Mapping[str, str],
    console: Console,
) -> None:
    found = trace["attention"]
    if not found or written is None:
        return
    text = written.get("text") or ""
    rows = [
        (
            text[row["start"] : row["end"]],
            row["shares"],
            [f"{share:.2f}" for share in row["shares"]],
        )
        for row in found["sentences"]
    ]
    _print_map(f"attention among passages: {found['rule']}", found["passages"], rows, names, console)


def _print_map(
    title: str,
    passages: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float], Sequence[str]]],
    names: Mapping[str, str],
    console: Console,
) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=None, padding=(0, 1))
    table.add_column("")
    for name in passages:
        table.add_column(Text(names.get(name, name)), justify="center")
    for sentence, shares, marks in rows:
        cells = [Text(f" {mark} ", _heat(share)) for share, mark in zip(shares, marks, strict=True)]
        table.add_row(Text(sentence), *cells)
    console.print(table)


def _names(trace: Mapping[str, Any], answer: Answer) -> dict[str, str]:
    """Of passages by id. Where a document is in the prompt whole, its passage is its own."""
    documents = {p["document_id"]: p["document_name"] for p in answer["passages"]}
    sent = [
        name
        for generation in trace["generations"]
        for segment in generation["prompt"]["segments"]
        for name in segment["source_ids"]
    ]
    return {name: documents.get(name.partition(":")[0], name) for name in sent} | {
        f"{p['document_id']}:{p['start']}-{p['end']}": f"{rank} {p['document_name']} p.{p['first_page']}"
        for rank, p in enumerate(answer["passages"], 1)
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value:.0%}"
