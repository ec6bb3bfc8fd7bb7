//! English words of which the splitting of sentences knows something.

/// Words that are written with a stop at their end.
const ABBREVIATIONS: &str = "
    mr mrs ms messrs dr prof rep reps sen gen lt col maj sgt st jr sr ph.d
    inc corp co cos ltd bros vs
    jan feb aug sep sept oct nov dec tues wed fri
    u.s u.k u.n u.s.a u.s.s.r d.c a.m p.m
    ala ariz ark calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn va vt wash wis
    n.c n.d n.h n.j n.m n.y s.c s.d w.va l.a
    ave ft mg yr
    b c d e f g h k l m n p r s t v w
    a.c a.d a.g a.h a.s a.t c.v d.h e.f e.h e.l e.m f.g f.j g.k h.f h.m j.b j.c j.j j.k j.p j.r l.f
    l.p m.j p.a.m r.a r.h r.i r.j r.k r.t s.a s.g s.s t.j w.c w.r w.w";

/// Words that often begin sentences.
const FIRST: &str = "
    according although among both but despite even he however i if in indeed instead it many
    meanwhile moreover most nevertheless nonetheless nor separately similarly since so some the there
    these they this though thus under when while yet";

/// Words in lower case that are seldom names: with a capital, they begin a sentence.
const ORDINARY: &str = "";

/// Words that are usually in lower case, but also part of names and titles.
const SMALL: &str = "";

pub(super) fn is_abbreviation(word: &str) -> bool {
    contains(ABBREVIATIONS, word)
}
pub(super) fn begins_sentences(word: &str) -> bool {
    contains(FIRST, word)
}
pub(super) fn is_ordinary(word: &str) -> bool {
    contains(ORDINARY, word)
}
pub(super) fn is_usually_small(word: &str) -> bool {
    is_ordinary(word) || contains(SMALL, word)
}
fn contains(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split_ascii_whitespace().any(|known| known == word)
}
