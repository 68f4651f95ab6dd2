// SPDX-License-Identifier: GPL-2.0

//! Directories, their index, and attributes against debugfs and the source folder.

use super::{fields, number};
use crate::common::debugfs;
use crate::common::image::{acl_value, long_value, names, source, Image};
use crate::common::volume::Volume;
use ext4rs_layout::dir::{self, FT_DIR};
use ext4rs_layout::hash::Hasher;
use ext4rs_layout::xattr::{self, Attr, Attrs, Rules};
use ext4rs_layout::{acl, htree, inode, Incompat};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;

pub(crate) fn directories(image: &Image, volume: &Volume) {
    let mut pending = vec![(inode::ROOT_INO, String::from("/"))];
    let mut seen = 0;
    while let Some((ino, path)) = pending.pop() {
        let text = debugfs(&image.path, false, &[format!("ls -p <{ino}>")]).remove(0);
        let list = volume.list(ino);
        // Names with bytes above 127 are not printed as they are; numbers and order are.
        let said: Vec<(u32, String)> = text
            .lines()
            .filter(|l| l.starts_with('/'))
            .map(|l| {
                let parts: Vec<_> = l.split('/').collect();
                (parts[1].parse().unwrap(), parts[5].to_owned())
            })
            .filter(|(ino, _)| *ino != 0)
            .collect();
        assert_eq!(said.len(), list.len(), "{path}");
        for ((name, child, file_type), (said_ino, said_name)) in list.iter().zip(&said) {
            assert_eq!(child, said_ino);
            if name.is_ascii() {
                assert_eq!(&String::from_utf8(name.clone()).unwrap(), said_name);
            }
            if volume.dirs.filetype {
                assert_eq!(*file_type, dir::file_type(volume.inode(*child).mode));
            } else {
                assert_eq!(*file_type, dir::FT_UNKNOWN);
            }
            seen += 1;
            let is_dir = dir::file_type(volume.inode(*child).mode) == FT_DIR;
            if is_dir && name != b"." && name != b".." {
                pending.push((*child, format!("{path}{said_name}/")));
            }
        }
    }
    assert!(seen > 1200, "only {seen} entries");
    // The large directory against the folder that it was made from.
    let mut there: Vec<Vec<u8>> = std::fs::read_dir(source().join("big"))
        .unwrap()
        .map(|e| e.unwrap().file_name().as_bytes().to_vec())
        .collect();
    there.extend([b".".to_vec(), b"..".to_vec()]);
    let mut read: Vec<Vec<u8>> = volume
        .list(volume.lookup("big"))
        .into_iter()
        .map(|e| e.0)
        .collect();
    there.sort();
    read.sort();
    assert!(there == read);
}

/// Looks every name of the large directory up by the index, and holds index and hashes against
/// `htree_dump`.
pub(crate) fn index(image: &Image, volume: &Volume) {
    let ino = volume.lookup("big");
    let node = volume.inode(ino);
    if !node.has(inode::FL_INDEX) {
        // All entries fit one block.
        assert!(volume.geo.block_size > 4096);
        return;
    }
    let large_dir = volume.sb.incompat.has(Incompat::LARGEDIR);
    let map = volume.map(ino, &node);
    let block = |lblk: u32| volume.block(map[lblk as usize].unwrap());
    let root_bytes = block(0);
    let (root, top) = htree::root(&root_bytes, large_dir, &volume.dirs).unwrap();
    top.validate(map.len() as u32).unwrap();
    let hasher = Hasher::new(
        root.hash_version,
        volume.sb.hash_unsigned(),
        volume.sb.hash_seed,
    )
    .unwrap();

    let text = debugfs(&image.path, false, &[format!("htree_dump <{ino}>")]).remove(0);
    let said = fields(&text);
    assert_eq!(number(said["Hash Version"]), u64::from(root.hash_version));
    assert_eq!(number(said["Indirect levels"]), u64::from(root.levels));
    let said_limit = text
        .lines()
        .find_map(|l| l.split_once("(limit): "))
        .unwrap()
        .1;
    assert_eq!(number(said_limit), u64::from(top.limit()));
    for i in 0..top.count() {
        let (hash, block) = (top.hash(i).unwrap(), top.block(i).unwrap());
        let line = format!("Entry #{i}: Hash 0x{hash:08x}, block {block}");
        assert!(text.contains(&line), "no {line}");
    }
    let hashes = leaf_hashes(&text);
    let linear: HashMap<Vec<u8>, u32> = volume
        .list(ino)
        .into_iter()
        .map(|(name, ino, _)| (name, ino))
        .collect();
    let mut checked = 0;
    for name in names() {
        let hash = hasher.hash(&name);
        if let Some(&(major, minor)) = hashes.get(&linear[&name]) {
            assert_eq!(
                (hash.major, hash.minor),
                (major, minor),
                "{:?}",
                String::from_utf8_lossy(&name)
            );
            checked += 1;
        }
        let found = by_index(volume, &block, root.levels, hash.major, &name);
        assert_eq!(
            found,
            Some(linear[&name]),
            "{:?}",
            String::from_utf8_lossy(&name)
        );
    }
    assert!(
        checked > names().len() / 2,
        "htree_dump named only {checked} hashes"
    );
    assert_eq!(
        by_index(
            volume,
            &block,
            root.levels,
            hasher.hash(b"no such").major,
            b"no such"
        ),
        None
    );
    if volume.geo.block_size == 1024 {
        assert_eq!(root.levels, 1, "the index of small blocks has two levels");
    }
}

