"""The data of a session's graph in its page: what the browser parses is what was given, whatever stands in it."""

import json

from django.utils.html import json_script

from relays.views.session import _data


def test_data_in_a_page_ends_no_script_and_is_read_as_given() -> None:
    given = {"text": "</script><b>&amp;' \"é\u2028", "numbers": [1, None, 2.5]}
    written = str(_data("d-x", given))
    head, end = '<script id="d-x" type="application/json">', "</script>"
    assert written.startswith(head) and written.endswith(end)
    inside = written[len(head) : -len(end)]
    assert not set("<>&") & set(inside)
    assert json.loads(inside) == given
    theirs = json_script(given, "d-x")
    assert json.loads(theirs[len(head) : -len(end)]) == given and theirs.startswith(head)
