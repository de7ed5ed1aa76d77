"""The figure of fidelity and coverage per leg: two shapes, so that nobody needs their colours."""

from math import ceil

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.charts.drawing import Drawing, said_instead, scatter
from relays.charts.flat import axis, var
from relays.reports.scores import Score, Scores


def figure(data: Scores) -> Drawing:
    """Percent over leg number: discs are fidelity, diamonds coverage; what is not whole is a cross, or a filled one."""
    fig = Drawing()
    for name, symbols, colours, size in (
        ("fidelity", ("circle", "x"), ("leg-a", "bad"), 7),
        ("coverage", ("diamond-open", "diamond"), ("leg-b", "bad"), 13),
    ):
        points = [(one, value) for one in data.drawn if (value := getattr(one, name)) is not None]
        less = [int(value < 100) for _one, value in points]
        fig.add_trace(
            scatter(
                x=[one.leg for one, _value in points], y=[round(value, 2) for _one, value in points], name=name,
                mode="lines+markers", line={"color": var(colours[0]), "width": 1, "dash": "dot"},
                text=[_text(name, one) for one, _value in points], customdata=[one.leg for one, _value in points],
                marker={
                    "symbol": [symbols[bad] for bad in less], "size": size,
                    "color": [var(colours[bad]) for bad in less],
                    "line": {"width": 1.5, "color": [var(colours[bad]) for bad in less]},
                },
                hovertemplate="%{text}<extra></extra>",
            )
        )  # fmt: skip
    low = min([value for one in data.drawn for value in (one.fidelity, one.coverage) if value is not None], default=100)
    fig.update_layout(
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", showlegend=False, dragmode=False,
        hovermode="closest", margin={"l": 52, "r": 16, "t": 10, "b": 40}, font={"size": 12, "color": var("ink-2")},
        hoverlabel={
            "bgcolor": var("raised"), "bordercolor": var("line-2"), "font": {"color": var("ink"), "size": 12},
            "align": "left",
        },
        xaxis=axis(
            showgrid=False, ticks="outside", ticklen=3, tick0=0, tickformat="d",
            dtick=max(1, ceil((data.drawn[-1].leg - data.drawn[0].leg) / 12)) if data.drawn else 1,
            range=[data.drawn[0].leg - 0.5, data.drawn[-1].leg + 0.5] if data.drawn else [0, 1],
            showticklabels=bool(data.drawn),
            title={"text": _("leg"), "font": {"size": 11, "color": var("ink-2")}, "standoff": 6},
        ),
        yaxis=axis(range=[max(0, min(low, 80) - 8), 104], ticksuffix=" %", nticks=5),
        annotations=[] if data.drawn else [said_instead(alternative(data))],
        meta={"narrow": {"margin": {"l": 44, "r": 10, "t": 10, "b": 40}, "nticks": 5}},
    )  # fmt: skip
    return fig


def _text(name: str, one: Score) -> str:
    if name == "fidelity":
        said = _("leg %(leg)s: %(verified)s of %(all)s pointers of its baton verified")
        text = said % {"leg": one.leg, "verified": one.verified, "all": one.verified + one.dangling}
        return text + (", " + _("%s unknown") % one.unknown if one.unknown else "")
    said = _("leg %(leg)s: %(reached)s of %(made)s that it durably made are reached")
    return said % {"leg": one.leg, "reached": one.reached, "made": one.made}


def alternative(data: Scores) -> str:
    """The chart in a sentence."""
    if not data.judged:
        return _("Not yet: a baton is judged when its successor reloads it.")
    bad = [
        one for one in data.drawn if any(value is not None and value < 100 for value in (one.fidelity, one.coverage))
    ]
    over = ngettext("%(n)s leg", "%(n)s legs", data.judged) % {"n": data.judged}
    if not bad:
        return _("Fidelity and coverage of %s: each is 100 %%.") % over
    said = _("Fidelity and coverage of %(legs)s. Below 100 %%: leg %(bad)s.")
    return said % {"legs": over, "bad": ", ".join(str(one.leg) for one in bad[-8:])}
