"""What kind of phrase would answer a question; by rules, in English and Chinese."""

from __future__ import annotations

import re
from typing import Literal

from retrieval.support.answer_types import asked_types

Asked = Literal["time", "number", "person", "place", "thing", "sentence"]

_YES_NO = re.compile(
    r"^(?:(?:and|or|so|but)\s+)?(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had)\b"
    r"|是否|能否|可否|有没有|是不是|会不会|能不能|可不可以|吗(?:[?？]|$)",
    re.IGNORECASE,
)
# What takes a sentence, or several, to answer.
_EXPLAINS = re.compile(
    r"\bwhy\b|\bhow\b(?!\s+(?:many|much|far|tall|high|old|big|large|fast|deep|wide|heavy|often|long|late|early|soon)\b)"
    r"|\b(?:describe|explain|summari[sz]e|compare|list|discuss|outline|elaborate)\b"
    r"|\bwhat\s+(?:\w+\s+)?(?:differences?|impacts?|effects?|steps|measures|challenges|advantages|reasons?|happen\w*)\b"
    r"|为什么|为何|缘何|何以|原因|怎么(?!称)|怎样|如何|简述|概述|描述|总结|概括|说明|比较|区别|影响|措施|步骤|有何|列举",
    re.IGNORECASE,
)
_LENGTH_OF_TIME = re.compile(r"\bhow\s+(?:long|often)\b|多久|多长时间", re.IGNORECASE)


def asked(question: str) -> Asked:
    """`sentence` where no phrase would do: yes or no, how, why, lists; `thing` where any phrase might."""
    types = asked_types(question)
    if _EXPLAINS.search(question) and "number" not in types:
        return "sentence"
    if _YES_NO.search(question):
        return "sentence"
    return types[0] if types else "thing"


def asks_how_long(question: str) -> bool:
    """Whether a stretch of time rather than a point in it is asked for."""
    return _LENGTH_OF_TIME.search(question) is not None
