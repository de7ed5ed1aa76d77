"""`relay policy save|list|show|diff|set`: named policies, version by version, and another policy for a relay."""

import argparse

from relays.actions import policies
from relays.core import policytable
from relays.management.cli import Exit, emit, read_input, table
from relays.management.verbs._relays import acting, add_actor, emit_outcome
from relays.models import PolicyVersion
from relays.reports import policies as report

LARGEST = 4 * 64 * 1024  # bytes


def configure(parser: argparse.ArgumentParser) -> None:
    does = parser.add_subparsers(dest="do", required=True, metavar="save|list|show|diff|set")
    save = does.add_parser("save", help="keep a file as the next version of a name", allow_abbrev=False)
    save.add_argument("name", metavar="NAME")
    save.add_argument("file", metavar="FILE", help="TOML with a [relay] table, - for standard input")
    listed = does.add_parser("list", help="the newest version of each name, or all of one", allow_abbrev=False)
    listed.add_argument("name", nargs="?", default="", metavar="NAME")
    show = does.add_parser("show", help="one version, as it was written", allow_abbrev=False)
    show.add_argument("name", metavar="NAME[@N]")
    diff = does.add_parser("diff", help="what another version says otherwise", allow_abbrev=False)
    diff.add_argument("before", metavar="NAME@N")
    diff.add_argument("after", metavar="NAME@N")
    change = does.add_parser("set", help="give a relay another policy from the next boundary on", allow_abbrev=False)
    change.add_argument("id", metavar="ID")
    change.add_argument("--policy", default="", metavar="NAME[@N]")
    change.add_argument("--set", nargs="+", action="extend", default=[], metavar="key=value")
    for one in (save, change):
        one.add_argument("--comment", default="", metavar="T")
        add_actor(one)
    for one in (save, listed, show, diff, change):
        one.add_argument("--json", action="store_true", help="answer with one JSON value")


def run(options: argparse.Namespace) -> int:
    return {"save": _save, "list": _list, "show": _show, "diff": _diff, "set": _set}[options.do](options)


def _save(options: argparse.Namespace) -> int:
    text = read_input(options.file, LARGEST).decode("utf-8", "replace")
    version = policies.save(acting(options), options.name, text, comment=options.comment)
    emit(report.as_mapping(version), options.json, f"{version}: {len(version.table)} keys, {version.digest[:12]}")
    return Exit.FINE


def _list(options: argparse.Namespace) -> int:
    if options.name:
        policies.version_or_refuse(options.name)
        rows = list(PolicyVersion.objects.filter(name=options.name).select_related("made_by"))
    else:
        rows = list(report.newest_of_each())
    lines = [[str(row), row.made_by.get_username(), f"{row.at:%Y-%m-%d %H:%M}", row.comment] for row in rows]
    shown = table(lines, ["policy", "by", "at", "comment"]) if lines else "no policy yet: relay policy save NAME FILE"
    emit({"policies": [report.as_mapping(row) for row in rows]}, options.json, shown)
    return Exit.FINE


def _show(options: argparse.Namespace) -> int:
    version = policies.version_or_refuse(options.name)
    emit({**report.as_mapping(version), "text": version.text}, options.json, version.text.rstrip("\n"))
    return Exit.FINE


def _diff(options: argparse.Namespace) -> int:
    before, after = (policies.version_or_refuse(name) for name in (options.before, options.after))
    found = policytable.changes(before.table, after.table)
    data = [{"key": one.key, "before": one.before, "after": one.after} for one in found]
    lines = [f"{one.key}: {_said(one.before)} -> {_said(one.after)}" for one in found]
    data_of = {"before": str(before), "after": str(after), "changes": data}
    emit(data_of, options.json, "\n".join(lines) or "they say the same")
    return Exit.FINE


def _said(value: str | None) -> str:
    return "not set" if value is None else value or "(empty)"


def _set(options: argparse.Namespace) -> int:
    version = policies.version_or_refuse(options.policy) if options.policy else None
    outcome = policies.change(acting(options), options.id, sets=options.set, version=version, comment=options.comment)
    return emit_outcome(outcome, options)
