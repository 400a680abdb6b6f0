"""The shims that git calls, and how they get into a hooks folder and out again, in real repositories."""

import json
import os
import runpy
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_infra import resources
from agent_infra.errors import AgentInfraError, ErrorCode
from agent_infra.git import hooks
from agent_infra.git.repo import Repo, discover
from agent_infra.resources import resource

TASK = "TASK-20260101-120000"
LAUNCHER = resource("hooks", "agent-infra")
SHELLS = [
    pytest.param(shell, id=" ".join(shell))
    for shell in (["sh"], ["dash"], ["bash", "--posix"], ["bash"], ["busybox", "sh"], ["ksh"], ["yash"])
    if shutil.which(shell[0])
]

STUB = """#!/bin/sh
{{ for word in "$@"; do printf '%s\\037' "$word"; done; printf '\\n'; }} >>{log}
env >{log}.env
exit {code}
"""


@dataclass(frozen=True)
class World:
    """One repository with a stub in the place of the program."""

    root: Path
    program: Path

    @property
    def repo(self) -> Repo:
        return discover(self.root)

    @property
    def hooks(self) -> Path:
        return self.root / ".git" / "hooks"

    @property
    def moved(self) -> Path:
        return self.root / ".git" / "agent-infra" / "hooks" / "moved"

    def git(self, *args, cwd=None, env=None, code=0):
        run = subprocess.run(
            ["git", *args], cwd=cwd or self.root, env={**os.environ, **(env or {})}, capture_output=True, check=False
        )
        assert code is None or (run.returncode != 0) == bool(code), run.stderr.decode()
        return run

    def install(self):
        return hooks.install(self.repo, program=self.program, template=hooks.shim_template())

    def inspect(self):
        return hooks.inspect(self.repo, program=self.program, template=hooks.shim_template())

    def kinds(self):
        return {state.name: state.kind for state in self.inspect().states}

    def guard(self, task=TASK, *, root=None):
        guard = (root or self.root) / ".git" / "agent-infra" / "guards" / task
        guard.parent.mkdir(parents=True, exist_ok=True)
        guard.write_text("{}")
        return guard

    def answers(self, code):
        """From now on the program exits with `code`."""
        write_script(self.program, STUB.format(log=quoted(self.program.with_name("calls")), code=code))

    def calls(self):
        """The arguments of every start of the program so far."""
        log = self.program.with_name("calls")
        if not log.exists():
            return []
        return [line.split("\x1f")[:-1] for line in log.read_text(encoding="utf-8").splitlines()]

    def seen_env(self):
        text = self.program.with_name("calls.env").read_text(encoding="utf-8", errors="surrogateescape")
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def stage(self, name="a.txt", text="a\n"):
        (self.root / name).write_text(text)
        self.git("add", name)

    def head(self, cwd=None):
        return self.git("rev-parse", "-q", "--verify", "HEAD", cwd=cwd, code=None).stdout.decode().strip()


def started(*command, **options):
    """Run a command whose exit code the test looks at."""
    return subprocess.run(command, check=False, **options)


def text_of(link):
    return os.readlink(link)  # noqa: PTH115 (byte for byte)


def quoted(path):
    return "'" + str(path).replace("'", "'\\''") + "'"


