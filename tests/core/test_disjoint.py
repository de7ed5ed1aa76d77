"""rules.md, Region lease and driver claim: no regions "that could match one path, unless proven disjoint"."""

import itertools
import sys
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relays.core import disjoint
from relays.core.disjoint import fold
from relays.core.region import MAX_GLOBS, glob_matches, glob_problem, matches, proven_disjoint
from tests.core.test_region import GLOBS, PATHS

E_ACUTE, E_AND_ACUTE = "\u00e9", "e\u0301"


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        # a literal leading segment
        (["docs/**"], ["src/**"], True),
        (["docs/a/**"], ["docs/b/**"], True),
        (["docs/a"], ["docs/b"], True),
        (["docs/a/**", "src/x/**"], ["docs/b/**", "src/y/**"], True),
        (["docs/a/**", "src/**"], ["docs/b/**", "src/y/**"], False),
        (["docs/a"], ["docs/a/b"], False),
        (["docs/**"], ["docs/**"], False),
        # more than that
        (["src/*.py"], ["src/*.js"], True),
        (["docs/*.md"], ["docs/*.txt"], True),
        (["docs/*.md"], ["docs/**/*.txt"], False),  # a folder named x.md may hold y.txt
        (["a/*/x"], ["a/*/y"], True),
        (["a/*/x"], ["a/**/y"], False),
        (["a/*/x/**"], ["*/b/y/**"], True),
        (["a/[0-9]*"], ["a/[a-z]*"], True),
        (["a/[0-9a-f]*"], ["a/[f-k]*"], False),
        (["a/x*z"], ["a/*y"], True),
        (["a/x*z"], ["a/x*y*"], False),
        (["a/b*b"], ["a/b"], True),  # one b is not two
        (["a/**/*.py"], ["a/**/b.js/c"], False),  # a/d.py/b.js/c
        (["a/b*b"], ["a/bb"], False),  # a star may be nothing
        (["a/b*"], ["a/b"], False),
        (["a/b?*c"], ["a/bc"], False),  # what "?" takes may fold to nothing
        (["a/b?*c"], ["a/d*"], True),
        (["docs/a/"], ["docs/a"], False),
        # at any depth
        (["**"], ["docs/**"], False),
        ([], ["docs/**"], False),
        (["INDEX.md"], ["docs/**"], False),
        (["docs/"], ["src/"], False),
        (["*.md"], ["*.txt"], False),
        (["**/x.py"], ["docs/**"], False),
        # a glob matches its own text too
        (["pages/[id].tsx"], ["pages/i.tsx"], False),
        (["pages/[id].tsx"], ["pages/[[]id].tsx"], False),
        (["pages/[id].tsx"], ["pages/[[]id].tsx/x"], False),
        (["pages/[id].tsx"], ["pages/x.tsx"], True),
        # two spellings of one file
        (["Docs/a/**"], ["docs/b/**"], True),
        (["Docs/**"], ["docs/**"], False),
        ([f"caf{E_ACUTE}/**"], [f"caf{E_AND_ACUTE}/**"], False),
        (["caf?/**"], [f"caf{E_AND_ACUTE}/**"], False),
        (["a/\u00df*"], ["a/ssh"], False),
        (["a/?b"], ["a/ssb"], False),  # "?" may be a sharp s
        (["a/[\u00df]b"], ["a/ssb"], False),
        (["a/[A-C]x"], ["a/[a-c]X"], False),
        (["a/\u0131*"], ["a/I*"], False),
        (["a/file\u200b"], ["a/file"], False),
        (["a/e\u0301?"], ["a/e\u0316\u0301"], False),  # marks have an order of their own
        # what is refused elsewhere proves nothing here
        (["!x/a"], ["y/b"], False),
        (["a/[z-a]"], ["a/[0-9]"], True),  # a range that is upside down matches nothing
        (["a/[\u0100-\uffff]"], ["a/x"], False),  # too many to look at one by one
        (["a/[!b]"], ["a/x"], False),
        (["a/[!x]z"], ["a/b/c"], True),
    ],
)
def test_disjointness_is_claimed_only_when_certain(a, b, apart):
    assert proven_disjoint(a, b) is apart
    assert proven_disjoint(b, a) is apart


def certain(glob):
    """Globs that the proof takes as they stand: no character that could be another's fold."""
    return "?" not in glob and "[!" not in glob


def test_no_pair_of_globs_is_judged_wrongly_and_none_is_given_up_without_need():
    """Over all small globs: called apart exactly where no path of up to four segments lies in both."""
    places = {glob: {path for path in PATHS if glob_matches(glob, path)} for glob in GLOBS}
    claimed = 0
    for one, other in itertools.combinations_with_replacement(GLOBS, 2):
        apart = proven_disjoint([one], [other])
        shared = places[one] & places[other]
        assert not (apart and shared), (one, other, sorted(shared)[:3])
        if certain(one) and certain(other) and places[one] and places[other]:
            assert apart or shared, f"{one} and {other} share none of {len(PATHS)} paths"
        claimed += apart
    assert claimed > 500


