"""The figure of a session's window, as Plotly JSON: what was observed, and behind it what a relay would have done.

cost.md, Charts: "resident tokens … with soft mark, ceiling, window, rotations"; colours are `var(--rs-…)` as in
`charts.flat`. Declared and measured compaction figures are never one mark: measured is a bar on the line, declared are
open diamonds beside it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.charts.flat import axis, hline, k, note, var
from relays.models import SessionBoundary
from relays.reports.figures import whole
from relays.reports.session import BoundaryMark, Graph, Point

CALLOUTS = 8
#: where a hovered point says its call and its tokens
HOVERED = {"n": "%{x:,}", "tokens": "%{y:,}"}


def figure(data: Graph) -> go.Figure:
    """`drawn` as the library's object, which says where it is no figure."""
    return go.Figure(drawn(data))


def drawn(data: Graph) -> dict[str, Any]:
    """Observed (copied calls lighter), simulated line dashed, compactions; would-rotate rings on the lane below.

    JSON as a page takes it: the library's objects would copy and check each point, on a page that only shows them.
    """
    marked = [row.declared_pre or 0 for row in data.boundaries]
    top = max([data.window or 0, *(point.tokens for point in data.points), *(y for _, y in data.simulated), *marked])
    top = top or 1
    lane = top / 200
    end = data.calls * 1.004 + 1
    traces = [*_would(data), *_observed(data.points), *_levels(data, end), *_compactions(data.boundaries)]
    if data.rotate_at:
        traces.append(_rings(data.rotate_at, -10 * lane))
    layout = {
        "shapes": [hline(0, "line-2")],
        "annotations": [*_words(data, lane), *_callouts(data)],
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "margin": {"l": 52, "r": 140, "t": 20, "b": 44},
        "font": {"size": 12, "color": var("ink-2")},
        "hoverlabel": {
            "bgcolor": var("raised"), "bordercolor": var("line-2"), "font": {"color": var("ink"), "size": 12},
            "align": "left",
        },
        "xaxis": axis(
            showgrid=False, range=[-0.004 * data.calls, end], ticks="outside", ticklen=3, showline=False, nticks=12,
            title={"text": _("main call of the session"), "font": {"size": 11, "color": var("ink-2")}, "standoff": 6},
        ),
        "yaxis": axis(
            range=[-18 * lane, 212 * lane], tickvals=[0, *ticks(top)], ticktext=["0", *map(k, ticks(top))],
        ),
        "meta": {"narrow": {"margin": {"l": 40, "r": 10, "t": 20, "b": 44}, "nticks": 5}},
    }  # fmt: skip
    return {"data": traces, "layout": layout}


def _scatter(**values: object) -> dict[str, Any]:
    return {**values, "type": "scatter"}


