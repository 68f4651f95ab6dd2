// SPDX-License-Identifier: GPL-2.0

//! What can be read of a volume, errors included.

use crate::manifest::read_full;
use crate::rng::Digest;
use crate::sys::{dir, errno, meta};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Nodes looked at: a damaged directory may have a parent for a child.
const MOST_NODES: usize = 800;
/// Levels of directories.
const MOST_LEVELS: usize = 12;
/// Bytes read of a file: its size may be damaged.
const MOST_BYTES: u64 = 2 << 20;

/// What `stat` says of a node, less the access time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    mtime: (i64, i64),
    device: u64,
}

/// Names and inode numbers of a directory, a digest of a file, a target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A directory's names.
    Names(BTreeMap<OsString, u64>),
    /// The first bytes of a file.
    Bytes(u64),
    /// Where a link points.
    Target(PathBuf),
    /// Nothing to read.
    None,
}

/// What there is to read of one node; numbers in errors are `errno`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its attributes.
    pub stat: Result<Stat, i32>,
    /// What is in it.
    pub content: Result<Content, i32>,
    /// Its extended attributes.
    pub xattrs: Result<u64, i32>,
}

/// All that could be read, by path.
pub type Walk = BTreeMap<PathBuf, Node>;

/// Reads everything below `root`.
pub fn walk(root: &Path) -> Walk {
    let mut out = Walk::new();
    let mut todo = vec![(PathBuf::new(), 0)];
    while let Some((path, level)) = todo.pop() {
        if out.len() >= MOST_NODES {
            break;
        }
        let node = read(&root.join(&path));
        if let (Ok(Content::Names(names)), true) = (&node.content, level < MOST_LEVELS) {
            let real = names.keys().filter(|name| *name != "." && *name != "..");
            todo.extend(real.map(|name| (path.join(name), level + 1)));
        }
        out.insert(path, node);
    }
    out
}

fn read(path: &Path) -> Node {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) => {
            let error = errno(&e);
            return Node {
                stat: Err(error),
                content: Err(error),
                xattrs: Err(error),
            };
        }
    };
    let stat = Stat {
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        links: found.nlink(),
        size: found.size(),
        mtime: (found.mtime(), found.mtime_nsec()),
        device: found.rdev(),
    };
    let kind = found.file_type();
    let content = if kind.is_dir() {
        names(path)
    } else if kind.is_file() {
        bytes(path, found.size())
    } else if kind.is_symlink() {
        fs::read_link(path).map(Content::Target)
    } else {
        Ok(Content::None)
    };
    let numbered = |e: io::Error| errno(&e);
    Node {
        stat: Ok(stat),
        content: content.map_err(numbered),
        xattrs: xattrs(path).map_err(numbered),
    }
}

fn names(path: &Path) -> io::Result<Content> {
    let entries = dir::read_all(&File::open(path)?, 32768)?;
    Ok(Content::Names(
        entries
            .into_iter()
            .map(|entry| (entry.name, entry.ino))
            .collect(),
    ))
}

fn bytes(path: &Path, size: u64) -> io::Result<Content> {
    let mut buffer = vec![0; size.min(MOST_BYTES) as usize];
    let got = read_full(&File::open(path)?, &mut buffer, 0)?;
    let mut digest = Digest::new();
    digest.update(&buffer[..got]);
    Ok(Content::Bytes(digest.finish()))
}

fn xattrs(path: &Path) -> io::Result<u64> {
    let mut digest = Digest::new();
    for name in meta::xattr_names(path)? {
        let mut text = name.clone();
        text.extend(meta::xattr(path, &name)?);
        // Whole words, so that pieces do not run into one another.
        text.resize(text.len().next_multiple_of(8), 0);
        digest.update(&text);
    }
    Ok(digest.finish())
}

/// Forgets when files were changed last.
pub fn forget_times(walk: &mut Walk) {
    for node in walk.values_mut() {
        if let Ok(stat) = &mut node.stat {
            stat.mtime = (0, 0);
        }
    }
}

/// True where something could not be read.
pub fn has_error(walk: &Walk) -> bool {
    let failed = |node: &Node| node.stat.is_err() || node.content.is_err() || node.xattrs.is_err();
    walk.values().any(failed)
}

