"""What is read of one relay: for now its operator readout."""

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema

from relays import access
from relays.core import readout
from relays.reports import evidence, status

router = Router(tags=["relays"])


class ReadoutLines(Schema):
    """The value text of each line; `not yet` where no record says."""

    objective: str
    budget: str
    resident_view: str
    assumptions: str
    reset: str
    memory: str
    cache: str


class ReadoutAnswer(Schema):
    """`records`: per line the page that shows its records, from the site's root."""

    relay: str
    status: str
    readout: ReadoutLines
    records: ReadoutLines


@router.get("/relays/{relay_id}/readout", response=ReadoutAnswer, summary="The seven lines of the operator readout")
def relay_readout(request: HttpRequest, relay_id: str, format: str = "") -> HttpResponse | dict[str, object]:
    """JSON, or with `?format=text` or `Accept: text/plain` the lines as text to paste."""
    found = access.load_relay(request, relay_id)
    values = status.operator_readout(found)
    if format == "text" or (not format and wants_text(request)):
        return text_answer(values)
    return {
        "relay": found.pk,
        "status": found.status,
        "readout": readout.as_mapping(values),
        "records": evidence.addresses(found.pk),
    }


def wants_text(request: HttpRequest) -> bool:
    """Whether plain text is what the caller would rather have."""
    return request.get_preferred_type(["application/json", "text/plain"]) == "text/plain"


def text_answer(values: readout.Readout) -> HttpResponse:
    return HttpResponse("\n".join(readout.lines(values)) + "\n", content_type="text/plain; charset=utf-8")
