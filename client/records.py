"""The JSON objects of the API. A newer server may send more fields than these."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FINAL_JOB_STATUSES = frozenset({"succeeded", "failed", "cancelled"})
FileStatus = Literal["queued", "parsing", "embedding", "ready", "duplicate", "failed"]
BatchStatus = Literal[
    "validating",
    "in_progress",
    "finalizing",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
    "expired",
]
AnswerMode = Literal["auto", "extractive", "abstractive", "quoted"]


class Failure(TypedDict):
    code: str
    detail: str


class Collection(TypedDict):
    id: str
    name: str
    created_at: str
    num_documents: int


class Document(TypedDict):
    id: str
    collection_id: str
    name: str
    names: list[str]
    tags: list[str]
    static: bool
    title: str
    status: str
    media_type: str
    num_bytes: int
    num_pages: int | None
    num_chunks: int | None
    num_characters: int | None
    warnings: list[str]
    error: Failure | None
    created_at: str
    indexed_at: str | None


class FileProgress(TypedDict, total=False):
    pages_done: int
    pages_total: int
    chunks_done: int
    chunks_total: int


class File(TypedDict):
    """One file of an upload and what became of it."""

    id: str
    name: str
    status: FileStatus
    num_bytes: int
    document_id: str | None
    progress: FileProgress
    error: Failure | None


class _JobBase(TypedDict):
    id: str
    kind: str
    queue: str
    status: JobStatus
    collection_id: str | None
    schedule_id: str | None
    progress: dict[str, Any]
    attempt: int
    max_attempts: int
    version: int
    error: Failure | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    deadline_at: str | None


class Job(_JobBase, total=False):
    """`files` only for an ingest got by id, `answer_id` only for an answer."""

    files: list[File]
    answer_id: str


class Pause(TypedDict):
    """That no job begins, or none of one tenant."""

    tenant_id: str | None
    reason: str
    paused_at: str


class Queue(TypedDict):
    """A queue of jobs, over all tenants."""

    name: str
    num_queued: int
    num_running: int
    pauses: list[Pause]


class PageBox(TypedDict):
    """Points (1/72 inch) from the top left of the page as displayed."""

    page: int
    page_width: float
    page_height: float
    x0: float
    y0: float
    x1: float
    y1: float


class DocumentPage(TypedDict):
    """A page, characters `start` to `end` of its document's text."""

    document_id: str
    number: int
    num_pages: int
    start: int
    end: int
    width: float
    height: float
    text: str


class Statement(TypedDict):
    """`text` is characters `start` to `end` of the answer's text; its marks follow."""

    text: str
    start: int
    end: int
    citations: list[int]
    supported: bool


class Citation(TypedDict):
    """`quote` is verbatim what stands between characters `start` and `end` of the document.

    `boxes` are where on its pages, empty where the format has no positions.
    """

    number: int
    document_id: str
    document_name: str
    start: int
    end: int
    first_page: int
    last_page: int
    quote: str
    boxes: list[PageBox]
    withdrawn: bool


class Passage(TypedDict):
    document_id: str
    document_name: str
    start: int
    end: int
    first_page: int
    last_page: int
    headings: list[str]
    score: float


class ShortAnswer(TypedDict):
    """The phrase of citation number `citation` that says the answer shortest."""

    text: str
    start: int
    end: int
    citation: int


class Usage(TypedDict):
    """`prompt_tokens` includes `cached_tokens`."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class Cost(TypedDict):
    """`amount` is a decimal as text, so that no digit is lost."""

    amount: str
    currency: str


class Sample(TypedDict):
    """One of several answers drawn; those of one `cluster` say the same."""

    text: str
    finish_reason: str
    seed: int | None
    cluster: int
    usage: Usage
    cost: Cost


class Samples(TypedDict):
    """`agreement` is the share of samples that say what the answer does, which is `items[chosen]`."""

    agreement: float
    chosen: int
    clusters: list[list[int]]
    items: list[Sample]


class Answer(TypedDict):
    id: str
    job_id: str
    collection_id: str
    conversation_id: str | None
    turn: int | None
    status: JobStatus
    question: str
    mode: str
    outcome: Literal["answered", "refused"] | None
    text: str | None
    output: Any
    statements: list[Statement]
    short_answer: ShortAnswer | None
    steps: dict[str, Any]
    samples: Samples | None
    citations: list[Citation]
    passages: list[Passage]
    warnings: list[str]
    finish_reason: str | None
    model: str | None
    usage: Usage | None
    timings: dict[str, float | None] | None
    cost: Cost | None
    error: Failure | None
    accepted_at: str
    finished_at: str | None


class QuotedSpan(TypedDict):
    """At least, as expected, at most."""

    low: int
    expected: int
    high: int


class QuotedLine(TypedDict):
    stage: str
    model: str
    tokens: QuotedSpan
    price_per_million: str


class QuotedPrice(TypedDict):
    low: str
    expected: str
    high: str
    currency: str


class Quote(TypedDict):
    """`seconds` are null where nothing was measured; `basis` says what each estimate rests on."""

    mode: str
    prompt_tokens: QuotedSpan
    cached_tokens: QuotedSpan
    completion_tokens: QuotedSpan
    lines: list[QuotedLine]
    price: QuotedPrice
    seconds: dict[str, float | None]
    basis: list[str]


class Budget(TypedDict):
    """Amounts are strings with every digit: tokens, or money in `currency`."""

    id: str
    tenant_id: str
    key_id: str | None
    collection_id: str | None
    unit: Literal["tokens", "money"]
    currency: str
    period: Literal["day", "month", "total"]
    time_zone: str
    warn_at: list[int]
    limit: str
    used: str
    held: str
    left: str
    state: Literal["open", "warning", "exhausted"]
    reset_at: str | None
    created_at: str


class Conversation(TypedDict):
    """`summary` stands for turns 1 to `summarized_turns`; `summary_dropped` says what it left out."""

    id: str
    collection_id: str
    title: str
    num_turns: int
    summary: str
    summarized_turns: int
    summary_dropped: list[dict[str, Any]]
    created_at: str


class Extraction(TypedDict):
    """`columns` in the table's order; `num_done` of `num_documents` rows are filled."""

    id: str
    job_id: str
    collection_id: str
    status: JobStatus
    columns: list[str]
    parameters: dict[str, Any]
    num_documents: int
    num_done: int
    error: Failure | None
    created_at: str
    finished_at: str | None


