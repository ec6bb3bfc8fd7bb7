//! What is downloaded, what is not, and what is left in the cache.

use crate::server::{Answer, COMMIT, sha256};
use crate::{MODEL, Scene, check_whole, small};
use linwright_files::hub::{Hooks, HubError, HubId, find};
use std::cell::Cell;
use std::path::Path;
use std::{fs, thread};

#[test]
fn a_model_is_downloaded_once_and_loads() {
    let scene = Scene::new();
    for name in ["README.md", "pytorch_model.bin", "onnx/model.onnx", "onnx/config.json"] {
        scene.hub.put(name, "not needed");
    }
    scene.hub.put("modules.json", "[]");
    scene.hub.put("1_Pooling/config.json", "{}");
    let found = scene.find(MODEL).unwrap();
    assert_eq!(found.id.to_string(), format!("{MODEL}@{COMMIT}"));
    let wanted = [
        "1_Pooling/config.json",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "modules.json",
        "tokenizer.json",
    ];
    assert_eq!(scene.snapshot_files(), wanted);
    check_whole(&found.dir, false);

    // The layout is that of other programs.
    let root = scene.settings.cache.join("models--owner--small");
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(found.dir, root.join("snapshots").join(COMMIT));
    let digest = sha256(&small::files(false)["model.safetensors"]);
    let target = fs::canonicalize(found.dir.join("model.safetensors")).unwrap();
    assert_eq!(target, fs::canonicalize(root.join("blobs").join(&digest)).unwrap());
    let link = fs::read_link(found.dir.join("1_Pooling/config.json")).unwrap();
    assert!(link.starts_with("../../../blobs"), "{link:?}");
    assert_eq!(scene.unfinished(), [] as [&Path; 0]);

    // The weights take one more: the hub redirects to the server of contents.
    assert_eq!(scene.transfers().len(), 13, "a HEAD and a GET for each of six files");
    assert_eq!(scene.find(MODEL).unwrap().dir, found.dir);
    assert_eq!(scene.transfers(), [] as [&str; 0], "the second run downloads nothing");
}

#[test]
fn only_the_cache_is_used_when_offline() {
    let mut scene = Scene::new();
    scene.settings.offline = true;
    let error = scene.refused(MODEL);
    assert!(error.contains("HF_HUB_OFFLINE") && error.contains("is not in the cache"), "{error}");
    scene.settings.offline = false;
    let dir = scene.find(MODEL).unwrap().dir;
    scene.hub.asked();
    scene.settings.offline = true;
    for model in [MODEL, &format!("{MODEL}@{COMMIT}")] {
        assert_eq!(scene.find(model).unwrap().dir, dir);
    }
    assert!(scene.hub.asked().is_empty());
}

#[test]
fn a_revision_is_a_branch_a_tag_or_a_commit() {
    let scene = Scene::new();
    for revision in ["v1", "refs/pr/1", COMMIT] {
        let found = scene.find(&format!("{MODEL}@{revision}")).unwrap();
        assert_eq!(found.id.revision(), COMMIT);
    }
    let refs = scene.settings.cache.join("models--owner--small/refs");
    assert_eq!(fs::read_to_string(refs.join("refs/pr/1")).unwrap(), COMMIT);
    assert!(!refs.join("main").exists() && !refs.join(COMMIT).exists());
}

#[test]
fn shards_come_with_their_index() {
    let scene = Scene::with(small::files(true));
    scene.hub.put("model-00077-of-00077.safetensors", "belongs to nothing");
    let dir = scene.find(MODEL).unwrap().dir;
    let files = scene.snapshot_files();
    let shards = files.iter().filter(|name| name.ends_with(".safetensors")).count();
    assert!(shards > 2 && !dir.join("model-00077-of-00077.safetensors").exists(), "{files:?}");
    check_whole(&dir, true);
    // What somebody removed is brought again, alone.
    let lost = files.iter().find(|name| name.ends_with(".safetensors")).unwrap();
    fs::remove_file(dir.join(lost)).unwrap();
    scene.hub.asked();
    scene.find(MODEL).unwrap();
    assert_eq!(scene.transfers().len(), 1, "its content was still there: one HEAD");
    check_whole(&dir, true);
}

