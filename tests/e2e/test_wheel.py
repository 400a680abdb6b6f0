"""The built wheel, installed where there is no checkout: everything that the program needs travels in it."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_infra import __version__

CHECKOUT = Path(__file__).resolve().parents[2]
RUNTIME = ("click", "pydantic", "pygit2", "frontmatter", "yaml", "rich", "transitions")
IMPORT_ALL = """
import importlib, pkgutil, sys
import agent_infra
for module in pkgutil.walk_packages(agent_infra.__path__, "agent_infra."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "agent_infra"}
print("\\n".join(module.__file__ for module in ours.values()))
"""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built offline by the builder that is pinned."""
    folder = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(CHECKOUT)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel in it; what it depends on is lent by the one that runs the tests."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    specs = [find_spec(name) for name in RUNTIME]
    lent = {str(Path(spec.origin).parents[1]) for spec in specs if spec and spec.origin}
    (packages / "lent.pth").write_text("\n".join(sorted(lent)) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(venv: Path, tmp_path: Path) -> Run:
    """Run a program in an empty folder, as a person does whose PATH holds the installed one first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENT_INFRA", "PYTHON"))}
    kept |= {"PATH": os.pathsep.join((str(venv / "bin"), os.environ["PATH"])), "HOME": str(tmp_path)}

    def program(*argv: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(argv, cwd=cwd, env=kept, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout.decode()

    return program


def test_both_commands_are_there(run: Run) -> None:
    """`agent-infra` and `git agent-infra` are one program."""
    assert run("agent-infra", "--version") == f"agent-infra {__version__}\n"
    assert run("git", "agent-infra", "--version") == f"agent-infra {__version__}\n"


def test_the_wheel_holds_nothing_but_the_program(wheel: Path) -> None:
    """One package and its metadata, the licence among it; hooks and templates as they lie in the checkout."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        assert {name.split("/")[0] for name in names} == {"agent_infra", f"agent_infra-{__version__}.dist-info"}
        assert any(name.endswith("/LICENSE") for name in names)
        for folder in ("assets", "hooks", "templates"):
            for path in (path for path in sorted((CHECKOUT / folder).rglob("*")) if path.is_file()):
                assert file.read(f"agent_infra/data/{path.relative_to(CHECKOUT)}") == path.read_bytes()
    assert not [name for name in names if name.endswith(".pyc")]


def test_every_module_comes_from_the_wheel(run: Run, venv: Path) -> None:
    """No module, also none that only one verb imports, is found in the checkout."""
    files = [Path(line) for line in run("python", "-c", IMPORT_ALL).splitlines()]
    assert len(files) == len(list((CHECKOUT / "agent_infra").rglob("*.py"))) - 1
    assert [file for file in files if not file.is_relative_to(venv)] == []


def test_modules_are_compiled(venv: Path) -> None:
    """Hooks are processes: none of them may compile, or fail to where the folder can't be written."""
    (package,) = venv.glob("lib/python*/site-packages/agent_infra")
    sources = sorted(path for path in package.rglob("*.py"))
    compiled = [f"{path.stem}.{sys.implementation.cache_tag}.pyc" for path in sources]
    missing = [
        str(path)
        for path, name in zip(sources, compiled, strict=True)
        if not (path.parent / "__pycache__" / name).is_file()
    ]
    assert missing == []


def test_hooks_and_templates_are_found(run: Run, venv: Path, tmp_path: Path) -> None:
    """A task can be made, begun and briefed with the wheel alone, and git asks the installed program."""
    repository = tmp_path / "repository"
    run("git", "init", "-q", "-b", "main", str(repository))
    run("git", "commit", "-q", "--allow-empty", "-m", "first", cwd=repository)
    run("agent-infra", "init", "--yes", "--client", "claude-code", cwd=repository)
    shim = (repository / ".git" / "hooks" / "pre-commit").read_text()
    assert str(venv / "bin" / "agent-infra") in shim
    assert str(CHECKOUT) not in shim

    task = json.loads(run("agent-infra", "task", "create", "--title", "Try the wheel", "--json", cwd=repository))
    assert "# Try the wheel" in Path(task["path"]).read_text()
    run("agent-infra", "orchestrate", "begin", task["taskId"], cwd=repository)
    run("agent-infra", "orchestrate", "prepare", task["taskId"], "--client", "codex", cwd=repository)
    brief = run("agent-infra", "orchestrate", "brief", task["taskId"], "--text", cwd=repository)
    assert "analysis.md" in brief
    assert str(CHECKOUT) not in brief
