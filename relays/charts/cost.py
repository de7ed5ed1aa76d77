"""The figures of what a relay or a session cost, as Plotly JSON; colours are `var(--rs-…)` as in `charts.flat`.

cost.md, Charts: "cumulative money, relay against baselines with the band of the sensitivity · money per leg and
bucket · cache-bust tokens per boundary". What is left of $0, where the relay loses, is drawn like everything else.
"""

from collections.abc import Sequence
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.charts.drawing import Drawing, bar, scatter
from relays.charts.flat import axis, hline, k, note, var
from relays.reports.compared import Bust, Compared, Faithful, LegMoney, Sensitive, Series
from relays.reports.figures import places, whole

#: bucket of a leg's money -> word and colour, the same in every chart of money
BUCKETS = (
    ("cache_read", gettext_noop("cache read"), "b1"),
    ("cache_write", gettext_noop("cache write"), "b2"),
    ("output", gettext_noop("output"), "b3"),
    ("input", gettext_noop("uncached input"), "b4"),
)
#: legs or boundaries that a chart shows, as many as are kept: four traces of them are 4,000 points
MOST_BARS = 1_000
NARROW = {"l": 44, "r": 10, "t": 12, "b": 44}


def layout(**more: object) -> dict[str, object]:
    """What all of these figures share; `more` wins."""
    return {
        "template": None, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "showlegend": False,
        "dragmode": False, "hovermode": "closest", "margin": {"l": 52, "r": 20, "t": 12, "b": 44},
        "font": {"size": 12, "color": var("ink-2")},
        "hoverlabel": {
            "bgcolor": var("raised"), "bordercolor": var("line-2"), "font": {"color": var("ink"), "size": 12},
            "align": "left",
        },
        "meta": {"narrow": {"margin": NARROW, "nticks": 5}}, **more,
    }  # fmt: skip


def title(text: str) -> dict[str, object]:
    return {"text": text, "font": {"size": 11, "color": var("ink-2")}, "standoff": 6}


def dollars(amount: Decimal | float) -> str:
    """`−$1.52`: two decimals, for labels in a chart; more where a cent is too coarse."""
    size, sign = abs(float(amount)), "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}${size:,.{_places(size)}f}"


def _places(size: float) -> int:
    return 2 if size == 0 or size >= 0.1 else 3 if size >= 0.01 else 4


def money_axis(top: float, **more: object) -> dict[str, object]:
    """An axis of money whose labels have as many decimals as its range needs."""
    places = 0 if top >= 5 else 2 if top >= 0.1 else 4
    return axis(tickformat=f"$,.{places}f", **more)


# ---- cumulative money -----------------------------------------------------------------------------------------------


def cumulative(data: Series, base: str, own: str, calls: str) -> Drawing:
    """Both lines over the calls, the band of the sensitivity behind; `own`, `base`, `calls`: in words."""
    fig = Drawing()
    top = max([*data.observed, *data.base, *data.high, 0.0])
    if data.low and data.high:
        fig.add_trace(
            scatter(
                x=[*data.x, *reversed(data.x)], y=[*data.high, *reversed(data.low)], mode="lines", fill="toself",
                fillcolor=var("band"), line={"width": 0, "color": "rgba(0,0,0,0)"}, hoverinfo="skip", name="band",
            )
        )  # fmt: skip
    said = _("call %(n)s · %(money)s") % {"n": "%{x:,}", "money": f"$%{{y:,.{_places(top)}f}}"}
    for y, name, words, line in (
        (data.base, base, "SIMULATED", {"color": var("base"), "width": 1.75, "dash": "dot"}),
        (data.observed, own, "OBSERVED", {"color": var("leg-a"), "width": 2.5}),
    ):
        if y:
            fig.add_trace(
                scatter(
                    x=list(data.x), y=list(y), mode="lines" if len(y) > 1 else "markers", name=name, line=line,
                    hovertemplate=f"{name}<br>{said}<extra>{words}</extra>",
                )
            )  # fmt: skip
    notes = []
    side = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "yanchor": "middle", "align": "left"}
    if data.observed:
        notes.append(note("wide", f"{own} {dollars(data.observed[-1])}", "leg-a", y=data.observed[-1], **side))
    if data.base and (not data.observed or abs(data.base[-1] - data.observed[-1]) > 0.04 * top):
        notes.append(note("wide", f"{base} {dollars(data.base[-1])}", "ink-2", y=data.base[-1], **side))
    last = data.x[-1] if data.x else 1
    fig.update_layout(
        **layout(
            annotations=notes, margin={"l": 60, "r": 150, "t": 12, "b": 44},
            xaxis=axis(
                showgrid=False, range=[0, last], title=title(calls), ticks="outside", ticklen=3,
                nticks=12,
            ),
            yaxis=money_axis(top, rangemode="tozero", nticks=6),
            meta={"narrow": {"margin": {"l": 52, "r": 10, "t": 12, "b": 44}, "nticks": 5}},
        )
    )  # fmt: skip
    return fig


