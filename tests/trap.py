"""A repository whose own config tries to run a program wherever git lets it, and what of it was run."""

from pathlib import Path

from tests.builders import commit, git, head, make_repo

HOOKS = (
    "post-checkout",
    "reference-transaction",
    "post-index-change",
    "pre-commit",
    "post-commit",
    "post-merge",
    "post-rewrite",
)


class Trap:
    """A repository in which every setting that can start a program starts one that writes its name down."""

    def __init__(self, folder: Path) -> None:
        attributes = "* filter=evil diff=evil merge=evil\n*.more filter=more\n"
        self.repo = make_repo(folder / "repo", {"a.txt": "text\n", ".gitattributes": attributes}, issues=1)
        self.first = head(self.repo)
        self.tip = commit(self.repo, {"a.txt": "other\n", "b.txt": "b\n"}, "Second")
        self.log = folder / "sprung"
        program = folder / "program"
        # what an agent's own git runs, inside its containment, is the agent's affair: it is told by its marker
        program.write_text(
            f'#!/bin/sh\necho "$0 $*" >> "{self.log}${{RELAY_MARKER:+.agent}}"\n'
            'case "$1" in clean|smudge) cat;; merge) exit 1;; esac\n'
        )
        program.chmod(0o755)
        hooks = folder / "hooks"
        hooks.mkdir()
        for name in HOOKS:
            (hooks / name).symlink_to(program)
            (self.repo / ".git" / "hooks").mkdir(exist_ok=True)
            (self.repo / ".git" / "hooks" / name).symlink_to(program)
        run = str(program)
        (folder / "more").write_text(f'[filter "more"]\n\tclean = {run} clean\n\tsmudge = {run} smudge\n')
        for key, value in {
            "core.hooksPath": str(hooks),
            "core.fsmonitor": run,
            "core.sshCommand": run,
            "core.gitProxy": run,
            "core.askPass": run,
            "core.pager": run,
            "core.editor": run,
            "core.alternateRefsCommand": run,
            "diff.external": run,
            "diff.evil.command": run,
            "diff.evil.textconv": run,
            "merge.evil.driver": f"{run} merge",
            "filter.odd.process": run,
            "alias.status": f"!{run}",
            "sequence.editor": run,
            "include.path": str(folder / "more"),
            "submodule.recurse": "true",
            "trailer.x.command": run,
            "filter.evil.clean": f"{run} clean",
            "filter.evil.smudge": f"{run} smudge",
            "filter.evil.required": "true",
            "filter.a.b=c.smudge": f"{run} odd",
            "gpg.program": run,
            "log.showSignature": "true",
            "commit.gpgSign": "true",
            "credential.helper": run,
            "uploadpack.packObjectsHook": run,
            "gc.auto": "1",
            "remote.origin.url": "ssh://example.org/x",
            "remote.origin.promisor": "true",
            "remote.origin.partialclonefilter": "blob:none",
            "remote.origin.uploadpack": run,
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
        }.items():
            git(self.repo, "config", key, value)

    def sprung(self) -> str:
        return self.log.read_text() if self.log.exists() else ""
