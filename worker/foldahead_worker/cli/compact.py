"""`foldahead compact FILE`: one compaction here and now, without services."""

import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from foldahead.asking import Summarize
from foldahead.core.record import RECORD_VERSION, Record
from foldahead.errors import InvalidHistory
from foldahead.oneshot import Compaction
from foldahead.oneshot import compact as compact_once
from foldahead_worker.cli.compact_report import print_report
from foldahead_worker.cli.faults import BadInput, one_line
from foldahead_worker.cli.options import FileArgument, FormatOption, JsonOption, SessionOption, SetOption
from foldahead_worker.cli.policies import policy_of
from foldahead_worker.cli.printing import print_json, print_notes
from foldahead_worker.importers import ImportedSession, load, pick


def compact(
    file: FileArgument,
    as_json: JsonOption = False,
    format: FormatOption = "auto",  # noqa: A002 - the option's name
    settings: SetOption = None,
    summary_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A text that is taken for the summariser's answer. Without it rules make the summary: "
            "never a paid call.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Waive threshold, start, least span and target: only smaller it must be."),
    ] = False,
    session: SessionOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The agent's own model (its window, its thinking), if the file does not say."
        ),
    ] = None,
) -> None:
    """Compact a recorded conversation once, here and now, without any service.

    FILE is a list of messages, {"messages": [...]}, or anything that `play` reads: a Claude Code session log,
    an Anthropic request, an OpenAI chat list or trajectory, LangChain's messages.

    Examples:

        foldahead compact ~/.claude/projects/app/0b6e.jsonl
        foldahead compact chat.json --force --json | jq .messages > smaller.json
        foldahead compact chat.json --set threshold_tokens=20000 --set preserve_recent_turns=3
    """
    policy = policy_of(settings or ())
    summarize = _summarizer(summary_file)
    imported = load(file, format)
    chosen = pick(imported, session)
    try:
        result = compact_once(
            chosen.messages,
            policy,
            chosen.dialect,
            summarize,
            force=force,
            model=(chosen.model or "") if model is None else model,
            now_ms=time.time_ns() // 1_000_000,
        )
    except InvalidHistory as error:
        raise BadInput(f"{imported.file}: {error}") from error
    print_notes(imported.notes)
    if as_json:
        print_json(result_object(result))
    else:
        print_report(_title(imported.file, chosen), chosen, result)


def result_object(result: Compaction) -> dict[str, Any]:
    """The JSON object of design section 8, then the second seed's own fields."""
    return {
        "outcome": result.outcome,
        "reason": result.reason,
        "messages": result.messages,
        "records": [record_object(record) for record in result.records],
        "summary": result.summary,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "repairs": list(result.repairs),
        "elided": list(result.elided),
        "exhausted": result.exhausted,
        "cache_key": result.cache_key,
        "dropped": result.dropped,
        "cut_index": result.cut_index,
        "fallback": result.fallback,
        "elisions": [{"index": elision.index, "stub": elision.stub} for elision in result.elisions],
    }


def record_object(record: Record) -> dict[str, Any]:
    """A record as it crosses process borders, its version and time always with it."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return {"v": RECORD_VERSION, **fields, "created_at_ms": record.created_at_ms}


def _summarizer(summary_file: Path | None) -> Summarize | None:
    if summary_file is None:
        return None
    try:
        text = summary_file.read_text("utf8")
    except UnicodeDecodeError as error:
        raise BadInput(f"--summary-file {summary_file}: not a text in UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise BadInput(f"--summary-file {summary_file}: cannot be read: {error.strerror}") from error
    return lambda _prompt: text


def _title(file: str, session: ImportedSession) -> str:
    parts = [Path(file).name]
    if session.name and session.name != Path(file).stem:
        parts.append(one_line(session.name))
    return "  ·  ".join([*parts, session.dialect, *([session.model] if session.model else [])])
