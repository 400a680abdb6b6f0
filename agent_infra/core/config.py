"""Project settings of `.agents/config.toml`: closed, every key has a default, unknown keys are named."""

import tomllib
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_infra.core.checks import words_of
from agent_infra.core.run import DEFAULT_MAX_STEPS
from agent_infra.errors import ErrorCode, RefusedError

DEFAULT_EXCLUDE = (
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".coverage*",
    "htmlcov",
    "node_modules",
    ".venv",
    "venv",
    ".DS_Store",
    ".idea",
    ".vscode",
)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SnapshotConfig(_Section):
    """What a snapshot leaves out: gitignore patterns that hold for untracked files alone."""

    exclude: list[str] = list(DEFAULT_EXCLUDE)


class TaskConfig(_Section):
    """How tasks are numbered."""

    short_id_length: Annotated[int, Field(ge=1, le=6)] = 2


class RunConfig(_Section):
    """How long a run may go on without a person."""

    max_steps: Annotated[int, Field(ge=1)] = DEFAULT_MAX_STEPS
    child_timeout: Annotated[float, Field(gt=0)] = 3600.0


def _is_command(text: str) -> str:
    words_of(text)
    return text


def _is_below(text: str) -> str:
    parts = text.split("/")
    if not all(parts) or "**" in text or {".", "..", ".git"} & set(parts):
        raise ValueError("expected a path below the worktree, `*` within a name at most")
    return text


class GateConfig(_Section):
    """What must be so before a commit is authorized.

    Attributes:
        required_checks: command lines that must have passed, by `task check`, on the tree that review-code judged.
        check: whether `prepare` of review-code tries git's other hooks on what would be committed.
        check_timeout: seconds that such a trial may take.
        check_links: what the trial is lent from the worktree where it is no part of the tree; `*` within a name.
    """

    required_checks: list[Annotated[str, AfterValidator(_is_command)]] = []
    check: bool = False
    check_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 40.0
    check_links: list[Annotated[str, AfterValidator(_is_below)]] = ["node_modules", "*/node_modules", ".venv", "venv"]


class ReviewConfig(_Section):
    """How long executor and reviewer may go on about one finding.

    Attributes:
        max_handshake_rounds: rounds of one finding after which a person is asked.
    """

    max_handshake_rounds: Annotated[int, Field(ge=1)] = 3


class RequireConfig(_Section):
    """Which commits `verify` wants a receipt for: those that all three lists take in.

    Attributes:
        branches: globs over the branch that is verified; an unknown branch is taken in.
        paths: gitignore patterns over the changed paths; one path is enough.
        authors: globs over the e-mail address, or `Name <address>`; case does not matter.
    """

    branches: list[str] = ["*"]
    paths: list[str] = ["**"]
    authors: list[str] = ["*"]


class VerifyConfig(_Section):
    """What a checked history must be like."""

    require: RequireConfig = RequireConfig()


class EvidenceConfig(_Section):
    """Whether evidence leaves this repository by itself.

    Attributes:
        push: whether `git push` also pushes the evidence of the commits that it pushes.
    """

    push: bool = False


class EngineConfig(_Section):
    """Who does a subtask.

    Attributes:
        kind: `command` starts `argv`; `scripted` does what `script` says; the others are clients, headless.
        timeout: seconds for one child.
    """

    kind: Literal["command", "scripted", "claude-code", "codex", "opencode", "gemini-cli"] = "command"
    argv: list[str] = []
    script: str = ""
    model: str = ""
    timeout: Annotated[float, Field(gt=0)] = 1800.0

    @model_validator(mode="after")
    def _has_its_part(self) -> Self:
        if self.kind == "command" and not self.argv:
            raise ValueError("a command needs argv")
        if self.kind == "scripted" and not self.script:
            raise ValueError("a scripted engine needs script")
        return self


class SubtasksConfig(_Section):
    """How far a task may be split, and what its children get.

    Attributes:
        engine: for subtasks that name none; empty means the only one that is configured.
        copy_files: untracked files of the checkout that each child's worktree gets (`copy` in the file).
        submodules: whether a child's worktree gets them.
        forbidden: patterns that no subtask may declare. protected: patterns for which a person is asked.
        risk: patterns that make a task risky, which is said.
        output_limit: bytes that one child may say.
        max_tokens: of all children of a task, 0 for no limit; `max_cost_usd` and `max_seconds` likewise.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    engine: str = ""
    max_depth: Annotated[int, Field(ge=1)] = 2
    max_subtasks: Annotated[int, Field(ge=1)] = 8
    max_agents_per_manager: Annotated[int, Field(ge=1)] = 4
    max_transitions: Annotated[int, Field(ge=1)] = 40
    max_runs: Annotated[int, Field(ge=1)] = 20
    max_tokens: Annotated[int, Field(ge=0)] = 0
    max_cost_usd: Annotated[float, Field(ge=0)] = 0.0
    max_seconds: Annotated[float, Field(ge=0)] = 0.0
    output_limit: Annotated[int, Field(ge=1024)] = 16 << 20
    copy_files: Annotated[list[str], Field(alias="copy")] = []
    submodules: bool = False
    forbidden: list[str] = []
    protected: list[str] = []
    risk: list[str] = []


def _are_patterns(rules: dict[str, str]) -> dict[str, str]:
    for pattern in rules:
        if not pattern.strip("/") or pattern.startswith("!"):
            raise ValueError(f"{pattern!r} is no pattern that takes paths in")
    return rules


_FlowWord = Literal["full", "standard", "streamlined"]


class Config(_Section):
    """The whole file.

    Attributes:
        engines: who does subtasks, by name.
        flow: the least flow of a change, by gitignore patterns over its paths; of several that fit the strictest.
    """

    snapshot: SnapshotConfig = SnapshotConfig()
    task: TaskConfig = TaskConfig()
    run: RunConfig = RunConfig()
    gate: GateConfig = GateConfig()
    review: ReviewConfig = ReviewConfig()
    verify: VerifyConfig = VerifyConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    engines: dict[str, EngineConfig] = {}
    subtasks: SubtasksConfig = SubtasksConfig()
    flow: Annotated[dict[str, _FlowWord], AfterValidator(_are_patterns)] = {}


def parse_config(text: str) -> Config:
    """Settings of a TOML text.

    Raises:
        RefusedError: CONFIG_INVALID naming the key, and the nearest known one where there is one.
    """
    try:
        return Config.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise RefusedError(ErrorCode.CONFIG_INVALID, f".agents/config.toml is not TOML: {error}") from error
    except ValidationError as error:
        raise RefusedError(ErrorCode.CONFIG_INVALID, f".agents/config.toml: {_words(error)}") from error


def _words(error: ValidationError) -> str:
    fault: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] != "extra_forbidden":
        return f"{key}: {fault['msg'].lower()}, found {fault['input']!r}"
    model: Any = Config
    for part in fault["loc"][:-1]:
        # a table of named tables has one model for all of its values
        model = model.model_fields[part].annotation if hasattr(model, "model_fields") else get_args(model)[1]
    near = get_close_matches(str(fault["loc"][-1]), list(model.model_fields), n=1)
    return f"unknown key {key}" + (
        f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(model.model_fields)}"
    )