/// The first thing in `is` that was read without an error and differs from `want`. Names that are
/// missing in a listing count where `complete`; names that `want` does not have always do, but for
/// those that are right by `original`.
///
/// The kernel's ext4, whose word `want` is for a volume with fitting checksums, passes over entries
/// of an indexed directory whose name has another hash than the index says. Who lists a directory
/// block by block shows them: with the inode that stood there before.
pub fn difference(
    is: &Walk,
    want: &Walk,
    complete: bool,
    original: Option<&Walk>,
) -> Option<String> {
    for (path, node) in is {
        let before = original.and_then(|walk| walk.get(path));
        let shown = || String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
        let Some(wanted) = want.get(path) else {
            let as_before = before.is_some_and(|before| before.stat == node.stat);
            if node.stat.is_ok() && !as_before {
                return Some(format!("{} should not be there", shown()));
            }
            continue;
        };
        if differ(&node.stat, &wanted.stat) {
            return Some(format!(
                "{}: {:?}, must be {:?}",
                shown(),
                node.stat,
                wanted.stat
            ));
        }
        if differ(&node.xattrs, &wanted.xattrs) {
            return Some(format!("{}: other extended attributes", shown()));
        }
        match (&node.content, &wanted.content) {
            (Ok(Content::Names(is)), Ok(Content::Names(want))) => {
                let old: Vec<u64> = match before.map(|before| &before.content) {
                    Some(Ok(Content::Names(names))) => names.values().copied().collect(),
                    _ => Vec::new(),
                };
                let right = |name, ino: &u64| match want.get(name) {
                    Some(wanted) => wanted == ino,
                    None => old.contains(ino),
                };
                let wrong = is.iter().find(|(name, ino)| !right(*name, ino));
                if let Some(wrong) = wrong {
                    return Some(format!("{}: {wrong:?} is listed", shown()));
                }
                if complete && is.len() != want.len() {
                    return Some(format!(
                        "{}: {} of {} names are listed, and no error",
                        shown(),
                        is.len(),
                        want.len()
                    ));
                }
            }
            (is, want) if differ(is, want) => {
                return Some(format!("{}: {is:?}, must be {want:?}", shown()));
            }
            _ => {}
        }
    }
    None
}

/// Both were read, and they are not the same.
fn differ<T: PartialEq>(is: &Result<T, i32>, want: &Result<T, i32>) -> bool {
    matches!((is, want), (Ok(is), Ok(want)) if is != want)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(size: u64, content: Result<Content, i32>) -> Node {
        let stat = Stat {
            mode: 0o100644,
            owner: (0, 0),
            links: 1,
            size,
            mtime: (5, 6),
            device: 0,
        };
        Node {
            stat: Ok(stat),
            content,
            xattrs: Ok(1),
        }
    }

    fn names(names: &[(&str, u64)]) -> Result<Content, i32> {
        Ok(Content::Names(
            names
                .iter()
                .map(|(name, ino)| ((*name).into(), *ino))
                .collect(),
        ))
    }

    fn walk(nodes: Vec<(&str, Node)>) -> Walk {
        nodes
            .into_iter()
            .map(|(path, node)| (path.into(), node))
            .collect()
    }

    #[test]
    fn errors_are_no_difference_and_wrong_data_is_one() {
        let listing = names(&[("a", 12), ("b", 13)]);
        let want = walk(vec![
            ("", node(1024, listing)),
            ("a", node(3, Ok(Content::Bytes(7)))),
        ]);
        assert_eq!(difference(&want, &want, true, None), None);
        assert!(!has_error(&want));

        let failed = walk(vec![("", node(1024, Err(117))), ("a", node(3, Err(74)))]);
        assert_eq!(difference(&failed, &want, true, None), None);
        assert!(has_error(&failed));

        let other_bytes = walk(vec![("a", node(3, Ok(Content::Bytes(8))))]);
        assert!(difference(&other_bytes, &want, true, None).is_some());
        let other_size = walk(vec![("a", node(4, Err(5)))]);
        assert!(difference(&other_size, &want, true, None).is_some());
        let new = walk(vec![("c", node(3, Err(5)))]);
        assert!(difference(&new, &want, true, None).is_some());

        let fewer = walk(vec![("", node(1024, names(&[("a", 12)])))]);
        assert_eq!(difference(&fewer, &want, false, None), None);
        assert!(difference(&fewer, &want, true, None).is_some());
        let wrong_ino = walk(vec![("", node(1024, names(&[("a", 12), ("b", 99)])))]);
        assert!(difference(&wrong_ino, &want, false, None).is_some());
    }
}
