from __future__ import annotations

import json
import subprocess
import sys

_PROBE = """
import json, sys, time
started = time.process_time()
import api.app
seconds = time.process_time() - started
heavy = ("torch", "faiss", "transformers", "celery", "openvino", "vllm", "tantivy", "alembic")
print(json.dumps({"seconds": seconds, "heavy": [name for name in heavy if name in sys.modules]}))
"""


def test_the_api_loads_no_model_library_and_starts_at_once() -> None:
    # Processor time: what else the machine does meanwhile does not count.
    output = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True, text=True).stdout
    probe = json.loads(output)
    assert probe["heavy"] == []
    assert probe["seconds"] < 2.0
