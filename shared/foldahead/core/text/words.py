"""Cutting texts with a mark, splitting them into sentences, and the cue words that tell sentences apart.

Cues are in the languages that sessions come in most: English, German, French, Spanish, Portuguese, Italian, Dutch,
Russian, Chinese, Japanese, Korean; the words for never, always, only and must not in others too. They only rank: what
the user said is kept, cue or none, as far as there is room.
"""

import re

from foldahead.core.text.anchors import folded

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]{0,2}\s+(?=[^\s.a-z])|(?<=[。！？])|\n+")
_BLANKS = re.compile(r"\s+")
_BULLET = re.compile(r"^(?:[-*•>#]{1,6}|\d{1,2}[.)])\s+")

CONSTRAINT = re.compile(
    r"\b(?:never|always|must(?:n't)?|do ?n[o']t|don\u2019t|shouldn'?t|should|shall|only|avoid|without|keep"
    r"|use|using|prefer|instead|rather|required?"
    r"|need(?:s)? to|have to|has to|make sure|ensure|be careful|careful|remember|important|no longer"
    r"|not allowed|forbidden|except|unless"
    r"|at (?:most|least)|limit|exactly|stick (?:to|with)|leave|stop|wrong|incorrect|not correct|actually"
    r"|correction|by default|as of now|from now on"
    r"|is|are|=|wait|deadline|port|version|branch|"
    r"nie(?:mals)?|immer|nicht|kein\w*|muss|m\u00fcssen|soll\w*|nur|statt\w*|bitte|darf|"
    r"jamais|toujours|doit|ne pas|pas de|seulement|plut\u00f4t|nunca|siempre|debe\w*|solo|s\u00f3lo|sempre"
    r"|mai|deve|n\u00e3o|nooit|altijd|moet|niet)\b"
    r"|никогда|всегда|должн|нельзя|только|вместо|не надо|不要|不能|必须|必須|总是|總是|禁止|只|始终|应该"
    r"|應該|改用|请|請|请勿|别"
    r"|ないで|しない|必ず|ください|だけ|常に|代わりに|하지\s?마|반드시|항상|절대|만\s",
    re.IGNORECASE,
)
_FORBIDDEN = (
    r"kein\w*|geen|niet|alleen|não|non(?!-)|mai|ne (?:\w+ ){1,2}(?:pas|jamais)|n['’]\w+ (?:pas|jamais)|seulement"
    r"|uniquement|únicamente|solamente|soltanto|somente|apenas"
    r"|no (?:se )?(?:debe|toques?|uses?|cambies?|modifiques?|borres?|hagas?)"
    r"|nigdy|zawsze|nie wolno|tylko|nikdy|vždy|pouze|ніколи|завжди|не можна|тільки|ποτέ|πάντα|μόνο"
    r"|asla|her zaman|sakın|sadece|yalnızca|jangan|selalu|hanya|tidak boleh"
    r"|aldrig|aldri|alltid|altid|endast|älä|aina|soha|mindig|csak"
)
"""Words that forbid or insist, in languages of which no more is known."""
_FORBIDDEN_WITHIN = (
    r"không bao giờ|không được|đừng|luôn|ห้าม|อย่า|เสมอ|เท่านั้น|أبدا|أبدًا|دائما|دائمًا|يجب|ممنوع|فقط|לעולם|תמיד"
    r"|אסור|רק "
    r"|कभी |हमेशा|केवल|सिर्फ|मत "
)
"""The same in scripts without blanks between words, or with marks that are no letters."""
STRONG_CONSTRAINT = re.compile(
    r"\b(?:never|always|must(?:n't)?|ha(?:ve|s) to|shall|correction|do ?n[o']t|don\u2019t|only|avoid|without|instead"
    r"|make sure|ensure"
    r"|be careful|forbidden|not allowed|wrong"
    r"|not correct|incorrect|actually|no longer|from now on|prefer|at most|at least|exactly|keep|remember|"
    r"nie(?:mals)?|immer|nicht|muss|nur|statt\w*|jamais|toujours|nunca|siempre|sempre|nooit|altijd|"
    + _FORBIDDEN
    + r")\b"
    r"|никогда|всегда|нельзя|только|вместо|不要|不能|必须|必須|总是|總是|禁止|始终|改用|请勿|别|ないで|必ず"
    r"|常に|代わりに|하지\s?마|반드시|항상|절대|" + _FORBIDDEN_WITHIN,
    re.IGNORECASE,
)
DECISION = re.compile(
    r"\b(?:decid\w+|root cause|turns out|instead of|rather than|chose|choos(?:e|ing)|chosen|opted|going with"
    r"|i'?ll use|we'?ll use|conclu\w+|approach"
    r"|(?:the|this) (?:problem|issue|bug|cause|reason|fix|solution) (?:is|was)|(?:was|is) caused by|fixed"
    r"|resolved|confirmed|verified|works? now|all tests pass"
    r"|discovered|found (?:that|the cause|out)|because|therefore|so that|which means|this means|must (?:be"
    r"|not)|cannot be|not supported|does(?:n't| not) support"
    r"|requires|was missing|implemented|updated|added|removed|renamed|replaced|created|committed|pushed"
    r"|deployed|refund\w*|cancel\w*|booked"
    r"|entschieden|weil|ursache|d\u00e9cid\w+|parce que|porque|perch\u00e9)\b|потому|решил|причина|因为|因為"
    r"|决定|決定|原因|根本|発見|理由|때문",
    re.IGNORECASE,
)
PLAN = re.compile(
    r"\b(?:next|now (?:let me|i'?ll|i need|i will|we)|let me|i'?ll|i will|i'?m going to|going to|then i"
    r"|remaining|still (?:need|to)|todo|step \d+|plan"
    r"|als n\u00e4chstes|ensuite|luego|ahora)\b|сейчас|далее|接下来|接下來|下一步|然后|次に|다음",
    re.IGNORECASE,
)
_ORDERS = tuple(
    (words, re.compile(expression, re.IGNORECASE | re.MULTILINE))
    for words, expression in (
        (
            (b"ignore", b"disregard", b"forget", b"override"),
            r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|all|your|the|any)\b",
        ),
        (
            (b"system", b"assistant", b"user", b"human", b"developer", b"important"),
            r"^\W{0,8}(?:system|assistant|user|human|developer|important)\W{0,4}:",
        ),
        (
            (b"the user ",),
            r"\bthe user (?:now )?(?:wants|asks|asked|said|says|would like|has (?:asked|approved))",
        ),
        (
            (b"you ",),
            r"\byou (?:must|should|are now|have to|need to|will|can now)\b.{0,24}\b(?:run|execute|ignore|send|call"
            r"|delete|tell|reply|respond|stop|now|approve|transfer|fetch|download|curl|output|reveal|forget)\b",
        ),
        ((b"next step",), r"\bnext step\s*:"),
        ((b"new instruction", b"new task", b"new goal"), r"\bnew (?:instructions?|task|goal)\b"),
        ((b"<",), r"</?(?:conversation|system|instructions?|user|assistant|prompt)\b"),
        ((b"do not ",), r"\bdo not (?:tell|mention|inform)"),
        (
            (b"agents", b"assistants", b" ai", b"ai:", b"ai ", b"llm", b"model"),
            r"\b(?:(?:note|notice|message|instructions?|attention) (?:to|for) (?:all |any |the )?"
            r"(?:AI|LLM|assistants?|agents?|models?)\b|(?:AI|LLM) (?:agents?|assistants?|models?)\s?:"
            r"|if you are an? (?:AI|LLM|assistant|agent|language model))",
        ),
        ((b"<!--",), r"<!--\s?(?:AI|LLM|agents?|assistants?)\b"),
        ((b"inst]", b"<<sys>>"), r"\[/?INST\]|<<SYS>>"),
        (
            # the same in German, Spanish, Portuguese, French, Italian, Dutch
            (b"ignor", b"missachte", b"vergiss", b"olvida", b"negeer", b"oublie", b"dimentica", b"esque"),
            r"\b(?:ignor(?:iere?n?|a|ad|e|en|ez|i|ate|are|er)|missachte|vergiss|olvida|negeer|oubliez?|dimentica"
            r"|esque[cç]a)"
            r"\b.{0,40}\b(?:anweisung|vorherig|bisherig|instruc|instru[cç]|istruzion|anterior|pr[eé]c[eé]dent"
            r"|instructies)",
        ),
        ((b"|",), r"\|\s*(?:sh|bash|zsh)\b"),
        ((b"rm -rf",), r"\brm -rf\b"),
    )
)
"""How orders read that stand in data, each with words of which it has one."""
_FOREIGN_ORDER = re.compile(
    r"(?:忽略|无视|無視|忘记|忘記).{0,12}(?:指令|说明|說明|之前|以前|指示)|無視して|無視し、|игнорир|ігнору"
    r"|تجاهل.{0,20}(?:التعليمات|السابقة)|התעלם.{0,20}הוראות|yoksay|görmezden gel"
    r"|zignoruj.{0,30}(?:instrukcj|polece)|(?:지시|명령|지침).{0,12}(?:무시|잊)|(?:指示|指令).{0,12}(?:無視|忽略)",
    re.IGNORECASE,
)
LEFT_OUT = "[… "
"""How every mark of ours begins that says how much was left out."""
MARK_CHARS = 40
"""What a mark takes. A text this little too long stays whole: what was cut once is not cut again."""
_LEFT_OUT = LEFT_OUT + "{:,} characters left out …]"


