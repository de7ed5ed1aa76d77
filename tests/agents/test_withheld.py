"""Secrets that an agent was given do not come out of what it says: neither as they are nor as JSON spells them."""

import json

import pytest

from relays.agents.process import CappedLog
from relays.agents.withheld import Withheld, of_names

SECRET = 'hunter2-"quoted"\\and-long'
ENV = {
    "ANTHROPIC_API_KEY": SECRET,
    "RELAY_TOKEN": "leg-token-of-this-test",
    "GIT_ASKPASS_PASSWORD": "correct horse",
    "MODE_KEY": "short",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
    "RELAY_SOCKET": "/tmp/relay-1/s",
    "LANG_NAME": "English of Britain",
}
GITHUB = "ghp_" + "a1B2" * 9


@pytest.fixture
def withheld() -> Withheld:
    return Withheld(ENV)


def test_a_value_goes_from_an_event_however_json_spells_it(withheld: Withheld) -> None:
    for ascii_only in (True, False):
        line = json.dumps({"kind": "fact", "label": f"é {SECRET} é"}, ensure_ascii=ascii_only).encode()
        kept = json.loads(withheld.line(line))
        assert kept == {"kind": "fact", "label": "é [redacted: ANTHROPIC_API_KEY] é"}


def test_a_line_without_secrets_is_the_same_bytes(withheld: Withheld) -> None:
    for line in (
        b'{"kind": "boundary",  "seq": 3, "next_actions": ["Set token: parser"], "final": false}',
        b'{"kind": "artifact", "ref": "commit:0123456789abcdef0123456789abcdef01234567"}',
        b"\xff\xfe no JSON",
        b'{"path": "/home/me/key.json /tmp/relay-1/s short English of Britain", "https://a": 1}',
    ):
        assert withheld.line(line) == line


def test_a_shape_of_a_secret_goes_and_the_line_stays_an_event(withheld: Withheld) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIabc"
    line = json.dumps({"kind": "fact", "seq": 1, "label": f"use {GITHUB}", "more": [{"x": pem}], "n": 1.5}).encode()
    kept = json.loads(withheld.line(line))
    assert kept["label"] == "use [redacted: token]" and kept["more"] == [{"x": "[redacted: private key]"}]
    assert (kept["kind"], kept["seq"], kept["n"]) == ("fact", 1, 1.5)
    assert GITHUB.encode() not in withheld.line(b"torn {" + GITHUB.encode())


def test_a_use_of_the_query_tool_keeps_the_legs_token_and_nothing_else(withheld: Withheld) -> None:
    line = json.dumps({"token": "leg-token-of-this-test", "verb": "fact", "label": f"{SECRET} {GITHUB}"}).encode()
    kept = json.loads(withheld.line(line, query=True))
    assert kept["token"] == "leg-token-of-this-test"
    assert kept["label"] == "[redacted: ANTHROPIC_API_KEY] [redacted: token]"
    assert b"leg-token" not in withheld.line(line)


def test_a_log_loses_values_and_shapes_line_by_line_however_it_comes(withheld: Withheld, tmp_path) -> None:
    log = CappedLog(tmp_path / "log", withheld=withheld)
    text = f"a {SECRET}\npassword: opensesame99\ncorrect horse {GITHUB}\nlast {SECRET}".encode()
    for start in range(0, len(text), 7):
        log.write(text[start : start + 7])
    log.close()
    kept = (tmp_path / "log").read_text()
    assert kept == (
        "a [redacted: ANTHROPIC_API_KEY]\npassword: [redacted: value]\n[redacted: GIT_ASKPASS_PASSWORD] "
        "[redacted: token]\nlast [redacted: ANTHROPIC_API_KEY]"
    )


def test_a_line_without_end_is_written_when_it_is_long_and_bytes_stay_bytes(withheld: Withheld, tmp_path) -> None:
    log = CappedLog(tmp_path / "log", withheld=withheld)
    log.write(b"\xff" * 70_000)
    assert (tmp_path / "log").read_bytes() == b"\xff" * 70_000
    log.write(b"no end yet")
    assert (tmp_path / "log").stat().st_size == 70_000
    log.flush()
    assert (tmp_path / "log").read_bytes().endswith(b"no end yet")
    log.close()


def test_an_agent_that_is_taken_over_is_known_by_its_variables_names() -> None:
    again = of_names(["ANTHROPIC_API_KEY", "NOT_SET"], ENV)
    assert SECRET.encode() not in again.log(SECRET.encode())
