"""The only reader of the environment. Every knob of Longleaf is a field here.

Set a field by `LONGLEAF_<FIELD>` (nested: `LONGLEAF_ENGINE__MODEL`), or in the file named by
`LONGLEAF_ENV_FILE` (default: `longleaf.env` in the working directory).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.errors import Misconfigured

MIB = 1024 * 1024


class EngineSettings(BaseModel):
    """The generation engine: a vLLM that Longleaf launches, or any OpenAI-compatible endpoint."""

    url: str = Field(
        "",
        description="Endpoint to use, or several that serve one model, with commas; empty: launch vLLM here.",
    )
    max_imbalance: int = Field(
        4, ge=0, description="Requests that one of several engines may have more and still be preferred."
    )
    api_key: str = Field("", description="Bearer token of the endpoint.", repr=False)
    model: str = Field(
        "smollm2-135m-instruct", description="Registry name, Hugging Face id, or a model folder."
    )
    revision: str = Field("", description="Model revision to pin, where a hub is used.")
    profile: Literal["auto", "cpu", "gpu"] = Field("auto", description="auto: gpu where torch sees CUDA.")
    host: str = "127.0.0.1"
    port: int = Field(8411, ge=1, le=65535)
    max_model_len: int = Field(8192, ge=256, description="Window of the engine, in tokens.")
    kv_cache_bytes: int = Field(1024 * MIB, ge=64 * MIB, description="KV space of the CPU profile.")
    kv_store_bytes: int = Field(
        4096 * MIB, ge=0, description="Disk for computed context of static documents; 0: none is kept."
    )
    kv_store_dir: Path | None = Field(None, description="Where it lies; empty: `kv` in the data folder.")
    kv_offload_bytes: int = Field(
        8192 * MIB, ge=0, description="GPU: main memory for context that left the GPU; 0: none."
    )
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    tensor_parallel_size: int = Field(1, ge=1)
    service: Literal["interactive", "balanced", "offline"] = Field(
        "balanced", description="Sets what is left empty of the next six: docs/engine-controls.md."
    )
    max_num_seqs: int | None = Field(None, ge=1, description="Most sequences computed at once.")
    max_num_batched_tokens: int | None = Field(
        None, ge=32, description="Most tokens of a step: a longer prompt is computed in so large chunks."
    )
    long_prefill_token_threshold: int | None = Field(
        None, ge=0, description="Most tokens of one prompt in a step beside others; 0: no limit."
    )
    max_num_queued_reqs: int | None = Field(
        None, ge=0, description="Requests running and waiting beyond which more are refused; 0: no limit."
    )
    max_num_queued_tokens: int | None = Field(
        None, ge=0, description="Prompt tokens yet to compute beyond which more are refused; 0: no limit."
    )
    speculation: Literal["auto", "off", "ngram", "draft"] = Field(
        "auto", description="Guess further tokens and check them together; the text stays the same."
    )
    num_speculative_tokens: int | None = Field(None, ge=1, le=32, description="Most guesses a step.")
    draft_model: str = Field("", description="GPU: the model that guesses; same vocabulary.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    quantization: Literal["none", "fp8", "int8", "awq", "gptq"] = Field(
        "none", description="fp8: made when loading (GPU); the others: as the model was published."
    )
    kv_cache_dtype: Literal["auto", "float16", "bfloat16", "fp8"] = Field(
        "auto", description="Of keys and values; auto: as the model."
    )
    block_size: int | None = Field(None, ge=1, description="Tokens of a KV block; empty: by the profile.")
    kv_events: str = Field(
        "off",
        description="Follow the engine's own events of its cache: on, or tcp://HOST:PORT of each elsewhere.",
    )
    disaggregation: Literal["none", "prefill", "decode"] = Field(
        "none", description="GPU: this engine only computes prompts, or only continues them (NIXL)."
    )
    overload_wait_seconds: float = Field(
        20.0, ge=0, description="How long a question waits for a place in a full engine before its 503."
    )
    overload_wait_batch_seconds: float = Field(300.0, ge=0, description="The same for background work.")
    eager: bool = Field(True, description="CPU: start in 35 s; false compiles (2 min) and decodes faster.")
    extra_args: list[str] = Field(default_factory=list, description="Passed to vLLM as they are.")
    start_timeout_seconds: float = Field(600.0, gt=0)
    request_timeout_seconds: float = Field(300.0, gt=0, description="Longest silence of a request.")


class UploadSettings(BaseModel):
    """Limits on what comes in, checked while it streams."""

    max_request_bytes: int = Field(1024 * MIB, ge=1)
    max_file_bytes: int = Field(512 * MIB, ge=1)
    max_files: int = Field(1000, ge=1)
    min_free_disk_bytes: int = Field(512 * MIB, ge=0, description="Refuse uploads below this.")


class ChunkSettings(BaseModel):
    """How documents are cut. Changing a field changes the chunker's revision."""

    max_tokens: int = Field(240, ge=16, le=500, description="By the embedder's own tokenizer.")
    overlap_tokens: int = Field(24, ge=0)
    parse_timeout_seconds: float = Field(300.0, gt=0)
    parse_memory_bytes: int = Field(4096 * MIB, ge=256 * MIB)


