"""Patterns as `.gitignore` has them, for paths that need not exist."""

import pytest

from agent_infra.core.globs import matches


@pytest.mark.parametrize(
    ("path", "patterns", "taken"),
    [
        pytest.param("a/b.py", ["**"], True, id="everything"),
        pytest.param("a/b.py", [], False, id="no pattern"),
        pytest.param("a/b.py", ["*.py"], True, id="name at any depth"),
        pytest.param("a/b.py", ["/*.py"], False, id="name at the top"),
        pytest.param("src/a/b.py", ["src/"], True, id="folder"),
        pytest.param("src", ["src/"], False, id="a file is no folder"),
        pytest.param("lib/src/b.py", ["src"], True, id="folder at any depth"),
        pytest.param("lib/src/b.py", ["/src"], False, id="folder at the top"),
        pytest.param("src/a/b.py", ["src/*.py"], False, id="a star stops at a slash"),
        pytest.param("src/a/c/b.py", ["src/**/b.py"], True, id="two stars don't"),
        pytest.param("src/b.py", ["src/**/b.py"], True, id="two stars mean no folder, too"),
        pytest.param("docs/a.md", ["**", "!docs/"], False, id="taken back"),
        pytest.param("docs/a.md", ["!docs/", "**"], True, id="the later one wins"),
        pytest.param("a.c", ["[a-c].c"], True, id="class"),
        pytest.param("d.c", ["[!a-c].c"], True, id="class turned round"),
        pytest.param("x+y", ["x+y"], True, id="nothing else is special"),
        pytest.param("*", [r"\*"], True, id="escaped star"),
        pytest.param("a", [r"\*"], False, id="escaped star is no star"),
        pytest.param("a?", ["[a"], False, id="a bracket that never ends is itself"),
        pytest.param("[a", ["[a"], True, id="the same"),
    ],
)
def test_a_pattern_takes_in_what_git_would(path: str, patterns: list[str], taken: bool) -> None:
    """Slash anchors, star stays in its folder, the last one that fits decides."""
    assert matches(path, patterns) is taken
