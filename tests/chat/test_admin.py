"""The admin's pages of threads and messages, and the migrations below them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from charactermemory.history import HistoryManager
from charactermemory.integrations.openai import with_history
from charactermemory.testing.openai_stub import OpenAIStub, Reply
from memory_app.chat.storage import DjangoStorage
from memory_app.models import ChatThread
from tests.chat.test_storage import fill

MESSAGES = "admin:memory_app_chatmessage_changelist"
THREADS = "admin:memory_app_chatthread_changelist"


@pytest.mark.spec("history-63")
def test_the_migrations_make_every_table_and_none_is_missing(database: str) -> None:
    call_command("makemigrations", "memory_app", check=True, dry_run=True, verbosity=0)
    tables = connections[database].introspection.table_names()
    assert {"memory_app_chatthread", "memory_app_chatmessage"} <= set(tables)
    with connections[database].cursor() as cursor:
        found = connections[database].introspection.get_constraints(cursor, "memory_app_chatmessage")
    assert {"cm_chat_message_place", "cm_chat_message_rules", "cm_chat_message_hidden"} <= found.keys()


@pytest.mark.spec("history-63")
@pytest.mark.django_db
def test_a_thread_of_50_000_messages_is_shown_page_by_page_and_not_changed(admin_client: Client) -> None:
    manager = HistoryManager(DjangoStorage())
    manager.create_thread({"topic": "garden"}, thread_id="long")
    manager.add_message("long", "Die Äpfel sind reif", "user")
    manager.create_thread(thread_id="short")
    thread = ChatThread.objects.get(thread_id="long")
    fill(DjangoStorage(), thread, 50_000)

    def page(address: str, **query: Any) -> str:
        with CaptureQueriesContext(connection) as seen:
            answer = admin_client.get(address, query)
        assert answer.status_code == 200
        assert len(seen) <= 20
        return str(answer.content.decode())

    shown = page(reverse(MESSAGES), thread__id__exact=thread.pk)
    assert shown.count('class="field-seq"') == 50
    assert "message 49" in shown
    assert "message 50<" not in shown
    shown = page(reverse(MESSAGES), thread__id__exact=thread.pk, p=1000)
    assert "message 49999" in shown
    for term in ("ÄPFEL", "äpfel reif"):
        shown = page(reverse(MESSAGES), q=term)
        assert "Die Äpfel sind reif" in shown
        assert shown.count('class="field-seq"') == 1
    shown = page(reverse(THREADS), q="long")
    assert shown.count('class="field-message_count"') == 1
    assert f"thread__id__exact={thread.pk}" in shown
    page(reverse("admin:memory_app_chatthread_change", args=[thread.pk]))

    message = thread.messages.first()
    assert message is not None
    for model, key in (("chatthread", thread.pk), ("chatmessage", message.pk)):
        admin = f"admin:memory_app_{model}"
        assert admin_client.get(reverse(f"{admin}_add")).status_code == 403
        assert admin_client.post(reverse(f"{admin}_delete", args=[key]), {"post": "yes"}).status_code == 403
        assert (
            admin_client.post(reverse(f"{admin}_change", args=[key]), {"role": "system"}).status_code == 403
        )
        answer = admin_client.get(reverse(f"{admin}_change", args=[key]))
        assert answer.status_code == 200
        assert b'name="_save"' not in answer.content
        chosen = {"action": "delete_selected", "_selected_action": [key]}
        admin_client.post(reverse(f"{admin}_changelist"), chosen)
    assert thread.messages.count() == 50_000


@pytest.mark.django_db
def test_what_was_said_is_not_for_every_member_of_staff(client: Client) -> None:
    client.force_login(User.objects.create_user("op", is_staff=True))
    for address in (MESSAGES, THREADS):
        assert client.get(reverse(address)).status_code == 403


@pytest.mark.spec("history-62")
@pytest.mark.django_db
def test_token_counts_reach_the_admin(admin_client: Client) -> None:
    openai = pytest.importorskip("openai")
    manager = HistoryManager(DjangoStorage())
    with OpenAIStub() as stub, openai.OpenAI(base_url=stub.url, api_key="any", max_retries=0) as bare:
        client = with_history(history_manager=manager)(bare)
        stub.queue(Reply(text="four words of answer"))
        message = {"role": "user", "content": "x" * 40}
        answer = client.chat.completions.create(model="m", messages=[message], thread_id="counted")
    asked, answered = manager.get_messages("counted")
    assert answered.token_count == answer.usage.completion_tokens > 0
    assert asked.token_count == 40 // 4 + 3
    total = asked.token_count + answered.token_count
    assert manager.get_thread("counted").token_total == total
    shown = admin_client.get(reverse(THREADS), {"q": "counted"}).content.decode()
    assert f'<td class="field-token_total">{total}</td>' in shown


@pytest.mark.django_db
def test_the_way_to_the_messages_is_shown_to_those_who_may_read_them(client: Client) -> None:
    HistoryManager(DjangoStorage()).create_thread()
    thread = ChatThread.objects.get()
    pages = [reverse(THREADS), reverse("admin:memory_app_chatthread_change", args=[thread.pk])]
    address = f"{reverse(MESSAGES)}?thread__id__exact={thread.pk}"
    user = User.objects.create_user("op", is_staff=True)
    client.force_login(user)
    user.user_permissions.add(Permission.objects.get(codename="view_chatthread"))
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200 and address not in answer.content.decode()
    user.user_permissions.add(Permission.objects.get(codename="view_chatmessage"))
    assert all(address in client.get(page).content.decode() for page in pages)
    assert client.get(address).status_code == 200
