//! Messages between members of a team during a capture.

use crate::stats::{InputSums, TargetSums};
use linwright_run::team::{Members, Team, TeamError};
use linwright_tensor::{Mat, little_endian_bytes};

/// Bytes of a number of rows.
const NUMBER: usize = size_of::<f32>();

/// Sums that add up exactly, as messages.
pub(super) trait Sums: Sized {
    fn to_bytes(&self) -> Vec<u8>;
    fn of_bytes(bytes: &[u8]) -> Result<Self, String>;
    /// Numbers of features: only sums with the same ones can be added.
    fn shape(&self) -> [usize; 2];
    fn merge(&mut self, other: &Self);
}

macro_rules! sums {
    ($($name:ident),*) => {
        $(impl Sums for $name {
            fn to_bytes(&self) -> Vec<u8> {
                self.to_bytes()
            }

            fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
                Self::of_bytes(bytes)
            }

            fn shape(&self) -> [usize; 2] {
                self.shape()
            }

            fn merge(&mut self, other: &Self) {
                self.merge(other);
            }
        })*
    };
}

sums!(InputSums, TargetSums);

/// The sums over training and validation samples of all members, on the members that `gets` names.
pub(super) fn merged<S: Sums>(
    own: [S; 2],
    team: &dyn Team,
    gets: &dyn Fn(usize) -> bool,
) -> Result<Option<[S; 2]>, TeamError> {
    if team.size() == 1 {
        return Ok(Some(own));
    }
    let mut members = (0..team.size()).filter(|member| gets(*member));
    let Some(first) = members.next() else { return Ok(None) };
    let merge = |whole: &mut [S; 2], part: &[S; 2]| {
        whole.iter_mut().zip(part).for_each(|(whole, part)| whole.merge(part));
    };
    let shapes = own.each_ref().map(S::shape);
    let read = |bytes: &[u8]| read(bytes, shapes);
    let mut whole = team.reduce(first, own, write, read, merge)?;
    for other in members {
        if let Some(whole) = whole.as_ref().filter(|_| team.rank() == first) {
            team.send(other, &write(whole))?;
        } else if team.rank() == other {
            let found = read(&team.receive(first)?);
            whole = Some(found.map_err(|reason| TeamError { rank: first, reason })?);
        }
    }
    Ok(whole)
}

/// Both sums, after the length of the first.
fn write<S: Sums>([first, second]: &[S; 2]) -> Vec<u8> {
    let (first, second) = (first.to_bytes(), second.to_bytes());
    [&(first.len() as u64).to_le_bytes()[..], &first, &second].concat()
}

/// Both sums of a message, which must have these shapes.
fn read<S: Sums>(bytes: &[u8], shapes: [[usize; 2]; 2]) -> Result<[S; 2], String> {
    let short = || format!("expected two sums, found {} bytes", bytes.len());
    let (length, both) = bytes.split_first_chunk().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (first, second) = both.split_at_checked(length).ok_or_else(short)?;
    let sums = [S::of_bytes(first)?, S::of_bytes(second)?];
    let found = sums.each_ref().map(S::shape);
    match found == shapes {
        true => Ok(sums),
        false => Err(format!("it has sums over {found:?} features, expected {shapes:?}")),
    }
}

/// Rows of one batch: the input of some sites, and the targets of sites that need samples.
pub(super) struct BatchRows {
    pub(super) x: Mat<f32>,
    pub(super) targets: Vec<Mat<f32>>,
}

impl BatchRows {
    /// The rows of a batch that one member has, on all members. `inp` and `outputs` are the numbers
    /// of features.
    pub(super) fn shared(
        own: Option<Self>,
        (team, from): (&dyn Team, usize),
        inp: usize,
        outputs: &[usize],
    ) -> Result<Self, TeamError> {
        match own {
            Some(own) if team.size() == 1 => Ok(own),
            Some(own) => {
                team.broadcast(from, Some(own.to_bytes()))?;
                Ok(own)
            }
            None => {
                let message = team.broadcast(from, None)?;
                let read = Self::of_bytes(&message, inp, outputs);
                read.map_err(|reason| TeamError { rank: from, reason })
            }
        }
    }

    /// The numbers of all rows of the input, then of each target.
    fn to_bytes(&self) -> Vec<u8> {
        let all = std::iter::once(&self.x).chain(&self.targets);
        all.flat_map(|rows| little_endian_bytes(rows.data()).iter().copied()).collect()
    }

    fn of_bytes(bytes: &[u8], inp: usize, outputs: &[usize]) -> Result<Self, String> {
        let (words, rest) = bytes.as_chunks::<NUMBER>();
        let width = inp + outputs.iter().sum::<usize>();
        if !rest.is_empty() || width == 0 || words.len() % width != 0 {
            return Err(format!("{} bytes are not whole rows of {width} numbers", bytes.len()));
        }
        let count = words.len() / width;
        let mut numbers = words.iter().map(|word| f32::from_le_bytes(*word));
        let mut take =
            |cols: usize| Mat::from_vec(count, cols, numbers.by_ref().take(count * cols).collect());
        Ok(Self { x: take(inp), targets: outputs.iter().map(|out| take(*out)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_run::team::ThreadTeam;

    /// The error of the first of two members when the other one says something else than its sums.
    fn told(own: [InputSums; 2], says: &[u8]) -> String {
        let mut members = ThreadTeam::of(2).into_iter();
        let (first, second) = (members.next().expect("one"), members.next().expect("another"));
        std::thread::scope(|threads| {
            threads.spawn(move || second.send(0, says).expect("is heard"));
            let found = merged(own, &first, &|member| member == 0);
            found.expect_err("is not a message of this site").to_string()
        })
    }

    #[test]
    fn sums_of_another_site_and_bytes_that_are_none_are_errors() {
        let sums = |inp: usize| [InputSums::new(inp), InputSums::new(inp)];
        let [own, other] = [write(&sums(3)), write(&sums(4))];
        for says in [&other, &own[1..], &own[..own.len() - 8], &[]] {
            let error = told(sums(3), says);
            assert!(error.starts_with("rank 1 of the team: "), "{error}");
        }
        assert!(told(sums(3), &other).contains("expected [[3, 3], [3, 3]]"));
        // Too many samples for a sum of numbers of them.
        let mut many = own.clone();
        many[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(told(sums(3), &many).contains("samples"));
        for at in 0..own.len() {
            for bit in 0..8 {
                let mut changed = own.clone();
                changed[at] ^= 1 << bit;
                // A message or none, never a panic.
                drop(read::<InputSums>(&changed, [[3, 3]; 2]));
            }
        }
        let targets = write(&[TargetSums::new(2, 3), TargetSums::new(2, 3)]);
        assert!(read::<TargetSums>(&targets, [[2, 3]; 2]).is_ok());
        assert!(read::<TargetSums>(&targets, [[3, 2]; 2]).is_err());
    }
}
