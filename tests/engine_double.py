"""A small real HTTP server that speaks the completions protocol as vLLM does, and can misbehave.

Over real sockets, so that time-outs, refused connections and deaths in mid-stream are real.
Each token of the answer is one character of `ANSWER`.

As a script (`engine_double.py PORT [--mute|--crash]`) it stands in for a vLLM process.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "The river 长江 is 6,300\u2028km long.\x85"
MODEL = "double"
_EXTENSIONS = {
    "cache_salt",
    "priority",
    "repetition_detection",
    "structured_outputs",
    "logprobs",
    "return_tokens_as_token_ids",
}
_CONTROLS = {"top_k", "min_p", "seed", "repetition_penalty", "presence_penalty", "frequency_penalty"} | {
    *("min_tokens", "logit_bias", "vllm_xargs", "use_beam_search")
}
_NEVER_TEXT = ("priority", "repetition_detection", "logprobs", "return_tokens_as_token_ids", *_CONTROLS)


@dataclass
class Behaviour:
    """What the double does; tests change fields while it runs."""

    answer: str = ANSWER
    window: int | None = 1000
    num_cached_tokens: int = 32
    reports_details: bool = True
    reports_metrics: bool = True
    reports_usage: bool = True
    reports_continuous_usage: bool = True
    knows_extensions: bool = True
    speculates: bool = False
    keeps_controls: bool = False  # while it speculates, as a vLLM of ours does
    beam_seconds: float = 0.0  # how long a beam search takes
    keeps_context: bool = False  # as with our KV connector
    is_strict: bool = False  # refuses fields it does not know
    takes_token_ids: bool = True
    api_key: str = ""
    delay_seconds: float = 0.0  # before each token
    die_after: int | None = None  # cut the connection after so many tokens
    fail_after: int | None = None  # send an error event after so many tokens
    freeze_after: int | None = None  # fall silent, keeping the connection open
    is_chatty_when_frozen: bool = False  # with comments, as a proxy may send
    omit_finish: bool = False
    omit_done: bool = False
    stop_reason: str | int | None = None
    refusals: list[tuple[int, str]] = field(default_factory=list)  # answered first, one a request
    completion_bodies: list[dict[str, Any]] = field(default_factory=list)
    request_ids: list[str | None] = field(default_factory=list)
    num_connections: int = 0
    num_broken_off: int = 0  # connections that the client closed in mid-answer

    @property
    def has_processor(self) -> bool:
        """A stock vLLM that speculates starts with no logits processor."""
        return self.keeps_controls or not self.speculates


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: EngineDouble

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)
        self.server.behaviour.num_connections += 1

    def log_message(self, format: str, *args: object) -> None:
        """Tests have no use for an access log."""

    def do_GET(self) -> None:
        behaviour = self.server.behaviour
        if self.path == "/health":
            self._answer(200, b"")
        elif self.path == "/v1/models":
            card = {"id": MODEL, "max_model_len": behaviour.window}
            self._answer_json(200, {"data": [card]})
        elif self.path == "/version" and behaviour.knows_extensions:
            self._answer_json(200, {"version": "0.32.0"})
        elif self.path == "/metrics":
            metrics = b'vllm:prompt_tokens_total{engine="0"} 7.0\nvllm:num_requests_running 1.0\n'
            speculation = b'vllm:spec_decode_num_drafts_total{engine="0"} 0.0\n'
            self._answer(200, metrics + (speculation if behaviour.speculates else b""))
        else:
            self._answer_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path == "/v1/completions":
            self._complete(body)
        else:
            self._answer_json(404, {"detail": "Not Found"})

    def _complete(self, body: dict[str, Any]) -> None:
        behaviour = self.server.behaviour
        behaviour.completion_bodies.append(body)
        behaviour.request_ids.append(self.headers.get("X-Request-Id"))
        if refusal := self._refusal(body):
            status, message = refusal
            self._answer_json(status, {"error": {"message": message, "code": status}})
        elif body.get("use_beam_search") is True and behaviour.knows_extensions:
            self._search_beams(body)
        elif not body.get("stream", True):
            kept = {"longleaf_keep": {"loaded_tokens": 0}} if behaviour.keeps_context else None
            self._answer_json(200, {"choices": [], "kv_transfer_params": kept})
        else:
            self._stream(body)

    def _search_beams(self, body: dict[str, Any]) -> None:
        deadline = time.monotonic() + self.server.behaviour.beam_seconds
        while time.monotonic() < deadline:
            time.sleep(0.02)
            self.connection.settimeout(0.001)
            with suppress(TimeoutError):
                if self.connection.recv(1) == b"":
                    self.server.behaviour.num_broken_off += 1
                    self.close_connection = True
                    return
        text = self.server.behaviour.answer[: body["max_tokens"]]
        choices = [{"index": i, "text": text, "finish_reason": "stop"} for i in range(body["n"])]
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(text) * body["n"]}
        self._answer_json(200, {"choices": choices, "usage": usage | {"prompt_tokens_details": None}})

    def _refusal(self, body: dict[str, Any]) -> tuple[int, str] | None:
        behaviour = self.server.behaviour
        if behaviour.api_key and self.headers.get("Authorization") != f"Bearer {behaviour.api_key}":
            return 401, "Unauthorized"
        if behaviour.refusals:
            return behaviour.refusals.pop(0)
        extensions = (_EXTENSIONS | _CONTROLS) & body.keys()
        if behaviour.is_strict and extensions:
            return 400, f"Unrecognized request argument: {extensions}"
        invalid = (
            body.get("cache_salt") == ""
            or any(isinstance(body.get(name), str) for name in _NEVER_TEXT)
            or len(body.get("structured_outputs", {})) > 1
        )
        if behaviour.knows_extensions and invalid:
            return 400, "Input should be valid"
        if not behaviour.takes_token_ids and not isinstance(body["prompt"], str):
            return 422, "prompt: input should be a valid string"
        return None

    def _stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in self._events(body):
                self._chunk(event)
            self._chunk(b"")
        except OSError:
            self.server.behaviour.num_broken_off += 1
            self.close_connection = True

    def _events(self, body: dict[str, Any]) -> Iterator[bytes]:
        behaviour = self.server.behaviour
        minds = behaviour.knows_extensions and behaviour.has_processor
        if minds and "x" in body.get("vllm_xargs", {}).values():
            # As vLLM does, which looks at a processor's arguments once it has begun to stream.
            yield _event({"error": {"message": "it must be an integer", "code": 400}})
            yield b"data: [DONE]\n\n"
            return
        text = behaviour.answer[: body["max_tokens"]]
        for number, character in enumerate(text, start=1):
            self._misbehave(number - 1)
            if behaviour.fail_after == number - 1:
                yield _event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
                break
            time.sleep(behaviour.delay_seconds)
            ends = number == len(text) and not behaviour.omit_finish
            choice = {"index": 0, "text": character, "finish_reason": "length" if ends else None}
            if behaviour.knows_extensions and body.get("logprobs"):
                choice["logprobs"] = _logprobs(character, by_id="return_tokens_as_token_ids" in body)
            if ends:
                choice["stop_reason"] = behaviour.stop_reason
            event: dict[str, Any] = {"choices": [choice]}
            if behaviour.reports_continuous_usage:
                event["usage"] = {"prompt_tokens": len(body["prompt"]), "completion_tokens": number}
            yield _event(event)
        else:
            self._misbehave(len(text))
            if behaviour.reports_usage:
                yield _event(self._totals(body, text))
        if not behaviour.omit_done:
            yield b"data: [DONE]\n\n"

    def _totals(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        behaviour = self.server.behaviour
        usage: dict[str, Any] = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(text)}
        if behaviour.reports_details:
            usage["prompt_tokens_details"] = {"cached_tokens": behaviour.num_cached_tokens}
        totals: dict[str, Any] = {"choices": [], "usage": usage}
        if behaviour.reports_metrics:
            totals["metrics"] = {
                "queue_time_ms": 10.0,
                "time_to_first_token_ms": 200.0,
                "generation_time_ms": 3000.0,
            }
        return totals

    def _misbehave(self, num_sent: int) -> None:
        behaviour = self.server.behaviour
        if behaviour.die_after == num_sent:
            raise ConnectionAbortedError
        while behaviour.freeze_after == num_sent:
            time.sleep(0.02)
            if behaviour.is_chatty_when_frozen:
                self._chunk(b": keep-alive\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer_json(self, status: int, body: object) -> None:
        self._answer(status, json.dumps(body).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _logprobs(character: str, *, by_id: bool) -> dict[str, Any]:
    """The character was picked with probability 1/2; "x" would have come with 1/4."""
    picked, other = (f"token_id:{ord(c)}" if by_id else c for c in (character, "x"))
    return {
        "tokens": [picked],
        "token_logprobs": [math.log(0.5)],
        "top_logprobs": [{other: math.log(0.25), picked: math.log(0.5)}],
    }


def _event(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


class EngineDouble(ThreadingHTTPServer):
    """The server; `url` is its root."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behaviour = Behaviour()
        self.connections: list[socket.socket] = []

    def drop_connections(self) -> None:
        """Hang up on everyone, as a process that ends does."""
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running_double() -> Iterator[EngineDouble]:
    """A double that serves while the block runs."""
    with EngineDouble() as double:
        thread = threading.Thread(target=double.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield double
        finally:
            double.behaviour.freeze_after = None
            double.shutdown()
            double.drop_connections()
            thread.join()


def _main(port: int, *flags: str) -> None:
    """Like vLLM: with a child in its process group that would outlive it, and a log."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(f"pids {os.getpid()} {child.pid} salt={os.environ.get('DOUBLE_SALT', '')}", flush=True)
    print("  version 0.32.0\nKV cache size: 23,296 tokens", flush=True)
    if "--crash" in flags:
        sys.exit("RuntimeError: 显存不足 out of memory")
    if "--mute" in flags:
        time.sleep(600)
    EngineDouble(port).serve_forever()


if __name__ == "__main__":
    _main(int(sys.argv[1]), *sys.argv[2:])
