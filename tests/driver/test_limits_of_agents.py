"""An agent that uses too much is ended, whatever the mode; a secret that it was given is nowhere in what is kept."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core import serializers

from relays.models import RelayStatus
from tests.driver.course import Course, boundary, player, turn

pytestmark = pytest.mark.slow
Start = Callable[..., Course]
SECRET = "of-nobodys-business-4711"


def hog(extra: str) -> dict[str, Any]:
    """A program that says its first event and then does `extra` for ever."""
    usage = json.dumps({"kind": "turn_started", "seq": 1})
    code = f"import time\nprint({usage!r}, flush=True)\n{extra}\ntime.sleep(600)"
    return {"agent": "command", "args": {"argv": json.dumps([sys.executable, "-S", "-c", code])}}


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_tree_over_its_memory_is_ended_and_it_is_said(course: Start, mode: str) -> None:
    wanted = hog("import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', 'import time; x = "
                 "bytearray(120_000_000); time.sleep(600)'], start_new_session=True)")  # fmt: skip
    wanted["args"] |= {"memory": "100m"}
    relay = course(**wanted, mode=mode, **({"sets": ["envelope.legs=3"]} if mode == "shadow" else {}))
    relay.step()
    assert relay.legs[0].cause == "agent_crash"
    (line,) = [line for line in relay.relay.findings if "limits" in line]
    assert line.startswith("leg 0 limits: ended over its memory: its processes held ") and "of 100 MiB" in line


def test_a_tree_that_is_too_old_is_ended(course: Start) -> None:
    wanted = hog("")
    wanted["args"] |= {"time": "3s"}
    relay = course(**wanted)
    relay.step()
    assert relay.legs[0].cause == "agent_crash" and relay.relay.status == RelayStatus.PARKED
    assert any("ended over its time" in line for line in relay.relay.findings)


@pytest.mark.parametrize("way", ["stdout", "reconnect"])
def test_a_secret_that_the_agent_was_given_is_in_no_file_and_no_row(
    course: Start, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    says = [
        *turn(),
        {"kind": "fact", "label": f"The key is {SECRET}", "class": "turn"},
        {"kind": "odd", "more": {"deep": [SECRET]}},
        {"do": "raw", "text": f"no JSON {SECRET}\n"},
        *boundary(f"Go on with {SECRET}."),
        *turn(),
        *boundary(f"Go on with {SECRET}.", final=True),
    ]
    wanted = player(json.loads(json.dumps(says).replace(SECRET, "$MY_API_KEY")), way)
    argv = json.loads(wanted["args"]["argv"])
    code = (
        "import os, sys; key = os.environ['MY_API_KEY']; os.write(2, b'said: ' + key.encode() + b'\\n'); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:-1], sys.argv[-1].replace('$MY_API_KEY', key)])"
    )
    argv = [argv[0], "-S", "-c", code, *argv[1:]]
    wanted["args"] = {"argv": json.dumps(argv), "env": "MY_API_KEY", "reconnect": str(int(way == "reconnect"))}
    relay = course(**wanted)
    relay.step()
    assert relay.legs[0].turns == 2, "what it said was taken"
    kept = [path for path in Path(settings.RELAY_VAR).rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    log = next(path for path in kept if path.name == "stderr.log")
    assert "said: [redacted: MY_API_KEY]" in log.read_text()
    assert _rows_with(SECRET) == [] and _rows_with("redacted: MY_API_KEY") != []


def _rows_with(text: str) -> list[str]:
    """Tables that hold a text in any column."""
    from django.apps import apps

    found = []
    for model in apps.get_app_config("relays").get_models():
        if text in serializers.serialize("json", model.objects.all()):
            found.append(model.__name__)
    return found
