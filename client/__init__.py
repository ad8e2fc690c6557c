"""A thin client of Longleaf's REST API. Imports nothing else of Longleaf, so it can be taken along.

with LongleafClient("http://127.0.0.1:8410", "ll_...") as longleaf:
    collection = longleaf.get_or_create_collection("handbook")
    for batch in longleaf.upload(collection["id"], [Path("handbook.pdf")]):
        longleaf.wait_for_job(batch.job["id"])
    print(longleaf.ask(collection["id"], "How many days of leave are there?")["text"])
"""

from client.client import LongleafClient
from client.events import (
    Accepted,
    AskEvent,
    Delta,
    Done,
    PassagesFound,
    Restarted,
    Started,
)
from client.problems import ClientError, ProblemError, UnreachableError
from client.records import (
    Answer,
    Batch,
    Budget,
    Citation,
    Collection,
    Conversation,
    Delivery,
    Document,
    DocumentPage,
    Evaluation,
    Extraction,
    File,
    Job,
    Schedule,
    ScheduleRun,
    Slot,
    Statement,
    StoredReport,
    Summary,
    Webhook,
)
from client.uploads import UploadedBatch
from client.webhooks import SignatureError, verify_webhook

__all__ = [
    "Accepted",
    "Answer",
    "AskEvent",
    "Batch",
    "Budget",
    "Citation",
    "ClientError",
    "Collection",
    "Conversation",
    "Delivery",
    "Delta",
    "Document",
    "DocumentPage",
    "Done",
    "Evaluation",
    "Extraction",
    "File",
    "Job",
    "LongleafClient",
    "PassagesFound",
    "ProblemError",
    "Restarted",
    "Schedule",
    "ScheduleRun",
    "SignatureError",
    "Slot",
    "Started",
    "Statement",
    "StoredReport",
    "Summary",
    "UnreachableError",
    "UploadedBatch",
    "Webhook",
    "verify_webhook",
]
