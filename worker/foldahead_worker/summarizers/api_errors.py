"""What an error of the SDK means for a job (design section 6, "Errors"): by class, status and code, never by text."""

import email.utils
import time
from typing import Any, Final

import anthropic
import httpx2

from foldahead_worker.summarizers.protocol import Cost, SummarizerError

REFUSED_ACCOUNT: Final = frozenset({401, 402, 403})
HEALING: Final = frozenset({408, 409, 425, 429, 499})
_TYPE_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "api_error": 500,
    "overloaded_error": 529,
}
"""What an error event in a stream that began with 200 stands for; anything else is the provider's trouble, 500."""
SPENT: Final = frozenset({"contract_spend_limit_reached", "enforced_spend_limit_reached"})
"""429s that no waiting heals: the account's money is at its limit until somebody raises it."""
ON_HOLD: Final = frozenset({"organization_on_hold"})
NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
MOST_RETRY_AFTER_S: Final = 24 * 3600.0


def status_of(error: anthropic.APIStatusError) -> int:
    """The HTTP status; of an error event in a stream, the one that its type stands for."""
    if error.status_code >= 400:
        return error.status_code
    return _TYPE_STATUS.get(error.type or "", 500)


def translated(error: BaseException, cost: Cost) -> SummarizerError:
    """Any error of the SDK or its transport as ours. `cost`: what the call may have consumed."""
    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, cost)
    cause = error.__cause__
    name = type(cause if isinstance(cause, httpx2.HTTPError) else error).__name__
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError):
        return SummarizerError(f"no whole answer came: {name}", code=name, heals=True, cost=cost)
    # Wrong credentials or a missing extra of the SDK: its own words may hold a path or a key.
    return SummarizerError(f"the provider could not be asked: {name}", code=name, cost=cost)


def was_never_sent(error: BaseException | None) -> bool:
    """Whether no byte of the request can have reached the provider."""
    if error is None:
        return False
    if isinstance(error, NEVER_SENT) or isinstance(error.__cause__, NEVER_SENT):
        return True
    return not isinstance(error, anthropic.APIError | httpx2.HTTPError)


def _of_status(error: anthropic.APIStatusError, cost: Cost) -> SummarizerError:
    status, code = status_of(error), error.error_code or ""
    stops = status in REFUSED_ACCOUNT or code in SPENT or code in ON_HOLD
    return SummarizerError(
        # The provider's message may quote the request; its type and code do not.
        f"the provider answered {status} {code or error.type or ''}".strip(),
        status=status,
        code=code or error.type or "",
        heals=not stops and (status in HEALING or status >= 500),
        retry_after_s=_retry_after_s(error.response.headers),
        stops_workspace=stops,
        too_large=status == 413,
        cost=cost,
    )


def _retry_after_s(headers: Any) -> float:
    said = headers.get("retry-after")
    if not said:
        return 0.0
    try:
        seconds = float(said)
    except ValueError:
        when = email.utils.parsedate_tz(said)
        seconds = email.utils.mktime_tz(when) - time.time() if when else 0.0
    return min(MOST_RETRY_AFTER_S, max(0.0, seconds)) if seconds == seconds else 0.0
