"""Exchanges with one server over HTTP: what is sent where, which redirects are followed, what went wrong.

Headers of the server's entry go to its own origin and nowhere else.
"""

import asyncio
import functools
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from msgspec import UNSET

from .. import __version__, expansion, wire
from ..bulkhead import innermost
from ..link import CannotConnect
from ..peer import Lost
from ..raw_json import Malformed, Payload
from ..wire import LONGEST_LINE
from .targets import Forbidden, PublicTransport

_CONNECT_WITHIN: Final = 10.0
_ATTEMPTS: Final = 3
_BETWEEN_ATTEMPTS: Final = 0.2  # doubled for each, times a jitter
_MOST_REDIRECTS: Final = 5
# Node and uvicorn close what was idle for 5 s. A connection that is closed just as a call goes out can't be
# told from one that broke while the call was carried out.
_LIMITS: Final = httpx2.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=4.0)
_TIMEOUT: Final = httpx2.Timeout(None, connect=_CONNECT_WITHIN)
_NEEDS_AUTH: Final = (401, 403)
_LONGEST_ERROR: Final = 64 * 1024
_ERRORS_WITHIN: Final = 1.0
_SHOWN_CHARACTERS: Final = 300
_LONGEST_PHRASE: Final = 100
_SHORTEST_TOKEN: Final = 8

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE: Final = r"[^\x00-\x08\x0a-\x1f\x7f]*"
# How a message is framed is ours to say.
_RESERVED: Final = ("connection", "content-length", "transfer-encoding", "upgrade")
_PRECISELY_REPEATED: Final = (307, 308)
_REDIRECTS: Final = (301, 302, 303, *_PRECISELY_REPEATED)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Body(httpx2.AsyncByteStream):
    """What is sent with a request; how much of it the server has can't be told while that is under way."""

    def __init__(self, data: Payload = b"") -> None:
        self.data = bytes(data)
        self.begun = False
        self.sent = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        if self.data:
            yield self.data
        self.sent = True


