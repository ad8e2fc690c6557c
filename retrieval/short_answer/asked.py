"""What kind of phrase would answer a question; by rules, in English and Chinese."""

from __future__ import annotations

import re
from typing import Literal

from retrieval.support.answer_types import asked_types

Asked = Literal["time", "duration", "year", "number", "name", "thing", "sentence"]

_YES_NO = re.compile(
    r"^(?:(?:and|or|so|but)\s+)?(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had)\b"
    r"|是否|能否|可否|有没有|是不是|会不会|能不能|可不可以|吗(?:[?？]|$)",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(
    r"\bwhy\b"
    r"|\bhow\b(?!\s+(?:many|much|far|tall|high|old|big|large|fast|deep|wide|heavy|often|long|late|early|soon)\b)"
    r"|\b(?:describe|explain|summari[sz]e|compare|list|discuss|outline|elaborate)\b"
    r"|\bwhat\s+(?:\w+\s+)?(?:differences?|impacts?|effects?|steps|measures|challenges|advantages|reasons?|happen\w*)\b"
    r"|为什么|为何|缘何|何以|原因|怎么(?!称)|怎样|如何|简述|概述|描述|总结|概括|说明|比较|区别|影响|措施|步骤|有何|列举",
    re.IGNORECASE,
)
_DURATION = re.compile(r"\bhow\s+long\b|多久|多长时间", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:what|which)\s+year\b|何年|哪一?年", re.IGNORECASE)

_ASKS_FIRST = re.compile(r"^(?:\w+\s+)?(?:what|which|who|whom|whose|how)\b", re.IGNORECASE)
_WHEN_CLAUSE = re.compile(r"\bwhen\b.*", re.IGNORECASE | re.DOTALL)


def asked(question: str) -> Asked:
    """`sentence` where no phrase would do: yes or no, how, why, lists; `thing` where any phrase might.

    `name` is a person's, a place's or an organisation's.
    """
    if _ASKS_FIRST.match(question):  # "What is it called when …" asks for no time
        question = _WHEN_CLAUSE.sub("", question)
    types = asked_types(question)
    if _YES_NO.search(question) or (_EXPLAINS.search(question) and "number" not in types):
        return "sentence"
    if not types:
        return "thing"
    if types[0] == "time":
        return "duration" if _DURATION.search(question) else "year" if _YEAR.search(question) else "time"
    return "number" if types[0] == "number" else "name"
