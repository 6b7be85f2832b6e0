"""Whatever two processes do to one session, Redis ends up with the bodies of whoever published last."""

from collections import Counter

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foldahead.courier import Courier
from foldahead.line import Line
from foldahead.mailbox import Correspondent
from foldahead_worker.switchboard import Switchboard
from tests.correspondence import Scribe

MOST_ROUNDS = 12

steps = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["a", "b", "c"]), st.integers(1, 5)),
    st.tuples(st.just("rewind"), st.integers(0, 30)),
    st.tuples(st.just("publish")),
    st.tuples(st.just("lose"), st.sampled_from(["everything", "bodies"])),
)


def tell(courier: Courier, scribe: Scribe) -> None:
    """Rounds until there is nothing more to send, as the link makes them."""
    announced: dict[str, Correspondent] = {scribe.member: scribe}
    for at in range(MOST_ROUNDS):
        again, _ = courier.round([], announced, float(at))
        announced |= again
        if not announced:
            return
    raise AssertionError(f"not done after {MOST_ROUNDS} rounds")


def act(scribe: Scribe, courier: Courier, client: "redis.Redis", step: tuple[object, ...]) -> None:
    match step:
        case ("say", str(text), int(count)):
            scribe.say(*[text] * count)
        case ("rewind", int(to)):
            scribe.rewind(min(to, len(scribe.texts)))
        case ("lose", "everything"):
            client.flushdb()
        case ("lose", _):
            Switchboard(client).discard_bodies(scribe.member)
        case _:
            tell(courier, scribe)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(st.tuples(st.integers(0, 1), steps), max_size=25))
def test_redis_has_the_bodies_of_whoever_published_last(client, redis_url, script):
    client.flushdb()
    scribes = [Scribe(), Scribe()]
    lines = [Line(redis_url), Line(redis_url)]
    couriers = [Courier(line, Counter()) for line in lines]
    for who, step in script:
        act(scribes[who], couriers[who], client, step)
    last = scribes[script[-1][0]] if script else scribes[0]
    tell(couriers[scribes.index(last)], last)
    for line in lines:
        line.close()
    stored = Switchboard(client).bodies(last.member)[2]
    assert stored[: len(last.texts)] == last.stored()
