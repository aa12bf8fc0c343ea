"""Languages of texts, on sentences written for this test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.languages import FUNCTION_WORDS, NAMES, UNKNOWN, count_languages, language_of
from xmtc.corpus.statistics import describe

SENTENCES = {
    "en": "The library was closed for a week, and nobody knew when it would be open again.",
    "de": "Die Bücherei war eine Woche lang geschlossen, und niemand wusste, wann sie wieder öffnen wird.",
    "fr": "La bibliothèque était fermée pendant une semaine et personne ne savait quand elle serait ouverte.",
    "es": "La biblioteca estuvo cerrada durante una semana y nadie sabía cuándo los libros estarían en su sitio.",
    "it": "La biblioteca è rimasta chiusa per una settimana e nessuno sapeva quando gli orari sarebbero tornati.",
    "pt": "A biblioteca ficou fechada durante uma semana e não se sabia quando os livros voltariam para as estantes.",
    "ca": "La biblioteca va estar tancada durant una setmana i ningú no sabia quan els llibres tornarien amb ella.",
    "nl": "De bibliotheek was een week gesloten en niemand wist wanneer het gebouw weer open zou zijn voor de lezers.",
    "sv": "Biblioteket var stängt i en vecka och ingen visste när det skulle öppna igen för alla som läser mycket.",
    "da": "Biblioteket var lukket i en uge, og ingen vidste, hvornår det blev åbnet igen af kommunen efter nogle dage.",
    "no": "Biblioteket var stengt i en uke, og ingen visste når det ble åpnet igjen av kommunen etter noen dager.",
    "fi": "Kirjasto oli viikon suljettuna, ja kukaan ei tiennyt, milloin se on taas auki niin kuin ennen.",
    "et": "Raamatukogu oli nädal aega suletud ning keegi ei teadnud, millal see avatakse, aga raamatud olid alles.",
    "pl": "Biblioteka była zamknięta przez tydzień i nikt nie wiedział, kiedy się otworzy dla czytelników.",
    "cs": "Knihovna byla týden zavřená a nikdo nevěděl, kdy se znovu otevře pro čtenáře, kteří přišli.",
    "hr": "Knjižnica je bila zatvorena tjedan dana i nitko nije znao kada će se ponovno otvoriti, što je čudno.",
    "hu": "A könyvtár egy hétig zárva volt, és senki sem tudta, hogy mikor nyit ki újra az épület.",
    "ro": "Biblioteca a fost închisă o săptămână și nimeni nu știa când se va deschide din nou pentru cititori.",
    "tr": "Kütüphane bir hafta boyunca kapalıydı ve ne zaman açılacağı hakkında daha fazla bilgi için kimse yoktu.",
    "id": "Perpustakaan itu ditutup selama seminggu dan tidak ada yang tahu kapan akan dibuka untuk mereka.",
    "ru": "Библиотека была закрыта неделю, и никто не знал, когда она откроется, но это было не так важно.",
    "uk": "Бібліотека була зачинена тиждень, і ніхто не знав, коли вона відкриється, але це було не так важливо.",
    "bg": "Библиотеката беше затворена една седмица и никой не знаеше кога ще се отвори, но това не е важно.",
    "sr": "Библиотека је била затворена недељу дана и нико није знао када ће се отворити, али то није важно.",
    "el": "Η βιβλιοθήκη ήταν κλειστή για μια εβδομάδα.",
    "ar": "كانت المكتبة مغلقة لمدة أسبوع.",
    "fa": "کتابخانه یک هفته بسته بود و هیچ کس چیزی نمی‌دانست.",
    "he": "הספרייה הייתה סגורה במשך שבוע.",
    "hi": "पुस्तकालय एक सप्ताह के लिए बंद था।",
    "th": "ห้องสมุดปิดเป็นเวลาหนึ่งสัปดาห์",
    "ko": "도서관은 일주일 동안 문을 닫았다.",
    "ja": "図書館は一週間閉まっていました。",
    "zh": "图书馆关闭了一个星期，没有人知道什么时候开门。",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_tells_its_language(language: str) -> None:
    assert language_of(SENTENCES[language]) == language
    assert language_of(SENTENCES[language].upper().lower()) == language


@pytest.mark.parametrize("text", ["", "42 + 7 = 49", "Foo bar baz", "Email", "naïve café", "αβγ", "!!!", "XYZ-9000 v2"])
def test_what_says_little_is_unknown(text: str) -> None:
    assert language_of(text) == UNKNOWN


def test_a_text_half_in_each_of_two_languages_is_unknown() -> None:
    assert (
        language_of("the cat is on the mat and not in the house; die Katze ist auf dem Teppich und nicht im Haus")
        == UNKNOWN
    )


def test_every_language_has_a_name_and_no_function_word_twice() -> None:
    for language, words in FUNCTION_WORDS.items():
        assert language in NAMES
        assert len(words.split()) == len(set(words.split())), language
    assert set(SENTENCES) <= set(NAMES)


@given(st.lists(st.text(max_size=30) | st.sampled_from(list(SENTENCES.values())), max_size=10))
def test_every_text_is_counted_once(texts: list[str]) -> None:
    counts = count_languages(texts)
    assert sum(counts.values()) == len(texts)
    assert set(counts) <= {*NAMES, UNKNOWN}
    known = [count for language, count in counts.items() if language != UNKNOWN]
    assert known == sorted(known, reverse=True)


def test_a_few_texts_in_a_language_are_not_listed_by_name() -> None:
    texts = ["the cat is on the mat and it is old"] * 997 + ["le chat est sur la table avec les autres"] * 3
    lines = dict(describe(Corpus.of(texts, [["x"]] * 1000)).rows())
    assert lines["languages"] == "English 99.7%, others 0.3%"
