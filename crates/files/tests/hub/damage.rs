//! Broken connections, wrong sizes, damaged contents and hostile names.

use crate::server::{Answer, Request, listing};
use crate::{MODEL, Scene, check_whole, small};
use std::fs;

fn weights() -> Vec<u8> {
    small::files(false).remove("model.safetensors").unwrap()
}

/// Whether it asks for the weights themselves.
fn for_weights(request: &Request) -> bool {
    request.contents && request.line.contains("model.safetensors")
}

#[test]
fn a_broken_connection_is_taken_up_where_it_broke() {
    let scene = Scene::new();
    // Many breaks do not matter as long as each answer brings something.
    scene.hub.mood(|request, mut answer| {
        answer.cut = for_weights(request).then_some(1000);
        answer
    });
    let dir = scene.find(MODEL).unwrap().dir;
    check_whole(&dir, false);
    let asked = scene.hub.asked();
    let starts: Vec<_> = asked.iter().filter(|one| for_weights(one)).map(|one| one.start).collect();
    assert!(starts.len() > 3 && starts[0].is_none(), "{starts:?}");
    let later: Option<Vec<usize>> = starts[1..].iter().copied().collect();
    assert!(later.is_some_and(|starts| starts.is_sorted_by(|a, b| a < b)), "{starts:?}");
}

#[test]
fn a_run_that_gave_up_is_continued_by_the_next() {
    let scene = Scene::new();
    let half = weights().len() / 2;
    scene.hub.mood(move |request, mut answer| {
        answer.cut = for_weights(request).then_some(if request.start.is_some() { 0 } else { half });
        answer
    });
    let error = scene.refused(MODEL);
    assert!(error.contains("cannot be reached"), "{error}");
    let [part] = scene.unfinished().try_into().unwrap();
    assert_eq!(fs::metadata(part).unwrap().len(), half as u64);
    assert!(!scene.snapshot_files().contains(&"model.safetensors".into()));
    assert!(!scene.settings.cache.join("models--owner--small/refs/main").exists());
    scene.hub.good_mood();
    scene.hub.asked();
    check_whole(&scene.find(MODEL).unwrap().dir, false);
    let asked = scene.hub.asked();
    let starts: Vec<_> = asked.iter().filter(|one| for_weights(one)).map(|one| one.start).collect();
    assert_eq!(starts, [Some(half)]);
}

