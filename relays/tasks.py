"""Celery doorbells: an id in, one short step, nothing waited for."""

from celery import shared_task
from django.utils import timezone

from relays.actions import audit
from relays.actions import maintenance as acting
from relays.costs import refresh
from relays.driver import advance as driver_advance
from relays.driver import housekeeping
from relays.driver import reconcile as driver_reconcile
from relays.notices import delivery
from relays.notices import monthly as monthly_report
from relays.sessions import jobs


@shared_task(name="relays.tasks.advance")
def advance(relay_id: str) -> None:
    driver_advance.advance(relay_id)


@shared_task(name="relays.tasks.reconcile")
def reconcile() -> None:
    driver_reconcile.reconcile()
    audit.ring_due()


@shared_task(name="relays.tasks.audit_step")
def audit_step(run_id: int) -> None:
    audit.step(run_id)


@shared_task(name="relays.tasks.import_step")
def import_step(job_id: int) -> None:
    jobs.step(job_id)


@shared_task(name="relays.tasks.costs")
def costs() -> None:
    refresh.step()


@shared_task(name="relays.tasks.purge_doorbells")
def purge_doorbells() -> None:
    housekeeping.purge_doorbells()


@shared_task(name="relays.tasks.prune_hooks")
def prune_hooks() -> None:
    housekeeping.prune_hooks(timezone.now())


@shared_task(name="relays.tasks.notices")
def notices(_what: str = "") -> None:
    delivery.step()


@shared_task(name="relays.tasks.monthly")
def monthly() -> None:
    monthly_report.report(timezone.now())
    delivery.prune(timezone.now())


@shared_task(name="relays.tasks.maintain")
def maintain(act_id: int) -> None:
    acting.step(act_id)


@shared_task(name="relays.tasks.maintenance")
def maintenance() -> None:
    acting.ring_due()
