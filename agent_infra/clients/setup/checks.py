"""What `doctor` asks of the clients of a project: is everything in place, is it loaded, and is the program there?"""

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_infra import __version__
from agent_infra.clients.setup import events, trust, wanted
from agent_infra.clients.setup.planning import guarded, read, text_of
from agent_infra.clients.setup.record import MANIFEST, Manifest, digest, parse_manifest, path_of
from agent_infra.core import hook_settings
from agent_infra.core.brief import fill_template
from agent_infra.core.hook_settings import LAUNCHER
from agent_infra.core.json_text import JsonTextError, parse
from agent_infra.core.lifecycle import Stage
from agent_infra.errors import AgentInfraError, RefusedError
from agent_infra.git.repo import clean_environment
from agent_infra.services.commands import run_group
from agent_infra.services.context import Context
from agent_infra.services.setup.doctor_runs import Said, fault, fine, note
from agent_infra.services.shapes import FOLDER

_PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini-cli": "gemini", "opencode": "opencode"}
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
_PATIENCE = 10.0  # seconds
_UPDATE = "agent-infra init --update"


def checks(cwd: Path) -> dict[str, Callable[[Context], Iterator[Said]]]:
    """The checks by name, for whoever stands in `cwd`."""
    return {"agents' files": _files, "client hooks": _hooks, "clients": lambda context: _clients(context, cwd)}


def _files(context: Context) -> Iterator[Said]:
    """What the manifest lists: is it there, and of which release?"""
    known = parse_manifest(read(context, MANIFEST))
    if known is None:
        yield note("no skills, rules and templates are installed for agents", "agent-infra init")
        return
    there = {path: read(context, path) for path in known.files}
    missing = [path for path, data in there.items() if data is None]
    if missing:
        yield fault(f"{_some(missing)} {'is' if len(missing) == 1 else 'are'} missing", "agent-infra init")
    changed = [path for path, data in there.items() if data is not None and digest(data) != known.files[path]]
    if known.version != __version__ or _is_old(known):
        yield note(f"what agents read is of release {known.version}, this is {__version__}", _UPDATE)
    if changed:
        yield fine(f"changed here: {_some(changed)}; an update merges it")
    yield from _templates(context)
    if LAUNCHER in known.files and there[LAUNCHER] is not None and not os.access(path_of(context, LAUNCHER), os.X_OK):
        yield fault(f"{LAUNCHER} can't be executed, so no hook of a client does anything", f"chmod +x {LAUNCHER}")
    if not missing and not changed:
        yield fine(f"{len(there)} files, all as release {known.version} installs them")


def _templates(context: Context) -> Iterator[Said]:
    """Shapes of artifacts that can't be filled are passed over by the brief: that must be seen somewhere."""
    known = dict.fromkeys(("artifact", "round", "input", "task"), "x")
    for stage in Stage:
        path = f"{FOLDER}/{stage}.md"
        try:
            fill_template((read(context, path) or b"").decode(), known)
        except UnicodeDecodeError:
            yield fault(f"{path} is not UTF-8, so ours is used", "mend the file")
        except RefusedError as error:
            yield fault(f"{path} can't be used, so ours is: {error.message}", "mend the line it names")


def _is_old(known: Manifest) -> bool:
    """Whether this release would write another text, though it has the same number."""
    return any(known.files.get(file.path) != digest(file.data) for file in wanted.files(known.clients))


def _hooks(context: Context) -> Iterator[Said]:
    """Our entries in the settings of each client, and whether something switches them off."""
    known = parse_manifest(read(context, MANIFEST))
    with_hooks = [client for client in wanted.HOOK_FILES if known and client in known.clients]
    for client in with_hooks:
        yield from _entries(context, client)
        yield from _elsewhere(context, wanted.HOOK_FILES[client])
    if events.CLAUDE_CODE in with_hooks:
        yield from _switched_off(context)
    if events.CODEX in with_hooks and wanted_threads(context) is False:
        helps = f"set max_threads to 12 under [agents] in {wanted.THREADS_FILE}"
        yield note("Codex may have fewer open children than a lifecycle has steps", helps)


def _entries(context: Context, client: str) -> Iterator[Said]:
    path = wanted.HOOK_FILES[client]
    data = read(context, path)
    there = guarded(path, text_of(path, data), hook_settings.ours)
    expected = events.groups(client)
    missing = [event for event in expected if event not in there]
    if missing:
        yield fault(f"{path} has no hooks of ours for {', '.join(missing)}", f"agent-infra init --client {client}")
    stale = [event for event, groups in there.items() if groups != list(expected.get(event, ()))]
    if stale:
        helps = f"{_UPDATE}; or take our entries out of {path} and `agent-infra init --client {client}`"
        yield note(f"{path} has other hooks of ours than this release installs, for {', '.join(stale)}", helps)
    if not missing and not stale:
        yield fine(f"{path} has our hooks for {len(expected)} events")


