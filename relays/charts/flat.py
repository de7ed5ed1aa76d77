"""The figure of the flat-context graph, as Plotly JSON.

Colours are `var(--rs-…)`: one stylesheet rules both themes, and `charts.js` resolves them when it draws. Annotations
carry a name, `wide` or `narrow`: the page keeps those that fit its width.
"""

from collections.abc import Iterator, Sequence
from math import ceil

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.charts.drawing import Drawing, said_instead, scatter
from relays.core.vocabulary import Reason, token
from relays.reports.flat import Flat, LegLine, Mark, Point, Tail

SYMBOLS = {
    "ring": "circle-open",
    "disc": "circle",
    "diamond": "diamond",
    "octagon": "octagon",
    "bars": "line-ns-open",
    "dashed": "square-open",
}
COLOURS = {"hold": "ink-2", "unknown": "ink-3"}
BATONS = (Reason.ROTATED, Reason.BATON_STALE)  # ends of which the baton says most
SIZES = {"disc": 8, "diamond": 11, "octagon": 13, "bars": 9}


def var(name: str) -> str:
    return f"var(--rs-{name})"


def k(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 10_000 or tokens % 1000 == 0 else f"{tokens / 1000:.1f}k"


def figure(data: Flat) -> Drawing:
    """Legs in two alternating blues (a parked leg in the gate's colour), the baseline's window where it is stored,
    mark, ceiling, window, event lane. `meta.live` is what a live page needs to lengthen the newest line by itself.
    """
    top = max(data.window, max((leg.peak for leg in data.legs), default=0)) or 1
    lane = top / 200  # the lane under the axis is cut in units of half a percent of the window
    low, high = _range(data)
    fig = Drawing()
    for trace in _base(data):
        fig.add_trace(trace)
    joined = _joined(data.legs)
    for trace in _lines(data.legs, joined):
        fig.add_trace(trace)
    for name, dash, colour in (("window", "solid", "line-2"), ("ceiling", "solid", "ink"), ("mark", "dash", "mark")):
        level = _level(data, name, dash, colour, low, high)
        if level:
            fig.add_trace(level)
    for trace in _events(data.marks, -21.5 * lane):
        fig.add_trace(trace)
    title = _("turn of the whole goal") if data.focus is None else _("turn of the whole goal, leg {leg} alone")
    fig.update_layout(
        shapes=[hline(0, "line-2"), hline(-14 * lane, "grid"), *_ticks(data.legs, -14 * lane)],
        annotations=[
            *_numbers(data.legs, -7 * lane, zooms=data.focus is None), *_levels(data, lane), *_callouts(data),
            *([] if data.legs else [said_instead(_("No turn is recorded yet; the graph grows with the first leg."))]),
        ],
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
            showgrid=False, range=[low, high], ticks="outside", ticklen=3, showline=False, nticks=12,
            dtick=1 if high - low <= 12 else None,  # there is no half a turn
            showticklabels=bool(data.legs),
            title={
                "text": title.format(leg=data.focus), "font": {"size": 11, "color": var("ink-2")}, "standoff": 6,
            },
        ),
        yaxis=axis(
            range=[-28 * lane, 208 * lane], tickvals=[part * top / 4 for part in range(5)] if top > 1 else [],
            ticktext=["0", *(k(round(part * top / 4)) for part in range(1, 5))] if top > 1 else [],
        ),
        meta={
            "narrow": {"margin": {"l": 40, "r": 10, "t": 14, "b": 44}, "nticks": 5},
            "live": {
                "key": data.key, "x": _last(data), "focus": data.focus, "joined": joined, "lane": -21.5 * lane,
                "right": high,
            },
        },
    )  # fmt: skip
    return fig


def _last(data: Flat) -> int:
    """The turn up to which the newest line is drawn: a turn that has begun is counted before its call is known."""
    if not data.legs:
        return 0
    newest = data.legs[-1]
    return newest.points[-1].x if newest.points else newest.start


