"""Follows the events that an engine publishes of its cache, so that what it holds is known exactly.

vLLM numbers its messages and keeps the last ones for whoever missed some. A thread listens; whenever a
message may be missing the cache is estimated again, until the missing ones were sent once more, the
cache was reset, or the engine began anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import structlog

from core.errors import Misconfigured
from core.settings import Settings
from inference.kv_event_messages import Unfollowable, decode_batch
from inference.resident_prefixes import ResidentPrefixes

if TYPE_CHECKING:
    import zmq

log = structlog.get_logger()

Message = tuple[int, bytes]
Replay = Callable[[int], Sequence[Message] | None]
"""Messages from a number on, as far as the engine still has them; None: it does not answer."""

_POLL_MS = 250
_REPLAY_SECONDS = 5.0
_FIRST_CHECK_SECONDS, _LONGEST_CHECK_SECONDS = 0.5, 8.0
_END = (-1).to_bytes(8, "big", signed=True)


@dataclass(frozen=True, slots=True)
class EventEndpoint:
    """Where an engine publishes, and where it is asked for messages that were missed (ZeroMQ)."""

    events: str
    replay: str

    @classmethod
    def of(cls, address: str) -> EventEndpoint:
        """Replay is at the next port, or at a socket of the same name with `.replay` behind it.

        Raises:
            Misconfigured: it is no such address.
        """
        scheme, _, rest = address.partition("://")
        if scheme == "ipc" and rest:
            return cls(address, f"{address}.replay")
        host, _, port = rest.rpartition(":")
        if scheme != "tcp" or not host or not port.isdigit():
            raise Misconfigured(
                f"LONGLEAF_ENGINE__KV_EVENTS names {address!r}, which is no address of events.",
                remedy="Set it to off, on, or tcp://HOST:PORT, for each engine in the order of their URLs.",
            )
        return cls(address, f"tcp://{host}:{int(port) + 1}")


def local_events(settings: Settings) -> EventEndpoint | None:
    """Where the engine that is started here publishes; None: it does not.

    Raises:
        Misconfigured: the setting fits an engine elsewhere.
    """
    if settings.engine.kv_events == "off" or settings.engine.url:
        return None
    if settings.engine.kv_events != "on":
        raise Misconfigured(
            "LONGLEAF_ENGINE__KV_EVENTS names an address, but the engine is started here.",
            remedy="Set it to on: the events go through a socket in the data folder.",
        )
    return EventEndpoint.of(f"ipc://{settings.kv_event_socket}")


def followed_events(settings: Settings) -> tuple[EventEndpoint, ...]:
    """Of each engine in the order of `settings.engine_urls`; empty: events are off.

    Raises:
        Misconfigured: addresses and engines do not match, or a package is missing.
    """
    if settings.engine.kv_events == "off":
        return ()
    missing = [name for name in ("zmq", "msgspec") if find_spec(name) is None]
    if missing:
        raise Misconfigured(
            f"LONGLEAF_ENGINE__KV_EVENTS needs {' and '.join(missing)}, which vLLM would bring along.",
            remedy="pip install 'longleaf[events]', or set it to off.",
        )
    local = local_events(settings)
    if local is not None:
        return (local,)
    addresses = [part.strip() for part in settings.engine.kv_events.split(",") if part.strip()]
    if len(addresses) != len(settings.engine_urls):
        raise Misconfigured(
            f"LONGLEAF_ENGINE__KV_EVENTS names {len(addresses)} addresses for {len(settings.engine_urls)} engines.",
            remedy="Name one for each URL of LONGLEAF_ENGINE__URL, in the same order.",
        )
    return tuple(map(EventEndpoint.of, addresses))


class EventOrder:
    """Hands an engine's messages on in order, each once, and says where one is missing."""

    def __init__(self, prefixes: ResidentPrefixes, replay: Replay) -> None:
        self._prefixes = prefixes
        self._replay = replay
        self._next: int | None = None  # None: nobody knows

    def connected(self) -> None:
        """Messages will come: take those that were sent before."""
        self.disconnected()
        missed = self._replay(0)
        if missed is None:  # then the first one that comes will tell
            return
        self._begin(0)
        for number, payload in missed:
            self._take(number, payload)

    def disconnected(self) -> None:
        self._next = None
        self._prefixes.lose_track()

    def received(self, number: int, payload: bytes) -> None:
        if self._next is None:
            self._begin(number)
        elif number > self._next:
            self.check()
        self._take(number, payload)

    def check(self) -> None:
        """Ask for what should have come by now: the last message may be the one that was lost."""
        if self._next is not None:
            for number, payload in self._replay(self._next) or ():
                self._take(number, payload)

    def _take(self, number: int, payload: bytes) -> None:
        if self._next is None or number < self._next:
            return
        if number > self._next:
            log.warning("engine.events_lost", first=self._next, last=number - 1)
            self._begin(number)
        self._next = number + 1
        self._prefixes.told(decode_batch(payload, block_tokens=self._prefixes.block_tokens))

    def _begin(self, number: int) -> None:
        self._next = number
        self._prefixes.mirror(is_complete=number == 0)


