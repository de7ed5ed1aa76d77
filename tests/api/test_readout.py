"""`GET /api/v1/relays/<id>/readout`: the seven lines, for whoever has a token that may read."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from relays.actions.base import Actor
from relays.actions.tokens import Made, revoke
from relays.models import ApiToken
from relays.reports.status import status
from tests.report_builders import Story
from tests.web_builders import make_relay, make_user

pytestmark = pytest.mark.django_db
TokenOf = Callable[..., Made]


def get(path: str, secret: str | None, **headers: str):  # type: ignore[no-untyped-def]
    sent = {"Authorization": f"Bearer {secret}"} if secret is not None else {}
    return Client().get(path, headers={**sent, **headers})


def problem(response, status: int) -> str:  # type: ignore[no-untyped-def]
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status
    assert told["type"] == "about:blank"
    assert told["title"]
    assert "\n" not in told["detail"]
    return str(told["detail"])


def test_it_is_the_readout_of_status_with_a_link_to_each_lines_records(token_of: TokenOf, tmp_path: Path) -> None:
    story = Story(tmp_path / "repo", policy={"envelope": {"turns": 100}})
    story.leg(turns=4)
    story.leg(turns=4, reason="")
    found = get(f"/api/v1/relays/{story.relay.pk}/readout", token_of("manager").secret)
    assert found.status_code == 200
    assert found.json()["readout"] == status(story.relay.pk)["readout"]
    assert found.json()["relay"] == story.relay.pk
    assert list(found.json()["records"]) == list(found.json()["readout"])
    viewer = Client()
    viewer.force_login(make_user("", "manager"))
    for line, address in found.json()["records"].items():
        page = viewer.get(address.partition("#")[0])
        assert page.status_code == 200
        assert 'id="records"' in page.content.decode(), line


@pytest.mark.parametrize("how", [{"query": "?format=text"}, {"Accept": "text/plain"}])
def test_as_plain_text_it_is_exactly_the_seven_lines(token_of: TokenOf, how: dict[str, str]) -> None:
    relay = make_relay()
    headers = {name: value for name, value in how.items() if name != "query"}
    found = get(f"/api/v1/relays/{relay.pk}/readout{how.get('query', '')}", token_of("manager").secret, **headers)
    lines = [f"{key}: {value}" for key, value in status(relay.pk)["readout"].items()]
    assert found["Content-Type"].startswith("text/plain")
    assert found.content.decode() == "\n".join(lines) + "\n"
    assert len(lines) == 7


@pytest.mark.parametrize("secret", [None, "", "rly_nothing", "x" * 5000, "rly_\u00e9"])
def test_without_a_token_that_stands_it_is_401(token_of: TokenOf, secret: str | None) -> None:
    token_of("manager")
    path = f"/api/v1/relays/{make_relay().pk}/readout"
    if secret is not None and not secret.isascii():
        secret = secret.encode().decode("latin-1")
    response = get(path, secret)
    assert "token" in problem(response, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_browsers_sign_in_is_no_way_in() -> None:
    client = Client()
    client.force_login(make_user("", "admin"))
    problem(client.get(f"/api/v1/relays/{make_relay().pk}/readout"), 401)


def test_an_expired_a_revoked_and_an_inactive_persons_token_are_401(token_of: TokenOf) -> None:
    path = f"/api/v1/relays/{make_relay().pk}/readout"
    expired, revoked, inactive = (token_of("manager") for _ in range(3))
    assert get(path, expired.secret).status_code == 200
    ApiToken.objects.filter(pk=expired.token.pk).update(expires_at=timezone.now())
    revoke(Actor(revoked.token.user), revoked.token.pk)
    inactive.token.user.is_active = False
    inactive.token.user.save()
    for one in (expired, revoked, inactive):
        problem(get(path, one.secret), 401)


def test_a_role_that_may_not_read_is_403(token_of: TokenOf) -> None:
    detail = problem(get(f"/api/v1/relays/{make_relay().pk}/readout", token_of("sender").secret), 403)
    assert "manager" in detail


def test_a_token_never_has_more_rights_than_its_person_has_now(token_of: TokenOf) -> None:
    made = token_of("manager")
    path = f"/api/v1/relays/{make_relay().pk}/readout"
    assert get(path, made.secret).status_code == 200
    made.token.user.groups.remove(Group.objects.get(name="manager"))
    problem(get(path, made.secret), 403)


@pytest.mark.parametrize("relay_id", ["RLY-none", "x" * 300, "%00", "..", "' OR 1=1 --"])
def test_a_relay_that_is_not_there_is_404(token_of: TokenOf, relay_id: str) -> None:
    make_relay()
    problem(get(f"/api/v1/relays/{relay_id}/readout", token_of("manager").secret), 404)


def test_every_other_address_and_method_answers_in_the_same_form(token_of: TokenOf) -> None:
    secret = token_of("manager").secret
    problem(get("/api/v1/nothing/here", secret), 404)
    problem(get("/api/v1/nothing/here", None), 401)
    refused = Client().delete(
        f"/api/v1/relays/{make_relay().pk}/readout", headers={"Authorization": f"Bearer {secret}"}
    )
    assert "DELETE" in problem(refused, 405)
    assert refused["Allow"] == "GET"


def test_the_openapi_document_has_every_route_and_needs_a_token_or_a_sign_in(token_of: TokenOf) -> None:
    problem(get("/api/v1/openapi.json", None), 401)
    told = get("/api/v1/openapi.json", token_of("manager").secret).json()
    assert told["openapi"].startswith("3.")
    assert {"/api/v1/relays/{relay_id}/readout", "/api/v1/hooks/claude-code"} <= set(told["paths"])
    lines = told["components"]["schemas"]["ReadoutLines"]["required"]
    assert lines == list(status(make_relay().pk)["readout"])
    client = Client()
    assert client.get("/api/v1/").status_code == 302
    client.force_login(make_user("", "manager"))
    page = client.get("/api/v1/").content.decode()
    for path in told["paths"]:
        assert path in page
    assert client.get("/api/v1/openapi.json").json() == told


def test_the_last_use_is_kept_to_the_minute_and_the_secret_never(
    token_of: TokenOf, django_assert_num_queries: Callable[[int], object]
) -> None:
    made = token_of("manager")
    path = f"/api/v1/relays/{make_relay().pk}/readout"
    get(path, made.secret)
    used = ApiToken.objects.get(pk=made.token.pk).used_at
    assert used is not None
    get(path, made.secret)
    assert ApiToken.objects.get(pk=made.token.pk).used_at == used
    ApiToken.objects.filter(pk=made.token.pk).update(used_at=used - timedelta(minutes=2))
    get(path, made.secret)
    assert ApiToken.objects.get(pk=made.token.pk).used_at > used
    kept = ApiToken.objects.filter(pk=made.token.pk).values().get()
    assert made.secret not in str(kept)
    assert len(kept["digest"]) == 64