def write_script(path, text, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def tree(folder):
    """Every name below `folder` with kind, mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = text_of(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (mode, content)
    return found


@pytest.fixture(autouse=True)
def _pinned(monkeypatch, tmp_path):
    """Nothing of the developer's own git or agent-infra plays a part."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "AGENT_INFRA"))]:
        monkeypatch.delenv(name)
    tools = tmp_path / "tools"
    tools.mkdir()
    names = ("git", "sh", "dash", "bash", "env", "cat", "sleep", "touch", "dirname", "basename", "strace", "busybox")
    for name in (*names, "ksh", "yash"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A Person")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "person@example.com")


@pytest.fixture(
    params=[
        pytest.param("repo", id="plain path"),
        pytest.param('it\'s a "re po" $HOME `x` \\ é漢', id="spaces, quotes and non-ASCII"),
    ]
)
def folder(request, tmp_path):
    return tmp_path / request.param


def make_world(root, tmp_path):
    world = World(root, tmp_path / "bin dir" / "agent-infra")
    root.mkdir()
    world.git("init", "-q", "-b", "main")
    world.answers(0)
    return world


@pytest.fixture
def world(tmp_path):
    return make_world(tmp_path / "repo", tmp_path)


# --- what a shim does ---


def test_nothing_guards_and_no_program_starts(world):
    """Without a guard a commit passes and the program is never started."""
    world.install()
    world.stage()
    world.git("commit", "-q", "-m", "free")
    assert world.head()
    assert world.calls() == []


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_guards_needs_no_other_program(world, shell):
    """Without a guard a shim uses the shell alone, whichever shell that is."""
    world.install()
    shell = [shutil.which(shell[0]), *shell[1:]]
    for name in hooks.HOOKS:
        env = {"PATH": "/nonexistent"}
        run = started(*shell, f".git/hooks/{name}", "x", cwd=world.root, env=env, capture_output=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


@pytest.mark.skipif(not shutil.which("strace"), reason="counts processes with strace")
def test_nothing_guards_forks_nothing(world, tmp_path):
    """Without a guard a shim is one process."""
    world.install()
    world.guard().unlink()  # the folder stays
    log = tmp_path / "trace"
    command = ["strace", "-f", "-o", log, "-e", "trace=fork,vfork,clone,clone3,execve", ".git/hooks/pre-commit"]
    run = started(*command, cwd=world.root, capture_output=True)
    if run.returncode:
        pytest.skip("strace may not trace here")
    assert [line.split()[1][:6] for line in log.read_text().splitlines() if "exited" not in line] == ["execve"]


def test_a_guard_asks_the_program(folder, tmp_path):
    """With a guard every hook asks the program, with git's arguments and the common dir."""
    world = make_world(folder, tmp_path)
    world.install()
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "judged")
    calls = world.calls()
    assert [call[1] for call in calls] == ["pre-commit", "commit-msg", "reference-transaction", "post-commit"]
    assert {call[0] for call in calls} == {"gate"}
    assert all(call[2] == "--common-dir" for call in calls)
    assert all((world.root / call[3]).resolve() == (world.root / ".git").resolve() for call in calls)
    assert [call[4:] for call in calls] == [[], [".git/COMMIT_EDITMSG"], ["prepared"], []]


@pytest.mark.parametrize("code", [1, 2, 70])
def test_a_refusal_of_the_program_stops_the_commit(world, code):
    """Whatever non-zero code the program gives, git makes no commit."""
    world.install()
    world.guard()
    world.stage()
    world.answers(code)
    world.git("commit", "-q", "-m", "early", code=1)
    assert world.head() == ""
    assert started(".git/hooks/pre-commit", cwd=world.root).returncode == code


@pytest.mark.parametrize(
    ("args", "index"),
    [
        pytest.param(["-m", "x"], ".git/index", id="plain commit"),
        pytest.param(["-a", "-m", "x"], ".git/index.lock", id="commit -a"),
        pytest.param(["-m", "x", "a.txt"], ".git/next-index-", id="commit PATH"),
    ],
)
def test_the_program_sees_the_index_that_git_commits(world, args, index):
    """`GIT_INDEX_FILE` reaches the program as git set it."""
    world.install()
    world.stage()
    world.git("commit", "-q", "-m", "first")
    world.guard()
    world.stage("a.txt", "b\n")
    world.git("config", "alias.probe", "commit")
    world.answers(1)  # pre-commit is the last to be asked
    world.git("commit", "-q", *args, code=1)
    assert index in world.seen_env()["GIT_INDEX_FILE"]
    assert len(world.calls()) == 1


def test_linked_worktree_from_a_subfolder(world):
    """In a linked worktree the shim names the shared common dir and passes git's own variables on."""
    world.install()
    world.stage()
    world.git("commit", "-q", "-m", "first")
    linked = world.root.with_name("linked-tree")
    world.git("worktree", "add", "-q", "-b", "side", str(linked))
    world.guard()
    (linked / "sub").mkdir()
    (linked / "sub" / "b.txt").write_text("b\n")
    world.git("add", ".", cwd=linked / "sub")
    world.answers(1)
    world.git("commit", "-q", "-m", "x", cwd=linked / "sub", code=1)
    (call,) = world.calls()
    assert Path(call[3]).resolve() == (world.root / ".git").resolve()
    assert world.seen_env()["GIT_DIR"].endswith("/worktrees/linked-tree")
    assert world.seen_env()["GIT_PREFIX"] == "sub/"


def test_a_leftover_git_dir_decides_nothing(world, tmp_path):
    """Which repository it is comes from the shim's folder, not from a variable."""
    world.install()
    world.guard()
    other = make_world(tmp_path / "other", tmp_path)
    env = {**os.environ, "GIT_DIR": str(other.root / ".git")}
    run = started(world.hooks / "pre-commit", cwd=other.root, env=env)
    assert run.returncode == 0
    assert [call[3] for call in world.calls()] == [str(world.root / ".git")]


def test_a_copied_repository_uses_its_own_state(world):
    """After `cp -r` a guard in one does not guard the other."""
    world.install()
    copy = world.root.with_name("copy")
    shutil.copytree(world.root, copy, symlinks=True)
    world.guard()
    (copy / "a.txt").write_text("a")
    world.git("add", ".", cwd=copy)
    world.git("commit", "-q", "-m", "free", cwd=copy)
    assert world.calls() == []
    world.guard(root=copy)
    world.git("commit", "-q", "--allow-empty", "-m", "judged", cwd=copy)
    assert (copy / world.calls()[0][3]).resolve() == (copy / ".git").resolve()


def test_a_moved_repository_is_still_guarded(world, tmp_path):
    """After `mv` the shims work and count as effective."""
    write_script(world.hooks / "pre-commit", "#!/bin/sh\ntouch earlier-ran\n")
    world.install()
    world.guard()
    moved = World(tmp_path / "elsewhere", world.program)
    world.root.rename(moved.root)
    moved.stage()
    moved.answers(1)
    moved.git("commit", "-q", "-m", "x", code=1)
    assert (moved.root / "earlier-ran").exists()
    assert hooks.are_effective(moved.inspect())


def test_a_separate_git_dir(world, tmp_path):
    """A repository whose git dir lies elsewhere under any name is found."""
    apart = tmp_path / "apart"
    world.git("init", "-q", f"--separate-git-dir={apart}")
    world.install()
    (apart / "agent-infra" / "guards").mkdir(parents=True)
    (apart / "agent-infra" / "guards" / TASK).touch()
    world.stage()
    world.git("commit", "-q", "-m", "judged")
    assert [Path(call[3]).resolve() for call in world.calls()] == [apart.resolve()] * 4


def test_shims_in_our_own_folder_find_the_repository(world):
    """Called from `<common dir>/agent-infra/hooks`, a shim uses the same state."""
    world.install()
    ours = world.root / ".git" / "agent-infra" / "hooks"
    ours.mkdir(parents=True)
    shutil.copy2(world.hooks / "pre-commit", ours / "pre-commit")
    world.git("config", "core.hooksPath", str(ours))
    (ours.parent / "objects").mkdir()  # those of the snapshots
    world.guard()
    world.stage()
    world.answers(1)
    world.git("commit", "-q", "-m", "x", code=1)
    assert [call[3] for call in world.calls()] == [str(world.root / ".git")]


def test_an_unclear_place_falls_back_on_what_was_written_in(world, tmp_path):
    """A shim that lies nowhere near a repository uses the one it was installed in, and refuses without it."""
    world.install()
    world.guard()
    stray = shutil.copy2(world.hooks / "pre-commit", tmp_path / "stray")
    assert started(stray, cwd=world.root).returncode == 0
    assert [call[3] for call in world.calls()] == [str(world.root / ".git")]
    world.root.rename(tmp_path / "gone")
    run = started(stray, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert "cannot tell which repository" in run.stderr


@pytest.mark.parametrize("how", ["removed", "not executable", "interpreter gone"])
def test_program_gone_and_a_guard(world, how):
    """Without the program a guarded commit is refused, and the refusal names the tasks and every way out."""
    world.install()
    world.guard()
    world.guard("TASK-20260102-120000")
    world.stage()
    if how == "removed":
        world.program.unlink()
    elif how == "not executable":
        world.program.chmod(0o644)
    else:
        write_script(world.program, "#!/nonexistent/python\n")
    run = world.git("commit", "-q", "-m", "x", code=1)
    said = run.stderr.decode()
    assert world.head() == ""
    for words in (
        TASK,
        "TASK-20260102-120000",
        "install agent-infra again",
        "orchestrate end TASK",
        ".git/agent-infra/guards",
    ):
        assert words in said, said
    after = started(".git/hooks/post-commit", cwd=world.root, capture_output=True)
    assert (after.returncode, TASK.encode() in after.stderr) == (0, True)


def test_program_gone_and_no_guard(world):
    """Without the program and without a guard commits are free."""
    world.install()
    world.program.unlink()
    world.stage()
    assert world.git("commit", "-q", "-m", "free").stderr == b""


def test_where_the_program_is_looked_for(world, tmp_path, monkeypatch):
    """`$AGENT_INFRA` goes before the installed path, and PATH is the last resort."""
    world.install()
    world.guard()
    world.answers(1)
    named = write_script(tmp_path / "named" / "x", "#!/bin/sh\nexit 5\n")
    on_path = write_script(tmp_path / "tools" / "agent-infra", "#!/bin/sh\nexit 6\n")

    def code(**env):
        return started(".git/hooks/pre-commit", cwd=world.root, env={**os.environ, **env}).returncode

    assert code(AGENT_INFRA=str(named)) == 5
    assert code() == 1
    assert code(AGENT_INFRA=str(tmp_path / "no such")) == 1
    world.program.unlink()
    assert code() == 6
    on_path.unlink()
    assert code(AGENT_INFRA=str(named)) == 5


@pytest.mark.parametrize("what", ["guards is a file", "agent-infra is a file", "dangling symlink as a guard"])
def test_what_may_be_a_guard_is_judged(world, what):
    """Doubt about a guard is for the program to judge, never a free pass."""
    world.install()
    state = world.root / ".git" / "agent-infra"
    if what == "agent-infra is a file":
        state.write_text("")
    elif what == "guards is a file":
        state.mkdir(exist_ok=True)
        (state / "guards").write_text("")
    else:
        world.guard().unlink()
        (state / "guards" / TASK).symlink_to("nowhere")
    world.stage()
    world.answers(1)
    world.git("commit", "-q", "-m", "x", code=1)
    assert len(world.calls()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_guards_folder_is_judged(world):
    """Guards that can't be listed may be there."""
    world.install()
    guards = world.guard().parent
    guards.chmod(0)
    try:
        world.stage()
        world.answers(1)
        world.git("commit", "-q", "-m", "x", code=1)
    finally:
        guards.chmod(0o755)


@pytest.mark.parametrize("shell", SHELLS)
def test_guarded_under_every_shell(world, shell):
    """Arguments and the answer pass unchanged through any shell, with its own options switched on too."""
    world.install()
    world.guard()
    world.answers(3)
    env = {**os.environ, "SHELLOPTS": "errexit:noglob:nounset"}
    run = started(*shell, ".git/hooks/commit-msg", "a b", "*", "", cwd=world.root, env=env)
    assert run.returncode == 3
    assert world.calls() == [["gate", "commit-msg", "--common-dir", ".git", "a b", "*", ""]]


# --- the hook that was there before ---


def earlier(world, name="pre-commit", *, code=0, mode=0o755):
    """A hook that records how it was called."""
    log = world.root.with_name(f"earlier-{name}")
    text = f"#!/bin/sh\n{{ printf '%s|' \"$@\"; cat; }} >>{quoted(log)}\nenv >{quoted(log)}.env\nexit {code}\n"
    write_script(world.hooks / name, text, mode)
    return log


def test_the_earlier_hook_runs_first(folder, tmp_path):
    """The earlier hook gets arguments, stdin and environment; then the program judges."""
    world = make_world(folder, tmp_path)
    log = earlier(world, "commit-msg")
    world.install()
    world.guard()
    world.answers(4)
    run = started(
        ".git/hooks/commit-msg",
        "a b",
        "c",
        cwd=world.root,
        input=b"on stdin\n",
        env={**os.environ, "GIT_INDEX_FILE": "x", "MARK": "y z"},
    )
    assert run.returncode == 4
    assert log.read_text() == "a b|c|on stdin\n"
    seen = (log.with_name(log.name + ".env")).read_text().splitlines()
    assert {"GIT_INDEX_FILE=x", "MARK=y z"} <= set(seen)
    assert [call[4:] for call in world.calls()] == [["a b", "c"]]


@pytest.mark.parametrize("guarded", [False, True])
def test_a_failing_earlier_hook_ends_it(world, guarded):
    """Its exit code is the hook's, and the program is not asked."""
    earlier(world, code=7)
    world.install()
    if guarded:
        world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x", code=1)
    assert started(".git/hooks/pre-commit", cwd=world.root).returncode == 7
    assert world.calls() == []


def test_a_failing_earlier_post_commit_hides_nothing(world):
    """A commit that was made is recorded even if the earlier post-commit fails."""
    log = earlier(world, "post-commit", code=7)
    world.install()
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert log.exists()
    assert [call[1] for call in world.calls()] == ["pre-commit", "commit-msg", "reference-transaction", "post-commit"]


def test_the_earlier_hook_changes_what_is_judged(world):
    """A formatter that adds to the index runs before the program looks at it."""
    write_script(world.hooks / "pre-commit", "#!/bin/sh\ntouch formatted && git add formatted\n")
    world.install()
    write_script(
        world.program, '#!/bin/sh\n[ "$2" != pre-commit ] || git ls-files --error-unmatch formatted >/dev/null\n'
    )
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x")


def test_an_earlier_hook_that_calls_git_hooks_again_ends(world):
    """A hook that leads back to the shim does not run in a circle."""
    write_script(world.hooks / "pre-commit", "#!/bin/sh\nprintf x >>ran\nexec .git/hooks/pre-commit\n")
    world.install()
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert (world.root / "ran").read_text() == "x"
    assert [call[1] for call in world.calls()][:2] == ["pre-commit", "pre-commit"]


def test_an_earlier_hook_finds_the_files_beside_it(world):
    """`$(dirname "$0")/helper` works as before, though the hook was moved."""
    write_script(world.hooks / "helper.sh", "touch helped\n", mode=0o644)
    write_script(
        world.hooks / "pre-commit", '#!/bin/sh\n. "$(dirname "$0")/helper.sh"\n[ "$(basename "$0")" = pre-commit ]\n'
    )
    before = tree(world.hooks)
    world.install()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert (world.root / "helped").exists()
    hooks.uninstall(world.repo)
    assert tree(world.hooks) == before
    assert not world.moved.parent.exists()


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("../../scripts/check", id="relative, into the worktree"),
        pytest.param(".//check", id="relative, beside it, untidy"),
        pytest.param(None, id="absolute"),
    ],
)
def test_a_symlinked_hook_still_works_and_returns(world, target):
    """A hook that is a symlink is moved as one, leads to the same file, and comes back with its own text."""
    script = write_script(world.root / "scripts" / "check", "#!/bin/sh\ntouch checked\n")
    shutil.copy2(script, world.hooks / "check")
    (world.hooks / "pre-commit").symlink_to(target or str(script))
    text = text_of(world.hooks / "pre-commit")
    world.install()
    assert (world.moved / "pre-commit").is_symlink()
    assert not (world.hooks / "pre-commit").is_symlink()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert (world.root / "checked").exists()
    hooks.uninstall(world.repo)
    assert text_of(world.hooks / "pre-commit") == text


# --- pre-push ---


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("is_there", [pytest.param(True, id="with an earlier hook"), pytest.param(False, id="alone")])
def test_pre_push_hands_the_lines_on(world, shell, is_there):
    """Where the settings ask for evidence the program gets git's arguments and lines, and so does the earlier hook."""
    if is_there:
        write_script(world.hooks / "pre-push", '#!/bin/sh\necho "$@" >earlier\ncat >>earlier\n')
    world.install()
    write_script(world.root / ".agents" / "config.toml", "evidence = { push = true }", mode=0o644)
    write_script(world.program, '#!/bin/sh\necho "$@" >asked\ncat >>asked\nexit 5\n')
    lines = b"refs/heads/main 1 refs/heads/main 2\n(delete) 0 refs/heads/a\\b$x 3\n"
    command = [shutil.which(shell[0]), *shell[1:], ".git/hooks/pre-push", "origin", "../there.git"]
    assert started(*command, cwd=world.root, input=lines).returncode == 5
    head, _, rest = (world.root / "asked").read_bytes().partition(b"\n")
    assert head.startswith(b"gate pre-push --common-dir ")
    assert head.endswith(b" origin ../there.git")
    assert rest == lines
    if is_there:
        assert (world.root / "earlier").read_bytes() == b"origin ../there.git\n" + lines


@pytest.mark.skipif(not shutil.which("strace"), reason="counts processes with strace")
@pytest.mark.parametrize("text", [None, "[gate]\ncheck = true\n"])
def test_pre_push_forks_nothing_unasked(world, tmp_path, text):
    """Without the setting it is one process, whatever guards."""
    world.install()
    world.guard()
    if text:
        write_script(world.root / ".agents" / "config.toml", text, mode=0o644)
    log = tmp_path / "trace"
    command = ["strace", "-f", "-o", log, "-e", "trace=fork,vfork,clone,clone3,execve", ".git/hooks/pre-push", "o", "u"]
    if started(*command, cwd=world.root, capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    assert [line.split()[1][:6] for line in log.read_text().splitlines() if "exited" not in line] == ["execve"]


# --- installing ---


def test_install_twice_changes_nothing(folder, tmp_path):
    """The second installation finds everything in place."""
    world = make_world(folder, tmp_path)
    earlier(world)
    assert len(world.install()) == len(hooks.HOOKS) + 1
    assert hooks.are_effective(world.inspect())
    before = tree(world.root / ".git")
    assert world.install() == ()
    assert tree(world.root / ".git") == before


def test_uninstall_restores_byte_for_byte(folder, tmp_path):
    """After uninstall the hooks folder holds what it held: bytes, modes, symlinks, inactive hooks."""
    world = make_world(folder, tmp_path)
    (world.hooks / "pre-commit").write_bytes(b"#!/bin/sh\r\n\xff\x00exit 0")
    (world.hooks / "pre-commit").chmod(0o750)
    earlier(world, "commit-msg", mode=0o640)
    (world.hooks / "post-commit").symlink_to("nowhere/at all")
    before = tree(world.root / ".git")
    world.install()
    assert set(world.kinds().values()) == {"ours"}
    assert len(hooks.uninstall(world.repo)) == len(hooks.HOOKS)
    after = tree(world.root / ".git")
    assert {name: found for name, found in after.items() if name != "agent-infra"} == before
    assert hooks.uninstall(world.repo) == ()


def test_without_hooks_folder(world):
    """A repository made without templates gets the folder."""
    shutil.rmtree(world.hooks)
    world.install()
    assert hooks.are_effective(world.inspect())


def test_every_kind_is_told_apart(world):
    """absent, foreign, inactive, ours, not-executable and stale are seen for what they are, and mended."""
    assert world.kinds() == dict.fromkeys(hooks.HOOKS, "absent")
    earlier(world, "pre-commit")
    earlier(world, "commit-msg", mode=0o644)
    absent = dict.fromkeys(hooks.HOOKS, "absent")
    assert world.kinds() == absent | {"pre-commit": "foreign", "commit-msg": "inactive"}
    assert not hooks.are_effective(world.inspect())
    world.install()
    (world.hooks / "pre-commit").chmod(0o644)
    shim = (world.hooks / "commit-msg").read_bytes()
    (world.hooks / "commit-msg").write_bytes(shim.replace(b"set +e", b"exit 0"))
    ours = dict.fromkeys(hooks.HOOKS, "ours")
    assert world.kinds() == ours | {"pre-commit": "not-executable", "commit-msg": "stale"}
    assert not hooks.are_effective(world.inspect())
    assert len(world.install()) == 2
    assert hooks.are_effective(world.inspect())
    assert (world.hooks / "commit-msg").read_bytes() == shim


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"agent_infra_program=", b"exit 0; agent_infra_program=", id="a command before a value"),
        pytest.param(b"/.git\n", b"/.git; exit 0\n", id="a command after a value"),
        pytest.param(b"agent_infra_installed=", b"agent_infra_installed=$(exit 0)", id="an expansion in a value"),
        pytest.param(b"agent_infra_vetoes=1", b"agent_infra_vetoes=0", id="no veto"),
        pytest.param(b"agent_infra_hook=pre-commit", b"agent_infra_hook=post-commit", id="another hook's name"),
    ],
)
def test_an_edited_shim_is_not_ours(world, old, new):
    """Only the place and the program may differ, and only as plain values."""
    world.install()
    shim = (world.hooks / "pre-commit").read_bytes()
    assert old in shim
    (world.hooks / "pre-commit").write_bytes(shim.replace(old, new))
    assert world.kinds()["pre-commit"] == "stale"


