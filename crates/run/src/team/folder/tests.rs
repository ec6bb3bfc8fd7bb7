use super::*;
use crate::team::Members;
use std::cell::Cell;
use std::sync::Barrier;
use std::thread::{scope, spawn};

fn job(name: &str) -> Fingerprint {
    Fingerprint::of(&[("job", &name)])
}

fn joined(folder: &Path, rank: usize, count: usize) -> FolderTeam<'static> {
    let shard = Shard::new(rank, count).expect("a shard");
    match FolderTeam::join(folder, shard, &job("a"), &|| false).expect("joins") {
        Joined::Member(team) => team,
        Joined::Finished(_) => panic!("shard {shard} has nothing to do"),
    }
}

fn refused(folder: &Path, rank: usize, job: &Fingerprint) -> FolderError {
    let shard = Shard::new(rank, 2).expect("a shard");
    FolderTeam::join(folder, shard, job, &|| false).expect_err("is refused")
}

/// A sum over members and the messages of all, about a piece of work.
fn work(team: &FolderTeam<'_>, piece: &Fingerprint) -> (Option<u8>, Vec<Vec<u8>>) {
    team.begin(piece);
    let own = 1 << team.rank();
    let sum = team
        .reduce(1, own, |sum| vec![*sum], |bytes| Ok(bytes[0]), |sum, part| *sum += part)
        .expect("adds");
    (sum, team.gathered(vec![own]).expect("tells"))
}

#[test]
fn members_that_come_late_die_and_come_again_find_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (job("first"), job("second"));
    let all = [vec![1], vec![2], vec![4]];
    // The last one dies after it has sent its result of the first piece, and starts again.
    let dying = {
        let folder = folder.path().to_owned();
        let first = first.clone();
        spawn(move || work(&joined(&folder, 2, 3), &first))
    };
    let [one, two] = [0, 1].map(|rank| {
        let (folder, pieces) = (folder.path().to_owned(), [first.clone(), second.clone()]);
        spawn(move || {
            let team = joined(&folder, rank, 3);
            pieces.map(|piece| {
                let found = work(&team, &piece);
                team.end(&piece).expect("is told");
                found
            })
        })
    });
    assert_eq!(dying.join().expect("works"), (None, all.to_vec()));
    let last = joined(folder.path(), 2, 3);
    let again = [&first, &second].map(|piece| work(&last, piece));
    assert_eq!(again, [(None, all.to_vec()), (None, all.to_vec())]);
    assert_eq!(one.join().expect("works"), [(None, all.to_vec()), (None, all.to_vec())]);
    let sum = Some(7);
    assert_eq!(two.join().expect("works"), [(sum, all.to_vec()), (sum, all.to_vec())]);
    // Messages stay until the last one is past them.
    assert!(last.about(&first.0).is_dir() && last.about(&second.0).is_dir());
    last.end(&first).expect("is told");
    assert!(!last.about(&first.0).exists() && last.about(&second.0).is_dir());
}

#[test]
fn work_that_is_finished_is_told_to_those_that_wait_and_to_those_that_come() {
    let (folder, both) = (tempfile::tempdir().unwrap(), Barrier::new(2));
    scope(|threads| {
        let waiting = threads.spawn(|| {
            let team = joined(folder.path(), 1, 2);
            both.wait();
            team.receive(0).expect_err("ends").to_string()
        });
        let team = joined(folder.path(), 0, 2);
        both.wait();
        team.begin(&job("piece"));
        team.send(1, b"never read").expect("is said");
        assert!(team.about(&job("piece").0).is_dir());
        team.finish(b"found").expect("is told");
        assert_eq!(waiting.join().unwrap(), "rank 0 of the team: the job is finished");
        assert!(team.is_finished() && !team.folder.join(MESSAGES).exists());
    });
    let shard = Shard::new(1, 2).unwrap();
    let late = FolderTeam::join(folder.path(), shard, &job("a"), &|| false);
    assert!(matches!(&late, Ok(Joined::Finished(found)) if found == b"found"), "{late:?}");
}

#[test]
fn who_does_something_else_or_the_same_twice_at_once_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = joined(folder.path(), 0, 2);
    let other = refused(folder.path(), 1, &job("b")).to_string();
    assert!(other.contains("another job"), "{other}");
    let twice = refused(folder.path(), 0, &job("a")).to_string();
    assert!(twice.starts_with("shard 0/2 is already running"), "{twice}");
    drop(first);
    let count = Shard::new(0, 3).unwrap();
    let other = FolderTeam::join(folder.path(), count, &job("a"), &|| false);
    assert!(matches!(other, Err(FolderError::Other { .. })), "{other:?}");
    // A refused one leaves nothing that refuses others.
    joined(folder.path(), 1, 2);
}

