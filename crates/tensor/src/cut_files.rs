//! Mapped files that become shorter.
//!
//! The system answers a read of mapped bytes that the file no longer has by the signal SIGBUS,
//! which ends the process without a word. A program that owns its process can be told instead
//! ([`when_cut`]); in one that others own, a line says why it ends ([`say_when_cut`]).
#![allow(unsafe_code, reason = "a handler of a signal is inherently unsafe; it is isolated here")]

use crate::mapped_file::is_mapped;
use std::io::{self, Read, Write};
use std::mem::{size_of, zeroed};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

/// Where the handler writes the address. A handler cannot take further arguments, so this is
/// static.
static TOLD: AtomicI32 = AtomicI32::new(-1);
/// Stack size in bytes of the waiting thread, which prints a message.
const STACK: usize = 1 << 18;

/// Calls `on_cut`, on a separate thread, with the path of a mapped file that became shorter when a
/// thread reads bytes beyond its end; without a path if the system does not reveal it, or if the
/// signal had another reason. The reading thread never continues, so `on_cut` has to end the
/// process. Meant to be called once.
///
/// # Errors
/// If the system refuses a pipe, a thread or the handler.
pub fn when_cut(on_cut: impl FnOnce(Option<PathBuf>) + Send + 'static) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    thread::Builder::new().name("cut files".into()).stack_size(STACK).spawn(move || {
        let mut address = [0; size_of::<usize>()];
        if reader.read_exact(&mut address).is_ok() {
            on_cut(path_at(usize::from_ne_bytes(address)));
        }
    })?;
    TOLD.store(writer.into_raw_fd(), Ordering::SeqCst);
    // SAFETY: a zeroed `sigaction` is one without flags and with an empty mask; `handle` has the
    // signature that SA_SIGINFO asks for, and does only what handlers may.
    let refused = unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut())
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system gives a valid pointer; `write`, `pause` and `signal` are among the
    // functions that a handler may call; the pipe is never closed.
    unsafe {
        let address = ((*info).si_addr() as usize).to_ne_bytes();
        let pipe = TOLD.load(Ordering::SeqCst);
        if libc::write(pipe, address.as_ptr().cast(), address.len()) == address.len() as isize {
            loop {
                libc::pause();
            }
        }
        // No thread receives it: the read is tried again on return, and the signal ends the
        // process.
        libc::signal(signal, libc::SIG_DFL);
    }
}

/// What a handler that says why a process ends needs to know.
struct Said {
    /// Where it writes the address.
    asks: libc::c_int,
    /// Where it learns that the message is out.
    answers: libc::c_int,
    /// The process that has the thread which says it: a child of `fork` has none.
    process: libc::pid_t,
    /// What handled the signal before.
    before: libc::sigaction,
}

/// A handler has no arguments of ours, so this is static.
static SAID: OnceLock<Said> = OnceLock::new();
/// Time in milliseconds in which the thread has to say it.
const SAYING: libc::c_int = 2000;

/// Writes a line to stderr, with the path, when a thread reads bytes of a [`crate::MappedFile`]
/// that the file no longer has, before the signal takes the way that it took before: to the handler
/// of the program, or to the end of the process. Signals for other reasons take it at once. Meant
/// for libraries in programs of others; further calls do nothing.
///
/// # Errors
/// If the system refuses pipes, a thread or the handler.
pub fn say_when_cut() -> io::Result<()> {
    if SAID.get().is_some() {
        return Ok(());
    }
    let (mut asked, asks) = io::pipe()?;
    let (answered, mut answers) = io::pipe()?;
    let say = move || {
        let mut address = [0; size_of::<usize>()];
        while asked.read_exact(&mut address).is_ok() {
            let address = usize::from_ne_bytes(address);
            if is_mapped(address) {
                let file = path_at(address).map(|path| path.display().to_string());
                let file = file.as_deref().unwrap_or("a file");
                // No one may read it: the process ends all the same.
                drop(writeln!(
                    io::stderr(),
                    "linwright: {file} became shorter while it was read; nothing may write to files in use"
                ));
            }
            if answers.write_all(&[0]).is_err() {
                return;
            }
        }
    };
    let (asks, answers) = (asks.into_raw_fd(), answered.into_raw_fd());
    // SAFETY: asks the system for the handler, and for the number of the process.
    let (before, process) = unsafe {
        let mut before: libc::sigaction = zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        (before, libc::getpid())
    };
    if SAID.set(Said { asks, answers, process, before }).is_err() {
        return Ok(());
    }
    thread::Builder::new().name("cut files".into()).stack_size(STACK).spawn(say)?;
    // SAFETY: as in `when_cut`.
    let refused = unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = say_and_go_on as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut())
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn say_and_go_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(said) = SAID.get() else { return };
    // SAFETY: the system gives valid pointers; `write`, `poll`, `read`, `getpid` and `sigaction`
    // are among the functions that a handler may call; the pipes are never closed; the handler
    // before is called as the system would call it.
    unsafe {
        let address = ((*info).si_addr() as usize).to_ne_bytes();
        let length = address.len();
        if libc::getpid() == said.process
            && libc::write(said.asks, address.as_ptr().cast(), length) == length as isize
        {
            let mut told = libc::pollfd { fd: said.answers, events: libc::POLLIN, revents: 0 };
            let mut byte = 0_u8;
            if libc::poll(&raw mut told, 1, SAYING) == 1 {
                libc::read(said.answers, (&raw mut byte).cast(), 1);
            }
        }
        let before = said.before.sa_sigaction;
        if before == libc::SIG_DFL || before == libc::SIG_IGN {
            // The read is tried again at the return, and the signal ends the process.
            libc::signal(signal, libc::SIG_DFL);
        } else if said.before.sa_flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            std::mem::transmute::<usize, Handler>(before)(signal, info, context);
        } else {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(before)(signal);
        }
    }
}

