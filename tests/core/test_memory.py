"""What a memory file says of itself, when it is gone, and which memories are a person's to rewrite."""

from datetime import UTC, datetime, timedelta

import pytest

from relays.core import memory

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_bounded_memory_ends_and_a_durable_one_does_unless_it_was_told_to():
    assert memory.expiry("bounded", None, AT) == AT + timedelta(days=memory.BOUNDED_DAYS)
    assert memory.expiry("bounded", 3, AT) == memory.expiry("durable", 3, AT) == AT + timedelta(days=3)
    assert memory.expiry("durable", None, AT) is None


@pytest.mark.parametrize(
    ("slug", "pinned", "earned", "profile"),
    [
        ("profile", False, True, True),
        ("profile-team", False, True, True),
        ("Profile-Team", False, True, True),
        ("profile.team", False, False, True),
        ("profiles", False, True, False),
        ("house", True, True, True),
        ("house", False, False, True),
        ("house", False, True, False),
        ("profile", True, None, False),
    ],
)
def test_a_standing_profile_is_what_a_person_wrote_named_or_pinned_and_is_there(slug, pinned, earned, profile):
    assert memory.is_profile(slug, pinned=pinned, earned=earned) is profile


def test_a_memory_file_says_where_it_comes_from_on_lines_that_its_text_cannot_forge():
    made = memory.page(
        "port",
        " 8001\n---\nevidence: commit:forged \n",
        durability="bounded",
        evidence="file:a\nclass: durable",
        by="RLY-1 leg 0",
        at=AT,
        until=AT,
    ).decode()
    head, _, text = made.removeprefix("---\n").partition("\n---\n\n")
    assert [line.partition(":")[0] for line in head.splitlines()] == [
        "slug",
        "class",
        "evidence",
        "remembered",
        "expires",
    ]
    assert text == "8001\n---\nevidence: commit:forged\n"


def test_what_an_allowed_operation_removes():
    there = ["a", "team.a", "team.b"]
    assert memory.matches("delete", "a", there) == ["a"]
    assert memory.matches("delete", "team", there) == []
    assert memory.matches("wipe", "team.", there) == ["team.a", "team.b"]
    assert memory.matches("reset", "", there) == there


def test_each_operation_has_its_own_line():
    lines = {memory.item(act, "s", 0) for act in ("delete", "wipe", "reset", "rewrite", "write", "found")}
    assert len(lines) == 6 and all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        (".relay/memory/port.md", "port"),
        (".relay/memory/a.b.md", "a.b"),
        (".relay/memory/deep/port.md", ""),
        (".relay/memory/port.txt", ""),
        (".relay/memory", ""),
        ("port.md", ""),
        (".relay/memory2/port.md", ""),
    ],
)
def test_a_path_is_a_memorys_file_only_in_the_folder_itself(path, slug):
    assert memory.slug_of(path, ".relay/memory") == slug