class KvEventFollower:
    """A thread that keeps `prefixes` true to what the engine at `endpoint` publishes.

    Where the engine's cache cannot be followed that way, the log says why and the estimate stays.
    """

    def __init__(self, endpoint: EventEndpoint, prefixes: ResidentPrefixes) -> None:
        self._endpoint = endpoint
        self._prefixes = prefixes
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kv-events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread; what the engine holds is estimated from then on."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        import zmq

        with zmq.Context() as context:
            try:
                self._follow(context)
            except Unfollowable as error:
                log.warning("engine.events_unusable", endpoint=self._endpoint.events, reason=str(error))
            except Exception:
                # Answers do not need it: a thread that died would leave a mirror that nobody keeps true.
                log.exception("engine.events_failed", endpoint=self._endpoint.events)
            finally:
                self._prefixes.lose_track()
                context.destroy(linger=0)

    def _follow(self, context: zmq.Context[Any]) -> None:
        import zmq
        from zmq.utils.monitor import recv_monitor_message

        subscriber = _socket(context, zmq.SUB)
        subscriber.subscribe(b"")
        subscriber.set_hwm(0)  # what waits here is memory; what is dropped is the whole mirror
        monitor = subscriber.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        subscriber.connect(self._endpoint.events)
        poller = zmq.Poller()
        poller.register(monitor, zmq.POLLIN)
        poller.register(subscriber, zmq.POLLIN)
        order = EventOrder(self._prefixes, lambda first: self._ask_again(context, first))
        pause, check_at = _FIRST_CHECK_SECONDS, time.monotonic() + _FIRST_CHECK_SECONDS
        was_exact = False
        while not self._ends.is_set():
            poller.poll(_POLL_MS)
            # First: what comes through a new connection may be another process's, numbered anew.
            while monitor.poll(0):
                if recv_monitor_message(monitor)["event"] == zmq.EVENT_DISCONNECTED:
                    order.disconnected()
                else:
                    order.connected()
                    pause, check_at = _FIRST_CHECK_SECONDS, time.monotonic() + _FIRST_CHECK_SECONDS
            if subscriber.poll(0):
                _, number, payload = subscriber.recv_multipart()
                order.received(int.from_bytes(number, "big"), payload)
            elif time.monotonic() >= check_at:
                order.check()
                pause = min(2 * pause, _LONGEST_CHECK_SECONDS)
                check_at = time.monotonic() + pause
            if self._prefixes.is_exact != was_exact:
                was_exact = not was_exact
                log.info("engine.events", endpoint=self._endpoint.events, is_exact=was_exact)

    def _ask_again(self, context: zmq.Context[Any], first: int) -> Sequence[Message] | None:
        import zmq

        found: list[Message] = []
        until = time.monotonic() + _REPLAY_SECONDS
        with _socket(context, zmq.DEALER) as asking:
            asking.connect(self._endpoint.replay)
            asking.send_multipart((b"", first.to_bytes(8, "big")))
            while time.monotonic() < until and not self._ends.is_set():
                if asking.poll(_POLL_MS):
                    *_, number, payload = asking.recv_multipart()
                    if number == _END:
                        return found
                    found.append((int.from_bytes(number, "big"), payload))
                    until = time.monotonic() + _REPLAY_SECONDS
        return None


def _socket(context: zmq.Context[Any], kind: int) -> zmq.Socket[Any]:
    import zmq

    socket: zmq.Socket[Any] = context.socket(kind)
    socket.linger = 0
    # A line that was cut says nothing: ask, so that it counts as closed.
    socket.setsockopt(zmq.HEARTBEAT_IVL, 5000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15000)
    return socket
