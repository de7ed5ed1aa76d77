"""`/tokens/`, `relay token` and their one act: shown once, kept hashed, revoked at once."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from relays.actions import tokens
from relays.actions.base import Actor
from relays.models import ApiToken, Decision
from relays.reports import tokens as report
from relays.reports.roles import TOKEN_ROLES
from tests.reading import marked
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
ADDRESS = "/tokens/"


def make(client: Client, **fields: str):  # type: ignore[no-untyped-def]
    return client.post(ADDRESS, {"name": "nightly", "role": "manager", "days": "30", **fields})


def secret_in(page: str) -> str:
    return page.partition('data-copy="')[2].partition('"')[0]


def test_the_secret_is_shown_once_and_only_its_hash_is_kept(client_of: ClientOf) -> None:
    client = client_of("operator")
    page = marked(make(client, role="sender"))
    secret = secret_in(page)
    assert secret.startswith("rly_")
    assert len(secret) > 40
    token = ApiToken.objects.get()
    assert token.digest == tokens.digest_of(secret)
    for row in (*ApiToken.objects.values(), *Decision.objects.values()):
        assert secret not in str(row)
    again = client.get(ADDRESS)
    assert secret not in marked(again)
    assert "nightly" in marked(again)
    assert "no-store" in again["Cache-Control"]
    assert Decision.objects.get(act="token").detail == {"token": token.pk, "of": token.user.username, "role": "sender"}


def test_two_secrets_are_never_alike(client_of: ClientOf) -> None:
    client = client_of("manager")
    assert len({secret_in(marked(make(client))) for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("roles", "role", "status"),
    [
        (("manager",), "operator", 403),
        (("manager",), "sender", 403),
        (("manager",), "admin", 403),
        (("operator",), "reviewer", 403),
        (("operator",), "manager", 200),
        (("operator",), "sender", 200),
        (("admin",), "reviewer", 200),
        (("admin",), "tsar", 400),
    ],
)
def test_a_token_never_has_a_right_that_its_person_has_not(
    client_of: ClientOf, roles: tuple[str, ...], role: str, status: int
) -> None:
    response = make(client_of(*roles), role=role)
    assert response.status_code == status
    assert ApiToken.objects.exists() == (status == 200)


@pytest.mark.parametrize(
    "fields",
    [{"name": ""}, {"name": "x" * 81}, {"name": "a\nb"}, *({"days": days} for days in ("0", "9999", "soon", ""))],
)
def test_what_cannot_be_one_is_refused_in_words_and_what_was_typed_is_kept(
    client_of: ClientOf, fields: dict[str, str]
) -> None:
    response = make(client_of("manager"), **fields)
    assert response.status_code == 400
    assert "No token was made" in marked(response)
    assert not ApiToken.objects.exists()


def test_one_sees_and_revokes_ones_own_and_an_admin_everybodys(client_of: ClientOf) -> None:
    pat, sam, root = client_of("manager"), client_of("manager"), client_of("admin")
    make(pat, name="of pat")
    token = ApiToken.objects.get()
    assert "of pat" not in marked(sam.get(ADDRESS))
    sam.post(f"/tokens/{token.pk}/revoke/")
    token.refresh_from_db()
    assert token.revoked_at is None
    assert "of pat" in marked(root.get(ADDRESS))
    assert pat.post(f"/tokens/{token.pk}/revoke/").status_code == 303
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "revoked" in marked(pat.get(ADDRESS))
    assert Decision.objects.filter(act="revoke_token").count() == 1


def test_only_an_admin_makes_one_for_somebody_else(client_of: ClientOf) -> None:
    other = make_user("robin", "reviewer")
    assert make(client_of("operator"), owner="robin", role="manager").status_code == 403
    assert make(client_of("admin"), owner="nobody").status_code == 400
    assert make(client_of("admin"), owner="robin", role="reviewer").status_code == 200
    assert ApiToken.objects.get().user == other


def test_who_has_no_role_may_not_look(client_of: ClientOf) -> None:
    assert client_of().get(ADDRESS).status_code == 403
    assert Client().get(ADDRESS).status_code == 302


def test_there_is_a_bound_to_how_many_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST", 2)
    actor = Actor(make_user("", "manager"))
    for _ in range(2):
        made = tokens.add(actor, name="one", role="manager", days=1)
    with pytest.raises(tokens.NotLegalNow, match="revoke one"):
        tokens.add(actor, name="one", role="manager", days=1)
    tokens.revoke(actor, made.token.pk)
    tokens.add(actor, name="one", role="manager", days=1)


def test_every_role_of_a_token_is_offered_to_an_admin(client_of: ClientOf) -> None:
    page = marked(client_of("admin").get(ADDRESS))
    assert all(f'<option value="{role}"' in page for role in TOKEN_ROLES)


def test_the_list_is_paged_and_a_revoked_token_leads_back_to_its_page(client_of: ClientOf) -> None:
    client, bob = client_of("admin"), make_user("bob", "operator")
    ann = User.objects.get(pk=client.session["_auth_user_id"])
    oldest = tokens.add(Actor(bob), name="the oldest", role="sender", days=9).token
    for n in range(report.SHOWN):
        tokens.add(Actor(ann), name=f"program {n}", role="sender", days=9)
    first = marked(client.get(ADDRESS))
    assert f'<span class="sub">{report.SHOWN + 1}</span>' in first and "page 1 of 2" in first
    assert first.count("data-row=") == report.SHOWN and f'data-row="t-{oldest.pk}"' not in first
    second = marked(client.get(ADDRESS + "?page=2"))
    assert second.count("data-row=") == 1 and f'data-row="t-{oldest.pk}"' in second
    assert "page 2 of 2" in marked(client.get(ADDRESS + "?page=99")), "the nearest page"
    assert client.get(ADDRESS + "?page=much").status_code == 200
    answer = client.post(f"{ADDRESS}{oldest.pk}/revoke/", {"page": "2"})
    assert answer["Location"] == f"{ADDRESS}?page=2"
    assert len(report.listing(ann, timezone.now())) == report.SHOWN + 1, "the command line has them all"
