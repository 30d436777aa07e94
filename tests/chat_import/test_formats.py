"""Both chat formats: what comes out of a good file, and what a bad one is refused with."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from charactermemory.errors import CharacterMemoryError
from memory_app.chat_import.formats import ChatFormatError, ChatSession, ChatTurn, read_jsonl, read_locomo

DATA = Path(__file__).parents[1] / "data"
OWN_JSONL = DATA / "companion_chat.jsonl"
OWN_LOCOMO = DATA / "companion_locomo.json"
ROOT = Path(__file__).parents[2]
SHARED_DATA = Path(os.environ.get("SHARED_DATA", ROOT.parent / "shared" / "data"))
REFERENCE = SHARED_DATA.parent / "tools" / "locomo_reference.py"

Writer = Callable[..., Path]


def line(**changes: Any) -> dict[str, Any]:
    """A good line with `changes`; a value of `...` takes the key away."""
    values = {
        "session": "s",
        "time": "2026-03-01T09:30:00+01:00",
        "speaker": "Ada",
        "text": "Hello.",
    } | changes
    return {key: value for key, value in values.items() if value is not ...}


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    """Write lines (values as JSON, text and bytes as they are) and return the file."""

    def write_lines(*lines: Any) -> Path:
        encoded = [
            item
            if isinstance(item, bytes)
            else (item if isinstance(item, str) else json.dumps(item)).encode()
            for item in lines
        ]
        path = tmp_path / "chat.jsonl"
        path.write_bytes(b"\n".join(encoded) + b"\n")
        return path

    return write_lines


# ---- jsonl ----------------------------------------------------------------------------------------


def test_jsonl_gives_sessions_and_turns_verbatim(write: Writer) -> None:
    path = write(
        line(text="  Morning,\n\tAda 🌿 ", summary="They greet."),
        line(session="later", time="2026-03-02T00:00:00.25Z", speaker=..., text="僕だ", id="x"),
    )
    berlin = datetime.fromisoformat("2026-03-01T09:30:00+01:00")
    later = datetime(2026, 3, 2, 0, 0, 0, 250_000, tzinfo=UTC)
    assert read_jsonl(path) == (
        ChatSession("s", berlin, "They greet.", (ChatTurn("0", "Ada", berlin, "  Morning,\n\tAda 🌿 "),)),
        ChatSession("later", later, None, (ChatTurn("x", None, later, "僕だ"),)),
    )


def test_jsonl_keeps_the_offset_a_time_was_written_with(write: Writer) -> None:
    (session,) = read_jsonl(write(line(time="2026-03-01T09:30:00-03:30")))
    assert session.time.utcoffset() == timedelta(hours=-3, minutes=-30)


def test_jsonl_sessions_may_interleave_and_keep_the_order_of_their_first_lines(write: Writer) -> None:
    path = write(
        line(session="b", text="1"), line(session="a", text="2"), line(session="b", text="3", id="own"),
        line(session="a", text="4"), line(session="b", text="5"),
    )  # fmt: skip
    sessions = read_jsonl(path)
    assert [(s.key, [(t.key, t.text) for t in s.turns]) for s in sessions] == [
        ("b", [("0", "1"), ("own", "3"), ("2", "5")]),
        ("a", [("0", "2"), ("1", "4")]),
    ]


def test_jsonl_session_time_is_that_of_its_first_line(write: Writer) -> None:
    path = write(line(time="2026-03-01T10:00:00Z"), line(time="2026-03-01T09:00:00Z"))
    (session,) = read_jsonl(path)
    assert session.time == session.turns[0].time == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_appending_lines_changes_no_earlier_key(write: Writer) -> None:
    lines = [line(session=name, text=f"{name} {i}") for i in range(3) for name in ("a", "b")]
    before = {s.key: s for s in read_jsonl(write(*lines))}
    after = {s.key: s for s in read_jsonl(write(*lines, line(session="c"), line(session="a", speaker="New")))}
    assert list(after) == ["a", "b", "c"]
    assert after["b"] == before["b"]
    assert after["a"].turns[:3] == before["a"].turns and after["a"].time == before["a"].time
    assert after["a"].turns[3].key == "3"


def test_jsonl_passes_over_empty_lines_nulls_and_a_byte_order_mark(write: Writer) -> None:
    first = b"\xef\xbb\xbf" + json.dumps(line(id=None, summary=None)).encode() + b"\r"
    sessions = read_jsonl(write(first, "", "   ", line(speaker=None)))
    assert [(t.key, t.speaker) for t in sessions[0].turns] == [("0", "Ada"), ("1", None)]


def test_jsonl_takes_a_summary_from_any_line_and_again_if_it_is_the_same(write: Writer) -> None:
    (session,) = read_jsonl(write(line(), line(summary="Sum."), line(summary="Sum."), line()))
    assert session.summary == "Sum."


def test_an_empty_jsonl_file_holds_no_session(write: Writer) -> None:
    assert read_jsonl(write("")) == ()


def test_jsonl_takes_text_at_the_limit(write: Writer) -> None:
    (session,) = read_jsonl(write(line(text="x" * 50_000, id="i" * 1024, speaker="n" * 1000)))
    assert len(session.turns[0].text) == 50_000


BAD_LINES: dict[str, tuple[Any, str | None, str]] = {
    "unknown key": (line(mood="fine"), "mood", "use only session, time, speaker, text, id, summary"),
    "no session": (line(session=...), "session", "is missing; every line needs"),
    "no time": (line(time=...), "time", "is missing; every line needs"),
    "no text": (line(text=...), "text", "is missing; every line needs"),
    "null text": (line(text=None), "text", "is missing"),
    "number as session": (line(session=7), "session", "is a number; write it as text"),
    "flag as text": (line(text=True), "text", "is true or false; write it as text"),
    "list as speaker": (line(speaker=["Ada"]), "speaker", "is a list; write it as text"),
    "number as id": (line(id=1), "id", "is a number; write it as text"),
    "object as summary": (line(summary={}), "summary", "is an object; write it as text"),
    "number as time": (line(time=1_700_000_000), "time", "is a number; write it as text"),
    "blank text": (line(text=" \u3000\n"), "text", "is blank; give it content or leave it out"),
    "text without width": (line(text="\u200b"), "text", "is blank; give it content or leave it out"),
    "blank session": (line(session=""), "session", "is blank"),
    "blank speaker": (line(speaker=" "), "speaker", "is blank"),
    "blank id": (line(id=""), "id", "is blank"),
    "blank summary": (line(summary=""), "summary", "is blank"),
    "long text": (line(text="x" * 50_001), "text", "has 50,001 characters; shorten it to at most 50,000"),
    "long speaker": (line(speaker="x" * 1001), "speaker", "shorten it to at most 1,000"),
    "long id": (line(id="x" * 1025), "id", "shorten it to at most 1,024"),
    "NUL": (line(text="a\0b"), "text", "NUL at character 1 cannot be stored; remove it"),
    "lone surrogate": (line(text="ab\ud83d"), "text", "a lone surrogate at character 2 cannot be stored"),
    "lone surrogate in a name": (line(speaker="\udc00"), "speaker", "a lone surrogate at character 0"),
    "naive time": (line(time="2026-03-01T09:30:00"), "time", "has no UTC offset; write RFC 3339"),
    "date only": (line(time="2026-03-01"), "time", "is not a date and time; write RFC 3339"),
    "ISO but not RFC 3339": (line(time="20260301T0930+01"), "time", "is not a date and time"),
    "no such day": (line(time="2026-02-30T09:30:00Z"), "time", "does not exist"),
    "no such offset": (line(time="2026-02-03T09:30:00+25:00"), "time", "does not exist"),
    "outside the calendar": (line(time="0001-01-01T00:00:00+01:00"), "time", "does not exist"),
    "not JSON": ('{"session": "s",', None, "is not JSON at column "),
    "two objects": (json.dumps(line()) * 2, None, "is not JSON at column"),
    "an array": ("[1]", None, "is a list; write one JSON object a line"),
    "a bare NaN": ("NaN", None, "is a number; write one JSON object a line"),
    "a key twice": ('{"session": "a", "session": "b"}', "session", "stands twice on the line; keep one"),
    "endless nesting": ("[" * 200_000, None, "cannot be read as JSON"),
    "endless digits": ('{"session": ' + "9" * 10_000 + "}", None, "cannot be read as JSON"),
    "not UTF-8": (b'{"session": "\xff"}', None, "byte 14 is not UTF-8; save the file as UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "field", "problem"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_jsonl_line_is_refused_by_number_and_field(
    write: Writer, bad: Any, field: str | None, problem: str
) -> None:
    with pytest.raises(ChatFormatError) as caught:
        read_jsonl(write(line(), "", bad, line()))
    assert (caught.value.line, caught.value.field) == (3, field)
    assert problem in caught.value.problem
    assert str(caught.value) == (f"line 3, field {field!r}: " if field else "line 3: ") + caught.value.problem


def test_a_turn_key_stands_once_in_its_session(write: Writer) -> None:
    with pytest.raises(
        ChatFormatError, match="line 3, field 'id': turn 'm1' of session 's' already stands on line 1"
    ):
        read_jsonl(write(line(id="m1"), line(session="other", id="m1"), line(id="m1")))


def test_an_id_that_looks_like_another_turns_position_is_refused(write: Writer) -> None:
    with pytest.raises(ChatFormatError, match="line 2, field 'id': turn '1' .* line 1 .* its own id"):
        read_jsonl(write(line(id="1"), line()))


def test_two_summaries_of_one_session_are_refused(write: Writer) -> None:
    with pytest.raises(
        ChatFormatError, match="line 2, field 'summary': session 's' already has another summary"
    ):
        read_jsonl(write(line(summary="One."), line(summary="Two.")))


def test_the_error_is_one_of_the_memorys_and_survives_pickling() -> None:
    error = ChatFormatError(problem="is bad; make it good", line=3, field="text")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, CharacterMemoryError) and error.code == "chat_format"
    assert (again.line, again.field, again.problem, str(again)) == (3, "text", error.problem, str(error))


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    for read in (read_jsonl, read_locomo):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "absent")


def test_turns_and_sessions_are_frozen() -> None:
    session = read_jsonl(OWN_JSONL)[0]
    for value in (session, session.turns[0]):
        with pytest.raises(FrozenInstanceError):
            value.key = "other"  # type: ignore[misc]


# ---- LoCoMo ---------------------------------------------------------------------------------------


def sample() -> dict[str, Any]:
    """A small good sample: sessions 1, 2, 10 out of order, an empty one, and one that has only a date."""

    def turn(key: str, text: str, **more: Any) -> dict[str, Any]:
        return {"speaker": "Ada", "dia_id": key, "text": text, **more}

    return {
        "sample_id": "small",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Ben",
            "session_10": [turn("D10:1", "Ten.")],
            "session_10_date_time": "12:05 am on 1 March, 2024",
            "session_2": [turn("D2:1", "Two. ", blip_caption="a red door", img_url=["x"], query="door")],
            "session_2_date_time": "12:30 pm on 29 February, 2024",
            "session_1": [turn("D1:1", "One."), turn("D1:2", "", blip_caption="a cat")],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_3": [],
            "session_3_date_time": "1:00 pm on 1 March, 2024",
            "session_11_date_time": "1:00 pm on 2 March, 2024",
        },
        "qa": [],
    }


def dumped(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(value))
    return path


def test_locomo_gives_sessions_by_number_with_captions_and_utc_times(tmp_path: Path) -> None:
    assert read_locomo(dumped(tmp_path, sample())) == (
        ChatSession(
            "small/session_1",
            datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
            None,
            (ChatTurn("D1:1", "Ada", None, "One."), ChatTurn("D1:2", "Ada", None, " [a cat]")),
            "small",
        ),
        ChatSession(
            "small/session_2",
            datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
            None,
            (ChatTurn("D2:1", "Ada", None, "Two.  [a red door]"),),
            "small",
        ),
        ChatSession(
            "small/session_10",
            datetime(2024, 3, 1, 0, 5, tzinfo=UTC),
            None,
            (ChatTurn("D10:1", "Ada", None, "Ten."),),
            "small",
        ),
    )


def test_locomo_questions_and_summaries_are_never_read(tmp_path: Path) -> None:
    plain = read_locomo(dumped(tmp_path, [sample()]))
    noisy = sample() | dict.fromkeys(
        ("qa", "session_summary", "event_summary", "observation"), ["POISON", 1, None]
    )
    assert read_locomo(dumped(tmp_path, [noisy])) == plain


def test_locomo_reads_one_named_conversation_of_several(tmp_path: Path) -> None:
    other = sample() | {"sample_id": "other", "conversation": "broken, and of no concern"}
    path = dumped(tmp_path, [other, sample()])
    assert [s.key for s in read_locomo(path, "small")] == [
        "small/session_1", "small/session_2", "small/session_10"
    ]  # fmt: skip
    with pytest.raises(ChatFormatError, match="the file holds 2 conversations; choose one of: other, small"):
        read_locomo(path)
    with pytest.raises(ChatFormatError, match="no conversation 'third'; choose from: other, small"):
        read_locomo(path, "third")


def test_locomo_month_names_do_not_depend_on_the_locale(tmp_path: Path) -> None:
    months = "January February March April May June July August September October November December".split()
    for number, month in enumerate(months, start=1):
        value = sample()
        value["conversation"]["session_1_date_time"] = f"9:01 AM on 7 {month}, 2025"
        assert read_locomo(dumped(tmp_path, value))[0].time == datetime(2025, number, 7, 9, 1, tzinfo=UTC)


def changed(path: str, value: Any) -> Any:
    """The good sample with the value at a JSON Pointer replaced, or taken away with `...`."""
    result = copy.deepcopy(sample())
    *parents, last = path.strip("/").split("/")
    at: Any = result
    for key in parents:
        at = at[int(key) if isinstance(at, list) else key]
    if value is ...:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return result


BAD_SAMPLES: dict[str, tuple[str, Any, str]] = {
    "no sample id": ("/sample_id", ..., "is missing; it must be text"),
    "no conversation": ("/conversation", ..., "is missing; it must be an object"),
    "session of another kind": ("/conversation/session_1", "x", "is text; it must be a list"),
    "session without a time": ("/conversation/session_1_date_time", ..., "is missing; it must be text"),
    "time in another form": ("/conversation/session_1_date_time", "2023-05-08", "write it as in 1:56 pm"),
    "thirteen o'clock": ("/conversation/session_1_date_time", "13:56 pm on 8 May, 2023", "write it as in"),
    "no such month": ("/conversation/session_1_date_time", "1:56 pm on 8 Mai, 2023", "write it as in"),
    "no such day": ("/conversation/session_1_date_time", "1:56 pm on 31 June, 2023", "does not exist"),
    "no such minute": ("/conversation/session_1_date_time", "1:66 pm on 3 June, 2023", "does not exist"),
    "turn of another kind": ("/conversation/session_1/1", 7, "is a number; it must be an object"),
    "turn without id": ("/conversation/session_1/0/dia_id", ..., "is missing; it must be text"),
    "turn without speaker": ("/conversation/session_1/0/speaker", ..., "is missing; it must be text"),
    "turn without text": ("/conversation/session_1/1/text", ..., "is missing; it must be text"),
    "blank turn": ("/conversation/session_1/0/text", " ", "is blank"),
    "NUL": ("/conversation/session_1/0/text", "a\0", "NUL at character 1 cannot be stored"),
    "lone surrogate": ("/conversation/session_1/0/speaker", "\ud800", "a lone surrogate at character 0"),
    "caption of another kind": ("/conversation/session_1/1/blip_caption", 5, "is a number; it must be text"),
    "id twice": (
        "/conversation/session_10/0/dia_id",
        "D1:1",
        "'D1:1' is already that of /0/conversation/session_1/0",
    ),
}


@pytest.mark.parametrize(("path", "value", "problem"), BAD_SAMPLES.values(), ids=BAD_SAMPLES)
def test_a_bad_locomo_sample_is_refused_by_pointer(
    tmp_path: Path, path: str, value: Any, problem: str
) -> None:
    with pytest.raises(ChatFormatError) as caught:
        read_locomo(dumped(tmp_path, [changed(path, value)]))
    assert caught.value.field == f"/0{path}"
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("raw", "place", "problem"),
    [
        (b'[\n{"sample_id": }]', (2, None), "is not JSON at column"),
        (b"\xff", (None, None), "byte 1 is not UTF-8"),
        (b"[" * 200_000, (None, None), "cannot be read as JSON"),
        (b"7", (None, "/"), "is a number; it must be an object"),
        (b"[]", (None, None), "the file holds 0 conversations; choose one of: none"),
    ],
)
def test_a_file_that_is_no_locomo_is_refused(
    tmp_path: Path, raw: bytes, place: tuple[int | None, str | None], problem: str
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(ChatFormatError) as caught:
        read_locomo(path)
    assert (caught.value.line, caught.value.field) == place
    assert problem in caught.value.problem


def test_two_samples_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ChatFormatError, match="field '/1/sample_id': 'small' names two samples"):
        read_locomo(dumped(tmp_path, [sample(), sample()]), "small")


# ---- our own chats, and the public data set where it is at hand -----------------------------------------


def test_our_own_jsonl_chat() -> None:
    sessions = read_jsonl(OWN_JSONL)
    assert [(s.key, len(s.turns)) for s in sessions] == [
        ("bremerhaven", 10), ("biscay", 9), ("line", 13), ("ice", 12), ("mail", 7), ("return", 9),
    ]  # fmt: skip
    assert {t.speaker for s in sessions for t in s.turns} == {"Jonah", "Pip"}
    assert all(t.time is not None and t.time >= s.time for s in sessions for t in s.turns)


def test_our_own_locomo_conversation_has_evidence_for_its_questions() -> None:
    sessions = read_locomo(OWN_LOCOMO)
    keys = {t.key for s in sessions for t in s.turns}
    assert len(sessions) == 9 and len(keys) == sum(len(s.turns) for s in sessions) == 157
    assert {t.speaker for s in sessions for t in s.turns} == {"Kerstin", "Duma"}
    (content,) = json.loads(OWN_LOCOMO.read_text("utf-8"))
    assert len(content["qa"]) == 16 and {qa["category"] for qa in content["qa"]} == {1, 2, 3, 4}
    assert all(qa["evidence"] and keys.issuperset(qa["evidence"]) for qa in content["qa"])


def reference_script() -> ModuleType:
    """The script that defines how LoCoMo's turns are read, where it lies beside the project."""
    if not REFERENCE.exists():
        pytest.skip("the LoCoMo reference script is not beside the project")
    spec = importlib.util.spec_from_file_location("locomo_reference", REFERENCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["locomo_reference"] = module  # its dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["locomo_reference"]
    return module


def assert_same_turns_as_reference(path: Path, conversations: int) -> None:
    expected = reference_script().load(str(path))
    assert len(expected) == conversations
    for conversation in expected:
        read = [
            (turn.key, int(session.key.rpartition("_")[2]), turn.speaker, turn.text)
            for session in read_locomo(path, conversation.id)
            for turn in session.turns
        ]
        assert read == [(turn.id, turn.session, turn.speaker, turn.text) for turn in conversation.turns]


def test_our_own_conversation_reads_as_the_reference_script_reads_it() -> None:
    assert_same_turns_as_reference(OWN_LOCOMO, 1)


def test_the_public_data_set_reads_as_the_reference_script_reads_it() -> None:
    path = SHARED_DATA / "locomo10.json"
    if not path.exists():
        pytest.skip("the LoCoMo data set is not beside the project (SHARED_DATA names its folder)")
    assert_same_turns_as_reference(path, 10)
    (first, *_) = read_locomo(path, "conv-26")
    assert first.time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