def ticks(top: int) -> list[int]:
    """Round numbers of tokens up to the top, four or five of them where there is room."""
    step = next(size * 10**power for power in range(12) for size in (1, 2, 5) if top <= 5 * size * 10**power)
    return [step * n for n in range(1, top // step + 1)]


def alternative(data: Graph) -> str:
    """The graph in a sentence, for those who do not see it."""
    best = data.peak
    if best is None:
        return _("No main call was read yet.")
    known = _(" of a window of %(window)s") if data.would.window_declared else _(" of an assumed window of %(window)s")
    window = known % {"window": whole(data.window)} if data.window else ""
    count = len(data.boundaries)
    met = ngettext("; %(n)s compaction", "; %(n)s compactions", count) % {"n": count}
    words = met if count else _("; no compaction")
    turned = data.would.rotations
    told = ngettext("; as a relay %(n)s rotation", "; as a relay %(n)s rotations", turned) % {"n": whole(turned)}
    would = told if data.would.known else ""
    peak = _(" and a peak of %(peak)s") % {"peak": whole(data.would.peak)} if data.would.peak else ""
    return _(
        "Resident tokens over %(calls)s main calls. The highest is %(tokens)s%(window)s, at call "
        "%(x)s%(words)s%(would)s%(peak)s."
    ) % {
        "calls": whole(data.calls),
        "tokens": whole(best.tokens),
        "window": window,
        "x": whole(best.x),
        "words": words,
        "would": would,
        "peak": peak if would else "",
    }


def _observed(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """Two traces: own calls and copied ones; each repeats the neighbour's point, so that the line has no gap."""
    for copied, name, colour in ((True, "copied", "leg-b"), (False, "observed", "leg-a")):
        x: list[int | None] = []
        y: list[int | None] = []
        for at, point in enumerate(points):
            if point.copied != copied:
                continue
            if at and points[at - 1].copied != copied:
                x += [None, points[at - 1].x]
                y += [None, points[at - 1].tokens]
            x.append(point.x)
            y.append(point.tokens)
        if x:
            words = _(" · copied, counted in another session") if copied else ""
            said = _("call %(n)s<br>%(tokens)s resident tokens") % HOVERED
            yield _scatter(
                x=x, y=y, mode="lines+markers" if len(points) < 3 else "lines", name=name,
                line={"color": var(colour), "width": 1.4 if copied else 2}, marker={"size": 4, "color": var(colour)},
                opacity=0.6 if copied else 1,
                hovertemplate=f"{said}{words}<extra></extra>",
            )  # fmt: skip


def _would(data: Graph) -> Iterator[dict[str, Any]]:
    if data.simulated:
        yield _scatter(
            x=[x for x, _y in data.simulated], y=[y for _x, y in data.simulated], mode="lines", name=_("as a relay"),
            line={"color": var("base"), "width": 1.6, "dash": "dot"},
            hovertemplate=_("call %(n)s<br>%(tokens)s tokens as a relay, simulated") % HOVERED + "<extra></extra>",
        )  # fmt: skip


def _levels(data: Graph, end: float) -> Iterator[dict[str, Any]]:
    for name, value, dash, colour in (
        ("window", data.window, "solid", "line-2"),
        ("mark", data.would.mark, "dash", "mark"),
    ):
        if value:
            line = {"color": var(colour), "width": 1.25, "dash": dash}
            yield _scatter(x=[0, end], y=[value, value], mode="lines", name=name, line=line, hoverinfo="skip")


def _compactions(rows: Sequence[SessionBoundary | BoundaryMark]) -> Iterator[dict[str, Any]]:
    measured = [row for row in rows if row.measured_before is not None and row.measured_after is not None]
    if measured:
        x: list[float | None] = []
        y: list[int | None] = []
        text: list[str | None] = []
        for row in measured:
            words = _("%(row)s after call %(after_call)s: %(measured_before)s to %(measured_after)s") % {
                "row": _kind(row),
                "after_call": whole(row.after_call),
                "measured_before": whole(row.measured_before or 0),
                "measured_after": whole(row.measured_after or 0),
            }
            x += [row.after_call + 0.5, row.after_call + 0.5, None]
            y += [row.measured_before, row.measured_after, None]
            text += [words, words, None]
        yield _scatter(
            x=x, y=y, text=text, mode="lines", name="measured", line={"color": var("stale"), "width": 3},
            hovertemplate=_("%(text)s, measured") % {"text": "%{text}"} + "<extra></extra>",
        )  # fmt: skip
    declared = [
        (row, words, tokens)
        for row in rows
        for words, tokens in ((_("before"), row.declared_pre), (_("after"), row.declared_post))
        if tokens is not None
    ]
    if declared:
        yield _scatter(
            x=[row.after_call + 0.5 for row, _words, _tokens in declared], y=[tokens for *_row, tokens in declared],
            text=[_told(row, words, tokens) for row, words, tokens in declared],
            mode="markers", name="declared",
            marker={
                "symbol": "diamond-open", "size": 8, "color": var("stale"),
                "line": {"width": 1.4, "color": var("stale")},
            },
            hovertemplate=_("%(text)s, as declared") % {"text": "%{text}"} + "<extra></extra>",
        )  # fmt: skip


def _told(row: SessionBoundary | BoundaryMark, words: str, tokens: int) -> str:
    """What a mark says when one points at it."""
    return _("%(kind)s after call %(call)s: %(tokens)s %(words)s") % {
        "kind": _kind(row),
        "call": whole(row.after_call),
        "tokens": whole(tokens),
        "words": words,
    }


def _kind(row: SessionBoundary | BoundaryMark) -> str:
    words = _("tool results cleared") if row.kind == "microcompact" else _("compaction")
    return words if row.trigger == "unknown" else f"{words}, {_(row.trigger)},"


def _rings(calls: Sequence[int], y: float) -> dict[str, Any]:
    return _scatter(
        x=list(calls), y=[y] * len(calls), mode="markers", name=_("would rotate"), cliponaxis=False,
        marker={
            "symbol": "circle-open", "size": 8, "color": var("advisory"),
            "line": {"width": 1.8, "color": var("advisory")},
        },
        hovertemplate=_("would rotate after call %(n)s") % HOVERED + "<extra></extra>",
    )  # fmt: skip


def _words(data: Graph, lane: float) -> Iterator[dict[str, object]]:
    side = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "yanchor": "middle", "align": "left"}
    rows = []
    if data.window:
        rows.append(
            (
                data.window,
                (_("window %(n)s") if data.would.window_declared else _("window %(n)s, assumed"))
                % {"n": k(data.window)},
                "ink-2",
                0.0,
            )
        )
    if data.would.mark:
        share = f" · {100 * data.would.mark / data.window:.0f} %" if data.window else ""
        rows.append(
            (data.would.mark, _("mark %(mark)s%(share)s") % {"mark": k(data.would.mark), "share": share}, "ink", 0.0)
        )
    for value, words, colour, x in rows:
        yield note("wide", words, colour, y=value, **side)
        yield note(
            "narrow", words.split(" · ")[0], colour, xref="paper", x=x, xanchor="left", y=value, yanchor="bottom",
            bgcolor=var("surface"), opacity=0.92,
        )  # fmt: skip
    if data.rotate_at:
        yield note("wide", _("would rotate"), "ink-2", y=-10 * lane, **side)


def _callouts(data: Graph) -> Iterator[dict[str, object]]:
    """`166k → 65k` over each measured compaction and its declared figure, while there are few enough to be read."""
    rows = [row for row in data.boundaries if row.measured_before and row.measured_after]
    if len(rows) > CALLOUTS:
        return
    for row in rows:
        text = f"{k(row.measured_before or 0)} → {k(row.measured_after or 0)}"
        top = max(row.measured_before or 0, row.declared_pre or 0)
        yield note("wide", text, "ink", x=row.after_call + 0.5, y=top, yanchor="bottom", yshift=6)
