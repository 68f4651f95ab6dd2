// SPDX-License-Identifier: GPL-2.0

//! Real volumes, made by mke2fs and filled through it and debugfs.

use super::{debugfs, tool, tool_ok, Rng, TempDir};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Pieces of 4 KiB in the sparse file, each behind a hole of as much.
pub(crate) const PIECES: u64 = 1500;
/// Names in the large directory.
pub(crate) const NAMES: usize = 1200;

/// What `mke2fs -t ext4` of e2fsprogs 1.47.2 turns on.
pub(crate) const DEFAULT_FEATURES: &str =
    "none,has_journal,ext_attr,resize_inode,dir_index,orphan_file,\
    filetype,extent,64bit,flex_bg,metadata_csum_seed,sparse_super,large_file,huge_file,dir_nlink,\
    extra_isize,metadata_csum";

/// How a volume is made.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) name: &'static str,
    pub(crate) block: &'static str,
    pub(crate) size: &'static str,
    /// Added to [`DEFAULT_FEATURES`].
    pub(crate) features: &'static str,
    pub(crate) options: &'static [&'static str],
    /// The hash of indexes, as tune2fs names it, and whether bytes count as unsigned.
    pub(crate) hash: (&'static str, bool),
}

/// A volume.
pub(crate) struct Image {
    pub(crate) dir: TempDir,
    pub(crate) path: PathBuf,
}

/// The names of the large directory: long ones, so that the index has two levels in small blocks,
/// and some with bytes above 127.
pub(crate) fn names() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(7);
    (0..NAMES)
        .map(|i| {
            let mut name = format!("n{i}-").into_bytes();
            let len = if i % 3 == 0 { 255 } else { 8 + rng.below(200) };
            while name.len() < len {
                name.push(match i % 5 {
                    0 => 0x80 | (rng.below(127) as u8 + 1),
                    _ => b'a' + rng.below(26) as u8,
                });
            }
            name
        })
        .collect()
}

/// The folder that volumes are filled from, made once a test program.
pub(crate) fn source() -> &'static Path {
    static SOURCE: OnceLock<PathBuf> = OnceLock::new();
    SOURCE.get_or_init(|| {
        let name = format!("source-{}", env!("CARGO_CRATE_NAME"));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fill_source(&dir);
        dir
    })
}

fn fill_source(src: &Path) {
    let mut rng = Rng::new(1);
    fs::create_dir_all(src.join("deep/er/and/deeper")).unwrap();
    fs::write(src.join("empty"), b"").unwrap();
    fs::write(src.join("one"), b"x").unwrap();
    fs::write(src.join("deep/er/data"), rng.bytes(70_000)).unwrap();
    fs::write(src.join("random"), rng.bytes(700_000)).unwrap();
    std::os::unix::fs::symlink("short/target", src.join("fast")).unwrap();
    std::os::unix::fs::symlink("t".repeat(59), src.join("longest-fast")).unwrap();
    std::os::unix::fs::symlink("t".repeat(60), src.join("shortest-slow")).unwrap();
    std::os::unix::fs::symlink("s/".repeat(300), src.join("slow")).unwrap();
    let sparse = fs::File::create(src.join("sparse")).unwrap();
    for i in 0..PIECES {
        sparse.write_all_at(&rng.bytes(4096), i * 8192).unwrap();
    }
    let big = src.join("big");
    fs::create_dir(&big).unwrap();
    for name in names() {
        fs::write(big.join(OsStr::from_bytes(&name)), b"").unwrap();
    }
}

impl Image {
    /// Makes a volume of this kind without files.
    pub(crate) fn empty(config: &Config) -> Self {
        let image = Self::prepare();
        image.mke2fs(config, false);
        image
    }

    /// Makes a volume of this kind with files of all kinds; its large directory is indexed.
    pub(crate) fn filled(config: &Config) -> Self {
        let image = Self::prepare();
        image.mke2fs(config, true);
        image.add_by_debugfs(config);
        let (hash, unsigned) = config.hash;
        tool_ok(
            "tune2fs",
            &["-E", &format!("hash_alg={hash}"), image.path()],
        );
        let flags = format!("ssv flags {}", if unsigned { 2 } else { 1 });
        debugfs(&image.path, true, &[flags]);
        // Exit code 1: something was changed, which an index is.
        let code = tool("e2fsck", &["-fyD", image.path()]).status.code();
        assert!(
            matches!(code, Some(0 | 1)),
            "e2fsck -D of {} gave {code:?}",
            config.name
        );
        image.check();
        image
    }

    fn prepare() -> Self {
        let dir = TempDir::new();
        let path = dir.path().join("image");
        Self { dir, path }
    }

    fn mke2fs(&self, config: &Config, fill: bool) {
        let features = format!("{DEFAULT_FEATURES},{}", config.features);
        let features = features.trim_end_matches(',');
        let mut args = vec!["-q", "-F", "-t", "ext4", "-b", config.block, "-O", features];
        // What mke2fs.conf would say.
        if !config.options.contains(&"-I") {
            args.extend(["-I", "256"]);
        }
        args.extend(config.options);
        if fill {
            args.extend(["-d", source().to_str().unwrap()]);
        }
        args.extend([self.path(), config.size]);
        tool_ok("mke2fs", &args);
    }

    /// What mke2fs cannot put in: devices, attributes, owners and times at the ends of their
    /// ranges, unwritten extents.
    fn add_by_debugfs(&self, config: &Config) {
        // In large volumes more than one extent can hold.
        let unwritten = if config.block == "4096" {
            40_000
        } else {
            6_000
        };
        let value = self.dir.path().join("value");
        fs::write(&value, long_value()).unwrap();
        let acl = self.dir.path().join("acl");
        fs::write(&acl, acl_value()).unwrap();
        let commands: Vec<String> = [
            "mknod chr c 5 1",
            "mknod blk b 200 77",
            "mknod fifo p",
            "ea_set one user.small value",
            "ea_set one trusted.none \"\"",
            &format!("ea_set -f {} random user.large", value.display()),
            "ea_set random security.label l",
            &format!("ea_set -f {} deep system.posix_acl_access", acl.display()),
            "sif one uid 100001",
            "sif one gid 1500000000",
            "sif one mtime_extra 0x12345679",
            "sif one atime 0xffffffff",
            "sif one generation 0xdeadbeef",
            "sif one version 77",
            "sif random projid 1234",
            "fallocate empty 3 20",
            &format!("fallocate deep/er/data 100 {unwritten}"),
        ]
        .map(str::to_owned)
        .to_vec();
        debugfs(&self.path, true, &commands);
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Fails unless e2fsck finds nothing at all.
    pub(crate) fn check(&self) {
        let out = tool("e2fsck", &["-fn", self.path()]);
        let text = String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "e2fsck -fn found:\n{text}");
    }
}

/// A value that does not fit an inode.
pub(crate) fn long_value() -> Vec<u8> {
    b"0123456789".repeat(60)
}

/// An ACL as `setxattr` takes it: version 2, entries of 8 bytes.
pub(crate) fn acl_value() -> Vec<u8> {
    let mut v = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 5, 1000),
        (4, 5, u32::MAX),
        (8, 4, 70000),
        (16, 7, u32::MAX),
        (32, 1, u32::MAX),
    ] {
        v.extend(tag.to_le_bytes());
        v.extend(perm.to_le_bytes());
        v.extend(id.to_le_bytes());
    }
    v
}
