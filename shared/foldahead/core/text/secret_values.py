"""Whether a value that stands where a secret would is one, or is code, a type, a label, a placeholder."""

import re

# What a name goes on with when its value tells about a secret and is none: `password_length`, `tokenizer`.
_NO_SECRET_NAME = re.compile(
    r"[_\-]?(?:len|max|min|count|limit|file|path|dir|url|uri|endpoint|field|name|type|polic|expir|ttl|age"
    r"|size|usage"
    r"|input|output|reset|strength|require|enable|valid|prompt|label|placeholder|hint|regex|pattern|provider"
    r"|manager"
    r"|service|budget|estimat|i[sz]e|i[sz]ation|ratio|price|cost|id(?![a-z])|ids|ref|scope|form|page|column"
    r"|index"
    r"|position|owner|arn|version|kind|source|store|backend|format|class|list|stream|error|mismatch"
    r"|s?[_\-]?(?:total|used"
    r"|left|before|after|in|out|per|saved|cached|read|sent|seconds|days)(?![a-z]))",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"\[redacted|[*x•.…_\-?#]+$|\$\{?[A-Za-z_(]|\$\(|%[sd({A-Z]|\{|<|(?:your|my|the|an?"
    r"|some)[\s_\-](?:own[\s_\-])?(?:api|access|secret|token|pass|key|value|auth)|(?:example|placeholder"
    r"|changeme|change[_\-]me"
    r"|dummy|redacted|hidden|masked|insert|replace|todo|xxx+|none|null|nil|undefined|true|false|required"
    r"|optional|empty|unset)"
    r"(?:$|[\s_\-.,;)\]}<])",
    re.IGNORECASE,
)
_TYPE = re.compile(
    r"(?:str|string|int|integer|bool|boolean|bytes|number|any|object|unknown|never|void|text|char|varchar"
    r"|chararray"
    r"|Optional|Union|Secret\w*|SecretStr|Field|Column|Literal|Annotated|Callable|self|cls|this|os|process"
    r"|env|getenv|await|async|new"
    r"|return|not|lambda|func|function|def|const|let|var|if|is|in|for|and|or|with|from|to|as|it|that|this"
    r"|was|has|must|should|be"
    r"|can|will|are|which|when|auth|token|tokens|password|passwd|passphrase|pwd|pass|secret|secrets|key"
    r"|value|val|data|args|opts"
    r"|config|settings|request|req|res|params|user|username|email|input|login|psk)(?=$|[\W_])",
    re.IGNORECASE,
)
_CALL = re.compile(r"[A-Za-z_][\w.:]*[(\[]|&?[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+(?:[(\[].*)?$")
_WORD = re.compile(r"[^\W\d]+$")
_SNAKE = re.compile(r"[a-z]+(?:[_\-.][a-z]+)*[_\-]?\d{0,2}$")
_CONSTANT = re.compile(r"[A-Z]{2,}(?:_[A-Z0-9]+)+$")
_CAMEL = re.compile(r"(?:[A-Z][a-z]+){2,}$|[a-z]+(?:[A-Z][a-z]+)+$")
_WORDS_WITH_DASHES = re.compile(r"sk(?:-[a-z]{1,12}[0-9]?)+")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.\-]|[A-Za-z]:\\|\w+://")


def key_names_no_secret(rest: str) -> bool:
    """Whether the rest of a name (`_length` of `password_length`) says that its value is no secret."""
    return bool(_NO_SECRET_NAME.match(rest))


def is_placeholder(value: str) -> bool:
    """Whether a value only stands for a secret: empty, stars, `${NAME}`, `<token>`, `your-key`."""
    return not value or bool(_PLACEHOLDER.match(value))


def has_digit_and_letter(value: str) -> bool:
    """Whether a value is mixed as secrets are and words are not."""
    return bool(_DIGIT.search(value) and _LETTER.search(value))


def is_password(value: str, *, quoted: bool, certain: bool) -> bool:
    """Whether a password's value is one. `certain`: it stands where only a value can stand."""
    if is_placeholder(value) or len(value) > 512 or _PATH.match(value):
        return False
    if quoted:
        words = value.split()
        return bool(words) and len(words) <= 4 and not (len(words) > 1 and _TYPE.search(value)) and not _is_label(value)
    if _CALL.match(value) and not has_digit_and_letter(value):
        return False
    if _WORD.match(value) or (_SNAKE.match(value) and not value[-1].isdigit()):
        return certain and not _TYPE.match(value)
    return len(value) >= 4 and not (_TYPE.match(value) and not has_digit_and_letter(value)) and not _CALL.match(value)


def is_secret_value(value: str, *, quoted: bool, certain: bool) -> bool:
    """The same for a token, a key or a secret: longer, and less like a name."""
    if is_placeholder(value) or " " in value or len(value) < 8 or value.isdigit() or _PATH.match(value):
        return False
    if _CALL.match(value) or _CONSTANT.match(value):
        return False
    if certain and not _CAMEL.match(value):
        return not _TYPE.match(value) or has_digit_and_letter(value)
    if _SNAKE.match(value):
        return False
    mixed = has_digit_and_letter(value) or (len(value) >= 20 and not value.islower() and not value.isupper())
    return mixed and (quoted or len(value) >= 12)


def is_token(value: str) -> bool:
    """Whether what carries a maker's prefix is a token and no name, as `sk-fading-circle` is one."""
    return any(c.isdigit() for c in value) and not _WORDS_WITH_DASHES.fullmatch(value)


def _is_label(value: str) -> bool:
    return value.replace(" ", "").isalpha() and bool(_TYPE.match(value.strip()))
