"""For every sampling control a check that its effect on a real engine is the one it promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.sampling_engine import Drawn, SampledEngine, deviation

FAIR = 4.0
"""Deviations within which a draw is taken for fair."""

UNFAIR = 8.0
"""Deviations beyond which it is another distribution: the check would see a control left out."""

_SEED = 20261201
_COLOURS = (
    "The children were asked to paint the wall of their classroom in any colour that they liked best. After a "
    "long discussion they all agreed that the wall should be painted in the colour"
)
_STORY = "Tell me a story about a river and a mountain."
_LIST = "The list: apple, pear, apple, pear, apple, pear, apple, pear, apple, pear, apple, pear, apple, pear,"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check saw: `measured` in words, beside what was `expected`."""

    measured: str
    expected: str
    is_right: bool


Check = Callable[[SampledEngine, int], Finding]
"""Takes the engine and how many tokens to draw for a distribution."""


# ---- distributions -----------------------------------------------------------------------


def _held_against(
    engine: SampledEngine,
    num: int,
    expected: Mapping[int, float],
    *,
    among_known: bool = False,
    **controls: Any,
) -> Finding:
    """One token drawn `num` times: like `expected`, and unlike what comes without the control.

    Args:
        among_known: count only what is among the likeliest, for the tail's share is not known.
    """
    prompt = engine.tokenizer.encode(_COLOURS)
    plain = engine.probabilities(prompt)
    drawn = [
        one.token_ids[0]
        for one in engine.draw(prompt, num=num, max_tokens=1, seed=_SEED, **{"temperature": 1.0} | controls)
    ]
    if among_known:
        drawn = [token for token in drawn if token in plain]
    own = deviation(drawn, expected)
    # Without the control a token may be any: what lies beyond the likeliest is one outcome more.
    tail = {-1: max(1e-9, 1.0 - sum(plain.values()))} if not among_known else {}
    neutral = deviation([t if t in plain else -1 for t in drawn], {**plain, **tail})
    return Finding(
        f"{len(drawn)} drawn, {own:+.1f} deviations from it, {neutral:+.1f} from none",
        f"within {FAIR:g}, and beyond {UNFAIR:g} of what comes without",
        abs(own) < FAIR and neutral > UNFAIR,
    )


def check_temperature(engine: SampledEngine, num: int) -> Finding:
    """Chances to the power of 1/temperature, among those whose chance is known."""
    plain = engine.probabilities(engine.tokenizer.encode(_COLOURS))
    found = [
        _held_against(
            engine,
            num,
            {token: chance ** (1 / temperature) for token, chance in plain.items()},
            among_known=True,
            temperature=temperature,
        )
        for temperature in (0.5, 2.0)
    ]
    prompt = engine.tokenizer.encode(_COLOURS)
    greedy = {engine.draw_one(prompt, max_tokens=1, temperature=0.0).token_ids[0] for _ in range(3)}
    likeliest = next(iter(plain))
    return Finding(
        f"at 0.5 {found[0].measured}; at 2 {found[1].measured}; at 0 {len(greedy)} token",
        f"{found[0].expected}; at 0 the likeliest",
        all(one.is_right for one in found) and greedy == {likeliest},
    )


def check_top_k(engine: SampledEngine, num: int) -> Finding:
    plain = engine.probabilities(engine.tokenizer.encode(_COLOURS))
    return _held_against(engine, num, dict(list(plain.items())[:2]), top_k=2)


def check_top_p(engine: SampledEngine, num: int) -> Finding:
    """The fewest likeliest tokens whose chances come to `top_p`."""
    plain = engine.probabilities(engine.tokenizer.encode(_COLOURS))
    kept: dict[int, float] = {}
    for token, chance in plain.items():
        if sum(kept.values()) >= 0.4:
            break
        kept[token] = chance
    return _held_against(engine, num, kept, top_p=0.4)


def check_min_p(engine: SampledEngine, num: int) -> Finding:
    plain = engine.probabilities(engine.tokenizer.encode(_COLOURS))
    highest = max(plain.values())
    kept = {token: chance for token, chance in plain.items() if chance >= 0.4 * highest}
    return _held_against(engine, num, kept, min_p=0.4)


def check_n(engine: SampledEngine, num: int) -> Finding:
    """Samples with seeds counted up are what single requests with these seeds give."""
    prompt = engine.chat(_STORY)
    together = engine.draw(prompt, num=4, max_tokens=12, temperature=1.0, seed=_SEED)
    alone = [engine.draw_one(prompt, max_tokens=12, temperature=1.0, seed=_SEED + i) for i in range(4)]
    same = sum(a.token_ids == b.token_ids for a, b in zip(together, alone, strict=True))
    different = len({one.token_ids for one in together})
    return Finding(
        f"{same} of 4 the same, {different} different", "4 the same, 4 different", same == different == 4
    )


