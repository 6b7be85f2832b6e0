"""Jobs: one row for each summary asked for. The row is the truth; a Celery message only wakes a worker."""

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, exists, select, update

from foldahead.core.request import SummaryRequest
from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import CHUNK, all_of, chunks, columns_of, insert_into, keyed, values_of
from foldahead_worker.store.schema import JobState, Urgency, WaiterState, jobs, waiters
from foldahead_worker.store.summaries import touch_found
from foldahead_worker.store.waiters import Waiter

_TOLD = ("ready", "shown")
AT_ONCE_MS = 0
"""`not_before_ms` of what is due by anybody's clock: hosts do not agree on the time."""
NEVER_MS = 2**62
"""`not_before_ms` of what only the hard cap opens again."""


class Want(Struct, frozen=True, kw_only=True):
    """One session's wish for a summary, as a watcher decided it."""

    request: SummaryRequest
    session: str
    turn_id: str
    watermark_before: int
    urgency: Urgency
    deadline_ms: int
    """When the session will need it, by the watcher's clock: what leases are sorted by."""
    max_attempts: int
    budget_picodollars: int


class Wanted(Struct, frozen=True, kw_only=True):
    """What became of a wish. `opened`: wake a worker for it; state `done`: the summary is there."""

    job_id: int
    cache_key: str
    state: JobState
    opened: bool
    """The job is new, or was failed or evicted and is open again."""
    before: WaiterState | None = None
    """Of a done job: how the session's wish stood before. None: it comes late, no worker knows of it."""
    opens_at_ms: int | None = None
    """From when on a want opens a failed job; None: only the hard cap does, if anything."""


class Job(Struct, frozen=True, kw_only=True):
    """What the rule of opening looks at."""

    id: int
    workspace: str
    cache_key: str
    state: JobState
    urgency: Urgency
    deadline_ms: int
    not_before_ms: int
    attempts: int
    max_attempts: int


def after_want(job: Job, want: Want, stored: bool, now_ms: int) -> Job:
    """How a job stands once a session wants it. Pure. `stored`: its summary is there.

    A failed job opens again when its time has come and attempts are left, or, once, because the hard cap now
    forces what was started ahead. A done job whose summary was evicted starts anew.
    """
    if stored:
        return job if job.state == "leased" else msgspec.structs.replace(job, state="done")
    raised = want.urgency == "forced" and job.urgency == "ahead"
    again = msgspec.structs.replace(
        job,
        state="queued",
        deadline_ms=want.deadline_ms,
        max_attempts=want.max_attempts,
        not_before_ms=AT_ONCE_MS,
    )
    if job.state == "done" or (job.state == "failed" and raised):
        return msgspec.structs.replace(again, urgency=want.urgency, attempts=0)
    if job.state == "failed":
        return again if job.not_before_ms <= now_ms and job.attempts < job.max_attempts else job
    urgency: Urgency = "forced" if raised else job.urgency
    return msgspec.structs.replace(job, urgency=urgency, deadline_ms=min(job.deadline_ms, want.deadline_ms))


def opens_at_ms(job: Job) -> int | None:
    """From when on a want opens a failed job again; None where none does by itself."""
    if job.state != "failed" or job.attempts >= job.max_attempts or job.not_before_ms >= NEVER_MS:
        return None
    return job.not_before_ms


def want(store: Store, wish: Want, now_ms: int) -> Wanted:
    """`want_batch` for one wish."""
    return want_batch(store, [wish], now_ms)[0]


def want_batch(store: Store, wishes: Sequence[Want], now_ms: int) -> tuple[Wanted, ...]:
    """Opens a job and a waiter for each wish that has none, 500 in a transaction; answers in order.

    A job that it opens counts as sent: whoever opens it wakes a worker, and if that is lost, the sweeper does.
    """
    answers: list[Wanted] = []
    for some in chunks(wishes):
        with store.writing() as connection:
            answers.extend(_want(connection, some, now_ms))
    return tuple(answers)


