"""What the page Start a relay says of what is typed: each field in words, suggestions from the repository, the policy.

Interface, page 9: "repository, objective, `done_when` (suggested from the repository; checked while typed:
machine-readable or needs a person), region (suggested; shows what it matches and who else holds it), agent with model
and the names of the environment variables it needs, policy, mode, schedule". Only the tip is read, never the work tree,
and nothing that stands in the repository is run.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.agents import registry
from relays.agents.base import AgentArgError
from relays.core import donewhen, objective, policy, policyfile, region
from relays.core.donewhen import DoneWhen, Truth
from relays.models import PolicyVersion, RegionLease, Relay, Session
from relays.reports import agents, policies, reviewers
from relays.reports.agents import Offered
from relays.reports.figures import whole
from relays.reports.sentences import refused, told
from relays.stores import git as git_store
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore
from relays.stores.issues import PATH as ISSUES

MOST_REPOSITORIES = 100
MOST_FOLDERS = 8
SAMPLE = 6
MOST_HOLDERS = 20


@dataclass(frozen=True, slots=True)
class Said:
    """What a field means as it stands. `wrong`: it cannot stand; `person`: it can, and a person must do something."""

    text: str = ""
    wrong: bool = False
    person: bool = False
    more: tuple[str, ...] = ()
    relays: tuple[str, ...] = ()  # the relays that the text names


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A value for a field and why it is offered."""

    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Place:
    """A repository as it was looked at: its work tree, its tip, and the paths there; `problem` says why not."""

    problem: str = ""
    top: str = ""
    git_dir: str = ""
    branch: str = ""
    tip: str = ""
    paths: tuple[str, ...] = ()
    store: GitStore | None = None
    table: Mapping[str, Any] | None = None  # `[relay]` of dos.toml; None = there is none
    table_problem: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """What the page offers, whatever is typed."""

    repositories: tuple[str, ...]
    agents: tuple[Offered, ...]
    reviewers: tuple[str, ...]  # names of groups
    policies: tuple[PolicyVersion, ...]  # the newest version of each name


@dataclass(frozen=True, slots=True)
class Checked:
    """Every field in words, the suggestions for this repository, and the policy that would hold."""

    said: Mapping[str, Said]
    done_when: tuple[Suggestion, ...]
    region: tuple[Suggestion, ...]
    groups: tuple[policies.Group, ...]
    policy_problem: str

    @property
    def own(self) -> tuple[policies.Row, ...]:
        """The values that are no built-in defaults."""
        return tuple(row for group in self.groups for row in group.rows if row.own)

    @property
    def stands(self) -> bool:
        return not self.policy_problem and not any(one.wrong for one in self.said.values())


def form() -> Form:
    """Four queries: groups, policies, repositories of relays, then folders of sessions that nobody drives."""
    named = list(Relay.objects.order_by("repo").values_list("repo", flat=True).distinct()[:MOST_REPOSITORIES])
    seen = Session.objects.exclude(cwd="").order_by("cwd").values_list("cwd", flat=True).distinct()
    for cwd in seen[:MOST_REPOSITORIES]:
        if cwd not in named:
            named.append(cwd)
    return Form(tuple(named[:MOST_REPOSITORIES]), agents.offered(), reviewers.groups(), policies.newest_of_each())


def look(repo: str) -> Place:
    """The repository at its tip; never raises. A handful of git processes, whatever its size."""
    if not repo.strip() or "\0" in repo:
        return Place(problem=_("Name a folder inside a git repository."))
    try:
        found = git_store.discover(Path(repo))
        if found.bare or found.top is None:
            return Place(problem=_("It is a bare repository or a git folder: name the work tree."))
        if not found.head_sha:
            return Place(problem=_("It has no commit yet: make a first commit."))
        store = GitStore(found.git_dir, Path(settings.RELAY_VAR) / "shield")
        paths = store.paths(found.head_sha)
        text = store.read_file(found.head_sha, "dos.toml")
    except StoreUnavailable as error:
        fix = told(error.fix) or _("name a folder inside a git repository")
        return Place(problem=f"{told(error.evidence)}; {fix}")
    table, problem = _table(text)
    return Place(
        top=str(found.top),
        git_dir=str(found.git_dir),
        branch=found.head_branch or "",
        tip=found.head_sha,
        paths=paths,
        store=store,
        table=table,
        table_problem=problem,
    )


