"""`longleaf ask`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cli.options import DEFAULT_COLLECTION, CollectionOption, JsonOption, KeyOption, UrlOption, connect
from cli.output import out, print_json
from cli.sampling_options import (
    BadWordOption,
    BeamWidthOption,
    FrequencyPenaltyOption,
    LengthOption,
    LengthPenaltyOption,
    LogitBiasOption,
    MaxTokensOption,
    MinPOption,
    MinTokensOption,
    NoRepeatOption,
    PresencePenaltyOption,
    PresetOption,
    RepetitionPenaltyOption,
    SamplesOption,
    SeedOption,
    StopOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    given_options,
)

Mode = Literal["auto", "extractive", "abstractive", "quoted"]
ContextChoice = Literal["auto", "whole", "passages"]
Extraction = Literal["auto", "none", "rule", "embedding", "model", "cross_encoder"]
Expansion = Literal["none", "multi_query", "decompose"]
Unsupported = Literal["flag", "remove"]
Validation = Literal["auto", "none", "rule", "model"]


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    collection: CollectionOption = DEFAULT_COLLECTION,
    mode: Annotated[
        Mode, typer.Option("--mode", help="auto: what suits the model; extractive: verbatim sentences.")
    ] = "auto",
    document: Annotated[
        list[str] | None,
        typer.Option("--document", metavar="ID", help="Only from this document; repeatable."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only from documents so tagged; repeatable."),
    ] = None,
    whole: Annotated[
        ContextChoice, typer.Option("--context", help="Give the model passages, or the document whole.")
    ] = "auto",
    extraction: Annotated[
        Extraction, typer.Option("--extraction", help="How sentences are kept of passages.")
    ] = "auto",
    expansion: Annotated[
        Expansion, typer.Option("--expansion", help="Further queries by the small model.")
    ] = "none",
    rerank: Annotated[
        bool | None, typer.Option("--rerank/--no-rerank", help="Rerank the passages found.")
    ] = None,
    unsupported: Annotated[
        Unsupported, typer.Option("--unsupported", help="Sentences that nothing supports.")
    ] = "flag",
    prefix_planner: Annotated[
        bool | None,
        typer.Option("--prefix-planner/--no-prefix-planner", help="Lay passages out to share prefixes."),
    ] = None,
    preset: PresetOption = None,
    length: LengthOption = None,
    max_tokens: MaxTokensOption = None,
    min_tokens: MinTokensOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    top_k: TopKOption = None,
    min_p: MinPOption = None,
    repetition_penalty: RepetitionPenaltyOption = None,
    presence_penalty: PresencePenaltyOption = None,
    frequency_penalty: FrequencyPenaltyOption = None,
    no_repeat_ngram_size: NoRepeatOption = None,
    seed: SeedOption = None,
    stop: StopOption = None,
    samples: SamplesOption = None,
    logit_bias: LogitBiasOption = None,
    bad_word: BadWordOption = None,
    beam_width: BeamWidthOption = None,
    length_penalty: LengthPenaltyOption = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="Answer in JSON of this JSON schema.")
    ] = None,
    regex: Annotated[
        str, typer.Option("--regex", metavar="PATTERN", help="Answer with a text that matches.")
    ] = "",
    choice: Annotated[
        list[str] | None,
        typer.Option("--choice", metavar="TEXT", help="Answer with one of these; repeatable."),
    ] = None,
    grammar: Annotated[
        Path | None, typer.Option("--grammar", metavar="FILE", help="Answer with what this EBNF describes.")
    ] = None,
    date: Annotated[
        str, typer.Option("--date", metavar="STYLE", help="iso, year_month, year, chinese or english.")
    ] = "",
    must_include: Annotated[
        list[str] | None,
        typer.Option("--must-include", metavar="TEXT", help="The answer must hold this; repeatable."),
    ] = None,
    validation: Annotated[
        Validation, typer.Option("--validation", help="Who checks an answer of a form.")
    ] = "auto",
    trace: Annotated[
        bool | None,
        typer.Option("--trace/--no-trace", help="Keep texts and tokens for `longleaf trace`."),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Show text as it is written.")] = True,
    quote: Annotated[bool, typer.Option("--quote", help="What it would take and cost; ask nothing.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = "",
    key: KeyOption = "",
) -> None:
    """Ask a question; the answer comes with its citations and its cost."""
    from cli.answer_formats import format_option
    from cli.answers import describe_work, print_sources, print_stream, print_text
    from cli.lookup import require_collection
    from cli.quotes import show_quote

    options: dict[str, Any] = {
        "context": whole,
        "extraction": extraction,
        "expansion": expansion,
        "rerank": rerank,
        "unsupported": unsupported,
        "prefix_planner": prefix_planner,
        "trace": trace,
        "filter": {"document_ids": document or [], "tags": tag or []},
        "format": format_option(schema=schema, regex=regex, choices=choice, grammar=grammar, date=date),
        "must_include": must_include or [],
        "validation": validation,
    } | given_options(
        preset=preset,
        length=length,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        no_repeat_ngram_size=no_repeat_ngram_size,
        seed=seed,
        stop=stop,
        n=samples,
        logit_bias=logit_bias,
        bad_words=bad_word,
        beam_width=beam_width,
        length_penalty=length_penalty,
    )
    with connect(context, url=url, key=key) as client:
        target = require_collection(client, collection)
        if quote:
            show_quote(client.quote(target["id"], question, mode=mode, **options), as_json=as_json)
            return
        if as_json:
            print_json(client.ask(target["id"], question, mode=mode, **options))
            return
        if stream:
            answer = print_stream(client.ask_stream(target["id"], question, mode=mode, **options), out())
        else:
            answer = client.ask(target["id"], question, mode=mode, **options)
            print_text(answer, out())
        print_sources(answer, client, out())
        out().print(describe_work(answer), style="dim", markup=False, soft_wrap=True)
