"""`/docs/`: what every word, figure, key and setting means, for whoever is signed in."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays.reports import docs as report
from relays.reports import explained
from relays.reports.vocabulary import vocabulary

TABLES = {
    "figures": explained.figures,
    "policy": explained.policy_rows,
    "settings": explained.settings_rows,
    "tokens": vocabulary,
}


@require_safe
def docs(request: HttpRequest, slug: str = "") -> HttpResponse:
    """The list of pages, or one of them."""
    pages = [(one, _(title)) for one, (title, _table) in report.PAGES.items()]
    if not slug:
        return render(request, "relays/docs/page.html", {"pages": pages})
    if slug not in report.PAGES:
        raise Http404(_("There is no such page in the docs."))
    title, table = report.PAGES[slug]
    text = report.text_of(slug)
    context = {
        "pages": pages,
        "slug": slug,
        "title": _(title),
        "language": text.language,
        "text": mark_safe(text.html),  # noqa: S308 - a Markdown file of this repository, nothing that anybody sent
        "table": table,
        "rows": TABLES[table]() if table else (),
    }
    return render(request, "relays/docs/page.html", context)
