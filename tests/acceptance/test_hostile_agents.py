"""What a hostile agent may write into Redis: refused with a reason, and everybody else is served all the same.

An agent has the right to call the functions, which run with its own rights on its keys: so it may also write
those keys directly, with anything in them.
"""

import hashlib
import itertools
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import redis

from foldahead import Foldahead, keys, wire
from foldahead.calls import MAX_BODY_BYTES, Publish, publish_call
from foldahead.core import canonical
from foldahead.core.dialects import get_dialect
from foldahead.core.policy import Policy
from foldahead.errors import InvalidPolicy
from foldahead_worker.library import load, loaded_code, source
from tests.acceptance.conftest import MakeStack
from tests.conversations import POLICY, conversation, is_compacted
from tests.databases import NewDatabase
from tests.stack import RealStack, real_stack
from tests.waiting import wait_until

DEEP = b"\x91" * 5_000 + b"\xc0"
"""msgpack of 5,000 lists within each other."""
VICTIM = keys.member("evil", "s")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, databases: NewDatabase) -> Iterator[RealStack]:
    folder = tmp_path_factory.mktemp("hostile")
    with databases(folder) as database_url, real_stack(folder, database_url, concurrency=4) as running:
        yield running


@pytest.fixture
def fold(stack: RealStack) -> Iterator[Foldahead]:
    client = Foldahead(stack.redis.url)
    yield client
    client.close()


def is_served(stack: RealStack, fold: Foldahead) -> None:
    """Another tenant's new session gets its summary, and no loop of the watcher is stuck on what was planted."""
    session = fold.session(f"honest-{next(_numbers)}", workspace="honest", policy=POLICY)
    history = conversation(18, session.name)
    session.publish(history)
    stack.wait_settled(session, history)
    view = session.view(history)
    assert is_compacted(view)
    records = len(session.records)
    assert session.flush(5)
    wait_until(lambda: stack.switchboard.figures.counts().inbox_lag == 0)
    wait_until(lambda: len(stack.kept_records("honest", session.name)) == records)
    assert stack.is_running("watch-1")
    assert stack.is_running("work-1")


def honest_standing(fold: Foldahead) -> wire.Standing:
    """That of a new session: one that was answered has its summary, and stands differently."""
    session = fold.session(f"model-{next(_numbers)}", workspace="evil", policy=POLICY)
    session.publish(conversation(18))
    return session.standing


def plant(client: redis.Redis, blob: bytes, member: str = VICTIM) -> None:
    """A state with this standing, armed and due."""
    client.hset(keys.state(member), mapping={"inc": "0" * 32, "n": "1", "rev": "1", "due": "0", "standing": blob})
    client.zadd(keys.armed(keys.shard_of(member)), {member: 0})


def changed(fold: Foldahead, **changes: object) -> bytes:
    """A standing with values that no agent of ours publishes."""
    return wire.encode(msgspec.structs.replace(honest_standing(fold), **changes))


def with_policy(fold: Foldahead, **values: object) -> bytes:
    """A standing whose policy has values that `Policy` itself refuses."""
    version, fields = msgspec.msgpack.decode(wire.encode(honest_standing(fold)))
    return msgspec.msgpack.encode([version, fields | {"policy": fields["policy"] | values}])


def with_offer(fold: Foldahead, **values: object) -> bytes:
    version, fields = msgspec.msgpack.decode(wire.encode(honest_standing(fold)))
    return msgspec.msgpack.encode([version, fields | {"offer": fields["offer"] | values}])


STANDINGS: dict[str, Callable[[Foldahead], bytes]] = {
    "no msgpack": lambda _: b"\xc1garbage",
    "nothing": lambda _: b"",
    "another type": lambda _: msgspec.msgpack.encode([wire.WIRE_VERSION, ["a", "list"]]),
    "5,000 levels": lambda _: b"\x92\x01\x81\xa6policy" + DEEP,
    "a newer wire version": lambda _: msgspec.msgpack.encode([wire.WIRE_VERSION + 1, {}]),
    "a negative index": lambda fold: with_offer(fold, start=-5),
    "an index of 62 bits": lambda fold: with_offer(fold, end=2**62),
    "an index of 64 bits": lambda fold: with_offer(fold, end=2**64 - 1),
    "a head that is too short": lambda fold: with_offer(fold, head_end=b"\0"),
    "an endless interval": lambda fold: changed(fold, interval_s=float("inf")),
    "growth that is no number": lambda fold: changed(fold, growth_tokens=float("nan")),
    "an endless budget": lambda fold: with_policy(fold, max_cost_per_session_usd=float("inf")),
    "attempts of 64 bits": lambda fold: with_policy(fold, max_attempts=2**64 - 1),
    "a policy that contradicts itself": lambda fold: with_policy(fold, threshold_tokens=10, hard_cap_tokens=5),
    "an unknown dialect": lambda fold: changed(fold, dialect="klingon"),
    "a turn id of 200 KB": lambda fold: changed(fold, turn_id="x" * 200_000),
    "a turn id with NUL and half a pair": lambda fold: changed(fold, turn_id="\0\x7f"),
}


