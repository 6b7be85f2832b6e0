"""The workspace's breaker: views that providers refuse in session after session turn its compaction off.

One session's refused views are its own affair (`core/scene.py`). Where many sessions' are, the fault lies in what they
have in common, and each further session would pay for it with a refused turn. The central policy of the workspace then
says `mode=shadow`: histories go out as they are, summaries are still made. An operator ends that.
"""

import logging
from collections.abc import Iterable

from foldahead_worker.store import Store
from foldahead_worker.store.events import sessions_told
from foldahead_worker.store.policies import policy_set_at, put_in_shadow
from foldahead_worker.switchboard import Switchboard

WINDOW_MS = 3_600_000
LEAST_SESSIONS = 5
"""Sessions with a refused view within the window, before which nothing is done."""
LEAST_SHARE = 0.1
"""Of the sessions whose views showed something new within the window."""
REJECTED, SWAPPED = "session.rejected", "session.swapped"
_log = logging.getLogger("foldahead.refusals")


def too_many(rejected_sessions: int, swapped_sessions: int) -> bool:
    """Whether so many sessions with refused views are the workspace's fault."""
    return rejected_sessions >= max(LEAST_SESSIONS, LEAST_SHARE * swapped_sessions)


def look_at_refusals(store: Store, switchboard: Switchboard, workspaces: Iterable[str], at_ms: int) -> None:
    """Put those of these workspaces into shadow mode whose sessions' views were refused too often, with one alarm.

    What was refused before an operator last set the workspace's policy is forgiven.
    """
    for workspace in sorted(set(workspaces)):
        since_ms = max(at_ms - WINDOW_MS, policy_set_at(store, workspace))
        told = sessions_told(store, workspace, (REJECTED, SWAPPED), since_ms)
        if not too_many(told.get(REJECTED, 0), told.get(SWAPPED, 0)):
            continue
        if (values := put_in_shadow(store, workspace, at_ms)) is not None:
            switchboard.put_policies({workspace: values.encode()})
            _log.error(
                "ALARM workspace %s: providers refused the views of %d sessions within an hour. Its sessions send "
                "their histories as they are (mode=shadow) until `foldahead policy set %s mode=` is given.",
                workspace,
                told[REJECTED],
                workspace,
            )
