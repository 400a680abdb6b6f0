"""A model on this machine that says what a function says: the real clients run against it, and no model is asked.

It speaks Anthropic's Messages API, OpenAI's Responses and Chat Completions and Google's Gemini API, as far as the
clients use them, and keeps no state: each request brings the whole conversation.
"""

import json
import re
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Say:
    """The model says something, and stops if it says nothing else."""

    text: str


@dataclass(frozen=True)
class Call:
    """The model calls a tool; `raw` is the input of a free-form one."""

    tool: str
    input: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""
    raw: str | None = None


Block = Say | Call


@dataclass
class Conversation:
    """What the model is asked.

    Attributes:
        system: instructions, and what hooks gave as such.
        told: everything else that it was told, oldest first: prompts, tool results, context of hooks.
        new: the part of it that came since its last reply.
        replies: how often it has answered in this conversation.
    """

    system: str = ""
    told: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    replies: int = 0

    def hear(self, text: str) -> None:
        """Something that the model is told."""
        self.told.append(text)
        self.new.append(text)

    def answered(self) -> None:
        """An own reply."""
        self.replies += 1
        self.new.clear()

    def last(self, pattern: str, *, new: bool = False) -> str:
        """The last match of a pattern in what it was told; empty without one."""
        found = re.findall(pattern, "\n".join([*([] if new else [self.system]), *(self.new if new else self.told)]))
        return str(found[-1]) if found else ""


Brain = Callable[[Conversation], list[Block]]


