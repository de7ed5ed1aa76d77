import copy
import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relays.core.baton import (
    Artifact,
    Baton,
    BatonError,
    Bounds,
    Cursor,
    TombstoneRecord,
    as_mapping,
    canonical,
    check_new,
    digest,
    read,
)
from relays.core.objective import make_pin, pin_digest
from relays.core.pointers import Kind
from relays.core.policy import build
from relays.core.vocabulary import TOMBSTONE_REASONS
from tests.core.batons import SHA, batons, plain, text_of

REQUIRED = [
    *plain(),
    "objective.pin_id",
    "objective.text",
    "objective.digest",
    "progress_cursor.start_sha",
    "progress_cursor.held_region",
    "tombstone.reason",
    "tombstone.at_sha",
    "artifacts[0].kind",
    "artifacts[0].ref",
]
OBJECTS = ["", "objective", "progress_cursor", "tombstone", "artifacts[0]"]


def holder(data, path):
    """The object that holds the last key of a path, and that key."""
    parts = path.replace("[0]", ".0").split(".")
    for part in parts[:-1]:
        data = data[int(part)] if part == "0" else data[part]
    return data, parts[-1]


def at(path, value):
    """The plain baton with one field replaced."""
    data = plain()
    where, key = holder(data, path)
    where[key] = value
    return data


def refusal(text):
    made = read(text).refusal
    assert made is not None
    return made.step, made.path


def accepted(data):
    baton = read(text_of(data)).baton
    assert baton is not None
    return baton


# -- what the reader refuses, and where


@pytest.mark.parametrize("path", REQUIRED)
def test_a_missing_key(path):
    data = plain()
    where, key = holder(data, path)
    del where[key]
    assert refusal(text_of(data)) == (1, path)


@pytest.mark.parametrize("path", REQUIRED)
@pytest.mark.parametrize("value", [None, True, 1.5, [None], {"a": 1}])
def test_a_value_of_another_type(path, value):
    step, where = refusal(text_of(at(path, value)))
    assert step == 1
    assert where == path or where.startswith((f"{path}[0]", f"{path}."))


@pytest.mark.parametrize("path", OBJECTS)
@pytest.mark.parametrize("key", ["bytes", "Schema", "percent", "Claimed", "", "schema "])
def test_an_unknown_key_in_every_object(path, key):
    full = f"{path}.{key}" if path else key
    assert refusal(text_of(at(full.replace("schema ", "schema\u00a0"), 1)))[0] == 1
    assert refusal(text_of(at(full, 1))) == (1, full)


@pytest.mark.parametrize("path", ["leg", "objective.text", "tombstone.at_sha", "artifacts[0].ref"])
def test_a_key_that_stands_twice(path):
    key = path.split(".")[-1]
    data = plain()
    where, last = holder(data, path)
    text = text_of(data)
    member = f'"{key}": {json.dumps(where[last])}'
    assert member in text
    assert refusal(text.replace(member, f"{member}, {member}", 1)) == (1, path)


@pytest.mark.parametrize(
    "path",
    [
        "claimed",
        "objective.claimed",
        "progress_cursor.claimed",
        "tombstone.claimed",
        "artifacts[0].claimed",
    ],
)
def test_claimed_is_step_2_in_every_object(path):
    assert refusal(text_of(at(path, 80))) == (2, path)
    assert read(text_of(at(path, 80))).steps[0].verdict == "passed"


def test_claimed_is_step_2_at_any_depth_and_beside_any_other_fault():
    assert refusal(text_of(plain(open_questions=[{"claimed": 1}]))) == (2, "open_questions[0].claimed")
    assert refusal(text_of(plain(extra={"deep": [{"claimed": None}]}))) == (2, "extra.deep[0].claimed")
    assert refusal(text_of(plain(leg=-1, claimed=1))) == (2, "claimed")
    assert refusal('{"claimed":1,"claimed":2}') == (2, "claimed")
    assert refusal('[{"claimed":1}]') == (2, "[0].claimed")
    assert len(read('{"claimed":1}').steps) == 1  # step 1 did not pass, and is not said to have


