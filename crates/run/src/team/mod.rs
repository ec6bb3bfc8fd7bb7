//! Teams: processes that do one job together and exchange messages, such as the ranks of MPI.
//!
//! The members of a team work in lockstep: every member makes the same calls in the same order.
//! Work is divided by [`owner`](Members::owner); results of members are merged along a fixed tree.
//! Members of a [`FolderTeam`] may start at different times, die and start again.

mod folder;
mod message;

pub use folder::{FolderError, FolderTeam, Joined};

use crate::Fingerprint;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A message that did not arrive or could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} of the team: {reason}")]
pub struct TeamError {
    /// The other member.
    pub rank: usize,
    /// What went wrong.
    pub reason: String,
}

/// A member of a team.
pub trait Team: Debug {
    /// Number of this member, from 0.
    fn rank(&self) -> usize;

    /// Number of members.
    fn size(&self) -> usize;

    /// Sends a message to another member.
    ///
    /// # Errors
    /// [`TeamError`] if the other one is gone.
    fn send(&self, to: usize, message: &[u8]) -> Result<(), TeamError>;

    /// The next message of another member to this one.
    ///
    /// # Errors
    /// [`TeamError`] if the other one is gone.
    fn receive(&self, from: usize) -> Result<Vec<u8>, TeamError>;

    /// Distributes the message of member `from` to every member; others need not pass one. If that
    /// member was restarted, all may get its earlier message instead.
    ///
    /// # Errors
    /// [`TeamError`] if a member is gone.
    fn broadcast(&self, from: usize, message: Option<Vec<u8>>) -> Result<Vec<u8>, TeamError> {
        let tree = Tree::new(self, from);
        let message = match (tree.above(), message) {
            (None, message) => message.unwrap_or_default(),
            (Some(above), _) => self.receive(above)?,
        };
        // The largest branch first, so that it begins early.
        tree.below().into_iter().rev().try_for_each(|below| self.send(below, &message))?;
        Ok(message)
    }

    /// Following messages are about this piece of work, which may have been started before.
    fn begin(&self, _piece: &Fingerprint) {}

    /// This member no longer needs messages about a piece of work, or never did.
    ///
    /// # Errors
    /// [`TeamError`] if the message cannot be sent.
    fn end(&self, _piece: &Fingerprint) -> Result<(), TeamError> {
        Ok(())
    }

    /// The store shared by all members, if there is one. Otherwise only the first member keeps
    /// pieces.
    fn shared_store(&self) -> Option<&Path> {
        None
    }

    /// The folder for private work of this member, if there is one.
    fn own_folder(&self) -> Option<PathBuf> {
        None
    }
}

impl<T: Team + ?Sized> Team for &T {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), TeamError> {
        (**self).send(to, message)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, TeamError> {
        (**self).receive(from)
    }

    fn broadcast(&self, from: usize, message: Option<Vec<u8>>) -> Result<Vec<u8>, TeamError> {
        (**self).broadcast(from, message)
    }

    fn begin(&self, piece: &Fingerprint) {
        (**self).begin(piece);
    }

    fn end(&self, piece: &Fingerprint) -> Result<(), TeamError> {
        (**self).end(piece)
    }

    fn shared_store(&self) -> Option<&Path> {
        (**self).shared_store()
    }

    fn own_folder(&self) -> Option<PathBuf> {
        (**self).own_folder()
    }
}

/// A team of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Team for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn send(&self, to: usize, _message: &[u8]) -> Result<(), TeamError> {
        Err(TeamError { rank: to, reason: "there is no such member".to_owned() })
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, TeamError> {
        Err(TeamError { rank: from, reason: "there is no such member".to_owned() })
    }
}

/// Collective operations. All members must call the same functions in the same order.
pub trait Members: Team {
    /// The member that does a piece of work, counted from 0.
    fn owner(&self, piece: usize) -> usize {
        piece % self.size()
    }

    /// Whether this member does a piece of work, counted from 0.
    fn owns(&self, piece: usize) -> bool {
        self.owner(piece) == self.rank()
    }