def tail(data: Tail) -> dict[str, object]:
    """What a live page adds: the newest points of the line that grows, and the holds on the lane."""
    return {
        "key": data.key, "turns": data.turns, "leg": data.leg, "odd": data.odd,
        "x": [point.x for point in data.points], "y": [point.tokens for point in data.points],
        "who": [_who(data.leg or 0, point) for point in data.points],
        "holds": {
            "x": [mark.x for mark in data.holds], "text": [_said(mark) for mark in data.holds],
            "who": [_leads(mark) for mark in data.holds],
        },
    }  # fmt: skip


def _range(data: Flat) -> tuple[float, float]:
    """From where to where the axis goes; while a leg runs there is room for its next turns, so that it stands still."""
    if data.focus is None:
        start, turns = 0, data.turns
        grows = data.running
    else:
        start, turns = data.legs[0].start, data.legs[0].turns
        grows = not data.legs[0].reason
    room = max(12, turns * 0.06) if grows else turns * 0.004 + 1
    return start - 0.004 * turns, start + turns + room


def alternative(data: Flat) -> str:
    """The graph in a sentence, for those who do not see it."""
    best = data.peak
    if best is None:
        return _("No turn is recorded yet.")
    if data.focus is not None:
        said = _(
            "Resident tokens of leg %(leg)s alone, over its %(turns)s turns. "
            "Its peak is %(peak)s%(limit)s, at turn %(turn)s."
        )
        return said % {
            "leg": best.number, "turns": f"{best.turns:,}", "peak": f"{best.peak:,}", "limit": _limit(best),
            "turn": best.peak_turn,
        }  # fmt: skip
    over = ngettext("%(n)s leg", "%(n)s legs", len(data.legs)) % {"n": len(data.legs)}
    said = _(
        "Resident tokens per turn over %(legs)s and %(turns)s turns. "
        "The highest peak is %(peak)s%(limit)s, in leg %(leg)s at its turn %(turn)s."
    ) % {
        "legs": over, "turns": f"{data.turns:,}", "peak": f"{best.peak:,}", "limit": _limit(best), "leg": best.number,
        "turn": best.peak_turn,
    }  # fmt: skip
    parked = [str(leg.number) for leg in data.legs if leg.parked]
    return said + (" " + _("Parked: leg %s.") % ", ".join(parked[-5:]) if parked else "")


def _limit(leg: LegLine) -> str:
    return _(" of a ceiling of %s") % f"{leg.ceiling:,}" if leg.ceiling else ""


def axis(**more: object) -> dict[str, object]:
    return {
        "gridcolor": var("grid"), "zeroline": False, "linecolor": var("line-2"), "tickcolor": var("line-2"),
        "tickfont": {"color": var("ink-2"), "size": 11}, "fixedrange": True, "automargin": False, **more,
    }  # fmt: skip


def hline(y: float, colour: str) -> dict[str, object]:
    line = {"color": var(colour), "width": 1}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "layer": "above"}


def _joined(legs: Sequence[LegLine]) -> bool:
    """Very many legs of very few points each: one line from peak to peak says more than thousands of strokes."""
    drawn = [leg for leg in legs if leg.points]
    return sum(len(leg.points) for leg in drawn) < 3 * len(drawn) and len(drawn) > 200


def _who(leg: int, point: Point) -> list[object]:
    named = _("held:")
    held = f"<br>{named} {point.hold}" if point.hold else ""
    return [leg, point.turn, *(point.buckets or ()), held]