def text_of(content: Any) -> str:
    """The text in a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, dict):
        found = (content[key] for key in ("text", "content", "output", "encrypted_content") if key in content)
        return text_of(next(found, ""))
    return ""


# -- Anthropic Messages ------------------------------------------------------------------------------------------------


def read_messages(body: dict[str, Any]) -> Conversation:
    """A request of Claude Code."""
    heard = Conversation(text_of(body.get("system")))
    for message in body.get("messages", []):
        if message.get("role") == "assistant":
            heard.answered()
        else:
            heard.hear(text_of(message.get("content")))
    return heard


def messages_events(body: dict[str, Any], blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """The reply to it, as a stream."""
    usage = {"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    start = {"id": _id("msg"), "type": "message", "role": "assistant", "model": body.get("model"), "content": []}
    yield {"type": "message_start", "message": start | {"stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(blocks):
        if isinstance(block, Say):
            content: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block.text}
        else:
            content = {"type": "tool_use", "id": _id("toolu"), "name": block.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.input)}
        yield {"type": "content_block_start", "index": index, "content_block": content}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if any(isinstance(block, Call) for block in blocks) else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


# -- OpenAI Responses --------------------------------------------------------------------------------------------------

_OWN = {"function_call", "custom_tool_call", "local_shell_call", "reasoning", "web_search_call", "tool_search_call"}


def read_responses(body: dict[str, Any]) -> Conversation:
    """A request of Codex."""
    heard = Conversation(str(body.get("instructions") or ""))
    was_own = False
    for item in body.get("input", []):
        kind, role = item.get("type", "message"), item.get("role")
        is_own = kind in _OWN or (kind == "message" and role == "assistant")
        if is_own and not was_own:
            heard.answered()
        elif not is_own:
            text = text_of(item.get("output") if kind.endswith("_output") else item.get("content"))
            heard.hear(text)
            if role in ("system", "developer"):
                heard.system += f"\n{text}"
        was_own = is_own
    return heard


def responses_events(body: dict[str, Any], blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """The reply to it, as a stream."""
    items = [_item(block) for block in blocks]
    done = {"id": _id("resp"), "object": "response", "status": "completed", "model": body.get("model"), "output": items}
    counts = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    usage = counts | {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    yield {"type": "response.created", "response": done | {"status": "in_progress", "output": []}}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": item | {"status": "in_progress"}}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": done | {"usage": usage}}


def _item(block: Block) -> dict[str, Any]:
    if isinstance(block, Say):
        content = [{"type": "output_text", "annotations": [], "text": block.text}]
        return {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": content}
    item = {"id": _id("fc"), "call_id": _id("call"), "name": block.tool, "status": "completed"}
    if block.namespace:
        item["namespace"] = block.namespace
    if block.raw is not None:
        return item | {"type": "custom_tool_call", "input": block.raw}
    return item | {"type": "function_call", "arguments": json.dumps(block.input)}


# -- OpenAI Chat Completions -------------------------------------------------------------------------------------------


def read_chat(body: dict[str, Any]) -> Conversation:
    """A request of OpenCode."""
    heard = Conversation()
    for message in body.get("messages", []):
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "assistant":
            heard.answered()
        elif role in ("system", "developer"):
            heard.system += f"\n{text}"
        else:
            heard.hear(text)
    return heard


def chat_events(body: dict[str, Any], blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """The reply to it, as a stream."""
    calls = [
        {
            "index": index,
            "id": _id("call"),
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.input)},
        }
        for index, call in enumerate(block for block in blocks if isinstance(block, Call))
    ]
    text = "".join(block.text for block in blocks if isinstance(block, Say))
    delta = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    chunk = {"id": _id("chatcmpl"), "object": "chat.completion.chunk", "created": 0, "model": body.get("model")}
    yield chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    ended = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    yield chunk | {"choices": [ended], "usage": usage}


# -- Gemini ------------------------------------------------------------------------------------------------------------


def read_gemini(body: dict[str, Any]) -> Conversation:
    """A request of Gemini CLI."""
    heard = Conversation(text_of((body.get("systemInstruction") or {}).get("parts")))
    for content in body.get("contents", []):
        if content.get("role") == "model":
            heard.answered()
            continue
        for part in content.get("parts", []):
            answer = part.get("functionResponse")
            heard.hear(json.dumps(answer.get("response")) if answer else text_of(part))
    return heard


def gemini_events(body: dict[str, Any], blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """The reply to it: one object, whether it is asked for as a stream or not."""
    parts = [
        {"text": block.text}
        if isinstance(block, Say)
        else {"functionCall": {"id": _id("call"), "name": block.tool, "args": block.input}}
        for block in blocks
    ]
    candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": parts}}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    yield {"responseId": _id("resp"), "modelVersion": body["model"], "candidates": [candidate], "usageMetadata": usage}


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


# -- the server --------------------------------------------------------------------------------------------------------

APIS = {
    "/messages": (read_messages, messages_events),
    "/responses": (read_responses, responses_events),
    "/chat/completions": (read_chat, chat_events),
    ":streamGenerateContent": (read_gemini, gemini_events),
    ":generateContent": (read_gemini, gemini_events),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ModelServer"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Somebody asks whether we are there."""
        self._send(200, b"")

    def do_GET(self) -> None:
        """A list of models: ours has no names."""
        self._send(200, b'{"object": "list", "data": [], "models": [], "has_more": false}')

    def do_POST(self) -> None:
        """A request to the model."""
        body = self._body()
        path = self.path.partition("?")[0].rstrip("/")
        api = next((api for end, api in APIS.items() if path.endswith(end)), None)
        if api is None:
            self._send(200 if path.endswith("count_tokens") else 404, b'{"input_tokens": 100}')
            return
        read, events = api
        if "/models/" in path:  # Gemini names the model in the path
            body["model"] = path.rpartition("/models/")[2].partition(":")[0]
        blocks = self.server.reply(read(body))
        if path.endswith(":generateContent"):
            self._send(200, json.dumps(next(events(body, blocks))).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events(body, blocks):
            head = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{head}data: {json.dumps(event)}\n\n".encode())
        if path.endswith("/completions"):
            self.wfile.write(b"data: [DONE]\n\n")

    def _body(self) -> dict[str, Any]:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            data = zlib.decompress(data, wbits=31)
        found = json.loads(data or b"{}")
        assert isinstance(found, dict)
        return found

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class ModelServer(ThreadingHTTPServer):
    """The server on a free port of 127.0.0.1.

    Attributes:
        heard: every conversation that it was asked to go on with.
        faults: what went wrong in the brain; the client is told to stop.
    """

    daemon_threads = True

    def __init__(self, brain: Brain) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.brain = brain
        self.heard: list[Conversation] = []
        self.faults: list[Exception] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def reply(self, heard: Conversation) -> list[Block]:
        """What the model says now."""
        self.heard.append(heard)
        try:
            return self.brain(heard)
        except Exception as error:  # noqa: BLE001 - told to the test, not to the client
            self.faults.append(error)
            return [Say("I can't go on.")]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed hangs up in the middle."""


@contextmanager
def serving(brain: Brain) -> Iterator[ModelServer]:
    """The server while the block runs; a fault of the brain fails the test."""
    server = ModelServer(brain)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert server.faults == []
