"""What summarisers, and what stands between us and them, say in place of an account of a conversation.

Told by form alone, by how it begins or by all of it: an account may quote any of this further on.
"""

import json
import re

# Tags in which models write tool calls as text, with or without a namespace.
_CALL_TAG = re.compile(
    r"<\|?(?:\w{1,20}:)?(?:tool_calls?|tool_use|tool_code|function_calls?|function|invoke|tool_call_begin"
    r"|python_tag)"
    r"(?:_begin|_end)?(?=[\s>|=/])|\[TOOL_CALLS\]|<｜(?:tool|DSML)|✿FUNCTION✿"
    r"|\[\w{1,60}\([^\n]*\)\]\s*\Z|assistant(?:commentary|analysis)\b"
    r"|(?:thought:[^\n]*\n+)?action:[^\n]+\n+action input:",
    re.IGNORECASE,
)
_CALL_INSIDE = re.compile(
    r"<(?:\w{1,20}:)?(?:tool_calls?|tool_use|function_calls?)>\s*[\[{<]|<(?:\w{1,20}:)?invoke name="
    r"|<function=|<(?P<tool>[a-z]+(?:_[a-z]+)+)>\s*<(?P<argument>\w+)>[^<]*</(?P=argument)>[^`]*</(?P=tool)>",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CALL_KEYS = re.compile(r'"(?:arguments|input|parameters|tool_calls?|function|tool_use_id)"\s*:')
_MARKUP = re.compile(r"<[^<>\n]{1,200}>")
_WORDS = re.compile(r"[^\W\d_]{2,}")

_PAGE = re.compile(r"<[|｜]|<!doctype|<html", re.IGNORECASE)
"""How marks of a chat template and error pages of a proxy begin."""
_TRANSCRIPT = re.compile(r"(?:human|h):\s.*^\s*(?:assistant|a):\s", re.IGNORECASE | re.DOTALL | re.MULTILINE)
"""A model that goes on with the conversation writes both its sides, as its template has them."""
_ERROR = re.compile(
    r"\W{0,3}(?:"
    r"(?:error\b[\s:]{0,3})?(?:[45]\d\d\b\W{0,4}(?:\Z|(?:(?:client|server) error\b|bad request|unauthori[sz]ed"
    r"|forbidden"
    r"|not found|request timeout|conflict|payload too large|too many requests|internal server|bad gateway"
    r"|service unavailable|gateway time-?out|overloaded|[{\[<]))|internal server error|bad gateway|service unavailable"
    r"|gateway time-?out|too many requests)"
    r"|(?:api|llm|model|provider|upstream) error\b|error code\W{1,3}\d{3}\b|(?:connection|network) error\W*\Z"
    r"|(?:openai|anthropic|litellm)\.\w|(?:API\w*|RateLimit|BadRequest|Authentication|InternalServer|Overloaded)Error\b"
    r"|(?:error|exception|failure) (?:while |when |in |during )?(?:generating|creating|producing|summari[sz]ing)"
    r"|(?:failed|unable|could not|was unable|not able) (?:to )?(?:generate|create|produce|write"
    r"|summari[sz]e)\b[^.\n]{0,20}"
    r"\b(?:summar\w*|notes?|recap|response|completion|conversation|this)\b"
    r"|(?:the )?(?:previous |earlier )?(?:conversation|prompt|context|input|request)(?: \w+){0,3} (?:is |was )?too "
    r"(?:long|large)"
    r"|an? (?:unknown|unexpected|internal) error (?:has )?occurred|something went wrong"
    r"|(?:(?:the )?(?:request|connection) (?:timed out|failed|was aborted)|rate limit(?:ed| exceeded| reached))"
    r"\W*(?:\Z|please|try|for (?:model|org))|overloaded\W*\Z|overloaded_error"
    r"|your credit balance|insufficient (?:credits?|quota|balance)|you (?:have )?exceeded your (?:current )?quota"
    r"|(?:\w+ ){0,3}usage limit reached|this model's maximum context length|maximum context length"
    r"|context length exceeded"
    r"|invalid (?:api key|x-api-key)"
    r")",
    re.IGNORECASE,
)
_ERROR_AT_MOST_WORDS = 24

_PLACEHOLDER = re.compile(
    r"[\W_]{0,4}(?:null|none|nil|undefined|nan|n/a|object Object|empty|nbsp|no (?:content|summary|text)(?: available)?"
    r"|(?:the )?summary (?:is )?(?:not available|unavailable|failed|pending)|no response (?:requested|needed)"
    r"|to be (?:done|filled in|determined)|tbd|todo)[\W_]{0,4}",
    re.IGNORECASE,
)
_NOD = re.compile(
    r"\W{0,3}(?:ok|okay|yes|no|sure|sure thing|done|all done|noted|acknowledged|understood|got it|will do|certainly"
    r"|of course|thanks|thank you|you(?:'|\u2019)re welcome|ready)\W{0,3}",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"[^\n]{1,120}:|\W{0,3}(?:summari[sz]ing|compacting|generating|preparing|writing)\b[^\n]{0,80}(?:\.\.\.|…)",
    re.IGNORECASE,
)
"""What announces an account and is none."""
_HEADING = re.compile(r"\s*#{1,6}\s[^\n]*")
_UNFILLED = re.compile(r"\W{0,4}\[(?!redacted:|\W?\])[^\]\n]{3,200}\]\W{0,4}|[\W_]*")
"""A line of a template that was not filled in."""
_MOST_LINES = 40

# An answer that speaks about being asked, at its very beginning.
_MATERIAL = r"(?:conversation|transcript|text|messages?|content|summar\w*|details|context|material|chat|information)"
_ABOUT = re.compile(
    r"(?:(?:i(?:'|\u2019)?m|i am)\s+(?:very\s+|so\s+)?(?:sorry|unable|afraid|not able|not going to)"
    r"|sorry\s*,?\s+(?:but\s+)?i\b|(?:my\s+)?apologies|i apologi[sz]e"
    r"|(?:unfortunately,?\s+)?i\s+(?:can(?:no|')?t|cannot|can\u2019t|won(?:'|\u2019)t|don(?:'"
    r"|\u2019)t\s+(?:see|have))\b"
    r"|as an ai\b|as a (?:large )?language model"
    rf"|(?:please|could you|can you|would you)\s+(?:\w+\s+){{0,2}}(?:provide|share|paste|send|supply|clarify)\b"
    rf"[^.\n]{{0,60}}\b(?:{_MATERIAL}|more|what|which|it|them|me)\b"
    r"|(?:it (?:looks|seems|appears)(?: like| that)? |there (?:is|appears to be) )"
    r"(?:the |your |no )?(?:conversation|transcript|message)[^.\n]{0,60}"
    r"(?:empty|missing|blank|to summari[sz]e|not (?:included|provided))"
    r"|no (?:conversation|transcript)(?: \w+){0,3} (?:was|has been|is) (?:provided|given|included)"
    r"|(?:the |your )(?:conversation|transcript)(?: \w+){0,4} (?:is|was) (?:empty|missing|blank)"
    r"|no messages (?:were|have been) (?:provided|given|included)"
    r"|i (?:must|have to|am going to have to) decline"
    r"|(?:this|your|the) (?:request|conversation|content) (?:violates|goes against)"
    r"|(?:(?:sure|certainly|okay|ok|great|understood|got it|alright)\b[\s,.!]{1,3})?"
    r"(?:let me|let's|i(?:'|\u2019)ll|i will) "
    r"(?:now |first |start|begin|continue|proceed|run|check|look|read|open|fix|summari[sz]e)"
    r"|(?:sure|certainly|of course|absolutely|okay|ok)\b[^\n]{0,60}"
    r"(?:please (?:provide|share|paste)|ready to|go ahead|what would you like)"
    r"|(?:thanks|thank you) for (?:sharing|providing|the)\b"
    r"|(?:what|how) (?:would|can|may) (?:you like|i (?:help|assist|do))"
    r"|i(?:'|\u2019)?(?:ll| will| would|'d) (?:be happy|be glad|need) (?:to|the|more|you)"
    r"|(?:je suis |je ne peux pas|d\u00e9sol\u00e9)\b[^.\n]{0,60}(?:peux pas|impossible|r\u00e9sumer)"
    r"|lo siento\b|no puedo (?:ayudar|resumir)|es tut mir leid|ich kann (?:das|dies\w*|die|leider)\b[^.\n]{0,60}nicht"
    r"|desculpe\b|n\u00e3o posso (?:ajudar|resumir)|mi dispiace\b|non posso (?:aiutar|riassumere)"
    r"|bitte (?:geben|senden|schicken|teilen|stellen) sie\b|veuillez (?:fournir|partager|envoyer|coller)"
    r"|por favor,? (?:proporci\w+|compart\w+|env\w+|forne\w+|pegu\w+|cole)\b|per favore,? (?:fornisc|condivid|invia)"
    r"|(?:het spijt me|helaas kan ik)\b|tyvärr\b|jag kan (?:tyvärr )?inte|beklager\b|jeg kan (?:desværre"
    r"|dessverre) ikke"
    r"|valitettavasti\b|przepraszam\b|niestety nie mog|omlouvám se|bohužel n|îmi pare rău|sajnálom\b|sajnos nem"
    r"|üzgünüm\b|maaf\b|xin lỗi\b|rất tiếc\b|λυπάμαι|συγγνώμη"
    r"|извините|не могу помочь|к сожалению, я не|пожалуйста, (?:предоставьте|пришлите|отправьте)|вибачте"
    r"|عذر|آسف|أعتذر|לצערי|מצטער|क्षमा|मुझे खेद|ขออภัย"
    r"|(?:很?抱歉|对不起|對不起|(?:好的[，,]?)?(?:请|請)(?:提供|把|将|將|发|發)|作[为為]一?[个個]?\s?AI|申し訳|すみません|죄송)"
    r"|[^\n]{0,60}(?:を(?:提供|送信|共有|貼り付け)してください|(?:제공|공유|입력)해\s?주)"
    r"|\[(?:transcript|notes) \S{1,80} begins?\]|(?:write|you write) the hand-over note of\b)",
    re.IGNORECASE,
)
_REFUSES_IT = re.compile(
    r"\bI(?:(?:'|\u2019)m| am)? (?:can(?:'|\u2019)?t|cannot|can not|won(?:'|\u2019)t|will not|not going to|unable to"
    r"|not able to|not comfortable|must decline|have to decline|need to decline|shouldn(?:'|\u2019)t)\b[^.\n]{0,80}"
    r"\b(?:summar\w*|hand-?over|recap|notes?|transcript|this (?:conversation|request|task)|memory update|as requested"
    r"|(?:proceed|continue|help) with (?:this|that|it))\b"
)
"""A refusal that goes on for long, or begins with something else, says what it refuses."""
_REFUSED_WITHIN_CHARS = 300
_QUESTION = re.compile(
    r"(?:would you|do you|should i|shall i|may i|can i|could (?:you|i)|can you|what|which|how|where|is there"
    r"|are there)\b"
    r"[^\n]{0,300}\?\s*",
    re.IGNORECASE,
)
_QUESTION_AT_MOST_WORDS = 40
_ABOUT_AT_MOST_WORDS = 120  # a long account that begins with "Sorry" is an account


def says_nothing(text: str) -> bool:
    """Nothing that anybody sees, a word for nothing, a nod, an announcement, or headings with nothing under them."""
    seen = any(char.isprintable() and not char.isspace() for char in text)
    if not seen or any(form.fullmatch(text) for form in (_PLACEHOLDER, _NOD, _LEAD_IN)):
        return True
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines[:_MOST_LINES] if not _HEADING.fullmatch(line)]
    return len(told) < len(lines) <= _MOST_LINES and all(
        _PLACEHOLDER.fullmatch(line) or _UNFILLED.fullmatch(line) for line in told
    )


