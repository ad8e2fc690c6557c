"""How a quote is shown."""

from __future__ import annotations

from cli.output import format_money, format_seconds, print_json, print_table, say
from client.records import Quote, QuotedSpan


def show_quote(quote: Quote, *, as_json: bool) -> None:
    """The tokens, price and seconds that a question would take, and what they are estimated by."""
    if as_json:
        print_json(quote)
        return
    rows = [(line["stage"], line["model"], *_cells(line["tokens"])) for line in quote["lines"]]
    print_table(("stage", "model", *_CASES), rows, right=_CASES)
    price, seconds = quote["price"], quote["seconds"]
    currency = price["currency"]
    amounts = [format_money(amount, currency) for amount in (price["low"], price["expected"], price["high"])]
    say(f"Costs about {amounts[1]}: at least {amounts[0]}, at most {amounts[2]}.")
    if seconds["total_seconds"] is not None:
        say(
            f"Takes about {format_seconds(seconds['total_seconds'])}, the first word after "
            f"{format_seconds(seconds['ttft_seconds'])}; at most {format_seconds(seconds['high_seconds'])}."
        )
    for basis in quote["basis"]:
        say(f"{basis[:1].upper()}{basis[1:]}.", style="dim")


_CASES = ("at least", "expected", "at most")


def _cells(span: QuotedSpan) -> tuple[str, str, str]:
    return f"{span['low']:,}", f"{span['expected']:,}", f"{span['high']:,}"