#[test]
fn who_says_something_else_than_before_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    joined(folder.path(), 0, 2).send(1, b"one").expect("is said");
    let again = joined(folder.path(), 0, 2);
    let error = again.send(1, b"two").expect_err("is refused").to_string();
    assert!(error.contains("something else before"), "{error}");
    // The count continues nevertheless.
    again.send(1, b"two").expect("is said");
    assert_eq!(again.broadcast(0, Some(vec![1])), Ok(vec![1]));
    drop(again);
    // What all could have heard stands.
    let again = joined(folder.path(), 0, 2);
    assert_eq!(again.broadcast(0, Some(vec![2])), Ok(vec![1]));
    drop(again);
    let told = joined(folder.path(), 1, 2).agree("else").expect_err("is told").to_string();
    assert!(told.contains("works on something else"), "{told}");
}

#[test]
fn a_failure_reaches_those_that_wait_and_ends_with_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let team = joined(folder.path(), 0, 2);
    let other = joined(folder.path(), 1, 2);
    other.send(0, b"one").expect("is said");
    other.fail("no disk").expect("is told");
    drop(other);
    assert_eq!(team.receive(1), Ok(b"one".to_vec()), "what was said before is heard");
    let told = team.receive(1).expect_err("is told").to_string();
    assert_eq!(told, "rank 1 of the team: it failed: no disk");
    team.fail("as the other one").expect("is told");
    let asked = Cell::new(0);
    let cancelled = || asked.replace(asked.get() + 1) > 3;
    drop(team);
    // Failures of an earlier attempt end nobody, whoever comes first.
    let shard = Shard::new(0, 2).unwrap();
    let Ok(Joined::Member(team)) = FolderTeam::join(folder.path(), shard, &job("a"), &cancelled)
    else {
        panic!("does not join")
    };
    assert_eq!(team.receive(1), Ok(b"one".to_vec()));
    // It waits until the user stops it.
    let told = team.receive(1).expect_err("is stopped").to_string();
    assert!(told.contains("interrupted") && asked.get() == 5, "{told} after {asked:?}");
}

#[test]
fn a_member_that_fails_before_it_said_anything_may_do_something_else() {
    let folder = tempfile::tempdir().unwrap();
    joined(folder.path(), 0, 2).fail("a wrong option").expect("is told");
    let shard = Shard::new(0, 2).unwrap();
    let other = FolderTeam::join(folder.path(), shard, &job("b"), &|| false);
    assert!(matches!(other, Ok(Joined::Member(_))), "{other:?}");
    // A folder whose place does not exist is refused, as other outputs are.
    let nowhere = folder.path().join("no/such");
    let nowhere = FolderTeam::join(&nowhere, shard, &job("a"), &|| false);
    assert!(matches!(nowhere, Err(FolderError::Io { .. })), "{nowhere:?}");
}

/// The only message about a piece of work.
fn message(team: &FolderTeam<'_>, piece: &Fingerprint) -> PathBuf {
    team.about(&piece.0).join("0-1-0")
}

#[test]
fn a_changed_message_is_named_and_said_again_after_a_new_start() {
    let folder = tempfile::tempdir().unwrap();
    let (team, other) = (joined(folder.path(), 0, 2), joined(folder.path(), 1, 2));
    let piece = job("piece");
    team.begin(&piece);
    team.send(1, b"sum").expect("is said");
    let path = message(&team, &piece);
    let whole = fs::read(&path).unwrap();
    let hears = || {
        other.said.replace(Said::default());
        other.begin(&piece);
        other.receive(0)
    };
    assert_eq!(hears(), Ok(b"sum".to_vec()));
    let damaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let told = hears().expect_err("is damaged").to_string();
        for word in ["rank 0 of the team", "0-1-0", "is damaged", "moved aside", "computed again"] {
            assert!(told.contains(word), "{word} in {told}");
        }
        assert!(!path.exists(), "nobody reads it again");
    };
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        damaged(&changed);
    }
    [&whole[..0], &whole[..whole.len() - 1], b"sum"].into_iter().for_each(damaged);
    // Another message in its place: of another receiver, number, piece or job.
    let others = tempfile::tempdir().unwrap();
    let of_job = |name: &str, at: &Path| {
        let shard = Shard::new(0, 2).unwrap();
        let Ok(Joined::Member(team)) = FolderTeam::join(at, shard, &job(name), &|| false) else {
            panic!("does not join")
        };
        team.begin(&piece);
        team.send(1, b"sum").expect("is said");
        fs::read(message(&team, &piece)).unwrap()
    };
    damaged(&of_job("b", others.path()));
    team.send(1, b"sum").expect("is said");
    damaged(&fs::read(team.about(&piece.0).join("0-1-1")).unwrap());
    team.begin(&job("other piece"));
    team.send(1, b"sum").expect("is said");
    damaged(&fs::read(message(&team, &job("other piece"))).unwrap());
    // Started again, the sender says it again, whatever stands there.
    fs::write(&path, b"nonsense").unwrap();
    drop(team);
    let team = joined(folder.path(), 0, 2);
    team.begin(&piece);
    team.send(1, b"sum").expect("is said again");
    assert_eq!(hears(), Ok(b"sum".to_vec()));
}

