"""Cursors come from strangers."""

from __future__ import annotations

import base64

import pytest

from core.errors import InvalidInput
from storage.paging import _decode


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+14:00|x", "9999-12-31T23:59:59-14:00|x", "2026-11-30T00:00:00|x", "x", "长|长"],
)
def test_a_cursor_that_no_list_gave_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not one that this list gave"):
        _decode(base64.urlsafe_b64encode(text.encode()).decode())