def test_another_installed_program_is_written_in(world, tmp_path):
    """Shims that name another installation work; installing again names the present one."""
    world.install()
    second = World(world.root, tmp_path / "it's second" / "agent-infra")
    assert hooks.are_effective(second.inspect())
    assert len(second.install()) == len(hooks.HOOKS)
    assert second.install() == ()
    assert hooks.are_effective(world.inspect())


def test_a_hook_that_took_our_place_is_moved_aside_too(world):
    """A later tool's hook is called as well after a new installation; the older one keeps its bytes."""
    earlier(world)
    first = (world.hooks / "pre-commit").read_bytes()
    world.install()
    second = write_script(world.hooks / "pre-commit", "#!/bin/sh\ntouch second\n").read_bytes()
    assert world.kinds()["pre-commit"] == "foreign"
    world.install()
    assert (world.moved / "pre-commit").read_bytes() == second
    assert (world.moved / "pre-commit.1").read_bytes() == first
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert (world.root / "second").exists()
    said = hooks.uninstall(world.repo)
    assert (world.hooks / "pre-commit").read_bytes() == second
    assert any("pre-commit.1" in line for line in said)


def test_the_same_hook_again_makes_no_second_copy(world):
    """A tool that writes the very hook again leaves one copy."""
    earlier(world)
    world.install()
    earlier(world)
    world.install()
    assert sorted(path.name for path in world.moved.iterdir()) == ["pre-commit"]


