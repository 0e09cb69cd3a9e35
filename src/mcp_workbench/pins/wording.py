"""Wording that a tool's definition has no use for, and that attacks are made of. Pure.

Every quantifier is bounded: the texts are a stranger's, and may be long. A pattern is kept only if it stays
silent on hundreds of honest tools. It need not catch all there is: what withholds a tool is its hash.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

_GAP = r"[^\w.!?;]{1,3}"  # within a sentence
_WORDS = rf"(?:{_GAP}\w{{1,30}})"


def _up_to(count: int) -> str:
    """So many words, and the gap before what follows."""
    return rf"{_WORDS}{{0,{count}}}?{_GAP}"


_PERSON = r"(?:the\W{1,3})?(?:end\W)?(?:users?|humans?|anyone|anybody|operators?|owners?)\b"
_FILES = (
    r"(?:[/\\~.]{1,3}(?:ssh|aws|gnupg|kube|netrc|git-credentials|npmrc|pypirc|cursor)\b"
    r"|\bssh\Wid\b|\bid\Wrsa\b|\bid\Wed25519\b|/?\betc\W(?:passwd|shadow)\b|\b(?:claude\Wdesktop\Wconfig|mcp)\.json\b|\baws\Wcredentials\b|\bauthorized\Wkeys\b)"
)
_SECRETS = (
    r"(?:(?:entire|full|whole|complete|previous|prior|current)\W(?:conversation|chat|messages?|context|prompt|user\Wmessages?)"
    r"|(?:conversation|chat)\W(?:history|log|transcript)|system\Wprompt"
    r"|(?:user'?s?|all|any|available|stored)\W(?:\w{1,20}\W)?"
    r"(?:credentials|passwords?|api\Wkeys?|secrets|environment\Wvariables|private\Wkeys?))\b"
)
_TOOLS = r"(?:tools?|functions?|mcp|servers?)\b"

_PATTERNS: Final = {
    "overrides what the model was told": [
        r"\b(?:override|bypass)\b"
        + _up_to(3)
        + r"(?:your|all|any|system|safety|previous|existing)\b"
        + _up_to(2)
        + r"(?:instructions?|prompts?|guidelines|guardrails|directives)\b",
        r"\b(?:ignore|disregard|forget)\b" + _up_to(3) + r"(?:all|any|previous|prior|earlier"
        r"|preceding|above|your|system|existing|original|other|safety)\b"
        + _up_to(3)
        + r"(?:instructions?|prompts?|rules|guidelines|guardrails|directives)\b",
        r"\byou\Ware\Wnow\W(?:in\W\w{1,20}\Wmode|unrestricted|jailbroken|dan)\b",
        r"\bnew\W(?:system\W)?(?:instructions|directives)\W{0,2}:",
        r"忽略.{0,8}(?:指令|指示|提示|规则|要求)",
        r"(?:前|上記|これまで|以前)の(?:すべての)?(?:指示|命令|プロンプト).{0,4}無視",
        r"\bignor\w{1,8}\b.{1,30}\b(?:instrucciones|instruções|istruzioni|consignes|anweisungen|vorgaben)\b",
        r"\bигнорир\w{1,10}\b.{1,30}(?:инструкци|указани)",
    ],
    "hides something from the user": [
        r"\b(?:do\Wnot|don't|never|must\Wnot|mustn't|should\Wnot|shouldn't|no\Wneed\Wto|avoid|refrain\Wfrom)\b"
        + _up_to(2)
        + r"(?:tell(?:ing)?\W|(?:tell|mention|reveal|disclos)(?:e|ing)?\b"
        + rf"{_WORDS}{{0,8}}?{_GAP}(?:to|with){_GAP}){_PERSON}",
        # Of several users that's an honest option: "do not notify users".
        r"\b(?:do\Wnot|don't|never|must\Wnot|mustn't|no\Wneed\Wto|avoid)\W(?:\w{1,12}\W)?"
        r"(?:inform|notify|alert|warn|let)(?:ing)?\Wthe\W(?:end\W)?(?:user|human)\b",
        r"\b(?:do\Wnot|don't|never)\W(?:mention|reveal|disclose|(?:show|display)(?=\W\w+\Wto\b))\W"
        r"(?:this|it|these|that)\b",
        r"\bwithout\W{1,3}(?:ever\W)?(?:telling|informing|notifying|alerting|warning|mentioning)\b"
        + rf"(?:{_WORDS}{{0,4}}?\W{{1,3}}to)?\W{{1,3}}{_PERSON}",
        r"\bthe\W(?:user|human)\W(?:must|should|shall|need|may)(?:\Wnot|n't)\W(?:\w{1,10}\W)?"
        r"(?:know|see|notice|learn|be\W(?:told|informed|aware|notified))\b",
        r"\bwithout\W(?:the\W)?(?:users?|humans?)(?:'s?)?\W(?:knowledge|noticing|knowing|awareness)\b",
        r"\bkeep\W(?:this|it|that)\W(?:(?:step|call|action|instruction|operation)\W)?(?:a\W)?"
        r"(?:secret|hidden|confidential)\b",
        r"\b(?:secretly|covertly|silently|stealthily|discreetly)\W(?:\w{1,12}\W)?(?:send|forward|upload|post|read"
        r"|copy|include|append|attach|transmit|execute|run|call|collect|record|bcc|pass)",
        r"(?:不要|切勿|不得|别)(?:将|把|向)?.{0,6}(?:告诉|告知|通知|透露|提及).{0,8}(?:用户|任何人)",
        r"ユーザー(?:に|には).{0,12}(?:言わない|伝えない|知らせない|話さない|教えない)",
        r"\bno\W(?:le\W|se\W)?(?:digas?|informes?|menciones?|reveles?|cuentes?)\b.{0,25}\busuario",
        r"\bne\W(?:dis|dites|mentionne\w{0,2}|révèle\w{0,2}|informe\w{0,2})\b.{0,25}\butilisateur",
        r"\b(?:sag|erzähl|verrat|informier|teil)\w{0,3}\b.{0,25}nutzer\w{0,2}\b.{0,20}\bnichts?\b",
        r"\bnão\W(?:diga|conte|informe|mencione|revele)\b.{0,25}\busuário",
        r"\bне\W(?:говори|сообщай|рассказывай|упоминай)\w{0,3}\b.{0,25}пользовател",
    ],
    "marks text as an instruction": [
        r"<\s?/?\s?(?:important|secret|hidden|critical)(?:[\s_-]\w{1,20}){0,2}\s?>",
        # As part of an address they only stand for something.
        r"(?<![\w/=:.-])<\s?/?\s?(?:system|admin|override|sys|mandatory|assistant)(?:[\s_-]\w{1,20}){0,2}\s?>(?![\w/.-])",
        r"\[/?INST\]|<\|\w{1,20}\|>|<<\s?/?SYS\s?>>",
        r"<!--",
        r"\b(?:begin|start|end)\Wof?\W?(?:system|secret|hidden)\W(?:prompt|instructions?)\b",
    ],
    "puts itself before other tools": [
        r"\b(?:before|prior\Wto|whenever)\W(?:you\W)?(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|runn?(?:ing)?)\W"
        r"(?:any|every|all|each|another|(?:any\W)?other)\b" + _up_to(2) + _TOOLS,
        r"\b(?:called|used|invoked|run|executed|call|use|invoke|run)\W(?:\w{1,12}\W){0,3}(?:first\W{1,2})?before\W"
        r"(?:any|all|every)\W(?:of\Wthe\W)?others?\b",
        r"\bbefore\W(?:you\W)?(?:answer|respond|reply)(?:ing)?\b[^.]{0,40}\b(?:call|invoke|use)\b",
        # As a sentence of its own: "to renew the data, always call this first" is honest.
        r"(?:\A|[.!:]\W{1,2})always\W(?:call|use|invoke|run)\W(?:this|it)\W(?:(?:tool|function)\W)?(?:first|before)\b",
        r"\b(?:do\Wnot|don't|never)\W(?:use|call|invoke)\W(?:any|all|the)?\W?(?:other|another)\b"
        + _up_to(2)
        + _TOOLS,
        r"\b(?:replaces|supersedes|overrides|takes\W(?:precedence|priority)\Wover)\W(?:all|any|every|the)?\W?"
        r"(?:other|existing)\b" + _up_to(2) + _TOOLS,
    ],
    "says how other tools are to behave": [
        r"\b(?:when|whenever|if)\b.{1,50}\btools?\W(?:is|are|gets?)\W(?:available|present|called|invoked|provided)\b"
        r".{1,200}\b(?:must|always|have\Wto|has\Wto|instead)\b",
        r"\b(?:all|every|any|each)\W(?:e?\W?mails?|messages?|requests?|payments?|transfers?)"
        r"(?:\W(?!that\b|which\b|who\b)\w{1,12}){0,2}\W(?:must|should|have\Wto|has\Wto|need\Wto|shall)\b.{0,20}\b(?:sent|forwarded|routed|redirected|copied)\b",
        r"\b(?:always|must|also)\W(?:\w{1,12}\W)?bcc\b",
    ],
    "asks for private files": [
        r"\b(?:read|open|cat|load|access|include|copy|pass|send|upload|attach)(?:s|ing)?\b[^.]{1,60}?"
        + _FILES,
        r"\bcontents?\W(?:of|from|in)\b[^.]{1,40}?" + _FILES,
        r"\b(?:include|copy|pass|send|upload|attach|contents?\W(?:of|from))\b[^.]{1,40}?(?<!\w)\.env\b",
    ],
    "asks for secrets or for what was said": [
        r"\b(?:send|forward|post|upload|transmit|exfiltrate|leak|include|pass|attach|embed|append|insert|copy|put)"
        r"(?:s|ing)?\b" + _up_to(5) + _SECRETS,
    ],
    "holds a shell command": [
        r"\b(?:curl|wget)\b[^|]{1,120}\|\s?(?:sudo\s)?(?:ba|z|da)?sh\b",
        r"\bbase64\s(?:-d|--decode)\b|/dev/tcp/|\bpowershell\b.{0,30}\s-e(?:nc|c)\b|\brm\s-rf\s[/~]",
    ],
}
# What a server is not to be told, as names of parameters.
_ASKING_NAMES: Final = (
    r"(?:conversation|chat|tool\Wcall|message)\Whistory|chain\Wof\Wthought"
    r"|(?:list\Wof\W)?(?:available\W)?tools\Wlist|(?:full|entire)\W(?:conversation|context)"
)


@cache
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    return [
        (what, re.compile(pattern, re.IGNORECASE))
        for what, patterns in _PATTERNS.items()
        for pattern in patterns
    ]


def suspicious(text: str) -> Iterator[tuple[str, str]]:
    """What is suspicious in a text, as a model would read it, and where it says so."""
    # What is one word may be several, written together.
    ways = [_as_read(way) for way in ((text,) if " " in text else (text, _as_words(text)))]
    told = set()
    for way in dict.fromkeys([*ways, *map(_with_latin_letters, ways)]):
        for what, pattern in _compiled():
            if what not in told and (found := pattern.search(way)):
                told.add(what)
                yield what, way[max(found.start() - 20, 0) : found.end() + 40]


def suspicious_key(name: str) -> Iterator[tuple[str, str]]:
    """The same of a parameter's name."""
    if re.fullmatch(_ASKING_NAMES, _as_words(name), re.IGNORECASE):
        yield "asks for secrets or for what was said", name
    else:
        yield from suspicious(name)


def _as_words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]", " ", name)


def _as_read(text: str) -> str:
    """Without what hides the words from a search, but not from a model."""
    if not text.isascii():
        import unicodedata

        from ..printable import is_seen

        text = unicodedata.normalize("NFKC", text).replace("’", "'")
        text = "".join(character for character in text if is_seen(character) or character.isspace())
    return re.sub(r"\s+", " ", re.sub(r"[*`]+", "", text))


_LOOKALIKES = str.maketrans("аеорсухіјѕһԁԛԝьАВЕКМНОРСТУХІЈЅαορνικτ", "aeopcyxijshdqwbABEKMHOPCTYXIJSaopvikt")


def _with_latin_letters(text: str) -> str:
    return text if text.isascii() else text.translate(_LOOKALIKES)
