"""Finds out by asking what an endpoint is and can do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import httpx

from core.errors import EngineIncapable, LongleafError, Misconfigured
from core.usage import TokenUsage
from inference.completion_stream import CompletionStream
from inference.controls import BEAM_PROBE, LOST_TO_SPECULATION, PROBES, Probe, merged_fields
from inference.engine_errors import error_from_body
from inference.kv_store.kept_text import FIELD as KEPT_FIELD
from inference.kv_store.kept_text import KeptText, keeps_blocks
from inference.protocols import BASE_CONTROLS, EngineInfo
from inference.server_sent_events import EventDecoder
from inference.token_logprobs import logprobs_fields

# Ids below the vocabulary size of any model; what they mean does not matter.
PROBE_TOKEN_IDS = (10, 11, 12, 13)

_REFUSALS = (400, 422)

# A phrase of 3 to 40 tokens that comes three times in a row is a loop that small models do not
# leave; every further token of it would be paid for nothing.
REPETITION_DETECTION = {"max_pattern_size": 40, "min_pattern_size": 3, "min_count": 3}

# Fields of vLLM's own, each with a value that it must refuse and one that it must take.
_EXTENSIONS: dict[str, tuple[object, object]] = {
    "cache_salt": ("", "probe"),
    "priority": ("x", 0),
    "repetition_detection": ("x", REPETITION_DETECTION),
    # Not a text: vLLM 0.32 fails over one (HTTP 500) instead of refusing it.
    "structured_outputs": ({"choice": ["a"], "regex": "a"}, {"choice": ["a"]}),
    **{name: ("x", value) for name, value in logprobs_fields(2).items()},
}
SPECULATION_METRIC = "vllm:spec_decode_"
"""Begins the names of metrics that a vLLM has from its start if it speculates."""

_REMEDY = "Point LONGLEAF_ENGINE__URL to a vLLM, or leave it empty to have one launched."


def usage_of(response: httpx.Response) -> TokenUsage:
    """What a whole response to a completion request says that it used; nothing for a refusal."""
    if response.status_code != 200:
        return TokenUsage()
    is_stream = "text/event-stream" in response.headers.get("content-type", "")
    payloads = EventDecoder().feed(response.content) if is_stream else [response.text]
    stream = CompletionStream(num_prompt_tokens=0)
    try:
        for payload in payloads:
            stream.feed(payload)
    except LongleafError:  # a refusal in a stream, or nonsense: the rest of the probe finds out
        pass
    return stream.usage


class Post(Protocol):
    """Sends a completion request and reads the whole answer."""

    def __call__(self, body: dict[str, Any]) -> httpx.Response: ...


def completion_body(model: str, prompt: Sequence[int], *, max_tokens: int) -> dict[str, Any]:
    """The part of a streamed completion request that every endpoint must understand."""
    return {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def probe_engine(
    post: Post,
    *,
    models: dict[str, Any],
    version: str,
    model: str,
    revision: str,
    max_model_len: int,
    speculates: bool = False,
) -> EngineInfo:
    """Describe the endpoint; costs it up to three completions of 4 prompt tokens and 1 answer token.

    Args:
        models: the answer to `GET /v1/models`.
        max_model_len: taken where the endpoint does not say its window.
        speculates: it does; controls that are lost to that are asked for only of a vLLM of ours.

    Raises:
        Misconfigured: it does not serve `model`.
        EngineIncapable: it takes no token ids, or does not count tokens when streaming.
    """
    card = _find_card(models, model)
    wanted: dict[str, Probe] = {
        name: ({name: invalid}, {name: valid}) for name, (invalid, valid) in _EXTENSIONS.items()
    }
    keeps_all = not speculates or _keeps_controls(post, model)
    wanted |= {name: probe for name, probe in PROBES.items() if keeps_all or name not in LOST_TO_SPECULATION}
    # An endpoint minds an invalid value of a field that it knows, and only of such a field; a strict
    # one refuses the field itself, which the completion then shows.
    known = {
        name: valid for name, (invalid, valid) in wanted.items() if _refuses(post, _probe(model, invalid))
    }
    stream, accepted = _probe_completion(post, model, known)
    controls = BASE_CONTROLS | (PROBES.keys() & accepted)
    if _searches_beams(post, model):
        controls |= {"beam_width"}
    window = card.get("max_model_len")
    info = EngineInfo(
        model=model,
        revision=revision,
        max_model_len=window or max_model_len,
        accepts_token_ids=True,
        reports_cached_tokens=stream.reports_cached_tokens,
        reports_timings="time_to_first_token_ms" in stream.engine_metrics,
        accepts_cache_salt="cache_salt" in accepted,
        accepts_priority="priority" in accepted,
        stops_repetition="repetition_detection" in accepted,
        constrains_output="structured_outputs" in accepted,
        controls=controls,
        speculates=speculates,
        reports_logprobs="logprobs" in accepted and stream.reports_logprobs,
        reports_token_ids="return_tokens_as_token_ids" in accepted and stream.reports_token_ids,
        # Nobody but a vLLM could have the store.
        keeps_context="cache_salt" in accepted and _keeps_context(post, model),
        version=version,
    )
    return replace(info, notes=_notes(info, says_window=bool(window)))


def _find_card(models: dict[str, Any], model: str) -> dict[str, Any]:
    cards: list[dict[str, Any]] = models.get("data") or []
    for card in cards:
        if card.get("id") == model:
            return card
    served = ", ".join(str(card.get("id")) for card in cards) or "none"
    raise Misconfigured(
        f"The generation engine does not serve {model!r}; it serves: {served}.",
        remedy="Set LONGLEAF_ENGINE__MODEL to one of these.",
    )


def _probe(model: str, extras: Mapping[str, Any]) -> dict[str, Any]:
    return completion_body(model, PROBE_TOKEN_IDS, max_tokens=1) | {"temperature": 0.0, **extras}


def _probe_completion(
    post: Post, model: str, known: Mapping[str, Mapping[str, Any]]
) -> tuple[CompletionStream, frozenset[str]]:
    """One completion's figures, and the names of those fields in `known` that are accepted."""
    accepted = frozenset(known)
    response = post(_probe(model, merged_fields(known.values())))
    if known and _is_refusal(response):
        accepted = frozenset(name for name in known if not _refuses(post, _probe(model, known[name])))
        response = post(_probe(model, merged_fields(known[name] for name in accepted)))
    if accepted and _is_refusal(response):  # each alone, but not together
        accepted = frozenset()
        response = post(_probe(model, {}))
    if response.status_code != 200:
        error = error_from_body(response.text, status=response.status_code)
        raise _without_token_ids(str(error)) if isinstance(error, EngineIncapable) else error
    return _read_stream(response), accepted


