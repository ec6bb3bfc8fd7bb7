use super::*;
use std::collections::BTreeSet;

fn small() -> WorldSettings {
    let band = |name: &str, least, most| Band { name: name.to_owned(), least, most };
    WorldSettings {
        seed: 7,
        stories: 2_000,
        sums: 50,
        games: 50,
        bands: vec![band("rare", 1, 3), band("frequent", 6, 8)],
        validation: 60,
        test: 60,
        ..WorldSettings::default()
    }
}

#[test]
fn same_seed_same_bytes_other_seed_other_bytes() {
    let hash = |settings| documents_sha256(&World::new(settings).training().documents);
    let expected = hash(small());
    assert_eq!(hash(small()), expected);
    assert_ne!(hash(WorldSettings { seed: 8, ..small() }), expected);
}

#[test]
fn every_fact_is_stated_as_often_as_it_says() {
    let world = World::new(small());
    assert!(world.facts().len() >= 1_000, "{} facts", world.facts().len());
    let training = world.training();
    let mut statements = std::collections::BTreeMap::<&str, u32>::new();
    for document in &training.documents {
        let mut lines = document.split_inclusive('\n').peekable();
        let mut start = 0;
        while let Some(line) = lines.next() {
            let mut end = start + line.len();
            if line.starts_with("Question: ")
                && let Some(answer) = lines.next()
            {
                end += answer.len();
            }
            *statements.entry(document[start..end].trim_end()).or_default() += 1;
            start = end;
        }
    }
    for fact in world.facts() {
        let forms = fact.statements();
        assert_eq!(forms.iter().collect::<BTreeSet<_>>().len(), forms.len());
        let found: u32 = forms.iter().filter_map(|form| statements.get(form.as_str())).sum();
        assert_eq!(found, fact.mentions(), "{}", forms[0]);
    }
}

#[test]
fn no_two_facts_have_a_statement_in_common() {
    let world = World::new(small());
    let mut seen = BTreeSet::new();
    for statement in world.facts().iter().flat_map(Fact::statements) {
        assert!(seen.insert(statement.clone()), "{statement}");
    }
}

#[test]
fn held_out_stories_share_no_run_of_sentences_with_training_or_each_other() {
    let world = World::new(small());
    let training = world.training();
    let seen: BTreeSet<&str> = training.documents.iter().flat_map(|text| runs(text)).collect();
    for story in world.validation().iter().chain(world.test()) {
        for run in runs(&story.text) {
            assert!(!seen.contains(run), "in training: {run}");
        }
    }
    let of = |stories: &[Sample]| -> BTreeSet<String> {
        stories.iter().map(|story| story.text.clone()).collect()
    };
    assert!(of(world.validation()).is_disjoint(&of(world.test())));
}

#[test]
fn questions_are_well_formed() {
    let world = World::new(small());
    let questions = world.questions();
    assert_eq!(questions.len(), world.facts().len());
    assert_eq!(questions, world.questions());
    for (question, fact) in questions.iter().zip(world.facts()) {
        let distinct: BTreeSet<&String> = question.choices.iter().collect();
        assert_eq!((question.choices.len(), distinct.len()), (4, 4), "{question:?}");
        let right = &question.choices[question.answer];
        let statements = fact.statements();
        assert_eq!(format!("{}{}.", question.prompt, question.completion), statements[0]);
        assert_eq!(format!("{} {right}.", question.question), statements[4]);
        assert!(!question.prompt.contains(right.as_str()), "{question:?}");
    }
}

#[test]
fn information_of_held_out_stories_is_what_a_parse_finds() {
    let world = World::new(small());
    let grammar = story_grammar();
    for story in world.test() {
        let parsed = -grammar.probability(&story.text).ln();
        assert!((parsed - story.nats).abs() < 1e-9, "{}", story.text);
    }
}
