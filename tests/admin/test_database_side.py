"""The admin of the database side: read-only, without crashes, with two actions behind a permission."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory_app.models import RepairMarker, RetrievalEvent
from memory_app.repairs import queue
from tests.repairs.world import COLLECTION, OUTAGE, POLICY, START, TOO_LONG, failure
from tests.support.plans import episode_ref

pytestmark = pytest.mark.django_db

MODELS = (
    "repairmarker",
    "memorycollection",
    "retrievalevent",
    "statisticshealth",
    "memorystate",
    "entityedge",
    "entityrelationcount",
    "globalrelationcount",
)
LIST = "admin:memory_app_repairmarker_changelist"


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")


@pytest.fixture
def rows() -> None:
    queue.record(
        COLLECTION,
        [failure(episode_ref(1), OUTAGE), failure(episode_ref(2), TOO_LONG)],
        "commit",
        START,
        POLICY,
    )
    RetrievalEvent.objects.create(collection=COLLECTION, duration_ms=1.5, included=2, omitted=0)


def staff(client: Client, *codenames: str) -> Client:
    user = User.objects.create_user("op", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    return client


@pytest.mark.parametrize("model", MODELS)
def test_every_list_and_page_opens_and_offers_no_change(admin_client: Client, rows: None, model: str) -> None:
    answer = admin_client.get(reverse(f"admin:memory_app_{model}_changelist"), {"q": "ada"})
    assert answer.status_code == 200
    assert admin_client.get(reverse(f"admin:memory_app_{model}_add")).status_code == 403
    for row in RepairMarker.objects.all() if model == "repairmarker" else ():
        url = reverse(f"admin:memory_app_{model}_change", args=(row.pk,))
        assert admin_client.get(url).status_code == 200
        assert admin_client.post(url, {"status": "dead"}).status_code == 403
        delete = reverse(f"admin:memory_app_{model}_delete", args=(row.pk,))
        assert admin_client.post(delete).status_code == 403
    assert RepairMarker.objects.count() == 2


def act(client: Client, action: str) -> Any:
    ids = list(RepairMarker.objects.values_list("pk", flat=True))
    return client.post(reverse(LIST), {"action": action, "_selected_action": ids}, follow=True)


def test_an_action_that_fits_none_of_the_rows_says_which_it_fits(client: Client, rows: None) -> None:
    staff(client, "view_repairmarker", "retry_repairmarker")
    act(client, "cancel")
    assert "None of them is waiting or dead." in act(client, "cancel").content.decode()
    act(client, "requeue")
    assert "None of them is dead or cancelled." in act(client, "requeue").content.decode()


def test_with_the_permission_rows_are_requeued_and_cancelled(client: Client, rows: None) -> None:
    staff(client, "view_repairmarker", "retry_repairmarker")
    answer = act(client, "requeue")
    assert "1 repair was requeued." in answer.content.decode()
    assert set(RepairMarker.objects.values_list("status", flat=True)) == {"pending"}
    answer = act(client, "cancel")
    assert "2 repairs were cancelled." in answer.content.decode()
    assert set(RepairMarker.objects.values_list("status", flat=True)) == {"cancelled"}


@pytest.mark.parametrize("action", ["requeue", "cancel", "delete_selected"])
def test_seeing_the_list_is_not_enough_to_act(client: Client, rows: None, action: str) -> None:
    staff(client, "view_repairmarker", "change_repairmarker", "delete_repairmarker")
    before = set(RepairMarker.objects.values_list("status", flat=True))
    act(client, action)
    assert set(RepairMarker.objects.values_list("status", flat=True)) == before
    assert RepairMarker.objects.count() == 2


def test_without_any_permission_there_is_no_list(client: Client, rows: None) -> None:
    staff(client)
    assert client.get(reverse(LIST)).status_code == 403


@pytest.mark.parametrize(
    ("model", "parameter", "token"),
    [
        ("memorystate", "object_type", "episode"),
        ("entityedge", "hub_type", "entity"),
        ("entityedge", "relation", "about"),
        ("entityrelationcount", "object_type", "derived_memory"),
        ("globalrelationcount", "relation", "involves"),
    ],
)
def test_the_filters_of_the_statistics_offer_every_token_without_reading_the_table(
    admin_client: Client, model: str, parameter: str, token: str
) -> None:
    with CaptureQueriesContext(connection) as asked:
        answer = admin_client.get(reverse(f"admin:memory_app_{model}_changelist"), {parameter: token})
    assert f"?{parameter}={token}" in answer.content.decode()
    own = [query["sql"] for query in asked if f'FROM "memory_app_{model}"' in query["sql"]]
    assert own
    assert not any("DISTINCT" in sql for sql in own)
    assert all(f"\"{parameter}\" = '{token}'" in sql for sql in own)
