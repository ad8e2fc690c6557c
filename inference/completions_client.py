"""Talks to a generation engine: `POST /v1/completions`, prompts in token ids, answers streamed."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from core.cancellation import wait_watchfully
from core.errors import EngineIncapable, EngineOverloaded, EngineUnavailable, LongleafError, TooLong
from core.priority import current_priority
from core.usage import TokenUsage
from inference.admission import AdmissionPolicy, pause_seconds
from inference.beam_search import beam_body, check_beams, search_beams
from inference.completion_stream import DONE, CompletionStream
from inference.controls import require_controls, sampling_fields
from inference.engine_errors import error_from_body
from inference.engine_metrics import EngineCache, EngineCounters, parse_cache, parse_counters
from inference.engine_probe import (
    REPETITION_DETECTION,
    SPECULATION_METRIC,
    completion_body,
    probe_engine,
    usage_of,
)
from inference.kv_store.kept_text import FIELD as KEPT_FIELD
from inference.protocols import EngineInfo, GenerationDelta, GenerationRequest
from inference.server_sent_events import EventDecoder
from inference.token_logprobs import logprobs_fields
from inference.watchful_transport import WatchfulTransport

# uvicorn, and so vLLM, closes a connection idle for 5 s; ours must be dropped before it does.
_KEEPALIVE_SECONDS = 4.0

OnProbed = Callable[[EngineInfo, TokenUsage], None]


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """How long to wait: to connect, for the next sign of a running request, for a health check."""

    connect_seconds: float = 3.0
    silence_seconds: float = 300.0
    health_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts in all, and the pause after the first; each pause is twice the last, jittered."""

    max_attempts: int = 3
    first_pause_seconds: float = 0.2

    def pause_seconds(self, attempt: int) -> float:
        """After attempt number `attempt`, counted from 1."""
        return self.first_pause_seconds * 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)