@pytest.mark.parametrize("what", STANDINGS)
def test_a_standing_made_by_hand_harms_nobody_else(stack: RealStack, fold: Foldahead, what: str) -> None:
    plant(stack.client, STANDINGS[what](fold))

    is_served(stack, fold)


def plant_names(client: redis.Redis) -> None:
    for shard in range(keys.SHARDS):
        strangers: dict[Any, Any] = {b"\xff\xfe": 0, b"no-slash": 0, b"": 0, b"a/b/c/%ff": 0, b"evil/last": "-inf"}
        client.zadd(keys.armed(shard), strangers)
        client.zadd(keys.armed(shard), {f"evil/{at}": 0 for at in range(300)})
    client.sadd(keys.RESTORE_SET, b"\xff\xfe", b"", b"no-slash", b"%ff/%00")


def plant_types(client: redis.Redis) -> None:
    member = keys.member("evil", "types")
    for key in (keys.state, keys.bodies, keys.ready, keys.records):
        client.set(key(member), "a string")
    client.zadd(keys.armed(keys.shard_of(member)), {member: 0})
    client.sadd(keys.RESTORE_SET, member)
    client.xadd(keys.INBOX_STREAM, {"kind": "record", "member": member, "id": b"\0" * 16, "data": b""})


def plant_incarnation(client: redis.Redis) -> None:
    plant(client, b"", keys.member("evil", "inc"))
    client.hset(keys.state(keys.member("evil", "inc")), mapping={"inc": b"\xff\xfe", "n": "many", "failed": b"\xff"})


def plant_reports(client: redis.Redis) -> None:
    member = keys.member("evil", "reports")
    client.xadd(keys.INBOX_STREAM, {"what": "no kind"})
    client.xadd(keys.INBOX_STREAM, {"kind": b"\xff"})
    client.xadd(keys.INBOX_STREAM, {"kind": "record"})
    client.xadd(keys.INBOX_STREAM, {"kind": "record", "member": b"\xff", "id": b"\xff", "data": b""})
    client.xadd(keys.INBOX_STREAM, {"kind": "forget", "member": "no-slash", "id": "", "data": ""})
    for data in (b"\xff", b"{}", b"[" * 5_000 + b"]" * 5_000, b'{"type": 7}', b'{"payload": ' + b"[" * 9_000):
        client.xadd(keys.INBOX_STREAM, {"kind": "event", "member": member, "id": "x:1", "data": data})
        client.hset(keys.records(member), hashlib.sha256(data).digest()[:16], b"0:" + data)
        report: dict[Any, Any] = {
            "kind": "record",
            "member": member,
            "id": hashlib.sha256(data).digest()[:16],
            "data": b"",
        }
        client.xadd(keys.INBOX_STREAM, report)


@pytest.mark.parametrize("write", [plant_names, plant_types, plant_incarnation, plant_reports])
def test_keys_written_by_hand_harm_nobody_else(
    stack: RealStack, fold: Foldahead, write: Callable[[redis.Redis], None]
) -> None:
    write(stack.client)

    is_served(stack, fold)


def elements(bodies: list[bytes], flag: bytes = b"\0") -> tuple[list[bytes], bytes]:
    """Bodies as the list holds them, chained by true heads, and the last head."""
    head, made = canonical.first_head("anthropic"), list[bytes]()
    for body in bodies:
        head = canonical.next_head(head, canonical.digest(body))
        made.append(head + b"\0" * 8 + flag + body)
    return made, head


def plant_bodies(stack: RealStack, fold: Foldahead, made: list[bytes], head: bytes) -> Callable[[], str]:
    """A session that wants a summary of these bodies; gives what became of it."""
    name = f"bodies-{next(_numbers)}"
    member = keys.member("evil", name)
    honest = honest_standing(fold).offer
    assert honest is not None
    offer = msgspec.structs.replace(honest, start=0, end=len(made), head_end=head)
    jobs_before = len(stack.jobs("evil"))
    stack.client.rpush(keys.bodies(member), *made)
    stack.client.hset(keys.state(member), "first_head", canonical.first_head("anthropic"))
    plant(stack.client, changed(fold, offer=offer), member)

    def ended() -> str:
        # Not the last one: the honest session may have had its own opened since.
        new = stack.jobs("evil")[jobs_before:]
        return next((job.reason for job in new if job.state == "failed"), "")

    return ended