def is_an_error(text: str) -> bool:
    """The marks of a chat template, both sides of a conversation, or what stands between us and the model."""
    if _PAGE.match(text) or _TRANSCRIPT.match(text):
        return True
    return bool(_ERROR.match(text)) and _is_short(text, _ERROR_AT_MOST_WORDS)


def is_call(text: str) -> bool:
    """A tool call written as text: the answer begins with its markup, or carries a whole one outside of code.

    A tag merely named in a sentence is no call.
    """
    return bool(_CALL_TAG.match(text) or _CALL_INSIDE.search(_CODE.sub(" ", text)))


def has_no_prose(text: str) -> bool:
    """Only JSON, only code, or only tags; text without any letters (`...`) is not judged here."""
    if text[0] in "{[" and (_is_json(text) or _CALL_KEYS.search(text)):
        return True
    if not _WORDS.search(text):
        return False
    bare = _MARKUP.sub(" ", _CODE.sub(lambda code: " " if code[0].startswith("```") else code[0], text))
    return not _WORDS.search(bare)


def is_about_the_request(text: str) -> bool:
    """A refusal, a question back, a promise: it speaks to whoever asked."""
    opening = text.lstrip("#*_>- \n\"'")
    if _ABOUT.match(opening) and _is_short(text, _ABOUT_AT_MOST_WORDS):
        return True
    if _QUESTION.fullmatch(opening) and _is_short(text, _QUESTION_AT_MOST_WORDS):
        return True
    return bool(_REFUSES_IT.search(text[:_REFUSED_WITHIN_CHARS].partition("\n#")[0]))


def _is_short(text: str, most_words: int) -> bool:
    return len(text.split(None, most_words)) <= most_words


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
