"""Who may import what: the right, the folders of the site, and the record that comes first."""

from pathlib import Path

import pytest
from django.utils import timezone

from relays.actions import import_sessions
from relays.actions.base import NotFound, NotLegalNow, NotPermitted, Refused, Usage
from relays.models import Decision, Import, Topic
from relays.reports import audit
from relays.sessions import jobs
from tests.actions.acts import People

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path, settings) -> Path:
    folder = tmp_path / "agent" / "projects"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "s.jsonl").write_text("{}\n", encoding="utf-8")
    settings.SESSION_ROOTS = [folder]
    return folder


def test_an_operator_starts_one_and_it_is_recorded_first(people: People, root: Path) -> None:
    job = import_sessions.start(people.operator, [str(root), f" {root} ", str(root / "one" / "s.jsonl")], follow=True)
    assert (job.status, job.follow, job.asked_by) == ("waiting", True, people.operator.user)
    assert job.paths == [str(root.resolve()), str(root.resolve() / "one" / "s.jsonl")]
    decision = Decision.objects.get()
    assert (decision.act, decision.actor, decision.os_user, decision.relay) == (
        "import",
        people.operator.user,
        "unix-pat",
        None,
    )
    assert decision.detail == {"import": job.pk, "paths": job.paths, "follow": True}
    import_sessions.cancel(people.operator, job.pk)
    import_sessions.resume(people.operator, str(job.pk))
    assert [one.act for one in Decision.objects.all()] == ["import", "cancel_import", "resume_import"]
    assert audit.verify().ok
    assert set(Topic.objects.values_list("name", flat=True)) == {"sessions", f"import:{job.pk}"}


@pytest.mark.parametrize("who", ["reviewer", "manager", "outsider"])
def test_nobody_else_does(people: People, root: Path, who: str) -> None:
    actor = getattr(people, who)
    job = import_sessions.start(people.operator, [str(root)])
    for act in (
        lambda: import_sessions.start(actor, [str(root)]),
        lambda: import_sessions.cancel(actor, job.pk),
        lambda: import_sessions.resume(actor, job.pk),
    ):
        with pytest.raises(NotPermitted, match="may operate"):
            act()
    assert Import.objects.get().status == "waiting"
    assert Decision.objects.count() == 1


def test_a_page_reaches_nothing_outside_the_roots(people: People, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.mkdir()
    (outside / "s.jsonl").write_text("{}\n", encoding="utf-8")
    (root / "way-out").symlink_to(outside)
    (root / "way-up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    beside = tmp_path / "agent" / "projects-of-others"
    beside.mkdir()
    for name in (
        str(outside),
        f"{root}/../../secret",
        f"{root}/way-out",
        f"{root}/way-out/s.jsonl",
        f"{root}/way-up",
        f"{root}/loop",
        f"{root}/loop/../../../secret",
        str(beside),
        "/",
        "/etc/passwd",
        str(tmp_path / "not there"),
        "~/x",
    ):
        with pytest.raises(NotPermitted, match="outside the folders"):
            import_sessions.start(people.operator, [str(root), name])
    assert not Import.objects.exists()
    assert not Decision.objects.exists()


def test_a_link_that_stays_inside_is_followed(people: People, root: Path) -> None:
    (root / "same").symlink_to("one")
    job = import_sessions.start(people.operator, [f"{root}/same", f"{root}/one"])
    assert job.paths == [str(root.resolve() / "one")]


def test_a_root_that_is_a_link_itself_is_where_it_leads(people: People, root: Path, tmp_path: Path, settings) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    settings.SESSION_ROOTS = [link, tmp_path / "absent"]
    assert import_sessions.offered() == (str(link),)
    job = import_sessions.start(people.operator, [f"{link}/one"])
    assert job.paths == [str(root.resolve() / "one")]


@pytest.mark.parametrize(
    ("names", "refusal", "words"),
    [
        ([], Usage, "0 paths"),
        (["", "  "], Usage, "0 paths"),
        ([f"/x/{n}" for n in range(51)], Usage, "51 paths"),
        (["relative/x"], Usage, "not absolute"),
        (["/x\0y"], Usage, "printable"),
        (["/x\udcff"], Usage, "printable"),
        (["/" + "x" * 5000], Usage, "cannot be a path"),
        (["ROOT/nothing"], NotFound, "not there"),
    ],
)
def test_what_cannot_be_a_path_is_refused_in_one_line(
    people: People, root: Path, names: list[str], refusal: type[Refused], words: str
) -> None:
    with pytest.raises(refusal, match=words) as refused:
        import_sessions.start(people.operator, [name.replace("ROOT", str(root)) for name in names])
    assert "\n" not in str(refused.value)
    assert not Import.objects.exists()


def test_without_roots_a_page_names_nothing_and_says_what_to_set(people: People, tmp_path: Path, settings) -> None:
    settings.SESSION_ROOTS = []
    assert import_sessions.offered() == ()
    with pytest.raises(NotPermitted, match="SESSION_ROOTS"):
        import_sessions.start(people.operator, [str(tmp_path)])


def test_the_command_line_may_name_any_path(people: People, root: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    job = import_sessions.start(people.operator, ["other"], anywhere=True)
    assert job.paths == [str((tmp_path / "other").resolve())]
    with pytest.raises(NotFound):
        import_sessions.start(people.operator, ["none"], anywhere=True)


def test_what_has_ended_is_not_cancelled_and_what_runs_is_not_resumed(people: People, root: Path) -> None:
    job = import_sessions.start(people.operator, [str(root)])
    with pytest.raises(NotLegalNow, match="waiting"):
        import_sessions.resume(people.operator, job.pk)
    Import.objects.update(status="done", ended_at=timezone.now())
    for act in (import_sessions.cancel, import_sessions.resume):
        with pytest.raises(NotLegalNow, match="done"):
            act(people.operator, job.pk)
    assert Decision.objects.count() == 1


@pytest.mark.parametrize("name", [0, "x", "", "-1", "9" * 30, "\udcff", "٣"])
def test_an_unknown_number_is_not_found(people: People, name: object) -> None:
    for act in (import_sessions.cancel, import_sessions.resume):
        with pytest.raises(NotFound, match="not known"):
            act(people.operator, name)


def test_cancelled_while_it_is_read_it_says_so_and_ends_at_the_next_beat(people: People, root: Path) -> None:
    job = import_sessions.start(people.operator, [str(root)])
    Import.objects.update(status="running", beat_at=timezone.now())
    cancelled = import_sessions.cancel(people.operator, job.pk)
    assert (cancelled.status, cancelled.cancel) == ("running", True)
    Import.objects.update(beat_at=timezone.now() - jobs.BEAT_STALE * 2)
    assert import_sessions.cancel(people.operator, job.pk).status == "cancelled", "whoever read it is dead"
