from __future__ import annotations

import json
import subprocess
import sys

_PROBE = """
import json, sys
import api.app
heavy = ("torch", "faiss", "transformers", "celery", "openvino", "vllm", "tantivy", "alembic")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


def test_the_api_loads_no_model_library() -> None:
    output = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True, text=True).stdout
    assert json.loads(output) == []
