"""A relay whose legs leave every kind of record that the readout has a line for."""

from typing import Any

from tests.driver.course import Step, boundary, commit, player, turn

END = boundary("Go on.", final=True)


def assumes(key: str, source: str, **more: Any) -> Step:
    return {"kind": "assumption", "key": key, "statement": f"{key} is so", "source": source, **more}


def promotes(slug: str, **more: Any) -> Step:
    return {"kind": "promotion", "slug": slug, **more}


def needs(ref: str, durability: str = "durable", *, required: bool = False) -> Step:
    return {"kind": "page_fault", "ref": ref, "required": required, "durability": durability}


#: assumptions 2 use, 2 query, 1 refresh; promotions 1 promoted, 1 refused, 1 expired, 1 ambiguous; faults 2 served,
#: 1 continued with its pointer, 1 refused (optional, so nobody is asked); a cold call, then a warm one
FIRST = [
    *commit("a.txt"),
    *turn(4000, 20, cache_read=1000),
    assumes("os", "witnessed"),
    assumes("shell", "user_stated"),
    assumes("port", "inferred", confidence=0.5),
    assumes("host", "stale"),
    assumes("moon", "unknown"),
    promotes("earned", **{"class": "durable", "evidence": "file:a.txt"}),
    promotes("passing", **{"class": "turn", "evidence": "file:a.txt"}),
    promotes("unclassified"),
    promotes("bare", **{"class": "bounded"}),
    needs("file:README.md", "turn"),
    needs("file:a.txt", required=True),
    needs("file:README.md", "bounded"),
    *turn(9000, 30),
    *END,
]
REST = [*commit("b-$LEG.txt"), needs("file:a.txt", required=True), *turn(2000, 10, cache_read=5000), *END]

#: everything but assumptions, promotions and faults that ask
EVERY_RECORD: dict[str, Any] = {
    **player({"0": FIRST, "*": REST}),
    "done": "file:goal.txt",
    "sets": ["envelope.turns=50", "envelope.output_tokens=5000", "envelope.queries=4", "envelope.wall=2h"],
}