def test_the_word_claimed_as_a_value_is_no_field():
    accepted(plain(next_action="claimed"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("relay_id", ""),
        ("relay_id", " "),
        ("relay_id", "-x"),
        ("relay_id", "../../heads/main"),
        ("relay_id", "a\nb"),
        ("leg", -1),
        ("leg", 2**63),
        ("parent_trace", ""),
        ("objective.pin_id", ""),
        ("objective.pin_id", "a\0b"),
        ("objective.text", ""),
        ("objective.text", " \n"),
        ("objective.step", -1),
        ("objective.step", True),
        ("objective.source_span_id", "a\nb"),
        ("done_when", "a\nb"),
        ("done_when", "a\x85b"),
        ("next_action", "a\tb"),
        ("next_action", "x" * 1601),
        ("progress_cursor.start_sha", "HEAD"),
        ("progress_cursor.start_sha", SHA.upper()),
        ("progress_cursor.start_sha", SHA + "\n"),
        ("progress_cursor.ledger_ref", "a b"),
        ("progress_cursor.ledger_ref", "../x#L1"),
        ("progress_cursor.wip_tree", "stash"),
        ("progress_cursor.session_image", "a\nb"),
        ("progress_cursor.session_image", None),
        ("progress_cursor.held_region", []),
        ("tombstone.at_sha", ""),
        ("tombstone.note", "a\nb"),
        ("tombstone.note", "x" * 4001),
        ("artifacts[0].kind", "Commit"),
        ("artifacts[0].kind", ""),
        ("artifacts[0].ref", "/etc/passwd"),
    ],
)
def test_a_form_that_is_refused_at_step_1(path, value):
    assert refusal(text_of(at(path, value))) == (1, path)


@pytest.mark.parametrize(
    ("name", "entry", "path"),
    [
        ("open_questions", "", "open_questions[1]"),
        ("open_questions", "a\nb", "open_questions[1]"),
        ("open_questions", "x" * 4001, "open_questions[1]"),
        ("open_questions", "#1 " + "x" * 961, "open_questions[1]"),
        ("do_not_rederive", "file:../../etc/passwd", "do_not_rederive[1]"),
        ("do_not_rederive", "commit:HEAD", "do_not_rederive[1]"),
        ("do_not_rederive", 7, "do_not_rederive[1]"),
    ],
)
def test_an_entry_that_is_refused(name, entry, path):
    assert refusal(text_of(plain(**{name: ["#1", entry]}))) == (1, path)


@pytest.mark.parametrize("glob", ["", "/x", "../x", "-x", "!x", "a\\b", "a[b", None])
def test_a_hostile_region(glob):
    assert refusal(text_of(at("progress_cursor.held_region", ["docs/**", glob]))) == (
        1,
        "progress_cursor.held_region[1]",
    )


@pytest.mark.parametrize(
    ("name", "most", "entry"),
    [
        ("open_questions", 512, "#1"),
        ("do_not_rederive", 1024, "#1"),
        ("artifacts", 1024, {"kind": "issue", "ref": "#1"}),
        ("progress_cursor.held_region", 512, "a"),
    ],
)
def test_lists_up_to_eight_times_the_bound(name, most, entry):
    assert read(text_of(at(name, [entry] * most))).baton is not None
    assert refusal(text_of(at(name, [entry] * (most + 1)))) == (1, name)


def test_the_size_is_judged_before_anything_is_parsed():
    text = text_of(plain())
    limit = 8 * 16 * 1024
    assert read(text + " " * (limit - len(text.encode()))).baton is not None
    assert refusal(text + " " * (limit - len(text.encode()) + 1)) == (1, "")
    assert refusal("x" * 50_000_000) == (1, "")
    assert refusal(b"\xff" * 50_000_000) == (1, "")


def test_the_objective_may_be_eight_times_as_long_and_no_longer():
    for size, fine in ((8 * 4096, True), (8 * 4096 + 1, False)):
        text = "x" * size
        data = plain(objective={"pin_id": "p", "text": text, "digest": pin_digest("p", text)})
        assert (read(text_of(data)).baton is not None) is fine


def test_a_lone_surrogate_is_refused_with_its_field():
    text = text_of(plain()).replace("Close #12.", "\\ud800")
    assert refusal(text) == (1, "next_action")
    assert refusal(text_of(plain(next_action="\ud800"))) == (1, "")
    assert accepted(json.loads(text_of(plain()).replace("Close #12.", "\\ud83d\\ude00"))).next_action == "😀"


def test_the_tag_is_step_3():
    for value in ("fak.relay.baton.v2", "", "FAK.RELAY.BATON.V1", "fak.relay.baton.v1 "):
        assert refusal(text_of(plain(schema=value))) == (3, "schema")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("Drain half of it.", lambda value: value),
        ("Drain it. ", lambda value: value),  # never trimmed
        ("Drain it.", str.upper),
        ("Drain it.", lambda value: value[:-1]),
        ("Drain it.", lambda value: ""),
        ("Drain it.", lambda value: f" {value}"),
    ],
)
def test_the_digest_is_step_4(text, change):
    data = plain()
    data["objective"] = {"pin_id": "pin-1", "text": text, "digest": change(data["objective"]["digest"])}
    assert refusal(text_of(data)) == (4, "objective.digest")