def _table(text: bytes | None) -> tuple[Mapping[str, Any] | None, str]:
    if not text:
        return None, ""
    try:
        return policyfile.parse_toml_relay_table(text.decode("utf-8", "replace")) or None, ""
    except policy.PolicyError as error:
        return None, refused(error)


def checked(
    values: Mapping[str, str],
    *,
    globs: Sequence[str],
    agent_args: Mapping[str, str],
    args_problem: str,
    start_table: Mapping[str, Any],
    start_problem: str,
    version_table: Mapping[str, Any],
) -> Checked:
    """All that the page says of a form as it stands. One query, for who holds regions of that repository."""
    place = look(values.get("repo", ""))
    done = _parsed(values.get("done_when", ""))
    watch = values.get("watch") == "1"
    groups, problem = _policy(place, start_table, start_problem, version_table, done, watch)
    said = {
        "repo": _repository(place, values.get("repo", "")),
        "objective": _objective(values.get("objective", "")),
        "done_when": _done_when(values.get("done_when", ""), done, place, watch),
        "region": _region(globs, place),
        "agent": _agent(values.get("agent", ""), agent_args, args_problem),
        "policy": Said(problem, True) if problem else Said(),
    }
    return Checked(said, suggest_done(place), suggest_region(place), groups, problem)


def _policy(
    place: Place,
    start_table: Mapping[str, Any],
    start_problem: str,
    version_table: Mapping[str, Any],
    done: DoneWhen | None,
    watch: bool,
) -> tuple[tuple[policies.Group, ...], str]:
    if start_problem or place.table_problem:
        return (), start_problem or place.table_problem
    layers = [("site", settings.SITE_POLICY), ("policy", version_table), ("start", start_table)]
    if place.table is not None:
        layers.insert(1, ("repository", place.table))
    groups, problem = policies.effective(layers)
    if not problem and done is not None:
        try:
            over = {**policy.flatten(version_table), **policy.flatten(start_table)}
            built = policy.build(settings.SITE_POLICY, place.table, over)
            has_cmd = any(clause.kind == "cmd" for clause in done.clauses)
            policy.check_goal(built, prose=done.prose, watch=watch, has_cmd=has_cmd)
        except policy.PolicyError as error:
            problem = refused(error)
    return groups, problem


def _repository(place: Place, typed: str) -> Said:
    if not typed.strip():
        return Said()
    if place.problem:
        return Said(place.problem, True)
    where = place.branch or _("no branch checked out")
    text = ngettext(
        "%(top)s, %(branch)s at %(sha)s, %(files)s file. It starts from this commit, on a branch of its own.",
        "%(top)s, %(branch)s at %(sha)s, %(files)s files. It starts from this commit, on a branch of its own.",
        len(place.paths),
    )
    return Said(text % {"top": place.top, "branch": where, "sha": place.tip[:12], "files": whole(len(place.paths))})


def _objective(text: str) -> Said:
    if not text.strip():
        return Said()
    try:
        objective.make_pin("pin", text)
    except objective.ObjectiveError as error:
        return Said(refused(error), True)
    return Said(_("It is carried word for word, by identity and digest, into every baton."))


def _parsed(text: str) -> DoneWhen | None:
    try:
        return donewhen.parse(text)
    except donewhen.DoneWhenError:
        return None


