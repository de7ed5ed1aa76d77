"""Reading sessions: a cold tree of 200 MB beside ccusage, a second look at it, the memory of a file of 1 GB.

ccusage is fetched from the npm registry into a folder of the bench, where node and npm are there; else the row says so.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.bench import session_tree
from tests.bench.table import Row, median

PEER = "ccusage@20.0.24"
ROOT = Path(__file__).parents[2]
#: a process of its own: what it takes is its own, and it starts cold
READ = """
import json, os, resource, sys, time
started = float(sys.argv[3])
import django
django.setup()
from relays.sessions.run import import_paths
from relays.sessions.totals import totals

def used():
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime

began, cpu = time.perf_counter(), used()
outcome = import_paths([sys.argv[1]], processes=int(sys.argv[2]))
first, first_cpu = time.perf_counter() - began, used() - cpu
whole, whole_cpu = time.time() - started, used()
began = time.perf_counter()
again = import_paths([sys.argv[1]], processes=int(sys.argv[2]))
second = time.perf_counter() - began
# of this program alone: ru_maxrss begins with what the process that started it held
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(json.dumps({"first": first, "cpu": first_cpu, "whole": whole, "whole cpu": whole_cpu,
                  "second": second, "changed": len(again.changed), "peak": peak,
                  "totals": totals(outcome.sources)}))
"""


def rows(
    folder: Path, megabytes: int, huge_megabytes: int, runs: int, few_calls: int = 300, many_calls: int = 30_000
) -> list[Row]:
    """`megabytes` of the tree, `huge_megabytes` of the one file, each cold read so often; two pages."""
    tree = session_tree.write(folder / "tree", megabytes * 1_000_000)
    read = [_read(folder, tree.root, processes=2) for _ in range(runs)]
    first = median([one["first"] for one in read])
    _same_totals(read[0]["totals"]["tokens"], tree)
    peer = _peer(folder, tree, runs)
    cpu, whole, whole_cpu = (median([one[name] for one in read]) for name in ("cpu", "whole", "whole cpu"))
    detail = {
        "files": tree.files,
        "calls": tree.calls,
        "bytes": tree.size,
        "lines and bytes by kind": tree.makeup,
        "MB/s": tree.size / first / 1e6,
        "walls": [one["first"] for one in read],
    }
    what = f"sessions, cold tree of {tree.size / 1e6:,.0f} MB, {tree.size / first / 1e6:,.0f} MB/s; {tree.said()}"
    wall = theirs = goal = None
    if isinstance(peer, str):
        what = f"{what} ({peer})"
    else:
        wall, theirs, goal = *peer, 1.5
    started = "with the start of Python and Django"
    second = median([one["second"] for one in read])
    return [
        Row(what, first, "s", wall, PEER, goal, of_ratio=True, detail=detail),
        # the peer's time is that of a program that starts
        Row(f"sessions, that import {started}", whole, "s", wall, PEER, goal, of_ratio=True),
        Row("sessions, processor time of that import", cpu, "s", theirs, PEER),
        Row(f"sessions, processor time of that import {started}", whole_cpu, "s", theirs, PEER),
        Row("sessions, second look with nothing new", second, "s", first, "first look", 0.05, of_ratio=True),
        _memory(folder, huge_megabytes),
        _page(folder, few_calls, many_calls),
    ]


def _read(folder: Path, tree: Path, processes: int) -> dict:
    """One cold import into a database of its own."""
    var = folder / "cold"
    shutil.rmtree(var, ignore_errors=True)
    env = {**os.environ, "RELAY_VAR": str(var), "DJANGO_SETTINGS_MODULE": "relaysite.settings"}
    manage = [sys.executable, "manage.py", "migrate", "-v", "0"]
    subprocess.run(manage, cwd=ROOT, env=env, check=True, capture_output=True)
    command = [sys.executable, "-c", READ, str(tree), str(processes), str(time.time())]
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    shutil.rmtree(var)
    found = json.loads(done.stdout)
    if found["changed"]:
        raise RuntimeError("a second look found something new, so it is no second look")
    return found


def _same_totals(found: dict[str, int], tree: session_tree.Tree) -> None:
    ours = {
        "input_tokens": found["input"],
        "cache_creation_input_tokens": found["cache_write_5m"] + found["cache_write_1h"],
        "cache_read_input_tokens": found["cache_read"],
        "output_tokens": found["output"],
    }
    if ours != tree.tokens:
        raise RuntimeError(f"the totals are not those of the tree: {ours} instead of {tree.tokens}")


def _peer(folder: Path, tree: session_tree.Tree, runs: int) -> tuple[float, float] | str:
    """Its wall and processor time, or why there is none. Raises where its totals are not the tree's."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "no ccusage: node and npm are not installed"
    home = folder / "peer"
    home.mkdir(exist_ok=True)
    got = subprocess.run([npm, "install", "--no-audit", "--no-fund", PEER], cwd=home, capture_output=True, text=True)
    program = home / "node_modules" / ".bin" / "ccusage"
    if got.returncode or not program.exists():
        return "no ccusage: the npm registry does not answer"
    env = {**os.environ, "CLAUDE_CONFIG_DIR": str(tree.root)}
    walls, cpus = [], []
    for _ in range(runs):
        before, began = _children(), time.perf_counter()
        done = subprocess.run([program, "session", "--json", "--offline"], env=env, check=True, capture_output=True)
        walls.append(time.perf_counter() - began)
        cpus.append(_children() - before)
    totals = json.loads(done.stdout)["totals"]
    theirs = {
        "input_tokens": totals["inputTokens"],
        "cache_creation_input_tokens": totals["cacheCreationTokens"],
        "cache_read_input_tokens": totals["cacheReadTokens"],
        "output_tokens": totals["outputTokens"],
    }
    if theirs != tree.tokens:
        raise RuntimeError(f"ccusage counts {theirs}, the tree has {tree.tokens}")
    return median(walls), median(cpus)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory(folder: Path, megabytes: int) -> Row:
    """The most that a process holds while it reads one file of so many MB, with all that it needs beside."""
    root = folder / "huge"
    root.mkdir(exist_ok=True)
    path = root / "00000000-0000-4000-8000-000000000000.jsonl"
    size = session_tree.write_one(path, megabytes * 1_000_000)
    found = _read(folder, root, processes=1)
    path.unlink()
    detail = {"bytes": size, "calls": found["totals"]["calls"], "seconds": found["first"]}
    what = f"sessions, memory while a file of {size / 1e6:,.0f} MB is read"
    return Row(what, found["peak"] / 1e6, "MB", goal=200.0, detail=detail)


