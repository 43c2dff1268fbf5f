"""The colours that a style sheet names in its custom properties, and their contrast by WCAG 2.

A browser shows what a page looks like; this computes what follows from the colours alone.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Mapping

Color = tuple[float, float, float, float]
"""Red, green, blue and alpha, from 0 to 1."""

_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_PROPERTY = re.compile(r"(--[\w-]+)\s*:\s*([^;]+)")
_VARIABLE = re.compile(r"var\((--[\w-]+)\)")
_HSLA = re.compile(r"hsla\(([\d.]+)deg, *([\d.]+)%, *([\d.]+)%, *([\d.]+)\)")


def properties(style: str, selectors: Iterable[str]) -> dict[str, str]:
    """The custom properties of an element that these selectors match; the last rule of the sheet wins."""
    wanted = set(selectors)
    rules = _RULE.findall(re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL))
    return {
        name: value.strip()
        for names, body in rules
        if wanted & {each.strip().replace('"', "") for each in names.split(",")}
        for name, value in _PROPERTY.findall(body)
    }


def color(name: str, values: Mapping[str, str]) -> Color:
    """The colour of a custom property. Raises ValueError for one that is no colour, and KeyError for a missing one."""
    text = values[name]
    while found := _VARIABLE.search(text):
        text = text.replace(found[0], values[found[1]])
    if text.startswith("#"):
        digits = text[1:] if len(text) > 5 else "".join(each * 2 for each in text[1:])
        red, green, blue, alpha = (int(digits[at : at + 2] or "ff", 16) / 255 for at in (0, 2, 4, 6))
        return red, green, blue, alpha
    parts = _HSLA.fullmatch(text)
    if parts is None:
        raise ValueError(f"{name} is {text}")
    hue, saturation, lightness, alpha = map(float, parts.groups())
    return *colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100), alpha


def contrast(front: Color, back: Color) -> float:
    """The contrast of a text of one colour on an opaque other one, from 1 to 21."""
    alpha = front[3]
    shown = (one * alpha + other * (1 - alpha) for one, other in zip(front[:3], back[:3], strict=True))
    light, dark = sorted((_luminance(shown), _luminance(back[:3])), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(parts: Iterable[float]) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
