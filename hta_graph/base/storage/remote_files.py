"""Files on the network: S3, Google Cloud Storage and web servers.

Their URLs are parsed, and shown without what is secret in them; requests are tried again where that may help, and fail
with cause and remedy; files are listed, asked for and read with as few requests as possible. An open file is read in
parts that grow, so that its beginning costs little.
"""

from __future__ import annotations

import errno
import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import SEEK_CUR, SEEK_END, BufferedReader, RawIOBase
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hta_graph.base.errors import HtaGraphError, LocationError, MissingExtraError

T = TypeVar("T")


# -- URLs --------------------------------------------------------------------------------------------------------------

URL_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
HTTP = ("http", "https")
OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
KNOWN = ("s3", "gs", *HTTP, "memory")
LOCAL = ("file", "local")
USER = re.compile(r"(?<=://)[^/?#@\s]+@")
QUERY = re.compile(r"(://[^\s?'\"<>]*)\?[^\s'\"<>)]+")


@dataclass(frozen=True)
class Url:
    """A file or folder on the network: ``key`` is its bucket or server, and its name there.

    ``query`` and ``user`` may be secret: they are sent, and never shown.
    """

    scheme: str
    key: str
    query: str = ""
    user: str = ""

    @cached_property
    def text(self) -> str:
        """All of it, for who opens it."""
        return f"{self.scheme}://{self.user}{self.key}{self.query}"

    @cached_property
    def shown(self) -> str:
        """What people may see of it."""
        return f"{self.scheme}://{self.key}{'?…' if self.query else ''}"

    @property
    def identity(self) -> str:
        """What it is, however it is written: two that differ in this are two files."""
        return f"{self.scheme}://{self.key.rstrip('/')}"

    @property
    def name(self) -> str:
        """The last part of its name; that of a bucket or server is its own."""
        return self.key.rstrip("/").rpartition("/")[2]

    @property
    def is_bucket(self) -> bool:
        """Whether nothing but the bucket or server is named."""
        return "/" not in self.key.strip("/")

    @property
    def parent(self) -> Url:
        """The folder in which it is; a bucket's is itself."""
        inside = self.key.rstrip("/")
        return self if self.is_bucket else Url(self.scheme, inside.rpartition("/")[0], user=self.user)

    def child(self, name: str) -> Url:
        """Return what has this name in it."""
        return Url(self.scheme, f"{self.key.rstrip('/')}/{name.lstrip('/')}", user=self.user)


def parse_url(text: str) -> Url | None:
    """Read a URL; ``None`` is a name of a local file, also of one whose name has a URL in it.

    >>> parse_url("s3a://bucket/run/rank0.json.gz").shown
    's3://bucket/run/rank0.json.gz'
    >>> parse_url("https://me:secret@host/rank0.json?X-Amz-Signature=1").shown
    'https://host/rank0.json?…'
    >>> parse_url("./s3://bucket/key"), parse_url("file:///tmp/t.json")
    (None, None)

    Raises:
        LocationError: nothing is read from such URLs, or it names no file.
    """
    match = URL_PATTERN.fullmatch(text)
    if not match or match[1].lower() in LOCAL:
        return None
    scheme = OTHER_NAMES.get(match[1].lower(), match[1].lower())
    shown = without_secrets(text)
    if scheme not in KNOWN:
        kinds = ", ".join(f"{kind}://" for kind in (*KNOWN[:-1], "file"))
        remedy = f"use one of {kinds}; to name a local file, write ./{shown}"
        raise LocationError(f"{shown}: this kind of URL is not supported", remedy)
    return _http_url(scheme, text) if scheme in HTTP else _store_url(scheme, match[2], shown)


def _http_url(scheme: str, text: str) -> Url:
    try:
        parts = urlsplit(text)
        user, at, host = parts.netloc.rpartition("@")
    except ValueError:
        host = ""
    if not host:
        raise LocationError(f"{without_secrets(text)}: names no server", f"write {scheme}://SERVER/FILE")
    return Url(scheme, host + parts.path, f"?{parts.query}" if parts.query else "", user + at)


