"""Prices as a durable store: the site's own table first, then a maintained price library, offline.

Cost: prices come "from a maintained price library plus a site override table; a price change at midnight applies to
calls after it". A row that was used is kept (`PriceRow`), so that an upgrade of the library rewrites no history.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Final

from django.conf import settings

from relays.core import pricefile, pricing
from relays.core.pricefile import SITE, SiteRow
from relays.core.pricing import PerCall, Rate, Rates
from relays.core.usage import Buckets
from relays.models import PriceRow

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider

#: (model as the agent writes it, agent, time of the call or None, its buckets)
Asked = tuple[str, str, datetime | None, Buckets]


@dataclass(frozen=True, slots=True)
class Price:
    """A price that holds at one time; `digest` names it and its `PriceRow`.

    `model`, `provider`: as the source has them. `source`: "site" or "genai-prices <version>". `since`: UTC, None =
    always.
    """

    model: str
    provider: str
    source: str
    since: datetime | None
    rates: Rates
    digest: str
    units: PerCall = field(compare=False, repr=False)  # of one call, in 1e-10 dollars; None = unpriced

    def row(self) -> PriceRow:
        """An unsaved `PriceRow`."""
        return PriceRow(
            digest=self.digest,
            model=self.model,
            provider=self.provider,
            source=self.source,
            since=self.since,
            rates=pricing.as_json(self.rates),
        )


def _price(model: str, provider: str, source: str, since: datetime | None, rates: Rates) -> Price:
    model, provider = model[:200], provider[:60]
    named = [model, provider, source, since.isoformat() if since else None, pricing.as_json(rates)]
    text = json.dumps(named, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return Price(model, provider, source, since, rates, digest, pricing.per_call(rates))


class PriceBook:
    """All prices of one process. Looking up needs no database; only what was used is written there.

    `site`: rows of the site's table (`SITE_PRICES`), which win wherever they hold.
    """

    def __init__(self, site: Sequence[SiteRow] = ()) -> None:
        self._site = tuple(site)
        self._own: dict[int, Price] = {}  # by id: the rows live as long as this does
        self._mine: dict[tuple[str, str], tuple[bool, tuple[SiteRow, ...]]] = {}
        self._library: dict[tuple[str, str], LibraryModel | None] = {}
        self._always: dict[tuple[str, str], tuple[bool, Price | None]] = {}

    def find(self, model: str, agent: str, at: datetime | None) -> Price | None:
        """The price of a model at a time (aware); None = nobody names one.

        `at` None (the call has no time): only a price that never changed is given.
        """
        mine = self._mine.get((model, agent))
        if mine is None:
            called = bool(pricing.candidates(model, agent))
            mine = self._mine[model, agent] = (called, pricefile.about(self._site, model))
        called, rows = mine
        if not called:
            return None
        if rows:
            row = pricefile.choose(rows, model, at)
            if row is not None:
                return self._of_site(row)
            if at is None:
                return None  # the site's price holds at some times only: which of the two, nobody can tell
        if (model, agent) not in self._library:
            self._library[model, agent] = _look_up(model, agent)
        found = self._library[model, agent]
        return found.at(at) if found is not None else None

    def flat(self, model: str, agent: str, at: datetime | None, side: int) -> bool:
        """Whether requests of together `side` tokens on their input side cost the same however they were cut.

        True too where no price is known: then nothing is priced.
        """
        found = self.find(model, agent, at)
        if found is None:
            return True
        rates = [rate for rate in found.rates.used().values() if rate is not None]
        return all(side <= start for rate in rates for start, _ in rate.tiers)

    def holding(self, model: str, agent: str, at: str) -> Price | None:
        """What `find` gives for the time of a row ("YYYY-MM-DD HH:MM:SS…" in UTC, "" = none); quick where one price

        holds at all times.
        """
        always = self._always.get((model, agent))
        if always is None:
            one = not self._changes(model, agent)
            always = self._always[model, agent] = (one, self.find(model, agent, None) if one else None)
        if always[0]:
            return always[1]
        return self.find(model, agent, datetime.fromisoformat(at).replace(tzinfo=UTC) if at else None)

    def _changes(self, model: str, agent: str) -> bool:
        """Whether the price may depend on the time."""
        if pricefile.about(self._site, model):
            return True
        self.find(model, agent, None)
        found = self._library.get((model, agent))
        return found is not None and found.changes

    def _of_site(self, row: SiteRow) -> Price:
        if id(row) not in self._own:
            self._own[id(row)] = _price(row.model, row.provider, SITE, row.since, row.rates)
        return self._own[id(row)]

    def price(self, model: str, agent: str, at: datetime | None, buckets: Buckets) -> tuple[Decimal, PriceRow] | None:
        """The cost of one call, kept to 1e-10 dollars, with the row it was taken from, saved; None = unpriced."""
        found = self.find(model, agent, at)
        amount = pricing.cost(found.rates, buckets) if found is not None else None
        if found is None or amount is None:
            return None
        return pricing.kept(amount), saved([found])[found.digest]

    def bulk(self, asked: Iterable[Asked]) -> list[tuple[Decimal, int] | None]:
        """For each call its cost, kept to 1e-10 dollars, and the primary key of its `PriceRow`; None = unpriced.

        One query whatever the number of calls, three where a price is used for the first time. Call it inside the
        transaction that stores the costs: the rows are saved in it. Two processes that save the same row keep one.
        """
        costs: list[tuple[Decimal, Price] | None] = []
        used: dict[str, Price] = {}
        for model, agent, at, buckets in asked:
            found = self.find(model, agent, at)
            units = found.units(*buckets.as_mapping().values()) if found is not None else None
            if found is None or units is None:
                costs.append(None)
            else:
                used[found.digest] = found
                costs.append((pricing.dollars(units), found))
        rows = saved(used.values())
        return [(one[0], rows[one[1].digest].pk) if one is not None else None for one in costs]


def saved(prices: Iterable[Price]) -> dict[str, PriceRow]:
    """Digest -> its saved row, made where it is missing; safe beside another process that makes the same one."""
    wanted = {price.digest: price for price in prices}
    if not wanted:
        return {}
    rows = PriceRow.objects.in_bulk(list(wanted), field_name="digest")
    if missing := [price.row() for digest, price in wanted.items() if digest not in rows]:
        PriceRow.objects.bulk_create(missing, ignore_conflicts=True)
        rows |= PriceRow.objects.in_bulk([row.digest for row in missing], field_name="digest")
    return rows


def book() -> PriceBook:
    """The book of this process, with the site's table as the settings have it now."""
    return _book(tuple(settings.SITE_PRICES))


