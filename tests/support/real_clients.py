"""The real agent clients, installed once into a folder that all tests share, and started without anybody's settings.

The folder is `$AGENT_INFRA_CLIENTS`, or one in the user's cache. A client that can't be installed skips its tests.
"""

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.lifecycle import World

VERSIONS = {
    "@anthropic-ai/claude-code": "2.1.332",
    "@openai/codex": "0.171.0",
    "opencode-ai": "1.18.33",
    "@opencode-ai/plugin": "1.18.33",
    "@google/gemini-cli": "0.61.0",
}
_PROGRAMS = {
    "@anthropic-ai/claude-code": "@anthropic-ai/claude-code-*/claude",
    "@openai/codex": "@openai/codex-*/vendor/*/bin/codex",
    "opencode-ai": "opencode-*/bin/opencode",
    "@opencode-ai/plugin": "@opencode-ai/plugin/package.json",
    "@google/gemini-cli": "@google/gemini-cli/bundle/gemini.js",
}
INSTALL_TIMEOUT = 900  # seconds
RUN_TIMEOUT = 180  # seconds
KEY = "dummy-not-a-key"


def program(package: str) -> Path:
    """The program of a client, installed if it is not there yet; skips where that can't be."""
    folder = Path(os.environ.get("AGENT_INFRA_CLIENTS") or Path.home() / ".cache" / "agent-infra" / "clients")
    wanted = VERSIONS[package]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _version(folder, package) != wanted:
                _install(folder, f"{package}@{wanted}")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{package} {wanted} can't be installed: {error}")
    found = sorted((folder / "node_modules").glob(_PROGRAMS[package]))
    if not found:
        pytest.skip(f"{package} {wanted} has no program for this platform")
    return found[0]


def _version(folder: Path, package: str) -> str:
    try:
        found = json.loads((folder / "node_modules" / package / "package.json").read_text())
        return str(found["version"])
    except (OSError, ValueError, KeyError):
        return ""


def _install(folder: Path, package: str) -> None:
    if not (folder / "package.json").exists():
        (folder / "package.json").write_text('{"private": true}\n')
    argv = ["npm", "install", "--save-exact", "--no-audit", "--no-fund", "--loglevel=error", package]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=INSTALL_TIMEOUT)


@dataclass
class Session:
    """A client at work: its process, and what it said when it has ended."""

    process: subprocess.Popen[bytes]
    said: Path

    def end(self) -> str:
        """Wait for it; what it wrote."""
        try:
            code = self.process.wait(timeout=RUN_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise
        text = self.said.read_text(errors="replace")
        assert code == 0, text[-4000:]
        return text

    def kill(self) -> None:
        """End the client at once, as a crash would, and nothing else."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def started(world: World, argv: list[str], env: dict[str, str], cwd: Path | None = None) -> Iterator[Session]:
    """A client in a process group of its own, cut off from all but this machine; nothing of it is left afterwards."""
    # whoever asks for another host talks to a port where nobody is
    cut_off = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    said = world.root.parent / f"said-{os.urandom(4).hex()}.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            argv,
            cwd=cwd or world.root,
            env=world.env | cut_off | env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Session(process, said)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def claude_environment(world: World, port: int) -> dict[str, str]:
    """What makes Claude Code talk to a model on this machine; its settings lie beside the repository."""
    config = world.root.parent / "claude-config"
    config.mkdir(exist_ok=True)
    trust = {"hasCompletedOnboarding": True, "projects": {str(world.root): {"hasTrustDialogAccepted": True}}}
    (config / ".claude.json").write_text(json.dumps(trust))
    return {
        "CLAUDE_CONFIG_DIR": str(config),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


def claude_code(world: World, port: int, prompt: str) -> tuple[list[str], dict[str, str]]:
    """Command line and environment of Claude Code, headless, against a model on this machine."""
    tools = "Write,Edit,Bash,Read,Agent,SendMessage"
    argv = [str(program("@anthropic-ai/claude-code")), "-p", prompt, "--output-format", "stream-json", "--verbose"]
    return [*argv, "--allowedTools", tools], claude_environment(world, port)


def codex_environment(world: World, port: int, *, model: str, roots: tuple[Path, ...] = ()) -> dict[str, str]:
    """The same for Codex, in its `workspace-write` sandbox.

    Args:
        model: decides which set of subagent tools there is.
        roots: further projects that are trusted.
    """
    config = world.root.parent / "codex-config"
    config.mkdir(exist_ok=True)
    lines = [
        f'model = "{model}"',
        'model_provider = "scripted"',
        'approval_policy = "never"',
        'sandbox_mode = "workspace-write"',
        "check_for_update_on_startup = false",
        'web_search = "disabled"',
        "[model_providers.scripted]",
        'name = "scripted"',
        f'base_url = "http://127.0.0.1:{port}/v1"',
        'wire_api = "responses"',
        'env_key = "SCRIPTED_KEY"',
        "request_max_retries = 0",
        "stream_max_retries = 0",
        "supports_websockets = false",
        "[features]",
        "hooks = true",
        "plugins = false",
        "[analytics]",
        "enabled = false",
    ]
    for root in dict.fromkeys((world.root, *roots)):
        lines += [f'[projects."{root}"]', 'trust_level = "trusted"']
    (config / "config.toml").write_text("\n".join(lines) + "\n")
    return {"CODEX_HOME": str(config), "SCRIPTED_KEY": KEY}


def codex(
    world: World, port: int, prompt: str, *, model: str, roots: tuple[Path, ...] = ()
) -> tuple[list[str], dict[str, str]]:
    """Command line and environment of Codex, headless, against a model on this machine."""
    argv = [str(program("@openai/codex")), "exec", "--json", "--dangerously-bypass-hook-trust", prompt]
    return argv, codex_environment(world, port, model=model, roots=roots)


def opencode_environment(world: World, port: int) -> dict[str, str]:
    """The same for OpenCode, which would fetch a package for its plugins: it is there already."""
    base = world.root.parent / "opencode"
    config = base / "config" / "opencode"
    config.mkdir(parents=True, exist_ok=True)
    model = {"name": "Scripted", "tool_call": True, "limit": {"context": 100_000, "output": 4_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": KEY},
        "models": {"scripted-model": model},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/scripted-model",
        "small_model": "scripted/scripted-model",
        "provider": {"scripted": provider},
    }
    (config / "opencode.json").write_text(json.dumps(settings))
    lend_plugin_package(config)
    variables = {f"XDG_{kind.upper()}_HOME": str(base / kind) for kind in ("config", "data", "cache", "state")}
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return variables | {f"OPENCODE_DISABLE_{name}": "1" for name in off}


def lend_plugin_package(folder: Path) -> None:
    """Put the package that OpenCode's plugins import into a folder of its settings, as OpenCode would from npm."""
    package = program("@opencode-ai/plugin").parent
    wanted = {"dependencies": {"@opencode-ai/plugin": VERSIONS["@opencode-ai/plugin"]}}
    (folder / "package.json").write_text(json.dumps(wanted))
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(package.parent.parent)


def gemini_environment(world: World, port: int) -> dict[str, str]:
    """The same for Gemini CLI, whose settings lie in the home folder."""
    settings = Path(world.env["HOME"]) / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    off = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    settings.write_text(json.dumps(off))
    return {
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
    }
