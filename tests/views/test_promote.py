"""Promote to a driven relay: who may, what the form says before it starts, and that one form starts one relay."""

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relays.models import Decision, Leg, Relay, Session
from tests.builders import make_repo
from tests.reading import marked
from tests.session_builders import add_leg, make_session
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
BAD = '"><script>alert(1)</script>'


@pytest.fixture(autouse=True)
def _no_bells(monkeypatch: pytest.MonkeyPatch) -> None:
    from relaysite.celery import app

    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session that worked in a real repository."""
    return make_session(cwd=str(make_repo(tmp_path / "orders")))


def address(session: Session) -> str:
    return f"/sessions/{session.pk}/promote/"


def token(client: Client, session: Session) -> str:
    found = re.search(r'name="form" value="([^"]+)"', marked(client.get(address(session))))
    assert found
    return found[1]


def filled(client: Client, session: Session, **values: str) -> dict[str, str]:
    made = {"objective": "Close what is open.", "done_when": "issues:none open", "agent": "scripted", "do": "start"}
    return {"form": token(client, session), "region": "**", **made, **values}


def test_only_an_operator_sees_the_button_and_may_open_the_form(client_of: ClientOf, session: Session) -> None:
    for role in ("reviewer", "manager"):
        client = client_of(role)
        assert "Promote" not in marked(client.get(f"/sessions/{session.pk}/"))
        assert client.get(address(session)).status_code == client.post(address(session)).status_code == 403
    operator = client_of("operator")
    for page in (f"/sessions/{session.pk}/", f"/sessions/{session.pk}/?part=head"):
        assert f'href="{address(session)}"' in marked(operator.get(page))
    assert client_of().get(address(session)).status_code == 403
    assert Client().get(address(session)).status_code == 302
    assert operator.get("/sessions/99999/promote/").status_code == 404
    assert not Relay.objects.exists()


def test_the_form_is_prefilled_with_the_repository_and_with_no_objective(client_of: ClientOf, session: Session) -> None:
    add_leg(
        session,
        0,
        1,
        9,
        "end",
        baton={"pointers": ["commit:1a2b3c4", "file:a.py"], "missing": ["next_action", "decisions"]},
    )
    page = marked(client_of("operator").get(address(session)))
    assert session.cwd in page and 'name="repo"' not in page, "the folder is the session's, not the form's"
    assert re.search(r'<textarea[^>]*name="objective"[^>]*></textarea>', page)
    assert "next_action" in page and "decisions" in page and "commit:1a2b3c4" in page
    for agent in ("command", "scripted"):
        assert f'<option value="{agent}"' in page


def test_a_check_says_what_each_field_means_and_starts_nothing(client_of: ClientOf, session: Session) -> None:
    client = client_of("operator")

    def check(**values: str) -> str:
        answer = client.post(address(session), filled(client, session, **(values | {"do": "check"})))
        assert answer.status_code == 200
        return marked(answer)

    assert "Machine-readable: a store is asked for issues:none open" in check()
    assert "a reviewer confirms it" in check(done_when="all is nice")
    assert "&#x27;/etc/**&#x27;" in check(region="/etc/**")
    assert "objective is empty" in check(objective=" ")
    assert "needs agent argument argv" in check(agent="command")
    assert "write it as name=value" in check(agent_args="nonsense")
    page = check(objective=BAD, done_when=BAD, region=BAD, agent=BAD, agent_args=f"a={BAD}", legs=BAD)
    assert BAD not in page and "unknown agent" in page
    assert not Relay.objects.exists() and not Decision.objects.exists()


def test_a_start_makes_the_relay_and_its_decision_and_leads_to_it(client_of: ClientOf, session: Session) -> None:
    client = client_of("operator")
    values = filled(client, session, region="src/** docs/**", agent_args="items=2\r\n", legs="3", spend="4.50")
    answer = client.post(address(session), values | {"objective": "Close them.\r\nAll of them."})
    relay = Relay.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/relays/{relay.pk}/")
    assert (relay.repo, relay.objective, relay.region) == (
        session.cwd,
        "Close them.\nAll of them.",
        ["src/**", "docs/**"],
    )
    assert (relay.agent_args, relay.policy["envelope"]["legs"]) == ({"items": "2"}, 3)
    row = Decision.objects.get()
    assert (row.act, row.relay, row.detail["origin"]["sid"]) == ("start", relay, session.sid)
    assert f"{relay.pk} is started in {session.cwd}" in marked(client.get(answer["Location"]))
    assert relay.pk in marked(client.get(address(session)))


def test_sent_twice_a_form_starts_one_relay(client_of: ClientOf, session: Session) -> None:
    client = client_of("operator")
    values = filled(client, session)
    first, again = client.post(address(session), values), client.post(address(session), values)
    assert first["Location"] == again["Location"]
    assert Relay.objects.count() == Leg.objects.count() == Decision.objects.count() == 1
    # another form of the same person, and the same form of another person, are starts of their own
    for other in (
        client.post(address(session), filled(client, session)),
        client_of("operator").post(address(session), values),
    ):
        assert other.status_code == 409
        assert "COLLISION_RISK" in marked(other)
    assert Relay.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_sent_twice_at_once_a_form_starts_one_relay(session: Session) -> None:
    user = make_user("pat", "operator")
    clients = [Client(), Client()]
    for client in clients:
        client.force_login(user)
    values = filled(clients[0], session)
    together, answers = threading.Barrier(2), []

    def send(client: Client) -> None:
        together.wait()
        answers.append(client.post(address(session), values))
        connections.close_all()

    threads = [threading.Thread(target=send, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    relay = Relay.objects.get()
    assert [answer["Location"] for answer in answers] == [f"/relays/{relay.pk}/"] * 2
    assert Decision.objects.count() == 1


REFUSED: dict[str, tuple[dict[str, str], int, str]] = {
    "no objective": ({"objective": ""}, 400, "objective is empty"),
    "prose without a limit": ({"done_when": "all is nice"}, 400, "is prose"),
    "limit": ({"legs": "many"}, 400, "envelope.legs"),
    "agent": ({"agent": "nobody"}, 400, "unknown agent"),
    "no token": ({"form": "\0"}, 400, "open the page anew"),
}


def test_what_is_refused_comes_back_as_it_was_typed_and_makes_nothing(client_of: ClientOf, session: Session) -> None:
    client = client_of("operator")
    for what, (values, status, words) in REFUSED.items():
        answer = client.post(address(session), filled(client, session, **({"objective": "Close <them>."} | values)))
        page = marked(answer)
        assert answer.status_code == status, what
        assert words in page and "Nothing was started" in page, what
        assert ("Close &lt;them&gt;." in page) == ("objective" not in values), what
    assert not Relay.objects.exists() and not Decision.objects.exists()


@pytest.mark.parametrize("where", ["", "orders", "/nowhere/at/all"])
def test_a_session_without_a_folder_here_says_so(client_of: ClientOf, where: str) -> None:
    session, client = make_session(cwd=where), client_of("operator")
    page = marked(client.get(address(session)))
    assert "cannot be promoted here" in page and "relay start --repo" in page and 'name="objective"' not in page
    answer = client.post(address(session), {"do": "start", "form": "x" * 20, "objective": "Go.", "agent": "scripted"})
    assert answer.status_code == 400
    assert not Relay.objects.exists()


def test_a_folder_that_is_no_repository_is_refused(client_of: ClientOf, tmp_path: Path) -> None:
    session, client = make_session(cwd=str(tmp_path)), client_of("operator")
    answer = client.post(address(session), filled(client, session))
    assert answer.status_code == 400 and "Nothing was started" in marked(answer)


def test_the_page_costs_the_same_however_long_the_session_is(client_of: ClientOf, session: Session) -> None:
    client = client_of("operator")

    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            client.get(address(session))
        return len(found)

    few = queries()
    for number in range(30):
        add_leg(
            session,
            number,
            number + 1,
            number + 1,
            "end",
            baton={"pointers": [f"commit:{number:07x}"], "missing": ["next_action"]},
        )
    assert queries() == few
