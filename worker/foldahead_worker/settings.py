"""The one place where the environment is read. Everything else takes a `Settings`, or parts of it, as an
argument.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from foldahead.core.models import Model
from foldahead.errors import FoldaheadError
from foldahead_worker.summarizers.accounts import Accounts, Providers, Secret

DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"
_MOST_PORT = 65_535
_NOT_INHERITED = ("ANTHROPIC_", "AWS_", "CLOUD_ML_", "FLOWER_", "FOLDAHEAD_", "GOOGLE_")
_PROXIES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY")
_YES = ("true", "1", "yes")


class InvalidSettings(FoldaheadError, ValueError):
    """A setting cannot be used. The text names the variable and what was expected."""


class Settings(Struct, frozen=True, kw_only=True):
    """How the server side runs. Variable names are in docs/operations.md."""

    redis_url: str
    database_url: str
    broker_url: str
    summarizer: str = "auto"
    """`auto`: a model where there is a key for it, else `extract`; `extract`: rules only."""
    anthropic_api_key: str = ""
    anthropic_base_url: str = ""
    providers: Providers = Providers()
    """Other providers than the Claude API, and where workspaces have keys of their own."""
    models: dict[str, Model] = {}
    """What the operator says of models, beside `foldahead.core.models`."""
    concurrency: int = 64
    """Summaries at once in one worker process."""
    call_deadline_s: float = 300.0
    lease_dead_after_s: float = 8.0
    """A lease whose heartbeat was seen unchanged for this long is dead."""
    cache_max_rows: int = 1_000
    """Summaries kept per workspace, where its sessions ask for no other number."""
    max_cost_per_workspace_day_usd: float = 0.0
    """What the summaries of a workspace may cost on one UTC day, in all; 0: no limit."""
    summary_delay_s: float = 0.0
    """Slows every summary: for trying things out."""
    metrics_host: str = "127.0.0.1"
    watch_metrics_port: int = 0
    """Port of the page with `/metrics` and `/health` of a watcher; 0: none."""
    work_metrics_port: int = 0
    """The same of a worker."""
    health_due_s: float = 60.0
    """A job that is due for longer makes the service unhealthy."""
    log_format: str = "auto"
    """`text`, `json`, or `auto`: text on a terminal."""
    flower_auth: str = ""
    """`user:password` of Flower; empty: one is made and kept in the state folder."""
    flower_address: str = "127.0.0.1"
    flower_port: int = 5555
    flower_read_only: bool = False
    """Flower shows and changes nothing."""

    def __repr__(self) -> str:
        # Keys and passwords are in here: no log shows them by accident.
        return "Settings(...)"


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises `InvalidSettings`."""
    env = os.environ if environ is None else environ
    redis_url = env.get("FOLDAHEAD_REDIS_URL", DEFAULT_REDIS_URL)
    return Settings(
        redis_url=_redis_url("FOLDAHEAD_REDIS_URL", redis_url),
        database_url=_secret(env, "FOLDAHEAD_DATABASE_URL") or default_database_url(env),
        broker_url=env.get("FOLDAHEAD_BROKER_URL", redis_url),
        summarizer=_choice(env, "FOLDAHEAD_SUMMARIZER", ("auto", "extract")),
        anthropic_api_key=_secret(env, "ANTHROPIC_API_KEY"),
        anthropic_base_url=env.get("ANTHROPIC_BASE_URL", ""),
        providers=_providers(env),
        models=_models(env),
        concurrency=_whole(env, "FOLDAHEAD_CONCURRENCY", 64),
        call_deadline_s=_number(env, "FOLDAHEAD_CALL_DEADLINE_S", 300.0),
        lease_dead_after_s=_number(env, "FOLDAHEAD_LEASE_DEAD_AFTER_S", 8.0),
        cache_max_rows=_whole(env, "FOLDAHEAD_CACHE_MAX_ROWS", 1_000),
        max_cost_per_workspace_day_usd=_number(env, "FOLDAHEAD_MAX_COST_PER_WORKSPACE_DAY_USD", 0.0, least=0.0),
        summary_delay_s=_number(env, "FOLDAHEAD_SUMMARY_DELAY_S", 0.0, least=0.0),
        metrics_host=env.get("FOLDAHEAD_METRICS_HOST", "127.0.0.1"),
        watch_metrics_port=_port(env, "FOLDAHEAD_WATCH_METRICS_PORT"),
        work_metrics_port=_port(env, "FOLDAHEAD_WORK_METRICS_PORT"),
        health_due_s=_number(env, "FOLDAHEAD_HEALTH_DUE_S", 60.0),
        log_format=_choice(env, "FOLDAHEAD_LOG_FORMAT", ("auto", "text", "json")),
        flower_auth=_secret(env, "FLOWER_BASIC_AUTH"),
        flower_address=env.get("FLOWER_ADDRESS", "127.0.0.1"),
        flower_port=_port(env, "FLOWER_PORT", 5555),
        flower_read_only=_choice(env, "FLOWER_READ_ONLY", ("false", "true", "0", "1", "no", "yes")) in _YES,
    )


