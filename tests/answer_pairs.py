"""Pairs of answers, and whether they say the same: what `generation.agreement` is held against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerPair:
    question: str
    one: str
    other: str
    same: bool


def _pairs(same: bool, *rows: tuple[str, str, str]) -> list[AnswerPair]:
    return [AnswerPair(question, one, other, same) for question, one, other in rows]


PAIRS = [
    *_pairs(
        True,
        ("How long is the Yangtze?", "The Yangtze is 6,300 km long.", "6,300 km"),
        ("How long is the Yangtze?", "About 6,300 kilometres.", "It stretches over 6300 km."),
        ("Who wrote Hamlet?", "William Shakespeare", "Hamlet was written by Shakespeare."),
        ("What is the capital of France?", "Paris.", "The capital of France is Paris"),
        ("Is the bridge open?", "Yes, the bridge is open to traffic.", "Yes"),
        (
            "Is the bridge open?",
            "The bridge is closed for repairs.",
            "The bridge is not open, as it is being repaired.",
        ),
        ("Why was the meeting moved?", "Because the room was taken.", "The room was not available."),
        (
            "What do the employees get?",
            "Employees receive twenty days of paid leave each year.",
            "Staff are given 20 paid holidays a year.",
        ),
        (
            "Who pays for the repairs?",
            "The tenant pays for the repairs.",
            "It is the tenant who must bear the cost.",
        ),
        ("When does the lease begin?", "On 1 January 2025.", "The lease begins on January 1, 2025."),
        ("长江有多长？", "长江全长6300公里。", "约6300公里"),
        ("长江有多长？", "六千三百公里", "6300公里"),
        ("谁写了红楼梦？", "曹雪芹", "红楼梦的作者是曹雪芹。"),
        ("中国的首都是哪里？", "北京", "首都是北京。"),
        ("桥开放吗？", "桥已经开放。", "是的，大桥现在可以通行。"),
        ("会议为什么推迟？", "因为会议室被占用。", "由于会议室没有空，所以推迟了。"),
        ("谁承担维修费用？", "由承租人承担。", "承租方负责维修费用。"),
        ("租期从何时开始？", "2025年1月1日", "租期自2025年1月1日起。"),
        ("员工有多少天年假？", "员工每年有20天带薪年假。", "二十天"),
        ("员工有什么福利？", "公司为员工提供免费午餐。", "员工可以在公司免费吃午饭。"),
        ("What is the capital of China?", "Beijing", "北京"),
        ("Why was the meeting moved?", "Because the room was taken.", "因为会议室被占用。"),
        (
            "What causes tides?",
            "Tides are caused by the gravity of the moon.",
            "The moon's gravitational pull causes them.",
        ),
        ("潮汐是怎么产生的？", "潮汐由月球的引力引起。", "是月亮的吸引力造成的。"),
        (
            "What did the study find?",
            "The study found that sleep improves memory.",
            "Memory gets better with sleep, the study says.",
        ),
    ),
    *_pairs(
        False,
        ("How long is the Yangtze?", "The Yangtze is 6,300 km long.", "It is 5,464 km long."),
        ("Who wrote Hamlet?", "Shakespeare", "Christopher Marlowe"),
        ("What is the capital of France?", "Paris", "London"),
        ("Is the bridge open?", "Yes.", "No."),
        ("Is the bridge open?", "The bridge is open.", "The bridge is not open."),
        ("Why was the meeting moved?", "Because the room was taken.", "Because the director fell ill."),
        (
            "What do the employees get?",
            "Employees receive twenty days of paid leave.",
            "Employees receive a company car.",
        ),
        ("Who pays for the repairs?", "The tenant pays for the repairs.", "The landlord bears the cost."),
        ("When does the lease begin?", "On 1 January 2025.", "On 1 March 2025."),
        ("When does the lease begin?", "In January", "In March"),
        ("What colour is the flag?", "Red and white", "It is red."),
        ("What colour is the flag?", "Red", "Blue"),
        ("长江有多长？", "长江全长6300公里。", "5464公里"),
        ("谁写了红楼梦？", "曹雪芹", "施耐庵"),
        ("中国的首都是哪里？", "北京", "上海"),
        ("桥开放吗？", "是的，桥已经开放。", "不，桥没有开放。"),
        ("会议为什么推迟？", "因为会议室被占用。", "因为主任生病了。"),
        ("谁承担维修费用？", "由承租人承担。", "由出租人承担。"),
        ("租期从何时开始？", "2025年1月1日", "2025年3月1日"),
        ("员工有什么福利？", "公司为员工提供免费午餐。", "公司为员工提供交通补贴。"),
        ("Why was the meeting moved?", "Because the room was taken.", "因为主任生病了。"),
        (
            "What causes tides?",
            "Tides are caused by the gravity of the moon.",
            "Tides are caused by strong winds at sea.",
        ),
        ("潮汐是怎么产生的？", "潮汐由月球的引力引起。", "潮汐由海上的大风引起。"),
        (
            "What did the study find?",
            "The study found that sleep improves memory.",
            "The study found that exercise improves memory.",
        ),
        ("研究发现了什么？", "研究发现睡眠能改善记忆。", "研究发现运动能改善记忆。"),
    ),
]
