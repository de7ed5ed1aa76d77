"""Settings fail loudly: each malformed value is named with what it should be, and no secret is shown."""

import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from relaysite.environment import PROJECT, Environment

POSTGRES = "postgres://ann:s%40cret@db.example.org:5433/relays?sslmode=require"


def refused(call, *words: str) -> str:
    with pytest.raises(ImproperlyConfigured) as error:
        call()
    line = str(error.value)
    assert "\n" not in line
    for word in words:
        assert word in line
    return line


def test_text_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  from the file\n", encoding="utf-8")
    assert Environment({"TOKEN_FILE": str(file)}).text("TOKEN") == "from the file"
    assert Environment({}).text("TOKEN", "default") == "default"
    refused(lambda: Environment({"TOKEN": "a", "TOKEN_FILE": str(file)}).text("TOKEN"), "TOKEN", "both")
    refused(lambda: Environment({"TOKEN_FILE": str(tmp_path / "none")}).text("TOKEN"), "TOKEN_FILE", "none")
    file.write_bytes(b"\xff\xfe")
    refused(lambda: Environment({"TOKEN_FILE": str(file)}).text("TOKEN"), "UTF-8")


@pytest.mark.parametrize(("value", "wanted"), [("1", True), ("Yes", True), ("off", False), ("0", False), ("", True)])
def test_boolean(value: str, wanted: bool) -> None:
    assert Environment({"DEBUG": value}).boolean("DEBUG", True) is wanted


@pytest.mark.parametrize("value", ["2", "ja", "truee", " "])
def test_boolean_refuses(value: str) -> None:
    refused(lambda: Environment({"DEBUG": value}).boolean("DEBUG", False), "DEBUG", "1 or 0")


@pytest.mark.parametrize("value", ["-1", "1.5", "0", "١", "many", "1_000"])
def test_integer_refuses(value: str) -> None:
    refused(lambda: Environment({"DAYS": value}).integer("DAYS", 30, least=1), "DAYS", "at least 1")


def test_integer_and_words_and_choice() -> None:
    env = Environment({"DAYS": "7", "HOSTS": "a.example.org, b.example.org,", "LEVEL": "info"})
    assert env.integer("DAYS", 30) == 7
    assert env.integer("OTHER", 30) == 30
    assert env.words("HOSTS", []) == ["a.example.org", "b.example.org"]
    assert env.choice("LEVEL", "WARNING", ["INFO", "WARNING"]) == "INFO"
    refused(lambda: env.choice("LEVEL", "WARNING", ["DEBUG", "WARNING"]), "LEVEL", "DEBUG, WARNING")


@pytest.mark.parametrize("value", ["https://relays.example.org/", "http://127.0.0.1:8000", "http://[::1]:8000"])
def test_address(value: str) -> None:
    assert Environment({"PUBLIC_URL": value}).address("PUBLIC_URL", "") == value.rstrip("/")


@pytest.mark.parametrize(
    "value", ["relays.example.org", "ftp://x", "http://", "http://x:port", "http://x/path", "https://a:b@x", "http://["]
)
def test_address_refuses(value: str) -> None:
    refused(lambda: Environment({"PUBLIC_URL": value}).address("PUBLIC_URL", ""), "PUBLIC_URL", "https://host")


def test_folder_is_made_and_relative_ones_lie_in_the_project(tmp_path: Path) -> None:
    made = Environment({"RELAY_VAR": str(tmp_path / "a" / "b")}).folder("RELAY_VAR", tmp_path)
    assert made.is_dir()
    assert Environment({"RELAY_VAR": "tests"}).folder("RELAY_VAR", tmp_path) == PROJECT / "tests"
    (tmp_path / "file").touch()
    refused(lambda: Environment({"RELAY_VAR": str(tmp_path / "file" / "x")}).folder("RELAY_VAR", tmp_path), "RELAY_VAR")