def test_a_tool_that_set_our_shim_aside_makes_no_circle(world):
    """Our shim as `pre-commit.legacy` of another tool, installed again: every hook still runs, once."""
    world.install()
    (world.hooks / "pre-commit").rename(world.hooks / "pre-commit.legacy")
    legacy = '"$(dirname "$0")/pre-commit.legacy"'
    text = f"#!/bin/sh\nprintf x >>ran\n[ ! -x {legacy} ] || {legacy}\n"
    write_script(world.hooks / "pre-commit", text)
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert world.calls()[0][1] == "pre-commit"
    world.install()
    (world.root / "ran").unlink()
    world.git("commit", "-q", "--allow-empty", "-m", "y")
    assert (world.root / "ran").read_text() == "x"


def test_uninstall_leaves_a_hook_that_came_later(world):
    """A foreign hook in our place is never overwritten; both are left, and named."""
    earlier(world)
    world.install()
    later = write_script(world.hooks / "pre-commit", "#!/bin/sh\n# later\n").read_bytes()
    said = " ".join(hooks.uninstall(world.repo))
    assert (world.hooks / "pre-commit").read_bytes() == later
    assert (world.moved / "pre-commit").exists()
    assert str(world.hooks / "pre-commit") in said
    assert str(world.moved / "pre-commit") in said


