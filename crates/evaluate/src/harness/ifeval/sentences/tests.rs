//! Sentences as nltk 3.10.4 splits them.

use super::*;

fn check(text: &str, want: &[&str]) {
    assert_eq!(sentences(text), want, "{text:?}");
}

#[test]
fn stops_end_sentences() {
    check("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"]);
    check("A line.\nAnother\nline.", &["A line.", "Another\nline."]);
    check("No stop", &["No stop"]);
    check("", &[]);
    check(" \n ", &[]);
    check("Version 2.5 is out. It is 3.14.", &["Version 2.5 is out.", "It is 3.14."]);
    check("Wait!!! Stop.", &["Wait!!!", "Stop."]);
}

#[test]
fn closing_marks_belong_to_the_sentence_before() {
    check("He said \"Go.\" She went.", &["He said \"Go.\"", "She went."]);
    check("(A note.) Then more.", &["(A note.)", "Then more."]);
    check("\u{201c}Yes.\u{201d} Then no.", &["\u{201c}Yes.\u{201d}", "Then no."]);
    check("**Bold.** Next one.", &["**Bold.", "** Next one."]);
}

#[test]
fn abbreviations_and_numbers_do_not() {
    check("Mr. Smith met Dr. Jones.", &["Mr. Smith met Dr. Jones."]);
    check("In the U.S. many agree.", &["In the U.S. many agree."]);
    check("See J. Smith. He knows.", &["See J. Smith.", "He knows."]);
    check("I have 3. apples", &["I have 3. apples"]);
    check("1. First item\n2. Second item", &["1.", "First item\n2.", "Second item"]);
}

#[test]
fn an_ellipsis_is_judged_by_the_next_word() {
    check("Well... I think so.", &["Well...", "I think so."]);
    check("Well... maybe.", &["Well... maybe."]);
    check("So . . . here", &["So .", ".", ".", "here"]);
}
