// SPDX-License-Identifier: GPL-2.0

//! What kind of volume a run is on.

use crate::rng::Rng;
use crate::why::Why;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

/// A kind of volume, and how closely it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Bytes in a block.
    pub block: u64,
    /// Bytes in an inode.
    pub inode: u64,
    /// Features set or cleared, as `mke2fs -O` takes them; `-` for the default.
    pub features: String,
    /// MiB of the volume.
    pub size: u64,
    /// The volume is small, and gets full.
    pub full: bool,
    /// Contents are read after each operation that may have changed them. Otherwise only at a
    /// `walk`, so that reading does not fill the page cache.
    pub eager: bool,
}

impl Style {
    /// The kind for `seed`: neighbouring seeds have all block and inode sizes.
    pub fn of_seed(seed: u64) -> Self {
        let n = seed.wrapping_sub(1);
        let bit = |i: u32| (n >> i) & 1 == 1;
        let full = bit(0) ^ bit(1) ^ bit(2);
        let mut rng = Rng::new(seed ^ 0x5747_1e00);
        let features = [
            "-",
            "-",
            "^metadata_csum",
            "^orphan_file",
            "large_dir",
            "^dir_index",
            "^64bit",
        ];
        Self {
            block: if bit(0) { 4096 } else { 1024 },
            inode: if bit(1) { 128 } else { 256 },
            features: rng.pick(&features).to_owned(),
            size: if full { 16 } else { 160 },
            full,
            eager: bit(1),
        }
    }

    /// Makes an empty volume of this kind on `dev`.
    pub fn make(&self, dev: &Path) -> Result<(), Why> {
        let mut command = Command::new("mke2fs");
        command.args(["-q", "-F", "-t", "ext4", "-b", &self.block.to_string()]);
        command.args(["-I", &self.inode.to_string()]);
        if self.features != "-" {
            command.args(["-O", &self.features]);
        }
        if self.full {
            command.args(["-N", "700"]);
        }
        // Names have the same hashes on all volumes, so that directories get the same shape.
        let seed = "nodiscard,hash_seed=01234567-89ab-cdef-0123-456789abcdef";
        command
            .args(["-E", seed])
            .arg(dev)
            .arg(format!("{}M", self.size));
        let made = command.output()?;
        if made.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        Err(format!("mke2fs on {}: {said}", dev.display()).into())
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "style block={} inode={} features={} size={} full={} eager={}",
            self.block, self.inode, self.features, self.size, self.full, self.eager
        )
    }
}

impl FromStr for Style {
    type Err = Why;

    /// What is not said is as for seed 1.
    fn from_str(line: &str) -> Result<Self, Why> {
        let mut style = Self::of_seed(1);
        style.features = "-".to_owned();
        let bad = |word: &str| Why::from(format!("{word:?} says nothing of a volume"));
        for word in line.split_whitespace().skip(1) {
            let (name, value) = word.split_once('=').ok_or_else(|| bad(word))?;
            let number = || value.parse::<u64>().map_err(|_| bad(word));
            let truth = || value.parse::<bool>().map_err(|_| bad(word));
            match name {
                "block" => style.block = number()?,
                "inode" => style.inode = number()?,
                "features" => style.features = value.to_owned(),
                "size" => style.size = number()?,
                "full" => style.full = truth()?,
                "eager" => style.eager = truth()?,
                _ => return Err(bad(word)),
            }
        }
        Ok(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_seeds_have_all_sizes() {
        let styles: Vec<_> = (1..=4).map(Style::of_seed).collect();
        for block in [1024, 4096] {
            for inode in [128, 256] {
                assert!(styles.iter().any(|s| s.block == block && s.inode == inode));
            }
        }
        assert_eq!(styles.iter().filter(|s| s.full).count(), 2);
    }

    #[test]
    fn what_is_written_can_be_read() {
        for seed in 0..20 {
            let style = Style::of_seed(seed);
            assert_eq!(style.to_string().parse::<Style>().unwrap(), style);
        }
        assert!("style blocks=7".parse::<Style>().is_err());
    }
}
