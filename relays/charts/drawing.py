"""A figure of Plotly as plain JSON: for pages of many charts, where checking every property costs more than the page.

What it may hold is Plotly's own form; the tests of each chart draw it in a browser.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Drawing:
    """Traces and layout; None stands for "as Plotly likes it" and is left out."""

    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)

    def add_trace(self, trace: dict[str, Any]) -> None:
        self.data.append(trace)

    def update_layout(self, **values: Any) -> None:
        self.layout.update(values)

    def plain(self) -> dict[str, Any]:
        return {"data": [_said(one) for one in self.data], "layout": _said(self.layout)}


def said_instead(text: str) -> dict[str, Any]:
    """What stands in the middle of a chart that has nothing to draw yet."""
    return {
        "name": "instead", "text": text, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False,
        "font": {"size": 13, "color": "var(--rs-ink-2)"},
    }  # fmt: skip


def scatter(**values: Any) -> dict[str, Any]:
    return {"type": "scatter", **values}


def bar(**values: Any) -> dict[str, Any]:
    return {"type": "bar", **values}


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _said(one) if isinstance(one, dict) else one for name, one in values.items() if one is not None}
