"""The options of `foldahead play`, with the words of their help."""

from pathlib import Path
from typing import Annotated

import typer

MOST_JOBS = 64

FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recorded sessions.", show_default=False)]
JobsOption = Annotated[
    int, typer.Option("--jobs", min=1, max=MOST_JOBS, metavar="N", help="Sessions side by side, a process each.")
]
TurnSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--turn-seconds",
        min=0.0,
        metavar="S",
        show_default=False,
        help="Keep this pace and wait for nothing, as an agent does; sessions side by side begin one after the other "
        "within it. Without it each turn waits until what was asked for is ready or has failed, so that runs repeat.",
    ),
]
SummarySecondsOption = Annotated[
    float | None,
    typer.Option(
        "--summary-seconds",
        min=0.0,
        metavar="S",
        show_default=False,
        help="Make every summary take this much longer.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="fake[:NAME]",
        show_default=False,
        help="Start a strict stand-in of the Claude API on this machine, have it write the summaries and judge each "
        "request of the agents, with made-up keys. NAME: the model that the agents ask for in place of the recorded "
        "one, as in `fake:claude-sonnet-5-5`.",
    ),
]
FreshProcessOption = Annotated[
    bool,
    typer.Option(
        "--fresh-process", help="A new process for every turn, which loads the history from a database and resumes."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        show_default=False,
        help="Write every request that the agent would have sent: {dialect, session, turn, request}.",
    ),
]
SessionsOption = Annotated[
    list[str] | None,
    typer.Option("--session", metavar="NAME", show_default=False, help="Only this session; may be repeated."),
]
WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="NAME",
        show_default=False,
        help="Workspace of the sessions: a second run in the same one finds the summaries of the first. "
        "A new one for each run if none is given.",
    ),
]