def test_an_untrimmed_objective_whose_digest_is_right_is_accepted():
    data = plain(objective={"pin_id": "p", "text": " x\n", "digest": hashlib.sha256(b"p\0 x\n").hexdigest()})
    assert accepted(data).objective.text == " x\n"


@pytest.mark.parametrize("reason", ["", "RELAY_FINISHED", "relay_rotated", "OBJECTIVE_DRIFT", "HYSTERESIS"])
def test_the_reason_is_step_5(reason):
    assert refusal(text_of(at("tombstone.reason", reason))) == (5, "tombstone.reason")


@pytest.mark.parametrize("reason", sorted(TOMBSTONE_REASONS))
def test_every_reason_of_the_vocabulary_passes(reason):
    assert accepted(at("tombstone.reason", reason)).tombstone.reason == reason


def test_the_first_refusal_ends_the_ladder_and_the_steps_before_it_are_kept():
    reading = read(text_of(at("tombstone.reason", "x")))
    assert [(step.step, step.verdict) for step in reading.steps] == [
        (1, "passed"),
        (2, "passed"),
        (3, "passed"),
        (4, "passed"),
        (5, "refused"),
    ]
    assert all(step.evidence for step in reading.steps)
    assert reading.baton is None


def test_optional_keys_at_their_empty_value_are_as_good_as_absent():
    data = plain()
    data["objective"] |= {"step": 0, "source_span_id": ""}
    data["progress_cursor"] |= {"ledger_ref": "", "wip_tree": "", "session_image": ""}
    data["tombstone"]["note"] = ""
    assert canonical(accepted(data)) == canonical(accepted(plain()))


def test_other_writers_are_understood():
    data = plain(do_not_rederive=["#dead-end-1", "memory:tried-X"], next_action="", done_when="")
    data["progress_cursor"] |= {"session_image": "fak.session.v1:abc", "ledger_ref": ".dos/runs/demo.jsonl#L12"}
    baton = accepted(data)
    assert baton.cursor.session_image == "fak.session.v1:abc"
    assert b'"session_image":"fak.session.v1:abc"' in canonical(baton)


# -- properties


