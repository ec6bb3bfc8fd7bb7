//! Mapped files that become shorter.
//!
//! The system answers a read of mapped bytes that the file no longer has by the signal SIGBUS,
//! which ends the process without a word. A program that owns its process can be told instead.
#![allow(unsafe_code, reason = "a handler of a signal is inherently unsafe; it is isolated here")]

use std::io::{self, Read};
use std::mem::{size_of, zeroed};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

/// Where the handler writes the address. A handler has no arguments of ours, so this is static.
static TOLD: AtomicI32 = AtomicI32::new(-1);
/// Bytes of the stack of the thread that waits for it: it prints a message.
const STACK: usize = 1 << 18;

/// Calls `tell`, on a thread of its own, with the path of a mapped file that became shorter when a
/// thread reads bytes that it no longer has; without a path where the system does not tell it, or
/// where the signal had another reason. The thread that read never goes on, so `tell` has to end
/// the process. Meant to be called once.
///
/// # Errors
/// If the system refuses a pipe, a thread or the handler.
pub fn when_cut(tell: impl FnOnce(Option<PathBuf>) + Send + 'static) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    thread::Builder::new().name("cut files".into()).stack_size(STACK).spawn(move || {
        let mut address = [0; size_of::<usize>()];
        if reader.read_exact(&mut address).is_ok() {
            tell(path_at(usize::from_ne_bytes(address)));
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
        let told = TOLD.load(Ordering::SeqCst);
        if libc::write(told, address.as_ptr().cast(), address.len()) == address.len() as isize {
            loop {
                libc::pause();
            }
        }
        // Nobody hears it: the read is tried again at the return, and the signal ends the process.
        libc::signal(signal, libc::SIG_DFL);
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