def check_seed(engine: SampledEngine, num: int) -> Finding:
    """The same seed gives the same answer, alone and in a batch of others; another gives another."""
    prompt = engine.chat(_STORY)

    def drawn(seed: int) -> tuple[int, ...]:
        return engine.draw_one(prompt, max_tokens=24, temperature=1.0, seed=seed).token_ids

    alone = [drawn(seed) for seed in range(1, 5)]
    with ThreadPoolExecutor(8) as pool:
        batched = list(pool.map(drawn, [1, 2, 3, 4, 1, 2, 3, 4]))
    again, different = sum(a == b for a, b in zip(alone * 2, batched, strict=True)), len(set(alone))
    return Finding(
        f"{again} of 8 again, {different} different", "8 again, 4 different", (again, different) == (8, 4)
    )


# ---- penalties and bans ------------------------------------------------------------------


def _share_of_repeats(token_ids: Sequence[int]) -> float:
    return 1 - len(set(token_ids)) / len(token_ids)


def _against_repeats(engine: SampledEngine, name: str, strong: float, encouraging: float) -> Finding:
    prompt = engine.tokenizer.encode("The river runs through the valley. ")
    shares = [
        _share_of_repeats(engine.draw_one(prompt, max_tokens=60, ignore_eos=True, **{name: value}).token_ids)
        for value in (strong, _OFF[name], encouraging)
    ]
    return Finding(
        f"repeats {shares[0]:.2f} at {strong:g}, {shares[1]:.2f} without, {shares[2]:.2f} at {encouraging:g}",
        "less than without, and no less",
        shares[0] < shares[1] <= shares[2],
    )


_OFF = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


def check_repetition_penalty(engine: SampledEngine, num: int) -> Finding:
    """It counts the prompt too: a list of two words is not gone on with."""
    prompt = engine.tokenizer.encode(_LIST)
    likeliest = next(iter(engine.probabilities(prompt)))
    first = engine.draw_one(prompt, max_tokens=1, repetition_penalty=5.0).token_ids[0]
    found = _against_repeats(engine, "repetition_penalty", 1.5, 0.8)
    in_prompt = (likeliest in prompt, first in prompt)
    return Finding(
        f"{found.measured}; the next token stood in the prompt: {in_prompt[0]} without, {in_prompt[1]} at 5",
        f"{found.expected}; True, False",
        found.is_right and in_prompt == (True, False),
    )


def check_presence_penalty(engine: SampledEngine, num: int) -> Finding:
    return _against_repeats(engine, "presence_penalty", 2.0, -2.0)


def check_frequency_penalty(engine: SampledEngine, num: int) -> Finding:
    return _against_repeats(engine, "frequency_penalty", 2.0, -2.0)


def num_repeated(token_ids: Sequence[int], size: int) -> int:
    """How many n-grams of `size` come again."""
    ngrams = [tuple(token_ids[i : i + size]) for i in range(len(token_ids) - size + 1)]
    return len(ngrams) - len(set(ngrams))


def check_no_repeat_ngram_size(engine: SampledEngine, num: int) -> Finding:
    """Alone and in a batch where each wants something else, and ends at another time."""
    prompt = engine.tokenizer.encode(_LIST)
    sizes = (0, 2, 3, 4)

    def drawn(size: int) -> tuple[int, ...]:
        return engine.draw_one(
            prompt, max_tokens=60 + 20 * size, ignore_eos=True, no_repeat_ngram_size=size
        ).token_ids

    with ThreadPoolExecutor(len(sizes)) as pool:
        free, *banned = pool.map(drawn, sizes)
    repeats = [num_repeated(ids, size) for ids, size in zip(banned, sizes[1:], strict=True)]
    without = num_repeated(free, 4)
    return Finding(
        f"{without} repeated of 4 tokens without, {repeats} of 2, 3, 4 with",
        "some, [0, 0, 0]",
        without > 0 and not any(repeats),
    )


def check_bad_words(engine: SampledEngine, num: int) -> Finding:
    """Words of an answer, in English and Chinese, are not in the same answer without them."""
    found = []
    for question in (_STORY, "用中文写一句关于长江的话。"):
        prompt = engine.chat(question)
        plain = engine.draw_one(prompt, max_tokens=40).text
        words = _words(plain)
        banned = engine.draw_one(prompt, max_tokens=40, bad_words=tuple(words)).text
        found.append((len(words), [word for word in words if word in banned]))
    return Finding(
        f"{sum(number for number, _ in found)} banned, written all the same: {[w for _, ws in found for w in ws]}",
        "none",
        all(number > 0 and not written for number, written in found),
    )


def _words(text: str) -> list[str]:
    """A few words of the text that stand after a blank, or pieces of Chinese of two characters."""
    plain = "".join(c if c.isalnum() or c == " " else " " for c in text)
    words = [word for word in plain.split()[1:] if len(word) > 3]
    return list(dict.fromkeys(word[:2] if not word.isascii() else word for word in words))[:3]