def test_a_site_policy_is_the_relay_table_of_a_file(tmp_path: Path) -> None:
    """rules.md, Policy is data: the site's layer; a malformed one is refused with file and key."""
    assert Environment({}).policy("SITE_POLICY") == {}
    file = tmp_path / "site.toml"
    file.write_text("[relay]\nno_progress_legs = 2\n[relay.envelope]\nlegs = 40\n", encoding="utf-8")
    found = Environment({"SITE_POLICY": str(file)}).policy("SITE_POLICY")
    assert found == {"no_progress_legs": 2, "envelope": {"legs": 40}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[relay]\nno_progres_legs = 2\n", ["policy key no_progres_legs", "did you mean no_progress_legs"]),
        ("[relay]\nceiling = 7\n", ["policy key ceiling"]),
        ("[relay.envelope]\nlegs = -1\n", ["policy key envelope.legs"]),
        ("[relays]\nceiling = 0.5\n", ["policy key relays", "outside the one table"]),
        ("ceiling = 0.5\n", ["policy key ceiling"]),
        ("", ["policy key relay", "no [relay] table"]),
        ("relay = 3\n", ["policy key relay", "must be a table"]),
        ("[relay\n", ["policy key relay", "not valid TOML"]),
        ("# " + "x" * 70_000, ["policy key relay", "longer than"]),
        ("\udcff", ["cannot be read", "UTF-8"]),
    ],
)
def test_a_malformed_site_policy_is_refused_with_its_file_and_key(
    content: str, words: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "site.toml"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    refused(lambda: Environment({"SITE_POLICY": str(file)}).policy("SITE_POLICY"), "SITE_POLICY", str(file), *words)


def test_a_site_policy_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "none.toml", tmp_path):
        refused(lambda path=place: Environment({"SITE_POLICY": str(path)}).policy("SITE_POLICY"), str(place), "read")


def test_site_prices_are_the_rows_of_a_file(tmp_path: Path) -> None:
    """cost.md, Prices: "a site override table"; a malformed one is refused with file, row and key."""
    assert Environment({}).prices("SITE_PRICES") == ()
    file = tmp_path / "prices.toml"
    file.write_text('[[price]]\nmodel = "m"\ninput = 1.10\noutput = 2\n', encoding="utf-8")
    (row,) = Environment({"SITE_PRICES": str(file)}).prices("SITE_PRICES")
    assert (row.model, str(row.rates.input.base)) == ("m", "1.10")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[[price]]\nmodel = "m"\ninput = -1\noutput = 1\n', ["row 1 (m)", "input", "mend it"]),
        ("", ["no rows", "mend it"]),
        ("[[price]\n", ["not valid TOML"]),
        ("# " + "x" * 1_100_000, ["longer than"]),
        ("\udcff", ["cannot be read", "UTF-8"]),
    ],
)
def test_malformed_site_prices_are_refused_with_their_file_and_row(
    content: str, words: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "prices.toml"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    refused(lambda: Environment({"SITE_PRICES": str(file)}).prices("SITE_PRICES"), "SITE_PRICES", str(file), *words)


def test_site_prices_that_are_not_there_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "none.toml", tmp_path):
        refused(lambda path=place: Environment({"SITE_PRICES": str(path)}).prices("SITE_PRICES"), str(place), "read")


