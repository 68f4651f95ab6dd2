// SPDX-License-Identifier: GPL-2.0

//! A volume that is shut down while it is in use, and what everybody is told then. Two filesystems
//! that behave alike give the same text.

use crate::sys::{errno, map::Map, meta, volume, xattr};
use crate::why::{require, Why};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of each file.
pub const LENGTH: usize = 100_000;

/// Makes files, shuts the volume at `dir` down in the way `how`, and prints what is answered from then
/// on.
pub fn run(dir: &Path, how: u32) -> Result<(), Why> {
    let at = |name: &str| dir.join(name);
    fs::create_dir(at("dir"))?;
    fs::create_dir(at("empty"))?;
    let make = |name: &str, byte: u8| -> io::Result<File> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(at(name))?;
        file.write_all_at(&vec![byte; LENGTH], 0)?;
        Ok(file)
    };
    make("synced", 1)?.sync_all()?;
    File::open(dir)?.sync_all()?;
    let open = make("open", 2)?;
    let unlinked = make("unlinked", 3)?;
    fs::remove_file(at("unlinked"))?;
    let listing = File::open(dir)?;
    let map = Map::new(&open, 0, 4096, true)?;
    map.store(0, &[7]);

    for wrong in [3, u32::MAX] {
        say(&format!("way {wrong}"), volume::shut_down(&listing, wrong));
    }
    open.write_all_at(&[4; 10], LENGTH as u64)?;
    say("shut down", volume::shut_down(&listing, how));
    say("again", volume::shut_down(&listing, 2));

    let mut buffer = [0; 4096];
    say("read", open.read_at(&mut buffer, 0));
    say("write", open.write_at(&buffer, 0));
    say("append", open.write_at(&buffer, 1 << 20));
    say("write to no name", unlinked.write_at(&buffer, 0));
    say("cut", open.set_len(10));
    say("grow", open.set_len(1 << 20));
    say("fsync", open.sync_all());
    say("fdatasync", open.sync_data());
    say("fsync of a directory", listing.sync_all());
    say("syncfs", volume::syncfs(&open));
    say("map", Map::new(&open, 0, 4096, true));
    say("open", File::open(at("synced")));
    say(
        "open to write",
        File::options().write(true).open(at("synced")),
    );
    say("make", File::create_new(at("new")));
    say("mkdir", fs::create_dir(at("new")));
    say("unlink", fs::remove_file(at("synced")));
    say("rmdir", fs::remove_dir(at("empty")));
    say("rename", fs::rename(at("synced"), at("dir/moved")));
    say(
        "exchange",
        meta::rename(&at("synced"), &at("open"), libc::RENAME_EXCHANGE),
    );
    say("link", fs::hard_link(at("synced"), at("other")));
    say("symlink", std::os::unix::fs::symlink("x", at("symlink")));
    say(
        "chmod",
        fs::set_permissions(
            at("open"),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        ),
    );
    say(
        "set an attribute",
        xattr::set(&at("open"), b"user.a", b"b", 0),
    );
    say("remove an attribute", xattr::remove(&at("open"), b"user.a"));
    say("read an attribute", xattr::get(&at("open"), b"user.a", 100));
    say("stat", fs::metadata(at("open")));
    say("statfs", volume::space(dir));
    say("label", volume::set_label(&listing, b"new"));
    Ok(())
}

/// What is left after the next mount must be what the way of shutting down promises.
pub fn check(dir: &Path, how: u32) -> Result<(), Why> {
    let whole = |name: &str, byte: u8| -> Result<(), Why> {
        let bytes = fs::read(dir.join(name))?;
        require(bytes.len() >= LENGTH, || {
            format!("{name} has {} bytes", bytes.len())
        })?;
        let right = bytes.iter().take(LENGTH).skip(1).all(|&b| b == byte);
        require(right, || format!("other bytes in {name}"))
    };
    whole("synced", 1)?;
    match how {
        // All was written first.
        0 => {
            whole("open", 2)?;
            let bytes = fs::read(dir.join("open"))?;
            require(bytes[0] == 7, || "the store to memory is lost".into())?;
            require(bytes[LENGTH..] == [4; 10], || {
                "the last write is lost".into()
            })?;
        }
        // Its name was logged.
        1 => fs::metadata(dir.join("open")).map(drop)?,
        _ => {}
    }
    require(!dir.join("unlinked").exists(), || {
        "a removed name is back".into()
    })?;
    require(!dir.join("new").exists(), || {
        "what was refused is there".into()
    })
}

/// Prints what happens to an inode's generation, which is to stay unless it can be set.
pub fn generations(dir: &Path) -> Result<(), Why> {
    let path = dir.join("generation");
    let file = File::create_new(&path)?;
    let before = volume::generation(&file)?;
    let set = volume::set_generation(&file, 77);
    let after = volume::generation(&file)?;
    let want = if set.is_ok() { 77 } else { before };
    say("set", set);
    require(after == want, || format!("{after}, must be {want}"))?;
    // Another inode has another one.
    let other = File::create_new(dir.join("other"))?;
    require(volume::generation(&other)? != before, || {
        "the same twice".into()
    })
}

fn say<T>(what: &str, answer: io::Result<T>) {
    match answer {
        Ok(_) => println!("{what}: done"),
        Err(e) => println!("{what}: {}", errno(&e)),
    }
}
