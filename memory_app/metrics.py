"""Gauges for Prometheus, for hosts that have `prometheus-client` (extra `prometheus`).

    from prometheus_client import REGISTRY
    from memory_app.metrics import MemoryCollector

    REGISTRY.register(MemoryCollector())

They are read from the database and the memories that the scraped process has open each time it is scraped, so
nothing is counted per process and any one process may be asked. No memory text, and no id, is among them; the
collections' names are.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memory_app import health
from memory_app.health import Check
from memory_app.models import RepairMarker

STORES = ("vectors", "statistics")


class MemoryCollector(Collector):
    """What `memory_app.health` reports and how many repairs there are, as gauges `character_memory_…`.

    - `ready`, `well`: 1 or 0.
    - `repairs` by `store` and `status`; `repairs_oldest_seconds`: the age of the oldest open one.
    - `repairs_lapsed_leases`: repairs whose worker did not come back.
    - `breaker_closed` by `store`: 0 while repairs of that store wait for it.
    - `commits_behind` by `collection` and `store`: of the collections that this process has open.

    While the database is out there are `ready` and `well` alone.
    """

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing: registering asks no database."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as they stand now."""
        report = health.report()
        yield _gauge("ready", "Whether requests can be served", report.ready)
        yield _gauge("well", "Whether nothing asks for an operator", report.well)
        if report.checks["database"].ok:
            yield _repairs()
            yield from _reported(report.checks)


def _repairs() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "character_memory_repairs", "Repairs in the queue and recently done", labels=("store", "status")
    )
    rows = RepairMarker.objects.values_list("store", "status").annotate(count=Count("id"))
    for store, status, count in rows.order_by("store", "status"):
        family.add_metric((store, status), count)
    return family


def _reported(checks: dict[str, Check]) -> Iterator[GaugeMetricFamily]:
    breakers = GaugeMetricFamily(
        "character_memory_breaker_closed", "Whether repairs of a store go on", labels=("store",)
    )
    behind = GaugeMetricFamily(
        "character_memory_commits_behind",
        "Commits of the graph that a store does not reflect yet",
        labels=("collection", "store"),
    )
    for name, check in checks.items():
        topic, _, rest = name.partition(".")
        collection, _, part = rest.rpartition(".")
        if topic == "breaker":
            breakers.add_metric((rest,), check.ok)
        elif topic == "collection" and part in STORES and check.value is not None:
            behind.add_metric((collection, part), check.value)
    yield breakers
    yield behind
    yield _gauge(
        "repairs_oldest_seconds", "Age of the oldest open repair", checks["repairs.oldest_seconds"].value
    )
    yield _gauge(
        "repairs_lapsed_leases",
        "Repairs whose worker did not come back",
        checks["repairs.lapsed_leases"].value,
    )


def _gauge(name: str, documentation: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"character_memory_{name}", documentation, value=value)