def test_uninstall_puts_back_where_our_shim_was_deleted(world):
    """Whoever deletes a shim by hand still gets the earlier hook back."""
    earlier(world)
    before = (world.hooks / "pre-commit").read_bytes()
    world.install()
    (world.hooks / "pre-commit").unlink()
    hooks.uninstall(world.repo)
    assert (world.hooks / "pre-commit").read_bytes() == before


def test_cut_off_between_moving_and_writing(world, monkeypatch):
    """Stopped after a hook was set aside, it is still in its place; the next call finishes or undoes it."""
    earlier(world)
    before = tree(world.hooks)

    def cut_off(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agent_infra.git.hook_files.put_file", cut_off)
        with pytest.raises(KeyboardInterrupt):
            world.install()
    assert tree(world.hooks) == before
    assert (world.moved / "pre-commit").read_bytes() == (world.hooks / "pre-commit").read_bytes()
    world.install()
    assert sorted(path.name for path in world.moved.iterdir()) == ["pre-commit"]
    hooks.uninstall(world.repo)
    assert tree(world.hooks) == before
    with monkeypatch.context() as patch:
        patch.setattr("agent_infra.git.hook_files.put_file", cut_off)
        with pytest.raises(KeyboardInterrupt):
            world.install()
    hooks.uninstall(world.repo)
    assert tree(world.hooks) == before
    assert not world.moved.exists()


def custom(world, name, text, folder="their hooks"):
    """A hook in the folder that `core.hooksPath` names."""
    return write_script(world.root / folder / name, text)


@pytest.mark.parametrize("scope", ["--local", "--global"])
@pytest.mark.parametrize("absolute", [False, True], ids=["relative", "absolute"])
def test_hooks_path_of_somebody_else(world, tmp_path, monkeypatch, scope, absolute):
    """Ours takes its place and calls it first; uninstall sets it back, and every file is as it was."""
    config = tmp_path / "global config"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    config.touch()
    world.git("config", "user.name", "x")
    world.git("config", scope, "core.hooksPath", str(world.root / "their hooks") if absolute else "their hooks")
    earlier(world)
    custom(world, "pre-commit", '#!/bin/sh\necho "$0 $#" >>order\n')
    custom(world, "prepare-commit-msg", '#!/bin/sh\necho "$0 $2" >>order\n')
    custom(world, "pre-push", "#!/bin/sh\ncat >pushed\nexit 3\n")
    before = tree(world.root), config.read_bytes()
    world.install()
    assert hooks.are_effective(world.inspect())
    assert world.install() == ()
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert (world.root / "order").read_text().replace(f"{world.root}/", "").splitlines() == [
        "their hooks/pre-commit 0",
        "their hooks/prepare-commit-msg message",
    ]
    assert world.calls()[0][1] == "pre-commit"
    world.git("init", "-q", "--bare", "../bare.git")
    world.git("push", "-q", "../bare.git", "main", code=1)
    assert "refs/heads/main" in (world.root / "pushed").read_text()
    hooks.uninstall(world.repo)
    after = tree(world.root)
    names = [name for name in before[0] if name.startswith((".git/config", ".git/hooks", "their hooks"))]
    assert {name: before[0][name] for name in names} == {name: after[name] for name in names}
    assert not (world.root / ".git" / "agent-infra" / "hooks").exists()
    assert config.read_bytes() == before[1]


def test_hooks_path_and_a_refusal_of_theirs(world):
    """A hook of the previous folder that says no is asked first, and ours is not asked any more."""
    world.git("config", "core.hooksPath", "theirs")
    custom(world, "commit-msg", '#!/bin/sh\nread -r said <"$1"\n[ "$said" = fix ]\n', folder="theirs")
    world.install()
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x", code=1)
    assert [call[1] for call in world.calls()] == ["pre-commit"]
    world.git("commit", "-q", "-m", "fix")


def test_hooks_path_and_a_hook_that_comes_later(world, tmp_path):
    """A hook that is written or dropped in the previous folder after installing counts, in each worktree its own."""
    world.git("config", "core.hooksPath", "theirs")
    world.install()
    world.git("commit", "-q", "--allow-empty", "-m", "first")
    world.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    custom(world, "post-checkout", "#!/bin/sh\ntouch checked\n", folder="theirs")
    custom(world, "reference-transaction", '#!/bin/sh\necho "$1 $(cat)" >>moves\n', folder="theirs")
    world.git("checkout", "-q", "-b", "x")
    assert (world.root / "checked").exists()
    assert "refs/heads/x" in (world.root / "moves").read_text()
    world.git("checkout", "-q", "-b", "y", cwd=tmp_path / "linked")
    assert not (tmp_path / "linked" / "checked").exists()


def test_hooks_path_set_again(world):
    """Whoever sets the path that was there before ours is put right; a path that nobody knows is left."""
    world.git("config", "core.hooksPath", "theirs")
    world.install()
    before = tree(world.root / ".git")
    program = {"program": world.program, "template": hooks.shim_template()}
    assert hooks.mend(world.repo, **program) == ()
    world.git("config", "core.hooksPath", "theirs")
    assert "theirs" in hooks.mend(world.repo, **program)[0]
    assert tree(world.root / ".git") == before
    world.git("config", "core.hooksPath", "elsewhere")
    assert hooks.mend(world.repo, **program) == ()
    assert not hooks.are_effective(world.inspect())


@pytest.mark.parametrize("kind", ["environment", "parameters", "worktree", "twice", "empty", "included"])
def test_hooks_path_that_cannot_be_taken_over(world, monkeypatch, kind):
    """Where a file can't do it, or not for the whole repository, installing says why and changes nothing."""
    if kind == "environment":
        for name, value in {"COUNT": "1", "KEY_0": "core.hookspath", "VALUE_0": "theirs"}.items():
            monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    elif kind == "parameters":
        monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.hooksPath'='theirs'")
    elif kind == "worktree":
        world.git("config", "extensions.worktreeConfig", "true")
        world.git("config", "--worktree", "core.hooksPath", "theirs")
    elif kind == "included":
        (world.root / ".git" / "more").write_text("[core]\n\thooksPath = theirs\n")
        world.git("config", "include.path", "more")
    else:
        for value in ["theirs", "others"] if kind == "twice" else [""]:
            world.git("config", "--add", "core.hooksPath", value)
    before = tree(world.root / ".git")
    with pytest.raises(AgentInfraError) as refused:
        world.install()
    assert refused.value.code is ErrorCode.INSTALL_REFUSED
    assert "core.hooksPath" in refused.value.message
    assert "nothing was changed" in refused.value.message
    assert tree(world.root / ".git") == before


def test_a_manager_over_our_shim(world):
    """A known manager's hook over ours is set aside and called; its name for ours goes, an older one of it stays."""
    mark = "# File generated by pre-commit: https://pre-commit.com\n"
    write_script(world.hooks / "pre-commit", f"#!/bin/sh\n{mark}touch ran\n")
    write_script(world.hooks / "pre-commit.legacy", "#!/bin/sh\n# mine\n")
    before = tree(world.hooks)
    world.install()
    installed = tree(world.hooks)
    (world.hooks / "pre-commit").rename(world.hooks / "pre-commit.legacy")
    write_script(world.hooks / "pre-commit", f"#!/bin/sh\n{mark}touch ran # again\n")
    assert "pre-commit had" in hooks.mend(world.repo, program=world.program, template=hooks.shim_template())[0]
    assert tree(world.hooks) == installed
    assert sorted(path.name for path in world.moved.iterdir()) == ["pre-commit", "pre-commit.legacy"]
    write_script(world.hooks / "pre-commit", f"#!/bin/sh\n{mark}touch ran\n")
    hooks.uninstall(world.repo)
    assert {**tree(world.hooks), "pre-commit": None} == {**before, "pre-commit": None}


def test_an_unknown_hook_over_our_shim_is_left(world):
    """What no known manager wrote is for people and for the seal to judge."""
    world.install()
    write_script(world.hooks / "pre-commit", "#!/bin/sh\n# new\n")
    before = tree(world.root / ".git")
    assert hooks.mend(world.repo, program=world.program, template=hooks.shim_template()) == ()
    assert tree(world.root / ".git") == before


def test_hooks_path_set_after_installing(world):
    """Shims that git no longer calls are not effective, and uninstall still restores what they stand for."""
    earlier(world)
    before = tree(world.hooks)
    world.install()
    world.git("config", "core.hooksPath", "/nonexistent")
    assert not hooks.are_effective(world.inspect())
    hooks.uninstall(world.repo)
    assert tree(world.hooks) == before


def test_hooks_path_that_names_our_own_folder(world):
    """`core.hooksPath` that leads to the repository's own hooks folder is no obstacle."""
    world.git("config", "core.hooksPath", str(world.hooks))
    world.install()
    report = world.inspect()
    assert hooks.are_effective(report)
    assert report.configured is not None


def test_linked_worktrees_share_the_shims(world, tmp_path):
    """Installed from a linked worktree, the shims lie in the common dir and count everywhere."""
    world.git("commit", "-q", "--allow-empty", "-m", "first")
    linked = tmp_path / "linked"
    world.git("worktree", "add", "-q", "-b", "side", str(linked))
    hooks.install(discover(linked), program=world.program, template=hooks.shim_template())
    assert hooks.are_effective(world.inspect())
    assert world.install() == ()


def test_hooks_folder_that_is_a_symlink(world, tmp_path):
    """Inside the git dir it is used; one that leads elsewhere is shared or tracked, and refused."""
    world.hooks.rename(world.root / ".git" / "real")
    world.hooks.symlink_to("real")
    earlier(world)
    world.install()
    assert hooks.are_effective(world.inspect())
    world.guard()
    world.stage()
    world.git("commit", "-q", "-m", "x")
    assert (world.root / world.calls()[0][3]).resolve() == (world.root / ".git").resolve()
    world.hooks.unlink()
    shared = tmp_path / "shared"
    shared.mkdir()
    write_script(shared / "pre-commit", "#!/bin/sh\n")
    before = tree(shared)
    world.hooks.symlink_to(shared)
    with pytest.raises(AgentInfraError, match="shared") as refused:
        world.install()
    assert refused.value.code is ErrorCode.INSTALL_REFUSED
    assert tree(shared) == before


@pytest.mark.parametrize("odd", ["folder", "fifo", "symlink to a folder", "hooks is a file"])
def test_what_is_no_hook_is_refused(world, odd):
    """Something that is no hook at a hook's place stops the installation before anything changes."""
    place = world.hooks / "post-commit"
    if odd == "folder":
        place.mkdir()
    elif odd == "fifo":
        os.mkfifo(place)
    elif odd == "symlink to a folder":
        place.symlink_to("..")
    else:
        shutil.rmtree(world.hooks)
        world.hooks.write_text("")
    before = tree(world.root / ".git")
    with pytest.raises(AgentInfraError) as refused:
        world.install()
    assert refused.value.code is ErrorCode.INSTALL_REFUSED
    assert tree(world.root / ".git") == before


def test_a_disk_that_says_no(world):
    """A place that can't be written is a named error, and the earlier hook is where it was."""
    earlier(world)
    before = tree(world.hooks)
    (world.root / ".git" / "agent-infra").write_text("in the way")
    with pytest.raises(AgentInfraError) as refused:
        world.install()
    assert refused.value.code is ErrorCode.STORE_WRITE_FAILED
    assert str(world.root / ".git" / "agent-infra") in refused.value.message
    assert tree(world.hooks) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_hooks_folder(world):
    """A read-only hooks folder is a named error, with the folder's name."""
    world.hooks.chmod(0o555)
    try:
        with pytest.raises(AgentInfraError) as refused:
            world.install()
    finally:
        world.hooks.chmod(0o755)
    assert refused.value.code is ErrorCode.STORE_WRITE_FAILED
    assert str(world.hooks) in refused.value.message


def test_without_hard_links_a_hook_is_copied(world, monkeypatch):
    """On a disk without hard links bytes and mode survive all the same."""
    earlier(world, mode=0o711)
    before = tree(world.hooks)

    def no_links(*_args, **_kwargs):
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    world.install()
    hooks.uninstall(world.repo)
    assert tree(world.hooks) == before


def test_packaged_files_of_an_installed_wheel(tmp_path):
    """Inside an installed package its own data is found, never somebody else's `hooks` beside it."""
    package = tmp_path / "site" / "agent_infra"
    package.mkdir(parents=True)
    shutil.copy2(resources.__file__, package / "resources.py")
    write_script(tmp_path / "site" / "hooks" / "shim.sh", "not ours")
    ours = write_script(package / "data" / "hooks" / "shim.sh", "ours")
    installed = runpy.run_path(str(package / "resources.py"))
    assert installed["resource"]("hooks", "shim.sh") == ours.resolve()
    with pytest.raises(FileNotFoundError, match="install agent-infra again"):
        installed["resource"]("templates", "plan.md")


# --- what client settings call ---


def launch(launcher, *args, payload=b"", env=None, shell=()):
    return started(
        *shell,
        str(launcher),
        *args,
        input=payload,
        env={**os.environ, **(env or {})},
        capture_output=True,
        timeout=30,
    )


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the launcher where `init` puts it."""
    root = tmp_path / "check out é"
    launcher = root / ".agents" / "hooks" / "agent-infra"
    launcher.parent.mkdir(parents=True)
    shutil.copy2(LAUNCHER, launcher)
    assert launcher.stat().st_mode & stat.S_IXUSR
    return root


def event(name, **more):
    return json.dumps({"session_id": "s", "hook_event_name": name, **more}).encode()


SPAWN = {"tool_name": "Agent", "tool_input": {"subagent_type": "agent-infra-lifecycle-executor", "prompt": "x"}}
SPAWN_CODEX = {"tool_name": "spawn_agent", "tool_input": {"agent_type": "agent-infra-lifecycle-reviewer"}}


def test_launcher_becomes_the_program(checkout, tmp_path):
    """Arguments, stdin and exit code are the program's; `$AGENT_INFRA` before `.venv` before PATH."""
    launcher = checkout / ".agents" / "hooks" / "agent-infra"
    say = '#!/bin/sh\nprintf \'%s [%s] [%s] \' {0} "$1" "$2"; cat; exit {1}\n'
    write_script(tmp_path / "tools" / "agent-infra", say.format("path", 3))
    run = launch(launcher, "hook", "a b", payload=b"in")
    assert (run.returncode, run.stdout) == (3, b"path [hook] [a b] in")
    write_script(checkout / ".venv" / "bin" / "agent-infra", say.format("venv", 4))
    assert launch(launcher).returncode == 4
    named = write_script(tmp_path / "named it", say.format("named", 5))
    assert launch(launcher, env={"AGENT_INFRA": str(named)}).returncode == 5
    assert launch(launcher, env={"AGENT_INFRA": str(launcher)}).returncode == 4
    write_script(checkout / ".venv" / "bin" / "agent-infra", "#!/nonexistent/python -I\n")
    assert launch(launcher).returncode == 3


@pytest.mark.parametrize("shell", [pytest.param([], id="as it is"), *SHELLS])
@pytest.mark.parametrize(
    ("payload", "code"),
    [
        pytest.param(event("PreToolUse", **SPAWN), 2, id="spawn of our executor"),
        pytest.param(event("PreToolUse", **SPAWN_CODEX), 2, id="spawn of our reviewer in the other client"),
        pytest.param(event("PreToolUse", **SPAWN).replace(b'": "', b'":"') + b"\n", 2, id="compact JSON"),
        pytest.param(event("PreToolUse", tool_input={"subagent_type": "Explore"}), 0, id="another agent"),
        pytest.param(
            event("PreToolUse", tool_input={"command": 'grep "agent-infra-lifecycle-executor" .'}),
            0,
            id="only in a text",
        ),
        pytest.param(event("SubagentStop", agent_type="agent-infra-lifecycle-executor"), 0, id="a stop of ours"),
        pytest.param(event("Stop", last_assistant_message='"hook_event_name": "PreToolUse"'), 0, id="quoted in a stop"),
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"\xff\x00{", 0, id="no JSON"),
    ],
)
def test_launcher_without_the_program(checkout, payload, code, shell):
    """Only a spawn of our agents is refused: exit 2, a reason on stderr, nothing on stdout."""
    run = launch(checkout / ".agents" / "hooks" / "agent-infra", "hook", payload=payload, shell=shell)
    assert (run.returncode, run.stdout) == (code, b"")
    if code:
        assert b"install it" in run.stderr
        assert b"Terminated" not in run.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_launcher_does_not_wait_for_the_end_of_stdin(checkout, shell):
    """A client that keeps stdin open still gets its answer within three seconds."""
    launcher = checkout / ".agents" / "hooks" / "agent-infra"
    command = [*shell, str(launcher)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdin.write(event("PreToolUse", **SPAWN))
        run.stdin.flush()
        assert run.wait(timeout=3) == 2
        said = run.stderr.read()
    assert said.startswith(b"agent-infra: ")
