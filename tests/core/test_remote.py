"""Where a finished branch may go: addresses that are taken, what none may hold, and the page of a pull request."""

import pytest

from relays.core import policy
from relays.core.policy import PolicyError
from relays.core.remote import address, pull_request


@pytest.mark.parametrize(
    "text",
    ["", "https://github.com/acme/orders.git", "ssh://git@git.acme.example:2222/orders", "git@github.com:acme/orders",
     "/srv/git/orders.git", "file:///srv/git/orders.git"],
)  # fmt: skip
def test_an_address_is_kept_as_it_is(text: str) -> None:
    assert address(f" {text} ") == text


@pytest.mark.parametrize(
    "text",
    ["https://ann:secret@github.com/acme/orders", "ext::sh -c id", "--upload-pack=id", "http://github.com/a/b",
     "-oProxyCommand=id@host:x", "host:x", "../elsewhere", "git@-oProxyCommand=id:x", "https://a/b c", "/a\nb", 7,
     "ssh://-oProxyCommand=id/x", "git@host:-x", "-oX@host:x", "ssh://-oX@host/x", "a" * 600],
)  # fmt: skip
def test_nothing_else_is_taken(text: object) -> None:
    with pytest.raises(ValueError, match="without a password"):
        address(text)


def test_a_policy_allows_no_push_by_itself_and_a_repository_never_says_where() -> None:
    plain = policy.build({}, None, {})
    assert (plain.push_to, plain.pull_request) == ("", False)
    assert policy.build({}, None, {"push_to": "/srv/git/o.git"}).push_to == "/srv/git/o.git"
    with pytest.raises(PolicyError, match="a repository may not set it"):
        policy.build({}, {"push_to": "/srv/git/o.git"}, {})


@pytest.mark.parametrize(
    ("where", "page"),
    [
        ("git@github.com:acme/orders.git", "https://github.com/acme/orders/compare/relay/RLY-1?expand=1"),
        ("https://github.com/acme/orders", "https://github.com/acme/orders/compare/relay/RLY-1?expand=1"),
        ("ssh://git@gitlab.com/acme/team/orders.git",
         "https://gitlab.com/acme/team/orders/-/merge_requests/new?merge_request%5Bsource_branch%5D=relay%2FRLY-1"),
        ("https://git.acme.example/orders", ""), ("/srv/git/orders.git", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_known_host_has_a_page_for_a_pull_request(where: str, page: str) -> None:
    assert pull_request(where, "relay/RLY-1") == page