def _lines(legs: Sequence[LegLine], joined: bool) -> Iterator[dict[str, object]]:
    """Three traces whatever the number of legs; a gap (None) separates two legs of one colour."""
    drawn = [leg for leg in legs if leg.points]
    groups: dict[str, list[LegLine]] = {"leg-a": [], "leg-b": [], "gate": []}
    for leg in drawn:
        groups["gate" if leg.parked else "leg-a" if joined or not leg.odd else "leg-b"].append(leg)
    for colour, group in groups.items():
        x: list[int | None] = []
        y: list[int | None] = []
        who: list[list[object] | None] = []
        for leg in group:
            if x and not joined:
                x.append(None)
                y.append(None)
                who.append(None)
            x += [point.x for point in leg.points]
            y += [point.tokens for point in leg.points]
            who += [_who(leg.number, point) for point in leg.points]
        lone = any(len(leg.points) == 1 for leg in group)  # a line of one point draws nothing
        whole = all(point.buckets is not None for leg in group for point in leg.points)
        if x:
            yield scatter(
                x=x, y=y, customdata=who, mode="lines+markers" if lone or (joined and colour == "gate") else "lines",
                name=colour, line={"color": var(colour), "width": 2}, marker={"size": 4, "color": var(colour)},
                hovertemplate=_hover(whole),
            )  # fmt: skip


def _hover(buckets: bool) -> str:
    """Leg, turn and tokens by bucket; of a roll-up only what it holds."""
    if not buckets:
        said = _("leg %(leg)s · turn %(turn)s, from roll-ups<br>%(tokens)s resident tokens<br>press: zoom into the leg")
        values = {"leg": "%{customdata[0]}", "turn": "%{customdata[1]}", "tokens": "%{y:,}"}
        return said % values + "<extra></extra>"
    said = _(
        "leg %(leg)s · turn %(turn)s<br>%(tokens)s resident tokens<br>uncached input %(input)s<br>cache read %(read)s"
        "<br>cache writes %(write)s"
    )
    values = {
        "leg": "%{customdata[0]}", "turn": "%{customdata[1]}", "tokens": "%{y:,}", "input": "%{customdata[2]:,}",
        "read": "%{customdata[3]:,}", "write": "%{customdata[4]:,}",
    }  # fmt: skip
    return said % values + "%{customdata[5]}<extra></extra>"


def _base(data: Flat) -> Iterator[dict[str, object]]:
    """The baseline's window: a dotted line over a quiet area, drawn first and shown when a viewer asks for it."""
    if data.base is None or not data.base.points:
        return
    yield scatter(
        x=[x for x, _tokens in data.base.points], y=[tokens for _x, tokens in data.base.points], mode="lines",
        name="baseline", visible=False, fill="tozeroy", fillcolor=var("band"),
        line={"color": var("ink-3"), "width": 1.25, "dash": "dot"},
        hovertemplate="%{y:,} " + _("resident tokens, simulated: one compacting session") + "<extra></extra>",
    )  # fmt: skip


def _level(data: Flat, name: str, dash: str, colour: str, low: float, high: float) -> dict[str, object] | None:
    """A limit as a line; it steps where a leg had another limit. It goes past the edge, where the axis may move to."""
    x: list[float] = []
    y: list[int] = []
    for leg in data.legs:
        value: int = getattr(leg, name)
        if not value:
            continue
        if not y:
            x.append(max(low, 0))
            y.append(value)
        elif y[-1] != value:
            x += [leg.start + 0.5, leg.start + 0.5]
            y += [y[-1], value]
    if not y:
        return None
    x.append(high)
    y.append(y[-1])
    line = {"color": var(colour), "width": 1.25, "dash": dash}
    return scatter(x=x, y=y, mode="lines", name=name, line=line, hoverinfo="skip")


