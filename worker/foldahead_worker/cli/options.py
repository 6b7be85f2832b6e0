"""Options that several commands share, with the words of their help."""

from pathlib import Path
from typing import Annotated, Literal

import typer

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A policy value, as in `threshold_tokens=20000`; may be repeated. JSON if it parses, else a text.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Literal["auto", "anthropic", "openai"],
    typer.Option("--format", help="Dialect of the messages; `auto` finds it by what they look like."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, for programs.")]
SessionOption = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Which session of a file that holds several.", show_default=False),
]
FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A recorded conversation.", show_default=False),
]
