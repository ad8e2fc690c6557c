"""Parts of an Office Open XML package, read within bounds.

Elements are known by local name, because Strict and Transitional files differ in namespaces only.
"""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from core.errors import UnreadableDocument
from ingest.parsers.limits import MAX_TEXT_BYTES


def local_name(element: etree._Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def children(element: etree._Element | None, name: str) -> Iterator[etree._Element]:
    """Direct children with this local name; none of None."""
    if element is not None:
        yield from (found for found in element if local_name(found) == name)


def child(element: etree._Element | None, name: str) -> etree._Element | None:
    return next(children(element, name), None)


def attribute(element: etree._Element | None, name: str) -> str:
    """An attribute by local name, empty where it or the element is missing."""
    if element is None:
        return ""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == name:
            return str(value)
    return ""


class Package:
    """A package's XML parts; all of them together may inflate to `MAX_TEXT_BYTES`.

    Raises:
        UnreadableDocument: from any method, where the archive or its XML is damaged or inflates
            beyond that (a bomb).
    """

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._budget = MAX_TEXT_BYTES
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise self._damaged() from error
        self._members = {member.lower(): member for member in self._archive.namelist()}

    def close(self) -> None:
        self._archive.close()

    def main_part(self) -> str:
        """Name of the part that holds the document."""
        relations = self.find_xml("_rels/.rels")
        for relation in children(relations, "Relationship"):
            if attribute(relation, "Type").endswith("/officeDocument"):
                return attribute(relation, "Target").lstrip("/")
        return "word/document.xml"

    def related(self, part: str, kind: str) -> etree._Element | None:
        """Root of the part that `part` names as its `kind` (`styles`, `footnotes`)."""
        folder, file = posixpath.split(part)
        relations = self.find_xml(posixpath.join(folder, "_rels", f"{file}.rels"))
        for relation in children(relations, "Relationship"):
            if attribute(relation, "Type").endswith(f"/{kind}"):
                target = attribute(relation, "Target")
                path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
                return self.find_xml(posixpath.normpath(path))
        return None

    def find_xml(self, part: str) -> etree._Element | None:
        """Root element of a part, None if the package lacks it."""
        member = self._members.get(part.lower())
        if member is None:
            return None
        # Entities stay unexpanded and nothing is fetched: XML bombs and XXE do nothing.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
        try:
            return etree.fromstring(self._inflate(member), parser)
        except etree.XMLSyntaxError as error:
            raise self._damaged() from error

    def _inflate(self, member: str) -> bytes:
        try:
            with self._archive.open(member) as file:
                data = file.read(self._budget + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
            NotImplementedError,
            OSError,
        ) as error:
            raise self._damaged() from error
        if len(data) > self._budget:
            raise UnreadableDocument(
                f"{self._name!r} inflates to more than {MAX_TEXT_BYTES:,} bytes of text.",
                remedy="Split it into several files.",
            )
        self._budget -= len(data)
        return data

    def _damaged(self) -> UnreadableDocument:
        return UnreadableDocument(
            f"{self._name!r} is a damaged or truncated Word document.", remedy="Upload the whole file again."
        )
