"""The dialects that there are."""

from foldahead.core.dialect import Dialect
from foldahead.core.dialects.anthropic import AnthropicMessages
from foldahead.core.dialects.openai import OpenAIChat
from foldahead.errors import UnknownDialect

_DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (AnthropicMessages(), OpenAIChat("openai"), OpenAIChat("openai-strict", alternates=True))
}
DIALECT_NAMES = tuple(_DIALECTS)


def get_dialect(name: str) -> Dialect:
    """The dialect of a name: "anthropic", "openai", or "openai-strict" for providers that want user and assistant
    to alternate. Raises `UnknownDialect`."""
    try:
        return _DIALECTS[name]
    except KeyError:
        raise UnknownDialect(f"dialect {name!r}: expected one of {', '.join(DIALECT_NAMES)}") from None
