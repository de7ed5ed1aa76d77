"""A person starts, cancels or resumes an import of session files: recorded first, carried out by the workers.

The page may name only what lies inside the site's SESSION_ROOTS, after symbolic links are resolved: a browser must not
make the server read any file of its host. The command line may name any path that its own user can read.
"""

from collections.abc import Sequence
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotFound, NotLegalNow, NotPermitted, Usage, need, record
from relays.models import Import
from relays.sessions import jobs

MOST_PATHS = 50
LONGEST_PATH = 4096


def offered() -> tuple[str, ...]:
    """The site's SESSION_ROOTS that exist now: what the page's form names until somebody writes other paths."""
    return tuple(str(root) for root in settings.SESSION_ROOTS if jobs.exists(root))


def start(actor: Actor, paths: Sequence[str], *, follow: bool = False, anywhere: bool = False) -> Import:
    """Begin to import files or folders in the background; with `follow`, keep reading what is added to them.

    `anywhere` is the command line's: paths outside SESSION_ROOTS are taken too. Raises Refused, and then nothing was
    begun: NotPermitted (no right to operate, or outside SESSION_ROOTS), Usage (no path, or one that cannot be one),
    NotFound (nothing is there).
    """
    need(actor, "operate", _("import"))
    resolved = _resolved(paths, anywhere)
    now = timezone.now()
    with transaction.atomic():
        job = jobs.begin(actor.user, resolved, follow=follow, now=now)
        detail = {"import": job.pk, "paths": resolved, "follow": follow}
        record(actor, "import", now=now, detail=detail)
    return job


def cancel(actor: Actor, job_id: object) -> Import:
    """End an import or follow: at once where nobody reads for it now, else within a second or two.

    What was read stays. Raises NotPermitted, NotFound, NotLegalNow (it has ended already).
    """
    need(actor, "operate", _("cancel import"))
    now = timezone.now()
    with transaction.atomic():
        job = job_or_refuse(job_id)
        if not jobs.cancel(job.pk, now=now):
            raise NotLegalNow(
                _("cancel import: import %(pk)s is %(status)s already; nothing was changed")
                % {"pk": job.pk, "status": _(job.status)}
            )
        record(actor, "cancel_import", now=now, detail={"import": job.pk})
    job.refresh_from_db()
    return job


def resume(actor: Actor, job_id: object) -> Import:
    """Go on with an import that was cancelled or failed, where it stood: what was read is not read again.

    Raises NotPermitted, NotFound, NotLegalNow (it runs, or is done).
    """
    need(actor, "operate", _("resume import"))
    now = timezone.now()
    with transaction.atomic():
        job = job_or_refuse(job_id)
        if not jobs.resume(job.pk, now=now):
            raise NotLegalNow(
                _(
                    "resume import: import %(pk)s is %(status)s; only one that was cancelled or failed goes on,"
                    " start another to read anew"
                )
                % {"pk": job.pk, "status": _(job.status)}
            )
        record(actor, "resume_import", now=now, detail={"import": job.pk})
    job.refresh_from_db()
    return job


def job_or_refuse(job_id: object) -> Import:
    """The import with that number. Raises NotFound."""
    text = str(job_id)
    if text.isascii() and text.isdecimal() and len(text) < 19:
        job = Import.objects.filter(pk=int(text)).first()
        if job is not None:
            return job
    raise NotFound(
        _("import %(text)s is not known here; the page Sessions lists those that are") % {"text": repr(text[:60])}
    )


def _resolved(paths: Sequence[str], anywhere: bool) -> list[str]:
    """The paths with every symbolic link followed, each once, in their order. Raises Refused."""
    named = list(dict.fromkeys(path.strip() if not anywhere else path for path in paths if path.strip()))
    if not 0 < len(named) <= MOST_PATHS:
        raise Usage(
            _("import: %(named)s paths; name between 1 and %(MOST_PATHS)s files or folders")
            % {"named": len(named), "MOST_PATHS": MOST_PATHS}
        )
    roots = [_real(Path(root)) for root in settings.SESSION_ROOTS]
    found = []
    for name in named:
        if len(name) > LONGEST_PATH or not name.isprintable():
            raise Usage(
                _("import: %(name)s cannot be a path here; name a file or folder in printable text")
                % {"name": repr(name[:80])}
            )
        path = Path(name).expanduser() if anywhere or name.startswith("~/") else Path(name)
        if not path.is_absolute() and not anywhere:
            raise Usage(_("import: %(name)s is not absolute; write the whole path, from / on") % {"name": repr(name)})
        real = _real(path)
        inside = real is not None and any(root and real.is_relative_to(root) for root in roots)
        if not inside and not anywhere:
            # the same words whether something is there or not: the answer says nothing of the host
            allowed = ", ".join(map(str, settings.SESSION_ROOTS)) or _("none: set SESSION_ROOTS")
            raise NotPermitted(
                _(
                    "import: %(name)s is outside the folders that this site may read (%(allowed)s); name a path"
                    " inside one, or use `relay import` on the host"
                )
                % {"name": repr(name), "allowed": allowed}
            )
        if real is None or not jobs.exists(real):
            raise NotFound(_("import: %(name)s is not there; name a file or folder that is") % {"name": repr(name)})
        found.append(str(real))
    return list(dict.fromkeys(found))


def inside_roots(name: str) -> Path | None:
    """Where an absolute path leads, if that lies inside SESSION_ROOTS; None for every other, whatever is there."""
    if not name.isprintable() or len(name) > LONGEST_PATH or not Path(name).is_absolute():
        return None
    real = _real(Path(name))
    roots = [_real(Path(root)) for root in settings.SESSION_ROOTS]
    return real if real is not None and any(root and real.is_relative_to(root) for root in roots) else None


def _real(path: Path) -> Path | None:
    """Where a path leads; None where a loop of links leads nowhere."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None
