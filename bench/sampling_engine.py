"""A vLLM asked for many tokens at once: what a sampling control does is seen in frequencies only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from core.errors import EngineUnavailable
from inference.beam_search import beam_body
from inference.controls import sampling_fields
from inference.protocols import ChatTokenizer, GenerationRequest, SamplingParameters

TOP = 20
"""Most log-probabilities that a vLLM gives."""

_AT_ONCE = 64
_MIN_EXPECTED = 5.0  # rarer outcomes are counted together, as the chi-square test wants


@dataclass(frozen=True, slots=True)
class Drawn:
    """One answer: its tokens, its text, why it ended."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str


class SampledEngine:
    """Sends completions with Longleaf's own fields for the controls, and asks for token ids back."""

    def __init__(
        self, url: str, *, model: str, tokenizer: ChatTokenizer, timeout_seconds: float = 600.0
    ) -> None:
        self._model = model
        self.tokenizer = tokenizer
        self._http = httpx.Client(base_url=url, timeout=timeout_seconds, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def chat(self, text: str) -> list[int]:
        """Token ids of a one-turn chat."""
        frame = self.tokenizer.chat_frame(has_system=False)
        return [*frame.head, *frame.middle, *self.tokenizer.encode(text), *frame.tail]

    def draw(
        self,
        prompt: Sequence[int],
        *,
        num: int = 1,
        ignore_eos: bool = False,
        **controls: Any,
    ) -> list[Drawn]:
        """`num` answers to the prompt; with a seed each has its own, counted up from it."""
        if num > _AT_ONCE:
            # An engine's queue has room for so many, and refuses what is beyond.
            seed = controls.get("seed")
            later = controls if seed is None else controls | {"seed": seed + _AT_ONCE}
            return self.draw(prompt, num=_AT_ONCE, ignore_eos=ignore_eos, **controls) + self.draw(
                prompt, num=num - _AT_ONCE, ignore_eos=ignore_eos, **later
            )
        sampling = SamplingParameters(**controls)
        body = self._body(prompt, sampling) | {"n": num, "ignore_eos": ignore_eos}
        if sampling.beam_width > 1:
            request = GenerationRequest((), sampling)
            body = beam_body(body, request) | {"return_token_ids": True, "ignore_eos": ignore_eos}
        choices = self._post(body)["choices"]
        return [Drawn(tuple(c["token_ids"]), c["text"], c["finish_reason"]) for c in choices]

    def draw_one(self, prompt: Sequence[int], **controls: Any) -> Drawn:
        return self.draw(prompt, **controls)[0]

    def probabilities(self, prompt: Sequence[int]) -> dict[int, float]:
        """The likeliest tokens after the prompt, by token id, likeliest first; without any control."""
        body = self._body(prompt, SamplingParameters(max_tokens=1))
        fields = {"logprobs": TOP, "return_tokens_as_token_ids": True}
        (top,) = self._post(body | fields)["choices"][0]["logprobs"]["top_logprobs"]
        found = {int(name.removeprefix("token_id:")): math.exp(value) for name, value in top.items()}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def log_probability(self, prompt: Sequence[int], answer: Sequence[int]) -> float:
        """Of the answer after the prompt, without any control."""
        body = self._body([*prompt, *answer], SamplingParameters(max_tokens=1)) | {"prompt_logprobs": 0}
        told = self._post(body)["choices"][0]["prompt_logprobs"]
        steps = zip(answer, told[len(prompt) :], strict=True)
        return float(sum(step[str(token)]["logprob"] for token, step in steps))

    def _body(self, prompt: Sequence[Any], sampling: SamplingParameters) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": sampling.max_tokens,
            "return_token_ids": True,
        } | sampling_fields(sampling)

    def _post(self, body: Mapping[str, Any]) -> Any:
        response = self._http.post("/v1/completions", json=body)
        if response.status_code != 200:
            raise EngineUnavailable(f"The engine said {response.status_code}: {response.text[:500]}")
        return response.json()


def deviation(drawn: Sequence[int], expected: Mapping[int, float]) -> float:
    """How far what was drawn is from what is expected: the chi-square statistic in its own deviations.

    A fair draw is within 4 of 0. What is not in `expected` must not be drawn: it makes infinity.
    `expected` need not add up to 1.
    """
    total = sum(expected.values())
    counts = Counter(drawn)
    if counts.keys() - expected.keys():
        return math.inf
    cells: list[tuple[float, float]] = []
    rest_seen = rest_expected = 0.0
    for token, share in expected.items():
        wanted = len(drawn) * share / total
        if wanted >= _MIN_EXPECTED:
            cells.append((counts[token], wanted))
        else:
            rest_seen, rest_expected = rest_seen + counts[token], rest_expected + wanted
    if rest_expected > 0:
        cells.append((rest_seen, rest_expected))
    freedom = max(1, len(cells) - 1)
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    return (statistic - freedom) / math.sqrt(2 * freedom)