def _store_url(scheme: str, key: str, shown: str) -> Url:
    # Stores take no password in a URL: it would be sent as a bucket's name.
    if "@" in key.partition("/")[0]:
        raise LocationError(
            f"{shown}: credentials in this kind of URL are ignored", "set them in the environment or a file"
        )
    if scheme == "memory":
        key = key.lstrip("/")
    if not key.strip("/") or key.startswith("/"):
        raise LocationError(f"{shown}: names no bucket", f"write {scheme}://BUCKET/NAME")
    return Url(scheme, key)


def without_secrets(text: str) -> str:
    """Hide passwords and queries of the URLs in a text.

    >>> without_secrets("GET https://me:pw@host/a?X-Amz-Signature=12 failed")
    'GET https://host/a?… failed'
    """
    return QUERY.sub(r"\1?…", USER.sub("", text))


# -- errors and retries ------------------------------------------------------------------------------------------------

PAUSES_S = (0.2, 1.0)
"""How long is waited before each further try of what may work the next time."""


class RemoteError(OSError):
    """A file on the network cannot be read or written; ``strerror`` is the cause and the remedy."""

    def __init__(self, address: Url, cause: str, remedy: str = "") -> None:
        super().__init__(errno.EIO, f"{cause}; {remedy}" if remedy else cause, address.shown)


class ShortBodyError(OSError):
    """Fewer bytes came than were announced."""


class ChangedFileError(OSError):
    """A file is not what it was when it was first looked at."""


@dataclass(frozen=True)
class _Cause:
    text: str
    remedy: str
    again: bool = False
    """Whether the next try may work."""


CREDENTIALS = {
    "s3": "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket, FSSPEC_S3_ANON=true",
    "gs": "log in with gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS",
}
ENDPOINTS = {"s3": "check the network and AWS_ENDPOINT_URL", "gs": "check the network and STORAGE_EMULATOR_HOST"}
NO_CREDENTIALS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError",
    "TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError", "ProfileNotFound", "RefreshError",
}  # fmt: skip
CERTIFICATES = {
    "SSLError", "SSLCertVerificationError", "ClientConnectorCertificateError", "ClientConnectorSSLError",
    "ClientSSLError",
}  # fmt: skip
UNREACHABLE = {
    "EndpointConnectionError", "ClientConnectorError", "ClientConnectorDNSError", "ConnectionRefusedError", "gaierror",
    "InvalidURL", "ConnectTimeoutError", "ConnectionTimeoutError", "ProxyConnectionError", "NoRegionError",
}  # fmt: skip
BROKEN_OFF = {
    "ClientPayloadError", "IncompleteRead", "IncompleteReadError", "ServerDisconnectedError", "ClientOSError",
    "ConnectionResetError", "ConnectionClosedError", "ResponseStreamingError", "ShortBodyError", "ContentLengthError",
}  # fmt: skip
SLOW = {"TimeoutError", "ReadTimeoutError", "ServerTimeoutError", "SocketTimeoutError"}
CHANGED = {"ChangedFileError", "FileExpired"}
NOT_ACCEPTED = {
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestTimeTooSkewed",
    "InvalidClientTokenId", "TokenRefreshRequired",
}  # fmt: skip
ANOTHER_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301"}
CHANGED_CODES = {"PreconditionFailed", "412"}


