"""The usual suspects where an answer looks strange: what its trace says of each, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

HIGH_TEMPERATURE = 1.2
WIDE_TEMPERATURE = 0.9
STRONG_REPETITION = 1.3
STRONG_PENALTY = 1.0
HIGH_ENTROPY = 2.0
DOUBTFUL_ENTROPY = 2.0
DOUBTFUL_SHARE = 0.2
UNLIKELY_SHARE = 0.1
REPEATED_SHARE = 0.3
REPEATED_TOKENS = 4
LEAST_ATTENTION = 0.02
LOW_COVERAGE = 0.4
SPLIT_SHARE = 0.5
FULL_KV = 0.9
SLOW_QUEUE_SECONDS = 1.0

Verdict = Literal["ok", "look", "wrong", "unknown"]
"""`look`: it may be the reason. `wrong`: it very likely is. `unknown`: the trace does not tell."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `remedy` says what to do about it."""

    subject: str
    verdict: Verdict
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def check_answer(answer: Mapping[str, Any], trace: Mapping[str, Any]) -> list[Check]:
    """The checklist in order: attempts, tokenization, sampling, context, support, stop, memory, entropy.

    Args:
        answer, trace: as the API gives them.
    """
    checks = [*_attempts(trace), *_retrieval(trace)]
    index = trace["answer_generation"]
    if index is None:
        detail = "no model wrote it: its sentences are verbatim"
        return [*checks, Check("generation", "ok", detail), *_support(answer, trace)]
    written = trace["generations"][index]
    return [
        *checks,
        *_tokenization(written),
        *_sampling(written["sampling"]),
        *_context(written["prompt"]),
        *_support(answer, trace),
        *_attention(trace),
        *_stop(written),
        *_memory(written),
        *_entropy(written),
    ]


def _attempts(trace: Mapping[str, Any]) -> Iterator[Check]:
    if trace["error_code"]:
        detail = f"attempt {trace['attempt']} ended by {trace['error_code']}"
        yield Check("attempts", "wrong", detail, "See the answer's `error`; ask again.")
    elif trace["earlier_attempts"]:
        codes = ", ".join(str(e["error_code"] or "a lost worker") for e in trace["earlier_attempts"])
        detail = f"attempt {trace['attempt']}; before it: {codes}"
        yield Check("attempts", "look", detail, "A second attempt samples anew: set `seed` to repeat one.")


def _retrieval(trace: Mapping[str, Any]) -> Iterator[Check]:
    found = trace["retrieval"]
    if not found or not found["passages"]:
        remedy = "Check the filter and that documents are `ready`."
        yield Check("retrieval", "wrong", "no passage was found", remedy)
        return
    best = found["passages"][0]
    one_sided = [name for name in ("dense", "lexical") if best[f"{name}_rank"] is None]
    detail = f"{len(found['passages'])} passages; the best is {best['id']}"
    if one_sided:
        detail += f", which the {one_sided[0]} side did not find"
        yield Check("retrieval", "look", detail, "Ask in the document's own words, or raise `num_passages`.")
    else:
        yield Check("retrieval", "ok", detail)


def _tokenization(written: Mapping[str, Any]) -> Iterator[Check]:
    segments = written["prompt"]["segments"]
    known = [segment for segment in segments if segment.get("token_ids")]
    if not known:
        yield _untold("tokenization")
        return
    broken = [segment["kind"] for segment in known if segment["round_trip"] is False]
    if broken:
        detail = f"the text of {', '.join(broken)} does not give the tokens that were sent"
        remedy = "Check that the tokenizer's folder is the one that the engine serves (`longleaf doctor`)."
        yield Check("tokenization", "wrong", detail, remedy)
    garbled = sum((segment.get("text") or "").count("\ufffd") for segment in known)
    if garbled:
        detail = f"{garbled} characters of the prompt are no characters (U+FFFD)"
        remedy = "Upload the document again in UTF-8; its encoding was misread."
        yield Check("tokenization", "wrong", detail, remedy)
    num_tokens = sum(len(segment["token_ids"]) for segment in known)
    num_split = sum(segment["num_split_tokens"] or 0 for segment in known)
    share = num_split / max(1, num_tokens)
    if share > SPLIT_SHARE:
        detail = (
            f"{share:.0%} of the prompt's tokens are parts of characters: the model hardly knows the script"
        )
        yield Check("tokenization", "look", detail, "Use a model trained on this language.")
    elif not broken and not garbled:
        yield Check("tokenization", "ok", f"{num_tokens} tokens, {share:.0%} of them parts of characters")
    loose = [token for token in written["tokens"] if not token["is_whole"]]
    if "\ufffd" in (written.get("text") or ""):
        detail = f"the answer holds broken characters, from {len(loose)} tokens that are parts of one"
        remedy = "Lower `temperature`, or set `top_k`: an unlikely byte broke a character."
        yield Check("tokenization", "wrong", detail, remedy)