def cumulative_words(data: Series, base: str, own: str) -> str:
    if not data.x:
        return _("No call is recorded yet.")
    ends = [f"{words} {dollars(values[-1])}" for words, values in ((own, data.observed), (base, data.base)) if values]
    band = (
        _(" with a band from %(low)s to %(high)s") % {"low": dollars(data.low[-1]), "high": dollars(data.high[-1])}
        if data.low and data.high
        else ""
    )
    return _("Cumulative money after %(x)s calls: %(ends)s%(band)s.") % {
        "x": whole(data.x[-1]),
        "ends": ", ".join(ends),
        "band": band,
    }


# ---- what the verdict hangs on --------------------------------------------------------------------------------------


def tornado(data: Sequence[Sensitive], at: Decimal, label: dict[str, str]) -> Drawing:
    """For each parameter what is saved at both ends of its range; left of $0 the relay loses."""
    fig, count = Drawing(), len(data)
    low = min([float(at), 0.0, *(float(one.least) for one in data)])
    high = max([float(at), 0.0, *(float(one.most) for one in data)])
    room = (high - low) * 0.26 or 1.0
    notes, shapes = [], []
    x: list[float | None] = []
    rows: list[int | None] = []
    for nth, one in enumerate(data):
        y = count - nth
        x += [float(one.least), float(one.most), None]
        rows += [y, y, None]
        for value, side, shift in ((one.least, "right", -5), (one.most, "left", 5)):
            for name in ("wide", "narrow"):
                notes.append(note(name, dollars(value), "ink-2", x=float(value), y=y, xanchor=side, xshift=shift))
        notes.append(
            note(
                "narrow", label[one.name], "ink", xref="paper", x=0, xanchor="left", y=y, yshift=15,
                bgcolor=var("surface"), opacity=0.92,
            )
        )  # fmt: skip
    for place, colour, dash in ((0.0, "bad", "solid"), (float(at), "mark", "dot")):
        line = {"color": var(colour), "width": 1.25, "dash": dash}
        shapes.append({"type": "line", "x0": place, "x1": place, "yref": "paper", "y0": 0, "y1": 1, "line": line})
    fig.add_trace(
        scatter(x=x, y=rows, mode="lines", line={"color": var("leg-b"), "width": 11}, hoverinfo="skip", name="range")
    )
    fig.add_trace(
        scatter(
            x=[float(at)] * count, y=[count - nth for nth in range(count)], mode="markers",
            marker={"size": 6, "color": var("leg-a")}, hoverinfo="skip",
        )
    )  # fmt: skip
    fig.update_layout(
        **layout(
            shapes=shapes, annotations=notes, margin={"l": 236, "r": 20, "t": 10, "b": 44},
            xaxis=money_axis(
                max(abs(low), abs(high)), range=[low - room, high + room], nticks=8, showgrid=True,
                title=title(_("saved (left of $0 the relay loses)")),
            ),
            yaxis=axis(
                showgrid=False, tickvals=list(range(count, 0, -1)), ticks="", range=[0.4, count + 0.85],
                ticktext=[label[one.name] for one in data],
            ),
            meta={"narrow": {"margin": {"l": 14, "r": 14, "t": 10, "b": 44}, "nticks": 5, "noY": True}},
        )
    )  # fmt: skip
    return fig


