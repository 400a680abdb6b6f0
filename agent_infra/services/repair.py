"""`repair`: view and evidence from the journal, a lost journal and lost documents from the evidence."""

import json

from agent_infra.core.artifacts import parse_artifact_name
from agent_infra.errors import CorruptStateError, ErrorCode, RefusedError
from agent_infra.git import evidence
from agent_infra.services import records
from agent_infra.services.context import Context
from agent_infra.services.outcome import Outcome
from agent_infra.stores.atomic import locked, remove_durably, write_atomic
from agent_infra.stores.journal import parse_chain
from agent_infra.stores.runs import check_view, read_view
from agent_infra.stores.workspace import TaskPlace

_DOCUMENTS = "task.md"


def repair(context: Context, ref: str) -> Outcome:
    """Bring back what can be brought back, and say what was done; nothing that is there and valid is overwritten.

    Raises:
        RefusedError: ORCHESTRATION_RUN_MISSING where nothing tells of a run.
        CorruptStateError: ORCHESTRATION_JOURNAL_INVALID or _JOURNAL_MISSING where no evidence helps.

    Side effects:
        Documents, journal, view, guard, evidence; an odd view or journal is kept aside in `logs/`.
    """
    place = context.resolve(ref)
    before = _derived(context, place)
    notes: list[str] = []
    with locked(context.runs.lock_path, wait=context.lock_wait):
        kept = evidence.read(context.repo, place.task_id) or {}
        notes += _bring_back_documents(place, kept)
        if place.state == "missing":
            place = context.workspace.find(place.task_id) if place.document.exists() else place
        notes += _bring_back_journal(context, place, kept)
        if not context.runs.journal(place.task_id).has_lines():
            return _nothing_left(context, place)
        notes += _set_aside_odd_view(context, place)
        state = context.runs.rebuild(place)
    records.show_active(context, place, state)
    faults = records.write_evidence(context, place, state)
    after = _derived(context, place)
    renewed = [f"{name} was renewed" for name, value in after.items() if value != before[name]]
    changed = bool(notes or renewed)
    return Outcome(state.run.status, changed, place.task_id, state.run, notes=(*notes, *renewed, *faults))


def _derived(context: Context, place: TaskPlace) -> dict[str, bytes | str | None]:
    """What is made anew from the journal, as it is now."""
    guard = context.runs.folder / "guards" / place.task_id
    view, guarding = (path.read_bytes() if path.is_file() else None for path in (place.view, guard))
    return {"the view": view, "the guard": guarding, "the evidence": evidence.head(context.repo, place.task_id)}


def _bring_back_documents(place: TaskPlace, kept: dict[str, bytes]) -> list[str]:
    """task.md and artifacts that are gone; what lies there stays."""
    notes = []
    for name in sorted(kept):
        is_document = name == _DOCUMENTS or parse_artifact_name(name) is not None
        path = place.folder / name
        if is_document and not path.exists() and not path.is_symlink():
            write_atomic(path, kept[name])
            notes.append(f"{name} was brought back from the evidence")
    return notes


def _bring_back_journal(context: Context, place: TaskPlace, kept: dict[str, bytes]) -> list[str]:
    """A journal that is gone or can't be read, from the evidence; the odd one is kept aside."""
    journal = context.runs.journal(place.task_id)
    try:
        chain = journal.read()
    except CorruptStateError:
        if "journal.jsonl" not in kept:
            raise
        aside = records.set_aside(context, place, "journal.jsonl", journal.path.read_bytes())
        write_atomic(journal.path, kept["journal.jsonl"])
        return [f"the journal was restored from the evidence; the odd one is {aside}"]
    if "journal.jsonl" not in kept:
        return []
    known = parse_chain(kept["journal.jsonl"])
    ours = chain.heads if chain else ()
    if ours[: len(known.heads)] == known.heads:
        return []  # it has all lines of the evidence, and perhaps newer ones
    notes = ["the journal was restored from the evidence: what happened after its last commit is lost"]
    if known.heads[: len(ours)] != ours:
        if _shown_head(place) not in known.heads:
            return []  # evidence of another clone: this journal and its view agree with each other
        aside = records.set_aside(context, place, "journal.jsonl", journal.path.read_bytes())
        notes.append(f"the journal differed from the evidence and from orchestration.json; the odd one is {aside}")
    write_atomic(journal.path, kept["journal.jsonl"])
    return notes


def _shown_head(place: TaskPlace) -> str | None:
    """The journal line that orchestration.json names."""
    try:
        shown = json.loads(read_view(place) or b"")
    except (CorruptStateError, ValueError, RecursionError):
        return None
    return shown.get("journalHead") if isinstance(shown, dict) else None


def _nothing_left(context: Context, place: TaskPlace) -> Outcome:
    """Neither journal nor evidence: a guard that was left alone is lifted, a view is not ours to trust."""
    guard = context.runs.folder / "guards" / place.task_id
    if read_view(place) is not None:
        message = (
            f"orchestration.json of {place.task_id} has neither a journal nor evidence; "
            "remove it to begin anew, or bring it in with `agent-infra task import`"
        )
        raise CorruptStateError(ErrorCode.ORCHESTRATION_JOURNAL_MISSING, message)
    if not guard.exists():
        raise RefusedError(ErrorCode.ORCHESTRATION_RUN_MISSING, f"{place.task_id} has no run, and nothing tells of one")
    remove_durably(guard)
    return Outcome("completed", changed=True, task_id=place.task_id, notes=("a guard without a run was lifted",))


def _set_aside_odd_view(context: Context, place: TaskPlace) -> list[str]:
    chain = context.runs.journal(place.task_id).read()
    state = context.runs.seen(place.task_id)
    if chain is None or state is None:
        return []
    try:
        view = read_view(place)
        check_view(view, chain, state)
    except CorruptStateError:
        if not place.view.is_file() or place.view.is_symlink():
            raise
        aside = records.set_aside(context, place, "orchestration.json", place.view.read_bytes())
        return [f"orchestration.json was rebuilt from the journal; the odd one is {aside}"]
    return [] if view is not None else ["orchestration.json was rebuilt from the journal"]