def _searches_beams(post: Post, model: str) -> bool:
    invalid, valid = BEAM_PROBE
    return _refuses(post, _probe(model, invalid)) and post(_probe(model, valid)).status_code == 200


def _keeps_context(post: Post, model: str) -> bool:
    """Whether the endpoint answers as one with our store does: only an unstreamed answer tells."""
    body = completion_body(model, PROBE_TOKEN_IDS, max_tokens=1)
    body |= {"stream": False, KEPT_FIELD: KeptText(0).as_json()}
    del body["stream_options"]
    response = post(body)
    try:
        return response.status_code == 200 and keeps_blocks(response.json())
    except ValueError:  # it streams all the same
        return False


def _read_stream(response: httpx.Response) -> CompletionStream:
    if "text/event-stream" not in response.headers.get("content-type", ""):
        raise EngineIncapable("The generation engine does not stream.", remedy=_REMEDY)
    stream = CompletionStream(num_prompt_tokens=0)
    for payload in EventDecoder().feed(response.content):
        stream.feed(payload)
    if not stream.reports_usage:
        raise EngineIncapable(
            "The generation engine does not count tokens when streaming (stream_options.include_usage).",
            remedy=_REMEDY,
        )
    if stream.usage.prompt_tokens != len(PROBE_TOKEN_IDS):
        raise _without_token_ids(
            f"{len(PROBE_TOKEN_IDS)} were sent and it counted {stream.usage.prompt_tokens}."
        )
    return stream


def _without_token_ids(reason: str) -> LongleafError:
    return EngineIncapable(f"The generation engine takes no prompts in token ids: {reason}", remedy=_REMEDY)


def _keeps_controls(post: Post, model: str) -> bool:
    """Whether a speculating vLLM is one that keeps every control (`inference.speculation_controls`).

    A stock one does not start with the logits processor that minds this value.
    """
    invalid, _ = PROBES["no_repeat_ngram_size"]
    return _refuses(post, _probe(model, invalid))


def _refuses(post: Post, body: dict[str, Any]) -> bool:
    return _is_refusal(post(body))


def _is_refusal(response: httpx.Response) -> bool:
    """By its status, or by the first event: vLLM looks at some values only once it has begun to stream."""
    if response.status_code != 200 or "text/event-stream" not in response.headers.get("content-type", ""):
        return response.status_code in _REFUSALS
    first = next(iter(EventDecoder().feed(response.content)), "")
    try:
        return json.loads(first)["error"]["code"] in _REFUSALS
    except (ValueError, KeyError, TypeError):
        return False


def _notes(info: EngineInfo, *, says_window: bool) -> tuple[str, ...]:
    lacking = ", ".join(sorted({*PROBES, "beam_width"} - info.controls))
    notes = {
        "tenants share the prefix cache: the endpoint ignores cache_salt": not info.accepts_cache_salt,
        "requests run in order of arrival: the endpoint ignores priority": not info.accepts_priority,
        "answers that repeat themselves run to max_tokens: the endpoint ignores repetition_detection": (
            not info.stops_repetition
        ),
        "no small model can choose or plan: the endpoint ignores structured_outputs": (
            not info.constrains_output
        ),
        f"requests with {lacking} are refused: the endpoint "
        f"{'speculates' if info.speculates else 'ignores such controls'}": bool(lacking),
        "traces have no tokens: the endpoint does not report logprobs": not info.reports_logprobs,
        "cached tokens are not reported: all prompt tokens count as uncached": (
            not info.reports_cached_tokens
        ),
        "queue, prefill and decode times are measured from outside": not info.reports_timings,
        f"the endpoint does not say its window: {info.max_model_len} tokens are assumed": not says_window,
    }
    return tuple(note for note, applies in notes.items() if applies)
