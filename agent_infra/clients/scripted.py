"""The `scripted` client: replays what a script says for each step, in a real child process. It needs no model.

A script is JSON: `{"version": 1, "steps": {"analysis/1": ATTEMPT or [ATTEMPT, …], "review-analysis/1": …}}`. One
attempt serves every try at its step, a list gives one to each. Paths are relative to the worktree. What the child does
with an attempt is in `scripted_child`.
"""

import json
import os
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self
from uuid import uuid4

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

import agent_infra
from agent_infra.core.lifecycle import Step
from agent_infra.core.record import Record
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.runtime.children import Child, ChildOrder, ChildResult, start_process
from agent_infra.runtime.engines import EngineChild, EngineOrder, start_engine

SCRIPT_BYTES = 16 * 1024 * 1024
_FAULTS_SHOWN = 10


def _relative(path: str) -> str:
    """`path` if it names something below the worktree."""
    pure = PurePosixPath(path)
    if "\0" in path or pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise ValueError("expected a path below the worktree, without `..`")
    return path


def _one_line(cell: str | int) -> str | int:
    if isinstance(cell, str) and cell.splitlines() not in ([], [cell]):
        raise ValueError("expected one line")
    return cell


RelativePath = Annotated[str, AfterValidator(_relative)]
Cell = Annotated[str, AfterValidator(_one_line)]
Program = Annotated[tuple[str, ...], Field(min_length=1)]


class FileContent(Record):
    """What a file shall hold: `text` or `base64`; without `executable` its mode stays."""

    text: str | None = None
    base64: str | None = None
    executable: bool | None = None

    @field_validator("base64")
    @classmethod
    def _decodes(cls, value: str | None) -> str | None:
        if value is not None:
            b64decode(value, validate=True)
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("expected either `text` or `base64`")
        return self


class LedgerRow(Record):
    """A row of the findings ledger, in its six columns; whether it is a good one is for the lifecycle to say."""

    id: Cell
    stage: Cell
    round: Annotated[int | str, AfterValidator(_one_line)]
    severity: Cell
    status: Cell
    evidence: Cell = ""


def _content_kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "content"


def _attempt_kind(value: Any) -> str:
    return "attempts" if isinstance(value, (list, tuple)) else "attempt"


Content = Annotated[
    Annotated[str, Tag("text")] | Annotated[FileContent, Tag("content")],
    Discriminator(_content_kind),
]


class Attempt(Record):
    """What the child does in one try at a step, in the order of the fields; nothing at all is fine."""

    write: dict[RelativePath, Content] = Field(default_factory=dict)
    delete: tuple[RelativePath, ...] = ()
    artifact: str | None = None
    ledger: tuple[LedgerRow, ...] = ()
    run: tuple[Program, ...] = ()
    commit: str | None = None
    exit: Annotated[int, Field(ge=0, le=255)] = 0


Attempts = Annotated[
    Annotated[Attempt, Tag("attempt")] | Annotated[tuple[Attempt, ...], Field(min_length=1), Tag("attempts")],
    Discriminator(_attempt_kind),
]
SubtaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
StepName = Annotated[str, Field(pattern=r"^((review-)?(analysis|plan|code)/[1-9][0-9]{0,2}|commit/1)$")]


class Script(Record):
    """The whole script: what happens at which step, by `stage/round`, and in which subtask, by its id."""

    version: Annotated[int, Field(ge=1, le=1)]  # a Literal would let `true` pass
    steps: dict[StepName, Attempts] = {}
    subtasks: dict[SubtaskName, Attempts] = {}

    def attempt(self, step: Step, number: int) -> Attempt:
        """What the script says for the `number`-th (1-based) try at `step`.

        Raises:
            RefusedError: SCRIPT_INVALID if it says nothing.
        """
        return _tried(self.steps, f"{step.stage}/{step.round}", number, "step")

    def subtask_attempt(self, subtask_id: str, number: int) -> Attempt:
        """What the script says for the `number`-th (1-based) try at a subtask.

        Raises:
            RefusedError: SCRIPT_INVALID if it says nothing.
        """
        return _tried(self.subtasks, subtask_id, number, "subtask")


def _tried(known: Mapping[str, "Attempt | tuple[Attempt, ...]"], name: str, number: int, kind: str) -> Attempt:
    """One of the attempts by name and number."""
    given = known.get(name)
    if given is None:
        raise _invalid(f"the script has no {kind} {name}, it has: {', '.join(known) or 'none'}")
    if isinstance(given, Attempt):
        return given
    if number > len(given):
        raise _invalid(f"the script has {len(given)} attempts at {name}, but attempt {number} was asked for")
    return given[number - 1]


def load_script(path: Path) -> Script:
    """The script in the file at `path`.

    Raises:
        RefusedError: SCRIPT_INVALID if it can't be read or is no script.
    """
    try:
        with path.open("rb") as file:
            data = file.read(SCRIPT_BYTES + 1)
    except OSError as error:
        raise _invalid(f"the script {path} can't be read: {error.strerror or error}") from error
    if len(data) > SCRIPT_BYTES:
        raise _invalid(f"the script {path} has more than {SCRIPT_BYTES} bytes")
    return parse_script(data, name=str(path))


