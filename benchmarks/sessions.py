"""What our hooks add to a session of a real client: python benchmarks/sessions.py [ROUNDS]. No model is asked.

One agent of a session starts one child, which runs one command. Measured is the whole session, with hooks of nobody,
with ours where no run is, and with ours beside a run that is not theirs; each as a ratio to the first of its round.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support import model_server, real_clients
from tests.support.lifecycle import World, environment, fresh
from tests.support.model_server import Block, Call, Conversation, Say

Started = Callable[[World, int], tuple[list[str], dict[str, str]]]
_IDENTITY = {f"GIT_{who}_{what}": "bench@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_SPAWN = {"description": "x", "prompt": "look", "subagent_type": "general-purpose", "run_in_background": False}
_MARK = "MARK-MAIN go"


def _brain(spawn: Call, shell: Call, wait: Call | None) -> model_server.Brain:
    def reply(heard: Conversation) -> list[Block]:
        if not any(_MARK in text for text in heard.told):
            return [shell] if heard.replies == 0 else [Say("done")]
        script: list[Block] = [spawn, *([wait] if wait else []), Say("all done")]
        return [script[min(heard.replies, len(script) - 1)]]

    return reply


def _claude(world: World, port: int) -> tuple[list[str], dict[str, str]]:
    return real_clients.claude_code(world, port, _MARK)


def _codex(world: World, port: int) -> tuple[list[str], dict[str, str]]:
    return real_clients.codex(world, port, _MARK, model="gpt-6.2-sol")


CLIENTS: dict[str, tuple[Started, model_server.Brain]] = {
    "claude-code": (
        _claude,
        _brain(
            Call("Agent", _SPAWN),
            Call("Bash", {"command": "true", "description": "x"}),
            None,
        ),
    ),
    "codex": (
        _codex,
        _brain(
            Call("spawn_agent", {"task_name": "one", "message": "look", "fork_turns": "none"}, "collaboration"),
            Call("exec", namespace="functions", raw='text(await tools.exec_command({cmd: "true"}));'),
            Call("wait_agent", {"timeout_ms": 10000}, "collaboration"),
        ),
    ),
}


def _worlds(base: Path, client: str) -> dict[str, World]:
    """No hooks; ours and no run; ours and a run."""
    found: dict[str, World] = {}
    for name in ("no hooks", "ours, no run", "ours, a run beside"):
        world = fresh(base / name.replace(" ", "-").replace(",", "") / "repo")
        world.env = environment(world.root.parent) | _IDENTITY
        if name != "no hooks":
            world.cli("init", "--yes", "--client", client)
        if name == "ours, a run beside":
            world.make_task()
            world.begin()
        found[name] = world
    return found


def main() -> None:
    """Measure and print one line for each client and state."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for client, (start, brain) in CLIENTS.items():
        with tempfile.TemporaryDirectory(prefix="agent-infra-bench-") as base, model_server.serving(brain) as server:
            worlds = _worlds(Path(base), client)
            taken: dict[str, list[float]] = {name: [] for name in worlds}
            for number in range(rounds + 1):
                for name, world in worlds.items():
                    began = time.perf_counter()
                    with real_clients.started(world, *start(world, server.port)) as session:
                        session.end()
                    if number:  # the first round warms up
                        taken[name].append(time.perf_counter() - began)
            for name, seconds in taken.items():
                ratios = [mine / base for mine, base in zip(seconds, taken["no hooks"], strict=True)]
                print(f"{client:12} {name:20} {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    import os

    os.environ |= _IDENTITY
    main()