def _page(folder: Path, few: int, many: int) -> Row:
    """The page of a session with many calls beside that of one with few, both asked for in turn."""
    from django.contrib.auth.models import User
    from django.test import Client

    from relays.models import Session
    from relays.sessions.run import import_paths

    client = Client(HTTP_HOST="127.0.0.1")
    pages: dict[int, str] = {}
    for calls in (few, many):
        path = folder / "pages" / f"{calls:08d}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(exist_ok=True)
        session_tree.write_one(path, calls * 1_000, bytes_a_call=1_000)
        import_paths([path])
        pages[calls] = f"/sessions/{Session.objects.get(sid=path.stem).pk}/"
    client.force_login(User.objects.create_superuser("bench-pages"))
    taken: dict[int, list[float]] = {few: [], many: []}
    for _ in range(12):
        for calls, page in pages.items():
            began = time.perf_counter()
            answer = client.get(page)
            taken[calls].append(time.perf_counter() - began)
            if answer.status_code != 200:
                raise RuntimeError(f"the page of a session answers {answer.status_code}")
    # the first of each fills caches
    ours, peer = (median(taken[calls][1:]) * 1000 for calls in (many, few))
    what = f"page of a session with {many:,} calls"
    return Row(
        what, ours, "ms", peer, f"with {few:,}", 1.3, of_ratio=True, detail={"few": taken[few], "many": taken[many]}
    )
