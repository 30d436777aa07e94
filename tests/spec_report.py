"""Pytest plugin that ties tests to the numbered acceptance cases of ``tests/spec/*.toml``.

A test says what it asserts with ``@pytest.mark.spec("core-47")``; a marker that names no known case stops
the run. ``python -m pytest --spec-report`` runs nothing: it prints every case with its tests and fails
when a case of a group listed under ``spec_groups`` in pyproject.toml has none.
"""

import tomllib
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SPEC_DIR = Path(__file__).parent / "spec"


@dataclass(frozen=True)
class Case:
    """One acceptance case: its name (``core-47``), the group that it belongs to, and its sentence."""

    name: str
    group: str
    sentence: str


@dataclass(frozen=True)
class Chapter:
    """One chapter of cases, in the order of their numbers."""

    key: str
    title: str
    cases: tuple[Case, ...]


def load_chapters(folder: Path) -> tuple[Chapter, ...]:
    """Read every chapter in ``folder``. Raises ``KeyError`` or ``ValueError`` for a malformed table."""
    return tuple(_load_chapter(path) for path in sorted(folder.glob("*.toml")))


def _load_chapter(path: Path) -> Chapter:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = sorted(table["cases"].items(), key=lambda row: int(row[0]))
    cases = tuple(Case(f"{path.stem}-{number}", str(row["group"]), row["text"]) for number, row in rows)
    return Chapter(path.stem, table["title"], cases)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("spec").addoption(
        "--spec-report", action="store_true", help="list the acceptance cases and their tests; run nothing"
    )
    parser.addini("spec_groups", "groups whose acceptance cases must all have a test", type="args")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Report from this process: workers would each see a part of the tests."""
    if config.getoption("spec_report"):
        config.option.numprocesses = 0
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SpecReport(config, load_chapters(SPEC_DIR)), "spec-report-state")


class SpecReport:
    """Collects the spec markers of one session and reports on them."""

    def __init__(self, config: pytest.Config, chapters: tuple[Chapter, ...]) -> None:
        self.reporting: bool = config.getoption("spec_report")
        self.enabled = frozenset(config.getini("spec_groups"))
        self.chapters = chapters
        self.tests: dict[str, list[str]] = defaultdict(list)
        self.unknown: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Gather the markers before any test is deselected."""
        known = {case.name for chapter in self.chapters for case in chapter.cases}
        for item in items:
            for name in _cases_of(item):
                if name not in known:
                    self.unknown.append(f"{item.nodeid}: {name!r}")
                test = _test_name(item)
                if test not in self.tests[name]:
                    self.tests[name].append(test)
        if self.unknown and not self.reporting:
            raise pytest.UsageError("spec markers name unknown cases:\n  " + "\n  ".join(self.unknown))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> bool | None:
        """Run nothing when only the report is asked for."""
        return True if self.reporting else None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.reporting or session.exitstatus not in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            return
        failed = self.unknown or self.missing()
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.reporting:
            return
        for chapter in self.chapters:
            terminalreporter.section(f"{chapter.key}: {chapter.title}")
            for case in chapter.cases:
                terminalreporter.line(f"{case.name} [group {case.group}] {case.sentence}")
                for test in self.tests.get(case.name, ()):
                    terminalreporter.line(f"    {test}")
        terminalreporter.section("acceptance cases")
        for line in self.verdict():
            terminalreporter.line(line)

    def missing(self) -> list[Case]:
        """Return the cases of enabled groups that no test names."""
        return [
            case
            for chapter in self.chapters
            for case in chapter.cases
            if case.group in self.enabled and not self.tests.get(case.name)
        ]

    def verdict(self) -> Iterator[str]:
        """Yield the closing lines of the report."""
        for chapter in self.chapters:
            owed = [case for case in chapter.cases if case.group in self.enabled]
            tested = sum(1 for case in owed if self.tests.get(case.name))
            count = len(chapter.cases)
            yield f"{chapter.key}: {tested} of {len(owed)} enabled cases have a test, {count} in all"
        for case in self.missing():
            yield f"without a test: {case.name}"
        for marker in self.unknown:
            yield f"unknown case: {marker}"


def _cases_of(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("spec"):
        if not marker.args or marker.kwargs:
            raise pytest.UsageError(f"{item.nodeid}: spec takes one or more case names")
        yield from marker.args


def _test_name(item: pytest.Item) -> str:
    """Name the test function once, however many parameter sets it runs with."""
    name = item.nodeid.split("[", 1)[0]
    return f"{name} (slow)" if item.get_closest_marker("slow") else name
