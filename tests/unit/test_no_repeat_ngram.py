"""The logits processor that bans n-grams, against vLLM's own batch updates."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")

from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality  # noqa: E402

from inference.no_repeat_ngram import ARGUMENT, NoRepeatNgram, SeenNgrams  # noqa: E402

VOCABULARY = 6
SWAP, MOVE = MoveDirectionality.SWAP, MoveDirectionality.UNIDIRECTIONAL


def banned_plainly(output: Sequence[int], size: int) -> set[int]:
    """By definition: what would make the last `size` tokens come a second time."""
    known = {tuple(output[i : i + size]) for i in range(len(output) - size + 1)}
    prefix = tuple(output[len(output) - size + 1 :]) if size > 1 else ()
    return {t for t in range(VOCABULARY) if len(prefix) == size - 1 and (*prefix, t) in known}


def processor() -> NoRepeatNgram:
    return NoRepeatNgram(None, torch.device("cpu"), False)


def parameters(size: object | None) -> SamplingParams:
    return SamplingParams(extra_args=None if size is None else {ARGUMENT: size})


def update(
    num_requests: int,
    *,
    removed: Sequence[int] = (),
    added: Sequence[tuple[int, object | None, list[int]]] = (),
    moved: Sequence[tuple[int, int, MoveDirectionality]] = (),
) -> BatchUpdate:
    return BatchUpdate(
        batch_size=num_requests,
        removed=list(removed),
        added=[(index, parameters(size), [], output) for index, size, output in added],
        moved=list(moved),
    )


def banned_by(processor: NoRepeatNgram, num_requests: int) -> list[set[int]]:
    logits = processor.apply(torch.zeros(num_requests, VOCABULARY))
    return [set(torch.nonzero(row == -torch.inf).flatten().tolist()) for row in logits]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_it_bans_what_would_repeat_an_n_gram_and_nothing_else(size: int) -> None:
    draw = random.Random(size)
    output: list[int] = []
    seen = SeenNgrams(size, output)
    for _ in range(200):
        assert set(seen.banned()) == banned_plainly(output, size)
        output.append(draw.randrange(VOCABULARY))


def test_several_tokens_may_come_between_two_looks() -> None:
    output: list[int] = []
    seen = SeenNgrams(2, output)
    output += [1, 2, 3, 1]
    assert set(seen.banned()) == {2}
    output += [4, 1]
    assert set(seen.banned()) == {2, 4}


def test_an_answer_that_begins_again_is_counted_anew() -> None:
    output = [1, 2, 3, 1]
    seen = SeenNgrams(2, output)
    assert set(seen.banned()) == {2}
    output[:] = [3]
    assert set(seen.banned()) == set()
    output += [4, 3]
    assert set(seen.banned()) == {4}


def test_each_request_of_a_batch_is_held_to_its_own_answer() -> None:
    running = processor()
    first, second = [1, 2, 1], [1, 3, 1]
    running.update_state(update(3, added=[(0, 2, first), (1, None, [1, 2, 1]), (2, 2, second)]))
    assert banned_by(running, 3) == [{2}, set(), {3}]
    first.append(5)
    second.append(2)
    running.update_state(None)  # nothing came or went, but the answers grew
    assert banned_by(running, 3) == [set(), set(), set()]
    first += [1]
    assert banned_by(running, 3) == [{2, 5}, set(), set()]


def test_requests_that_move_swap_or_go_take_their_answers_along() -> None:
    running = processor()
    running.update_state(update(3, added=[(0, 2, [1, 2, 1]), (1, 2, [1, 3, 1]), (2, None, [])]))
    running.update_state(update(3, moved=[(0, 1, SWAP)]))
    assert banned_by(running, 3) == [{3}, {2}, set()]
    running.update_state(update(2, removed=[0], moved=[(2, 0, MOVE)]))
    assert banned_by(running, 2) == [set(), {2}]
    running.update_state(update(1, removed=[1]))
    assert banned_by(running, 1) == [set()]
    running.update_state(update(1, added=[(0, 2, [1, 4, 1])]))  # over one that did not ask for it
    assert banned_by(running, 1) == [{4}]
    running.update_state(update(1, added=[(0, None, [1, 4, 1])]))
    assert banned_by(running, 1) == [set()]


def test_a_batch_that_nobody_asked_it_for_is_left_as_it_is() -> None:
    running = processor()
    running.update_state(update(1, added=[(0, None, [1, 1]), (1, 0, [1, 1])]))
    logits = torch.randn(2, VOCABULARY)
    assert running.apply(logits.clone()).equal(logits)
    assert not running.is_argmax_invariant()


@pytest.mark.parametrize("size", ["x", -1, 2.0, True, 1001, [3]])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    with pytest.raises(ValueError, match="must be an integer from 0 to 1000"):
        NoRepeatNgram.validate_params(parameters(size))


@pytest.mark.parametrize("size", [None, 0, 1, 1000])
def test_a_size_is_taken(size: int | None) -> None:
    NoRepeatNgram.validate_params(parameters(size))