def _done_when(text: str, done: DoneWhen | None, place: Place, watch: bool) -> Said:
    if not text.strip():
        return Said()
    if done is None:
        try:
            donewhen.parse(text)
        except donewhen.DoneWhenError as error:
            return Said(refused(error), True)
        return Said()
    if done.prose:
        why = _("Needs a person: %(why)s. No store can say that it holds, so a reviewer confirms it.")
        if watch:
            never = _("A watch needs clauses that a store can answer.")
            return Said(f"{why % {'why': told(done.why_prose)}} {never}", wrong=True, person=True)
        limit = _("The relay needs a limit of its envelope.")
        return Said(f"{why % {'why': told(done.why_prose)}} {limit}", person=True)
    ends = _("the relay rests while all hold") if watch else _("the relay ends by itself when all hold")
    head = ngettext(
        "Machine-readable, %(n)d clause: %(ends)s.", "Machine-readable, %(n)d clauses: %(ends)s.", len(done.clauses)
    )
    return Said(head % {"n": len(done.clauses), "ends": ends}, more=_now(done, place))


def _now(done: DoneWhen, place: Place) -> tuple[str, ...]:
    """Each clause with what the store says of it now; a command is not run here."""
    if place.store is None:
        return tuple(clause.text for clause in done.clauses)
    stores = Stores(place.store, place.tip, None, "", work_tree=Path(place.top))
    try:
        verdict = donewhen.evaluate(done, stores.clause_answers(done, {}))
    except StoreUnavailable as error:
        return (told(error.evidence),)
    words = {Truth.TRUE: _("holds now"), Truth.FALSE: _("does not hold yet"), Truth.UNKNOWN: _("not known")}
    found = []
    for clause, truth, evidence in verdict.clauses:
        if clause.kind == "cmd":
            found.append(clause.text + ": " + _("run on a clean checkout of the tip, not here"))
        else:
            found.append(f"{clause.text}: {words[truth]}{f' ({told(evidence)})' if evidence else ''}")
    return tuple(found)


def _region(globs: Sequence[str], place: Place) -> Said:
    try:
        held = region.check_region(globs)
    except region.RegionError as error:
        return Said(refused(error), True)
    if not place.top:
        return Said()
    holders = _holders(place.git_dir, held)
    if holders:
        text = _("COLLISION_RISK: %(holders)s holds a region that could match one of these paths. Narrow it, or wait.")
        return Said(
            text % {"holders": ", ".join(holders)}, wrong=True, more=_sample(held, place), relays=tuple(holders)
        )
    if held == region.EVERYTHING:
        text = ngettext(
            "Everything in the repository, %(n)s file: no other relay may work in it meanwhile.",
            "Everything in the repository, %(n)s files: no other relay may work in it meanwhile.",
            len(place.paths),
        )
        return Said(text % {"n": whole(len(place.paths))})
    matching = [path for path in place.paths if region.matches(held, path)]
    text = ngettext(
        "Matches %(n)s file of %(all)s; what lies outside is left alone. Nobody else holds it.",
        "Matches %(n)s files of %(all)s; what lies outside is left alone. Nobody else holds it.",
        len(matching),
    )
    told = text % {"n": whole(len(matching)), "all": whole(len(place.paths))}
    idle = [glob for glob in held if not any(region.matches((glob,), path) for path in matching)]
    if idle:
        told += " " + _("No file matches %(globs)s yet.") % {"globs": ", ".join(idle[:SAMPLE])}
    return Said(told, person=bool(idle), more=_some(matching))


def _sample(held: Sequence[str], place: Place) -> tuple[str, ...]:
    return _some([path for path in place.paths if region.matches(held, path)])


def _some(paths: Sequence[str]) -> tuple[str, ...]:
    shown = tuple(paths[:SAMPLE])
    return (*shown, _("and %(n)s more") % {"n": whole(len(paths) - SAMPLE)}) if len(paths) > SAMPLE else shown


