"""A scripted model on 127.0.0.1 that speaks the four HTTP APIs of the agent programs; standard library only.

  POST /v1/messages                    Anthropic Messages    (Claude Code)
  POST /v1/responses                   OpenAI Responses      (Codex)
  POST /v1/chat/completions            OpenAI Chat           (OpenCode)
  POST /v1beta/models/M:…              Gemini                (Gemini CLI)

A script is a list of steps, one a MAIN request (one that carries tools); the last one is repeated. A step is a dict, or
a function of the request that returns one:

  text     what the model says              shell    a command for whatever shell tool the program offers
  calls    [(name, arguments), …]           usage    {in, out, cache_read, cache_write} in tokens
  error    answer with this HTTP status     type     its error type           retry_after  its header, in seconds
  delay    seconds before the first byte    slow     seconds between words    hang         seconds after the head,
           and then the connection is cut   incomplete   the stream ends without its final event
"""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = dict[str, Any]
Script = Sequence["Step | Callable[[Asked], Step]"]

SHELL_TOOLS = ("exec_command", "shell_command", "shell", "container.exec", "Bash", "bash", "run_shell_command")
SIDE: Step = {"text": "side answer"}


@dataclass(frozen=True)
class Asked:
    """One request. `main`: it carries tools, and took the script's step `number` (-1: a side call)."""

    path: str
    api: str
    tools: list[str]
    main: bool
    number: int
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)

    @property
    def text(self) -> str:
        """The whole request as text, to look for words in."""
        return json.dumps(self.body, ensure_ascii=False)


class Model:
    """`with Model(script) as model`: it answers at `model.url` until the end of the block."""

    def __init__(self, script: Script, side: Step | None = None) -> None:
        self.script = list(script)
        self.side = side or SIDE
        self.requests: list[Asked] = []
        self.lost = 0  # programs that hung up before the answer was whole
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def main(self) -> list[Asked]:
        return [asked for asked in self.requests if asked.main]

    def __enter__(self) -> Model:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def take(self, path: str, api: str, tools: list[str], body: dict[str, Any]) -> tuple[Asked, Step]:
        with self.lock:
            main = bool(tools) and not path.endswith(":countTokens")
            number = len(self.main) if main else -1
            asked = Asked(path, api, tools, main, number, body)
            self.requests.append(asked)
        if not main:
            return asked, dict(self.side)
        step = self.script[min(number, len(self.script) - 1)] if self.script else {"text": "done"}
        return asked, dict(step(asked) if callable(step) else step)


def shell_call(name: str, command: str) -> dict[str, Any]:
    if name == "exec_command":
        return {"cmd": command}
    if name in ("shell", "container.exec"):
        return {"command": ["bash", "-lc", command]}
    if name in ("Bash", "bash"):
        return {"command": command, "description": "scripted step"}
    return {"command": command}


