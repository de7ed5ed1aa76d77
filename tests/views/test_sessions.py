"""The pages of sessions: who may look and act, parts, empty states, hostile names, CSV, and a constant cost."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.models import Decision, Import, ImportedFile, Session, SessionCall
from tests.reading import marked
from tests.session_builders import (
    add_anomaly,
    add_calls,
    add_compaction,
    add_fullness,
    add_leg,
    make_import,
    make_session,
    make_source,
    make_story,
)
from tests.web_builders import bump, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
BAD = '"><script>alert(1)</script>\u202e{{7*7}}'
SESSION_PARTS = ("head", "kpis", "series", "chart", "found", "calls", "side")


def text(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, address
    return marked(answer)


# ---- who ------------------------------------------------------------------------------------------------------------


def test_who_has_no_role_may_not_look_and_nobody_finds_what_is_not_there(client_of: ClientOf) -> None:
    session, _ = make_story()
    own = (f"/sessions/{session.pk}/", f"/sessions/{session.pk}/calls.csv")
    for address in ("/sessions/", "/sessions/import/", *own):
        assert client_of().get(address).status_code == 403
        assert Client().get(address).status_code == 302
    manager = client_of("manager")
    for address in ("/sessions/99999/", f"/sessions/{10**30}/", "/sessions/99999/calls.csv", "/sessions/x/"):
        assert manager.get(address).status_code == 404
    for address in ("/sessions/?part=x", "/sessions/import/?part=x", f"/sessions/{session.pk}/?part=x"):
        assert manager.get(address).status_code == 404
    assert manager.post("/sessions/").status_code == manager.post(own[0]).status_code == 405
    assert client_of().get("/sessions/99999/").status_code == 403, "who may not look learns nothing"


# ---- the list -------------------------------------------------------------------------------------------------------


def test_an_empty_list_says_what_to_do_next(client_of: ClientOf) -> None:
    page = text(client_of("operator"), "/sessions/")
    assert "No session yet" in page and "relay import ~/.claude/projects" in page and 'href="/sessions/import/"' in page
    assert "An operator can do that" in text(client_of("manager"), "/sessions/?part=list")
    make_session()
    page = text(client_of("manager"), "/sessions/?q=nothing")
    assert "No session matches" in page and 'value="nothing"' in page


def test_a_row_says_window_compactions_rotations_tokens_and_cost(client_of: ClientOf) -> None:
    session, _ = make_story()
    Session.objects.filter(pk=session.pk).update(
        unpriced_calls=2, copied_calls=5, agents=1, lower_bound=True, shadow={"mark": 1, "rotations": 1},
        anomalies={"time_backwards": 99, "broken_line": 2},
    )  # fmt: skip
    page = text(client_of("manager"), "/sessions/")
    for words in (
        "orders", "164,000", "of 200k", "1 <span class=\"u\">rotation<", "9/9", "5 copied",
        "2 anomalies bear on it", "1 sub-agent", "at least",
        '$0.60 <span class="u">partial: 2 calls unpriced', f'href="/sessions/{session.pk}/"',
        'aria-current="page">Sessions',
    ):  # fmt: skip
        assert words in page, words
    assert "resident tokens of the last" in page, "a line of the window, made on the server"


def test_a_cost_that_nothing_is_known_of_is_never_zero(client_of: ClientOf) -> None:
    make_session(cost=None, unpriced_calls=7, calls=7)
    page = text(client_of("manager"), "/sessions/")
    assert "unpriced" in page and "$0.00" not in page and "over the window" not in page


def test_pages_keep_the_filters(client_of: ClientOf) -> None:
    now = timezone.now()
    for n in range(51):
        make_session(cwd=f"/srv/r{n:02d}", agent="codex", last_at=now - timedelta(minutes=n))
    client = client_of("manager")
    first = text(client, "/sessions/?agent=codex&sort=-peak")
    assert "page 1 of 2" in first and 'href="?agent=codex&amp;sort=-peak&amp;page=2"' in first
    assert "r50" in text(client, "/sessions/?page=77&part=list")


def test_what_is_being_read_now_is_said_on_the_list(client_of: ClientOf) -> None:
    make_session()
    make_import(make_user(), "/srv/x", status="running", files_total=40, files_done=7, bytes_total=100)
    assert "7 of 40 files" in text(client_of("manager"), "/sessions/")


def test_the_rot_curve_has_its_table_n_and_interval(client_of: ClientOf) -> None:
    client = client_of("manager")
    session = make_session()
    assert "No tool result was read" in text(client, "/sessions/") and "chart-rot" not in text(client, "/sessions/")
    add_fullness(session, 2, 400, 4)
    add_fullness(session, 18, 12, 4)
    add_fullness(session, 20, 100, 40)
    page = text(client, "/sessions/?q=")
    for words in ("10 % to 15 %", ">400<", "under 30 results", "over the window", "fail more tool calls beyond chance"):
        assert words in page, words
    figure = json.loads(text(client, "/sessions/?part=chart"))["figure"]
    assert [round(x) for x in figure["data"][0]["x"]] == [12, 102] and figure["data"][0]["error_y"]["array"]
    bump("sessions")
    assert "beyond chance" in text(client, "/sessions/?part=rot")


# ---- one session ----------------------------------------------------------------------------------------------------


def test_a_session_says_what_happened_and_names_what_it_does_not_know(client_of: ClientOf) -> None:
    session, source = make_story()
    add_compaction(session, source, 60, declared_pre=None, declared_post=None, measured_after=None, trigger="unknown")
    add_anomaly(source, "unknown_type", session, detail="frame-link", line=12, count=3)
    Session.objects.filter(pk=session.pk).update(
        reported_cost=Decimal("0.5"), lower_bound=True, anomalies={"unknown_type": 3}, copied_calls=2,
        fill={"total": {"tool result Bash": 9_000, "user text": 1_000}, "now": {}, "base": 24_000},
    )  # fmt: skip
    page = text(client_of("manager"), f"/sessions/{session.pk}/")
    for words in (
        "Two compactions here; as a relay: not yet", "the agent says $0.50, +$0.10 against it",
            "output is a lower bound",
        "it has not been projected yet", "17,692", "64,513", "166,408", "trigger unknown", "at least 18,000",
        "unrecognised record", "frame-link", "first at line 12", source.path, "40,000 of 40,000", "tool result Bash",
        "90 %", "would rotate", "nothing durable to point at", "1 min", f'after={source.pk}.83.0#calls',
        "are counted there",
    ):  # fmt: skip
        assert words in page, words
    assert page.count("not yet") >= 4 and "NaN" not in page and "undefined" not in page


def test_a_session_without_anything_says_so_everywhere(client_of: ClientOf) -> None:
    session = make_session(
        window_tokens=None, first_at=None, last_at=None, version="", branch="", cwd="", model_names=[]
    )
    page = text(client_of("manager"), f"/sessions/{session.pk}/")
    for words in ("No model call in what was read", "No compaction", "No call yet", "No main call was read yet",
                  "None: every record was read", "No file is known", "has no main call of its own"):  # fmt: skip
        assert words.lower() in page.lower(), words


def test_a_passed_window_is_said_and_not_cut(client_of: ClientOf) -> None:
    session = make_session()
    add_calls(session, [100_000, 231_000], window=200_000)
    page = text(client_of("manager"), f"/sessions/{session.pk}/")
    assert "231,000 resident, over a window that is assumed to hold 200,000" in page and "over 200k" in page
    assert "over 200k, assumed" in text(client_of("manager"), "/sessions/")
    session.shadow = {"parameters": {"window": [200_000, "OBSERVED", "declared by the agent"]}}
    session.save(update_fields=["shadow"])
    page = text(client_of("manager"), f"/sessions/{session.pk}/")
    assert "was passed: 231,000 resident" in page and "assumed window" not in page
    assert "over the window of 200k" in text(client_of("manager"), "/sessions/")
    chart = json.loads(text(client_of("manager"), f"/sessions/{session.pk}/?part=chart"))
    assert "231,000 of a window of 200,000" in chart["alternative"]


def test_a_session_that_another_ones_file_names_is_not_read_yet(client_of: ClientOf) -> None:
    session = make_session(first_at=None)
    named = make_session(parent=session.sid, cwd="", branch="", version="", model_names=[], first_at=None, last_at=None)
    manager = client_of("manager")
    assert "(not read yet)" in text(manager, f"/sessions/{session.pk}/")
    page = text(manager, f"/sessions/{named.pk}/")
    assert "Not read yet: a file of another session names it" in page and "<span>0 calls" not in page
    assert "its file was not read" in text(manager, "/sessions/")
    Session.objects.filter(pk=named.pk).update(first_at=timezone.now())
    assert "its file was not read" not in text(manager, "/sessions/")


def test_what_an_interrupted_import_left_without_figures_is_not_told_as_nothing(client_of: ClientOf) -> None:
    session = make_session(projected_at=None)
    manager = client_of("manager")
    assert "No figures yet: its import goes on, or was interrupted" in text(manager, f"/sessions/{session.pk}/")
    assert "its import did not end" in text(manager, "/sessions/")


def test_parts_are_the_page_in_pieces_and_are_not_sent_twice(client_of: ClientOf) -> None:
    session, _ = make_story()
    client = client_of("manager")
    whole = text(client, f"/sessions/{session.pk}/")
    for part in SESSION_PARTS:
        answer = client.get(f"/sessions/{session.pk}/?part={part}")
        assert answer.status_code == 200
        again = client.get(f"/sessions/{session.pk}/?part={part}", headers={"If-None-Match": answer["ETag"]})
        assert again.status_code == 304 and not again.content
        if part != "chart":
            assert f"?part={part}" in whole and "hx-swap" in marked(answer)
    Session.objects.filter(pk=session.pk).update(compactions=7)
    bump(f"session:{session.pk}")
    assert "Seven compactions" in text(client, f"/sessions/{session.pk}/?part=head")


def test_calls_of_a_page_begin_where_they_are_asked(client_of: ClientOf) -> None:
    session, source = make_story()
    client = client_of("manager")
    first = text(client, f"/sessions/{session.pk}/?part=calls")
    assert "Later" in first and "Earlier" not in first
    behind = text(client, f"/sessions/{session.pk}/?after={source.pk}.83.0&part=calls")
    assert ">64,513<" in behind and "Earlier" in behind and ">24,000<" not in behind
    assert "No call behind this place" in text(client, f"/sessions/{session.pk}/?after={source.pk}.999999.0")
    assert text(client, f"/sessions/{session.pk}/?after=x&part=calls").count("<tr") == first.count("<tr")


def test_copies_and_lower_bounds_are_marked_in_the_table(client_of: ClientOf) -> None:
    session = make_session()
    add_calls(session, [9_000], copied="inherited", counts=False, lower_bound=True, tool_errors=1)
    page = text(client_of("manager"), f"/sessions/{session.pk}/")
    for words in ("copied-row", "inherited", "elsewhere", "≥ 300", "1 of 2 failed"):
        assert words in page, words


def test_a_fork_names_where_it_came_from(client_of: ClientOf) -> None:
    parent = make_session(sid="parent-1", agent="codex")
    child = make_session(sid="child-1", agent="codex", parent="parent-1", anomalies={"replay_estimated": 1})
    lost = make_session(sid="child-2", agent="codex", parent="nowhere")
    client = client_of("manager")
    page = text(client, f"/sessions/{child.pk}/")
    assert f'href="/sessions/{parent.pk}/"' in page and "Estimated: the parent" in page
    assert f'href="/sessions/{child.pk}/"' in text(client, f"/sessions/{parent.pk}/")
    assert "nowhere</span> (not imported)" in text(client, f"/sessions/{lost.pk}/")


def test_text_of_a_session_file_stays_text(client_of: ClientOf) -> None:
    session = make_session(
        sid=f"s{BAD}", agent="codex", cwd=f"/srv/{BAD}", branch=BAD, version=BAD, model_names=[BAD], parent=BAD,
        fill={"total": {BAD: 5}, "now": {}},
        shadow={"why": BAD, "parameters": {BAD: [1, BAD, BAD]}},
    )  # fmt: skip
    source = make_source(path=f"/srv/{BAD}.jsonl", form=BAD[:20], status="failed", error=BAD)
    add_calls(session, [1_000], source, model=BAD, agent_id=BAD, chain="sub")
    Session.objects.filter(pk=session.pk).update(main_calls=0, agents=1)
    add_anomaly(source, BAD[:20], session, detail=BAD)
    add_leg(session, 0, 1, 1, "end", baton={"pointers": [BAD], "missing": [BAD]},
            checks=[{"pointer": BAD, "verdict": BAD, "evidence": BAD}])  # fmt: skip
    add_fullness(session, 3, 200, 2, model=BAD)
    make_import(
        make_user("mallory<b>"), f"/srv/{BAD}", status="failed", error=BAD, problems=[{"path": BAD, "why": BAD}]
    )
    client = client_of("operator")
    parts = [f"/sessions/{session.pk}/?part={part}" for part in SESSION_PARTS]
    pages = ("/sessions/", "/sessions/?part=rot", "/sessions/import/", f"/sessions/{session.pk}/", *parts)
    for address in pages:
        page = text(client, address)
        assert "<script>alert" not in page and ">49<" not in page, address
        if "part=chart" not in address:
            assert "\u202e" not in page, address
    assert "&lt;script&gt;" in text(client, "/sessions/")
    assert "<script>alert" not in text(client, "/sessions/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")


def rows_of(client: Client, session: Session) -> list[dict[str, str]]:
    answer = cast(StreamingHttpResponse, client.get(f"/sessions/{session.pk}/calls.csv"))
    assert answer.streaming and answer["Content-Disposition"].endswith('calls.csv"')
    body = b"".join(cast(Iterable[bytes], answer.streaming_content)).decode()
    return list(csv.DictReader(io.StringIO(body)))


def test_the_csv_has_every_call_once_and_no_formula(client_of: ClientOf) -> None:
    session = make_session()
    add_calls(session, [1_000, 2_000], model="=cmd|'/C calc'!A0", agent_id="@sum")
    add_calls(session, [3_000], make_source(), key="twice", shown=False)
    rows = rows_of(client_of("manager"), session)
    assert [row["resident"] for row in rows] == ["1000", "2000"]
    assert rows[0]["model"] == "'=cmd|'/C calc'!A0" and rows[0]["sub-agent"] == "'@sum"
    assert rows[0]["cost"] == "0.0100000000" and rows[0]["counts"] == "yes" and rows[0]["window"] == ""


@pytest.mark.slow
@pytest.mark.postgres
def test_a_long_session_costs_as_many_queries_and_bytes_as_a_short_one(client_of: ClientOf) -> None:
    client = client_of("manager")
    counts, sizes = [], []
    for calls in (1_200, 6_000):
        session = make_session()
        source = make_source()
        add_calls(session, [20_000 + n % 1_000 for n in range(calls)], source)
        add_compaction(session, source, 100)
        add_leg(session, 0, 1, calls, "end")
        client.get(f"/sessions/{session.pk}/")  # roles, the content types of a first look
        with CaptureQueriesContext(connection) as caught:
            answer = client.get(f"/sessions/{session.pk}/?after={source.pk}.{calls}.0")
        counts.append(len(caught))
        sizes.append(len(answer.content))
        touching = [query["sql"] for query in caught.captured_queries if "relays_sessioncall" in query["sql"]]
        assert touching and all("LIMIT" in sql and "COUNT(" not in sql for sql in touching)
    assert counts[0] == counts[1]
    assert sizes[1] < sizes[0] * 1.3


def test_as_many_queries_for_three_sessions_as_for_three_hundred(client_of: ClientOf) -> None:
    client = client_of("manager")
    counts = []
    for more in (3, 297):
        Session.objects.bulk_create(
            Session(agent="codex", sid=f"{more}-{n}", model_names=[f"m{n}"], series={"points": [[1, n, 0]]})
            for n in range(more)
        )
        bump("sessions")
        with CaptureQueriesContext(connection) as caught:
            assert client.get("/sessions/").status_code == 200
        counts.append(len(caught))
    assert counts[0] == counts[1]


# ---- import ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "projects"
    folder.mkdir()
    settings.SESSION_ROOTS = [folder, tmp_path / "missing"]
    return folder


def test_the_import_page_offers_the_folders_to_operators_only(client_of: ClientOf, root: Path) -> None:
    page = text(client_of("operator"), "/sessions/import/")
    assert f'value="{root}"' in page and "not there" in page and "Follow" in page and "csrfmiddlewaretoken" in page
    page = text(client_of("manager"), "/sessions/import/")
    main = page.split("<main")[1].split("</main>")[0]
    assert "needs the role operator" in main and "<form" not in main and "<button" not in main


def test_no_folder_found_says_what_to_do(client_of: ClientOf, settings: Any) -> None:
    settings.SESSION_ROOTS = []
    page = text(client_of("operator"), "/sessions/import/")
    assert "SESSION_ROOTS" in page and "relay import /path/to/sessions" in page


def test_an_operator_imports_follows_cancels_and_goes_on(client_of: ClientOf, root: Path) -> None:
    client = client_of("operator")
    answer = client.post("/sessions/import/", {"path": str(root)})
    assert answer.status_code == 303
    job = Import.objects.get()
    assert (job.paths, job.follow) == ([str(root)], False)
    assert "being imported" in text(client, "/sessions/import/")
    client.post("/sessions/import/?follow=1", {"path": str(root)})
    follow = Import.objects.exclude(pk=job.pk).get()
    assert follow.follow and f"import:{follow.pk}" in text(client, "/sessions/import/")
    assert client.post(f"/sessions/import/{job.pk}/cancel/").status_code == 303
    job.refresh_from_db()
    assert job.status == "cancelled" and f"/sessions/import/{job.pk}/resume/" in text(
        client, "/sessions/import/?part=jobs"
    )
    client.post(f"/sessions/import/{job.pk}/resume/")
    job.refresh_from_db()
    assert job.status == "waiting"
    assert list(Decision.objects.order_by("seq").values_list("act", flat=True)) == [
        "import", "import", "cancel_import", "resume_import",
    ]  # fmt: skip
    assert client.get(f"/sessions/import/{job.pk}/cancel/").status_code == 405
    assert client.post("/sessions/import/999/cancel/").status_code == 404


@pytest.mark.parametrize("path", ["/etc/passwd", "", "relative", "/nowhere/at/all", "\x00", "~root"])
def test_a_path_outside_is_refused_in_words_and_nothing_begins(client_of: ClientOf, root: Path, path: str) -> None:
    client = client_of("operator")
    answer = client.post("/sessions/import/", {"path": path}, follow=True)
    assert answer.status_code == 200 and "import: " in marked(answer)
    assert not Import.objects.exists()


def test_only_operators_act_on_imports(client_of: ClientOf, root: Path) -> None:
    job = make_import(make_user(), str(root), status="waiting")
    for address in ("/sessions/import/", f"/sessions/import/{job.pk}/cancel/", f"/sessions/import/{job.pk}/resume/"):
        assert client_of("manager", "reviewer").post(address, {"path": str(root)}).status_code == 403
    assert Import.objects.count() == 1 and not Decision.objects.exists()


def test_a_running_import_shows_how_far_it_is_and_what_it_could_not_read(client_of: ClientOf, root: Path) -> None:
    now = timezone.now()
    make_import(
        make_user("mara", "operator"), str(root), status="running", files_total=900, files_done=230, beat_at=now,
        bytes_total=4_000_000, bytes_done=1_999_999, problems=[{"path": "/srv/locked", "why": "no permission"}],
    )  # fmt: skip
    page = text(client_of("manager"), "/sessions/import/")
    for words in (
        'aria-valuenow="49"',
        "49 %",
        "230 of 900 files",
        "/srv/locked",
        "no permission",
        "mara",
        "1 problem",
    ):
        assert words in page, words
    make_import(make_user(), "/srv/y", status="running", beat_at=now - timedelta(minutes=5))
    make_import(make_user(), "/srv/z", status="waiting", error="the database did not answer; it is tried again")
    page = text(client_of("manager"), "/sessions/import/")
    assert "no sign for 5 min" in page and "listing files" in page
    assert "waits for a worker" in page and "relay doctor" in page and "it is tried again" in page


def test_an_ended_import_says_how_many_files_held_sessions(client_of: ClientOf, root: Path) -> None:
    job = make_import(make_user(), "/srv/x", status="done", files_total=3, files_done=3, bytes_total=9, bytes_done=9)
    client = client_of("manager")
    part = text(client, "/sessions/import/?part=jobs")
    assert "none holds a session" in part and "<h1>Nothing is being read now</h1>" in part  # the heading lives too
    ImportedFile.objects.create(job=job, source=make_source())
    assert "1 with sessions" in text(client, "/sessions/import/?part=jobs&again=1")


def test_pages_say_whether_texts_are_kept(client_of: ClientOf, settings: Any) -> None:
    client = client_of("manager")
    assert "no text of a session is kept" in text(client, "/sessions/")
    assert "texts are not kept" in text(client, "/sessions/import/")
    settings.KEEP_TRANSCRIPTS = True
    assert "texts are kept without their secrets" in text(client, "/sessions/")
    assert "texts are kept without their secrets" in text(client, "/sessions/import/")


def test_live_pages_may_listen_to_sessions_and_imports(client_of: ClientOf) -> None:
    client = client_of("manager")
    assert client.get("/live/?topics=inbox,sessions,session:12,import:3").status_code == 204
    assert client.get("/live/?topics=session:x").status_code == 400


def test_a_session_that_vanishes_between_two_looks_is_not_found(client_of: ClientOf) -> None:
    session, _ = make_story()
    client = client_of("manager")
    assert "compaction" in text(client, f"/sessions/{session.pk}/?part=head")
    SessionCall.objects.all().delete()
    session.delete()
    assert client.get(f"/sessions/{session.pk}/?part=head").status_code == 404


def test_a_turn_that_is_told_as_one_sum_is_no_single_call(client_of: ClientOf) -> None:
    session = make_session(agent="gemini-cli")
    add_calls(session, [0, 0], chain="aux")
    rows = SessionCall.objects.filter(session=session).order_by("line")
    SessionCall.objects.filter(pk=rows[0].pk).update(key="gemini:s:turn:gemini-2.5-flash/10/0/2/0")
    page = text(client_of("manager"), f"/sessions/{session.pk}/?part=calls")
    assert page.count("a turn, summed") == 1 and page.count(">side<") == 1