def one_line(text: str) -> str:
    """The text on one line, runs of blanks made one."""
    return _BLANKS.sub(" ", text).strip()


def shorten(text: str, most_chars: int) -> str:
    """The text, or its beginning with a mark that says how many characters went."""
    if len(text) <= most_chars + MARK_CHARS:
        return text
    mark = _LEFT_OUT.format(len(text) - most_chars)
    return f"{text[:most_chars].rstrip()} {mark}"


def ends_of(text: str, most_chars: int) -> str:
    """The beginning and the end of a long text, with a mark between that says how many characters went."""
    if len(text) <= most_chars + MARK_CHARS:
        return text
    head = most_chars * 2 // 3
    tail = most_chars - head
    mark = _LEFT_OUT.format(len(text) - most_chars)
    return f"{text[:head].rstrip()} {mark} {text[len(text) - tail :].lstrip()}"


def sentences(text: str) -> list[str]:
    """Sentences and lines of a text in order, list marks taken off, nothing rewritten."""
    parts = (_BULLET.sub("", part.strip()) for part in _SENTENCE_END.split(text) if part)
    return [part for part in parts if part]


def is_prose(sentence: str) -> bool:
    """Whether a line reads as somebody's words rather than a log, code or data."""
    if len(sentence) > 600:
        return False
    letters = sum(c.isalpha() or c == " " for c in sentence)
    return letters >= 0.72 * len(sentence) and not sentence.startswith(("at ", "import ", "from ", "def ", "return "))


def without_orders(text: str) -> str:
    """What a tool printed without the lines that read like orders; a mark where nothing else is left."""
    data = folded(text)
    orders = [order for words, order in _ORDERS if any(word in data for word in words)]
    if not text.isascii():
        orders.append(_FOREIGN_ORDER)

    def reads_like_one(said: str) -> bool:
        return any(order.search(said) for order in orders)

    if not reads_like_one(text):
        return text
    kept = [line for line in text.splitlines() if not reads_like_one(line)]
    return "\n".join(kept) if any(map(str.strip, kept)) else "[reads like an instruction: left out]"
