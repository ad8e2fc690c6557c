"""`bad_words` that hold: a logits processor of ours that runs inside vLLM.

vLLM's own bans the tokens that a word has when it stands alone, so that "river" is written as " river"
all the same, and a Chinese word wherever it is cut otherwise. This one looks at the bytes that tokens
stand for: what would complete a banned text is not to be had, however it is cut.

Loaded by `--logits-processors inference.banned_words:BannedWords`. A request turns it on by
`"vllm_xargs": {"banned_words": ["river", "长江"]}`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

ARGUMENT = "banned_words"
MAX_WORDS = 100
MAX_WORD_BYTES = 800

_CACHED_WORDS = 1 << 12


class Vocabulary:
    """The bytes of every token, to be searched by how they begin.

    Args:
        tokens: by token id; empty for special ones, which stand for no text.
    """

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._tokens = tokens
        self._sorted = sorted((token, token_id) for token_id, token in enumerate(tokens) if token)
        self.beginning_with = lru_cache(_CACHED_WORDS)(self._beginning_with)
        self.holding = lru_cache(_CACHED_WORDS)(self._holding)

    def __getitem__(self, token_id: int) -> bytes:
        # What is beyond the tokenizer's own ids only fills the matrix up.
        return self._tokens[token_id] if 0 <= token_id < len(self._tokens) else b""

    def _beginning_with(self, text: bytes) -> tuple[int, ...]:
        first = bisect_left(self._sorted, (text, -1))
        found = []
        for token, token_id in self._sorted[first:]:
            if not token.startswith(text):
                break
            found.append(token_id)
        return tuple(found)

    def _holding(self, text: bytes) -> tuple[int, ...]:
        return tuple(token_id for token_id, token in enumerate(self._tokens) if text in token)


class WordGuard:
    """What one answer must not go on with.

    Args:
        words: none of them empty.
        output_token_ids: the engine's own list, which grows with the answer. An answer that was
            preempted and begins again has a shorter one, or another list altogether.
    """

    def __init__(self, vocabulary: Vocabulary, words: Sequence[bytes], output_token_ids: list[int]) -> None:
        self._vocabulary = vocabulary
        self._words = words
        self._output = output_token_ids
        self._num_tail_bytes = max(map(len, words)) - 1
        self._tail = b""
        self._num_seen = 0
        self._always = frozenset(token_id for word in words for token_id in vocabulary.holding(word))

    def banned(self) -> frozenset[int]:
        """Token ids that would complete one of the words."""
        output = self._output
        if len(output) < self._num_seen:
            self._tail, self._num_seen = b"", 0
        fresh = b"".join(self._vocabulary[token_id] for token_id in output[self._num_seen :])
        self._num_seen = len(output)
        text = self._tail + fresh
        self._tail = text[max(0, len(text) - self._num_tail_bytes) :]
        completing = [
            token_id
            for word in self._words
            for length in range(1, min(len(word), len(self._tail) + 1))
            if self._tail.endswith(word[:length])
            for token_id in self._vocabulary.beginning_with(word[length:])
        ]
        return self._always.union(completing) if completing else self._always


def read_vocabulary(model_config: Any) -> Vocabulary:
    """The vocabulary of the engine's own tokenizer."""
    # Comes with vLLM, which needs the same for output of a form.
    from vllm.tokenizers import cached_tokenizer_from_config
    from xgrammar import TokenizerInfo

    tokenizer = cached_tokenizer_from_config(model_config)
    info = TokenizerInfo.from_huggingface(tokenizer, vocab_size=model_config.get_vocab_size())
    special = set(tokenizer.all_special_ids)
    return Vocabulary(
        [b"" if token_id in special else bytes(token) for token_id, token in enumerate(info.decoded_vocab)]
    )


class BannedWords(LogitsProcessor):  # type: ignore[misc]  # vLLM is not type-checked here
    """Takes from each request's next token whatever would complete one of its banned texts."""

    read_vocabulary = staticmethod(read_vocabulary)

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises `ValueError` for what is no list of texts; vLLM answers 400."""
        words = (sampling_params.extra_args or {}).get(ARGUMENT, [])
        is_list = isinstance(words, list) and len(words) <= MAX_WORDS
        if not is_list or not all(
            isinstance(w, str) and 0 < len(w.encode()) <= MAX_WORD_BYTES for w in words
        ):
            raise ValueError(
                f"{ARGUMENT} must be a list of at most {MAX_WORDS} texts of 1 to {MAX_WORD_BYTES} bytes."
            )

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._device = device
        self._vocabulary = self.read_vocabulary(vllm_config.model_config)
        self._requests: dict[int, WordGuard] = {}  # by index in the batch

    def is_argmax_invariant(self) -> bool:
        """What is banned may be the likeliest."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests that came, went and moved; those that did not ask for it are not kept."""
        process_dict_updates(self._requests, batch_update, self._of_request)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """`logits` (num_requests, vocabulary) with the banned ones at minus infinity."""
        rows: list[int] = []
        columns: list[int] = []
        for row, guard in self._requests.items():
            banned = guard.banned()
            rows += [row] * len(banned)
            columns += banned
        if rows:
            index = torch.tensor([rows, columns], device=self._device)
            logits[index[0], index[1]] = -torch.inf
        return logits

    def _of_request(
        self, sampling_params: SamplingParams, prompt_token_ids: list[int] | None, output_token_ids: list[int]
    ) -> WordGuard | None:
        words = (sampling_params.extra_args or {}).get(ARGUMENT)
        if not words:
            return None
        return WordGuard(self._vocabulary, [word.encode() for word in words], output_token_ids)
