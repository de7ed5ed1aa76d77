"""Which failed call is which trouble: one table for every bridge, by what the programs really say."""

import pytest

from relays.agents.outages import trouble
from relays.core.backoff import Trouble


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (429, Trouble.OVERLOAD), (500, Trouble.OVERLOAD), (502, Trouble.OVERLOAD), (503, Trouble.OVERLOAD),
        (504, Trouble.OVERLOAD), (529, Trouble.OVERLOAD), (401, Trouble.SIGN_IN), (403, Trouble.SIGN_IN),
        (408, Trouble.NETWORK), (400, None), (404, None), (413, None), (422, None),
    ],
)  # fmt: skip
def test_a_status_says_what_it_is_whatever_the_words_are(status: int, cause: Trouble | None) -> None:
    assert trouble(status, "rate limit, not logged in, socket hang up") == cause


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("Overloaded", Trouble.OVERLOAD),
        ("Rate Limited", Trouble.OVERLOAD),
        ("We're currently experiencing high demand, which may cause temporary errors.", Trouble.OVERLOAD),
        ("unexpected status 529 <unknown status code>", Trouble.OVERLOAD),
        ("Attempt 1 failed with status 500. Retrying", Trouble.OVERLOAD),
        ("The model is overloaded. Please try again later. UNAVAILABLE", Trouble.OVERLOAD),
        ("RESOURCE_EXHAUSTED: quota of this minute", Trouble.OVERLOAD),
        ("Cannot connect to API: Unable to connect. Is the computer able to access the url?", Trouble.NETWORK),
        ("connect ECONNREFUSED 127.0.0.1:1", Trouble.NETWORK),
        ("TypeError: fetch failed", Trouble.NETWORK),
        ("stream disconnected before completion: error sending request", Trouble.NETWORK),
        ("getaddrinfo EAI_AGAIN api.example.org", Trouble.NETWORK),
        ("OAuth token has expired. Please run /login", Trouble.SIGN_IN),
        ("Invalid API key · Please run /login", Trouble.SIGN_IN),
        ("unexpected status 401 Unauthorized: Missing bearer", Trouble.SIGN_IN),
        ("authentication_error: invalid x-api-key", Trouble.SIGN_IN),
        ("API key not valid. Please pass a valid API key.", Trouble.SIGN_IN),
        ("prompt is too long: 210000 tokens > 200000 maximum", None),
        ("line 4010 of the file", None),
        ("", None),
    ],
)
def test_without_a_status_the_words_say_it(words: str, cause: Trouble | None) -> None:
    assert trouble(None, words) == cause
    assert trouble(0, words) == cause