class SmallModelSettings(BaseModel):
    """The model that condenses questions, chooses sentences and keeps summaries."""

    url: str = Field("", description="Endpoint to use; empty: the generation engine's, and its model.")
    api_key: str = Field("", description="Bearer token of the endpoint.", repr=False)
    model: str = Field("", description="Registry name, Hugging Face id, or a model folder.")
    revision: str = Field("", description="Model revision to pin, where a hub is used.")


class LeaderSettings(BaseModel):
    """Requests that share a long prefix: one computes it while the others wait for its first token."""

    min_tokens: int = Field(512, ge=1, description="Shortest shared, uncomputed prefix to wait for.")
    max_wait_seconds: float = Field(30.0, ge=0, description="Longest wait; 0: nobody waits.")


class PrewarmSettings(BaseModel):
    """Beginnings of prompts that are computed beforehand, when the engine has nothing else to do."""

    enabled: bool = True
    kv_share: float = Field(0.3, ge=0, le=1, description="Of the engine's KV space, for all collections.")
    assumed_kv_tokens: int = Field(
        16_384, ge=0, description="KV space of an engine that does not tell it, in tokens."
    )
    piece_tokens: int = Field(
        1024, ge=32, description="Sent at once: a question waits for so many tokens at most."
    )
    watch_seconds: float = Field(15.0, gt=0, description="How often it is seen whether an engine started.")
    billed: bool = Field(False, description="Whether tenants pay for it; on the ledger it is either way.")


class AskSettings(BaseModel):
    """Defaults of a question; most can be overridden per request."""

    num_candidates: int = Field(50, ge=1, description="Chunks from each of dense and BM25.")
    num_passages: int = Field(6, ge=1, le=50)
    rerank: bool = Field(True, description="Read the best candidates together with the question.")
    num_reranked: int = Field(30, ge=1, description="Candidates that are reranked.")
    reranker: str = Field(
        "", description="A cross-encoder: registry name, id or folder; empty: the embedder."
    )
    max_context_tokens: int = Field(2400, ge=64, description="Room for passages in the prompt.")
    extraction: Literal["auto", "none", "rule", "embedding", "model", "cross_encoder"] = Field(
        "auto", description="How sentences are kept of passages; auto: by embedding."
    )
    extracted_tokens: int | None = Field(
        None,
        ge=16,
        description="Room in the prompt for sentences kept of passages; empty: as fits the model.",
    )
    context: Literal["auto", "whole", "passages"] = Field(
        "auto", description="auto: a whole document once enough questions are asked about it."
    )
    max_whole_tokens: int = Field(
        7000, ge=64, description="Longest document that is put in whole, and most of its hot sections."
    )
    prefix_planner: bool = Field(True, description="Lay passages out so that prompts share prefixes.")
    static_rent_share: float = Field(
        0.2, ge=0, le=1, description="A document whose questions cost this share of it stands in front."
    )
    whole_lookback_seconds: float = Field(
        3600.0, ge=0, description="What a document's questions cost is forgotten so long after the last one."
    )
    cached_token_share: float = Field(
        0.1, ge=0, le=1, description="What a cached prompt token costs of an uncached one."
    )
    condensing: Literal["auto", "none", "rule", "model"] = Field(
        "auto", description="How a conversation's question is made to stand alone; auto: as fits the model."
    )
    history_tokens: int = Field(600, ge=0, description="Room in the prompt for earlier turns.")
    summary_tokens: int = Field(300, ge=32, description="Room for the summary of turns before those.")
    leader: LeaderSettings = LeaderSettings()  # type: ignore[call-arg]
    max_question_tokens: int = Field(2048, ge=8)
    max_answer_tokens: int = Field(300, ge=1)
    repair_attempts: int = Field(
        2, ge=0, le=5, description="How often an answer that fails validation is written again."
    )
    repair_tokens: int = Field(
        4000, ge=0, description="Uncached prompt and answer tokens after which no repair is begun."
    )
    min_support: float | None = Field(
        None, ge=0, le=1, description="Support under which a question is refused; empty: calibrated."
    )
    extractive_sentences: int = Field(2, ge=1, le=10, description="Most sentences of an extractive answer.")
    extractive_sure_lead: float | None = Field(
        4.0,
        gt=0,
        description="One sentence is the answer where it leads the next by so much, or by a quarter of it where "
        "that is of another passage; empty: never.",
    )
    trace: Literal["off", "auto", "full"] = Field(
        "auto", description="auto: figures always, tokens and texts where a question asks; full: always."
    )
    trace_redacted: bool = Field(False, description="Keep no text and no token in any trace.")
    trace_attention_tokens: int = Field(
        4096, ge=64, description="Longest prompt and answer that attention is read of."
    )
    trace_attention_bytes: int = Field(
        4096 * MIB, ge=0, description="Largest weights that a worker loads for that; 0: none."
    )
    trace_days: int | None = Field(None, ge=1, description="Drop traces after so long; empty: never.")