class Summary(TypedDict):
    """`text` once it has ended, with `[n]` after what citation n supports; `coverage` says what was read."""

    id: str
    job_id: str
    collection_id: str
    status: JobStatus
    version: int
    parameters: dict[str, Any]
    outcome: Literal["complete", "capped"] | None
    writer: str | None
    text: str | None
    statements: list[dict[str, Any]]
    citations: list[dict[str, Any]]
    since: dict[str, Any] | None
    warnings: list[str]
    coverage: dict[str, Any]
    num_nodes: int
    num_computed: int
    num_tokens: int
    cost: dict[str, str]
    error: Failure | None
    created_at: str
    finished_at: str | None


class Evaluation(TypedDict):
    """`report` has the means once it has ended, of what was scored till then."""

    id: str
    job_id: str
    collection_id: str
    name: str
    status: JobStatus
    parameters: dict[str, Any]
    num_questions: int
    num_done: int
    report: dict[str, Any] | None
    error: Failure | None
    created_at: str
    finished_at: str | None


class Schedule(TypedDict):
    """`cron` in `time_zone`, or `every_seconds`; `next_at` is the slot to come."""

    id: str
    name: str
    action: str
    parameters: dict[str, Any]
    cron: str | None
    time_zone: str
    every_seconds: int | None
    catch_up: Literal["skip", "latest", "all"]
    overlap: Literal["skip", "queue", "cancel_previous"]
    start_at: str | None
    end_at: str | None
    next_at: str | None
    paused: bool
    pause_reason: Failure | None
    created_at: str


class ScheduleRun(TypedDict):
    """What became of a slot: `status` and `costs` are its job's; without a job, `reason` says why."""

    id: str
    schedule_id: str
    slot_at: str | None
    first_slot_at: str | None
    outcome: Literal["started", "waiting", "skipped", "failed"]
    reason: Failure | None
    job_id: str | None
    status: JobStatus | None
    error: Failure | None
    costs: list[Cost]
    created_at: str
    finished_at: str | None


class Slot(TypedDict):
    """An instant in UTC, and as the zone's clock shows it."""

    at: str
    local: str


class StoredReport(TypedDict):
    """A cost report that is kept; `content` (`costs`, `top`, `savings`) once it is made, and not in lists."""

    id: str
    job_id: str
    status: JobStatus
    parameters: dict[str, Any]
    start: str
    end: str
    error: Failure | None
    created_at: str
    finished_at: str | None
    content: NotRequired[dict[str, Any] | None]


class Webhook(TypedDict):
    """`disabled_reason` says why Longleaf disabled it, if it did. `secret` is in new ones alone."""

    id: str
    url: str
    event_types: list[str]
    description: str
    enabled: bool
    disabled_reason: str | None
    failing_since: str | None
    created_at: str
    secret: NotRequired[str | None]


class DeliveryAttempt(TypedDict):
    at: str
    seconds: float
    status: int | None
    response: str
    error: str | None


class Delivery(TypedDict):
    """`id` is the header `webhook-id` of each attempt; `status` is that of its job."""

    id: str
    webhook_id: str
    job_id: str
    event_type: str
    payload: dict[str, Any]
    status: JobStatus
    attempts: list[DeliveryAttempt]
    next_attempt_at: str | None
    error: Failure | None
    created_at: str


class Batch(TypedDict):
    """A file of questions; `request_counts` has `total`, `completed` and `failed`."""

    id: str
    object: Literal["batch"]
    endpoint: str
    job_id: str
    collection_id: str
    name: str
    status: BatchStatus
    stopped_by: Literal["expired", "max_cost"] | None
    request_counts: dict[str, int]
    usage: Usage
    cost: Cost | None
    max_cost: str | None
    error: Failure | None
    created_at: str
    in_progress_at: str | None
    expires_at: str | None
    finished_at: str | None
