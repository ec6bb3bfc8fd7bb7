//! English words of which the splitting of sentences knows something.
//!
//! Written from general knowledge; words that the English model of nltk treats otherwise were left
//! out. That model knows more words, most of them names out of newspapers.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words that are written with a stop at their end.
const ABBREVIATIONS: &str = "
    mr mrs ms messrs dr prof rep reps sen gen lt col maj st jr sr ph.d inc corp co cos ltd bros
    vs jan feb aug sep sept oct nov dec tues wed fri u.s u.k u.n u.s.a u.s.s.r d.c a.m p.m ala
    ariz calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn va vt wash wis n.c n.d
    n.h n.j n.m n.y s.c w.va l.a ave ft mg yr c d e f g h k l m n p r s t v w a.c a.d a.g a.h
    a.s a.t c.v d.h e.f e.h e.l e.m f.g f.j g.k h.f h.m j.b j.c j.j j.k j.p j.r l.f l.p m.j
    p.a.m r.a r.h r.i r.j r.k r.t s.a s.g s.s t.j w.c w.r w.w m.b.a adm ct ok";

/// Words that begin a sentence if they have a capital behind an abbreviation.
const FIRST: &str = "
    according although among both but despite even he however i if in indeed instead it many
    meanwhile moreover most nevertheless nonetheless nor separately similarly since so some the
    there these they this though thus under when while yet";

/// Words in lower case that are seldom part of names: with a capital, they begin a sentence.
const ORDINARY: &str = "
    able above accordingly afterwards allow almost along already always anybody anyone anything
    anyway apparently apply ask become begin behind being believe beneath besides better between
    beyond build call cannot carefully certainly check choose consider contact create discover
    does drink earlier early easily either else enjoy enough especially essentially eventually
    ever exactly example examples except exercise experts explain explore extremely fewer
    finally follow following frankly frequently furthermore given going guess happy hence her
    here hers herself him himself honestly hundreds imagine importantly inside inspired into
    learn likewise listen looking maintain meaning mine mix myself naturally necessary need
    neither nothing occasionally okay otherwise ours overall personally play please plenty
    practically practice prepare presumably previously probably put quietly rarely recently
    regardless remember right safe serve simply sit slowly sometimes soon sorry speak
    specifically spend starting step such suddenly surely surprisingly taking teach ten thank
    thanks them themselves thereafter thereby therefore things think through throughout together
    tomorrow traditionally truly try trying turn typically ultimately undoubtedly unfortunately
    unless unlike upon using very wait walk were whenever whereas wherever whether which
    whichever whom wide within without wonderful words working yes yesterday your yourself";

/// Words in lower case that are part of names and titles, too.
const SMALL: &str = "
    a about across actually add after again against agree all alone also an and another answer
    any are around as at avoid away be bear because been before below bring buy by can certain
    clearly close come continue could cut definitely did do down during each eat end every
    everybody everyone everything find first focus for from further generally get getting give
    go good great had half hard hardly has have having hey high higher his how is its itself
    join just keep know knowing last later learning leave less let life like little long look
    lots love make making may maybe me might more much must my nearly never next nice nine no
    nobody none now obviously of off often on once one only open or order other others our out
    outside over own people perhaps place plan quickly quite rather read really rest run save
    say scientists second see several share she should show sleep small start stay stop students
    studies sure take talk tell that their then thing third those thousands three to today too
    toward travel twice two until up use usually visit want was watch we well what whatever
    where who whose why will with word work would write years you young";

pub(super) fn is_abbreviation(word: &str) -> bool {
    static WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| of(ABBREVIATIONS));
    WORDS.contains(word)
}

pub(super) fn begins_sentences(word: &str) -> bool {
    static WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| of(FIRST));
    WORDS.contains(word)
}

/// Whether a word with a capital begins a sentence.
pub(super) fn is_ordinary(word: &str) -> bool {
    static WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| of(ORDINARY));
    WORDS.contains(word)
}

/// Whether a word is known in lower case.
pub(super) fn is_usually_small(word: &str) -> bool {
    static WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| of(SMALL));
    is_ordinary(word) || begins_sentences(word) || WORDS.contains(word)
}

fn of(list: &'static str) -> BTreeSet<&'static str> {
    list.split_ascii_whitespace().collect()
}