class WebhookSettings(BaseModel):
    """Where events are told of, and how patiently."""

    timeout_seconds: float = Field(10.0, gt=0, description="Of one attempt, with the receiver's answer.")
    retry_hours: float = Field(24.0, ge=0, description="How long a delivery is tried until it has failed.")
    disable_after_days: float = Field(
        5.0, gt=0, description="A webhook that takes nothing for so long is disabled."
    )
    threads: int = Field(8, ge=1, description="Attempts at once; at most half of them to one receiver.")
    allowed_hosts: list[str] = Field(
        default_factory=list, description="Hosts that webhooks may lead to though they are not public."
    )
    allow_private: bool = Field(False, description="Let webhooks lead anywhere inside the network.")


class LimitSettings(BaseModel):
    """How much one API key, or all keys of one tenant, may have in a minute; empty: no limit."""

    requests_per_key: int | None = Field(None, ge=1, description="Requests a minute, of every kind.")
    requests_per_tenant: int | None = Field(None, ge=1)
    tokens_per_key: int | None = Field(
        None, ge=1, description="Tokens a minute that questions may take: their own, passages, answers."
    )
    tokens_per_tenant: int | None = Field(None, ge=1)
    questions_per_key: int | None = Field(
        None, ge=1, description="Questions at once: asked by people, and not answered yet."
    )
    questions_per_tenant: int | None = Field(None, ge=1)


class WorkerSettings(BaseModel):
    """Leases and slices of jobs."""

    lease_seconds: float = Field(10.0, gt=0, description="A job whose worker is silent so long is taken up.")
    heartbeat_seconds: float = Field(2.5, gt=0)
    sweep_seconds: float = Field(2.0, gt=0, description="How often the relay looks for what it missed.")
    max_attempts: int = Field(3, ge=1)
    slice_seconds: float = Field(30.0, gt=0, description="A long ingest yields its worker so often.")
    fair_slice_seconds: float = Field(1.0, gt=0, description="The same where another tenant's upload waits.")
    interactive_threads: int = Field(4, ge=1)
    background_questions: int = Field(
        2,
        ge=1,
        description="Questions that nobody waits for at work at once; the other threads serve people.",
    )
    give_way_seconds: float = Field(
        10.0,
        ge=0,
        description="How long a step of a question that nobody waits for gives way to people who wait for a first "
        "token.",
    )
    event_ttl_seconds: int = Field(3600, ge=1)
    engine_sample_seconds: float = Field(
        5.0, gt=0, description="How often the engines' counters are read, to hold the ledger against."
    )


class RetentionSettings(BaseModel):
    """How long what has served its purpose is kept. Documents, answers and the ledger always are."""

    job_days: int | None = Field(
        90,
        ge=1,
        description="Ended jobs that nothing else names, such as compactions, and deliveries to webhooks; "
        "empty: for ever.",
    )
    result_days: int | None = Field(
        None,
        ge=1,
        description="Batches, evaluations, extractions, summaries and stored reports; empty: for ever.",
    )
    summary_node_days: int | None = Field(
        90,
        ge=1,
        description="What sections come to, and no run of a summary has wanted since; empty: for ever.",
    )
    idempotency_hours: int = Field(
        168, ge=1, description="An Idempotency-Key repeated later than this makes a new request."
    )


