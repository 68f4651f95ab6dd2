// SPDX-License-Identifier: GPL-2.0

//! Child processes without `exec`, users, and the memory's limits.

use super::answer;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// How a child of [`in_child`] ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The closure's own answer.
    Answer(Result<(), String>),
    /// Killed by this signal.
    Signal(i32),
}

/// Runs `work` in a forked child and waits for it. To be called while the program has no other
/// thread, since the child has only the calling one.
pub fn in_child(work: impl FnOnce() -> Result<(), String>) -> io::Result<End> {
    let mut ends = [0; 2];
    // SAFETY: The array has room for the two descriptors.
    answer(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    // SAFETY: Both descriptors are fresh and owned by nobody else.
    let (mut from, mut to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: There is one thread, so the child's memory is in order.
    let child = answer(unsafe { libc::fork() }.into())? as libc::pid_t;
    if child == 0 {
        let answer = work();
        let text = answer.as_ref().err().map_or("", String::as_str);
        let sent = to.write_all(text.as_bytes()).is_ok();
        // SAFETY: It only ends the child, without the parent's exit handlers.
        unsafe { libc::_exit(if answer.is_ok() && sent { 0 } else { 1 }) };
    }
    drop(to);
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    let mut status = 0;
    // SAFETY: The status lives over the call.
    answer(unsafe { libc::waitpid(child, &mut status, 0) }.into())?;
    if libc::WIFSIGNALED(status) {
        return Ok(End::Signal(libc::WTERMSIG(status)));
    }
    let fine = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    Ok(End::Answer(if fine { Ok(()) } else { Err(text) }))
}

/// Becomes user `uid` and group `gid`, for good, with no other groups and no capabilities.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: No memory is passed (the list of groups is empty).
    answer(unsafe { libc::setgroups(0, std::ptr::null()) }.into())?;
    // SAFETY: No memory is passed.
    answer(unsafe { libc::setresgid(gid, gid, gid) }.into())?;
    // SAFETY: No memory is passed.
    answer(unsafe { libc::setresuid(uid, uid, uid) }.into()).map(drop)
}

/// Lets this thread be user `uid` and group `gid` for what concerns files. As root it has all rights
/// again.
pub fn act_as(uid: u32, gid: u32) {
    // SAFETY: No memory is passed. (Neither call can tell of a failure.)
    unsafe { libc::setfsgid(gid) };
    // SAFETY: As above.
    unsafe { libc::setfsuid(uid) };
}

/// Sets the bits that new files do not get.
pub fn umask(mask: u32) {
    // SAFETY: No memory is passed.
    unsafe { libc::umask(mask) };
}

/// Ends the whole process at once, whatever its threads are waiting for.
pub fn end(status: i32) -> ! {
    // SAFETY: It only ends the process.
    unsafe { libc::_exit(status) }
}
