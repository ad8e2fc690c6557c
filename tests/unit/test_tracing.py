"""What a trace says of tokens, prompts and certainty, and what redaction leaves of it."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from core.usage import TokenUsage
from generation.prompt import Prompt
from generation.segments import DroppedPassage, Segment
from generation.tracing.cache_marks import mark_segments
from generation.tracing.recorder import TraceRecorder
from generation.tracing.token_places import TokenPlace, join_pieces, place_in_text, place_tokens
from generation.tracing.trace_json import trace_json
from generation.tracing.uncertainty import rank_of, uncertainty
from inference.engine_metrics import parse_counters
from inference.protocols import (
    EngineInfo,
    GeneratedToken,
    GenerationDelta,
    GenerationRequest,
    SamplingParameters,
    TokenChoice,
)
from inference.token_bytes import TokenSpeller
from inference.token_logprobs import read_tokens
from storage.trace_redaction import TEXT_FIELDS, redact
from tests.pipeline_fixtures import WordTokenizer

ENGINE = EngineInfo(
    model="m",
    revision="1",
    max_model_len=100,
    accepts_token_ids=True,
    reports_cached_tokens=True,
    reports_timings=True,
    accepts_cache_salt=True,
    accepts_priority=True,
    stops_repetition=True,
    reports_logprobs=True,
    reports_token_ids=True,
)


# ---- places ------------------------------------------------------------------------------


def test_tokens_that_share_a_chinese_character_all_stand_where_it_stands() -> None:
    long, river = "长".encode(), "江".encode()
    pieces = [b"The ", long[:1], long[1:], river[:2], river[2:] + b"!"]
    assert place_tokens(pieces) == [
        TokenPlace(0, 4, True),
        TokenPlace(4, 5, False),
        TokenPlace(4, 5, False),
        TokenPlace(5, 6, False),
        TokenPlace(5, 7, False),
    ]


def test_a_token_that_ends_one_character_and_begins_the_next_covers_both() -> None:
    text = "长江".encode()
    assert place_tokens([text[:2], text[2:4], text[4:]]) == [
        TokenPlace(0, 1, False),
        TokenPlace(0, 2, False),
        TokenPlace(1, 2, False),
    ]


def test_an_answer_cut_inside_a_character_ends_with_a_part_of_one() -> None:
    assert place_tokens([b"a", "江".encode()[:2]]) == [TokenPlace(0, 1, True), TokenPlace(1, 2, False)]


@given(st.text(max_size=30), st.lists(st.integers(0, 120), max_size=20))
def test_places_cover_the_text_in_order_however_it_is_cut(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", errors="replace")
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(edges)]
    places = place_tokens(pieces)
    written = join_pieces(pieces)
    assert sorted({i for p in places for i in range(p.start, p.end)}) == list(range(len(written)))
    for piece, place in zip(pieces, places, strict=True):
        if place.is_whole:
            assert piece.decode() == written[place.start : place.end]


def test_tokens_behind_a_stop_text_stand_empty_at_the_end() -> None:
    places = place_in_text([b"Six", b" km", b" STOP", b""], "Six km")
    assert places == [
        TokenPlace(0, 3, True),
        TokenPlace(3, 6, True),
        TokenPlace(6, 6, True),
        TokenPlace(6, 6, True),
    ]


def test_a_space_that_the_engine_left_out_moves_all_places() -> None:
    assert place_in_text([b" Six", b" km"], "Six km") == [TokenPlace(0, 3, True), TokenPlace(3, 6, True)]
    assert place_in_text([b"Six"], "seven") is None


def byte_level() -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(sorted(alphabet))}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_end|>"])
    return tokenizer


def byte_fallback() -> Tokenizer:
    vocabulary = [("<unk>", 0.0), ("▁", -2.0), ("a", -2.0), ("▁a", -1.0)]
    vocabulary += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
@pytest.mark.parametrize("text", ["a 长江 a", "🙂a", "a"])
def test_tokens_are_spelled_byte_by_byte_in_both_kinds_of_vocabulary(make, text: str) -> None:
    tokenizer = make()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert b"".join(TokenSpeller(tokenizer).spell(ids)).decode().strip() == text


def test_special_tokens_and_unknown_ids_write_nothing() -> None:
    tokenizer = byte_level()
    end = tokenizer.token_to_id("<|im_end|>")
    assert TokenSpeller(tokenizer).spell([end, 10**6]) == [b"", b""]


# ---- certainty ---------------------------------------------------------------------------


def test_entropy_of_all_probability_is_exact() -> None:
    known = uncertainty([math.log(0.5), math.log(0.5)], num_top=2, vocabulary_size=100)
    assert known.entropy == pytest.approx(math.log(2))
    assert known.entropy_max == pytest.approx(math.log(2))
    assert known.rest == pytest.approx(0)


@given(st.lists(st.floats(0.001, 1), min_size=8, max_size=60), st.integers(1, 7), st.integers(0, 59))
def test_the_true_entropy_lies_between_the_bounds(weights: list[float], num_top: int, picked: int) -> None:
    total = sum(weights)
    probabilities = sorted((w / total for w in weights), reverse=True)
    true = -sum(p * math.log(p) for p in probabilities)
    reported = {*range(num_top), min(picked, len(probabilities) - 1)}
    known = uncertainty(
        [math.log(probabilities[i]) for i in reported], num_top=num_top, vocabulary_size=len(probabilities)
    )
    assert known.entropy - 1e-9 <= true <= known.entropy_max + 1e-9


def test_a_flat_distribution_is_told_from_a_peaked_one_by_its_few_best() -> None:
    flat = uncertainty([math.log(1 / 1000)] * 5, num_top=5, vocabulary_size=1000)
    assert flat.entropy == pytest.approx(math.log(1000))
    assert flat.entropy_max == pytest.approx(math.log(1000))


def test_rank_counts_the_more_probable_and_is_unknown_beyond_the_reported() -> None:
    choices = (TokenChoice(1, "", -0.1), TokenChoice(2, "", -3.0))
    assert rank_of(GeneratedToken(2, "", -3.0, choices)) == 2
    assert rank_of(GeneratedToken(9, "", -7.0, choices)) is None
    assert rank_of(GeneratedToken(9, "", None)) is None


def test_tokens_are_read_by_id_and_alternatives_come_best_first() -> None:
    tokens = read_tokens(
        {
            "tokens": ["token_id:7"],
            "token_logprobs": [-2.0],
            "top_logprobs": [{"token_id:7": -2.0, "token_id:5": -0.5}],
        }
    )
    assert tokens == (GeneratedToken(7, "", -2.0, (TokenChoice(5, "", -0.5), TokenChoice(7, "", -2.0))),)


@pytest.mark.parametrize("logprobs", [None, {}, {"tokens": ["a"], "token_logprobs": []}, ["a"]])
def test_logprobs_that_are_not_of_the_form_are_none(logprobs: object) -> None:
    assert read_tokens(logprobs) == ()  # type: ignore[arg-type]


# ---- cached marks ------------------------------------------------------------------------


def test_segments_are_cached_from_the_front_and_cut_at_a_block() -> None:
    segments = [Segment("frame", (1,) * 10), Segment("passage", (2,) * 30), Segment("question", (3,) * 5)]
    placed = mark_segments(segments, cached_tokens=32)
    assert [(one.start, one.end, one.mark, one.cached_tokens) for one in placed] == [
        (0, 10, "cached", 10),
        (10, 40, "partly", 22),
        (40, 45, "uncached", 0),
    ]


# ---- the whole ---------------------------------------------------------------------------


def record(*, is_full: bool, is_redacted: bool = False) -> TraceRecorder:
    text = "长江 is long."
    tokenizer = WordTokenizer()
    segments = (Segment("frame", (1,)), Segment("passage", tuple(tokenizer.encode(text)), ("doc:0-12",)))
    prompt = Prompt(
        token_ids=tuple(i for s in segments for i in s.token_ids),
        segments=segments,
        included=(),
        dropped=(DroppedPassage("doc_b:5-9", 70, 20),),
        num_dropped_turns=2,
    )
    recorder = TraceRecorder(is_full=is_full, is_redacted=is_redacted, tokenizer=tokenizer)
    sampling = SamplingParameters(max_tokens=5, temperature=0.7, stop=("秘密",))
    generation = recorder.begin(prompt, GenerationRequest(prompt.token_ids, sampling), engine=ENGINE)
    choices = (TokenChoice(ord("长"), "", math.log(0.5)), TokenChoice(ord("x"), "", math.log(0.25)))
    generation.add(
        GenerationDelta(
            "长",
            TokenUsage(13, 4, 1),
            tokens=(GeneratedToken(ord("长"), "", math.log(0.5), choices),) if is_full else (),
        )
    )
    generation.add(GenerationDelta("", TokenUsage(13, 4, 1), "stop", stop_reason="秘密"))
    return recorder


def test_a_full_trace_has_tokens_places_and_what_was_cut() -> None:
    trace = trace_json(record(is_full=True))
    generation = trace["generations"][trace["answer_generation"]]
    token = generation["tokens"][0]
    assert (token["text"], token["start"], token["end"], token["rank"]) == ("长", 0, 1, 1)
    assert token["entropy"] == pytest.approx(1.039721, abs=1e-6)  # 1/2, 1/4, and 1/4 of all others
    assert token["entropy_max"] > token["entropy"]
    assert generation["prompt"]["cut"]["passages"][0]["reason"] == "needs 70 tokens, 20 were left"
    assert generation["prompt"]["cut"]["num_turns"] == 2
    passage = generation["prompt"]["segments"][1]
    assert passage["text"] == "长江 is long."
    assert (passage["cached"], passage["cached_tokens"], passage["round_trip"]) == ("partly", 3, True)
    assert generation["sampling"]["temperature"] == 0.7
    assert (generation["finish_reason"], generation["stop_reason"]) == ("stop", "秘密")
    assert generation["certainty"]["perplexity"] == pytest.approx(2.0)


def test_a_light_trace_has_figures_and_no_text_and_says_so() -> None:
    trace = trace_json(record(is_full=False))
    generation = trace["generations"][0]
    assert generation["tokens"] == []
    assert generation["text"] is None
    assert generation["prompt"]["segments"][1]["cached_tokens"] == 3
    assert "text" not in generation["prompt"]["segments"][1]
    assert any("light" in reason for reason in trace["missing"])


@pytest.mark.parametrize("is_full", [True, False])
def test_a_redacted_trace_has_no_text_and_no_token_anywhere_but_its_numbers(is_full: bool) -> None:
    redacted = redact(trace_json(record(is_full=is_full)))
    assert not any(part in repr(redacted) for part in ("长", "long", "秘密"))
    assert not TEXT_FIELDS & set(_names(redacted))
    generation = redacted["generations"][0]
    assert generation["prompt"]["segments"][1]["end"] == 12
    assert not is_full or generation["tokens"][0]["logprob"] == pytest.approx(math.log(0.5), abs=1e-6)
    assert trace_json(record(is_full=is_full, is_redacted=True))["generations"] == redacted["generations"]


def _names(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(name for item in value.values() for name in _names(item))]
    if isinstance(value, list):
        return [name for item in value for name in _names(item)]
    return []


def test_load_is_read_out_of_the_engine_s_metrics() -> None:
    counters = parse_counters(
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:num_preemptions_total{engine="0"} 3.0\n'
        'vllm:cache_config_info{block_size="32",kv_cache_size_tokens="23296"} 1.0\n'
    )
    assert (counters.kv_cache_usage, counters.num_preemptions) == (0.25, 3)
    assert (counters.block_size, counters.kv_cache_tokens) == (32, 23296)
    assert parse_counters("").kv_cache_usage is None


def test_the_prepared_model_splits_chinese_over_tokens_and_places_them(model_cache: Path) -> None:
    folder = model_cache / "smollm2-135m-instruct"
    if not folder.is_dir():
        pytest.skip("the model is not prepared")
    from inference.tokenizers import HuggingFaceTokenizer

    tokenizer = HuggingFaceTokenizer(folder)
    text = "The river 长江 is 6,300 km long，不是吗？🙂"
    pieces = tokenizer.token_bytes(tokenizer.encode(text))
    assert join_pieces(pieces) == text
    assert any(not place.is_whole for place in place_tokens(pieces))


def test_of_several_samples_of_one_prompt_the_answer_s_has_its_text() -> None:
    recorder = record(is_full=True)
    first = recorder.generations[0]
    recorder.begin(first.prompt, first.request, engine=ENGINE)
    recorder.answer_generation = 0
    spelled, bare = trace_json(recorder)["generations"]
    assert spelled["prompt"]["segments"][1]["text"]
    assert "text" not in bare["prompt"]["segments"][1]
    recorder.choose_last(purpose="repair")
    trace = trace_json(recorder)
    assert (trace["answer_generation"], trace["generations"][1]["purpose"]) == (1, "repair")


def test_tokens_that_an_engine_did_not_give_are_said_to_be_missing() -> None:
    recorder = record(is_full=True)
    recorder.generations[0].tokens.clear()
    assert "Tokens: the engine gave none for what was asked." in trace_json(recorder)["missing"]


def test_a_special_token_is_shown_by_its_name_and_writes_nothing() -> None:
    recorder = record(is_full=True)
    generation = recorder.generations[0]
    generation.tokens.append(GeneratedToken(2, "", -0.1, (TokenChoice(2, "", -0.1),)))
    token = trace_json(recorder)["generations"][0]["tokens"][-1]
    assert (token["text"], token["start"], token["end"]) == (chr(2), 1, 1)
