"""`foldahead demo`: the whole thing on this machine, on a bundled session, with a slowed summariser."""

from importlib.resources import as_file, files

import msgspec

from foldahead.core.dialects import get_dialect
from foldahead.core.ledger import ledger_of
from foldahead.core.tokens import estimate_text
from foldahead_worker.cli.demo_screen import DemoScreen
from foldahead_worker.cli.stopping import stop_in_order
from foldahead_worker.importers import ImportedSession, load, pick
from foldahead_worker.json_out import json_text
from foldahead_worker.playing.clients import member_of
from foldahead_worker.playing.live import LivePlay
from foldahead_worker.playing.plays import Task
from foldahead_worker.playing.settling import Settler
from foldahead_worker.settings import Settings, read_settings

TURN_S = 0.4
SUMMARY_S = 3.0
"""Several turns long, so that one sees that none of them waits."""
LOOK_EVERY_S = 0.05


def demo() -> None:
    """See it work: a coding session, compacted ahead of time while it goes on. No key, no Docker, no Redis needed.

    Starts a Redis server, a watcher and a Celery worker on this machine, plays a bundled session of 55 turns through a
    real client, shows every turn as it happens, and stops everything again. About half a minute.
    """
    # Imported here: what starts servers is not needed for the help.
    from foldahead_worker.stack import private_stack

    stop_in_order()
    recording = _bundled()
    screen = DemoScreen(SUMMARY_S, _tokens(recording))
    with screen.starting(), private_stack(_settings()) as stack:
        screen.started(len(recording.messages))
        play = LivePlay(_task(stack.settings), recording)
        settler = Settler(stack.settings.redis_url)
        member = member_of(play.task)

        def look() -> None:
            stack.check()
            screen.show(play.seen, settler.state(member), settler.ready(member), over=play.is_over)

        with screen.playing():
            played = play.run(look, LOOK_EVERY_S)
        settler.close()
    screen.ended(play.seen, played)


def _settings() -> Settings:
    """The user's, but with rules for a summariser: a demo never pays."""
    return msgspec.structs.replace(
        read_settings(), summarizer="extract", anthropic_api_key="", summary_delay_s=SUMMARY_S
    )


def _bundled() -> ImportedSession:
    with as_file(files("foldahead_worker.demo") / "session.json") as path:
        return pick(load(path), None)


def _tokens(recording: ImportedSession) -> int:
    """About what the longest request comes to."""
    outside = estimate_text(json_text([recording.system, recording.tools]))
    return outside + ledger_of(recording.messages, get_dialect(recording.dialect)).tokens[-1]


def _task(settings: Settings) -> Task:
    return Task(
        file="the bundled session",
        format="auto",
        session="session",
        label="demo",
        name="demo",
        workspace="demo",
        redis_url=settings.redis_url,
        policy={},
        turn_s=TURN_S,
    )
