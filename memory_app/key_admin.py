"""API keys in the Django admin: made, looked at and withdrawn; never changed, and their text shown once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from memory_app.admin import ReadOnlyAdmin
from memory_app.models import ApiKey, MemoryCollection
from memory_app.models.apikeys import SCOPES


class ApiKeyForm(forms.ModelForm):
    """What a new key may do, where, for whom and until when."""

    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=[(scope, scope) for scope in SCOPES],
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "read: recall and read; write: remember, link, keep threads; review: correct, forget, delete threads; "
            "operate: list everything, see to repairs, create and archive collections. "
            "A key may never do more than its user."
        ),
    )

    class Meta:
        """What a blank field means."""

        help_texts = {
            "collections": _("Those it opens; without any, only those that it creates itself."),
            "expires_at": _("Left blank, it serves until it is withdrawn."),
        }

    def clean_expires_at(self) -> datetime | None:
        """Refuse an end that has passed already: the key would never serve.

        Raises:
            ValidationError: the time is not ahead.
        """
        end: datetime | None = self.cleaned_data["expires_at"]
        if end is not None and end <= timezone.now():
            raise forms.ValidationError(_("This time has passed."))
        return end


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Which programs may call the API."""

    form = ApiKeyForm
    list_display = ("name", "prefix", "user", "scopes", "created_at", "expires_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("=prefix", "name")
    date_hierarchy = "created_at"
    actions = ("withdraw",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whether the user may make keys."""
        return bool(request.user.has_perm("memory_app.add_apikey"))

    def has_withdraw_permission(self, request: HttpRequest) -> bool:
        """Whether the user may withdraw keys."""
        return bool(request.user.has_perm("memory_app.change_apikey"))

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Return what is asked of a new key, or known of one that is there."""
        asked = ("name", "scopes", "collections", "expires_at")
        if obj is not None:
            return ("user", *asked, "prefix", "created_at", "revoked_at")
        # A key acts for its user: whoever could choose any user could become any user.
        return ("user", *asked) if request.user.is_superuser else asked

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        """Offer those collections only that the user may know of."""
        if not request.user.has_perm("memory_app.view_memorycollection"):
            options["queryset"] = MemoryCollection.objects.filter(owner=request.user.pk)
        return super().formfield_for_manytomany(db_field, request, **options)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Make the key and show its text, which is kept nowhere."""
        user = obj.user if request.user.is_superuser else request.user
        key, text = ApiKey.objects.issue(user, obj.name, obj.scopes, expires_at=obj.expires_at)
        obj.pk = key.pk
        obj.refresh_from_db()  # it is that row from here on, to which its collections are added
        told = _("The key, which is shown this once: %(key)s") % {"key": text}
        self.message_user(request, told, messages.WARNING)

    @admin.action(description=_("Withdraw selected keys"), permissions=["withdraw"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """End keys, from the next request on."""
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        text = ngettext("%(count)d key was withdrawn.", "%(count)d keys were withdrawn.", count)
        self.message_user(request, text % {"count": count}, messages.SUCCESS if count else messages.WARNING)