#[test]
fn a_small_file_begins_anew_since_nothing_checks_its_pieces() {
    let scene = Scene::new();
    let mut cuts = 1;
    scene.hub.mood(move |request, mut answer| {
        if request.line.ends_with("/tokenizer.json") && request.line.starts_with("GET") && cuts > 0
        {
            cuts -= 1;
            answer.cut = Some(100);
        }
        answer
    });
    let whole = &small::files(false)["tokenizer.json"];
    // Another program left something of the right length.
    let blobs = scene.settings.cache.join("models--owner--small/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let etag = &crate::server::sha256(whole)[..40];
    fs::write(blobs.join(format!("{etag}.incomplete")), vec![b'x'; whole.len()]).unwrap();
    let dir = scene.find(MODEL).unwrap().dir;
    assert_eq!(&fs::read(dir.join("tokenizer.json")).unwrap(), whole);
    assert!(scene.hub.asked().iter().all(|one| one.contents || one.start.is_none()));
}

#[test]
fn a_server_that_cannot_go_on_begins_anew() {
    let scene = Scene::new();
    let whole = weights();
    scene.hub.mood(move |request, answer| match request.start {
        Some(_) => Answer::new(200, whole.clone()),
        None if for_weights(request) => Answer { cut: Some(900), ..answer },
        None => answer,
    });
    check_whole(&scene.find(MODEL).unwrap().dir, false);
}

#[test]
fn a_piece_from_elsewhere_is_refused() {
    let scene = Scene::new();
    scene.hub.mood(|request, answer| match request.start {
        Some(_) => answer.with("Content-Range", "bytes 0-9/10"),
        None if for_weights(request) => Answer { cut: Some(900), ..answer },
        None => answer,
    });
    let error = scene.refused(MODEL);
    assert!(error.contains("another byte range"), "{error}");
}

#[test]
fn another_size_than_announced_is_refused() {
    let longer = [weights(), vec![0; 9]].concat();
    let shorter = weights()[..100].to_vec();
    type Change = fn(Answer) -> Answer;
    let bodies: [(Change, &[u8]); 3] = [
        (|answer| answer, &longer),
        (|answer| answer, &shorter),
        (|answer| answer.without("Content-Length"), &longer),
    ];
    for (change, body) in bodies {
        let scene = Scene::new();
        let body = body.to_vec();
        scene.hub.mood(move |request, answer| {
            if for_weights(request) { change(Answer::new(200, body.clone())) } else { answer }
        });
        let error = scene.refused(MODEL);
        assert!(error.contains("model.safetensors should have"), "{error}");
        assert!(!scene.snapshot_files().contains(&"model.safetensors".into()));
        scene.hub.good_mood();
        check_whole(&scene.find(MODEL).unwrap().dir, false);
    }
}

#[test]
fn a_damaged_content_is_not_kept() {
    let scene = Scene::new();
    scene.hub.mood(|request, mut answer| {
        if for_weights(request) {
            answer.body[50] ^= 1;
        }
        answer
    });
    let error = scene.refused(MODEL);
    assert!(error.contains("has SHA-256") && error.contains("damaged"), "{error}");
    assert!(scene.unfinished().is_empty());
    assert!(!scene.snapshot_files().contains(&"model.safetensors".into()));
    scene.hub.good_mood();
    check_whole(&scene.find(MODEL).unwrap().dir, false);
}

#[test]
fn a_huge_announcement_is_refused_before_a_byte_of_it() {
    for (file, header, size) in [
        ("model.safetensors", "X-Linked-Size", "18446744073709551615"),
        ("config.json", "Content-Length", "1099511627776"),
    ] {
        let scene = Scene::new();
        scene.hub.mood(move |request, answer| {
            let this = request.line.ends_with(file) && !request.contents;
            if this { answer.with(header, size) } else { answer }
        });
        let error = scene.refused(MODEL);
        assert!(error.contains(file) && error.contains("announced with"), "{error}");
        let get = format!("GET /{MODEL}/resolve");
        assert!(!scene.hub.asked().iter().any(|one| one.line.starts_with(&get)));
    }
}

#[test]
fn names_that_lead_away_are_refused_before_any_download() {
    for name in ["../outside", "/etc/outside", "a/../../outside", "..\\outside", "C:outside"] {
        let scene = Scene::new();
        scene.hub.mood(move |request, answer| {
            let names = ["config.json", "model.safetensors", name].map(str::to_owned);
            let list = request.line.contains("/api/");
            if list { Answer::new(200, listing(&names)) } else { answer }
        });
        let error = scene.refused(MODEL);
        assert!(error.contains("leads out of its folder"), "{error}");
        assert!(scene.transfers().is_empty() && crate::all_files(scene.cache.path()).is_empty());
    }
    // An index is a list of names too.
    let scene = Scene::with(small::files(true));
    scene.hub.put(
        "model.safetensors.index.json",
        r#"{"weight_map": {"a": "../../../../outside.safetensors"}}"#,
    );
    let error = scene.refused(MODEL);
    assert!(error.contains("not a plain file name"), "{error}");
}

#[test]
fn answers_that_no_hub_gives_are_refused() {
    type Change = fn(&Request, Answer) -> Answer;
    let cases: [(Change, &str); 7] = [
        (|_, _| Answer::new(200, "<html>"), "is not JSON with sha and siblings"),
        (|_, _| Answer::new(200, r#"{"sha": "../x", "siblings": []}"#), "names ../x as its commit"),
        (
            |request, answer| match request.line.contains("/api/") {
                true => Answer::new(200, vec![b' '; (1 << 25) + 1]),
                false => answer,
            },
            "is larger than",
        ),
        (
            |request, answer| match request.line.contains("resolve") {
                true => answer.with("X-Linked-Etag", "\"../../x\""),
                false => answer,
            },
            "has no etag that can be a file name",
        ),
        (|_, answer| answer.without("ETag"), "has no etag that can be a file name"),
        (
            |request, answer| match request.line.starts_with("HEAD") {
                true => answer.without("Content-Length"),
                false => answer,
            },
            "has no size",
        ),
        (|_, answer| answer.with("X-Repo-Commit", "0".repeat(40)), "to another commit"),
    ];
    for (change, words) in cases {
        let scene = Scene::new();
        scene.hub.mood(change);
        let error = scene.refused(MODEL);
        assert!(error.contains(words), "{words}: {error}");
    }
}
