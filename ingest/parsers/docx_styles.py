"""Which paragraph styles of a DOCX are headings, in whatever language Word named them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from ingest.parsers.ooxml import attribute, child, children

_HEADING_NAME = re.compile(
    r"^(?:heading|标题|標題|見出し|제목|titre|überschrift|título)\s*([1-9])$", re.IGNORECASE
)
_BODY_LEVEL = 9  # of w:outlineLvl


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    parent: str
    outline_level: int | None


class HeadingStyles:
    """Levels of the styles defined in `word/styles.xml`."""

    def __init__(self, root: etree._Element | None) -> None:
        self._styles = {} if root is None else dict(map(_read_style, children(root, "style")))

    def level(self, style_id: str) -> int | None:
        """1 for the outermost, None for a style that is no heading."""
        for _ in range(20):  # a chain of styles may be circular
            style = self._styles.get(style_id)
            if style is None:
                return None
            if style.outline_level is not None:
                return style.outline_level + 1 if style.outline_level < _BODY_LEVEL else None
            if named := _HEADING_NAME.match(style.name):
                return int(named.group(1))
            style_id = style.parent
        return None

    def is_title(self, style_id: str) -> bool:
        style = self._styles.get(style_id)
        return style is not None and style.name.lower() == "title"


def _read_style(element: etree._Element) -> tuple[str, _Style]:
    properties = child(element, "pPr")
    return attribute(element, "styleId"), _Style(
        name=attribute(child(element, "name"), "val"),
        parent=attribute(child(element, "basedOn"), "val"),
        outline_level=outline_level(properties),
    )


def outline_level(properties: etree._Element | None) -> int | None:
    """`w:outlineLvl` of paragraph properties, 0 for the outermost."""
    value = attribute(child(properties, "outlineLvl"), "val")
    return int(value) if value.isdigit() else None
