"""`relay adopt --repo DIR`: take up a relay that ran on another host, from a clone that was fetched with its refs."""

import argparse

from relays.actions.adopt import adopt
from relays.actions.adoption import AdoptRequest
from relays.management.cli import Exit, emit, say
from relays.management.verbs._relays import acting, add_actor, pairs, policy_table


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repo", required=True, metavar="DIR", help="a clone with refs/notes/relay and refs/relay/*")
    parser.add_argument("--relay", default="", metavar="ID", help="which relay, where the clone holds several")
    parser.add_argument("--agent", default="", metavar="NAME", help="who runs its legs here; default: as recorded")
    parser.add_argument("--agent-arg", nargs="+", action="extend", default=[], metavar="K=V")
    parser.add_argument("--policy", default="", metavar="FILE", help="a TOML file with a [relay] table")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="key=value")
    parser.add_argument("--mode", default="", metavar="M", help="shadow, advise or enforce; default: as recorded")
    parser.add_argument("--done-when", default="", metavar="T", help="its goal said again, where it runs a command")
    parser.add_argument("--host-dead", action="store_true", help="no other host drives it any more")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    done = adopt(
        acting(options),
        AdoptRequest(
            repo=options.repo,
            relay=options.relay,
            agent=options.agent,
            agent_args=pairs(options.agent_arg, "--agent-arg"),
            policy=policy_table(options.policy),
            sets=options.set,
            mode=options.mode,
            done_when=options.done_when,
            host_dead=options.host_dead,
            comment=options.comment,
        ),
    )
    for line in done.left_out:
        say(f"adopt {done.relay}: {line}")
    data = {
        "relay": done.relay,
        "leg": done.leg,
        "outcome": done.outcome,
        "status": done.status,
        "why": done.why,
        "branch": done.branch,
        "tip": done.tip,
        "left_out": list(done.left_out),
    }
    emit(data, options.json, f"{done.relay} leg {done.leg}: {done.outcome}, {done.status}: {done.why}")
    return Exit.FINE
