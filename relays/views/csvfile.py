"""A table as a CSV file, row by row, with cells that no spreadsheet takes for a formula."""

import csv
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal

from django.http import StreamingHttpResponse


def cell(value: object) -> str:
    """A value as text; text that begins like a formula (= + - @, tab, return) gets an apostrophe before it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


class _Line:
    def write(self, text: str) -> str:
        return text


def csv_response(name: str, rows: Iterable[Iterable[object]]) -> StreamingHttpResponse:
    """Streams the rows as `name`; the first row names the columns."""
    writer = csv.writer(_Line())

    def lines() -> Iterator[str]:
        for row in rows:
            yield writer.writerow([cell(value) for value in row])

    response = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
