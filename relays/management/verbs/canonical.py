"""`canonical FILE`: the one spelling of a baton, "the canonical bytes on stdout, nothing else, no newline"."""

import argparse

from relays.core import baton
from relays.management.cli import Exit, one_line, read_input, refuse, write_bytes

#: the largest text that the reader looks at, and one byte more so that it sees that there is more
READ_BYTES = baton.Bounds().total * baton.Bounds().factor + 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a baton, or - for standard input")


def run(options: argparse.Namespace) -> int:
    reading = baton.read(read_input(options.file, READ_BYTES, cut=True))
    refusal = reading.refusal
    if reading.baton is None or refusal is not None:
        where = (
            f"step {refusal.step}, {refusal.path or 'the whole text'}: {refusal.evidence}" if refusal else "not read"
        )
        refuse(f"{options.file} is no baton ({one_line(where)}); correct it at its source", Exit.INVALID)
    write_bytes(baton.canonical(reading.baton))
    return Exit.FINE
