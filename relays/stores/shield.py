"""Our own empty bare repository, through which the objects of any other repository are read.

Baton contract: "object questions go through our own empty bare repository with `GIT_OBJECT_DIRECTORY` set to the
target's objects; only refs are read from the target." Its config is ours, so nothing in the target's config can run.
"""

import os
import shutil
import tempfile
from pathlib import Path

from relays.core.lines import recorded
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import run

FORMATS = ("sha1", "sha256")


def shield(base: Path, object_format: str) -> Path:
    """The bare repository for one object format below `base`; made on first use.

    Two processes that make it at once end with one: it is made aside and moved to its name, which only one can do.
    """
    if object_format not in FORMATS:
        raise StoreUnavailable(
            recorded(
                "the repository names its objects by %(object_format)s, which is not known here",
                object_format=repr(object_format),
            )
        )
    final = base.absolute() / f"{object_format}.git"
    if (final / "HEAD").is_file():
        return final
    try:
        base.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{object_format}-", dir=base.absolute()))
    except OSError as error:
        raise StoreUnavailable(
            recorded("the shield repository cannot be made: %(error)s", error=error.strerror),
            where=str(base),
            fix=recorded("make RELAY_VAR writable"),
        ) from error
    try:
        run(["init", "-q", "--bare", "--template=", f"--object-format={object_format}", "-b", "main", "."], cwd=made)
        os.rename(made, final)
    except OSError as error:
        if not (final / "HEAD").is_file():
            raise StoreUnavailable(
                recorded("the shield repository cannot be made: %(error)s", error=error.strerror),
                where=str(final),
                fix=recorded("remove that folder"),
            ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return final
