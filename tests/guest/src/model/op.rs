// SPDX-License-Identifier: GPL-2.0

//! The operations, and how they are written down: one line each, that can be read again.

use crate::why::Why;
use std::fmt;
use std::str::FromStr;

/// Open files at most.
pub const SLOTS: u8 = 6;

/// A path below the volume's root, `.` for the root itself. No blanks in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

/// An open file, below [`SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u8);

/// A number that is written with eight digits to the byte: modes and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octal(pub u32);

/// The name of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(pub String);

/// What an operation is made of.
trait Word: fmt::Display + FromStr {
    /// The path that this is.
    fn path(&self) -> Option<&str> {
        None
    }

    /// The open file that this is.
    fn slot(&self) -> Option<u8> {
        None
    }
}

impl Word for u64 {}
impl Word for i64 {}
impl Word for u32 {}
impl Word for Octal {}
impl Word for Key {}
impl Word for Name {
    fn path(&self) -> Option<&str> {
        Some(&self.0)
    }
}
impl Word for Slot {
    fn slot(&self) -> Option<u8> {
        Some(self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = Why;
    fn from_str(text: &str) -> Result<Self, Why> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Key {
    type Err = Why;
    fn from_str(text: &str) -> Result<Self, Why> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl FromStr for Slot {
    type Err = Why;
    fn from_str(text: &str) -> Result<Self, Why> {
        let number = text.strip_prefix('#').and_then(|text| text.parse().ok());
        match number {
            Some(number) if number < SLOTS => Ok(Self(number)),
            _ => Err(format!("{text} is no open file").into()),
        }
    }
}

impl fmt::Display for Octal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0{:o}", self.0)
    }
}

impl FromStr for Octal {
    type Err = Why;
    fn from_str(text: &str) -> Result<Self, Why> {
        let number = u32::from_str_radix(text, 8);
        Ok(Self(number.map_err(|_| format!("{text} is not octal"))?))
    }
}

/// The next word of a line as what it stands for.
fn word<'a, T: Word>(words: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<T, Why> {
    let text = words.next().ok_or_else(|| format!("{what} is missing"))?;
    let read = text.parse().map_err(|_| format!("{what} is {text}"))?;
    Ok(read)
}

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident $verb:literal { $($field:ident : $kind:ty),* })*) => {
        /// One operation. Offsets, sizes and lengths are in bytes; what is written is stream `key` of
        /// [`crate::rng::fill`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Op { $($(#[$doc])* $variant { $($field: $kind),* },)* }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Op::$variant { $($field),* } => {
                        f.write_str($verb)?;
                        $(write!(f, " {}", $field)?;)*
                        Ok(())
                    })*
                }
            }
        }

        impl FromStr for Op {
            type Err = Why;
            fn from_str(line: &str) -> Result<Self, Why> {
                let mut words = line.split_whitespace();
                let op = match words.next().unwrap_or_default() {
                    $($verb => Op::$variant { $($field: word(&mut words, stringify!($field))?),* },)*
                    verb => return Err(format!("no operation is called {verb:?}").into()),
                };
                match words.next() {
                    Some(word) => Err(format!("too many words: {word}").into()),
                    None => Ok(op),
                }
            }
        }

        impl Op {
            /// Its name.
            pub fn verb(&self) -> &'static str {
                match self { $(Op::$variant { .. } => $verb,)* }
            }

            /// The paths that it is about.
            pub fn paths(&self) -> Vec<&str> {
                let mut found = Vec::new();
                match self { $(Op::$variant { $($field),* } => { $(found.extend($field.path());)* })* }
                found
            }

            /// The open file that it is about.
            pub fn slot(&self) -> Option<u8> {
                let mut found = None;
                match self { $(Op::$variant { $($field),* } => { $(found = found.or($field.slot());)* })* }
                found
            }
        }
    };
}

