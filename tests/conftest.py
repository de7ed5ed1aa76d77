"""What every test stands on: a RELAY_VAR of this run alone, chosen before any setting is read.

`DATABASE_URL` chooses the database (default: an SQLite file in that folder); nothing of the real `var/` is touched.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings

# what a busy machine makes slow is not wrong; pytest's own timeout still ends what hangs
hypothesis_settings.register_profile("relaysite", deadline=None)
hypothesis_settings.load_profile("relaysite")

RUN = Path(tempfile.mkdtemp(prefix="relaysite-tests-"))
for _name in [name for name in os.environ if name.startswith(("RELAY_", "GIT_"))]:
    del os.environ[_name]
_SETTINGS = (
    "BROKER_URL",
    "SECRET_KEY",
    "PUBLIC_URL",
    "ALLOWED_HOSTS",
    "TIME_ZONE",
    "LOG_LEVEL",
    "DEBUG",
    "SITE_POLICY",
    "SITE_PRICES",
    "KEEP_TRANSCRIPTS",
    "HOOKS_BLOCK_COMPACTION",
    "SESSION_ROOTS",
    "NOTIFY_URLS",
    "NOTIFY_PRIVATE",
)
for _name in _SETTINGS:
    os.environ.pop(_name, None)
os.environ["RELAY_VAR"] = str(RUN / "var")
os.environ["DJANGO_SETTINGS_MODULE"] = "relaysite.settings"
# commits of tests do not depend on who runs them
os.environ.update(
    GIT_CONFIG_NOSYSTEM="1",
    GIT_CONFIG_GLOBAL=os.devnull,
    GIT_AUTHOR_NAME="Tester",
    GIT_AUTHOR_EMAIL="tester@example.org",
    GIT_COMMITTER_NAME="Tester",
    GIT_COMMITTER_EMAIL="tester@example.org",
)

from django.conf import settings  # noqa: E402 - only now may the settings be read

_SQLITE = settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
if _SQLITE:
    # a file, not memory: supervisors and commands are processes of their own and share it
    settings.DATABASES["default"]["TEST"] = {"NAME": str(RUN / "var" / "test.sqlite3")}
    # nothing here survives a power cut anyway; FULL would wait for the disk at every commit
    _options = settings.DATABASES["default"]["OPTIONS"]
    _options["init_command"] = _options["init_command"].replace("synchronous=FULL", "synchronous=OFF")
# the processes of a parallel run start from this environment: naming the settings there would have each of them read
# before its own RELAY_VAR is chosen
del os.environ["DJANGO_SETTINGS_MODULE"]
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def chromium() -> str:
    """The path of this machine's Chromium, or ""."""
    named = os.environ.get("CHROMIUM", "")
    names = ("chromium", "chromium-browser", "google-chrome")
    return named or next((path for name in names if (path := shutil.which(name))), "")


# folders whose tests start no process of ours: those without a database fixture never meet one
NO_DATABASE = tuple(f"tests/{folder}/" for folder in ("core", "rules", "templatetags", "charts", "stores", "sessions"))
_DATABASE_FIXTURES = {"db", "transactional_db", "client", "admin_client", "live_server"}


def _meets_no_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    marked = item.get_closest_marker("django_db") is not None
    return item.nodeid.startswith(NO_DATABASE) and not marked and not fixtures & _DATABASE_FIXTURES


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL the tests that meet no database are left to `make test`, where they are the same.

    Without a browser its tests are left out and say so; in CI that is a failure, never a quiet gap.
    """
    if not _SQLITE and (same := [item for item in items if _meets_no_database(item)]):
        items[:] = [item for item in items if not _meets_no_database(item)]
        config.hook.pytest_deselected(items=same)
    wanting = [item for item in items if item.get_closest_marker("browser")]
    if not wanting or chromium():
        return
    if os.environ.get("CI"):
        raise pytest.UsageError(f"{len(wanting)} browser tests need Chromium, which was not found: install chromium")
    why = pytest.mark.skip(reason="left out: Chromium was not found; install it, or name it in CHROMIUM")
    for item in wanting:
        item.add_marker(why)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Playwright's `executable_path` points."""
    return chromium()


def pytest_unconfigure() -> None:
    shutil.rmtree(RUN, ignore_errors=True)


@pytest.fixture(scope="session")
def run_folder() -> Path:
    """The folder of this test run; RELAY_VAR is `var` in it."""
    return RUN


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database; PostgreSQL drops it only when a process that a test ended has let go of it too."""
    from django.contrib.auth.models import Group
    from django.db import connection
    from django.test import TransactionTestCase

    from relays.reports.roles import ROLES
    from tests.tamper import unguarded

    emptied = TransactionTestCase._fixture_teardown

    def empty(case: TransactionTestCase) -> None:
        # rows that nobody may delete go with their test all the same
        with unguarded():
            emptied(case)
        # what a migration made is there for the next test, whichever comes next in this process
        Group.objects.bulk_create([Group(name=role) for role in ROLES], ignore_conflicts=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield

    if connection.vendor == "postgresql":
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(pid) {others}")


@pytest.fixture
def process_env() -> dict[str, str]:
    """The environment for a process that shares this test's database (with `transactional_db`) and RELAY_VAR."""
    from django.db import connection

    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        url = f"sqlite:///{name}"
    else:
        one = connection.settings_dict
        secret = f":{one['PASSWORD']}" if one["PASSWORD"] else ""
        port = f":{one['PORT']}" if one["PORT"] else ""
        url = f"postgres://{one['USER']}{secret}@{one['HOST']}{port}/{name}"
    return {**os.environ, "DATABASE_URL": url}


@pytest.fixture
def git() -> Callable[..., str]:
    """`git(folder, *arguments)` -> stdout without its last line end; a failure fails the test with git's words."""

    def call(folder: Path, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
        assert done.returncode in ok, f"git {' '.join(arguments)}: {done.stderr}"
        return done.stdout.removesuffix("\n")

    return call


@pytest.fixture
def repo(tmp_path: Path, git: Callable[..., str]) -> Iterator[Path]:
    """A git repository on `main` with one commit that holds `README.md`."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "README.md").write_text("# Orders\n", encoding="utf-8")
    git(folder, "add", "README.md")
    git(folder, "commit", "-q", "-m", "First")
    yield folder
