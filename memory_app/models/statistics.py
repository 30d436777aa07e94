"""Retrieval statistics as rows: edges, counters, object states (DESIGN R11). Derived and rebuildable.

`generation` lets a rebuild fill new rows beside the ones that serve.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Standing(models.IntegerChoices):
    """How an object stands; merging keeps the lesser."""

    SUPPRESSED = 0, _("suppressed")
    SUPERSEDED = 1, _("superseded")
    CURRENT = 2, _("current")


class StatisticsRow(models.Model):
    """What every statistics row has."""

    collection = models.CharField(_("collection"), max_length=128)
    generation = models.PositiveBigIntegerField(_("generation"))

    class Meta:
        """Shared, no table."""

        abstract = True


class MemoryState(StatisticsRow):
    """One episode, observation, derived memory or thread as recall needs it; also the time index."""

    object_type = models.CharField(_("object type"), max_length=16)
    object_id = models.UUIDField(_("object id"))
    standing = models.PositiveSmallIntegerField(_("standing"), choices=Standing.choices)
    salience = models.FloatField(_("salience"))
    memory_time = models.DateTimeField(_("memory time"))
    month_day = models.CharField(_("local month and day"), max_length=5)

    class Meta:
        """One row an object and generation."""

        verbose_name = _("memory state")
        verbose_name_plural = _("memory states")
        constraints = [
            models.UniqueConstraint(
                fields=("collection", "generation", "object_id", "object_type"), name="cm_state_once"
            ),
        ]
        indexes = [
            models.Index(fields=("collection", "generation", "-memory_time"), name="cm_state_time"),
            models.Index(fields=("collection", "generation", "month_day"), name="cm_state_day"),
        ]

    def __str__(self) -> str:
        return f"{self.object_type} {self.object_id}"


class EntityEdge(StatisticsRow):
    """One object at a hub (a notion, thread or episode), with the object's standing for ordered reads."""

    hub_type = models.CharField(_("hub type"), max_length=16)
    hub_id = models.UUIDField(_("hub id"))
    relation = models.CharField(_("relation"), max_length=24)
    object_type = models.CharField(_("object type"), max_length=16)
    object_id = models.UUIDField(_("object id"))
    standing = models.PositiveSmallIntegerField(_("standing"), choices=Standing.choices)
    salience = models.FloatField(_("salience"))
    memory_time = models.DateTimeField(
        _("memory time"), help_text=_("1970 at an edge of a notion, which has no time.")
    )

    class Meta:
        """One row an edge; an index for the best objects of a hub, one for the edges of an object."""

        verbose_name = _("entity edge")
        verbose_name_plural = _("entity edges")
        constraints = [
            models.UniqueConstraint(
                fields=(
                    "collection",
                    "generation",
                    "hub_id",
                    "hub_type",
                    "relation",
                    "object_id",
                    "object_type",
                ),
                name="cm_edge_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=(
                    "collection",
                    "generation",
                    "hub_id",
                    "hub_type",
                    "relation",
                    "object_type",
                    "standing",
                    "-salience",
                    "-memory_time",
                    "object_id",
                ),
                name="cm_edge_best",
            ),
            models.Index(
                fields=("collection", "generation", "object_id", "object_type"), name="cm_edge_object"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.hub_type} {self.hub_id} {self.relation} {self.object_type} {self.object_id}"


class CountRow(StatisticsRow):
    """Counters by relation and object type."""

    relation = models.CharField(_("relation"), max_length=24)
    object_type = models.CharField(_("object type"), max_length=16)
    total = models.BigIntegerField(_("total"), default=0)
    active = models.BigIntegerField(_("active"), default=0)
    current = models.BigIntegerField(_("current"), default=0)

    class Meta:
        """Shared, no table."""

        abstract = True


def _never_negative(name: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=models.Q(current__gte=0, active__gte=models.F("current"), total__gte=models.F("active")),
        name=name,
    )


class EntityRelationCount(CountRow):
    """How many objects a hub has, by scope."""

    hub_type = models.CharField(_("hub type"), max_length=16)
    hub_id = models.UUIDField(_("hub id"))

    class Meta:
        """One row a hub, relation and type."""

        verbose_name = _("entity relation count")
        verbose_name_plural = _("entity relation counts")
        constraints = [
            models.UniqueConstraint(
                fields=("collection", "generation", "hub_id", "hub_type", "relation", "object_type"),
                name="cm_hub_count_once",
            ),
            _never_negative("cm_hub_count_order"),
        ]

    def __str__(self) -> str:
        return f"{self.hub_type} {self.hub_id} {self.relation} {self.object_type}"


class GlobalRelationCount(CountRow):
    """How many edges there are over all hubs, by scope."""

    class Meta:
        """One row a relation and type."""

        verbose_name = _("global relation count")
        verbose_name_plural = _("global relation counts")
        constraints = [
            models.UniqueConstraint(
                fields=("collection", "generation", "relation", "object_type"), name="cm_global_count_once"
            ),
            _never_negative("cm_global_count_order"),
        ]

    def __str__(self) -> str:
        return f"{self.relation} {self.object_type}"


class StatisticsHealth(models.Model):
    """Which generation serves, its place in the commit log, and whether it can be trusted."""

    collection = models.CharField(_("collection"), max_length=128, primary_key=True)
    generation = models.PositiveBigIntegerField(_("generation"), default=1)
    building = models.PositiveBigIntegerField(_("generation being built"), null=True)
    building_high = models.BigIntegerField(_("high of the generation being built"), default=0)
    applied = models.BigIntegerField(_("applied"), default=0)
    high = models.BigIntegerField(_("high"), default=0)
    cause = models.CharField(_("cause"), max_length=500, blank=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        """Names."""

        verbose_name = _("statistics health")
        verbose_name_plural = _("statistics health")

    def __str__(self) -> str:
        return self.collection
