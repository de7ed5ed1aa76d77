"""The channel with real sockets, pipes and processes: nothing that an agent does can make its supervisor wait."""

import json
import os
import select
import socket
import stat
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.agents.channel import LINE_CAP, Channel, ChannelError, LineReader
from relays.core.querytool import request_line

BOUNDARY = b'{"kind":"boundary","seq":1,"next_actions":[],"final":false}\n'


@pytest.fixture
def channel(tmp_path):
    with Channel(tmp_path / "log") as made:
        yield made


def connect(channel: Channel) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(5)
    peer.connect(channel.socket_path)
    channel.wait(1)
    return peer


def test_the_socket_is_short_and_private(channel):
    path = Path(channel.socket_path)
    assert len(os.fsencode(path)) < 100
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    channel.close()
    assert not path.parent.exists()


def test_a_deep_temporary_folder_does_not_make_the_path_long(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with Channel(tmp_path / "log") as made:
        assert len(os.fsencode(made.socket_path)) < 100


def test_lines_come_whole_and_in_the_order_of_their_arrival(channel, tmp_path):
    one, two = connect(channel), connect(channel)
    one.sendall(b'{"n":1}\n{"n":')
    assert channel.wait(1) == [b'{"n":1}']
    two.sendall(b'{"n":2}\r\n\n')
    assert channel.wait(1) == [b'{"n":2}']
    one.sendall(b"3}\n")
    assert channel.wait(1) == [b'{"n":3}']
    one.close()
    assert channel.wait(1) == []
    three = connect(channel)
    three.sendall(b'{"n":4}')
    three.close()
    assert channel.wait(1) == []
    assert channel.wait(1) == [b'{"n":4}']  # ended without a newline
    stream = (tmp_path / "log" / "stream.ndjson").read_bytes()
    assert stat.S_IMODE((tmp_path / "log" / "stream.ndjson").stat().st_mode) == 0o600
    assert stream == b'{"n":1}\n{"n":2}\n{"n":3}\n{"n":4}\n'
    two.close()


def test_the_answer_goes_to_whoever_spoke_the_last_boundary(channel):
    one, two = connect(channel), connect(channel)
    one.sendall(BOUNDARY)
    channel.wait(1)
    two.sendall(b'{"kind":"fact","seq":2,"label":"boundary"}\n')  # speaks later, asks nothing
    channel.wait(1)
    assert channel.answer("go") is True
    assert one.recv(100) == b"go\n"
    two.sendall(b'{"k\\u0069nd":"bound\\u0061ry","seq":3}\n')
    channel.wait(1)
    assert channel.answer("wind_down TREE_DIRTY_UNPARKED") is True
    assert two.recv(100) == b"wind_down TREE_DIRTY_UNPARKED\n"
    two.close()
    channel.wait(1)
    assert channel.answer("stop") is False
    one.close()


def test_over_the_socket_of_a_program_that_speaks_on_its_stdout_nobody_speaks_in_its_name(channel, tmp_path):
    channel.on_pipes = True
    forger, tool = connect(channel), connect(channel)
    forger.sendall(BOUNDARY)
    tool.sendall(request_line("token", "orient", {}) + b"\n")
    seen = []
    deadline = time.monotonic() + 5
    while not channel.queries and time.monotonic() < deadline:
        seen += channel.wait(0.1)
    assert seen == [] and channel.answer("go") is False
    assert forger.recv(100) == b"", "whoever tries is not kept"
    assert channel.reply(channel.queries.popleft(), b"{}") is True and tool.recv(100) == b"{}\n"
    assert (tmp_path / "log" / "stream.ndjson").read_bytes() == b""
    forger.close()
    tool.close()


def test_nobody_to_answer(channel):
    assert channel.answer("go") is False
    with pytest.raises(ValueError, match="one line"):
        channel.answer("go\nstop")


def test_who_closed_only_its_sending_side_still_hears_its_answer(channel):
    peer = connect(channel)
    peer.sendall(BOUNDARY)
    peer.shutdown(socket.SHUT_WR)
    channel.wait(1)
    channel.wait(1)
    assert peer.fileno() >= 0
    begun = time.monotonic()
    assert channel.wait(0.2) == []
    assert time.monotonic() - begun >= 0.15  # its end is not reported over and over
    assert channel.answer("go") is True
    assert peer.recv(100) == b"go\n"
    assert peer.recv(100) == b""
    peer.close()


def test_an_agent_that_never_reads_blocks_nobody(channel):
    peer = connect(channel)
    peer.sendall(BOUNDARY)
    channel.wait(1)
    begun = time.monotonic()
    taken = 0
    while channel.answer("wind_down " + "x" * 1000) and taken < 10_000:
        taken += 1
    assert time.monotonic() - begun < 5
    assert 64 < taken < 10_000
    assert channel.write_fds()
    heard = 0
    while heard < taken * 1011:  # and once it reads, everything that was taken arrives
        heard += len(peer.recv(65536))
        channel.flush()
    assert heard == taken * 1011
    assert channel.write_fds() == []
    peer.close()


def test_a_dead_peer_is_no_error(channel):
    peer = connect(channel)
    peer.sendall(BOUNDARY)
    channel.wait(1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    channel.answer("go")
    channel.wait(0.1)
    channel.wait(0.1)
    assert channel.answer("go") is False
    assert len(channel.fds()) == 1


def test_too_many_connections_are_turned_away(channel):
    peers = [connect(channel) for _ in range(40)]
    assert len(channel.fds()) == 1 + 32
    assert peers[-1].recv(10) == b""
    for peer in peers:
        peer.close()


def test_a_line_above_the_cap_is_reported_once_and_skipped(channel, tmp_path):
    peer = connect(channel)
    peer.setblocking(False)
    data = memoryview(b'{"x":"' + b"y" * (3 * LINE_CAP) + b'"}\n' + b'{"n":1}\n')
    lines: list[bytes] = []
    while data:
        select.select([], [peer], [], 5)
        data = data[peer.send(data[:65536]) :]
        lines += channel.wait(1)
    while len(lines) < 2:
        lines += channel.wait(1)
    assert [len(line) for line in lines] == [LINE_CAP + 1, 7]
    assert channel.oversized == 1
    assert lines[1] == b'{"n":1}'
    peer.close()


def test_a_line_of_exactly_the_cap_is_whole():
    reader = LineReader()
    assert reader.feed(b"x" * LINE_CAP + b"\n") == [b"x" * LINE_CAP]
    assert reader.oversized == 0


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(1, 7), min_size=1))
def test_cutting_does_not_depend_on_how_the_bytes_arrive(parts, sizes):
    data = b"\n".join(parts)
    whole, pieces = LineReader(cap=8), LineReader(cap=8)
    expected = whole.feed(data) + whole.finish()
    found: list[bytes] = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found += pieces.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    found += pieces.finish()
    assert found == expected
    kept = [
        line
        for part in data.split(b"\n")
        if (line := part[:9].rstrip(b"\r") if len(part) > 8 else part.rstrip(b"\r")).strip()
    ]
    assert found == kept


