from pathlib import Path

import pytest

from agent_infra.git import control
from tests.support.repos import Sandbox, sandbox


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return sandbox(tmp_path / "r")


HOOK = "mkdir -p .git/hooks; printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; "
CHANGES = {
    "new hook": (HOOK, {"hooks/pre-commit"}),
    "hooks path": ("git config core.hooksPath /dev/null", {"core.hooksPath", "hooks path"}),
    "moved hook": ("mkdir -p .git/agent-infra/hooks; echo x > .git/agent-infra/hooks/pre-commit", {"agent-infra/hooks/pre-commit"}),  # noqa: E501 - one case
    "file mode": ("git config core.fileMode false", {"core.fileMode"}),
    "line ends": ("git config core.autocrlf input; git config core.eol crlf", {"core.autocrlf", "core.eol"}),
    "stat": ("git config core.trustctime false; git config core.checkStat minimal", {"core.trustctime", "core.checkStat"}),  # noqa: E501 - one case
    "monitor": ("git config core.fsmonitor true", {"core.fsmonitor"}),
    "excludes file": (
        "git config core.excludesFile $PWD/.git/gex; echo '*' > .git/gex",
        {"core.excludesFile", "core.excludesFile (content)"},
    ),
    "relative attributes file": (
        "git config core.attributesFile attrs; echo '*' > attrs",
        {"core.attributesFile", "core.attributesFile (content)"},
    ),
    "filter": ("git config filter.up.clean cat", {"filter.up.clean"}),
    "include": ("echo '[core]\n\tsymlinks = false' > .git/more; git config include.path more", {"include.path", "core.symlinks"}),  # noqa: E501 - one case
    "conditional include": ("git config includeIf.gitdir:/x/.path more", {"includeif.gitdir:/x/.path"}),
    "extension": ("git config extensions.worktreeConfig true", {"extensions.worktreeconfig"}),
    "info/exclude": ("mkdir -p .git/info; echo f9 >> .git/info/exclude", {"info/exclude"}),
    "info/attributes": ("mkdir -p .git/info; echo '* -text' > .git/info/attributes", {"info/attributes"}),
    "sparse": (
        "git sparse-checkout set --no-cone '/*'",
        {"core.sparseCheckout", "info/sparse-checkout", "extensions.worktreeconfig"},
    ),
    "grafts": ("git rev-parse HEAD > .git/info/grafts", {"info/grafts"}),
    "replacement": ("git replace HEAD:f1 HEAD:f2", {"refs/replace"}),
    "Claude Code settings": ("mkdir .claude; echo '{}' > .claude/settings.json", {".claude/settings.json"}),
    "personal settings": ("mkdir .claude; echo '{}' > .claude/settings.local.json", {".claude/settings.local.json"}),
    "Codex": ("mkdir .codex; echo '{}' > .codex/hooks.json; echo x=1 > .codex/config.toml", {".codex/hooks.json", ".codex/config.toml"}),  # noqa: E501 - one case
    "launcher": ("mkdir -p .agents/hooks; echo x > .agents/hooks/agent-infra", {".agents/hooks/agent-infra"}),
    "agent": (
        "mkdir -p .claude/agents; touch .claude/agents/agent-infra-lifecycle-reviewer.md .claude/agents/own.md",
        {".claude/agents/agent-infra-lifecycle-reviewer.md"},
    ),
    "dangling link as settings": ("mkdir .claude; ln -s nowhere .claude/settings.json", {".claude/settings.json"}),
}  # fmt: skip


@pytest.mark.parametrize(("script", "named"), [pytest.param(*case, id=name) for name, case in CHANGES.items()])
def test_change_of_control_is_named(script: str, named: set[str], box: Sandbox) -> None:
    """Whatever decides how git sees or guards the repository changes the digest and is named."""
    box.sh("mkdir -p .git/info")
    before = control.capture(box.repo)
    box.sh(script)
    after = control.capture(box.repo)
    assert set(control.changed(before, after)) == named
    assert control.digest(before) != control.digest(after)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("chmod -x .git/hooks/pre-commit", id="no longer executable"),
        pytest.param("echo exit 0 >> .git/hooks/pre-commit", id="other bytes"),
        pytest.param("rm .git/hooks/pre-commit", id="gone"),
        pytest.param("mv .git/hooks/pre-commit x; ln -s $PWD/x .git/hooks/pre-commit", id="a link to the same"),
        pytest.param("rm .git/hooks/pre-commit; mkfifo .git/hooks/pre-commit", id="a FIFO"),
    ],
)
def test_change_of_a_hook(script: str, box: Sandbox) -> None:
    box.sh(HOOK)
    before = control.capture(box.repo)
    box.sh(script)
    assert control.changed(before, control.capture(box.repo)) == ("hooks/pre-commit",)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("touch -d @1 f1; git status; git update-index --refresh", id="refreshed index"),
        pytest.param("git branch b; git tag t; git checkout -qb c", id="branches and tags"),
        pytest.param("echo x > f1; git stash -q", id="stash"),
        pytest.param("git remote add o ../x; git config branch.main.remote o", id="remote"),
        pytest.param("git config user.name other; git config commit.gpgSign true", id="other settings"),
        pytest.param("echo x > f1; git commit -qam c; git gc -q", id="commit and gc"),
        pytest.param("mkdir -p .git/hooks; echo x > .git/hooks/update.sample", id="a sample hook"),
    ],
)
def test_work_with_git_is_no_change(script: str, box: Sandbox) -> None:
    before = control.capture(box.repo)
    box.sh(script)
    assert control.changed(before, control.capture(box.repo)) == ()
    assert control.digest(before) == control.digest(control.capture(box.repo))


def test_linked_worktree_has_its_own_client_files(box: Sandbox, tmp_path: Path) -> None:
    """Hooks are shared, what a client reads lies in the worktree; but Codex takes its hooks from the primary one."""
    box.git("worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    linked = Sandbox(tmp_path / "w")
    before = control.capture(linked.repo)
    box.sh(HOOK)
    box.sh("mkdir .claude; echo '{}' > .claude/settings.json")
    assert control.changed(before, control.capture(linked.repo)) == ("hooks/pre-commit",)
    box.sh("mkdir .codex; echo '{}' > .codex/hooks.json")
    assert control.changed(before, control.capture(linked.repo)) == ("hooks/pre-commit", "primary .codex/hooks.json")


def test_excludes_file_that_git_reads_unasked(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    before = control.capture(box.repo)
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "ignore").write_text("*\n")
    assert control.changed(before, control.capture(box.repo)) == ("core.excludesFile (content)",)
