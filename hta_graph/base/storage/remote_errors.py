"""Errors of the network with cause and remedy, and retries; nothing secret is in them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import sleep
from typing import Any, TypeVar

from hta_graph.base.errors import HtaGraphError, LocationError
from hta_graph.base.storage.urls import HTTP, Url, without_secrets

T = TypeVar("T")

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
