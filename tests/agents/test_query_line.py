"""Uses of the query tool on a leg's own socket: kept apart from its events, answered where they came from."""

import json
import socket
import threading
from pathlib import Path

import pytest

from relays.agents import queryline
from relays.agents.channel import STREAM, Channel
from relays.core.querytool import QueryRefused, request_line

ENV = {"RELAY_TOKEN": "secret-token"}


@pytest.fixture
def channel(tmp_path):
    with Channel(tmp_path / "leg") as one:
        one.attach(None)
        yield one


@pytest.fixture
def connect(channel):
    open_ones = []

    def connected():
        way = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        open_ones.append(way)
        way.settimeout(10)
        way.connect(channel.socket_path)
        return way

    yield connected
    for way in open_ones:
        way.close()


def until(channel, count):
    """Read until so many uses wait; the event lines that came meanwhile."""
    lines = []
    for _ in range(200):
        lines += channel.wait(0.05)
        if len(channel.queries) >= count:
            return lines
    raise AssertionError("they never came")


def test_a_use_is_no_event_and_its_token_is_in_no_file(channel, connect, tmp_path):
    way = connect()
    way.sendall(b'{"kind":"turn_started","seq":1}\n' + request_line("secret-token", "orient", {}) + b"\n")
    assert until(channel, 1) == [b'{"kind":"turn_started","seq":1}']
    assert b"secret-token" not in (tmp_path / "leg" / STREAM).read_bytes()
    assert channel.reply(channel.queries.popleft(), b'{"ok":true}')
    assert way.recv(100) == b'{"ok":true}\n'


def test_an_answer_to_a_boundary_does_not_go_to_a_use(channel, connect):
    agent, tool = connect(), connect()
    agent.sendall(b'{"kind":"boundary","seq":1,"next_actions":[],"final":false}\n')
    tool.sendall(request_line("t", "safe_point", {}) + b"\n")
    until(channel, 1)
    assert channel.answer("go")
    channel.reply(channel.queries.popleft(), b"{}")
    assert (agent.recv(100), tool.recv(100)) == (b"go\n", b"{}\n")


def test_a_connection_that_only_asks_is_not_the_agent_coming_back(channel, connect):
    tool = connect()
    tool.sendall(request_line("t", "orient", {}) + b"\n")
    until(channel, 1)
    assert not channel.connected


def test_whoever_hung_up_hears_nothing_and_keeps_nobody_waiting(channel, connect):
    tool = connect()
    tool.sendall(request_line("t", "orient", {}) + b"\n")
    until(channel, 1)
    tool.close()
    channel.wait(0.05)
    channel.reply(channel.queries.popleft(), b"{}")
    assert channel.wait(0) == []


def test_a_flood_of_uses_that_nobody_answers_is_bounded(channel, connect):
    tool = connect()
    line = request_line("t", "orient", {}) + b"\n"
    tool.sendall(line * 200)
    for _ in range(20):
        channel.wait(0.02)
    assert len(channel.queries) <= 64
    assert b"too many uses" in tool.recv(100), "what is not taken is said"
    for _ in range(64):
        assert channel.reply(channel.queries.popleft(), b'{"ok":true}'), "and what was taken is answered"


def test_programs_that_hold_their_line_after_their_answer_do_not_keep_the_next_from_theirs(channel, connect):
    held = [connect() for _ in range(32)]
    for tool in held:
        tool.sendall(request_line("t", "orient", {}) + b"\n")
    until(channel, 32)
    while channel.queries:
        channel.reply(channel.queries.popleft(), b"{}")
    next_one = connect()
    next_one.sendall(request_line("t", "orient", {}) + b"\n")
    until(channel, 1)
    assert channel.reply(channel.queries.popleft(), b'{"ok":true}')
    assert next_one.recv(100) == b'{"ok":true}\n'


def test_the_client_gets_its_answer_or_the_words_of_the_refusal(channel):
    found = []

    def ask(verb):
        try:
            found.append(queryline.ask(verb, {}, {**ENV, "RELAY_SOCKET": channel.socket_path}))
        except QueryRefused as refused:
            found.append(refused.why)

    for answer in ({"ok": True, "answer": {"x": 1}}, {"ok": False, "refused": "not so"}, ["?"]):
        client = threading.Thread(target=ask, args=("orient",))
        client.start()
        until(channel, 1)
        channel.reply(channel.queries.popleft(), json.dumps(answer).encode())
        client.join(10)
    assert found == [{"x": 1}, "not so", "no answer"]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "RELAY_SOCKET and RELAY_TOKEN not set"),
        ({"RELAY_SOCKET": "/tmp/x"}, "RELAY_TOKEN not set"),
        ({"RELAY_SOCKET": "/tmp/no-such-relay/s", "RELAY_TOKEN": "t"}, "expired"),
        ({"RELAY_SOCKET": "/" + "x" * 300, "RELAY_TOKEN": "t"}, "cannot be reached"),
        ({"RELAY_SOCKET": str(Path(__file__)), "RELAY_TOKEN": "t"}, "expired"),
    ],
)
def test_outside_a_leg_and_after_it_the_client_says_so(env, words):
    with pytest.raises(QueryRefused, match=words):
        queryline.ask("orient", {}, env)
