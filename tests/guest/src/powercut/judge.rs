// SPDX-License-Identifier: GPL-2.0

//! Compares what is found after a cut with what had been done and promised.
//!
//! The journal takes a task's operations in their order. So what is found of its names and inodes
//! must be as after some number of its operations, and after no fewer than were promised.

use super::history::{Data, History, Promise};
use super::model::{Allowed, Event, Held};
use super::tree::{Seen, Spot, Tree};
use crate::why::{require, Why, Within};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The number of the file that each inode held, at first and at last; nothing for the latter where
/// it is as at first.
type Files = [BTreeMap<u64, u16>; 2];

/// What is known of a task.
struct Part {
    /// The events of its files.
    events: BTreeMap<u16, Vec<(usize, Event)>>,
    /// Its names after so many operations.
    tree: (usize, Tree),
}

/// Judges one state after the other, in the order of time.
pub struct Judge<'a> {
    history: &'a History,
    /// For each promise the number of entries of the log before its mark.
    places: Vec<usize>,
    parts: Vec<Part>,
}

impl<'a> Judge<'a> {
    /// A judge of what was done; `place` tells the place of each mark in the log.
    pub fn new(history: &'a History, place: impl Fn(usize) -> usize) -> Self {
        let parts = (0..history.tasks.len()).map(|task| Part {
            events: history.events(task),
            tree: (0, Tree::default()),
        });
        Self {
            history,
            places: history.promises.iter().map(|p| place(p.mark)).collect(),
            parts: parts.collect(),
        }
    }

    /// Judges the volume at `root`, to which at least the first `past` entries of the log had
    /// happened.
    pub fn judge(&mut self, root: &Path, past: usize) -> Result<(), Why> {
        let seen = Seen::new(root, self.parts.len())?;
        let history = self.history;
        let promises = history.promises.iter().zip(self.places.iter().copied());
        let (kept, later): (Vec<_>, Vec<_>) = promises.partition(|(_, place)| *place <= past);
        let mut held = Vec::new();
        for task in 0..self.parts.len() {
            let mine = kept.iter().map(|(p, _)| p).filter(|p| p.task == task);
            let least = mine.map(|p| p.least).max().unwrap_or(0);
            // What the task did after a mark cannot be in the log before it.
            let mine = later.iter().map(|(p, _)| p);
            let next = mine.filter(|p| p.task == task && p.own).map(|p| p.upto);
            let most = next.min().unwrap_or(self.history.tasks[task].len());
            let found = self.names(task, &seen.trees[task], least, most);
            held.push(found.within(|| format!("task {task}"))?);
        }
        for (task, ino, path) in &seen.files {
            let promises = kept.iter().map(|(p, _)| *p).filter(|p| p.task == *task);
            let is = fs::read(path).within(|| path.display().to_string())?;
            self.file(*task, *ino, promises, &held[*task], &is)
                .within(|| format!("{}, inode {ino}", path.display()))?;
        }
        Ok(())
    }

    /// After which operations of the task its names and inodes were as they are in `seen`, and what
    /// file each inode held after the first and the last of these.
    fn names(
        &mut self,
        task: usize,
        seen: &Tree,
        least: usize,
        most: usize,
    ) -> Result<(Held, Files), Why> {
        let ops = &self.history.tasks[task];
        let (done, tree) = &mut self.parts[task].tree;
        if *done > least {
            (*done, *tree) = (0, Tree::default());
        }
        for op in &ops[*done..least] {
            tree.run(op);
        }
        *done = least;
        let mut tree = tree.clone();
        let spots: BTreeSet<Spot> = tree.all_spots().chain(seen.all_spots()).collect();
        let mut bad: BTreeSet<Spot> = spots
            .into_iter()
            .filter(|spot| !tree.agrees(seen, spot))
            .collect();
        let mut best = (usize::MAX, String::new());
        let mut held: Option<(Held, Files)> = None;
        let mut changed = true;
        for nr in least..=most {
            if nr > least {
                for spot in tree.run(&ops[nr - 1]) {
                    changed = true;
                    if tree.agrees(seen, &spot) {
                        bad.remove(&spot);
                    } else {
                        bad.insert(spot);
                    }
                }
            }
            if bad.is_empty() {
                let (here, files) = held.get_or_insert_with(|| {
                    let here = Held {
                        least: nr,
                        most: nr,
                    };
                    (here, Default::default())
                });
                here.most = nr;
                if changed {
                    let ids = tree.inodes.iter().map(|(&ino, inode)| (ino, inode.id));
                    let last = if here.least == nr { 0 } else { 1 };
                    files[last] = ids.collect();
                    changed = false;
                }
            } else if bad.len() < best.0 && held.is_none() {
                let some = bad
                    .iter()
                    .take(3)
                    .map(|spot| format!("{spot:?}: {} for {}", seen.show(spot), tree.show(spot)));
                let some: Vec<_> = some.collect();
                let text = format!("after {nr}, {} differ: {}", bad.len(), some.join("; "));
                best = (bad.len(), text);
            }
        }
        held.ok_or_else(|| {
            let text = format!("as after none of operations {least} to {most}");
            format!("{text}; {}", best.1).into()
        })
    }

    /// Judges the content of the file that inode `ino` is of.
    fn file<'b>(
        &self,
        task: usize,
        ino: u64,
        promises: impl Iterator<Item = &'b Promise>,
        held: &(Held, Files),
        is: &[u8],
    ) -> Result<(), Why> {
        let (held, ids) = held;
        let [first, last] = ids.each_ref().map(|ids| ids.get(&ino).copied());
        let promises: Vec<&Promise> = promises.collect();
        let judge = |id: u16| {
            let none = Vec::new();
            let events = self.parts[task].events.get(&id).unwrap_or(&none);
            let whole = |p: &&&Promise| match p.data {
                Data::All => true,
                Data::File(of) => of == id,
                _ => false,
            };
            // What was promised before the last promise of all of the file is part of that.
            let last = promises.iter().filter(whole).map(|p| p.upto).max();
            let mut all = events.clone();
            all.extend(last.map(|upto| (upto, Event::Promise)));
            all.extend(promises.iter().filter_map(|p| match p.data {
                Data::Words { id: of, at, count } if of == id && Some(p.upto) > last => {
                    Some((p.upto, Event::PromiseWords { at, count }))
                }
                _ => None,
            }));
            // A promise comes after what it promises and before the next operation.
            all.sort_by_key(|(nr, event)| {
                let promise = !matches!(event, Event::Write { .. } | Event::Size(_));
                (*nr, promise)
            });
            Allowed::new(all.iter(), *held).judge(id, is)
        };
        let first = first.ok_or("an inode of no file")?;
        match (judge(first), last) {
            (Err(_), Some(last)) if last != first => judge(last),
            (result, _) => result,
        }
    }

    /// Judges a volume that was never cut.
    pub fn judge_all(history: &History, root: &Path) -> Result<(), Why> {
        let mut history = history.clone();
        for task in 0..history.tasks.len() {
            let done = history.tasks[task].len();
            history.promises.push(Promise::of_all(task, done));
        }
        let promises = history.promises.len();
        require(promises > 0, || "no tasks".into())?;
        Judge::new(&history, |_| 0).judge(root, 0)
    }
}
