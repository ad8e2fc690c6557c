"""Which files an upload means."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.errors import EmptyInput, InvalidInput


def collect_files(paths: Sequence[Path]) -> list[Path]:
    """The files given and those below the folders given, each once.

    Files keep the order they were given in, those of a folder come by name. Hidden files and
    folders are left out unless they were named themselves. Symbolic links to folders are not followed.

    Raises:
        InvalidInput: a path does not exist, or is no file and no folder.
        EmptyInput: there is nothing to upload.
    """
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_below(path)))
    if not found:
        raise EmptyInput(
            f"There is no file in {', '.join(map(str, paths))}.",
            remedy="Hidden files are skipped; name them to upload them.",
        )
    return list(found)


def _below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from _walk(path)
    elif path.exists():
        raise InvalidInput(f"{path} is neither a file nor a folder.", remedy="Upload regular files.")
    else:
        raise InvalidInput(f"{path} does not exist.", remedy="Check the path.")


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                yield path
