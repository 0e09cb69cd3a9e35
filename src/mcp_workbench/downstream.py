"""One downstream server, owned by one task from its start to the end of its last process.

Others wait for `ready()`, use `call()` and `request()`, or ask for another attempt; nobody else touches the
transport.
"""

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from . import lifecycle, offers, raw_json, upwards, uris, wire
from .bulkhead import innermost, to_the_end
from .client import Client
from .config import Server
from .eras import Hello
from .errors import (
    CallError,
    CallInterrupted,
    CallRejected,
    NotFound,
    NotReadOnly,
    ServerBusy,
    ServerUnavailable,
)
from .events import log
from .immediate import Outcome
from .introduction import UNHURRIED, Listings, introduce, list_offers
from .knowledge import Admitted, Knowledge
from .lifecycle import RestartPolicy
from .link import CannotConnect, Connect, Link
from .naming import Origin, nearest
from .offers import TOOLS, Kind, Listing, Offer, Offers
from .peer import Answering, Coming, Gone, Lost, OnProgress, Patience, Peer, TimedOut, Unreadable
from .questions import Questions
from .raw_json import Malformed, Payload
from .schemas.mending import Mender, mender_of
from .wire import Answer

MOST_WAITING: Final = 1024
MOST_UNSENT_BYTES: Final = 64 * 1024 * 1024
_NOTHING: Final[Mapping[str, Offer]] = {}
# Who merely logs on stdout has said less when it begins to serve; a flood has said so much in a moment.
MOST_NOISE_AT_START: Final = 10_000
_SHOWN_GARBAGE: Final = 3
_LONGEST_SHOWN: Final = 200


class Starting(msgspec.Struct, frozen=True):
    """On its way: connecting, shaking hands, listing."""


class Ready(msgspec.Struct, frozen=True):
    """Serving, with what it offers, of its tools those that the configuration admits."""

    peer: Peer
    hello: Hello
    offers: Offers
    left_out: tuple[str, ...]
    instructions: Payload  # JSON, as the server says it; `null` if it says nothing
    withheld: Mapping[str, str]  # why, by the names of tools that are not among its offers
    menders: dict[str, Mender]  # of arguments, by the names of tools that were called
    approved: object  # which approvals this goes by


class Down(msgspec.Struct, frozen=True):
    """Not there; `next_attempt` is when it will be tried again, None if only when asked for."""

    reason: str
    next_attempt: float | None = None


State = Starting | Ready | Down


def tool_not_found(name: str, origin: Origin, tools: Collection[str]) -> NotFound:
    what = f"Tool '{name}' not found in server '{origin.server}' (toolbox '{origin.toolbox}')"
    return NotFound(what, nearest(name, tools))


