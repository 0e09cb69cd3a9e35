"""The other end of a JSON-RPC conversation, to ask and to answer; the client and each server are one.

Ids of our own requests are made here and lead back from here. What methods mean is the handler's
matter, how bytes travel is the transport's.
"""

import asyncio
import codecs
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from . import raw_json, wire
from .events import log
from .immediate import Outcome, Run
from .raw_json import Malformed, Payload
from .wire import Answer, Envelope

MOST_IN_FLIGHT: Final = 4096
MOST_IN_A_BATCH: Final = 1000
_LONGEST_SHOWN: Final = 40

NO_PARAMS: Final = b"{}"
_NULL: Final = Raw(b"null")

Send = Callable[[Sequence[Payload]], None]
OnProgress = Callable[[Payload], None]
# What an answer comes from. What only waits for the answer of another peer needs no coroutine.
Coming = Outcome[Answer] | Coroutine[Any, Any, Answer]
Answering = Answer | Coming
# What an answer is made into, or what came instead: `Gone`, `TimedOut`, `CancelledError`. May raise.
Finish = Callable[[str, Answer | BaseException], Answer]


class Handler(Protocol):
    """What is done with what the other end says of its own accord. As text it says who that is."""

    def answer(self, method: str, params: Payload) -> Answering: ...

    def failure(self, method: str, error: BaseException) -> Answer | None:
        """What a request is answered with that ended in an error; None for one that nobody expected."""

    def told(self, method: str, params: Payload) -> None: ...

    def garbled(self, frame: Payload, why: Malformed) -> Answer | None:
        """What a frame that cannot be understood is answered with, if it is."""


class Gone(Exception):
    """The other end went away before it answered."""


class Lost(Gone):
    """This one request gets no answer, others may. `done`: whether it may have been carried out."""

    def __init__(self, reason: str, *, done: bool) -> None:
        self.done = done
        super().__init__(reason)


class TimedOut(Exception):
    """The other end did not answer in time."""


class Unreadable(Malformed):
    """What came instead of an answer, under its id; its text says what that was."""


class Patience(msgspec.Struct, frozen=True):
    """How long an answer may take: `quiet` seconds without a sign of life, `longest` in all."""

    quiet: float
    longest: float


class _Progress(msgspec.Struct):
    progressToken: Raw  # noqa: N815


class _Cancelled(msgspec.Struct):
    requestId: Raw | UnsetType = UNSET  # noqa: N815


_read_progress = raw_json.Reader(_Progress)
_read_cancelled = raw_json.Reader(_Cancelled)


class _Waiting(Outcome[Answer]):
    """One request of ours that has no answer yet, and until when it may wait for one."""

    __slots__ = ("due", "finish", "key", "last_moment", "method", "patience", "peer", "token")

    def __init__(
        self, peer: "Peer", key: bytes, method: str, patience: Patience, finish: Finish | None, token: bytes
    ) -> None:
        super().__init__()
        now = peer.now()
        self.peer = peer
        self.key = key
        self.method = method
        self.patience = patience
        self.finish = finish
        self.token = token
        self.due = now + patience.quiet
        self.last_moment = now + patience.longest

    def heard(self, now: float) -> None:
        self.due = min(now + self.patience.quiet, self.last_moment)

    def expired(self) -> TimedOut:
        within = self.patience.longest if self.due == self.last_moment else self.patience.quiet
        strays = self.peer.unasked_since(self.last_moment - self.patience.longest)
        return TimedOut(f"did not answer within {within:g} s{strays}")

    def settle(self, value: Answer) -> None:
        if not self.settled:
            self.peer.forget(self)
            try:
                if self.finish:
                    value = self.finish(self.method, value)
            except Exception as error:
                super().fail(error)
            else:
                super().settle(value)

    def fail(self, error: BaseException) -> None:
        if not self.settled:
            self.peer.forget(self)
            try:
                answer = self.finish(self.method, error) if self.finish else None
            except (Exception, asyncio.CancelledError) as finished:
                error, answer = finished, None
            if answer:
                super().settle(answer)
            else:
                super().fail(error)


