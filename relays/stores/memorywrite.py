"""Memory files written and removed inside the memory folder, and nowhere else, whatever links lie on the way."""

import contextlib
import os
import tempfile
from pathlib import Path

from relays.core.lines import recorded
from relays.core.pointers import Kind, PointerError, check_ref
from relays.stores.base import StoreUnavailable


def folder(root: Path | None, within: Path | None, *, make: bool = False, itself: bool = False) -> Path:
    """The memory folder, links resolved. Raises StoreUnavailable where it is not known or leads out of `within`, and
    (`itself`) where a link within the work tree makes another folder of it."""
    if root is None:
        raise StoreUnavailable(recorded("no memory folder is known"))
    real = Path(os.path.realpath(root))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise StoreUnavailable(recorded("the memory folder leads out of the work tree"), where=str(root))
    if itself and within is not None and real != Path(os.path.realpath(within)) / root.relative_to(within):
        raise StoreUnavailable(
            recorded("a link lies in the place of the memory folder"), where=str(root), fix=recorded("remove the link")
        )
    if make:
        try:
            real.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(
                recorded("the memory folder cannot be made: %(error)s", error=error.strerror), where=str(root)
            ) from error
    return real


def write(root: Path, slug: str, content: bytes) -> Path:
    """Put `<slug>.md` in its place, whole or not at all; a link in its place is replaced, never followed.

    `root`: as `folder` gave it. Raises StoreUnavailable.
    """
    place = root / name(slug)
    try:
        handle, made = tempfile.mkstemp(prefix=".remember-", dir=root)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(made, 0o644)
            os.replace(made, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(made)
            raise
    except OSError as error:
        raise StoreUnavailable(
            recorded("the memory file cannot be written: %(error)s", error=error.strerror), where=str(place)
        ) from error
    return place


def remove(root: Path, slug: str) -> bool:
    """Take `<slug>.md` away; False where there is none. Raises StoreUnavailable."""
    place = root / name(slug)
    try:
        place.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreUnavailable(
            recorded("the memory file cannot be removed: %(error)s", error=error.strerror), where=str(place)
        ) from error
    return True


def is_slug(name_: str) -> bool:
    """Whether a name in the memory folder can be a memory's."""
    try:
        check_ref(Kind.MEMORY, name_)
    except PointerError:
        return False
    return True


def name(slug: str) -> str:
    """The file of a slug. Raises StoreUnavailable for what is no slug."""
    try:
        check_ref(Kind.MEMORY, slug)
    except PointerError as error:
        raise StoreUnavailable(error.why) from error
    return f"{slug}.md"
