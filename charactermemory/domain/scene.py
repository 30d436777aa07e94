"""The scene: when, with whom and where something happened, as perceived (DESIGN R9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, NoReturn

from pydantic import Field, PlainSerializer, field_validator

from charactermemory.domain.model import Key, Listed, Model, Name, Text, Time, to_utc
from charactermemory.errors import InvalidSceneTimeOffset
from charactermemory.ids import MemoryId


def scene_time_text(value: datetime) -> str:
    """Write a scene's time as RFC 3339 with six fraction digits and its numeric offset."""
    return value.isoformat(timespec="microseconds")


SceneTime = Annotated[Time, PlainSerializer(scene_time_text, when_used="json")]
"""An aware datetime whose offset is kept; whole minutes, judged by `Scene.check`."""


class Participant(Model):
    """Somebody present. Any of the three may be missing; a wholly blank one is dropped by the scene."""

    key: Annotated[MemoryId | None, Field(description="Id of the notion, when the host knows who it is")] = (
        None
    )
    name: Name | None = None
    description: Name | None = None

    @property
    def blank(self) -> bool:
        """Whether nothing at all is said about this participant."""
        return self.key is None and not (self.name or "").strip() and not (self.description or "").strip()


class Setting(Model):
    """Where it happened: an opaque key matched exactly, and words."""

    key: Key | None = None
    words: Name | None = None


class _Fixed(dict[str, str]):
    """A mapping that does not change: a memory hands out the scenes that it keeps."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("a scene's values do not change; make another scene, as by `replace`")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[_Fixed], tuple[dict[str, str]]]:
        return type(self), (dict(self),)


class Scene(Model):
    """One moment: its time with offset, who was there in order, where, and values of the host's own."""

    time: SceneTime
    participants: Annotated[tuple[Participant, ...], Listed] = ()
    setting: Setting | None = None
    custom_values: dict[Key, Text] = Field(default_factory=_Fixed)

    @field_validator("time", mode="after")
    @classmethod
    def _fix_offset(cls, value: datetime) -> datetime:
        """Keep the offset and nothing else of the zone, as the graph does: equal scenes are alike in all."""
        to_utc(value)  # which refuses what is no instant
        return value.replace(tzinfo=timezone(value.utcoffset() or timedelta()), fold=0)

    @field_validator("custom_values", mode="after")
    @classmethod
    def _sort_keys(cls, value: dict[str, str]) -> dict[str, str]:
        return _Fixed(sorted(value.items()))

    @field_validator("participants", mode="after")
    @classmethod
    def _drop_blank(cls, value: tuple[Participant, ...]) -> tuple[Participant, ...]:
        return tuple(participant for participant in value if not participant.blank)

    @classmethod
    def at(cls, time: datetime, *participants: Participant, words: str | None = None) -> Scene:
        """Shorthand: a scene at `time` with `participants`, in a place described by `words`."""
        setting = Setting(words=words) if words is not None else None
        return cls(time=time, participants=participants, setting=setting)

    @property
    def instant(self) -> datetime:
        """The time in UTC."""
        return self.time.astimezone(UTC)

    @property
    def offset_minutes(self) -> int:
        """The UTC offset in whole minutes."""
        return int(self._offset // timedelta(minutes=1))

    @property
    def participant_keys(self) -> tuple[MemoryId, ...]:
        """The distinct notion ids among the participants, in order."""
        return tuple(dict.fromkeys(p.key for p in self.participants if p.key is not None))

    @property
    def _offset(self) -> timedelta:
        return self.time.utcoffset() or timedelta()

    def check(self) -> None:
        """Judge what construction accepts.

        Raises:
            InvalidSceneTimeOffset: the offset has a part finer than a minute.
        """
        if self._offset % timedelta(minutes=1):
            raise InvalidSceneTimeOffset(self._offset.total_seconds())


def describe(scene: Scene) -> str:
    """Say in one line when, where and with whom; what readers show for an episode without a summary."""
    return " ".join(part for part in (scene.time.strftime("%Y-%m-%d %H:%M"), surroundings(scene)) if part)


def surroundings(scene: Scene) -> str:
    """Say where and with whom; empty if the scene tells neither."""
    parts = []
    if scene.setting and (scene.setting.words or scene.setting.key):
        parts.append(f"at {scene.setting.words or scene.setting.key}")
    people = [person.name or person.description or str(person.key) for person in scene.participants]
    if people:
        parts.append("with " + ", ".join(people))
    return " ".join(parts)