class Peer:
    def __init__(self, send: Send, handler: Handler) -> None:
        self._send = send
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._last_token = 0
        self._waiting: dict[bytes, _Waiting] = {}
        self._listening: dict[bytes, OnProgress] = {}
        self._serving: dict[bytes, Outcome[Answer]] = {}
        self._all_served: asyncio.Future[None] | None = None
        self._gone: Gone | None = None
        self._refusal: Answer | None = None
        # One alarm for all that wait: a timer a request would cost a tenth of a small call.
        self._alarm: asyncio.TimerHandle | None = None
        self.strays = 0
        self._unasked = 0  # of these, answers under ids that never were ours
        self._last_unasked = (b"", 0.0)  # the id, and when it came

    @property
    def waiting(self) -> int:
        """How many of our requests have no answer yet."""
        return len(self._waiting)

    # Asking ---------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Sequence[Payload],
        patience: Patience,
        *,
        token: bytes = b"",
        on_progress: OnProgress | None = None,
        finish: Finish | None = None,
    ) -> Outcome[Answer]:
        """Ask; who stops waiting for the answer, or waits in vain, has the request cancelled.

        `params` come in parts, so that large ones are not copied. `finish` is called once, however it ends.
        """
        self._last_id += 1
        key = b"%d" % self._last_id
        waiting = self._waiting[key] = _Waiting(self, key, method, patience, finish, token)
        if self._gone:
            waiting.fail(self._gone)
            return waiting
        if self._alarm is None or waiting.due < self._alarm.when():
            self._set_alarm(waiting.due)
        if on_progress:
            self._listening[token] = self._hearing(waiting, on_progress)
        try:
            self._send(wire.request_line(key, method, params))
        except Exception as error:
            del self._waiting[key]  # nobody heard of it, so there is nothing to cancel
            waiting.fail(error)
        return waiting

    def now(self) -> float:
        return self._loop.time()

    def forget(self, waiting: _Waiting) -> None:
        """Have the end of a request of ours; one that the other end may still work on is cancelled there."""
        if waiting.token:
            self._listening.pop(waiting.token, None)
        if self._waiting.pop(waiting.key, None) and waiting.method != "initialize":
            self.tell("notifications/cancelled", b'{"requestId":%b}' % waiting.key)

    def _hearing(self, waiting: _Waiting, on_progress: OnProgress) -> OnProgress:
        def heard(params: Payload) -> None:
            waiting.heard(self._loop.time())
            on_progress(params)

        return heard

    def _set_alarm(self, when: float) -> None:
        if self._alarm:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self._alarm = None
        if self._serving:
            self._still_there()
        now = self._loop.time()
        for waiting in [*self._waiting.values()]:  # each of them leaves as it is told
            if waiting.due <= now:
                waiting.fail(waiting.expired())
        if left := [waiting.due for waiting in self._waiting.values() if waiting.due > now]:
            self._set_alarm(min(left))

    def new_token(self) -> bytes:
        """A progress token that no other request to this peer has."""
        self._last_token += 1
        return b"%d" % self._last_token

    def tell(self, method: str, params: Payload = b"") -> None:
        """Send a notification; to one that is gone, nothing."""
        if not self._gone:
            self._send((wire.notification_line(method, params),))

    def _still_there(self) -> None:
        """Who asks us something, or was just answered, is not silent: all that we wait for has time anew."""
        now = self._loop.time()
        for waiting in self._waiting.values():
            waiting.heard(now)

    def close(self, reason: str) -> None:
        """Nobody is there any more: whoever waits learns it, whatever is being served stops."""
        self._gone = self._gone or Gone(reason)
        if self._alarm:
            self._alarm.cancel()
        waited, self._waiting = self._waiting, {}
        for waiting in waited.values():
            waiting.fail(self._gone)
        for serving in [*self._serving.values()]:
            serving.cancel()

    # Hearing --------------------------------------------------------------------------------------

    def receive(self, frame: bytes) -> None:
        """Take in one line; of one that is gone, nothing."""
        if self._gone:
            return
        if frame[:1] == b"{":
            self._take(frame, None)
        else:
            self._take_unusual(frame.removeprefix(codecs.BOM_UTF8))

    def _take_unusual(self, frame: bytes) -> None:
        """Take in what does not begin as a message does."""
        if raw_json.begins_with(b"[", frame):
            self._take_batch(frame)
        else:
            self._take(frame, None)

    def _take(self, frame: Payload, batch: "_Batch | None") -> None:
        try:
            message = wire.read_envelope(frame)
        except Malformed as why:
            self.take_damaged(frame, why, batch)
            return
        if message.method is UNSET:
            self._answered(frame, message, batch)
        elif message.id is UNSET:
            self._told(message.method, NO_PARAMS if message.params is UNSET else message.params)
        else:
            params = NO_PARAMS if message.params is UNSET else message.params
            self._asked(bytes(message.id), message.method, params, batch)

    def take_damaged(self, frame: Payload, why: Malformed, batch: "_Batch | None" = None) -> None:
        """Take in a frame that cannot be understood; an answer that is not JSON ends its request."""
        # Where nobody needs the id it is not looked for: of noise there may be very much.
        key = wire.id_of(frame) if self._waiting else None
        if key in self._waiting and b'"method"' not in bytes(frame):
            self._waiting.pop(key).fail(Unreadable(f"invalid JSON: {why}"))
        elif answer := self._handler.garbled(frame, why):
            self._reply(key or wire.id_of(frame) or b"null", answer, batch)

    def _neither(self, frame: Payload, key: bytes, batch: "_Batch | None") -> None:
        """Take in an object that has neither a method nor an answer."""
        why = Malformed("neither a method nor an answer", raw_json.INVALID_REQUEST)
        if key in self._waiting:
            self._waiting.pop(key).fail(Unreadable(f"invalid JSON-RPC: {why}"))
        elif answer := self._handler.garbled(frame, why):
            self._reply(key if wire.is_id(key) else b"null", answer, batch)

    def _answered(self, frame: Payload, message: Envelope, batch: "_Batch | None") -> None:
        result, error = message.result, message.error
        key = b"null" if message.id is UNSET else bytes(message.id)
        if error is not UNSET and (result is UNSET or (result == _NULL and error != _NULL)):
            answer = Answer("error", error, frame)
        elif result is not UNSET:
            answer = Answer("result", result, frame)
        else:
            self._neither(frame, key, batch)
            return
        if not self.settle(key, answer):
            self._astray(key)

    def _astray(self, key: bytes) -> None:
        """Count an answer that nobody waits for; one that came late or twice is nothing to be told of."""
        self.strays += 1
        if not (key.isdigit() and len(key) < 19 and 0 < int(key) <= self._last_id):
            self._unasked += 1
            self._last_unasked = key, self._loop.time()

    def unasked_since(self, began: float) -> str:
        """Why an answer may be missing, for the end of an error's text; empty if none went astray since then.

        Some write our ids as texts or fractions, and so under ids that are not ours.
        """
        last, at = self._last_unasked
        if not self._unasked or at < began:
            return ""
        shown = last[:_LONGEST_SHOWN].decode(errors="replace")
        if self._unasked == 1:
            return f" (1 answer came with an id that nobody asked under: {shown})"
        return f" ({self._unasked} answers came with ids that nobody asked under, the last: {shown})"

    def settle(self, key: bytes, answer: Answer) -> bool:
        """Give a request of ours its answer; whether one was waiting for it."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return False
        waiting.settle(answer)
        return True

    def waits(self, key: bytes) -> bool:
        """Whether a request of ours has no answer yet."""
        return key in self._waiting

    def lose(self, key: bytes, why: Lost) -> None:
        """No answer to a request of ours will come, if it has none yet."""
        if waiting := self._waiting.pop(key, None):
            waiting.fail(why)

    def _told(self, method: str, params: Payload) -> None:
        try:
            if method == "notifications/progress":
                if listener := self._listening.get(bytes(_read_progress(params).progressToken)):
                    listener(params)
            elif method == "notifications/cancelled":
                requested = _read_cancelled(params).requestId
                if requested is not UNSET:
                    self._stop(bytes(requested))
            else:
                self._handler.told(method, params)
        except Malformed:
            self.strays += 1

    def _stop(self, key: bytes) -> None:
        """Stop serving a request of the other end's."""
        if serving := self._serving.get(key):
            serving.cancel()

    def _asked(self, key: bytes, method: str, params: Payload, batch: "_Batch | None") -> None:
        if not wire.is_id(key):
            self._refuse(b"null", batch, "id must be a string or a number")
        elif key in self._serving:
            self._refuse(key, batch, "id is in use by a request in flight")
        elif len(self._serving) >= MOST_IN_FLIGHT:
            why = f"{MOST_IN_FLIGHT} requests are in flight already"
            self._refuse(key, batch, why, raw_json.INTERNAL_ERROR)
        else:
            self._serve(key, method, params, batch)

    def _refuse(
        self, key: bytes, batch: "_Batch | None", why: str, code: int = raw_json.INVALID_REQUEST
    ) -> None:
        self._reply(key, wire.error(code, why), batch)

    def _serve(self, key: bytes, method: str, params: Payload, batch: "_Batch | None") -> None:
        try:
            answering = self._handler.answer(method, params)
        except Exception as error:
            self._reply(key, self._failure(method, error), batch)
            return
        if isinstance(answering, Answer):
            self._reply(key, answering, batch)
            return
        if batch:
            batch.open += 1
        if isinstance(answering, Outcome):
            serving = self._serving[key] = answering
        else:
            serving = self._serving[key] = run = Run(answering)
            run.go_on()
        serving.then(lambda: self._served(key, method, serving, batch))

    def _served(self, key: bytes, method: str, served: Outcome[Answer], batch: "_Batch | None") -> None:
        answer: Answer | None
        try:
            answer = served.result()
        except asyncio.CancelledError:
            answer = self._refusal
        except (Exception, BaseExceptionGroup) as error:
            answer = self._failure(method, error)
        del self._serving[key]
        if self._waiting and method != "ping":
            self._still_there()
        if answer:
            self._reply(key, answer, batch)
        if batch:
            self._one_less(batch)
        if self._all_served and not self._serving and not self._all_served.done():
            self._all_served.set_result(None)

    def _failure(self, method: str, error: BaseException) -> Answer:
        if answer := self._handler.failure(method, error):
            return answer
        log.error("a request for %s failed inside the workbench", method, exc_info=error)
        return wire.error(
            raw_json.INTERNAL_ERROR, "Internal error of the workbench; its stderr has the details"
        )

    def _reply(self, key: Payload, answer: Answer, batch: "_Batch | None") -> None:
        if self._gone:
            return
        line = wire.answer_line(key, answer)
        if batch:
            batch.answers.append(b"".join(line).rstrip())
        else:
            self._send(line)

    def _take_batch(self, frame: bytes) -> None:
        """A batch, as revision 2025-03-26 has them: the answers to its requests go out as one array."""
        try:
            messages = raw_json.elements(frame)
        except Malformed as why:
            self.take_damaged(frame, why)
            return
        if not messages or len(messages) > MOST_IN_A_BATCH:
            what = f"a batch of more than {MOST_IN_A_BATCH} messages" if messages else "an empty batch"
            self.take_damaged(frame, Malformed(what, raw_json.INVALID_REQUEST))
            return
        batch = _Batch()
        for message in messages:
            self._take(message, batch)
        self._one_less(batch)

    def _one_less(self, batch: "_Batch") -> None:
        batch.open -= 1
        if not batch.open and batch.answers and not self._gone:
            self._send((b"[", b",".join(batch.answers), b"]\n"))

    async def finish(self, grace: float) -> None:
        """Let what is being served come to its end, for so many seconds at most."""
        if self._serving:
            self._all_served = self._loop.create_future()
            await asyncio.wait((self._all_served,), timeout=grace)

    async def refuse_the_rest(self, reason: str) -> None:
        """Stop whatever is still being served, and answer it with an error."""
        self._refusal = wire.error(raw_json.INTERNAL_ERROR, reason)
        for serving in [*self._serving.values()]:
            serving.cancel()
        if self._serving:
            self._all_served = self._loop.create_future()
            await self._all_served


class _Batch:
    """The answers to one batch, and how much of it is open: its requests, and one for the taking in of it."""

    __slots__ = ("answers", "open")

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.open = 1
