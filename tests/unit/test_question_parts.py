from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.question_parts import asks, split_question


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("When was Acme founded and who leads it?", ("When was Acme founded", "who leads it")),
        (
            "What is the deposit? Who pays for repairs? Thank you!",
            ("What is the deposit", "Who pays for repairs"),
        ),
        ("How long is the lease, and is it renewable?", ("How long is the lease", "is it renewable")),
        (
            "Tell me what a segment is and how it is compacted.",
            ("Tell me what a segment is", "how it is compacted"),
        ),
        (
            "How do I apply, and what does it cost, and when is the deadline?",
            ("How do I apply", "what does it cost", "when is the deadline"),
        ),
        ("What is the rent;\nwho pays it", ("What is the rent", "who pays it")),
        ("合同的租期是多久，以及押金是多少？", ("合同的租期是多久", "押金是多少")),
        ("租期多久，押金多少？", ("租期多久", "押金多少")),
        ("什么是不可抗力？它有什么后果？", ("什么是不可抗力", "它有什么后果")),
        ("北京大学是哪一年成立的；现任校长是谁", ("北京大学是哪一年成立的", "现任校长是谁")),
        ("关羽的刀叫什么和有多重？", ("关羽的刀叫什么", "有多重")),
        ("他为什么离开公司并去了哪里？", ("他为什么离开公司", "去了哪里")),
    ],
)
def test_a_plainly_compound_question_is_cut_where_each_side_asks(
    question: str, parts: tuple[str, ...]
) -> None:
    assert split_question(question) == parts


@pytest.mark.parametrize(
    "question",
    [
        "When and where was she born?",
        "What are the causes and effects of inflation?",
        "Which companies were founded in 1990 and are still active?",
        "Who won in 2010 and 2014?",
        "I rent a flat; when may I leave?",
        "What does https://example.org/?q=1 return?",
        "A公司和B公司有什么区别？",
        "谁和谁在桃园结义？",
        "利润和收入分别是多少？",
        "不管是谁提出的，要付多少钱？",
        "如果违约，怎么赔偿？",
        "租期多久？？？",
        "What is the rent? What is the rent?",
        "",
        "？！",
    ],
)
def test_one_question_stays_whole(question: str) -> None:
    assert split_question(question) == ()


@pytest.mark.parametrize(
    ("text", "is_question"),
    [
        ("In which year was it built", True),
        ("Compare? yes", False),
        ("List the tenants.", True),
        ("lease renewable?", True),
        ("The tenant can give notice.", False),
        ("租期多久", True),
        ("租期为三年。", False),
        ("", False),
    ],
)
def test_a_question_is_told_from_a_statement(text: str, is_question: bool) -> None:
    assert asks(text) is is_question


def test_only_so_many_parts_are_taken() -> None:
    assert split_question("违约金怎么算？什么时候付？谁来付？在哪里付？付多少？") == (
        "违约金怎么算",
        "什么时候付",
        "谁来付",
        "在哪里付",
    )


@given(st.text(alphabet="what is who ，和谁多少?？;；\nand,A公司", max_size=80))
def test_parts_are_never_blank_and_stand_in_the_question(text: str) -> None:
    parts = split_question(text)
    assert len(parts) != 1
    assert all(part.strip() for part in parts)
    assert all(piece in text for part in parts for piece in part.split())
