"""The figures of a run as bars in an SVG: a panel for each figure, a bar for each contender, a line for the spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.machine import Spread

_COLUMNS = 2
_WIDTH, _LABEL, _BAR, _ROW = 460, 160, 220, 18
_FONT = "font-family='sans-serif' font-size='12'"


def svg(figures: Mapping[str, Mapping[str, Spread]], panels: Sequence[str], title: str) -> str:
    """The plot of those figures that `panels` names; a contender without a figure has no bar in its panel."""
    height = 44 + _ROW * len(figures)
    rows = (len(panels) + _COLUMNS - 1) // _COLUMNS
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH * _COLUMNS}' height='{40 + rows * height}' {_FONT}>",
        "<rect width='100%' height='100%' fill='white'/>",
        f"<text x='12' y='24' font-size='14'>{escape(title)}</text>",
    ]
    for position, name in enumerate(panels):
        x, y = _WIDTH * (position % _COLUMNS) + 12, 40 + height * (position // _COLUMNS)
        parts += _panel(name, {each: found[name] for each, found in figures.items() if name in found}, x, y)
    return "\n".join([*parts, "</svg>", ""])


def _panel(name: str, spreads: Mapping[str, Spread], x: int, y: int) -> Sequence[str]:
    most = max((spread.max for spread in spreads.values()), default=0.0) or 1.0
    parts = [f"<text x='{x}' y='{y + 18}' font-weight='bold'>{escape(name)}</text>"]
    for position, (contender, spread) in enumerate(spreads.items()):
        top = y + 26 + _ROW * position
        bar = x + _LABEL
        low, middle, high = (bar + _BAR * each / most for each in (spread.min, spread.median, spread.max))
        colour = "#2b6cb0" if contender.startswith("ssa-operator") else "#a0aec0"
        parts += [
            f"<text x='{x}' y='{top + 12}'>{escape(contender)}</text>",
            f"<rect x='{bar}' y='{top + 2}' width='{middle - bar:.1f}' height='{_ROW - 5}' fill='{colour}'/>",
            f"<path d='M{low:.1f} {top + 8}H{high:.1f}' stroke='black'/>",
            f"<text x='{high + 6:.1f}' y='{top + 12}'>{spread.median:g}</text>",
        ]
    return parts
