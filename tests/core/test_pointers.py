import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relays.core.pointers import (
    Answer,
    Kind,
    Pointer,
    PointerError,
    Verdict,
    check_ref,
    control_character,
    format_entry,
    one_line,
    parse_entry,
    parse_pointer,
    read_entry,
)
from relays.core.region import glob_matches
from tests.core.batons import POINTERS, SHA

HOSTILE = [
    "",
    "-rf",
    "--upload-pack=x",
    "/etc/passwd",
    "../secret",
    "docs/../../secret",
    "..",
    "a\\b",
    "a\nb",
    "a\0b",
    "a\x7fb",
    "a\x85b",
    " a",
    "a ",
    "\ud800",
]


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("ref", HOSTILE)
def test_hostile_refs_are_refused_for_every_kind(kind, ref):
    with pytest.raises(PointerError) as refused:
        check_ref(kind, ref)
    assert "\n" not in refused.value.why


@pytest.mark.parametrize(
    ("kind", "ref"),
    [
        (Kind.COMMIT, SHA),
        (Kind.COMMIT, "a" * 64),
        (Kind.ISSUE, "#1"),
        (Kind.ISSUE, "acme/orders.api#1863"),
        (Kind.MEMORY, "tried-X_1.2"),
        (Kind.LEDGER, "RLY-1.7.e12"),
        (Kind.LEDGER, ".dos/runs/relay-demo.jsonl#L12"),
        (Kind.FILE, "docs/my file.md"),
        (Kind.FILE, "docs/**/*.md"),
        (Kind.FILE, "work/a..b.md"),
    ],
)
def test_good_refs_pass(kind, ref):
    check_ref(kind, ref)
    assert parse_pointer(f"{kind}:{ref}") == Pointer(kind, ref)


@pytest.mark.parametrize(
    ("kind", "ref"),
    [
        (Kind.COMMIT, "HEAD"),
        (Kind.COMMIT, "main"),
        (Kind.COMMIT, SHA[:12]),
        (Kind.COMMIT, SHA.upper()),
        (Kind.COMMIT, SHA + "\n"),
        (Kind.COMMIT, "a" * 41),
        (Kind.ISSUE, "1"),
        (Kind.ISSUE, "#0"),
        (Kind.ISSUE, "#01"),
        (Kind.ISSUE, "#x"),
        (Kind.ISSUE, "#１"),  # a full-width digit
        (Kind.ISSUE, "a/b/c#1"),
        (Kind.MEMORY, "a/b"),
        (Kind.MEMORY, "_x"),
        (Kind.LEDGER, "a b"),
        (Kind.LEDGER, "a#L0"),
        (Kind.LEDGER, "#L1"),
        (Kind.LEDGER, "my runs/x#L1"),
        (Kind.LEDGER, "../x#L1"),
        (Kind.LEDGER, "/x#L1"),
        (Kind.FILE, "!docs/**"),
        (Kind.FILE, ":(top)docs"),
        (Kind.FILE, "a" * 501),
        (Kind.FILE, "é" * 251),
    ],
)
def test_refs_of_another_form_are_refused(kind, ref):
    with pytest.raises(PointerError):
        check_ref(kind, ref)


def test_the_size_of_a_ref_is_in_bytes_and_the_caller_may_widen_it():
    check_ref(Kind.FILE, "é" * 250)
    check_ref(Kind.FILE, "é" * 251, 4000)


@pytest.mark.parametrize("text", ["", "x", "commit", "Commit:" + SHA, "file:", "sha:1", "#", "#a", f" commit:{SHA}"])
def test_what_is_no_pointer_is_refused(text):
    with pytest.raises(PointerError):
        parse_pointer(text)


def test_a_number_sign_is_an_issue():
    assert parse_pointer("#7") == Pointer(Kind.ISSUE, "#7")
    assert str(parse_pointer("#7")) == "issue:#7"


@pytest.mark.parametrize(
    ("entry", "pointer", "label"),
    [
        ("issue:#1870 decides the package", Pointer(Kind.ISSUE, "#1870"), "decides the package"),
        ("#4 why", Pointer(Kind.ISSUE, "#4"), "why"),
        ("memory:tried-x", Pointer(Kind.MEMORY, "tried-x"), ""),
        ("file:docs/a.md  two blanks", Pointer(Kind.FILE, "docs/a.md"), " two blanks"),
        ("#dead-end-1", None, "#dead-end-1"),
        ("#12abc", None, "#12abc"),
        ("#12: which", None, "#12: which"),
        ("which parser?", None, "which parser?"),
        ("file: see the notes", None, "file: see the notes"),
        ("", None, ""),
    ],
)
def test_entries(entry, pointer, label):
    assert parse_entry(entry) == (pointer, label)
    assert read_entry(entry) == (pointer, label)


@pytest.mark.parametrize("entry", ["file:../../etc/passwd", "commit:HEAD it broke here", "file:-x", "memory:a/b"])
def test_an_entry_that_means_a_hostile_pointer_is_no_pointer_and_refused_by_the_strict_form(entry):
    assert parse_entry(entry) == (None, entry)
    with pytest.raises(PointerError):
        read_entry(entry)


@given(POINTERS, st.text())
@example(("memory", "x"), "\ud800 \n\0 é")
@example(("memory", "x"), "é" * 200)
def test_a_written_entry_reads_back(pair, label):
    pointer = Pointer(Kind(pair[0]), pair[1])
    entry = format_entry(pointer, label)
    back, text = read_entry(entry)
    assert back == pointer
    assert text == text.strip()
    assert len(text.encode()) <= 120
    assert len(entry.encode()) <= 500
    assert not any(ord(sign) < 32 for sign in entry)


def test_a_label_gives_way_to_a_long_ref():
    entry = format_entry(Pointer(Kind.FILE, "a" * 490), "a label that has no room")
    assert entry == "file:" + "a" * 490 + " a la"
    assert len(entry) == 500
    with pytest.raises(PointerError):
        format_entry(Pointer(Kind.FILE, "a" * 498), "")


def test_a_blank_in_a_path_is_written_as_the_glob_that_matches_it():
    entry = format_entry(Pointer(Kind.FILE, "docs/my file.md"), "x")
    assert entry == "file:docs/my?file.md x"
    pointer, label = read_entry(entry)
    assert pointer is not None
    assert label == "x"
    assert glob_matches(pointer.ref, "docs/my file.md")


def test_whatever_parses_as_a_pointer_fits_an_entry():
    longest = parse_pointer("file:" + "a b" * 165)
    assert read_entry(format_entry(longest, "label"))[0] == Pointer(Kind.FILE, "a?b" * 165)
    with pytest.raises(PointerError):
        parse_pointer("file:" + "a" * 496)
    with pytest.raises(PointerError):
        parse_pointer("\ud800")


@given(st.text(st.characters()), st.integers(0, 50))
def test_one_line_is_one_line_of_that_size(text, limit):
    made = one_line(text, limit)
    assert len(made.encode()) <= limit
    assert "\n" not in made
    assert one_line(made, limit) == made


def test_one_line_cuts_at_a_character():
    assert one_line("ééé", 5) == "éé"
    assert one_line("a\tb\nc", 20) == "a b c"


def test_an_answer_has_its_own_empty_detail():
    assert Answer(Verdict.VERIFIED, "found").detail == {}


def test_control_characters_are_those_of_unicode():
    """baton.md, Bounds: "no CR, LF, NUL or other control character"."""
    found = [code for code in range(sys.maxunicode + 1) if control_character(chr(code))]
    assert found == [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cc"]