class CompletionsClient:
    """A `Generator` over HTTP; one instance serves any number of threads.

    Args:
        url: root of the endpoint, without `/v1`.
        model: the name it serves the model by.
        revision: what to call the model's revision; an endpoint does not tell.
        max_model_len: the window to assume where the endpoint does not say it.
        admission: how long a full endpoint is waited for; by default not at all.
        on_probed: told what finding out used, for the ledger.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        revision: str = "",
        api_key: str = "",
        max_model_len: int = 8192,
        timeouts: ClientTimeouts | None = None,
        retries: RetryPolicy | None = None,
        admission: AdmissionPolicy | None = None,
        on_probed: OnProbed | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._model = model
        self._revision = revision
        self._max_model_len = max_model_len
        self._timeouts = timeouts or ClientTimeouts()
        self._retries = retries or RetryPolicy()
        self._admission = admission or AdmissionPolicy()
        self._on_probed = on_probed
        self._info: EngineInfo | None = None
        self._info_lock = threading.Lock()
        self._http = httpx.Client(
            base_url=self._url,
            headers={
                # A compressing proxy would hold tokens back.
                "Accept-Encoding": "identity",
                **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            },
            timeout=httpx.Timeout(self._timeouts.silence_seconds, connect=self._timeouts.connect_seconds),
            transport=WatchfulTransport(
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=32, keepalive_expiry=_KEEPALIVE_SECONDS
                )
            ),
            # Only core/settings.py reads the environment; and a proxy must not see localhost.
            trust_env=False,
        )

    @property
    def url(self) -> str:
        """Root of the endpoint."""
        return self._url

    def close(self) -> None:
        """Close all connections; running requests fail."""
        self._http.close()

    def info(self) -> EngineInfo:
        """What the endpoint is and can do: asked once, then remembered; a failure is not.

        Raises:
            EngineUnavailable: it does not answer.
            EngineIncapable: it cannot do what Longleaf needs.
            Misconfigured: it does not serve the model, or refuses the key.
        """
        with self._info_lock:
            if self._info is None:
                started_at, used = time.monotonic(), [TokenUsage()]
                self._info = self._ask_info(used)
                if self._on_probed is not None:
                    seconds = time.monotonic() - started_at
                    self._on_probed(self._info, replace(sum(used, TokenUsage()), engine_seconds=seconds))
            return self._info

    def is_healthy(self) -> bool:
        """Whether the endpoint answers now; never raises."""
        try:
            response = self._get("/health")
            if response.status_code == 404:  # not every endpoint has it
                response = self._get("/v1/models")
        except httpx.HTTPError:
            return False
        return response.status_code == 200

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        """Generate; see `Generator.stream`. Leaving early closes the connection, so vLLM aborts.

        A delta's text may be empty while the engine holds back part of a character or of a stop
        string; its usage counts the tokens all the same.
        """
        info = self.info()
        _check_window(request, info)
        _check_constraint(request, info)
        require_controls(request.sampling, info)
        check_beams(request)
        if request.sampling.beam_width > 1:
            body = beam_body(_request_body(request, info), request)
            headers = {**self._http.headers, **_request_headers(request)}
            with search_beams(self._url, body, headers=headers, timeout=self._http.timeout) as deltas:
                yield deltas
            return
        stream = CompletionStream(num_prompt_tokens=len(request.prompt_token_ids))
        response = self._send(request, info)
        try:
            yield self._deltas(response, stream)
        finally:
            response.close()

    def engine_counters(self) -> EngineCounters:
        """The engine's own totals.

        Raises:
            EngineUnavailable: it does not answer.
            EngineIncapable: it is not a vLLM, or runs without metrics.
        """
        response = self._get_checked("/metrics")
        return parse_counters(response.text)

    def engine_cache(self) -> EngineCache | None:
        """The engine's KV cache, None where it does not say.

        Raises:
            EngineUnavailable, EngineIncapable: as `engine_counters`.
        """
        return parse_cache(self._get_checked("/metrics").text)

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes, as benchmarks need.

        Raises:
            EngineUnavailable: the endpoint does not answer.
            EngineIncapable: it was started without developer endpoints, or requests are running.
        """
        with _translated(self._url):
            response = self._http.post("/reset_prefix_cache")
        if response.status_code != 200 or not response.json().get("success", True):
            raise EngineIncapable(
                f"The generation engine did not reset its prefix cache (HTTP {response.status_code}).",
                remedy="Start it with developer endpoints (VLLM_SERVER_DEV_MODE=1), and while it is idle.",
            )

    def _ask_info(self, used: list[TokenUsage]) -> EngineInfo:
        def post(body: dict[str, Any]) -> httpx.Response:
            response = self._http.post("/v1/completions", json=body)
            used.append(usage_of(response))
            return response

        models = self._get_checked("/v1/models").json()
        with _translated(self._url):
            version = self._get("/version")
            metrics = self._get("/metrics")  # elsewhere than in vLLM there are none, or none so named
            return probe_engine(
                post,
                models=models,
                version=str(version.json().get("version", "")) if version.status_code == 200 else "",
                model=self._model,
                revision=self._revision,
                max_model_len=self._max_model_len,
                speculates=SPECULATION_METRIC in metrics.text,
            )

    def _get(self, path: str) -> httpx.Response:
        return self._http.get(path, timeout=self._timeouts.health_seconds)

    def _get_checked(self, path: str) -> httpx.Response:
        with _translated(self._url):
            response = self._get(path)
        if response.status_code != 200:
            raise error_from_body(response.text, status=response.status_code)
        return response

    def _send(self, request: GenerationRequest, info: EngineInfo) -> httpx.Response:
        """An accepted request's open response. Nothing was generated before this returns, so here,
        and only here, a failure that may pass is tried again, and a full engine is waited for."""
        body = _request_body(request, info)
        headers = _request_headers(request)
        deadline = time.monotonic() + self._admission.limit_seconds(_priority(request))
        for num_refusals in itertools.count(1):
            try:
                return self._send_repeatedly(body, headers)
            except EngineOverloaded:
                pause = pause_seconds(num_refusals)
                if time.monotonic() + pause > deadline:
                    raise
                wait_watchfully(pause)
        raise AssertionError("the loop has no end of its own")

    def _send_repeatedly(self, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        for attempt in range(1, self._retries.max_attempts + 1):
            try:
                return self._send_once(body, headers)
            except _PassingError as passing:
                if attempt == self._retries.max_attempts:
                    raise passing.error from passing.__cause__
                wait_watchfully(self._retries.pause_seconds(attempt))
        raise AssertionError("max_attempts is at least 1")

    def _send_once(self, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        http_request = self._http.build_request("POST", "/v1/completions", json=body, headers=headers)
        try:
            response = self._http.send(http_request, stream=True)
        except httpx.ReadTimeout as error:
            raise _silent(self._timeouts.silence_seconds, TokenUsage()) from error
        except httpx.TransportError as error:
            # The connection was refused, or closed before the engine accepted the request.
            raise _PassingError(_unreachable(self._url, error)) from error
        if response.status_code == 200:
            return response
        refusal = _read_refusal(response)
        if response.status_code in (502, 503) and isinstance(refusal, EngineUnavailable):
            raise _PassingError(refusal)
        raise refusal

    def _deltas(self, response: httpx.Response, stream: CompletionStream) -> Iterator[GenerationDelta]:
        is_done = False
        try:
            for payload in self._payloads(response, stream):
                # What follows [DONE] is only read so that the connection can be used again.
                if not is_done and (delta := stream.feed(payload)) is not None:
                    is_done = payload == DONE
                    yield delta
        except httpx.ReadTimeout as error:
            if not is_done:
                raise _silent(self._timeouts.silence_seconds, stream.usage) from error
        except httpx.TransportError as error:
            if not is_done:
                raise stream.broken("closed the connection in mid-answer") from error
        if not is_done:
            raise stream.broken("ended its stream without saying it was done")

    def _payloads(self, response: httpx.Response, stream: CompletionStream) -> Iterator[str]:
        """Events of the response; comments that only keep the connection open do not count as life."""
        decoder = EventDecoder()
        last_event_at = time.monotonic()
        for chunk in response.iter_bytes():
            payloads = decoder.feed(chunk)
            if payloads:
                yield from payloads
                last_event_at = time.monotonic()
            elif time.monotonic() - last_event_at > self._timeouts.silence_seconds:
                raise _silent(self._timeouts.silence_seconds, stream.usage)


class _PassingError(Exception):
    """A failure before anything was generated, which may have passed by the next attempt."""

    def __init__(self, error: LongleafError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, error: httpx.HTTPError) -> EngineUnavailable:
    return EngineUnavailable(
        f"The generation engine at {url} does not answer ({type(error).__name__}: {error}).",
        remedy="Wait until it has started, or look into its log.",
        usage=TokenUsage(),
    )


def _silent(seconds: float, usage: TokenUsage) -> EngineUnavailable:
    return EngineUnavailable(
        f"The generation engine was silent for {seconds:g} s, after {usage.completion_tokens} tokens.",
        remedy="Ask again, or raise LONGLEAF_ENGINE__REQUEST_TIMEOUT_SECONDS.",
        usage=usage,
    )


def _read_refusal(response: httpx.Response) -> LongleafError:
    try:
        body = response.read().decode("utf-8", errors="replace")
    except httpx.HTTPError:
        body = ""
    finally:
        response.close()
    return error_from_body(body, status=response.status_code)


def _check_window(request: GenerationRequest, info: EngineInfo) -> None:
    # vLLM would cut max_tokens to what is left, and the answer with it, without a word.
    num_prompt_tokens, max_tokens = len(request.prompt_token_ids), request.sampling.max_tokens
    if num_prompt_tokens + max_tokens > info.max_model_len:
        raise TooLong(
            f"A prompt of {num_prompt_tokens} tokens and an answer of up to {max_tokens} exceed the "
            f"window of {info.model}, {info.max_model_len} tokens.",
            remedy="Ask for a shorter answer, or send less text.",
            prompt_tokens=num_prompt_tokens,
            max_tokens=max_tokens,
            max_model_len=info.max_model_len,
        )


def _check_constraint(request: GenerationRequest, info: EngineInfo) -> None:
    if request.constraint is not None and not info.constrains_output:
        raise EngineIncapable(
            f"The endpoint that serves {info.model} cannot be held to a form of output.",
            remedy="Use a vLLM, or settings that need none (extraction `embedding`, condensing `rule`).",
        )


def _request_headers(request: GenerationRequest) -> dict[str, str]:
    return {"X-Request-Id": request.request_id} if request.request_id else {}


def _request_body(request: GenerationRequest, info: EngineInfo) -> dict[str, Any]:
    sampling = request.sampling
    body = completion_body(info.model, request.prompt_token_ids, max_tokens=sampling.max_tokens)
    body |= sampling_fields(sampling)
    if request.cache_salt and info.accepts_cache_salt:
        body["cache_salt"] = request.cache_salt
    # What a schema has repeated is no loop.
    if info.stops_repetition and request.constraint is None:
        body["repetition_detection"] = REPETITION_DETECTION
    if request.constraint is not None:
        body["structured_outputs"] = {request.constraint.kind: request.constraint.value}
    if request.num_logprobs and info.reports_logprobs:
        fields = logprobs_fields(request.num_logprobs)
        body |= fields if info.reports_token_ids else {"logprobs": request.num_logprobs}
    if _priority(request) and info.accepts_priority:
        body["priority"] = _priority(request)
    if request.kept is not None and info.keeps_context:
        body[KEPT_FIELD] = request.kept.as_json()
    return body


def _priority(request: GenerationRequest) -> int:
    """The request's own, else that of the work it is part of."""
    return request.priority or current_priority()
