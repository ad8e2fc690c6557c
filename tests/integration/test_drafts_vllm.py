"""A real vLLM that guesses n-grams, as it is launched by default: same text, every control, mixed batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
import torch

from inference.completions_client import CompletionsClient
from inference.controls import LOST_TO_SPECULATION
from inference.protocols import GenerationDelta, GenerationRequest, SamplingParameters
from inference.speculation_controls import expand_batch_to_tokens
from inference.tokenizers import HuggingFaceTokenizer

pytestmark = pytest.mark.engine

pytest.importorskip("vllm")

TEXT = (
    "The lighthouse of Aldora was built in 1874 by the engineer Maria Castelin. It stands forty-two metres "
    "high on the northern cliff. Every evening the keeper climbs two hundred and twelve steps to light the lamp. "
)


@pytest.fixture(scope="module")
def prompt(tokenizer: HuggingFaceTokenizer) -> list[int]:
    frame = tokenizer.chat_frame(has_system=True)
    task = tokenizer.encode(f"Repeat the following text word for word:\n\n{TEXT}\n\n{TEXT}\n\nRepeat it.")
    return [*frame.head, *tokenizer.encode("You copy text."), *frame.middle, *task, *frame.tail]


def generate(client: CompletionsClient, prompt: list[int], **controls: Any) -> list[GenerationDelta]:
    sampling = SamplingParameters(**{"max_tokens": 48} | controls)
    with client.stream(GenerationRequest(prompt, sampling)) as deltas:
        return list(deltas)


def text(deltas: list[GenerationDelta]) -> str:
    return "".join(delta.text for delta in deltas)


def test_the_engine_guesses_and_holds_every_control(client: CompletionsClient) -> None:
    info = client.info()
    assert info.speculates
    assert info.controls >= LOST_TO_SPECULATION


def test_guessed_text_is_the_text_without_guesses_in_fewer_steps(
    client: CompletionsClient, prompt: list[int]
) -> None:
    guessed = generate(client, prompt)
    # A bias on a token that never comes changes nothing but that nothing is guessed.
    plain = generate(client, prompt, logit_bias=((17_000, -1.0),))
    assert text(guessed) == text(plain)
    assert "Maria Castelin" in text(guessed)
    assert len(guessed) < 0.6 * len(plain)


def test_no_pair_of_words_comes_twice(client: CompletionsClient, prompt: list[int]) -> None:
    words = text(generate(client, prompt, no_repeat_ngram_size=2, max_tokens=64)).split()
    pairs = list(pairwise(words))
    assert len(pairs) == len(set(pairs))


def test_a_biased_token_does_not_come(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer, prompt: list[int]
) -> None:
    banned = {*tokenizer.encode(" lighthouse"), *tokenizer.encode("lighthouse")}
    assert "lighthouse" in text(generate(client, prompt))
    biased = text(generate(client, prompt, logit_bias=tuple((token, -100.0) for token in banned)))
    assert "lighthouse" not in biased


def test_min_p_of_one_is_greedy_at_any_temperature(client: CompletionsClient, prompt: list[int]) -> None:
    greedy = text(generate(client, prompt))
    assert text(generate(client, prompt, min_p=1.0, temperature=1.9, seed=3)) == greedy
    assert text(generate(client, prompt, temperature=1.9, seed=3)) != greedy


def test_a_step_without_any_guess_takes_every_cut(client: CompletionsClient, prompt: list[int]) -> None:
    # Nothing matches in the first steps, with which vLLM 0.32 by itself ends over top_k.
    for cuts in ({"top_k": 5}, {"top_p": 0.9}, {"top_k": 5, "top_p": 0.9}):
        assert text(generate(client, prompt[:20], temperature=0.8, seed=1, max_tokens=8, **cuts))
    assert client.is_healthy()


def test_requests_with_and_without_guesses_share_a_batch(
    client: CompletionsClient, prompt: list[int]
) -> None:
    greedy = text(generate(client, prompt))
    other = text(generate(client, prompt, no_repeat_ngram_size=2))
    # Twelve at once are more than are guessed for, and become fewer as they end.
    with ThreadPoolExecutor(12) as pool:
        controls: list[dict[str, Any]] = [{}, {"no_repeat_ngram_size": 2}, {}] * 4
        texts = list(pool.map(lambda given: text(generate(client, prompt, **given)), controls))
    assert texts == [greedy, other, greedy] * 4


def test_sampled_text_holds_no_word_that_the_model_would_not_write(
    client: CompletionsClient, prompt: list[int]
) -> None:
    # Without a seed, so that guesses are checked against what is drawn; one at a time and together.
    cuts: list[dict[str, Any]] = [{"top_p": 0.9}, {"top_k": 5}, {"top_k": 5, "top_p": 0.9}, {}]
    greedy = text(generate(client, prompt))
    with ThreadPoolExecutor(5) as pool:
        sampled = pool.map(lambda cut: least_likely(client, prompt, temperature=0.3, **cut), cuts * 2)
        assert text(generate(client, prompt)) == greedy
        assert min(sampled) > -12  # garbage has -15 to -45
    assert client.is_healthy()


def least_likely(client: CompletionsClient, prompt: list[int], **controls: Any) -> float:
    sampling = SamplingParameters(max_tokens=32, **controls)
    with client.stream(GenerationRequest(prompt, sampling, num_logprobs=1)) as deltas:
        return min(token.logprob or 0.0 for delta in deltas for token in delta.tokens)


def test_values_are_spread_over_tokens_whatever_their_type() -> None:
    counts = torch.tensor([2, 2, 5], dtype=torch.int32)  # none of the second request
    temperatures = torch.tensor([0.5, 0.7, 0.0])
    assert torch.equal(
        expand_batch_to_tokens(temperatures, counts, 5, replace_to=1), torch.tensor([0.5, 0.5, 1, 1, 1])
    )
    top_k = torch.tensor([5, 6, 7], dtype=torch.int32)
    spread = expand_batch_to_tokens(top_k, counts, 5)
    assert spread.dtype == torch.int32
    assert spread.tolist() == [5, 5, 7, 7, 7]
