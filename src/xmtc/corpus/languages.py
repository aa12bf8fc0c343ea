"""The language of a text by its script, its most frequent words and its special letters, or "unknown".

Meant for a report about a corpus ("3 % of the documents are in Dutch"), not for single short texts: a title of three
words is mostly unknown. Languages that are not listed here are unknown too, or taken for a close relative.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from xmtc.progress import track

UNKNOWN = "unknown"
READ_CHARACTERS = 2000  # of each text
ENOUGH = 2.0  # evidence: a function word of one language counts 1, one that n languages share counts 1/n
AHEAD = 1.3  # how many times as much evidence as for the second language
LETTER_WEIGHT = 0.5
MOST_LETTERS = 4  # special letters that count, so that a list of names does not outweigh words

_NAMES = (
    "ar:Arabic bg:Bulgarian bn:Bengali ca:Catalan cs:Czech da:Danish de:German el:Greek en:English "
    "es:Spanish et:Estonian fa:Persian fi:Finnish fr:French he:Hebrew hi:Hindi hr:Croatian hu:Hungarian "
    "hy:Armenian id:Indonesian it:Italian ja:Japanese ka:Georgian ko:Korean nl:Dutch no:Norwegian "
    "pl:Polish pt:Portuguese ro:Romanian ru:Russian sr:Serbian sv:Swedish ta:Tamil th:Thai tr:Turkish "
    "uk:Ukrainian zh:Chinese"
)
NAMES = dict(pair.split(":") for pair in _NAMES.split())

# Function words: frequent whatever the subject.
FUNCTION_WORDS = {
    "en": "the of and to in is that for it with as was on are be by this from at or an which not have has its can you "
    "will your were been their they also but if when other more than these into such using used between",
    "de": "der die das und ist nicht ein eine einer eines einem einen mit von zu zum zur auf für im den dem des sich "
    "auch es werden wird wurde sind war bei aus nach als an oder durch über kann haben hat wie man sie ich nur noch",
    "fr": "le la les des et est une un du dans pour que qui par sur pas avec au aux ce cette ces il elle sont plus ne "
    "se en être ou leur son ses nous vous mais comme été fait peut entre sans très",
    "es": "el la los las de y que en un una es por con para del se no su al lo como más pero sus está son fue ha este "
    "esta entre cuando muy sin sobre también hay ser desde todo donde nos",
    "it": "il lo la gli le di e che un una è per con del della dei delle nel nella non si sono al alla da dal come più "
    "anche ha ma questo questa suo sua essere dalla degli ai tra stato quando",
    "pt": "o os as de e que um uma é do da dos das em no na nos nas para com por não se ao aos mais como mas foi são "
    "seu sua pelo pela também entre quando muito está ser ou às até isso",
    "ca": "el la els les de i que un una és per amb del dels al als no se es en com més però ha són aquest aquesta "
    "també entre quan molt seva seu sobre sense fins ser va han",
    "nl": "de het een en van is in op te dat die niet met voor zijn er aan om ook als bij door naar uit maar over nog "
    "wordt worden werd hij zij ze dit deze kan heeft hebben was geen tot je wel meer",
    "sv": "och att det som en ett är av för på med den till inte om de har jag var från vid eller men kan ska också "
    "när efter där mycket alla mellan hos genom under sin sitt så utan blir",
    "da": "og at det som en et er af for på med den til ikke om de har jeg var fra ved eller men kan skal også når "
    "efter der meget alle mellem hos gennem under sin sit så uden bliver blev nogle hvor",
    "no": "og at det som en et er av for på med den til ikke om de har jeg var fra ved eller men kan skal også når "
    "etter der mye alle mellom hos gjennom under sin sitt så uten blir ble noen hvor være bare",
    "fi": "ja on ei se että hän joka mutta ovat oli tai kun niin kuin myös sen jos voi olla sekä tämä ne hänen jotka "
    "mukaan ole vain jo siitä joita kanssa tässä vuonna sitä kaikki",
    "et": "ja on ei see et ta mis aga oli või kui nii ka ning oma seda selle olid siis mida kes nende välja pole veel "
    "tema üle kuid ole saab peab mitte",
    "pl": "i w na z do nie się to jest że o od za po przez dla jak są jego jej tego oraz był była być ale co który "
    "która które może przy tym tylko ich czy już bardzo",
    "cs": "a v na se je že to s z do o i k ve pro jako za by si jeho její jsou byl byla bylo ale nebo který která "
    "které však při jen podle může také po co není být když",
    "hr": "i u na je se da za od su s o kao iz po ali koji koja koje bio bila bilo nije što ili kako te biti samo "
    "može sa do prema još gdje nakon bi",
    "hu": "a az és hogy nem is egy ez meg volt van csak de már mint vagy el ki azt ha még ezt aki ami lehet után "
    "szerint minden között pedig majd lett",
    "ro": "și în de la a cu pe nu că este o un din se pentru care mai sunt ce au fost dar sau prin după fi lui sale "
    "între acest această ale ca el ea",
    "tr": "ve bir bu da de için ile olarak daha çok gibi olan ne en kadar ama sonra her değil var o ki veya ise "
    "tarafından oldu olduğu göre üzerinde",
    "id": "yang dan di ini itu dengan untuk dari pada tidak dalam adalah ke akan oleh juga atau sebagai ada dapat "
    "telah karena lebih bisa mereka saya kami sudah seperti",
    "ru": "и в не на что с он как по это к но из у за то от его для так же все она был бы только мы было или если "
    "когда при до они также которые быть может",
    "uk": "і в не на що з він як по це до але із у за та від його для так все вона був би тільки ми було або якщо "
    "коли при вони також які бути може є й",
    "bg": "и в не на че с той как по това към но от за то се да са като е ще тя беше би само ние или ако когато при "
    "до те също които може има със във",
    "sr": "и у не на да са он као по ово али из за то се од је су који која које био би само ми или ако када при до "
    "они такође може није што",
}

# Letters that only these languages have, among those of their script above.
_LETTERS = (
    "ß:de ñ:es ¿:es ¡:es ã:pt õ:pt,et ł:pl ę:pl ą:pl ś:pl ź:pl ż:pl ć:pl,hr đ:hr ř:cs ě:cs ů:cs ő:hu ű:hu "
    "ğ:tr ı:tr ş:tr ș:ro ț:ro ţ:ro ă:ro å:sv,da,no æ:da,no ø:da,no ä:de,sv,fi,et ö:de,sv,fi,et,hu,tr "
    "ü:de,et,hu,tr œ:fr ê:fr,pt ï:fr,ca,nl ы:ru э:ru ё:ru ї:uk є:uk ґ:uk ј:sr ђ:sr ћ:sr љ:sr њ:sr џ:sr "
    "ъ:bg,ru"
)
LETTERS = dict(pair.split(":") for pair in _LETTERS.split())

# Scripts in which one language of those above, or a large one, is written.
SCRIPTS = {
    "el": "\u0370-\u03ff",
    "hy": "\u0530-\u058f",
    "he": "\u0590-\u05ff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "ta": "\u0b80-\u0bff",
    "th": "\u0e00-\u0e7f",
    "ka": "\u10a0-\u10ff",
    "ko": "\u1100-\u11ff\uac00-\ud7af",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "kana": "\u3040-\u30ff",
    "han": "\u3400-\u9fff",
    "cyrillic": "\u0400-\u04ff",
    "latin": "a-z\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff",
}
PERSIAN = re.compile("[\u067e\u0686\u0698\u06af\u06cc]")
LEAST_OF_SCRIPT = 6  # letters of a script that is a language's own, below which little is said


def _weights() -> dict[str, list[tuple[str, float]]]:
    """For each function word the languages it speaks for, and how much."""
    of_word: dict[str, list[str]] = {}
    for language, words in FUNCTION_WORDS.items():
        for word in words.split():
            of_word.setdefault(word, []).append(language)
    return {word: [(language, 1 / len(found)) for language in found] for word, found in of_word.items()}


WEIGHTS = _weights()
LETTER_WEIGHTS = {
    letter: [(language, LETTER_WEIGHT / len(found.split(","))) for language in found.split(",")]
    for letter, found in LETTERS.items()
}
WORD = re.compile(r"[^\W\d_]+")
SPECIAL = re.compile(f"[{''.join(LETTERS)}]")
SCRIPT_LETTERS = {name: re.compile(f"[{letters}]") for name, letters in SCRIPTS.items()}
ASCII_LETTER = re.compile("[a-z]")


def language_of(text: str) -> str:
    """The code of the language (ISO 639-1) that most of the text is in, "unknown" if that is not clear.

    >>> language_of("The ship left the harbour at dawn and was never seen again.")
    'en'
    >>> language_of("Das Schiff verließ den Hafen und wurde nie wieder gesehen."), language_of("東京は日本の首都です。")
    ('de', 'ja')
    >>> language_of("Foo 42"), language_of("")
    ('unknown', 'unknown')
    """
    text = text[:READ_CHARACTERS].lower()
    if not text.isascii() and (found := _by_script(text)):
        return found
    evidence = _evidence(text)
    best, second = sorted([0.0, 0.0, *evidence.values()])[:-3:-1]
    if best < max(ENOUGH, AHEAD * second):
        return UNKNOWN
    return max(evidence, key=lambda language: evidence[language])


def language_shares(text: str) -> dict[str, float]:
    """The languages that a text may be in, each with its share of the evidence; nothing if there is too little of it.

    >>> shares = language_shares("The ship left the harbour at dawn and was never seen again.")
    >>> max(shares, key=shares.get), round(sum(shares.values()), 6)
    ('en', 1.0)
    """
    text = text[:READ_CHARACTERS].lower()
    if not text.isascii() and (found := _by_script(text)):
        return {} if found == UNKNOWN else {found: 1.0}
    evidence = _evidence(text)
    total = sum(evidence.values())
    return {language: share / total for language, share in evidence.items()} if total >= ENOUGH else {}


def _evidence(text: str) -> dict[str, float]:
    """How much words and letters of a text in small letters speak for each language."""
    evidence: defaultdict[str, float] = defaultdict(float)
    for word in WORD.findall(text):
        for language, weight in WEIGHTS.get(word, ()):
            evidence[language] += weight
    for letter in SPECIAL.findall(text)[:MOST_LETTERS]:
        for language, weight in LETTER_WEIGHTS[letter]:
            evidence[language] += weight
    return evidence


def _by_script(text: str) -> str | None:
    """The language if the script tells it; None if words must."""
    letters = {name: len(pattern.findall(text)) for name, pattern in SCRIPT_LETTERS.items()}
    letters["han"] += letters["kana"]
    script = max(letters, key=lambda name: letters[name])
    if script in ("latin", "cyrillic"):
        return None
    if letters[script] < LEAST_OF_SCRIPT:
        return UNKNOWN
    if script == "han":
        # Japanese has some kana in almost every sentence.
        return "ja" if 10 * letters["kana"] > letters["han"] else "zh"
    if script == "arabic":
        return "fa" if PERSIAN.search(text) else "ar"
    return script


def count_languages(texts: Iterable[str]) -> dict[str, int]:
    """The number of texts in each language, the most frequent first, those unknown last.

    >>> count_languages(["the cat is on the mat", "le chat est sur la table", "the dog and the cat", "xyz"])
    {'en': 2, 'fr': 1, 'unknown': 1}
    """
    counts = Counter(map(language_of, track(texts, "finding languages")))
    return dict(sorted(counts.items(), key=lambda item: (item[0] == UNKNOWN, -item[1], item[0])))
