"""KV blocks of static text on disk, so that they are computed once and survive restarts (ADR 13).

`connector` runs inside vLLM and is imported by nobody else; the other modules know nothing of vLLM.
"""