def _holders(git_dir: str, held: Sequence[str]) -> list[str]:
    """The relays whose regions are not proven disjoint from this one. One query."""
    leases = RegionLease.objects.filter(repository__git_dir=git_dir, held=True).order_by("since")
    return [
        relay_id
        for relay_id, theirs in leases.values_list("relay_id", "region")
        if not region.proven_disjoint(tuple(theirs), tuple(held))
    ][:MOST_HOLDERS]


def _agent(name: str, args: Mapping[str, str], problem: str) -> Said:
    if problem:
        return Said(problem, True)
    try:
        registry.adapter(name).check_args(dict(args))
    except (registry.UnknownAgent, AgentArgError) as error:
        return Said(refused(error), True)
    return Said()


# --- suggestions: from what is committed at the tip, never run


def suggest_done(place: Place) -> tuple[Suggestion, ...]:
    """What could say that this repository's work is done, the surest first."""
    if place.store is None:
        return ()
    paths = set(place.paths)
    found: list[Suggestion] = []
    if ISSUES in paths:
        found.append(Suggestion("issues:none open", _("it has an issue file")))
    texts = _read(place, [one for one in ("Makefile", "pyproject.toml", "package.json") if one in paths])
    if re.search(rb"^test\s*:", texts.get("Makefile", b""), re.MULTILINE):
        found.append(Suggestion('cmd:"make test"', _("its Makefile has a target test")))
    if _has_pytest(texts.get("pyproject.toml", b""), paths):
        found.append(Suggestion('cmd:"python -m pytest -q"', _("it has Python tests")))
    if _npm_test(texts.get("package.json", b"")):
        found.append(Suggestion('cmd:"npm test"', _("its package.json has a script test")))
    if "Cargo.toml" in paths:
        found.append(Suggestion('cmd:"cargo test"', _("it is a Rust crate")))
    if "go.mod" in paths:
        found.append(Suggestion('cmd:"go test ./..."', _("it is a Go module")))
    return tuple(found)


def _read(place: Place, names: Sequence[str]) -> dict[str, bytes]:
    if place.store is None or not names:
        return {}
    try:
        return {name: text or b"" for name, text in place.store.read_files(place.tip, names).items()}
    except StoreUnavailable:
        return {}


def _has_pytest(text: bytes, paths: set[str]) -> bool:
    if any(re.match(r"(tests?/|.*/tests?/)?test_[^/]*\.py\Z", path) for path in paths):
        return True
    try:
        tool = tomllib.loads(text.decode("utf-8", "replace")).get("tool", {})
    except (ValueError, RecursionError):
        return False
    return isinstance(tool, dict) and "pytest" in tool


def _npm_test(text: bytes) -> bool:
    try:
        found = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return False
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return (
        isinstance(scripts, dict) and isinstance(scripts.get("test"), str) and "no test specified" not in str(scripts)
    )


def suggest_region(place: Place) -> tuple[Suggestion, ...]:
    """The repository's own top folders, the fullest first, and the usual pair of sources and their tests."""
    if not place.paths:
        return ()
    folders = Counter(path.partition("/")[0] for path in place.paths if "/" in path)
    named = [name for name, _count in folders.most_common() if region.glob_problem(f"{name}/**") == ""]
    visible = [name for name in named if not name.startswith(".")][:MOST_FOLDERS]
    found = [Suggestion(f"{name}/**", _files(folders[name])) for name in visible]
    pair = [name for name in ("src", "lib", "app") if name in folders][:1] + [
        name for name in ("tests", "test") if name in folders
    ][:1]
    if len(pair) == 2:
        both = "\n".join(f"{name}/**" for name in pair)
        found.insert(0, Suggestion(both, _files(sum(folders[name] for name in pair))))
    return (*found, Suggestion("**", _files(len(place.paths))))


def _files(count: int) -> str:
    return ngettext("%(n)s file", "%(n)s files", count) % {"n": whole(count)}