def test_a_line_torn_by_a_crash_does_not_swallow_ours(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "stream.ndjson").write_bytes(b'{"n":1}\n{"n":')
    with Channel(folder) as made:
        peer = connect(made)
        peer.sendall(b'{"n":3}\n')
        made.wait(1)
        peer.close()
    assert (folder / "stream.ndjson").read_bytes() == b'{"n":1}\n{"n":\n{"n":3}\n'


AGENT = """
import json, os, socket, sys
sys.stderr.write("hello\\n" * 40000)
print(json.dumps({"kind": "boundary", "seq": 1, "next_actions": [], "final": False}), flush=True)
first = sys.stdin.readline().strip()
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(json.dumps({"kind": "boundary", "seq": 2, "heard": first}).encode() + b"\\n")
second = peer.makefile().readline().strip()
print(json.dumps({"kind": "fact", "seq": 3, "heard": second}), end="")
"""


def test_stdout_and_socket_of_one_agent_each_get_their_answers(start, channel):
    agent = start(AGENT, channel.socket_path)
    channel.attach(agent)
    assert agent.stdout.fileno() in channel.fds()
    assert agent.stderr.fileno() in channel.fds()
    events = []
    deadline = time.monotonic() + 20
    while not channel.closed and time.monotonic() < deadline:
        ready, _, _ = select.select(channel.fds(), [], [], 1)  # as a selector would
        for fd in ready:
            for raw in channel.read_ready(fd):
                events.append(json.loads(raw))
                if events[-1]["kind"] == "boundary":
                    assert channel.answer(f"answer-{events[-1]['seq']}")
    assert [event.get("heard") for event in events] == [None, "answer-1", "answer-2"]
    assert channel.closed
    agent.kill_tree()
    assert agent.poll() == 0


