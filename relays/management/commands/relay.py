"""`python manage.py relay VERB …`: the frame of the command line; a verb is a module in `relays.management.verbs`."""

import argparse
import fcntl
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from relays.management.cli import Exit, LineParser, Refusal, keep_traceback, one_line, say

#: verb -> what it does; the module is `relays.management.verbs.<verb with _ for ->`, but for those in `MODULES`
VERBS: dict[str, str] = {
    "start": "start a relay on a repository",
    "status": "one relay with its legs, gates, verdicts and readout",
    "list": "all relays",
    "park": "end the leg at its next safe point and wait for an operator",
    "resume": "let a parked relay run on",
    "stop": "end a relay for good",
    "approve": "approve what a gate waits for",
    "refuse": "refuse what a gate waits for",
    "readout": "the seven lines of the operator readout",
    "fact": "state a fact that every leg to come is given, or take it back",
    "pin": "pin a pointer that every leg to come is given, or take it back",
    "restate": "state a new objective, or other limits of the budget",
    "policy": "keep policies under names, compare them, and give a relay another one",
    "verify": "judge all pointers of a relay's baton again",
    "check-baton": "climb the reader's ladder over a baton file",
    "canonical": "the canonical bytes of a baton file",
    "plan": "the deterministic reload plan for a baton file",
    "safe-point": "may the leg stop here, and if not, why",
    "handoff": "write a baton from facts",
    "ledger": "add rows to a relay's ledger, or list them",
    "group": "groups of reviewers: who is in them, add and remove",
    "reviewers": "who decides on a relay's gates",
    "import": "read sessions of agents that nobody drives",
    "follow": "read sessions that nobody drives, and keep reading what is added to them",
    "adopt": "take up a relay that ran on another host, from a clone",
    "push": "send the branch of a relay that is done to the address that its policy names",
    "release": "let go of the region that a relay without a running leg holds",
    "clean": "remove what ended relays left behind, where nothing is lost",
    "simulate": "the cost engine alone: what a way to carry a window over would bill",
    "prices": "what a model costs, or which models were seen and have no price",
    "compare": "what a relay or a session cost, against what compaction would have cost",
    "budget": "what an owner's relays may cost in a month, and what they cost",
    "backtest": "how well the engine predicts sessions that really compacted",
    "audit": "recompute the chain of decisions",
    "doctor": "check git, database, broker, worker, beat, disk, clock and the agent programs",
    "hooks": "put our hooks into an agent program's settings, or take them out",
    "layout": "how pages are laid out for a person",
    "token": "make, list or revoke tokens of the API",
    "user": "make a user with a role, or a sign-in link",
    "serve": "web, worker and beat as one (what `make run` does)",
    "mcp": "the agents' query tool as an MCP server over stdio (a leg's agent starts this)",
    "agent": "the agents' query tool on the command line (a leg's agent uses this)",
    "supervise": "drive one leg (the workers start this)",
    "look": "look at one idle watch (the workers start this)",
}


#: verbs of an agent inside its leg: they know its socket and its token, and nothing of the site
INSIDE_A_LEG = frozenset({"mcp", "agent"})
#: verbs that need none, say what is missing, or make it themselves
WITHOUT_DATABASE = frozenset({"canonical", "doctor", "hooks", "serve", "simulate"}) | INSIDE_A_LEG
#: verbs whose word cannot be a module's name
MODULES = {"import": "import_sessions"}


def verb_module(verb: str) -> ModuleType:
    """The module of a verb, imported only when that verb was asked for, so that every other one starts fast."""
    return importlib.import_module(f"relays.management.verbs.{MODULES.get(verb, verb.replace('-', '_'))}")


def parser_for(verb: str) -> argparse.ArgumentParser:
    """The parser of one verb; `--json` is everywhere."""
    module = verb_module(verb)
    parser = LineParser(prog=f"relay {verb}", description=VERBS[verb] + ".")
    module.configure(parser)
    if "--json" not in parser._option_string_actions:
        parser.add_argument("--json", action="store_true", help="answer with one JSON value")
    return parser


