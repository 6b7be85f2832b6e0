"""`foldahead policy`: central policy values of a workspace, which its agents take without a restart."""

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from foldahead.core.policy import Policy, policy_from
from foldahead_worker.cli.faults import BadInput
from foldahead_worker.cli.options import JsonOption
from foldahead_worker.cli.policies import values_from
from foldahead_worker.cli.printing import out, print_json
from foldahead_worker.json_out import json_text
from foldahead_worker.settings import make_state_directory, read_settings

if TYPE_CHECKING:
    from foldahead_worker.store import Store

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The tenant.", show_default=False)]

policy = typer.Typer(
    help="Central policy values of a workspace. They go before the agents' own, and need no restart.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
)


@policy.command("set")
def set_values(
    workspace: Workspace,
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...", help="As with `--set`; an empty value takes it back.", show_default=False
        ),
    ],
) -> None:
    """Set central policy values; agents get them with the next answer from Redis.

    Examples:

        foldahead policy set acme threshold_tokens=40000 mode=shadow
        foldahead policy set acme mode=
    """
    from foldahead_worker.clock import now_ms
    from foldahead_worker.store.policies import set_policy
    from foldahead_worker.switchboard import Switchboard

    wanted = values_from(settings)
    client, store = _client(), _store()
    try:
        values = {name: value for name, value in (_stored(store, workspace) | wanted).items() if value != ""}
        _check(values, wanted)
        kept = json_text(values)
        set_policy(store, workspace, kept, now_ms())
        Switchboard(client).put_policies({workspace: kept.encode() if values else None})
    finally:
        client.close()
        store.close()
    _print(workspace, values)


@policy.command("show")
def show_values(workspace: Workspace, as_json: JsonOption = False) -> None:
    """Show the central policy values of a workspace.

    Example:

        foldahead policy show acme --json
    """
    store = _store()
    try:
        values = _stored(store, workspace)
    finally:
        store.close()
    if as_json:
        print_json(values)
    else:
        _print(workspace, values)


def _client() -> Any:
    # Imported here: Celery and the database take most of a second, which no other command is to wait for.
    from foldahead_worker.cli.reaching import reach_redis

    return reach_redis(read_settings())


def _store() -> "Store":
    from foldahead_worker.store import open_store

    make_state_directory()
    return open_store(read_settings().database_url)


def _stored(store: "Store", workspace: str) -> dict[str, Any]:
    from foldahead_worker.store.policies import get_policy

    return cast("dict[str, Any]", json.loads(get_policy(store, workspace)))


def _check(values: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises InvalidPolicy for values that no agent could take."""
    if "pinned" in wanted:
        raise BadInput("pinned: a rule of each session's own view, it cannot be set for a workspace")
    for name in wanted:
        if name not in Policy.__struct_fields__:
            policy_from({name: None})
    policy_from(values)


def _print(workspace: str, values: dict[str, Any]) -> None:
    console = out()
    if not values:
        console.print(f"{workspace}: no central values; every agent has its own", markup=False)
    for name, value in sorted(values.items()):
        console.print(f"{workspace}: {name}={json.dumps(value)}", markup=False)