    /// Gathers the values of all members, in their order, on every member.
    ///
    /// # Errors
    /// [`TeamError`] if a member is gone.
    fn gathered(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, TeamError> {
        let mut message = Some(own);
        let received = |from: usize| {
            let message = if from == self.rank() { message.take() } else { None };
            self.broadcast(from, message)
        };
        (0..self.size()).map(received).collect()
    }

    /// Merges the values of all members along a fixed tree; member `to` gets the result, others
    /// nothing. `write` and `read` convert a part to a message and back.
    ///
    /// # Errors
    /// [`TeamError`] if a member is gone, or its message cannot be read.
    fn reduce<T>(
        &self,
        to: usize,
        own: T,
        write: impl Fn(&T) -> Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, String>,
        merge: impl Fn(&mut T, &T),
    ) -> Result<Option<T>, TeamError> {
        let tree = Tree::new(self, to);
        let mut whole = own;
        for rank in tree.below() {
            let message = self.receive(rank)?;
            let part = read(&message).map_err(|reason| TeamError { rank, reason })?;
            merge(&mut whole, &part);
        }
        match tree.above() {
            None => Ok(Some(whole)),
            Some(above) => self.send(above, &write(&whole)).map(|()| None),
        }
    }

    /// Checks that all members do the same work, by a text that describes it.
    ///
    /// # Errors
    /// [`TeamError`] on the members that have another text than the first, or if one is gone.
    fn agree(&self, what: &str) -> Result<(), TeamError> {
        let first = self.broadcast(0, (self.rank() == 0).then(|| what.as_bytes().to_vec()))?;
        if first == what.as_bytes() {
            return Ok(());
        }
        let reason = format!(
            "it works on something else ({}) than this one ({what}): model, texts, options, version and \
             instruction set must be the same for all",
            String::from_utf8_lossy(&first)
        );
        Err(TeamError { rank: 0, reason })
    }

    /// Waits for all members.
    ///
    /// # Errors
    /// [`TeamError`] if a member is gone.
    fn barrier(&self) -> Result<(), TeamError> {
        self.reduce(0, (), |()| Vec::new(), |_| Ok(()), |(), ()| ())?;
        self.broadcast(0, None).map(drop)
    }
}

impl<T: Team + ?Sized> Members for T {}

/// A binomial tree over the members, seen from one of them. Distances from the root wrap around.
struct Tree {
    distance: usize,
    root: usize,
    size: usize,
}

impl Tree {
    fn new(team: &(impl Team + ?Sized), root: usize) -> Self {
        let size = team.size();
        Self { distance: (team.rank() + size - root) % size, root, size }
    }

    fn rank(&self, distance: usize) -> usize {
        (distance + self.root) % self.size
    }

    /// The member to which this one reports; none for the root.
    fn above(&self) -> Option<usize> {
        let lowest_bit = self.distance & self.distance.wrapping_neg();
        (self.distance > 0).then(|| self.rank(self.distance - lowest_bit))
    }

