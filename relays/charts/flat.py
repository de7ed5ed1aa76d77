"""The figure of the flat-context graph, as Plotly JSON.

Colours are `var(--rs-…)`: one stylesheet rules both themes, and `charts.js` resolves them when it draws. Annotations
carry a name, `wide` or `narrow`: the page keeps those that fit its width.
"""

from collections.abc import Iterator, Sequence
from math import ceil

import plotly.graph_objects as go

from relays.core.vocabulary import token
from relays.reports.flat import Flat, LegLine, Mark

SYMBOLS = {
    "ring": "circle-open",
    "disc": "circle",
    "diamond": "diamond",
    "octagon": "octagon",
    "bars": "line-ns-open",
    "dashed": "square-open",
}
COLOURS = {"hold": "ink-2", "unknown": "ink-3"}
SIZES = {"disc": 8, "diamond": 11, "octagon": 13, "bars": 9}


def var(name: str) -> str:
    return f"var(--rs-{name})"


def k(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 10_000 or tokens % 1000 == 0 else f"{tokens / 1000:.1f}k"


def figure(data: Flat) -> go.Figure:
    """Legs in two alternating blues (a parked leg in the gate's colour), mark, ceiling, window, event lane."""
    top = max(data.window, max((leg.peak for leg in data.legs), default=0)) or 1
    lane = top / 200  # the lane under the axis is cut in units of half a percent of the window
    fig = go.Figure()
    for trace in _lines(data.legs):
        fig.add_trace(trace)
    for name, dash, colour in (("window", "solid", "line-2"), ("ceiling", "solid", "ink"), ("mark", "dash", "mark")):
        level = _level(data, name, dash, colour)
        if level:
            fig.add_trace(level)
    for trace in _events(data.marks, -21.5 * lane):
        fig.add_trace(trace)
    fig.update_layout(
        template=None,
        shapes=[hline(0, "line-2"), hline(-14 * lane, "grid"), *_ticks(data.legs, -14 * lane)],
        annotations=[*_numbers(data.legs, -7 * lane), *_levels(data, lane), *_callouts(data)],
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        dragmode=False,
        hovermode="closest",
        margin={"l": 52, "r": 140, "t": 14, "b": 44},
        font={"size": 12, "color": var("ink-2")},
        hoverlabel={
            "bgcolor": var("raised"), "bordercolor": var("line-2"), "font": {"color": var("ink"), "size": 12},
            "align": "left",
        },
        xaxis=axis(
            showgrid=False, range=[-0.004 * data.turns, data.turns * 1.004 + 1], ticks="outside", ticklen=3,
            showline=False, nticks=12,
            title={"text": "turn of the whole goal", "font": {"size": 11, "color": var("ink-2")}, "standoff": 6},
        ),
        yaxis=axis(
            range=[-28 * lane, 208 * lane], tickvals=[part * top / 4 for part in range(5)],
            ticktext=["0", *(k(round(part * top / 4)) for part in range(1, 5))],
        ),
        meta={"narrow": {"margin": {"l": 40, "r": 10, "t": 14, "b": 44}, "nticks": 5}},
    )  # fmt: skip
    return fig


def alternative(data: Flat) -> str:
    """The graph in a sentence, for those who do not see it."""
    best = data.peak
    if best is None:
        return "No turn is recorded yet."
    legs = "1 leg" if len(data.legs) == 1 else f"{len(data.legs)} legs"
    limit = f" of a ceiling of {best.ceiling:,}" if best.ceiling else ""
    parked = [str(leg.number) for leg in data.legs if leg.parked]
    words = "" if not parked else f" Parked: leg {', '.join(parked[-5:])}."
    return (
        f"Resident tokens per turn over {legs} and {data.turns:,} turns. "
        f"The highest peak is {best.peak:,}{limit}, in leg {best.number} at its turn {best.peak_turn}.{words}"
    )


def axis(**more: object) -> dict[str, object]:
    return {
        "gridcolor": var("grid"), "zeroline": False, "linecolor": var("line-2"), "tickcolor": var("line-2"),
        "tickfont": {"color": var("ink-2"), "size": 11}, "fixedrange": True, "automargin": False, **more,
    }  # fmt: skip


def hline(y: float, colour: str) -> dict[str, object]:
    line = {"color": var(colour), "width": 1}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "layer": "above"}


def _lines(legs: Sequence[LegLine]) -> Iterator[go.Scatter]:
    """Three traces whatever the number of legs; a gap (None) separates two legs of one colour."""
    drawn = [leg for leg in legs if leg.points]
    joined = sum(len(leg.points) for leg in drawn) < 3 * len(drawn) and len(drawn) > 200
    groups: dict[str, list[LegLine]] = {"leg-a": [], "leg-b": [], "gate": []}
    for index, leg in enumerate(drawn):
        groups["gate" if leg.parked else "leg-a" if joined or index % 2 == 0 else "leg-b"].append(leg)
    for colour, group in groups.items():
        x: list[int | None] = []
        y: list[int | None] = []
        who: list[tuple[int, int] | None] = []
        for leg in group:
            if x and not joined:
                x.append(None)
                y.append(None)
                who.append(None)
            x += [point.x for point in leg.points]
            y += [point.tokens for point in leg.points]
            who += [(leg.number, point.turn) for point in leg.points]
        lone = any(len(leg.points) == 1 for leg in group)  # a line of one point draws nothing
        if x:
            yield go.Scatter(
                x=x, y=y, customdata=who, mode="lines+markers" if lone or (joined and colour == "gate") else "lines",
                name=colour, line={"color": var(colour), "width": 2}, marker={"size": 4, "color": var(colour)},
                hovertemplate="leg %{customdata[0]} · turn %{customdata[1]}<br>%{y:,} resident tokens<extra></extra>",
            )  # fmt: skip


