"""The words of cost reports, in both first-class languages."""

from __future__ import annotations

from collections.abc import Mapping

from core.html.page import ReportLanguage

_WORDS: Mapping[str, tuple[str, str]] = {
    "costs": ("Costs", "费用"),
    "invoice": ("Invoice", "账单"),
    "tenant": ("Tenant", "租户"),
    "interval": ("Interval", "时间范围"),
    "beginning": ("the beginning", "最初"),
    "now": ("now", "现在"),
    "time_zone": ("Time zone", "时区"),
    "billed": ("Billed", "计费"),
    "tokens": ("Tokens", "词元"),
    "burned": ("Burned by failed attempts, not billed", "失败尝试消耗，不计费"),
    "engine_cost": ("Cost of the machine", "机器成本"),
    "margin": ("Margin", "毛利"),
    "saved": ("Saved by computing nothing twice", "避免重复计算节省"),
    "cost": ("Cost", "费用"),
    "total": ("Total", "合计"),
    "documents": ("Documents that cost most", "费用最高的文档"),
    "questions": ("Questions that cost most", "费用最高的问题"),
    "none": ("none", "无"),
    "day": ("Day", "日"),
    "week": ("Week", "周"),
    "month": ("Month", "月"),
    "stage": ("Stage", "阶段"),
    "model": ("Model", "模型"),
    "collection": ("Collection", "文档集"),
    "document": ("Document", "文档"),
    "key": ("Key", "密钥"),
    "job": ("Job", "任务"),
    "job_kind": ("Kind of job", "任务类型"),
    "schedule": ("Schedule", "计划"),
    "price": ("Price per million", "每百万单价"),
    "amount": ("Amount", "金额"),
    "subtotal": ("Exact sum", "精确合计"),
    "rounding": ("Rounding", "舍入"),
    "correction": ("correction", "更正"),
    "number": ("Number", "编号"),
    "digest": ("Digest", "摘要"),
    "not_final": (
        "The month is not over: lines are still to come, and the number will be another.",
        "本月尚未结束：仍会有新条目，编号也会改变。",
    ),
}


def words(language: ReportLanguage) -> dict[str, str]:
    """By key."""
    index = 0 if language == "en" else 1
    return {key: both[index] for key, both in _WORDS.items()}