def test_sqlite_by_default_with_the_measured_options(tmp_path: Path) -> None:
    odd = tmp_path / "a %41 #1?"
    found = Environment({}).database("DATABASE_URL", odd)
    assert found["ENGINE"] == "django.db.backends.sqlite3"
    assert found["NAME"] == str(odd / "relaysite.sqlite3")
    assert found["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        assert pragma in found["OPTIONS"]["init_command"]


def test_sqlite_in_the_project_means_one_file_wherever_a_process_starts(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = Environment({"DATABASE_URL": "sqlite:///var/other.sqlite3"})
    assert env.database("DATABASE_URL", tmp_path)["NAME"] == str(PROJECT / "var" / "other.sqlite3")


def test_postgres(tmp_path: Path) -> None:
    found = Environment({"DATABASE_URL": POSTGRES}).database("DATABASE_URL", tmp_path)
    assert found["ENGINE"] == "django.db.backends.postgresql"
    assert (found["NAME"], found["USER"], found["PASSWORD"]) == ("relays", "ann", "s@cret")
    assert (found["HOST"], found["PORT"]) == ("db.example.org", "5433")
    assert found["OPTIONS"] == {"sslmode": "require"}


@pytest.mark.parametrize(
    "value",
    ["mysql://x/y", "sqlite://host/file", "sqlite:///", "postgres://host", "postgres://u:pw@h:x/d", "x", "http://["],
)
def test_database_refuses_and_shows_no_password(value: str, tmp_path: Path) -> None:
    line = refused(
        lambda: Environment({"DATABASE_URL": value}).database("DATABASE_URL", tmp_path), "DATABASE_URL", "malformed"
    )
    assert "pw" not in line


@pytest.mark.parametrize("value", ["amqp://u:p@h//", "redis://h:6379/0", "rediss://h", "sqla+sqlite:////tmp/x"])
def test_broker(value: str, tmp_path: Path) -> None:
    assert Environment({"BROKER_URL": value}).broker("BROKER_URL", tmp_path) == value


def test_broker_default_and_refusals(tmp_path: Path) -> None:
    assert Environment({}).broker("BROKER_URL", tmp_path) == f"sqla+sqlite:///{tmp_path}/broker.sqlite3"
    for value in ("filesystem://", "memory://", "rabbit", "http://["):
        env = Environment({"BROKER_URL": value})
        refused(lambda env=env: env.broker("BROKER_URL", tmp_path), "BROKER_URL")


def test_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret_key"
    first = Environment({}).secret("SECRET_KEY", file)
    assert len(first) >= 50
    assert Environment({}).secret("SECRET_KEY", file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]
    assert Environment({"SECRET_KEY": "k" * 32}).secret("SECRET_KEY", file) == "k" * 32
    line = refused(lambda: Environment({"SECRET_KEY": "short"}).secret("SECRET_KEY", file), "SECRET_KEY", "32")
    assert "'short'" not in line
    refused(lambda: Environment({}).secret("SECRET_KEY", tmp_path / "no" / "folder"), "SECRET_KEY", "cannot be kept")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_any_user_and_password_survive_the_address(text: str) -> None:
    url = f"postgres://{quote(text, safe='')}:{quote(text, safe='')}@h/{quote(text, safe='')}"
    found = Environment({"DATABASE_URL": url}).database("DATABASE_URL", Path("/"))
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == (text, text, text)


def test_session_roots_are_absolute_folders_that_may_come_later(tmp_path: Path) -> None:
    named = f"{tmp_path}/a:~/b/../c/:{tmp_path}/a"
    found = Environment({"SESSION_ROOTS": named, "HOME": str(tmp_path)}).session_roots("SESSION_ROOTS")
    assert found == [tmp_path / "a", tmp_path / "c"]


@pytest.mark.parametrize("part", ["", "sessions", "./x", "/", "//", "/x/..", "~", "~ann/x", "FILE"])
def test_session_roots_refuse(tmp_path: Path, part: str) -> None:
    file = tmp_path / "file"
    file.touch()
    value = f"{tmp_path}:{part.replace('FILE', str(file))}"
    env = Environment({"SESSION_ROOTS": value})
    refused(lambda: env.session_roots("SESSION_ROOTS"), "SESSION_ROOTS", "absolute folders")


def test_session_roots_are_those_of_the_agents_that_are_there(tmp_path: Path) -> None:
    assert Environment({"HOME": str(tmp_path)}).session_roots("SESSION_ROOTS") == []
    here = [
        ".claude/projects",
        "elsewhere/claude/projects",
        "elsewhere/codex/sessions",
        ".gemini/tmp",
        ".local/share/opencode",
    ]
    for folder in [*here, ".codex/sessions", "elsewhere/claude/todos"]:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "elsewhere/codex/archived_sessions").touch()
    env = Environment(
        {
            "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere/claude"),
            "CODEX_HOME": str(tmp_path / "elsewhere/codex"),
        }
    )
    assert env.session_roots("SESSION_ROOTS") == [tmp_path / folder for folder in here]


def test_addresses_of_notices_are_taken_or_named_without_their_secrets() -> None:
    two = "https://hooks.example.org/abc  slack://TokenA/TokenB/TokenC https://hooks.example.org/abc"
    assert Environment({"N": two}).notify_urls("N") == (
        "https://hooks.example.org/abc",
        "slack://TokenA/TokenB/TokenC",
    )
    assert Environment({}).notify_urls("N") == ()
    for wrong in ("https://ann:hunter2@example.org/", "json://hunter2/", "file:///hunter2", "hunter2"):
        line = refused(
            lambda wrong=wrong: Environment({"N": f"https://fine.example.org {wrong}"}).notify_urls("N"), "N"
        )
        assert "hunter2" not in line or wrong == "hunter2", line
