"""What an agent program's failed call of its model is for the relay: an overload, a network loss, a lost sign-in.

Issue: "API overload (429, 500, 529), network loss, expired sign-in: the leg waits, resumes or parks with the reason in
plain words". One table for all bridges; standard library only. What is neither (a request that the model refuses) is
no back-off: no further try helps, and the program's end says the rest.
"""

import re
from typing import Final

OVERLOAD: Final = "overload"
NETWORK: Final = "network"
SIGN_IN: Final = "sign_in"

_SIGN_IN: Final = re.compile(
    r"authentication[_ ](?:error|failed|required)|(?:status|code|error|http)\W{0,3}401\b"
    r"|invalid[ _](?:x-)?api[ _-]?key|incorrect api key"
    r"|api key (?:is )?(?:not valid|expired|missing)|unauthori[sz]ed|unauthenticated|not (?:logged|signed) in"
    r"|(?:log|sign) ?in again|please (?:run )?/?(?:log|sign) ?in|sign-?in (?:has )?(?:expired|failed)|credentials? "
    r"(?:have |has )?(?:expired|missing|not found)|(?:oauth|access|refresh) token (?:has )?(?:expired|been revoked|is "
    r"invalid)|token (?:has )?expired|invalid_grant|could not load (?:the )?default credentials",
    re.IGNORECASE,
)
_OVERLOAD: Final = re.compile(
    r"overloaded|rate[ _-]?limit|too many requests|high demand|resource[ _]exhausted|quota|capacity|unavailable"
    r"|server[ _]error|api_error|internal (?:server )?error|bad gateway|gateway time-?out"
    r"|(?:status|code|error|http)\W{0,3}(?:429|5\d\d)\b",
    re.IGNORECASE,
)
_NETWORK: Final = re.compile(
    r"econn\w+|enotfound|eai_again|etimedout|epipe|enetunreach|ehostunreach|socket hang ?up|network|fetch failed"
    r"|(?:cannot|could not|unable to|failed to) connect|connection (?:error|refused|reset|closed|lost|timed out)"
    r"|timed? ?out|stream (?:disconnected|closed|ended|error)|disconnected|premature(?:ly)? close|terminated"
    r"|dns|error sending request|getaddrinfo|reconnecting",
    re.IGNORECASE,
)


def trouble(status: int | None, words: str = "") -> str | None:
    """The cause of the event `retry`, by the HTTP status where there is one, else by the program's words.

    None for what no wait and no sign-in changes: the program's end says it.
    """
    if status is not None and status > 0:
        return _of_status(status)
    for cause, shape in ((SIGN_IN, _SIGN_IN), (OVERLOAD, _OVERLOAD), (NETWORK, _NETWORK)):
        if shape.search(words[:4000]):
            return cause
    return None


def _of_status(status: int) -> str | None:
    if status in (401, 403):
        return SIGN_IN
    if status in (408, 425):
        return NETWORK
    return OVERLOAD if status == 429 or 500 <= status <= 599 else None