operations! {
    /// Makes a file that must not exist.
    Create "create" { path: Name, mode: Octal }
    /// Makes a directory.
    Mkdir "mkdir" { path: Name, mode: Octal }
    /// Makes a device, pipe or socket: `mode` says which.
    Mknod "mknod" { path: Name, mode: Octal, major: u32, minor: u32 }
    /// Makes a symbolic link whose target is `length` bytes long.
    Symlink "symlink" { path: Name, length: u64, key: u64 }
    /// Gives a file another name.
    Link "link" { from: Name, to: Name }
    /// Removes a name.
    Unlink "unlink" { path: Name }
    /// Removes a directory.
    Rmdir "rmdir" { path: Name }
    /// Renames, with `RENAME_*`.
    Rename "rename" { from: Name, to: Name, flags: Octal }
    /// Makes `count` empty files whose names have `length` bytes.
    Crowd "crowd" { path: Name, count: u64, length: u64, key: u64 }
    /// Removes every `every`th of these, and all for 1.
    Thin "thin" { path: Name, count: u64, length: u64, key: u64, every: u64 }
    /// Removes a directory with all that is in it.
    Clear "clear" { path: Name }
    /// Lists a directory with a buffer of `room` bytes, and again from the place of entry `at` on.
    List "list" { path: Name, room: u64, at: u64 }
    /// Begins to list a directory that is kept open.
    OpenDir "opendir" { path: Name, room: u64 }
    /// Lists some more of it.
    ReadDir "readdir" { times: u64 }
    /// Opens a file with `O_*` flags.
    Open "open" { slot: Slot, path: Name, flags: Octal }
    /// Makes a file without a name.
    Nameless "nameless" { slot: Slot, path: Name, mode: Octal }
    /// Gives an open file a name.
    NameOpen "name" { slot: Slot, path: Name }
    /// Closes it.
    Close "close" { slot: Slot }
    /// Writes at an offset.
    Write "write" { slot: Slot, offset: u64, length: u64, key: u64 }
    /// Writes where the file stands, or at its end where it was opened so.
    Append "append" { slot: Slot, length: u64, key: u64 }
    /// Opens, writes and closes.
    Put "put" { path: Name, flags: Octal, offset: u64, length: u64, key: u64 }
    /// Writes through a mapping, and with `sync` then calls `msync`.
    Map "map" { slot: Slot, offset: u64, length: u64, key: u64, sync: u64 }
    /// Reads.
    Read "read" { slot: Slot, offset: u64, length: u64 }
    /// Looks for a hole or for data (`whence` is `SEEK_HOLE` or `SEEK_DATA`).
    Seek "seek" { slot: Slot, offset: u64, whence: u32 }
    /// `ftruncate`.
    Cut "cut" { slot: Slot, size: u64 }
    /// `truncate`.
    Truncate "truncate" { path: Name, size: u64 }
    /// Copies a file, holes and all; `range` with `copy_file_range`.
    Copy "copy" { from: Name, to: Name, range: u64 }
    /// `fsync`.
    Fsync "fsync" { slot: Slot }
    /// `fdatasync`.
    Fdatasync "fdatasync" { slot: Slot }
    /// Forgets the file's clean pages.
    Forget "forget" { slot: Slot }
    /// Changes permissions.
    Chmod "chmod" { path: Name, mode: Octal }
    /// Changes owner and group.
    Chown "chown" { path: Name, uid: u32, gid: u32 }
    /// Sets the times of last access and change.
    Times "times" { path: Name, accessed: i64, modified: i64, nanos: u32 }
    /// Sets an attribute with `XATTR_*` flags.
    SetAttr "setattr" { path: Name, name: Key, length: u64, key: u64, flags: Octal }
    /// Reads an attribute into `room` bytes.
    GetAttr "getattr" { path: Name, name: Key, room: u64 }
    /// Removes an attribute.
    RemoveAttr "removeattr" { path: Name, name: Key }
    /// Lists attributes into `room` bytes.
    ListAttrs "listattrs" { path: Name, room: u64 }
    /// Sets an ACL, which `key` determines.
    SetAcl "setacl" { path: Name, name: Key, key: u64 }
    /// Acts as this user and group from here on.
    Who "who" { uid: u32, gid: u32 }
    /// Sets the bits that new files do not get.
    Umask "umask" { mask: Octal }
    /// `sync`.
    Sync "sync" {}
    /// `syncfs`.
    Syncfs "syncfs" {}
    /// Forgets all clean pages, names and inodes.
    Drop "drop" {}
    /// Makes the volume read-only.
    ReadOnly "readonly" {}
    /// Makes it writable again.
    Writable "writable" {}
    /// Freezes the volume and thaws it.
    Freeze "freeze" {}
    /// Closes all files, unmounts and mounts.
    Remount "remount" {}
    /// Closes all files, unmounts, checks with `e2fsck` and mounts.
    Check "check" {}
    /// Compares everything.
    Walk "walk" {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for line in [
            "create a/b 0644",
            "times . -5 1700000000 999999999",
            "open #5 a 0102",
            "setattr a user.x 100 7 00",
            "sync",
        ] {
            let op: Op = line.parse().unwrap();
            assert_eq!(op.to_string(), line);
        }
        for line in [
            "",
            "creat a 1",
            "create a",
            "create a 8",
            "sync x",
            "close #6",
        ] {
            assert!(line.parse::<Op>().is_err(), "{line}");
        }
    }

    #[test]
    fn paths_and_slots_are_found() {
        let op: Op = "rename a b/c 00".parse().unwrap();
        assert_eq!((op.paths(), op.slot()), (vec!["a", "b/c"], None));
        let op: Op = "open #2 . 00".parse().unwrap();
        assert_eq!((op.paths(), op.slot()), (vec!["."], Some(2)));
    }
}
