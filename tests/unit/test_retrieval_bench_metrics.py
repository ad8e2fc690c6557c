from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import BENCHMARKS, BenchOptions, BenchResult, run_benchmark
from bench.metrics import contains_answer, ndcg_at, recall_at, reciprocal_rank
from core.errors import NotFound
from evaluation.paired_bootstrap import paired_bootstrap


def test_metrics_of_a_known_ranking() -> None:
    ranking, relevant = ["a", "b", "c", "d"], {"b": 2, "d": 1, "z": 1}
    assert recall_at(ranking, relevant, 2) == pytest.approx(1 / 3)
    assert reciprocal_rank(ranking, relevant) == 0.5
    expected = (2 / 1.5849625 + 1 / 2.3219281) / (2 + 1 / 1.5849625 + 1 / 2)
    assert ndcg_at(ranking, relevant) == pytest.approx(expected)


def test_nothing_relevant_or_nothing_found_scores_zero() -> None:
    assert recall_at([], {"a": 1}, 5) == ndcg_at([], {"a": 1}) == reciprocal_rank([], {"a": 1}) == 0.0
    assert recall_at(["a"], {}, 5) == ndcg_at(["a"], {}) == 0.0


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("allowed only 308 points.", "308", True),
        ("他贡献了 24 次拦截", "24次", True),
        ("It was “Kawann Short”.", "kawann short", True),
        ("nothing here", "", False),
    ],
)
def test_answers_are_found_whatever_the_punctuation(text: str, answer: str, held: bool) -> None:
    assert contains_answer(text, [answer]) is held


def test_bootstrap_tells_a_difference_from_noise() -> None:
    clear = paired_bootstrap([0.5] * 50 + [0.4] * 50, [1.0] * 50 + [0.5] * 50)
    assert clear.low > 0
    noise = paired_bootstrap([0.0, 1.0] * 50, [1.0, 0.0] * 50)
    assert noise.low < 0 < noise.high


def test_a_result_is_one_json_object_with_the_agreed_keys(tmp_path: Path) -> None:
    result = BenchResult("search", {"quick": True}, {"hybrid_mean_ndcg10": 0.8}, {"语": "中文"})
    result.write_json(tmp_path / "out" / "search.json")
    written = json.loads((tmp_path / "out" / "search.json").read_text(encoding="utf-8"))
    assert set(written) == {"name", "machine", "revision", "config", "figures", "details"}
    assert written["figures"] == {"hybrid_mean_ndcg10": 0.8}
    assert written["machine"]["num_cores"] >= 1


def test_an_unknown_benchmark_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=next(iter(BENCHMARKS))):
        run_benchmark("nonsense", BenchOptions(data_dir=tmp_path, model_dir=tmp_path, home=tmp_path))