#[test]
fn files_of_torch_are_taken_where_there_is_nothing_better() {
    let scene = Scene::new();
    scene.hub.remove("model.safetensors");
    scene.hub.put("pytorch_model.bin", "weights");
    scene.find(MODEL).unwrap();
    assert!(scene.snapshot_files().contains(&"pytorch_model.bin".to_owned()));
    scene.hub.remove("pytorch_model.bin");
    scene.hub.put("tf_model.h5", "weights");
    let error = scene.refused(&format!("{MODEL}@v1"));
    assert!(error.contains("no supported weights") && error.contains("tf_model.h5"), "{error}");
}

#[test]
fn a_hub_that_does_not_answer_is_replaced_by_the_cache_with_a_note() {
    let scene = Scene::new();
    scene.find(MODEL).unwrap();
    for status in [401, 429, 500] {
        scene.hub.mood(move |_, _| Answer::new(status, "no"));
        let found = scene.find(MODEL).unwrap();
        let [note] = found.notes.as_slice() else { panic!("{:?}", found.notes) };
        assert!(note.contains("from the cache") && note.contains(&status.to_string()), "{note}");
    }
}

#[test]
fn what_a_passing_trouble_stops_is_tried_again() {
    let scene = Scene::new();
    let mut troubles = 2;
    scene.hub.mood(move |_, answer| {
        troubles -= i32::from(troubles > 0);
        if troubles > 0 { Answer::new(503, "wait") } else { answer }
    });
    scene.find(MODEL).unwrap();
    let scene = Scene::new();
    scene.hub.mood(|_, _| Answer::new(503, "wait"));
    let error = scene.refused(MODEL);
    assert!(error.contains("cannot be reached") && error.contains("503"), "{error}");
    assert_eq!(scene.hub.asked().len(), 3, "as often as the settings say");
}

#[test]
fn an_interruption_leaves_what_came_and_the_next_run_goes_on() {
    let scene = Scene::new();
    let id = HubId::parse(MODEL).unwrap().unwrap();
    let halfway = Cell::new(false);
    // The server gives half of the weights and then the user has enough.
    scene.hub.mood(|request, mut answer| {
        answer.cut = request.contents.then_some(answer.body.len() / 2);
        answer
    });
    let mut weights = false;
    let mut hooks = Hooks {
        step: &mut |_| {},
        progress: &mut |done, total| halfway.set(total > 4000 && done < total && done > 2000),
        cancelled: &|| halfway.get(),
    };
    let stopped = find(&id, &scene.settings, &mut hooks);
    assert!(matches!(stopped, Err(HubError::Interrupted { .. })), "{stopped:?}");
    let [part] = scene.unfinished().try_into().unwrap();
    let had = fs::metadata(part).unwrap().len();
    assert!(had > 0 && !scene.snapshot_files().contains(&"model.safetensors".into()));
    assert!(!scene.settings.cache.join("models--owner--small/refs").exists());
    scene.hub.good_mood();
    scene.hub.asked();
    scene.find(MODEL).unwrap();
    for request in scene.hub.asked().iter().filter(|request| request.contents) {
        assert_eq!(request.start, Some(had as usize));
        weights = true;
    }
    assert!(weights && scene.unfinished().is_empty());
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let scene = Scene::new();
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| scene.find(MODEL).unwrap().dir));
        for one in both {
            check_whole(&one.join().unwrap(), false);
        }
    });
    let asked = scene.hub.asked();
    assert_eq!(asked.iter().filter(|request| request.contents).count(), 1);
    assert_eq!(scene.unfinished(), [] as [&Path; 0]);
}
