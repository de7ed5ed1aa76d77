from pathlib import Path

import pytest

from relays.stores.git import GitStore
from tests.builders import make_repo


@pytest.fixture
def shield(tmp_path: Path) -> Path:
    return tmp_path / "shield"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", issues=2)


@pytest.fixture
def store(repo: Path, shield: Path) -> GitStore:
    return GitStore(repo, shield)
