//! What the hub refuses, and who gets to see the token.

use crate::server::Answer;
use crate::{MODEL, Scene, TOKEN};

#[test]
fn a_refusal_says_what_to_do_next() {
    let cases: [(u16, &str, bool, &[&str]); 7] = [
        (401, "GatedRepo", false, &["401", "gated", "accept its terms at http", "set HF_TOKEN"]),
        (403, "GatedRepo", true, &["403", "gated", "accept its terms", "account of your token"]),
        (401, "", false, &["private, gated or missing", "set HF_TOKEN"]),
        (401, "RepoNotFound", true, &["no such model", "token is not valid"]),
        (403, "", true, &["ask its owner for access"]),
        (404, "EntryNotFound", true, &["has no config.json"]),
        (418, "", false, &["status 418; expected 200"]),
    ];
    for (status, code, token, words) in cases {
        let scene = if token { Scene::new().with_token() } else { Scene::new() };
        // The list of a gated model is open, its files are not.
        scene.hub.mood(move |request, answer| {
            let list = request.line.contains("/api/");
            if list { answer } else { Answer::refusal(status, code) }
        });
        let error = scene.refused(MODEL);
        for word in words {
            assert!(error.contains(word), "{status} {code}: {error}");
        }
        assert!(scene.snapshot_files().is_empty());
    }
}

#[test]
fn a_model_or_revision_that_is_not_there_is_named() {
    let scene = Scene::new();
    let error = scene.refused("owner/other");
    assert!(error.contains("owner/other") && error.contains("check the name"), "{error}");
    let error = scene.refused(&format!("{MODEL}@v2"));
    assert!(error.contains("has no revision v2") && error.contains("after the @"), "{error}");
    let error = Scene::new().with_token().refused("owner/other");
    assert!(error.contains("has no such model; check owner and name"), "{error}");
}

#[test]
fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let scene = Scene::new().with_token();
    scene.find(MODEL).unwrap();
    let asked = scene.hub.asked();
    let (contents, hub): (Vec<_>, Vec<_>) = asked.into_iter().partition(|one| one.contents);
    assert!(!contents.is_empty() && contents.iter().all(|one| one.token.is_none()));
    let bearer = format!("Bearer {TOKEN}");
    assert!(!hub.is_empty() && hub.iter().all(|one| one.token.as_deref() == Some(&bearer)));
}

#[test]
fn a_redirect_on_the_hub_itself_is_followed_with_the_token() {
    let scene = Scene::new().with_token();
    // A model that was given another name.
    scene.hub.mood(|request, answer| {
        let (_, path) = request.line.split_once(' ').unwrap();
        match path.strip_prefix("/old/name") {
            Some(rest) => Answer::new(307, "").with("Location", format!("/{MODEL}{rest}")),
            None if path.starts_with("/api/models/old/name") => {
                let new = path.replace("old/name", MODEL);
                Answer::new(307, "").with("Location", new)
            }
            None => answer,
        }
    });
    let found = scene.find("old/name").unwrap();
    assert!(found.dir.join("model.safetensors").is_file());
    scene.hub.mood(|request, _| {
        let (_, path) = request.line.split_once(' ').unwrap();
        Answer::new(302, "").with("Location", path)
    });
    let error = scene.refused("old/other");
    assert!(error.contains("too many redirects"), "{error}");
    scene.hub.mood(|_, _| Answer::new(302, "").with("Location", "file:///etc/passwd"));
    let error = scene.refused("old/other");
    assert!(error.contains("invalid address"), "{error}");
}

#[test]
fn nobody_at_the_address_is_said() {
    let mut scene = Scene::new();
    // A port that was just free.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    scene.settings.endpoint = format!("http://{free}");
    let error = scene.refused(MODEL);
    assert!(error.contains("127.0.0.1 cannot be reached"), "{error}");
}