def check_logit_bias(engine: SampledEngine, num: int) -> Finding:
    prompt = engine.tokenizer.encode(_COLOURS)
    likeliest, second, *_ = engine.probabilities(prompt)
    wanted = 1234
    without = engine.draw_one(prompt, max_tokens=1, logit_bias=((likeliest, -100.0),)).token_ids[0]
    always = engine.draw_one(prompt, max_tokens=1, logit_bias=((wanted, 100.0),)).token_ids[0]
    drawn = engine.draw(
        prompt, num=64, max_tokens=1, temperature=2.0, seed=_SEED, logit_bias=((likeliest, -100.0),)
    )
    times = sum(one.token_ids[0] == likeliest for one in drawn)
    return Finding(
        f"at -100 the next likeliest: {without == second}, in {len(drawn)} draws {times} times; at 100 the wanted: "
        f"{always == wanted}",
        "True, 0 times; True",
        without == second and times == 0 and always == wanted,
    )


# ---- where it ends -----------------------------------------------------------------------


def check_stop(engine: SampledEngine, num: int) -> Finding:
    prompt = engine.chat(_STORY)
    plain = engine.draw_one(prompt, max_tokens=40)
    stop = plain.text[len(plain.text) // 2 :][:3]
    stopped = engine.draw_one(prompt, max_tokens=40, stop=(stop,))
    wanted = plain.text[: plain.text.index(stop)]
    return Finding(
        f"ends by `{stopped.finish_reason}` before the text: {stopped.text == wanted}",
        "ends by `stop` before the text: True",
        stopped.finish_reason == "stop" and stopped.text == wanted,
    )


def check_max_tokens(engine: SampledEngine, num: int) -> Finding:
    drawn = [engine.draw_one(engine.chat(_STORY), max_tokens=size) for size in (1, 7, 20)]
    sizes = [len(one.token_ids) for one in drawn]
    return Finding(
        f"{sizes}, {drawn[0].finish_reason}",
        "[1, 7, 20], length",
        sizes == [1, 7, 20] and all(one.finish_reason == "length" for one in drawn),
    )


def check_min_tokens(engine: SampledEngine, num: int) -> Finding:
    prompt = engine.chat("Answer with one word: what is the capital of France?")
    plain = engine.draw_one(prompt, max_tokens=100)
    least = len(plain.token_ids) + 15
    longer = engine.draw_one(prompt, max_tokens=least + 20, min_tokens=least)
    return Finding(
        f"{len(plain.token_ids)} tokens without, {len(longer.token_ids)} with at least {least}",
        "ends by itself without, no fewer with",
        plain.finish_reason == "stop" and len(longer.token_ids) >= least,
    )


# ---- beams -------------------------------------------------------------------------------

_BEGINNINGS = (
    _COLOURS,
    "The longest river in China is",
    "In the beginning of the story the old man",
    "The committee decided to",
    "水的沸点是",
)


def check_beam_width(engine: SampledEngine, num: int) -> Finding:
    """Without an end in sight the best of four beams is at least as probable as the greedy answer."""
    gains = []
    for text in _BEGINNINGS:
        prompt = engine.tokenizer.encode(text)
        greedy = engine.draw_one(prompt, max_tokens=8, ignore_eos=True)
        best = engine.draw(prompt, max_tokens=8, beam_width=4, ignore_eos=True)[0]
        gains.append(_log_chance(engine, prompt, best) - _log_chance(engine, prompt, greedy))
    return Finding(
        "gains " + ", ".join(f"{gain:+.2f}" for gain in gains),
        "none below 0, some above",
        min(gains) > -1e-3 and max(gains) > 0.01,
    )


def _log_chance(engine: SampledEngine, prompt: Sequence[int], drawn: Drawn) -> float:
    return engine.log_probability(prompt, drawn.token_ids)


def check_length_penalty(engine: SampledEngine, num: int) -> Finding:
    """The higher it is, the longer the best beam."""
    prompt = engine.chat("Answer with one word: what is the capital of France?")
    sizes = [
        len(engine.draw(prompt, max_tokens=12, beam_width=3, length_penalty=penalty)[0].token_ids)
        for penalty in (-5.0, 1.0, 5.0)
    ]
    return Finding(
        f"{sizes} tokens at -5, 1, 5",
        "never shorter, in all longer",
        sizes == sorted(sizes) and sizes[0] < sizes[2],
    )


CHECKS: Mapping[str, Check] = {
    "temperature": check_temperature,
    "top_p": check_top_p,
    "top_k": check_top_k,
    "min_p": check_min_p,
    "repetition_penalty": check_repetition_penalty,
    "presence_penalty": check_presence_penalty,
    "frequency_penalty": check_frequency_penalty,
    "no_repeat_ngram_size": check_no_repeat_ngram_size,
    "seed": check_seed,
    "stop": check_stop,
    "max_tokens": check_max_tokens,
    "min_tokens": check_min_tokens,
    "n": check_n,
    "logit_bias": check_logit_bias,
    "bad_words": check_bad_words,
    "beam_width": check_beam_width,
    "length_penalty": check_length_penalty,
}