def _elsewhere(context: Context, path: str) -> Iterator[Said]:
    """Whether teammates and linked worktrees have the same."""
    repo = context.repo
    if repo.run("check-ignore", "-q", "--", f":/{path}", cwd=repo.state_root, check=False).code == 0:
        yield note(f"git ignores {path}, so neither teammates nor linked worktrees have our hooks", "see .gitignore")
    elif not repo.run("ls-files", "--", path, cwd=repo.state_root, check=False).stdout.strip():
        yield note(f"{path} is not committed, so teammates and linked worktrees lack it", f"git add {path}")
    if repo.worktree != repo.state_root and not (repo.worktree / path).is_file():
        yield fault(f"this worktree has no {path}: a client that starts here runs no hooks", "merge the commit with it")


def _switched_off(context: Context) -> Iterator[Said]:
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()
    places = [context.repo.worktree / ".claude" / name for name in ("settings.json", "settings.local.json")]
    for path in (*places, home / "settings.json"):
        try:
            said = parse(path.read_text(encoding="utf-8")).value
        except (OSError, ValueError, JsonTextError):
            continue  # absent, or not ours to judge
        if isinstance(said, dict) and said.get("disableAllHooks"):
            yield fault(f"{path} has disableAllHooks, so Claude Code runs none of our hooks", "take it out")


def wanted_threads(context: Context) -> bool | None:
    """Whether Codex may have as many children as a lifecycle has steps; `None` where its settings can't be read."""
    try:
        said = tomllib.loads(text_of(wanted.THREADS_FILE, read(context, wanted.THREADS_FILE)))
    except (AgentInfraError, tomllib.TOMLDecodeError):
        return None
    agents = said.get("agents")
    number = agents.get("max_threads", agents.get("max_concurrent_threads_per_session")) if agents else None
    return isinstance(number, int) and number >= 7  # one for each step of the full flow


def _clients(context: Context, cwd: Path) -> Iterator[Said]:
    """The program of each client, and whether it loads what is installed."""
    known = parse_manifest(read(context, MANIFEST))
    if known is None or not known.clients:
        yield fine("no agent client is set up here; `agent-infra init --client C` does it")
        return
    for client in known.clients:
        program = shutil.which(_PROGRAMS[client])
        if program is None:
            yield note(f"{client}: no {_PROGRAMS[client]} on PATH")
            continue
        yield fine(f"{client}: {_version(program, context.repo.worktree)} at {program}")
        if client == events.CODEX:
            yield from _codex(context)
    if events.CLAUDE_CODE in known.clients and cwd.resolve() != context.repo.worktree:
        says = f"Claude Code loads no hooks of ours when it starts here, in a subfolder of {context.repo.worktree}"
        yield note(says, "start it in the root of the repository")


def _version(program: str, folder: Path) -> str:
    said = bytearray()
    env = clean_environment(os.environ)
    code = run_group([program, "--version"], folder, said.extend, timeout=_PATIENCE, env=env)
    found = _VERSION.search(said.decode(errors="replace"))
    return f"version {found[0]}" if code == 0 and found else "it does not say its version"


def _codex(context: Context) -> Iterator[Said]:
    """What the user trusts, compared with what is there."""
    try:
        trusted = trust.load_trust()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        yield fault(f"Codex's own settings can't be read: {error}", "mend the file")
        return
    root, path = context.repo.state_root, wanted.HOOK_FILES[events.CODEX]
    if "trusted" not in {trusted.projects.get(str(place)) for place in (root, context.repo.worktree)}:
        helps = "start `codex` here and trust the folder"
        yield fault(f"{trusted.path} does not trust this project, so Codex loads neither our agents nor hooks", helps)
    settings = guarded(path, text_of(path, read(context, path)), hook_settings.check)
    found = dict(trust.our_hooks(root / path, settings))
    off = [key for key in found if key in trusted.hooks and trusted.hooks[key] is None]
    unknown = [key for key in found if key not in trusted.hooks]
    stale = [key for key, now in found.items() if key not in (*off, *unknown) and trusted.hooks[key] != now]
    helps = "start `codex` here in a terminal, look at the hooks and trust them; agent-infra can't do it for you"
    for keys, why in ((unknown, "are not trusted"), (stale, "changed since you trusted them"), (off, "are off")):
        if keys:
            names = ", ".join(key.removeprefix(f"{root / path}:") for key in keys)
            yield fault(f"{len(keys)} of our {len(found)} hooks {why}, so Codex leaves them out: {names}", helps)
    if found and not (off or unknown or stale):
        yield fine(f"Codex trusts our {len(found)} hooks as they are")


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
