"""The server side's small pure rules: how long a failed session rests, what a workspace keeps, what is whose fault."""

from collections.abc import Sequence

import pytest
import redis

from foldahead import keys
from foldahead_worker.apart import done_apart
from foldahead_worker.backoff import MOST_MS, rest_ms
from foldahead_worker.reasons import MOST_REMEMBERED, Reasons, class_of
from foldahead_worker.store import DatabaseUnreachable
from foldahead_worker.store.policies import stale_copies
from foldahead_worker.store.retention import CacheRows
from foldahead_worker.sweep import rows_to_keep


def test_a_session_without_failures_does_not_rest():
    assert rest_ms(0, "ahead") == rest_ms(0, "forced") == 0


@pytest.mark.parametrize("urgency", ["ahead", "forced"])
def test_each_failure_doubles_the_rest_up_to_its_bound(urgency):
    rests = [rest_ms(failures, urgency) for failures in range(1, 100)]
    assert rests[1] == 2 * rests[0]
    assert rests == sorted(rests)
    assert rests[-1] == MOST_MS[urgency]


def test_a_session_at_its_hard_cap_is_tried_sooner():
    assert all(rest_ms(failures, "forced") < rest_ms(failures, "ahead") for failures in range(1, 50))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("span too small: 12 of at least 2000 tokens", "span too small"),
        ("no effect 2 times: waits until the session has grown", "no effect"),
        ("failed before: 3 in a row", "failed before"),
        ("below_start", "below_start"),
        ("whatever an agent wrote here", "other"),
    ],
)
def test_a_reason_is_counted_without_its_figures_and_only_if_it_is_ours(reason, expected):
    assert class_of(reason) == expected


def test_a_reason_is_news_when_its_class_changes():
    reasons = Reasons()
    assert reasons.is_news("a", "span too small: 12")
    assert not reasons.is_news("a", "span too small: 13")
    assert reasons.is_news("a", "early")
    reasons.forget("a")
    assert reasons.is_news("a", "early")


def test_reasons_of_many_sessions_take_bounded_memory():
    reasons = Reasons()
    for at in range(MOST_REMEMBERED + 1):
        reasons.is_news(str(at), "early")
    assert reasons.is_news("0", "early")
    assert not reasons.is_news(str(MOST_REMEMBERED), "early")


class _Doing:
    """Does numbers; the odd ones raise."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.done: list[int] = []
        self.aside: list[int] = []

    def do(self, numbers: Sequence[int]) -> None:
        if any(number % 2 for number in numbers):
            raise self.error
        self.done += numbers

    def set_aside(self, number: int, error: Exception) -> None:
        self.aside.append(number)


@pytest.mark.parametrize("error", [OverflowError(), redis.ResponseError("FOLDREFUSED summary too large")])
def test_what_fails_for_one_is_done_for_the_others(error):
    doing = _Doing(error)
    done_apart([0, 1, 2, 3, 4], doing.do, doing.set_aside)
    assert (doing.done, doing.aside) == ([0, 2, 4], [1, 3])


@pytest.mark.parametrize(
    "error", [DatabaseUnreachable("gone"), redis.ConnectionError(), redis.ResponseError("OOM command not allowed")]
)
def test_what_would_fail_for_everyone_is_nobodys_fault(error):
    doing = _Doing(error)
    with pytest.raises(type(error)):
        done_apart([0, 1], doing.do, doing.set_aside)
    assert doing.aside == []


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (None, 100),
        (CacheRows(most=0, left_open=True), 100),
        (CacheRows(most=5_000, left_open=True), 5_000),
        (CacheRows(most=20, left_open=True), 100),
        (CacheRows(most=20, left_open=False), 20),
    ],
)
def test_a_workspace_keeps_the_most_that_one_of_its_sessions_wants(wanted, kept):
    assert rows_to_keep(wanted, default=100) == kept


def test_a_copy_is_brought_to_what_is_kept():
    kept = {"same": '{"a":1}', "changed": '{"a":2}', "lost": '{"a":3}', "taken back": "{}", "never had": "{}"}
    copied = {"same": b'{"a":1}', "changed": b'{"a":0}', "taken back": b'{"a":1}', "of nobody": b"{}"}
    changes = {"changed": b'{"a":2}', "lost": b'{"a":3}', "taken back": None, "of nobody": None}
    assert stale_copies(kept, copied) == changes


@pytest.mark.parametrize(
    ("member", "fits"),
    [
        (keys.member("w" * 512, "/" * 512), True),
        (keys.member("w", "é" * 257), False),
        (keys.member("w" * 513, "s"), False),
        ("no slash", False),
        ("a/b/c", False),
    ],
)
def test_names_have_at_most_512_bytes_each(member, fits):
    assert keys.fits(member) is fits