class Settings(BaseSettings):
    """All settings, read once by the process that starts and handed down."""

    model_config = SettingsConfigDict(
        env_prefix="LONGLEAF_", env_nested_delimiter="__", extra="ignore", frozen=True
    )

    home: Path = Field(
        Path("~/.longleaf"), description="Data folder: database, blobs, indexes, models, logs."
    )
    model_cache: Path | None = Field(None, description="Prepared models; empty: `models` in the data folder.")
    database_url: str = Field("", description="Empty: SQLite in the data folder.", repr=False)
    redis_url: str = Field("", description="Empty: the Valkey that `longleaf up` starts.", repr=False)
    api_host: str = "127.0.0.1"
    api_port: int = Field(8410, ge=1, le=65535)
    embedder: str = Field("multilingual-e5-small", description="Registry name, Hugging Face id, or folder.")
    encoder_backend: Literal["openvino", "torch"] = Field(
        "openvino", description="openvino: INT8 on CPU; torch: fp32, or CUDA where present."
    )
    num_encoder_threads: int = Field(0, ge=0, description="0: as many as there are cores.")
    client_url: str = Field("", description="Where the command line finds the API; empty: the local one.")
    client_key: str = Field("", description="Its API key; empty: the one `longleaf up` saved.", repr=False)
    price_book: Path | None = Field(None, description="A price book file; empty: the packaged one.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"

    engine: EngineSettings = EngineSettings()  # type: ignore[call-arg]
    upload: UploadSettings = UploadSettings()  # type: ignore[call-arg]
    chunk: ChunkSettings = ChunkSettings()  # type: ignore[call-arg]
    ask: AskSettings = AskSettings()  # type: ignore[call-arg]
    small_model: SmallModelSettings = SmallModelSettings()  # type: ignore[call-arg]
    prewarm: PrewarmSettings = PrewarmSettings()  # type: ignore[call-arg]
    worker: WorkerSettings = WorkerSettings()  # type: ignore[call-arg]
    webhooks: WebhookSettings = WebhookSettings()  # type: ignore[call-arg]
    limits: LimitSettings = LimitSettings()  # type: ignore[call-arg]
    retention: RetentionSettings = RetentionSettings()  # type: ignore[call-arg]

    @property
    def root(self) -> Path:
        """The data folder, absolute."""
        return self.home.expanduser().resolve()

    @property
    def resolved_database_url(self) -> str:
        """The database to use, with the psycopg 3 driver for PostgreSQL."""
        if not self.database_url:
            return f"sqlite:///{self.root / 'longleaf.db'}"
        for scheme in ("postgresql://", "postgres://"):
            if self.database_url.startswith(scheme):
                return "postgresql+psycopg://" + self.database_url.removeprefix(scheme)
        return self.database_url

    @property
    def valkey_socket(self) -> Path:
        """Where the Valkey of the embedded shape listens."""
        return self.root / "run" / "valkey.sock"

    @property
    def kv_event_socket(self) -> Path:
        """Where the engine that is started here publishes what it holds; no longer than the Valkey's."""
        return self.root / "run" / "kv"

    @property
    def resolved_redis_url(self) -> str:
        """The broker and event store to use."""
        return self.redis_url or f"unix://{self.valkey_socket}"

    @property
    def engine_urls(self) -> tuple[str, ...]:
        """Roots of the engines' HTTP APIs, without a trailing slash or `/v1`; at least one."""
        given = self.engine.url or f"http://{self.engine.host}:{self.engine.port}"
        urls = (url.strip().rstrip("/").removesuffix("/v1") for url in given.split(","))
        return tuple(dict.fromkeys(url for url in urls if url))

    @property
    def engine_url(self) -> str:
        """The first of them."""
        return self.engine_urls[0]

    @property
    def api_url(self) -> str:
        return f"http://{self.api_host}:{self.api_port}"

    @property
    def blob_dir(self) -> Path:
        return self.root / "blobs"

    @property
    def index_dir(self) -> Path:
        return self.root / "indexes"

    @property
    def kv_store_dir(self) -> Path:
        """Where the engine that is launched here keeps computed context."""
        chosen = self.engine.kv_store_dir
        return chosen.expanduser().resolve() if chosen else self.root / "kv"

    @property
    def model_dir(self) -> Path:
        """Where prepared models lie; several data folders may share one."""
        return self.model_cache.expanduser().resolve() if self.model_cache else self.root / "models"

    @property
    def log_dir(self) -> Path:
        return self.root / "logs"


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment, with `overrides` on top.

    Raises:
        Misconfigured: a value is out of range; the message names the variable.
    """
    env_file = os.environ.get("LONGLEAF_ENV_FILE", "longleaf.env")
    try:
        return Settings(_env_file=env_file, **overrides)  # type: ignore[arg-type, call-arg]
    except ValidationError as error:
        first = error.errors()[0]
        name = "LONGLEAF_" + "__".join(str(part).upper() for part in first["loc"])
        raise Misconfigured(
            f"{name} is wrong: {first['msg']}.", remedy="Mend it in the environment or longleaf.env."
        ) from error


def evaluation_data_dir() -> Path:
    """Where evaluation sets lie: `LONGLEAF_DATA`, by default `../shared/data`."""
    return Path(os.environ.get("LONGLEAF_DATA", "../shared/data"))