def break_even(line: Sequence[tuple[int, Decimal]], measured: int | None, even: int | None) -> Drawing:
    """What is saved over the tokens that a fresh leg re-reads; the cross is where the relay begins to lose."""
    fig = Drawing()
    x, y = [float(one) for one, _money in line], [float(money) for _one, money in line]
    top = max([abs(value) for value in y], default=1.0)
    said = {"tokens": "%{x:,}", "money": f"$%{{y:,.{_places(top)}f}}"}
    fig.add_trace(
        scatter(
            x=x, y=y, mode="lines", line={"color": var("leg-a"), "width": 2},
            hovertemplate=_("%(tokens)s tokens re-read · saved %(money)s") % said + "<extra>SIMULATED</extra>",
        )
    )  # fmt: skip
    notes = []
    right = max(x, default=1.0)
    loses = even is not None and measured is not None and measured > even
    for at, money, words, colour, symbol in (
        (measured, _on(line, measured), _("now"), "leg-a", "circle"),
        (even, 0.0, _("break-even"), "bad", "x"),
    ):
        if at is None or money is None or at > right:
            continue
        fig.add_trace(
            scatter(
                x=[at], y=[money], mode="markers", marker={"size": 9, "color": var(colour), "symbol": symbol},
                hoverinfo="skip",
            )
        )  # fmt: skip
        # the line falls: above it on the right and below it on the left there is room
        above = at < 0.6 * right and not (colour == "leg-a" and loses and at > 0.25 * right)
        place = (
            {"xanchor": "left", "xshift": 10, "yshift": 12}
            if above
            else {"xanchor": "right", "xshift": -10, "yshift": -13}
        )
        for name in ("wide", "narrow"):
            notes.append(note(name, f"{words} {k(at)}", "ink" if colour == "leg-a" else colour, x=at, y=money, **place))
    fig.update_layout(
        **layout(
            annotations=notes, shapes=[{**hline(0, "bad")}],
            xaxis=axis(showgrid=False, title=title(_("tokens a fresh leg re-reads")), nticks=6,
                       range=[0, right * 1.02]),
            yaxis=money_axis(top, nticks=6, **_floor(y)), margin={"l": 60, "r": 20, "t": 14, "b": 44},
        )
    )  # fmt: skip
    return fig


def _floor(y: Sequence[float]) -> dict[str, object]:
    """A range that shows where the line crosses zero, also where a leg that begins at its mark costs without end."""
    won = max([*y, 0.0])
    floor = -4 * (won or abs(y[0] if y else 1.0))
    return {"range": [floor * 1.02, won + 0.08 * (won - floor)]} if min(y, default=0.0) < floor else {}


def _on(line: Sequence[tuple[int, Decimal]], at: int | None) -> float | None:
    """The money of the line at `at`, between its points; None outside of it."""
    if at is None:
        return None
    for (x0, y0), (x1, y1) in zip(line, line[1:], strict=False):
        if x0 <= at <= x1:
            return float(y0) + (float(y1) - float(y0)) * ((at - x0) / (x1 - x0) if x1 > x0 else 0)
    return None


# ---- per leg --------------------------------------------------------------------------------------------------------


