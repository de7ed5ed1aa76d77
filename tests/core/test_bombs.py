"""baton.md: a baton is "bounded in size, and every part of it is checked again"; "Refs come from agents and are hostile
input". Whatever is read as text costs time in proportion to its length, and nothing worse than a refusal."""

import time
from collections.abc import Callable

import pytest

from relays.core import baton, donewhen, events, policy, policyfile, safepoint, strictjson
from relays.core.pointers import PointerError, parse_entry, parse_pointer
from relays.core.region import RegionError, check_region, glob_matches, proven_disjoint

BATON = 128 * 1024
LINE = events.LINE_BYTES


def repeated(piece: str, size: int) -> str:
    return piece * (size // len(piece.encode()))


def texts(size: int) -> list[str]:
    """Texts of that many bytes that are dear to read for a careless parser."""
    return [
        repeated("[", size),
        repeated('{"a":', size),
        repeated('"\\', size),
        '"' + repeated("\\u0000", size - 2) + '"',
        '{"a":"' + repeated('\\"', size - 10),
        repeated("[]", size),
        "[" + repeated("1,", size - 4) + "1]",
        "{" + repeated('"a":1,', size - 10) + '"a":1}',
        "[" + "9" * (size - 2) + "]",
        "[1e" + "9" * (size - 5) + "]",
        "-" * size,
        " " * size,
        repeated("\u202e", size),
        repeated("a:", size),
        repeated('cmd:"', size),
        repeated("file:x and ", size),
        repeated("*a", size),
        repeated("[a-", size),
        repeated("**/", size),
    ]


def quick(act: Callable[[], object], seconds: float = 2.0) -> None:
    """Processor time, so that a busy machine changes nothing."""
    before = time.process_time()
    act()
    assert time.process_time() - before < seconds


@pytest.mark.parametrize("number", range(19))
def test_a_baton(number: int) -> None:
    text = texts(BATON)[number]
    reading = baton.read(text)
    assert reading.baton is None and reading.refusal is not None
    quick(lambda: baton.read(text))
    quick(lambda: baton.read(text.encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize("number", range(19))
def test_a_line_of_an_agent(number: int) -> None:
    text = texts(LINE - 200)[number]
    quick(lambda: events.parse_line(text.encode()))
    inside = f'{{"kind":"fact","seq":1,"label":{text}}}'
    quick(lambda: events.parse_line(inside.encode()))
    assert events.parse_line(text.encode()).event is None


@pytest.mark.parametrize("number", range(19))
def test_one_line_fields(number: int) -> None:
    for size in (500, BATON):
        text = texts(size)[number]
        quick(lambda text=text: parse_entry(text))
        quick(lambda text=text: _refused(parse_pointer, text, PointerError))
        quick(lambda text=text: _refused(donewhen.parse, text, donewhen.DoneWhenError))
        quick(lambda text=text: donewhen.of_baton(text))
        quick(lambda text=text: safepoint.choose_next_action([text] * 64))
        quick(lambda text=text: _refused(lambda one: check_region([one]), text, RegionError))


@pytest.mark.parametrize("glob", ["*a" * 240 + "b", "**/" * 160 + "b", "[!a]" * 120, "?" * 500, "*" * 500, "a*" * 250])
def test_globs(glob: str) -> None:
    path = "/".join(["a" * 200] * 20)
    quick(lambda: glob_matches(glob, path))
    quick(lambda: proven_disjoint([glob] * 64, ["*b*a" * 100] * 64), seconds=8.0)


@pytest.mark.parametrize(
    "table",
    [
        "a = " + "[" * 60_000,
        "a" + ".a" * 30_000 + " = 1",
        ("a" + ".a" * 2_000 + " = 1\n") * 15,
        "a = {" + "b = {" * 10_000,
        ("a = " + "9" * 4_000 + "\n") * 15,
        "[" * 60_000,
        "[a]\n" * 10_000,
        '"' * 60_000,
        "a = '''" + "'\n" * 30_000,
        "x = 1\n" * 2_000_000,
    ],
)
def test_a_policy_of_a_repository(table: str) -> None:
    def read() -> None:
        with pytest.raises(policy.PolicyError):
            policy.build({}, policyfile.parse_toml_relay_table(f"[relay]\n{table}\n"), None)

    quick(read, seconds=5.0)


def test_depth_is_judged_before_anything_is_built() -> None:
    with pytest.raises(strictjson.TextFault, match="nested deeper"):
        strictjson.parse("[" * 60_000 + "]" * 60_000, BATON)


def _refused(read: Callable[[str], object], text: str, refusal: type[Exception]) -> None:
    try:
        read(text)
    except refusal as error:
        assert "\n" not in str(error)
