from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from bench.recording_proxy import RecordingProxy, Watched, completion_tokens_of, mean_logprob

WINDOW = 60


class Engine:
    """Answers as vLLM would; a token is a character, and token `t` has log-probability `-t / 100`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply({"data": [{"id": "m"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                engine.requests.append((self.path, body))
                self.reply(*engine.answer(self.path, body))

            def reply(self, body: dict[str, Any], status: int = 200) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
        if path == "/tokenize":
            text = "".join(message["content"] for message in body["messages"])
            return {"tokens": encode(f"<{text}>")}, 200
        prompt = body.get("prompt") or encode("".join(m["content"] for m in body["messages"]))
        if len(prompt) + body["max_tokens"] > WINDOW:
            return {"error": "too long"}, 400
        choice: dict[str, Any] = {"text": "yes"}
        if "prompt_logprobs" in body:
            choice["prompt_logprobs"] = [None, *({str(t): {"logprob": -t / 100}} for t in prompt[1:])]
        return {"choices": [choice], "usage": {"completion_tokens": 3}}, 200


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def decode(tokens: Any) -> str:
    return "".join(map(chr, tokens))


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def proxy(engine: Engine) -> Iterator[RecordingProxy]:
    with RecordingProxy(engine.url, model="m", encode=encode, decode=decode) as proxy:
        proxy.watch([Watched("Who?", "AB"), Watched("谁？", "甲")])
        yield proxy


def post(proxy: RecordingProxy, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(proxy.url + path, json={"max_tokens": 5, **body}, trust_env=False)


def test_a_chat_is_scored_as_the_engine_lays_it_out(proxy: RecordingProxy) -> None:
    messages = [{"role": "user", "content": "It is so. Who?"}]

    response = post(proxy, "/v1/chat/completions", {"messages": messages})

    assert response.json()["choices"][0]["text"] == "yes"
    [call] = proxy.calls("Who?")
    assert decode(call.prompt_token_ids) == "<It is so. Who?>"
    assert call.prompt_tokens == 16
    assert call.completion_tokens == 3
    assert call.gold_logprob == pytest.approx(-(ord("A") + ord("B")) / 200)


def test_a_prompt_in_token_ids_is_scored_under_its_own_cache_salt(
    proxy: RecordingProxy, engine: Engine
) -> None:
    post(proxy, "/v1/completions", {"prompt": encode("甲乙丙。谁？"), "cache_salt": "tenant"})

    [call] = proxy.calls("谁？")
    assert call.prompt_tokens == 6
    scoring, forwarded = [body for path, body in engine.requests if path == "/v1/completions"]
    assert decode(scoring["prompt"]) == "甲乙丙。谁？甲"
    assert scoring["cache_salt"] == "tenant"
    assert "prompt_logprobs" not in forwarded


def test_scoring_comes_first_so_that_the_answer_finds_its_prompt_cached(
    proxy: RecordingProxy, engine: Engine
) -> None:
    post(proxy, "/v1/completions", {"prompt": encode("Who?")})

    assert ["prompt_logprobs" in body for _, body in engine.requests] == [True, False]


def test_requests_about_nothing_watched_pass_unseen(proxy: RecordingProxy, engine: Engine) -> None:
    assert httpx.get(f"{proxy.url}/v1/models", trust_env=False).json()["data"][0]["id"] == "m"
    assert post(proxy, "/v1/completions", {"prompt": encode("ping")}).status_code == 200

    assert proxy.calls("Who?") == []
    assert len(engine.requests) == 1


def test_a_call_held_to_a_schema_counts_its_tokens_and_is_not_scored(proxy: RecordingProxy) -> None:
    post(proxy, "/v1/completions", {"prompt": encode("Who?"), "structured_outputs": {"choice": ["1"]}})

    [call] = proxy.calls("Who?")
    assert call.prompt_tokens == 4
    assert call.gold_logprob is None


def test_what_the_engine_refuses_is_refused_and_not_noted(proxy: RecordingProxy) -> None:
    response = post(proxy, "/v1/completions", {"prompt": encode("x" * 100 + "Who?")})

    assert response.status_code == 400
    assert proxy.calls("Who?") == []


def test_watching_other_questions_forgets_the_calls_so_far(proxy: RecordingProxy) -> None:
    post(proxy, "/v1/completions", {"prompt": encode("Who?")})
    proxy.watch([Watched("Who?", "AB")])

    assert proxy.calls("Who?") == []


def test_the_log_probability_is_a_mean_over_tokens() -> None:
    entries = [{"1": {"logprob": -1.0}}, {"2": {"logprob": -3.0}, "9": {"logprob": -0.1}}]

    assert mean_logprob(entries, [1, 2]) == -2.0


def test_tokens_written_are_read_from_whole_answers_and_from_streams() -> None:
    stream = b'data: {"usage": {"completion_tokens": 1}}\n\ndata: {"usage": {"completion_tokens": 7}}\n\ndata: [DONE]\n'

    assert completion_tokens_of(b'{"usage": {"completion_tokens": 4}}') == 4
    assert completion_tokens_of(stream) == 7
    assert completion_tokens_of(b"") == 0