def per_leg(data: Sequence[LegMoney], word: str = "leg") -> Drawing:
    """Money of each leg, stacked by bucket."""
    fig = Drawing()
    x = [one.leg for one in data]
    top = max([float(one.total) for one in data], default=0.0)
    told = f"$%{{y:,.{_places(top)}f}}"
    for field, words, colour in BUCKETS:
        fig.add_trace(
            bar(
                x=x, y=[float(getattr(one, field)) for one in data], name=_(words),
                marker={"color": var(colour), "line": {"width": 0.5 if len(data) < 80 else 0, "color": var("surface")}},
                customdata=[one.name for one in data],
                hovertemplate=f"{word} %{{customdata}} · {_(words)}<br>{told}<extra>OBSERVED</extra>",
            )
        )  # fmt: skip
    fig.update_layout(
        **layout(
            barmode="stack", bargap=0.3 if len(data) < 80 else 0.05,
            xaxis=axis(showgrid=False, title=title(word), nticks=15, dtick=1 if len(data) <= 15 else None),
            yaxis=money_axis(top, nticks=5), margin={"l": 60, "r": 20, "t": 12, "b": 44},
        )
    )  # fmt: skip
    return fig


def peaks(data: Sequence[LegMoney], base: int | None, word: str, name: str) -> Drawing:
    """The fullest window of each leg, and as a line the peak of the other way to carry the work."""
    fig = Drawing()
    known = [one for one in data if one.peak is not None]
    fig.add_trace(
        bar(
            x=[one.leg for one in known], y=[one.peak for one in known], name="peak", marker={"color": var("leg-b")},
            customdata=[one.name for one in known],
            hovertemplate=f"{word} %{{customdata}}<br>"
            + _("%(tokens)s resident tokens at its peak") % {"tokens": "%{y:,}"}
            + "<extra>OBSERVED</extra>",
        )
    )  # fmt: skip
    shapes, notes = [], []
    if base:
        shapes.append({**hline(base, "base"), "line": {"color": var("base"), "width": 1.75, "dash": "dot"}})
        for where in ("wide", "narrow"):
            place = {"xref": "paper", "x": 0, "xanchor": "left", "y": base, "yanchor": "bottom"}
            notes.append(
                note(
                    where,
                    _("%(name)s %(base)s, SIMULATED") % {"name": name, "base": k(base)},
                    "ink-2",
                    bgcolor=var("surface"),
                    opacity=0.92,
                    **place,
                )
            )
    top = max([base or 0, *(one.peak or 0 for one in known)]) or 1
    fig.update_layout(
        **layout(
            shapes=shapes, annotations=notes, bargap=0.3 if len(data) < 80 else 0.05,
            xaxis=axis(showgrid=False, title=title(word), nticks=15, dtick=1 if len(data) <= 15 else None),
            yaxis=axis(nticks=5, tickformat="~s", range=[0, 1.12 * top]),
        )
    )  # fmt: skip
    return fig


def busts(data: Sequence[Bust], word: str) -> Drawing:
    """Tokens written again at each boundary, one bar each."""
    fig = Drawing()
    top = max([one.tokens for one in data], default=0) or 1
    fig.add_trace(
        bar(
            x=list(range(1, len(data) + 1)), y=[one.tokens for one in data], name=_("cache-bust tokens"),
            customdata=[[one.leg, one.turn] for one in data], marker={"color": var("b2")},
            hovertemplate=_("%(word)s %(n)s, after call %(call)s of leg %(leg)s<br>%(tokens)s tokens written again")
            % {
                "word": word, "n": "%{x}", "leg": "%{customdata[0]}", "call": "%{customdata[1]:,}",
                "tokens": "%{y:,}",
            }
            + "<extra></extra>",
        )
    )  # fmt: skip
    fig.update_layout(
        **layout(
            bargap=0.3 if len(data) < 80 else 0.05,
            xaxis=axis(showgrid=False, title=title(word), nticks=15, dtick=1 if len(data) <= 15 else None),
            yaxis=axis(nticks=5, tickformat="~s" if top >= 1000 else ",d", rangemode="tozero"),
        )
    )  # fmt: skip
    return fig


