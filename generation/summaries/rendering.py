"""Summaries as Markdown and as one HTML page that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.html.page import CONTENT_SECURITY_POLICY, load_template
from core.language import is_chinese

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|])")

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "sources": "Sources",
        "page": "p.",
        "withdrawn": "the document was deleted since",
        "unsupported": "nothing in the documents supports this",
        "coverage": "What was read",
        "pages": "pages read",
        "of": "of",
        "not_ready": "not ready, and so not read",
        "version": "version",
        "limit": "Stopped at its limit: this is what was read till then.",
        "nothing": "There is nothing to say.",
        "skipped": "not read",
        "no_text": "nothing on the page",
        "deleted": "deleted meanwhile",
        "limit_reached": "limit reached",
        "not_indexed": "not indexed",
    },
    "zh": {
        "sources": "来源",
        "page": "第",
        "withdrawn": "该文档已被删除",
        "unsupported": "文档中没有依据",
        "coverage": "已读内容",
        "pages": "页已读",
        "of": "/",
        "not_ready": "尚未就绪，未读",
        "version": "版本",
        "limit": "已达上限而停止：以下为此前读到的内容。",
        "nothing": "没有可说的内容。",
        "skipped": "未读",
        "no_text": "页面无文字",
        "deleted": "其间已删除",
        "limit_reached": "已达上限",
        "not_indexed": "未建立索引",
    },
}


@dataclass(frozen=True, slots=True)
class SummaryPage:
    """A summary as it is shown. `citations` say whether they are `withdrawn`; `documents` have `name`,
    `num_pages`, `num_pages_read` and `skipped`."""

    id: str
    title: str
    version: int
    style: str
    outcome: str | None
    created_at: datetime
    statements: Sequence[Mapping[str, Any]]
    citations: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    documents: Sequence[Mapping[str, Any]]
    not_ready: Sequence[Mapping[str, Any]]

    @property
    def language(self) -> str:
        """Of the frame around it: that of what it says."""
        return "zh" if is_chinese(" ".join(each["text"] for each in self.statements)) else "en"

    @property
    def is_list(self) -> bool:
        return self.style == "key_points"


def render_markdown(page: SummaryPage) -> str:
    """The summary with numbered sources, and what was read."""
    words = WORDS[page.language]
    lines = [f"# {_plain(page.title)}", "", f"{page.id} · {words['version']} {page.version}", ""]
    if page.outcome == "capped":
        lines += [f"> {words['limit']}", ""]
    told = [_with_marks(statement, words) for statement in page.statements]
    if page.is_list:
        lines += [f"- {text}" for text in told]
    else:
        lines.append(("" if page.language == "zh" else " ").join(told))
    if not told:
        lines.append(words["nothing"])
    lines += ["", f"## {words['sources']}", ""]
    for citation in page.citations:
        gone = f" ({words['withdrawn']})" if citation["withdrawn"] else ""
        quote = " ".join(str(citation["quote"]).split())
        lines.append(
            f"{citation['number']}. {_plain(citation['document_name'])}, {_pages(citation, words)}{gone}: "
            f"“{_plain(quote)}”"
        )
    lines += ["", f"## {words['coverage']}", ""]
    lines += [f"- {_plain(document['name'])}: {_coverage(document, words)}" for document in page.documents]
    lines += [f"- {_plain(document['document_name'])}: {words['not_ready']}" for document in page.not_ready]
    return "\n".join([*lines, *(f"\n> {_plain(warning)}" for warning in page.warnings)]) + "\n"


def render_html(page: SummaryPage) -> str:
    """The summary as a page."""
    words = WORDS[page.language]
    template = load_template(
        "generation.summaries",
        "summary.html.jinja",
        pages=lambda citation: _pages(citation, words),
        coverage=lambda document: _coverage(document, words),
    )
    return template.render(language=page.language, policy=CONTENT_SECURITY_POLICY, words=words, page=page)


def _with_marks(statement: Mapping[str, Any], words: Mapping[str, str]) -> str:
    text = _plain(" ".join(str(statement["text"]).split()))
    marks = "".join(f"[{number}]" for number in statement["citations"])
    return f"{text} {marks}" if marks else f"{text} *({words['unsupported']})*"


def _pages(citation: Mapping[str, Any], words: Mapping[str, str]) -> str:
    first, last = citation["first_page"], citation["last_page"]
    numbers = str(first) if first == last else f"{first}–{last}"
    return f"第 {numbers} 页" if words["page"] == "第" else f"{words['page']} {numbers}"


def _coverage(document: Mapping[str, Any], words: Mapping[str, str]) -> str:
    told = f"{document['num_pages_read']} {words['of']} {document['num_pages']} {words['pages']}"
    reasons: dict[str, int] = {}
    for item in document["skipped"]:
        reasons[item["reason"]] = reasons.get(item["reason"], 0) + int(item.get("pages", 1))
    named = [
        f"{count} {words.get('limit_reached' if reason == 'limit' else reason, reason)}"
        for reason, count in reasons.items()
    ]
    return f"{told}; {words['skipped']}: {', '.join(named)}" if named else told


def _plain(text: object) -> str:
    return _MARKDOWN.sub(r"\\\1", str(text))