def job_still_wanted(store: Store, job_id: int) -> bool:
    """Whether a session still waits for a job."""
    return job_id in jobs_still_wanted(store, (job_id,))


def jobs_still_wanted(store: Store, job_ids: Collection[int]) -> frozenset[int]:
    """Those of some jobs that a session still waits for; asked between the chunks of a call."""
    waits = exists().where(
        waiters.c.workspace == jobs.c.workspace,
        waiters.c.cache_key == jobs.c.cache_key,
        waiters.c.state == "waiting",
    )
    wanted: set[int] = set()
    with store.reading() as connection:
        for some in chunks(sorted(job_ids)):
            wanted.update(connection.scalars(select(jobs.c.id).where(jobs.c.id.in_(some), waits)))
    return frozenset(wanted)


def due_unsent(store: Store, sent_before_ms: int, now_ms: int, limit: int = CHUNK) -> tuple[int, ...]:
    """Ids of due queued jobs whose wake-up was never sent, or so long ago that it must be lost."""
    row = jobs.c
    query = (
        select(row.id)
        .where(row.state == "queued", row.not_before_ms <= now_ms, row.sent_at_ms < sent_before_ms)
        .order_by(row.urgency.desc(), row.deadline_ms, row.id)
        .limit(limit)
    )
    with store.reading() as connection:
        return tuple(connection.scalars(query))


def mark_sent(store: Store, job_ids: Iterable[int], now_ms: int) -> None:
    """Notes that wake-ups were sent for jobs."""
    statement = update(jobs).where(jobs.c.id == bindparam("job_id")).values(sent_at_ms=now_ms)
    if sent := [{"job_id": job_id} for job_id in sorted(job_ids)]:
        with store.writing() as connection:
            connection.execute(statement, sent)


def _want(connection: Connection, wishes: Sequence[Want], now_ms: int) -> list[Wanted]:
    keys = [(wish.request.workspace, wish.request.cache_key) for wish in wishes]
    # Everything in the order of keys, so that two batches never wait for each other.
    by_key = sorted(zip(keys, wishes, strict=True), key=lambda pair: (pair[0], pair[1].session))
    created, found = _open(connection, dict(by_key), now_ms)
    # After the jobs are locked: a commit may just have stored one.
    stored = touch_found(connection, sorted(set(keys)), now_ms)
    now = dict(found)
    for key, wish in by_key:
        now[key] = after_want(now[key], wish, key in stored, now_ms)
    opened = {key for key in now if now[key].state == "queued" and (key in created or found[key].state != "queued")}
    _save(connection, [(now[key], key in opened) for key in now if now[key] != found[key]], now_ms)
    before = _waiting_states(connection, sorted(stored))
    names = [(*key, wish.session) for key, wish in zip(keys, wishes, strict=True)]
    # Who was told of a summary that is still there does not wait again.
    untold = [(key, wish) for key, wish in by_key if before.get((*key, wish.session)) not in _TOLD]
    _wait(connection, untold, now_ms)
    return [
        Wanted(
            job_id=now[key].id,
            cache_key=key[1],
            state=now[key].state,
            opened=key in opened,
            opens_at_ms=opens_at_ms(now[key]),
            before=before.get(name),
        )
        for key, name in zip(keys, names, strict=True)
    ]


def _open(
    connection: Connection, wishes: dict[tuple[str, str], Want], now_ms: int
) -> tuple[set[tuple[str, str]], dict[tuple[str, str], Job]]:
    """The keys that had no job, and the job of each key, locked."""
    created: set[tuple[str, str]] = set()
    found: dict[tuple[str, str], Job] = {}
    # A second time only where a row was deleted between the two statements.
    while missing := {key: wish for key, wish in wishes.items() if key not in found}:
        new = _insert_missing(connection, missing, now_ms)
        found |= new
        created |= new.keys()
        if old := sorted(missing.keys() - new.keys()):
            found |= _locked(connection, old)
    return created, found


