// SPDX-License-Identifier: GPL-2.0

//! Makes a planned tree, with several threads at once.

use super::{Kind, Node, Op, Params, Piece, Spec};
use crate::rng;
use crate::sys::{map::Map, meta};
use crate::why::{shortened, Why, Within};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{
    lchown, DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Makes `nodes` below `root`, which must not exist yet.
pub fn populate(root: &Path, params: &Params, nodes: &[Node]) -> Result<(), Why> {
    let maker = Maker {
        root,
        nodes,
        threads: params.threads,
        next: AtomicUsize::new(0),
        made: nodes.iter().map(|_| AtomicBool::new(false)).collect(),
        failed: AtomicBool::new(false),
    };
    on_threads(params.threads, |_| maker.make_all())?;
    on_threads(params.threads, |thread| maker.write_shared(thread))?;
    maker.finish()
}

/// Runs `work` on `threads` threads and gives the first failure.
fn on_threads(threads: usize, work: impl Fn(usize) -> Result<(), Why> + Sync) -> Result<(), Why> {
    thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a writer panicked".into()))
        })
    })
}

struct Maker<'a> {
    root: &'a Path,
    nodes: &'a [Node],
    threads: usize,
    /// The first node that no thread has taken.
    next: AtomicUsize,
    /// Directories that exist.
    made: Vec<AtomicBool>,
    /// Somebody failed: nobody need wait for a directory any more.
    failed: AtomicBool,
}

impl Maker<'_> {
    /// One thread's part: takes nodes in order until none is left.
    fn make_all(&self) -> Result<(), Why> {
        let mut buffer = vec![0; super::style::PIECE as usize];
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(node) = self.nodes.get(i) else {
                return Ok(());
            };
            while i > 0 && !self.made[node.parent].load(Ordering::Acquire) {
                if self.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                thread::yield_now();
            }
            let made = self.make(node, &mut buffer);
            let made = made.within(|| format!("making {}", shortened(&node.path)));
            if made.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                return made;
            }
            self.made[i].store(true, Ordering::Release);
        }
    }

    fn make(&self, node: &Node, buffer: &mut [u8]) -> Result<(), Why> {
        let path = self.root.join(&node.path);
        match &node.kind {
            Kind::Dir => {
                fs::DirBuilder::new().mode(0o700).create(&path)?;
                expect_inherited(&path, node)?;
                set_owner_and_mode(&path, node)
            }
            Kind::Special {
                format,
                major,
                minor,
            } => {
                meta::mknod(&path, format | 0o600, *major, *minor)?;
                expect_inherited(&path, node)?;
                self.finish_node(&path, node)
            }
            Kind::File(spec) => {
                let open = || {
                    OpenOptions::new()
                        .read(true)
                        .write(true)
                        .create_new(true)
                        .mode(0o600)
                        .open(&path)
                };
                let file = open()?;
                expect_inherited(&path, node)?;
                if spec.shared {
                    return Ok(());
                }
                write_file(&path, &file, spec, buffer)?;
                drop(file);
                self.finish_node(&path, node)
            }
        }
    }

    /// This thread's share of the files that all threads write.
    fn write_shared(&self, thread: usize) -> Result<(), Why> {
        let mut buffer = vec![0; super::style::PIECE as usize];
        for node in self.nodes {
            let Kind::File(spec) = &node.kind else {
                continue;
            };
            if !spec.shared {
                continue;
            }
            let file = OpenOptions::new()
                .write(true)
                .open(self.root.join(&node.path))?;
            let pieces = spec.ops.iter().filter_map(Op::piece);
            for piece in pieces.skip(thread).step_by(self.threads) {
                write_piece(&file, piece, &mut buffer)?;
            }
        }
        Ok(())
    }

    fn finish_node(&self, path: &Path, node: &Node) -> Result<(), Why> {
        set_owner_and_mode(path, node)?;
        Ok(meta::set_times(path, node.atime, node.mtime)?)
    }

    /// What must come last: the shared files' owners, and the times of directories, which every
    /// new child changes.
    fn finish(&self) -> Result<(), Why> {
        for node in self.nodes.iter().rev() {
            let path = self.root.join(&node.path);
            match &node.kind {
                Kind::File(spec) if spec.shared => self.finish_node(&path, node)?,
                Kind::Dir => meta::set_times(&path, node.atime, node.mtime)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// A node made in a setgid directory has its group, and a directory there the bit too.
fn expect_inherited(path: &Path, node: &Node) -> Result<(), Why> {
    if !node.inherits {
        return Ok(());
    }
    let is = fs::symlink_metadata(path)?;
    if is.gid() != node.gid {
        return Err(format!("group {} instead of the parent's {}", is.gid(), node.gid).into());
    }
    if node.is_dir() && is.mode() & 0o2000 == 0 {
        return Err("the parent's setgid bit was not inherited".into());
    }
    Ok(())
}

/// The mode last: a change of owner clears setuid and setgid.
fn set_owner_and_mode(path: &Path, node: &Node) -> Result<(), Why> {
    lchown(path, Some(node.uid), (!node.inherits).then_some(node.gid))?;
    Ok(fs::set_permissions(
        path,
        Permissions::from_mode(node.mode),
    )?)
}

/// Does to `file`, which is empty, what `spec` says.
fn write_file(path: &Path, file: &File, spec: &Spec, buffer: &mut [u8]) -> Result<(), Why> {
    let mut appender = None;
    for op in &spec.ops {
        match op {
            Op::Write(piece) => write_piece(file, piece, buffer)?,
            Op::Append(piece) => {
                let appender = match &mut appender {
                    Some(open) => open,
                    none => none.insert(OpenOptions::new().append(true).open(path)?),
                };
                let bytes = &mut buffer[..piece.length as usize];
                rng::fill(piece.key, piece.offset, bytes);
                appender.write_all(bytes)?;
            }
            Op::Store(piece) => store_piece(file, piece, buffer)?,
            Op::Grow(size) => file.set_len(*size)?,
            Op::Sync => file.sync_all()?,
            Op::DataSync => file.sync_data()?,
        }
    }
    Ok(())
}

fn write_piece(file: &File, piece: &Piece, buffer: &mut [u8]) -> Result<(), Why> {
    let bytes = &mut buffer[..piece.length as usize];
    rng::fill(piece.key, piece.offset, bytes);
    file.write_all_at(bytes, piece.offset)
        .within(|| format!("writing {} bytes at {}", piece.length, piece.offset))
}

/// Stores through a mapping of just the pages that the piece touches.
fn store_piece(file: &File, piece: &Piece, buffer: &mut [u8]) -> Result<(), Why> {
    let bytes = &mut buffer[..piece.length as usize];
    rng::fill(piece.key, piece.offset, bytes);
    let start = piece.offset / 4096 * 4096;
    let map = Map::new(file, start, (piece.end() - start) as usize, true)?;
    map.store((piece.offset - start) as usize, bytes);
    Ok(())
}