# --- generated trees

NAMES = ["a", "A", "ab", "src", "SRC", "x.py", "X.PY", "x.js", "caf\u00e9", "cafe\u0301", "CAF\u00c9"]
NAMES += ["stra\u00dfe", "STRASSE", "\u0131x", "Ix", "ix", "\ufb01n", "fin", "[id]", "i", "\u212b", "\u00e5", "A\u030a"]
TREE = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)


@st.composite
def globs_of(draw, tree):
    """A glob made from one of the tree's paths: names stay, or become wild in part or whole."""
    parts = draw(st.sampled_from(tree)).split("/")
    made = []
    for part in parts[: draw(st.integers(1, len(parts)))]:
        at = draw(st.integers(0, len(part) - 1))
        letters = draw(st.sampled_from([part[at], part[at].swapcase()[:1], "a-z"]))
        made.append(
            draw(
                st.sampled_from(
                    [
                        part,
                        part,
                        "*",
                        "**",
                        part[:at] + "*",
                        "*" + part[at:],
                        part[:at] + "?" + part[at + 1 :],
                        part[:at] + f"[{letters}]" + part[at + 1 :],
                        part[:at] + "[!z]" + part[at + 1 :],
                    ]
                )
            )
        )
    return "/".join(made) + draw(st.sampled_from(["", "", "/", "/**"]))


@st.composite
def worlds(draw):
    tree = draw(TREE)
    region = st.lists(globs_of(tree).filter(lambda glob: not glob_problem(glob)), min_size=1, max_size=3)
    return tree, draw(region), draw(region)


#: how a file system may tell names apart: as they are, folded in one of several ways, composed or decomposed
KEYS = [
    str,
    str.casefold,
    str.upper,
    str.lower,
    lambda name: unicodedata.normalize("NFC", name),
    lambda name: unicodedata.normalize("NFD", name).casefold(),
    lambda name: unicodedata.normalize("NFD", name.upper()),
    lambda name: unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()),
]


@pytest.mark.slow
@settings(max_examples=500)
@given(worlds())
@example((["src/x.py", "SRC/X.PY"], ["src/**"], ["SRC/*"]))
@example((["caf\u00e9/a", "cafe\u0301/a"], ["caf\u00e9/a"], ["cafe\u0301/**"]))
@example((["\ufb01n"], ["**/f*"], ["**/\ufb01*"]))
def test_no_file_of_a_tree_lies_in_two_disjoint_regions(world):
    """Whatever the file system takes for one name."""
    tree, one, other = world
    if proven_disjoint(one, other):
        for key in KEYS:
            assert not ({key(p) for p in tree if matches(one, p)} & {key(p) for p in tree if matches(other, p)})


def test_the_fold_makes_equal_whatever_a_file_system_may_take_for_one_name():
    """Over all of Unicode: a character and each of its other spellings fold to one text."""
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        if 0xD800 <= code < 0xE000 or sign.isascii() and not sign.isalpha():
            continue
        spellings = {sign.upper(), sign.lower(), sign.title(), sign.casefold()}
        spellings |= {unicodedata.normalize(form, sign) for form in ("NFC", "NFD", "NFKC", "NFKD")}
        for spelling in spellings - {sign}:
            assert fold(spelling) == fold(sign), f"U+{code:04X}"


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_fold_of_a_whole_is_the_folds_of_its_parts(one, other):
    assert fold(one + other) == fold(one) + fold(other)
    assert fold(unicodedata.normalize("NFC", one + other)) == fold(one) + fold(other)


# --- what a proof may cost


def test_regions_as_large_as_they_may_be_are_proven():
    one = [f"src/module_{number:02d}/**" for number in range(MAX_GLOBS)]
    other = [f"src/module_{number:02d}x/*.py" for number in range(MAX_GLOBS)]
    assert proven_disjoint(one, other)
    assert not proven_disjoint(one, [*other[1:], "src/module_63/a.py"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["x/" + "*a" * 200 + f"b{n}" for n in range(MAX_GLOBS)], ["x/" + "*b" * 200 + f"a{n}*" for n in range(64)]),
        (["a/" + "**/x/" * 80 + f"b{n}" for n in range(MAX_GLOBS)], ["**/y/" * 80 + f"a{n}/**" for n in range(64)]),
        (["/".join(["*[a-z]*[0-9]"] * 35) + f"{n}" for n in range(64)], ["/".join(["[a-z]*x*"] * 50)] * 64),
    ],
)
def test_hostile_globs_cost_no_more_than_a_proof_may(one, other):
    begun = time.process_time()
    assert proven_disjoint(one, other) in (True, False)
    assert time.process_time() - begun < 5.0


def test_a_proof_that_would_cost_too_much_proves_nothing(monkeypatch):
    one, other = ["src/a*/x*.py"], ["src/a*/x*.js"]
    assert proven_disjoint(one, other)
    monkeypatch.setattr(disjoint, "_Proof", lambda: real(left=5))
    assert not proven_disjoint(one, other)


real = disjoint._Proof