def _insert_missing(
    connection: Connection, wishes: dict[tuple[str, str], Want], now_ms: int
) -> dict[tuple[str, str], Job]:
    insert = insert_into(connection, jobs).on_conflict_do_nothing().returning(*columns_of(jobs, Job))
    new = [_new_row(key, wish, now_ms) for key, wish in wishes.items()]
    made = (msgspec.convert(row, Job) for row in connection.execute(insert, new).mappings())
    return {(job.workspace, job.cache_key): job for job in made}


def _new_row(key: tuple[str, str], wish: Want, now_ms: int) -> dict[str, object]:
    return {
        "workspace": key[0],
        "cache_key": key[1],
        "request": msgspec.msgpack.encode(wish.request, order="deterministic"),
        "kind": wish.request.kind,
        "model": wish.request.model,
        "parent": wish.request.parent,
        "state": "queued",
        "urgency": wish.urgency,
        "deadline_ms": wish.deadline_ms,
        "not_before_ms": AT_ONCE_MS,
        "attempts": 0,
        "max_attempts": wish.max_attempts,
        "token": 0,
        "heartbeat": 0,
        "owner": "",
        "reason": "",
        "error_class": "",
        "created_at_ms": now_ms,
        "updated_at_ms": now_ms,
        "sent_at_ms": now_ms,
    }


def _locked(connection: Connection, keys: list[tuple[str, str]]) -> dict[tuple[str, str], Job]:
    query = select(*columns_of(jobs, Job)).where(keyed(jobs, keys)).order_by(jobs.c.workspace, jobs.c.cache_key)
    found = all_of(connection, query.with_for_update(), Job)
    return {(job.workspace, job.cache_key): job for job in found}


def _save(connection: Connection, changed: list[tuple[Job, bool]], now_ms: int) -> None:
    """Writes jobs back; one that is open again forgets its failure."""
    for opened, fresh in ((True, {"sent_at_ms": now_ms, "reason": "", "error_class": ""}), (False, {})):
        rows = [_changes(job) for job, is_open in changed if is_open is opened]
        statement = update(jobs).where(jobs.c.id == bindparam("job_id")).values(fresh | {"updated_at_ms": now_ms})
        if rows:
            connection.execute(statement, rows)


def _changes(job: Job) -> dict[str, object]:
    changeable = ("state", "urgency", "deadline_ms", "not_before_ms", "attempts", "max_attempts")
    return {"job_id": job.id, **{name: getattr(job, name) for name in changeable}}


def _waiting_states(connection: Connection, stored: list[tuple[str, str]]) -> dict[tuple[str, str, str], WaiterState]:
    """How the wishes stand for summaries that are there, by workspace, key and session."""
    row = waiters.c
    if not stored:
        return {}
    query = select(row.workspace, row.cache_key, row.session, row.state).where(keyed(waiters, stored))
    return {(one.workspace, one.cache_key, one.session): one.state for one in connection.execute(query)}


def _wait(connection: Connection, wishes: list[tuple[tuple[str, str], Want]], now_ms: int) -> None:
    if not wishes:
        return
    insert = insert_into(connection, waiters)
    asked_last = ("turn_id", "watermark_before", "urgency", "budget_picodollars", "state")
    upsert = insert.on_conflict_do_update(
        index_elements=["workspace", "session", "cache_key"],
        set_={name: insert.excluded[name] for name in asked_last},
    )
    connection.execute(upsert, [values_of(_waiter(wish, key[1], now_ms)) for key, wish in wishes])


def _waiter(wish: Want, cache_key: str, now_ms: int) -> Waiter:
    return Waiter(
        workspace=wish.request.workspace,
        session=wish.session,
        cache_key=cache_key,
        turn_id=wish.turn_id,
        watermark_before=wish.watermark_before,
        start=wish.request.start,
        end=wish.request.end,
        head_end=bytes.fromhex(wish.request.head),
        urgency=wish.urgency,
        budget_picodollars=wish.budget_picodollars,
        created_at_ms=now_ms,
    )
