"""What an agent is started with: arguments are refused in one line, the environment is an allowlist."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.agents import registry, scripted
from relays.agents.base import AgentArgError, LegContext, env_names, environment
from relays.agents.command import parse_argv

CTX = LegContext(
    relay_id="RLY-20260101-0001",
    leg=3,
    baton_path="/var/legs/b.json",
    worktree="/srv/tree",
    objective="Close\0 every issue.",
    done_when="issues:none open",
    next_action="Close issue #4",
    window_tokens=200_000,
    ceiling_tokens=180_000,
    log_dir="/var/legs",
    socket_path="/run/relay-x/s",
    token="",
    marker="m-1",
    args={"argv": '["prog", "a b"]', "env": "API_KEY, ABSENT"},
)


def test_the_registry_names_its_agents():
    assert {"claude-code", "command", "scripted"} <= set(registry.names())
    assert all(registry.adapter(name).name == name for name in registry.names())
    with pytest.raises(registry.UnknownAgent, match=f"'clerk': choose one of {', '.join(registry.names())}"):
        registry.adapter("clerk")


def test_the_environment_is_an_allowlist_and_the_legs_own():
    ours = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "SECRET_KEY": "s",
        "API_KEY": "k",
        "PYTHONPATH": "/p",
        "RELAY_VAR": "v",
    }
    env = environment(CTX, ("API_KEY", "ABSENT"), ours)
    assert env["RELAY_ID"] == "RLY-20260101-0001"
    assert env["RELAY_LEG"] == "3"
    assert env["RELAY_WINDOW_TOKENS"] == "200000"
    assert env["RELAY_OBJECTIVE"] == "Close  every issue."
    assert {name for name in env if not name.startswith("RELAY_")} == {"PATH", "HOME", "LC_ALL", "API_KEY"}
    assert "RELAY_VAR" not in env


def test_the_command_adapter_starts_what_it_was_given(monkeypatch):
    monkeypatch.setenv("API_KEY", "k")
    started = registry.adapter("command").launch(CTX)
    assert started.argv == ("prog", "a b")
    assert started.env["API_KEY"] == "k"
    assert started.env["RELAY_SOCKET"] == "/run/relay-x/s"
    assert parse_argv("prog 'a b' c") == ("prog", "a b", "c")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "needs agent argument argv"),
        ({"argv": "[]"}, "no list of texts"),
        ({"argv": ""}, "no list of texts"),
        ({"argv": '["a", 1]'}, "no list of texts"),
        ({"argv": '["a"'}, "cannot be read"),
        ({"argv": "a 'b"}, "cannot be read"),
        ({"argv": "[" * 100_000}, "cannot be read"),
        ({"argv": '[""]'}, "no program"),
        ({"argv": '["a\\u0000"]'}, "NUL"),
        ({"argv": ["a"]}, "is no text"),
        ({"argv": "a", "shell": "1"}, "'shell' is not known"),
        ({"argv": "a", "env": "RELAY_TOKEN"}, "'RELAY_TOKEN' is not allowed"),
        ({"argv": "a", "env": "A B"}, "'A B' is not allowed"),
        ({"argv": "a", "reconnect": "yes"}, "reconnect='yes' is neither 0 nor 1"),
    ],
)
def test_command_arguments_are_refused_in_one_line(args, said):
    with pytest.raises(AgentArgError) as caught:
        registry.adapter("command").check_args(args)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_an_agent_that_says_so_is_taken_over():
    """rules.md, The driver: "re-adopt where the adapter can, else end it"."""
    command = registry.adapter("command")
    for args, can in [({"argv": "a"}, False), ({"argv": "a", "reconnect": "0"}, False), ({"reconnect": "1"}, True)]:
        command.check_args({"argv": "a", **args})
        assert command.reconnects(args) is can
    assert registry.adapter("scripted").reconnects({"reconnect": "1"}) is False


def test_env_names():
    assert env_names("") == ()
    assert env_names("A,B_2 ,,_c") == ("A", "B_2", "_c")


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "BROKER_URL", "NOTIFY_URLS"])
def test_no_start_gives_an_agent_a_secret_of_the_site(name: str):
    for adapter, args in (("command", {"argv": "a"}), ("claude-code", {})):
        with pytest.raises(AgentArgError, match="a secret of this site"):
            registry.adapter(adapter).check_args({**args, "env": f"HOME,{name}"})


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"items": "1"},
        {"items": 20, "dirty": True, "plant": 0, "next": 2, "pace": 0.25},
        {"retry": "overload", "pace": "0.1"},
        {"overrun": "1", "crash": "1", "park": "0", "only": "0", "pace": "2"},
    ],
)
def test_flags_of_the_scripted_worker_that_are_allowed(args):
    scripted.check_args(args)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("items", "0"),
        ("items", "21"),
        ("items", "three"),
        ("items", "²"),
        ("dirty", "2"),
        ("plant", "yes"),
        ("next", "3"),
        ("next", "-1"),
        ("overrun", ""),
        ("pace", "-1"),
        ("pace", "nan"),
        ("pace", "1e3"),
        ("pace", "3601"),
        ("only", "1.5"),
        ("retry", "1"),
        ("item", "1"),
        ("__class__", "1"),
    ],
)
def test_other_flags_are_refused_by_name_with_what_is_allowed(name, value):
    with pytest.raises(AgentArgError) as caught:
        scripted.check_args({name: value})
    assert name in str(caught.value)
    assert "allowed: " in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3))
def test_any_arguments_are_taken_or_refused_in_one_line(args):
    try:
        scripted.check_args(args)
    except AgentArgError as error:
        assert len(str(error).splitlines()) == 1


def test_the_scripted_worker_is_started_isolated():
    ctx = LegContext(
        **{**{name: getattr(CTX, name) for name in LegContext.__slots__}, "args": {"items": 2, "dirty": True}}
    )
    started = registry.adapter("scripted").launch(ctx)
    assert started.argv[:3] == (sys.executable, "-I", "-S")
    assert started.argv[4:] == ("items=2", "dirty=1")