/// The path of the file that is mapped at an address.
#[cfg(target_os = "linux")]
fn path_at(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    maps.split(|byte| *byte == b'\n').find_map(|line| path_of(line, address))
}

#[cfg(not(target_os = "linux"))]
fn path_at(_address: usize) -> Option<PathBuf> {
    None
}

/// The path in a line such as `7f00-8f00 r--s 00000000 fe:00 1234    /a/path`, if it is about an
/// address.
#[cfg(target_os = "linux")]
fn path_of(line: &[u8], address: usize) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let range = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    if !(number(start)?..number(end)?).contains(&address) {
        return None;
    }
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Some(std::ffi::OsStr::from_bytes(path).into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::MappedFile;
    use std::fs::File;

    #[test]
    fn the_path_of_a_mapped_file_is_found_by_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a name (deleted) with spaces");
        std::fs::write(&path, [1; 10]).unwrap();
        let map = MappedFile::of(File::open(&path).unwrap()).unwrap();
        let address = map.bytes().as_ptr() as usize;
        let real = path.canonicalize().unwrap();
        assert_eq!(path_at(address + 9), Some(real.clone()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(path_at(address), Some(real));
        let own = 0_u8;
        assert_eq!(path_at(&raw const own as usize), None);
    }

    /// What a process of its own says that reads a cut file, and whether a signal ended it.
    fn alone(mark: &str) -> (String, Option<i32>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(mark), [7; 1 << 16]).unwrap();
        let test = "cut_files::tests::a_program_of_others_says_why_it_ends_and_ends_as_before";
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&done.status);
        (String::from_utf8(done.stderr).unwrap(), signal)
    }

    extern "C" fn own(_: libc::c_int) {
        // SAFETY: both may be called by a handler.
        unsafe {
            libc::write(2, c"own handler".as_ptr().cast(), 11);
            libc::_exit(3);
        }
    }

    fn read_cut(mark: &str) {
        // SAFETY: `own` has the signature that is asked for.
        unsafe {
            let handler =
                if mark.ends_with("default") { libc::SIG_DFL } else { own as *const () as usize };
            libc::signal(libc::SIGBUS, handler);
        }
        say_when_cut().unwrap();
        say_when_cut().unwrap();
        let file = File::options().read(true).write(true).open(mark).unwrap();
        let ours = MappedFile::of(file.try_clone().unwrap()).unwrap();
        // SAFETY: nothing else shortens the file.
        let others = unsafe { memmap2::Mmap::map(&file).unwrap() };
        file.set_len(0).unwrap();
        let bytes = if mark.starts_with("others") { &others[..] } else { ours.bytes() };
        assert_eq!(std::hint::black_box(bytes)[9000], 7);
    }

    #[test]
    fn a_program_of_others_says_why_it_ends_and_ends_as_before() {
        const MARKS: [&str; 4] = ["ours-default", "ours-own", "others-default", "others-own"];
        if let Some(mark) = MARKS.iter().find(|mark| std::path::Path::new(mark).exists()) {
            read_cut(mark);
            return;
        }
        for mark in MARKS {
            let (said, signal) = alone(mark);
            let is_told = said.contains(&format!("{mark} became shorter while it was read"));
            assert_eq!(is_told, mark.starts_with("ours"), "{mark}: {said}");
            assert_eq!(said.contains("own handler"), mark.ends_with("own"), "{mark}: {said}");
            let expected = mark.ends_with("default").then_some(libc::SIGBUS);
            assert_eq!(signal, expected, "{mark}: {said}");
        }
    }

    #[test]
    fn lines_of_other_kinds_are_of_no_file() {
        let line = b"1000-2000 r--s 00000000 fe:00 1234                    /a/b";
        assert_eq!(path_of(line, 0x1fff), Some("/a/b".into()));
        assert_eq!(path_of(line, 0x2000), None);
        for line in [&b""[..], b"1000-2000 rw-p 00000000 00:00 0 [heap]", b"x-y", b"\xff-2000 /a"] {
            assert_eq!(path_of(line, 0x1000), None);
        }
    }
}
