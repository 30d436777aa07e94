"""The acceptance-case tables and the report that reads them."""

import pytest

from tests.spec_report import SPEC_DIR, load_chapters

pytest_plugins = ["pytester"]

TABLE = """
title = "Sample"
[cases]
1 = { group = 2, text = "Given one, then one." }
2 = { group = 2, text = "Given two, then two." }
3 = { group = 9, text = "Given three, then three." }
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own with three cases, of which group 2 enables the first two."""
    spec = pytester.mkdir("spec")
    (spec / "sample.toml").write_text(TABLE, encoding="utf-8")
    pytester.makeini("[pytest]\nspec_groups = 2\nmarkers =\n    spec(*cases): cases\n    slow: slow\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr("tests.spec_report.SPEC_DIR", spec)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "tests.spec_report", "-m", "not slow", *options)


def test_the_tables_are_whole() -> None:
    chapters = {chapter.key: chapter for chapter in load_chapters(SPEC_DIR)}
    assert {key: len(chapter.cases) for key, chapter in chapters.items()} == {
        "core": 106,
        "recall": 150,
        "history": 68,
    }
    for key, chapter in chapters.items():
        assert [case.name for case in chapter.cases] == [f"{key}-{n + 1}" for n in range(len(chapter.cases))]
        assert all(
            len(case.sentence) > 20 and case.sentence == case.sentence.strip() for case in chapter.cases
        )


def test_report_lists_tests_and_fails_for_a_case_without_one(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.spec("sample-1")
        @pytest.mark.parametrize("n", [1, 2])
        def test_one(n):
            raise RuntimeError("must not run")
        """
    )
    result = run(project, "--spec-report")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["sample-1 [[]group 2] Given one, then one.", "    *.py::test_one"], consecutive=True
    )
    output = result.stdout.str()
    assert output.count("::test_one") == 1
    assert "without a test: sample-2" in output
    assert "without a test: sample-3" not in output
    assert "must not run" not in output


def test_report_passes_when_every_enabled_case_has_a_test_slow_ones_included(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.spec("sample-1")
        def test_one(): ...

        @pytest.mark.slow
        @pytest.mark.spec("sample-2")
        def test_two(): ...
        """
    )
    result = run(project, "--spec-report")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_two (slow)", "sample: 2 of 2 enabled cases have a test, 3 in all"])


@pytest.mark.parametrize("marker", ['"sample-4"', '"sample-1", "smaple-2"', ""])
def test_a_marker_that_names_no_known_case_stops_an_ordinary_run(
    project: pytest.Pytester, marker: str
) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.spec({marker})\ndef test_one(): ...\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes()


def test_report_fails_for_an_unknown_case_even_if_all_others_are_tested(project: pytest.Pytester) -> None:
    project.makepyfile(
        'import pytest\n@pytest.mark.spec("sample-1", "sample-2", "sample-44")\ndef test_one(): ...\n'
    )
    result = run(project, "--spec-report")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["unknown case: *::test_one: 'sample-44'"])


def test_a_module_that_cannot_be_collected_is_not_hidden_by_the_report(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_good='import pytest\n@pytest.mark.spec("sample-1", "sample-2")\ndef test_one(): ...\n',
        test_bad="raise RuntimeError('broken module')",
    )
    assert run(project, "--spec-report").ret != 0
