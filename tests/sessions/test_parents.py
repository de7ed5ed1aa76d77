"""Who came from a session is asked at each projection and on each page: an index answers, however many there are."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relays.reports import session as report
from relays.sessions import project
from tests.session_builders import make_session

pytestmark = pytest.mark.django_db


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads a table of few rows as a whole")
def test_children_are_found_by_an_index() -> None:
    parent = make_session(agent="codex")
    child = make_session(agent="codex", parent=parent.sid)
    make_session(agent="claude-code", parent=parent.sid)
    with CaptureQueriesContext(connection) as asked:
        assert [one.pk for one in report.head(parent, []).children] == [child.pk]
        assert project._with_children({parent.pk}) == {parent.pk, child.pk}
    of_parents = [one["sql"] for one in asked if '"parent" ' in one["sql"].partition("WHERE")[2]]
    assert len(of_parents) == 3
    for sql in of_parents:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            plan = " ".join(str(row[-1]) for row in cursor.fetchall())
        assert "session_parent (agent=? AND parent=?)" in plan, plan
