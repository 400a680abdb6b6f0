"""Our entries among the hooks of an agent client's settings, which belong to the project: put in, compared, taken out.

Both clients that have hooks write them alike: an object `hooks` of events, each an array of groups with a matcher and
commands. Ours are known by the launcher in their command.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_infra.core.json_text import JsonTextError, Node, appended, line_of, parse, replaced, without

LAUNCHER = ".agents/hooks/agent-infra"
EMPTY = "{}\n"

Group = Mapping[str, Any]
Groups = Mapping[str, Sequence[Group]]  # event -> our groups, in order


@dataclass(frozen=True)
class Merged:
    """Settings with our entries.

    Attributes:
        changed_by_people: events whose entries of ours are not as we wrote them; they were left alone.
        conflicts: events that were changed here and by us.
    """

    text: str
    changed_by_people: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def check(text: str) -> Node:
    """The settings, if their hooks can be told apart.

    Raises:
        JsonTextError: names what was found and the line.
    """
    root = parse(text)
    _expect(text, root, {}, "the file")
    hooks = root.get("hooks")
    if hooks is None:
        return root
    _expect(text, hooks, {}, '"hooks"')
    for event in hooks.items or ():
        _expect(text, event, [], f'"hooks" → "{event.key}"')
    return root


def ours(text: str) -> dict[str, list[Group]]:
    """Our groups as they stand there, by event.

    Raises:
        JsonTextError: as for `check`.
    """
    found: dict[str, list[Group]] = {}
    for event, group in _our_groups(check(text)):
        found.setdefault(str(event.key), []).append(group.value)
    return found


def with_hooks(text: str, wanted: Groups, base: Groups | None = None) -> Merged:
    """The settings with our entries, after those of others.

    Args:
        base: the entries as they were installed; where they still stand so, newer ones take their place. Without it,
            entries of ours that differ are left alone.

    Raises:
        JsonTextError: as for `check`.
    """
    there = ours(text)
    changed, conflicts = list[str](), list[str]()
    for event in (*wanted, *(name for name in base or {} if name not in wanted)):
        mine, new = there.get(event, []), list(wanted.get(event, ()))
        if mine == new or (not mine and base is not None and event not in wanted):
            continue
        if not mine:
            text = _added(text, event, new)
        elif base is not None and mine == list(base.get(event, ())):
            text = _exchanged(text, event, new)
        elif base is None or new == list(base.get(event, ())):
            changed.append(event)
        else:
            conflicts.append(event)
    return Merged(text, tuple(changed), tuple(conflicts))


def without_hooks(text: str, before: str | None = None) -> str:
    """The settings without our entries, and without what was only there to hold them.

    Args:
        before: the settings before ours came; what was empty there stays.

    Raises:
        JsonTextError: as for `check`.
    """
    root = check(text)
    events = dict.fromkeys(str(event.key) for event, _ in _our_groups(root))
    for event in events:
        text = _cleared(text, event)
    kept = _shape(before)
    for event in events:
        root = parse(text)
        hooks = root.get("hooks")
        entry = hooks.get(event) if hooks else None
        if hooks and entry and not entry.items and event not in kept.get("hooks", {}):
            text = without(text, hooks, entry)
    root = parse(text)
    hooks = root.get("hooks")
    if events and hooks and not hooks.items and "hooks" not in kept:
        text = without(text, root, hooks)
    return text


def is_ours(hook: object) -> bool:
    """Whether one command of a group is ours."""
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and LAUNCHER in command


def _our_groups(root: Node) -> Iterator[tuple[Node, Node]]:
    """Event and group of each group with a command of ours."""
    hooks = root.get("hooks")
    for event in hooks.items or () if hooks else ():
        for group in event.items or ():
            if _our_commands(group):
                yield event, group


def _our_commands(group: Node) -> tuple[Node, ...]:
    commands = group.get("hooks") if isinstance(group.value, dict) else None
    return tuple(command for command in commands.items or () if is_ours(command.value)) if commands else ()


def _added(text: str, event: str, groups: Sequence[Group]) -> str:
    root = parse(text)
    hooks = root.get("hooks")
    if hooks is None:
        return appended(text, root, {event: list(groups)}, key="hooks")
    entry = hooks.get(event)
    if entry is None:
        return appended(text, hooks, list(groups), key=event)
    for group in groups:
        text = appended(text, _entry(text, event), group)
    return text


def _exchanged(text: str, event: str, groups: Sequence[Group]) -> str:
    """Newer groups in the place of ours, as far as there are as many; the rest is added or taken away."""
    mine = [group for group in _entry(text, event).items or () if _our_commands(group)]
    for index, new in reversed(list(enumerate(groups[: len(mine)]))):
        text = replaced(text, mine[index], new)
    for group in groups[len(mine) :]:
        text = appended(text, _entry(text, event), group)
    for _ in mine[len(groups) :]:
        entry = _entry(text, event)
        last = [group for group in entry.items or () if _our_commands(group)][-1]
        text = without(text, entry, last)
    if not groups:
        hooks = parse(text).get("hooks")
        entry = _entry(text, event)
        return without(text, hooks, entry) if hooks and not entry.items else text
    return text


def _cleared(text: str, event: str) -> str:
    """Without our commands; a group that holds none but ours goes as a whole."""
    while True:
        entry = _entry(text, event)
        group = next((each for each in entry.items or () if _our_commands(each)), None)
        if group is None:
            return text
        mine, commands = _our_commands(group), group.get("hooks")
        is_all = commands is None or len(mine) == len(commands.items or ())
        text = without(text, entry, group) if is_all or commands is None else without(text, commands, mine[0])


def _entry(text: str, event: str) -> Node:
    hooks = parse(text).get("hooks")
    entry = hooks.get(event) if hooks else None
    if entry is None:
        raise JsonTextError(f"the event {event} is gone", 1)
    return entry


def _shape(before: str | None) -> dict[str, Any]:
    try:
        root = parse(before) if before else None
    except JsonTextError:
        return {}
    return root.value if root and isinstance(root.value, dict) else {}


def _expect(text: str, node: Node, like: dict[str, Any] | list[Any], name: str) -> None:
    if not isinstance(node.value, type(like)):
        wanted = "an object" if isinstance(like, dict) else "an array"
        raise JsonTextError(f"{name} is {_kind(node.value)}, expected {wanted}", line_of(text, node))


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
