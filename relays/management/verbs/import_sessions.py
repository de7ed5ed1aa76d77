"""`relay import PATH…`: read sessions of agents that nobody drives; what was read before is not read again.

Nothing is written into the folders that are read. Ctrl-C leaves everything that was stored, and the same command goes
on from there.
"""

import argparse
from typing import Any

from relays.management.cli import Exit, emit, many, say
from relays.management.verbs._reading import bar, real_paths
from relays.sessions import run as reading

#: as shells report a program that ended by Ctrl-C
INTERRUPTED = 130
#: problems that are named one by one
MOST_NAMED = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder with all below it")


def run(options: argparse.Namespace) -> int:
    from relays.sessions import rows
    from relays.sessions.totals import totals

    paths = real_paths("import", options.paths)
    far: reading.Progress | None = None
    try:
        with bar() as show:

            def progress(now: reading.Progress) -> None:
                nonlocal far
                far = now
                if show is not None:
                    show(now)

            # two processes parse: nothing else runs in this one that a fork could disturb
            outcome = reading.import_paths(paths, progress=progress, processes=2)
        # their repositories say what became of each would-be baton's pointers
        for some in rows.chunks(sorted(outcome.changed)):
            from relays.sessions import judging

            judging.judge_waiting(some, lambda: False)
    except KeyboardInterrupt:
        return _interrupted(far, options.json)
    found = totals(outcome.sources)
    found["skipped"] = outcome.skipped
    found["problems"] = [{"path": one.path, "why": one.why} for one in outcome.problems]
    emit(found, options.json, lambda: _words(found))
    for problem in outcome.problems[:MOST_NAMED]:
        say(f"{problem.path}: {problem.why}")
    if len(outcome.problems) > MOST_NAMED:
        say(f"and {len(outcome.problems) - MOST_NAMED} more paths that could not be read")
    return Exit.FINE


def _interrupted(far: reading.Progress | None, as_json: bool) -> int:
    """What was done and how to go on; `far`: as far as the last batch that was stored, None = there was none."""
    done, whole = (far.files_done, far.files_total) if far else (0, None)
    if as_json:
        counts = {"files_done": done, "files_total": whole}
        sizes = {"bytes_done": far.bytes_done if far else 0, "bytes_total": far.bytes_total if far else None}
        emit({"interrupted": True, **counts, **sizes}, True, "")
    read = f"{done:,} of {whole:,} files read" if whole is not None else "nothing read yet"
    say(
        f"import: interrupted: {read}; what was stored stays, and the same command goes on from there"
        " (sessions without figures get them then)"
    )
    return INTERRUPTED


def _words(found: dict[str, Any]) -> str:
    """The answer for a person."""
    from relays.reports import anomalies

    tokens = found["tokens"]
    lines = [
        f"{many(found['files'], 'file')}, {many(found['sessions'], 'session')}, {many(found['calls'], 'call')}",
        f"tokens: input {tokens['input']:,} · cache read {tokens['cache_read']:,} · cache write 5 min "
        f"{tokens['cache_write_5m']:,} · cache write 1 h {tokens['cache_write_1h']:,} · output {tokens['output']:,}",
        f"{many(found['compactions'], 'compaction')}; at most {found['max_resident_tokens']:,} tokens resident",
        f"cost: {_cost(found)}",
    ]
    if found["lower_bound_calls"]:
        calls = many(found["lower_bound_calls"], "call")
        lines.append(f"output is only a lower bound: the agent never wrote the final figure of {calls}")
    if found["copied_calls"]:
        lines.append(f"{found['copied_calls']:,} rows repeat a call that counts elsewhere")
    if found["skipped"]:
        lines.append(
            f"{found['skipped']:,} {'file holds' if found['skipped'] == 1 else 'files hold'} no session: left out"
        )
    for one in anomalies.found(found["anomalies"], ()):
        lines.append(f"{one.title} × {found['anomalies'][one.kind]:,}: {one.sentence}")
    return "\n".join(lines)


def _cost(found: dict[str, Any]) -> str:
    if found["cost"] is None:
        return "not yet (no call has a price)" if found["calls"] else "not yet (no calls)"
    said = f"$ {float(found['cost']):,.2f} at list prices"
    if found["partial"]:
        models = ", ".join(f"{model} ({many(calls, 'call')})" for model, calls in found["unpriced"].items())
        said += f", partial: no price is known for {models}"
    return said
