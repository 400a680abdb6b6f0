"""A model that does the steps of a headless run as its brief says, whichever client asks, and that client on PATH."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_infra.core.lifecycle import Stage, Step
from tests.support import model_server, real_clients
from tests.support.lifecycle import FIXED, TASK, World, artifact_text
from tests.support.model_server import Block, Call, Conversation, ModelServer, Say

PACKAGES = {
    "claude-code": ("claude", "@anthropic-ai/claude-code"),
    "codex": ("codex", "@openai/codex"),
    "opencode": ("opencode", "opencode-ai"),
    "gemini-cli": ("gemini", "@google/gemini-cli"),
}
CODEX_MODEL = "gpt-5.1-codex"
GEMINI_MODEL = "gemini-2.5-pro"  # without a name it asks a model which model to ask

_SHELL = {
    "claude-code": lambda command: Call("Bash", {"command": command, "description": "run"}),
    "codex": lambda command: Call("exec_command", {"cmd": command}),
    "opencode": lambda command: Call("bash", {"command": command, "description": "run"}),
    "gemini-cli": lambda command: Call("run_shell_command", {"command": command, "description": "run"}),
}
_WRITE = {
    "claude-code": lambda path, text: Call("Write", {"file_path": path, "content": text}),
    "opencode": lambda path, text: Call("write", {"filePath": path, "content": text}),
    "gemini-cli": lambda path, text: Call("write_file", {"file_path": path, "content": text}),
}


@dataclass
class Brain:
    """Does each step with the tools of a client.

    Attributes:
        extra: what a child does first at a stage.
        watch: is told of every stage that begins.
    """

    client: str
    extra: dict[str, list[Block]] = field(default_factory=dict)
    watch: Callable[[str], None] = lambda _: None

    def shell(self, command: str) -> Call:
        """A command in the client's shell."""
        return _SHELL[self.client](command)

    def write(self, path: str, text: str) -> Call:
        """A file by the client's own tool."""
        return _WRITE[self.client](path, text)

    def __call__(self, heard: Conversation) -> list[Block]:
        stage = heard.last(r"step: (\S+) round")
        if not stage or "title for this conversation" in " ".join(heard.told[:1]):
            return [Say("ok")]
        if heard.replies == 0:
            self.watch(stage)
        work = self.shell(command(heard, stage))
        if stage != "commit" and self.client in _WRITE and stage.startswith("review-"):
            work = self.write(heard.last(r"artifact: (/\S+)"), result(heard, stage))
        blocks = [*self.extra.get(stage, ()), work]
        return [blocks[heard.replies]] if heard.replies < len(blocks) else [Say("done")]


def result(heard: Conversation, stage: str) -> str:
    """What a good child hands in."""
    if stage.startswith("review-"):
        name = Path(heard.last(r"artifact: (/\S+)")).name
        return artifact_text(Step(Stage(stage), 1, name))
    return "# Work\n\nDone.\n"


def command(heard: Conversation, stage: str) -> str:
    """What a good child does at its step."""
    if stage == "commit":
        file = heard.last(r"message file: (\S+)")
        return f"echo 'fix: sum' > {shlex.quote(file)}" if file else f"agent-infra commit {TASK} -m 'fix: sum'"
    code = f"cat > src/app.py <<'EOF'\n{FIXED}EOF\n" if stage == "code" else ""
    artifact = shlex.quote(heard.last(r"artifact: (/\S+)"))
    return f"{code}cat > {artifact} <<'EOF'\n{result(heard, stage)}EOF\n"


def environment_of(client: str, world: World, port: int) -> dict[str, str]:
    """What makes a client ask the model on this machine."""
    if client == "codex":
        return real_clients.codex_environment(world, port, model=CODEX_MODEL)
    makers = {
        "claude-code": real_clients.claude_environment,
        "opencode": real_clients.opencode_environment,
        "gemini-cli": real_clients.gemini_environment,
    }
    return makers[client](world, port)


def on_path(world: World, client: str) -> str:
    """The folder in which a client's program is found by its name."""
    name, package = PACKAGES[client]
    folder = world.root.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(real_clients.program(package))
    return str(folder)


@contextmanager
def at_work(world: World, *brains: Brain) -> Iterator[list[ModelServer]]:
    """The world's environment in which the clients of these brains work, each with a model of its own."""
    cut_off = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    before = world.env
    with ExitStack() as stack:
        servers = [stack.enter_context(model_server.serving(brain)) for brain in brains]
        for brain, server in zip(brains, servers, strict=True):
            folder = on_path(world, brain.client)
            path = world.env["PATH"]
            path = path if folder in path else f"{folder}{os.pathsep}{path}"
            world.env = world.env | cut_off | environment_of(brain.client, world, server.port) | {"PATH": path}
        try:
            yield servers
        finally:
            world.env = before