def faithful(data: Faithful) -> Drawing:
    """Shares re-read and covered, side by side; a row without a figure has no bar."""
    fig, count = Drawing(), len(data.rows)
    known = [(count - nth, words, share, n) for nth, (words, share, n) in enumerate(data.rows) if share is not None]
    fig.add_trace(
        bar(
            x=[100 * share for _y, _words, share, _n in known], y=[y for y, *_more in known],
            orientation="h", width=0.34, marker={"color": var("leg-b")},
            text=[f"{_(words)}, n = {whole(n)}" for _y, words, _share, n in known],
            textposition="none", hovertemplate="%{text}<br>%{x:.1f} %<extra>OBSERVED</extra>",
        )
    )  # fmt: skip
    notes = []
    for nth, (words, share, n) in enumerate(data.rows):
        told = _("not yet") if share is None else f"{places(100 * share, 1)} %, n = {whole(n)}"
        at = {"x": 0 if share is None else 100 * share, "y": count - nth, "xanchor": "left", "xshift": 5}
        for name in ("wide", "narrow"):  # words stand above their bar: they are longer than a margin
            notes.append(note(name, told, "ink-2", **at))
            notes.append(note(name, _(words), "ink", xref="paper", x=0, xanchor="left", y=count - nth, yshift=22))
    fig.update_layout(
        **layout(
            annotations=notes, margin={"l": 18, "r": 14, "t": 10, "b": 30},
            xaxis=axis(range=[0, 128], tickvals=[0, 25, 50, 75, 100], ticktext=["0", "25 %", "50 %", "75 %", "100 %"]),
            yaxis=axis(showgrid=False, showticklabels=False, ticks="", range=[0.5, count + 0.75]),
            meta={"narrow": {"margin": {"l": 14, "r": 14, "t": 10, "b": 30}}},
        )
    )  # fmt: skip
    return fig


def words_of(data: Compared, what: str) -> str:
    """A chart in a sentence, for those who do not see it."""
    if what == "tornado":
        wide = max(data.sensitivity, key=lambda one: one.most - one.least, default=None)
        if wide is None or data.saving is None:
            return _("No sensitivity is stored yet.")
        return _("Saving when one parameter moves, %(saving)s now. The widest is %(name)s: %(least)s to %(most)s.") % {
            "saving": dollars(data.saving),
            "name": wide.name,
            "least": dollars(wide.least),
            "most": dollars(wide.most),
        }
    if what == "legs":
        dear = max(data.legs, key=lambda one: one.total, default=None)
        return (
            _("Money per leg and bucket; the dearest is %(name)s with %(total)s.")
            % {"name": dear.name, "total": dollars(dear.total)}
            if dear
            else _("No leg.")
        )
    if what == "peaks":
        full = max(data.legs, key=lambda one: one.peak or 0, default=None)
        return (
            _("Peak context of each leg; the fullest is %(name)s with %(peak)s tokens.")
            % {"name": full.name, "peak": whole(full.peak or 0)}
            if full
            else _("None.")
        )
    if what == "busts":
        most = max(data.busts, key=lambda one: one.tokens, default=None)
        return (
            _("Tokens written again at %(busts)s boundaries, %(tokens)s at most.")
            % {"busts": whole(len(data.busts)), "tokens": whole(most.tokens)}
            if most
            else _("None.")
        )
    if what == "faithful":
        rows = (
            _("%(words)s %(share)s of %(n)s")
            % {"words": _(words), "share": _("not yet") if at is None else f"{places(100 * at, 1)} %", "n": whole(n)}
            for words, at, n in data.faithful.rows
        )
        return "; ".join(rows) + "."
    even = (
        _("no break-even")
        if data.break_even is None
        else _("zero at %(break_even)s tokens") % {"break_even": whole(data.break_even)}
    )
    return _("Saving over the tokens that a fresh leg re-reads, %(even)s.") % {"even": even}
