//! Attention games: repetition of lists, and lookup of owners. They teach a model early to attend
//! back to a word of the right kind, which stories require everywhere but reward only slightly.

use super::grammar::Grammar;
use super::lexicon::lexicon;
use linwright_tensor::RngKey;

const TEMPLATES: [&str; 5] = [
    "Say after me: {a=person}, {b=toy}, {c=place}, {d=animal}, {e=colour}, {f=person!a}, {g=toy!b}, {h=spot}. \
     Again: {a}, {b}, {c}, {d}, {e}, {f}, {g}, {h}. Again: {a}, {b}, {c}, {d}, {e}, {f}, {g}, {h}.",
    "Say after me: {a=colour}, {b=person}, {c=person!b}, {d=number}, {e=treat}, {f=place}, {g=person!b!c}, {h=animal}. \
     Again: {a}, {b}, {c}, {d}, {e}, {f}, {g}, {h}. And back: {h}, {g}, {f}, {e}, {d}, {c}, {b}, {a}.",
    "{a=person} has the {x=toy}. {b=person!a} has the {y=toy!x}. {c=person!a!b} has the {z=toy!x!y}.\n\
     Question: Who has the {y}?\nAnswer: {b}.\nQuestion: Who has the {x}?\nAnswer: {a}.\nQuestion: What does {c} have?\nAnswer: the {z}.",
    "{a=person} is at the {x=place}. {b=person!a} is at the {y=place!x}. {c=person!a!b} is at the {z=place!x!y}.\n\
     Question: Who is at the {z}?\nAnswer: {c}.\nQuestion: Where is {b}?\nAnswer: at the {y}.\nQuestion: Where is {a}?\nAnswer: at the {x}.",
    "The {x=toy} is {a=colour}. The {y=toy!x} is {b=colour!a}. The {z=toy!x!y} is {c=colour!a!b}.\n\
     Question: Which colour is the {z}?\nAnswer: {c}.\nQuestion: Which colour is the {x}?\nAnswer: {a}.\nQuestion: What is {b}?\nAnswer: the {y}.",
];

/// Draws `count` games, one per document.
///
/// # Panics
/// Never for the built-in templates; a test reads them.
#[must_use]
pub(super) fn documents(key: RngKey, count: usize) -> Vec<String> {
    let templates = TEMPLATES.map(str::to_owned);
    let grammar = Grammar::new(lexicon(), &templates)
        .unwrap_or_else(|error| panic!("the built-in games: {error}"));
    let document = |index| grammar.sample(&mut key.fold_index(index).stream()).text;
    (0..count as u64).map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_was_said_before() {
        let games = documents(RngKey::new(1), 50);
        assert_eq!(games.len(), 50);
        for game in games.iter().filter(|game| game.starts_with("Say after me")) {
            let (first, rest) = game["Say after me: ".len()..].split_once(". Again: ").unwrap();
            assert!(rest.starts_with(first), "{game}");
        }
    }
}
