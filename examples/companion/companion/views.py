"""The chat: what was said in this browser session, and a line to say more."""

from uuid import uuid4

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from companion import voices

LONGEST = 2_000
"""Characters that one may say at once."""


@require_http_methods(["GET", "POST"])
def chat(request: HttpRequest) -> HttpResponse:
    """Show the talk; a POST says something first."""
    thread = request.session.setdefault("thread", str(uuid4()))
    problem = ""
    if request.method == "POST":
        words = request.POST.get("words", "").strip()[:LONGEST]
        if words:
            problem = voices.answer(thread, words)
        if not problem:
            return redirect("chat")
    context = {"name": settings.COMPANION_NAME, "said": voices.said(thread), "problem": problem}
    return render(request, "chat.html", context, status=502 if problem else 200)
