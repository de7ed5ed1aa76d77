"""Pairs of the public reference for fidelity, progress, assumptions and page faults."""

import pytest

from relays.core.assumptions import assess
from relays.core.fidelity import over_legs, score
from relays.core.pointers import parse_pointer
from relays.core.progress import count
from relays.core.residency import Fault, judge_fault
from tests.vectors.load import exact, vector, vectors

#: how many pairs of each area this file meets: exact, spec wins
MET = {"fidelity": (2, 2), "progress": (0, 1), "assumption": (7, 0), "page_fault": (6, 0)}


def each(area):
    return pytest.mark.parametrize("row", exact(area), ids=lambda row: row["id"])


@pytest.mark.parametrize("area", MET)
def test_no_pair_is_left_unmet(area):
    uses = [row["use"] for row in vectors(area)]
    assert (uses.count("exact"), sum(use.startswith("spec wins") for use in uses)) == MET[area]


@each("fidelity")
def test_fidelity(row):
    found = score(row["input"]["verdicts"])
    assert {name: getattr(found, name) for name in row["expected"]} == row["expected"]


@pytest.mark.parametrize("name", ["fidelity-vacuous", "fidelity-all-unknown"])
def test_nothing_judged_reads_not_yet(name):
    row = vector(name)
    found = score(row["input"]["verdicts"])
    assert found.score is None
    assert found.verdict == over_legs([found]).verdict == "not yet"
    counts = ("total", "verified", "dangling", "unknown", "unresolved")
    assert {one: getattr(found, one) for one in counts} == {one: row["expected"][one] for one in counts}


def progress_of(ledgers):
    """Each leg's progress where its ledger resolves these references."""
    carried, made = set(), []
    for refs in ledgers:
        rows = [(f"r{ref}", (ref,), True) for ref in refs]
        found = count(
            [],
            region=("**",),
            tip_tree="",
            cursor_trees=(),
            prior_patch_ids=(),
            prior_shas=(),
            ledger_rows=rows,
            prior_refs=carried,
        )
        carried.update(found.refs)
        made.append(found.total)
    return made


def test_progress_is_the_set_of_new_resolved_references():
    """noprogress-shrink: a ledger that shrinks and comes back is none; one that comes back with a new reference is."""
    row = vector("noprogress-shrink")
    sizes = row["input"]["legs_verified_steps"]
    same = [["a", "b", "c"][:size] for size in sizes]
    assert progress_of(same) == [3, 0, 0]
    renewed = [["a", "b", "c"], ["a", "b"], ["a", "b", "d"]]
    assert [len(refs) for refs in renewed] == sizes
    assert progress_of(renewed) == [3, 0, 1]


def test_a_line_of_a_ledger_file_is_a_pointer():
    """progress-fragment: `path#Lnn` is parsed; the reference opened a file of that name."""
    ref = vector("progress-fragment")["input"]["ledger_ref"]
    pointer = parse_pointer(f"ledger:{ref}")
    assert pointer.ref == ref
    assert pointer.ref.rpartition("#L")[2] == "12"


@each("assumption")
def test_assumption(row):
    given = row["input"]
    floors = {"floor": given["policy"]["min"], "inferred": given["policy"]["inferred"]}
    assert assess(given["source"], given.get("confidence"), **floors).action == row["expected"]["action"]


@each("page_fault")
def test_page_fault(row):
    given = row["input"]
    fault = Fault(
        state=given["state"],
        required=given["required"],
        rebuildable=given.get("silently_reconstructable", False),
        durability=given.get("durability", ""),
    )
    assert judge_fault(fault).outcome == row["expected"]["decision"]
