"""Words that carry no topic, and what makes two forms of a word comparable.

Lists are short on purpose: the ranking gives little weight to words that are everywhere in a text, so a list only has
to help with short texts. Invariant: pure data and pure functions; every regular expression runs in linear time.
"""

from __future__ import annotations

from ..._patterns import lazy_pattern

__all__ = ["CJK", "CJK_STOP", "STOP_WORDS", "WORD", "Stems", "count_tokens", "is_cjk", "without_urls"]

# Han, kana and their extensions: written without spaces, so their "words" are pairs of neighbouring characters.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

WORD = lazy_pattern(rf"[{CJK}]+|[^\W_{CJK}]+(?:['\u2019_\-][^\W_{CJK}]+)*")
"""A run of CJK characters, or a word with its inner apostrophes, hyphens and underscores."""

_TOKEN = lazy_pattern(rf"[{CJK}]|[^\W_{CJK}]+(?:['\u2019_\-][^\W_{CJK}]+)*")
_URL = lazy_pattern(r"[a-z]{2,8}://\S+")
_CJK_START = lazy_pattern(rf"[{CJK}]")

_ENGLISH = """
a about above after again against all also although always am among an and another any anyone anything are around as
at away be because been before being below between both but by can cannot come could did do does doing done down
during each either else etc even ever every everything few first for from further get gets give given go goes had has
have having he hence her here hers him his how however i if in instead into is it its itself just keep last least less
let like made make makes making many may me might mine more most much must my near need needs neither never no nor not
nothing now of off often on once one only or other others our out over own per perhaps please put quite rather said
same say says see several shall she should since so some something still such take takes than that the their them then
there therefore these they thing things this those through thus to together too toward two under unless until up upon
us use used uses using usually very via want was way we well were what whatever when where whether which while who
whole whom whose why will with within without would yes yet you your yours
"""
_COUNTING = """
eight eighth eleven except false fifth five four fourth hundred last later million new next nine none null old second
seven seventh six sixth ten tenth third three thousand true twelve twenty zero various including following eins zwei
drei vier f\u00fcnf sechs sieben acht neun zehn erst erste ersten erster erstes neue neuen rund deux trois dos tres
"""
_CODE = "args bool cls def elif init int isinstance kwargs len noqa self str"
_GERMAN = """
ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bis bzw da dabei dadurch
damit danach dann daran darauf das dass dazu dem den denn der deren des dessen die dies diese diesem diesen dieser
dieses doch dort durch ein eine einem einen einer eines er es etwa etwas euch f\u00fcr gegen gibt hat hatte hatten
haben hier ihm ihn ihr ihre ihrem ihren ihrer im immer in ins ist ja je jede jedem jeden jeder jedes jedoch kann kein
keine keinen k\u00f6nnen k\u00f6nnte man mehr mein meine mit muss m\u00fcssen nach nicht nichts noch nun nur ob oder
ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so sodass soll sollen sondern sowie um und uns
unser unsere unter viel viele vom von vor war waren was wegen weil weiter wenn wer werden wie wieder wir wird wo
worden wurde wurden w\u00e4hrend zu zum zur zwar zwischen \u00fcber
"""
_FRENCH_SPANISH = """
au aux avec ce ces cette dans de des du elle elles en est et eu il ils je la le les leur lui mais nous on ou par pas
plus pour qu que qui sa se ses son sont sur un une vous al como con del el ella ellos entre era es esa ese esta este
fue ha han la las lo los m\u00e1s muy no para pero por que se ser sin sobre son su sus tambi\u00e9n un una uno y ya
"""
STOP_WORDS = frozenset(f"{_ENGLISH} {_COUNTING} {_CODE} {_GERMAN} {_FRENCH_SPANISH}".split())
"""Words without a topic: English, German, a little French and Spanish."""

CJK_STOP = frozenset(
    "\u7684\u4e86\u662f\u5728\u548c\u4e0e\u6216\u4e5f\u90fd\u5c31\u800c\u5c06\u88ab\u628a\u5bf9\u8be5\u8fd9\u90a3"
    "\u4e2a\u4eec\u6211\u4f60\u4ed6\u5979\u5b83\u53ca\u5176\u4e4b\u4ee5\u4e8e\u4e3a\u4ece\u5230\u7b49\u5f88\u8fd8\u4f46\u7740"
    "\u306e\u306f\u304c\u3092\u306b\u3067\u3068\u3082\u305f\u3059\u308b\u3066\u308c\u3055\u3057\u304b\u3089"
)
"""Characters that join words in Chinese and Japanese; a pair with one of them is no word."""

_SAME = {
    form: word
    for word, forms in (
        ("begin", "began begun"),
        ("build", "built"),
        ("buy", "bought"),
        ("lead", "led"),
        ("license", "licence licences licenced"),
        ("sell", "sold"),
        ("speak", "spoke spoken"),
        ("teach", "taught"),
        ("win", "won"),
        ("write", "wrote written"),
    )
    for form in forms.split()
}  # fmt: skip - one word a line would be ten lines more
"""Irregular and British forms that questions about documents often use."""

_SUFFIXES = (
    *("izations", "ization", "ations", "ation", "ments", "ment", "ings", "ions", "edly"),
    *("ing", "ion", "ies", "ers", "ern", "est", "ed", "er", "es", "en", "em", "ly", "e", "s", "y"),
)


class Stems(dict[str, str]):
    """The comparable form of each lower-case word, made on first use; empty for a word that carries no topic.

    One object serves one answer, so it never outgrows the text that it was made for.
    """

    def __missing__(self, word: str) -> str:
        self[word] = stem = _stem(word)
        return stem

    def terms(self, text: str) -> list[str]:
        """Return the comparable forms of the words of a text that carry a topic, in order and with repeats."""
        found: list[str] = []
        for word in WORD.findall(without_urls(text).lower()):
            if is_cjk(word):
                found.extend(_pairs(word))
            elif stem := self[word]:
                found.append(stem)
        return found


def is_cjk(word: str) -> bool:
    """Tell whether a word begins with a character of a script without spaces."""
    return _CJK_START.match(word) is not None


def without_urls(text: str) -> str:
    """Return a text without its addresses, whose parts are no words."""
    return _URL.sub(" ", text) if "://" in text else text


def count_tokens(text: str) -> int:
    """Count the word tokens of a text: each word is one, and so is each CJK character."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _pairs(run: str) -> list[str]:
    if len(run) == 1:
        return [] if run in CJK_STOP else [run]
    pairs = (run[i : i + 2] for i in range(len(run) - 1))
    return [pair for pair in pairs if pair[0] not in CJK_STOP and pair[1] not in CJK_STOP]


def _stem(word: str) -> str:
    word = word.replace("\u2019", "'").removesuffix("'s")
    word = _SAME.get(word, word)
    if word in STOP_WORDS or (len(word) < 2 and not word.isdigit()):
        return ""
    if not word.isalpha():
        return word
    for suffix in _SUFFIXES:
        if len(word) - len(suffix) >= 4 and word.endswith(suffix):
            word = word[: -len(suffix)]
            break
    else:
        if len(word) == 4 and word[-1] == "s" and word[-2] not in "su":  # apps, runs
            word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
