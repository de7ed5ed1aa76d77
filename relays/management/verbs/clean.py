"""`relay clean [--dry-run]`: remove what ended relays left behind, where nothing is lost; says why it keeps."""

import argparse

from relays.actions.clean import clean
from relays.management.cli import Exit, emit
from relays.management.verbs._relays import acting, add_actor


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would go and what would stay")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    done = clean(acting(options), dry_run=options.dry_run, comment=options.comment)
    data = {
        "removed": list(done.removed),
        "kept": [{"path": path, "why": why} for path, why in done.kept],
        "dry_run": options.dry_run,
    }
    verb = "would remove" if options.dry_run else "removed"
    lines = [f"{verb} {path}" for path in done.removed] + [f"kept {path}: {why}" for path, why in done.kept]
    emit(data, options.json, "\n".join(lines or ["nothing is left behind"]))
    return Exit.FINE
