"""`foldahead replay HISTORY RECORDS`: what was sent, byte for byte, from what was kept."""

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from foldahead.core.dialects import get_dialect
from foldahead.core.record import Record, decode_record
from foldahead.core.replay import replay as view_of
from foldahead.errors import UnusableRecord
from foldahead_worker.cli.faults import BadInput
from foldahead_worker.cli.options import FormatOption, SessionOption
from foldahead_worker.cli.printing import print_json, print_notes
from foldahead_worker.importers import load, pick
from foldahead_worker.json_out import json_text


def replay(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="The agent's own messages.", show_default=False)],
    records: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDS",
            help='A JSON list of records, an object with a list "records", or one record a line.',
            show_default=False,
        ),
    ],
    format: FormatOption = "auto",  # noqa: A002 - the option's name
    session: SessionOption = None,
) -> None:
    """Print the view that a history and its records give: the list that was sent, as JSON.

    Every difference between what an agent keeps and what it sends is a record; with both, months later, the same bytes
    come out.

    Example:

        foldahead compact chat.json --json > done.json
        foldahead replay chat.json done.json > sent.json
    """
    imported = load(history, format)
    chosen = pick(imported, session)
    known = _records(records)
    print_notes(imported.notes)
    print_json(view_of(chosen.messages, known, get_dialect(chosen.dialect)))


def _records(file: Path) -> list[Record]:
    try:
        text = file.read_text("utf8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not a text in UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from error
    return [_record(file, at, value) for at, value in enumerate(_values(file, text))]


def _values(file: Path, text: str) -> list[Any]:
    try:
        value: Any = json.loads(text)
    except RecursionError as error:
        raise BadInput(f"{file}: is nested too deeply to be read") from error
    except ValueError as fault:
        return [_line(file, number, line, fault) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        value = named.get("records", [named])
    if not isinstance(value, list):
        raise BadInput(f'{file}: expected a list of records, or an object with a list "records"')
    return cast("list[Any]", value)


def _line(file: Path, number: int, line: str, fault: ValueError) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise BadInput(f"{file}: line {number}: expected a record, JSON ({fault})") from None


def _record(file: Path, at: int, value: Any) -> Record:
    try:
        return decode_record(json_text(value))
    except UnusableRecord as error:
        raise BadInput(f"{file}: records[{at}]: {error}") from error