@cache
def _book(site: tuple[SiteRow, ...]) -> PriceBook:
    return PriceBook(site)


# --- the library ------------------------------------------------------------------------------------------------------

#: rate -> the library's names of it, the closest first
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("input_mtok",),
    "cache_read": ("cache_read_mtok",),
    "cache_write_5m": ("cache_write_5m_mtok", "cache_write_mtok"),
    "cache_write_1h": ("cache_write_1h_mtok",),
    "output": ("output_mtok",),
}


class LibraryModel:
    """One model of the library with all its prices over time, taken out of it once each."""

    def __init__(self, source: str, provider: "Provider", model: "ModelInfo") -> None:
        self._source = source
        self._provider = provider.id
        self._model = model
        self._known: dict[int, Price | None] = {}  # by id: the model keeps its rows
        self._since: dict[int, datetime | None] = {}
        prices = model.prices
        self.changes = isinstance(prices, list) and len(prices) > 1
        if isinstance(prices, list):
            for one in prices:
                day = getattr(one.constraint, "start_date", None)
                begins = datetime(day.year, day.month, day.day, tzinfo=UTC) if day is not None else None
                self._since[id(one.prices)] = begins

    def at(self, at: datetime | None) -> Price | None:
        """The price that the library names for that time, without variants of service; None: it names none."""
        if at is None:
            if self.changes:
                return None
            at = datetime.now(UTC)  # one price: every time gives it
        prices = self._model.get_prices(at)
        if id(prices) not in self._known:
            self._known[id(prices)] = self._taken(prices)
        return self._known[id(prices)]

    def _taken(self, prices: "ModelPrice") -> Price | None:
        try:
            rates = _rates(prices)
        except pricing.RatesError:
            return None  # a row of the library that is none prices nothing, and stops nothing
        if rates == Rates():
            return None
        return _price(self._model.id, self._provider, self._source, self._since.get(id(prices)), rates)


def _rates(prices: "ModelPrice") -> Rates:
    """The five rates of a row of the library; what is no token of text (searches, seconds, images) is not ours."""
    found: dict[str, Rate] = {}
    for name, keys in _NAMES.items():
        value = next((one for key in keys if (one := getattr(prices, key, None)) is not None), None)
        if value is not None:
            tiers = [(tier.start, tier.price) for tier in getattr(value, "tiers", ())]
            # tiers of the library hold above their start, too
            found[name] = pricing.make_rate(name, getattr(value, "base", value), tiers)
    return Rates(**found)


def ready() -> None:
    """Load the library now: who is going to price can do it while it waits for something else."""
    import genai_prices.data_snapshot

    genai_prices.data_snapshot.get_snapshot()


def _look_up(model: str, agent: str) -> LibraryModel | None:
    # 0.3 s to import: only who prices pays; its updater, which would fetch from the network, is never started
    import genai_prices
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    for provider, name in pricing.candidates(model, agent):
        try:
            found = snapshot.find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        return LibraryModel(f"genai-prices {genai_prices.__version__}", *found)
    return None
