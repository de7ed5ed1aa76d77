"""The command line in this process: arguments in, exit code, bytes on stdout and lines on stderr out."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from relays.management.commands import relay as frame
from tests.driver.conftest import course, meanwhile

__all__ = ["course", "meanwhile"]  # a relay that really runs, for verbs that look at one


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """The one line of a refusal; nothing else was written anywhere."""
        assert self.out == b""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        return self.err.removesuffix("\n")


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    def call(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = frame.run([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Result(int(code), out, err.decode())

    return call
