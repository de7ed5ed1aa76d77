"""The public reference's pairs for baton, objective and reload: `exact` as theirs, `spec wins` by name as ours."""

import hashlib
from dataclasses import replace

import pytest

from relays.core.baton import BatonError, canonical, check_new, digest, read, unique
from relays.core.objective import Pin, Reconciliation, make_pin, pin_digest, reconcile, verifies
from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref, first_known
from relays.core.reload import climb, pointers_of
from relays.core.strictjson import write
from tests.core.batons import OTHER, SHA, plain, text_of
from tests.vectors.load import exact, vector, vectors

DIGESTS = [row for row in exact("objective_digest") if "digest" in row["expected"]]
ESCAPES = exact("json_escaping")

#: how many pairs of each area this file meets: exact, spec wins
MET = {
    "objective_digest": (6, 0),
    "objective_reconcile": (5, 1),
    "baton_canonical": (2, 1),
    "json_escaping": (13, 1),
    "do_not_rederive": (1, 0),
    "resolver": (3, 4),
    "stale": (3, 3),
}


@pytest.mark.parametrize("area", MET)
def test_no_pair_is_left_unmet(area):
    uses = [row["use"] for row in vectors(area)]
    assert (uses.count("exact"), sum(use.startswith("spec wins") for use in uses)) == MET[area]


# -- objective


@pytest.mark.parametrize("row", DIGESTS, ids=[row["id"] for row in DIGESTS])
def test_objective_digest(row):
    pin = make_pin(row["input"]["pin_id"], row["input"]["text"])
    assert pin.digest == row["expected"]["digest"]
    assert verifies(pin)


def test_digest_step_irrelevant():
    row = vector("digest-step-irrelevant")
    pin_id, text = row["input"]["pin"]
    first, second = (Pin(pin_id, text, pin_digest(pin_id, text), step) for step in row["input"]["steps"])
    assert (first.digest == second.digest) is row["expected"]["same_digest"]
    assert verifies(first)
    assert verifies(second)


def test_digest_tamper():
    row = vector("digest-tamper")
    assert verifies(Pin(**row["input"])) is row["expected"]["verify"]


P1 = make_pin("p1", "Ship it.")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("reconcile-both-zero", Pin("", "", ""), Pin("", "", "")),
        ("reconcile-gone", P1, Pin("", "", "")),
        ("reconcile-same", P1, make_pin("p1", "Ship it.")),
        ("reconcile-other-id", P1, make_pin("p2", "Ship it.")),
        ("reconcile-rewritten", P1, make_pin("p1", "Ship half of it.")),
    ],
)
def test_objective_reconcile(name, before, after):
    expected = vector(name)["expected"]
    outcome = reconcile(before, after)
    assert outcome == expected["outcome"]
    assert outcome.asks is expected["refusal"]


def test_reconcile_corrupt_first_is_not_established_here():
    assert vector("reconcile-corrupt-first")["use"].startswith("spec wins")
    assert reconcile(None, Pin("p1", "Ship it.", "0" * 64)) is Reconciliation.QUERY_USER


# -- canonical bytes


def test_canon_spec_example():
    row = vector("canon-spec-example")
    reading = read(text_of(row["input"]["baton"]))
    assert reading.baton is not None
    made = canonical(reading.baton)
    assert made == row["expected"]["bytes"].encode()
    assert len(made) == row["expected"]["len"]
    assert digest(reading.baton) == row["expected"]["sha256"] == hashlib.sha256(made).hexdigest()


def test_canon_array_order():
    row = vector("canon-array-order")
    data = plain()
    data["progress_cursor"]["held_region"] = row["input"]["held_region"]
    baton = read(text_of(data)).baton
    assert baton is not None
    assert list(baton.cursor.held_region) == row["expected"]["held_region"]
    assert b'"held_region":["b/**","a/**"]' in canonical(baton)


def test_canon_empty_cannot_be_written_here():
    row = vector("canon-empty")
    assert row["use"].startswith("spec wins")
    reading = read(row["expected"]["bytes"])
    assert reading.refusal is not None
    assert (reading.refusal.step, reading.refusal.path) == (1, "parent_trace")


@pytest.mark.parametrize("row", ESCAPES, ids=[row["id"] for row in ESCAPES])
def test_json_escaping(row):
    body = write(row["input"]["string"])[1:-1]
    assert body == row["expected"]["json_literal_body"]
    assert body.encode().hex() == row["expected"]["utf8_hex"]


def test_escape_invalid_utf8_is_refused_here():
    row = vector("escape-invalid-utf8")
    assert row["use"].startswith("spec wins")
    whole = text_of(plain()).encode()
    broken = whole.replace(b"Close", b"Close" + bytes.fromhex(row["input"]["bytes_hex"]))
    refusal = read(broken).refusal
    assert refusal is not None
    assert (refusal.step, refusal.path) == (1, "")


def test_dnr_dedup():
    row = vector("dnr-dedup")
    assert list(unique(row["input"]["add"])) == row["expected"]["pointers"]