def with_retries(address: Url, ask: Callable[[], T]) -> T:
    """Return an answer of the network, at the third try if it comes to that.

    Raises:
        FileNotFoundError: there is no such file.
        RemoteError: anything else is wrong.
    """
    for pause in (*PAUSES_S, None):
        try:
            return ask()
        except (HtaGraphError, RemoteError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - each package has its own errors, of no common kind
            if is_missing(error):
                raise FileNotFoundError(errno.ENOENT, "no such file", address.shown) from None
            if isinstance(error, IsADirectoryError):
                raise IsADirectoryError(errno.EISDIR, "is a folder", address.shown) from None
            cause = _cause_of(address, error)
            if pause is None or not cause.again:
                raise RemoteError(address, cause.text, cause.remedy) from None
        sleep(pause)
    raise AssertionError


def is_missing(error: BaseException) -> bool:
    """Return whether a file is not there, where its bucket or server is."""
    codes, statuses = set(_codes(error)), set(_statuses(error))
    if "NoSuchBucket" in codes or statuses - {404, 410}:
        return False
    return bool(statuses) or (isinstance(error, FileNotFoundError) and not _names(error) & (UNREACHABLE | CERTIFICATES))


def _cause_of(address: Url, error: BaseException) -> _Cause:
    names, codes, statuses = _names(error), set(_codes(error)), set(_statuses(error))
    login = CREDENTIALS.get(address.scheme, "use credentials with access, or a new URL (this one may have expired)")
    if names & NO_CREDENTIALS:
        return _Cause("no credentials found", login)
    if names & CHANGED or codes & CHANGED_CODES:
        return _Cause("has changed since it was first read", "try again when it is no longer being written")
    if "NoSuchBucket" in codes:
        return _Cause("the bucket does not exist", "check its name, endpoint and project")
    if refused := codes & NOT_ACCEPTED:
        return _Cause(f"the credentials were rejected ({min(refused)})", login)
    if codes & ANOTHER_REGION:
        return _Cause("is in another region", "set AWS_DEFAULT_REGION to the bucket's region")
    if statuses & {401, 403} or isinstance(error, PermissionError):
        return _Cause("access is denied", login)
    return _cause_of_connection(address, error, names, statuses)


def _cause_of_connection(address: Url, error: BaseException, names: set[str], statuses: set[int]) -> _Cause:
    endpoint = ENDPOINTS.get(address.scheme, "check the server name and the network")
    if names & CERTIFICATES:
        trust = "AWS_CA_BUNDLE" if address.scheme == "s3" else "SSL_CERT_FILE"
        return _Cause(
            "the server's certificate was rejected", f"check the URL, or set {trust} to the signing authority"
        )
    if names & UNREACHABLE:
        return _Cause("the server cannot be reached", endpoint)
    if names & SLOW:
        return _Cause("the server did not answer in time", endpoint, again=True)
    if names & BROKEN_OFF or isinstance(error, ConnectionError):
        return _Cause("the transfer was interrupted", "try again", again=True)
    if statuses:
        status = max(statuses)
        return _Cause(
            f"the server answered with HTTP {status}", "try again later", again=status >= 500 or status == 429
        )
    text = getattr(error, "strerror", None) or str(error)
    return _Cause(f"{type(error).__name__}: {without_secrets(str(text).replace(address.text, address.shown))}", "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for found in _chain(error) for kind in type(found).__mro__}


def _codes(error: BaseException) -> Iterator[str]:
    """Yield what S3 calls the error."""
    for found in _chain(error):
        response: Any = getattr(found, "response", None)
        if isinstance(response, dict):
            yield str(response.get("Error", {}).get("Code", ""))


def _statuses(error: BaseException) -> Iterator[int]:
    """Yield the HTTP status with which a web server or Google refused."""
    for found in _chain(error):
        response: Any = getattr(found, "response", None)
        if isinstance(response, dict):
            yield from _status(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
        yield from _status(getattr(found, "status" if hasattr(found, "status") else "code", None))


def _status(value: object) -> Iterator[int]:
    if isinstance(value, int) and 400 <= value < 600:
        yield value


def check_writable(address: Url) -> None:
    """Refuse what files can only be read from.

    Raises:
        LocationError: it is on a web server.
    """
    if address.scheme in HTTP:
        raise LocationError(f"{address.shown}: web servers are read-only", "write to a file, s3:// or gs://")


# -- files -------------------------------------------------------------------------------------------------------------

EXTRAS = {"s3": "s3", "gs": "gs", "http": "http", "https": "http", "memory": "http"}
CONNECT_S, SILENCE_S = 20, 60
"""How long a web server may take to answer at all, and between two pieces."""
FRESH_S = 5
"""For how long what a folder holds is not asked again: a command looks at its inputs several times."""

_cache: dict[tuple[str, str], tuple[float, Any]] = {}


@dataclass(frozen=True)
class RemoteFacts:
    """What is known of a file or folder: its size if the server returns it, and what changes when its contents do."""

    size: int | None
    is_folder: bool
    version: str
    in_parts: bool = True
    """Whether parts of it can be asked for."""


@lru_cache(maxsize=8)
def file_system(scheme: str) -> Any:
    """Return what reads and writes URLs of this kind.

    Raises:
        MissingExtraError: the package for them is not installed.
    """
    from logging import NullHandler, getLogger  # late: commands on local files start without it

    # What a package has to say besides its errors is for programs that set up logging, not for the terminal.
    getLogger("gcsfs").addHandler(NullHandler())
    try:
        from fsspec import filesystem

        return filesystem(scheme, use_listings_cache=False, **_settings(scheme))
    except ImportError:
        raise MissingExtraError(f"a {scheme}:// URL", EXTRAS[scheme]) from None


def _settings(scheme: str) -> dict[str, Any]:
    if scheme not in HTTP:
        return {}
    from aiohttp import ClientTimeout

    # A whole file may take as long as it likes. What is packed is unpacked here, where its size is watched.
    waits = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    client = {"timeout": waits, "trust_env": True, "auto_decompress": False}
    return {"headers": {"Accept-Encoding": "identity"}, "client_kwargs": client}


def facts_of(address: Url, *, fresh: bool = False) -> RemoteFacts:
    """Ask what is there.

    Raises:
        FileNotFoundError: nothing is.
        RemoteError: it cannot be asked.
    """
    if fresh:
        _cache.pop(("facts", address.text), None)
    return _cached("facts", address, lambda: facts_in(_info(address)))


def _info(address: Url) -> dict[str, Any]:
    found: dict[str, Any] = file_system(address.scheme).info(_store_name(address))
    return found


def _store_name(address: Url) -> str:
    """Return what a file system calls it; a folder's name ends in no slash."""
    return address.text if address.scheme in HTTP else address.text.rstrip("/")


def facts_in(info: dict[str, Any]) -> RemoteFacts:
    """Return what a file system's entry says about a file."""
    size = info.get("size")
    told = [info.get(key) for key in ("ETag", "etag", "generation", "Last-Modified")]
    is_file = info.get("type") != "directory"
    is_partial = bool(info.get("partial", True)) and isinstance(size, int)
    return RemoteFacts(size if isinstance(size, int) else None, not is_file, f"{size} {told}", is_partial)


def list_folder(address: Url) -> list[tuple[Url, RemoteFacts]]:
    """List what a folder holds, by name, with what the listing has about each.

    Raises:
        FileNotFoundError: there is no such folder.
        RemoteError: it cannot be asked.
    """
    # Web servers list nothing: what looks like a list on a page of theirs may lead anywhere.
    if address.scheme in HTTP:
        return []
    return _cached("listed", address, lambda: _list_folder(address))


def _list_folder(address: Url) -> list[tuple[Url, RemoteFacts]]:
    entries = file_system(address.scheme).ls(_store_name(address), detail=True)
    found = {address.child(str(entry["name"]).rstrip("/").rpartition("/")[2]): facts_in(entry) for entry in entries}
    # Some stores keep an empty object of the folder's own name.
    own = address.child("")
    kept = [(child, facts) for child, facts in found.items() if child != own and child.name]
    return sorted(kept, key=lambda item: item[0].name)


def glob_files(address: Url) -> list[tuple[Url, RemoteFacts]]:
    """List the files whose names fit a pattern, with ``*``, ``?`` and ``[…]`` between slashes.

    Raises:
        RemoteError: it cannot be asked.
    """
    found = [(Url(address.scheme, address.key.split("/", 1)[0], user=address.user), None)]
    parts = address.key.rstrip("/").split("/")[1:]
    for at, part in enumerate(parts):
        if not any(mark in part for mark in "*?["):
            found = [(folder.child(part), None) for folder, _ in found]
            continue
        inside = [item for folder, _ in found for item in _list_or_nothing(folder)]
        fitting = [(child, facts) for child, facts in inside if fnmatch.fnmatchcase(child.name, part)]
        found = [item for item in fitting if at == len(parts) - 1 or item[1].is_folder]  # type: ignore[misc]
    return [(child, facts or facts_of(child)) for child, facts in found]


def _list_or_nothing(address: Url) -> list[tuple[Url, RemoteFacts]]:
    try:
        return list_folder(address)
    except FileNotFoundError:
        return []


def check_bucket(address: Url) -> None:
    """Refuse what cannot be written, as far as one can see without writing.

    Raises:
        LocationError: it is on a web server.
        RemoteError: the bucket does not exist, or no way to it.
    """
    check_writable(address)
    if address.scheme == "memory":
        return
    bucket = Url(address.scheme, address.key.split("/", 1)[0])
    try:
        with_retries(bucket, lambda: file_system(bucket.scheme).info(bucket.text))
    except FileNotFoundError:
        raise RemoteError(bucket, "the bucket does not exist", "make it first") from None
    except RemoteError as error:
        # Who may write need not be allowed to look.
        if "access is denied" not in str(error.strerror):
            raise


def _cached(what: str, address: Url, ask: Callable[[], T]) -> T:
    """Ask once in a while."""
    key = (what, address.text)
    known = _cache.get(key)
    if known and monotonic() - known[0] < FRESH_S:
        answer: T = known[1]
        return answer
    answer = with_retries(address, ask)
    _cache[key] = (monotonic(), answer)
    return answer


def clear_cache() -> None:
    """Ask everything anew: something has been written."""
    _cache.clear()


FIRST_PART = 1 << 17
LARGEST_PART = 1 << 23
BUFFER = 1 << 16
STORES = ("s3", "gs")


def open_remote(address: Url, known: RemoteFacts | None) -> BufferedReader:
    """Open a file for reading.

    Args:
        address: where it is.
        known: what was known of it when it was first looked at, if it was.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder.
        RemoteError: it cannot be read, or is not any more what it was.
    """
    file, now = _opened_with_facts(address)
    if now.is_folder:
        raise IsADirectoryError(errno.EISDIR, "is a folder", address.shown)
    try:
        with_retries(address, lambda: _refuse_change(known, now))
    except RemoteError:
        clear_cache()  # who asks again is told what is there now
        raise
    raw = _PartedFile(address, now, file) if now.in_parts else _StreamedFile(address)
    return BufferedReader(raw, BUFFER)


def open_listed(address: Url, known: RemoteFacts | None) -> BufferedReader:
    """Open a file to look at its beginning or end; what a listing returned about it is trusted.

    Raises:
        FileNotFoundError: there is no such file.
        RemoteError: it cannot be read.
    """
    if known is None or known.is_folder or not known.size or not known.in_parts or address.scheme != "s3":
        return open_remote(address, known)
    store = file_system(address.scheme)
    file = with_retries(address, lambda: store.open(address.text, "rb", cache_type="none", size=known.size))
    file.details = {"name": address.key, "size": known.size, "type": "file"}  # else it would ask for them
    return BufferedReader(_PartedFile(address, known, file), BUFFER)


def _opened_with_facts(address: Url) -> tuple[Any, RemoteFacts]:
    """Open a file for parts of it, and return what it is now; a store is asked that once, when it is opened."""
    store = file_system(address.scheme)
    settings: dict[str, Any] = {"cache_type": "none", "block_size": FIRST_PART}
    if address.scheme in STORES:
        file = with_retries(address, lambda: store.open(address.text, "rb", **settings))
        return file, facts_in(file.details)
    now = facts_of(address, fresh=True)
    if now.is_folder or not now.in_parts:
        return None, now
    if address.scheme in HTTP:
        settings["size"] = now.size
    return with_retries(address, lambda: store.open(address.text, "rb", **settings)), now


def _refuse_change(known: RemoteFacts | None, now: RemoteFacts) -> None:
    if known is not None and not known.is_folder and known.version != now.version:
        raise ChangedFileError


class _PartedFile(RawIOBase):
    """A file whose parts can be asked for; each is twice as long as the last one, as long as one follows the other."""

    def __init__(self, address: Url, facts: RemoteFacts, file: Any) -> None:
        self._file = file
        self._address = address
        self._facts = facts
        self._size = facts.size or 0
        self._at = self._begin = 0
        self._part = self._first = b""
        self._next = FIRST_PART
        self._parts = 0
        self._whole = _WholeFile(address)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {SEEK_CUR: self._at, SEEK_END: self._size}.get(whence, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size:
            return 0
        if not self._begin <= self._at < self._begin + len(self._part):
            self._fetch(len(buffer))
        piece = self._part[self._at - self._begin :][: len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _fetch(self, wanted: int) -> None:
        if self._at < len(self._first):
            self._begin, self._part = 0, self._first
            return
        follows = self._at == self._begin + len(self._part)
        # Whoever leaps to the end wants no more than that.
        size = self._next if follows else FIRST_PART
        self._next = min(2 * size, LARGEST_PART)
        end = min(self._at + max(size, min(wanted, LARGEST_PART)), self._size)
        self._begin, self._part = self._at, b""
        self._part = with_retries(self._address, lambda: self._fetched(end))
        self._parts += 1
        if not self._begin:
            self._first = self._part  # whoever looks at the end comes back to the beginning
        if end == self._size and self._parts > 1 and self._address.scheme != "s3":
            # S3 is asked for parts of the version that was opened; of others it is seen only afterwards.
            with_retries(self._address, lambda: _refuse_change(self._facts, facts_of(self._address, fresh=True)))

    def _fetched(self, end: int) -> bytes:
        self._file.seek(self._at)
        try:
            data: bytes = self._file.read(end - self._at)
        except ValueError:  # a web server that sends all of it, whatever part it is asked for
            if self._address.scheme not in HTTP:
                raise
            data = self._whole.read(self._at, end)
        if len(data) != end - self._at:
            raise ShortBodyError(f"{len(data)} of {end - self._at} bytes")
        return data

    def close(self) -> None:
        # What is in memory is one file for all who read it.
        if not self.closed and self._address.scheme != "memory":
            self._file.close()
            self._whole.close()
        super().close()


class _WholeFile:
    """A file that a server sends only whole, from which parts are taken as they come by."""

    def __init__(self, address: Url) -> None:
        self._address = address
        self._file: Any = None
        self._at = 0

    def read(self, begin: int, end: int) -> bytes:
        """Return a part; where it has come by already, the file is sent once more."""
        if self._file is None or self._at > begin:
            self.close()
            self._file, self._at = file_system(self._address.scheme).open(self._address.text, "rb", block_size=0), 0
        found = bytearray()
        try:
            while self._at < end and (piece := self._file.read(min(end - self._at, BUFFER))):
                found += piece[max(begin - self._at, 0) :]
                self._at += len(piece)
        except BaseException:
            self.close()
            raise
        return bytes(found)

    def close(self) -> None:
        """Let the server send no more."""
        if self._file is not None:
            self._file.close()
        self._file = None


class _StreamedFile(RawIOBase):
    """A file that a server sends only whole."""

    def __init__(self, address: Url) -> None:
        self._address = address
        self._file: Any = with_retries(
            address, lambda: file_system(address.scheme).open(address.text, "rb", block_size=0)
        )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # What broke off in the middle cannot be gone on with: there is no second try.
        data = with_retries(self._address, lambda: self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
