"""Where a finished branch may be pushed: an address that a policy names, and a host's page for a pull request.

Interface: "when done: the diff of its branch, the merge command, push or pull request where policy allows". The address
is the policy's own and never read from the repository: whoever works in that repository may write its config.
"""

import re
from urllib.parse import quote

from relays.core.sentences import RuleError, phrase

MOST = 500
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"
_PATH = r"[A-Za-z0-9._~/+@%-]+"
_FORMS = (
    re.compile(rf"https://(?P<host>{_HOST})(?::[0-9]{{1,5}})?/(?P<path>{_PATH})"),
    re.compile(rf"ssh://(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?(?P<host>{_HOST})(?::[0-9]{{1,5}})?/(?P<path>{_PATH})"),
    re.compile(rf"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)(?P<host>{_HOST}):(?P<path>[A-Za-z0-9._~+%][A-Za-z0-9._~/+@%-]*)"),
    re.compile(rf"(?:file://)?(?P<path>/{_PATH})"),
)


def address(value: object) -> str:
    """An address that may be pushed to, "" = none; RuleError says which forms there are.

    A password in it is refused: it would stand in every snapshot and decision. A key or a credential helper has it.
    """
    text = value.strip() if isinstance(value, str) else None
    if text == "" or value is None:
        return ""
    if text is None or len(text) > MOST or not any(form.fullmatch(text) for form in _FORMS):
        raise RuleError(
            phrase(
                "must be https://host/path, ssh://user@host/path, user@host:path or an absolute path, "
                "without a password"
            )
        )
    return text


def pull_request(where: str, branch: str) -> str:
    """The page on which the host of `where` opens a pull request for `branch`; "" where none is known."""
    found = next((match for form in _FORMS if (match := form.fullmatch(where))), None)
    host = found.groupdict().get("host") if found else None
    if found is None or not host:
        return ""
    path = found["path"].strip("/").removesuffix(".git")
    name = quote(branch, safe="/")
    if host == "github.com" or host.startswith("github."):
        return f"https://{host}/{path}/compare/{name}?expand=1"
    if host == "gitlab.com" or host.startswith("gitlab."):
        return f"https://{host}/{path}/-/merge_requests/new?merge_request%5Bsource_branch%5D={quote(branch, safe='')}"
    if host == "bitbucket.org":
        return f"https://{host}/{path}/pull-requests/new?source={quote(branch, safe='')}"
    if host == "codeberg.org" or host.startswith(("gitea.", "forgejo.")):
        return f"https://{host}/{path}/compare/{name}"
    return ""
