//! Pipes with a name (fifo(7)).

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::Path,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    sys::stat::Mode,
    unistd::mkfifo,
};

/// The smallest pipe there is: one page.
const SMALLEST: i32 = 4096;

/// Makes a pipe with a name and holds both of its ends, non-blocking: nobody who opens it to write ever
/// finds it without a reader, nor we without a writer. One that a dead process has left under this name
/// is replaced. Returns it with its capacity in bytes.
///
/// # Errors
/// What the kernel says.
pub fn make(path: &Path) -> io::Result<(File, usize)> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        fs::remove_file(path)?;
    }
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let flags = OFlag::O_NONBLOCK.bits();
    let pipe = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let capacity = fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(SMALLEST))?;
    Ok((pipe, usize::try_from(capacity).map_err(io::Error::other)?))
}

/// How many bytes wait in a pipe.
///
/// # Errors
/// What the kernel says.
pub fn waiting(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, which outlives the call.
    let answer = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsFd};

    use super::*;

    #[test]
    fn a_pipe_that_was_left_is_replaced_and_another_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        drop(make(&path).unwrap());
        make(&path).unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "somebody's").unwrap();
        assert_eq!(make(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_a_writer_wrote_waits_until_there_is_no_room() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let (pipe, capacity) = make(&path).unwrap();
        assert_eq!(waiting(pipe.as_fd()).unwrap(), 0);
        let mut writer = OpenOptions::new().append(true).open(&path).unwrap();
        writer.write_all(&vec![1; capacity]).unwrap();
        assert_eq!(waiting(pipe.as_fd()).unwrap(), capacity);
        let full = (&pipe).write(&[1]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }
}
