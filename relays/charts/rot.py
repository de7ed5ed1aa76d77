"""The figure of the observed rot curve: error rate by fullness with its interval, one colour and one shape a model."""

from collections.abc import Iterator

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from relays.charts.flat import axis, var
from relays.core.rot import Bin, Curve
from relays.reports.rot import Curves
from relays.reports.sentences import told

#: colour, Plotly's symbol, and the same shape as a path of 12 x 12: told apart by shape as well as by colour
MARKS = (
    ("leg-a", "circle", "M1 6a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"),
    ("stale", "diamond", "M6 .4 11.6 6 6 11.6.4 6z"),
    ("drain", "square", "M1.5 1.5h9v9h-9z"),
    ("b3", "triangle-up", "M6 1 11.5 10.5H.5z"),
    ("bad", "cross", "M4 .5h4V4h3.5v4H8v3.5H4V8H.5V4H4z"),
    ("ink-2", "x", "M3 .5 6 3.5 9 .5 11.5 3 8.5 6 11.5 9 9 11.5 6 8.5 3 11.5.5 9 3.5 6 .5 3z"),
)
ROWS = 12  # models in the table beside the chart


def figure(data: Curves) -> go.Figure:
    """Percent over percent; a bin stands in its middle, models a little apart, one over the window at 102.5 %."""
    fig = go.Figure()
    for trace in _lines(data):
        fig.add_trace(trace)
    tops = [one.interval[1] for curve in data.drawn for one in curve.bins if one.interval]
    fig.update_layout(
        template=None,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        dragmode=False,
        hovermode="closest",
        margin={"l": 52, "r": 16, "t": 14, "b": 44},
        font={"size": 12, "color": var("ink-2")},
        hoverlabel={
            "bgcolor": var("raised"), "bordercolor": var("line-2"), "font": {"color": var("ink"), "size": 12},
            "align": "left",
        },
        xaxis=axis(
            range=[0, 106], dtick=20, ticksuffix=" %", showgrid=False, ticks="outside", ticklen=3,
            title={"text": _("window full"), "font": {"size": 11, "color": var("ink-2")}, "standoff": 6},
        ),
        yaxis=axis(range=[0, 100 * max([*tops, 0.01]) * 1.06], ticksuffix=" %", nticks=5, rangemode="tozero"),
        meta={"narrow": {"margin": {"l": 44, "r": 10, "t": 14, "b": 44}, "nticks": 5}},
    )  # fmt: skip
    return fig


def alternative(data: Curves) -> str:
    """The graph in words."""
    if not data.drawn:
        return _("Not yet: too few tool results to draw a rate.")
    parts = [f"{curve.model}: {told(curve.verdict.said)}" for curve in data.drawn]
    return _("Tool-error rate against how full the window was.") + " " + "; ".join(parts) + "."


def legend(data: Curves) -> list[tuple[str, str, Curve]]:
    """(colour, path of its shape, curve) of each model of the table; both "" where it is not drawn."""
    drawn = {curve.model: (mark[0], mark[2]) for mark, curve in zip(MARKS, data.drawn, strict=False)}
    return [(*drawn.get(curve.model, ("", "")), curve) for curve in data.all[:ROWS]]


def _where(one: Bin) -> str:
    if one.high is None:
        return _("over the window")
    return _("%(low).0f to %(high).0f %% full") % {"low": 100 * one.low, "high": 100 * one.high}


def _lines(data: Curves) -> Iterator[go.Scatter]:
    for nth, ((colour, symbol, _word), curve) in enumerate(zip(MARKS, data.drawn, strict=False)):
        aside = 0.5 * (nth - (len(data.drawn) - 1) / 2)  # intervals of two models stand beside each other
        x, y, up, down, text = [], [], [], [], []
        for one in curve.bins:
            if one.rate is None or one.interval is None:
                continue
            x.append(100 * one.low + 2.5 + aside)
            y.append(100 * one.rate)
            down.append(100 * (one.rate - one.interval[0]))
            up.append(100 * (one.interval[1] - one.rate))
            text.append(f"{curve.model[:60]}, {_where(one)}<br>{told(one.said)}")
        yield go.Scatter(
            x=x, y=y, text=text, mode="lines+markers", name=curve.model[:60],
            line={"color": var(colour), "width": 1.6},
            marker={"symbol": symbol, "size": 7, "color": var(colour)},
            error_y={
                "type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1, "width": 3,
                "color": var(colour),
            },
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
