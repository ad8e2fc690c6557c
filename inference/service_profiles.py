"""What a service is tuned for: batch sizes, admission and speculation that go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.settings import EngineSettings

Profile = Literal["cpu", "gpu"]
Speculation = Literal["off", "ngram", "draft"]


@dataclass(frozen=True, slots=True)
class ServiceProfile:
    """Values for settings that are left empty; 0 of the last three: no limit.

    `speculates_below` sequences at once guesses are worth their checking.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    speculation: Speculation
    speculates_below: int
    long_prefill_token_threshold: int = 0
    max_num_queued_reqs: int = 0
    max_num_queued_tokens: int = 0


# On a CPU a step of 512 tokens takes about a second, which is the longest that somebody who is reading
# an answer waits because somebody else asked; at 2,048 prefill is a fifth faster. Speculation adds
# rows to a step: free for few sequences, whose steps wait for memory, paid for by many.
_PROFILES: Mapping[tuple[str, str], ServiceProfile] = {
    ("interactive", "cpu"): ServiceProfile(
        8,
        512,
        "ngram",
        9,
        long_prefill_token_threshold=256,
        max_num_queued_reqs=24,
        max_num_queued_tokens=16_384,
    ),
    ("balanced", "cpu"): ServiceProfile(16, 2048, "ngram", 9, max_num_queued_reqs=128),
    ("offline", "cpu"): ServiceProfile(32, 4096, "off", 0),
    ("interactive", "gpu"): ServiceProfile(
        64,
        2048,
        "off",
        17,
        long_prefill_token_threshold=1024,
        max_num_queued_reqs=192,
        max_num_queued_tokens=131_072,
    ),
    ("balanced", "gpu"): ServiceProfile(256, 8192, "off", 17, max_num_queued_reqs=1024),
    ("offline", "gpu"): ServiceProfile(512, 16_384, "off", 0),
}


@dataclass(frozen=True, slots=True)
class EngineControls:
    """What the engine is started with: settings where they say something, the profile where not."""

    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int
    max_num_queued_reqs: int
    max_num_queued_tokens: int
    speculation: Speculation
    num_speculative_tokens: int
    speculates_below: int


def controls_of(settings: EngineSettings, profile: Profile) -> EngineControls:
    """The controls that follow from the settings; contradictions are `engine_checks`' to find."""
    service = _PROFILES[settings.service, profile]

    def chosen(name: str) -> int:
        value = getattr(settings, name)
        return int(getattr(service, name) if value is None else value)

    num_seqs = chosen("max_num_seqs")
    speculation = service.speculation if settings.speculation == "auto" else settings.speculation
    # A speculation that was asked for is not left out for large batches unless the service says so.
    below = service.speculates_below if settings.speculation == "auto" else num_seqs + 1
    return EngineControls(
        max_num_seqs=num_seqs,
        # vLLM wants room for one token of each sequence at least.
        max_num_batched_tokens=max(num_seqs, chosen("max_num_batched_tokens")),
        long_prefill_token_threshold=chosen("long_prefill_token_threshold"),
        max_num_queued_reqs=chosen("max_num_queued_reqs"),
        max_num_queued_tokens=chosen("max_num_queued_tokens"),
        speculation=speculation,
        num_speculative_tokens=settings.num_speculative_tokens or (8 if speculation == "ngram" else 4),
        speculates_below=below,
    )
