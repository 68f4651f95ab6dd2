// SPDX-License-Identifier: GPL-2.0

//! What several of the tests share: random numbers, temporary folders, and the tools of
//! e2fsprogs.

#![allow(dead_code)]

pub(crate) mod image;
pub(crate) mod samples;
pub(crate) mod volume;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A small generator (xorshift64*), so that a failure can be repeated from its seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        self.fill(&mut buf);
        buf
    }

    /// A number that is interesting to a parser more often than a plain random one is.
    pub(crate) fn odd(&mut self) -> u32 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u32::MAX,
            3 => self.word() & 0xff,
            4 => 1 << self.below(32),
            5 => (1u32 << self.below(32)).wrapping_sub(1),
            _ => self.word(),
        }
    }

    /// Changes a few bytes of `buf` in the ways in which disks are damaged and fields are at
    /// their limits.
    pub(crate) fn damage(&mut self, buf: &mut [u8]) {
        if buf.is_empty() {
            return;
        }
        for _ in 0..=self.below(4) {
            let at = self.below(buf.len());
            let with = self.odd().to_le_bytes();
            let len = [1, 2, 4, 4][self.below(4)];
            match self.below(6) {
                0 => buf[at] ^= 1 << self.below(8),
                1 => {
                    let end = (at + self.below(64)).min(buf.len());
                    buf[at..end].fill(with[0]);
                }
                2 => {
                    let from = self.below(buf.len());
                    let n = self.below(64).min(buf.len() - at.max(from));
                    buf.copy_within(from..from + n, at);
                }
                _ => {
                    let at = at & !(len - 1);
                    let end = (at + len).min(buf.len());
                    buf[at..end].copy_from_slice(&with[..end - at]);
                }
            }
        }
    }
}

/// A folder that goes when the test ends.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{n}", std::process::id()));
        std::fs::create_dir(&dir).expect("make a temporary folder");
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool of e2fsprogs, wherever it is installed, in English and in UTC.
pub(crate) fn tool(name: &str, args: &[&str]) -> Output {
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .map(|d| Path::new(d).join(name))
        .find(|p| p.exists());
    let program = found.unwrap_or_else(|| panic!("{name} is not installed (package e2fsprogs)"));
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        // Pinned, so that an image is the same every time.
        .env("MKE2FS_CONFIG", "/nonexistent")
        .env("DEBUGFS_PAGER", "__none__")
        .output()
        .unwrap_or_else(|e| panic!("{name} cannot be run: {e}"))
}

/// Runs a tool that must succeed and gives what it printed.
pub(crate) fn tool_ok(name: &str, args: &[&str]) -> String {
    let out = tool(name, args);
    assert!(
        out.status.success(),
        "{name} {args:?} failed:\n{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs debugfs with a list of commands and gives what it printed, cut at the commands: one piece
/// a command.
pub(crate) fn debugfs(image: &Path, write: bool, commands: &[String]) -> Vec<String> {
    let script = image.with_extension("cmds");
    std::fs::write(&script, commands.join("\n") + "\n").expect("write debugfs commands");
    let script = script.to_str().expect("path");
    let image = image.to_str().expect("path");
    let args: &[&str] = if write {
        &["-w", "-f", script, image]
    } else {
        &["-f", script, image]
    };
    let text = tool_ok("debugfs", args);
    let mut pieces: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("debugfs: ") {
            pieces.push(String::new());
        } else if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
            piece.push('\n');
        }
    }
    assert_eq!(
        pieces.len(),
        commands.len(),
        "debugfs answers every command:\n{text}"
    );
    pieces
}

/// A superblock of a volume with blocks of `1024 << log` bytes and three groups, the last short;
/// `wide` has descriptors of 64 bytes.
pub(crate) fn small_superblock(log: u32, wide: bool) -> Vec<u8> {
    let mut sb = vec![0u8; 1024];
    let blocks = 8192u32 << log;
    let first = u32::from(log == 0);
    for (at, v) in [
        (0x00, 3 * 1024),
        (0x04, blocks * 2 + 1000 + first),
        (0x14, first),
        (0x18, log),
        (0x1c, log),
        (0x20, blocks),
        (0x24, blocks),
        (0x28, 1024),
        (0x4c, 1),
        (0x54, 11),
        (0x60, if wide { 0x2c2 } else { 0x242 }),
        (0x64, 0x46b),
    ] {
        sb[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    sb[0x38..0x3a].copy_from_slice(&ext4rs_layout::superblock::MAGIC.to_le_bytes());
    sb[0x58..0x5a].copy_from_slice(&256u16.to_le_bytes());
    sb[0xfe..0x100].copy_from_slice(&64u16.to_le_bytes());
    sb[0x15c..0x160].copy_from_slice(&[32, 0, 32, 0]);
    sb[0x175] = 1;
    ext4rs_layout::SuperBlockMut::new(&mut sb)
        .unwrap()
        .update_checksum();
    sb
}
