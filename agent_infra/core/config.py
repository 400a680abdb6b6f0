"""Project settings of `.agents/config.toml`: closed, every key has a default, unknown keys are named."""

import tomllib
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

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


def _is_command(text: str) -> str:
    words_of(text)
    return text


class GateConfig(_Section):
    """What must be so before a commit is authorized.

    Attributes:
        required_checks: command lines that must have passed, by `task check`, on the tree that review-code judged.
    """

    required_checks: list[Annotated[str, AfterValidator(_is_command)]] = []


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


class Config(_Section):
    """The whole file."""

    snapshot: SnapshotConfig = SnapshotConfig()
    task: TaskConfig = TaskConfig()
    run: RunConfig = RunConfig()
    gate: GateConfig = GateConfig()
    verify: VerifyConfig = VerifyConfig()


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
    model: type[BaseModel] = Config
    for part in fault["loc"][:-1]:
        model = model.model_fields[str(part)].annotation  # type: ignore[assignment]
    near = get_close_matches(str(fault["loc"][-1]), list(model.model_fields), n=1)
    return f"unknown key {key}" + (
        f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(model.model_fields)}"
    )