@given(st.text() | st.binary())
def test_reading_never_raises(text):
    reading = read(text)
    assert (reading.baton is None) is (reading.refusal is not None)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("claimed"), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_reading_never_raises_for_a_baton_with_junk_in_any_field(data):
    made = plain()
    where, key = holder(made, data.draw(st.sampled_from([*REQUIRED, "claimed", "tombstone.note", "objective.step"])))
    where[key] = data.draw(JUNK)
    reading = read(json.dumps(made))
    assert (reading.baton is None) is (reading.refusal is not None)
    assert all("\n" not in step.evidence + step.path for step in reading.steps)
    if reading.baton is not None:
        assert canonical(accepted(as_mapping(reading.baton))) == canonical(reading.baton)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_reading_never_raises_for_a_damaged_text(data):
    raw = bytearray(text_of(plain()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        raw = raw or bytearray(b" ")
    reading = read(bytes(raw))
    assert (reading.baton is None) is (reading.refusal is not None)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(batons(), st.booleans(), st.booleans(), st.randoms())
def test_every_baton_of_the_shape_is_accepted_and_its_canonical_bytes_are_stable(data, ascii_only, pretty, random):
    shuffled = list(data.items())
    random.shuffle(shuffled)
    reading = read(json.dumps(dict(shuffled), ensure_ascii=ascii_only, indent=2 if pretty else None))
    assert reading.refusal is None
    assert reading.baton is not None
    made = canonical(reading.baton)
    again = read(made)
    assert again.baton is not None
    assert canonical(again.baton) == made
    assert digest(again.baton) == hashlib.sha256(made).hexdigest()
    assert list(json.loads(made)) == list(plain())
    assert json.loads(made) == as_mapping(reading.baton)
    assert not set(made.decode()) & {"<", ">", "&", "\u2028", "\u2029"}


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(batons(), st.sampled_from(REQUIRED), st.sampled_from(["drop", "null", "unknown"]))
def test_every_baton_beside_the_shape_is_refused_with_its_path(data, path, damage):
    data["artifacts"] = [{"kind": "issue", "ref": "#1"}, *data["artifacts"]]
    data = copy.deepcopy(data)
    where, key = holder(data, path)
    if damage == "drop":
        del where[key]
    elif damage == "null":
        where[key] = None
    else:
        where[f"{key}x"] = 1
        path += "x"
    assert refusal(text_of(data)) == (1, path)


# -- writing


def new(**changes):
    baton = Baton(
        relay_id="RLY-1",
        leg=3,
        parent_trace="trace-3",
        objective=make_pin("pin-1", "Drain it."),
        done_when="issues:none open",
        cursor=Cursor(SHA, held_region=("docs/**",)),
        next_action="Close #12.",
        open_questions=("#5 which parser",),
        artifacts=(Artifact(Kind.COMMIT, SHA),),
        do_not_rederive=("memory:tried-x",),
        tombstone=TombstoneRecord("RELAY_ROTATED", SHA),
    )
    return replace(baton, **changes)


def test_a_new_baton_within_the_bounds_may_be_written():
    check_new(new())
    check_new(new(next_action=""))
    check_new(new(next_action="é" * 100))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"next_action": "é" * 101}, "next_action"),
        ({"next_action": "a\nb"}, "next_action"),
        ({"done_when": ""}, "done_when"),
        ({"done_when": "x" * 501}, "done_when"),
        ({"relay_id": ""}, "relay_id"),
        ({"parent_trace": ""}, "parent_trace"),
        ({"leg": -1}, "leg"),
        ({"objective": replace(make_pin("p", "x"), digest="0" * 64)}, "objective.digest"),
        ({"objective": replace(make_pin("p", "x"), text=" x", digest=pin_digest("p", " x"))}, "objective"),
        ({"cursor": Cursor("HEAD", held_region=("a",))}, "progress_cursor.start_sha"),
        ({"cursor": Cursor(SHA)}, "progress_cursor.held_region"),
        ({"cursor": Cursor(SHA, held_region=("/a",))}, "progress_cursor.held_region[0]"),
        ({"cursor": Cursor(SHA, held_region=tuple(f"d{n}/**" for n in range(65)))}, "progress_cursor.held_region"),
        ({"open_questions": ("which parser?",)}, "open_questions[0]"),
        ({"do_not_rederive": ("#1", "#dead-end-1")}, "do_not_rederive[1]"),
        ({"do_not_rederive": ("#1 " + "x" * 121,)}, "do_not_rederive[0]"),
        ({"open_questions": tuple(f"#{n}" for n in range(1, 66))}, "open_questions"),
        ({"artifacts": tuple(Artifact(Kind.ISSUE, f"#{n}") for n in range(1, 130))}, "artifacts"),
        ({"artifacts": (Artifact(Kind.FILE, "../x"),)}, "artifacts[0].ref"),
        ({"artifacts": (Artifact(Kind.FILE, "x" * 501),)}, "artifacts[0].ref"),
        ({"tombstone": TombstoneRecord("RELAY_OVER", SHA)}, "tombstone.reason"),
        ({"tombstone": TombstoneRecord("RELAY_ROTATED", SHA, "x" * 501)}, "tombstone.note"),
        ({"artifacts": tuple(Artifact(Kind.FILE, f"{n:0>400}") for n in range(60))}, ""),
        ({"next_action": "\ud800"}, ""),
    ],
)
def test_a_new_baton_beside_the_bounds_may_not(changes, path):
    with pytest.raises(BatonError) as refused:
        check_new(new(**changes))
    assert refused.value.path == path


def test_bounds_are_data():
    assert Bounds() == Bounds(
        total=16 * 1024, objective=4 * 1024, next_action=200, line=500, label=120,
        open_questions=64, artifacts=128, do_not_rederive=128, held_region=64, factor=8,
    )  # fmt: skip
    assert build({}, None, {}).baton == Bounds()
    with pytest.raises(BatonError):
        check_new(new(), Bounds(total=200))
    check_new(new(next_action="x" * 300), Bounds(next_action=300))


def test_encoding_an_accepted_baton_checks_no_bounds():
    baton = accepted(plain(next_action="x" * 1600))
    assert b"x" * 1600 in canonical(baton)
    with pytest.raises(BatonError):
        check_new(baton)


def test_lists_are_written_in_order_without_repeats_and_never_sorted():
    made = as_mapping(
        new(
            open_questions=("#2", "#1", "#2"),
            artifacts=(Artifact(Kind.ISSUE, "#2"), Artifact(Kind.ISSUE, "#1"), Artifact(Kind.ISSUE, "#2")),
            cursor=Cursor(SHA, held_region=("b/**", "a/**", "b/**")),
        )
    )
    assert made["open_questions"] == ["#2", "#1"]
    assert made["artifacts"] == [{"kind": "issue", "ref": "#2"}, {"kind": "issue", "ref": "#1"}]
    assert made["progress_cursor"] == {"start_sha": SHA, "held_region": ["b/**", "a/**"]}


def test_html_in_a_baton_is_escaped():
    made = canonical(new(next_action="<b>&\u2028é\x7f"))
    assert b'"next_action":"\\u003cb\\u003e\\u0026\\u2028\xc3\xa9\x7f"' in made
