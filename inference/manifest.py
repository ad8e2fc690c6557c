"""What a prepared model folder says of itself: `manifest.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

MANIFEST = "manifest.json"
BUILD = 1  # raise it when a converter changes what it writes: folders are then prepared anew
DERIVED_FOLDER = "openvino"  # made from the weights, so no part of what the model is


@dataclass(frozen=True, slots=True)
class Manifest:
    """Where a prepared model came from and what it consists of.

    `revision` is a hash over weights, configuration and tokenizer: equal on every machine that
    prepared the same model, whatever the version of OpenVINO that derived an INT8 copy there.
    """

    name: str
    role: str
    source: str
    source_version: str
    licence: str
    revision: str
    build: int = BUILD
    inputs: Mapping[str, str] = field(default_factory=dict)  # file of the source: sha256
    files: Mapping[str, str] = field(default_factory=dict)  # file of the folder: sha256


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder, `None` if it has none that this version of Longleaf wrote."""
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or document.get("build") != BUILD:
        return None
    return Manifest(**document)


def write_manifest(manifest: Manifest, folder: Path) -> None:
    text = json.dumps(asdict(manifest), ensure_ascii=False, indent=2)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def hash_files(paths: Iterable[Path], *, root: Path) -> dict[str, str]:
    """sha256 of each file by its path below `root`, in order of path."""
    return {path.relative_to(root).as_posix(): _sha256(path) for path in sorted(paths)}


def revision_of(files: Mapping[str, str]) -> str:
    """A short hash over names and hashes of all files but the derived ones."""
    whole = hashlib.sha256()
    for name, digest in sorted(files.items()):
        if not name.startswith(DERIVED_FOLDER + "/"):
            whole.update(f"{name}\0{digest}\n".encode())
    return whole.hexdigest()[:16]


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
