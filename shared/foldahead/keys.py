"""Every key of ours in Redis: one function builds each, nothing else writes a key's name.

`fold:1:` names this layout; a workspace and a session stand in a key percent-encoded, so that neither can reach
into another's. All keys of one session carry the same TTL, which publishes renew.
"""

from urllib.parse import quote, unquote, unquote_to_bytes

LAYOUT = "fold:1"
SHARDS = 16
SESSION_TTL_S = 7 * 24 * 3600
"""How long Redis remembers a session that is not heard of; the database remembers longer."""
EVENTS_STREAM = f"{LAYOUT}:events"
"""Capped stream of events, live; each entry has the one field `event`, JSON."""
INBOX_STREAM = f"{LAYOUT}:inbox"
"""Capped stream of what agents report: records and events to be kept, read by the watchers' consumer group."""
RESTORE_SET = f"{LAYOUT}:restore"
"""Sessions (member as in `armed`) that an agent asked for and Redis does not know: a watcher restores them."""
POLICIES_HASH = f"{LAYOUT}:policies"
"""Central overrides: workspace -> JSON object of policy values."""
STOPPED_HASH = f"{LAYOUT}:stopped"
"""Workspaces whose provider refused their account: workspace -> the account's name, a blank, why."""
MOST_NAME_BYTES = 512
"""Of a workspace and of a session: both stand in keys of a database's indexes."""
BROKER_PREFIX = f"{LAYOUT}:celery:"


def member(workspace: str, session: str) -> str:
    """A session's name within sets: `workspace/session`, percent-encoded."""
    return f"{quote(workspace, safe='')}/{quote(session, safe='')}"


def names_of(member: str) -> tuple[str, str]:
    """Workspace and session of a member."""
    workspace, _, session = member.partition("/")
    return unquote(workspace), unquote(session)


def fits(member: str) -> bool:
    """Whether it names a workspace and a session as all of Redis and the database take them."""
    workspace, separator, session = member.partition("/")
    lengths = (len(unquote_to_bytes(name)) for name in (workspace, session))
    return bool(separator) and "/" not in session and max(lengths) <= MOST_NAME_BYTES


def policy_field(workspace: str) -> str:
    """A workspace's field of `POLICIES_HASH`."""
    return quote(workspace, safe="")


def armed(shard: int) -> str:
    """Sorted set of sessions that want work and have no job, scored by deadline (Redis's clock, ms)."""
    return f"{LAYOUT}:armed:{shard}"


def shard_of(member: str) -> int:
    """The shard of a session's armed set."""
    return sum(member.encode()) % SHARDS


HINT_LIST = f"{LAYOUT}:armed:hint"
"""One word, put there when a session wants a look at once: a watcher that waits for it need not ask all the time."""
EVERY_STATE = f"{LAYOUT}:s:*:state"
"""Pattern of all `state` keys."""


def state(member: str) -> str:
    """Hash: what a session last published, its job, its counters."""
    return f"{LAYOUT}:s:{member}:state"


def member_of(state_key: str) -> str:
    """The member whose state a key is."""
    return state_key.removeprefix(f"{LAYOUT}:s:").removesuffix(":state")


def bodies(member: str) -> str:
    """List: the canonical bodies of a session's messages, each behind the chain head after it (docs/wire.md)."""
    return f"{LAYOUT}:s:{member}:bodies"


def ready(member: str) -> str:
    """Hash: cache key -> a summary that is ready for the session."""
    return f"{LAYOUT}:s:{member}:ready"


def records(member: str) -> str:
    """Hash: identity of a record -> its place in the order, a colon, its JSON."""
    return f"{LAYOUT}:s:{member}:records"


def envelope(workspace: str, digest: str) -> str:
    """String: what the requests of some sessions of a workspace hold beside their messages, by its digest."""
    return f"{LAYOUT}:w:{quote(workspace, safe='')}:envelope:{digest}"


def account(name: str) -> str:
    """Hash: what workers know of a provider's account and model: whether it answers, what it may be asked a minute."""
    return f"{LAYOUT}:account:{quote(name, safe='')}"
