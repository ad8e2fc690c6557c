"""Beam search: `POST /v1/completions` with `use_beam_search`, which vLLM answers in one piece.

What it costs: each step is a request of its own for each beam, and there are as many steps as
`max_tokens` allows unless every beam ends before. The prompt comes from the prefix cache from the
second step on, but for what does not fill a block. The engine counts the prompt once and the tokens
of the beams that it gives, and does not say what it found cached; that is what is put on the ledger.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import httpx

from core.errors import EngineIncapable, EngineUnavailable, InvalidInput
from core.usage import TokenUsage
from inference.controls import beam_conflicts
from inference.engine_errors import error_from_body
from inference.protocols import EngineTimings, GenerationDelta, GenerationRequest

_BEAT_SECONDS = 0.5


def check_beams(request: GenerationRequest) -> None:
    """Nothing if beams can do what is asked for, or none are.

    Raises:
        InvalidInput: a control is on that vLLM's beam search would leave out without a word.
        EngineIncapable: so would it leave out the constraint.
    """
    if request.sampling.beam_width == 1:
        return
    if conflicts := beam_conflicts(request.sampling):
        raise InvalidInput(
            f"Beam search does not take {', '.join(conflicts)}.",
            remedy="Leave out beam_width, or what does not go with it.",
        )
    if request.constraint is not None:
        raise EngineIncapable(
            "Beam search cannot be held to a form of output.",
            remedy="Leave out beam_width, or the constraint.",
        )


def beam_body(body: Mapping[str, Any], request: GenerationRequest) -> dict[str, Any]:
    """`body`, of a streamed completion, as a search for the best of several beams."""
    dropped = {"stream", "stream_options", "repetition_detection", "logprobs", "return_token_ids"}
    return {name: value for name, value in body.items() if name not in dropped} | {
        "use_beam_search": True,
        "n": request.sampling.beam_width,
        "length_penalty": request.sampling.length_penalty,
    }


@contextmanager
def search_beams(
    url: str, body: Mapping[str, Any], *, headers: Mapping[str, str], timeout: httpx.Timeout
) -> Iterator[Iterator[GenerationDelta]]:
    """Deltas without text for as long as it takes, twice a second, then the best beam's text.

    Leaving the context closes the connection at once, so that the engine aborts the search; a caller
    who looks at every delta can therefore stop it at any time.

    Raises, from the iterator:
        EngineUnavailable: no connection, silence, or the engine died.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="beam-search", daemon=True)
    thread.start()
    answer = asyncio.run_coroutine_threadsafe(_post(url, body, headers, timeout), loop)
    try:
        yield _deltas(answer, num_prompt_tokens=len(body["prompt"]))
    finally:
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _post(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str], timeout: httpx.Timeout
) -> dict[str, Any]:
    try:
        # A task that is cancelled closes its connection, which a thread cannot do for another.
        async with httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False) as http:
            response = await http.post("/v1/completions", json=body, headers=dict(headers))
    except httpx.HTTPError as error:
        raise EngineUnavailable(
            f"The generation engine at {url} gave no beams ({type(error).__name__}: {error}).",
            remedy="Ask again; if it repeats, look into the engine's log.",
            usage=TokenUsage(),
        ) from error
    if response.status_code != 200:
        raise error_from_body(response.text, status=response.status_code)
    found: dict[str, Any] = response.json()
    return found


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _deltas(answer: Future[dict[str, Any]], *, num_prompt_tokens: int) -> Iterator[GenerationDelta]:
    started_at = time.perf_counter()
    while True:
        try:
            found = answer.result(timeout=_BEAT_SECONDS)
            break
        except TimeoutError:
            # The least that it can have taken by now; the engine does not tell.
            yield GenerationDelta("", TokenUsage(prompt_tokens=num_prompt_tokens))
    seconds = time.perf_counter() - started_at
    best, usage = found["choices"][0], _usage(found["usage"])
    timings = EngineTimings(decode_seconds=seconds, ttft_seconds=seconds, total_seconds=seconds)
    yield GenerationDelta(best["text"], usage, best["finish_reason"], timings)


def _usage(told: Mapping[str, Any]) -> TokenUsage:
    cached = (told.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return TokenUsage(told["prompt_tokens"], cached, told["completion_tokens"])
