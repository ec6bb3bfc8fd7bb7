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
    able above accordingly afterwards allow almost along already always animal animals anybody
    anyone anything anyway apparently apply ask athletes authors babies become begin behind
    being believe beneath besides better between beyond birds bodies boys bread build buses
    butter buyers call cannot carefully cells certainly check cheese choices choose classes
    clothes colors consider contact cooking courage create dancing decisions discover does dogs
    drink drivers earlier early easily either else emotions engineers enjoy enough especially
    essentially eventually ever evidence evil exactly example examples excellent except exercise
    experience experts explain explore extremely eyes families farmers fear fewer finally fish
    flowers follow following frankly frequently friendship furthermore girls given going
    governments guess hair hands happy hence her here hers herself him himself honestly honesty
    hospitals houses humans humor hundreds hunger imagination imagine importantly individuals
    inside inspired into journalists judges kids knowledge lakes language languages leaders
    learn lemon lessons letters libraries likewise listen looking maintain marriage mathematics
    meaning milk minds mine mistakes mix mornings mothers myself naturally nature necessary need
    neighbors neither nights nothing numbers occasionally okay opinions otherwise ours overall
    pain parks passengers patients performance personally photos play please plenty poems
    politicians poverty practically practice prepare presumably previously probably problems put
    questions quietly rain rarely readers reality recently recipes regardless relationships
    religion remember researchers respect results right roads rocks roses sadness safe sand
    seeds serve shoes silence simply sit skills slowly snow soil soldiers sometimes songs soon
    sorry speak specifically spend starting step stories strangers strength stress success such
    suddenly surely surprisingly swimming taking tea teach teams ten thank thanks them
    themselves theory thereafter thereby therefore things think through throughout together
    tomatoes tomorrow tourists traditionally trees truly truth try trying turn typically
    ultimately undoubtedly unfortunately unity universities unless unlike upon using vegetables
    very victory visitors voters wait walk walking weather weekends were whenever whereas
    wherever whether which whichever whom wide wisdom within without witnesses wonderful words
    working writers writing yes yesterday your yourself youth";

/// Words in lower case that are part of names and titles, too.
const SMALL: &str = "
    a about across actually add after again against agree all alone also an and another answer
    any are around artists as at avoid away be bear beauty because been before below books
    breakfast bring brothers buildings buy by can cars cats certain change children cities
    citizens clearly close coffee come communities companies computers confidence continue could
    countries culture customers cut data death definitely democracy did do doctors down dreams
    during each eat education employees end energy every everybody everyone everything factories
    failure find fire first focus food for freedom friends from fruit further games generally
    get getting give go good great groups had half hard hardly has have having heat hey high
    higher his history homes hope horses how ice ideas is islands its itself jobs join just keep
    know knowing laboratories last later laws learning leave less let life light like little
    long look lots love lovers luck machines magic make making maps markets may maybe me meat
    medicine members memories memory men metals methods might money more mountains movies much
    music must my nations nearly never news next nice nine no none now obviously of off
    often on once one only open or order other others our out outside over own owners paper
    parents peace people perhaps physics pictures place plan plants players police pollution
    power products progress quickly quite rather read reading really reasons rest rice rules run
    running salt save say schools science scientists second see several share she shops should
    show singing sleep small society space sports stars start stay stop students studies sugar
    summer support sure systems take talk teachers tears technology tell tests that their then
    thing third those thousands three to today too toward traffic training travel travelers
    trust twice two until up use usually video violence visit want wars was watch water we well
    what whatever where who whose why will wind winter with women wood word work workers would
    write years you young";

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