# -- pointers and staleness


def climb_with(start="verified", at="verified", start_sha=SHA, at_sha=OTHER):
    """The ladder where git gave these verdicts for the two anchors, and everything else resolves."""
    data = plain()
    data["progress_cursor"]["start_sha"] = start_sha
    data["tombstone"]["at_sha"] = at_sha
    reading = read(text_of(data))
    if reading.baton is None:
        return climb(reading, answers={}, expected=None, done=None, holder=None)
    answers = {one.path: Answer(Verdict.VERIFIED, "found") for one in pointers_of(reading.baton)}
    answers["progress_cursor.start_sha"] = Answer(Verdict(start), f"start: {start}")
    answers["tombstone.at_sha"] = Answer(Verdict(at), f"at: {at}")
    return climb(reading, answers=answers, expected=None, done=None, holder=None)


@pytest.mark.parametrize(("name", "said"), [("resolve-1", "verified"), ("resolve-2", "dangling")])
def test_resolver_commit(name, said):
    expected = vector(name)["expected"]["verdict"]
    record = next(one for one in climb_with(start=said).checks if one.path == "progress_cursor.start_sha")
    assert record.verdict == expected


def test_resolve_multi():
    row = vector("resolve-multi")
    chain = [Answer(Verdict(one), f"store {place}") for place, one in enumerate(row["input"]["chain"])]
    assert first_known(chain).verdict == row["expected"]["verdict"]
    assert first_known([chain[0], chain[0]]) == chain[0]
    assert first_known([]).verdict is Verdict.UNKNOWN
    asked = iter(chain)
    first_known(asked)
    assert list(asked) == chain[2:], "no store is asked after the one that knows"


def test_resolve_empty_ref_is_refused_at_step_1_here():
    assert vector("resolve-4")["use"].startswith("spec wins")
    refusal = read(text_of(plain(artifacts=[{"kind": "commit", "ref": ""}]))).refusal
    assert refusal is not None
    assert (refusal.step, refusal.path) == (1, "artifacts[0].ref")


@pytest.mark.parametrize(
    ("name", "kind", "ref"), [("resolve-issue", Kind.ISSUE, "#1863"), ("resolve-ledger", Kind.LEDGER, "row")]
)
def test_issue_and_ledger_have_stores_here(name, kind, ref):
    assert vector(name)["use"].startswith("spec wins")
    reading = read(text_of(plain(artifacts=[{"kind": str(kind), "ref": ref}])))
    assert reading.baton is not None
    answers = {one.path: Answer(Verdict.VERIFIED, "found") for one in pointers_of(reading.baton)}
    ladder = climb(reading, answers=answers, expected=None, done=None, holder=None)
    assert next(one for one in ladder.checks if one.path == "artifacts[0].ref").verdict == "verified"
    assert ladder.outcome == "fresh"


def test_resolve_annotated_tag_is_refused_as_an_anchor_here():
    assert vector("resolve-annotated-tag")["use"].startswith("spec wins")
    with pytest.raises(PointerError):
        check_ref(Kind.COMMIT, "v1.0.0")
    ladder = climb_with(start_sha="v1.0.0")
    assert (ladder.outcome, ladder.step, ladder.path) == ("invalid", 1, "progress_cursor.start_sha")


@pytest.mark.parametrize(
    ("name", "ladder"),
    [
        ("stale-fresh", lambda: climb_with()),
        ("stale-dangling-start", lambda: climb_with(start="dangling")),
        ("stale-tomb-dangling", lambda: climb_with(at="dangling")),
    ],
)
def test_stale(name, ladder):
    expected = vector(name)["expected"]
    made = ladder()
    assert (made.outcome == "stale") is expected["stale"]
    assert (str(made.reason) if made.reason else "") == expected["reason"]
    # our path names the whole way to the field
    assert (made.path or "").removeprefix("progress_cursor.") == expected["culprit"]


@pytest.mark.parametrize(
    ("name", "ladder", "path"),
    [
        ("stale-unreachable-start", lambda: climb_with(start="unknown"), "progress_cursor.start_sha"),
        ("stale-tomb-unknown", lambda: climb_with(at="unknown"), "tombstone.at_sha"),
    ],
)
def test_unknown_anchor_is_its_own_outcome_here(name, ladder, path):
    assert vector(name)["use"].startswith("spec wins")
    made = ladder()
    assert (made.outcome, made.reason, made.path) == ("unknown", None, path)


def test_stale_tomb_empty_sha_is_refused_at_step_1_here():
    assert vector("stale-tomb-empty-sha-with-reason")["use"].startswith("spec wins")
    made = climb_with(at_sha="")
    assert (made.outcome, made.step, made.path) == ("invalid", 1, "tombstone.at_sha")


def test_an_empty_baton_is_no_new_baton():
    baton = read(text_of(plain())).baton
    assert baton is not None
    with pytest.raises(BatonError) as refused:
        check_new(replace(baton, relay_id=""))
    assert refused.value.path == "relay_id"
