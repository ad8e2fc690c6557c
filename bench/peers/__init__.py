"""What a user would otherwise pick, at its defaults: LlamaIndex, Haystack and LangChain.

Each is a module run in a process of its own (`python -m bench.peers.haystack`), by the Python of a
virtual environment of its own, for LlamaIndex wants openai 2 and our vLLM openai 3:

    python -m venv .cache/peers
    .cache/peers/bin/pip install -e ".[peers]"

`longleaf bench answers` finds it there, or where `--extra peers.python=FILE` says. Prices, engines and
models of ours play no part in it: a peer gets files, a folder with the embedder's weights and the
address of an OpenAI-compatible engine.
"""

from __future__ import annotations

PEERS = ("llamaindex", "haystack", "langchain")
"""Names of peers; also of their modules here."""

__all__ = ["PEERS"]
