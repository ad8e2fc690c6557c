"""A proxy before the engine that notes what each question costs and how likely its gold answer was.

Every system of `bench answers` talks to the engine through it, so that what is scored is what was
sent: for each request the prompt's own token ids (a chat is laid out by the engine's `/tokenize`),
and the log-probability of the gold answer's tokens appended to them. The engine has then read the
prompt and answers the request itself from its prefix cache, so scoring costs no second prefill.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx

from core.errors import EngineUnavailable

_TIMEOUT_SECONDS = 600.0
_HOP_HEADERS = {"connection", "content-length", "host", "transfer-encoding", "accept-encoding"}
_PATHS = ("/v1/completions", "/v1/chat/completions")


@dataclass(frozen=True, slots=True)
class EngineCall:
    """One request for text that a question led to.

    `gold_logprob`: mean over the gold answer's tokens, nats; None where the call was a helper's
    (constrained to a schema) or had no room for the answer.
    """

    prompt_tokens: int
    completion_tokens: int
    gold_logprob: float | None
    prompt_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watched:
    """A question whose calls are to be noted."""

    text: str
    gold: str


class RecordingProxy:
    """Listens on a free port of this machine; a context manager. Serves many requests at once.

    Args:
        engine_url: root of the engine.
        model: the name it serves.
        encode: the engine's tokenizer, text to ids without special tokens.
        decode: the opposite.
        score_gold: False: only count tokens.
    """

    def __init__(
        self,
        engine_url: str,
        *,
        model: str,
        encode: Callable[[str], Sequence[int]],
        decode: Callable[[Sequence[int]], str],
        score_gold: bool = True,
    ) -> None:
        self._engine_url = engine_url.rstrip("/")
        self._model = model
        self._encode = encode
        self._decode = decode
        self._score_gold = score_gold
        self._lock = threading.Lock()
        self._watched: tuple[Watched, ...] = ()
        self._calls: dict[str, list[EngineCall]] = {}
        self._http = httpx.Client(base_url=self._engine_url, timeout=_TIMEOUT_SECONDS, trust_env=False)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="recording-proxy", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._http.close()

    def watch(self, questions: Sequence[Watched]) -> None:
        """Note from now on the calls of these questions only; a call belongs to the longest it contains."""
        with self._lock:
            self._watched = tuple(sorted(questions, key=lambda watched: -len(watched.text)))
            self._calls = {}

    def calls(self, question: str) -> list[EngineCall]:
        """In the order in which they ended."""
        with self._lock:
            return list(self._calls.get(question, ()))

    def gold_logprob(
        self, prompt: Sequence[int], gold: str, *, cache_salt: str | None = None
    ) -> float | None:
        """Mean log-probability of the gold answer's tokens after the prompt; None if they do not fit.

        Raises:
            EngineUnavailable: the engine fails.
        """
        tokens = list(self._encode(gold))
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": [*prompt, *tokens],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
        }
        if cache_salt:
            body["cache_salt"] = cache_salt
        response = self._http.post("/v1/completions", json=body)
        if response.status_code == 400:
            return None
        if response.status_code != 200:
            raise EngineUnavailable(f"The engine did not score an answer: {response.text[:300]}")
        entries = response.json()["choices"][0]["prompt_logprobs"][-len(tokens) :]
        return mean_logprob(entries, tokens)

    def chat_prompt(self, text: str) -> list[int]:
        """Token ids of a chat that consists of this message alone.

        Raises:
            EngineUnavailable: the engine fails.
        """
        prompt = self._prompt_ids({"messages": [{"role": "user", "content": text}]})
        if prompt is None:
            raise EngineUnavailable("The engine did not lay out a chat.")
        return prompt

    # ---- one request -------------------------------------------------------------------------

    def observe(self, path: str, body: Mapping[str, Any]) -> _Observation | None:
        """What the request asks, if it is one of the questions watched; scores its gold answer."""
        if path not in _PATHS or not (watched := self._watched_in(body)):
            return None
        prompt = self._prompt_ids(body)
        if prompt is None:
            return None
        is_helper = "structured_outputs" in body or "response_format" in body
        gold = None
        if self._score_gold and not is_helper:
            gold = self.gold_logprob(prompt, watched.gold, cache_salt=body.get("cache_salt"))
        return _Observation(watched.text, tuple(prompt), gold)

    def note(self, observation: _Observation, completion_tokens: int) -> None:
        call = EngineCall(
            prompt_tokens=len(observation.prompt_token_ids),
            completion_tokens=completion_tokens,
            gold_logprob=observation.gold_logprob,
            prompt_token_ids=observation.prompt_token_ids,
        )
        with self._lock:
            self._calls.setdefault(observation.question, []).append(call)

    def open(self, method: str, path: str, *, headers: Mapping[str, str], content: bytes) -> httpx.Response:
        """The engine's response, unread."""
        kept = {name: value for name, value in headers.items() if name.lower() not in _HOP_HEADERS}
        request = self._http.build_request(
            method, path, headers={**kept, "Accept-Encoding": "identity"}, content=content
        )
        return self._http.send(request, stream=True)

    def _watched_in(self, body: Mapping[str, Any]) -> Watched | None:
        text = _squeezed(self._text_of(body))
        with self._lock:
            watched = self._watched
        return next((question for question in watched if _squeezed(question.text) in text), None)

    def _text_of(self, body: Mapping[str, Any]) -> str:
        if messages := body.get("messages"):
            return "\n".join(_content(message) for message in messages)
        prompt = body.get("prompt", "")
        return prompt if isinstance(prompt, str) else self._decode([int(token) for token in prompt])

    def _prompt_ids(self, body: Mapping[str, Any]) -> list[int] | None:
        """As the engine reads them; None where it would refuse the prompt."""
        prompt = body.get("prompt")
        if isinstance(prompt, list):
            return [int(token) for token in prompt]
        asked = (
            {"messages": body["messages"], "add_generation_prompt": True}
            if "messages" in body
            else {"prompt": prompt}
        )
        response = self._http.post("/tokenize", json={"model": self._model, **asked})
        return list(response.json()["tokens"]) if response.status_code == 200 else None


