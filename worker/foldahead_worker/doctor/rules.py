"""How the doctor judges. Pure: facts in, findings out."""

from collections.abc import Collection, Mapping
from datetime import date

from msgspec import Struct

from foldahead.core.models import AS_OF, Model, find_model
from foldahead_worker.doctor.finding import Finding, bad, ok, warn

REDIS_FLOOR = (8, 6, 3)
"""Earlier ones let a function, which agents may call, out of its sandbox (CVE-2025-49844, CVE-2026-23631)."""
VALKEY_FLOOR = (9, 1, 2)
"""The one that foldahead is tested with."""
CLOCK_LIMIT_MS = 1_000
"""Rows carry the hosts' time, Redis its own: what is read across both is off by so much."""
MEMORY_LIMIT = 0.8
PRICES_OLD_AFTER_DAYS = 180
SHORTEST_KEY = 20


class RedisFacts(Struct, frozen=True, kw_only=True):
    """What a Redis says of itself. None: it may not be asked."""

    server: str
    """`redis` or `valkey`."""
    version: str
    mode: str
    policy: str | None
    appendonly: bool
    last_write_ok: bool
    save: str | None
    used_bytes: int
    limit_bytes: int
    offset_ms: int
    """Its clock against this host's."""


class LibraryFacts(Struct, frozen=True, kw_only=True):
    """The function library that is loaded, and ours."""

    loaded: int
    ours: int
    same_text: bool


def on_version(facts: RedisFacts) -> Finding:
    """Old servers lack functions, or have holes that functions open."""
    floor = VALKEY_FLOOR if facts.server == "valkey" else REDIS_FLOOR
    shown = f"{facts.server} {facts.version}"
    if numbers_of(facts.version) < floor:
        wanted = ".".join(map(str, floor))
        return bad("redis version", f"{shown} is older than {wanted}", f"upgrade it to {wanted} or newer")
    return ok("redis version", shown)


def on_mode(facts: RedisFacts) -> Finding:
    """Celery's transport speaks to one server."""
    if facts.mode == "cluster":
        advice = "use a single server, with Sentinel or a managed failover if it must not be one"
        return bad("redis mode", "it is a Cluster, which Celery's transport does not support", advice)
    return ok("redis mode", facts.mode)


def on_eviction(facts: RedisFacts) -> Finding:
    """A broker that evicts loses its own queue."""
    if facts.policy is None:
        return warn("eviction", "may not be asked (CONFIG GET)", "make sure that maxmemory-policy is noeviction")
    if facts.policy != "noeviction":
        advice = "CONFIG SET maxmemory-policy noeviction, and in its configuration file"
        return bad("eviction", f"maxmemory-policy is {facts.policy}: it may throw away the queue", advice)
    return ok("eviction", "noeviction")


def on_persistence(facts: RedisFacts) -> Finding:
    """Without it a restart of Redis forgets which sessions wait; nothing that was paid for is lost."""
    if not facts.last_write_ok:
        advice = "free some disk where its data folder is, and see its log"
        return bad("persistence", "its last write to disk failed", advice)
    if facts.appendonly:
        return ok("persistence", "append-only file")
    if facts.save:
        advice = "set appendonly yes: a snapshot alone loses minutes"
        return warn("persistence", f"snapshots only (save {facts.save})", advice)
    advice = "set appendonly yes, appendfsync everysec"
    return bad("persistence", "none: a restart forgets the queue and what is armed", advice)


def on_memory(facts: RedisFacts) -> Finding:
    """With noeviction a full server refuses writes."""
    used = f"{facts.used_bytes / 2**20:,.0f} MiB used"
    if not facts.limit_bytes:
        return ok("redis memory", f"{used}, no limit set")
    part = facts.used_bytes / facts.limit_bytes
    said = f"{used}, {part:.0%} of its limit"
    if part > MEMORY_LIMIT:
        return bad("redis memory", said, "raise maxmemory: a full server refuses what agents publish")
    return ok("redis memory", said)


def on_clock(offset_ms: int) -> Finding:
    """When a job is due again is written by one host's clock and read by another's: all are held against Redis's."""
    said = f"Redis is {abs(offset_ms) / 1000:.1f} s {'ahead of' if offset_ms > 0 else 'behind'} this host"
    if abs(offset_ms) > CLOCK_LIMIT_MS:
        return bad("clock", said, "run a time service (chrony, systemd-timesyncd) on both")
    return ok("clock", said)


def on_library(facts: LibraryFacts) -> Finding:
    """Agents call it; only the server side loads it."""
    about, how = "function library", "start `foldahead watch` or `foldahead work`: they load it"
    if not facts.loaded:
        return bad(about, "it is not loaded, so nothing that agents publish arrives", how)
    if facts.loaded < facts.ours:
        return bad(about, f"version {facts.loaded}, ours is {facts.ours}", how)
    if facts.loaded > facts.ours:
        return bad(about, f"version {facts.loaded}, ours is only {facts.ours}", "upgrade foldahead on this host")
    if not facts.same_text:
        return bad(about, f"version {facts.loaded}, but with another text", f"{how}; who changed it?")
    return ok(about, f"version {facts.loaded}")