class Downstream:
    def __init__(
        self,
        server: Server,
        toolbox: str,
        connect: Connect,
        restart: RestartPolicy,
        client: Client,
        knowledge: Knowledge,
    ) -> None:
        self.name = server.name
        self.toolbox = toolbox
        self.origin = Origin(toolbox, server.name)
        self.state: State = Starting()
        self.offered: Offers = {}  # what clients may count on: also while it is being restarted
        self.expected: Admitted | None = None  # what it offered the last time, while it starts
        self._has_failed = False  # since it last served: what it is like now has to be seen
        self.noise = 0
        self._server = server
        self._connect = connect
        self._restart = restart
        self._client = client
        self._knowledge = knowledge
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._peer: Peer | None = None
        self._crashes: list[float] = []
        self._has_served = False  # in any of its lives
        self._delay = 0.0  # before the present life
        self._watching: dict[Outcome[None], None] = {}  # who waits for the next change of state, in order
        self._asked_again = asyncio.Event()
        self._stirred = asyncio.Event()  # the link is gone, or what it offers has changed
        self._changed: set[Kind] = set()  # kinds of offers that are to be listed anew
        self._stale: set[Kind] = set()  # kinds whose last list is older than their last change
        self._retried: set[Kind] = set()  # kinds that could not be listed, and are tried again for an opening
        self._hurried = asyncio.Event()  # somebody waits for the next listing
        self._listings: dict[Kind, Listing] = {}
        # Listings of its tools that were begun; the last of them that ended, and the last that succeeded.
        self._begun = self._ended = self._listed = 0
        self._subscriptions: dict[str, str] = {}  # its URIs, and how the client knows them
        self._in_flight = 0  # requests of the client's
        self._questions = Questions()  # of the server's, asked for the sake of these
        self._untold: set[str] = set()  # what it is to be told of when it serves
        self._early: list[bytes] = []  # what it said before anything was asked
        self._garbage: list[str] = []
        self._noise_in_life = 0
        self._last_words = ""
        self._retired_because = ""
        self._call_patience = _patience(server.call_timeout)
        self._patience = _patience(server.request_timeout)  # with all else

    def __repr__(self) -> str:
        return f"<{self} {type(self.state).__name__.lower()}, {self.noise} lines of noise>"

    def __str__(self) -> str:
        return str(self.origin)

    # For others -----------------------------------------------------------------------------------

    def call(
        self,
        tool: str,
        arguments: Payload,
        meta: dict[str, Payload],
        on_progress: OnProgress | None,
        *,
        read_only: bool = False,
    ) -> Coming:
        """Call a tool; the answer is the server's own, be it a result or an error.

        With `read_only` only one that is known to change nothing is called. Without a coroutine where the
        server serves already: this is the way of nearly every call.
        """
        ready = self._serving()
        if ready and self._knowledge.approvals:
            ready = self._judged_anew(ready)
        if ready and not self._may_be_outdated(ready, tool, read_only):
            return self._call(ready, tool, arguments, meta, on_progress, read_only)
        return self._call_later(tool, arguments, meta, on_progress, read_only)

    def _judged_anew(self, ready: Ready) -> Ready:
        """By the approvals as they are now: something may have been approved meanwhile, or withdrawn."""
        if ready.approved == self._knowledge.approved:
            return ready
        judged = self._ready(ready.peer, ready.hello)
        self._become(judged)
        return judged

    def _may_be_outdated(self, ready: Ready, tool: str, read_only: bool) -> bool:
        """Whether the answer about a tool could be another once the server is listed anew, as is due."""
        if TOOLS not in self._stale:
            return False
        return read_only or tool not in ready.offers[TOOLS] or bool(self._knowledge.approvals)

    async def _call_later(
        self,
        tool: str,
        arguments: Payload,
        meta: dict[str, Payload],
        on_progress: OnProgress | None,
        read_only: bool,
    ) -> Answer:
        """Once it serves, and is listed anew where that is due."""
        ready = await self.ready()
        while self._may_be_outdated(ready, tool, read_only):
            is_known = await self._listed_anew()
            before, ready = ready, await self.ready()
            if ready.peer is not before.peer:
                continue  # it was started again
            if not is_known and self._knowledge.approvals:
                raise CallError(
                    f"Tool '{tool}' in server '{self.name}' (toolbox '{self.toolbox}') is withheld: "
                    "the server says that its tools have changed, and could not list them; nothing was sent"
                )
            break
        return await self._call(ready, tool, arguments, meta, on_progress, read_only)

    def _call(
        self,
        ready: Ready,
        tool: str,
        arguments: Payload,
        meta: dict[str, Payload],
        on_progress: OnProgress | None,
        read_only: bool,
    ) -> Outcome[Answer]:
        offer = ready.offers[TOOLS].get(tool)
        if not offer:
            if why := ready.withheld.get(tool):
                raise CallError(why)
            raise tool_not_found(tool, self.origin, ready.offers[TOOLS])
        if read_only:
            says_so = offers.says_read_only(offer) and TOOLS not in self._stale
            if not (says_so and self._server.trust_annotations):
                raise NotReadOnly(tool, self.name, self.toolbox, claimed=says_so)
        mender = ready.menders.get(tool) or ready.menders.setdefault(tool, mender_of(offer.definition))
        arguments = mender.mended(arguments)
        token = self._token_in(meta, ready.peer) if on_progress else b""
        ending = b',"_meta":%b}' % raw_json.object_of(meta.items()) if meta else b"}"
        params = (b'{"name":%b,"arguments":' % raw_json.encoded(tool), arguments, ending)
        return self._ask(ready.peer, "tools/call", params, self._call_patience, token, on_progress)

    async def request(
        self,
        method: str,
        params: dict[str, Payload],
        meta: dict[str, Payload],
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Ask it for anything else; `params` with its own names for things, without `_meta`."""
        peer = (await self.ready()).peer
        token = self._token_in(meta, peer) if on_progress else b""
        if meta:
            params = {**params, "_meta": raw_json.object_of(meta.items())}
        asked = (raw_json.object_of(params.items()),)
        return await self._ask(peer, method, asked, self._patience, token, on_progress)

    @staticmethod
    def _token_in(meta: dict[str, Payload], peer: Peer) -> bytes:
        """A progress token for a request, now in its `meta`."""
        token = meta["progressToken"] = peer.new_token()
        return token

    def _ask(
        self,
        peer: Peer,
        method: str,
        params: Sequence[Payload],
        patience: Patience,
        token: bytes,
        on_progress: OnProgress | None,
    ) -> Outcome[Answer]:
        self._refuse_if_busy(peer)
        self._in_flight += 1
        return peer.request(
            method, params, patience, token=token, on_progress=on_progress, finish=self._finished
        )

    def _finished(self, method: str, how: Answer | BaseException) -> Answer:
        """The end of a request of the client's: its answer as the client is to see it."""
        self._in_flight -= 1
        if not self._in_flight:
            self._questions.withdraw()
        if isinstance(how, Lost) and not how.done:
            raise CallRejected(self.name, self.toolbox, str(how))
        if isinstance(how, Gone):
            raise CallInterrupted(self.name, self.toolbox, str(how), self._last_words)
        if isinstance(how, TimedOut):
            raise CallInterrupted(self.name, self.toolbox, f"{how} and was told to stop")
        if isinstance(how, Unreadable):
            return wire.error(raw_json.INTERNAL_ERROR, f"The {self} answered with {how}")
        if isinstance(how, BaseException):
            raise how
        if how.member == "result" and not uris.may_stand_in(bytes(how.frame)):
            return how
        return self._as_seen(method, how)

    def _as_seen(self, method: str, answer: Answer) -> Answer:
        """The answer as the client is to see it: its own but for URIs that would lead elsewhere."""
        if answer.failed:
            body = upwards.failure(answer.body, self.origin)
        else:
            body = uris.in_payload(method, answer.body, self._client.shows(self.origin))
        return answer if body is answer.body else Answer(answer.member, body)

    def _refuse_if_busy(self, peer: Peer) -> None:
        if peer.waiting >= MOST_WAITING:
            raise ServerBusy(self.name, self.toolbox, f"{MOST_WAITING} calls wait for its answer already")
        if self._link and self._link.unsent() > MOST_UNSENT_BYTES:
            raise ServerBusy(self.name, self.toolbox, "it does not read what was sent to it")

    @property
    def installs(self) -> bool:
        """Whether its command may first have to fetch it."""
        return lifecycle.installs(self._server.command or "")

    @property
    def max_result_tokens(self) -> int | None:
        """From which size on its results are shown in part."""
        return self._server.max_result_tokens

    @property
    def is_starting(self) -> bool:
        return isinstance(self.state, Starting)

    def tool(self, name: str) -> Offer | None:
        """A tool that may be called, by its own name."""
        return self.offered.get(TOOLS, _NOTHING).get(name)

    @property
    def withheld(self) -> Mapping[str, str]:
        """Why, by the names of tools that are withheld."""
        known = self.state if isinstance(self.state, Ready) else self.expected
        return known.withheld if known else {}

    def expect(self, admitted: Admitted) -> None:
        """Until it serves, these count as its tools; not where it has failed since it was opened."""
        if self.is_starting and not self.offered and not self._has_failed:
            self.expected = admitted
            self.offered = {TOOLS: admitted.tools}
            self._become(self.state)

    async def ready(self) -> Ready:
        """The serving state; waits for one that is near, and says why where none is."""
        while not (ready := self._serving()):
            if isinstance(self.state, Down):
                self._refuse_if_far(self.state)
            await self._turn()
        return ready

    def _serving(self) -> Ready | None:
        # Gone, and its owner has not come to it yet: nothing that is sent now would be read.
        gone = self._link and self._link.gone.done()
        return self.state if isinstance(self.state, Ready) and not gone else None

    def _refuse_if_far(self, down: Down) -> None:
        if down.next_attempt is None:
            more = "opening the toolbox tries it again"
            raise ServerUnavailable(self.name, self.toolbox, _with(down.reason, more))
        seconds = down.next_attempt - self._loop.time()
        if seconds > lifecycle.RETRY_IS_NEAR:
            more = f"it is tried again in {seconds:.0f} s, or at once by opening the toolbox"
            raise ServerUnavailable(self.name, self.toolbox, _with(down.reason, more))

    async def settled(self) -> None:
        """Wait until it is known whether the server serves, and what it offers."""
        while (self.is_starting and not self.expected) or self._retried:
            await self._turn()

    async def _listed_anew(self) -> bool:
        """Wait for the listing that is due; whether the tools are known as they are now, or later.

        Not longer than can be expected of one.
        """
        # The one under way may have begun before the change: then there is a second one.
        due = self._begun + 1
        await asyncio.sleep(0)  # from here on in a task, which a time limit needs
        try:
            async with asyncio.timeout(lifecycle.LISTED_ANEW_WITHIN):
                while TOOLS in self._stale and self._ended < due and isinstance(self.state, Ready):
                    if self._begun == self._ended and TOOLS not in self._changed:
                        self._changed.add(TOOLS)  # the last one failed
                        self._stirred.set()
                    self._hurried.set()
                    await self._turn()
        except TimeoutError:
            pass
        return TOOLS not in self._stale or self._listed >= due

    async def _turn(self) -> None:
        """Wait for the next change of state."""
        turn: Outcome[None] = Outcome()
        self._watching[turn] = None
        try:
            await turn
        finally:
            del self._watching[turn]

    async def subscribe(
        self, uri: str, known_as: str | None, meta: dict[str, Payload], on_progress: OnProgress | None
    ) -> Answer:
        """Have the client told of changes of a resource by the URI that it knows; None for no more.

        It holds for the server's next lives, too.
        """
        method = "resources/subscribe" if known_as else "resources/unsubscribe"
        answer = await self.request(method, {"uri": raw_json.encoded(uri)}, meta, on_progress)
        if not known_as:
            self._subscriptions.pop(uri, None)
        elif not answer.failed:
            self._subscriptions[uri] = known_as
        return answer

    def set_log_level(self) -> None:
        """Tell it the level that the client wants to be told of, if it logs."""
        if isinstance(self.state, Ready):
            self._demand_log_level(self.state.peer, self.state.hello)

    def _demand_log_level(self, peer: Peer, hello: Hello) -> None:
        level = self._client.log_level
        if level and "logging" in hello.capabilities:
            self._demand(peer, "logging/setLevel", {"level": level})

    def _demand(self, peer: Peer, method: str, params: dict[str, str]) -> None:
        """Ask for what nobody waits for."""
        peer.request(method, (raw_json.encoded(params),), self._patience)

    def tell(self, method: str) -> None:
        if isinstance(self.state, Ready):
            self.state.peer.tell(method)
        else:
            self._untold.add(method)

    def try_again(self) -> None:
        """Ask for an attempt at once at what failed: to reach the server, or to list what it offers."""
        if isinstance(self.state, Down):
            # Before the owner gets to it, so that whoever asked can wait for the outcome.
            self._become(Starting())
            self._asked_again.set()
        elif ready := self._serving():
            if self._knowledge.approvals:
                self._judged_anew(ready)
            self._retried = {kind for kind, listing in self._listings.items() if listing.failure}
            if self._retried:
                self._changed |= self._retried
                self._stirred.set()
                self._hurried.set()

    def retire(self, reason: str) -> None:
        """Nothing of this server can be called from here on; its owner ends it. The first reason counts."""
        self._retired_because = self._retired_because or reason
        self._become(Down(self._retired_because))
        if self._peer:
            self._peer.close(self._retired_because)

    # The owner ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Own the server: connect, serve, restart; whatever happens here stays here."""
        try:
            while True:
                reason = await self._live()
                self._become(self._after(reason))
                await self._end_link()
                await self._rest()
        finally:
            self.retire("was closed")
            await self._end_link()

    async def _live(self) -> str:
        """One life of the server; why it ended."""
        self._asked_again.clear()
        self._stirred.clear()
        self._changed.clear()
        self._stale.clear()
        self._retried.clear()
        self._untold.clear()
        self._early.clear()
        self._garbage.clear()
        self._noise_in_life = 0
        self._last_words = ""
        self._become(Starting())
        try:
            began = self._loop.time()
            link, peer = await self._begin(began)
            hello, listings = await self._introduction(link, peer, began)
            self._has_served = True
            self._delay = 0.0
            self._listings = {**listings}
            self._learn(hello)
            self._restore(peer, hello)  # before anything is called, which those who wait do at once
            self._become(self._ready(peer, hello))
            return await self._attend(link, peer, hello)
        except CannotConnect as error:
            return str(error)
        except (Exception, BaseExceptionGroup) as error:  # the bulkhead: one server's trouble stays its own
            cause = innermost(error)
            if isinstance(cause, CannotConnect):
                return str(cause)
            log.exception("%s failed inside the workbench", self)
            return f"internal error of the workbench ({type(cause).__name__})"

    async def _begin(self, began: float) -> tuple[Link, Peer]:
        if why := self._knowledge.refusal(self.origin):
            raise CannotConnect(why)
        peer = self._peer = Peer(self._send, self)
        entry = self._server
        deadline = lifecycle.connect_deadline(
            began, None, installing=False, limit=entry.start_timeout, request=entry.request_timeout
        )
        try:
            async with asyncio.timeout_at(deadline) as within:
                link = self._link = await self._connect(self._hear, peer)
        except TimeoutError:
            if not within.expired():
                raise
            why = f"connection timeout after {deadline - began:g} s, before it was started"
            if entry.env_file:
                why += f": its envFile '{entry.env_file}' was still being read"
            raise CannotConnect(why) from None
        link.gone.add_done_callback(lambda gone: self._lost(link, peer, gone.result()))
        early, self._early = self._early, []
        for frame in early:
            self._hear(frame)
        return link, peer

    def _lost(self, link: Link, peer: Peer, reason: str) -> None:
        try:
            self._last_words = link.last_words()  # before `close`, which has the calls in flight answered
        finally:
            peer.close(reason)
            self._stirred.set()

    async def _introduction(self, link: Link, peer: Peer, began: float) -> tuple[Hello, Listings]:
        """Shake hands and list, while the deadline, which an installer's output moves, is not reached."""
        limit = self._server.request_timeout
        patience = Patience(quiet=limit, longest=limit) if limit else UNHURRIED
        introducing = asyncio.ensure_future(introduce(peer, self._client.declared, patience))
        try:
            while not introducing.done():
                deadline = lifecycle.connect_deadline(
                    began,
                    link.last_output,
                    installing=self.installs,
                    limit=self._server.start_timeout,
                    request=limit,
                )
                left = deadline - self._loop.time()
                if left <= 0:
                    strays = peer.unasked_since(began)
                    raise CannotConnect(f"connection timeout after {deadline - began:g} s{strays}")
                await asyncio.wait((introducing,), timeout=left)
            return introducing.result()
        except (Gone, CannotConnect) as error:
            why = str(error)
        except TimedOut as late:
            why = f"connection timeout: it {late}"
        except Malformed as error:
            why = f"it answered with what is not MCP: {error}"
        finally:
            introducing.cancel()
        await asyncio.sleep(0)  # what it said on its stderr before it answered may come right behind
        printed = "".join(f"\nIt printed, instead of MCP: {line}" for line in self._garbage)
        raise CannotConnect(f"{link.mask(why)}{printed}{link.last_words()}")

    def _ready(self, peer: Peer, hello: Hello) -> Ready:
        found = {kind: listing.offers for kind, listing in self._listings.items()}
        admitted = self._knowledge.admitted(self.origin, found[TOOLS], hello.instructions)
        failures = [
            told
            for kind, listing in self._listings.items()
            for told in (*self._left_out(kind, listing), listing.failure)
            if told
        ]
        left_out = (*map(self._masked, failures), *admitted.left_out)
        offers = {**found, TOOLS: admitted.tools}
        approved = self._knowledge.approved
        return Ready(peer, hello, offers, left_out, admitted.instructions, admitted.withheld, {}, approved)

    def _left_out(self, kind: Kind, listing: Listing) -> list[str]:
        # The names of tools that nobody could approve are a server's words like any others.
        is_quiet = kind is TOOLS and self._knowledge.approvals
        return listing.left_out_unnamed if is_quiet else listing.left_out

    def _learn(self, hello: Hello) -> None:
        """Have remembered what it has just listed."""
        tools = self._listings[TOOLS].offers
        self._knowledge.learn(self.origin, tools, hello.instructions, hello.protocolVersion)
        for pattern in self._server.idle_patterns(tools):
            log.warning("%s: its filter '%s' matches none of its tools", self, pattern)

    def _restore(self, peer: Peer, hello: Hello) -> None:
        """What the client asked for before, be it in an earlier life of the server."""
        for method in self._untold:
            peer.tell(method)
        self._demand_log_level(peer, hello)
        for uri in self._subscriptions:
            self._demand(peer, "resources/subscribe", {"uri": uri})

    async def _attend(self, link: Link, peer: Peer, hello: Hello) -> str:
        """Wait for the end of the server; meanwhile list anew what has changed, at most once a second."""
        while not link.gone.done():
            await self._stirred.wait()
            self._stirred.clear()
            if link.gone.done():
                break
            changed, self._changed = self._changed, set()
            self._begun += TOOLS in changed
            try:
                async with asyncio.timeout(self._patience.quiet):
                    self._take(await list_offers(peer, hello, changed))
                if TOOLS in changed:
                    self._listed = self._begun
                    self._learn(hello)
            except (Gone, CannotConnect, Malformed, TimeoutError) as error:
                self._keep(TOOLS, str(error) or f"it did not list within {self._patience.quiet:g} s")
            self._ended = self._begun
            self._retried -= changed
            if not link.gone.done():
                self._become(self._ready(peer, hello))
                await self._pause(link)
        # Its callbacks run in the order in which they were added: after this wait `_lost` has run.
        await asyncio.wait((link.gone,))
        return f"{link.gone.result()}{self._last_words}"

    async def _pause(self, link: Link) -> None:
        """At most one listing a second, unless somebody waits for the next."""
        hurried = asyncio.ensure_future(self._hurried.wait())
        try:
            await asyncio.wait(
                (link.gone, hurried),
                timeout=lifecycle.BETWEEN_LISTINGS,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            hurried.cancel()
            self._hurried.clear()

    def _take(self, listings: Listings) -> None:
        """Put new lists in the place of the old ones, except where listing failed."""
        for kind, listing in listings.items():
            if listing.failure:
                self._keep(kind, listing.failure)
            else:
                self._listings[kind] = listing
                if kind not in self._changed:  # meanwhile, once more
                    self._stale.discard(kind)

    def _keep(self, kind: Kind, why: str) -> None:
        log.warning("%s keeps its old %ss: %s", self, kind.noun, self._masked(why))

    def _after(self, reason: str) -> Down:
        """What follows on the end of one life."""
        if not self._has_served:
            log.warning("%s", ServerUnavailable(self.name, self.toolbox, reason))
            return Down(reason)
        now = self._loop.time()
        self._crashes = [at for at in self._crashes if now - at <= self._restart.within] + [now]
        self._delay = self._restart.delay(self._crashes, now, os.urandom(1)[0] / 256, self._delay)
        when = f"in {self._delay:.1f} s" if self._delay >= 0.1 else "at once"
        log.warning("%s %s", self, _with(reason, f"it is started again {when}"))
        return Down(reason, now + self._delay)

    async def _rest(self) -> None:
        """Until the next attempt is due or asked for."""
        due = self.state.next_attempt if isinstance(self.state, Down) else None
        try:
            async with asyncio.timeout_at(due):
                await self._asked_again.wait()
        except TimeoutError:
            pass

    async def _end_link(self) -> None:
        link, self._link = self._link, None
        if link:
            try:
                await to_the_end(link.end())
            except (Exception, BaseExceptionGroup):  # the bulkhead, too
                log.exception("%s could not be ended", self)

    def _become(self, state: State) -> None:
        self.state = state
        if not isinstance(state, Starting):
            self.expected = None
        if isinstance(state, Ready):
            self._has_failed = False
            self.offered = state.offers
        else:
            self._has_failed = self._has_failed or isinstance(state, Down)
            self._retried.clear()
        if isinstance(state, Down) and state.next_attempt is None:
            self.offered = {}
        self._client.offers_changed()
        for turn in [*self._watching]:
            turn.settle(None)

    # What the server says -------------------------------------------------------------------------

    def _send(self, parts: Sequence[Payload]) -> None:
        if self._link:
            self._link.send(parts)

    def _hear(self, frame: bytes) -> None:
        if not self._link:
            self._early.append(frame)
        elif self._peer and not frame.isspace():
            self._peer.receive(wire.repaired(frame))

    def answer(self, method: str, params: Payload) -> Answering:
        if method == "ping":
            return wire.result(b"{}")
        if method not in upwards.ASKED or not self._peer:
            return wire.error(raw_json.METHOD_NOT_FOUND, f"Method not found: {method}")
        asking = self._client.ask(method, params, self.origin, self._peer)
        if self._in_flight and method in upwards.ASKED_FOR_A_REQUEST:
            return self._questions.ask(asking)
        return asking

    def failure(self, method: str, error: BaseException) -> Answer | None:
        if isinstance(error, Malformed):
            return wire.error(raw_json.INVALID_PARAMS, f"Invalid {method}: {error}")
        return None

    def told(self, method: str, params: Payload) -> None:
        # Counts while it starts, too: what was listed then may be old already.
        if kinds := offers.CHANGED.get(method):
            self._changed.update(kinds)
            self._stale.update(kinds)
            self._stirred.set()
        elif method == upwards.UPDATED:
            self._client.updated(params, self.origin, self._subscriptions)
        else:
            self._client.tell(method, params, self.origin)

    def garbled(self, frame: Payload, why: Malformed) -> None:
        """Noise on the server's stdout."""
        self.noise += 1
        self._noise_in_life += 1
        if len(self._garbage) < _SHOWN_GARBAGE:
            frame = bytes(frame)
            self._garbage.append(self._masked(frame.decode(errors="replace"))[:_LONGEST_SHOWN])
            log.warning("%s printed on its stdout what is not MCP: %s", self, self._garbage[-1])
        if self._noise_in_life == MOST_NOISE_AT_START and self._peer and isinstance(self.state, Starting):
            self._peer.close(f"printed {MOST_NOISE_AT_START:,} lines before it served")

    def _masked(self, text: str) -> str:
        """What the server said, fit to be shown outside of an answer of its own."""
        return self._link.mask(text) if self._link else text


def _patience(limit: float | None) -> Patience:
    """Of a request that may take so long; None: as long as is usual."""
    limit = limit or lifecycle.CALL_WITHIN
    return Patience(quiet=limit, longest=max(limit, lifecycle.CALL_AT_MOST))


def _with(reason: str, more: str) -> str:
    """More about why a server is down, before what it said itself."""
    first, line_end, said = reason.partition("\n")
    return f"{first}; {more}{line_end}{said}"
