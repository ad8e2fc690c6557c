"""The rooms are imported from this project and from nowhere else."""

from __future__ import annotations

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
ROOMS = CONFIGURATION["importlinter"]["root_packages"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_ours_and_not_a_dependencys_of_the_same_name(room: str) -> None:
    spec = find_spec(room)
    assert spec is not None
    assert Path(str(spec.origin)).parent == ROOT / room


def test_every_room_is_checked_by_all_tools_and_installed() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert folders == set(ROOMS)
    assert folders == set(CONFIGURATION["mypy"]["packages"])
    assert {f"{room}*" for room in folders} == set(CONFIGURATION["setuptools"]["packages"]["find"]["include"])
