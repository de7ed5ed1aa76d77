"""What may reach git, and what comes back as one line."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.stores import gitrun
from relays.stores.base import BadName, StoreUnavailable
from relays.stores.gitrun import Capped, GitResult, need_branch, need_path, need_ref, need_sha, unavailable

SIGNS = st.text(st.sampled_from("ab/.-~^:?*[\\@{ \n\x7fü") | st.characters(), min_size=1, max_size=12)


@given(SIGNS | st.sampled_from(["a.lock", "a.lock/b", "HEAD", "@", "a/@", "x@{y", "a..b", "-a", "a/-b", ".", "a/."]))
@settings(max_examples=80, deadline=None)
def test_a_branch_name_that_passes_is_one_to_git(name: str) -> None:
    try:
        need_branch(name)
    except BadName as refusal:
        assert "\n" not in refusal.evidence
        return
    done = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True)
    assert done.returncode == 0, name
    assert need_ref(f"refs/heads/{name}") == f"refs/heads/{name}"


@given(SIGNS)
def test_a_path_that_passes_stays_inside(path: str) -> None:
    try:
        need_path(path)
    except BadName:
        return
    assert os.path.normpath(path) == path
    assert not path.startswith(("/", "..", "-"))
    assert "\n" not in path


@pytest.mark.parametrize("sha", ["", "HEAD", "a" * 39, "a" * 41, "A" * 40, "a" * 40 + "\n", "-" + "a" * 39, "٣" * 40])
def test_what_is_no_sha(sha: str) -> None:
    with pytest.raises(BadName):
        need_sha(sha)


def test_evidence_holds_no_machine_path() -> None:
    words = {
        "fatal: Unable to create '/me/x/.git/index.lock': File exists.": "Unable to create 'index.lock': File exists.",
        "warning: x\nerror: Could not read abc\nfatal: y": "Could not read abc",
        "fatal: bad /a/b/c.pack here": "bad c.pack here",
        "fatal: ref relay/RLY-1 is gone": "ref relay/RLY-1 is gone",
        "": "exit code 128",
    }
    for err, wanted in words.items():
        error = unavailable(GitResult(128, b"", err), Path("/home/me/x"))
        assert error.evidence == f"git cannot answer: {wanted}"
        assert str(error).startswith("/home/me/x: ")


def test_output_is_exact_and_options_cannot_be_smuggled(repo: Path) -> None:
    assert (
        gitrun.run(["hash-object", "--stdin"], cwd=repo, stdin=b"").out == b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"
    )
    with pytest.raises(StoreUnavailable):
        gitrun.run(["rev-parse", "--verify", "--end-of-options", "--git-dir"], cwd=repo)


@given(st.lists(st.binary(max_size=9)), st.integers(0, 20))
def test_a_capped_sink_keeps_the_beginning(chunks: list[bytes], limit: int) -> None:
    sink = Capped(limit)
    for chunk in chunks:
        assert sink.write(chunk) == len(chunk)
    whole = b"".join(chunks)
    assert bytes(sink.kept) == whole[:limit]
    assert sink.full is (len(whole) > limit)