def _events(marks: Sequence[Mark], y: float) -> Iterator[dict[str, object]]:
    groups: dict[tuple[str, str, bool, bool], list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: not mark.held):  # an end is drawn over a hold
        # every held boundary is a grey bar on the lane, whatever its token's category
        if mark.held:
            key = ("hold", "bars", True, True)
        else:
            # what a person has decided is an outline: only what waits is filled
            key = (mark.tone, mark.shape, False, mark.waits or mark.gate is None)
        groups.setdefault(key, []).append(mark)
    for (tone, shape, held, filled), group in groups.items():
        colour = var(COLOURS.get(tone, tone))
        symbol = SYMBOLS[shape] if filled or SYMBOLS[shape].endswith("-open") else f"{SYMBOLS[shape]}-open"
        yield scatter(
            x=[mark.x for mark in group], y=[y] * len(group), mode="markers", name="held" if held else tone,
            cliponaxis=False, customdata=[_leads(mark) for mark in group],
            marker={
                "symbol": symbol, "size": SIZES.get(shape, 9), "color": colour,
                "line": {"width": 1.5 if symbol.endswith("-open") else 0, "color": colour},
            },
            text=[_said(mark) for mark in group],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip


def _said(mark: Mark) -> str:
    if mark.held:
        return _("leg %(leg)s held: %(token)s") % {"leg": mark.leg, "token": mark.token}
    if mark.gate is not None and mark.turn is not None and not mark.waits:
        said = _("leg %(leg)s: %(token)s, %(state)s")
        return said % {"leg": mark.leg, "token": mark.token, "state": mark.state}
    if mark.gate is not None:
        return _("leg %(leg)s: %(token)s waits for a person") % {"leg": mark.leg, "token": mark.token}
    return _("leg %(leg)s ended: %(token)s") % {"leg": mark.leg, "token": mark.token}


def _leads(mark: Mark) -> list[object]:
    """Where a press on the mark leads: to its gate, to the baton of a rotation, else to the turn of its leg."""
    if mark.gate is not None:
        return ["gate", mark.gate]
    if mark.token in BATONS:
        return ["baton", mark.leg]
    return ["leg", mark.leg, mark.turn or 1]


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


def _numbers(legs: Sequence[LegLine], y: float, zooms: bool) -> Iterator[dict[str, object]]:
    wide, narrow = ceil(len(legs) / 30) or 1, ceil(len(legs) / 10) or 1
    for index, leg in enumerate(legs):
        for name, step in (("wide", wide), ("narrow", narrow)):
            if index % step == 0 or (leg.parked and index == len(legs) - 1):
                colour = "gate" if leg.parked else "ink-2"
                more = {"captureevents": True, "hovertext": _("zoom into leg %s") % leg.number} if zooms else {}
                middle = leg.start + (leg.turns + 1) / 2
                yield note(name, str(leg.number), colour, x=middle, y=y, yanchor="middle", **more)


def _levels(data: Flat, lane: float) -> Iterator[dict[str, object]]:
    if not data.legs:
        return
    last = data.legs[-1]
    rows = []
    if last.window:
        named = _("window")
        rows.append(("window", last.window, f"{named} {k(last.window)}", "ink-2"))
    for name, title, colour in (("ceiling", _("ceiling"), "ink"), ("mark", _("soft mark"), "ink")):
        value: int = getattr(last, name)
        if value:
            share = f" · {100 * value / last.window:.0f} %" if last.window else ""
            rows.append((name, value, f"{title} {k(value)}{share}", colour))
    side = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "yanchor": "middle", "align": "left"}
    for _name, value, words, colour in rows:
        yield note("wide", words, colour, y=value, **side)
    yield note("wide", _("leg"), "ink-2", y=-7 * lane, **side)
    yield note("wide", _("events"), "ink-2", y=-21.5 * lane, **side)
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
    text = _("leg %(leg)s parked, peak %(peak)s") % {"leg": last.number, "peak": f"{last.peak:,}"}
    font = {"size": 11, "color": var("gate"), "weight": 600}
    left = best.x > data.turns / 2
    yield note(
        "wide", text, "gate", x=best.x, y=best.tokens, xanchor="right" if left else "left", yanchor="bottom", yshift=2
    ) | {"font": font}


def events_named(data: Flat) -> list[tuple[str, str, str]]:
    """What the legend has to explain: (tone, shape, words) of each kind of mark that is drawn."""
    seen: dict[tuple[str, str], list[str]] = {}
    for mark in data.marks:
        word = token(mark.token)
        gate = word.tone == "gate" or mark.gate is not None
        key = ("hold", "bar") if mark.held else (word.tone, word.shape)
        words = _("held boundary") if mark.held else _("parked, or a person asked") if gate else _(word.label)
        if words not in seen.setdefault(key, []):
            seen[key].append(words)
    return [(tone, shape, ", ".join(words)) for (tone, shape), words in seen.items()]