def on_rights(refused: Collection[str]) -> Finding:
    """A server side with the rights of an agent works in part, and looks alive."""
    if refused:
        said = f"our user in Redis may not {', '.join(sorted(refused))}"
        return bad("rights", said, "give it those of deploy/redis-servers.acl; is this an agent's password?")
    return ok("rights", "what the server side does is allowed")


def on_strangers(let_in: bool, is_loopback: bool) -> Finding:
    """Whoever reaches Redis may publish, and start summaries that cost money."""
    if not let_in:
        return ok("strangers", "a password is asked for")
    if is_loopback:
        return ok("strangers", "no password is asked for, on loopback")
    advice = "load deploy/redis-agents.acl and redis-servers.acl, with `user default off` (docs/security.md)"
    return bad("strangers", "anybody who reaches Redis comes in without a password", advice)


def on_schema(where: str, version: int, known: int) -> Finding:
    """Tables of another version are not touched."""
    if version == known:
        return ok("database", f"{where}, tables of version {version}")
    if version > known:
        said = f"{where}: its tables are of version {version}, this foldahead knows {known}"
        return bad("database", said, "upgrade foldahead on this host")
    said = f"{where}: {f'its tables are of version {version}' if version else 'it has no tables'}, {known} is wanted"
    return bad("database", said, "run `foldahead db upgrade`")


def on_models(named: Collection[str], more: Mapping[str, Model]) -> list[Finding]:
    """A model without a price is never called: its cost would not be known."""
    found: list[Finding] = []
    for name in sorted(named):
        model = find_model(name, more)
        if model is None or model.price is None:
            advice = "add it to the file that FOLDAHEAD_MODELS_FILE names (docs/operations.md, Models and prices)"
            found.append(bad("model", f"{name}: no price is known, so rules take its place", advice))
        else:
            price = f"${model.price.input:g} in, ${model.price.output:g} out a million tokens"
            found.append(ok("model", f"{name}: {price}"))
    return found


def on_prices(today: date) -> Finding:
    """Prices are dated data."""
    days = (today - date.fromisoformat(AS_OF)).days
    if days > PRICES_OLD_AFTER_DAYS:
        advice = "upgrade foldahead, or give today's in the file that FOLDAHEAD_MODELS_FILE names"
        return warn("prices", f"read {days} days ago ({AS_OF})", advice)
    return ok("prices", f"of {AS_OF}")


def on_keys(rules_only: bool, set_up: Collection[str], key: str) -> Finding:
    """`set_up`: providers with an account; `key`: that of the Claude API."""
    if rules_only:
        return ok("keys", "none is needed: FOLDAHEAD_SUMMARIZER=extract, rules only")
    if key and (key != key.strip() or any(not 33 <= ord(sign) <= 126 for sign in key)):
        advice = "write it again, without blanks, quotes or line ends"
        return bad("keys", "ANTHROPIC_API_KEY has signs in it that no key has", advice)
    if key and len(key) < SHORTEST_KEY:
        return bad("keys", f"ANTHROPIC_API_KEY has only {len(key)} signs", "is it whole?")
    if not set_up:
        advice = "set ANTHROPIC_API_KEY (or another provider, docs/operations.md), or FOLDAHEAD_SUMMARIZER=extract"
        return warn("keys", "no provider has a key: summaries are made by rules", advice)
    return ok("keys", f"for {', '.join(sorted(set_up))}")


def on_stopped(workspaces: Collection[str]) -> Finding:
    """A provider refused their account."""
    if workspaces:
        said = f"the provider refused the account of {', '.join(sorted(workspaces))}"
        return bad("accounts", said, "give them a key that works, or run `foldahead resume WORKSPACE`")
    return ok("accounts", "no workspace is stopped")


def on_processes(kind: str, versions: Collection[str], ours: str) -> Finding:
    """`kind`: watch or work; `versions`: of those that were seen."""
    about = "watchers" if kind == "watch" else "workers"
    if not versions:
        return bad(about, "none runs", f"start one with `foldahead {kind}`")
    others = {version for version in versions if version != ours}
    said = f"run, version {', '.join(sorted(set(versions)))}"
    if others:
        return bad(about, f"{said}; this is {ours}", "run one version everywhere: finish the upgrade")
    return ok(about, said)


def on_agents(versions: Collection[str], ours: str) -> Finding:
    """Agents may be older or newer within a wire version; of another minor they should follow soon."""
    if not versions:
        return ok("agents", "none is connected at the moment")
    said = f"{len(versions)} connections, version {', '.join(sorted(set(versions)))}"
    if any(numbers_of(version)[:2] != numbers_of(ours)[:2] for version in versions):
        return warn("agents", f"{said}; the server side is {ours}", "bring agents to the same version soon")
    return ok("agents", said)


def numbers_of(version: str) -> tuple[int, ...]:
    """A version as numbers that compare; what follows them is left out."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = "".join(sign for sign in part if sign.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers)