@dataclass(frozen=True, slots=True)
class _Observation:
    question: str
    prompt_token_ids: tuple[int, ...]
    gold_logprob: float | None


def mean_logprob(entries: Sequence[Mapping[str, Any] | None], tokens: Sequence[int]) -> float:
    """Mean over the tokens of what vLLM says of each: a mapping from ids (as text) to `logprob`."""
    values = [
        float(entry[str(token)]["logprob"]) for entry, token in zip(entries, tokens, strict=True) if entry
    ]
    return sum(values) / len(values)


def completion_tokens_of(response: bytes) -> int:
    """From the usage of a whole response, or the last one of a stream; 0 where there is none."""
    if not response.startswith(b"data:"):
        try:
            usage = json.loads(response).get("usage") or {}
        except ValueError:
            return 0
        return int(usage.get("completion_tokens", 0))
    last = 0
    for line in response.split(b"\n"):
        if line.startswith(b"data: {"):
            last = int((json.loads(line[6:]).get("usage") or {}).get("completion_tokens", last))
    return last


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content)


def _handler(proxy: RecordingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Passes everything on; HTTP/1.0, so the end of a response is the end of its connection."""

        def do_GET(self) -> None:  # named by the base class
            self._forward("GET", b"", None)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                body = json.loads(content or b"{}")
            except ValueError:
                body = {}
            self._forward("POST", content, proxy.observe(self.path, body))

        def _forward(self, method: str, content: bytes, observation: _Observation | None) -> None:
            received = bytearray()
            response = proxy.open(method, self.path, headers=dict(self.headers.items()), content=content)
            try:
                self.send_response(response.status_code)
                for name, value in response.headers.items():
                    if name.lower() not in _HOP_HEADERS:
                        self.send_header(name, value)
                self.end_headers()
                for chunk in response.iter_raw():
                    received += chunk
                    self.wfile.write(chunk)
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                pass  # the caller has heard enough; closing the response tells the engine
            finally:
                response.close()
            if observation is not None and response.status_code == 200:
                proxy.note(observation, completion_tokens_of(bytes(received)))

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: an access log would be read by nobody."""

    return Handler