def state_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Where a user's own state is kept: the database, and all of `foldahead up`."""
    env = os.environ if environ is None else environ
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME", "/tmp")) / ".local" / "state")
    return Path(state) / "foldahead"


def accounts_of(settings: Settings) -> Accounts:
    """The accounts that the settings give keys for."""
    claude_api = {
        "anthropic_key": Secret(settings.anthropic_api_key),
        "anthropic_base_url": settings.anthropic_base_url,
    }
    return Accounts(msgspec.structs.replace(settings.providers, **claude_api))


def default_database_url(environ: Mapping[str, str] | None = None) -> str:
    """A SQLite file in the user's state folder."""
    return f"sqlite:///{state_directory(environ)}/foldahead.db"


def names_a_redis(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the user has a Redis; if not, commands that need one start their own."""
    env = os.environ if environ is None else environ
    return bool(env.get("FOLDAHEAD_REDIS_URL"))


def names_a_database(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the user has a database; if not, commands that need one make their own."""
    env = os.environ if environ is None else environ
    return bool(env.get("FOLDAHEAD_DATABASE_URL") or env.get("FOLDAHEAD_DATABASE_URL_FILE"))


def make_state_directory(environ: Mapping[str, str] | None = None) -> None:
    """Makes the folder of the default database, where that is the one to be used. Raises OSError."""
    if not names_a_database(environ):
        state_directory(environ).mkdir(parents=True, exist_ok=True)


def environment_for(settings: Settings, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child process that is to run with these settings: `read_settings` gives them
    back there.
    """
    env = dict(os.environ if environ is None else environ)
    for name in (
        "FOLDAHEAD_DATABASE_URL_FILE",
        "ANTHROPIC_API_KEY_FILE",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ):
        env.pop(name, None)
    given = {
        "FOLDAHEAD_REDIS_URL": settings.redis_url,
        "FOLDAHEAD_DATABASE_URL": settings.database_url,
        "FOLDAHEAD_BROKER_URL": settings.broker_url,
        "FOLDAHEAD_SUMMARIZER": settings.summarizer,
        "ANTHROPIC_API_KEY": settings.anthropic_api_key,
        "ANTHROPIC_BASE_URL": settings.anthropic_base_url,
        "FOLDAHEAD_CONCURRENCY": str(settings.concurrency),
        "FOLDAHEAD_CALL_DEADLINE_S": str(settings.call_deadline_s),
        "FOLDAHEAD_LEASE_DEAD_AFTER_S": str(settings.lease_dead_after_s),
        "FOLDAHEAD_CACHE_MAX_ROWS": str(settings.cache_max_rows),
        "FOLDAHEAD_MAX_COST_PER_WORKSPACE_DAY_USD": str(settings.max_cost_per_workspace_day_usd),
        "FOLDAHEAD_SUMMARY_DELAY_S": str(settings.summary_delay_s),
        "FOLDAHEAD_METRICS_HOST": settings.metrics_host,
        "FOLDAHEAD_WATCH_METRICS_PORT": str(settings.watch_metrics_port),
        "FOLDAHEAD_WORK_METRICS_PORT": str(settings.work_metrics_port),
        "FOLDAHEAD_HEALTH_DUE_S": str(settings.health_due_s),
        "FOLDAHEAD_LOG_FORMAT": settings.log_format,
        "FLOWER_BASIC_AUTH": settings.flower_auth,
        "FLOWER_ADDRESS": settings.flower_address,
        "FLOWER_PORT": str(settings.flower_port),
        "FLOWER_READ_ONLY": "true" if settings.flower_read_only else "false",
    }
    return env | {name: value for name, value in given.items() if value}


def keyless_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a child inherits that is to know nobody's keys, accounts and settings, and no proxy: it asks a provider on
    this machine, and `environment_for` gives it what it needs.
    """
    env = os.environ if environ is None else environ
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(_NOT_INHERITED) and name.upper() not in _PROXIES
    }


def _providers(env: Mapping[str, str]) -> Providers:
    """Under the names that the SDK has for them; ours are FOLDAHEAD_*."""
    keys_dir = env.get("FOLDAHEAD_KEYS_DIR", "")
    if keys_dir and not Path(keys_dir).is_dir():
        raise InvalidSettings(f"FOLDAHEAD_KEYS_DIR: expected a folder, got {keys_dir!r}")
    return Providers(
        foundry_key=Secret(_secret(env, "ANTHROPIC_FOUNDRY_API_KEY")),
        foundry_resource=env.get("ANTHROPIC_FOUNDRY_RESOURCE", ""),
        foundry_base_url=env.get("ANTHROPIC_FOUNDRY_BASE_URL", ""),
        bedrock_key=Secret(_secret(env, "AWS_BEARER_TOKEN_BEDROCK")),
        aws_region=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION", ""),
        bedrock_base_url=env.get("ANTHROPIC_BEDROCK_BASE_URL", ""),
        vertex_region=env.get("CLOUD_ML_REGION", ""),
        vertex_project=env.get("ANTHROPIC_VERTEX_PROJECT_ID", ""),
        vertex_base_url=env.get("ANTHROPIC_VERTEX_BASE_URL", ""),
        keys_dir=Path(keys_dir) if keys_dir else None,
    )


def _models(env: Mapping[str, str]) -> dict[str, Model]:
    path = env.get("FOLDAHEAD_MODELS_FILE", "")
    if not path:
        return {}
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Model])
    except OSError as error:
        raise InvalidSettings(f"FOLDAHEAD_MODELS_FILE: cannot read {path!r}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InvalidSettings(f"FOLDAHEAD_MODELS_FILE: {path!r}: {error}") from error


def _secret(env: Mapping[str, str], name: str) -> str:
    """A value, or the content of the file that NAME_FILE names (as container secrets are given)."""
    if path := env.get(f"{name}_FILE"):
        try:
            return Path(path).read_text("utf8").strip()
        except OSError as error:
            raise InvalidSettings(f"{name}_FILE: cannot read {path!r}: {error.strerror}") from error
    return env.get(name, "")


def _redis_url(name: str, url: str) -> str:
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise InvalidSettings(f"{name}: expected redis://, rediss:// or unix://, got {url.partition(':')[0]!r}")
    if "cluster" in url.partition("?")[2]:
        raise InvalidSettings(f"{name}: Redis Cluster is not supported (Celery's transport does not support it)")
    return url


def _number(env: Mapping[str, str], name: str, default: float, least: float = 0.01) -> float:
    try:
        value = float(env.get(name, default))
    except ValueError:
        raise InvalidSettings(f"{name}: expected a number, got {env[name]!r}") from None
    if not value >= least:
        raise InvalidSettings(f"{name}: expected at least {least:g}, got {value:g}")
    return value


def _choice(env: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of some words; the first is the default."""
    value = env.get(name) or choices[0]
    if value not in choices:
        raise InvalidSettings(f"{name}: expected {', '.join(choices[:-1])} or {choices[-1]}, got {value!r}")
    return value


def _port(env: Mapping[str, str], name: str, default: int = 0) -> int:
    value = _number(env, name, default, least=0)
    if value != int(value) or value > _MOST_PORT:
        raise InvalidSettings(f"{name}: expected a port, or 0 for none, got {value:g}")
    return int(value)


def _whole(env: Mapping[str, str], name: str, default: int) -> int:
    value = _number(env, name, default, least=1)
    if value != int(value):
        raise InvalidSettings(f"{name}: expected a whole number, got {value:g}")
    return int(value)
