"""`relay agent VERB [ARGUMENT=VALUE…] [--args JSON]`: the agents' query tool on the command line.

The same verbs as the MCP server, answered by the same supervisor; exit 12 where the use is refused.
"""

import argparse
import json
from typing import Any

from relays.agents import queryline
from relays.core.querytool import VERBS, QueryRefused
from relays.management.cli import Exit, emit, read_input, refuse

ARGS_BYTES = 256 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in VERBS.values():
        dashed = [verb.name.replace("_", "-")] if "_" in verb.name else []
        one = verbs.add_parser(verb.name, aliases=dashed, help=verb.what.split(".")[0], description=verb.what)
        one.add_argument("--args", default="", metavar="JSON", help="all arguments as one JSON object, or - for stdin")
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer with one JSON value")
        for name, schema in verb.schema.get("properties", {}).items():
            repeated = schema.get("type") == "array"
            one.add_argument(
                f"--{name.replace('_', '-')}",
                dest=f"arg_{name}",
                action="append" if repeated else "store",
                metavar=name.upper(),
                help=schema.get("description", "").replace("%", "%%") + (" (repeat it)" if repeated else ""),
            )


def run(options: argparse.Namespace) -> int:
    options.verb = options.verb.replace("-", "_")
    given = _given(options)
    try:
        answer = queryline.ask(options.verb, given)
    except QueryRefused as error:
        refuse(f"agent {options.verb}: {error.why.removeprefix(f'{options.verb}: ')}", Exit.NOT_PERMITTED)
    emit(answer, options.json, lambda: json.dumps(answer, ensure_ascii=False, indent=1))
    return Exit.FINE


def _given(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if options.args:
        text = read_input("-", ARGS_BYTES).decode("utf-8", "replace") if options.args == "-" else options.args
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            refuse(f"agent {options.verb}: --args is not JSON; write it as one object", Exit.USAGE)
        if not isinstance(found, dict):
            refuse(f"agent {options.verb}: --args is no JSON object", Exit.USAGE)
    for name, schema in VERBS[options.verb].schema.get("properties", {}).items():
        value = getattr(options, f"arg_{name}")
        if value is not None:
            found[name] = _typed(options.verb, name, schema, value)
    return found


def _typed(verb: str, name: str, schema: dict[str, Any], value: Any) -> Any:
    """A word of the command line as the type that the schema names; what is none is refused by the verb itself."""
    kinds = {schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ()))}
    if "boolean" in kinds:
        if value not in ("true", "false", "1", "0"):
            refuse(f"agent {verb}: --{name} is true or false", Exit.USAGE)
        return value in ("true", "1")
    try:
        if "integer" in kinds:
            return int(value)
        return float(value) if "number" in kinds else value
    except ValueError:
        refuse(f"agent {verb}: --{name} {value!r} is no number", Exit.USAGE)