    /// The members that report to this one, the nearest first.
    fn below(&self) -> Vec<usize> {
        let steps = (0..usize::BITS).map(|bit| 1 << bit);
        let steps = steps.take_while(|step| self.distance & step == 0 && *step < self.size);
        let steps = steps.map(|step| self.distance + step).filter(|at| *at < self.size);
        steps.map(|at| self.rank(at)).collect()
    }
}

/// A member of a team of threads in one process, for programs and tests without MPI.
#[derive(Debug)]
pub struct ThreadTeam {
    rank: usize,
    to: Vec<SyncSender<Vec<u8>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl ThreadTeam {
    /// All members of a team, one for each thread.
    #[must_use]
    pub fn of(size: usize) -> Vec<Self> {
        let mut to: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
        let mut from: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
        for sender in &mut to {
            for receiver in &mut from {
                // Like a rank that sends a large message: it waits until the other one receives.
                let (send, receive) = sync_channel(0);
                sender.push(send);
                receiver.push(Mutex::new(receive));
            }
        }
        let members = to.into_iter().zip(from).enumerate();
        members.map(|(rank, (to, from))| Self { rank, to, from }).collect()
    }
}

impl Team for ThreadTeam {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), TeamError> {
        let sent = self.to[to].send(message.to_vec());
        sent.map_err(|_| TeamError { rank: to, reason: "it has ended".to_owned() })
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, TeamError> {
        let gone = || TeamError { rank: from, reason: "it has ended".to_owned() };
        let receiver = self.from[from].lock().map_err(|_| gone())?;
        receiver.recv().map_err(|_| gone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each member of a team of threads finds.
    fn each<T: Send>(size: usize, work: impl Fn(&ThreadTeam) -> T + Sync) -> Vec<T> {
        let members = ThreadTeam::of(size);
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                members.into_iter().map(|team| scope.spawn(move || work(&team))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a member works")).collect()
        })
    }

    fn gathered(team: &impl Team, to: usize) -> Option<Vec<u8>> {
        let merge = |all: &mut Vec<u8>, part: &Vec<u8>| all.extend(part);
        let own = vec![team.rank() as u8];
        team.reduce(to, own, Vec::clone, |bytes| Ok(bytes.to_vec()), merge).expect("reduces")
    }

    #[test]
    fn everything_reaches_the_root_once_and_a_broadcast_reaches_all() {
        for size in 1..=9 {
            for root in 0..size {
                let found = each(size, |team| {
                    let whole = gathered(team, root);
                    let message = (team.rank() == root).then(|| vec![7, root as u8]);
                    team.barrier().expect("waits");
                    (whole, team.broadcast(root, message).expect("sends"))
                });
                for (rank, (whole, message)) in found.into_iter().enumerate() {
                    assert_eq!(message, [7, root as u8], "{rank} of {size}");
                    assert_eq!(whole.is_some(), rank == root, "{rank} of {size}");
                    let mut whole = whole.unwrap_or_else(|| (0..size as u8).collect());
                    whole.sort_unstable();
                    assert_eq!(whole, (0..size as u8).collect::<Vec<_>>(), "{rank} of {size}");
                }
            }
        }
    }

    #[test]
    fn all_get_what_every_member_has() {
        for size in 1..=5 {
            let all: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8; rank]).collect();
            let found = each(size, |team| {
                team.gathered(vec![team.rank() as u8; team.rank()]).expect("sends")
            });
            assert!(found.iter().all(|found| *found == all), "{found:?}");
        }
    }

    #[test]
    fn every_piece_has_one_owner() {
        let owned = each(3, |team| (0..10).filter(|piece| team.owns(*piece)).collect::<Vec<_>>());
        assert_eq!(owned, [vec![0, 3, 6, 9], vec![1, 4, 7], vec![2, 5, 8]]);
        assert!((0..10).all(|piece| Alone.owns(piece)));
    }

    #[test]
    fn who_works_on_something_else_is_told() {
        let found = each(3, |team| {
            let what = if team.rank() == 2 { "b" } else { "a" };
            team.agree(what).map_err(|error| error.to_string())
        });
        assert_eq!(found[..2], [Ok(()), Ok(())]);
        let told = found[2].as_ref().expect_err("differs");
        assert!(told.contains("rank 0") && told.contains("(a)") && told.contains("(b)"), "{told}");
    }

    #[test]
    fn who_is_gone_is_named_and_so_is_a_message_that_cannot_be_read() {
        let found = each(2, |team| match team.rank() {
            0 => team.receive(1).map(drop),
            _ => Ok(()),
        });
        assert_eq!(found[0].as_ref().map_err(|error| error.rank), Err(1));
        let found = each(2, |team| {
            let read = |_: &[u8]| Err("it is not a sum".to_owned());
            team.reduce(0, 1, |_| vec![0], read, |_: &mut i32, _| ()).map(drop)
        });
        let error = found[0].as_ref().expect_err("is not understood");
        assert_eq!(error.to_string(), "rank 1 of the team: it is not a sum");
        assert!(Alone.send(1, &[]).is_err() && Alone.receive(0).is_err());
    }
}