def parse_script(data: bytes, *, name: str = "script") -> Script:
    """The script in `data`; `name` is what messages call it.

    Raises:
        RefusedError: SCRIPT_INVALID; the notes hold every fault with its place.
    """
    try:
        found = json.loads(data, object_pairs_hook=_unique_keys)
        if isinstance(found, dict) and not found.keys() & {"steps", "subtasks"}:
            raise _invalid(f"{name} is no script: it has neither steps nor subtasks")
        return Script.model_validate_json(data)
    except ValidationError as error:
        faults = [_fault(each) for each in error.errors(include_url=False, include_context=False)]
        more = len(faults) - _FAULTS_SHOWN
        notes = [*faults[1:_FAULTS_SHOWN], *([f"… and {more} more"] if more > 0 else [])]
        raise _invalid(f"{name} is no script: {faults[0]}", *notes) from error
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{name} is no script: {error}") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping, if no key is there twice: the second would win in silence."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in names if names.count(key) > 1)!r} is there twice")
    return mapping


def _fault(error: ErrorDetails) -> str:
    place = ".".join(str(part) for part in error["loc"]) or "the whole"
    return f"{place}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _invalid(message: str, *notes: str) -> RefusedError:
    return RefusedError(ErrorCode.SCRIPT_INVALID, message, *notes)


def _new_child_id() -> str:
    return f"scripted:{uuid4()}"


def _import_path() -> dict[str, str]:
    """What lets the child's Python find us in a checkout that is not installed; empty where we are installed."""
    root = Path(agent_infra.__file__).resolve().parent.parent
    if not (root / "pyproject.toml").is_file():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(root))))}


# `-P`: a worktree that holds an `agent_infra` of its own must not be what runs
_PYTHON = (sys.executable, "-P", "-m")


class ScriptedClient:
    """A headless client that replays `script`.

    Args:
        script: what to do at each step.
        new_id: makes the identity of each child.
        program: how the child calls agent-infra at the commit stage.
    """

    id = "scripted"
    model = ""

    def __init__(
        self,
        script: Script,
        *,
        new_id: Callable[[], str] = _new_child_id,
        program: tuple[str, ...] = (*_PYTHON, "agent_infra"),
    ) -> None:
        self._script = script
        self._new_id = new_id
        self._program = program

    def identity(self) -> str:
        """A name of its own for each child."""
        return self._new_id()

    def ready(self, worktree: Path) -> None:
        """A script is there, or it would not have been read."""

    def check(self, step: Step, attempt: int) -> None:
        """Raise unless the script says what to do.

        Raises:
            RefusedError: SCRIPT_INVALID names the step.
        """
        self._script.attempt(step, attempt)

    def start(self, order: ChildOrder) -> Child:
        """Start the child that does it.

        Raises:
            RefusedError: SCRIPT_INVALID names the step.

        Side effects:
            Starts a process in the worktree.
        """
        handed = {
            "taskId": order.task_id,
            "worktree": str(order.worktree),
            "taskDir": str(order.task_dir),
            "artifactPath": str(order.artifact_path),
            "program": self._program,
            "script": self._script.attempt(order.step, order.attempt).to_json(),
        }
        argv = (*_PYTHON, "agent_infra.clients.scripted_child")
        stdin = json.dumps(handed).encode()
        return start_process(argv, order, child_id=order.child_id or self._new_id(), stdin=stdin, extra=_import_path())

    def excuse(self, result: ChildResult) -> None:
        """A script has none."""


@dataclass(frozen=True)
class ScriptedEngine:
    """Does subtasks as a script says: `kind = "scripted"`."""

    name: str
    script: Path
    timeout: float

    def preflight(self) -> str | None:
        """The script must be readable."""
        try:
            load_script(self.script)
        except RefusedError as error:
            return f"the engine {self.name}: {error.message}"
        return None

    def start(self, order: EngineOrder) -> EngineChild:
        """Start the child that does it.

        Raises:
            RefusedError: SCRIPT_INVALID names the subtask; SUBTASK_CHILD_NOT_STARTED.

        Side effects:
            Starts a process in the child's worktree.
        """
        handed = {
            "taskId": order.task_id,
            "worktree": str(order.worktree),
            "taskDir": str(order.worktree),
            "artifactPath": str(order.worktree),
            "program": (*_PYTHON, "agent_infra"),
            "script": load_script(self.script).subtask_attempt(order.subtask_id, order.attempt).to_json(),
        }
        argv = (*_PYTHON, "agent_infra.clients.scripted_child")
        wide = replace(order, environment={**order.environment, **_import_path()})
        return start_engine(argv, wide, timeout=self.timeout, stdin=json.dumps(handed).encode())

    def usage(self, order: EngineOrder) -> dict[str, Any]:  # noqa: ARG002 - the protocol's signature
        """A script costs nothing."""
        return {}
