"""`relay start`: start a relay; with `--wait` drive it here until it ends, parks or idles."""

import argparse
from datetime import datetime

from django.db import DatabaseError
from django.utils import timezone

from relays.actions.start import StartRequest, dry_run, held_by, in_words, start
from relays.core import readout
from relays.driver import foreground
from relays.management.cli import Exit, emit, keep_traceback, refuse, say
from relays.management.verbs._relays import acting, add_actor, pairs, policy_table, stored_policy
from relays.models import Relay, RelayStatus


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repo", required=True, metavar="DIR")
    parser.add_argument("--objective", required=True, metavar="T")
    parser.add_argument("--done-when", required=True, metavar="T")
    parser.add_argument("--region", nargs="+", action="extend", default=[], metavar="GLOB")
    parser.add_argument("--agent", required=True, metavar="NAME")
    parser.add_argument("--agent-arg", nargs="+", action="extend", default=[], metavar="K=V")
    parser.add_argument(
        "--policy",
        default="",
        metavar="FILE|NAME",
        help="a TOML file with a [relay] table, or a stored policy: NAME, NAME@N",
    )
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="key=value")
    parser.add_argument("--mode", default="", choices=["", "shadow", "advise", "enforce"], metavar="M")
    parser.add_argument("--watch", action="store_true", help="done_when is an invariant that is kept")
    parser.add_argument("--at", type=_moment, default=None, metavar="TIME", help="its first leg starts then (ISO 8601)")
    parser.add_argument("--try", dest="try_one", action="store_true", help="run one leg, then park")
    parser.add_argument("--dry-run", action="store_true", help="check all and show the first prompt; nothing is made")
    parser.add_argument("--reviewers", default="", metavar="GROUP", help="only its members decide on the gates")
    parser.add_argument(
        "--wait", type=_seconds, default=None, metavar="SECONDS", help="drive it here, no worker needed"
    )
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    version = stored_policy(options.policy)
    request = StartRequest(
        repo=options.repo,
        objective=options.objective,
        done_when=options.done_when,
        region=options.region,
        agent=options.agent,
        agent_args=pairs(options.agent_arg, "--agent-arg"),
        version=version,
        policy=policy_table("" if version else options.policy),
        sets=options.set,
        mode=options.mode,
        watch=options.watch,
        at=options.at,
        try_one=options.try_one,
        reviewers=options.reviewers,
    )
    if options.dry_run:
        return _dry_run(options, request)
    relay = start(acting(options), request)
    note = in_words(relay)
    if note and not options.json:
        say(f"{relay.pk}: {note}")
    code = Exit.FINE
    if options.wait is not None:
        relay, code = _wait(relay, options)
    emit(
        {"relay": relay.pk, "status": relay.status, **({"note": note} if note else {})},
        options.json,
        f"{relay.pk} {relay.status} {relay.status_why}".rstrip(),
    )
    return code


def _dry_run(options: argparse.Namespace, request: StartRequest) -> int:
    found = dry_run(acting(options), request)
    prompt = found.prompt.bytes.decode("utf-8", "replace")
    data = {
        "prompt": prompt,
        "bytes": len(found.prompt.bytes),
        "digest": found.prompt.digest,
        "readout": readout.as_mapping(found.readout),
        "holder": found.holder or None,
    }
    words = "\n".join([prompt.rstrip("\n"), "", *readout.lines(found.readout), f"prompt: {data['bytes']} bytes"])
    emit(data, options.json, words)
    if found.holder:
        refuse(held_by(found.holder, found.plan.region, str(found.plan.place.top)), Exit.HELD)
    return Exit.FINE


def _wait(relay: Relay, options: argparse.Namespace) -> tuple[Relay, Exit]:
    said: list[str] = []

    def tell(now: Relay) -> None:
        line = f"{now.pk} {now.status} {now.status_why}".rstrip()
        # where it rests is the answer, on stdout
        if not options.json and now.status not in foreground.RESTING and said[-1:] != [line]:
            said.append(line)
            say(line)

    try:
        relay = foreground.drive(relay.pk, options.wait, say=tell)
    except DatabaseError as error:
        # never "start again": that would be a second relay
        refuse(
            f"relay start: {relay.pk} is started, but the database takes nothing more ({error}): free space on its "
            f"disk or start it, then a worker goes on with {relay.pk}: `relay serve` "
            f"(details: {keep_traceback('start', error)})",
            Exit.FAILED,
        )
    if relay.status in foreground.RESTING:
        _compare(relay)
    if relay.status == RelayStatus.DONE:
        return relay, Exit.FINE
    if relay.status in foreground.RESTING:
        return relay, Exit.PARKED
    return relay, Exit.TIME_OVER


def _compare(relay: Relay) -> None:
    """Where no worker runs, nobody else brings its costs up to date; what fails here is left to a worker."""
    from relays.costs import refresh

    try:
        refresh.bring_up_relay(relay)
    except Exception as error:  # noqa: BLE001 - the relay ended as it ended, whatever its comparison meets
        keep_traceback("start", error)


def _moment(text: str) -> datetime:
    """A time as ISO 8601; without a zone it is the fleet's."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write it as 2026-12-24T18:00+01:00") from None
    return found if found.tzinfo else timezone.make_aware(found)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