def _level(data: Flat, name: str, dash: str, colour: str) -> go.Scatter | None:
    """A limit as a line; it steps where a leg had another limit."""
    x: list[float] = []
    y: list[int] = []
    for leg in data.legs:
        value: int = getattr(leg, name)
        if not value:
            continue
        if not y:
            x.append(0)
            y.append(value)
        elif y[-1] != value:
            x += [leg.start + 0.5, leg.start + 0.5]
            y += [y[-1], value]
    if not y:
        return None
    x.append(data.turns * 1.004 + 1)
    y.append(y[-1])
    line = {"color": var(colour), "width": 1.25, "dash": dash}
    return go.Scatter(x=x, y=y, mode="lines", name=name, line=line, hoverinfo="skip")


def _events(marks: Sequence[Mark], y: float) -> Iterator[go.Scatter]:
    groups: dict[tuple[str, str, bool], list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: not mark.held):  # an end is drawn over a hold
        # every held boundary is a grey bar on the lane, whatever its token's category
        key = ("hold", "bars", True) if mark.held else (mark.tone, mark.shape, False)
        groups.setdefault(key, []).append(mark)
    for (tone, shape, held), group in groups.items():
        colour = var(COLOURS.get(tone, tone))
        yield go.Scatter(
            x=[mark.x for mark in group], y=[y] * len(group), mode="markers", name=tone, cliponaxis=False,
            marker={
                "symbol": SYMBOLS[shape], "size": SIZES.get(shape, 9), "color": colour,
                "line": {"width": 1.5 if SYMBOLS[shape].endswith("-open") else 0, "color": colour},
            },
            text=[f"leg {mark.leg} {'held' if held else 'ended'}: {mark.token}" for mark in group],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip


def _ticks(legs: Sequence[LegLine], low: float) -> list[dict[str, object]]:
    if len(legs) > 120:
        return []
    return [
        {
            "type": "line", "x0": leg.start + 0.5, "x1": leg.start + 0.5, "y0": low, "y1": 0,
            "line": {"color": var("line-2"), "width": 1},
        }
        for leg in legs[1:]
    ]  # fmt: skip


def note(name: str, text: str, colour: str, **more: object) -> dict[str, object]:
    return {"name": name, "text": text, "showarrow": False, "font": {"size": 11, "color": var(colour)}, **more}


def _numbers(legs: Sequence[LegLine], y: float) -> Iterator[dict[str, object]]:
    wide, narrow = ceil(len(legs) / 30) or 1, ceil(len(legs) / 10) or 1
    for index, leg in enumerate(legs):
        for name, step in (("wide", wide), ("narrow", narrow)):
            if index % step == 0 or (leg.parked and index == len(legs) - 1):
                colour = "gate" if leg.parked else "ink-2"
                yield note(name, str(leg.number), colour, x=leg.start + (leg.turns + 1) / 2, y=y, yanchor="middle")


def _levels(data: Flat, lane: float) -> Iterator[dict[str, object]]:
    if not data.legs:
        return
    last = data.legs[-1]
    rows = []
    if last.window:
        rows.append(("window", last.window, f"window {k(last.window)}", "ink-2"))
    for name, title, colour in (("ceiling", "ceiling", "ink"), ("mark", "soft mark", "ink")):
        value: int = getattr(last, name)
        if value:
            share = f" · {100 * value / last.window:.0f} %" if last.window else ""
            rows.append((name, value, f"{title} {k(value)}{share}", colour))
    side = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "yanchor": "middle", "align": "left"}
    for _, value, words, colour in rows:
        yield note("wide", words, colour, y=value, **side)
    yield note("wide", "leg", "ink-2", y=-7 * lane, **side)
    yield note("wide", "events", "ink-2", y=-21.5 * lane, **side)
    for name, value, words, colour in rows:
        x = 0.36 if name == "ceiling" else 0
        yield note(
            "narrow", words.split(" · ")[0], colour, xref="paper", x=x, xanchor="left", y=value, yanchor="bottom",
            bgcolor=var("surface"), opacity=0.92,
        )  # fmt: skip


def _callouts(data: Flat) -> Iterator[dict[str, object]]:
    last = data.legs[-1] if data.legs else None
    if last is None or not last.parked or not last.points:
        return
    best = max(last.points, key=lambda point: point.tokens)
    text = f"leg {last.number} parked, peak {last.peak:,}"
    font = {"size": 11, "color": var("gate"), "weight": 600}
    left = best.x > data.turns / 2
    yield note(
        "wide", text, "gate", x=best.x, y=best.tokens, xanchor="right" if left else "left", yanchor="bottom", yshift=2
    ) | {"font": font}


def events_named(data: Flat) -> list[tuple[str, str, str]]:
    """What the legend has to explain: (tone, shape, word) of each kind of mark that is drawn."""
    seen: dict[tuple[str, str], str] = {}
    for mark in data.marks:
        if mark.held:
            seen.setdefault(("hold", "bar"), "held boundary")
        else:
            word = token(mark.token)
            seen.setdefault((word.tone, word.shape), "parked" if word.tone == "gate" else word.label)
    return [(tone, shape, words) for (tone, shape), words in seen.items()]
