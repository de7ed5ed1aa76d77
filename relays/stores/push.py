"""One branch to one address, from our own repository: nothing of the relay's repository is read but its objects.

Baton contract: "A watched repository's own config must never run a program." The address is a policy's and the objects
are read in place, so that no hook, no `pushurl`, `receivepack`, `insteadOf` or credential helper of a config that an
agent can write takes part. The user's own config does: that is where keys and credential helpers are.
"""

from typing import Final

from relays.core.lines import recorded
from relays.core.remote import address
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.gitrun import need_branch, need_sha, plain, run
from relays.stores.shield import shield

TIMEOUT: Final = 50.0  # seconds: no task runs longer than a minute
_ENV: Final = {
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
}


class Rejected(StoreUnavailable):
    """The other side answered, and said no: to ask again changes nothing."""


def push(git: GitStore, where: str, sha: str, branch: str, timeout: float = TIMEOUT) -> str:
    """Point `branch` at `sha` there, never by force; what was done, in one line.

    Raises Rejected where the other side refuses, StoreUnavailable where it does not answer.
    """
    try:
        place = address(where)
    except ValueError as error:
        raise Rejected(recorded("the address %(error)s", error=error)) from error
    if not place:
        raise Rejected(recorded("there is no address to push to"))
    around = {**_ENV, "GIT_OBJECT_DIRECTORY": str(git.facts.objects)}
    guard = shield(git.shield_base, git.object_format)
    command = [
        "-c", "core.commitGraph=false", "-c", "push.gpgSign=false", "-c", "push.followTags=false",
        f"--git-dir={guard}", "push", "--no-verify", "--porcelain", "--no-signed", "--recurse-submodules=no", "--",
        place, f"{need_sha(sha)}:refs/heads/{need_branch(branch)}",
    ]  # fmt: skip
    said = run(command, cwd=guard, env=around, ok=(0, 1, 128), user_config=True, timeout=timeout)
    lines = said.out.decode("utf-8", "replace").splitlines()
    told = next((line for line in lines if ":refs/heads/" in line), "")
    if said.code == 0:
        return recorded("up to date: it was there already") if told.startswith("=") else "pushed"
    if told.startswith("!"):
        raise Rejected(plain(told.split("\t")[-1])[:300])
    err = [line.removeprefix("fatal: ").removeprefix("remote: ") for line in said.err.splitlines() if line.strip()]
    raise StoreUnavailable(plain(err[0] if err else recorded("git ended with %(code)s", code=said.code))[:300])
