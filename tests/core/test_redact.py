"""Secrets of the known shapes go, everything else stays."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.redact import redact, redact_record

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SECRETS = {
    "sk-" + "ant-api03-" + "A1b2C3d4E5f6G7h8I9j0": "key",
    "sk-" + "proj-" + "A1b2C3d4E5f6G7h8I9j0": "key",
    "ghp" + "_" + "A1b2C3d4E5f6G7h8I9j0K1l2": "token",
    "github_pat" + "_" + "11ABCDEFG0_A1b2C3d4E5f6": "token",
    "glpat" + "-" + "A1b2C3d4E5f6G7h8I9j0": "token",
    "xoxb" + "-1234567890-abcdefghij": "token",
    "AKIA" + "ABCDEFGHIJKLMNOP": "key",
    "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p": "key",
    "eyJ" + "hbGciOiJI.eyJ" + "zdWIiOiIx.c2lnbmF0dXJl": "token",
    "npm" + "_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6": "token",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_of_a_known_shape_goes_and_its_surroundings_stay(secret: str) -> None:
    assert redact(f"before {secret} after") == f"before [redacted: {SECRETS[secret]}] after"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef0123456789abcd", "abcdef0123456789abcd"),
        ("postgres://app:hunter2hunter@db:5432/x", "hunter2hunter"),
        ("DATABASE_PASSWORD=correct-horse-battery", "correct-horse-battery"),
        ('{"client_secret": "a b c d e f"}', "a b c d e f"),
        ("aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCY", "wJalrXUtnFEMIK7MDENGbPxRfiCY"),
        ("export API_KEY='q w e r t y'", "q w e r t y"),
        ("tool --token abcdef0123456789", "abcdef0123456789"),
        ("https://hooks.slack.com/services/T000/B000/abcdefgh", "T000/B000/abcdefgh"),
        (r'{"password": "with \" quote inside"}', "quote inside"),
    ],
)
def test_a_named_secret_goes_and_its_name_stays(text: str, secret: str) -> None:
    shown = redact(text)
    assert secret not in shown
    assert "[redacted: " in shown
    assert shown.startswith(text[:8])


def test_a_private_key_goes_even_where_its_end_was_cut_off() -> None:
    head = "-----BEGIN RSA " + "PRIVATE KEY-----"
    whole = f"a\n{head}\nMIIB\nAAAA\n-----END RSA PRIVATE KEY-----\nb"
    assert redact(whole) == "a\n[redacted: private key]\nb"
    assert redact(f"a\n{head}\nMIIB") == "a\n[redacted: private key]"


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096, input_tokens=178612 and token counts",
        "the password is read from $PASSWORD",
        "password = os.environ['DB_PASSWORD']",
        "commit 0123456789abcdef0123456789abcdef01234567 touches src/token_store.py",
        "token: null, secret: <your secret>, api_key: string",
        "a task-runner-with-a-long-name and risk-assessment-of-things",
        "https://example.org/a/b?page=2#tokens",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@given(st.text(), st.sampled_from(sorted(SECRETS)), st.text())
def test_a_second_pass_changes_nothing(before: str, secret: str, after: str) -> None:
    once = redact(f"{before} {secret} {after}")
    assert redact(once) == once
    assert secret not in once


@given(st.text(alphabet="abc \n.,:", max_size=300))
def test_plain_words_are_left_alone(text: str) -> None:
    assert redact(text) == text


def test_it_takes_time_in_proportion_to_the_text() -> None:
    """No shape may run away on hostile text: a bounded number of steps is seen by the size that it can take at all."""
    for hostile in (
        "-----BEGIN " * 20_000,
        "token" * 40_000,
        "a:" * 100_000,
        "https://" * 30_000,
        "password='" * 20_000,
    ):
        assert not re.search("hunter2", redact(hostile))


def test_a_record_keeps_its_shape_and_loses_its_secrets() -> None:
    record = {
        "a": ["plain", {"password": "correct horse", "tokens": 7, "token": None, "note": 'say "api_key": "a b c d e"'}],
        "api_key": "$KEY",
        "n": 1.5,
        "deep": [[True]],
    }
    shown = redact_record(record)
    assert shown["a"][0] == "plain" and shown["n"] == 1.5 and shown["deep"] == [[True]] and shown["api_key"] == "$KEY"
    inner = shown["a"][1]
    assert inner["password"] == "[redacted: value]" and inner["tokens"] == 7 and inner["token"] is None
    assert "a b c d e" not in inner["note"] and inner["note"].startswith("say ")


def test_a_record_that_is_deeper_than_anyone_writes_is_cut() -> None:
    deep: object = "ghp" + "_" + "A1b2C3d4E5f6G7h8I9j0K1l2"
    for _ in range(500):
        deep = [deep]
    assert "[left out: too deep]" in str(redact_record(deep)) and "A1b2" not in str(redact_record(deep))


@pytest.mark.parametrize("piece", ["-", ".", "a-", "token", "-----BEGIN PRIVATE KEY-----\n", "secret='", "x://y:"])
def test_a_line_of_anything_costs_time_in_proportion_to_its_length(piece: str) -> None:
    text = piece * (256 * 1024 // len(piece))
    begun = time.thread_time()
    redact(text)
    assert time.thread_time() - begun < 2.5, "every look at a leg's log reads so much"


def test_a_name_of_any_length_names_its_secret() -> None:
    assert redact("--" + "my-" * 40 + "api-key=hunter2hunter2") == "--" + "my-" * 40 + "api-key=[redacted: value]"


@pytest.mark.parametrize("before", ["x-api-key: ", "--api-key ", '"access-key": "', "api-key=", "privateKey="])
def test_a_name_is_written_with_a_dash_too(before: str) -> None:
    assert "hunter2hunter2" not in redact(f"{before}hunter2hunter2")
