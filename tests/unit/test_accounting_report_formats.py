from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest

from accounting.calendar import parse_interval
from accounting.report_formats import cost_report_as_csv, cost_report_as_json
from accounting.reports import Amounts, CostReport, CostRow, Dimension

AMOUNTS = Amounts(num_tokens=7, cost=Decimal("2.8E-6"), burned_tokens=1, burned_cost=Decimal("0.005"))


def report(*models: str | None) -> CostReport:
    return CostReport(
        group_by=(Dimension.MODEL,),
        interval=parse_interval(None, None, "Asia/Shanghai"),
        currency="USD",
        rows=tuple(CostRow({Dimension.MODEL: model}, AMOUNTS) for model in models),
        total=AMOUNTS,
    )


def test_csv_has_a_header_exact_amounts_and_crlf() -> None:
    assert cost_report_as_csv(report("通义,千问", None)) == (
        "model,num_tokens,cost,burned_tokens,burned_cost,engine_cost,margin,currency\r\n"
        '"通义,千问",7,0.0000028,1,0.005,,,USD\r\n'
        ",7,0.0000028,1,0.005,,,USD\r\n"
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_csv_runs_no_formula(start: str) -> None:
    text = cost_report_as_csv(report(f'{start}HYPERLINK("http://x","y")'))
    cell = list(csv.reader(io.StringIO(text, newline="")))[1][0]
    assert cell == f'\'{start}HYPERLINK("http://x","y")'


def test_json_gives_amounts_as_exact_text_and_null_where_a_line_has_none() -> None:
    data = json.loads(json.dumps(cost_report_as_json(report("m", None))))
    amounts = {
        "num_tokens": 7,
        "cost": "0.0000028",
        "burned_tokens": 1,
        "burned_cost": "0.005",
        "engine_cost": None,
        "margin": None,
    }
    assert data == {
        "group_by": ["model"],
        "start": None,
        "end": None,
        "time_zone": "Asia/Shanghai",
        "currency": "USD",
        "rows": [{"model": "m"} | amounts, {"model": None} | amounts],
        "total": amounts | {"invoice_total": "0.00"},
    }
