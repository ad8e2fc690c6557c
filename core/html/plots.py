"""Plots as inline SVG that needs nothing from outside: colours come from the page's style sheet.

Every function gives markup whose texts are escaped. Marks carry their value as a tooltip, and each
plot says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 440, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 40
_NUM_TICKS = 5
_LABEL_CHARACTERS = 26

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from `low` to `high`, with its label and how its numbers are written."""

    low: float
    high: float
    label: str
    write: Format

    @property
    def ticks(self) -> list[float]:
        """Round numbers, about five."""
        span = self.high - self.low
        step = _round_step(span / _NUM_TICKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


def axis_for(values: Sequence[float], *, label: str, write: Format) -> Axis:
    """From zero to a round number that no value exceeds."""
    top = max(values, default=0.0)
    if top <= 0:
        return Axis(0.0, 1.0, label, write)
    step = _round_step(top / _NUM_TICKS)
    return Axis(0.0, step * math.ceil(top / step - 1e-9), label, write)


def histogram(
    values: Sequence[float], x: Axis, *, title: str, count_label: str, num_bins: int = 10
) -> Markup:
    """How many values fall into each of `num_bins` equal parts of the axis; the last takes its end."""
    counts = [0] * num_bins
    for value in values:
        counts[min(num_bins - 1, int(x.share(value) * num_bins))] += 1
    y = axis_for(counts, label=count_label, write=_whole)
    width = (WIDTH - _LEFT - _RIGHT) / num_bins
    bars = []
    for i, count in enumerate(counts):
        low, high = (x.low + (x.high - x.low) * edge / num_bins for edge in (i, i + 1))
        tip = f"{x.write(low)} – {x.write(high)}: {count}"
        bars.append(_bar(_LEFT + i * width + 1, _at_y(y, count), width - 2, _at_y(y, 0), "s1", tip))
    return _frame(x, y, bars, title)


def scatter(points: Sequence[tuple[float, float, str]], x: Axis, y: Axis, *, title: str) -> Markup:
    """A dot for each (x, y, what it is)."""
    dots = [
        Markup('<circle class="s1 dot" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}</title></circle>').format(
            _at_x(x, px), _at_y(y, py), f"{label}: {x.write(px)}, {y.write(py)}"
        )
        for px, py, label in points
    ]
    return _frame(x, y, dots, title)


def grouped_bars(
    groups: Mapping[str, Mapping[str, float]], y: Axis, *, title: str, series: Sequence[str]
) -> Markup:
    """For each group a bar of every series that it has, in the order of `series` (at most four)."""
    room = (WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = min(34.0, room * 0.8 / max(1, len(series)))
    marks = []
    for i, (group, values) in enumerate(groups.items()):
        middle = _LEFT + (i + 0.5) * room
        marks.append(_text(middle, HEIGHT - _BOTTOM + 15, _shorten(group, 12), "middle"))
        for j, name in enumerate(series):
            if name not in values:
                continue
            left = middle + (j - len(series) / 2) * width
            top = _at_y(y, values[name])
            tip = f"{group}, {name}: {y.write(values[name])}"
            marks.append(_bar(left + 1, top, width - 2, _at_y(y, 0), f"s{j + 1}", tip))
            marks.append(_text(left + width / 2, top - 3, y.write(values[name]), "middle", "value"))
    for j, name in enumerate(series):
        left = _LEFT + j * (WIDTH - _LEFT - _RIGHT) / max(1, len(series))
        marks.append(
            Markup('<rect class="s{}" x="{:.1f}" y="{}" width="9" height="9"/>').format(
                j + 1, left, HEIGHT - 14
            )
        )
        marks.append(_text(left + 13, HEIGHT - 6, name, "start"))
    return _svg(HEIGHT, [*_grid(y), *marks], title)


@dataclass(frozen=True, slots=True)
class Interval:
    """`kind`: `better`, `worse` or `even`, which sets its colour."""

    label: str
    middle: float
    low: float
    high: float
    kind: str


def intervals(rows: Sequence[Interval], *, title: str, write: Format) -> Markup:
    """Each row's middle and interval on one scale around zero."""
    left, row_height = 170, 24
    bound = max((abs(edge) for row in rows for edge in (row.low, row.high, row.middle)), default=0.0) or 1.0
    top_tick = _round_step(bound / 2) * math.ceil(bound / _round_step(bound / 2) - 1e-9)
    height = 18 + row_height * len(rows) + 24

    def at(value: float) -> float:
        return left + (value + top_tick) / (2 * top_tick) * (WIDTH - left - _RIGHT - 14)

    marks = [_line(at(0), 10, at(0), height - 24, "axis")]
    for tick in (-top_tick, 0.0, top_tick):
        marks.append(_text(at(tick), height - 8, write(tick), "middle"))
    for i, row in enumerate(rows):
        y = 18 + (i + 0.5) * row_height
        tip = f"{row.label}: {write(row.middle)} [{write(row.low)}, {write(row.high)}]"
        marks.append(_text(left - 10, y + 4, _shorten(row.label, _LABEL_CHARACTERS), "end"))
        marks.append(
            Markup('<g class="{}"><title>{}</title>{}{}</g>').format(
                row.kind,
                tip,
                _line(at(row.low), y, at(row.high), y, "interval"),
                Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(at(row.middle), y),
            )
        )
    return _svg(height, marks, title)


# ---- parts -----------------------------------------------------------------------------------


def _frame(x: Axis, y: Axis, marks: Sequence[Markup], title: str) -> Markup:
    parts = list(_grid(y))
    for tick in x.ticks:
        parts.append(_text(_at_x(x, tick), HEIGHT - _BOTTOM + 15, x.write(tick), "middle"))
    parts.append(_text((WIDTH + _LEFT) / 2, HEIGHT - 6, x.label, "middle", "label"))
    return _svg(HEIGHT, [*parts, *marks], title)


def _grid(y: Axis) -> list[Markup]:
    parts = []
    for tick in y.ticks:
        if not y.write(tick):  # half a question
            continue
        at = _at_y(y, tick)
        parts.append(_line(_LEFT, at, WIDTH - _RIGHT, at, "axis" if tick == y.low else "grid"))
        parts.append(_text(_LEFT - 6, at + 4, y.write(tick), "end"))
    middle = (HEIGHT - _BOTTOM + _TOP) / 2
    turned = Markup(
        '<text class="label" text-anchor="middle" transform="translate(11 {:.0f}) rotate(-90)">{}</text>'
    )
    return [*parts, turned.format(middle, y.label)]


def _svg(height: float, parts: Sequence[Markup], title: str) -> Markup:
    frame = Markup('<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">{}</svg>')
    return frame.format(WIDTH, height, title, Markup("").join(parts))


def _bar(x: float, top: float, width: float, bottom: float, kind: str, tip: str) -> Markup:
    return Markup(
        '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
    ).format(kind, x, top, width, max(0.0, bottom - top), tip)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, x1, y1, x2, y2
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, text
    )


def _at_x(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (WIDTH - _LEFT - _RIGHT)


def _at_y(axis: Axis, value: float) -> float:
    return HEIGHT - _BOTTOM - axis.share(value) * (HEIGHT - _BOTTOM - _TOP)


def _round_step(step: float) -> float:
    """The next of 1, 2, 5, 10, … times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _whole(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else ""
