use super::*;
use std::io::{Read, Write};

#[test]
fn files_are_read_written_and_edited() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    write(&path, b"one").unwrap();
    write(&path, b"two").unwrap();
    assert_eq!(read(&path, 3).unwrap(), b"two");
    assert_eq!(read(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    let mut file = edit(&path).unwrap();
    let mut found = String::new();
    file.read_to_string(&mut found).unwrap();
    file.write_all(b", three").unwrap();
    assert_eq!((found.as_str(), read_text(&path, 20).unwrap().as_str()), ("two", "two, three"));
    edit(&dir.path().join("new")).unwrap();
    assert_eq!(read(&dir.path().join("new"), 0).unwrap(), b"");
}

#[cfg(unix)]
#[test]
fn whatever_is_no_regular_file_is_refused_without_waiting() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("thesis"), "thesis").unwrap();
    symlink(path("thesis"), path("link")).unwrap();
    symlink(path("nowhere"), path("broken")).unwrap();
    symlink("/dev/zero", path("zeros")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for (name, found) in [
        ("link", "a link"),
        ("broken", "a link"),
        ("zeros", "a link"),
        ("folder", "a folder"),
        ("pipe", "a pipe"),
        ("socket", "a socket"),
    ] {
        let path = path(name);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let written = write(&path, b"state").unwrap_err().to_string();
            let errors = [open(&path), edit(&path)].map(|file| file.unwrap_err().to_string());
            sender.send((written, errors)).unwrap();
        });
        let told = receiver.recv_timeout(std::time::Duration::from_secs(60));
        let (written, errors) = told.expect("waits for nobody");
        for error in errors.iter().chain([&written]) {
            assert!(error.contains(&format!("it is {found}, expected a file")), "{error}");
        }
    }
    assert_eq!(open(Path::new("/dev/null")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(!path("nowhere").exists());
    assert_eq!(fs::read(path("thesis")).unwrap(), b"thesis");
    // To write in place into a file with two names would change another one.
    fs::hard_link(path("thesis"), path("hard")).unwrap();
    let error = edit(&path("hard")).unwrap_err().to_string();
    assert!(error.contains("2 names"), "{error}");
    write(&path("hard"), b"state").unwrap();
    assert_eq!(fs::read(path("thesis")).unwrap(), b"thesis");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_swapped_for_a_link_or_a_pipe_is_never_followed_or_waited_for() {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("elsewhere"), "thesis").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for turn in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let fresh = path("fresh");
                match turn % 3 {
                    0 => fs::write(&fresh, "").unwrap(),
                    1 => symlink(path("elsewhere"), &fresh).unwrap(),
                    _ => rustix::fs::mknodat(
                        rustix::fs::CWD,
                        &fresh,
                        rustix::fs::FileType::Fifo,
                        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                        0,
                    )
                    .unwrap(),
                }
                fs::rename(&fresh, path("state")).unwrap();
            }
        });
        let mut opened = 0;
        for _ in 0..5000 {
            if let Ok(mut file) = edit(&path("state")) {
                file.write_all(b"state").unwrap();
                opened += 1;
            }
            if let Ok(found) = read(&path("state"), 100) {
                assert_ne!(found, b"thesis");
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(opened > 0, "it was a regular file at times");
    });
    assert_eq!(fs::read(path("elsewhere")).unwrap(), b"thesis");
}

#[cfg(unix)]
#[test]
fn folders_between_may_not_be_links_but_the_one_that_a_user_named_may() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("real")).unwrap();
    std::os::unix::fs::symlink(path("real"), path("root")).unwrap();
    let root = path("root");
    assert_eq!(make_folder(&root, "a/b").unwrap(), root.join("a/b"));
    assert_eq!(make_folder(&root, "a/b").unwrap(), root.join("a/b"));
    assert_eq!(inside(&root, "a/b/file").unwrap(), root.join("a/b/file"));
    assert_eq!(inside(&root, "new/folder/file").unwrap(), root.join("new/folder/file"));
    assert_eq!(inside(&root, "file").unwrap(), root.join("file"));
    std::os::unix::fs::symlink(path("real/a"), path("real/link")).unwrap();
    fs::write(path("real/file"), "").unwrap();
    for (below, found) in [("link/b", "link is a link"), ("file/b", "file is a file")] {
        let errors = [inside(&root, Path::new(below).join("x")), make_folder(&root, below)];
        for error in errors.map(|found| found.unwrap_err()) {
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{below}");
            assert!(error.to_string().contains(found), "{error}");
        }
    }
    for below in ["../x", "/x", "a/../../x", "a/.."] {
        assert_eq!(inside(&root, below).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    assert!(!path("real/a/b/x").exists());
}

#[cfg(unix)]
#[test]
fn what_is_copied_holds_no_links() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("from/folder")).unwrap();
    fs::write(path("from/a"), "a").unwrap();
    fs::write(path("from/folder/b"), "b").unwrap();
    copy(&path("from"), &path("to")).unwrap();
    assert_eq!(fs::read(path("to/folder/b")).unwrap(), b"b");
    copy(&path("from/a"), &path("file")).unwrap();
    assert_eq!(fs::read(path("file")).unwrap(), b"a");
    let error = copy(&path("from"), &path("to")).unwrap_err();
    assert!(matches!(error, OutputError::Exists { .. }), "{error}");
    assert!(matches!(copy(&path("from/a"), &path("file")), Err(OutputError::Exists { .. })));
    for (name, target) in [("from/folder/up", path("from")), ("from/link", path("file"))] {
        symlink(target, path(name)).unwrap();
        let error = copy(&path("from"), &path("third")).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("is a link"), "{error}");
        fs::remove_file(path(name)).unwrap();
    }
    assert!(
        std::process::Command::new("mkfifo").arg(path("from/pipe")).status().unwrap().success()
    );
    let error = copy(&path("from"), &path("third")).unwrap_err().to_string();
    assert!(error.contains("is a pipe"), "{error}");
    assert!(copy(&path("from/pipe"), &path("third")).is_err());
    let names = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 3, "nothing partial is left");
    // As deep as anything that is written here, and no deeper.
    let deep: PathBuf = std::iter::repeat_n("d", DEPTH + 2).collect();
    fs::create_dir_all(path("deep").join(deep)).unwrap();
    let error = copy(&path("deep"), &path("third")).unwrap_err().to_string();
    assert!(error.contains("deep"), "{error}");
}