class Web:
    def __init__(
        self, url: str, headers: Mapping[str, str], secrets: Sequence[str], *, private_networks: bool
    ) -> None:
        self.url = _usable_url(url)
        self._headers = {
            "user-agent": f"mcp-workbench/{__version__}",
            # What is sent packed may be any size unpacked.
            "accept-encoding": "identity",
            **_usable_headers(headers),
        }
        self._secrets = (*secrets, *_secrets_in(headers), self.url.password)
        # A redirect leads to the same scheme: what is not asked for over TLS never comes to need it.
        tls = _tls() if self.url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            self._client = httpx2.AsyncClient(
                verify=tls,
                limits=_LIMITS,
                timeout=_TIMEOUT,
                # A proxy resolves names itself: nobody would have looked at where they lead.
                transport=None if private_networks else PublicTransport(tls, _LIMITS),
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:
            raise CannotConnect(f"the proxy that the environment names cannot be used: {error}") from None

    def __str__(self) -> str:
        return self.mask(_shown(self.url.join("/")))

    def mask(self, text: str) -> str:
        return expansion.mask(text, self._secrets)

    def inside(self, address: str) -> httpx2.URL:
        """An address that the server gave; raises `Lost` where it is not the server's own."""
        try:
            url = self.url.join(address)
        except httpx2.InvalidURL:
            raise Lost("gave an address that is none", done=False) from None
        if _origin(url) != _origin(self.url):
            raise Lost(f"leads to another origin, {_shown(url)}", done=False)
        return url

    @asynccontextmanager
    async def exchange(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: Body | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """The response to a request, its body still to be read. Raises `Lost` with what went wrong."""
        body = body or Body()
        for _ in range(_MOST_REDIRECTS + 1):
            response = await self._response(method, url, headers, body)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                break
            await response.aclose()
            url = self._redirected(method, url, response.status_code, location)
            body.begun = body.sent = False  # it was not for whom it came to
        else:
            raise Lost("redirects in a circle", done=False)
        try:
            yield response
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise self._explained(error, done=True) from None
        finally:
            await response.aclose()

    async def _response(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: Body
    ) -> httpx2.Response:
        sent = {"host": url.netloc.decode("ascii"), **self._headers, **headers}
        if method == "POST":
            sent["content-length"] = str(len(body.data))
        raw = [(name.encode(), value.encode(errors="surrogateescape")) for name, value in sent.items()]
        for attempt in range(_ATTEMPTS):
            request = httpx2.Request(
                method,
                url,
                headers=raw,
                cookies=self._client.cookies,
                stream=body,
                extensions={"timeout": _TIMEOUT.as_dict()},
            )
            try:
                return await self._client.send(request, stream=True)
            except httpx2.ConnectError as error:
                if attempt + 1 == _ATTEMPTS or isinstance(_bottom(error), Forbidden | ssl.SSLError):
                    raise self._explained(error, done=False) from None
            except (httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.LocalProtocolError) as error:
                raise self._explained(error, done=False) from None
            except httpx2.HTTPError as error:
                raise self._explained(error, done=True) from None
            # Nothing was sent yet, so that this can be tried again.
            await asyncio.sleep(_BETWEEN_ATTEMPTS * 2**attempt * os.urandom(1)[0] / 256)
        raise AssertionError

    def _redirected(self, method: str, url: httpx2.URL, status: int, location: str) -> httpx2.URL:
        try:
            target = url.join(location)
        except httpx2.InvalidURL:
            raise Lost(f"redirects to what is no address (HTTP {status})", done=False) from None
        where = _shown(target)
        if _origin(target) != _origin(self.url):
            raise Lost(
                f"redirects to another origin, {where}: if that is right, write it as its url", done=False
            )
        if method != "GET" and status not in _PRECISELY_REPEATED:
            raise Lost(f"redirects to another page (HTTP {status}, {where})", done=False)
        return target

    def _explained(self, error: Exception, *, done: bool) -> Lost:
        why = reason(error)
        if isinstance(error, httpx2.ConnectTimeout):
            return Lost(f"cannot be reached: no connection within {_CONNECT_WITHIN:g} s", done=False)
        if isinstance(error, httpx2.ConnectError):
            return Lost(f"cannot be reached: {why}", done=False)
        if isinstance(error, httpx2.ProxyError):
            return Lost(f"cannot be reached through the proxy: {why}", done=False)
        if isinstance(error, httpx2.LocalProtocolError):
            return Lost(f"cannot be asked: {why}", done=done)
        if isinstance(error, httpx2.RemoteProtocolError):
            return Lost(f"broke the connection off or the rules of HTTP ({why})", done=done)
        return Lost(f"broke the connection off ({why})", done=done)

    def refusal(self, response: httpx2.Response, body: bytes) -> Lost:
        """What a response with an error's status says, whose body begins so."""
        status = response.status_code
        told = f"HTTP {status} {response.reason_phrase[:_LONGEST_PHRASE]}".strip()
        if status == 401:
            return Lost(
                f"needs_auth: it answered {told}; set what it asks for in the `headers` of its entry",
                done=False,
            )
        if status == 403:
            return Lost(
                f"needs_auth: it answered {told}; what the `headers` of its entry have is not enough",
                done=False,
            )
        said = _words_in(response, body)
        return Lost(f"answered {told}{': ' if said else ''}{said}", done=status >= 500)

    async def close(self) -> None:
        await self._client.aclose()


async def whole(chunks: AsyncIterator[bytes]) -> bytes:
    """A body, as one line. Raises `Lost` where it is too long."""
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > LONGEST_LINE:
            raise too_long()
    return as_line(bytes(data))


async def beginning(response: httpx2.Response) -> bytes:
    """How the body of a response begins that is not an answer; nobody waits long for it."""
    data = b""
    try:
        async with asyncio.timeout(_ERRORS_WITHIN):
            async for chunk in response.aiter_bytes():
                data += chunk[:_LONGEST_ERROR]
                if len(data) >= _LONGEST_ERROR:
                    break
    except (TimeoutError, httpx2.HTTPError):
        pass
    return data


async def drained(response: httpx2.Response) -> None:
    """Read what little comes for a message that was taken, so that the connection can be used again."""
    await beginning(response)


def answers_as_error(response: httpx2.Response, body: bytes, key: bytes) -> bool:
    """Whether this is the answer to a request, an error of JSON-RPC, as some have it beside HTTP's own."""
    if response.status_code in _NEEDS_AUTH or b'"error"' not in body:
        return False
    try:
        message = wire.read_envelope(body)
    except Malformed:
        return False
    return message.error is not UNSET and message.id is not UNSET and bytes(message.id) == key


def as_line(message: bytes) -> bytes:
    """JSON without the ends of lines that are allowed between its tokens."""
    if b"\n" in message or b"\r" in message:
        return message.replace(b"\n", b" ").replace(b"\r", b" ")
    return message


def too_long() -> Lost:
    return Lost(f"sent an answer longer than {LONGEST_LINE >> 20} MiB", done=True)


def reason(error: BaseException) -> str:
    """What is at the bottom of an error of the library's, in words."""
    error = _bottom(error)
    told = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return told[:_SHOWN_CHARACTERS] or type(error).__name__


def _bottom(error: BaseException) -> BaseException:
    below: BaseException | None = error
    while below:
        error = innermost(below)
        first = error.args[0] if error.args else None  # where its lower layer keeps what it translates
        below = error.__cause__ or (first if isinstance(first, BaseException) else None)
    return error


@functools.cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


def _words_in(response: httpx2.Response, body: bytes) -> str:
    text = body.decode(errors="replace")
    if "html" in response.headers.get("content-type", ""):
        text = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    return " ".join(text.split())[:_SHOWN_CHARACTERS]


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme)


def _shown(url: httpx2.URL) -> str:
    """Without what may be secret in it."""
    return f"{url.scheme}://{url.host}{f':{url.port}' if url.port else ''}{url.path}"


def _usable_url(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text.strip())
    except httpx2.InvalidURL:
        raise CannotConnect("its url is none") from None
    if url.scheme not in _DEFAULT_PORTS or not url.host:
        raise CannotConnect("its url does not begin with http:// or https:// and a host")
    return url


def _usable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    seen: dict[str, str] = {}
    for name, value in headers.items():
        if not re.fullmatch(_TOKEN, name) or name.lower() in _RESERVED:
            raise CannotConnect(f"its header {name!r} cannot be sent: that is no name for one")
        if not re.fullmatch(_VALUE, value):
            raise CannotConnect(f"its header '{name}' cannot be sent: no line break or the like may be in it")
        if name.lower() in seen:
            raise CannotConnect(f"its header '{name}' is there twice")
        seen[name.lower()] = value
    return seen


def _secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The values, and what of them stands behind `Bearer`."""
    parts = (part.strip() for value in headers.values() for part in (value, value.rpartition(" ")[2]))
    return [part for part in parts if len(part) >= _SHORTEST_TOKEN]
