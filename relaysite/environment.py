"""Typed reading of the environment. A malformed value ends the start with one line: what, where, what to do."""

import os
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

#: relative paths are taken from here, so that web, worker and supervisors mean the same file wherever they start
PROJECT = Path(__file__).resolve().parent.parent


def _refuse(name: str, value: str, wants: str) -> ImproperlyConfigured:
    shown = re.sub(r"//[^/]*@", "//…@", value)  # a password never reaches a terminal or a log
    return ImproperlyConfigured(f"{name}={shown!r} is malformed: set it to {wants}, or unset it.")


def _split(name: str, value: str) -> SplitResult:
    try:
        return urlsplit(value)
    except ValueError as error:
        raise _refuse(name, value, f"an address ({error})") from error


def _is(asked: Callable[[], bool]) -> bool:
    """What a path answers; False where this user may not look."""
    try:
        return asked()
    except OSError:
        return False


class Environment:
    """Reads settings from a mapping; `NAME_FILE` names a file that holds a secret `NAME`."""

    def __init__(self, values: Mapping[str, str] = os.environ) -> None:
        self.values = values

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, "")
        path = self.values.get(f"{name}_FILE", "")
        if value and path:
            raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: keep one of them.")
        if path:
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ImproperlyConfigured(
                    f"{name}_FILE={path!r} cannot be read ({error}): name a readable UTF-8 file."
                ) from error
        return value or default

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name).lower()
        if not value:
            return default
        if value in {"1", "true", "yes", "on"}:
            return True
        if value in {"0", "false", "no", "off"}:
            return False
        raise _refuse(name, value, "1 or 0")

    def integer(self, name: str, default: int, least: int = 0) -> int:
        value = self.text(name)
        if not value:
            return default
        if not value.isascii() or not value.isdecimal() or int(value) < least:
            raise _refuse(name, value, f"a whole number of at least {least}")
        return int(value)

    def words(self, name: str, default: list[str]) -> list[str]:
        value = self.text(name)
        return [word.strip() for word in value.split(",") if word.strip()] if value else default

    def choice(self, name: str, default: str, allowed: Collection[str]) -> str:
        value = self.text(name, default).upper()
        if value not in allowed:
            raise _refuse(name, value, f"one of {', '.join(allowed)}")
        return value

    def address(self, name: str, default: str) -> str:
        """The address that people use, `http://host[:port]` or `https://…`, without a path and a slash at its end."""
        value = self.text(name, default).rstrip("/")
        try:
            url = urlsplit(value)
            usable = url.scheme in {"http", "https"} and bool(url.hostname) and (url.port is None or url.port > 0)
        except ValueError:
            usable = False
        if not usable or url.path or url.query or url.fragment or url.username:
            raise _refuse(name, value, "http://host:port or https://host")
        return value

    def folder(self, name: str, default: Path) -> Path:
        path = PROJECT / Path(self.text(name) or default).expanduser()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)  # batons, streams and the database are nobody else's
        except OSError as error:
            raise _refuse(name, str(path), f"a folder that can be made and written ({error})") from error
        return path

    def session_roots(self, name: str) -> list[Path]:
        """The folders whose session files a page may have read: `first:second`, each absolute or from `~`.

        Unset: where the known agents keep theirs for the user of this process, those that are there. A folder that is
        named and not there yet is taken: it may come. Relative names, files and `/` are malformed.
        """
        value = self.text(name)
        home = Path(os.path.expanduser(self.values.get("HOME") or "~"))
        if not value:
            claude = Path(self.values.get("CLAUDE_CONFIG_DIR") or home / ".claude")
            codex = Path(self.values.get("CODEX_HOME") or home / ".codex")
            known = [
                *[home / ".claude" / "projects", claude / "projects"],
                *[codex / "sessions", codex / "archived_sessions"],
                *[home / ".gemini" / "tmp", home / ".local" / "share" / "opencode"],
            ]
            return [path for path in dict.fromkeys(known) if path.is_absolute() and _is(path.is_dir)]
        roots = []
        for part in value.split(os.pathsep):
            path = Path(os.path.normpath(home / part[2:] if part.startswith("~/") else part))
            if not path.is_absolute() or path == Path(path.anchor) or _is(path.is_file):
                raise _refuse(name, value, f"absolute folders with {os.pathsep!r} between them ({part!r} is none)")
            roots.append(path)
        return list(dict.fromkeys(roots))

    def notify_urls(self, name: str) -> tuple[str, ...]:
        """Where the site's own notices go: webhooks (`https://…`) and addresses of Apprise, with blanks between them.

        An address that no service of the allow-list has is malformed; its secrets are never printed.
        """
        value = self.text(name)
        if not value:
            return ()
        from relays.core import notify  # only a site that tells somebody pays for reading it here

        for url in value.split():
            try:
                notify.parse(url)
            except notify.AddressError as error:
                raise ImproperlyConfigured(f"{name}: {error}; mend that address, or unset {name}.") from error
        return tuple(dict.fromkeys(value.split()))

    def database(self, name: str, var: Path) -> dict[str, Any]:
        """`sqlite:////absolute/path`, `sqlite:///path/in/the/project` or `postgres://user:password@host:port/name?option=value`.

        PostgreSQL without a host (`postgres:///name`) uses the machine's socket.
        """
        value = self.text(name) or f"sqlite:///{quote(str(var / 'relaysite.sqlite3'))}"
        url = _split(name, value)
        if url.scheme == "sqlite" and not url.netloc and url.path.strip("/"):
            return {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": str(PROJECT / unquote(url.path[1:])),
                # IMMEDIATE and WAL: a deferred transaction that comes to write is refused at once, whatever the
                # timeout. FULL: this file is the durable store of decisions.
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "timeout": 20,
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                    "PRAGMA journal_size_limit=67108864; PRAGMA cache_size=-16000;",
                },
            }
        if url.scheme in {"postgres", "postgresql"} and url.path.strip("/"):
            try:
                port = url.port
            except ValueError as error:
                raise _refuse(name, value, "postgres://user:password@host:port/name") from error
            return {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": unquote(url.path[1:]),
                "USER": unquote(url.username or ""),
                "PASSWORD": unquote(url.password or ""),
                "HOST": url.hostname or "",
                "PORT": str(port or ""),
                "OPTIONS": dict(parse_qsl(url.query)),
                "CONN_MAX_AGE": 60,
                "CONN_HEALTH_CHECKS": True,
            }
        raise _refuse(name, value, "sqlite:///path/to/file or postgres://user:password@host:port/name")

    def broker(self, name: str, var: Path) -> str:
        value = self.text(name)
        if not value:
            return f"sqla+sqlite:///{var / 'broker.sqlite3'}"
        scheme = _split(name, value).scheme
        if scheme in {"amqp", "amqps", "redis", "rediss", "sqla+sqlite"}:
            return value
        raise _refuse(
            name, value, "amqp://…, redis://… or unset for the embedded broker (filesystem:// loses messages)"
        )

    def policy(self, name: str) -> dict[str, Any]:
        """The `[relay]` table of the TOML file that the variable names: this site's layer of every relay's policy.

        Empty where it is unset. Read once, when a process starts.
        """
        value = self.text(name)
        if not value:
            return {}
        from relays.core import policy, policyfile  # only a site with a policy of its own pays for reading it here

        path = PROJECT / Path(value).expanduser()
        try:
            with path.open(encoding="utf-8") as file:
                table = policyfile.parse_toml_relay_table(file.read(policyfile.LARGEST_FILE + 1), alone=True)
            policy.build(table, None, {})
        except policy.PolicyError as error:
            raise ImproperlyConfigured(f"{name}={str(path)!r}: {error}; mend that key, or unset {name}.") from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
            raise ImproperlyConfigured(
                f"{name}={str(path)!r} cannot be read ({reason}): name a readable TOML file with a [relay] table, "
                f"or unset {name}."
            ) from error
        return table

    def prices(self, name: str) -> tuple[Any, ...]:
        """The rows of the TOML price table that the variable names (`relays.core.pricefile`); none where it is unset.

        Read once, when a process starts. A table with anything wrong in it is refused whole.
        """
        value = self.text(name)
        if not value:
            return ()
        from relays.core import pricefile  # only a site with prices of its own pays for reading them here

        path = PROJECT / Path(value).expanduser()
        try:
            with path.open(encoding="utf-8") as file:
                return pricefile.parse(file.read(pricefile.LARGEST_FILE + 1))
        except pricefile.PriceFileError as error:
            raise ImproperlyConfigured(f"{name}={str(path)!r}: {error}; mend it, or unset {name}.") from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
            raise ImproperlyConfigured(
                f"{name}={str(path)!r} cannot be read ({reason}): name a readable TOML file with [[price]] rows, "
                f"or unset {name}."
            ) from error

    @staticmethod
    def languages(folder: Path) -> list[tuple[str, str]]:
        """English, and each language whose compiled texts lie in the folder, in its own words."""
        from django.conf.locale import LANG_INFO

        found = {"en"} | {path.parent.parent.name.replace("_", "-").lower() for path in folder.glob("*/*/django.mo")}
        return [(code, str(LANG_INFO.get(code, {}).get("name_local", code))) for code in sorted(found)]

    def secret(self, name: str, keep_in: Path) -> str:
        """The value of the variable, else one that is made on the first run and kept in a file only its owner reads."""
        value = self.text(name)
        if value:
            if len(value) < 32:
                raise ImproperlyConfigured(f"{name} is shorter than 32 characters: set a longer one, or unset it.")
            return value
        try:
            return self._kept_secret(keep_in)
        except OSError as error:
            raise ImproperlyConfigured(
                f"{name} cannot be kept in {keep_in} ({error.strerror}): make it readable and writable, or set {name}."
            ) from error

    @staticmethod
    def _kept_secret(keep_in: Path) -> str:
        if not keep_in.exists():
            made = keep_in.with_name(f".{keep_in.name}.{secrets.token_hex(4)}")
            made.touch(mode=0o600)
            made.write_text(secrets.token_urlsafe(48), encoding="ascii")
            try:
                os.link(made, keep_in)  # the first process wins; a second one reads what the first wrote
            except FileExistsError:
                pass
            finally:
                made.unlink()
        return keep_in.read_text(encoding="ascii").strip()
