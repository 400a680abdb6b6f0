"""What happens in an agent client, and what it may be answered, in words that are no client's.

Most events of a client are none of our business and must cost next to nothing, so this module imports nothing: plain
classes, and words in place of enumerations.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# the two agent names that we manage, exactly, and their roles
EXECUTOR, REVIEWER = "executor", "reviewer"
MANAGED = {"agent-infra-lifecycle-executor": EXECUTOR, "agent-infra-lifecycle-reviewer": REVIEWER}

SPAWN_ASKED = "spawn asked"
SPAWN_RETURNED = "spawn returned"
SPAWN_FAILED = "spawn failed"
CHILD_STARTED = "child started"
CHILD_STOPPED = "child stopped"
CHILD_FAILED = "child failed"
WAIT_ASKED = "wait asked"
WAIT_RETURNED = "wait returned"
PROMPT_SUBMITTED = "prompt submitted"
SESSION_STOP = "session stop"
SESSION_STARTED = "session started"
SESSION_ENDED = "session ended"
TOOL_ASKED = "tool asked"

KINDS = (
    *(SPAWN_ASKED, SPAWN_RETURNED, SPAWN_FAILED, CHILD_STARTED, CHILD_STOPPED, CHILD_FAILED, WAIT_ASKED),
    *(WAIT_RETURNED, PROMPT_SUBMITTED, SESSION_STOP, SESSION_STARTED, SESSION_ENDED, TOOL_ASKED),
)

# these matter only in a session whose main agent drives a run
OF_KNOWN_SESSIONS = (WAIT_ASKED, WAIT_RETURNED, SESSION_STOP, SESSION_ENDED)

# what an answer asks of the client
PASS = "pass"  # noqa: S105 - no word to pass a gate with: nothing to say
REFUSE = "refuse"
GO_ON = "go on"  # do not stop yet
TELL = "tell"
ALLOW = "allow"  # with the tool's input as it was changed


class Event:
    """One thing that happened in a client.

    Attributes:
        client: id of the client.
        kind: one of `KINDS`.
        name: what the client calls the event.
        cwd: where it happened, absolute.
        session: id of the session of the main agent.
        child: id of the agent that it happened to; empty for the main agent.
        agent_type: of that agent; of a spawn, of the agent that is asked for.
        caller_type: of a spawn, the type of the agent that asks; empty for the main agent.
        tool_use: id of the tool call; empty where there is none.
        tool: name of the tool.
        tool_input: what the tool is asked to do.
        prompt: of a spawn, what the child is told; of a session, what the user typed.
        in_background: the child goes on while the main agent does too.
        is_isolated: the child is asked to work in a worktree of its own.
        is_over: of a spawn that returned, the child has ended.
        awaited: ids of the children that are waited for; empty where the client does not say.
        ended: ids or names of children that have ended, whatever else was heard of them.
        at_work: ids and types of the children that are still at work; None where the client does not say.
        reason: why a session starts or ends, in the client's words.
        told: what the client says about the child, by our names; only these enter the records.
        transcript: path of the child's transcript; empty where the client does not say.
    """

    __slots__ = (
        "agent_type",
        "at_work",
        "awaited",
        "caller_type",
        "child",
        "client",
        "cwd",
        "ended",
        "in_background",
        "is_isolated",
        "is_over",
        "kind",
        "name",
        "prompt",
        "reason",
        "session",
        "told",
        "tool",
        "tool_input",
        "tool_use",
        "transcript",
    )

    def __init__(self, client: str, kind: str, payload: "Mapping[str, Any]") -> None:
        """What all clients call by the same names; the adapter adds the rest."""
        self.client = client
        self.kind = kind
        self.name = str(payload["hook_event_name"])
        self.cwd = str(payload["cwd"])
        self.session = str(payload["session_id"])
        self.child = str(payload.get("agent_id") or "")
        agent_type = payload.get("agent_type")
        self.agent_type = agent_type if isinstance(agent_type, str) else ""
        self.caller_type = ""
        self.tool_use = str(payload.get("tool_use_id") or "")
        tool, tool_input = payload.get("tool_name"), payload.get("tool_input")
        self.tool = tool if isinstance(tool, str) else ""
        self.tool_input: dict[str, Any] = tool_input if isinstance(tool_input, dict) else {}
        prompt = payload.get("prompt")
        self.prompt = prompt if isinstance(prompt, str) else ""
        self.in_background = self.is_isolated = self.is_over = False
        self.awaited: tuple[str, ...] = ()
        self.ended: tuple[str, ...] = ()
        self.at_work: tuple[str, ...] | None = None
        self.reason = ""
        self.told: dict[str, str] = {}
        self.transcript = ""

    @property
    def role(self) -> str:
        """The role of the agent that it is about; empty for an agent that we do not manage."""
        return MANAGED.get(self.agent_type, "")


class Answer:
    """What the client is answered.

    Attributes:
        kind: pass, refuse, go on, tell or allow.
        text: the reason, or what is told.
        tool_input: of `allow`, what the tool gets.
    """

    __slots__ = ("kind", "text", "tool_input")

    def __init__(self, kind: str = PASS, text: str = "", tool_input: "dict[str, Any] | None" = None) -> None:
        self.kind = kind
        self.text = text
        self.tool_input = tool_input

    def __repr__(self) -> str:
        return f"Answer({self.kind!r}, {self.text!r})"


def words(value: object) -> str:
    """A value of a payload if it is text, else nothing."""
    return value if isinstance(value, str) else ""