def first_use(verb: str, rest: list[str]) -> None:
    """Make the embedded database where there is none yet, so that the first command on a fresh machine just works."""
    if verb in WITHOUT_DATABASE or (verb == "check-baton" and "--repo" not in " ".join(rest)):
        return
    path = Path(str(connection.settings_dict["NAME"]))
    if connection.vendor != "sqlite" or (path.exists() and path.stat().st_size):
        return
    with (Path(settings.RELAY_VAR) / "migrate.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        call_command("migrate", verbosity=0, interactive=False)


def overview() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb.ljust(width)}  {what}" for verb, what in VERBS.items()]
    return "\n".join(["usage: python manage.py relay VERB [--json] …", "", *lines, "", "relay VERB --help says more."])


def run(arguments: list[str]) -> int:
    """Run one verb; the exit code. Every refusal and failure ends as one line on stderr."""
    _open_streams()
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        sys.stdout.write(overview() + "\n")
        return Exit.FINE if arguments else Exit.USAGE
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        say(f"relay: no verb {one_line(verb)!r}; take one of {', '.join(VERBS)}")
        return Exit.USAGE
    try:
        code = _run(verb, rest)
        sys.stdout.flush()
    except BrokenPipeError:
        # whoever read has seen enough: quiet, and nothing more is flushed into the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FINE
    return code


def _open_streams() -> None:
    """A stream that was closed by whoever started us (`>&-`) takes what is written and keeps nothing."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")


def _run_inside_a_leg(verb: str, rest: list[str]) -> int:
    """No setting is read, no database opened and nothing written: an agent's environment names none of them."""
    try:
        return int(verb_module(verb).run(parser_for(verb).parse_args(rest)))
    except Refusal as refusal:
        say(refusal.message)
        return refusal.code
    except SystemExit as ended:  # argparse's --help
        return int(ended.code) if isinstance(ended.code, int) else Exit.FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - no traceback reaches an agent
        say(f"relay {verb} failed: {type(error).__name__}: {one_line(error)}; run it again")
        return Exit.FAILED


def _run(verb: str, rest: list[str]) -> int:
    if verb in INSIDE_A_LEG:
        return _run_inside_a_leg(verb, rest)
    from relays.actions.base import Refused

    try:
        options = parser_for(verb).parse_args(rest)
        first_use(verb, rest)
        return int(verb_module(verb).run(options))
    except Refusal as refusal:
        say(refusal.message)
        return refusal.code
    except Refused as refused:
        say(refused)
        return int(refused.exit_code)
    except SystemExit as ended:  # argparse's --help
        return int(ended.code) if isinstance(ended.code, int) else Exit.FAILED
    except KeyboardInterrupt:
        say(f"relay {verb}: interrupted")
        return 130
    except BrokenPipeError:
        raise
    except UnicodeEncodeError:
        say(f"relay {verb}: an argument is not text in UTF-8; write it in UTF-8")
        return Exit.USAGE
    except DatabaseError as error:
        kept = keep_traceback(verb, error)
        if any(words in str(error) for words in ("no such table", "no such column", "has no column", "does not exist")):
            say(f"relay {verb}: the database is not of this version; run `python manage.py migrate` (details: {kept})")
        elif any(words in str(error) for words in ("disk is full", "disk I/O error", "No space left")):
            say(f"relay {verb}: the database cannot be written ({one_line(error)}); free space on its disk, then go on")
        else:
            say(f"relay {verb}: the database does not answer ({one_line(error)}); start it or check DATABASE_URL")
        return Exit.FAILED
    except Exception as error:  # noqa: BLE001 - the frame's duty: no traceback reaches a person; it is kept in a file
        kept = keep_traceback(verb, error)
        say(f"relay {verb} failed: {type(error).__name__}: {one_line(error)}; the details are in {kept}")
        return Exit.FAILED


class Command(BaseCommand):
    """Hands everything behind `relay` to the verb: Django's own options belong before nothing here."""

    help = "The command line of the product; `relay --help` lists the verbs."
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        sys.exit(run(argv[2:]))

    def handle(self, *arguments: Any, **options: Any) -> None:
        sys.exit(run([str(argument) for argument in arguments]))
