"""The small model as a chooser of sentences, on an engine that is already running."""

from __future__ import annotations

from bench.report import BenchOptions
from inference.completions_client import CompletionsClient
from inference.prepare import model_path
from inference.protocols import Tokenizer
from inference.registry import find_model
from inference.small_model import ChatSmallModel
from inference.tokenizers import HuggingFaceTokenizer
from retrieval.extraction import ChoiceExtractor

_GENERATOR = "smollm2-135m-instruct"


def find_engine(options: BenchOptions, tokenizer: Tokenizer) -> ChoiceExtractor | None:
    """A chooser over the engine at `extra["engine"]`, which serves the model `extra["generator"]`.

    None where no engine was given. `tokenizer` counts what is kept.

    Raises:
        ModelUnavailable: the generator is not prepared.
    """
    url = options.extra.get("engine")
    if not url:
        return None
    spec = find_model(options.extra.get("generator", _GENERATOR), role="generator")
    chat = HuggingFaceTokenizer(model_path(spec, options.model_dir))
    return ChoiceExtractor(ChatSmallModel(CompletionsClient(url, model=spec.name), chat), tokenizer)
