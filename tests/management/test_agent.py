"""`relay agent VERB`: the words of the command line become the arguments of the verb, as its schema types them."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relays.agents.channel import Channel
from relays.core.querytool import QueryRefused, read_arguments, read_request
from relays.management.commands import relay as frame


@pytest.fixture
def leg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """A leg's socket whose supervisor answers each use with the arguments that it read, or the refusal."""
    heard: list[dict[str, Any]] = []
    over = threading.Event()
    with Channel(tmp_path / "leg") as channel:
        channel.attach(None)
        monkeypatch.setenv("RELAY_SOCKET", channel.socket_path)
        monkeypatch.setenv("RELAY_TOKEN", "t")

        def answer() -> None:
            while not over.is_set():
                channel.wait(0.02)
                while channel.queries:
                    query = channel.queries.popleft()
                    request = read_request(query.line)
                    heard.append({"verb": request.verb, **request.arguments})
                    try:
                        read_arguments(request.verb, request.arguments)
                        said: dict[str, Any] = {"ok": True, "answer": {"heard": request.verb}}
                    except QueryRefused as refused:
                        said = {"ok": False, "refused": refused.why}
                    channel.reply(query, json.dumps(said).encode())

        supervisor = threading.Thread(target=answer)
        supervisor.start()
        yield lambda: heard
        over.set()
        supervisor.join(10)


@pytest.mark.parametrize(
    ("line", "heard"),
    [
        (["orient"], {"verb": "orient"}),
        (
            ["recall", "--kind", "file", "--ref", "a b", "--required", "true", "--offset", "7"],
            {"verb": "recall", "kind": "file", "ref": "a b", "required": True, "offset": 7},
        ),
        (
            ["ledger-append", "--refs", "#1", "--refs", "file:a", "--assumes", "k"],
            {"verb": "ledger_append", "refs": ["#1", "file:a"], "assumes": ["k"]},
        ),
        (
            ["assume", "--key", "k", "--statement", "s", "--source", "stale", "--confidence", "0.5"],
            {"verb": "assume", "key": "k", "statement": "s", "source": "stale", "confidence": 0.5},
        ),
        (
            ["remember", "--slug", "a", "--text", "t", "--class", "bounded", "--expires-days", "3"],
            {"verb": "remember", "slug": "a", "text": "t", "class": "bounded", "expires_days": 3},
        ),
        (["fact", "--args", '{"label": "x"}', "--backing", "#1"], {"verb": "fact", "label": "x", "backing": "#1"}),
    ],
)
def test_words_become_arguments(
    leg: Callable[..., Any], capsys: pytest.CaptureFixture[str], line: list[str], heard: dict[str, Any]
) -> None:
    assert frame.run(["agent", *line, "--json"]) == 0
    assert leg() == [heard]
    assert json.loads(capsys.readouterr().out) == {"heard": heard["verb"]}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["recall", "--kind", "file"], 12, "agent recall: ref: "),
        (["assume", "--key", "k", "--statement", "s", "--source", "sure"], 12, "agent assume: source: "),
        (["recall", "--kind", "file", "--ref", "a", "--offset", "x"], 2, "--offset 'x' is no number"),
        (["recall", "--kind", "file", "--ref", "a", "--required", "maybe"], 2, "--required is true or false"),
        (["fact", "--args", "{"], 2, "--args is not JSON"),
        (["fact", "--args", "[]"], 2, "--args is no JSON object"),
        (["forget"], 2, "invalid choice"),
    ],
)
def test_what_is_refused_is_one_line(
    leg: Callable[..., Any], capsys: pytest.CaptureFixture[str], line: list[str], code: int, words: str
) -> None:
    assert frame.run(["agent", *line]) == code
    said = capsys.readouterr()
    assert said.out == "" and words in said.err and said.err.count("\n") == 1


def test_outside_a_leg_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RELAY_SOCKET", raising=False)
    monkeypatch.delenv("RELAY_TOKEN", raising=False)
    assert frame.run(["agent", "safe_point"]) == 12
    assert "only inside a leg" in capsys.readouterr().err