def tool_names(body: dict[str, Any], api: str) -> list[str]:
    found: list[Any] = []
    for tool in body.get("tools") or []:
        if api == "gemini":
            declared = tool.get("functionDeclarations", tool.get("function_declarations", [])) or []
            found += [one.get("name") for one in declared]
        elif isinstance(tool.get("function"), dict):
            found.append(tool["function"].get("name"))
        else:
            found.append(tool.get("name") or tool.get("type"))
    return [str(name) for name in found]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a program that was killed while it was kept waiting
            super().handle()

    # --- helpers

    def reply(self, code: int, said: object, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("connection", "close")
        self.send_header("request-id", "req_" + uuid.uuid4().hex[:12])
        self.end_headers()
        self.close_connection = True

    def event(self, said: object, name: str | None = None) -> None:
        text = said if isinstance(said, str) else json.dumps(said)
        self.wfile.write(f"{f'event: {name}{chr(10)}' if name else ''}data: {text}\n\n".encode())
        self.wfile.flush()

    def words(self, text: str, step: Step) -> Iterator[str]:
        if step.get("slow"):
            for word in text.split(" "):
                yield word + " "
                time.sleep(step["slow"])
        elif text:
            yield text

    # --- requests

    def do_HEAD(self) -> None:  # noqa: N802
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:  # noqa: N802
        if self.path.startswith("/v1/models"):
            one = {"id": "mock-model", "object": "model", "created": 0, "owned_by": "mock"}
            return self.reply(200, {"object": "list", "data": [one], "models": [], "has_more": False})
        return self.reply(404, {"error": {"message": "no such path", "type": "not_found_error"}})

    def body(self) -> dict[str, Any]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while length := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding", "") == "gzip":
            raw = gzip.decompress(raw)
        try:
            found = json.loads(raw or b"{}")
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def do_POST(self) -> None:  # noqa: N802
        body = self.body()
        path = self.path.partition("?")[0]
        known = (("/responses", "responses"), ("/chat/completions", "chat"), ("/messages", "anthropic"))
        otherwise = "gemini" if ":" in path and "/models/" in path else "other"
        api = next((api for end, api in known if path.endswith(end)), otherwise)
        if path.endswith("/count_tokens"):
            return self.reply(200, {"input_tokens": 100})
        if path.endswith(":countTokens"):
            return self.reply(200, {"totalTokens": 100})
        if api == "other":
            return self.reply(404, {"error": {"message": f"no such path {path}"}})
        _, step = self.model.take(path, api, tool_names(body, api), body)
        try:
            time.sleep(step.get("delay", 0))
            if step.get("error"):
                return self.refuse(api, step)
            calls = list(step.get("calls") or [])
            if step.get("shell"):
                offered = tool_names(body, api)
                name = next((tool for tool in SHELL_TOOLS if tool in offered), "bash")
                calls.append((name, shell_call(name, step["shell"])))
            usage = {"in": 1000, "out": 50, "cache_read": 0, "cache_write": 0, **(step.get("usage") or {})}
            text = step.get("text", "" if calls else "done")
            getattr(self, f"as_{api}")(body, text, calls, usage, step)
        except (BrokenPipeError, ConnectionResetError):
            self.model.lost += 1
        return None

    def refuse(self, api: str, step: Step) -> None:
        code = step["error"]
        kind = step.get("type") or {529: "overloaded_error", 429: "rate_limit_error", 401: "authentication_error"}.get(
            code, "api_error"
        )
        headers = {"retry-after": str(step["retry_after"])} if "retry_after" in step else {}
        if api == "gemini":
            return self.reply(
                code, {"error": {"code": code, "message": f"mock {kind}", "status": "UNAVAILABLE"}}, headers
            )
        return self.reply(code, {"type": "error", "error": {"type": kind, "message": f"mock {kind}"}}, headers)

    # --- the four APIs

    def as_anthropic(
        self, body: dict[str, Any], text: str, calls: list[Any], usage: dict[str, int], step: Step
    ) -> None:
        figures = {
            "input_tokens": usage["in"],
            "cache_creation_input_tokens": usage["cache_write"],
            "cache_read_input_tokens": usage["cache_read"],
            "output_tokens": usage["out"],
        }
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": "toolu_" + uuid.uuid4().hex[:20], "name": name, "input": given}
            for name, given in calls
        ]
        reason = "tool_use" if calls else "end_turn"
        message = {
            "id": "msg_" + uuid.uuid4().hex[:20], "type": "message", "role": "assistant", "content": blocks,
            "model": body.get("model", "mock"), "stop_reason": reason, "stop_sequence": None, "usage": figures,
        }  # fmt: skip
        if not body.get("stream"):
            return self.reply(200, message)
        self.stream()

        def say(kind: str, **fields: object) -> None:
            self.event({"type": kind, **fields}, kind)

        begun = {**message, "content": [], "stop_reason": None, "usage": {**figures, "output_tokens": 1}}
        say("message_start", message=begun)
        if step.get("hang"):
            return time.sleep(step["hang"])
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                say("content_block_start", index=index, content_block={"type": "text", "text": ""})
                for word in self.words(block["text"], step):
                    say("content_block_delta", index=index, delta={"type": "text_delta", "text": word})
            else:
                say("content_block_start", index=index, content_block={**block, "input": {}})
                given = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                say("content_block_delta", index=index, delta=given)
            say("content_block_stop", index=index)
        if step.get("incomplete"):
            return None
        say("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=figures)
        say("message_stop")
        return None

    def as_responses(
        self, body: dict[str, Any], text: str, calls: list[Any], usage: dict[str, int], step: Step
    ) -> None:
        whole = usage["in"] + usage["cache_read"]
        figures = {
            "input_tokens": whole, "input_tokens_details": {"cached_tokens": usage["cache_read"]},
            "output_tokens": usage["out"], "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": whole + usage["out"],
        }  # fmt: skip
        base = {"id": "resp_" + uuid.uuid4().hex[:16], "object": "response", "created_at": int(time.time()),
                "model": body.get("model", "mock"), "output": []}  # fmt: skip
        self.stream()
        said = 0

        def say(kind: str, **fields: object) -> None:
            nonlocal said
            said += 1
            self.event({"type": kind, "sequence_number": said, **fields}, kind)

        say("response.created", response={**base, "status": "in_progress"})
        if step.get("hang"):
            return time.sleep(step["hang"])
        out: list[dict[str, Any]] = []
        if text:
            item = {"id": "msg_" + uuid.uuid4().hex[:12], "type": "message", "role": "assistant"}
            begun = {**item, "status": "in_progress", "content": []}
            say("response.output_item.added", output_index=0, item=begun)
            for word in self.words(text, step):
                say("response.output_text.delta", output_index=0, item_id=item["id"], content_index=0, delta=word)
            part = {"type": "output_text", "text": text, "annotations": []}
            out.append({**item, "status": "completed", "content": [part]})
            say("response.output_item.done", output_index=0, item=out[0])
        for name, given in calls:
            call = {"id": "fc_" + uuid.uuid4().hex[:12], "type": "function_call", "status": "completed", "name": name,
                    "call_id": "call_" + uuid.uuid4().hex[:12], "arguments": json.dumps(given)}  # fmt: skip
            namespace, dot, last = name.partition("/")
            if dot:  # a tool of a namespace, as some programs offer those of an MCP server
                call |= {"namespace": namespace, "name": last}
            begun = {**call, "status": "in_progress", "arguments": ""}
            say("response.output_item.added", output_index=len(out), item=begun)
            say("response.output_item.done", output_index=len(out), item=call)
            out.append(call)
        if not step.get("incomplete"):
            say("response.completed", response={**base, "status": "completed", "output": out, "usage": figures})
        return None

    def as_chat(self, body: dict[str, Any], text: str, calls: list[Any], usage: dict[str, int], step: Step) -> None:
        whole = usage["in"] + usage["cache_read"]
        figures = {
            "prompt_tokens": whole, "completion_tokens": usage["out"], "total_tokens": whole + usage["out"],
            "prompt_tokens_details": {"cached_tokens": usage["cache_read"]},
        }  # fmt: skip
        base = {
            "id": "chatcmpl-" + uuid.uuid4().hex[:12],
            "created": int(time.time()),
            "model": body.get("model", "mock"),
        }
        asked = [
            {"index": index, "id": "call_" + uuid.uuid4().hex[:12], "type": "function",
             "function": {"name": name, "arguments": json.dumps(given)}}
            for index, (name, given) in enumerate(calls)
        ]  # fmt: skip
        reason = "tool_calls" if asked else "stop"
        if not body.get("stream"):
            said = {"role": "assistant", "content": text or None, **({"tool_calls": asked} if asked else {})}
            choice = {"index": 0, "message": said, "finish_reason": reason}
            return self.reply(200, {**base, "object": "chat.completion", "choices": [choice], "usage": figures})
        self.stream()

        def say(delta: dict[str, Any], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            self.event({**base, "object": "chat.completion.chunk", "choices": [choice]})

        say({"role": "assistant", "content": ""})
        if step.get("hang"):
            return time.sleep(step["hang"])
        for word in self.words(text, step):
            say({"content": word})
        for one in asked:
            say({"tool_calls": [one]})
        if step.get("incomplete"):
            return None
        say({}, reason)
        self.event({**base, "object": "chat.completion.chunk", "choices": [], "usage": figures})
        self.event("[DONE]")
        return None

    def as_gemini(self, body: dict[str, Any], text: str, calls: list[Any], usage: dict[str, int], step: Step) -> None:
        whole = usage["in"] + usage["cache_read"]
        figures = {
            "promptTokenCount": whole, "candidatesTokenCount": usage["out"], "totalTokenCount": whole + usage["out"],
            "cachedContentTokenCount": usage["cache_read"],
        }  # fmt: skip

        def answer(parts: list[Any], finish: str | None = None) -> dict[str, Any]:
            one: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
            more = {"finishReason": finish} if finish else {}
            about = {"usageMetadata": figures, "modelVersion": "mock", "responseId": uuid.uuid4().hex[:12]}
            return {"candidates": [one | more], **about}

        parts = [{"functionCall": {"name": name, "args": given}} for name, given in calls]
        if "stream" not in self.path.partition("?")[0].rpartition(":")[2]:
            config = body.get("generationConfig") or {}
            if config.get("responseMimeType") == "application/json" and not calls:
                text = json.dumps(step.get("json") or {"reasoning": "mock", "next_speaker": "user"})
            return self.reply(200, answer([*([{"text": text}] if text else []), *parts], "STOP"))
        self.stream()
        if step.get("hang"):
            self.event(answer([{"text": "…"}]))
            return time.sleep(step["hang"])
        for word in self.words(text, step):
            self.event(answer([{"text": word}]))
        if parts:
            self.event(answer(parts))
        if not step.get("incomplete"):
            self.event(answer([{"text": ""}], "STOP"))
        return None
