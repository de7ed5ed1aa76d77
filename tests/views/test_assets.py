"""Scripts and styles have the hash of their content in their address, are kept for ever, and are served compressed."""

import os
import re
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.templatetags.static import static
from django.test import Client

from relaysite import assets

ROOT = Path(settings.BASE_DIR)


def content(response: object) -> bytes:
    return b"".join(iter(response))  # type: ignore[call-overload]


@pytest.mark.django_db
def test_everything_that_a_page_names_is_kept_for_ever() -> None:
    page = Client().get("/sign-in/").content.decode()
    named = set(re.findall(r'(?:src|href)="(/static/[^"#]+)', page))
    assert len(named) > 6
    for address in named:
        assert re.search(r"\.[0-9a-f]{12}\.(?:js|css|svg)$", address), address
        answer = Client().get(address)
        assert answer.status_code == 200 and "immutable" in answer["Cache-Control"], address
        assert int(re.findall(r"max-age=(\d+)", answer["Cache-Control"])[0]) >= 31_536_000


def test_a_file_under_its_own_name_is_served_but_not_kept_long() -> None:
    answer = Client().get("/static/relays/app.css")
    assert answer.status_code == 200 and answer["Cache-Control"] == "max-age=300, public"
    assert content(answer) == (ROOT / "static/relays/app.css").read_bytes()
    assert Client().get("/static/relays/app.0123456789ab.css").status_code == 404


def test_a_browser_that_takes_it_gets_less() -> None:
    import gzip

    plain, packed = (Client(headers=how).get(static("relays/app.css")) for how in ({}, {"accept-encoding": "gzip, br"}))
    assert packed["Content-Encoding"] == "gzip" and "Accept-Encoding" in packed["Vary"]
    assert "Content-Encoding" not in plain
    body = content(packed)
    assert len(body) < 0.4 * int(plain["Content-Length"]) and gzip.decompress(body) == content(plain)


def test_an_address_has_one_content_whatever_happens_to_its_file(tmp_path: Path) -> None:
    """A new version lies on the disk before the process that served the old one ends."""
    for name, address in assets.addresses().items():
        kept = Path(settings.STATIC_ROOT, address)
        assert kept.is_file() and not kept.is_symlink() and kept.stat().st_nlink == 1, name


def test_a_style_names_no_file_without_its_hash() -> None:
    """`{% static %}` writes the hashes; what a style sheet names itself would have none."""
    for path in (ROOT / "static").rglob("*.css"):
        named = re.findall(r"url\((?!\s*[\"']?(?:data:|#))[^)]{1,80}|@import[^;]{1,80}", path.read_text())
        assert named == [], path


def test_copies_that_nothing_has_started_with_for_a_month_go(tmp_path: Path) -> None:
    old, used = tmp_path / "a.0123456789ab.js", tmp_path / "b.0123456789ab.js"
    for path in (old, used):
        assets._keep(path, b"x")
        os.utime(path, (0, 0))
    assets._keep(used, b"x")
    assets._forget(tmp_path, time.time() - 60)
    assert sorted(path.name for path in tmp_path.iterdir()) == [used.name, used.name + ".gz"]


def test_the_build_is_another_one_with_any_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "BASE_DIR", tmp_path)
    for folder in assets._BUILD:
        (tmp_path / folder).mkdir()
    told = []
    for name in ("templates/a.html", "relays/a.py", "static/a.css"):
        (tmp_path / name).write_text("x")
        told.append(assets.build.__wrapped__())
        (tmp_path / name).write_text("y")
        told.append(assets.build.__wrapped__())
    assert len(set(told)) == 6 and assets.build.__wrapped__() == told[-1]
