"""Loaded by vLLM in each of its processes (entry point `vllm.general_plugins`)."""

from __future__ import annotations

import inspect

from inference.speculation_controls import check_guesses_on_cpu, keep_controls

BUSY_LOOP_SECONDS = 0.001
"""Longer than the pause between two steps of a running request, shorter than anything else."""


def register() -> None:
    """What Longleaf changes in a vLLM that runs in its environment."""
    sleep_when_idle()
    keep_controls()
    check_guesses_on_cpu()


def sleep_when_idle() -> None:
    """Let an idle engine sleep at once.

    A vLLM worker polls its queue for a whole second after each step before it sleeps. On a machine
    with as many cores as the engine uses, that core is missing to whoever works between two
    requests: embedding a question took 200 to 600 ms instead of 7. See ADR 7.
    """
    from vllm.distributed.device_communicators import shm_broadcast

    condition = shm_broadcast.SpinCondition.__init__
    if inspect.signature(condition).parameters.get("busy_loop_s") is not None:
        condition.__defaults__ = (BUSY_LOOP_SECONDS,)
