"""`group` and `reviewers` on the command line: the same acts, exit 12 for who may not."""

from pathlib import Path

import pytest

from relays.models import Relay
from relays.reports.gate import branch_tip, seen_digest
from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


def test_a_group_decides_and_nobody_else(cli: Cli, tmp_path: Path) -> None:
    for name in ("rae", "sam"):
        make_user(name, "reviewer")
    made = cli("group", "add", "backend", "sam", "--json")
    assert made.json == {"groups": [{"group": "backend", "members": ["sam"], "may_not_review": [], "relays": 0}]}
    told = Story(tmp_path / "repo")
    told.leg(turns=2, reason="RELAY_PARKED_UNSAFE", cause="ceiling")
    gate = told.park()
    given = cli("reviewers", told.relay.pk, "--group", "backend", "--comment", "theirs", "--json")
    assert (given.json["group"], given.json["may_decide"]) == ("backend", ["sam"])
    assert cli("reviewers", told.relay.pk).out.decode() == f"{told.relay.pk}: group backend: sam\n"
    gate.refresh_from_db()
    digest = seen_digest(gate, branch_tip(told.relay)[0])
    decide = ("approve", str(gate.pk), "--seen", digest, "--comment", "x")
    refused = cli(*decide, "--as", "rae")
    assert refused.code == 12 and "only the reviewer group backend" in refused.err
    assert cli(*decide, "--as", "sam").code == 0
    assert cli("reviewers", told.relay.pk, "--group", "nothing", "--comment", "x").code == 14
    assert cli("reviewers", told.relay.pk, "--anyone").code == 2
    assert cli("group", "remove", "backend", "sam").code == 13
    assert cli("group", "list").out.decode().startswith("backend: sam; 1 relays")
    assert Relay.objects.get().reviewers is not None