/// The hashes of names that `htree_dump` prints, by inode: `inode 0xmajor-minor (rec_len) name`.
fn leaf_hashes(text: &str) -> BTreeMap<u32, (u32, u32)> {
    let mut hashes = BTreeMap::new();
    for word in text.split(" 0x").collect::<Vec<_>>().windows(2) {
        let ino = word[0]
            .rsplit(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap();
        let (major, rest) = word[1].split_at(8.min(word[1].len()));
        if let (Ok(ino), Some(minor)) =
            (ino.parse(), rest.strip_prefix('-').and_then(|r| r.get(..8)))
        {
            let parse = |t| u32::from_str_radix(t, 16).unwrap();
            hashes.insert(ino, (parse(major), parse(minor)));
        }
    }
    hashes
}

/// Looks a name up in an indexed directory, whose blocks `block` gives.
fn by_index(
    volume: &Volume,
    block: &impl Fn(u32) -> Vec<u8>,
    levels: u8,
    major: u32,
    name: &[u8],
) -> Option<u32> {
    // Leaves in order of their hashes, as the index gives them; small enough to be listed whole.
    let mut leaves: Vec<(u32, u32)> = Vec::new();
    let root = block(0);
    let (_, top) = htree::root(&root, true, &volume.dirs).unwrap();
    let i = top.search(major);
    for i in i..top.count() {
        if levels == 0 {
            leaves.push((top.hash(i).unwrap(), top.block(i).unwrap()));
            continue;
        }
        let node = block(top.block(i).unwrap());
        let node = htree::node(&node, &volume.dirs).unwrap();
        let from = if i == top.search(major) {
            node.search(major)
        } else {
            0
        };
        for j in from..node.count() {
            let hash = if j == 0 {
                top.hash(i).unwrap()
            } else {
                node.hash(j).unwrap()
            };
            leaves.push((hash, node.block(j).unwrap()));
        }
        if i > top.search(major) {
            break;
        }
    }
    for (n, (hash, leaf)) in leaves.into_iter().enumerate() {
        // Beyond the first only those that say that they go on with this hash.
        if n > 0 && !(hash & 1 != 0 && hash & !1 == major) {
            break;
        }
        let bytes = block(leaf);
        if let Some(entry) = dir::find(&bytes, name, &volume.dirs).unwrap() {
            return Some(entry.ino);
        }
    }
    None
}

/// Attributes of an inode, from both places.
fn attributes_of(volume: &Volume, ino: u32, mut each: impl FnMut(Attr<'_>)) {
    let rules = Rules::new(&volume.sb);
    let raw = volume.inode_bytes(ino);
    if let Some(region) = inode::xattr_region(&raw, &volume.inodes).unwrap() {
        if let Some(attrs) = xattr::ibody(region, &rules).unwrap() {
            attrs.iter().for_each(&mut each);
        }
    }
    let node = volume.inode(ino);
    if node.file_acl != 0 {
        let block = volume.block(node.file_acl);
        xattr::verify_block(&block, node.file_acl, volume.seed).unwrap();
        let (header, attrs) = xattr::block(&block, &rules).unwrap();
        assert_eq!(header.refcount, 1);
        check_hashes(&attrs, header.hash);
        attrs.iter().for_each(&mut each);
    }
}

fn check_hashes(attrs: &Attrs<'_>, whole: u32) {
    for attr in attrs.iter().filter(|a| a.value_ino == 0) {
        assert_eq!(attr.hash, xattr::entry_hash(attr.name, attr.value));
    }
    // e2fsprogs stores no hash of a whole block; one that is there must be right.
    assert!(whole == 0 || whole == attrs.hash());
}

pub(crate) fn attributes(volume: &Volume) {
    let mut found: BTreeMap<(&str, String), Vec<u8>> = BTreeMap::new();
    let mut inside = 0;
    for path in ["one", "random", "deep"] {
        attributes_of(volume, volume.lookup(path), |attr| {
            let name = format!(
                "{}{}",
                xattr::prefix(attr.index).unwrap(),
                String::from_utf8_lossy(attr.name)
            );
            assert_eq!(attr.value.len(), attr.size as usize);
            inside += usize::from(attr.hash == 0);
            found.insert((path, name), attr.value.to_vec());
        });
    }
    let get = |path, name: &str| found.get(&(path, name.to_owned())).map(Vec::as_slice);
    assert_eq!(get("one", "user.small"), Some(&b"value"[..]));
    assert_eq!(get("one", "trusted.none"), Some(&b""[..]));
    assert_eq!(get("random", "user.large"), Some(&long_value()[..]));
    assert_eq!(get("random", "security.label"), Some(&b"l"[..]));
    let stored = get("deep", "system.posix_acl_access").unwrap();
    let list: Vec<_> = acl::decode(stored).unwrap().iter().collect();
    let wanted = acl_value();
    assert_eq!(list.len(), (wanted.len() - 4) / 8);
    for (entry, raw) in list.iter().zip(wanted[4..].chunks(8)) {
        let id = u32::from_le_bytes(raw[4..].try_into().unwrap());
        let tag = match raw[0] {
            1 => acl::Tag::UserObj,
            2 => acl::Tag::User(id),
            4 => acl::Tag::GroupObj,
            8 => acl::Tag::Group(id),
            16 => acl::Tag::Mask,
            _ => acl::Tag::Other,
        };
        assert_eq!((entry.tag, entry.perm), (tag, u16::from(raw[2])));
    }
    assert_eq!(found.len(), 5);
    assert_eq!(
        inside > 0,
        volume.geo.inode_size > 128,
        "attributes in inodes"
    );
}