def test_what_a_killed_agent_still_said_is_drained(start, channel, until):
    agent = start("import time\nfor n in range(2000): print('{\"n\": %d}' % n, flush=True)\ntime.sleep(600)")
    channel.attach(agent)
    assert until(lambda: select.select([agent.stdout], [], [], 0)[0])
    time.sleep(0.3)
    agent.kill_tree()
    lines = channel.drain()
    assert lines[0] == b'{"n": 0}'
    assert channel.closed
    assert channel.drain() == []
    channel.close()
    assert channel.closed
    assert channel.fds() == []


@pytest.mark.slow
def test_a_stream_that_grows_without_end_is_cut_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("relays.agents.channel.STREAM_BYTES", 1000)
    with Channel(tmp_path) as channel, connect(channel) as agent:
        agent.sendall(b'{"kind":"noise"}\n' * 500)
        agent.shutdown(socket.SHUT_WR)
        heard = [line for _ in range(20) for line in channel.wait(0.1)]
    kept = (tmp_path / "stream.ndjson").read_bytes()
    assert len(heard) == 500  # what is not kept is heard all the same
    assert len(kept) < 1100
    assert kept.endswith(b"too large\n")


@pytest.mark.parametrize("trap", ["link", "fifo", "folder"])
def test_what_lies_in_the_streams_place_is_not_written_to(tmp_path, trap):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    place = tmp_path / "leg" / "stream.ndjson"
    place.parent.mkdir()
    {"link": lambda: place.symlink_to(victim), "fifo": lambda: os.mkfifo(place), "folder": place.mkdir}[trap]()
    with pytest.raises(ChannelError, match="remove what lies there"):
        Channel(place.parent)
    assert victim.read_text() == "kept"


ASKED = b'{"kind":"tool_asked","seq":2,"id":"t1","name":"deploy"}'


def test_whoever_asks_about_a_tool_hears_its_own_answer(channel):
    """A program's hook asks over a connection of its own, while the program itself may wait at a boundary."""
    agent, hook, other = connect(channel), connect(channel), connect(channel)
    agent.sendall(BOUNDARY)
    channel.wait(1)
    hook.sendall(ASKED + b"\n")
    hook.shutdown(socket.SHUT_WR)
    assert channel.wait(1) == [ASKED]
    other.sendall(ASKED.replace(b"t1", b"t2") + b"\n")
    (second,) = channel.wait(1)
    assert channel.answer_tool(second, "allow") and channel.answer("go")
    channel.wait(0)
    assert channel.answer_tool(ASKED, "deny it is weak")
    assert (agent.recv(100), hook.recv(100), other.recv(100)) == (b"go\n", b"deny it is weak\n", b"allow\n")
    assert not channel.answer_tool(ASKED, "allow"), "answered once"
    assert not channel.answer_tool(b"never said", "allow")
    for one in (agent, hook, other):
        one.close()
