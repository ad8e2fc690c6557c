"""The logits processor that bans texts, by the bytes of tokens."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality  # noqa: E402

from inference.banned_words import ARGUMENT, BannedWords, Vocabulary, WordGuard  # noqa: E402

# Special, letters, whole words with and without a blank, and Chinese cut in the middle of a character.
TOKENS = [
    b"",
    b"r",
    b"iver",
    b" river",
    b"ri",
    b"v",
    b"er",
    b"s",
    b" r",
    *(bytes([b]) for b in "长江".encode()),
]
TOKENS += ["长江".encode(), "的长".encode(), "江大".encode(), b"rivers and", b" "]


def banned(words: list[str], written: list[bytes]) -> set[bytes]:
    output = [TOKENS.index(token) for token in written]
    guard = WordGuard(Vocabulary(TOKENS), [word.encode() for word in words], output)
    return {TOKENS[token_id] for token_id in guard.banned()}


def test_a_word_is_banned_however_it_is_cut() -> None:
    assert banned(["river"], []) == {b" river", b"rivers and"}
    assert banned(["river"], [b" ", b"ri"]) == {b" river", b"rivers and"}
    assert banned(["river"], [b"ri", b"v"]) == {b" river", b"rivers and", b"er"}
    assert banned(["river"], [b" r"]) == {b" river", b"rivers and", b"iver"}


def test_a_blank_before_it_counts() -> None:
    assert banned([" river"], []) == {b" river"}
    assert banned([" river"], [b" ", b"r"]) == {b" river", b"iver"}


def test_chinese_is_banned_across_tokens_and_inside_of_them() -> None:
    whole = "长江".encode()
    assert banned(["长江"], []) == {whole}
    assert banned(["长江"], ["的长".encode()]) == {whole, "江大".encode()}
    bytes_of = [bytes([b]) for b in whole]
    assert banned(["长江"], bytes_of[:5]) == {whole, bytes_of[5]}


@pytest.mark.parametrize("words", [["river"], ["长江", "er"], ["rr", "riv", " "], ["s", "v"]])
def test_nothing_that_is_written_ever_holds_a_banned_word_and_nothing_else_is_banned(
    words: list[str],
) -> None:
    draw = random.Random(len(words))
    output: list[int] = []
    guard = WordGuard(Vocabulary(TOKENS), [word.encode() for word in words], output)
    text = b""
    for _ in range(300):
        found = guard.banned()
        spoils = {i for i, token in enumerate(TOKENS) if any(w.encode() in text[-20:] + token for w in words)}
        assert found == spoils
        output.append(draw.choice([i for i in range(len(TOKENS)) if i not in found]))
        text += TOKENS[output[-1]]
    assert not any(word.encode() in text for word in words)


def test_an_answer_that_begins_again_is_looked_at_anew() -> None:
    output = [TOKENS.index(b"ri"), TOKENS.index(b"v")]
    guard = WordGuard(Vocabulary(TOKENS), [b"river"], output)
    assert TOKENS.index(b"er") in guard.banned()
    output[:] = [TOKENS.index(b"s")]
    assert TOKENS.index(b"er") not in guard.banned()


class OfTokens(BannedWords):
    """A vLLM's tokenizer is not to be had without a model."""

    read_vocabulary = staticmethod(lambda model_config: Vocabulary(TOKENS))


@pytest.fixture
def processor() -> BannedWords:
    return OfTokens(SimpleNamespace(model_config=None), torch.device("cpu"), False)


def parameters(words: Any) -> SamplingParams:
    return SamplingParams(extra_args=None if words is None else {ARGUMENT: words})


def banned_by(processor: BannedWords, num_requests: int) -> list[set[bytes]]:
    logits = processor.apply(torch.zeros(num_requests, len(TOKENS)))
    return [{TOKENS[i] for i in torch.nonzero(row == -torch.inf).flatten().tolist()} for row in logits]


def test_each_request_of_a_batch_has_its_own_words_and_takes_them_along(processor: BannedWords) -> None:
    added = [(0, parameters(["s"]), [], []), (1, parameters(None), [], []), (2, parameters(["v"]), [], [])]
    processor.update_state(BatchUpdate(batch_size=3, removed=[], added=added, moved=[]))
    with_s, with_v = {b"s", b"rivers and"}, {b"v", b"iver", b" river", b"rivers and"}
    assert banned_by(processor, 3) == [with_s, set(), with_v]
    moved = [(0, 2, MoveDirectionality.SWAP)]
    processor.update_state(BatchUpdate(batch_size=3, removed=[], added=[], moved=moved))
    assert banned_by(processor, 3) == [with_v, set(), with_s]
    processor.update_state(
        BatchUpdate(batch_size=2, removed=[0], added=[], moved=[(2, 0, MoveDirectionality.UNIDIRECTIONAL)])
    )
    assert banned_by(processor, 2) == [with_s, set()]


@pytest.mark.parametrize("words", ["x", 1, [1], [""], ["x" * 801], ["x"] * 101])
def test_what_is_no_list_of_words_is_refused(words: Any) -> None:
    with pytest.raises(ValueError, match="must be a list of at most 100 texts"):
        BannedWords.validate_params(parameters(words))


@pytest.mark.parametrize("words", [None, [], ["x"], ["长江" * 100] * 100])
def test_words_are_taken(words: Any) -> None:
    BannedWords.validate_params(parameters(words))
