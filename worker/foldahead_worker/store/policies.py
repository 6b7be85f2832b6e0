"""Central policy values of workspaces. This is the truth; what agents get from Redis is a copy of it."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from foldahead_worker.store.engine import Store
from foldahead_worker.store.rows import insert_into
from foldahead_worker.store.schema import policies

NO_VALUES = "{}"


def set_policy(store: Store, workspace: str, values_json: str, now_ms: int) -> None:
    """Keeps a workspace's values, a JSON object; an empty one takes all of them back."""
    with store.writing(durable=True) as connection:
        insert = insert_into(connection, policies).values(workspace=workspace, json=values_json, updated_at_ms=now_ms)
        new = {name: insert.excluded[name] for name in ("json", "updated_at_ms")}
        connection.execute(insert.on_conflict_do_update(index_elements=["workspace"], set_=new))


def get_policy(store: Store, workspace: str) -> str:
    """A workspace's values, a JSON object."""
    with store.reading() as connection:
        return connection.scalar(select(policies.c.json).where(policies.c.workspace == workspace)) or NO_VALUES


def policy_set_at(store: Store, workspace: str) -> int:
    """When a workspace's values were last set, milliseconds; 0: never."""
    with store.reading() as connection:
        found = connection.scalar(select(policies.c.updated_at_ms).where(policies.c.workspace == workspace))
        return found or 0


def put_in_shadow(store: Store, workspace: str, now_ms: int) -> str | None:
    """Sets `mode` to `shadow` beside a workspace's other values; None where it shows no summaries as it is.

    Of several who want it at once one gets the new values, the others None.
    """
    kept = get_policy(store, workspace)
    values: dict[str, Any] = json.loads(kept)
    if values.get("mode") in ("shadow", "off"):
        return None
    changed = json.dumps(values | {"mode": "shadow"}, separators=(",", ":"))
    with store.writing(durable=True) as connection:
        row = insert_into(connection, policies).values(workspace=workspace, json=changed, updated_at_ms=now_ms)
        new = {name: row.excluded[name] for name in ("json", "updated_at_ms")}
        as_before = policies.c.json == kept
        done = connection.execute(
            row.on_conflict_do_update(index_elements=["workspace"], set_=new, where=as_before).returning(
                policies.c.json
            )
        )
        return done.scalar()


def get_policies(store: Store) -> dict[str, str]:
    """The values of every workspace that ever had some: those taken back are `NO_VALUES`."""
    with store.reading() as connection:
        return {row.workspace: row.json for row in connection.execute(select(policies))}


def stale_copies(kept: Mapping[str, str], copied: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """What to change in a copy so that it says what is kept; None: take it out. Pure.

    What nobody has kept was put there by nobody of ours, and goes.
    """
    wanted = {workspace: values.encode() for workspace, values in kept.items() if values != NO_VALUES}
    changed: dict[str, bytes | None] = {
        workspace: values for workspace, values in wanted.items() if copied.get(workspace) != values
    }
    return changed | dict.fromkeys(copied.keys() - wanted.keys())
