from __future__ import annotations

import pytest

from bench.rouge import rouge_l


@pytest.mark.parametrize(
    ("text", "references", "score"),
    [
        ("The cat sat.", ["the cat sat"], 1.0),
        ("the cat lay on a mat", ["the dog lay on the mat"], 2 * 4 / 12),
        ("a b c", ["x y z"], 0.0),
        ("", ["x"], 0.0),
        ("the cat", ["a dog", "the cat sat"], 2 * 2 / 5),
        ("议会批准了预算。", ["议会通过了年度预算"], 2 * 5 / 16),
        ("预算 2023", ["预算2023"], 1.0),
    ],
)
def test_rouge_l_is_of_words_or_of_chinese_characters(text: str, references: list[str], score: float) -> None:
    assert rouge_l(text, references) == pytest.approx(score)
