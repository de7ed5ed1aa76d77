"""What each role may see and press, for every address there is, against one table (`tests/access.toml`).

Issue: "what each may see and press is a table in the tests, generated for every URL".
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, resolve

from relays.actions import tokens
from relays.actions.base import Actor
from tests.whole_house import ROLES, World, build, patterns

pytestmark = pytest.mark.django_db
TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parents[1] / "access.toml").read_text(encoding="utf-8"))
EVERYBODY = ("nobody", "norole", *ROLES)
WHO: dict[str, frozenset[str]] = {
    "open": frozenset(EVERYBODY),
    "signed": frozenset(EVERYBODY) - {"nobody"},
    "read": frozenset(ROLES),
    "operate": frozenset({"operator", "admin"}),
    "review": frozenset({"reviewer", "admin"}),
    "verify": frozenset({"operator", "reviewer", "admin"}),
    "manage": frozenset({"manager", "admin"}),
    "administer": frozenset({"admin"}),
}
#: streams without an end are asked for by their own tests
ENDLESS = {"live"}


class Undone(Exception):
    """Ends a request's changes."""


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is pressed inside never happened for the next one."""
    try:
        with transaction.atomic():
            yield
            raise Undone
    except Undone:
        pass


@pytest.fixture
def world(tmp_path: Path) -> World:
    return build(tmp_path)


def client_of(world: World, role: str) -> Client:
    client = Client(raise_request_exception=False)
    if role != "nobody":
        client.force_login(world.users[role])
    return client


def outcome(answer: HttpResponse) -> str:
    """allowed, refused (403), sign-in (sent there), not served (405), or failed."""
    code = answer.status_code
    if code in (301, 302, 303) and answer.headers.get("Location", "").startswith("/sign-in/?"):
        return "sign-in"
    if code >= 500 and code != 503:
        return f"failed with {code}"
    return {401: "refused", 403: "refused", 405: "not served"}.get(code, "allowed")


def wanted(role: str, who: str | None) -> tuple[str, ...]:
    if who is not None and role in WHO[who]:
        return ("allowed",)
    if role == "nobody":
        return ("sign-in", "refused", "not served") if who is None else ("sign-in", "refused")
    return ("refused",) if who is not None else ("not served",)


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    named = {name for name, _, route in patterns() if name}
    assert named == set(TABLE["pages"]) | set(TABLE["programs"]), "tests/access.toml: a row for each named address"
    unnamed = [route for name, _, route in patterns() if not name]
    assert unnamed == ["/api/v1/^.*$"], "an address without a name has no row"


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_who_may_see_and_press_what(world: World) -> None:
    wrong: list[str] = []
    for role in EVERYBODY:
        client = client_of(world, role)
        for name, words, _ in patterns():
            row = TABLE["pages"].get(name)
            if row is None or name in ENDLESS:
                continue
            assert set(row) <= {"see", "press"}, name
            address = world.address(name, words)
            for method, who in (("GET", row.get("see")), ("POST", row.get("press")), ("PUT", None), ("DELETE", None)):
                with undone():
                    told = outcome(getattr(client, method.lower())(address, data=world.forms.get(name, {})))
                if name == "sign_out" and method == "POST":
                    client = client_of(world, role)
                if told not in wanted(role, who):
                    wrong.append(f"{name}: {method} as {role}: {told}, not {' or '.join(wanted(role, who))}")
    assert not wrong, "\n".join(wrong)


class Links(HTMLParser):
    """Where a page's links lead, and what its buttons post to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.presses: set[str] = set()
        self.inside = ""
        self.posting = False
        self.named: dict[str, str] = {}
        self.elsewhere: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "a" and (told.get("href") or "").startswith("/"):
            self.links.add(str(told["href"]))
        if tag == "form":
            self.posting, self.inside = (told.get("method") or "").lower() == "post", told.get("action") or ""
            if self.posting:
                self.named[told.get("id") or ""] = self.inside
        if "disabled" in told:
            return
        if tag in ("button", "input") and told.get("type", "submit" if tag == "button" else "text") == "submit":
            if told.get("formaction"):
                self.presses.add(str(told["formaction"]))
            elif told.get("form"):
                self.elsewhere.add(str(told["form"]))
            elif self.posting:
                self.presses.add(self.inside)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.posting = False

    def pressed(self) -> set[str]:
        return self.presses | {self.named.get(form, f"#{form}, a form that is not there") for form in self.elsewhere}


