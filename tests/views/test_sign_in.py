"""Signing in and out: by name and password, by a one-time link; waits after failures; nothing is open by mistake."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from relays.access import make_sign_in_link
from relays.models import SignInLink
from tests.reading import marked
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
RIGHT = {"username": "mara", "password": "correct horse"}
WRONG = {"username": "mara", "password": "wrong horse"}


@pytest.fixture
def mara() -> User:
    return make_user("mara", "operator", password="correct horse")


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_the_right_password_signs_in_and_goes_where_one_wanted_to(mara: User) -> None:
    client = Client()
    page = marked(client.get("/sign-in/?next=/relays/"))
    assert 'name="next" value="/relays/"' in page and "Sign in" in page
    answer = client.post("/sign-in/", {**RIGHT, "next": "/relays/"})
    assert answer.headers["Location"] == "/relays/" and signed_in(client)
    assert client.get("/sign-in/").headers["Location"] == "/"


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"]
)
def test_nobody_is_sent_to_another_site(mara: User, target: str) -> None:
    assert Client().post("/sign-in/", {**RIGHT, "next": target}).headers["Location"] == "/"


def test_a_wrong_password_and_an_unknown_or_inactive_name_get_the_same_answer(mara: User) -> None:
    mara.is_active = False
    mara.save()
    answers = [Client().post("/sign-in/", form) for form in (RIGHT, {"username": "nobody", "password": "x"})]
    for answer in answers:
        assert answer.status_code == 400 and "do not fit together" in marked(answer)


def test_after_five_failures_one_has_to_wait_even_with_the_right_password(mara: User) -> None:
    client = Client()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        assert [client.post("/sign-in/", WRONG).status_code for _ in range(5)] == [400, 400, 400, 400, 429]
        answer = client.post("/sign-in/", RIGHT)
        assert answer.status_code == 429 and answer["Retry-After"] == "30" and not signed_in(client)
        assert "Wait 30 s" in marked(answer)
        assert Client().post("/sign-in/", {**WRONG, "username": "MARA"}).status_code == 429, "the same name in capitals"
        assert Client(REMOTE_ADDR="10.9.8.7").post("/sign-in/", RIGHT).status_code == 302, "another address may"
        clock.shift(31)
        assert client.post("/sign-in/", WRONG).status_code == 429, "the next failure doubles the wait"
        clock.shift(31)
        assert client.post("/sign-in/", RIGHT).status_code == 429
        clock.shift(30)
        assert client.post("/sign-in/", RIGHT).status_code == 302
        client.post("/sign-out/")
        assert client.post("/sign-in/", WRONG).status_code == 400, "a success forgets the failures"


def test_one_address_cannot_try_names_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relays.views.sign_in.FREE_ADDRESS", 8)
    codes = [Client().post("/sign-in/", {"username": f"name{n}", "password": "x"}).status_code for n in range(9)]
    assert codes == [400] * 7 + [429, 429]


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "\ud800"])
def test_odd_names_are_refused_like_others(name: str) -> None:
    form = {"username": name.encode("utf-8", "replace").decode(), "password": "x"}
    assert Client().post("/sign-in/", form).status_code == 400


def test_looking_at_a_link_does_not_use_it_up_and_one_press_does(mara: User) -> None:
    path = make_sign_in_link(mara)
    client = Client()
    for _ in range(2):
        page = client.get(path)
        assert page.status_code == 200 and not signed_in(client) and page["Referrer-Policy"] == "same-origin"
        assert "no-store" in page["Cache-Control"]
    assert client.post(path).headers["Location"] == "/" and signed_in(client)
    other = Client()
    assert other.post(path).status_code == 410 and not signed_in(other)
    assert other.get(path).status_code == 410


def test_the_secret_of_a_link_is_not_stored(mara: User) -> None:
    secret = make_sign_in_link(mara).split("/")[2]
    link = SignInLink.objects.get()
    assert len(secret) >= 43 and secret not in link.digest and len(link.digest) == 64


def test_a_link_that_is_over_or_of_an_inactive_user_does_not_sign_in(mara: User) -> None:
    over = make_sign_in_link(mara, minutes=5)
    with time_machine.travel(timezone.now() + timedelta(minutes=6)):
        assert Client().get(over).status_code == 410 and Client().post(over).status_code == 410
    User.objects.update(is_active=False)
    assert Client().post(make_sign_in_link(mara)).status_code == 410
    assert Client().post("/sign-in/never-given-out/").status_code == 410


def test_a_link_whose_user_was_deleted_is_over(mara: User) -> None:
    path = make_sign_in_link(mara)
    mara.delete()
    assert Client().post(path).status_code == 410


def test_signing_out_takes_a_post_and_ends_it(client_of: ClientOf) -> None:
    client = client_of("operator")
    assert client.get("/sign-out/").status_code == 405 and signed_in(client)
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/" and not signed_in(client)


def test_forms_need_their_secret(mara: User) -> None:
    client = Client(enforce_csrf_checks=True)
    for path in ("/sign-in/", make_sign_in_link(mara)):
        answer = client.post(path, RIGHT)
        assert answer.status_code == 403 and not signed_in(client)
        assert "This form is too old" in marked(answer)


def test_other_methods_are_refused() -> None:
    assert Client().put("/sign-in/").status_code == 405
    assert Client().delete("/sign-in/abc/").status_code == 405


def test_every_page_but_these_needs_sign_in() -> None:
    opened = {"sign_in", "sign_in_link", "healthz", "readyz"}
    for pattern in get_resolver("relays.views.urls").url_patterns:
        view = pattern.callback
        assert getattr(view, "login_required", True) is (pattern.name not in opened), pattern.name


def test_health_is_open_and_ready_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().get("/healthz").content == b"ok\n"
    assert Client().get("/readyz").json() == {"ready": True}
    assert Client().post("/readyz").status_code == 405
    monkeypatch.setattr("relays.reports.health.MigrationExecutor.migration_plan", lambda *_: ["something"])
    answer = Client().get("/readyz")
    assert answer.status_code == 503 and "migrate" in answer.json()["fix"]


def test_pages_are_strict_about_scripts_and_styles(mara: User) -> None:
    for path in ("/sign-in/", "/nope/", make_sign_in_link(mara)):
        answer = Client().get(path)
        policy = answer["Content-Security-Policy"]
        assert "script-src 'self'" in policy and "style-src 'self'" in policy and "unsafe" not in policy
        page = marked(answer)
        assert " style=" not in page and " onclick=" not in page and "<style" not in page and "<script>" not in page


def test_an_address_that_is_no_page_says_so_to_everybody(client_of: ClientOf) -> None:
    for client in (Client(), client_of("operator")):
        answer = client.get("/nope/")
        assert answer.status_code == 404 and "There is no page at /nope/" in marked(answer)
