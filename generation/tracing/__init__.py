"""The trace of an answer: what the model read, what it wrote and how sure it was, token by token."""

from __future__ import annotations

from generation.tracing.recorder import GenerationRecorder, TraceRecorder
from generation.tracing.tracer import Tracer

__all__ = ["GenerationRecorder", "TraceRecorder", "Tracer"]