def name_of(address: str) -> str:
    try:
        return resolve(address.partition("?")[0].partition("#")[0]).url_name or ""
    except Resolver404:
        return ""


@pytest.mark.slow
@pytest.mark.postgres
def test_no_page_offers_what_its_reader_may_not_do_or_what_is_not_there(world: World) -> None:
    wrong: list[str] = []
    pressed: set[str] = set()
    for role in ROLES:
        client = client_of(world, role)
        for name, words, _ in patterns():
            see = TABLE["pages"].get(name, {}).get("see")
            if see is None or role not in WHO[see] or name in ENDLESS:
                continue
            address = world.address(name, words)
            answer = client.get(address)
            if answer.streaming or not answer.headers.get("Content-Type", "").startswith("text/html"):
                continue
            found = Links()
            found.feed(answer.content.decode())
            for target in found.pressed():
                act = name_of(target) or (name if not target else "")
                pressed.add(act)
                may = TABLE["pages"].get(act, {}).get("press")
                if may is None or role not in WHO[may]:
                    wrong.append(f"{name} as {role} has a button for {act or target}")
            for target in found.links:
                there = name_of(target)
                row = TABLE["pages"].get(there) or TABLE["programs"].get(there)
                if row is None or (there in TABLE["pages"] and role not in WHO.get(row.get("see", ""), ())):
                    wrong.append(f"{name} as {role} links to {there or target}")
    assert not wrong, "\n".join(sorted(set(wrong)))
    assert {"relay_stop", "gate_decide", "baton_verify", "sign_out", "tokens", "layout"} <= pressed


@pytest.mark.slow
@pytest.mark.postgres
def test_tokens_of_programs(world: World) -> None:
    """A call without a token is refused, one with it is answered as far as its role goes, and none opens a page."""
    admin = world.users["admin"]
    secrets = {role: tokens.add(Actor(admin), name=role, role=role, days=1).secret for role in (*ROLES, "sender")}
    secrets |= {"": "", "wrong": "rs_" + "0" * 43}
    wrong: list[str] = []
    for name, words, _ in patterns():
        row = TABLE["programs"].get(name)
        if row is None:
            continue
        assert set(row) <= {"get", "post"}, name
        address = world.address(name, words)
        for role, secret in secrets.items():
            client = Client(
                headers={"authorization": f"Bearer {secret}"} if secret else {}, raise_request_exception=False
            )
            for method in ("get", "post"):
                who = row.get(method)
                with undone():
                    code = getattr(client, method)(address).status_code
                if who is None:
                    fine = code in (401, 405)
                elif who == "any":
                    fine = code == 200
                else:
                    fine = code not in (401, 403, 405) if role in WHO[who] else code in (401, 403)
                    fine = fine and (bool(role) and role != "wrong" or code == 401)
                if not fine:
                    wrong.append(f"{name}: {method} with a token of {role or 'nobody'}: {code}")
    pages = Client(headers={"authorization": f"Bearer {secrets['admin']}"})
    wrong += [
        f"a token opens {address}" for address in ("/", "/relays/", "/tokens/") if pages.get(address).status_code != 302
    ]
    assert not wrong, "\n".join(wrong)


def test_an_account_that_is_closed_has_nothing(world: World) -> None:
    client = client_of(world, "admin")
    User.objects.filter(username="admin-one").update(is_active=False)
    for address in ("/", "/relays/", "/layout/"):
        assert outcome(client.get(address)) == "sign-in"
