"""Pairs of the public reference that need a whole driver: rules.md, Park, approve, resume, stop."""

from tests.driver.course import boundary, commit, player, turn
from tests.vectors.load import vector


def test_a_park_keeps_everything(course):
    """driver-park-baton-fields: theirs empties the baton of a parked leg; ours "keeps next action, artifacts, …".

    "Park keeps next action, artifacts, questions, dead ends, holds, tree state": what an earlier leg left, too.
    """
    row = vector("driver-park-baton-fields")
    assert row["use"].startswith("spec wins")
    found = [
        {"kind": "open_question", "label": "Which parser?", "pointer": "issue:#1"},
        {"kind": "dead_end", "label": "It deadlocks.", "pointer": "issue:#2"},
        {"kind": "artifact", "ref": "issue:#3"},
    ]
    rotates = [*turn(130_000), *commit("a.txt"), *found[:2], *boundary("Go on.")]
    dirty = {"do": "write", "path": "b.txt", "text": "half done\n"}
    again = [*turn(2000), dirty, *boundary("Finish b.txt.", final=True)]
    parks = [*turn(1000), found[2], *again, *boundary("Finish b.txt.", final=True)]
    relay = course(issues=3, **player({"0": rotates, "1": parks}))
    relay.drive()
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED", "RELAY_PARKED_UNSAFE"]
    baton = relay.baton
    assert baton.leg == 1
    kept = {
        "next_action": baton.next_action,
        "open_questions": list(baton.open_questions),
        "artifacts": [f"{one.kind}:{one.ref}" for one in baton.artifacts],
        "do_not_rederive": list(baton.do_not_rederive),
    }
    assert set(kept) == set(row["expected"])
    assert kept["next_action"] == "Finish b.txt."
    assert kept["open_questions"] == ["issue:#1 Which parser?"]
    assert kept["do_not_rederive"] == ["issue:#2 It deadlocks."]
    assert "issue:#3" in kept["artifacts"]
    assert baton.cursor.wip_tree, "the tree as it was left"
    assert relay.legs[1].hold == "TREE_DIRTY_UNPARKED"