def _sampling(sampling: Mapping[str, Any]) -> Iterator[Check]:
    odd = list(_odd_values(sampling))
    for detail, remedy in odd:
        yield Check("sampling", "look", detail, remedy)
    if not odd:
        yield Check("sampling", "ok", f"temperature {sampling['temperature']:g}, top_p {sampling['top_p']:g}")


def _odd_values(sampling: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    temperature = sampling["temperature"]
    is_open = sampling["top_p"] >= 1 and not sampling["top_k"] and not sampling["min_p"]
    if temperature > HIGH_TEMPERATURE:
        yield f"temperature {temperature:g} flattens all choices", "Stay at 1 or below."
    elif temperature > WIDE_TEMPERATURE and is_open:
        yield f"temperature {temperature:g} with nothing cut off", "Set `top_p` 0.9 beside it."
    if sampling["repetition_penalty"] > STRONG_REPETITION:
        value = sampling["repetition_penalty"]
        yield (
            f"repetition_penalty {value:g} keeps it from repeating even names and numbers",
            "Stay at 1.2 or below.",
        )
    for name in ("presence_penalty", "frequency_penalty"):
        if sampling[name] > STRONG_PENALTY:
            yield f"{name} {sampling[name]:g} drives it away from the passages' words", "Stay at 1 or below."
        if sampling[name] < 0:
            yield f"{name} {sampling[name]:g} rewards repeating", "Leave it at 0."
    if 0 < sampling["no_repeat_ngram_size"] < 3:
        size = sampling["no_repeat_ngram_size"]
        yield f"no_repeat_ngram_size {size} forbids ordinary phrases", "Use 3 or more, 0 for short answers."
    if sampling.get("logit_bias"):
        yield f"logit_bias on {len(sampling['logit_bias'])} tokens", "Try without it."
    if sampling.get("bad_words"):
        yield f"{len(sampling['bad_words'])} words are banned", "Try without them."


def _context(prompt: Mapping[str, Any]) -> Iterator[Check]:
    cut = prompt["cut"]
    if cut["passages"] or cut["num_turns"]:
        reasons = [f"{one['id']} ({one['reason']})" for one in cut["passages"]]
        reasons += [f"{cut['num_turns']} earlier turns"] if cut["num_turns"] else []
        detail = "left out: " + "; ".join(reasons)
        remedy = "Ask for a shorter answer, keep sentences (`extraction`), or use a longer window."
        yield Check("context", "look", detail, remedy)
    else:
        yield Check("context", "ok", f"{prompt['num_tokens']} tokens, nothing was cut")


def _support(answer: Mapping[str, Any], trace: Mapping[str, Any]) -> Iterator[Check]:
    found = trace["attribution"]
    if answer["outcome"] == "refused":
        why = "; ".join(answer["warnings"]).rstrip(".") or "the passages do not support an answer"
        detail = f"it was refused: {why}"
        yield Check("support", "look", detail, "See the nearest passages; rephrase, or upload what answers.")
        return
    rows = found["statements"] if found else []
    if not rows:
        yield _untold("support")
        return
    bare = [row for row in rows if not row["is_supported"]]
    if bare:
        detail = f"{len(bare)} of {len(rows)} statements rest on no passage"
        remedy = "Ask with `unsupported` `remove`, at a lower temperature, or extractively."
        yield Check("support", "wrong" if len(bare) == len(rows) else "look", detail, remedy)
    else:
        yield Check("support", "ok", f"all {len(rows)} statements are cited")
    weak = [row for row in rows if row["coverage"] and max(row["coverage"]) < LOW_COVERAGE]
    if weak:
        detail = f"{len(weak)} statements share few words with any passage"
        yield Check("support", "look", detail, "Look at the heat map: `longleaf trace --html FILE`.")


def _attention(trace: Mapping[str, Any]) -> Iterator[Check]:
    found = trace["attention"]
    if not found:
        detail = "it was not read"
        yield Check("attention", "unknown", detail, "`longleaf trace ANSWER --attention` reads it.")
        return
    num_passages = len(found["passages"])
    means = [sum(row["weights"]) for row in found["sentences"]]
    if means and max(means) < LEAST_ATTENTION:
        detail = f"at most {max(means):.1%} of it goes to passages"
        yield Check("attention", "look", detail, "Fewer and shorter passages, or a larger model.")
        return
    if num_passages <= 1:
        yield Check("attention", "ok", "there is one passage, and it is looked at")
        return
    flat = [row for row in found["sentences"] if max(row["shares"], default=0.0) < 1.5 / num_passages]
    if flat:
        detail = f"{len(flat)} of {len(found['sentences'])} sentences look at no passage more than at others"
        yield Check("attention", "look", detail, "Fewer passages (`num_passages`) make a small model look.")
    else:
        yield Check("attention", "ok", f"each sentence looks at some of {num_passages} passages most")


def _stop(written: Mapping[str, Any]) -> Iterator[Check]:
    reason, num_tokens = written["finish_reason"], written["usage"]["completion_tokens"]
    stopped_by = written.get("stop_reason")
    if reason == "length":
        detail = f"cut at max_tokens {written['sampling']['max_tokens']}"
        yield Check("stop", "wrong", detail, "Raise `max_tokens`.")
    elif reason == "repetition":
        detail = "it repeated itself and was stopped"
        remedy = "Set `repetition_penalty` 1.1, or `no_repeat_ngram_size` 4."
        yield Check("stop", "wrong", detail, remedy)
    elif reason is None or reason == "abort":
        yield Check("stop", "wrong", f"broken off after {num_tokens} tokens", "Look into the engine's log.")
    elif isinstance(stopped_by, str) and num_tokens <= 8:
        detail = f"the stop text {stopped_by!r} came at once, after {num_tokens} tokens"
        yield Check("stop", "wrong", detail, "Take it out of `stop`.")
    elif num_tokens <= 1:
        remedy = "Set `min_tokens`, or ask more plainly."
        yield Check("stop", "look", "the model ended at once", remedy)
    elif (share := _repeated_share(written["tokens"])) > REPEATED_SHARE:
        detail = f"{share:.0%} of it was there before: it repeats itself"
        remedy = "Set `repetition_penalty` 1.1, or `no_repeat_ngram_size` 4."
        yield Check("stop", "look", detail, remedy)
    else:
        by = f" by {stopped_by!r}" if isinstance(stopped_by, str) else ""
        yield Check("stop", "ok", f"it ended by itself after {num_tokens} tokens{by}")


def _repeated_share(tokens: Sequence[Mapping[str, Any]]) -> float:
    """Which share of the sequences of four tokens came before."""
    ids = [token.get("token_id") for token in tokens]
    if None in ids or len(ids) < 2 * REPEATED_TOKENS:
        return 0.0
    runs = [tuple(ids[i : i + REPEATED_TOKENS]) for i in range(len(ids) - REPEATED_TOKENS + 1)]
    return 1 - len(set(runs)) / len(runs)


def _memory(written: Mapping[str, Any]) -> Iterator[Check]:
    load, timings = written["engine_load"], written["timings"] or {}
    faults = []
    if load:
        usage = load["kv_cache_usage"]
        faults += [f"KV space was {usage:.0%} full"] if usage is not None and usage > FULL_KV else []
        faults += [f"{load['num_preemptions']} requests lost theirs"] if load["num_preemptions"] else []
        faults += [f"{load['num_waiting']} requests waited"] if load["num_waiting"] else []
    queued = timings.get("queue_seconds", 0.0)
    faults += [f"it waited {queued:.1f} s in the engine"] if queued > SLOW_QUEUE_SECONDS else []
    if faults:
        remedy = "Give the engine more KV space (LONGLEAF_ENGINE__KV_CACHE_BYTES) or fewer sequences."
        yield Check("memory", "look", ", ".join(faults), remedy)
    elif not load:
        yield Check(
            "memory", "unknown", "the engine's load was not seen", "Ask again; it is read from /metrics."
        )
    else:
        usage = "" if load["kv_cache_usage"] is None else f"KV space {load['kv_cache_usage']:.0%} full, "
        yield Check("memory", "ok", f"{usage}{load['num_running']} running, none waiting")


def _entropy(written: Mapping[str, Any]) -> Iterator[Check]:
    certainty = written["certainty"]
    if not certainty:
        yield _untold("entropy")
        return
    mean = certainty["mean_entropy"]
    known = [token for token in written["tokens"] if token["entropy"] is not None]
    doubtful = [token for token in known if token["entropy"] > DOUBTFUL_ENTROPY]
    unlikely = [token for token in known if token["rank"] is None]
    detail = f"{mean:.2f} nats on average, perplexity {certainty['perplexity']:.1f}"
    if mean > HIGH_ENTROPY:
        remedy = "The model guesses: give it better passages, a lower temperature, or a larger model."
        yield Check("entropy", "wrong", detail, remedy)
    elif len(doubtful) > DOUBTFUL_SHARE * len(known):
        detail += f"; {len(doubtful)} of {len(known)} tokens above {DOUBTFUL_ENTROPY:g}"
        yield Check("entropy", "look", detail, "See which: `longleaf trace ANSWER --tokens`.")
    else:
        yield Check("entropy", "ok", detail)
    if len(unlikely) > UNLIKELY_SHARE * len(known):
        detail = f"{len(unlikely)} of {len(known)} tokens were not among the most probable"
        yield Check("sampling", "look", detail, "Lower `temperature` or `top_p`, or set `top_k` 40.")


def _untold(subject: str) -> Check:
    return Check(subject, "unknown", "the trace has no tokens", "Ask again with `trace` true.")
