"""The Python client and the command line in a conversation, over a real HTTP server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from client import Done, LongleafClient, ProblemError
from tests.api_fixtures import House, open_house, serve


@dataclass(frozen=True, slots=True)
class Online:
    house: House
    url: str
    key: str

    def run(self, *words: str, typed: str = "") -> Result:
        return CliRunner().invoke(app, [*words, "--url", self.url, "--key", self.key], input=typed)

    def client(self) -> LongleafClient:
        return LongleafClient(self.url, self.key)


@pytest.fixture
def online(tmp_path: Path, redis_url: str) -> Iterator[Online]:
    with open_house(tmp_path, redis_url) as house, serve(house.services) as (host, port):
        worker = house.worker
        with worker.running(lambda job_id: worker.answer(house.north, job_id), house.north):
            yield Online(house, f"http://{host}:{port}", house.issue("admin"))


def test_the_client_talks_turn_by_turn(online: Online) -> None:
    collection_id = online.house.collection()
    with online.client() as client:
        conversation = client.create_conversation(collection_id, title="年报")
        answer = client.ask_next(conversation["id"], "谁创立了公司？")
        events = list(client.ask_next_stream(conversation["id"], "And when?"))
        last = events[-1]
        assert isinstance(last, Done)
        assert (answer["turn"], last.answer["turn"]) == (1, 2)
        assert [turn["id"] for turn in client.list_turns(conversation["id"])] == [
            answer["id"],
            last.answer["id"],
        ]
        assert [each["id"] for each in client.list_conversations(collection_id=collection_id)] == [
            conversation["id"]
        ]
        client.delete_conversation(conversation["id"])
        with pytest.raises(ProblemError, match="There is no conversation"):
            client.ask_next(conversation["id"], "那2020年呢？")


def test_a_chat_asks_each_line_in_one_conversation(online: Online) -> None:
    name = "年报 reports"
    online.house.collection(name)
    result = online.run(
        "chat", name, typed="谁创立了公司？\n\nAnd when?\n/new\n那2020年呢？\n/quit\nignored\n"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.count("四十二 forty-two [1]") == 3
    with online.client() as client:
        found = list(client.list_conversations())
        assert [each["num_turns"] for each in found] == [1, 2]
    assert found[0]["id"] in result.stderr
    again = online.run("chat", "--conversation", found[0]["id"], typed="And in 2021?\n")
    assert again.exit_code == 0, again.output
    shown = online.run("conversations", "show", found[0]["id"])
    assert "2. And in 2021?" in shown.stdout
    listed = online.run("conversations", "list", "-c", name)
    assert found[1]["id"] in listed.stdout
    assert online.run("conversations", "delete", "--yes", found[1]["id"]).exit_code == 0
    assert found[1]["id"] not in online.run("conversations", "list").stdout


def test_a_chat_about_no_collection_says_so(online: Online) -> None:
    result = online.run("chat", "nowhere", typed="hello\n")
    assert result.exit_code != 0
    assert "nowhere" in result.output
