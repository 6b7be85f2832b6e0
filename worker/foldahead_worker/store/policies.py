"""Central policy values of workspaces. This is the truth; what agents get from Redis is a copy of it."""

from collections.abc import Mapping

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


def get_policies(store: Store) -> dict[str, str]:
    """The values of every workspace that ever had some: those taken back are `NO_VALUES`."""
    with store.reading() as connection:
        return {row.workspace: row.json for row in connection.execute(select(policies))}


def stale_copies(kept: Mapping[str, str], copied: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """What to change in a copy so that it says what is kept; None: take it out. Pure.

    What nobody has kept was put there by nobody of ours, and goes.
    """
    wanted = {workspace: json.encode() for workspace, json in kept.items() if json != NO_VALUES}
    changed: dict[str, bytes | None] = {
        workspace: json for workspace, json in wanted.items() if copied.get(workspace) != json
    }
    return changed | dict.fromkeys(copied.keys() - wanted.keys())