#[test]
fn who_is_past_a_piece_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (team, other) = (joined(folder.path(), 0, 2), joined(folder.path(), 1, 2));
    let piece = job("piece");
    team.begin(&piece);
    team.send(1, b"sum").expect("is said");
    team.end(&piece).expect("is told");
    fs::remove_file(message(&team, &piece)).unwrap();
    other.begin(&piece);
    let told = other.receive(0).expect_err("is missing").to_string();
    assert!(told.contains("0-1-0 is missing") && told.contains("remove"), "{told}");
}

#[test]
fn a_changed_result_is_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let team = joined(folder.path(), 0, 2);
    team.finish(b"{\"keep\": 0.5}").expect("is told");
    let path = folder.path().join(FINISHED);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        let error = refused(folder.path(), 1, &job("a")).to_string();
        assert!(error.contains("finished: ") && error.contains("remove it"), "{error}");
        assert!(matches!(team.found(), Err(FolderError::Damaged { .. })));
    }
}

#[cfg(unix)]
#[test]
fn links_and_pipes_in_the_folder_are_refused_without_waiting() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let thesis = elsewhere.join("thesis");
    fs::write(&thesis, "").unwrap();
    let pipe = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    // Folders of the team, one after another, as links to a folder elsewhere.
    for (index, name) in ["", "0", "messages", "pieces", "0/run"].into_iter().enumerate() {
        let folder = dir.path().join(format!("links-{index}"));
        let link = folder.join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&elsewhere, if name.is_empty() { &folder } else { &link }).unwrap();
        let error = refused(&folder, 0, &job("a")).to_string();
        assert!(error.contains("is a link"), "{name}: {error}");
    }
    // Files of the team.
    for (index, name) in ["0/.lock", "0/job", "1/job", "finished"].into_iter().enumerate() {
        for kind in ["link", "pipe"] {
            let folder = dir.path().join(format!("files-{index}-{kind}"));
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if kind == "link" {
                symlink(&thesis, &path).unwrap();
            } else {
                pipe(&path);
            }
            let error = refused(&folder, 0, &job("a")).to_string();
            assert!(error.contains(&format!("is a {kind}")), "{name}: {error}");
        }
    }
    // A message, and the notes of a member.
    let folder = dir.path().join("folder");
    let (team, other) = (joined(&folder, 0, 2), joined(&folder, 1, 2));
    let piece = job("piece");
    team.begin(&piece);
    other.begin(&piece);
    team.send(1, b"sum").expect("is said");
    let own = message(&team, &piece);
    fs::remove_file(&own).unwrap();
    pipe(&own);
    let told = other.receive(0).expect_err("is a pipe").to_string();
    assert!(told.contains("a pipe") && told.contains("moved aside"), "{told}");
    symlink(&thesis, passed(&team.about(&piece.0), 0)).unwrap();
    let told = team.end(&piece).expect_err("is a link").to_string();
    assert!(told.contains("passed-0") && told.contains("is a link"), "{told}");
    symlink(&thesis, folder.join("0/failed")).unwrap();
    assert!(team.fail("no disk").is_err());
    assert_eq!(fs::read(&thesis).unwrap(), b"");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("messages")).unwrap();
    fs::write(dir.path().join("notes.txt"), "thesis").unwrap();
    let error = refused(dir.path(), 0, &job("a")).to_string();
    assert!(error.contains("notes.txt, which does not belong to a shard"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
