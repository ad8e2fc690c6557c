from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from accounting.price_book import ANY_MODEL, PriceKey, load_price_book
from accounting.stages import Rate, Stage
from core.errors import Misconfigured

COMPLETE = "\n".join(
    ['[[prices]]\nmodel = "*"\neffective_from = 2026-01-01', *(f"{stage} = 0.5" for stage in Stage)]
)


def load(folder: Path, text: str) -> dict[PriceKey, Decimal]:
    path = folder / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return dict(load_price_book(path).prices)


def test_the_packaged_book_prices_every_stage_and_cached_prefill_below_uncached() -> None:
    book = load_price_book()
    assert {key.stage for key in book.prices if key.model == ANY_MODEL} == {*Stage, Rate.ENGINE_HOUR}
    for key, price in book.prices.items():
        if key.stage is Stage.PREFILL_CACHED:
            whole = PriceKey(key.tenant_id, key.model, Stage.PREFILL_UNCACHED, key.effective_from)
            assert price < book.prices[whole]


def test_prices_are_read_as_decimals_not_floats(tmp_path: Path) -> None:
    entry = '[[prices]]\nmodel = "通义千问"\neffective_from = 2026-03-01\ndecode = 0.0001\nembed = 3'
    prices = load(tmp_path, f'currency = "CNY"\n{COMPLETE}\n{entry}')
    march = datetime(2026, 3, 1, tzinfo=UTC)
    assert prices[PriceKey("", "通义千问", Stage.DECODE, march)] == Decimal("0.0001")
    assert prices[PriceKey("", "通义千问", Stage.EMBED, march)] == 3


def test_a_moment_with_a_zone_is_kept_as_that_moment(tmp_path: Path) -> None:
    entry = '[[prices]]\nmodel = "m"\neffective_from = 2026-03-01T00:00:00+08:00\ndecode = 1'
    prices = load(tmp_path, f'currency = "USD"\n{COMPLETE}\n{entry}')
    key = PriceKey("", "m", Stage.DECODE, datetime(2026, 2, 28, 16, tzinfo=UTC))
    assert prices[key] == 1


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ('model = "m"\neffective_from = 2026-01-01\ndecode = -0.1', r"\(m, decode\): the price -0.1 is neg"),
        ('model = "m"\neffective_from = 2026-01-01\ndecode = 100000.1', "above 100000 per million"),
        ('model = "m"\neffective_from = 2026-01-01\ndecode = 0.00001', "more than 4 decimal places"),
        ('model = "m"\neffective_from = 2026-01-01\ndecode = nan', "not a number"),
        ('model = "m"\neffective_from = 2026-01-01\ndecode = inf', "not a number"),
        ('model = "m"\neffective_from = 2026-01-01\ndecode = true', "not a number"),
        ('model = "m"\neffective_from = 2026-01-01\ndecode = "0.1"', "not a number"),
        ('model = "m"\neffective_from = 2026-01-01\nthink = 1', "unknown stage 'think'"),
        ('model = "m"\neffective_from = 2026-01-01', "prices no stage"),
        ("effective_from = 2026-01-01\ndecode = 1", "names no model"),
        ('model = "m"\ndecode = 1', "effective_from is None"),
        ('model = "m"\neffective_from = "soon"\ndecode = 1', "not a date"),
        ('model = "m"\neffective_from = 2026-01-01T00:00:00\ndecode = 1', "no time zone"),
        ('model = "m"\ntenant = " "\neffective_from = 2026-01-01\ndecode = 1', "tenant that is no id"),
        ('model = "*"\neffective_from = 2026-01-01\ndecode = 1', "decode of model '\\*' .* given twice"),
        ('model = "*"\neffective_from = 2026-01-01T00:00:00Z\ndecode = 1', "given twice"),
    ],
)
def test_a_wrong_entry_is_named_with_what_is_wrong(tmp_path: Path, entry: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        load(tmp_path, f'currency = "USD"\n{COMPLETE}\n[[prices]]\n{entry}')


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (COMPLETE, "currency is None"),
        (f'currency = "usd"\n{COMPLETE}', "currency is 'usd'"),
        ('currency = "USD"', r"no \[\[prices\]\]"),
        ('currency = "USD"\nprices = 3', r"no \[\[prices\]\]"),
        (f'currency = "USD"\ncurency = "USD"\n{COMPLETE}', "unknown field 'curency'"),
        (f'currency = "USD"\n{COMPLETE.replace("ocr = 0.5", "")}', "ocr has no list price"),
        ("currency = ", "is not TOML"),
    ],
)
def test_a_wrong_book_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        load(tmp_path, text)


def test_a_book_that_is_not_there_says_which_setting_to_check(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"nowhere\.toml cannot be read.*LONGLEAF_PRICE_BOOK"):
        load_price_book(tmp_path / "nowhere.toml")


def test_a_book_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes('# 价格表\ncurrency = "CNY"'.encode("gbk"))
    with pytest.raises(Misconfigured, match="not TOML"):
        load_price_book(path)