def honest_bodies() -> list[bytes]:
    """Twenty bodies, other ones at each call: what is asked for twice is one job."""
    messages = conversation(10, f"attempt {next(_numbers)}")[:20]
    read = get_dialect("anthropic").read
    return [canonical.encode(read(message, at)) for at, message in enumerate(messages)]


def wrong_digests() -> tuple[list[bytes], bytes]:
    made, head = elements(honest_bodies())
    return [*made[:-1], made[-1] + b"!"], head


def bomb() -> tuple[list[bytes], bytes]:
    made, head = elements(honest_bodies())
    return [*made[:-1], made[-1][:40] + b"\1" + zlib.compress(b"\0" * 64 * 1024 * 1024, 9)], head


BODIES: dict[str, Callable[[], tuple[list[bytes], bytes]]] = {
    "wrong digests": wrong_digests,
    "a forged head": lambda: (elements(honest_bodies())[0], b"\7" * 32),
    "too short": lambda: ([b"short"] * 20, b"\6" * 32),
    "a zip bomb": bomb,
    "no msgpack, truly hashed": lambda: elements([b"\xc1"] * 20),
    "5,000 levels, truly hashed": lambda: elements([b"\x93\xa4user" + DEEP + b"\x80"] * 20),
    "5,000 levels in a call, truly hashed": lambda: elements(
        [b"\x93\xa9assistant\x91\x94\xa4call\xa10\xa3run" + DEEP + b"\x80"] * 20
    ),
}


@pytest.mark.parametrize("what", BODIES)
def test_bodies_made_by_hand_are_refused_with_a_reason(stack: RealStack, fold: Foldahead, what: str) -> None:
    ended = plant_bodies(stack, fold, *BODIES[what]())

    wait_until(ended, timeout_s=40)
    is_served(stack, fold)
    assert "round failed" not in stack.log("watch-1")


def a_publish(fold: Foldahead) -> Publish:
    honest = honest_standing(fold)
    return Publish(
        member=keys.member("evil", "publish"),
        incarnation="f" * 32,
        n=next(_numbers) + 1,
        standing=wire.encode(honest),
        messages=honest.messages,
        head=honest.head,
        due_ms=0,
        upload=True,
    )


def test_a_body_of_50_mb_is_refused_in_words(stack: RealStack, fold: Foldahead) -> None:
    body = (b"\0" * 32, b"\0", b"x" * 50_000_000)
    huge = msgspec.structs.replace(a_publish(fold), bodies_from=0, head_before=b"\0" * 32, bodies=[body])

    with pytest.raises(
        redis.ResponseError, match=f"FOLDREFUSED body too large: 50000000 bytes of at most {MAX_BODY_BYTES}"
    ):
        stack.client.execute_command(*publish_call(huge).command)
    is_served(stack, fold)


def test_an_agent_of_a_newer_wire_version_is_refused_in_words(stack: RealStack, fold: Foldahead) -> None:
    command = list(publish_call(a_publish(fold)).command)
    command[command.index(wire.WIRE_VERSION, 3)] = wire.WIRE_VERSION + 1

    with pytest.raises(redis.ResponseError, match="FOLDWIRE wire version 2: the server side speaks 1; upgrade"):
        stack.client.execute_command(*command)


def test_an_agent_goes_on_beside_a_newer_server_and_says_why(
    make_stack: MakeStack, caplog: pytest.LogCaptureFixture
) -> None:
    newer = source().replace("local WIRE = '1'", "local WIRE = '2'").replace("-- version: 1", "-- version: 99")
    stack = make_stack(watchers=0, workers=0)
    stack.client.function_load(newer, replace=True)
    load(stack.client)
    assert loaded_code(stack.client) == newer
    fold = Foldahead(stack.redis.url)
    session, history = fold.session("s", policy=POLICY), conversation(18)
    session.publish(history)
    assert not session.flush(0.5)
    assert session.view(history) is history
    fold.close(timeout=0.1)

    assert "agent and server speak different wire versions" in caplog.text


@pytest.mark.parametrize("values", [{"max_cost_per_session_usd": float("inf")}, {"max_attempts": 2**64}])
def test_a_policy_that_would_break_the_books_is_refused_when_it_is_made(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy, match=next(iter(values))):
        Policy(**values)


def test_a_message_of_5000_levels_is_published_and_summarised_like_any_other(stack: RealStack, fold: Foldahead) -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    session = fold.session("deep", workspace="deep", policy=POLICY)
    history = conversation(18)
    history[1]["content"][1]["input"] = {"nested": deep}
    started_s = time.monotonic()
    session.publish(history)
    stack.wait_settled(session, history)

    assert is_compacted(session.view(history))
    assert time.monotonic() - started_s < 10
