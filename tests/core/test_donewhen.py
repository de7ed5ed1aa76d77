import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relays.core.donewhen import DoneWhenError, Truth, evaluate, of_baton, parse
from relays.core.pointers import Kind, Pointer
from tests.core.batons import ISSUES, PATHS, SHA, SHAS, SLUGS

T, F, U = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (f"commit:{SHA}", "commit", SHA),
        ("issue:#1 closed", "issue", "#1"),
        ("issue:acme/orders#1  closed", "issue", "acme/orders#1"),
        ("issues:none open", "issues", "none"),
        ("file:docs/**", "file", "docs/**"),
        ('file:"docs/my file.md"', "file", "docs/my file.md"),
        ("no-file:TODO.md", "no-file", "TODO.md"),
        ("ledger:RLY-1.2.e3", "ledger", "RLY-1.2.e3"),
        ('cmd:"make test"', "cmd", "make test"),
        ("cmd:true", "cmd", "true"),
        (r'cmd:"test \"$(cat x)\" = \"a\\b\""', "cmd", r'test "$(cat x)" = "a\b"'),
        ('cmd:"a and b"', "cmd", "a and b"),
    ],
)
def test_every_clause(text, kind, value):
    done = parse(text)
    assert not done.prose
    assert [(one.kind, one.value, one.text) for one in done.clauses] == [(kind, value, text)]


def test_clauses_are_joined_by_and_outside_quotes():
    done = parse('issue:#1 closed  and  cmd:"x and y" and file:and')
    assert [one.value for one in done.clauses] == ["#1", "x and y", "and"]
    assert done.clauses[1].text == 'cmd:"x and y"'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("A pushed commit resolves issue #1863 and dos commit-audit passes.", "A pushed commit resolves issue #1863"),
        ("issue:#1 closed and the docs are good", "the docs are good"),
        ("issue:#1", "issue:#1"),
        ("issue:#1 open", "issue:#1 open"),
        ("issue:1 closed", "issue:1 closed"),
        ("issues:all open", "issues:all open"),
        ("issues:none closed", "issues:none closed"),
        ("file:../x", "file:../x"),
        ("file:/x", "file:/x"),
        ("file:my file.md", "file:my file.md"),
        ("commit:HEAD", "commit:HEAD"),
        ("COMMIT:" + SHA, "COMMIT:"),
        ("ledger:a b", "ledger:a b"),
        ('cmd:""', 'cmd:""'),
        ('cmd:" "', 'cmd:" "'),
        ('cmd:"x" y', 'cmd:"x" y'),
        ('cmd:"x', 'cmd:"x'),
        (r'cmd:"x\n"', "cmd"),
        ("issue:#1 closed AND issue:#2 closed", "AND"),
        ("issue:#1 closed and", "and"),
        ("and issue:#1 closed", "and issue"),
        ("issue:#1 closed and  and issue:#2 closed", "and issue:#2 closed"),
        ("issue:#1 closed, issue:#2 closed", "issue:#1 closed,"),
    ],
)
def test_one_clause_that_does_not_parse_makes_the_line_prose_and_is_named(text, named):
    done = parse(text)
    assert done.prose
    assert done.clauses == ()
    assert named in done.why_prose
    assert "\n" not in done.why_prose


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\r\nb", "a\tb", "a\0b", "x" * 501, "é" * 251, "\ud800"])
def test_what_is_no_line_is_refused(text):
    with pytest.raises(DoneWhenError) as refused:
        parse(text)
    assert "\n" not in refused.value.why


def test_the_line_of_a_foreign_baton_never_raises():
    assert of_baton("").prose
    assert of_baton("x" * 4000).prose
    assert not of_baton("file:" + "a" * 100 + " and file:b" * 200).prose


@given(st.text(max_size=80))
@example('cmd:"' + '\\"' * 30)
@example(" and " * 15)
def test_parsing_never_raises_anything_else(text):
    try:
        done = parse(text)
    except DoneWhenError:
        return
    assert done.prose is bool(done.why_prose)
    assert done.prose is not bool(done.clauses)
    assert of_baton(text) == done


CLAUSE = st.one_of(
    st.tuples(st.just("commit"), SHAS),
    st.tuples(st.just("issue"), ISSUES),
    st.tuples(st.just("file"), PATHS),
    st.tuples(st.just("no-file"), PATHS),
    st.tuples(st.just("ledger"), SLUGS),
    st.tuples(
        st.just("cmd"), st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20)
    ),
)


@given(st.lists(CLAUSE, min_size=1, max_size=4))
def test_any_clauses_written_quoted_read_back(pairs):
    pairs = [pair for pair in pairs if pair[1].strip()] or [("issue", "#1")]
    quoted = [
        f'{kind}:"{value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
        + (" closed" if kind == "issue" else "")
        for kind, value in pairs
    ]
    done = of_baton(" and ".join(quoted))
    assert done.why_prose == ""
    assert [(one.kind, one.value) for one in done.clauses] == pairs


def test_what_a_store_is_asked():
    done = parse("commit:" + SHA + ' and issue:#1 closed and issues:none open and no-file:x and cmd:"y"')
    assert [one.pointer for one in done.clauses] == [
        Pointer(Kind.COMMIT, SHA),
        Pointer(Kind.ISSUE, "#1"),
        None,
        Pointer(Kind.FILE, "x"),
        None,
    ]


@pytest.mark.parametrize(
    ("truths", "whole"),
    [((T, T), T), ((T, F), F), ((F, U), F), ((U, F), F), ((T, U), U), ((U, U), U), ((F, F), F)],
)
def test_false_beats_unknown_beats_true(truths, whole):
    done = parse("issue:#1 closed and issue:#2 closed")
    answers = {clause: (truth, f"said {truth}") for clause, truth in zip(done.clauses, truths, strict=True)}
    verdict = evaluate(done, answers)
    assert verdict.truth is whole
    assert [(truth, evidence) for _, truth, evidence in verdict.clauses] == [(one, f"said {one}") for one in truths]
    assert not verdict.prose
    assert not verdict.left_out


def test_prose_is_never_true_by_itself():
    verdict = evaluate(parse("the docs are good"), {})
    assert verdict.truth is F
    assert verdict.prose


def test_a_clause_without_an_answer_is_unknown():
    verdict = evaluate(parse("issue:#1 closed"), {})
    assert verdict.truth is U
    assert not verdict.left_out


@pytest.mark.parametrize(("other", "whole", "left_out"), [(T, U, True), (F, F, False), (U, U, False)])
def test_a_command_that_is_not_run_is_left_out_and_never_true(other, whole, left_out):
    done = parse('issue:#1 closed and cmd:"make test"')
    verdict = evaluate(done, {done.clauses[0]: (other, "said")})
    assert (verdict.truth, verdict.left_out) == (whole, left_out)
    assert "left out" in verdict.clauses[1][2]
